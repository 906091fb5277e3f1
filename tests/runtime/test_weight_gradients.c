/* Gradients of convolutions by their weights on the CPU against the reference backend, which sums in double: windows of
 * all kinds over one to three axes, groups, both orders of x and g, parts on one to four threads. And convolutions with
 * weights that are no constants, as a training has them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/support.h"

enum { AXES = 3, RANK = 2 + AXES };

static plan_builder b;
static rng r;

typedef struct one {
    size_t axes;
    int64_t images, in, out, group; /* channels of x and g */
    int64_t size[AXES], kernel[AXES], stride[AXES], dilation[AXES], pads[2 * AXES];
    bool around;  /* x and g come from convolutions, so that they have their channels last */
    bool dynamic; /* the number of images is symbolic */
} one;

typedef struct shapes {
    int64_t x[RANK], g[RANK], w[RANK];
    size_t x_count, g_count, w_count;
} shapes;

static shapes shapes_of(const one *k)
{
    shapes s = {.x = {k->images, k->in}, .g = {k->images, k->out}, .w = {k->out, k->in / k->group}};
    s.x_count = (size_t)(s.x[0] * s.x[1]), s.g_count = (size_t)(s.g[0] * s.g[1]), s.w_count = (size_t)(s.w[0] * s.w[1]);
    for (size_t i = 0; i < k->axes; i++) {
        int64_t room = k->size[i] + k->pads[i] + k->pads[k->axes + i] - (k->kernel[i] - 1) * k->dilation[i] - 1;
        s.x_count *= (size_t)(s.x[2 + i] = k->size[i]);
        s.g_count *= (size_t)(s.g[2 + i] = room < 0 ? 0 : room / k->stride[i] + 1);
        s.w_count *= (size_t)(s.w[2 + i] = k->kernel[i]);
    }
    return s;
}

static float *random_floats(size_t count)
{
    float *data = calloc(count + 1, sizeof *data);
    assert_non_null(data);
    rng_fill(&r, HYP_F32, data, count);
    return data;
}

/* y = a convolution of x that keeps channels and sizes. */
static uint32_t convolved(const one *k, uint32_t x, uint32_t slot, int64_t channels, const uint32_t *dims)
{
    const int64_t ones[AXES] = {1, 1, 1}, none[2 * AXES] = {0}, filter[RANK] = {channels, channels, 1, 1, 1};
    float *data = random_floats((size_t)(channels * channels));
    uint32_t w = pb_weight(&b, HYP_F32, 2 + k->axes, filter, data),
             y = pb_scratch(&b, HYP_F32, slot, 2 + k->axes, dims);
    free(data);
    HypPlan__Call *call = pb_call(&b, "conv", 2, (uint32_t[]){x, w}, y);
    pb_call_ints(&b, call, k->axes, ones);
    pb_call_ints(&b, call, 2 * k->axes, none);
    pb_call_ints(&b, call, k->axes, ones);
    pb_call_int(&b, call, 1);
    pb_call_symbol(&b, call, "none");
    return y;
}

static void build(const one *k, const shapes *s)
{
    size_t rank = 2 + k->axes;
    pb_init(&b);
    uint32_t *x_dims = pb_consts(&b, rank, s->x), *g_dims = pb_consts(&b, rank, s->g);
    if (k->dynamic) x_dims[0] = g_dims[0] = pb_symbol(&b, "batch");
    uint32_t x = pb_input(&b, "x", HYP_F32, rank, x_dims), g = pb_input(&b, "g", HYP_F32, rank, g_dims);
    uint32_t y = pb_output(&b, "y", HYP_F32, rank, pb_consts(&b, rank, s->w));
    if (k->around) {
        x = convolved(k, x, 0, k->in, x_dims);
        g = convolved(k, g, 1, k->out, g_dims);
    }
    HypPlan__Call *call = pb_call(&b, "conv-backward-weights", 2, (uint32_t[]){x, g}, y);
    pb_call_ints(&b, call, k->axes, k->stride);
    pb_call_ints(&b, call, 2 * k->axes, k->pads);
    pb_call_ints(&b, call, k->axes, k->dilation);
    pb_call_int(&b, call, k->group);
    pb_call_ints(&b, call, k->axes, k->kernel);
}

static void run(const char *path, hyp_device_kind device, int32_t threads, const hyp_tensor *in, size_t inputs,
                hyp_tensor *out, size_t outputs)
{
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = threads};
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    for (int i = 0; i < 2; i++) assert_ok(hyp_context_run(context, in, inputs, out, outputs, diag));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

