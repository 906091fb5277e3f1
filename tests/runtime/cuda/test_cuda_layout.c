/* What the CUDA backend decides without a device: layouts, epilogues, programs, copies, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/ops/gemm_problem.h"
#include "runtime/cuda/ops/linear_few_rows.h"
#include "runtime/cuda/ops/pointwise_program.h"
#include "runtime/cuda/ops/pointwise_source.h"
#include "runtime/cuda/ops/strided_copy.h"
#include "runtime/cuda/session/placement.h"
#include "runtime/plan_builder.h"

static plan_builder builder; /* large */

/* ---- index arithmetic ---------------------------------------------------------------------------------------- */

/* As the kernels do it. */
static int64_t divide(int64_t i, hyp_cuda_extent by)
{
    if (!by.magic) return i;
    uint64_t a = (uint64_t)i, m = by.magic, low = (a & UINT32_MAX) * (m & UINT32_MAX);
    uint64_t middle1 = (a >> 32) * (m & UINT32_MAX) + (low >> 32);
    uint64_t middle2 = (a & UINT32_MAX) * (m >> 32) + (middle1 & UINT32_MAX);
    return (int64_t)(((a >> 32) * (m >> 32) + (middle1 >> 32) + (middle2 >> 32)) >> by.shift);
}

static void quotients_are_exact(void **state)
{
    (void)state;
    static const int64_t edges[] = {1,
                                    2,
                                    3,
                                    5,
                                    7,
                                    10,
                                    64,
                                    641,
                                    4096,
                                    65537,
                                    INT32_MAX,
                                    (int64_t)1 << 32,
                                    ((int64_t)1 << 32) + 1,
                                    ((int64_t)1 << 62) - 1,
                                    (int64_t)1 << 62,
                                    INT64_MAX - 1,
                                    INT64_MAX};
    enum { EDGES = sizeof edges / sizeof *edges };
    for (int d = 0; d < EDGES; d++) {
        hyp_cuda_extent e = hyp_cuda_extent_of(edges[d]);
        for (int i = 0; i < EDGES; i++)
            for (int64_t near = -2; near <= 2; near++) {
                int64_t value = edges[i] + (near > 0 && edges[i] > INT64_MAX - near ? 0 : near);
                if (value >= 0) assert_int_equal(divide(value, e), value / edges[d]);
            }
    }
    uint64_t x = 1;
    for (int i = 0; i < 200000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        int64_t a = (int64_t)(x >> 1), d = (int64_t)(x >> (1 + i % 60)) | 1;
        assert_int_equal(divide(a, hyp_cuda_extent_of(d)), a / d);
    }
}

static void boxes_merge_axes_that_every_lane_walks_as_one(void **state)
{
    (void)state;
    /* [4, 1, 3, 5]: dense in lane 0, broadcast along the outer axes in lane 1 */
    hyp_cuda_box box = {.rank = 4, .lanes = 2, .extent = {5, 3, 1, 4}, .stride = {{1, 5, 77, 15}, {1, 5, 99, 0}}};
    hyp_cuda_box_merge(&box);
    assert_int_equal(box.rank, 2);
    assert_int_equal(box.extent[0], 15);
    assert_int_equal(box.extent[1], 4);
    assert_int_equal(box.stride[0][1], 15);
    assert_int_equal(box.stride[1][1], 0);
    assert_int_equal(hyp_cuda_box_count(&box), 60);
}

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

/* ---- pointwise programs -------------------------------------------------------------------------------------- */

