#include "runtime/cuda/ops/lt.h"

hyp_status hyp_cuda_lt_set(const hyp_cuda_library *lib, const hyp_cuda_lt *lt, cublasLtMatmulDescAttributes_t attribute,
                           const void *value, size_t size, hyp_diag *diag)
{
    return hyp_cublaslt_check(lib, lib->cublasLtMatmulDescSetAttribute(lt->desc, attribute, value, size),
                              "describing a product", diag);
}

/* A stored matrix: rows x columns, column-major. */
static hyp_status make_layout(const hyp_cuda_library *lib, const hyp_cuda_product *p, cudaDataType_t type, int64_t rows,
                              int64_t columns, int64_t ld, int64_t batch_stride, cublasLtMatrixLayout_t *out,
                              hyp_diag *diag)
{
    cublasStatus_t status = lib->cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)columns, ld);
    if (status == CUBLAS_STATUS_SUCCESS && p->batch > 1) {
        int32_t batch = (int32_t)p->batch;
        status = lib->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = lib->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                           &batch_stride, sizeof batch_stride);
    }
    return hyp_cublaslt_check(lib, status, "describing a matrix", diag);
}

hyp_status hyp_cuda_lt_describe(const hyp_cuda_library *lib, const hyp_cuda_product *p, hyp_cuda_lt *out,
                                hyp_diag *diag)
{
    HYP_TRY(hyp_cublaslt_check(lib, lib->cublasLtMatmulDescCreate(&out->desc, p->compute, p->scale),
                               "describing a product", diag));
    const cublasLtMatmulDescAttributes_t attribute[] = {CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB};
    const int32_t op[] = {p->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, p->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N};
    for (int i = 0; i < 2; i++) HYP_TRY(hyp_cuda_lt_set(lib, out, attribute[i], &op[i], sizeof op[i], diag));
    HYP_TRY(make_layout(lib, p, p->type, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->lda, p->stride_a,
                        &out->a, diag));
    HYP_TRY(make_layout(lib, p, p->type, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, p->ldb, p->stride_b,
                        &out->b, diag));
    return make_layout(lib, p, p->result, p->m, p->n, p->ldd, p->stride_d, &out->d, diag);
}

void hyp_cuda_lt_dispose(const hyp_cuda_library *lib, const hyp_cuda_lt *lt)
{
    if (lt->desc) lib->cublasLtMatmulDescDestroy(lt->desc);
    if (lt->a) lib->cublasLtMatrixLayoutDestroy(lt->a);
    if (lt->b) lib->cublasLtMatrixLayoutDestroy(lt->b);
    if (lt->d) lib->cublasLtMatrixLayoutDestroy(lt->d);
}

hyp_status hyp_cuda_lt_choose(const hyp_cuda_session *s, const hyp_cuda_lt *lt, uint64_t workspace, uint32_t align,
                              int wanted, cublasLtMatmulHeuristicResult_t *results, int *out_count, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    cublasLtMatmulPreference_t preference;
    HYP_TRY(hyp_cublaslt_check(lib, lib->cublasLtMatmulPreferenceCreate(&preference), "choosing an algorithm", diag));
    /* Sums of split products are kept in the compute type; in a 16-bit result type they would round at each part. Both
     * schemes that are left add in a fixed order. */
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size;
    } set[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align, sizeof align},
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof set / sizeof *set && status == CUBLAS_STATUS_SUCCESS; i++)
        status = lib->cublasLtMatmulPreferenceSetAttribute(preference, set[i].attribute, set[i].value, set[i].size);
    int count = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lib->cublasLtMatmulAlgoGetHeuristic(s->lt, lt->desc, lt->a, lt->b, lt->d, lt->d, preference, wanted,
                                                     results, &count);
    lib->cublasLtMatmulPreferenceDestroy(preference);
    *out_count = status == CUBLAS_STATUS_SUCCESS && results[0].state == CUBLAS_STATUS_SUCCESS ? count : 0;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return HYP_OK;
    return hyp_cublaslt_check(lib, status, "choosing an algorithm", diag);
}
