/* Inputs and outputs that lie anywhere: in host memory, page-locked or not, on the device, at odd addresses. Needs a
 * GPU, or the emulator: see device_start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"
#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/session/staging.h"

static device dev;
static plan_builder builder; /* large */

/* Elements of the inputs: small ones, the largest small one, the first that is none, one of more pieces than the ring
 * has, none at all, one that several threads copy. */
enum {
    TENSORS = 7,
    SMALLEST_LARGE = HYP_CUDA_SMALL / 4 + 1,
    MANY_PIECES = HYP_CUDA_PIECE / 4 * 9 / 2 + 3,
    VERY_LARGE = HYP_CUDA_SHARED / 4 + 5
};
static const int64_t counts[TENSORS] = {7, MANY_PIECES, SMALLEST_LARGE - 1, 0, SMALLEST_LARGE, 33, VERY_LARGE};

/* y_i = x_i + x_i for every i; host tensors are by that name alone. */
static hyp_engine *load_doubles(void)
{
    static const char *const inputs[TENSORS] = {"a", "b", "c", "d", "e", "f", "g"};
    static const char *const outputs[TENSORS] = {"A", "B", "C", "D", "E", "F", "G"};
    pb_init(&builder);
    uint32_t one = pb_const(&builder, 1);
    for (int i = 0; i < TENSORS; i++) {
        uint32_t *extents = pb_consts(&builder, 1, &counts[i]);
        uint32_t x = pb_input(&builder, inputs[i], HYP_F32, 1, extents);
        uint32_t y = pb_output(&builder, outputs[i], HYP_F32, 1, extents);
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, extents);
        pb_operand(&builder, s, x, &one);
        pb_result(&builder, s, y, pb_instr(&builder, s, OP(ADD), 0, 0, 0, 0, HYP_F32));
    }
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    pb_dispose(&builder);
    return engine;
}

typedef enum place { PAGEABLE, LOCKED, DEVICE, ODD, PLACES } place;

typedef struct placed {
    hyp_tensor t;
    place where;
    float *host; /* the numbers, in ordinary memory */
} placed;

static placed put(int i, place where)
{
    placed p = {.where = where};
    size_t bytes = (size_t)counts[i] * sizeof(float), room = bytes + 64;
    p.t = (hyp_tensor){.dtype = HYP_F32, .rank = 1, .dims = {counts[i]}, .bytes = bytes};
    p.host = malloc(room);
    assert_non_null(p.host);
    CUdeviceptr at;
    if (where == PAGEABLE) p.t.data = p.host;
    if (where == LOCKED) assert_int_equal(dev.lib.cuMemHostAlloc(&p.t.data, room, 0), CUDA_SUCCESS);
    if (where < DEVICE) return p;
    assert_int_equal(dev.lib.cuMemAlloc(&at, room), CUDA_SUCCESS);
    p.t.data = (void *)(uintptr_t)(at + (where == ODD ? 4 : 0));
    p.t.memory = HYP_MEMORY_CUDA;
    return p;
}

static void take_back(placed *p)
{
    if (p->where == LOCKED) assert_int_equal(dev.lib.cuMemFreeHost(p->t.data), CUDA_SUCCESS);
    uintptr_t at = (uintptr_t)p->t.data - (p->where == ODD ? 4 : 0);
    if (p->where >= DEVICE) assert_int_equal(dev.lib.cuMemFree(at), CUDA_SUCCESS);
    free(p->host);
}

