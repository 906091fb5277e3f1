/* Contexts of one engine in several threads at once: same results as alone. Run under the thread sanitizer, too. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/networks.h"

/* oneDNN is not built with the sanitizer, so the locks of its primitive cache are not seen. Nothing of ours is hushed.
 */
const char *__tsan_default_suppressions(void);
HYP_API const char *__tsan_default_suppressions(void) { return "race:libdnnl.so\n"; }

enum { THREADS = 4, RUNS = 40, MOST = 24 };

static plan_builder b;

typedef struct worker {
    pthread_t thread;
    hyp_engine *engine;
    uint64_t seed;
    float sum; /* over all results */
    const char *error;
} worker;

static void *work(void *opaque)
{
    worker *w = opaque;
    hyp_context *context = NULL;
    hyp_diag diag = {0};
    rng r = {w->seed};
    static _Thread_local float x[MOST * 20], y[MOST * 10], square[100];
    if (hyp_context_create(w->engine, NULL, &context, &diag) != HYP_OK) w->error = "context";
    for (int i = 0; i < RUNS && !w->error; i++) {
        int64_t batch = 1 + (int64_t)rng_below(&r, MOST);
        rng_fill(&r, HYP_F32, x, (size_t)batch * 20);
        hyp_tensor in = tensor_of("x", HYP_F32, x, 2, (int64_t[]){batch, 20});
        hyp_tensor out[2] = {{.name = "y", .data = y, .bytes = sizeof y, .dtype = HYP_F32},
                             {.name = "square", .data = square, .bytes = sizeof square, .dtype = HYP_F32}};
        if (hyp_context_run(context, &in, 1, out, 2, &diag) != HYP_OK) w->error = "run";
        for (int64_t j = 0; j < batch * 10; j++) w->sum += y[j] * (float)(j % 7);
        for (int j = 0; j < 100; j++) w->sum += square[j];
    }
    hyp_context_destroy(context);
    return NULL;
}

static void contexts_do_not_meet(hyp_device_kind device, int64_t width)
{
    build_network(&b, width, true);
    hyp_engine *engine = pb_load(&b, device);
    worker together[THREADS], alone[THREADS];
    memset(together, 0, sizeof together);
    memset(alone, 0, sizeof alone);
    for (int i = 0; i < THREADS; i++) {
        together[i].engine = alone[i].engine = engine;
        together[i].seed = alone[i].seed = (uint64_t)i + 1;
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&together[i].thread, NULL, work, &together[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(together[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        work(&alone[i]);
        assert_null(together[i].error);
        assert_null(alone[i].error);
        assert_true(together[i].sum == alone[i].sum);
    }
    hyp_engine_destroy(engine);
    pb_dispose(&b);
}

static void reference_contexts_run_in_parallel(void **state)
{
    (void)state;
    contexts_do_not_meet(HYP_DEVICE_REFERENCE, 17);
}

static void cpu_contexts_run_in_parallel(void **state)
{
    (void)state;
    contexts_do_not_meet(HYP_DEVICE_CPU, 50);
}

static void cpu_contexts_share_packed_weights(void **state)
{
    (void)state;
    contexts_do_not_meet(HYP_DEVICE_CPU, 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_contexts_run_in_parallel),
        cmocka_unit_test(cpu_contexts_run_in_parallel),
        cmocka_unit_test(cpu_contexts_share_packed_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
