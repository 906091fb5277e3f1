/* Batch normalizations and gradients of max-pools of the CUDA backend against the reference backend, with the channels in
 * front and, between convolutions, behind. Needs a GPU, or the emulator: see device_start. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "plan/channels_last.h"
#include "runtime/cuda/device_check.h"

enum { MOST_CHANNELS = 72 };

static device dev;
static plan_builder builder; /* large */

static hyp_dtype statistics(hyp_dtype dtype) { return dtype == HYP_F64 ? HYP_F64 : HYP_F32; }

/* Statistics of x, and of the gradient g with them, as outputs. */
static void add_batch_norm(hyp_dtype dtype, uint32_t x, uint32_t g, int64_t channels)
{
    static const char *const names[] = {"mean", "variance", "inverse", "by scale", "by bias"};
    uint32_t *dims = pb_consts(&builder, 1, &channels), out[5];
    for (int i = 0; i < 5; i++) out[i] = pb_output(&builder, names[i], statistics(dtype), 1, dims);
    HypPlan__Call *stats = pb_call(&builder, "batch-norm-stats", 1, &x, out[0]);
    pb_call_float(&builder, stats, 0.25);
    stats->n_outputs = 3;
    memcpy(stats->outputs, out, 3 * sizeof *out);
    HypPlan__Call *sums = pb_call(&builder, "batch-norm-gradient", 4, (uint32_t[]){x, g, out[0], out[2]}, out[3]);
    sums->n_outputs = 2;
    memcpy(sums->outputs, out + 3, 2 * sizeof *out);
    out[3] = pb_output(&builder, "by scale, relu", statistics(dtype), 1, dims);
    out[4] = pb_output(&builder, "by bias, relu", statistics(dtype), 1, dims);
    sums = pb_call(&builder, "batch-norm-gradient", 6, (uint32_t[]){x, g, out[0], out[2], out[2], out[0]}, out[3]); /* any scale and bias */
    sums->n_outputs = 2;
    memcpy(sums->outputs, out + 3, 2 * sizeof *out);
}

static void check_batch_norm(hyp_dtype dtype, size_t rank, const int64_t *dims)
{
    int64_t terms = 1, shapes[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
    pb_init(&builder);
    for (size_t a = 0; a < rank; a++) {
        shapes[0][a] = shapes[1][a] = dims[a];
        terms *= a == 1 ? 1 : dims[a];
    }
    uint32_t *all = pb_consts(&builder, rank, dims);
    uint32_t x = pb_input(&builder, "x", dtype, rank, all), g = pb_input(&builder, "g", dtype, rank, all);
    add_batch_norm(dtype, x, g, dims[1]);
    tolerance want = tolerance_of(statistics(dtype), terms + 1);
    want.atol *= 4;
    check_plan(&dev, &builder, (const int64_t(*)[HYP_MAX_RANK])shapes, want);
}

static void statistics_of_every_type_and_size(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{3, 5, 4, 6}, {2, 16, 7, 7}, {4, 3, 8, 16},  {1, 1, 3, 5},   {2, 1, 40, 64},
                                       {9, 8, 1, 1}, {70, 24, 1, 1}, {2, 2, 60, 64}, {300, 70, 2, 1}, {1, 0, 2, 3}};
    for (int t = 0; t < FLOATS; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_batch_norm(floats[t], 4, sizes[i]);
    for (int t = 0; t < FLOATS; t++) {
        check_batch_norm(floats[t], 2, (int64_t[]){50, 16});
        check_batch_norm(floats[t], 3, (int64_t[]){5, 6, 33});
    }
}

/* y = x, or an activation of it, by a convolution with filters of one element. */
static void add_identity(hyp_dtype dtype, uint32_t x, uint32_t y, int64_t channels, const char *act)
{
    static unsigned char data[MOST_CHANNELS * MOST_CHANNELS * sizeof(float)]; /* until the plan is written */
    memset(data, 0, sizeof data);
    for (int64_t i = 0; i < channels; i++) hyp_store_f64(dtype, data, (size_t)(i * channels + i), 1);
    uint32_t weight = pb_weight(&builder, dtype, 4, (int64_t[]){channels, channels, 1, 1}, data);
    HypPlan__Call *call = pb_call(&builder, "conv", 2, (uint32_t[]){x, weight}, y);
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_ints(&builder, call, 4, (int64_t[]){0, 0, 0, 0});
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, call, 1);
    pb_call_symbol(&builder, call, act);
}

typedef struct pooled {
    int64_t kernel[2], strides[2], pads[4], dilations[2];
    const char *act; /* of x: after a relu many elements are alike */
} pooled;

static void add_window(HypPlan__Call *call, const pooled *w)
{
    pb_call_ints(&builder, call, 2, w->kernel);
    pb_call_ints(&builder, call, 2, w->strides);
    pb_call_ints(&builder, call, 4, w->pads);
    pb_call_ints(&builder, call, 2, w->dilations);
}

enum { SCRATCH = 5 };

/* Images between convolutions, which let them lie with the channels last: x, a gradient, what a max-pool makes of x, the
 * gradient by that, and the one by x. */
