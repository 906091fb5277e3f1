/* Copies to the device outside of runs: tensors of several sizes, by more threads than there are pieces of page-locked memory for, and
 * what becomes of them where the driver gives none, or fails. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/plan_builder.h"

enum { THREADS = 11, MOST = (3 << 20) + 5, MIXING = 251 };
static const size_t sizes[] = {1, 1000, 256 << 10, 1 << 20, (1 << 20) + 1, MOST};

static plan_builder builder; /* large */
static char path[PB_PATH];
static hyp_engine *engine;
static bool (*emulator_fail)(const char *call, int result, int n);

static int load(void **state)
{
    (void)state;
    pb_init(&builder);
    uint32_t shape[] = {pb_const(&builder, 4), pb_const(&builder, 1)};
    uint32_t x = pb_input(&builder, "x", HYP_F32, 1, shape), y = pb_output(&builder, "y", HYP_F32, 1, shape);
    HypPlan__Pointwise *neg = pb_pointwise(&builder, HYP_F32, 1, shape);
    pb_operand(&builder, neg, x, shape + 1);
    pb_result(&builder, neg, y, pb_instr(&builder, neg, HYP_PLAN__POINTWISE__OP__NEG, 0, 0, 0, 0, HYP_F32));
    pb_write(&builder, path);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_diag diag = {0};
    if (!emulator_function("emulator_fail", &emulator_fail)) return -1;
    hyp_status status = hyp_engine_load_file(path, &options, &engine, &diag);
    if (status != HYP_OK) print_message("%s\n", diag.message);
    return status == HYP_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    hyp_engine_destroy(engine);
    pb_remove(&builder, path);
    return 0;
}

/* There and back; NULL where it is what it was. */
static const char *copy(size_t bytes, size_t seed, hyp_diag *diag)
{
    hyp_tensor there = {.bytes = bytes}, from = {.bytes = bytes}, back = {.bytes = bytes};
    unsigned char *a = malloc(bytes), *b = calloc(bytes, 1);
    const char *wrong = a && b ? NULL : "no memory";
    if (!wrong && hyp_engine_tensor_alloc(engine, &there, diag) != HYP_OK) wrong = diag->message;
    for (size_t i = 0; !wrong && i < bytes; i++) a[i] = (unsigned char)((i + seed) % MIXING);
    from.data = a;
    back.data = b;
    if (!wrong && hyp_engine_tensor_copy(engine, &from, &there, diag) != HYP_OK) wrong = diag->message;
    if (!wrong && hyp_engine_tensor_copy(engine, &there, &back, diag) != HYP_OK) wrong = diag->message;
    if (!wrong && memcmp(a, b, bytes) != 0) wrong = "other bytes";
    hyp_engine_tensor_free(engine, &there);
    free(a);
    free(b);
    return wrong;
}

static void *work(void *user)
{
    hyp_diag diag = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *wrong = copy(sizes[i], (size_t)(uintptr_t)user + i, &diag);
        if (wrong) return strdup(wrong);
    }
    return NULL;
}

static void many_threads_copy_at_once(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (size_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(17 * i)), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        if (wrong) fail_msg("thread %zu: %s", i, (char *)wrong);
    }
}

/* While no piece has been made yet. */
static void without_pages_tensors_go_as_they_lie(void **state)
{
    hyp_diag diag = {0};
    (void)state;
    emulator_fail("cuMemHostAlloc", 2 /* out of memory */, 1);
    const char *wrong = copy(MOST, 1, &diag);
    assert_false(emulator_fail("cuMemHostAlloc", 0, 0)); /* it has come */
    if (wrong) fail_msg("%s", wrong);
}

static void a_copy_that_fails_says_so(void **state)
{
    static const char *const calls[] = {"cuMemcpyHtoDAsync", "cuEventRecord", "cuEventSynchronize"};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (int n = 1; n <= 20; n++) { /* more often than there are pieces: none is lost */
            hyp_diag diag = {0};
            emulator_fail(calls[i], 801 /* not supported */, 1);
            const char *wrong = copy(MOST, i, &diag);
            assert_false(emulator_fail(calls[i], 0, 0));
            assert_non_null(wrong);
            assert_int_equal(diag.status, HYP_ERR_DEVICE);
        }
    hyp_diag diag = {0};
    assert_null(copy(MOST, 3, &diag));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_pages_tensors_go_as_they_lie),
        cmocka_unit_test(many_threads_copy_at_once),
        cmocka_unit_test(a_copy_that_fails_says_so),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
