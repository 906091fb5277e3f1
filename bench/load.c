/* Many callers of one engine on the CPU, each with a context of its own, as fast as they can.
 *
 *     bench-load PLAN.bin CALLERS THREADS SECONDS [SIZE]
 *
 * Symbolic dims of the plan are SIZE (1). Prints runs a second of all callers, p50 and p99 of a run in microseconds,
 * and the threads of the process. bench/load.py drives it. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hypatia/runtime.h"

enum { MOST = 16, SAMPLES = 1 << 20 };

typedef struct caller {
    pthread_t thread;
    hyp_engine *engine;
    int64_t size;
    pthread_barrier_t *begin;
    double seconds, *samples;
    size_t count;
} caller;

static void need(hyp_status status, const char *what, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "bench-load: %s: %s\n", what, diag->message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(hyp_engine *engine, hyp_tensor *t)
{
    hyp_diag diag = {0};
    t->bytes = 8;
    for (int i = 0; i < t->rank; i++) t->bytes *= (size_t)t->dims[i];
    need(hyp_engine_tensor_alloc(engine, t, &diag), "memory", &diag);
    for (size_t i = 0; t->dtype == HYP_F32 && i < t->bytes / 8; i++)
        ((float *)t->data)[i] = (float)(i % 17) / 17 - 0.5f;
}

static void *call(void *opaque)
{
    caller *c = opaque;
    hyp_context *context;
    hyp_tensor in[MOST] = {{0}}, out[MOST] = {{0}};
    hyp_diag diag = {0};
    size_t inputs = hyp_engine_input_count(c->engine), outputs = hyp_engine_output_count(c->engine);
    if (inputs > MOST || outputs > MOST) exit(1);
    for (size_t i = 0; i < inputs; i++) {
        const hyp_io_info *info = hyp_engine_input(c->engine, i);
        in[i] = (hyp_tensor){.dtype = info->dtype, .rank = info->rank};
        for (int a = 0; a < info->rank; a++) in[i].dims[a] = info->dims[a] < 0 ? c->size : info->dims[a];
        fill(c->engine, &in[i]);
    }
    need(hyp_context_create(c->engine, NULL, &context, &diag), "context", &diag);
    for (size_t i = 0; i < outputs; i++) out[i].dtype = hyp_engine_output(c->engine, i)->dtype;
    need(hyp_context_output_shapes(context, in, inputs, out, outputs, &diag), "shapes", &diag);
    for (size_t i = 0; i < outputs; i++) fill(c->engine, &out[i]);
    for (int i = 0; i < 3; i++) need(hyp_context_run(context, in, inputs, out, outputs, &diag), "run", &diag);
    pthread_barrier_wait(c->begin);
    for (double begin = now(), end = begin + c->seconds; begin < end && c->count < SAMPLES;) {
        need(hyp_context_run(context, in, inputs, out, outputs, &diag), "run", &diag);
        double after = now();
        c->samples[c->count++] = after - begin;
        begin = after;
    }
    hyp_context_destroy(context);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int count_threads(void)
{
    int count = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks)) count++;
    if (tasks) closedir(tasks);
    return count;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: bench-load PLAN.bin CALLERS THREADS SECONDS [SIZE]\n");
        return 2;
    }
    int callers = atoi(argv[2]);
    double seconds = atof(argv[4]);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = atoi(argv[3])};
    hyp_engine *engine;
    hyp_diag diag = {0};
    pthread_barrier_t begin;
    need(hyp_engine_load_file(argv[1], &options, &engine, &diag), argv[1], &diag);
    caller *c = calloc((size_t)callers, sizeof *c);
    pthread_barrier_init(&begin, NULL, (unsigned)callers + 1);
    for (int i = 0; i < callers; i++) {
        c[i] = (caller){.engine = engine, .size = argc > 5 ? atoi(argv[5]) : 1, .begin = &begin, .seconds = seconds};
        c[i].samples = malloc(SAMPLES * sizeof *c[i].samples);
        pthread_create(&c[i].thread, NULL, call, &c[i]);
    }
    pthread_barrier_wait(&begin);
    int threads = count_threads() - 1; /* this one only waits */
    size_t count = 0, at = 0;
    for (int i = 0; i < callers; i++) {
        pthread_join(c[i].thread, NULL);
        count += c[i].count;
    }
    double *all = malloc((count + 1) * sizeof *all);
    for (int i = 0; i < callers; i++)
        for (size_t j = 0; j < c[i].count; j++) all[at++] = c[i].samples[j];
    qsort(all, count, sizeof *all, compare);
    if (count)
        printf("%.1f %.1f %.1f %d\n", (double)count / seconds, all[count / 2] * 1e6, all[count * 99 / 100] * 1e6,
               threads);
    hyp_engine_destroy(engine);
    return 0;
}
