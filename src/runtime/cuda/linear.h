/* linear.h - how the layers of a linear step are divided among launches of ours and products of cuBLASLt. */
#ifndef HYP_RUNTIME_CUDA_LINEAR_H
#define HYP_RUNTIME_CUDA_LINEAR_H

#include "runtime/cuda/cuda.h"

/* A division is a list of bytes: so many layers in one launch of our own, or 0: one layer by cuBLASLt. It is known by
 * the key of its step: types, sizes, what every layer does. The key is false where a step is not to be tuned as a
 * whole: without elements, or with more layers than a launch may have. */
enum { HYP_CUDA_LINEAR_KEY = 1024 };
bool hyp_cuda_linear_key(const hyp_cuda_build *b, const HypPlan__Linear *k, char out[HYP_CUDA_LINEAR_KEY]);

/* Adds the ops of a step that is divided so; the parts make up all its layers. *out_done is false when one of our
 * launches is not possible: cuBLASLt does its layers. */
HYP_NODISCARD hyp_status hyp_cuda_add_parts(hyp_cuda_build *b, const HypPlan__Linear *k, const uint8_t *parts,
                                            size_t count, bool *out_done);

/* The same as it is done when nothing was tuned; `out_parts` has room for a byte for every layer, or is NULL. */
HYP_NODISCARD hyp_status hyp_cuda_add_by_rule(hyp_cuda_build *b, const HypPlan__Linear *k, uint8_t *out_parts,
                                              size_t *out_count);

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
