/* dnnl.h - products and convolution by oneDNN. Without oneDNN (HYP_HAVE_ONEDNN undefined) this header is not included.
 */
#ifndef HYP_RUNTIME_CPU_DNNL_H
#define HYP_RUNTIME_CPU_DNNL_H

#include "runtime/cpu/cpu.h"

/* An engine of oneDNN and the OpenMP runtime that it uses. The limit is our kernels', beyond which oneDNN, too, must
 * not go. HYP_ERR_DEVICE where oneDNN no longer heeds it: it chooses once in a process, when it is first used. */
HYP_NODISCARD hyp_status hyp_dnnl_open(hyp_cpu_limit limit, hyp_dnnl **out, hyp_diag *diag);
void hyp_dnnl_close(hyp_dnnl *dnnl); /* NULL-safe */
const char *hyp_dnnl_isa(void);      /* "avx512": what oneDNN makes code for */
/* Whether products of this type run fast on this processor. */
bool hyp_dnnl_has(const hyp_dnnl *dnnl, hyp_dtype dtype);

/* hyp_cpu_run.streams; ended by NULL. */
HYP_NODISCARD hyp_status hyp_dnnl_streams_create(const hyp_dnnl *dnnl, int count, void ***out, hyp_diag *diag);
void hyp_dnnl_streams_destroy(void **streams); /* NULL-safe */

/* Sets the calling thread's number of OpenMP threads; gives the old one, to be set again afterwards. It is 1 wherever a
 * primitive is made or run: what runs side by side are primitives of parts, by hyp_cpu_parallel. */
int hyp_dnnl_set_threads(const hyp_dnnl *dnnl, int threads);

/* The packed weights of layer l, shared by all contexts. Packs for products with m rows. *out is NULL when oneDNN has
 * no fast product for this. */
HYP_NODISCARD hyp_status hyp_dnnl_pack(hyp_cpu_model *model, const HypPlan__Linear *s, size_t l, int64_t m, int64_t n,
                                       int64_t k, hyp_dnnl_packed **out, hyp_diag *diag);
void hyp_dnnl_packed_destroy(hyp_dnnl_packed *packed); /* NULL-safe */

/* Rows that go through all layers together, so that their hidden values stay in the second-level cache of each thread.
 * All rows where there are no hidden values or not several tiles. Measured: docs/runtime-cpu.md. */
int64_t hyp_dnnl_tile_rows(const HypPlan__Linear *s, const int64_t *values, int threads);
/* All layers as one operation, on all rows or on tiles of rows. packed[l] may be NULL (weights that are computed).
 * Leaves op->run NULL when oneDNN cannot do it. */
HYP_NODISCARD hyp_status hyp_dnnl_prepare_linear(hyp_cpu_model *model, const HypPlan__Linear *s, const int64_t *values,
                                                 hyp_dnnl_packed *const *packed, bool tiles, hyp_cpu_op *op,
                                                 hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_dnnl_prepare_matmul(hyp_cpu_model *model, const HypPlan__Matmul *s, const int64_t *values,
                                                 hyp_cpu_op *op, hyp_diag *diag);

/* dnnl_gemm.c. Operands of a run: run->call.at[] = {a, b, bias, c}. Leaves op->run NULL where oneDNN cannot do it. */
HYP_NODISCARD hyp_status hyp_dnnl_prepare_gemm(const hyp_dnnl *dnnl, const hyp_cpu_gemm *g, hyp_cpu_op *op, hyp_diag *diag);

/* Leaves op->run NULL when oneDNN lacks a product of it. There is at least one row, key and column. */
HYP_NODISCARD hyp_status hyp_dnnl_prepare_attention(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op,
                                                    hyp_diag *diag);

/* Convolution, its transpose and its gradient by the weights. channels_last[t] says that tensor t lies with the
 * channels last (channels_last.c).
 * Weights that the plan has are packed once for each layout that shapes want, into model->windows[step]. */
HYP_NODISCARD hyp_status hyp_dnnl_prepare_window(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                 const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);

#endif
