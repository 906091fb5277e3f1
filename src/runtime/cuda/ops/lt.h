/* lt.h - a product as cuBLASLt has it, and its choice of algorithms: what products of plans and of functions share. */
#ifndef HYP_RUNTIME_CUDA_OPS_LT_H
#define HYP_RUNTIME_CUDA_OPS_LT_H

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/ops/gemm_problem.h"

/* Zeroed: nothing. C lies as D does. */
typedef struct hyp_cuda_lt {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
} hyp_cuda_lt;

/* To be disposed of in any case. */
HYP_NODISCARD hyp_status hyp_cuda_lt_describe(const hyp_cuda_library *lib, const hyp_cuda_product *p, hyp_cuda_lt *out,
                                              hyp_diag *diag);
void hyp_cuda_lt_dispose(const hyp_cuda_library *lib, const hyp_cuda_lt *lt);
/* An attribute of the description: the epilogue, an address. */
HYP_NODISCARD hyp_status hyp_cuda_lt_set(const hyp_cuda_library *lib, const hyp_cuda_lt *lt,
                                         cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size,
                                         hyp_diag *diag);
/* Asks for the best algorithms for operands at multiples of `align` bytes. *out_count may be 0, because of the
 * epilogue, say. */
HYP_NODISCARD hyp_status hyp_cuda_lt_choose(const hyp_cuda_session *s, const hyp_cuda_lt *lt, uint64_t workspace,
                                            uint32_t align, int wanted, cublasLtMatmulHeuristicResult_t *results,
                                            int *out_count, hyp_diag *diag);

#endif
