/* recurrent.h - what recurrences and their gradients share. */
#ifndef HYP_RUNTIME_CUDA_OPS_RECURRENT_H
#define HYP_RUNTIME_CUDA_OPS_RECURRENT_H

#include "runtime/cuda/ops/linear.h"

/* The products of each time, in the order in which they are made; their owner runs them. */
enum { HYP_CUDA_RECUR_PRODUCTS = 2 };
typedef struct hyp_cuda_recur_products {
    hyp_cuda_op op[HYP_CUDA_RECUR_PRODUCTS];
    uint32_t count;
} hyp_cuda_recur_products;
void hyp_cuda_recur_products_dispose(const hyp_cuda_library *lib, const hyp_cuda_recur_products *products);
/* Adds one with columns of r, which is of the tensor `r` of so many elements. */
HYP_NODISCARD hyp_status hyp_cuda_add_recur_product(hyp_cuda_build *b, const hyp_cuda_product *product, int64_t weights,
                                                    const hyp_cuda_operand *r, const hyp_cuda_operand *x,
                                                    const hyp_cuda_operand *y, hyp_cuda_recur_products *out);

#endif
