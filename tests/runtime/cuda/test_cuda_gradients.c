/* Gradients on a GPU against the reference backend: of a convolution whose weights a run is given, by x and by the weights
 * behind it, as a training step has them, and of a layer, by its weight and its bias. Needs a GPU, or the emulator: see
 * device_start. With cuDNN those of convolutions are done by that, without (HYPATIA_CUDNN=none) by kernels of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

enum { AXES = 3, RANK = 2 + AXES };

static device dev;
static plan_builder builder; /* large */

typedef struct window {
    size_t axes;
    int64_t size[AXES], kernel[AXES], strides[AXES], dilations[AXES], pads[2 * AXES];
} window;

typedef struct one {
    hyp_dtype dtype;
    int64_t images, in, out, group;
    bool between; /* convolutions of one tap around all images, which may lie in another order then */
    bool tf32;    /* the plan allows it, so that f32 may lie so, too; the emulator computes in f32 in any case */
} one;

static const window windows[] = {
    {2, {6, 6}, {3, 2}, {2, 3}, {1, 1}, {1, 0, 1, 0}},                   /* a rest that no window reaches */
    {2, {5, 6}, {3, 2}, {1, 1}, {2, 3}, {1, 2, 1, 2}},                   /* dilations */
    {2, {6, 5}, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}},                   /* padding behind alone */
    {2, {5, 4}, {5, 1}, {1, 1}, {1, 1}, {4, 0, 1, 2}},                   /* and more of it on one side */
    {2, {5, 5}, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},                   /* filters of one element, in steps */
    {2, {4, 3}, {4, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}},                   /* as large as the image */
    {1, {11}, {4}, {3}, {2}, {2, 2}},                                    /* one axis */
    {1, {9}, {4}, {1}, {1}, {3, 0}},                                     /* that is padded in front */
    {3, {3, 4, 3}, {2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {1, 1, 0, 1, 1, 0}}, /* three axes */
};

static void places_of(const window *w, int64_t *out)
{
    for (size_t i = 0; i < w->axes; i++) {
        int64_t room = w->size[i] + w->pads[i] + w->pads[w->axes + i] - (w->kernel[i] - 1) * w->dilations[i] - 1;
        out[i] = room / w->strides[i] + 1;
    }
}

static HypPlan__Call *add_call(const char *kernel, const window *w, int64_t group, size_t inputs, const uint32_t *in,
                               uint32_t out)
{
    HypPlan__Call *call = pb_call(&builder, kernel, inputs, in, out);
    pb_call_ints(&builder, call, w->axes, w->strides);
    pb_call_ints(&builder, call, 2 * w->axes, w->pads);
    pb_call_ints(&builder, call, w->axes, w->dilations);
    pb_call_int(&builder, call, group);
    return call;
}

/* A convolution of one tap, with constant weights. */
static void add_tap(uint64_t *seed, hyp_dtype dtype, size_t axes, int64_t channels, uint32_t x, uint32_t y)
{
    const window tap = {axes, {0}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}};
    uint32_t w = random_weight(&builder, seed, dtype, 2 + axes, (int64_t[RANK]){channels, channels, 1, 1, 1});
    pb_call_symbol(&builder, add_call("conv", &tap, 1, 2, (uint32_t[]){x, w}, y), "none");
}

static uint32_t *dims_of(int64_t first, int64_t second, size_t axes, const int64_t *size)
{
    int64_t dims[RANK] = {first, second};
    memcpy(dims + 2, size, axes * sizeof *size);
    return pb_consts(&builder, 2 + axes, dims);
}

