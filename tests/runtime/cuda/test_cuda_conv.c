/* Convolutions and pooling on a GPU against the reference backend. Needs a GPU, or the emulator: see device_start. With
 * cuDNN convolutions are done by that, without (HYPATIA_CUDNN=none) by a kernel of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"
#include "runtime/cuda/driver/cudnn.h"

#if __has_include(<cudnn.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <cudnn.h>
#pragma GCC diagnostic pop
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), "our cudnn.h follows cudnn.h")
SAME(HYP_CUDNN_FLOAT, CUDNN_DATA_FLOAT);
SAME(HYP_CUDNN_DOUBLE, CUDNN_DATA_DOUBLE);
SAME(HYP_CUDNN_HALF, CUDNN_DATA_HALF);
SAME(HYP_CUDNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME(HYP_CUDNN_NCHW, CUDNN_TENSOR_NCHW);
SAME(HYP_CUDNN_NHWC, CUDNN_TENSOR_NHWC);
SAME(HYP_CUDNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(HYP_CUDNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(HYP_CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME(HYP_CUDNN_FMA_MATH, CUDNN_FMA_MATH);
SAME(HYP_CUDNN_DETERMINISTIC, CUDNN_DETERMINISTIC);
SAME(HYP_CUDNN_RELU, CUDNN_ACTIVATION_RELU);
SAME(HYP_CUDNN_IDENTITY, CUDNN_ACTIVATION_IDENTITY);
SAME(HYP_CUDNN_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN);
SAME(HYP_CUDNN_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
SAME(HYP_CUDNN_FIRST_TRANSFORM, CUDNN_CONVOLUTION_FWD_ALGO_FFT);
SAME(HYP_CUDNN_FIRST_BACKWARD_TRANSFORM, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT);
SAME(HYP_CUDNN_FIRST_BACKWARD_TRANSFORM, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT);
SAME(HYP_CUDNN_ALGORITHMS, CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
SAME(sizeof(hyp_cudnn_algorithm), sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
SAME(sizeof(hyp_cudnn_algorithm), sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));
SAME(sizeof(hyp_cudnn_algorithm), sizeof(cudnnConvolutionFwdAlgoPerf_t));
SAME(offsetof(hyp_cudnn_algorithm, workspace), offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
SAME(offsetof(hyp_cudnn_algorithm, determinism), offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism));
SAME(offsetof(hyp_cudnn_algorithm, math), offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));
#endif

enum { AXES = 3 };

static device dev;
static plan_builder builder; /* large */

/* A window along `axes` axes of x[batch, in, size...]; pads are all before, then all after. */
typedef struct window {
    int64_t axes, size[AXES], kernel[AXES], strides[AXES], dilations[AXES], pads[2 * AXES];
} window;

typedef enum place { NOTHING, ADDED, IN_PLACE } place;

typedef struct conv_case {
    hyp_dtype dtype;
    int64_t batch, in, out, group;
    window w;
    const char *act;
    bool bias;
    place added; /* a tensor in memory of its own, or where the result will be */
} conv_case;

static uint32_t *dims_of(int64_t images, int64_t channels, const int64_t *size, int64_t axes)
{
    int64_t dims[2 + AXES] = {images, channels};
    memcpy(dims + 2, size, (size_t)axes * sizeof *size);
    return pb_consts(&builder, (size_t)(2 + axes), dims);
}

static void out_size(const window *w, bool ceil, int64_t *out)
{
    for (int64_t i = 0; i < w->axes; i++) {
        int64_t room = w->size[i] + w->pads[i] + w->pads[w->axes + i] - (w->kernel[i] - 1) * w->dilations[i] - 1;
        out[i] = (ceil ? room + w->strides[i] - 1 : room) / w->strides[i] + 1;
    }
}

