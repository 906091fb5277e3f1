/* The pool of threads: every part once, nobody waits for who has not begun, callers beside each other, a pool of the
 * caller's, children of fork. Run under the thread sanitizer, too. */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/core/processors.h"
#include "runtime/core/thread_pool.h"
#include "runtime/networks.h"

const char *__tsan_default_suppressions(void);
HYP_API const char *__tsan_default_suppressions(void) { return "race:libdnnl.so\n"; }

static hyp_pool *open_pool(int threads)
{
    const hyp_engine_options options = {.size = sizeof options, .threads = threads};
    hyp_pool *pool = NULL;
    int32_t found = 0;
    assert_ok(hyp_pool_open(&options, &pool, &found, diag));
    assert_int_equal(found, threads);
    hyp_pool_expect(pool, threads);
    return pool;
}

static int count_threads(void)
{
    int count = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks)) count++;
    if (tasks) closedir(tasks);
    return count;
}

/* ---- loops ----------------------------------------------------------------------------------------------------- */

enum { MOST_COUNT = 300, MOST_THREADS = 7 };

typedef struct counted {
    atomic_int times[MOST_COUNT];    /* that an element was done */
    atomic_bool at_it[MOST_THREADS]; /* a part with this number is being done */
    int threads;
    atomic_bool wrong;
} counted;

static void count_part(void *state, int64_t begin, int64_t end, int thread)
{
    counted *c = state;
    if (thread < 0 || thread >= c->threads || begin >= end || atomic_exchange(&c->at_it[thread], true)) {
        atomic_store(&c->wrong, true);
        return;
    }
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->times[i], 1);
    atomic_store(&c->at_it[thread], false);
}

static void do_counted_loop(hyp_pool *pool, int threads, int count, int grain)
{
    counted c = {.threads = threads < count ? threads : count};
    hyp_pool_run(pool, threads, count, grain, count_part, &c);
    assert_false(atomic_load(&c.wrong));
    for (int i = 0; i < count; i++) assert_int_equal(atomic_load(&c.times[i]), 1);
}

static void every_element_is_done_once(void **state)
{
    (void)state;
    hyp_pool *pool = open_pool(MOST_THREADS);
    rng r = {1};
    for (int i = 0; i < 3000; i++)
        do_counted_loop(pool, 1 + (int)rng_below(&r, MOST_THREADS), (int)rng_below(&r, MOST_COUNT),
                        1 + (int)rng_below(&r, 20));
    hyp_pool_close(pool);
}

/* A thread that has just begun must hear of it, too. */
static void a_pool_may_close_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        hyp_pool *pool = open_pool(2);
        for (int k = 0; k < i % 50; k++) sched_yield();
        hyp_pool_close(pool);
    }
}

static void *loop_often(void *pool)
{
    for (int i = 0; i < 500; i++) do_counted_loop(pool, MOST_THREADS, 1 + i % MOST_COUNT, 1);
    return NULL;
}

static void callers_share_the_threads(void **state)
{
    (void)state;
    enum { CALLERS = 6 };
    const int before = count_threads(); /* this one, and one that a sanitizer or an emulator has */
    hyp_pool *pool = open_pool(MOST_THREADS);
    for (int i = 0; i < CALLERS; i++) hyp_pool_expect(pool, MOST_THREADS);
    int most = hyp_processors() > MOST_THREADS ? hyp_processors() : MOST_THREADS;
    assert_true(count_threads() < before + most);
    pthread_t callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_create(&callers[i], NULL, loop_often, pool), 0);
    for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
    hyp_pool_close(pool);
    for (int i = 0; i < 1000 && count_threads() > before; i++) usleep(1000); /* one that was joined is listed a while */
    assert_true(count_threads() <= before); /* who closes a pool waits for its threads */
}

typedef struct held {
    pthread_t thread;
    hyp_pool *pool;
    sem_t begun, release;
    atomic_int parts;
} held;

