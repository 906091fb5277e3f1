/* Plans that were tuned compute what the reference backend computes, here and when they are loaded again. Needs a GPU,
 * like test_cuda_device, or the emulator; exits 77 where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */
enum { ROWS = 24, WIDTH = 32, TERMS = 2 * WIDTH };

/* z = h h^T / 8, for every one of `batch` matrices h = act(x w^T + b) + x. */
static void build(hyp_dtype dtype, bool tf32, HypPlan__Act act)
{
    static const int64_t weight_dims[] = {WIDTH, WIDTH};
    uint64_t seed = 5;
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), rows = pb_const(&builder, ROWS), width = pb_const(&builder, WIDTH);
    uint32_t all = pb_dim(&builder, HYP_PLAN__DIM__KIND__MUL, batch, rows);
    uint32_t matrix = pb_const(&builder, ROWS * WIDTH);
    uint32_t x = pb_input(&builder, "x", dtype, 3, (uint32_t[]){batch, rows, width});
    uint32_t z = pb_output(&builder, "z", dtype, 3, (uint32_t[]){batch, rows, rows});
    uint32_t h = pb_scratch(&builder, dtype, 0, 3, (uint32_t[]){batch, rows, width});
    HypPlan__Linear *linear = pb_linear(&builder, x, h, all);
    pb_layer(&builder, linear, WIDTH, WIDTH, random_weight(&builder, &seed, dtype, 2, weight_dims),
             random_weight(&builder, &seed, dtype, 1, weight_dims), act, PB_NONE);
    linear->tf32 = tf32;
    linear->added_plus1 = x + 1;
    linear->add_after = act != HYP_PLAN__ACT__ACT_RELU;
    HypPlan__Matmul *product = pb_matmul(&builder);
    static uint32_t batches[1], strides[1];
    batches[0] = batch;
    strides[0] = matrix;
    product->a = product->b = h;
    product->y = z;
    product->n_batch = product->n_a_strides = product->n_b_strides = 1;
    product->batch = batches;
    product->a_strides = product->b_strides = strides;
    product->m = product->n = rows;
    product->k = width;
    product->trans_b = true;
    product->alpha = 0.125f;
    product->tf32 = tf32;
}

/* Tunes the context of the pair for so many matrices, and saves the plan over `path`. */
static void tune(const pair *p, hyp_dtype dtype, int64_t batch, const char *path)
{
    hyp_tune_options options = {.size = sizeof options, .seconds = 10};
    hyp_tune_report report = {.size = sizeof report};
    hyp_diag diag = {0};
    hyp_tensor x = {.dtype = dtype, .rank = 3, .dims = {batch, ROWS, WIDTH}};
    if (hyp_context_tune(p->cuda_context, &x, 1, &options, &report, &diag) != HYP_OK ||
        hyp_context_save_plan(p->cuda_context, path, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(report.products, 2);
    assert_int_equal(report.known + report.timed, 2);
    assert_true(report.seconds > 0 && report.seconds <= report.first_seconds);
}

static void check(hyp_dtype dtype, bool tf32, HypPlan__Act act, double tolerated)
{
    static const int64_t sizes[][DC_MAX_TENSORS][HYP_MAX_RANK] = {{{3, ROWS, WIDTH}}, {{1, ROWS, WIDTH}}};
    char path[PB_PATH];
    pair p;
    hyp_diag diag = {0};
    tolerance want = tolerance_of(dtype, TERMS);
    want.rtol *= tolerated;
    want.atol *= tolerated;
    build(dtype, tf32, act);
    pb_write(&builder, path);
    pair_open(&dev, &builder, &p);
    for (int i = 0; i < 2; i++) tune(&p, dtype, sizes[i][0][0], path);
    for (int i = 0; i < 2; i++) pair_check(&dev, &p, sizes[i], want);

    /* The saved plan in the place of the untuned engine. */
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_context_destroy(p.cuda_context);
    hyp_context_destroy(p.stream_context);
    hyp_engine_destroy(p.cuda);
    hyp_context_options stream = {.size = sizeof stream, .stream = dev.stream};
    if (hyp_engine_load_file(path, &options, &p.cuda, &diag) != HYP_OK ||
        hyp_context_create(p.cuda, NULL, &p.cuda_context, &diag) != HYP_OK ||
        hyp_context_create(p.cuda, &stream, &p.stream_context, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(hyp_context_tuned_count(p.cuda_context), 4);
    for (int i = 0; i < 2; i++) pair_check(&dev, &p, sizes[i], want);
    pair_close(&p);
    pb_remove(&builder, path);
}

/* Sums of h h^T are as large as h is, about 8; 16-bit types round h before. */
static void strict_types_compute_the_same(void **state)
{
    (void)state;
    check(HYP_F32, false, HYP_PLAN__ACT__ACT_RELU, 32);
    check(HYP_F64, false, HYP_PLAN__ACT__ACT_GELU_TANH, 32);
}

static void small_types_compute_the_same(void **state)
{
    (void)state;
    check(HYP_F16, false, HYP_PLAN__ACT__ACT_RELU, 32);
    check(HYP_BF16, false, HYP_PLAN__ACT__ACT_GELU_TANH, 32);
}

static void tf32_computes_the_same(void **state)
{
    (void)state;
    check(HYP_F32, true, HYP_PLAN__ACT__ACT_GELU, 32000);
}

/* Kernels are repeated where they are; afterwards everything must be as after any run. */
static void a_run_whose_steps_are_timed_computes_the_same(void **state)
{
    (void)state;
    static dims_list dims = {{3, ROWS, WIDTH}};
    const hyp_dtype types[] = {HYP_F32, HYP_BF16};
    for (size_t i = 0; i < 2; i++) {
        pair p;
        tolerance want = tolerance_of(types[i], TERMS);
        build(types[i], false, HYP_PLAN__ACT__ACT_GELU_TANH);
        pair_open(&dev, &builder, &p);
        want.rtol *= 32;
        want.atol *= 32;
        for (int run = 0; run < 2; run++) {
            pair_check_timed(&p, dims, want);
            pair_check(&dev, &p, dims, want);
        }
        pair_close(&p);
        pb_dispose(&builder);
    }
}

/* A step that is a copy of an input, which a run may do beside all others, is built by itself, too. */
static void what_copies_inputs_can_be_tuned(void **state)
{
    (void)state;
    static dims_list dims = {{6, 7}};
    hyp_diag diag = {0};
    pair p;
    pb_init(&builder);
    const uint32_t shape[] = {pb_symbol(&builder, "rows"), pb_const(&builder, 7)};
    uint32_t x = pb_input(&builder, "x", HYP_I32, 2, shape), y = pb_output(&builder, "y", HYP_U32, 2, shape);
    pb_call_symbol(&builder, pb_call(&builder, "bit-cast", 1, &x, y), "u32");
    pair_open(&dev, &builder, &p);
    const hyp_tensor in = {.dtype = HYP_I32, .rank = 2, .dims = {6, 7}};
    if (hyp_context_tune(p.cuda_context, &in, 1, NULL, NULL, &diag) != HYP_OK) fail_msg("%s", diag.message);
    pair_check(&dev, &p, dims, (tolerance){0});
    pair_close(&p);
    pb_dispose(&builder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_types_compute_the_same),
        cmocka_unit_test(small_types_compute_the_same),
        cmocka_unit_test(tf32_computes_the_same),
        cmocka_unit_test(a_run_whose_steps_are_timed_computes_the_same),
        cmocka_unit_test(what_copies_inputs_can_be_tuned),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