static void build_conv(uint64_t *seed, const conv_case *k)
{
    size_t rank = (size_t)(2 + k->w.axes), axes = (size_t)k->w.axes;
    int64_t size[AXES], filter[2 + AXES] = {k->out, k->in / k->group}, count = k->batch * k->out;
    out_size(&k->w, false, size);
    for (size_t i = 0; i < axes; i++) {
        filter[2 + i] = k->w.kernel[i];
        count *= size[i];
    }
    pb_init(&builder);
    uint32_t *shape = dims_of(k->batch, k->out, size, k->w.axes);
    uint32_t x = pb_input(&builder, "x", k->dtype, rank, dims_of(k->batch, k->in, k->w.size, k->w.axes));
    uint32_t z = k->added ? pb_input(&builder, "z", k->dtype, rank, shape) : PB_NONE;
    uint32_t result = pb_output(&builder, "y", k->dtype, rank, shape), y = result;
    uint32_t weight = random_weight(&builder, seed, k->dtype, rank, filter);
    uint32_t bias = k->bias ? random_weight(&builder, seed, k->dtype, 1, &k->out) : PB_NONE;
    if (k->added == IN_PLACE) {
        uint32_t copied = pb_scratch(&builder, k->dtype, 0, rank, shape);
        pb_copy_all(&builder, z, copied, pb_const(&builder, count));
        z = copied;
        y = pb_scratch(&builder, k->dtype, 0, rank, shape);
    }
    size_t inputs = k->added ? 4 : k->bias ? 3 : 2;
    HypPlan__Call *call = pb_call(&builder, "conv", inputs, (uint32_t[]){x, weight, bias, z}, y);
    pb_call_ints(&builder, call, axes, k->w.strides);
    pb_call_ints(&builder, call, 2 * axes, k->w.pads);
    pb_call_ints(&builder, call, axes, k->w.dilations);
    pb_call_int(&builder, call, k->group);
    pb_call_symbol(&builder, call, k->act);
    if (strcmp(k->act, "leaky-relu") == 0) pb_call_float(&builder, call, -0.3);
    if (k->added == IN_PLACE) pb_copy_all(&builder, y, result, pb_const(&builder, count));
}

/* By cuDNN in parts a result is rounded before what is left to do, too. */
static void check_conv(uint64_t *seed, const conv_case *k)
{
    int64_t in[2 + AXES] = {k->batch, k->in}, out[2 + AXES] = {k->batch, k->out}, terms = k->in / k->group + 2;
    memcpy(in + 2, k->w.size, (size_t)k->w.axes * sizeof *in);
    out_size(&k->w, false, out + 2);
    for (int64_t i = 0; i < k->w.axes; i++) terms *= k->w.kernel[i];
    build_conv(seed, k);
    int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
    memcpy(dims[0], in, sizeof in);
    memcpy(dims[1], out, sizeof out);
    tolerance want = tolerance_of(k->dtype, terms);
    if (k->dtype == HYP_F16 || k->dtype == HYP_BF16) want.rtol *= 2, want.atol *= 2;
    check_plan(&dev, &builder, (const int64_t(*)[HYP_MAX_RANK])dims, want);
}

static const window windows[] = {
    {2, {12, 10}, {3, 2}, {2, 3}, {1, 1}, {1, 0, 1, 0}},                 /* strides */
    {2, {12, 10}, {3, 3}, {1, 1}, {2, 3}, {2, 3, 2, 3}},                 /* dilations */
    {2, {11, 8}, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}},                  /* padding behind alone */
    {2, {8, 8}, {5, 1}, {1, 1}, {1, 1}, {4, 0, 1, 2}},                   /* and more of it on one side */
    {2, {6, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},                   /* filters of one element */
    {2, {7, 5}, {7, 5}, {1, 1}, {1, 1}, {0, 0, 0, 0}},                   /* as large as the image */
    {1, {20}, {4}, {3}, {2}, {2, 2}},                                    /* one axis */
    {1, {20}, {4}, {1}, {1}, {3, 0}},                                    /* that is padded in front */
    {3, {5, 6, 4}, {2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {1, 1, 0, 1, 1, 0}}, /* three axes */
    {3, {4, 4, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 0, 1, 1, 1, 1}},
};
static const window square = {2, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};

static void convolution_equals_reference_for_every_type_activation_and_sum(void **state)
{
    (void)state;
    uint64_t seed = 1;
    static const char *const acts[] = {"none", "relu",       "relu6", "sigmoid",   "tanh",
                                       "silu", "hard-swish", "mish",  "leaky-relu"};
    for (int t = 0; t < FLOATS; t++)
        for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
            for (int form = 0; form < 2; form++)
                check_conv(&seed, &(conv_case){floats[t], 2, 5, 6, 1, square, acts[a], (a + form) % 2 == 0,
                                               (place)((a + t + (size_t)form) % 3)});
}

static void a_sum_may_be_where_the_result_will_be_with_and_without_a_bias(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int bias = 0; bias < 2; bias++)
        for (int at = NOTHING; at <= (int)IN_PLACE; at++)
            for (int relu = 0; relu < 2; relu++)
                check_conv(&seed, &(conv_case){HYP_F32, 1, 3, 4, 1, square, relu ? "relu" : "none", bias, (place)at});
}

