#include "runtime/cuda/ops/boxes.h"

#include <string.h>

/* ---- boxes ------------------------------------------------------------------------------------------------- */

void hyp_cuda_box_init(hyp_cuda_box *box, const int64_t *values, size_t rank, const uint32_t *extents)
{
    *box = (hyp_cuda_box){.rank = (uint32_t)rank};
    for (size_t a = 0; a < rank; a++) box->extent[a] = values[extents[rank - 1 - a]];
}

void hyp_cuda_box_add_lane(hyp_cuda_box *box, const int64_t *values, const uint32_t *strides)
{
    int64_t *lane = box->stride[box->lanes++], dense = 1;
    for (uint32_t a = 0; a < box->rank; a++) {
        lane[a] = strides ? values[strides[box->rank - 1 - a]] : dense;
        dense *= box->extent[a];
    }
}

int64_t hyp_cuda_box_count(const hyp_cuda_box *box)
{
    int64_t count = 1;
    for (uint32_t a = 0; a < box->rank; a++) count *= box->extent[a];
    return count;
}

static void move_axis(hyp_cuda_box *box, uint32_t to, uint32_t from)
{
    box->extent[to] = box->extent[from];
    for (uint32_t l = 0; l < box->lanes; l++) box->stride[l][to] = box->stride[l][from];
}

static bool walks_on(const hyp_cuda_box *box, uint32_t inner, uint32_t outer)
{
    for (uint32_t l = 0; l < box->lanes; l++)
        if (box->stride[l][outer] != box->stride[l][inner] * box->extent[inner]) return false;
    return true;
}

void hyp_cuda_box_merge(hyp_cuda_box *box)
{
    uint32_t kept = 0;
    for (uint32_t a = 0; a < box->rank; a++) {
        if (box->extent[a] == 1) continue;
        if (kept > 0 && walks_on(box, kept - 1, a))
            box->extent[kept - 1] *= box->extent[a];
        else
            move_axis(box, kept++, a);
    }
    box->rank = kept;
}

void hyp_cuda_box_swap(hyp_cuda_box *box, uint32_t a, uint32_t b)
{
    int64_t extent = box->extent[a];
    box->extent[a] = box->extent[b];
    box->extent[b] = extent;
    for (uint32_t l = 0; l < box->lanes; l++) {
        int64_t stride = box->stride[l][a];
        box->stride[l][a] = box->stride[l][b];
        box->stride[l][b] = stride;
    }
}

/* ---- quotients --------------------------------------------------------------------------------------------- */

/* With l = ceil(log2 d) and m = ceil(2^(63+l) / d) < 2^64, i / d is (i * m) >> (63 + l) for every i below 2^63. */
hyp_cuda_extent hyp_cuda_extent_of(int64_t size)
{
    hyp_cuda_extent e = {.size = size};
    uint64_t d = (uint64_t)size;
    if (d <= 1) return e;
    uint32_t l = 64 - (uint32_t)__builtin_clzll(d - 1);
    /* Long division of 2^(63+l) by d, bit by bit; 2^(63+l) / d < 2^64 since 2^(l-1) < d. */
    uint64_t quotient = 0, rest = 1;
    for (uint32_t bit = 0; bit < 63 + l; bit++) {
        rest *= 2; /* rest < d <= 2^63 */
        quotient *= 2;
        if (rest >= d) rest -= d, quotient++;
    }
    e.magic = quotient + (rest != 0);
    e.shift = l - 1;
    return e;
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

static hyp_status tensor_bytes(const HypPlan__Program *p, uint32_t t, const int64_t *values, size_t *out,
                               hyp_diag *diag)
{
    int64_t elements;
    HYP_TRY(hyp_plan_elements(p, t, values, &elements, diag));
    *out = (size_t)elements * hyp_dtype_size((hyp_dtype)p->tensors[t]->dtype);
    return HYP_OK;
}

/* Takes `bytes` more of an allocation of *total bytes so far. */
static hyp_status take(size_t bytes, size_t *total, size_t *out_offset, hyp_diag *diag)
{
    size_t next;
    if (!hyp_add_size(*total, bytes, &next) || !hyp_add_size(next, HYP_CUDA_ALIGN - 1, &next))
        return hyp_fail(diag, HYP_ERR_LIMIT, "the device memory that these shapes need is beyond any size");
    *out_offset = *total;
    *total = next / HYP_CUDA_ALIGN * HYP_CUDA_ALIGN;
    return HYP_OK;
}

hyp_status hyp_cuda_place_slots(const HypPlan__Program *p, const int64_t *values, size_t *offsets, size_t *out_total,
                                hyp_diag *diag)
{
    size_t total = 0;
    memset(offsets, 0, p->slot_count * sizeof *offsets);
    for (uint32_t t = 0; t < p->n_tensors; t++) { /* sizes first, in the place of offsets */
        if (p->tensors[t]->place != HYP_PLAN__PLACE__PLACE_SCRATCH) continue;
        size_t bytes, *slot = &offsets[p->tensors[t]->slot];
        HYP_TRY(tensor_bytes(p, t, values, &bytes, diag));
        if (bytes > *slot) *slot = bytes;
    }
    for (uint32_t s = 0; s < p->slot_count; s++) HYP_TRY(take(offsets[s], &total, &offsets[s], diag));
    *out_total = total;
    return HYP_OK;
}

hyp_status hyp_cuda_place_edges(const HypPlan__Program *p, const int64_t *values, size_t small, size_t *offsets,
                                size_t *bytes, size_t *out_small, size_t *out_total, hyp_diag *diag)
{
    size_t edges = p->n_inputs + p->n_outputs, total = 0;
    for (size_t i = 0; i < edges; i++)
        HYP_TRY(tensor_bytes(p, i < p->n_inputs ? p->inputs[i] : p->outputs[i - p->n_inputs], values, &bytes[i], diag));
    for (size_t i = 0; i < edges; i++)
        if (bytes[i] <= small) HYP_TRY(take(bytes[i], &total, &offsets[i], diag));
    *out_small = total;
    for (size_t i = 0; i < edges; i++)
        if (bytes[i] > small) HYP_TRY(take(bytes[i], &total, &offsets[i], diag));
    *out_total = total;
    return HYP_OK;
}
