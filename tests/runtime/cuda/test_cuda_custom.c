/* Kernels of the caller's on a GPU: what they are given, that what they queue is captured and replayed without them,
 * and what is said where they cannot. Needs a GPU, or the emulator: see device_start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"

enum { WIDTH = 4, MOST = 8 };

static device dev;
static plan_builder builder; /* large */

/* y = -copy(relu(x)), the copy being a custom operator in the domain "t". */
static void build(void)
{
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), width = pb_const(&builder, WIDTH), shape[] = {batch, width};
    uint32_t one = pb_const(&builder, 1), dense[] = {width, one};
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, shape), h = pb_scratch(&builder, HYP_F32, 0, 2, shape);
    uint32_t s = pb_scratch(&builder, HYP_F32, 1, 2, shape), y = pb_output(&builder, "y", HYP_F32, 2, shape);
    HypPlan__Pointwise *relu = pb_pointwise(&builder, HYP_F32, 2, shape);
    pb_operand(&builder, relu, x, dense);
    pb_result(&builder, relu, h, pb_instr(&builder, relu, OP(RELU), 0, 0, 0, 0, HYP_F32));
    pb_custom(&builder, "t", "Copy", 1, &h, s);
    HypPlan__Pointwise *neg = pb_pointwise(&builder, HYP_F32, 2, shape);
    pb_operand(&builder, neg, s, dense);
    pb_result(&builder, neg, y, pb_instr(&builder, neg, OP(NEG), 0, 0, 0, 0, HYP_F32));
}

static hyp_status ask_for_room(hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    call->workspace_bytes = (size_t)call->inputs->dims[0] * WIDTH * 4;
    return HYP_OK;
}

/* Goes through the workspace. */
static hyp_status copy(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)diag;
    ++*(int *)user;
    const hyp_tensor *x = call->inputs, *y = call->outputs;
    CUdeviceptr from = (uintptr_t)x->data, by = (uintptr_t)call->workspace, to = (uintptr_t)y->data;
    assert_true(x->memory == HYP_MEMORY_CUDA && y->memory == HYP_MEMORY_CUDA && call->stream && by);
    assert_true(x->bytes == y->bytes && call->workspace_bytes == y->bytes && by % 256 == 0);
    if (dev.lib.cuMemcpyDtoDAsync(by, from, x->bytes, call->stream) != CUDA_SUCCESS) return HYP_ERR_DEVICE;
    return dev.lib.cuMemcpyDtoDAsync(to, by, x->bytes, call->stream) == CUDA_SUCCESS ? HYP_OK : HYP_ERR_DEVICE;
}

static hyp_status on_host(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    memcpy(call->outputs->data, call->inputs->data, call->inputs->bytes);
    return HYP_OK;
}

static hyp_status load(hyp_device_kind kind, const hyp_custom_kernel *kernel, hyp_engine **out, hyp_diag *diag)
{
    char path[PB_PATH];
    const hyp_custom_kernel *const kernels[] = {kernel};
    const hyp_engine_options o = {
        .size = sizeof o, .device = kind, .custom_kernels = kernels, .custom_kernel_count = 1};
    build();
    pb_write(&builder, path);
    hyp_status status = hyp_engine_load_file(path, &o, out, diag);
    pb_remove(&builder, path);
    return status;
}

static hyp_status run(hyp_context *context, int64_t rows, float sign, hyp_diag *diag)
{
    float x[MOST * WIDTH], y[MOST * WIDTH] = {0};
    for (int i = 0; i < MOST * WIDTH; i++) x[i] = sign * (float)(i - 7);
    hyp_tensor in = {.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 2, .dims = {rows, WIDTH}};
    hyp_tensor out = {.data = y, .bytes = sizeof y, .dtype = HYP_F32};
    hyp_status status = hyp_context_run(context, &in, 1, &out, 1, diag);
    for (int i = 0; status == HYP_OK && i < rows * WIDTH; i++)
        if (y[i] != -(x[i] > 0 ? x[i] : 0)) fail_msg("element %d is %g", i, (double)y[i]);
    return status;
}