static void windows_of_every_kind_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int t = 0; t < FLOATS; t++) {
            check_conv(&seed, &(conv_case){floats[t], 2, 3, 4, 1, windows[i], "relu", i % 2 == 0, (place)(i % 3)});
            check_conv(&seed, &(conv_case){floats[t], 2, 3, 3, 3, windows[i], "relu6", i % 2 == 1, NOTHING});
        }
}

/* In f32 weights of many channels lie as [C M] then, also where x does not lie as a product wants it. */
static void few_filters_of_one_element_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 14;
    static const window ones[] = {{2, {6, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                                  {2, {6, 5}, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
                                  {1, {9}, {1}, {1}, {1}, {0, 0}}};
    for (size_t i = 0; i < 3; i++)
        for (int t = 0; t < 2; t++)
            for (int at = NOTHING; at <= (int)ADDED; at++)
                check_conv(&seed, &(conv_case){floats[t], 2, 128, 12, 1, ones[i], at ? "relu" : "none", at == NOTHING,
                                               (place)at});
}

static void groups_and_single_channels_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 4;
    static const int64_t shapes[][3] = {/* in, out, groups */ {6, 4, 2}, {6, 9, 3}, {8, 8, 8}, {4, 12, 4}, {1, 8, 1}};
    static const window strided = {2, {11, 8}, {3, 3}, {2, 2}, {1, 1}, {0, 1, 1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int t = 0; t < FLOATS; t++)
            check_conv(&seed, &(conv_case){floats[t], 2, shapes[i][0], shapes[i][1], shapes[i][2],
                                           t % 2 ? square : strided, t % 2 ? "hard-swish" : "relu", true, NOTHING});
}

static void integers_are_convolved_exactly(void **state)
{
    (void)state;
    uint64_t seed = 5;
    static const hyp_dtype types[] = {HYP_I64, HYP_I32, HYP_I8, HYP_U8, HYP_U64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        check_conv(&seed, &(conv_case){types[t], 2, 4, 4, 2, square, "none", t % 2, (place)(t % 3)});
}

static void images_that_are_empty_or_all_padding_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 6;
    static const window no_rows = {2, {0, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
    check_conv(&seed, &(conv_case){HYP_F32, 0, 3, 4, 1, square, "relu", true, NOTHING});
    check_conv(&seed, &(conv_case){HYP_F32, 2, 3, 4, 1, no_rows, "relu", true, NOTHING});
}

static void add_conv(uint64_t *seed, hyp_dtype dtype, uint32_t x, uint32_t z, uint32_t y, int64_t in, int64_t out,
                     int64_t group, int64_t kernel, const char *act);

/* Transposed: from what a convolution with this window gives back to the size that it slides over, by `more` or less. A
 * convolution before it and one behind, with filters of one element, let what is between lie in another order. */
static void check_transposed(uint64_t *seed, hyp_dtype dtype, int64_t group, const window *w, bool bias, bool between)
{
    enum { C = 8, M = 16 };
    int64_t size[AXES], filter[2 + AXES] = {C, M / group}, more[AXES] = {0}, terms = C / group + 2;
    size_t axes = (size_t)w->axes, rank = 2 + axes;
    out_size(w, false, size);
    for (size_t i = 0; i < axes; i++) {
        int64_t reached = (size[i] - 1) * w->strides[i] + (w->kernel[i] - 1) * w->dilations[i] + 1;
        more[i] = w->size[i] + w->pads[i] + w->pads[axes + i] - reached; /* of y, that no whole window slides over */
        filter[2 + i] = w->kernel[i];
        terms *= w->kernel[i];
    }
    pb_init(&builder);
    uint32_t *x_dims = dims_of(2, C, size, w->axes), *y_dims = dims_of(2, M, w->size, w->axes);
    uint32_t x = pb_input(&builder, "x", dtype, rank, x_dims), y = pb_output(&builder, "y", dtype, rank, y_dims);
    uint32_t from = between ? pb_scratch(&builder, dtype, 0, rank, x_dims) : x;
    uint32_t to = between ? pb_scratch(&builder, dtype, 1, rank, y_dims) : y;
    if (between) add_conv(seed, dtype, x, PB_NONE, from, C, C, 1, 1, "tanh");
    uint32_t weight = random_weight(&builder, seed, dtype, rank, filter);
    uint32_t b = bias ? random_weight(&builder, seed, dtype, 1, (int64_t[]){M}) : PB_NONE;
    HypPlan__Call *call = pb_call(&builder, "conv-transpose", bias ? 3 : 2, (uint32_t[]){from, weight, b}, to);
    pb_call_ints(&builder, call, axes, w->strides);
    pb_call_ints(&builder, call, 2 * axes, w->pads);
    pb_call_ints(&builder, call, axes, w->dilations);
    pb_call_int(&builder, call, group);
    pb_call_ints(&builder, call, axes, more);
    if (between) add_conv(seed, dtype, to, PB_NONE, y, M, M, 1, 1, "none");
    int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{2, C}};
    memcpy(dims[0] + 2, size, sizeof size);
    tolerance want = tolerance_of(dtype, terms);
    if (between) want.rtol *= 16, want.atol *= 16;
    check_plan(&dev, &builder, (const int64_t(*)[HYP_MAX_RANK])dims, want);
}

static void transposed_convolutions_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int t = 0; t < FLOATS; t++)
            check_transposed(&seed, floats[t], i % 2 ? 1 : 4, &windows[i], i % 3 > 0, windows[i].axes == 2);
    check_transposed(&seed, HYP_I64, 2, &windows[0], true, false);
    check_transposed(&seed, HYP_U8, 1, &windows[1], false, false);
}

/* ---- networks ------------------------------------------------------------------------------------------------ */

/* y = act(conv(x) + z); z may be PB_NONE. The sizes in the window are not looked at. */
static void add_call(uint64_t *seed, hyp_dtype dtype, uint32_t x, uint32_t z, uint32_t y, int64_t in, int64_t out,
                     int64_t group, const window *w, const char *act)
{
    uint32_t weight = random_weight(&builder, seed, dtype, 4, (int64_t[]){out, in / group, w->kernel[0], w->kernel[1]});
    uint32_t bias = random_weight(&builder, seed, dtype, 1, &out);
    HypPlan__Call *call = pb_call(&builder, "conv", z == PB_NONE ? 3 : 4, (uint32_t[]){x, weight, bias, z}, y);
    pb_call_ints(&builder, call, 2, w->strides);
    pb_call_ints(&builder, call, 4, w->pads);
    pb_call_ints(&builder, call, 2, w->dilations);
    pb_call_int(&builder, call, group);
    pb_call_symbol(&builder, call, act);
}

/* With filters of kernel x kernel, padded by (kernel - 1) / 2. */
static void add_conv(uint64_t *seed, hyp_dtype dtype, uint32_t x, uint32_t z, uint32_t y, int64_t in, int64_t out,
                     int64_t group, int64_t kernel, const char *act)
{
    const int64_t pad = (kernel - 1) / 2;
    const window w = {2, {0}, {kernel, kernel}, {1, 1}, {1, 1}, {pad, pad, pad, pad}};
    add_call(seed, dtype, x, z, y, in, out, group, &w, act);
}

/* Tensors between convolutions, which may lie in another order: read by a pool, in place, element by element, and by
 * steps that want the plan's order. Results are from -1 to 1 at the end, so that rounding does not grow. */
static void build_network(uint64_t *seed, hyp_dtype dtype, const char *pooling, int64_t count_pads)
{
    enum { C = 8 };
    const int64_t large[] = {2, C, 12, 10}, small[] = {2, C, 6, 5}, few[] = {2, 4, 6, 5}, ones[] = {C * 30, 30, 5, 1};
    pb_init(&builder);
    uint32_t *small_dims = pb_consts(&builder, 4, small), *few_dims = pb_consts(&builder, 4, few);
    uint32_t x = pb_input(&builder, "x", dtype, 4, pb_consts(&builder, 4, (int64_t[]){2, 5, 12, 10}));
    uint32_t y = pb_output(&builder, "y", dtype, 4, small_dims),
             turned = pb_output(&builder, "turned", dtype, 4, few_dims);
    uint32_t first = pb_scratch(&builder, dtype, 0, 4, pb_consts(&builder, 4, large));
    uint32_t pooled = pb_scratch(&builder, dtype, 1, 4, small_dims),
             inner = pb_scratch(&builder, dtype, 2, 4, small_dims);
    uint32_t sum = pb_scratch(&builder, dtype, 1, 4, small_dims), alone = pb_scratch(&builder, dtype, 2, 4, small_dims);
    uint32_t mixed = pb_scratch(&builder, dtype, 0, 4, small_dims),
             narrow = pb_scratch(&builder, dtype, 2, 4, few_dims);
    add_conv(seed, dtype, x, PB_NONE, first, 5, C, 1, 3, "relu");
    HypPlan__Call *pool = pb_call(&builder, pooling, 1, &first, pooled);
    pb_call_ints(&builder, pool, 2, (int64_t[]){3, 3});
    pb_call_ints(&builder, pool, 2, (int64_t[]){2, 2});
    pb_call_ints(&builder, pool, 4, (int64_t[]){1, 1, 1, 1});
    pb_call_ints(&builder, pool, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, pool, 0);
    pb_call_int(&builder, pool, count_pads);
    add_conv(seed, dtype, pooled, PB_NONE, inner, C, C, 1, 3, "tanh");
    add_conv(seed, dtype, inner, pooled, sum, C, C, 1, 3, "sigmoid");
    add_conv(seed, dtype, sum, PB_NONE, alone, C, C, C, 3, "hard-swish");
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 4, small_dims);
    pb_operand(&builder, s, sum, pb_consts(&builder, 4, ones));
    pb_operand(&builder, s, alone, pb_consts(&builder, 4, ones));
    uint32_t product = pb_instr(&builder, s, OP(MUL), 0, 1, 0, 0, HYP_F32);
    pb_result(&builder, s, mixed, pb_instr(&builder, s, OP(TANH), product, 0, 0, 0, HYP_F32));
    add_conv(seed, dtype, mixed, PB_NONE, narrow, C, 4, 1, 1, "none");
    pb_copy_all(&builder, narrow, turned, pb_const(&builder, 2 * 4 * 30));
    add_conv(seed, dtype, narrow, mixed, y, 4, C, 1, 3, "tanh");
}

