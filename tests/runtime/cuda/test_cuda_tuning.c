/* Products that are done as tuning found: what a plan knows is used on the device that it was measured on, and nowhere
 * else. Runs on the emulator, whose algorithms have speeds of their own.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/emulator_tells.h"
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
    pb_remove(&builder, path);
    return 0;
}

/* How often the emulator's algorithm ran since it was loaded. */
static uint64_t runs_of(int algorithm)
{
    uint64_t (*runs)(int) = NULL;
    assert_true(emulator_function("emulator_runs", &runs));
    return runs(algorithm);
}

/* Puts into the plan that these algorithms of the emulator are the fastest on the device of this name, each for so many
 * rows; at most two. */
static void store_algorithms(const char *device_name, const int64_t *rows, const uint64_t *numbers, size_t count)
{
    uint64_t algorithms[2][8] = {{256}, {256}};
    char keys[2][64];
    HypPlan__TunedProduct products[2], *list[] = {&products[0], &products[1]};
    for (size_t i = 0; i < count; i++) {
        hyp_plan__tuned_product__init(&products[i]);
        algorithms[i][1] = numbers[i];
        snprintf(keys[i], sizeof keys[i], "f64 tn 4x%lldx4 ld 4 4 4 align 256 relu", (long long)rows[i]);
        products[i].key = keys[i];
        products[i].algorithm = (ProtobufCBinaryData){sizeof algorithms[i], (uint8_t *)algorithms[i]};
        products[i].epilogue = 2; /* CUBLASLT_EPILOGUE_RELU */
    }
    HypPlan__Device device;
    hyp_plan__device__init(&device);
    device.name = (char *)(uintptr_t)device_name;
    device.products = list;
    device.n_products = count;
    hyp_plan plan;
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_open_file(path, NULL, &plan, &diag), HYP_OK);
    assert_int_equal(hyp_plan_write_device(path, &plan, &device, &diag), HYP_OK);
    hyp_plan_close(&plan);
}

