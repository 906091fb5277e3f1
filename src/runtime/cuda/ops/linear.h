/* linear.h - which layers of a linear step our own kernel does, and which cuBLASLt. */
#ifndef HYP_RUNTIME_CUDA_OPS_LINEAR_H
#define HYP_RUNTIME_CUDA_OPS_LINEAR_H

#include "runtime/cuda/cuda.h"

/* A choice is a list of bytes, one for each layer: 1 for our own kernel, 0 for cuBLASLt. It is known by the key of its
 * step: types, sizes, what every layer does. The key is false where a step is not to be tuned as a whole: without
 * elements, or with too many layers. */
enum { HYP_CUDA_LINEAR_KEY = 1024, HYP_CUDA_LINEAR_LAYERS = 16 };
bool hyp_cuda_linear_key(const hyp_cuda_build *b, const HypPlan__Linear *k, char out[HYP_CUDA_LINEAR_KEY]);

/* Adds the ops of a step whose layers are done so. *out_done is false when our kernel cannot do one that it should:
 * cuBLASLt does it. */
HYP_NODISCARD hyp_status hyp_cuda_add_chosen(hyp_cuda_build *b, const HypPlan__Linear *k, const uint8_t *choice,
                                             bool *out_done);

/* The same as it is done when nothing was tuned; `out_choice` has room for a byte for every layer, or is NULL. */
HYP_NODISCARD hyp_status hyp_cuda_add_by_rule(hyp_cuda_build *b, const HypPlan__Linear *k, uint8_t *out_choice);

/* The tensors that a layer reads and writes. */
static inline uint32_t hyp_cuda_layer_input(const HypPlan__Linear *k, size_t l)
{
    return l > 0 ? k->layers[l - 1]->hidden_plus1 - 1 : k->x;
}
static inline uint32_t hyp_cuda_layer_result(const HypPlan__Linear *k, size_t l)
{
    return k->layers[l]->hidden_plus1 ? k->layers[l]->hidden_plus1 - 1 : k->y;
}

#endif