static void tensors_between_convolutions_may_lie_in_another_order(void **state)
{
    (void)state;
    uint64_t seed = 7;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int pool = 0; pool < 3; pool++) {
            build_network(&seed, types[t], pool > 0 ? "average-pool" : "max-pool", pool == 2);
            tolerance want = tolerance_of(types[t], 60);
            want.atol *= 4;
            check_plan(&dev, &builder, (dims_list){{2, 5, 12, 10}}, want);
        }
}

/* Channels in multiples of 16 bytes, so that windows become rows of a product: a window that is strided, dilated and
 * unevenly padded, filters of one element without and with a stride, and a sum that replaces what is added; then means.
 */
static void build_products(uint64_t *seed, hyp_dtype dtype, const char *act)
{
    const int64_t whole[] = {2, 8, 9, 7}, half[] = {2, 16, 4, 4}, few[] = {2, 8, 2, 2}, rows[] = {2, 8};
    static const window wide = {2, {0}, {3, 2}, {2, 2}, {2, 1}, {1, 0, 2, 1}};
    static const window sparse = {2, {0}, {1, 1}, {2, 2}, {1, 1}, {0}};
    pb_init(&builder);
    uint32_t *whole_dims = pb_consts(&builder, 4, whole), *half_dims = pb_consts(&builder, 4, half);
    uint32_t *few_dims = pb_consts(&builder, 4, few), *row_dims = pb_consts(&builder, 2, rows);
    uint32_t x = pb_input(&builder, "x", dtype, 4, whole_dims), y = pb_output(&builder, "y", dtype, 2, row_dims);
    uint32_t first = pb_scratch(&builder, dtype, 0, 4, whole_dims);
    uint32_t second = pb_scratch(&builder, dtype, 1, 4, half_dims);
    uint32_t third = pb_scratch(&builder, dtype, 0, 4, half_dims);
    uint32_t fourth = pb_scratch(&builder, dtype, 1, 4, half_dims);
    uint32_t last = pb_scratch(&builder, dtype, 0, 4, few_dims);
    add_conv(seed, dtype, x, PB_NONE, first, 8, 8, 1, 1, "tanh");
    add_call(seed, dtype, first, PB_NONE, second, 8, 16, 1, &wide, act);
    add_conv(seed, dtype, second, PB_NONE, third, 16, 16, 1, 1, "tanh");
    add_conv(seed, dtype, third, second, fourth, 16, 16, 1, 3, "sigmoid");
    add_call(seed, dtype, fourth, PB_NONE, last, 16, 8, 1, &sparse, act);
    HypPlan__Reduce *mean = pb_reduce(&builder);
    mean->kind = HYP_PLAN__REDUCE__KIND__MEAN;
    mean->x = last;
    mean->y = y;
    mean->n_kept = mean->n_kept_strides = mean->n_reduced = mean->n_reduced_strides = 2;
    mean->kept = row_dims;
    mean->kept_strides = pb_consts(&builder, 2, (int64_t[]){32, 4});
    mean->reduced = pb_consts(&builder, 2, (int64_t[]){2, 2});
    mean->reduced_strides = pb_consts(&builder, 2, (int64_t[]){2, 1});
}