static HypPlan__Pointwise__Instr instr(HypPlan__Pointwise__Op op, uint32_t a, uint32_t b, double p)
{
    HypPlan__Pointwise__Instr in = HYP_PLAN__POINTWISE__INSTR__INIT;
    in.op = op;
    in.a = a;
    in.b = b;
    in.p = p;
    in.to = HYP_F32;
    return in;
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

static void a_chain_needs_no_temps(void **state)
{
    (void)state;
    HypPlan__Pointwise__Instr list[] = {instr(HYP_PLAN__POINTWISE__OP__CONST, 0, 0, 0.5),
                                        instr(HYP_PLAN__POINTWISE__OP__MUL, 0, 1, 0),
                                        instr(HYP_PLAN__POINTWISE__OP__TANH, 2, 0, 0)};
    HypPlan__Pointwise__Instr *instrs[] = {&list[0], &list[1], &list[2]};
    uint32_t result = 3;
    hyp_cuda_pw_step step = {.box = {.rank = 1, .lanes = 1, .extent = {64}, .stride = {{1}}},
                             .compute = HYP_F32,
                             .inputs = 1,
                             .instrs = 3,
                             .outputs = 1,
                             .input_dtype = {HYP_F32},
                             .output_dtype = {HYP_F32},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    assert_int_equal(p.shared_bytes, 0);
    assert_int_equal(p.args.instrs, 3); /* the constant is none; the store is one */
    assert_true(p.args.instr[0].a.kind == HYP_PW_INPUT && p.args.instr[0].b.kind == HYP_PW_CONST);
    assert_true(p.args.constant[0] == 0.5);
    assert_int_equal(p.args.instr[1].a.kind, HYP_PW_LAST);
    assert_int_equal(p.args.instr[2].op, HYP_PW_STORE);
    assert_int_equal(p.args.instr[2].a.kind, HYP_PW_LAST);
    assert_int_equal(p.kernel, HYP_CUDA_KERNEL_pointwise_f32);
    assert_int_equal(p.args.chunks, 64 / HYP_CUDA_PW_VECTOR);
}

/* A result that only goes to an output of the type that it is rounded to is rounded by the store. */
static void results_are_rounded_once(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        HypPlan__Pointwise__Instr list[] = {instr(HYP_PLAN__POINTWISE__OP__EXP, 0, 0, 0),
                                            instr(HYP_PLAN__POINTWISE__OP__RELU, 1, 0, 0)};
        HypPlan__Pointwise__Instr *instrs[] = {&list[0], &list[1]};
        list[0].to = list[1].to = HYP_BF16;
        uint32_t result = 2;
        hyp_cuda_pw_step step = {.box = {.rank = 1, .lanes = 1, .extent = {64}, .stride = {{1}}},
                                 .compute = HYP_F32,
                                 .inputs = 1,
                                 .instrs = 2,
                                 .outputs = 1,
                                 .input_dtype = {HYP_BF16},
                                 .output_dtype = {narrow ? HYP_BF16 : HYP_F32},
                                 .instr = instrs,
                                 .output_reg = &result};
        hyp_cuda_pw_program p;
        hyp_cuda_pw_encode(&step, &p);
        assert_int_equal(p.args.instr[0].to, HYP_BF16);
        assert_int_equal(p.args.instr[1].to, narrow ? HYP_F32 : HYP_BF16);
    }
}

static void values_needed_later_take_temps_and_give_them_back(void **state)
{
    (void)state;
    /* r1 = exp x; r2 = tanh r1; r3 = r1 + r2 (r1 from a temp); r4 = exp r3; r5 = r3 * r4 (r3 in the same temp) */
    HypPlan__Pointwise__Instr list[] = {
        instr(HYP_PLAN__POINTWISE__OP__EXP, 0, 0, 0), instr(HYP_PLAN__POINTWISE__OP__TANH, 1, 0, 0),
        instr(HYP_PLAN__POINTWISE__OP__ADD, 1, 2, 0), instr(HYP_PLAN__POINTWISE__OP__EXP, 3, 0, 0),
        instr(HYP_PLAN__POINTWISE__OP__MUL, 3, 4, 0)};
    HypPlan__Pointwise__Instr *instrs[5];
    for (int i = 0; i < 5; i++) instrs[i] = &list[i];
    uint32_t result = 5;
    hyp_cuda_pw_step step = {.box = {.rank = 1, .lanes = 1, .extent = {64}, .stride = {{1}}},
                             .compute = HYP_F32,
                             .inputs = 1,
                             .instrs = 5,
                             .outputs = 1,
                             .input_dtype = {HYP_BF16},
                             .output_dtype = {HYP_BF16},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    assert_int_equal(p.shared_bytes, p.threads * HYP_CUDA_PW_VECTOR * sizeof(float)); /* one temp */
    assert_int_equal(p.args.instr[0].temp_plus1, 1);
    assert_true(p.args.instr[2].a.kind == HYP_PW_TEMP && p.args.instr[2].b.kind == HYP_PW_LAST);
    assert_int_equal(p.args.instr[2].temp_plus1, 1);
    assert_int_equal(p.args.instr[4].a.kind, HYP_PW_TEMP);
}

/* Of a pointwise step over [rows, columns]: 1 when x may be read, 2 when y may be written, in wide accesses. */
static int wide_for(int64_t columns, int64_t rows, int64_t stride0, int64_t stride1, hyp_dtype dtype)
{
    HypPlan__Pointwise__Instr relu = instr(HYP_PLAN__POINTWISE__OP__RELU, 0, 0, 0), *instrs[] = {&relu};
    uint32_t result = 1;
    hyp_cuda_pw_step step = {.box = {.rank = 2, .lanes = 1, .extent = {columns, rows}, .stride = {{stride0, stride1}}},
                             .compute = dtype == HYP_F64 ? HYP_F64 : HYP_F32,
                             .inputs = 1,
                             .instrs = 1,
                             .outputs = 1,
                             .input_dtype = {dtype},
                             .output_dtype = {dtype},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    return (p.args.input[0].vector ? 1 : 0) + (p.args.output[0].vector ? 2 : 0);
}

static void wide_accesses_are_used_only_where_every_row_allows_them(void **state)
{
    (void)state;
    assert_int_equal(wide_for(7, 9, 1, 7, HYP_F32), 3); /* dense: one long row */
    assert_int_equal(wide_for(8, 9, 1, 0, HYP_F16), 3);
    assert_int_equal(wide_for(8, 9, 0, 1, HYP_F32), 2);  /* one value for a row */
    assert_int_equal(wide_for(7, 9, 1, 0, HYP_F16), 1);  /* rows of y begin anywhere */
    assert_int_equal(wide_for(8, 9, 1, 13, HYP_F32), 2); /* rows of x do */
    assert_int_equal(wide_for(8, 9, 9, 1, HYP_F32), 2);  /* x is transposed */
    assert_int_equal(wide_for(64, 1, 1, 64, HYP_F64), 0);
}

/* ---- generated kernels --------------------------------------------------------------------------------------- */

/* y = x * 0.5 + z over [40, 96], x in f32 and along the columns alone, z and y in bf16, with one thing changed. */
static hyp_cuda_pw_program changed_step(int change)
{
    static HypPlan__Pointwise__Instr list[3], *const instrs[] = {&list[0], &list[1], &list[2]};
    static uint32_t result;
    list[0] = instr(HYP_PLAN__POINTWISE__OP__CONST, 0, 0, change == 1 ? -0.5 : 0.5);
    list[1] = instr(change == 2 ? HYP_PLAN__POINTWISE__OP__DIV : HYP_PLAN__POINTWISE__OP__MUL, 0, 2, 0);
    list[2] = instr(change == 3 ? HYP_PLAN__POINTWISE__OP__ELU : HYP_PLAN__POINTWISE__OP__ADD, 3, change == 4 ? 0 : 1,
                    change == 5 ? 1 : 0);
    if (change == 6) list[1].to = HYP_BF16;
    result = change == 7 ? 3 : 4;
    hyp_cuda_pw_step step = {.box = {.rank = 2,
                                     .lanes = 2,
                                     .extent = {change == 8 ? 97 : 96, change == 9 ? 41 : 40},
                                     .stride = {{1, change == 10 ? 96 : 0}, {1, change == 11 ? 192 : 96}}},
                             .compute = change == 12 ? HYP_F64 : HYP_F32,
                             .inputs = 2,
                             .instrs = 3,
                             .outputs = 1,
                             .input_dtype = {change == 13 ? HYP_F16 : HYP_F32, HYP_BF16},
                             .output_dtype = {change == 14 ? HYP_F32 : HYP_BF16},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    return p;
}

static void the_key_of_a_step_tells_all_that_its_kernel_depends_on(void **state)
{
    (void)state;
    enum { CHANGES = 15 };
    hyp_strbuf key[CHANGES] = {{0}};
    for (int i = 0; i < CHANGES; i++) {
        hyp_cuda_pw_program p = changed_step(i);
        hyp_cuda_pw_key(&p, &key[i]);
        assert_true(hyp_cuda_pw_is_key(key[i].data));
        for (int k = 0; k < i; k++) assert_string_not_equal(key[i].data, key[k].data);
    }
    assert_string_equal(key[0].data, "pointwise 2 float [96 40] f32(1 0) bf16(1 96) > bf16; "
                                     "MUL x0 0.5 f32; ADD r0 x1 f32; y0 r1");
    for (int i = 0; i < CHANGES; i++) hyp_strbuf_dispose(&key[i]);
    assert_false(hyp_cuda_pw_is_key("f32 tn 4x2x4"));
}

/* Pieces of 4: 16 bytes of the f32 input. */
static void threads_of_generated_kernels_cover_every_piece(void **state)
{
    (void)state;
    hyp_cuda_pw_program p = changed_step(0);
    uint32_t pieces[3];
    assert_int_equal(hyp_cuda_pw_blocks(&p, 1), 4); /* of 256 threads for 960 pieces */
    assert_int_equal(hyp_cuda_pw_blocks(&p, 2), 2);
    assert_int_equal(hyp_cuda_pw_blocks(&p, 8), 1);
    assert_int_equal(hyp_cuda_pw_piece_counts(&p, 132, pieces), 1); /* few blocks already */
    assert_int_equal(pieces[0], 1);
    assert_int_equal(hyp_cuda_pw_piece_counts(&p, 2, pieces), 2);
    assert_true(pieces[0] == 1 && pieces[1] == 2);
    p = changed_step(8); /* rows of 97 are no whole number of pieces: one element each */
    assert_int_equal(hyp_cuda_pw_blocks(&p, 1), 16);
    assert_int_equal(hyp_cuda_pw_piece_counts(&p, 1, pieces), 3);
    assert_true(pieces[0] == 2 && pieces[1] == 4 && pieces[2] == 8);
}

/* ---- copies -------------------------------------------------------------------------------------------------- */

static hyp_cuda_move plan_copy(size_t size, hyp_cuda_box box, int64_t x_offset)
{
    hyp_cuda_move m;
    box.lanes = 2;
    hyp_cuda_move_plan(&box, size, x_offset, 0, &m);
    return m;
}

static void copies_take_the_cheapest_form(void **state)
{
    (void)state;
    /* dense on both sides, axes listed in any order */
    hyp_cuda_move m = plan_copy(4, (hyp_cuda_box){.rank = 2, .extent = {3, 5}, .stride = {{5, 1}, {5, 1}}}, 0);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_BLOCK);
    assert_int_equal(m.bytes, 60);
    /* rows of 8 floats out of 16: 16-byte pieces */
    m = plan_copy(4, (hyp_cuda_box){.rank = 2, .extent = {8, 5}, .stride = {{1, 16}, {1, 8}}}, 4);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_STRIDED);
    assert_int_equal(m.args.copy.size, 16);
    assert_int_equal(m.args.copy.total, 10);
    assert_int_equal(m.x_offset, 16);
    /* the same from an odd element on: one at a time */
    m = plan_copy(4, (hyp_cuda_box){.rank = 2, .extent = {8, 5}, .stride = {{1, 16}, {1, 8}}}, 3);
    assert_int_equal(m.args.copy.size, 4);
    /* a transposition, with one matrix behind the other */
    m = plan_copy(2, (hyp_cuda_box){.rank = 3, .extent = {40, 33, 2}, .stride = {{33, 1, 1320}, {1, 40, 1320}}}, 0);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_TRANSPOSE);
    assert_int_equal(m.args.copy.size, 2);
    assert_int_equal(m.args.total_tiles, 2 * 2 * 2);
    /* a small one is not worth tiles; a reversed row has no pieces */
    m = plan_copy(2, (hyp_cuda_box){.rank = 2, .extent = {4, 3}, .stride = {{3, 1}, {1, 4}}}, 0);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_STRIDED);
    m = plan_copy(1, (hyp_cuda_box){.rank = 1, .extent = {16}, .stride = {{-1}, {1}}}, 15);
    assert_int_equal(m.args.copy.size, 1);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static void copy_step(uint32_t x, uint32_t y, uint32_t count)
{
    pb_copy_all(&builder, x, y, count);
}

/* y is written over x, as their slot says. */
static void replace_step(uint32_t x, uint32_t y, uint32_t count)
{
    const uint32_t one = pb_const(&builder, 1);
    HypPlan__Pointwise *k = pb_pointwise(&builder, HYP_F32, 1, &count);
    pb_operand(&builder, k, x, &one);
    pb_result(&builder, k, y, pb_instr(&builder, k, HYP_PLAN__POINTWISE__OP__RELU, 0, 0, 0, 0, 0));
}

static void blocks_are_as_steps_use_tensors(void **state)
{
    (void)state;
    pb_init(&builder);
    uint32_t ten = pb_const(&builder, 10), n = pb_symbol(&builder, "n");
    uint32_t in = pb_input(&builder, "x", HYP_F32, 1, &n), out = pb_output(&builder, "y", HYP_F32, 1, &n);
    uint32_t a = pb_scratch(&builder, HYP_F32, 0, 1, &n), b = pb_scratch(&builder, HYP_F32, 0, 1, &n); /* b over a */
    uint32_t c = pb_scratch(&builder, HYP_F32, 1, 1, &n), d = pb_scratch(&builder, HYP_F32, 1, 1, &ten); /* d after c */
    uint32_t unused = pb_scratch(&builder, HYP_F32, 2, 1, &n);
    copy_step(in, a, n);
    copy_step(in, c, n);
    replace_step(a, b, n);
    copy_step(c, out, n);
    copy_step(in, d, ten);
    copy_step(d, out, ten);
    copy_step(b, out, n);
    int64_t values[16] = {0}, symbol = 100;
    hyp_diag diag = {0};
    hyp_plan_blocks blocks;
    size_t total;
    assert_int_equal(hyp_plan_eval_dims(&builder.program, &symbol, values, &diag), HYP_OK);
    assert_int_equal(hyp_plan_list_blocks(&builder.program, values, 0, &blocks, &diag), HYP_OK);
    assert_int_equal(blocks.count, 3);
    assert_int_equal(blocks.block_plus1[a], blocks.block_plus1[b]);
    assert_int_not_equal(blocks.block_plus1[c], blocks.block_plus1[d]);
    assert_int_equal(blocks.block_plus1[unused], 0);
    assert_int_equal(blocks.block_plus1[in], 0);
    const hyp_plan_block *ab = &blocks.list[blocks.block_plus1[a] - 1], *of_d = &blocks.list[blocks.block_plus1[d] - 1];
    assert_int_equal(ab->first, 0);
    assert_int_equal(ab->last, 6);
    assert_int_equal(ab->bytes, 400);
    assert_int_equal(of_d->first, 4);
    assert_int_equal(of_d->last, 5);
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_OK);
    assert_int_equal(total, 1024); /* d lies where c was */
    hyp_plan_blocks_free(&blocks);
    pb_dispose(&builder);
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Bytes of the blocks that are wanted at one step. */
static size_t wanted_at(const hyp_plan_blocks *blocks, uint32_t step)
{
    size_t sum = 0;
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->list[i].first <= step && step <= blocks->list[i].last) sum += blocks->list[i].bytes;
    return sum;
}

