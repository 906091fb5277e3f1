/* Runs that the caller captures into graphs of his own: these stay right whatever comes later. On a GPU, or the
 * emulator, on which whoever touches memory that was freed faults. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/scaled_plan.h"

typedef struct graph {
    CUgraphExec exec;
    buffers b;
} graph;

static CUgraphExec end_capture(CUstream stream)
{
    CUgraph captured;
    CUgraphExec exec;
    MUST(dev.lib.cuStreamEndCapture(stream, &captured));
    MUST(dev.lib.cuGraphInstantiate(&exec, captured, 0));
    MUST(dev.lib.cuGraphDestroy(captured));
    return exec;
}

/* A run with tensors of its own, `odd` bytes behind where they could be used in place. */
static graph capture_run(hyp_context *context, int64_t rows, size_t odd)
{
    graph g = {.b = make_buffers(rows + 1)};
    buffers used = {g.b.x + odd, g.b.y + odd, rows};
    MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(run(context, &used, NULL));
    g.exec = end_capture(dev.stream);
    g.b.rows = rows;
    return g;
}

static void check_graph(const graph *g, float first, size_t odd)
{
    buffers used = {g->b.x + odd, g->b.y + odd, g->b.rows};
    queue_numbers(&used, first, dev.stream);
    MUST(dev.lib.cuGraphLaunch(g->exec, dev.stream));
    assert_true(is_right(&used, first, dev.stream));
}

static void free_graph(const graph *g)
{
    MUST(dev.lib.cuGraphExecDestroy(g->exec));
    free_buffers(&g->b);
}

static hyp_context *create_on_stream(size_t shapes, bool no_growth)
{
    hyp_context_options options = {
        .size = sizeof options, .stream = dev.stream, .shapes = shapes, .no_growth_when_captured = no_growth};
    return create(&options);
}

static hyp_status reserve(hyp_context *context, int64_t rows)
{
    hyp_tensor x = tensor_at(0, rows);
    return hyp_context_reserve(context, &x, 1, &diag);
}

static void check_run(hyp_context *context, int64_t rows, float first)
{
    buffers b = make_buffers(rows);
    queue_numbers(&b, first, dev.stream);
    OK(run(context, &b, NULL));
    assert_true(is_right(&b, first, dev.stream));
    free_buffers(&b);
}

static void a_graph_outlives_growth(void **state)
{
    (void)state;
    hyp_context *context = create_on_stream(0, false);
    OK(reserve(context, 4));
    graph g = capture_run(context, 4, 0);
    size_t before = hyp_context_scratch_bytes(context), memory = hyp_context_memory_bytes(context);
    for (int64_t rows = 64; rows <= MOST_ROWS; rows *= 4) {
        OK(reserve(context, rows));
        check_run(context, rows, (float)rows);
        check_graph(&g, (float)rows, 0);
    }
    size_t kept = hyp_context_scratch_bytes(context), kept_memory = hyp_context_memory_bytes(context);
    assert_true(kept_memory > memory);
    free_graph(&g);
    hyp_context_release_captured(context);
    /* What the graph used is given back, and nothing of what runs use now. */
    assert_true(hyp_context_scratch_bytes(context) < kept && hyp_context_scratch_bytes(context) > before);
    assert_true(hyp_context_memory_bytes(context) < kept_memory);
    hyp_context_release_captured(context);
    check_run(context, 4, 7);
    check_run(context, MOST_ROWS, 7);
    hyp_context_destroy(context);
    hyp_context_release_captured(NULL);
}

/* The copies of a run that is padded are in the graph, too. */
static void a_graph_of_a_padded_run_outlives_growth(void **state)
{
    (void)state;
    for (size_t odd = 0; odd < 16; odd += 12) {
        hyp_context *context = create_rounding(16, dev.stream);
        OK(reserve(context, 3));
        graph g = capture_run(context, 5, odd), whole = capture_run(context, 16, odd);
        for (int64_t rows = 3; rows <= MOST_ROWS; rows *= 5) {
            check_run(context, rows, (float)rows);
            check_graph(&g, (float)rows, odd);
            check_graph(&whole, (float)rows, odd);
            OK(reserve(context, 2 * rows));
        }
        free_graph(&g);
        free_graph(&whole);
        hyp_context_release_captured(context);
        check_run(context, 5, 7);
        hyp_context_destroy(context);
    }
}