static void hold_part(void *state, int64_t begin, int64_t end, int thread)
{
    held *h = state;
    (void)begin, (void)end, (void)thread;
    if (atomic_fetch_add(&h->parts, 1) >= 2) return;
    sem_post(&h->begun);
    sem_wait(&h->release);
}

static void *hold_two_threads(void *opaque)
{
    held *h = opaque;
    hyp_pool_run(h->pool, 2, 2, 1, hold_part, h);
    return NULL;
}

static void nobody_waits_for_who_has_not_begun(void **state)
{
    (void)state;
    held h = {.pool = open_pool(2)};
    sem_init(&h.begun, 0, 0);
    sem_init(&h.release, 0, 0);
    pthread_create(&h.thread, NULL, hold_two_threads, &h);
    sem_wait(&h.begun);
    sem_wait(&h.begun); /* the pool's thread has a part, too, and will not end it before this loop has ended */
    do_counted_loop(h.pool, 2, MOST_COUNT, 1);
    assert_int_equal(atomic_load(&h.parts), 2);
    sem_post(&h.release);
    sem_post(&h.release);
    pthread_join(h.thread, NULL);
    hyp_pool_close(h.pool);
}

typedef struct single {
    int64_t begin, end;
    int calls;
} single;

static void note_part(void *state, int64_t begin, int64_t end, int thread)
{
    assert_int_equal(thread, 0);
    *(single *)state = (single){begin, end, ((single *)state)->calls + 1};
}

static void as_many_runs_as_processors_do_their_loops_alone(void **state)
{
    (void)state;
    hyp_pool *pool = open_pool(2);
    int most = hyp_processors() > 2 ? hyp_processors() : 2;
    for (int i = 0; i < most; i++) hyp_pool_begin_run(pool);
    single s = {0};
    hyp_pool_run(pool, 2, 100, 1, note_part, &s);
    assert_int_equal(s.calls, 1);
    assert_true(s.begin == 0 && s.end == 100);
    for (int i = 0; i < most; i++) hyp_pool_end_run(pool);
    hyp_pool_close(pool);
}

/* ---- engines --------------------------------------------------------------------------------------------------- */

enum { IN = 20, OUT = 10, ROWS = 700 };

static plan_builder b;
static char path[PB_PATH];

typedef struct network {
    hyp_engine *engine;
    hyp_context *context;
    float x[ROWS * IN], y[ROWS * OUT];
} network;

static void run_network(network *n)
{
    hyp_tensor in = tensor_of("x", HYP_F32, n->x, 2, (int64_t[]){ROWS, IN});
    hyp_tensor out = {.name = "y", .data = n->y, .bytes = sizeof n->y, .dtype = HYP_F32};
    memset(n->y, 0, sizeof n->y);
    assert_ok(hyp_context_run(n->context, &in, 1, &out, 1, diag));
}

static network *make_network(hyp_engine_options options)
{
    network *n = calloc(1, sizeof *n);
    rng r = {5};
    rng_fill(&r, HYP_F32, n->x, ROWS * IN);
    options.size = sizeof options;
    options.device = HYP_DEVICE_CPU;
    assert_ok(hyp_engine_load_file(path, &options, &n->engine, diag));
    assert_ok(hyp_context_create(n->engine, NULL, &n->context, diag));
    run_network(n);
    return n;
}

static void free_network(network *n)
{
    hyp_context_destroy(n->context);
    hyp_engine_destroy(n->engine);
    free(n);
}

