/* What one context found by tuning is used by the others of its engine, while they run. Needs a GPU, or the emulator:
 * see device_start. Run under the thread sanitizer, too. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"

enum { WIDTH = 8, MOST = 24 };

static device dev;
static plan_builder builder; /* large */

/* y = relu(x w^T) in f64, which the library does in any case. */
static hyp_engine *load_layer(void)
{
    uint64_t seed = 3;
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), width = pb_const(&builder, WIDTH), shape[] = {batch, width};
    uint32_t x = pb_input(&builder, "x", HYP_F64, 2, shape), y = pb_output(&builder, "y", HYP_F64, 2, shape);
    uint32_t w = random_weight(&builder, &seed, HYP_F64, 2, (int64_t[]){WIDTH, WIDTH});
    pb_layer(&builder, pb_linear(&builder, x, y, batch), WIDTH, WIDTH, w, PB_NONE, ACT(RELU), PB_NONE);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    pb_dispose(&builder);
    return engine;
}

static hyp_context *make_context(hyp_engine *engine, int32_t priority)
{
    hyp_context *context;
    hyp_diag diag = {0};
    hyp_context_options options = {.size = sizeof options, .priority = priority};
    if (hyp_context_create(engine, &options, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    return context;
}

/* y for the first rows of the same x; every row of x is another. */
static hyp_status run(hyp_context *context, int64_t rows, double *y, hyp_diag *diag)
{
    double x[MOST * WIDTH];
    for (int i = 0; i < MOST * WIDTH; i++) x[i] = (double)(i % 37 - 18) / 16;
    hyp_tensor in = {.data = x, .bytes = sizeof x, .dtype = HYP_F64, .rank = 2, .dims = {rows, WIDTH}};
    hyp_tensor out = {.data = y, .bytes = MOST * WIDTH * sizeof *y, .dtype = HYP_F64};
    return hyp_context_run(context, &in, 1, &out, 1, diag);
}

static void must_run(hyp_context *context, int64_t rows, hyp_step_tuning want)
{
    double y[MOST * WIDTH];
    hyp_diag diag = {0};
    if (run(context, rows, y, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(hyp_context_step_tuning(context, 0), want);
}

static hyp_status tune(hyp_context *context, int64_t rows, hyp_diag *diag)
{
    hyp_tune_options options = {.size = sizeof options, .seconds = 5};
    hyp_tensor x = {.dtype = HYP_F64, .rank = 2, .dims = {rows, WIDTH}};
    return hyp_context_tune(context, &x, 1, &options, NULL, diag);
}

static bool adopt(hyp_context *context)
{
    bool is_new;
    hyp_diag diag = {0};
    if (hyp_context_adopt_tuning(context, &is_new, &diag) != HYP_OK) fail_msg("%s", diag.message);
    return is_new;
}

static void what_is_shared_reaches_contexts_when_they_adopt_it(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_engine *engine = load_layer();
    hyp_context *serving = make_context(engine, -1), *tuner = make_context(engine, 0);
    must_run(serving, 3, HYP_STEP_NOT_TUNED);
    assert_int_equal(tune(tuner, 3, &diag), HYP_OK);
    assert_false(adopt(serving)); /* nothing was shared */
    assert_int_equal(hyp_context_share_tuning(tuner, &diag), HYP_OK);
    must_run(serving, 3, HYP_STEP_NOT_TUNED);
    assert_true(adopt(serving));
    must_run(serving, 3, HYP_STEP_TUNED);
    assert_false(adopt(serving));
    assert_int_equal(hyp_context_share_tuning(tuner, &diag), HYP_OK); /* nothing new */
    assert_false(adopt(serving));

    /* A new context has it at once. So have shapes that are prepared anew; those of before wait. */
    hyp_context *later = make_context(engine, 0);
    must_run(later, 3, HYP_STEP_TUNED);
    must_run(later, 7, HYP_STEP_NOT_TUNED);
    assert_int_equal(tune(tuner, 7, &diag), HYP_OK);
    assert_int_equal(tune(tuner, 17, &diag), HYP_OK);
    assert_int_equal(hyp_context_share_tuning(tuner, &diag), HYP_OK);
    must_run(later, 7, HYP_STEP_NOT_TUNED);
    must_run(later, 17, HYP_STEP_TUNED);
    must_run(later, 7, HYP_STEP_NOT_TUNED);
    assert_true(adopt(later));
    must_run(later, 7, HYP_STEP_TUNED);
    assert_int_equal(hyp_context_tuned_count(later), 3);
    hyp_context_destroy(tuner); /* what it shared stays */
    assert_true(adopt(serving));
    must_run(serving, 7, HYP_STEP_TUNED);
    hyp_context_destroy(serving);
    hyp_context_destroy(later);
    hyp_engine_destroy(engine);
}

static void sharing_is_for_what_can_be_tuned(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_context *context;
    uint64_t seed = 3;
    pb_init(&builder);
    uint32_t one = pb_const(&builder, 1);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, (uint32_t[]){one, one});
    uint32_t y = pb_output(&builder, "y", HYP_F32, 2, (uint32_t[]){one, one});
    uint32_t w = random_weight(&builder, &seed, HYP_F32, 2, (int64_t[]){1, 1});
    pb_layer(&builder, pb_linear(&builder, x, y, one), 1, 1, w, PB_NONE, ACT(NONE), PB_NONE);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_REFERENCE);
    pb_dispose(&builder);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    assert_int_equal(hyp_context_share_tuning(context, &diag), HYP_ERR_UNSUPPORTED);
    assert_int_equal(hyp_context_adopt_tuning(context, NULL, &diag), HYP_ERR_UNSUPPORTED);
    assert_int_equal(hyp_context_step_tuning(context, 0), HYP_STEP_NOT_TUNED);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

/* Fails the n-th allocation for n = 1, 2, ... until everything works. */
static void memory_that_runs_out_leaves_contexts_as_they_were(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_engine *engine = load_layer();
    hyp_context *serving = make_context(engine, 0), *tuner = make_context(engine, 0);
    must_run(serving, 3, HYP_STEP_NOT_TUNED);
    must_run(serving, 5, HYP_STEP_NOT_TUNED);
    assert_int_equal(tune(tuner, 3, &diag), HYP_OK);
    assert_int_equal(tune(tuner, 5, &diag), HYP_OK);
    for (int adopts = 0; adopts < 2; adopts++) {
        hyp_status status = HYP_ERR_NO_MEMORY;
        for (uint64_t n = 1; status != HYP_OK; n++) {
            assert_true(n < 1000);
            hyp_mem_fail_after(n);
            status = adopts ? hyp_context_adopt_tuning(serving, NULL, &diag) : hyp_context_share_tuning(tuner, &diag);
            hyp_mem_fail_after(0);
            if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
            double y[MOST * WIDTH];
            assert_int_equal(run(serving, 3, y, &diag), HYP_OK);
            assert_int_equal(run(serving, 5, y, &diag), HYP_OK);
        }
    }
    must_run(serving, 3, HYP_STEP_TUNED);
    must_run(serving, 5, HYP_STEP_TUNED);
    hyp_context_destroy(serving);
    hyp_context_destroy(tuner);
    hyp_engine_destroy(engine);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

enum { SERVERS = 3, TUNERS = 2, SIZES = 4 };

typedef struct worker {
    hyp_engine *engine;
    const double *wanted; /* of all rows */
    int number;
    int failures;
    size_t known; /* in the end */
} worker;
static atomic_int tuners_left;

static void *serve(void *data)
{
    worker *w = data;
    hyp_diag diag = {0};
    hyp_context *context;
    double y[MOST * WIDTH];
    hyp_context_options options = {.size = sizeof options, .priority = -1};
    if (hyp_context_create(w->engine, &options, &context, &diag) != HYP_OK) return w->failures = 1, NULL;
    for (int i = 0, last = 0; !last; i++) {
        last = atomic_load(&tuners_left) == 0; /* once more after the end */
        int64_t rows = 1 + (i + 5 * w->number) % MOST;
        w->failures += run(context, rows, y, &diag) != HYP_OK;
        for (int64_t e = 0; e < rows * WIDTH; e++) {
            double off = y[e] - w->wanted[e];
            w->failures += !(off <= 1e-12 && off >= -1e-12);
        }
        if (i % 4 == 0 || last) w->failures += hyp_context_adopt_tuning(context, NULL, &diag) != HYP_OK;
    }
    w->known = hyp_context_tuned_count(context);
    hyp_context_destroy(context);
    return NULL;
}

static void *tune_beside(void *data)
{
    worker *w = data;
    hyp_diag diag = {0};
    hyp_context *context;
    w->failures = hyp_context_create(w->engine, NULL, &context, &diag) != HYP_OK;
    for (int i = 0; i < SIZES && w->failures == 0; i++) {
        w->failures += tune(context, 2 + 3 * i + w->number, &diag) != HYP_OK;
        w->failures += hyp_context_share_tuning(context, &diag) != HYP_OK;
    }
    if (w->failures == 0) hyp_context_destroy(context);
    atomic_fetch_sub(&tuners_left, 1);
    return NULL;
}

static void contexts_serve_while_others_tune(void **state)
{
    (void)state;
    worker workers[SERVERS + TUNERS] = {{0}};
    pthread_t threads[SERVERS + TUNERS];
    double wanted[MOST * WIDTH];
    hyp_diag diag = {0};
    hyp_engine *engine = load_layer();
    hyp_context *first = make_context(engine, 0);
    assert_int_equal(run(first, MOST, wanted, &diag), HYP_OK);
    atomic_store(&tuners_left, TUNERS);
    for (int i = 0; i < SERVERS + TUNERS; i++) {
        workers[i] = (worker){.engine = engine, .wanted = wanted, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, i < SERVERS ? serve : tune_beside, &workers[i]), 0);
    }
    for (int i = 0; i < SERVERS + TUNERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < SERVERS + TUNERS; i++) assert_int_equal(workers[i].failures, 0);
    for (int i = 0; i < SERVERS; i++) assert_int_equal(workers[i].known, TUNERS * SIZES);
    assert_true(adopt(first));
    assert_int_equal(hyp_context_tuned_count(first), TUNERS * SIZES);
    must_run(first, 2 + SERVERS, HYP_STEP_TUNED); /* the first size of the first tuner */
    hyp_context_destroy(first);
    hyp_engine_destroy(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shared_reaches_contexts_when_they_adopt_it),
        cmocka_unit_test(sharing_is_for_what_can_be_tuned),
        cmocka_unit_test(memory_that_runs_out_leaves_contexts_as_they_were),
        cmocka_unit_test(contexts_serve_while_others_tune),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
