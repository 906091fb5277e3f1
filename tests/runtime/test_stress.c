/* Runs of eight threads on one engine whose weights are replaced meanwhile, and which is itself replaced by newly
 * loaded ones: every result is that of one version of the weights, and memory does not grow. HYPATIA_STRESS_RUNS says
 * how many runs, for all threads together, on each device: 4,000 unless it does. On a CUDA device, too, where there is
 * one, or the emulator.
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "runtime/updatable.h"
#include "support/count.h"

enum { THREADS = 8, VERSIONS = 2, SIZES = 4, RUNS = 4000, LIVES = 40 /* runs of a context */ };
enum { STEADY = 20 /* runs of a thread between its updates */, RELOAD = 5 /* updates of an engine */ };
static const int64_t sizes[SIZES] = {1, 3, 17, UP_MOST_ROWS};

static up_plan plan;
static up_version versions[VERSIONS];
static float expected[VERSIONS][SIZES][UP_MOST_ROWS * UP_OUT];
static char path[PB_PATH];

/* What the threads run. Contexts are made under the lock, so that nobody destroys the engine meanwhile. */
typedef struct shared {
    hyp_device_kind device;
    pthread_mutex_t lock;
    hyp_engine *engine;
    atomic_long left; /* runs */
    atomic_size_t seen[VERSIONS], wrong, failed, running, updates;
} shared;

static hyp_engine *load(hyp_device_kind device)
{
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    hyp_engine *engine = NULL;
    return hyp_engine_load_file(path, &options, &engine, NULL) == HYP_OK ? engine : NULL;
}

static bool put(hyp_engine *engine, int version)
{
    hyp_tensor tensors[UP_WEIGHTS];
    up_tensors(&versions[version], tensors);
    return hyp_engine_update(engine, tensors, UP_WEIGHTS, NULL) == HYP_OK;
}

/* Which version the result is of; VERSIONS: none. */
static int version_of(const float *y, int size)
{
    int v = 0;
    while (v < VERSIONS && memcmp(y, expected[v][size], (size_t)(sizes[size] * UP_OUT) * sizeof *y) != 0) v++;
    return v;
}

static void run_and_judge(shared *s, hyp_context *context, int size)
{
    float y[UP_MOST_ROWS * UP_OUT];
    if (up_run(context, sizes[size], y, NULL) != HYP_OK) {
        atomic_fetch_add(&s->failed, 1);
        return;
    }
    int v = version_of(y, size);
    atomic_fetch_add(v < VERSIONS ? &s->seen[v] : &s->wrong, 1);
}

/* Versions take turns, whoever replaces them. */
static void replace(shared *s)
{
    pthread_mutex_lock(&s->lock);
    int version = (int)(atomic_fetch_add(&s->updates, 1) % VERSIONS);
    if (!s->engine || !put(s->engine, version)) atomic_fetch_add(&s->failed, 1);
    pthread_mutex_unlock(&s->lock);
}

static void *serve(void *opaque)
{
    shared *s = opaque;
    for (long run = 0; atomic_fetch_sub(&s->left, LIVES) > 0;) {
        const hyp_tensor bucket = {.rank = 1, .dims = {4}};
        const hyp_context_options options = {
            .size = sizeof options, .buckets = &bucket, .bucket_count = run / LIVES % 2}; /* every other one rounds */
        hyp_context *context = NULL;
        pthread_mutex_lock(&s->lock);
        hyp_status status = s->engine ? hyp_context_create(s->engine, &options, &context, NULL) : HYP_ERR_NO_MEMORY;
        pthread_mutex_unlock(&s->lock);
        if (status != HYP_OK) atomic_fetch_add(&s->failed, 1);
        for (int i = 0; i < LIVES && status == HYP_OK; i++, run++) {
            if (run % STEADY == 0) replace(s);
            run_and_judge(s, context, (int)((run + i / 7) % SIZES));
        }
        hyp_context_destroy(context);
    }
    atomic_fetch_sub(&s->running, 1);
    return NULL;
}

/* Loads the engine anew as long as anybody runs; the new one has the weights that its plan has. */
static size_t reload(shared *s)
{
    size_t reloads = 0;
    for (; atomic_load(&s->running) > 0; reloads++) {
        hyp_engine *fresh = load(s->device);
        pthread_mutex_lock(&s->lock);
        hyp_engine *before = s->engine;
        s->engine = fresh;
        pthread_mutex_unlock(&s->lock);
        hyp_engine_destroy(before);
        for (size_t now = atomic_load(&s->updates);
             atomic_load(&s->running) > 0 && atomic_load(&s->updates) < now + RELOAD;)
            sched_yield();
    }
    return reloads;
}

static void stress(hyp_device_kind device, long runs)
{
    shared s = {.device = device, .engine = load(device)};
    pthread_t threads[THREADS];
    pthread_mutex_init(&s.lock, NULL);
    atomic_init(&s.left, runs);
    atomic_init(&s.running, THREADS);
    assert_non_null(s.engine);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, serve, &s), 0);
    size_t reloads = reload(&s);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    hyp_engine_destroy(s.engine);
    pthread_mutex_destroy(&s.lock);
    print_message("device %d: %zu and %zu runs with either weights, %zu updates, %zu engines, %zu wrong, %zu failed\n",
                  (int)device, (size_t)s.seen[0], (size_t)s.seen[1], (size_t)s.updates, reloads, (size_t)s.wrong,
                  (size_t)s.failed);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(s.failed, 0);
    assert_true(s.seen[0] > 0 && s.seen[1] > 0 && s.seen[0] + s.seen[1] >= (size_t)runs);
}

/* Bytes that the program has from the system's allocator; 0: nobody tells. */
static size_t allocated(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33) && !defined(__SANITIZE_ADDRESS__) && !THREADS_WATCHED
    struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
#else
    return 0;
#endif
}

static void stress_twice(hyp_device_kind device, long runs)
{
    stress(device, runs); /* what libraries keep they keep from now on */
    size_t before = allocated();
    stress(device, runs);
    size_t after = allocated();
    if (!before) print_message("this allocator does not tell what it has given\n");
    print_message("device %d: %zu bytes before, %zu after\n", (int)device, before, after);
    assert_true(after < before + (256 << 10));
}

static void reference(void **state)
{
    (void)state;
    stress_twice(HYP_DEVICE_REFERENCE, (long)test_count("HYPATIA_STRESS_RUNS", RUNS) / 4);
}

static void cpu(void **state)
{
    (void)state;
    stress_twice(HYP_DEVICE_CPU, (long)test_count("HYPATIA_STRESS_RUNS", RUNS));
}

static void cuda(void **state)
{
    (void)state;
    hyp_engine *engine = load(HYP_DEVICE_CUDA);
    if (!engine) {
        print_message("skipped: there is no CUDA device\n");
        skip();
    }
    hyp_engine_destroy(engine);
    stress_twice(HYP_DEVICE_CUDA, (long)test_count("HYPATIA_STRESS_RUNS", RUNS / 8));
}

static int start(void **state)
{
    (void)state;
    for (int v = 0; v < VERSIONS; v++) {
        up_draw((uint64_t)v + 1, &versions[v]);
        for (int s = 0; s < SIZES; s++) up_expect(&versions[v], sizes[s], expected[v][s]);
    }
    up_build(&plan, &versions[0], 0);
    static char nothing[] = "", *padding[] = {nothing};
    plan.outer.program.padding = padding;
    plan.outer.program.n_padding = 1;
    pb_write(&plan.outer, path);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pb_remove(&plan.outer, path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference),
        cmocka_unit_test(cpu),
        cmocka_unit_test(cuda),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
