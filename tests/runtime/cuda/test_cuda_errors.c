/* A machine that cannot run CUDA says why, and leaks nothing. Runs on the emulator, which ends the program when device
 * memory is not freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cuda.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/plan_builder.h"

static plan_builder builder; /* large */
static char path[PB_PATH];

static int make_plan(void **state)
{
    (void)state;
    static const float w[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch");
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, (uint32_t[]){batch, pb_const(&builder, 4)});
    uint32_t y = pb_output(&builder, "y", HYP_F32, 2, (uint32_t[]){batch, pb_const(&builder, 3)});
    uint32_t weight = pb_weight(&builder, HYP_F32, 2, (int64_t[]){3, 4}, w);
    pb_layer(&builder, pb_linear(&builder, x, y, batch), 3, 4, weight, PB_NONE, HYP_PLAN__ACT__ACT_RELU, PB_NONE);
    pb_write(&builder, path);
    return 0;
}

static int remove_plan(void **state)
{
    (void)state;
    pb_remove(&builder, path);
    return 0;
}

static hyp_status load(const char *emulator, hyp_device_kind device, hyp_engine **out, hyp_diag *diag)
{
    assert_int_equal(setenv("HYPATIA_EMULATOR", emulator, 1), 0);
    hyp_engine_options options = {.size = sizeof options, .device = device};
    return hyp_engine_load_file(path, &options, out, diag);
}

static void a_machine_without_a_gpu_is_an_error(void **state)
{
    (void)state;
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(load("none", HYP_DEVICE_CUDA, &engine, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "no NVIDIA GPU can be used"));
    assert_non_null(strstr(diag.message, "CUDA_ERROR_NO_DEVICE"));
}

static void an_old_driver_is_an_error_that_says_what_to_do(void **state)
{
    (void)state;
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(load("old", HYP_DEVICE_CUDA, &engine, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "supports CUDA 11.4, at least 12.0 is needed: update it"));
}

static void a_missing_cublaslt_is_an_error_that_names_it(void **state)
{
    (void)state;
    const char *was = getenv("HYPATIA_CUBLASLT");
    assert_non_null(was);
    char *kept = strdup(was);
    setenv("HYPATIA_CUBLASLT", "/nonexistent/libcublasLt.so.13", 1);
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    hyp_status status = load("", HYP_DEVICE_CUDA, &engine, &diag);
    setenv("HYPATIA_CUBLASLT", kept, 1);
    free(kept);
    assert_int_equal(status, HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "/nonexistent/libcublasLt.so.13"));
}

