/* Contexts on a GPU: memory, streams, threads, graphs, errors. Needs a GPU, or the emulator: see device_start. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */

/* x [batch, 24] -> 40 -> 24 -> 16 -> 10, hidden layers in two slots in turn. */
static void build_mlp(uint64_t *seed, hyp_dtype dtype)
{
    static const int64_t sizes[] = {24, 40, 24, 16, 10};
    enum { LAYERS = 4 };
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch");
    uint32_t x = pb_input(&builder, "x", dtype, 2, (uint32_t[]){batch, pb_const(&builder, sizes[0])});
    uint32_t y = pb_output(&builder, "y", dtype, 2, (uint32_t[]){batch, pb_const(&builder, sizes[LAYERS])});
    HypPlan__Linear *linear = pb_linear(&builder, x, y, batch);
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t w = random_weight(&builder, seed, dtype, 2, (int64_t[]){sizes[i + 1], sizes[i]});
        uint32_t b = random_weight(&builder, seed, dtype, 1, &sizes[i + 1]);
        uint32_t hidden = PB_NONE;
        if (i + 1 < LAYERS)
            hidden = pb_scratch(&builder, dtype, i % 2, 2, (uint32_t[]){batch, pb_const(&builder, sizes[i + 1])});
        static const HypPlan__Act acts[LAYERS] = {ACT(RELU), ACT(SIGMOID), ACT(GELU), ACT(NONE)};
        pb_layer(&builder, linear, sizes[i + 1], sizes[i], w, b, acts[i], hidden);
    }
}

static void one_context_runs_many_batch_sizes_in_any_order(void **state)
{
    (void)state;
    uint64_t seed = 4;
    static const int64_t batches[] = {3, 1, 64, 3, 0, 200, 1, 64};
    for (int t = 0; t < FLOATS; t++) {
        build_mlp(&seed, floats[t]);
        pair p;
        pair_open(&dev, &builder, &p);
        tolerance want = tolerance_of(floats[t], 40);
        want.atol *= 4; /* hidden layers round too, the reference keeps them in the same type but sums in double */
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
            pair_check(&dev, &p, (dims_list){{batches[i], 24}}, want);
        pair_close(&p);
        pb_dispose(&builder);
    }
}

typedef struct worker {
    hyp_engine *engine;
    float x[64 * 24], y[64 * 10];
    int failures;
} worker;

static void *work(void *data)
{
    worker *w = data;
    hyp_context *context;
    hyp_diag diag = {0};
    if (hyp_context_create(w->engine, NULL, &context, &diag) != HYP_OK) return w->failures = 1, NULL;
    for (int i = 0; i < 50; i++) {
        int64_t batch = 1 + i % 3 * 31;
        hyp_tensor x = {.data = w->x, .bytes = sizeof w->x, .dtype = HYP_F32, .rank = 2, .dims = {batch, 24}};
        hyp_tensor y = {.data = w->y, .bytes = sizeof w->y, .dtype = HYP_F32};
        w->failures += hyp_context_run(context, &x, 1, &y, 1, &diag) != HYP_OK;
    }
    hyp_context_destroy(context);
    return NULL;
}

static void two_threads_run_two_contexts_of_one_engine(void **state)
{
    (void)state;
    static worker workers[2];
    uint64_t seed = 5;
    build_mlp(&seed, HYP_F32);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        uint64_t same = 6;
        workers[i].engine = engine;
        random_fill(&same, HYP_F32, workers[i].x, 64 * 24);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(workers[0].failures + workers[1].failures, 0);
    assert_memory_equal(workers[0].y, workers[1].y, sizeof workers[0].y);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

/* Buffers of one run; y holds twice x plus a bias. */
typedef struct buffers {
    CUdeviceptr x, y;
    float first; /* of x */
} buffers;

static void build_scale(void)
{
    static const float w[4] = {2, 0, 0, 2}, bias[2] = {1, -1};
    pb_init(&builder);
    uint32_t m = pb_const(&builder, 3), n = pb_const(&builder, 2);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, (uint32_t[]){m, n});
    uint32_t y = pb_output(&builder, "y", HYP_F32, 2, (uint32_t[]){m, n});
    uint32_t weight = pb_weight(&builder, HYP_F32, 2, (int64_t[]){2, 2}, w);
    pb_layer(&builder, pb_linear(&builder, x, y, m), 2, 2, weight,
             pb_weight(&builder, HYP_F32, 1, (int64_t[]){2}, bias), ACT(NONE), PB_NONE);
}

