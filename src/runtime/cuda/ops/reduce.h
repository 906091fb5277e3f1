/* reduce.h - how threads share what is reduced; and sums of the rows of a matrix, for who has no plan: what a reduction
 * over its first axis is as launches. */
#ifndef HYP_RUNTIME_CUDA_OPS_REDUCE_H
#define HYP_RUNTIME_CUDA_OPS_REDUCE_H

#include "kernels/kernels.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/ops/boxes.h"

/* Threads that work together on one column of so many terms share the x dimension of a block, where these are neighbours in
 * memory, or its y dimension. Each has `room` bytes of shared memory. */
hyp_cuda_grid hyp_cuda_column_grid(hyp_cuda_kernel kernel, const hyp_cuda_device *device, int64_t columns, int64_t terms,
                                   bool along_x, uint32_t room);

/* The axes of x that a call of reduce-max and its like keeps, and those that it reduces, whose types and sizes fit. */
HYP_NODISCARD hyp_status hyp_cuda_reduced_boxes(const hyp_kernel_call *c, hyp_cuda_box *kept, hyp_cuda_box *reduced);

/* y[columns] = the sums over x[rows, columns], of which rows begin `ld` elements apart; f32, f16 or bf16, added up in f32. */
typedef struct hyp_cuda_row_sums {
    hyp_dtype dtype;
    bool add; /* to what y has */
    int64_t rows, columns, ld;
} hyp_cuda_row_sums;

/* Bytes that the session's room has to have. Rows, columns and ld are at least 1. */
size_t hyp_cuda_row_sums_room(const hyp_cuda_device *device, const hyp_cuda_row_sums *sums);
/* Launches them on the session's stream; x and y begin at multiples of HYP_CUDA_MIN_ALIGN. The bits are the same every time.
 * The kernels are loaded by hyp_cuda_load_row_sums. */
HYP_NODISCARD hyp_status hyp_cuda_sum_rows(hyp_cuda_session *s, const hyp_cuda_row_sums *sums, CUdeviceptr x, CUdeviceptr y,
                                           hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_load_row_sums(const hyp_cuda_device *device, hyp_diag *diag);

#endif