static void memory_that_no_graph_uses_is_freed_when_shapes_grow(void **state)
{
    (void)state;
    hyp_context *once = create_on_stream(0, false), *never = create_on_stream(0, false);
    OK(reserve(once, 4));
    OK(reserve(never, 4));
    graph g = capture_run(once, 4, 0);
    size_t small = hyp_context_scratch_bytes(never);
    for (int64_t rows = 64; rows <= MOST_ROWS; rows *= 4) {
        OK(reserve(once, rows));
        OK(reserve(never, rows));
    }
    /* The scratch memory of 4 rows, not that of the sizes between. */
    assert_true(hyp_context_scratch_bytes(once) > hyp_context_scratch_bytes(never));
    assert_true(hyp_context_scratch_bytes(once) - hyp_context_scratch_bytes(never) <= small);
    check_graph(&g, 1, 0);
    free_graph(&g);
    hyp_context_destroy(once);
    hyp_context_destroy(never);
}

static void a_graph_outlives_eviction_and_what_tuning_does(void **state)
{
    (void)state;
    hyp_context *context = create_on_stream(1, false);
    graph g = capture_run(context, 5, 0); /* shapes are prepared while the stream is captured */
    check_graph(&g, 1, 0);
    for (int64_t rows = 6; rows < 12; rows++) {
        check_run(context, rows, (float)rows);
        check_graph(&g, (float)rows, 0);
    }
    hyp_tensor x = tensor_at(0, 50);
    hyp_tune_options options = {.size = sizeof options, .seconds = 1};
    OK(hyp_context_tune(context, &x, 1, &options, NULL, &diag));
    check_graph(&g, 2, 0);
    check_run(context, 50, 3);
    check_graph(&g, 4, 0);
    OK(hyp_context_adopt_tuning(context, NULL, &diag));
    check_graph(&g, 5, 0);
    free_graph(&g);
    hyp_context_release_captured(context);
    check_run(context, 5, 6);
    hyp_context_destroy(context);
}

static void copies_of_tensors_at_odd_addresses_are_kept_too(void **state)
{
    (void)state;
    hyp_context *context = create_on_stream(0, false);
    OK(reserve(context, 3));
    graph g = capture_run(context, 3, 4);
    buffers large = make_buffers(1001), used = {large.x + 8, large.y + 8, 1000};
    queue_numbers(&used, 1, dev.stream);
    OK(run(context, &used, NULL));
    assert_true(is_right(&used, 1, dev.stream));
    check_graph(&g, 2, 4);
    free_buffers(&large);
    free_graph(&g);
    hyp_context_destroy(context);
}

/* Many captures with growth between them, all of which are replayed again and again. */
static void many_captures_and_growth_in_turn(void **state)
{
    (void)state;
    enum { CAPTURES = 60 };
    static graph graphs[CAPTURES];
    hyp_context *context = create_on_stream(2, false);
    for (int i = 0; i < CAPTURES; i++) {
        int64_t rows = 1 + i * i % 97 + 7 * i;
        graphs[i] = capture_run(context, rows, 0);
        check_run(context, rows + 11, (float)i);
        for (int k = i; k >= 0; k -= 1 + k / 3) check_graph(&graphs[k], (float)(i + k), 0);
    }
    for (int i = 0; i < CAPTURES; i++) free_graph(&graphs[i]);
    size_t kept = hyp_context_scratch_bytes(context);
    hyp_context_release_captured(context);
    assert_true(hyp_context_scratch_bytes(context) < kept);
    check_run(context, 9, 1);
    hyp_context_destroy(context);
}

static void a_context_that_is_not_to_grow_says_why(void **state)
{
    (void)state;
    hyp_context *context = create_on_stream(0, true);
    OK(reserve(context, 100));
    check_run(context, 200, 1); /* nothing is captured yet */
    graph g = capture_run(context, 100, 0);
    size_t bytes = hyp_context_memory_bytes(context);
    assert_int_equal(reserve(context, 2000), HYP_ERR_LIMIT);
    assert_non_null(strstr(diag.message, "a captured graph uses"));
    assert_non_null(strstr(diag.message, "hyp_context_release_captured"));
    assert_int_equal(hyp_context_memory_bytes(context), bytes);
    check_run(context, 150, 2); /* less than there is */
    check_graph(&g, 3, 0);
    free_graph(&g);
    hyp_context_release_captured(context);
    check_run(context, 2000, 4);
    hyp_context_destroy(context);
}