static void check(const one *k)
{
    enum { THREADS = 4 };
    shapes s = shapes_of(k);
    size_t rank = 2 + k->axes;
    char path[PB_PATH];
    build(k, &s);
    pb_write(&b, path);
    float *x = random_floats(s.x_count), *g = random_floats(s.g_count), *want = random_floats(s.w_count);
    /* so that sums of any length are about as large as their terms */
    double scale = 1 / sqrt(fmax(1, (double)s.g_count / (double)k->out) * (k->around ? (double)(k->in * k->out) : 1));
    for (size_t i = 0; i < s.g_count; i++) g[i] *= (float)scale;
    const hyp_tensor in[] = {tensor_of("x", HYP_F32, x, rank, s.x), tensor_of("g", HYP_F32, g, rank, s.g)};
    hyp_tensor out = tensor_of("y", HYP_F32, want, rank, s.w);
    run(path, HYP_DEVICE_REFERENCE, 1, in, 2, &out, 1);
    for (int32_t threads = 1; threads <= THREADS; threads++) {
        float *have = random_floats(s.w_count);
        out = tensor_of("y", HYP_F32, have, rank, s.w);
        run(path, HYP_DEVICE_CPU, threads, in, 2, &out, 1);
        assert_close(have, want, s.w_count, 2e-5);
        free(have);
    }
    free(x), free(g), free(want);
    unlink(path);
    pb_dispose(&b);
}

static void windows_of_all_kinds_agree(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 2, 3, 8, 16, 17, 33, 48};
    for (int round = 0; round < rounds(60); round++) {
        one k = {.axes = 1 + (size_t)(round % 3),
                 .images = 1 + (int64_t)rng_below(&r, 3),
                 .in = channels[rng_below(&r, 8)],
                 .out = channels[rng_below(&r, 8)],
                 .group = 1,
                 .around = round % 2 == 0,
                 .dynamic = round % 5 == 0};
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 3);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 3);
            k.dilation[i] = 1 + (int64_t)(rng_below(&r, 3) == 0);
            k.size[i] = 6 + (int64_t)rng_below(&r, 4); /* some of which no window reaches */
            k.pads[i] = (int64_t)rng_below(&r, 1 + (uint64_t)k.kernel[i]);
            k.pads[k.axes + i] = (int64_t)rng_below(&r, 1 + (uint64_t)k.kernel[i]); /* as wide as the kernel, too */
        }
        check(&k);
    }
}

/* Groups that fill vectors and that do not; single channels, of several results each, too. */
static void groups_agree(void **state)
{
    (void)state;
    static const int64_t groups[] = {2, 3, 4, 16, 19, 32, 40, 64};
    for (int round = 0; round < rounds(48); round++) {
        one k = {.axes = 1 + (size_t)(round % 2),
                 .images = 1 + (int64_t)rng_below(&r, 2),
                 .group = groups[round % 8],
                 .kernel = {3, 2},
                 .stride = {1, 1 + (int64_t)rng_below(&r, 2)},
                 .dilation = {1, 1},
                 .size = {6, 7},
                 .around = round % 3 == 0};
        k.in = k.group * (1 + (int64_t)(round % 3 == 1) * (int64_t)rng_below(&r, 5));
        k.out = k.group * (1 + (int64_t)rng_below(&r, 3));
        for (size_t i = 0; i < k.axes; i++) k.pads[i] = (int64_t)rng_below(&r, 2);
        check(&k);
    }
}

/* Those of a network, whose parts are several vectors of channels; the first, of an image. */
static void layers_of_a_network_agree(void **state)
{
    (void)state;
    const one cases[] = {
        {2, 2, 3, 64, 1, {23, 21}, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}, false, true},
        {2, 2, 64, 80, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, true, false},
        {2, 1, 96, 64, 1, {8, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 0, 0}, true, false},
        {2, 3, 64, 128, 1, {7, 7}, {1, 1}, {2, 2}, {1, 1}, {0}, true, false},
        {1, 2, 48, 64, 1, {90}, {5}, {1}, {2}, {4, 4}, true, true},
        {3, 1, 16, 32, 1, {5, 6, 7}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i]);
}

