/* What the CUDA backend decides without a device of products: layouts, epilogues, keys, kernels for few rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/ops/gemm_problem.h"
#include "runtime/cuda/ops/linear_few_rows.h"

/* ---- products ------------------------------------------------------------------------------------------------ */

static void linear_is_column_major_so_that_every_epilogue_is_legal(void **state)
{
    (void)state;
    hyp_cuda_product p;
    hyp_cuda_product_linear(HYP_F32, false, 8, 30, 20, false, &p); /* weight [30, 20]: the TN form */
    assert_int_equal(p.m, 30);
    assert_int_equal(p.n, 8);
    assert_int_equal(p.k, 20);
    assert_true(p.trans_a && !p.trans_b);
    assert_true(p.lda == 20 && p.ldb == 20 && p.ldd == 30);
    hyp_cuda_product_linear(HYP_F32, false, 8, 30, 20, true, &p); /* weight [20, 30]: NN */
    assert_true(!p.trans_a && !p.trans_b && p.lda == 30);
}

static void rows_of_any_length_become_multiples_of_16_bytes(void **state)
{
    (void)state;
    hyp_cuda_product p;
    hyp_cuda_padding q;
    /* The logits of 50257 words: the result has them side by side, and the weight gets seven more rows. */
    hyp_cuda_product_linear(HYP_BF16, false, 4096, 50257, 768, false, &p);
    assert_true(hyp_cuda_product_pads(&p, &q) && q.a && !q.b && q.d);
    assert_true(q.product.m == 50264 && q.product.n == 4096 && q.product.k == 768 && q.product.trans_a);
    assert_true(q.product.lda == 768 && q.product.ldb == 768 && q.product.ldd == 50264);
    /* Their gradient by what they are made of sums over them, */
    hyp_cuda_product_linear(HYP_F16, false, 4096, 768, 50257, true, &p);
    assert_true(hyp_cuda_product_pads(&p, &q) && q.a && q.b && !q.d);
    assert_true(q.product.k == 50264 && q.product.lda == 768 && q.product.ldb == 50264 && q.product.ldd == 768);
    /* and that by the weight has them as rows. */
    p.trans_b = true;
    p.n = p.ldb = 50257;
    p.k = 4096;
    assert_true(hyp_cuda_product_pads(&p, &q) && !q.a && q.b && q.d);
    assert_true(q.product.n == 50264 && q.product.k == 4096 && q.product.ldb == 50264);
    hyp_cuda_product_linear(HYP_F32, true, 4096, 4095, 4095, false, &p);
    assert_true(hyp_cuda_product_pads(&p, &q) && q.product.m == 4096 && q.product.k == 4096);
    /* Not what fits, what is small, what is strict, what comes in batches, what has no room to grow. */
    hyp_cuda_product_linear(HYP_BF16, false, 4095, 50264, 768, false, &p);
    assert_false(hyp_cuda_product_pads(&p, &q));
    hyp_cuda_product_linear(HYP_BF16, false, 902, 902, 902, false, &p);
    assert_false(hyp_cuda_product_pads(&p, &q));
    hyp_cuda_product_linear(HYP_BF16, false, 901, 901, 901, false, &p); /* an odd row is worse */
    assert_true(hyp_cuda_product_pads(&p, &q));
    hyp_cuda_product_linear(HYP_F32, false, 4096, 50257, 768, false, &p);
    assert_false(hyp_cuda_product_pads(&p, &q));
    hyp_cuda_product_linear(HYP_BF16, false, 4096, 50257, 768, false, &p);
    p.batch = 2;
    assert_false(hyp_cuda_product_pads(&p, &q));
    hyp_cuda_product_linear(HYP_BF16, false, INT64_MAX, INT64_MAX, INT64_MAX, false, &p);
    assert_false(hyp_cuda_product_pads(&p, &q));
}