static void build_between(hyp_dtype dtype, const int64_t *dims, const pooled *w, uint32_t *scratch)
{
    int64_t small[4] = {dims[0], dims[1]};
    for (int a = 0; a < 2; a++) {
        int64_t span = (w->kernel[a] - 1) * w->dilations[a] + 1;
        small[2 + a] = (dims[2 + a] + w->pads[a] + w->pads[2 + a] - span) / w->strides[a] + 1;
    }
    pb_init(&builder);
    uint32_t *all = pb_consts(&builder, 4, dims), *few = pb_consts(&builder, 4, small);
    uint32_t x = pb_input(&builder, "x", dtype, 4, all), g = pb_input(&builder, "g", dtype, 4, all);
    uint32_t y = pb_output(&builder, "y", dtype, 4, all);
    for (uint32_t i = 0; i < SCRATCH; i++) scratch[i] = pb_scratch(&builder, dtype, i, 4, i == 2 || i == 3 ? few : all);
    add_identity(dtype, x, scratch[0], dims[1], w->act);
    add_identity(dtype, g, scratch[1], dims[1], "none");
    add_batch_norm(dtype, scratch[0], scratch[1], dims[1]);
    HypPlan__Call *pool = pb_call(&builder, "max-pool", 1, scratch, scratch[2]);
    add_window(pool, w);
    pb_call_int(&builder, pool, 0);
    pb_call_int(&builder, pool, 0);
    add_identity(dtype, scratch[2], scratch[3], dims[1], "none");
    HypPlan__Call *back =
        pb_call(&builder, "max-pool-gradient", 3, (uint32_t[]){scratch[0], scratch[2], scratch[3]}, scratch[4]);
    add_window(back, w);
    add_identity(dtype, scratch[4], y, dims[1], "none");
}

static const pooled windows[] = {{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, "none"},
                                 {{2, 2}, {2, 2}, {0}, {1, 1}, "none"},
                                 {{3, 2}, {1, 3}, {0, 1, 2, 0}, {1, 1}, "none"}};
static const int64_t images[][4] = {{2, 16, 9, 8}, {3, 8, 12, 5}, {2, 5, 7, 6}, {1, 24, 6, 6}};

static void images_with_the_channels_last(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    uint32_t scratch[SCRATCH];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
            const int64_t *d = images[i];
            build_between(types[t], d, &windows[(i + t) % 3], scratch);
            tolerance want = tolerance_of(types[t], 10);
            if (types[t] != HYP_F32) want.atol /= 8; /* statistics are f32; what is not is exact, or a sum of a few */
            check_plan(&dev, &builder, (dims_list){{d[0], d[1], d[2], d[3]}, {d[0], d[1], d[2], d[3]}}, want);
        }
}

/* Images of several tiles, and windows of all kinds: those that overlap much and those with gaps between them, with gaps in
 * them, with more padding than they are large, and with more elements than tiles are made for. */
static void windows_over_tiles_of_images(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    static const pooled all[] = {{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, "relu"},
                                 {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, "relu"},
                                 {{5, 4}, {2, 3}, {2, 0, 1, 3}, {1, 1}, "relu"},
                                 {{1, 2}, {3, 5}, {0}, {1, 1}, "none"},
                                 {{2, 2}, {3, 3}, {1, 2, 1, 2}, {1, 1}, "relu"},
                                 {{3, 3}, {2, 1}, {2, 2, 2, 2}, {2, 2}, "relu"},
                                 {{16, 17}, {1, 2}, {0}, {1, 1}, "relu"},
                                 {{9, 8}, {1, 1}, {4, 4, 4, 4}, {1, 1}, "relu"}};
    static const int64_t sizes[][4] = {{1, 16, 37, 20}, {1, 72, 17, 18}, {2, 8, 18, 33}};
    uint32_t scratch[SCRATCH];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            const int64_t *d = sizes[(i + t) % 3];
            build_between(types[t], d, &all[i], scratch);
            tolerance want = tolerance_of(types[t], 20); /* sums over windows that overlap, and statistics */
            check_plan(&dev, &builder, (dims_list){{d[0], d[1], d[2], d[3]}, {d[0], d[1], d[2], d[3]}}, want);
        }
}

/* Of the networks above all images between convolutions do lie so where a device has all kernels for it, and none that
 * the others read where it has not. */
static void layouts_are_chosen_by_what_a_device_has(void **state)
{
    (void)state;
    const uint32_t also = HYP_LAST_REDUCED | HYP_LAST_COPIED | HYP_LAST_WALKED | HYP_LAST_PARTS;
    static bool last[PB_MAX];
    static int64_t values[PB_MAX];
    uint32_t scratch[SCRATCH];
    hyp_diag diag = {0};
    build_between(HYP_BF16, images[0], &windows[0], scratch);
    assert_int_equal(hyp_plan_eval_dims(&builder.program, NULL, values, &diag), HYP_OK);
    for (int trained = 0; trained < 2; trained++) {
        assert_int_equal(hyp_choose_layouts(&builder.program, values, 1u << HYP_BF16, 4, also | (trained ? HYP_LAST_TRAINED : 0),
                                            last, &diag),
                         HYP_OK);
        for (uint32_t i = 0; i < SCRATCH; i++) assert_int_equal(last[scratch[i]], trained != 0);
    }
    pb_dispose(&builder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_chosen_by_what_a_device_has),
        cmocka_unit_test(statistics_of_every_type_and_size),
        cmocka_unit_test(images_with_the_channels_last),
        cmocka_unit_test(windows_over_tiles_of_images),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
