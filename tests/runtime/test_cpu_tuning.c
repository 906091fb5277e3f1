/* Tuning on the CPU: what is measured, known, found elsewhere and shared; that results stay; that failures leak nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/support.h"

enum { ROWS = 8, WIDTH = 24, ENOUGH = 1000000 /* seconds: rounds end the tuning, however slow the machine is */ };

static plan_builder b;
static rng r;
static float input[ROWS * WIDTH];

static uint32_t weight(void)
{
    float data[WIDTH * WIDTH];
    rng_fill(&r, HYP_F32, data, WIDTH * WIDTH);
    return pb_weight(&b, HYP_F32, 2, (int64_t[]){WIDTH, WIDTH}, data);
}

/* Two equal layers, the second onto its own input's slot, a product of what comes out with the input, a third layer. */
static void build(void)
{
    r.state = 5;
    pb_init(&b);
    uint32_t m = pb_symbol(&b, "batch"), n = pb_const(&b, WIDTH), dims[] = {m, n};
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, dims);
    uint32_t h = pb_scratch(&b, HYP_F32, 0, 2, dims), g = pb_scratch(&b, HYP_F32, 1, 2, dims);
    pb_layer(&b, pb_linear(&b, x, h, m), WIDTH, WIDTH, weight(), PB_NONE, HYP_PLAN__ACT__ACT_RELU, PB_NONE);
    pb_layer(&b, pb_linear(&b, h, g, m), WIDTH, WIDTH, weight(), PB_NONE, HYP_PLAN__ACT__ACT_RELU, PB_NONE);
    uint32_t sum = pb_scratch(&b, HYP_F32, 0, 2, dims); /* in the place of h, which it adds */
    HypPlan__Linear *adds = pb_linear(&b, g, sum, m);
    pb_layer(&b, adds, WIDTH, WIDTH, weight(), PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    adds->added_plus1 = h + 1;
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){m, m});
    HypPlan__Matmul *product = pb_matmul(&b);
    product->a = sum, product->b = x, product->y = y;
    product->m = m, product->n = m, product->k = n;
    product->trans_b = true;
    product->alpha = 1;
    for (size_t i = 0; i < ROWS * WIDTH; i++) input[i] = (float)rng_float(&r);
}

static hyp_tensor x_of(int64_t rows) { return tensor_of("x", HYP_F32, input, 2, (int64_t[]){rows, WIDTH}); }

static void must_run(hyp_context *context, int64_t rows, float *out)
{
    hyp_tensor x = x_of(rows), y = tensor_of("y", HYP_F32, out, 2, (int64_t[]){rows, rows});
    assert_ok(hyp_context_run(context, &x, 1, &y, 1, diag));
}

static hyp_engine *load(hyp_device_kind device, hyp_context **out)
{
    build();
    hyp_engine *engine = pb_load(&b, device);
    pb_dispose(&b);
    assert_ok(hyp_context_create(engine, NULL, out, diag));
    return engine;
}

static void unload(hyp_engine *engine, hyp_context *context)
{
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

typedef struct told {
    size_t calls, total;
    const char *find; /* what is found of every product; NULL: nothing */
} told;

static void note_progress(size_t done, size_t total, const char *product, void *user)
{
    told *t = user;
    assert_int_equal(done, t->calls++);
    assert_true(done < total ? *product != 0 : *product == 0);
    t->total = total;
}

static bool find(const char *product, hyp_tuned *out, void *user)
{
    told *t = user;
    (void)product;
    if (!t->find) return false;
    assert_int_equal(out->size, sizeof *out);
    out->algorithm = t->find, out->algorithm_bytes = strlen(t->find), out->seconds = 1e-6, out->first_seconds = 2e-6;
    return true;
}

static hyp_tune_report tune(hyp_context *context, int64_t rows, double seconds, told *t)
{
    hyp_tensor x = x_of(rows);
    hyp_tune_report report = {.size = sizeof report};
    hyp_tune_options options = {.size = sizeof options,
                                .seconds = seconds,
                                .progress = note_progress,
                                .progress_user = t,
                                .find = find,
                                .find_user = t};
    t->calls = 0;
    assert_ok(hyp_context_tune(context, &x, 1, &options, &report, diag));
    assert_int_equal(t->calls, t->total + 1);
    assert_int_equal(t->total, report.products);
    return report;
}

static void what_is_measured_is_used_and_results_stay(void **state)
{
    (void)state;
    hyp_context *context;
    told t = {0};
    float before[ROWS * ROWS], after[ROWS * ROWS];
    hyp_engine *engine = load(HYP_DEVICE_CPU, &context);
    must_run(context, ROWS, before);
    assert_int_equal(hyp_context_step_tuning(context, 0), HYP_STEP_NOT_TUNED);
    hyp_tune_report report = tune(context, ROWS, ENOUGH, &t);
    assert_in_range(report.products, 2, 3); /* the first two steps are one; the product has one form without oneDNN */
    assert_int_equal(report.timed, report.products);
    assert_int_equal(report.known, 0);
    assert_int_equal(hyp_context_tuned_count(context), report.timed);
    assert_true(report.seconds > 0 && report.seconds <= report.first_seconds);
    must_run(context, ROWS, after);
    assert_close(after, before, ROWS * ROWS, 1e-4);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(hyp_context_step_tuning(context, i), HYP_STEP_TUNED);
        hyp_choice_info c = hyp_context_choice(context, i, 0);
        assert_int_equal(c.by, HYP_CHOICE_TUNED);
        assert_true(c.seconds > 0);
        assert_null(hyp_context_alternative(context, i, 0, c.taken).cannot);
    }
    assert_int_equal(hyp_context_choice_count(context, 3), 1);
    assert_int_equal(hyp_context_choice_count(context, 4), 0);
    assert_string_equal(hyp_context_choice(context, 4, 0).key, "");
    assert_string_equal(hyp_context_alternative(context, 0, 0, 99).name, "");
    report = tune(context, ROWS, ENOUGH, &t);
    assert_int_equal(report.known, report.products);
    assert_int_equal(report.timed, 0);
    unload(engine, context);
}