static void threads_are_what_is_asked_for(void **state)
{
    (void)state;
    setenv("OMP_NUM_THREADS", "5", 1);
    const struct {
        int32_t asked;
        const char *said;
    } cases[] = {{1, ", 1 thread"}, {2, ", 2 threads"}, {3, ", 3 threads"}, {0, ", 5 threads"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        network *n = make_network((hyp_engine_options){.threads = cases[i].asked});
        const char *said = strrchr(hyp_context_tuning_device(n->context), ',');
        assert_string_equal(said, cases[i].said);
        free_network(n);
    }
    unsetenv("OMP_NUM_THREADS");
    char wanted[32];
    snprintf(wanted, sizeof wanted, ", %d thread%s", hyp_processors(), hyp_processors() > 1 ? "s" : "");
    network *n = make_network((hyp_engine_options){.threads = 0});
    assert_string_equal(strrchr(hyp_context_tuning_device(n->context), ','), wanted);
    free_network(n);
}

/* A pool of a single thread, which calls the parts from the last one on. */
typedef struct backwards {
    int calls;
    size_t most;
} backwards;

static void run_backwards(void *user, size_t count, void (*part)(void *state, size_t i), void *state)
{
    backwards *p = user;
    p->calls++;
    if (count > p->most) p->most = count;
    while (count-- > 0) part(state, count);
}

/* One that starts a thread for each part. */
typedef struct started {
    pthread_t thread;
    void (*part)(void *state, size_t i);
    void *state;
    size_t i;
} started;

static void *start_part(void *opaque)
{
    const started *s = opaque;
    s->part(s->state, s->i);
    return NULL;
}

static void run_in_new_threads(void *user, size_t count, void (*part)(void *state, size_t i), void *state)
{
    started s[MOST_THREADS];
    (void)user;
    assert_true(count <= MOST_THREADS);
    for (size_t i = 0; i < count; i++) {
        s[i] = (started){.part = part, .state = state, .i = i};
        assert_int_equal(pthread_create(&s[i].thread, NULL, start_part, &s[i]), 0);
    }
    for (size_t i = 0; i < count; i++) pthread_join(s[i].thread, NULL);
}

static void a_pool_of_the_caller_does_the_work(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    backwards user = {0};
    const hyp_thread_pool pools[] = {
        {.size = sizeof *pools, .threads = THREADS, .run = run_backwards, .user = &user},
        {.size = sizeof *pools, .threads = THREADS, .run = run_in_new_threads},
    };
    network *ours = make_network((hyp_engine_options){.threads = THREADS});
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        network *theirs = make_network((hyp_engine_options){.pool = &pools[i]});
        assert_memory_equal(theirs->y, ours->y, sizeof ours->y); /* how work is divided changes no bit */
        free_network(theirs);
    }
    assert_true(user.calls > 0);
    assert_int_equal(user.most, THREADS);
    free_network(ours);
}

static void what_no_pool_can_be_is_refused(void **state)
{
    (void)state;
    const hyp_thread_pool no_run = {.size = sizeof no_run, .threads = 2};
    const hyp_thread_pool no_threads = {.size = sizeof no_threads, .run = run_backwards};
    const hyp_thread_pool no_size = {.threads = 2, .run = run_backwards};
    const struct {
        hyp_engine_options options;
        const char *says;
    } cases[] = {{{.pool = &no_run}, "options->pool"},
                 {{.pool = &no_threads}, "options->pool"},
                 {{.pool = &no_size}, "options->pool"},
                 {{.threads = 5000}, "options->threads is 5000"},
                 {{.processors = ""}, "options->processors"},
                 {{.processors = "0-"}, "options->processors"},
                 {{.processors = "1-0"}, "'1-0'"},
                 {{.processors = "0,99999"}, "'0,99999'"},
                 {{.processors = "0 1"}, "options->processors"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_engine_options options = cases[i].options;
        options.size = sizeof options;
        options.device = HYP_DEVICE_CPU;
        hyp_engine *engine = NULL;
        hyp_diag diag = {0};
        assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.message, cases[i].says));
        assert_null(engine);
    }
}

/* Where a part ran; the one who calls may be anywhere. */
static void note_processor(void *state, int64_t begin, int64_t end, int thread)
{
    cpu_set_t set;
    (void)begin, (void)end;
    if (thread == 0) return;
    sched_getaffinity(0, sizeof set, &set);
    if (CPU_COUNT(&set) != 1) atomic_store((atomic_bool *)state, true);
}