static void blocks_lie_beside_those_of_their_time(void **state)
{
    (void)state;
    enum { MOST = 60, STEPS = 40 };
    uint64_t random = 18;
    hyp_diag diag = {0};
    for (int round = 0; round < 300; round++) {
        hyp_plan_block list[MOST];
        hyp_plan_blocks blocks = {.list = list, .count = draw(&random) % (MOST + 1)};
        size_t total, most = 0, sum = 0;
        for (size_t i = 0; i < blocks.count; i++) {
            uint32_t first = (uint32_t)(draw(&random) % STEPS), last = first + (uint32_t)(draw(&random) % (STEPS - first));
            size_t bytes = draw(&random) % 4 ? draw(&random) % 5000 : draw(&random) % 2 * 100000;
            list[i] = (hyp_plan_block){.bytes = bytes, .first = first, .last = last};
        }
        assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_OK);
        for (uint32_t s = 0; s < STEPS; s++) most = wanted_at(&blocks, s) > most ? wanted_at(&blocks, s) : most;
        for (size_t i = 0; i < blocks.count; i++) {
            const hyp_plan_block *x = &list[i];
            sum += x->bytes;
            assert_int_equal(x->at % HYP_PLAN_SLOT_ALIGN, 0);
            assert_true(x->at + x->bytes <= total);
            for (size_t k = 0; k < i; k++) {
                const hyp_plan_block *y = &list[k];
                bool together = x->first <= y->last && y->first <= x->last;
                bool apart = x->at + x->bytes <= y->at || y->at + y->bytes <= x->at || !x->bytes || !y->bytes;
                assert_true(apart || !together);
            }
        }
        assert_true(total >= most && total <= sum);
        assert_true(total <= most + most / 2); /* it is what places are for */
    }
}