static void host_tensors_cannot_be_captured(void **state)
{
    (void)state;
    hyp_context *context = create_on_stream(0, false);
    float in[WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8}, out[WIDTH] = {0};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {1, WIDTH}};
    hyp_tensor y = {.data = out, .bytes = sizeof out, .dtype = HYP_F32};
    graph g = {.b = make_buffers(1)};
    OK(reserve(context, 1));
    MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(hyp_context_run(context, &x, 1, &y, 1, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "host memory"));
    assert_int_equal(hyp_context_synchronize(context, &diag), HYP_ERR_INVALID_ARGUMENT);
    OK(run(context, &g.b, NULL)); /* the capture goes on */
    g.exec = end_capture(dev.stream);
    check_graph(&g, 1, 0);
    OK(hyp_context_run(context, &x, 1, &y, 1, &diag));
    assert_true(out[0] == 4);
    free_graph(&g);
    hyp_context_destroy(context);
}

static void tuning_does_not_touch_a_stream_that_is_captured(void **state)
{
    (void)state;
    hyp_context *context = create_on_stream(0, false);
    graph g = {.b = make_buffers(3)};
    hyp_tensor x = tensor_at(0, 20);
    hyp_tune_options options = {.size = sizeof options, .seconds = 0.1};
    OK(reserve(context, 3));
    MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(hyp_context_tune(context, &x, 1, &options, NULL, &diag));
    OK(reserve(context, 30));
    OK(run(context, &g.b, NULL));
    g.exec = end_capture(dev.stream);
    check_graph(&g, 1, 0);
    free_graph(&g);
    hyp_context_destroy(context);
}

/* The context's own stream, one that takes part in the capture of another by an event, and the context's own by an
 * event. */
static void every_stream_can_be_captured(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    CUstream own = hyp_context_stream(context), other = make_stream();
    CUevent forks = make_event(), joins = make_event();
    graph a = {.b = make_buffers(3)}, b = {.b = make_buffers(3)}, c = {.b = make_buffers(3)};
    for (int i = 0; i < 3; i++) { /* also when graphs of the context's own are there */
        queue_numbers(&a.b, 1, own);
        OK(run(context, &a.b, NULL));
        assert_true(is_right(&a.b, 1, own));
    }
    MUST(dev.lib.cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(run(context, &a.b, NULL));
    a.exec = end_capture(own);

    hyp_run_options options = {
        .size = sizeof options, .stream = other, .wait = (void *const[]){forks}, .wait_count = 1, .record = joins};
    MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(dev.lib.cuEventRecord(forks, dev.stream));
    OK(run(context, &b.b, &options));
    MUST(dev.lib.cuStreamWaitEvent(dev.stream, joins, 0));
    b.exec = end_capture(dev.stream);

    hyp_context *hidden = create(NULL);
    options.stream = NULL;
    for (int i = 0; i < 3; i++) OK(run(hidden, &c.b, NULL)); /* a graph of its own is not what is captured */
    MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(dev.lib.cuEventRecord(forks, dev.stream));
    OK(run(hidden, &c.b, &options));
    MUST(dev.lib.cuStreamWaitEvent(dev.stream, joins, 0));
    c.exec = end_capture(dev.stream);

    OK(reserve(context, 3000));
    OK(reserve(hidden, 3000));
    for (int i = 0; i < 3; i++) {
        check_graph(&a, (float)i, 0);
        check_graph(&b, (float)i, 0);
        check_graph(&c, (float)i, 0);
    }
    free_graph(&a);
    free_graph(&b);
    free_graph(&c);
    hyp_context_destroy(hidden);
    hyp_context_destroy(context);
    MUST(dev.lib.cuEventDestroy(forks));
    MUST(dev.lib.cuEventDestroy(joins));
    MUST(dev.lib.cuStreamDestroy(other));
}

/* ---- other threads ------------------------------------------------------------------------------------------------
 */

/* All that a thread may do with the library, beside others that capture. */
static hyp_status do_everything(void)
{
    static float in[200000 * WIDTH / 8], out[200000 * WIDTH / 8];
    hyp_engine_options on_gpu = {.size = sizeof on_gpu, .device = HYP_DEVICE_CUDA};
    hyp_tune_options briefly = {.size = sizeof briefly, .seconds = 0.1};
    hyp_engine *loaded;
    hyp_context *context;
    hyp_diag said = {0};
    char path[PB_PATH];
    pb_write(&builder, path);
    hyp_status status = hyp_engine_load_file(path, &on_gpu, &loaded, &said);
    unlink(path);
    if (status != HYP_OK) return print_message("%s\n", said.message), status;
    status = hyp_context_create(loaded, NULL, &context, &said);
    for (int64_t rows = 1; rows <= 25000 && status == HYP_OK; rows *= 5) { /* packed ones, pieces */
        hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {rows, WIDTH}};
        hyp_tensor y = {.data = out, .bytes = sizeof out, .dtype = HYP_F32}, there = x;
        status = hyp_context_reserve(context, &x, 1, &said);
        for (int i = 0; i < 3 && status == HYP_OK; i++) status = hyp_context_run(context, &x, 1, &y, 1, &said);
        if (status == HYP_OK) status = hyp_engine_tensor_alloc(loaded, &there, &said);
        if (status != HYP_OK) break;
        status = hyp_engine_tensor_copy(loaded, &x, &there, &said);
        if (status == HYP_OK) status = hyp_engine_tensor_copy(loaded, &there, &x, &said);
        hyp_engine_tensor_free(loaded, &there);
    }
    hyp_tensor x = tensor_at(0, 3);
    if (status == HYP_OK) status = hyp_context_tune(context, &x, 1, &briefly, NULL, &said);
    if (status == HYP_OK) status = hyp_context_synchronize(context, &said);
    hyp_context_destroy(context);
    hyp_engine_destroy(loaded);
    if (status != HYP_OK) print_message("%s\n", said.message);
    return status;
}