/* y = conv(x w), dx and dw from g. */
static void build(uint64_t *seed, const one *k, const window *w, bool by_x)
{
    size_t rank = 2 + w->axes;
    int64_t places[AXES], more[AXES] = {0};
    places_of(w, places);
    for (size_t i = 0; i < w->axes; i++)
        more[i] = w->size[i] + w->pads[i] + w->pads[w->axes + i] - (places[i] - 1) * w->strides[i] -
                  (w->kernel[i] - 1) * w->dilations[i] - 1;
    pb_init(&builder);
    uint32_t *x_dims = dims_of(k->images, k->in, w->axes, w->size);
    uint32_t *y_dims = dims_of(k->images, k->out, w->axes, places);
    uint32_t *w_dims = dims_of(k->out, k->in / k->group, w->axes, w->kernel);
    uint32_t x = pb_input(&builder, "x", k->dtype, rank, x_dims), g = pb_input(&builder, "g", k->dtype, rank, y_dims);
    uint32_t weight = pb_input(&builder, "w", k->dtype, rank, w_dims);
    uint32_t y = pb_output(&builder, "y", k->dtype, rank, y_dims), dx = PB_NONE, of_dx = PB_NONE, of_y = y;
    uint32_t dw = pb_output(&builder, "dw", k->dtype, rank, w_dims);
    if (by_x) dx = of_dx = pb_output(&builder, "dx", k->dtype, rank, x_dims);
    if (k->between) {
        uint32_t of_x = pb_scratch(&builder, k->dtype, 0, rank, x_dims),
                 of_g = pb_scratch(&builder, k->dtype, 1, rank, y_dims);
        of_y = pb_scratch(&builder, k->dtype, 2, rank, y_dims);
        if (by_x) of_dx = pb_scratch(&builder, k->dtype, 3, rank, x_dims);
        add_tap(seed, k->dtype, w->axes, k->in, x, of_x);
        add_tap(seed, k->dtype, w->axes, k->out, g, of_g);
        x = of_x;
        g = of_g;
    }
    pb_call_symbol(&builder, add_call("conv", w, k->group, 2, (uint32_t[]){x, weight}, of_y), "none");
    if (by_x) {
        uint32_t bias = k->group == 1 ? random_weight(&builder, seed, k->dtype, 1, &k->in) : PB_NONE;
        HypPlan__Call *call =
            add_call("conv-transpose", w, k->group, bias == PB_NONE ? 2 : 3, (uint32_t[]){g, weight, bias}, of_dx);
        pb_call_ints(&builder, call, w->axes, more);
    }
    HypPlan__Call *call = add_call("conv-backward-weights", w, k->group, 2, (uint32_t[]){x, g}, dw);
    pb_call_ints(&builder, call, w->axes, w->kernel);
    if (k->between) add_tap(seed, k->dtype, w->axes, k->out, of_y, y);
    if (k->between && by_x) add_tap(seed, k->dtype, w->axes, k->in, of_dx, dx);
    if (k->tf32) builder.program.precision = (char *)(uintptr_t) "tf32";
}

static void check(uint64_t *seed, const one *k, const window *w)
{
    int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{k->images, k->in}, {k->images, k->out}, {k->out, k->in / k->group}};
    int64_t places[AXES], terms = k->images, taps = k->out;
    places_of(w, places);
    for (size_t i = 0; i < w->axes; i++) {
        dims[0][2 + i] = w->size[i];
        dims[1][2 + i] = places[i];
        dims[2][2 + i] = w->kernel[i];
        terms *= places[i];
        taps *= w->kernel[i];
    }
    bool integers = !hyp_dtype_is_float(k->dtype);
    build(seed, k, w, !integers);
    tolerance want = tolerance_of(k->dtype, (terms > taps ? terms : taps) + 2);
    if (k->tf32 && k->dtype == HYP_F32) want = tolerance_of(HYP_F16, terms > taps ? terms : taps); /* as many bits */
    if (k->between) want.rtol *= 32, want.atol *= 32;
    check_plan(&dev, &builder, (const int64_t(*)[HYP_MAX_RANK])dims, want);
}

static void gradients_equal_reference_for_every_type_and_window(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int t = 0; t < FLOATS; t++) {
            one k = {floats[t], 2, 4, 6, i % 2 ? 1 : 2, windows[i].axes == 2 && i % 3 > 0, i % 3 == 2};
            check(&seed, &k, &windows[i]);
        }
}

static void channels_may_come_last(void **state)
{
    (void)state;
    uint64_t seed = 22;
    static const one cases[] = {
        {HYP_BF16, 3, 8, 16, 1, true, false}, {HYP_F16, 1, 8, 8, 2, true, false},  {HYP_F32, 1, 12, 4, 1, true, true},
        {HYP_F32, 2, 4, 12, 4, true, true},   {HYP_BF16, 2, 3, 8, 1, true, false}, {HYP_F16, 2, 8, 8, 8, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&seed, &cases[i], &windows[i % 3]);
}

static void single_channels_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 23;
    for (int t = 0; t < FLOATS; t++) {
        check(&seed, &(one){floats[t], 2, 6, 6, 6, false, false}, &windows[1]);
        check(&seed, &(one){floats[t], 1, 4, 8, 4, true, false}, &windows[0]);
    }
}