static void products_of_integers_are_an_error_that_says_what_to_do(void **state)
{
    (void)state;
    static plan_builder whole;
    static const int32_t w[256];
    char file[PB_PATH];
    pb_init(&whole);
    uint32_t batch = pb_symbol(&whole, "batch"), shape[] = {batch, pb_const(&whole, 16)};
    uint32_t x = pb_input(&whole, "x", HYP_I32, 2, shape), y = pb_output(&whole, "y", HYP_I32, 2, shape);
    pb_layer(&whole, pb_linear(&whole, x, y, batch), 16, 16, pb_weight(&whole, HYP_I32, 2, (int64_t[]){16, 16}, w),
             PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    pb_write(&whole, file);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(hyp_engine_load_file(file, &options, &engine, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "no products of i32; compile for it (--target cuda)"));
    pb_remove(&whole, file);
}

static void products_of_bytes_on_a_gpu_without_them_are_an_error_that_says_what_to_do(void **state)
{
    (void)state;
    static plan_builder bytes;
    static const uint8_t w[256];
    char file[PB_PATH];
    pb_init(&bytes);
    uint32_t batch = pb_symbol(&bytes, "batch"), shape[] = {batch, pb_const(&bytes, 16)};
    uint32_t x = pb_input(&bytes, "x", HYP_F8E4M3, 2, shape), y = pb_output(&bytes, "y", HYP_BF16, 2, shape);
    uint32_t weight = pb_weight(&bytes, HYP_F8E4M3, 2, (int64_t[]){16, 16}, w);
    HypPlan__Layer *layer =
        pb_layer(&bytes, pb_linear(&bytes, x, y, batch), 16, 16, weight, PB_NONE, HYP_PLAN__ACT__ACT_RELU, PB_NONE);
    layer->x_scale = layer->weight_scale = 1;
    pb_write(&bytes, file);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(setenv("HYPATIA_EMULATOR", "ampere", 1), 0);
    assert_int_equal(hyp_engine_load_file(file, &options, &engine, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "compute capability 8.9 or newer, this one has 8.0"));
    assert_int_equal(setenv("HYPATIA_EMULATOR", "", 1), 0);
    assert_int_equal(hyp_engine_load_file(file, &options, &engine, &diag), HYP_OK);
    hyp_engine_destroy(engine);
    unlink(file);
    pb_dispose(&bytes);
}

static void auto_takes_the_gpu_and_else_the_cpu(void **state)
{
    (void)state;
    hyp_engine *engine;
    hyp_diag diag = {0};
    assert_int_equal(load("", HYP_DEVICE_AUTO, &engine, &diag), HYP_OK);
    assert_int_equal(hyp_engine_device(engine), HYP_DEVICE_CUDA);
    assert_non_null(strstr(hyp_engine_device_name(engine), "emulator"));
    hyp_engine_destroy(engine);
    assert_int_equal(load("none", HYP_DEVICE_AUTO, &engine, &diag), HYP_OK);
    assert_int_not_equal(hyp_engine_device(engine), HYP_DEVICE_CUDA);
    hyp_engine_destroy(engine);
}

static void a_device_without_memory_is_an_error_and_the_engine_stays_usable(void **state)
{
    (void)state;
    hyp_engine *engine;
    hyp_context *context = NULL;
    hyp_diag diag = {0};
    assert_int_equal(load("small", HYP_DEVICE_CUDA, &engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_ERR_NO_MEMORY);
    assert_non_null(strstr(diag.message, "workspace of products"));
    assert_non_null(strstr(diag.message, "CUDA_ERROR_OUT_OF_MEMORY"));
    assert_null(context);
    setenv("HYPATIA_EMULATOR", "", 1);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

/* Fails the n-th allocation for n = 1, 2, ... until everything works. */
static void no_allocation_that_fails_leaks_or_crashes(void **state)
{
    (void)state;
    setenv("HYPATIA_EMULATOR", "", 1);
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status != HYP_OK; n++) {
        assert_true(n < 10000);
        hyp_engine *engine = NULL;
        hyp_context *context = NULL;
        hyp_diag diag = {0};
        hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {5, 4}};
        hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
        hyp_mem_fail_after(n);
        status = hyp_engine_load_file(path, &options, &engine, &diag);
        if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, &diag);
        if (status == HYP_OK) status = hyp_context_reserve(context, &x, 1, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

/* Allocations of Hypatia's own; those of the driver are its business. */
static void a_run_allocates_nothing(void **state)
{
    (void)state;
    setenv("HYPATIA_EMULATOR", "", 1);
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(load("", HYP_DEVICE_CUDA, &engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    float in[20] = {1}, got[15];
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {5, 4}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
    assert_int_equal(hyp_context_run(context, &x, 1, &y, 1, &diag), HYP_OK);
    size_t memory = hyp_context_scratch_bytes(context);
    uint64_t before = hyp_mem_count();
    for (int i = 0; i < 10; i++) assert_int_equal(hyp_context_run(context, &x, 1, &y, 1, &diag), HYP_OK);
    assert_int_equal(hyp_mem_count(), before);
    assert_int_equal(hyp_context_scratch_bytes(context), memory);
    assert_true(got[0] == 1 && got[1] == 5 && got[2] == 9);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

static void keep_line(const char *line, void *text)
{
    strncat(text, line, 4095 - strlen(text));
    strncat(text, "\n", 4095 - strlen(text));
}

static void auto_says_why_it_takes_the_cpu_and_takes_it_for_no_other_reason(void **state)
{
    (void)state;
    bool (*inject)(const char *call, int result, int n) = NULL;
    assert_true(emulator_function("emulator_fail", &inject));
    char log[4096] = "";
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    hyp_engine_options options = {.size = sizeof options, .log = keep_line, .log_user = log};
    setenv("HYPATIA_EMULATOR", "none", 1);
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_OK);
    assert_non_null(strstr(log, "device: not cuda, because no NVIDIA GPU can be used"));
    assert_non_null(strstr(log, "the first that can run the plan"));
    hyp_engine_destroy(engine);

    /* A GPU that is there and fails is an error. */
    static const char *const calls[] = {"cuMemAlloc", "cuModuleLoadData", "cuMemcpyHtoDAsync"};
    const int results[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};
    const hyp_status wanted[] = {HYP_ERR_NO_MEMORY, HYP_ERR_NO_MEMORY, HYP_ERR_DEVICE};
    setenv("HYPATIA_EMULATOR", "", 1);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        engine = NULL;
        inject(calls[i], results[i], 1);
        assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), wanted[i]);
        assert_false(inject("", 0, 0));
        assert_null(engine);
        assert_non_null(strstr(diag.message, "cuda can be used, but failed: "));
    }
    options.memory_limit = 1 << 20;
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_OK);
    size_t most = hyp_engine_memory_bytes(engine);
    hyp_engine_destroy(engine);
    engine = NULL;
    options.memory_limit = most - 1;
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_ERR_LIMIT);
    assert_null(engine);
}

