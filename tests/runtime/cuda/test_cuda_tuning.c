/* Products that are done as tuning found: what a plan knows is used on the device that it was measured on, and nowhere
 * else. Runs on the emulator, whose algorithms have speeds of their own.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/plan_builder.h"

static plan_builder builder; /* large */
static char path[PB_PATH];
static const char this_device[] = "emulator, sm_90, 3 multiprocessors, cuBLASLt 130000";
enum { ROWS = 2, WIDTH = 4 };

/* y = relu(x w^T) for w[WIDTH, WIDTH] = 1, 2, 3 ... in f64, which is the library's alone. */
static int make_plan(void **state)
{
    (void)state;
    double w[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = (double)(i + 1);
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), width = pb_const(&builder, WIDTH);
    uint32_t x = pb_input(&builder, "x", HYP_F64, 2, (uint32_t[]){batch, width});
    uint32_t y = pb_output(&builder, "y", HYP_F64, 2, (uint32_t[]){batch, width});
    uint32_t weight = pb_weight(&builder, HYP_F64, 2, (int64_t[]){WIDTH, WIDTH}, w);
    pb_layer(&builder, pb_linear(&builder, x, y, batch), WIDTH, WIDTH, weight, PB_NONE, HYP_PLAN__ACT__ACT_RELU,
             PB_NONE);
    pb_write(&builder, path);
    setenv("HYPATIA_EMULATOR", "", 1);
    return 0;
}

static int remove_plan(void **state)
{
    (void)state;
    unlink(path);
    pb_dispose(&builder);
    return 0;
}

/* How often the emulator's algorithm ran since it was loaded. */
static uint64_t runs_of(int algorithm)
{
    void *emulator = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(emulator);
    uint64_t (*runs)(int);
    void *symbol = dlsym(emulator, "emulator_runs");
    assert_non_null(symbol);
    memcpy(&runs, &symbol, sizeof runs);
    uint64_t n = runs(algorithm);
    dlclose(emulator);
    return n;
}

/* Puts into the plan that this algorithm of the emulator is the fastest for ROWS rows on the device of this name. */
static void store_algorithm(const char *device_name, uint64_t number)
{
    uint64_t algorithm[8] = {256, number};
    HypPlan__TunedProduct product, *list[] = {&product};
    hyp_plan__tuned_product__init(&product);
    product.key = (char *)(uintptr_t) "f64 tn 4x2x4 ld 4 4 4 align 256 relu";
    product.algorithm = (ProtobufCBinaryData){sizeof algorithm, (uint8_t *)algorithm};
    product.epilogue = 2; /* CUBLASLT_EPILOGUE_RELU */
    HypPlan__Device device;
    hyp_plan__device__init(&device);
    device.name = (char *)(uintptr_t)device_name;
    device.products = list;
    device.n_products = 1;
    hyp_plan plan;
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_open_file(path, NULL, &plan, &diag), HYP_OK);
    assert_int_equal(hyp_plan_write_device(path, &plan, &device, &diag), HYP_OK);
    hyp_plan_close(&plan);
}

static void keep_line(const char *line, void *text)
{
    strncat(text, line, 4095 - strlen(text));
    strncat(text, "\n", 4095 - strlen(text));
}

/* Runs the plan for so many rows of ones and checks the result; `log` has room for 4096 bytes. */
static void run_plan(hyp_device_kind device, int64_t rows, char *log)
{
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    *log = 0;
    hyp_engine_options options = {.size = sizeof options, .device = device, .log = keep_line, .log_user = log};
    if (hyp_engine_load_file(path, &options, &engine, &diag) != HYP_OK ||
        hyp_context_create(engine, NULL, &context, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    double in[64], got[64];
    for (int i = 0; i < 64; i++) in[i] = 1;
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F64, .rank = 2, .dims = {rows, WIDTH}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F64};
    if (hyp_context_run(context, &x, 1, &y, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < WIDTH; i++) assert_true(got[r * WIDTH + i] == (double)(10 + 16 * i));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

static void a_plan_is_run_as_it_was_tuned(void **state)
{
    (void)state;
    char log[4096];
    store_algorithm(this_device, 3);
    uint64_t tuned = runs_of(3), first = runs_of(0);
    run_plan(HYP_DEVICE_CUDA, ROWS, log);
    assert_int_equal(runs_of(3), tuned + 1);
    assert_int_equal(runs_of(0), first);
    assert_non_null(strstr(log, "products tuned for this device: 1"));
}

static void shapes_that_were_not_tuned_take_the_heuristic(void **state)
{
    (void)state;
    char log[4096];
    store_algorithm(this_device, 3);
    uint64_t tuned = runs_of(3), first = runs_of(0);
    run_plan(HYP_DEVICE_CUDA, ROWS + 1, log);
    assert_int_equal(runs_of(3), tuned);
    assert_int_equal(runs_of(0), first + 1);
}

static void a_plan_tuned_elsewhere_runs_and_says_so(void **state)
{
    (void)state;
    char log[4096];
    store_algorithm("another GPU, sm_90, 3 multiprocessors, cuBLASLt 130000", 3);
    uint64_t tuned = runs_of(3), first = runs_of(0);
    run_plan(HYP_DEVICE_CUDA, ROWS, log);
    assert_int_equal(runs_of(3), tuned);
    assert_int_equal(runs_of(0), first + 1);
    assert_non_null(strstr(log, "the plan was tuned on another GPU"));
    assert_non_null(strstr(log, this_device));
}

static void an_algorithm_that_the_library_refuses_is_not_used(void **state)
{
    (void)state;
    char log[4096];
    store_algorithm(this_device, 1000);
    uint64_t first = runs_of(0);
    run_plan(HYP_DEVICE_CUDA, ROWS, log);
    assert_int_equal(runs_of(0), first + 1);
}

static void other_devices_do_not_care(void **state)
{
    (void)state;
    char log[4096];
    store_algorithm(this_device, 3);
    run_plan(HYP_DEVICE_CPU, ROWS, log);
    run_plan(HYP_DEVICE_REFERENCE, ROWS, log);
    assert_null(strstr(log, "tuned"));
}

static void keep_text(const char *text, size_t len, void *out)
{
    assert_true(len < 4096);
    memcpy(out, text, len);
    ((char *)out)[len] = 0;
}

static void a_description_tells_what_was_tuned(void **state)
{
    (void)state;
    char text[4096];
    hyp_diag diag = {0};
    store_algorithm(this_device, 3);
    assert_int_equal(hyp_plan_describe(path, false, NULL, 0, keep_text, text, &diag), HYP_OK);
    assert_non_null(strstr(text, "tuned     on emulator, sm_90"));
    assert_non_null(strstr(text, "f64 tn 4x2x4"));
    assert_int_equal(hyp_plan_describe(path, true, NULL, 0, keep_text, text, &diag), HYP_OK);
    assert_non_null(strstr(text, "\"key\": \"f64 tn 4x2x4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_run_as_it_was_tuned),
        cmocka_unit_test(shapes_that_were_not_tuned_take_the_heuristic),
        cmocka_unit_test(a_plan_tuned_elsewhere_runs_and_says_so),
        cmocka_unit_test(an_algorithm_that_the_library_refuses_is_not_used),
        cmocka_unit_test(other_devices_do_not_care),
        cmocka_unit_test(a_description_tells_what_was_tuned),
    };
    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}
