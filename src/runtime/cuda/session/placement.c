#include "runtime/cuda/session/placement.h"

#include <string.h>

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

hyp_status hyp_cuda_place_edges(const HypPlan__Program *p, const int64_t *values, size_t small, size_t *offsets,
                                size_t *bytes, size_t *out_small, size_t *out_total, hyp_diag *diag)
{
    size_t edges = p->n_inputs + p->n_outputs, total = 0;
    for (size_t i = 0; i < edges; i++)
        HYP_TRY(hyp_plan_tensor_bytes(p, i < p->n_inputs ? p->inputs[i] : p->outputs[i - p->n_inputs], values, &bytes[i],
                                      diag));
    for (size_t i = 0; i < edges; i++)
        if (bytes[i] <= small) HYP_TRY(take(bytes[i], &total, &offsets[i], diag));
    *out_small = total;
    for (size_t i = 0; i < edges; i++)
        if (bytes[i] > small) HYP_TRY(take(bytes[i], &total, &offsets[i], diag));
    *out_total = total;
    return HYP_OK;
}
