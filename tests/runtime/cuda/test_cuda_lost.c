/* What goes wrong while a plan runs: a lost device, kernels and products that fail, memory that runs out. Runs on the
 * emulator, whose calls fail as they are told to, and which ends the program when device memory is not freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/driver/library.h"
#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/session/staging.h"
#include "runtime/plan_builder.h"

/* Rows; from LARGE on tensors go in pieces, from SHARED on several threads copy them. */
enum { ROWS = 5, WIDTH = 4, LARGE = HYP_CUDA_SMALL / 8 / WIDTH + 1, SHARED = HYP_CUDA_SHARED / 8 / WIDTH + 1 };

static plan_builder builder; /* large */
static char path[PB_PATH];
static bool (*inject)(const char *call, int result, int n);
static uint64_t (*calls_when_lost)(void);

/* y = relu(x w^T) in f64 by the library, for w[WIDTH, WIDTH] = 1, 2, 3 ...; z = y + y by a kernel of ours. */
static int make_plan(void **state)
{
    (void)state;
    double w[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = (double)(i + 1);
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), width = pb_const(&builder, WIDTH), shape[] = {batch, width};
    uint32_t strides[] = {width, pb_const(&builder, 1)};
    uint32_t x = pb_input(&builder, "x", HYP_F64, 2, shape), z = pb_output(&builder, "z", HYP_F64, 2, shape);
    uint32_t y = pb_scratch(&builder, HYP_F64, 0, 2, shape);
    uint32_t weight = pb_weight(&builder, HYP_F64, 2, (int64_t[]){WIDTH, WIDTH}, w);
    pb_layer(&builder, pb_linear(&builder, x, y, batch), WIDTH, WIDTH, weight, PB_NONE, HYP_PLAN__ACT__ACT_RELU,
             PB_NONE);
    HypPlan__Pointwise *sum = pb_pointwise(&builder, HYP_F64, 2, shape);
    pb_operand(&builder, sum, y, strides);
    pb_result(&builder, sum, z, pb_instr(&builder, sum, HYP_PLAN__POINTWISE__OP__ADD, 0, 0, 0, 0, HYP_F64));
    static char nothing[] = "", *padding[] = {nothing};
    builder.program.padding = padding;
    builder.program.n_padding = 1;
    pb_write(&builder, path);
    setenv("HYPATIA_EMULATOR", "", 1);
    assert_true(emulator_function("emulator_fail", &inject));
    assert_true(emulator_function("emulator_calls_when_lost", &calls_when_lost));
    return 0;
}

static int remove_plan(void **state)
{
    (void)state;
    pb_remove(&builder, path);
    return 0;
}

static hyp_status load(hyp_engine **out, hyp_diag *diag)
{
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    return hyp_engine_load_file(path, &options, out, diag);
}

/* One run with tensors in host memory, or where the device may use them in place. */
static hyp_status run(hyp_context *context, int64_t rows, hyp_memory memory, hyp_diag *diag)
{
    static _Alignas(16) double in[SHARED * WIDTH], got[SHARED * WIDTH];
    for (int64_t i = 0; i < rows * WIDTH; i++) in[i] = 1, got[i] = -1;
    hyp_tensor x = {
        .data = in, .bytes = sizeof in, .dtype = HYP_F64, .memory = memory, .rank = 2, .dims = {rows, WIDTH}};
    hyp_tensor z = {.data = got, .bytes = sizeof got, .dtype = HYP_F64, .memory = memory};
    hyp_status status = hyp_context_run(context, &x, 1, &z, 1, diag);
    if (status != HYP_OK) return status;
    status = hyp_context_synchronize(context, diag);
    for (int64_t i = 0; i < rows * WIDTH && status == HYP_OK; i++)
        assert_true(got[i] == (double)(20 + 32 * (i % WIDTH)));
    return status;
}

static void must_run(hyp_context *context, int64_t rows, hyp_memory memory)
{
    hyp_diag diag = {0};
    if (run(context, rows, memory, &diag) != HYP_OK) fail_msg("%s", diag.message);
}

static void need_lost(hyp_status status, const hyp_diag *diag)
{
    if (status != HYP_ERR_DEVICE_LOST) fail_msg("status %d: %s", (int)status, diag->message);
    assert_non_null(strstr(diag->message, "CUDA_ERROR_THAT_ENDS_THE_CONTEXT"));
    assert_non_null(strstr(diag->message, "destroy all contexts and engines that use it and load the plan again"));
}