/* relu6 between a product and a convolution of single channels, which can clip what it reads itself: read by that
 * alone, or by another step, too. */
static void build_clipped(uint64_t *seed, hyp_dtype dtype, bool shared)
{
    const int64_t shape[] = {2, 8, 5, 6};
    pb_init(&builder);
    uint32_t *dims = pb_consts(&builder, 4, shape), x = pb_input(&builder, "x", dtype, 4, dims);
    uint32_t y = pb_output(&builder, "y", dtype, 4, dims);
    uint32_t first = pb_scratch(&builder, dtype, 0, 4, dims), clipped = pb_scratch(&builder, dtype, 1, 4, dims);
    uint32_t alone = pb_scratch(&builder, dtype, 0, 4, dims);
    add_conv(seed, dtype, x, PB_NONE, first, 8, 8, 1, 3, "none");
    add_conv(seed, dtype, first, PB_NONE, clipped, 8, 8, 1, 3, "relu6");
    add_conv(seed, dtype, clipped, PB_NONE, alone, 8, 8, 8, 3, "none");
    add_conv(seed, dtype, alone, shared ? clipped : PB_NONE, y, 8, 8, 1, 1, "tanh");
}

/* Between convolutions, where images lie with the channels last: 128 channels to 8 by filters of one element. */
static void few_filters_are_products_between_convolutions(void **state)
{
    (void)state;
    uint64_t seed = 15;
    const int64_t shape[] = {2, 8, 5, 6}, wide[] = {2, 128, 5, 6};
    for (int t = 0; t < 3; t++)
        for (int sum = 0; sum < 2; sum++) {
            pb_init(&builder);
            uint32_t *dims = pb_consts(&builder, 4, shape), x = pb_input(&builder, "x", floats[t], 4, dims);
            uint32_t y = pb_output(&builder, "y", floats[t], 4, dims);
            uint32_t first = pb_scratch(&builder, floats[t], 0, 4, pb_consts(&builder, 4, wide));
            uint32_t second = pb_scratch(&builder, floats[t], 1, 4, dims);
            uint32_t third = pb_scratch(&builder, floats[t], 2, 4, dims);
            add_conv(&seed, floats[t], x, PB_NONE, first, 8, 128, 1, 3, "relu");
            add_conv(&seed, floats[t], first, PB_NONE, second, 128, 8, 1, 1, "tanh");
            add_conv(&seed, floats[t], first, sum ? second : PB_NONE, third, 128, 8, 1, 1, "relu");
            add_conv(&seed, floats[t], third, second, y, 8, 8, 1, 3, "none");
            tolerance want = tolerance_of(floats[t], 10000); /* sums are far from 1 */
            check_plan(&dev, &builder, (dims_list){{2, 8, 5, 6}}, want);
        }
}