static void *work(void *out)
{
    *(hyp_status *)out = do_everything();
    return NULL;
}

/* Of streams that wait for the legacy one and such as do not, by others and by the thread itself. */
static void what_others_capture_is_not_broken(void **state)
{
    (void)state;
    for (unsigned form = 0; form < 4; form++) {
        CUstream stream;
        CUgraph captured = NULL;
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        hyp_status status = HYP_OK;
        buffers b = make_buffers(1);
        MUST(dev.lib.cuStreamCreateWithPriority(&stream, form & 1 ? CU_STREAM_NON_BLOCKING : 0, 0));
        MUST(dev.lib.cuStreamBeginCapture(stream, mode));
        if (form & 2) {
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, work, &status), 0);
            pthread_join(thread, NULL);
        } else {
            status = do_everything();
            MUST(dev.lib.cuThreadExchangeStreamCaptureMode(&mode)); /* as it was */
            assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
        }
        assert_int_equal(status, HYP_OK);
        MUST(dev.lib.cuMemsetD8Async(b.x, 0, 8, stream));
        MUST(dev.lib.cuStreamEndCapture(stream, &captured));
        assert_non_null(captured);
        MUST(dev.lib.cuGraphDestroy(captured));
        MUST(dev.lib.cuStreamDestroy(stream));
        free_buffers(&b);
    }
}

/* ---- attention, whose blocks count in memory of the prepared shapes -----------------------------------------------
 */

static void run_attention(hyp_context *context, CUdeviceptr at, int64_t keys)
{
    hyp_tensor q = tensor_at(at, 1), k = tensor_at(at, keys), v = k, y = q;
    y.data = (void *)(uintptr_t)(at + (size_t)keys * WIDTH * sizeof(float));
    OK(hyp_context_run(context, (hyp_tensor[]){q, k, v}, 3, &y, 1, &diag));
}