/* A call of the driver that finds the device lost, in one of the first runs with tensors in such memory. */
static void lose(const char *call, int result, int64_t rows, hyp_memory memory)
{
    hyp_engine *engine;
    hyp_context *a, *b, *c = NULL;
    hyp_diag diag = {0};
    assert_int_equal(load(&engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &a, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &b, &diag), HYP_OK);
    must_run(b, rows, memory);
    inject(call, result, 1);
    hyp_status status = HYP_OK;
    for (int i = 0; i < 3 && status == HYP_OK; i++) status = run(a, rows, memory, &diag);
    need_lost(status, &diag);

    /* From now on nobody touches the device. */
    uint64_t calls = calls_when_lost();
    hyp_tensor x = {.dtype = HYP_F64, .rank = 2, .dims = {ROWS + 1, WIDTH}};
    need_lost(run(a, ROWS, memory, &diag), &diag);
    need_lost(run(b, ROWS, memory, &diag), &diag);
    need_lost(run(b, ROWS + 2, memory, &diag), &diag);
    need_lost(hyp_context_reserve(b, &x, 1, &diag), &diag);
    need_lost(hyp_context_synchronize(b, &diag), &diag);
    need_lost(hyp_context_tune(b, &x, 1, NULL, NULL, &diag), &diag);
    assert_int_equal(calls_when_lost(), calls);
    need_lost(hyp_context_create(engine, NULL, &c, &diag), &diag);
    assert_null(c);
    hyp_context_destroy(a);
    hyp_context_destroy(b);
    hyp_engine_destroy(engine);

    assert_int_equal(load(&engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &a, &diag), HYP_OK);
    for (int i = 0; i < 3; i++) must_run(a, ROWS, memory);
    hyp_context_destroy(a);
    hyp_engine_destroy(engine);
}