static void threads_stay_on_their_processors(void **state)
{
    (void)state;
    cpu_set_t may, after;
    char list[16];
    int first = 0, threads = 2;
    sched_getaffinity(0, sizeof may, &may);
    while (!CPU_ISSET(first, &may)) first++;
    snprintf(list, sizeof list, "%d", first);
    const hyp_engine_options options = {.size = sizeof options, .threads = threads, .processors = list};
    hyp_pool *pool = NULL;
    int32_t found;
    assert_ok(hyp_pool_open(&options, &pool, &found, diag));
    hyp_pool_expect(pool, threads);
    atomic_bool elsewhere = false;
    for (int i = 0; i < 100; i++) hyp_pool_run(pool, threads, 100, 1, note_processor, &elsewhere);
    assert_false(atomic_load(&elsewhere));
    hyp_pool_close(pool);
    free_network(make_network((hyp_engine_options){.threads = threads, .processors = list}));
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&may, &after)); /* the caller's thread was put back */
}

static void a_child_of_fork_runs_its_parents_context(void **state)
{
    (void)state;
    if (THREADS_WATCHED) {
        print_message("skipped: under the thread sanitizer a child of fork may start no threads\n");
        return;
    }
    network *n = make_network((hyp_engine_options){.threads = 3});
    float wanted[ROWS * OUT];
    memcpy(wanted, n->y, sizeof wanted);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60); /* not for ever, if it waits for threads that it does not have */
        for (int i = 0; i < 20; i++) run_network(n);
        bool right = memcmp(n->y, wanted, sizeof wanted) == 0, shares = count_threads() > 1;
        free_network(n);
        _exit(right && shares ? 0 : right ? 1 : 2);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    run_network(n);
    assert_memory_equal(n->y, wanted, sizeof wanted);
    free_network(n);
}

/* ---- processors -------------------------------------------------------------------------------------------------- */

static void write_text(const char *folder, const char *name, const char *text)
{
    char at[PATH_MAX];
    snprintf(at, sizeof at, "%s/%s", folder, name);
    FILE *file = fopen(at, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_quota_of_a_control_group_counts(void **state)
{
    (void)state;
    char root[] = "/tmp/hypatia-XXXXXX", outer[64], inner[64], file[64];
    assert_non_null(mkdtemp(root));
    snprintf(outer, sizeof outer, "%s/a", root);
    snprintf(inner, sizeof inner, "%s/a/b", root);
    snprintf(file, sizeof file, "%s/self", root);
    assert_int_equal(mkdir(outer, 0700) | mkdir(inner, 0700), 0);
    write_text(root, "self", "4:cpuset:/x\n0::/a/b\n");
    assert_int_equal(hyp_processors_of_group(file, root), INT_MAX);
    write_text(inner, "cpu.max", "max 100000\n");
    assert_int_equal(hyp_processors_of_group(file, root), INT_MAX);
    write_text(inner, "cpu.max", "350000 100000\n");
    assert_int_equal(hyp_processors_of_group(file, root), 4); /* a part of a processor is one, too */
    write_text(outer, "cpu.max", "200000 100000\n");
    assert_int_equal(hyp_processors_of_group(file, root), 2); /* a group has no more than the one around it */
    write_text(root, "self", "0::/\n");
    assert_int_equal(hyp_processors_of_group(file, root), INT_MAX);
    assert_int_equal(hyp_processors_of_group("/nowhere", root), INT_MAX);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_done_once),
        cmocka_unit_test(a_pool_may_close_at_any_moment),
        cmocka_unit_test(callers_share_the_threads),
        cmocka_unit_test(nobody_waits_for_who_has_not_begun),
        cmocka_unit_test(as_many_runs_as_processors_do_their_loops_alone),
        cmocka_unit_test(threads_are_what_is_asked_for),
        cmocka_unit_test(a_pool_of_the_caller_does_the_work),
        cmocka_unit_test(what_no_pool_can_be_is_refused),
        cmocka_unit_test(threads_stay_on_their_processors),
        cmocka_unit_test(a_child_of_fork_runs_its_parents_context),
        cmocka_unit_test(the_quota_of_a_control_group_counts),
    };
    unsetenv("OMP_NUM_THREADS");
    build_network(&b, 1000, false);
    pb_write(&b, path);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pb_remove(&b, path);
    return failed;
}