static void single_channels_may_clip_what_they_read(void **state)
{
    (void)state;
    uint64_t seed = 9;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int shared = 0; shared < 2; shared++) {
            build_clipped(&seed, types[t], shared);
            tolerance want = tolerance_of(types[t], 2000); /* sums are far from 1 until the last step */
            check_plan(&dev, &builder, (dims_list){{2, 8, 5, 6}}, want);
        }
}

static void windows_may_be_the_rows_of_a_product(void **state)
{
    (void)state;
    uint64_t seed = 8;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    static const char *const acts[] = {"none", "relu", "relu6", "silu", "mish", "hard-swish"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t a = 0; a < sizeof acts / sizeof *acts; a++) {
            build_products(&seed, types[t], acts[a]);
            tolerance want = tolerance_of(types[t], 150);
            want.atol *= 4;
            check_plan(&dev, &builder, (dims_list){{2, 8, 9, 7}}, want);
        }
}

/* ---- pooling ------------------------------------------------------------------------------------------------- */

static void check_pool(hyp_dtype dtype, const char *kernel, const window *w, bool ceil, int64_t flag)
{
    int64_t in[2 + AXES] = {2, 3}, size[AXES];
    size_t axes = (size_t)w->axes;
    memcpy(in + 2, w->size, axes * sizeof *in);
    out_size(w, ceil, size);
    pb_init(&builder);
    uint32_t x = pb_input(&builder, "x", dtype, 2 + axes, pb_consts(&builder, 2 + axes, in));
    uint32_t y = pb_output(&builder, "y", dtype, 2 + axes, dims_of(2, 3, size, w->axes));
    bool places = strcmp(kernel, "max-pool-places") == 0;
    HypPlan__Call *call = pb_call(&builder, kernel, 1, &x, y);
    if (places) pb_call_output(call, pb_output(&builder, "places", HYP_I64, 2 + axes, dims_of(2, 3, size, w->axes)));
    pb_call_ints(&builder, call, axes, w->kernel);
    pb_call_ints(&builder, call, axes, w->strides);
    pb_call_ints(&builder, call, 2 * axes, w->pads);
    pb_call_ints(&builder, call, axes, w->dilations);
    pb_call_int(&builder, call, ceil);
    pb_call_int(&builder, call, flag);
    int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
    memcpy(dims[0], in, sizeof in);
    check_plan(&dev, &builder, (const int64_t(*)[HYP_MAX_RANK])dims,
               places ? (tolerance){0, 0} : tolerance_of(dtype, 4));
}