static void a_lost_device_is_an_error_until_everything_is_opened_again(void **state)
{
    (void)state;
    static const int results[] = {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ECC_UNCORRECTABLE,
                                  CUDA_ERROR_DEVICE_UNAVAILABLE};
    static const char *const calls[] = {"cuStreamSynchronize", "cuLaunchKernelEx",     "cublasLtMatmul",
                                        "cuGraphLaunch",       "cuStreamBeginCapture", "cuCtxPushCurrent"};
    for (size_t r = 0; r < sizeof results / sizeof *results; r++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            lose(calls[i], results[r], ROWS, HYP_MEMORY_HOST);
            lose(calls[i], results[r], ROWS, HYP_MEMORY_CUDA);
        }
    lose("cuMemcpyHtoDAsync", CUDA_ERROR_ILLEGAL_ADDRESS, LARGE, HYP_MEMORY_HOST);
    lose("cuMemcpyDtoHAsync", CUDA_ERROR_ILLEGAL_ADDRESS, LARGE, HYP_MEMORY_HOST);
    lose("cuMemcpyHtoDAsync", CUDA_ERROR_ILLEGAL_ADDRESS, SHARED, HYP_MEMORY_HOST);
    lose("cuMemcpyDtoHAsync", CUDA_ERROR_ILLEGAL_ADDRESS, SHARED, HYP_MEMORY_HOST);
    lose("cuEventSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS, SHARED, HYP_MEMORY_HOST);
    lose("cuMemHostAlloc", CUDA_ERROR_ILLEGAL_ADDRESS, ROWS, HYP_MEMORY_HOST);
    lose("cuMemAlloc", CUDA_ERROR_ILLEGAL_ADDRESS, ROWS, HYP_MEMORY_HOST);
}

/* An error after which the device goes on: the run fails, and the context works on. */
static void fail_once(const char *call, int n, int result, hyp_status wanted, const char *words)
{
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(load(&engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    inject(call, result, n);
    assert_int_equal(run(context, ROWS, HYP_MEMORY_HOST, &diag), wanted);
    assert_non_null(strstr(diag.message, words));
    for (int i = 0; i < 3; i++) must_run(context, ROWS, HYP_MEMORY_HOST);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

static void a_kernel_or_a_product_that_fails_is_an_error_of_its_run(void **state)
{
    (void)state;
    fail_once("cuLaunchKernelEx", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, HYP_ERR_DEVICE, "copying inputs: ");
    fail_once("cuLaunchKernelEx", 2, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, HYP_ERR_DEVICE, "step 1 (");
    fail_once("cuLaunchKernelEx", 3, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, HYP_ERR_DEVICE, "copying outputs: ");
    fail_once("cublasLtMatmul", 1, CUDA_ERROR_UNKNOWN, HYP_ERR_DEVICE, "step 0 (");
    fail_once("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, HYP_ERR_NO_MEMORY, "intermediate results");
}

static void a_graph_that_there_is_no_memory_for_is_done_without(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    for (int i = 0; i < 2; i++) {
        hyp_engine *engine;
        hyp_context *context;
        hyp_diag diag = {0};
        assert_int_equal(load(&engine, &diag), HYP_OK);
        assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
        inject(calls[i], CUDA_ERROR_OUT_OF_MEMORY, 1);
        for (int k = 0; k < 4; k++) must_run(context, ROWS, HYP_MEMORY_CUDA);
        assert_false(inject("", 0, 0)); /* it came */
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

/* A whole life, in which the n-th call of a function fails. False when there is no n-th one. */
static bool live(const char *call, int result, int n)
{
    hyp_engine *engine = NULL;
    hyp_context *context = NULL, *rounding = NULL;
    hyp_diag diag = {0};
    const hyp_tensor bucket = {.rank = 1, .dims = {8}}, x = {.dtype = HYP_F64, .rank = 2, .dims = {ROWS, WIDTH}};
    const hyp_context_options rounded = {.size = sizeof rounded, .buckets = &bucket, .bucket_count = 1};
    inject(call, result, n);
    hyp_status status = load(&engine, &diag);
    if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, &diag);
    for (int i = 0; i < 3 && status == HYP_OK; i++) status = run(context, ROWS, HYP_MEMORY_HOST, &diag);
    for (int i = 0; i < 3 && status == HYP_OK; i++) status = run(context, 2 * ROWS, HYP_MEMORY_CUDA, &diag);
    if (status == HYP_OK) status = run(context, LARGE, HYP_MEMORY_HOST, &diag);
    if (status == HYP_OK) status = hyp_context_create(engine, &rounded, &rounding, &diag);
    if (status == HYP_OK) status = hyp_context_reserve(rounding, &x, 1, &diag);
    for (int i = 0; i < 3 && status == HYP_OK; i++) status = run(rounding, ROWS + i, HYP_MEMORY_CUDA, &diag);
    if (status == HYP_OK) status = run(rounding, 2 * ROWS, HYP_MEMORY_HOST, &diag);
    hyp_context_destroy(context);
    hyp_context_destroy(rounding);
    hyp_engine_destroy(engine);
    bool came = !inject("", 0, 0);
    if (status != HYP_OK && status != HYP_ERR_DEVICE && status != HYP_ERR_NO_MEMORY && status != HYP_ERR_DEVICE_LOST)
        fail_msg("%s, call %d: status %d: %s", call, n, (int)status, diag.message);
    if (!came && status != HYP_OK) fail_msg("%s, call %d: %s", call, n, diag.message);
    return came;
}

static void no_call_that_fails_crashes_or_leaks(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuCtxPushCurrent",
                                        "cuModuleLoadData",
                                        "cuFuncGetAttribute",
                                        "cuMemAlloc",
                                        "cuMemFree",
                                        "cuMemHostAlloc",
                                        "cuMemFreeHost",
                                        "cuMemcpyHtoDAsync",
                                        "cuMemcpyHtoDAsync",
                                        "cuMemcpyDtoHAsync",
                                        "cuMemcpyDtoDAsync",
                                        "cuMemsetD8Async",
                                        "cuStreamCreateWithPriority",
                                        "cuStreamSynchronize",
                                        "cuStreamBeginCapture",
                                        "cuGraphLaunch",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphExecDestroy",
                                        "cuLaunchKernelEx",
                                        "cublasLtMatmul",
                                        "cuStreamDestroy"};
    static const int results[] = {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};
    for (size_t r = 0; r < sizeof results / sizeof *results; r++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            int n = 1;
            if (i == 0 && r > 0) continue; /* a context that cannot be made current is lost, and nothing else */
            while (live(calls[i], results[r], n)) n++;
            assert_true(n > 1); /* there was one at least */
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_device_is_an_error_until_everything_is_opened_again),
        cmocka_unit_test(a_kernel_or_a_product_that_fails_is_an_error_of_its_run),
        cmocka_unit_test(a_graph_that_there_is_no_memory_for_is_done_without),
        cmocka_unit_test(no_call_that_fails_crashes_or_leaks),
    };
    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}