/* q, k and v are all the same number in every element, and so is y. */
static void check_attention(CUgraphExec exec, CUdeviceptr at, int64_t keys, float number)
{
    static float all[600 * WIDTH], got[WIDTH];
    for (int64_t i = 0; i < keys * WIDTH; i++) all[i] = number;
    CUdeviceptr y = at + (size_t)keys * WIDTH * sizeof(float);
    MUST(dev.lib.cuMemcpyHtoDAsync(at, all, (size_t)keys * WIDTH * sizeof(float), dev.stream));
    MUST(dev.lib.cuMemsetD8Async(y, 0xff, sizeof got, dev.stream));
    MUST(dev.lib.cuGraphLaunch(exec, dev.stream));
    MUST(dev.lib.cuMemcpyDtoHAsync(got, y, sizeof got, dev.stream));
    MUST(dev.lib.cuStreamSynchronize(dev.stream));
    for (int i = 0; i < WIDTH; i++) assert_true(got[i] > 0.999F * number && got[i] < 1.001F * number);
}

static void counters_of_attention_outlive_eviction(void **state)
{
    (void)state;
    enum { KEYS = 500 };
    static plan_builder b;
    const int64_t none[] = {0, WIDTH, 1};
    pb_init(&b);
    uint32_t keys = pb_symbol(&b, "keys"), width = pb_const(&b, WIDTH), one = pb_const(&b, 1);
    uint32_t q = pb_input(&b, "q", HYP_F32, 2, (uint32_t[]){one, width});
    uint32_t k = pb_input(&b, "k", HYP_F32, 2, (uint32_t[]){keys, width});
    uint32_t v = pb_input(&b, "v", HYP_F32, 2, (uint32_t[]){keys, width});
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){one, width});
    HypPlan__Attention *s = pb_attention(&b);
    s->n_batch = 1;
    s->batch = pb_consts(&b, 1, (int64_t[]){1});
    s->rows = one;
    s->keys = keys;
    s->width = s->columns = width;
    s->scale = 0.01F;
    s->q = pb_attended(&b, q, 3, none, 0);
    s->k = pb_attended(&b, k, 3, none, 0);
    s->v = pb_attended(&b, v, 3, none, 0);
    s->y = pb_attended(&b, y, 3, none, 0);
    hyp_engine *attends = pb_load(&b, HYP_DEVICE_CUDA);
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream, .shapes = 1};
    hyp_context *context;
    OK(hyp_context_create(attends, &options, &context, &diag));
    size_t before = hyp_context_memory_bytes(context);
    CUdeviceptr at;
    MUST(dev.lib.cuMemAlloc(&at, (KEYS + 1) * WIDTH * sizeof(float)));
    MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    run_attention(context, at, KEYS);
    CUgraphExec exec = end_capture(dev.stream);
    for (int64_t other = KEYS; other > KEYS - 40; other -= 10) {
        check_attention(exec, at, KEYS, (float)(other % 7 + 1));
        run_attention(context, at, other - 1);
        MUST(dev.lib.cuStreamSynchronize(dev.stream));
    }
    check_attention(exec, at, KEYS, 3);
    MUST(dev.lib.cuGraphExecDestroy(exec));
    size_t kept = hyp_context_memory_bytes(context);
    hyp_context_release_captured(context);
    assert_true(hyp_context_memory_bytes(context) < kept && kept > before);
    MUST(dev.lib.cuMemFree(at));
    hyp_context_destroy(context);
    hyp_engine_destroy(attends);
    pb_dispose(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_outlives_growth),
        cmocka_unit_test(a_graph_of_a_padded_run_outlives_growth),
        cmocka_unit_test(memory_that_no_graph_uses_is_freed_when_shapes_grow),
        cmocka_unit_test(a_graph_outlives_eviction_and_what_tuning_does),
        cmocka_unit_test(copies_of_tensors_at_odd_addresses_are_kept_too),
        cmocka_unit_test(many_captures_and_growth_in_turn),
        cmocka_unit_test(a_context_that_is_not_to_grow_says_why),
        cmocka_unit_test(host_tensors_cannot_be_captured),
        cmocka_unit_test(tuning_does_not_touch_a_stream_that_is_captured),
        cmocka_unit_test(every_stream_can_be_captured),
        cmocka_unit_test(what_others_capture_is_not_broken),
        cmocka_unit_test(counters_of_attention_outlive_eviction),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, load_plan, unload_plan);
    device_close(&dev);
    return failed;
}