/* The last has windows in the padding alone. */
static const window pools[] = {
    {2, {8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
    {2, {9, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {2, {9, 7}, {3, 2}, {1, 2}, {2, 1}, {0, 1, 2, 0}},
    {1, {11}, {3}, {2}, {1}, {1, 0}},
    {3, {4, 5, 6}, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}, {0, 1, 0, 1, 1, 0}},
    {2, {4, 4}, {2, 2}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
};

static void pooling_equals_reference_for_every_type_and_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        for (int ceil = 0; ceil < 2; ceil++)
            for (int t = 0; t < FLOATS; t++) {
                check_pool(floats[t], "max-pool", &pools[i], ceil, 0);
                check_pool(floats[t], "average-pool", &pools[i], ceil, 0);
                check_pool(floats[t], "average-pool", &pools[i], ceil, 1);
            }
}

static void integers_have_a_largest_too(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_I64, HYP_I32, HYP_U64, HYP_U32, HYP_I16, HYP_U8, HYP_I8};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) check_pool(types[t], "max-pool", &pools[1], false, 0);
}

/* Integers are -2 .. 2: many are equal. */
static void places_of_the_largest_are_those_of_the_reference(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I64, HYP_U64, HYP_I8, HYP_U8};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int columns = 0; columns < 2; columns++)
                check_pool(types[t], "max-pool-places", &pools[i], (i + t) % 2, columns);
}