static void the_key_of_a_product_tells_what_its_speed_depends_on(void **state)
{
    (void)state;
    char key[HYP_CUDA_PRODUCT_KEY];
    hyp_cuda_product p;
    hyp_cuda_product_linear(HYP_BF16, false, 8, 30, 20, false, &p);
    hyp_cuda_product_key(&p, true, true, HYP_PLAN__ACT__ACT_GELU_TANH, false, key);
    assert_string_equal(key, "bf16 tn 30x8x20 ld 20 20 30 align 256 bias added gelu-tanh");
    hyp_cuda_product_linear(HYP_F32, true, 8, 30, 20, true, &p);
    p.batch = 3;
    p.stride_a = 600;
    p.stride_b = 160;
    p.stride_d = 240;
    hyp_cuda_product_key(&p, false, false, HYP_PLAN__ACT__ACT_NONE, false, key);
    assert_string_equal(key, "tf32 nn 30x8x20 ld 30 20 30 align 256 batch 3 strides 600 160 240");
    /* The longest that there can be is not cut. */
    int64_t most = INT64_MIN;
    p = (hyp_cuda_product){.m = most, .n = most, .k = most, .lda = most, .ldb = most, .ldd = most, .batch = INT64_MAX};
    p.stride_a = p.stride_b = p.stride_d = most;
    hyp_cuda_product_key(&p, true, true, HYP_PLAN__ACT__ACT_GELU_TANH, true, key);
    assert_non_null(strstr(key, "gelu-tanh added"));
}

