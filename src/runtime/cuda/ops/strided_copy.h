/* strided_copy.h - how a strided copy is best made. Pure, tested without a device. */
#ifndef HYP_RUNTIME_CUDA_OPS_STRIDED_COPY_H
#define HYP_RUNTIME_CUDA_OPS_STRIDED_COPY_H

#include "runtime/cuda/ops/boxes.h"

typedef enum hyp_cuda_move_kind {
    HYP_CUDA_MOVE_BLOCK,     /* contiguous on both sides: `bytes` from and to the offsets */
    HYP_CUDA_MOVE_STRIDED,   /* the kernel `copy` with args.copy, in pieces of up to 16 bytes */
    HYP_CUDA_MOVE_TRANSPOSE, /* the kernel `transpose` with args */
} hyp_cuda_move_kind;

typedef struct hyp_cuda_move {
    hyp_cuda_move_kind kind;
    int64_t x_offset, y_offset; /* bytes */
    size_t bytes;               /* of a BLOCK */
    hyp_cuda_transpose args;    /* addresses 0 */
} hyp_cuda_move;

/* Plans y[y_offset + i . y] = x[x_offset + i . x] for elements of `size` bytes, which is 1, 2, 4 or 8. Lanes of the
 * box: x, y; it has elements. Offsets in elements. */
void hyp_cuda_move_plan(const hyp_cuda_box *box, size_t size, int64_t x_offset, int64_t y_offset, hyp_cuda_move *out);

/* The largest of 16, 8, 4, 2, 1 that divides `bytes`. */
uint32_t hyp_cuda_widest(uint64_t bytes);

#endif
