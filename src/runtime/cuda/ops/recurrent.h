/* recurrent.h - what recurrences and their gradients share. */
#ifndef HYP_RUNTIME_CUDA_OPS_RECURRENT_H
#define HYP_RUNTIME_CUDA_OPS_RECURRENT_H

#include "runtime/cuda/ops/linear.h"

/* The next `count` elements of the session's room, from *end on, which goes behind them; *out_at says where. False: they are beyond
 * any size. */
bool hyp_cuda_take_room(size_t count, size_t size, size_t *end, size_t *out_at);
/* Adds a product with columns of r, which is of the tensor `r` of this many elements, and puts it aside in *out, to be run by its
 * owner. */
HYP_NODISCARD hyp_status hyp_cuda_add_product_aside(hyp_cuda_build *b, const hyp_cuda_product *product, int64_t weights,
                                                    const hyp_cuda_operand *r, const hyp_cuda_operand *x,
                                                    const hyp_cuda_operand *y, hyp_cuda_op *out);

#endif