/* The convolution and its gradient by x, with weights that a run is given: parts of images and strips share them. */
static void build_given(const one *k, const shapes *s)
{
    size_t rank = 2 + k->axes;
    int64_t more[AXES] = {0};
    for (size_t i = 0; i < k->axes; i++)
        more[i] = k->size[i] + k->pads[i] + k->pads[k->axes + i] - (s->g[2 + i] - 1) * k->stride[i] -
                  (k->kernel[i] - 1) * k->dilation[i] - 1;
    pb_init(&b);
    uint32_t *x_dims = pb_consts(&b, rank, s->x), *g_dims = pb_consts(&b, rank, s->g);
    uint32_t w = pb_input(&b, "w", HYP_F32, rank, pb_consts(&b, rank, s->w));
    for (int i = 0; i < 2; i++) {
        uint32_t from = pb_input(&b, i ? "g" : "x", HYP_F32, rank, i ? g_dims : x_dims);
        uint32_t to = pb_output(&b, i ? "dx" : "y", HYP_F32, rank, i ? x_dims : g_dims);
        HypPlan__Call *call = pb_call(&b, i ? "conv-transpose" : "conv", 2, (uint32_t[]){from, w}, to);
        pb_call_ints(&b, call, k->axes, k->stride);
        pb_call_ints(&b, call, 2 * k->axes, k->pads);
        pb_call_ints(&b, call, k->axes, k->dilation);
        pb_call_int(&b, call, k->group);
        if (i)
            pb_call_ints(&b, call, k->axes, more);
        else
            pb_call_symbol(&b, call, "none");
    }
}

static void check_given(const one *k)
{
    enum { THREADS = 4 };
    shapes s = shapes_of(k);
    size_t rank = 2 + k->axes;
    char path[PB_PATH];
    build_given(k, &s);
    pb_write(&b, path);
    float *x = random_floats(s.x_count), *g = random_floats(s.g_count), *w = random_floats(s.w_count);
    for (size_t i = 0; i < s.w_count; i++) w[i] /= (float)sqrt((double)s.w_count / (double)k->in);
    const hyp_tensor in[] = {tensor_of("w", HYP_F32, w, rank, s.w), tensor_of("x", HYP_F32, x, rank, s.x),
                             tensor_of("g", HYP_F32, g, rank, s.g)};
    float *want[2] = {0}, *have[2] = {0};
    for (int32_t threads = 0; threads <= THREADS; threads++) {
        float **at = threads ? have : want;
        at[0] = random_floats(s.g_count), at[1] = random_floats(s.x_count);
        hyp_tensor out[] = {tensor_of("y", HYP_F32, at[0], rank, s.g), tensor_of("dx", HYP_F32, at[1], rank, s.x)};
        run(path, threads ? HYP_DEVICE_CPU : HYP_DEVICE_REFERENCE, threads ? threads : 1, in, 3, out, 2);
        if (threads == 0) continue;
        assert_close(have[0], want[0], s.g_count, 2e-5);
        assert_close(have[1], want[1], s.x_count, 2e-5);
        free(have[0]), free(have[1]);
    }
    free(want[0]), free(want[1]), free(x), free(g), free(w);
    unlink(path);
    pb_dispose(&b);
}

static void parts_share_weights_that_a_run_is_given(void **state)
{
    (void)state;
    const one cases[] = {
        {2, 5, 24, 40, 1, {12, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, false, false},
        {2, 1, 16, 32, 1, {40, 9}, {3, 2}, {1, 1}, {1, 1}, {1, 0, 1, 1}, false, false}, /* strips of one image */
        {2, 4, 33, 16, 1, {9, 8}, {1, 1}, {2, 2}, {1, 1}, {0}, false, false},
        {1, 3, 32, 32, 4, {50}, {5}, {2}, {1}, {2, 2}, false, false},
        {3, 2, 16, 16, 1, {5, 6, 7}, {2, 3, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1, 0, 1, 0}, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_given(&cases[i]);
}

static void of_nothing_it_is_zero(void **state)
{
    (void)state;
    const one cases[] = {
        {2, 0, 4, 5, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {0}, false, false},
        {2, 0, 16, 16, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {0}, true, true},
        {1, 2, 4, 4, 2, {2}, {3}, {1}, {1}, {0}, false, false}, /* a window larger than x */
        {2, 2, 1, 1, 1, {1, 2}, {2, 2}, {1, 1}, {1, 1}, {3, 4, 3, 4}, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_of_all_kinds_agree), cmocka_unit_test(groups_agree),
        cmocka_unit_test(layers_of_a_network_agree),  cmocka_unit_test(parts_share_weights_that_a_run_is_given),
        cmocka_unit_test(of_nothing_it_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