static hyp_context *open_context(hyp_engine *e, CUstream stream)
{
    hyp_context *c;
    hyp_diag diag = {0};
    hyp_context_options o = {.size = sizeof o, .stream = stream};
    if (hyp_context_create(e, &o, &c, &diag) != HYP_OK) fail_msg("%s", diag.message);
    return c;
}

static void what_is_queued_is_replayed(void **state)
{
    (void)state;
    int calls = 0;
    hyp_custom_kernel kernel = {.size = sizeof kernel,
                                .domain = "t",
                                .name = "Copy",
                                .shape = ask_for_room,
                                .run = on_host,
                                .run_cuda = copy,
                                .user = &calls};
    for (int captured = 1; captured >= 0; captured--) {
        hyp_engine *e;
        hyp_diag diag = {0};
        kernel.no_capture = !captured;
        if (load(HYP_DEVICE_CUDA, &kernel, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
        hyp_context *c = open_context(e, NULL);
        calls = 0;
        for (int i = 0; i < 12; i++)
            if (run(c, i % 2 ? 3 : MOST, i % 3 ? 1 : -1, &diag) != HYP_OK) fail_msg("%s", diag.message);
        /* Of each shape once as it is, and once to be captured. */
        assert_int_equal(calls, captured ? 4 : 12);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

/* On a stream that the caller captures, the kernel is captured or refused. */
static void a_caller_may_capture_it(void **state)
{
    (void)state;
    int calls = 0;
    hyp_custom_kernel kernel = {
        .size = sizeof kernel, .domain = "t", .name = "Copy", .shape = ask_for_room, .run_cuda = copy, .user = &calls};
    for (int captured = 1; captured >= 0; captured--) {
        hyp_engine *e;
        hyp_diag diag = {0};
        kernel.no_capture = !captured;
        if (load(HYP_DEVICE_CUDA, &kernel, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
        hyp_context *c = open_context(e, dev.stream);
        if (run(c, 3, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
        hyp_tensor x = {.bytes = 3 * WIDTH * 4, .dtype = HYP_F32, .rank = 2, .dims = {3, WIDTH}};
        hyp_tensor y = {.bytes = 3 * WIDTH * 4, .dtype = HYP_F32};
        assert_int_equal(hyp_engine_tensor_alloc(e, &x, &diag), HYP_OK);
        assert_int_equal(hyp_engine_tensor_alloc(e, &y, &diag), HYP_OK);
        CUgraph graph = NULL;
        assert_int_equal(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
        hyp_status status = hyp_context_run(c, &x, 1, &y, 1, &diag);
        dev.lib.cuStreamEndCapture(dev.stream, &graph);
        if (graph) dev.lib.cuGraphDestroy(graph);
        assert_int_equal(status, captured ? HYP_OK : HYP_ERR_UNSUPPORTED);
        if (!captured && !strstr(diag.message, "t::Copy")) fail_msg("%s", diag.message);
        if (run(c, 3, -1, &diag) != HYP_OK) fail_msg("%s", diag.message);
        hyp_engine_tensor_free(e, &x);
        hyp_engine_tensor_free(e, &y);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

static void a_kernel_for_the_host_alone_takes_the_cpu(void **state)
{
    (void)state;
    const hyp_custom_kernel kernel = {.size = sizeof kernel, .domain = "t", .name = "Copy", .run = on_host};
    hyp_engine *e;
    hyp_diag diag = {0};
    assert_int_equal(load(HYP_DEVICE_CUDA, &kernel, &e, &diag), HYP_ERR_UNSUPPORTED);
    if (!strstr(diag.message, "t::Copy has no run_cuda")) fail_msg("%s", diag.message);
    if (load(HYP_DEVICE_AUTO, &kernel, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(hyp_engine_device(e), HYP_DEVICE_CPU);
    hyp_context *c = open_context(e, NULL);
    if (run(c, MOST, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    hyp_context_destroy(c);
    hyp_engine_destroy(e);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_queued_is_replayed),
        cmocka_unit_test(a_caller_may_capture_it),
        cmocka_unit_test(a_kernel_for_the_host_alone_takes_the_cpu),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