static void fp32_is_strict_unless_the_plan_allows_tf32(void **state)
{
    (void)state;
    static const struct {
        hyp_dtype dtype;
        bool tf32;
        cudaDataType_t type, scale;
        cublasComputeType_t compute;
    } rows[] = {
        {HYP_F32, false, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
        {HYP_F32, true, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
        {HYP_F16, true, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
        {HYP_BF16, false, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
        {HYP_F64, true, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hyp_cuda_product p;
        hyp_cuda_product_linear(rows[i].dtype, rows[i].tf32, 1, 1, 1, false, &p);
        assert_int_equal(p.type, rows[i].type);
        assert_int_equal(p.scale, rows[i].scale);
        assert_int_equal(p.compute, rows[i].compute);
        assert_int_equal(hyp_cuda_product_is_strict(&p), i == 0 || rows[i].dtype == HYP_F64);
    }
}

static void activations_go_into_epilogues_where_there_are_any(void **state)
{
    (void)state;
    static const struct {
        HypPlan__Act act;
        bool bias;
        hyp_dtype dtype;
        cublasLtEpilogue_t first;
        bool act_after;
        size_t ways;
    } rows[] = {
        {HYP_PLAN__ACT__ACT_NONE, false, HYP_F32, CUBLASLT_EPILOGUE_DEFAULT, false, 1},
        {HYP_PLAN__ACT__ACT_NONE, true, HYP_F32, CUBLASLT_EPILOGUE_BIAS, false, 2},
        {HYP_PLAN__ACT__ACT_RELU, false, HYP_F32, CUBLASLT_EPILOGUE_RELU, false, 2},
        {HYP_PLAN__ACT__ACT_RELU, true, HYP_F32, CUBLASLT_EPILOGUE_RELU_BIAS, false, 3},
        {HYP_PLAN__ACT__ACT_GELU_TANH, true, HYP_F16, CUBLASLT_EPILOGUE_GELU_BIAS, false, 3},
        {HYP_PLAN__ACT__ACT_GELU_TANH, true, HYP_F32, CUBLASLT_EPILOGUE_BIAS, true, 2}, /* cuBLASLt's is not exact */
        {HYP_PLAN__ACT__ACT_GELU, true, HYP_F16, CUBLASLT_EPILOGUE_BIAS, true, 2}, /* the erf form is no epilogue, */
        {HYP_PLAN__ACT__ACT_GELU, true, HYP_BF16, CUBLASLT_EPILOGUE_GELU_BIAS, false, 3}, /* but bf16 cannot tell */
        {HYP_PLAN__ACT__ACT_SIGMOID, false, HYP_F32, CUBLASLT_EPILOGUE_DEFAULT, true, 1},
        {HYP_PLAN__ACT__ACT_TANH, true, HYP_F32, CUBLASLT_EPILOGUE_BIAS, true, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hyp_cuda_epilogue ways[3];
        hyp_cuda_product p;
        hyp_cuda_product_linear(rows[i].dtype, false, 4, 8, 16, false, &p);
        size_t n = hyp_cuda_epilogues(rows[i].act, rows[i].bias, &p, ways);
        assert_int_equal(n, rows[i].ways);
        assert_int_equal(ways[0].epilogue, rows[i].first);
        assert_false(ways[0].bias_after);
        assert_int_equal(ways[0].act_after, rows[i].act_after);
        assert_int_equal(ways[n - 1].epilogue, CUBLASLT_EPILOGUE_DEFAULT); /* any type has that */
        assert_int_equal(ways[n - 1].bias_after, rows[i].bias);
        assert_int_equal(ways[n - 1].act_after, rows[i].act != HYP_PLAN__ACT__ACT_NONE);
    }
}

static void parts_of_sums_are_a_batch(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k;
        uint32_t parts;
        bool weight_kn;
    } rows[] = {{128, 768, 3072, 6, false}, {128, 768, 768, 3, true}, {512, 768, 3072, 2, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hyp_cuda_product p;
        hyp_cuda_product_linear(HYP_BF16, false, rows[i].m, rows[i].n, rows[i].k, rows[i].weight_kn, &p);
        assert_true(hyp_cuda_product_splits(&p, rows[i].parts));
        assert_false(hyp_cuda_product_splits(&p, 5)); /* they would be ragged */
        hyp_cuda_product_split(&p, rows[i].parts);
        assert_int_equal(p.k * p.batch, rows[i].k);
        assert_int_equal(p.stride_a, rows[i].weight_kn ? p.k * rows[i].n : p.k);
        assert_int_equal(p.stride_b, p.k);
        assert_int_equal(p.stride_d, rows[i].m * rows[i].n);
        assert_int_equal(p.lda, rows[i].weight_kn ? rows[i].n : rows[i].k);
        assert_int_equal(p.result, CUDA_R_32F);
    }
}

static void plan_matmul(size_t rank, const int64_t *batch, const int64_t *a_strides, const int64_t *b_strides,
                        bool trans_a, hyp_cuda_product *out)
{
    int64_t values[16] = {4, 6, 5}; /* m, n, k, then the batch and its strides */
    uint32_t dims[3][4];
    for (size_t i = 0; i < rank; i++) {
        values[3 + i] = batch[i];
        values[7 + i] = a_strides[i];
        values[11 + i] = b_strides[i];
        for (int j = 0; j < 3; j++) dims[j][i] = (uint32_t)(3 + 4 * j + (int)i);
    }
    HypPlan__Matmul k = HYP_PLAN__MATMUL__INIT;
    k.m = 0, k.n = 1, k.k = 2;
    k.n_batch = k.n_a_strides = k.n_b_strides = rank;
    k.batch = dims[0], k.a_strides = dims[1], k.b_strides = dims[2];
    k.trans_a = trans_a;
    hyp_cuda_product_matmul(HYP_F32, &k, values, out);
}

static void batches_become_one_call_where_strides_allow(void **state)
{
    (void)state;
    hyp_cuda_product p;
    /* [2, 3] matrices on both sides: one batch of 6 */
    plan_matmul(2, (int64_t[]){2, 3}, (int64_t[]){60, 20}, (int64_t[]){90, 30}, false, &p);
    assert_int_equal(p.batch, 6);
    assert_true(p.stride_a == 30 && p.stride_b == 20 && p.stride_d == 24);
    assert_int_equal(p.outer.rank, 0);
    /* the right side is shared: more rows of one product */
    plan_matmul(2, (int64_t[]){2, 3}, (int64_t[]){60, 20}, (int64_t[]){0, 0}, false, &p);
    assert_int_equal(p.batch, 1);
    assert_int_equal(p.n, 24);
    /* not when the left side is stored transposed */
    plan_matmul(2, (int64_t[]){2, 3}, (int64_t[]){60, 20}, (int64_t[]){0, 0}, true, &p);
    assert_int_equal(p.batch, 6);
    assert_int_equal(p.stride_a, 0);
    /* [2, 3] against [3]: the longer axis in the call, the other around it */
    plan_matmul(2, (int64_t[]){2, 3}, (int64_t[]){60, 20}, (int64_t[]){0, 30}, false, &p);
    assert_int_equal(p.batch, 3);
    assert_int_equal(p.outer.rank, 1);
    assert_int_equal(p.outer.extent[0], 2);
    assert_true(p.outer.stride[0][0] == 0 && p.outer.stride[1][0] == 60 && p.outer.stride[2][0] == 72);
}

/* ---- layers of few rows -------------------------------------------------------------------------------------- */

static const hyp_cuda_few_rows_device gpu = {.multiprocessors = 132, .shared_bytes = 227 << 10};

static bool plan_layer(hyp_dtype dtype, int64_t m, int64_t n, int64_t k, hyp_cuda_few_rows *out)
{
    return !hyp_cuda_few_rows_plan(dtype, m, n, k, HYP_CUDA_NORM_NONE, &gpu, out);
}

static void few_rows_have_a_kernel_of_their_own(void **state)
{
    (void)state;
    hyp_cuda_few_rows form;
    assert_true(plan_layer(HYP_BF16, 1, 512, 784, &form) && !form.args.turned);
    assert_true(plan_layer(HYP_F16, 1, 4096, 4096, &form));
    assert_true(plan_layer(HYP_F32, 16, 512, 512, &form));
    assert_true(plan_layer(HYP_F32, 256, 10, 2048, &form) && form.args.turned);
    assert_true(plan_layer(HYP_BF16, 16, 2048, 2048, &form));
    assert_false(plan_layer(HYP_F64, 1, 512, 784, &form));
    assert_false(plan_layer(HYP_BF16, 17, 512, 784, &form));
    assert_false(plan_layer(HYP_F16, 0, 512, 784, &form));
    assert_false(plan_layer(HYP_F16, 1, (int64_t)1 << 40, 16, &form));
    assert_false(plan_layer(HYP_F16, 1, 16, 1 << 20, &form)); /* a row too long for the registers */
}

/* A single row whose pieces are aligned. */
static void a_row_is_normalized_by_the_layer_that_reads_it(void **state)
{
    (void)state;
    const int norm = HYP_CUDA_NORM_LAYER;
    hyp_cuda_few_rows form;
    assert_null(hyp_cuda_few_rows_plan(HYP_BF16, 1, 2304, 768, norm, &gpu, &form));
    assert_int_equal(form.args.norm, norm);
    assert_true(form.args.x_pieces * HYP_CUDA_LAYER_PIECE >= 2 * 768 * 2 + 16 * sizeof(float)); /* scale, bias, warps */
    assert_null(hyp_cuda_few_rows_plan(HYP_F32, 1, 768, 4096, norm, &gpu, &form));
    assert_non_null(hyp_cuda_few_rows_plan(HYP_BF16, 2, 768, 768, norm, &gpu, &form));
    assert_non_null(hyp_cuda_few_rows_plan(HYP_BF16, 1, 768, 769, norm, &gpu, &form));
    assert_non_null(hyp_cuda_few_rows_plan(HYP_F32, 100, 1, 768, norm, &gpu, &form));
}

static void blocks_share_the_rows_of_a_weight(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 512, 784}, {1, 10, 512}, {1, 50257, 768}, {8, 512, 768}, {16, 1, 8}};
    static const hyp_dtype types[] = {HYP_F32, HYP_BF16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t t = 0; t < 2; t++) {
            hyp_cuda_few_rows form;
            const hyp_cuda_layer *l = &form.args;
            assert_true(plan_layer(types[t], sizes[i][0], sizes[i][1], sizes[i][2], &form));
            int64_t dealt = (int64_t)l->rows_each * gpu.multiprocessors + (int64_t)l->tiles_more * l->tile;
            assert_true(dealt >= l->n && dealt < l->n + l->tile); /* the last tile may end early */
            assert_true(form.blocks <= gpu.multiprocessors && form.shared_bytes <= gpu.shared_bytes);
            assert_true(l->chunks * l->chunk_rows >= l->rows_each && l->stages >= 1 && l->stages <= l->chunks);
            assert_true(1u << l->log_splits <= l->pieces); /* every warp of a row has a part of it */
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_is_column_major_so_that_every_epilogue_is_legal),
        cmocka_unit_test(fp32_is_strict_unless_the_plan_allows_tf32),
        cmocka_unit_test(rows_of_any_length_become_multiples_of_16_bytes),
        cmocka_unit_test(parts_of_sums_are_a_batch),
        cmocka_unit_test(activations_go_into_epilogues_where_there_are_any),
        cmocka_unit_test(the_key_of_a_product_tells_what_its_speed_depends_on),
        cmocka_unit_test(batches_become_one_call_where_strides_allow),
        cmocka_unit_test(few_rows_have_a_kernel_of_their_own),
        cmocka_unit_test(a_row_is_normalized_by_the_layer_that_reads_it),
        cmocka_unit_test(blocks_share_the_rows_of_a_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