static void integers_are_exact(void **state)
{
    (void)state;
    uint64_t seed = 24;
    check(&seed, &(one){HYP_I64, 2, 4, 6, 2, false, false}, &windows[0]);
    check(&seed, &(one){HYP_U8, 2, 3, 2, 1, false, false}, &windows[6]);
}

static void of_no_images_it_is_zero(void **state)
{
    (void)state;
    uint64_t seed = 25;
    check(&seed, &(one){HYP_F32, 0, 4, 6, 2, false, false}, &windows[0]);
    check(&seed, &(one){HYP_BF16, 0, 8, 8, 1, true, false}, &windows[2]);
}

/* ---- layers ------------------------------------------------------------------------------------------------- */

typedef struct layer {
    hyp_dtype dtype;
    bool turned, tf32;
    int64_t rows, n, k;
} layer;

static void build_layer(const layer *l)
{
    const uint32_t rows = (pb_init(&builder), pb_symbol(&builder, "rows"));
    const uint32_t n = pb_const(&builder, l->n), k = pb_const(&builder, l->k);
    const uint32_t in[] = {pb_input(&builder, "g", l->dtype, 2, (uint32_t[]){rows, n}),
                           pb_input(&builder, "x", l->dtype, 2, (uint32_t[]){rows, k})};
    const uint32_t w = pb_output(&builder, "w", l->dtype, 2, l->turned ? (uint32_t[]){k, n} : (uint32_t[]){n, k});
    HypPlan__Call *call = pb_call(&builder, "linear-gradient", 2, in, w);
    pb_call_output(call, pb_output(&builder, "b", l->dtype, 1, &n));
    pb_call_int(&builder, call, l->turned);
    if (l->tf32) builder.program.precision = (char *)(uintptr_t) "tf32";
}

/* Tunes the context of the pair for its rows. */
static void tune_layer(const pair *p, const layer *l)
{
    hyp_tune_options options = {.size = sizeof options, .seconds = 5};
    hyp_tune_report report = {.size = sizeof report};
    hyp_diag diag = {0};
    const hyp_tensor in[] = {{.dtype = l->dtype, .rank = 2, .dims = {l->rows, l->n}},
                             {.dtype = l->dtype, .rank = 2, .dims = {l->rows, l->k}}};
    if (hyp_context_tune(p->cuda_context, in, 2, &options, &report, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(report.products, 1);
    assert_int_equal(report.known + report.timed, 1);
}

static void check_layer(const layer *l, bool tuned)
{
    dims_list dims = {{l->rows, l->n}, {l->rows, l->k}};
    tolerance want = tolerance_of(l->dtype, l->rows + 1);
    if (l->tf32 && l->dtype == HYP_F32) want = tolerance_of(HYP_F16, l->rows + 1);
    pair p;
    build_layer(l);
    pair_open(&dev, &builder, &p);
    pair_check(&dev, &p, dims, want);
    if (tuned) tune_layer(&p, l);
    if (tuned) pair_check(&dev, &p, dims, want);
    pair_close(&p);
    pb_dispose(&builder);
}

/* Rows that are aligned and rows that are not, a few and many, and sizes of which one is nothing. */
static void gradients_of_layers_equal_reference(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{24, 16, 32}, {5, 3, 7},  {300, 8, 8}, {1, 16, 8},
                                       {7, 1, 1},    {0, 8, 16}, {9, 0, 8},   {9, 8, 0}};
    for (int t = 0; t < FLOATS; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int turned = 0; turned < 2; turned++)
                check_layer(&(layer){floats[t], turned, i % 2 == 0, sizes[i][0], sizes[i][1], sizes[i][2]}, i == 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_reference_for_every_type_and_window),
        cmocka_unit_test(channels_may_come_last),
        cmocka_unit_test(single_channels_equal_reference),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(of_no_images_it_is_zero),
        cmocka_unit_test(gradients_of_layers_equal_reference),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
