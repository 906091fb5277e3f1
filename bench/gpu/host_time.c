/* What a run call costs the host, with tensors on a GPU, where a call only queues work, and the latency from host memory
 * to host memory.
 *
 *     bench-host-time PLAN.bin [SIZE]
 *
 * Symbolic dims of the plan are SIZE (1). Prints medians and minima over rounds of calls; the device is waited for
 * between rounds, out of the time. The driver's own calls are there for comparison: what no caller of it can go below. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hypatia/runtime.h"

enum { ROUNDS = 200, CALLS = 100, SETS = 2, MOST = 16 };

/* The driver's functions by hand, since a bench sees no headers but the public ones. */
typedef struct driver {
    int (*init)(unsigned), (*device)(int *, int), (*retain)(void **, int), (*push)(void *), (*pop)(void **);
    int (*current)(void **), (*alloc)(unsigned long long *, size_t), (*pinned)(void **, size_t, unsigned);
    int (*stream)(void **, unsigned), (*wait)(void *), (*begin)(void *, int), (*end)(void *, void **);
    int (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, void *);
    int (*set)(unsigned long long, unsigned char, size_t, void *);
} driver;

typedef struct bench {
    driver cuda;
    void *cuda_context, *stream, *graph;
    unsigned long long memory;
    hyp_engine *engine;
    hyp_context *context;
    hyp_tensor inputs[SETS][MOST], outputs[SETS][MOST];
    size_t input_count, output_count;
} bench;

static void need(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "bench-host-time: %s\n", what);
    exit(1);
}

static void open_driver(bench *b)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    need(library != NULL, "there is no libcuda.so.1");
    const struct {
        const char *name;
        void *at;
    } list[] = {{"cuInit", &b->cuda.init},
                {"cuDeviceGet", &b->cuda.device},
                {"cuDevicePrimaryCtxRetain", &b->cuda.retain},
                {"cuCtxPushCurrent_v2", &b->cuda.push},
                {"cuCtxPopCurrent_v2", &b->cuda.pop},
                {"cuCtxGetCurrent", &b->cuda.current},
                {"cuMemAlloc_v2", &b->cuda.alloc},
                {"cuMemHostAlloc", &b->cuda.pinned},
                {"cuStreamCreate", &b->cuda.stream},
                {"cuStreamSynchronize", &b->cuda.wait},
                {"cuStreamBeginCapture_v2", &b->cuda.begin},
                {"cuStreamEndCapture", &b->cuda.end},
                {"cuGraphInstantiateWithFlags", &b->cuda.instantiate},
                {"cuGraphLaunch", &b->cuda.launch},
                {"cuMemsetD8Async", &b->cuda.set}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        void *symbol = dlsym(library, list[i].name);
        need(symbol != NULL, list[i].name);
        memcpy(list[i].at, &symbol, sizeof symbol);
    }
    int device, failed = b->cuda.init(0) || b->cuda.device(&device, 0) || b->cuda.retain(&b->cuda_context, device) ||
                         b->cuda.push(b->cuda_context) || b->cuda.stream(&b->stream, 1) ||
                         b->cuda.alloc(&b->memory, 256);
    need(!failed, "there is no usable GPU");
    void *graph;
    failed = b->cuda.begin(b->stream, 1) || b->cuda.set(b->memory, 0, 256, b->stream) ||
             b->cuda.end(b->stream, &graph) || b->cuda.instantiate(&b->graph, graph, 0);
    need(!failed, "a graph of one operation cannot be made");
}

/* ---- what is timed: one call each; `i` counts them ----------------------------------------------------------- */

static void launch_graph(bench *b, int i)
{
    (void)i;
    need(b->cuda.launch(b->graph, b->stream) == 0, "cuGraphLaunch failed");
}
static void push_and_pop(bench *b, int i)
{
    (void)i;
    void *was;
    need(b->cuda.push(b->cuda_context) == 0 && b->cuda.pop(&was) == 0, "cuCtxPushCurrent failed");
}
static void ask_current(bench *b, int i)
{
    (void)i;
    void *now;
    need(b->cuda.current(&now) == 0, "cuCtxGetCurrent failed");
}
static void run_set(bench *b, int set)
{
    hyp_diag diag;
    hyp_status status =
        hyp_context_run(b->context, b->inputs[set], b->input_count, b->outputs[set], b->output_count, &diag);
    if (status != HYP_OK) need(false, diag.message);
}
static void run_same(bench *b, int i)
{
    (void)i;
    run_set(b, 0);
}
static void run_in_turns(bench *b, int i) { run_set(b, i % SETS); }

