/* linear_few_rows.h - linear layers by our own kernel (kernels/few_rows.cu): which it can do, how their work is dealt out, and
 * from where on the library is faster. Pure but for the functions that take a build: tested without a device.
 */
#ifndef HYP_RUNTIME_CUDA_OPS_LINEAR_FEW_ROWS_H
#define HYP_RUNTIME_CUDA_OPS_LINEAR_FEW_ROWS_H

#include "hypatia/types.h"
#include "runtime/cuda/ops/steps.h"

/* What it needs to know of the device. */
typedef struct hyp_cuda_few_rows_device {
    uint32_t multiprocessors;
    size_t shared_bytes; /* that a block may have */
} hyp_cuda_few_rows_device;

/* A layer as it runs. */
typedef struct hyp_cuda_few_rows {
    hyp_cuda_layer args; /* all but the addresses and what is read from the plan: the activation, what is constant */
    hyp_cuda_kernel kernel;
    uint32_t blocks, threads; /* threads of a block */
    size_t shared_bytes;
} hyp_cuda_few_rows;

/* Can y[m,n] = x[m,k] w^T, w stored [n,k], run so, x normalized first if `norm` is not HYP_CUDA_NORM_NONE? Returns why not,
 * or NULL, and *out is complete. A layer of many rows but few columns runs with the roles of x and w exchanged:
 * out->args.turned. Of f8e4m3 one row alone, and rows of w that are multiples of 16 long. */
const char *hyp_cuda_few_rows_plan(hyp_dtype dtype, int64_t m, int64_t n, int64_t k, int norm,
                                   const hyp_cuda_few_rows_device *device, hyp_cuda_few_rows *out);
/* The same of a single row, with w in so many parts that lie next to each other, of which every block has the same rows,
 * no more of each than it has threads; false where it cannot. */
bool hyp_cuda_few_rows_by_parts(hyp_dtype dtype, int64_t n, int64_t k, uint32_t parts,
                                const hyp_cuda_few_rows_device *device, hyp_cuda_few_rows *out);
hyp_cuda_few_rows_device hyp_cuda_few_rows_device_of(const hyp_cuda_device *d);
/* The same of layer l of a step. */
const char *hyp_cuda_few_rows_find(const hyp_cuda_build *b, const HypPlan__Linear *k, size_t l, int norm,
                                   hyp_cuda_few_rows *out);
/* linear_cell.c: adds layer and step where the next step, which is elementwise, reads this one's single row by its parts,
 * and there is a compiler for the kernel that does both, and perhaps the step behind it; *out_done says whether. */
HYP_NODISCARD hyp_status hyp_cuda_add_cell(hyp_cuda_build *b, const HypPlan__Linear *k, bool *out_done);
/* Lists its kernel to be compiled with those of other steps, between hyp_cuda_told_begin and _end, where `step` is such a
 * layer; *out_steps: so many steps behind it the kernel does. */
HYP_NODISCARD hyp_status hyp_cuda_want_cell(const hyp_cuda_build *b, uint32_t step, uint32_t *out_steps);
/* Adds the layer, and takes back the normalization before it where it does that itself. */
HYP_NODISCARD hyp_status hyp_cuda_add_few_rows(hyp_cuda_build *b, const HypPlan__Linear *k, size_t l);

/* How much there is to do, as a share of what makes the library as fast: below 1 this kernel was measured to be faster
 * (H200, cuBLASLt 13.1, layers of 512 x 512 to 4096 x 4096). In strict f32 that is so wherever it runs at all: there the
 * library has no tensor cores to use either. Further rows of other types are faster only while the layer is small: the
 * library takes its 3 us whatever it does, but feeds its tensor cores better. With the roles exchanged the bounds are those
 * that were tried. */
double hyp_cuda_few_rows_share(hyp_dtype dtype, bool tf32, int64_t m, int64_t n, int64_t k);

#endif
