/* What buckets are worth where batches come in many sizes, with tensors in the device's memory.
 *
 *     bench-buckets PLAN.bin LARGEST MULTIPLE [DEVICE [RUNS]]
 *
 * Every symbolic dim is drawn from 1 to LARGEST for each run. Prints for contexts that keep 16 sets of dims prepared,
 * that keep all of them, and that round sizes up to a MULTIPLE: milliseconds until the first RUNS (400) runs are done,
 * then the median, the mean and the 99th percentile of a run in microseconds, until the device has done it, over rounds
 * in turns, and bytes of the context. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hypatia/runtime.h"

enum { MOST = 16, ROUNDS = 9, SETS = 3 };

typedef struct kind {
    const char *name;
    hyp_context *context;
    double first_ms, *us;
    size_t count;
} kind;

typedef struct bench {
    hyp_engine *engine;
    hyp_tensor in[MOST], out[MOST];
    size_t inputs, outputs;
    int64_t largest, runs;
    uint64_t drawn;
} bench;

static void need(hyp_status status, const char *what, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "bench-buckets: %s: %s\n", what, diag->message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void size_all(bench *b, int64_t size)
{
    for (size_t i = 0; i < b->inputs; i++) {
        const hyp_io_info *info = hyp_engine_input(b->engine, i);
        b->in[i].rank = info->rank;
        for (int a = 0; a < info->rank; a++) b->in[i].dims[a] = info->dims[a] < 0 ? size : info->dims[a];
    }
}

static size_t bytes_of(const hyp_tensor *t)
{
    size_t bytes = 8;
    for (int a = 0; a < t->rank; a++) bytes *= (size_t)t->dims[a];
    return bytes;
}

/* Memory for the largest run, of zeros, which are indices that there are. */
static void take(bench *b, hyp_tensor *t)
{
    hyp_diag diag = {0};
    hyp_tensor host = {.bytes = t->bytes = bytes_of(t)};
    need(hyp_engine_tensor_alloc(b->engine, t, &diag), "memory", &diag);
    host.data = calloc(1, host.bytes + 1);
    need(hyp_engine_tensor_copy(b->engine, &host, t, &diag), "memory", &diag);
    free(host.data);
}

static void open(bench *b, const char *path, hyp_device_kind device)
{
    hyp_diag diag = {0};
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    hyp_context *context;
    need(hyp_engine_load_file(path, &options, &b->engine, &diag), path, &diag);
    b->inputs = hyp_engine_input_count(b->engine);
    b->outputs = hyp_engine_output_count(b->engine);
    if (b->inputs > MOST || b->outputs > MOST) exit(1);
    for (size_t i = 0; i < b->inputs; i++) b->in[i].dtype = hyp_engine_input(b->engine, i)->dtype;
    for (size_t i = 0; i < b->outputs; i++) b->out[i].dtype = hyp_engine_output(b->engine, i)->dtype;
    size_all(b, b->largest);
    need(hyp_context_create(b->engine, NULL, &context, &diag), "context", &diag);
    need(hyp_context_output_shapes(context, b->in, b->inputs, b->out, b->outputs, &diag), "shapes", &diag);
    for (size_t i = 0; i < b->inputs; i++) take(b, &b->in[i]);
    for (size_t i = 0; i < b->outputs; i++) take(b, &b->out[i]);
    hyp_context_destroy(context);
}

static double run(bench *b, hyp_context *context)
{
    hyp_diag diag = {0};
    b->drawn = b->drawn * 6364136223846793005u + 1442695040888963407u;
    size_all(b, 1 + (int64_t)(b->drawn >> 33) % b->largest);
    double begin = now();
    need(hyp_context_run(context, b->in, b->inputs, b->out, b->outputs, &diag), "run", &diag);
    need(hyp_context_synchronize(context, &diag), "run", &diag);
    return now() - begin;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(bench *b, kind *k)
{
    double begin = now();
    for (int64_t i = 0; i < b->runs; i++) {
        double us = run(b, k->context) * 1e6;
        if (k->first_ms > 0) k->us[k->count++] = us;
    }
    if (k->first_ms == 0) k->first_ms = (now() - begin) * 1e3;
}

int main(int argc, char **argv)
{
    static const char *const devices[] = {"auto", "cpu", "cuda", "reference"};
    if (argc < 4) {
        fprintf(stderr, "usage: bench-buckets PLAN.bin LARGEST MULTIPLE [DEVICE [RUNS]]\n");
        return 2;
    }
    bench b = {.largest = atoll(argv[2]), .runs = argc > 5 ? atoll(argv[5]) : 400, .drawn = 1};
    hyp_device_kind device = HYP_DEVICE_AUTO;
    for (int i = 0; argc > 4 && i < 4; i++)
        if (strcmp(argv[4], devices[i]) == 0) device = (hyp_device_kind)i;
    open(&b, argv[1], device);
    const hyp_tensor bucket = {.rank = 1, .dims = {atoll(argv[3])}};
    const hyp_context_options options[SETS] = {
        {.size = sizeof options[0]},
        {.size = sizeof options[0], .shapes = (size_t)b.largest},
        {.size = sizeof options[0], .buckets = &bucket, .bucket_count = 1}};
    kind kinds[SETS] = {{.name = "16 sets"}, {.name = "all sets"}, {.name = "buckets"}};
    hyp_diag diag = {0};
    for (int i = 0; i < SETS; i++) {
        need(hyp_context_create(b.engine, &options[i], &kinds[i].context, &diag), "context", &diag);
        kinds[i].us = calloc((size_t)b.runs * ROUNDS, sizeof *kinds[i].us);
    }
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < SETS; i++) measure(&b, &kinds[i]);
    printf("%s\n", hyp_engine_device_name(b.engine));
    for (int i = 0; i < SETS; i++) {
        kind *k = &kinds[i];
        double sum = 0;
        qsort(k->us, k->count, sizeof *k->us, compare);
        for (size_t n = 0; n < k->count; n++) sum += k->us[n];
        printf("%-8s first %.1f ms, p50 %.2f us, mean %.2f us, p99 %.2f us, %zu bytes\n", k->name, k->first_ms,
               k->us[k->count / 2], sum / (double)k->count, k->us[k->count * 99 / 100],
               hyp_context_memory_bytes(k->context));
    }
    return 0;
}