/* ---- timing -------------------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void measure(bench *b, const char *what, void (*call)(bench *, int), int calls)
{
    double rounds[ROUNDS];
    hyp_diag diag;
    for (int round = -5; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < calls; i++) call(b, i);
        if (round >= 0) rounds[round] = (now() - start) / calls;
        b->cuda.wait(b->stream);
        if (hyp_context_synchronize(b->context, &diag) != HYP_OK) need(false, diag.message);
    }
    qsort(rounds, ROUNDS, sizeof *rounds, by_value);
    printf("%-44s %10.0f ns  (least %.0f)\n", what, rounds[ROUNDS / 2], rounds[0]);
    fflush(stdout);
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

typedef enum place { DEVICE, PAGEABLE, PINNED } place;

/* Gives every tensor of both sets zeroed memory; that of earlier calls stays, the program being a short one. */
static void place_tensors(bench *b, hyp_tensor *tensors, size_t count, place where)
{
    for (size_t i = 0; i < count; i++) {
        unsigned long long at = 0;
        size_t bytes = tensors[i].bytes + 16;
        void *host = NULL;
        if (where == DEVICE)
            need(!b->cuda.alloc(&at, bytes) && !b->cuda.set(at, 0, bytes, b->stream), "device memory is out");
        else if (where == PINNED)
            need(b->cuda.pinned(&host, bytes, 0) == 0, "page-locked memory is out");
        else
            need((host = malloc(bytes)) != NULL, "memory is out");
        if (host) memset(host, 0, bytes);
        tensors[i].memory = where == DEVICE ? HYP_MEMORY_CUDA : HYP_MEMORY_HOST;
        tensors[i].data = where == DEVICE ? (void *)(uintptr_t)at : host;
    }
    b->cuda.wait(b->stream);
}

static void place_all(bench *b, place where)
{
    for (int set = 0; set < SETS; set++) {
        place_tensors(b, b->inputs[set], b->input_count, where);
        place_tensors(b, b->outputs[set], b->output_count, where);
    }
}

static size_t bytes_of(const hyp_tensor *t)
{
    size_t bytes = hyp_dtype_size(t->dtype);
    for (int32_t a = 0; a < t->rank; a++) bytes *= (size_t)t->dims[a];
    return bytes;
}

static void make_tensors(bench *b, int64_t size)
{
    hyp_diag diag;
    b->input_count = hyp_engine_input_count(b->engine);
    b->output_count = hyp_engine_output_count(b->engine);
    need(b->input_count <= MOST && b->output_count <= MOST, "the plan has too many inputs or outputs");
    for (size_t i = 0; i < b->input_count; i++) {
        const hyp_io_info *info = hyp_engine_input(b->engine, i);
        hyp_tensor *t = &b->inputs[0][i];
        *t = (hyp_tensor){.name = info->name, .dtype = info->dtype, .rank = info->rank};
        for (int32_t a = 0; a < info->rank; a++) t->dims[a] = info->dims[a] < 0 ? size : info->dims[a];
        t->bytes = bytes_of(t);
    }
    for (size_t i = 0; i < b->output_count; i++) {
        const hyp_io_info *info = hyp_engine_output(b->engine, i);
        b->outputs[0][i] = (hyp_tensor){.name = info->name, .dtype = info->dtype};
    }
    if (hyp_context_output_shapes(b->context, b->inputs[0], b->input_count, b->outputs[0], b->output_count, &diag))
        need(false, diag.message);
    for (size_t i = 0; i < b->output_count; i++) b->outputs[0][i].bytes = bytes_of(&b->outputs[0][i]);
    memcpy(b->inputs[1], b->inputs[0], sizeof b->inputs[0]);
    memcpy(b->outputs[1], b->outputs[0], sizeof b->outputs[0]);
}

int main(int argc, char **argv)
{
    static bench b;
    hyp_diag diag;
    need(argc == 2 || argc == 3, "usage: bench-host-time PLAN.bin [SIZE]");
    open_driver(&b);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    if (hyp_engine_load_file(argv[1], &options, &b.engine, &diag) != HYP_OK ||
        hyp_context_create(b.engine, NULL, &b.context, &diag) != HYP_OK)
        need(false, diag.message);
    make_tensors(&b, argc == 3 ? atoll(argv[2]) : 1);
    printf("%s\n", hyp_engine_device_name(b.engine));
    measure(&b, "driver: launching a graph of one operation", launch_graph, CALLS);
    measure(&b, "driver: making a context current and back", push_and_pop, CALLS);
    measure(&b, "driver: asking which context is current", ask_current, CALLS);
    place_all(&b, DEVICE);
    measure(&b, "run call, device tensors", run_same, CALLS);
    measure(&b, "run call, two sets of device tensors in turn", run_in_turns, CALLS);
    place_all(&b, PAGEABLE);
    measure(&b, "run, host tensors", run_same, 1);
    place_all(&b, PINNED);
    measure(&b, "run, page-locked host tensors", run_same, 1);
    hyp_context_destroy(b.context);
    hyp_engine_destroy(b.engine);
    return 0;
}
