/* The functions of hypatia/nn.h on a GPU, or an emulated one, which also tells what was called. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "runtime/cuda/device_check.h"
#include "runtime/cuda/emulator_tells.h"
#include "runtime/nn_oracle.h"

static device dev;
static hyp_diag message[1];

#define GOOD(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != HYP_OK) fail_msg("%s: %s", #call, message->message);                                             \
    } while (0)

static hyp_nn *open_nn(void *stream)
{
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_nn *nn = NULL;
    GOOD(hyp_nn_create(&options, stream, &nn, message));
    assert_int_equal(hyp_nn_device(nn), HYP_DEVICE_CUDA);
    return nn;
}

/* Linear, ReLU, Linear, with all gradients. */
static nn_case two_layers(hyp_dtype dtype)
{
    return nn_full_case(dtype, 70, 2, (int64_t[]){24, 48, 16}, (hyp_nn_act[]){HYP_NN_RELU, HYP_NN_NONE});
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

static void passes_are_right(void **unused)
{
    (void)unused;
    hyp_nn *nn = open_nn(NULL);
    nn_check_all(nn, 15, false);
    hyp_nn_destroy(nn);
}

/* By products without epilogues, or without gradients of biases in them. */
static void passes_without_epilogues(void **unused)
{
    (void)unused;
    uint64_t (*launches)(void) = NULL;
    if (!emulator_function("emulator_launches", &launches)) {
        print_message("skipped: only the emulator can lack epilogues\n");
        skip();
    }
    const char *const modes[] = {"plain", "no gradients"};
    for (size_t i = 0; i < 2; i++) {
        setenv("HYPATIA_EMULATOR", modes[i], 1);
        hyp_nn *nn = open_nn(NULL);
        nn_check_all(nn, 5, true);
        hyp_nn_destroy(nn);
        setenv("HYPATIA_EMULATOR", "", 1);
    }
}

/* Sums over rows enough for several parts, rows too wide for a few blocks, and what is no whole number of either. */
static void large_passes_are_right(void **unused)
{
    (void)unused;
    uint64_t seed = 4;
    hyp_nn *nn = open_nn(NULL);
    const hyp_dtype types[] = {HYP_F32, HYP_BF16};
    for (int i = 0; i < 2; i++) {
        nn_case c = nn_full_case(types[i], 700, 2, (int64_t[]){20, 270, 30},
                                 (hyp_nn_act[]){HYP_NN_RELU, HYP_NN_SILU});
        nn_check(nn, &c, &seed);
    }
    hyp_nn_destroy(nn);
}

static void wrong_calls(void **unused)
{
    (void)unused;
    hyp_nn *nn = open_nn(NULL);
    nn_check_refusals(nn);
    hyp_nn_destroy(nn);
}

static hyp_status tune(hyp_nn *nn, const nn_case *c, nn_tensors *t, double seconds)
{
    return hyp_nn_tune(nn, t->layers, c->count, &t->x, c->dx ? &t->dx : NULL, t->gradients, nn_options(c, t), seconds,
                       message);
}

/* ---- what is called -------------------------------------------------------------------------------------------- */

/* Six products, with these epilogues, and a kernel for the gradient of a relu. */
static void six_calls(void **unused)
{
    (void)unused;
    uint64_t (*launches)(void) = NULL, (*epilogues)(int) = NULL, seed = 1, before[1024] = {0};
    if (!emulator_function("emulator_launches", &launches) || !emulator_function("emulator_epilogues", &epilogues)) {
        print_message("skipped: only the emulator tells which epilogues ran\n");
        skip();
    }
    const hyp_nn_act acts[] = {HYP_NN_RELU, HYP_NN_GELU_TANH};
    for (int i = 0; i < 2; i++) {
        static const int wanted[2][6] = {{CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_BIAS,
                                          CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_BGRADB,
                                          CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DEFAULT},
                                         {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_BIAS,
                                          CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_DGELU_BGRAD,
                                          CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DEFAULT}};
        nn_case c = two_layers(HYP_BF16);
        c.act[0] = acts[i];
        hyp_nn *nn = open_nn(NULL);
        nn_numbers n = nn_draw(&c, true, &seed);
        nn_tensors t;
        nn_place(nn, &c, &n, 0, &t);
        GOOD(tune(nn, &c, &t, 20));
        for (int e = 0; e < 1024; e++) before[e] = epilogues(e);
        uint64_t kernels = launches();
        GOOD(nn_forward(nn, &c, &t, true, message));
        GOOD(nn_backward(nn, &c, &t, message));
        GOOD(hyp_nn_synchronize(nn, message));
        assert_int_equal(launches(), kernels + (acts[i] == HYP_NN_RELU));
        for (int k = 0; k < 6; k++) before[wanted[i][k]]++;
        for (int e = 0; e < 1024; e++) assert_int_equal(epilogues(e), before[e]);
        nn_unplace(nn, &c, &t);
        nn_free(&n);
        hyp_nn_destroy(nn);
    }
}

static void note_line(const char *line, void *user) { strcat(strcat(user, line), "\n"); }

static const char *described(const hyp_nn *nn)
{
    static char text[1 << 16];
    *text = 0;
    hyp_nn_describe(nn, note_line, text);
    return text;
}

/* ---- streams and graphs ------------------------------------------------------------------------------------------ */

static bool is_same(hyp_nn *nn, const nn_case *c, const nn_tensors *t, double *const *wanted)
{
    double *dw = nn_fetch(nn, &t->gradients[0].weight, c->width[1], c->width[0], c->width[0]);
    double *dx = nn_fetch(nn, &t->dx, c->rows, c->width[0], c->width[0]);
    bool same = memcmp(dw, wanted[0], (size_t)(c->width[0] * c->width[1]) * sizeof *dw) == 0 &&
                memcmp(dx, wanted[1], (size_t)(c->rows * c->width[0]) * sizeof *dx) == 0;
    free(dw);
    free(dx);
    return same;
}

/* On the handle's stream, on the caller's, from a graph of the caller's while scratch memory grows: the same bits. */
static void streams_and_graphs(void **unused)
{
    (void)unused;
    uint64_t seed = 9;
    nn_case c = two_layers(HYP_F16), larger = c;
    c.act[1] = HYP_NN_SILU;
    larger.rows = 400;
    hyp_nn *nn = open_nn(dev.stream);
    assert_ptr_equal(hyp_nn_stream(nn), dev.stream);
    nn_numbers n = nn_draw(&c, false, &seed);
    nn_tensors t;
    nn_place(nn, &c, &n, 0, &t);
    GOOD(nn_reserve(nn, &c, &t, message));
    GOOD(nn_forward(nn, &c, &t, true, message));
    GOOD(nn_backward(nn, &c, &t, message));
    double *wanted[] = {nn_fetch(nn, &t.gradients[0].weight, 48, 24, 24), nn_fetch(nn, &t.dx, 70, 24, 24)};
    CUstream other;
    assert_int_equal(dev.lib.cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    t.options.stream = other;
    GOOD(nn_forward(nn, &c, &t, true, message));
    t.options.stream = NULL;
    GOOD(nn_backward(nn, &c, &t, message));
    assert_true(is_same(nn, &c, &t, wanted));
    CUgraph graph;
    CUgraphExec ready;
    t.options.stream = other;
    assert_int_equal(dev.lib.cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    GOOD(nn_forward(nn, &c, &t, true, message));
    GOOD(nn_backward(nn, &c, &t, message));
    assert_int_equal(dev.lib.cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuGraphInstantiate(&ready, graph, 0), CUDA_SUCCESS);
    nn_check(nn, &larger, &seed); /* what the graph uses stays */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dev.lib.cuMemsetD8Async((CUdeviceptr)(uintptr_t)t.dx.data, 0xff, t.dx.bytes, other),
                         CUDA_SUCCESS);
        assert_int_equal(dev.lib.cuGraphLaunch(ready, other), CUDA_SUCCESS);
        assert_int_equal(dev.lib.cuStreamSynchronize(other), CUDA_SUCCESS);
        assert_true(is_same(nn, &c, &t, wanted));
    }
    dev.lib.cuGraphExecDestroy(ready);
    dev.lib.cuGraphDestroy(graph);
    size_t bytes = hyp_nn_memory_bytes(nn);
    hyp_nn_release_captured(nn);
    assert_true(hyp_nn_memory_bytes(nn) < bytes);
    nn_unplace(nn, &c, &t);
    nn_free(&n);
    hyp_nn_destroy(nn);
    dev.lib.cuStreamDestroy(other);
    free(wanted[0]);
    free(wanted[1]);
}

/* Of each layer that of its weight and of its bias, then that of x. */
static void fetch_gradients(hyp_nn *nn, const nn_case *c, const nn_tensors *t, double **out)
{
    for (size_t l = 0; l < c->count; l++) {
        *out++ = nn_fetch(nn, &t->gradients[l].weight, c->width[l + 1], c->width[l], c->width[l]);
        *out++ = nn_fetch(nn, &t->gradients[l].bias, 1, c->width[l + 1], c->width[l + 1]);
    }
    *out = nn_fetch(nn, &t->dx, c->rows, c->width[0], c->width[0]);
}

/* A graph of the caller's, of both passes twice, has each layer's own gradients beside those that go on down; its numbers are those of
 * calls one by one, in whatever order it runs what does not wait. */
static void gradients_side_by_side(void **unused)
{
    (void)unused;
    enum { ROWS = 33, LAYERS = 5, TURNS = 8 };
    const int64_t width[] = {16, 40, 24, 40, 24, 16};
    const hyp_nn_act acts[][LAYERS] = {{HYP_NN_RELU, HYP_NN_RELU, HYP_NN_RELU, HYP_NN_RELU, HYP_NN_RELU},
                                       {HYP_NN_GELU_TANH, HYP_NN_SILU, HYP_NN_NONE, HYP_NN_GELU, HYP_NN_NONE}};
    uint64_t (*widest)(void) = NULL, seed = 12;
    bool on_emulator = emulator_function("emulator_widest", &widest);
    for (int which = 0; which < 2; which++) {
        nn_case c = nn_full_case(which ? HYP_BF16 : HYP_F32, ROWS, LAYERS, width, acts[which]);
        nn_numbers n = nn_draw(&c, false, &seed);
        nn_tensors t;
        hyp_nn *nn = open_nn(dev.stream);
        nn_place(nn, &c, &n, 0, &t);
        GOOD(nn_forward(nn, &c, &t, true, message));
        GOOD(nn_backward(nn, &c, &t, message));
        double *wanted[2 * LAYERS + 1];
        fetch_gradients(nn, &c, &t, wanted);
        CUgraph graph;
        CUgraphExec ready;
        assert_int_equal(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
        for (int turn = 0; turn < 2; turn++) {
            GOOD(nn_forward(nn, &c, &t, true, message));
            GOOD(nn_backward(nn, &c, &t, message));
        }
        assert_int_equal(dev.lib.cuStreamEndCapture(dev.stream, &graph), CUDA_SUCCESS);
        assert_int_equal(dev.lib.cuGraphInstantiate(&ready, graph, 0), CUDA_SUCCESS);
        for (int turn = 0; turn < TURNS; turn++) {
            assert_int_equal(dev.lib.cuGraphLaunch(ready, dev.stream), CUDA_SUCCESS);
            if (on_emulator) assert_true(widest() > 1);
            double *found[2 * LAYERS + 1];
            fetch_gradients(nn, &c, &t, found);
            for (size_t i = 0; i < 2 * LAYERS + 1; i++) {
                const size_t count = i == 2 * LAYERS ? (size_t)(ROWS * width[0])
                                     : i % 2         ? (size_t)width[i / 2 + 1]
                                                     : (size_t)(width[i / 2] * width[i / 2 + 1]);
                assert_memory_equal(found[i], wanted[i], count * sizeof(double));
                free(found[i]);
            }
        }
        for (size_t i = 0; i < 2 * LAYERS + 1; i++) free(wanted[i]);
        dev.lib.cuGraphExecDestroy(ready);
        dev.lib.cuGraphDestroy(graph);
        hyp_nn_release_captured(nn);
        nn_unplace(nn, &c, &t);
        nn_free(&n);
        hyp_nn_destroy(nn);
    }
}

/* ---- tuning -------------------------------------------------------------------------------------------------------
 */

/* Tuned in a mode of the emulator, results are right; what was taken. */
static const char *tuned_in(const char *mode, const nn_case *c)
{
    uint64_t seed = 6;
    hyp_nn *nn = open_nn(NULL);
    nn_numbers n = nn_draw(c, true, &seed);
    nn_tensors t;
    nn_place(nn, c, &n, 0, &t);
    setenv("HYPATIA_EMULATOR", mode, 1);
    GOOD(tune(nn, c, &t, 20));
    setenv("HYPATIA_EMULATOR", "", 1);
    uint64_t before = hyp_mem_count();
    GOOD(nn_forward(nn, c, &t, true, message));
    GOOD(nn_backward(nn, c, &t, message));
    GOOD(hyp_nn_synchronize(nn, message));
    assert_int_equal(hyp_mem_count(), before);
    nn_check(nn, c, &seed);
    const char *text = described(nn);
    GOOD(tune(nn, c, &t, 1)); /* nothing is left to measure */
    nn_unplace(nn, c, &t);
    nn_free(&n);
    hyp_nn_destroy(nn);
    return text;
}

static void tuning_takes_the_fastest(void **unused)
{
    (void)unused;
    nn_case c = two_layers(HYP_BF16);
    uint64_t (*runs)(int) = NULL;
    const char *text = tuned_in("", &c);
    assert_non_null(strstr(text, ", tuned, "));
    if (!emulator_function("emulator_runs", &runs)) return;
    assert_non_null(strstr(text, "cuBLASLt RELU_BIAS, tuned, 80.0 us")); /* the fourth algorithm */
    /* Epilogues that cost more than a kernel: none is left. */
    text = tuned_in("slow epilogues", &c);
    assert_non_null(strstr(text, "wgrad bf16 70x48x16 bias: cuBLASLt DEFAULT and sums, tuned"));
    assert_non_null(strstr(text, "dgrad bf16 70x48x16 relu: cuBLASLt DEFAULT and nn_act, tuned"));
    c.accumulate = c.accumulate_input = true;
    tuned_in("", &c);
}

/* ---- failures -----------------------------------------------------------------------------------------------------
 */

static hyp_status live(const nn_case *c, nn_tensors *t, bool tunes)
{
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_nn *nn = NULL;
    hyp_status status = hyp_nn_create(&options, NULL, &nn, message);
    if (status == HYP_OK && tunes) status = tune(nn, c, t, 1);
    if (status == HYP_OK) status = nn_forward(nn, c, t, true, message);
    if (status == HYP_OK) status = nn_backward(nn, c, t, message);
    hyp_nn_destroy(nn);
    return status;
}

static void every_allocation_fails(void **unused)
{
    (void)unused;
    for (int tunes = 0; tunes < 2; tunes++) {
        nn_case c = two_layers(HYP_F32);
        uint64_t seed = 1;
        hyp_nn *nn = open_nn(NULL);
        nn_numbers n = nn_draw(&c, true, &seed);
        nn_tensors t;
        nn_place(nn, &c, &n, 0, &t);
        hyp_status status = HYP_ERR_NO_MEMORY;
        uint64_t at = 1;
        for (; status != HYP_OK; at++) {
            nn_tensors copy = t;
            hyp_mem_fail_after(at);
            status = live(&c, &copy, tunes);
            hyp_mem_fail_after(0);
            if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
            assert_true(at < 1000);
        }
        assert_true(at > 3);
        nn_unplace(nn, &c, &t);
        nn_free(&n);
        hyp_nn_destroy(nn);
    }
}

/* Each call of the driver and of cuBLASLt that fails is told, and leaves nothing behind. */
static void calls_fail(void **unused)
{
    (void)unused;
    bool (*fail_call)(const char *, int, int) = NULL;
    if (!emulator_function("emulator_fail", &fail_call)) {
        print_message("skipped: only the emulator fails calls\n");
        skip();
    }
    const char *const calls[] = {"cublasLtMatmul",    "cuMemAlloc",           "cuLaunchKernelEx",
                                 "cuMemcpyDtoDAsync", "cuStreamBeginCapture", "cuGraphInstantiate",
                                 "cuGraphLaunch",     "cuEventRecord",        "cuStreamSynchronize"};
    nn_case c = two_layers(HYP_F16);
    c.act[1] = HYP_NN_GELU;
    uint64_t seed = 1;
    hyp_nn *nn = open_nn(NULL);
    nn_numbers n = nn_draw(&c, true, &seed);
    nn_tensors t;
    nn_place(nn, &c, &n, 0, &t);
    int failed = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int at = 1; at <= 3; at++)
            for (int tunes = 0; tunes < 2; tunes++) {
                nn_tensors copy = t;
                fail_call(calls[i], CUDA_ERROR_OUT_OF_MEMORY, at);
                hyp_status status = live(&c, &copy, tunes);
                bool hit = !fail_call("", 0, 0);
                if (status != HYP_OK) assert_true(hit && *message->message);
                failed += status != HYP_OK;
            }
    assert_true(failed > 15);
    GOOD(live(&c, &t, false));
    nn_unplace(nn, &c, &t);
    nn_free(&n);
    hyp_nn_destroy(nn);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_calls),
        cmocka_unit_test(passes_are_right),
        cmocka_unit_test(passes_without_epilogues),
        cmocka_unit_test(large_passes_are_right),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(streams_and_graphs),
        cmocka_unit_test(gradients_side_by_side),
        cmocka_unit_test(tuning_takes_the_fastest),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(calls_fail),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