static void without_time_nothing_is_measured(void **state)
{
    (void)state;
    hyp_context *context;
    told t = {0};
    hyp_engine *engine = load(HYP_DEVICE_CPU, &context);
    hyp_tune_report report = tune(context, ROWS, 1e-12, &t);
    assert_true(report.products >= 2 && report.timed == 0 && report.known == 0);
    unload(engine, context);
}

/* What another form computes is the same, whoever says that it is the fastest; a plan keeps it, and contexts share it. */
static void what_was_found_elsewhere_is_taken(void **state)
{
    (void)state;
    hyp_context *context, *other;
    told t = {.find = "plain loops"};
    float want[ROWS * ROWS], got[ROWS * ROWS];
    bool is_new;
    hyp_engine *engine = load(HYP_DEVICE_CPU, &context);
    assert_ok(hyp_context_create(engine, NULL, &other, diag));
    must_run(other, ROWS, want);
    hyp_tune_report report = tune(context, ROWS, ENOUGH, &t);
    assert_int_equal(report.known, report.products);
    must_run(context, ROWS, got);
    assert_close(got, want, ROWS * ROWS, 1e-4);
    assert_string_equal(hyp_context_alternative(context, 0, 0, hyp_context_choice(context, 0, 0).taken).name, "plain loops");
    must_run(context, ROWS - 1, got);
    assert_int_equal(hyp_context_choice(context, 0, 0).by, HYP_CHOICE_BORROWED);
    assert_int_equal(hyp_context_step_tuning(context, 0), HYP_STEP_BORROWED);
    must_run(context, 1, got);
    assert_int_equal(hyp_context_choice(context, 0, 0).by, HYP_CHOICE_PRIOR);
    assert_ok(hyp_context_share_tuning(context, diag));
    assert_ok(hyp_context_adopt_tuning(other, &is_new, diag));
    assert_true(is_new);
    assert_int_equal(hyp_context_choice(other, 0, 0).by, HYP_CHOICE_TUNED);

    char path[] = "/tmp/hypatia-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(hyp_context_save_plan(context, path, diag));
    hyp_context_destroy(other);
    unload(engine, context);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = 1};
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    unlink(path);
    must_run(context, ROWS, got);
    assert_close(got, want, ROWS * ROWS, 1e-4);
    assert_int_equal(hyp_context_choice(context, 0, 0).by, HYP_CHOICE_TUNED);
    unload(engine, context);
}

/* Fails the n-th allocation for n = 1, 2, ... until everything works. */
static void memory_that_runs_out_is_an_error_that_leaks_nothing(void **state)
{
    (void)state;
    hyp_context *context;
    hyp_status status = HYP_ERR_NO_MEMORY;
    hyp_tensor x = x_of(ROWS);
    hyp_engine *engine = load(HYP_DEVICE_CPU, &context);
    for (uint64_t n = 1; status != HYP_OK; n++) {
        hyp_tune_options options = {.size = sizeof options, .seconds = 1e-2};
        hyp_context *fresh;
        assert_ok(hyp_context_create(engine, NULL, &fresh, diag));
        hyp_mem_fail_after(n);
        status = hyp_context_tune(fresh, &x, 1, &options, NULL, NULL);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        hyp_context_destroy(fresh);
    }
    unload(engine, context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_measured_is_used_and_results_stay),
        cmocka_unit_test(without_time_nothing_is_measured),
        cmocka_unit_test(what_was_found_elsewhere_is_taken),
        cmocka_unit_test(memory_that_runs_out_is_an_error_that_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