/* NaN, as results of 0 / 0, goes through a window of the largest. */
static void check_nan(bool places)
{
    static const int64_t shape[] = {1, 1, 2, 64}, stretched[] = {1, 1, 2, 32}, ones[] = {128, 128, 64, 1};
    pb_init(&builder);
    uint32_t *extents = pb_consts(&builder, 4, shape);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 4, extents);
    uint32_t odd = pb_scratch(&builder, HYP_F32, 0, 4, extents);
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 4, extents);
    pb_operand(&builder, s, x, pb_consts(&builder, 4, ones));
    uint32_t root = pb_instr(&builder, s, OP(SQRT), 0, 0, 0, 0, HYP_F32); /* NaN of the negative half */
    pb_result(&builder, s, odd, root);
    uint32_t y = pb_output(&builder, "y", HYP_F32, 4, pb_consts(&builder, 4, stretched));
    HypPlan__Call *call = pb_call(&builder, places ? "max-pool-places" : "max-pool", 1, &odd, y);
    if (places) pb_call_output(call, pb_output(&builder, "places", HYP_I64, 4, pb_consts(&builder, 4, stretched)));
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 2});
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 2});
    pb_call_ints(&builder, call, 4, (int64_t[]){0, 0, 0, 0});
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, call, 0);
    pb_call_int(&builder, call, 0);
    check_plan(&dev, &builder, (dims_list){{1, 1, 2, 64}}, tolerance_of(HYP_F32, 1));
}

static void the_largest_of_numbers_and_nan_is_nan(void **state)
{
    (void)state;
    check_nan(false);
    check_nan(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_equals_reference_for_every_type_activation_and_sum),
        cmocka_unit_test(a_sum_may_be_where_the_result_will_be_with_and_without_a_bias),
        cmocka_unit_test(windows_of_every_kind_equal_reference),
        cmocka_unit_test(few_filters_of_one_element_equal_reference),
        cmocka_unit_test(groups_and_single_channels_equal_reference),
        cmocka_unit_test(integers_are_convolved_exactly),
        cmocka_unit_test(transposed_convolutions_equal_reference),
        cmocka_unit_test(images_that_are_empty_or_all_padding_equal_reference),
        cmocka_unit_test(tensors_between_convolutions_may_lie_in_another_order),
        cmocka_unit_test(few_filters_are_products_between_convolutions),
        cmocka_unit_test(single_channels_may_clip_what_they_read),
        cmocka_unit_test(windows_may_be_the_rows_of_a_product),
        cmocka_unit_test(pooling_equals_reference_for_every_type_and_window),
        cmocka_unit_test(integers_have_a_largest_too),
        cmocka_unit_test(places_of_the_largest_are_those_of_the_reference),
        cmocka_unit_test(the_largest_of_numbers_and_nan_is_nan),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