static void sizes_beyond_any_are_refused(void **state)
{
    (void)state;
    hyp_plan_block list[] = {{.bytes = SIZE_MAX - 1000, .last = 1}, {.bytes = 2000, .first = 1, .last = 2}};
    hyp_plan_blocks blocks = {.list = list, .count = 2};
    hyp_diag diag = {0};
    size_t total;
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_ERR_LIMIT);
    list[0].bytes = SIZE_MAX - 10;
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_ERR_LIMIT);
    blocks.count = 0;
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_OK);
    assert_int_equal(total, 0);
}

static void small_inputs_and_outputs_lie_together(void **state)
{
    (void)state;
    pb_init(&builder);
    const int64_t counts[] = {1000, 3, 10, 2000, 5};
    for (int i = 0; i < 3; i++) pb_input(&builder, "x", HYP_F32, 1, pb_consts(&builder, 1, &counts[i]));
    for (int i = 3; i < 5; i++) pb_output(&builder, "y", HYP_F32, 1, pb_consts(&builder, 1, &counts[i]));
    int64_t values[16] = {0};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_eval_dims(&builder.program, NULL, values, &diag), HYP_OK);
    static const size_t want[] = {768, 0, 256, 4864, 512};
    size_t offsets[5], bytes[5], small, total;
    assert_int_equal(hyp_cuda_place_edges(&builder.program, values, 40, offsets, bytes, &small, &total, &diag), HYP_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(offsets[i], want[i]);
        assert_int_equal(bytes[i], 4 * counts[i]);
    }
    assert_int_equal(small, 768);
    assert_int_equal(total, 4864 + 8192);
    pb_dispose(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_are_exact),
        cmocka_unit_test(boxes_merge_axes_that_every_lane_walks_as_one),
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
        cmocka_unit_test(a_chain_needs_no_temps),
        cmocka_unit_test(results_are_rounded_once),
        cmocka_unit_test(values_needed_later_take_temps_and_give_them_back),
        cmocka_unit_test(wide_accesses_are_used_only_where_every_row_allows_them),
        cmocka_unit_test(the_key_of_a_step_tells_all_that_its_kernel_depends_on),
        cmocka_unit_test(threads_of_generated_kernels_cover_every_piece),
        cmocka_unit_test(copies_take_the_cheapest_form),
        cmocka_unit_test(blocks_are_as_steps_use_tensors),
        cmocka_unit_test(blocks_lie_beside_those_of_their_time),
        cmocka_unit_test(sizes_beyond_any_are_refused),
        cmocka_unit_test(small_inputs_and_outputs_lie_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