static void fill_buffers(buffers *b, float first)
{
    float x[6];
    for (int i = 0; i < 6; i++) x[i] = first + (float)i;
    b->first = first;
    assert_int_equal(dev.lib.cuMemcpyHtoDAsync(b->x, x, sizeof x, dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemsetD8Async(b->y, 0xff, sizeof x, dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
}

static void make_buffers(buffers *b, float first)
{
    assert_int_equal(dev.lib.cuMemAlloc(&b->x, 6 * sizeof(float)), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemAlloc(&b->y, 6 * sizeof(float)), CUDA_SUCCESS);
    fill_buffers(b, first);
}

static void free_buffers(const buffers *b)
{
    assert_int_equal(dev.lib.cuMemFree(b->x), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemFree(b->y), CUDA_SUCCESS);
}

static void run_buffers(hyp_context *context, const buffers *b)
{
    hyp_diag diag = {0};
    hyp_tensor x = {.data = (void *)(uintptr_t)b->x, .bytes = 24, .dtype = HYP_F32, .rank = 2, .dims = {3, 2}};
    hyp_tensor y = {.data = (void *)(uintptr_t)b->y, .bytes = 24, .dtype = HYP_F32};
    x.memory = y.memory = HYP_MEMORY_CUDA;
    if (hyp_context_run(context, &x, 1, &y, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
}

static void check_buffers(const buffers *b)
{
    float y[6];
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemcpyDtoHAsync(y, b->y, sizeof y, dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
    for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * (b->first + (float)i) + (i % 2 ? -1 : 1));
}

static void buffers_may_take_turns_and_hold_other_numbers_each_time(void **state)
{
    (void)state;
    enum { SETS = 6 };
    buffers sets[SETS];
    build_scale();
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_create(engine, &options, &context, &diag), HYP_OK);
    for (int i = 0; i < SETS; i++) make_buffers(&sets[i], 0);
    for (int used = 1; used <= SETS; used++) /* more of them than graphs are kept in the end */
        for (int run = 0; run < 4 * used; run++) {
            buffers *b = &sets[run % used];
            fill_buffers(b, (float)(100 * used + run));
            run_buffers(context, b);
            check_buffers(b);
        }
    for (int i = 0; i < SETS; i++) free_buffers(&sets[i]);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

/* Work of several contexts is under way at once, each on a stream of its own, and nobody waits in between. */
static void contexts_on_streams_of_their_own_run_at_once(void **state)
{
    (void)state;
    enum { CONTEXTS = 4, ROUNDS = 8 };
    hyp_context *contexts[CONTEXTS];
    CUstream streams[CONTEXTS];
    buffers sets[CONTEXTS][ROUNDS];
    hyp_diag diag = {0};
    build_scale();
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    for (int i = 0; i < CONTEXTS; i++) {
        assert_int_equal(dev.lib.cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, -i), CUDA_SUCCESS);
        hyp_context_options options = {.size = sizeof options, .stream = i == 0 ? NULL : streams[i], .priority = -1};
        assert_int_equal(hyp_context_create(engine, &options, &contexts[i], &diag), HYP_OK);
        for (int r = 0; r < ROUNDS; r++) make_buffers(&sets[i][r], (float)(100 * i + r));
    }
    for (int again = 0; again < 2; again++) /* the second time some are replayed */
        for (int r = 0; r < ROUNDS; r++)
            for (int i = 0; i < CONTEXTS; i++) run_buffers(contexts[i], &sets[i][again ? r % 3 : r]);
    for (int i = 0; i < CONTEXTS; i++) assert_int_equal(hyp_context_synchronize(contexts[i], &diag), HYP_OK);
    for (int i = 0; i < CONTEXTS; i++) {
        for (int r = 0; r < ROUNDS; r++) {
            check_buffers(&sets[i][r]);
            free_buffers(&sets[i][r]);
        }
        hyp_context_destroy(contexts[i]);
        assert_int_equal(dev.lib.cuStreamDestroy(streams[i]), CUDA_SUCCESS);
    }
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void a_caller_may_capture_runs_into_a_graph_of_his_own(void **state)
{
    (void)state;
    buffers b;
    build_scale();
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_create(engine, &options, &context, &diag), HYP_OK);
    make_buffers(&b, 1);
    for (int before = 1; before < 4; before++) { /* op by op until now, then captured by us, then replayed */
        CUgraph graph;
        CUgraphExec exec;
        run_buffers(context, &b);
        check_buffers(&b);
        assert_int_equal(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
        run_buffers(context, &b);
        run_buffers(context, &b);
        assert_int_equal(dev.lib.cuStreamEndCapture(dev.stream, &graph), CUDA_SUCCESS);
        assert_int_equal(dev.lib.cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
        fill_buffers(&b, (float)before * 10);
        assert_int_equal(dev.lib.cuGraphLaunch(exec, dev.stream), CUDA_SUCCESS);
        check_buffers(&b);
        assert_int_equal(dev.lib.cuGraphExecDestroy(exec), CUDA_SUCCESS);
        assert_int_equal(dev.lib.cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    free_buffers(&b);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void a_gpu_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    build_scale();
    char path[PB_PATH];
    pb_write(&builder, path);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA, .device_index = 1000};
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "no GPU 1000"));
    assert_null(engine);
    pb_remove(&builder, path);
}

static void memory_that_the_device_lacks_is_an_error_and_the_context_works_on(void **state)
{
    (void)state;
    uint64_t seed = 9;
    build_mlp(&seed, HYP_F32);
    pair p;
    pair_open(&dev, &builder, &p);
    hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {(int64_t)1 << 40, 24}};
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_reserve(p.cuda_context, &x, 1, &diag), HYP_ERR_NO_MEMORY);
    assert_non_null(strstr(diag.message, "device memory"));
    tolerance want = tolerance_of(HYP_F32, 40);
    want.atol *= 4;
    pair_check(&dev, &p, (dims_list){{5, 24}}, want);
    pair_close(&p);
    pb_dispose(&builder);
}

static void scratch_is_shared_by_shapes_and_only_grows(void **state)
{
    (void)state;
    uint64_t seed = 10;
    build_mlp(&seed, HYP_F32);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    size_t before = hyp_context_scratch_bytes(context); /* cuBLASLt's workspace */
    hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {100, 24}};
    assert_int_equal(hyp_context_reserve(context, &x, 1, &diag), HYP_OK);
    size_t large = hyp_context_scratch_bytes(context) - before;
    assert_true(large >= 100 * (40 + 24) * sizeof(float)); /* two slots, one of 40 and one of 24 columns */
    assert_true(large <= 100 * (40 + 24) * sizeof(float) + 2 * 256);
    x.dims[0] = 7;
    assert_int_equal(hyp_context_reserve(context, &x, 1, &diag), HYP_OK);
    assert_int_equal(hyp_context_scratch_bytes(context) - before, large);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void a_kernel_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    pb_batch_norm(&builder);
    char path[PB_PATH];
    pb_write(&builder, path);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "no CUDA kernel for batch-norm"));
    pb_remove(&builder, path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_context_runs_many_batch_sizes_in_any_order),
        cmocka_unit_test(a_kernel_that_is_not_there_is_an_error),
        cmocka_unit_test(two_threads_run_two_contexts_of_one_engine),
        cmocka_unit_test(buffers_may_take_turns_and_hold_other_numbers_each_time),
        cmocka_unit_test(contexts_on_streams_of_their_own_run_at_once),
        cmocka_unit_test(a_caller_may_capture_runs_into_a_graph_of_his_own),
        cmocka_unit_test(a_gpu_that_is_not_there_is_an_error),
        cmocka_unit_test(memory_that_the_device_lacks_is_an_error_and_the_context_works_on),
        cmocka_unit_test(scratch_is_shared_by_shapes_and_only_grows),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
