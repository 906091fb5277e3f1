/* Weights that are replaced while a GPU has work, and while graphs of the caller's hold it. Judged by integers. Needs a
 * GPU, or the emulator: see device_start. */
#include "runtime/cuda/device_check.h"
#include "runtime/updatable.h"

static device dev;
static up_plan plan;
static up_version old, new;

enum { ROWS = 3, SETS = 4 };

typedef struct buffers {
    hyp_tensor x, y;
} buffers;

static CUdeviceptr address(const hyp_tensor *t) { return (CUdeviceptr)(uintptr_t)t->data; }

static void make_buffers(hyp_engine *engine, buffers *b)
{
    float x[ROWS * UP_IN];
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < UP_IN; k++) x[r * UP_IN + k] = up_x(r, k);
    b->x = tensor_of("x", HYP_F32, NULL, 2, (int64_t[]){ROWS, UP_IN});
    b->y = tensor_of("y", HYP_F32, NULL, 2, (int64_t[]){ROWS, UP_OUT});
    assert_ok(hyp_engine_tensor_alloc(engine, &b->x, diag));
    assert_ok(hyp_engine_tensor_alloc(engine, &b->y, diag));
    const hyp_tensor from = tensor_of("x", HYP_F32, x, 2, (int64_t[]){ROWS, UP_IN});
    assert_ok(hyp_engine_tensor_copy(engine, &from, &b->x, diag));
}

static void free_buffers(hyp_engine *engine, buffers *b)
{
    hyp_engine_tensor_free(engine, &b->x);
    hyp_engine_tensor_free(engine, &b->y);
}

/* Queues a run. */
static void run(hyp_context *context, buffers *b) { assert_ok(hyp_context_run(context, &b->x, 1, &b->y, 1, diag)); }

static void must_hold(const buffers *b, const up_version *v)
{
    float y[ROWS * UP_OUT], wanted[ROWS * UP_OUT];
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemcpyDtoHAsync(y, address(&b->y), sizeof y, dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
    up_expect(v, ROWS, wanted);
    assert_memory_equal(y, wanted, sizeof y);
}

static void put(hyp_engine *engine, up_version *v)
{
    hyp_tensor tensors[UP_WEIGHTS];
    up_tensors(v, tensors);
    assert_ok(hyp_engine_update(engine, tensors, UP_WEIGHTS, diag));
}

/* The same from tensors on the device, every second of them. */
static void put_from_device(hyp_engine *engine, up_version *v)
{
    hyp_tensor tensors[UP_WEIGHTS], there[UP_WEIGHTS];
    up_tensors(v, tensors);
    for (int i = 0; i < UP_WEIGHTS; i++) {
        there[i] = tensors[i];
        if (i % 2) continue;
        assert_ok(hyp_engine_tensor_alloc(engine, &there[i], diag));
        assert_ok(hyp_engine_tensor_copy(engine, &tensors[i], &there[i], diag));
    }
    assert_ok(hyp_engine_update(engine, there, UP_WEIGHTS, diag));
    for (int i = 0; i < UP_WEIGHTS; i += 2) hyp_engine_tensor_free(engine, &there[i]);
}

static hyp_context *make_context(hyp_engine *engine)
{
    hyp_context *context;
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    assert_ok(hyp_context_create(engine, &options, &context, diag));
    return context;
}

/* Runs that nobody has waited for are with the weights of when they were queued. */
static void queued_runs_keep_their_weights(void **state)
{
    (void)state;
    buffers b[SETS];
    hyp_engine *engine = pb_load(&plan.outer, HYP_DEVICE_CUDA);
    hyp_context *context = make_context(engine);
    for (int i = 0; i < SETS; i++) make_buffers(engine, &b[i]);
    for (int round = 0; round < 4; round++) { /* op by op, captured by us, replayed */
        for (int i = 0; i < SETS; i++) {
            run(context, &b[i]);
            if (i == 2)
                put_from_device(engine, &new);
            else
                put(engine, i % 2 ? &old : &new);
        }
        for (int i = 0; i < SETS; i++) must_hold(&b[i], i % 2 ? &new : &old);
    }
    for (int i = 0; i < SETS; i++) free_buffers(engine, &b[i]);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

static void graphs_of_the_callers_keep_theirs(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    buffers a, b;
    hyp_engine *engine = pb_load(&plan.outer, HYP_DEVICE_CUDA);
    hyp_context *captured = make_context(engine);
    make_buffers(engine, &a);
    make_buffers(engine, &b);
    run(captured, &a);
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
    put(engine, &new); /* between a run and the capture: a capture is no time to prepare anything */
    assert_int_equal(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    run(captured, &a);
    assert_int_equal(dev.lib.cuStreamEndCapture(dev.stream, &graph), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    hyp_context *fresh = make_context(engine);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(dev.lib.cuGraphLaunch(exec, dev.stream), CUDA_SUCCESS);
        must_hold(&a, &old);
        run(fresh, &b);
        must_hold(&b, round % 2 ? &old : &new);
        run(captured, &b);
        must_hold(&b, &old);
        put(engine, round % 2 ? &new : &old);
    }
    assert_int_equal(dev.lib.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuGraphDestroy(graph), CUDA_SUCCESS);
    hyp_context_destroy(captured);
    hyp_context_destroy(fresh);
    free_buffers(engine, &a);
    free_buffers(engine, &b);
    hyp_engine_destroy(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queued_runs_keep_their_weights),
        cmocka_unit_test(graphs_of_the_callers_keep_theirs),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    up_draw(1, &old);
    up_draw(2, &new);
    up_build(&plan, &old, 0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pb_dispose(&plan.outer);
    device_close(&dev);
    return failed;
}