/* A plan that a GPU has no kernels for is the CPU's. */
static void auto_takes_the_cpu_for_what_cuda_cannot(void **state)
{
    (void)state;
    static plan_builder other;
    char log[4096] = "", file[PB_PATH];
    hyp_engine *engine;
    hyp_diag diag = {0};
    pb_batch_norm(&other);
    pb_write(&other, file);
    hyp_engine_options options = {.size = sizeof options, .log = keep_line, .log_user = log};
    setenv("HYPATIA_EMULATOR", "", 1);
    if (hyp_engine_load_file(file, &options, &engine, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_not_equal(hyp_engine_device(engine), HYP_DEVICE_CUDA);
    assert_non_null(strstr(log, "device: not cuda, because"));
    assert_non_null(strstr(log, "no CUDA kernel for batch-norm"));
    hyp_engine_destroy(engine);
    pb_remove(&other, file);
}

static void without_page_locked_memory_tensors_are_copied_as_they_lie(void **state)
{
    (void)state;
    static const char line[] = "the system gives no page-locked memory";
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    char log[4096] = "";
    setenv("HYPATIA_EMULATOR", "pageable", 1);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA, .log = keep_line, .log_user = log};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    float in[20] = {1}, got[15];
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {5, 4}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
    for (int run = 0; run < 4; run++) {
        memset(got, 0, sizeof got);
        assert_int_equal(hyp_context_run(context, &x, 1, &y, 1, &diag), HYP_OK);
        assert_true(got[0] == 1 && got[1] == 5 && got[2] == 9);
    }
    const char *said = strstr(log, line);
    assert_non_null(said);
    assert_null(strstr(said + 1, line)); /* once */
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

static size_t graphs_on_the_device(void)
{
    size_t (*count)(void) = NULL;
    assert_true(emulator_function("emulator_graphs", &count));
    return count();
}

/* Runs 5 batch sizes in turn, three times; host tensors of one size always use the same staging memory. */
static void run_batches(const char *emulator, size_t want)
{
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(load(emulator, HYP_DEVICE_CUDA, &engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    float in[20] = {1}, got[15];
    for (int run = 0; run < 15; run++) {
        hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {5 - run % 5, 4}};
        hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
        memset(got, 0, sizeof got);
        assert_int_equal(hyp_context_run(context, &x, 1, &y, 1, &diag), HYP_OK);
        assert_true(got[0] == 1 && got[1] == 5 && got[2] == 9);
        if (run < 5) assert_int_equal(graphs_on_the_device(), 0);
    }
    assert_int_equal(graphs_on_the_device(), want);
    hyp_context_destroy(context);
    assert_int_equal(graphs_on_the_device(), 0);
    hyp_engine_destroy(engine);
}

static void a_run_with_the_same_buffers_is_captured_once_for_each_shape(void **state)
{
    (void)state;
    run_batches("", 5);
}

static void a_device_that_captures_nothing_runs_step_by_step(void **state)
{
    (void)state;
    run_batches("uncaptured", 0);
}

static uint64_t sent_ahead(void)
{
    uint64_t (*count)(void) = NULL;
    assert_true(emulator_function("emulator_sent_ahead", &count));
    return count();
}

/* The emulator has 1024 bytes of cache, and a quarter of it is sent for at a time. Of f64 all products are cuBLASLt's.
 */
static void a_weight_is_sent_for_ahead_unless_it_would_leave_the_cache_again(void **state)
{
    (void)state;
    enum { LAYERS = 4, WIDEST = 16 };
    static const int64_t widths[LAYERS + 1] = {8, 4, WIDEST, 2, 8}; /* 256, 512, 256 and 128 bytes */
    static plan_builder chain;
    static const double ones[WIDEST * WIDEST] = {1};
    char file[PB_PATH];
    pb_init(&chain);
    uint32_t one = pb_const(&chain, 1), before = 0;
    for (uint32_t i = 0; i <= LAYERS; i++) {
        uint32_t shape[] = {one, pb_const(&chain, widths[i])};
        uint32_t x = i == 0        ? pb_input(&chain, "x", HYP_F64, 2, shape)
                     : i == LAYERS ? pb_output(&chain, "y", HYP_F64, 2, shape)
                                   : pb_scratch(&chain, HYP_F64, i - 1, 2, shape);
        if (i > 0) {
            uint32_t weight = pb_weight(&chain, HYP_F64, 2, (int64_t[]){widths[i], widths[i - 1]}, ones);
            pb_layer(&chain, pb_linear(&chain, before, x, one), widths[i], widths[i - 1], weight, PB_NONE,
                     HYP_PLAN__ACT__ACT_NONE, PB_NONE);
        }
        before = x;
    }
    pb_write(&chain, file);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(setenv("HYPATIA_EMULATOR", "", 1), 0);
    if (hyp_engine_load_file(file, &options, &engine, &diag) != HYP_OK ||
        hyp_context_create(engine, NULL, &context, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    for (int run = 0; run < 3; run++) {
        double in[8] = {1}, got[8];
        hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F64, .rank = 2, .dims = {1, 8}};
        hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F64};
        uint64_t sent = sent_ahead();
        assert_int_equal(hyp_context_run(context, &x, 1, &y, 1, &diag), HYP_OK);
        assert_true(got[0] == 1);
        assert_int_equal(sent_ahead() - sent, run == 0 ? 0 : 256 + 256 + 128); /* a graph from the second run on */
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_remove(&chain, file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_a_gpu_is_an_error),
        cmocka_unit_test(an_old_driver_is_an_error_that_says_what_to_do),
        cmocka_unit_test(a_missing_cublaslt_is_an_error_that_names_it),
        cmocka_unit_test(products_of_integers_are_an_error_that_says_what_to_do),
        cmocka_unit_test(products_of_bytes_on_a_gpu_without_them_are_an_error_that_says_what_to_do),
        cmocka_unit_test(auto_takes_the_gpu_and_else_the_cpu),
        cmocka_unit_test(auto_says_why_it_takes_the_cpu_and_takes_it_for_no_other_reason),
        cmocka_unit_test(auto_takes_the_cpu_for_what_cuda_cannot),
        cmocka_unit_test(a_device_without_memory_is_an_error_and_the_engine_stays_usable),
        cmocka_unit_test(no_allocation_that_fails_leaks_or_crashes),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(without_page_locked_memory_tensors_are_copied_as_they_lie),
        cmocka_unit_test(a_run_with_the_same_buffers_is_captured_once_for_each_shape),
        cmocka_unit_test(a_device_that_captures_nothing_runs_step_by_step),
        cmocka_unit_test(a_weight_is_sent_for_ahead_unless_it_would_leave_the_cache_again),
    };
    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}