/* Between `host` and where the tensor lies. */
static void transfer(placed *p, bool out)
{
    CUdeviceptr at = (uintptr_t)p->t.data;
    size_t bytes = p->t.bytes;
    if (bytes == 0) return;
    if (p->where == LOCKED) memcpy(out ? p->host : p->t.data, out ? p->t.data : p->host, bytes);
    if (p->where >= DEVICE)
        assert_int_equal(out ? dev.lib.cuMemcpyDtoHAsync(p->host, at, bytes, dev.stream)
                             : dev.lib.cuMemcpyHtoDAsync(at, p->host, bytes, dev.stream),
                         CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
}

/* One run with other numbers than the last. */
static void run_once(hyp_context *context, placed *x, placed *y, int run)
{
    hyp_tensor in[TENSORS], out[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        for (int64_t e = 0; e < counts[i]; e++) x[i].host[e] = (float)((e * 7 + run * 13 + i) % 4096);
        memset(y[i].host, 0xff, y[i].t.bytes);
        transfer(&x[i], false);
        transfer(&y[i], false);
        in[i] = x[i].t;
        out[i] = y[i].t;
    }
    hyp_diag diag = {0};
    if (hyp_context_run(context, in, TENSORS, out, TENSORS, &diag) != HYP_OK ||
        hyp_context_synchronize(context, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    for (int i = 0; i < TENSORS; i++) {
        transfer(&y[i], true);
        for (int64_t e = 0; e < counts[i]; e++)
            if (y[i].host[e] != 2 * x[i].host[e])
                fail_msg("run %d, tensor %d (from %d to %d), element %lld: %g, %g is wanted", run, i, x[i].where,
                         y[i].where, (long long)e, (double)y[i].host[e], 2 * (double)x[i].host[e]);
    }
}

/* Runs some times with the same places, so that it is also replayed. */
static void run_places(hyp_context *context, const place *in, const place *out)
{
    placed x[TENSORS], y[TENSORS];
    for (int i = 0; i < TENSORS; i++) x[i] = put(i, in[i]), y[i] = put(i, out[i]);
    for (int run = 0; run < 3; run++) run_once(context, x, y, run);
    for (int i = 0; i < TENSORS; i++) take_back(&x[i]), take_back(&y[i]);
}

static bool locks_pages(void)
{
    void *at;
    if (dev.lib.cuMemHostAlloc(&at, 64, 0) != CUDA_SUCCESS) return false;
    assert_int_equal(dev.lib.cuMemFreeHost(at), CUDA_SUCCESS);
    return true;
}

static void tensors_lie_anywhere(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_context *context;
    hyp_engine *engine = load_doubles();
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    uint64_t seed = 3;
    bool locks = locks_pages();
    assert_int_equal(hyp_context_create(engine, &options, &context, &diag), HYP_OK);
    for (int round = 0; round < 8; round++) { /* the first ones all alike, the others mixed */
        place in[TENSORS], out[TENSORS];
        for (int i = 0; i < TENSORS; i++) {
            in[i] = round < PLACES ? (place)round : (place)random_between(&seed, 0, PLACES - 1);
            out[i] = round < PLACES ? (place)round : (place)random_between(&seed, 0, PLACES - 1);
            if (in[i] == LOCKED && !locks) in[i] = PAGEABLE;
            if (out[i] == LOCKED && !locks) out[i] = PAGEABLE;
        }
        run_places(context, in, out);
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

/* How many kernels ran; only an emulated device tells. */
static bool launches(uint64_t *out)
{
    uint64_t (*count)(void) = NULL;
    bool emulated = emulator_function("emulator_launches", &count);
    if (emulated) *out = count();
    return emulated;
}

static void small_tensors_go_together(void **state)
{
    (void)state;
    uint64_t before = 0, after = 0;
    if (!launches(&before) || !locks_pages()) {
        printf("skipped: only an emulated device with page-locked memory tells how many kernels run\n");
        skip();
    }
    hyp_diag diag = {0};
    hyp_context *context;
    hyp_engine *engine = load_doubles();
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    static const place small_on_host[TENSORS] = {PAGEABLE, DEVICE, PAGEABLE, DEVICE, DEVICE, PAGEABLE, DEVICE};
    placed x[TENSORS], y[TENSORS];
    hyp_tensor in[TENSORS], out[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        x[i] = put(i, small_on_host[i]), y[i] = put(i, small_on_host[i]);
        in[i] = x[i].t, out[i] = y[i].t;
        memset(x[i].host, 0, x[i].t.bytes);
    }
    for (int run = 0; run < 3; run++) {
        assert_true(launches(&before));
        assert_int_equal(hyp_context_run(context, in, TENSORS, out, TENSORS, &diag), HYP_OK);
        assert_true(launches(&after));
        assert_int_equal(after - before, 6 + 2); /* the plan's, one for three inputs and one for three outputs */
    }
    for (int i = 0; i < TENSORS; i++) take_back(&x[i]), take_back(&y[i]);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_lie_anywhere),
        cmocka_unit_test(small_tensors_go_together),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
