#include "runtime/cuda/ops/boxes.h"

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
        if ((uint64_t)box->stride[l][outer] != (uint64_t)box->stride[l][inner] * (uint64_t)box->extent[inner])
            return false; /* products wrap around in boxes without elements, whose strides may be any numbers */
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

void hyp_cuda_box_axes(const hyp_cuda_box *box, hyp_cuda_extent *extents, int64_t *strides)
{
    for (uint32_t a = 0; a < box->rank; a++) {
        extents[a] = hyp_cuda_extent_of(box->extent[a]);
        strides[a] = box->stride[0][a];
    }
}