static void store_algorithm(const char *device_name, uint64_t number)
{
    store_algorithms(device_name, (int64_t[]){ROWS}, &number, 1);
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

/* Where 6 and 8 rows are tuned: at most twice as many rows, and never fewer. */
static void a_size_takes_what_was_tuned_for_the_next_larger_one(void **state)
{
    (void)state;
    static const struct {
        int64_t rows;
        int algorithm;
        const char *log;
    } cases[] = {{5, 3, "0 as tuned, 1 as tuned for a larger size, 0 not tuned"},
                 {6, 3, "1 as tuned, 0 as tuned for a larger size, 0 not tuned"},
                 {7, 1, "0 as tuned, 1 as tuned for a larger size, 0 not tuned"},
                 {3, 3, "0 as tuned, 1 as tuned for a larger size, 0 not tuned"},
                 {2, 0, "0 as tuned, 0 as tuned for a larger size, 1 not tuned"},
                 {9, 0, "0 as tuned, 0 as tuned for a larger size, 1 not tuned"}};
    char log[4096];
    store_algorithms(this_device, (int64_t[]){6, 8}, (uint64_t[]){3, 1}, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t before = runs_of(cases[i].algorithm);
        run_plan(HYP_DEVICE_CUDA, cases[i].rows, log);
        assert_int_equal(runs_of(cases[i].algorithm), before + 1);
        assert_non_null(strstr(log, cases[i].log));
    }
    store_algorithms(this_device, (int64_t[]){6}, (uint64_t[]){1000}, 1); /* one that the library refuses */
    uint64_t before = runs_of(0);
    run_plan(HYP_DEVICE_CUDA, 5, log);
    assert_int_equal(runs_of(0), before + 1);
    assert_non_null(strstr(log, cases[4].log));
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

/* ---- measuring ----------------------------------------------------------------------------------------------- */

typedef struct loaded {
    hyp_engine *engine;
    hyp_context *context;
} loaded;

static loaded load(hyp_device_kind device)
{
    loaded l;
    hyp_diag diag = {0};
    hyp_engine_options options = {.size = sizeof options, .device = device};
    if (hyp_engine_load_file(path, &options, &l.engine, &diag) != HYP_OK ||
        hyp_context_create(l.engine, NULL, &l.context, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    return l;
}

static void unload(loaded *l)
{
    hyp_context_destroy(l->context);
    hyp_engine_destroy(l->engine);
}

static hyp_tune_report tune(const loaded *l, const char *mode, int64_t rows)
{
    return tune_in_mode(l->context, mode, HYP_F64, rows, WIDTH);
}

/* A plan without a device section. */
static void forget_tuning(void)
{
    hyp_plan plan;
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_open_file(path, NULL, &plan, &diag), HYP_OK);
    assert_int_equal(hyp_plan_write_device(path, &plan, NULL, &diag), HYP_OK);
    hyp_plan_close(&plan);
}

/* The number of the emulator's algorithm that is known for the first product. */
static uint64_t known_algorithm(const loaded *l)
{
    uint64_t algorithm[8];
    hyp_tuned tuned = hyp_context_tuned(l->context, 0);
    assert_int_equal(tuned.algorithm_bytes, sizeof algorithm);
    memcpy(algorithm, tuned.algorithm, sizeof algorithm);
    return algorithm[1];
}

static void the_fastest_right_algorithm_is_taken(void **state)
{
    (void)state;
    forget_tuning();
    loaded l = load(HYP_DEVICE_CUDA);
    hyp_tune_report report = tune(&l, "", ROWS);
    assert_true(report.products == 1 && report.timed == 1 && report.replaced == 1 && report.known == 0);
    assert_int_equal(known_algorithm(&l), 3); /* 2 is faster, but wrong; 4 does not run */
    hyp_tuned tuned = hyp_context_tuned(l.context, 0);
    assert_string_equal(tuned.product, "f64 tn 4x2x4 ld 4 4 4 align 256 relu");
    assert_string_equal(tuned.attributes, "id 3");
    assert_true(tuned.seconds > 7.9e-5 && tuned.seconds < 8.1e-5);
    assert_true(tuned.first_seconds > 9.9e-5 && tuned.first_seconds < 10.1e-5);
    assert_true(report.seconds == tuned.seconds && report.first_seconds == tuned.first_seconds);
    unload(&l);
}

static void what_is_hardly_faster_does_not_replace_the_first(void **state)
{
    (void)state;
    forget_tuning();
    loaded l = load(HYP_DEVICE_CUDA);
    hyp_tune_report report = tune(&l, "level", ROWS);
    assert_true(report.timed == 1 && report.replaced == 0);
    assert_int_equal(known_algorithm(&l), 0);
    unload(&l);
}

static void a_kernel_of_ours_follows_where_that_is_faster(void **state)
{
    (void)state;
    forget_tuning();
    loaded l = load(HYP_DEVICE_CUDA);
    tune(&l, "slow epilogues", ROWS);
    hyp_tuned tuned = hyp_context_tuned(l.context, 0);
    assert_int_equal(tuned.epilogue, 1);                            /* CUBLASLT_EPILOGUE_DEFAULT */
    assert_true(tuned.seconds > 9.9e-5 && tuned.seconds < 10.1e-5); /* 80 us and a kernel of 20 */
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_save_plan(l.context, path, &diag), HYP_OK);
    unload(&l);
    char log[4096];
    run_plan(HYP_DEVICE_CUDA, ROWS, log);
}

static void a_saved_plan_runs_as_tuned_and_is_not_measured_again(void **state)
{
    (void)state;
    char log[4096];
    hyp_diag diag = {0};
    forget_tuning();
    loaded l = load(HYP_DEVICE_CUDA);
    tune(&l, "", ROWS);
    tune(&l, "", ROWS + 1);
    assert_int_equal(hyp_context_tuned_count(l.context), 2);
    assert_int_equal(hyp_context_save_plan(l.context, path, &diag), HYP_OK);
    unload(&l);

    uint64_t tuned = runs_of(3), first = runs_of(0);
    run_plan(HYP_DEVICE_CUDA, ROWS, log);
    run_plan(HYP_DEVICE_CUDA, ROWS + 1, log);
    assert_int_equal(runs_of(3), tuned + 2);
    assert_int_equal(runs_of(0), first);
    assert_non_null(strstr(log, "products tuned for this device: 2"));

    l = load(HYP_DEVICE_CUDA);
    hyp_tune_report report = tune(&l, "", ROWS);
    assert_true(report.known == 1 && report.timed == 0);
    unload(&l);
    assert_int_equal(runs_of(3), tuned + 2);
    run_plan(HYP_DEVICE_CPU, ROWS, log);
}

static void a_context_runs_as_it_was_tuned_at_once(void **state)
{
    (void)state;
    forget_tuning();
    loaded l = load(HYP_DEVICE_CUDA);
    double in[ROWS * WIDTH] = {1}, got[ROWS * WIDTH];
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F64, .rank = 2, .dims = {ROWS, WIDTH}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F64};
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    tune(&l, "", ROWS);
    uint64_t tuned = runs_of(3);
    assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    assert_int_equal(runs_of(3), tuned + 1);
    unload(&l);
}

static void what_was_found_can_be_carried_to_another_context(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    forget_tuning();
    loaded from = load(HYP_DEVICE_CUDA), to = load(HYP_DEVICE_CUDA);
    tune(&from, "", ROWS);
    assert_string_equal(hyp_context_tuning_device(to.context), this_device);
    hyp_tuned tuned = hyp_context_tuned(from.context, 0);
    assert_int_equal(hyp_context_add_tuned(to.context, &tuned, &diag), HYP_OK);
    assert_int_equal(known_algorithm(&to), 3);
    hyp_tune_report report = tune(&to, "", ROWS);
    assert_true(report.known == 1 && report.timed == 0);
    tuned.algorithm_bytes = 0;
    assert_int_equal(hyp_context_add_tuned(to.context, &tuned, &diag), HYP_ERR_INVALID_ARGUMENT);
    unload(&from);
    unload(&to);
}

static void without_time_products_stay_as_they_are(void **state)
{
    (void)state;
    forget_tuning();
    loaded l = load(HYP_DEVICE_CUDA);
    hyp_tune_options options = {.size = sizeof options, .seconds = 1e-12};
    hyp_tune_report report = {.size = sizeof report};
    hyp_diag diag = {0};
    hyp_tensor x = {.dtype = HYP_F64, .rank = 2, .dims = {ROWS, WIDTH}};
    assert_int_equal(hyp_context_tune(l.context, &x, 1, &options, &report, &diag), HYP_OK);
    assert_true(report.products == 1 && report.timed == 0 && report.known == 0);
    assert_int_equal(hyp_context_tuned_count(l.context), 0);
    unload(&l);
}

static void a_device_that_cannot_be_timed_is_an_error_and_the_context_stays_usable(void **state)
{
    (void)state;
    forget_tuning();
    loaded l = load(HYP_DEVICE_CUDA);
    hyp_diag diag = {0};
    hyp_tensor x = {.dtype = HYP_F64, .rank = 2, .dims = {ROWS, WIDTH}};
    setenv("HYPATIA_EMULATOR", "uncaptured", 1);
    assert_int_equal(hyp_context_tune(l.context, &x, 1, NULL, NULL, &diag), HYP_ERR_DEVICE);
    setenv("HYPATIA_EMULATOR", "", 1);
    assert_non_null(strstr(diag.message, "timing needs CUDA graphs"));
    assert_int_equal(tune(&l, "", ROWS).timed, 1);
    unload(&l);
}

static void the_reference_is_not_tuned(void **state)
{
    (void)state;
    loaded l = load(HYP_DEVICE_REFERENCE);
    hyp_diag diag = {0};
    hyp_tensor x = {.dtype = HYP_F64, .rank = 2, .dims = {ROWS, WIDTH}};
    assert_int_equal(hyp_context_tune(l.context, &x, 1, NULL, NULL, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "nothing to tune on reference"));
    assert_int_equal(hyp_context_save_plan(l.context, path, &diag), HYP_ERR_UNSUPPORTED);
    assert_null(hyp_context_tuning_device(l.context));
    assert_int_equal(hyp_context_tuned_count(l.context), 0);
    unload(&l);
}

/* Two equal layers that give back what they get, with something added, and a product of activations; weights that do
 * not fit the emulator's cache. */
static hyp_engine *load_network(plan_builder *b, int64_t rows)
{
    enum { N = 32 };
    static float w[N * N], bias[N];
    for (int i = 0; i < N * N; i++) w[i] = (float)(i % 7 - 3);
    for (int i = 0; i < N; i++) bias[i] = (float)(i % 5);
    pb_init(b);
    uint32_t m = pb_const(b, rows), n = pb_const(b, N);
    uint32_t x = pb_input(b, "x", HYP_F32, 2, (uint32_t[]){m, n});
    uint32_t y = pb_output(b, "y", HYP_F32, 2, (uint32_t[]){m, m});
    uint32_t hidden[3];
    for (uint32_t i = 0; i < 3; i++) hidden[i] = pb_scratch(b, HYP_F32, i, 2, (uint32_t[]){m, n});
    HypPlan__Linear *chain = pb_linear(b, x, hidden[1], m);
    for (uint32_t l = 0; l < 2; l++)
        pb_layer(b, chain, N, N, pb_weight(b, HYP_F32, 2, (int64_t[]){N, N}, w),
                 pb_weight(b, HYP_F32, 1, (int64_t[]){N}, bias), HYP_PLAN__ACT__ACT_RELU, l == 0 ? hidden[0] : PB_NONE);
    HypPlan__Linear *last = pb_linear(b, hidden[1], hidden[2], m);
    pb_layer(b, last, N, N, pb_weight(b, HYP_F32, 2, (int64_t[]){N, N}, w), PB_NONE, HYP_PLAN__ACT__ACT_GELU, PB_NONE);
    last->added_plus1 = x + 1;
    HypPlan__Matmul *product = pb_matmul(b);
    product->a = product->b = hidden[2];
    product->y = y;
    product->m = product->n = m;
    product->k = n;
    product->trans_b = true;
    product->alpha = 0.125f;
    return pb_load(b, HYP_DEVICE_CUDA);
}

static void what_makes_no_run_faster_is_not_used(void **state)
{
    (void)state;
    enum { M = 40, N = 32 };
    static float in[M * N], got[M * M];
    plan_builder *b = malloc(sizeof *b);
    assert_non_null(b);
    loaded l = {.engine = load_network(b, M)};
    hyp_diag diag = {0};
    hyp_tune_report report = {.size = sizeof report};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {M, N}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
    assert_int_equal(hyp_context_create(l.engine, NULL, &l.context, &diag), HYP_OK);
    setenv("HYPATIA_EMULATOR", "company", 1);
    if (hyp_context_tune(l.context, &x, 1, NULL, &report, &diag) != HYP_OK) fail_msg("%s", diag.message);
    setenv("HYPATIA_EMULATOR", "", 1);
    assert_true(report.timed == 3 && report.replaced == 0 && report.run_seconds > report.untuned_run_seconds);
    assert_true(report.seconds == report.first_seconds);
    uint64_t first = runs_of(0);
    assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    assert_int_equal(runs_of(0), first + 4);
    unload(&l);
    pb_dispose(b);
    free(b);
}

static void every_kind_of_product_is_tuned_and_computes_the_same(void **state)
{
    (void)state;
    enum { M = 40, N = 32 };
    float in[M * N], before[M * M], after[M * M];
    for (int i = 0; i < M * N; i++) in[i] = (float)(i % 11 - 5) / 8;
    plan_builder *b = malloc(sizeof *b);
    assert_non_null(b);
    loaded l = {.engine = load_network(b, M)};
    hyp_diag diag = {0};
    hyp_tune_report report = {.size = sizeof report};
    assert_int_equal(hyp_context_create(l.engine, NULL, &l.context, &diag), HYP_OK);
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {M, N}};
    hyp_tensor y = {.data = before, .bytes = sizeof before, .dtype = HYP_F32};
    assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    if (hyp_context_tune(l.context, &x, 1, NULL, &report, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_true(report.products == 3 && report.timed == 3 && report.replaced == 3);
    assert_true(report.run_seconds > 0 && report.run_seconds < report.untuned_run_seconds);
    assert_string_equal(hyp_context_tuned(l.context, 0).product, "f32 tn 32x40x32 ld 32 32 32 align 256 added gelu");
    assert_string_equal(hyp_context_tuned(l.context, 1).product, "f32 tn 32x40x32 ld 32 32 32 align 256 bias relu");
    assert_string_equal(hyp_context_tuned(l.context, 2).product, "f32 tn 40x40x32 ld 32 32 40 align 256");
    /* The layer that the plan has twice counts twice: 80 us each, and 20 us for our gelu. */
    assert_true(report.seconds > 33.9e-5 && report.seconds < 34.1e-5);
    y.data = after;
    uint64_t tuned = runs_of(3), first = runs_of(0);
    assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    assert_int_equal(runs_of(3), tuned + 4);
    assert_int_equal(runs_of(0), first);
    assert_memory_equal(before, after, sizeof before);
    unload(&l);
    pb_dispose(b);
    free(b);
}

/* Three layers for few rows, which our own kernel can do. */
static hyp_engine *load_layers(plan_builder *b, char *file)
{
    enum { N = 24 };
    static float w[N * N], bias[N];
    for (int i = 0; i < N * N; i++) w[i] = (float)(i % 7 - 3);
    for (int i = 0; i < N; i++) bias[i] = (float)(i % 5);
    pb_init(b);
    uint32_t m = pb_symbol(b, "batch"), n = pb_const(b, N), hidden[2];
    uint32_t x = pb_input(b, "x", HYP_F32, 2, (uint32_t[]){m, n}),
             y = pb_output(b, "y", HYP_F32, 2, (uint32_t[]){m, n});
    for (uint32_t i = 0; i < 2; i++) hidden[i] = pb_scratch(b, HYP_F32, i, 2, (uint32_t[]){m, n});
    HypPlan__Linear *chain = pb_linear(b, x, y, m);
    for (uint32_t l = 0; l < 3; l++)
        pb_layer(b, chain, N, N, pb_weight(b, HYP_F32, 2, (int64_t[]){N, N}, w),
                 pb_weight(b, HYP_F32, 1, (int64_t[]){N}, bias), HYP_PLAN__ACT__ACT_RELU, l < 2 ? hidden[l] : PB_NONE);
    hyp_engine *engine;
    hyp_diag diag = {0};
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    pb_write(b, file);
    if (hyp_engine_load_file(file, &options, &engine, &diag) != HYP_OK) fail_msg("%s", diag.message);
    return engine;
}

/* Tunes the layers, runs them as they are then and from the plan that was saved, and returns who does them. */
static const char *choose_for_layers(const char *mode, uint64_t products)
{
    static char attributes[256];
    enum { N = 24 };
    float in[ROWS * N], got[3][ROWS * N];
    char file[PB_PATH];
    for (int i = 0; i < ROWS * N; i++) in[i] = (float)(i % 11 - 5) / 8;
    plan_builder *b = malloc(sizeof *b);
    assert_non_null(b);
    loaded l = {.engine = load_layers(b, file)};
    hyp_diag diag = {0};
    hyp_tune_report report = {.size = sizeof report};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {ROWS, N}};
    hyp_tensor y = {.data = got[0], .bytes = sizeof got[0], .dtype = HYP_F32};
    assert_int_equal(hyp_context_create(l.engine, NULL, &l.context, &diag), HYP_OK);
    assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    setenv("HYPATIA_EMULATOR", mode, 1);
    if (hyp_context_tune(l.context, &x, 1, NULL, &report, &diag) != HYP_OK) fail_msg("%s", diag.message);
    setenv("HYPATIA_EMULATOR", "", 1);
    assert_true(report.products == 2 && report.timed == 2); /* the layer, and all of them */
    hyp_tuned whole = hyp_context_tuned(l.context, 1);
    assert_string_equal(whole.product, "linear f32 2: 24-24 bias relu, 24-24 bias relu, 24-24 bias relu");
    strcpy(attributes, whole.attributes);
    assert_true(report.seconds == whole.seconds && report.first_seconds == whole.first_seconds);
    for (int i = 1; i < 3; i++) {
        uint64_t before = runs_of(0) + runs_of(3);
        y.data = got[i];
        assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
        assert_int_equal(runs_of(0) + runs_of(3), before + products);
        for (int e = 0; e < ROWS * N; e++) assert_true(fabsf(got[i][e] - got[0][e]) <= 1e-5f * fabsf(got[0][e]));
        if (i == 2) break;
        assert_int_equal(hyp_context_save_plan(l.context, file, &diag), HYP_OK);
        unload(&l);
        assert_int_equal(hyp_engine_load_file(
                             file, &(hyp_engine_options){.size = sizeof(hyp_engine_options), .device = HYP_DEVICE_CUDA},
                             &l.engine, &diag),
                         HYP_OK);
        assert_int_equal(hyp_context_create(l.engine, NULL, &l.context, &diag), HYP_OK);
    }
    unload(&l);
    pb_remove(b, file);
    free(b);
    return attributes;
}

static void layers_run_by_our_kernel_or_by_products_as_was_measured(void **state)
{
    (void)state;
    assert_string_equal(choose_for_layers("", 0), "few-rows");
    assert_string_equal(choose_for_layers("slow kernels", 3), "cublaslt");
}

/* Layers that were tuned for 8 rows, where products are faster than our kernel. */
static void layers_are_done_as_for_more_rows(void **state)
{
    (void)state;
    enum { N = 24, MOST = 17 };
    static const struct {
        int64_t rows;
        uint64_t products;
        hyp_step_tuning tuning;
    } cases[] = {{8, 3, HYP_STEP_TUNED}, {5, 3, HYP_STEP_BORROWED}, {3, 0, HYP_STEP_NOT_TUNED}, {9, 0, HYP_STEP_NOT_TUNED}};
    float in[MOST * N] = {1}, got[MOST * N];
    char file[PB_PATH];
    plan_builder *b = malloc(sizeof *b);
    assert_non_null(b);
    loaded l = {.engine = load_layers(b, file)};
    hyp_diag diag = {0};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {8, N}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
    assert_int_equal(hyp_context_create(l.engine, NULL, &l.context, &diag), HYP_OK);
    setenv("HYPATIA_EMULATOR", "slow kernels", 1);
    assert_int_equal(hyp_context_tune(l.context, &x, 1, NULL, NULL, &diag), HYP_OK);
    setenv("HYPATIA_EMULATOR", "", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t before = runs_of(0) + runs_of(3);
        x.dims[0] = cases[i].rows;
        assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
        assert_int_equal(runs_of(0) + runs_of(3), before + cases[i].products);
        assert_int_equal(hyp_context_step_tuning(l.context, 0), cases[i].tuning);
    }
    assert_int_equal(hyp_context_step_tuning(l.context, 1), HYP_STEP_NOT_TUNED); /* there is no such step */
    unload(&l);
    pb_remove(b, file);
    free(b);
}

/* A layer of long sums and a normalization behind it, which can add up their parts: predicted to be faster in two. Tunes, runs,
 * and returns how many products were done as tuned; `way` is what tuning found. */
static uint64_t tuned_sums(const char *mode, const char *way)
{
    enum { M = 17, N = 24, K = 512 };
    static uint16_t w[N * K], in[M * K], got[2][M * N], scale[N], shift[N];
    for (int i = 0; i < N * K; i++) hyp_store_f64(HYP_BF16, w, i, (i % 7 - 3) / 8.0);
    for (int i = 0; i < M * K; i++) hyp_store_f64(HYP_BF16, in, i, (i % 11 - 5) / 8.0);
    for (int i = 0; i < N; i++) hyp_store_f64(HYP_BF16, scale, i, 1);
    plan_builder *b = malloc(sizeof *b);
    assert_non_null(b);
    pb_init(b);
    uint32_t m = pb_const(b, M), n = pb_const(b, N);
    uint32_t x = pb_input(b, "x", HYP_BF16, 2, (uint32_t[]){m, pb_const(b, K)});
    uint32_t y = pb_output(b, "y", HYP_BF16, 2, (uint32_t[]){m, n}), sum = pb_scratch(b, HYP_BF16, 0, 2, (uint32_t[]){m, n});
    uint32_t weight = pb_weight(b, HYP_BF16, 2, (int64_t[]){N, K}, w), one = pb_weight(b, HYP_BF16, 1, (int64_t[]){N}, scale);
    uint32_t zero = pb_weight(b, HYP_BF16, 1, (int64_t[]){N}, shift);
    pb_layer(b, pb_linear(b, x, sum, m), N, K, weight, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    HypPlan__Call *norm = pb_call(b, "layer-norm", 3, (uint32_t[]){sum, one, zero}, y);
    pb_call_int(b, norm, -1);
    pb_call_float(b, norm, 1e-3);
    loaded l = {.engine = pb_load(b, HYP_DEVICE_CUDA)};
    hyp_diag diag = {0};
    hyp_tensor from = {.data = in, .bytes = sizeof in, .dtype = HYP_BF16, .rank = 2, .dims = {M, K}};
    hyp_tensor to = {.data = got[0], .bytes = sizeof got[0], .dtype = HYP_BF16};
    assert_int_equal(hyp_context_create(l.engine, NULL, &l.context, &diag), HYP_OK);
    if (hyp_context_run(l.context, &from, 1, &to, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    hyp_choice_info info = hyp_context_choice(l.context, 0, 0);
    assert_true(info.by == HYP_CHOICE_PRIOR && info.seconds == 0);
    assert_string_equal(hyp_context_alternative(l.context, 0, 0, info.taken).name, "split 2");
    hyp_tune_report report = tune_in_mode(l.context, mode, HYP_BF16, M, K);
    assert_true(report.products == 2 && report.timed == 2); /* the product as a whole, and how the step is done */
    hyp_tuned choice = hyp_context_tuned(l.context, 1);
    assert_string_equal(choice.product, "linear bf16 17: 512-24, then layer-norm");
    assert_string_equal(choice.attributes, way);
    uint64_t before = runs_of(3);
    to.data = got[1];
    if (hyp_context_run(l.context, &from, 1, &to, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    info = hyp_context_choice(l.context, 0, 0);
    assert_true(info.by == HYP_CHOICE_TUNED && info.seconds == choice.seconds);
    assert_string_equal(hyp_context_alternative(l.context, 0, 0, info.taken).name, way);
    assert_int_equal(hyp_context_choice_count(l.context, 1), 0);
    for (int i = 0; i < M * N; i++)
        assert_true(fabs(hyp_load_f64(HYP_BF16, got[0], i) - hyp_load_f64(HYP_BF16, got[1], i)) <= 3e-2);
    unload(&l);
    pb_dispose(b);
    free(b);
    return runs_of(3) - before;
}

static void sums_are_split_as_was_measured(void **state)
{
    (void)state;
    assert_int_equal(tuned_sums("", "cublaslt"), 1); /* the third algorithm, which parts have not been tuned for */
    assert_int_equal(tuned_sums("level", "split 2"), 0);
}

/* Fails the n-th allocation for n = 1, 2, ... until everything works. */
static void tuning_without_memory_is_an_error_that_leaks_nothing(void **state)
{
    (void)state;
    forget_tuning();
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status != HYP_OK; n++) {
        assert_true(n < 10000);
        loaded l = load(HYP_DEVICE_CUDA);
        hyp_diag diag = {0};
        hyp_tensor x = {.dtype = HYP_F64, .rank = 2, .dims = {ROWS, WIDTH}};
        hyp_mem_fail_after(n);
        status = hyp_context_tune(l.context, &x, 1, NULL, NULL, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        unload(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_run_as_it_was_tuned),
        cmocka_unit_test(a_size_takes_what_was_tuned_for_the_next_larger_one),
        cmocka_unit_test(shapes_that_were_not_tuned_take_the_heuristic),
        cmocka_unit_test(a_plan_tuned_elsewhere_runs_and_says_so),
        cmocka_unit_test(an_algorithm_that_the_library_refuses_is_not_used),
        cmocka_unit_test(other_devices_do_not_care),
        cmocka_unit_test(a_description_tells_what_was_tuned),
        cmocka_unit_test(the_fastest_right_algorithm_is_taken),
        cmocka_unit_test(what_is_hardly_faster_does_not_replace_the_first),
        cmocka_unit_test(a_kernel_of_ours_follows_where_that_is_faster),
        cmocka_unit_test(a_saved_plan_runs_as_tuned_and_is_not_measured_again),
        cmocka_unit_test(a_context_runs_as_it_was_tuned_at_once),
        cmocka_unit_test(what_was_found_can_be_carried_to_another_context),
        cmocka_unit_test(every_kind_of_product_is_tuned_and_computes_the_same),
        cmocka_unit_test(layers_run_by_our_kernel_or_by_products_as_was_measured),
        cmocka_unit_test(layers_are_done_as_for_more_rows),
        cmocka_unit_test(sums_are_split_as_was_measured),
        cmocka_unit_test(what_makes_no_run_faster_is_not_used),
        cmocka_unit_test(without_time_products_stay_as_they_are),
        cmocka_unit_test(a_device_that_cannot_be_timed_is_an_error_and_the_context_stays_usable),
        cmocka_unit_test(the_reference_is_not_tuned),
        cmocka_unit_test(tuning_without_memory_is_an_error_that_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}
