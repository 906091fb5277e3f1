/* Every kernel of plan.proto on every device that needs no accelerator, against results worked out by hand or libm. */
#include <math.h>
#include <string.h>

#include "runtime/support.h"

static plan_builder b;

#define DIMS(...)                                                                                                      \
    (const int64_t[]) { __VA_ARGS__ }

static int setup(void **state)
{
    (void)state;
    pb_init(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pb_dispose(&b);
    return 0;
}

/* Runs the plan with one f32 input and one f32 output on every device. */
static void expect_f32(float *x, size_t rank, const int64_t *dims, const float *want, size_t count, double tolerance)
{
    for (size_t d = 0; d < 2; d++) {
        float y[64] = {0};
        hyp_tensor in = tensor_of("x", HYP_F32, x, rank, dims);
        hyp_tensor out = {.name = "y", .data = y, .bytes = sizeof y, .dtype = HYP_F32};
        run_once(&b, host_devices[d], &in, 1, &out, 1);
        assert_close(y, want, count, tolerance);
    }
}

static uint32_t input_f32(size_t rank, const int64_t *dims)
{
    return pb_input(&b, "x", HYP_F32, rank, pb_consts(&b, rank, dims));
}
static uint32_t output_f32(size_t rank, const int64_t *dims)
{
    return pb_output(&b, "y", HYP_F32, rank, pb_consts(&b, rank, dims));
}

/* ---- products ---------------------------------------------------------------------------------------------- */

static void linear_is_x_w_transposed_plus_b(void **state)
{
    (void)state;
    uint32_t x = input_f32(2, DIMS(2, 3)), y = output_f32(2, DIMS(2, 2));
    uint32_t w = pb_weight(&b, HYP_F32, 2, DIMS(2, 3), (float[]){1, 2, 3, -4, 5, -6});
    uint32_t bias = pb_weight(&b, HYP_F32, 1, DIMS(2), (float[]){0.5f, -1});
    pb_layer(&b, pb_linear(&b, x, y, pb_const(&b, 2)), 2, 3, w, bias, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    expect_f32((float[]){1, 2, 3, 4, 5, 6}, 2, DIMS(2, 3), (float[]){14.5f, -13, 32.5f, -28}, 4, 0);
}

static void linear_takes_weights_stored_kn_and_no_bias(void **state)
{
    (void)state;
    uint32_t x = input_f32(2, DIMS(2, 3)), y = output_f32(2, DIMS(2, 2));
    uint32_t w = pb_weight(&b, HYP_F32, 2, DIMS(3, 2), (float[]){1, -4, 2, 5, 3, -6});
    pb_layer(&b, pb_linear(&b, x, y, pb_const(&b, 2)), 2, 3, w, PB_NONE, HYP_PLAN__ACT__ACT_RELU, PB_NONE)->weight_kn =
        1;
    expect_f32((float[]){1, 2, 3, 4, 5, 6}, 2, DIMS(2, 3), (float[]){14, 0, 32, 0}, 4, 0);
}

static double exact_act(HypPlan__Act act, double v)
{
    switch (act) {
    case HYP_PLAN__ACT__ACT_RELU: return v > 0 ? v : 0;
    case HYP_PLAN__ACT__ACT_GELU: return v / 2 * (1 + erf(v / sqrt(2)));
    case HYP_PLAN__ACT__ACT_GELU_TANH: return v / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v)));
    case HYP_PLAN__ACT__ACT_SIGMOID: return 1 / (1 + exp(-v));
    case HYP_PLAN__ACT__ACT_TANH: return tanh(v);
    default: return v;
    }
}

static void every_activation_is_applied(void **state)
{
    (void)state;
    for (int act = HYP_PLAN__ACT__ACT_NONE; act <= HYP_PLAN__ACT__ACT_TANH; act++) {
        enum { N = 21 };
        float w[N], want[N], x = 1;
        for (int i = 0; i < N; i++) {
            w[i] = (float)(i - 10) * 0.37f;
            want[i] = (float)exact_act((HypPlan__Act)act, (double)w[i]);
        }
        pb_init(&b);
        uint32_t in = input_f32(2, DIMS(1, 1)), y = output_f32(2, DIMS(1, N)),
                 weight = pb_weight(&b, HYP_F32, 2, DIMS(N, 1), w);
        pb_layer(&b, pb_linear(&b, in, y, pb_const(&b, 1)), N, 1, weight, PB_NONE, (HypPlan__Act)act, PB_NONE);
        expect_f32(&x, 2, DIMS(1, 1), want, N, 1e-6);
        pb_dispose(&b);
    }
    pb_init(&b);
}

static void layers_pass_hidden_values_on(void **state)
{
    (void)state;
    uint32_t x = input_f32(2, DIMS(1, 2)), y = output_f32(2, DIMS(1, 1));
    uint32_t h1 = pb_scratch(&b, HYP_F32, 0, 2, pb_consts(&b, 2, DIMS(1, 2)));
    uint32_t h2 = pb_scratch(&b, HYP_F32, 1, 2, pb_consts(&b, 2, DIMS(1, 3)));
    uint32_t w1 = pb_weight(&b, HYP_F32, 2, DIMS(2, 2), (float[]){1, 1, 1, -1});
    uint32_t w2 = pb_weight(&b, HYP_F32, 2, DIMS(3, 2), (float[]){1, 0, 0, 1, -1, -1});
    uint32_t w3 = pb_weight(&b, HYP_F32, 2, DIMS(1, 3), (float[]){1, 10, 100});
    HypPlan__Linear *s = pb_linear(&b, x, y, pb_const(&b, 1));
    pb_layer(&b, s, 2, 2, w1, PB_NONE, HYP_PLAN__ACT__ACT_RELU, h1);
    pb_layer(&b, s, 3, 2, w2, PB_NONE, HYP_PLAN__ACT__ACT_RELU, h2);
    pb_layer(&b, s, 1, 3, w3, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    expect_f32((float[]){5, 2}, 2, DIMS(1, 2), (float[]){7 + 30}, 1, 0);
}

static void matmul_broadcasts_transposes_and_scales(void **state)
{
    (void)state;
    /* y[i] = 2 * a[i]^T b^T for a[2][2,1], b[1,2] */
    uint32_t x = input_f32(3, DIMS(2, 1, 2)), y = output_f32(3, DIMS(2, 2, 2));
    uint32_t w = pb_weight(&b, HYP_F32, 2, DIMS(2, 1), (float[]){3, -1});
    HypPlan__Matmul *s = pb_matmul(&b);
    s->a = x, s->b = w, s->y = y;
    s->n_batch = s->n_a_strides = s->n_b_strides = 1;
    s->batch = pb_consts(&b, 1, DIMS(2));
    s->a_strides = pb_consts(&b, 1, DIMS(2));
    s->b_strides = pb_consts(&b, 1, DIMS(0));
    s->m = s->n = pb_const(&b, 2), s->k = pb_const(&b, 1);
    s->trans_a = s->trans_b = 1, s->alpha = 2;
    expect_f32((float[]){1, 2, 3, 4}, 3, DIMS(2, 1, 2), (float[]){6, -2, 12, -4, 18, -6, 24, -8}, 8, 0);
}

/* ---- pointwise --------------------------------------------------------------------------------------------- */

typedef struct op_case {
    HypPlan__Pointwise__Op op;
    double p, q;
    float want[5]; /* of a = {-2, -0.5, 0, 0.25, 3}, b = {4, 0.5, -1, -2, 2} */
} op_case;

static void every_pointwise_operator_computes_what_it_says(void **state)
{
    (void)state;
    static float a[5] = {-2, -0.5f, 0, 0.25f, 3}, c[5] = {4, 0.5f, -1, -2, 2};
    const op_case cases[] = {
        {HYP_PLAN__POINTWISE__OP__ADD, 0, 0, {2, 0, -1, -1.75f, 5}},
        {HYP_PLAN__POINTWISE__OP__SUB, 0, 0, {-6, -1, 1, 2.25f, 1}},
        {HYP_PLAN__POINTWISE__OP__MUL, 0, 0, {-8, -0.25f, -0.0f, -0.5f, 6}},
        {HYP_PLAN__POINTWISE__OP__DIV, 0, 0, {-0.5f, -1, -0.0f, -0.125f, 1.5f}},
        {HYP_PLAN__POINTWISE__OP__POW, 0, 0, {16, NAN, INFINITY, 16, 9}},
        {HYP_PLAN__POINTWISE__OP__MIN, 0, 0, {-2, -0.5f, -1, -2, 2}},
        {HYP_PLAN__POINTWISE__OP__MAX, 0, 0, {4, 0.5f, 0, 0.25f, 3}},
        {HYP_PLAN__POINTWISE__OP__RELU, 0, 0, {0, 0, 0, 0.25f, 3}},
        {HYP_PLAN__POINTWISE__OP__LEAKY_RELU, 0.1, 0, {-0.2f, -0.05f, 0, 0.25f, 3}},
        {HYP_PLAN__POINTWISE__OP__SIGMOID, 0, 0, {0.11920292f, 0.37754067f, 0.5f, 0.5621765f, 0.95257413f}},
        {HYP_PLAN__POINTWISE__OP__TANH, 0, 0, {-0.9640276f, -0.46211716f, 0, 0.24491866f, 0.9950548f}},
        {HYP_PLAN__POINTWISE__OP__GELU, 0, 0, {-0.04550026f, -0.15426877f, 0, 0.14967656f, 2.9959502f}},
        {HYP_PLAN__POINTWISE__OP__GELU_TANH, 0, 0, {-0.0454023f, -0.154286f, 0, 0.149676f, 2.9963627f}},
        {HYP_PLAN__POINTWISE__OP__ERF, 0, 0, {-0.9953223f, -0.5204999f, 0, 0.27632639f, 0.99997791f}},
        {HYP_PLAN__POINTWISE__OP__EXP, 0, 0, {0.13533528f, 0.60653066f, 1, 1.2840254f, 20.085537f}},
        {HYP_PLAN__POINTWISE__OP__SQRT, 0, 0, {NAN, NAN, 0, 0.5f, 1.7320508f}},
        {HYP_PLAN__POINTWISE__OP__CLIP, -1, 0.5, {-1, -0.5f, 0, 0.25f, 0.5f}},
        {HYP_PLAN__POINTWISE__OP__CLIP, 2, 1, {1, 1, 1, 1, 1}},
        {HYP_PLAN__POINTWISE__OP__CAST, 0, 0, {-2, -0.5f, 0, 0.25f, 3}},
        {HYP_PLAN__POINTWISE__OP__CONST, 1.5, 0, {1.5f, 1.5f, 1.5f, 1.5f, 1.5f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pb_init(&b);
        uint32_t five = pb_const(&b, 5), one = pb_const(&b, 1);
        uint32_t x = pb_input(&b, "x", HYP_F32, 1, &five), w = pb_weight(&b, HYP_F32, 1, DIMS(5), c),
                 y = output_f32(1, DIMS(5));
        HypPlan__Pointwise *s = pb_pointwise(&b, HYP_F32, 1, &five);
        pb_operand(&b, s, x, &one);
        pb_operand(&b, s, w, &one);
        pb_result(&b, s, y, pb_instr(&b, s, cases[i].op, 0, 1, cases[i].p, cases[i].q, HYP_F32));
        expect_f32(a, 1, DIMS(5), cases[i].want, 5, 1e-6);
        pb_dispose(&b);
    }
    pb_init(&b);
}

static void pointwise_broadcasts_and_writes_several_outputs(void **state)
{
    (void)state;
    uint32_t extents[2] = {pb_const(&b, 2), pb_const(&b, 3)};
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, extents), y = pb_output(&b, "y", HYP_F32, 2, extents);
    uint32_t z = pb_output(&b, "z", HYP_F32, 2, extents), t = pb_output(&b, "t", HYP_F32, 2, extents);
    uint32_t row = pb_weight(&b, HYP_F32, 1, DIMS(3), (float[]){10, 20, 30});
    uint32_t column = pb_weight(&b, HYP_F32, 1, DIMS(2), (float[]){2, -1});
    HypPlan__Pointwise *s = pb_pointwise(&b, HYP_F32, 2, extents);
    pb_operand(&b, s, x, pb_consts(&b, 2, DIMS(3, 1)));
    pb_operand(&b, s, row, pb_consts(&b, 2, DIMS(0, 1)));
    pb_operand(&b, s, column, pb_consts(&b, 2, DIMS(1, 0)));
    uint32_t sum = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__ADD, 0, 1, 0, 0, HYP_F32);
    uint32_t product = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__MUL, sum, 2, 0, 0, HYP_F32);
    pb_result(&b, s, y, product);
    pb_result(&b, s, z, sum);
    pb_result(&b, s, t, 0);
    for (size_t d = 0; d < 2; d++) {
        float in[6] = {1, 2, 3, 4, 5, 6}, out[3][6];
        hyp_tensor input = tensor_of("x", HYP_F32, in, 2, DIMS(2, 3)), outputs[3];
        static const char *const names[] = {"y", "z", "t"};
        for (int i = 0; i < 3; i++) outputs[i] = tensor_of(names[i], HYP_F32, out[i], 2, DIMS(2, 3));
        run_once(&b, host_devices[d], &input, 1, outputs, 3);
        assert_close(out[0], (float[]){22, 44, 66, -14, -25, -36}, 6, 0);
        assert_close(out[1], (float[]){11, 22, 33, 14, 25, 36}, 6, 0);
        assert_close(out[2], in, 6, 0);
    }
}

/* One instruction from one type to another through a compute type. */
static void expect_convert(hyp_dtype from, const void *data, hyp_dtype compute, HypPlan__Pointwise__Op op, double p,
                           hyp_dtype to, const void *want, size_t count)
{
    pb_init(&b);
    uint32_t n = pb_const(&b, (int64_t)count), one = pb_const(&b, 1);
    uint32_t x = pb_input(&b, "x", from, 1, &n), y = pb_output(&b, "y", to, 1, &n);
    HypPlan__Pointwise *s = pb_pointwise(&b, compute, 1, &n);
    pb_operand(&b, s, x, &one);
    uint32_t constant = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, p, 0, compute);
    pb_result(&b, s, y, pb_instr(&b, s, op, 0, constant, 0, 0, to));
    for (size_t d = 0; d < 2; d++) {
        uint64_t copy[16], out[16] = {0};
        memcpy(copy, data, count * hyp_dtype_size(from));
        hyp_tensor in = tensor_of("x", from, copy, 1, DIMS((int64_t)count));
        hyp_tensor result = {.name = "y", .data = out, .bytes = sizeof out, .dtype = to};
        run_once(&b, host_devices[d], &in, 1, &result, 1);
        assert_memory_equal(out, want, count * hyp_dtype_size(to));
    }
    pb_dispose(&b);
    pb_init(&b);
}

static void types_convert_as_the_format_says(void **state)
{
    (void)state;
    const HypPlan__Pointwise__Op cast = HYP_PLAN__POINTWISE__OP__CAST;
    const float f[] = {-1.75f, 0, 2.5f, 300};
    expect_convert(HYP_F32, f, HYP_F32, cast, 0, HYP_I64, (int64_t[]){-1, 0, 2, 300}, 4);
    expect_convert(HYP_F32, f, HYP_F32, cast, 0, HYP_BOOL, (uint8_t[]){1, 0, 1, 1}, 4);
    expect_convert(HYP_F32, f, HYP_F32, cast, 0, HYP_F16, (uint16_t[]){0xbf00, 0, 0x4100, 0x5cb0}, 4);
    expect_convert(HYP_F32, (float[]){1.00390625f, 1.01171875f, -3}, HYP_F32, cast, 0, HYP_BF16,
                   (uint16_t[]){0x3f80, 0x3f82, 0xc040}, 3);
    expect_convert(HYP_BF16, (uint16_t[]){0x3f80, 0xc040}, HYP_F32, HYP_PLAN__POINTWISE__OP__ADD, 0.5, HYP_F32,
                   (float[]){1.5f, -2.5f}, 2);
    expect_convert(HYP_F64, (double[]){0.1, -1e300}, HYP_F64, HYP_PLAN__POINTWISE__OP__MUL, 3, HYP_F64,
                   (double[]){0.1 * 3, -3e300}, 2);
    expect_convert(HYP_I64, (int64_t[]){7, -7, INT64_MAX}, HYP_I64, HYP_PLAN__POINTWISE__OP__DIV, 2, HYP_I64,
                   (int64_t[]){3, -3, INT64_MAX / 2}, 3);
    expect_convert(HYP_I64, (int64_t[]){7, INT64_MIN}, HYP_I64, HYP_PLAN__POINTWISE__OP__DIV, 0, HYP_I64,
                   (int64_t[]){0, 0}, 2);
    expect_convert(HYP_I64, (int64_t[]){INT64_MIN}, HYP_I64, HYP_PLAN__POINTWISE__OP__DIV, -1, HYP_I64,
                   (int64_t[]){INT64_MIN}, 1);
    expect_convert(HYP_I64, (int64_t[]){300, -1}, HYP_I64, cast, 0, HYP_U8, (uint8_t[]){44, 255}, 2);
    expect_convert(HYP_I32, (int32_t[]){300, -1}, HYP_F32, cast, 0, HYP_F32, (float[]){300, -1}, 2);
}

/* ---- the rest ---------------------------------------------------------------------------------------------- */

static void softmax_runs_along_the_middle_axis(void **state)
{
    (void)state;
    uint32_t x = input_f32(3, DIMS(2, 2, 2)), y = output_f32(3, DIMS(2, 2, 2));
    HypPlan__Softmax *s = pb_softmax(&b);
    s->x = x, s->y = y, s->outer = s->axis = s->inner = pb_const(&b, 2);
    expect_f32((float[]){0, 1000, logf(3), 1000, -1000, 0, 1000, 0}, 3, DIMS(2, 2, 2),
               (float[]){0.25f, 0.5f, 0.75f, 0.5f, 0, 0.5f, 1, 0.5f}, 8, 1e-6);
}

static void expect_reduce(HypPlan__Reduce__Kind kind, bool rows, const float *want, size_t count)
{
    static float x[6] = {1, 2, 3, 4, 5, 9};
    pb_init(&b);
    uint32_t in = input_f32(2, DIMS(2, 3)), y = output_f32(1, DIMS((int64_t)count));
    HypPlan__Reduce *s = pb_reduce(&b);
    s->kind = kind, s->x = in, s->y = y;
    s->n_kept = s->n_kept_strides = s->n_reduced = s->n_reduced_strides = 1;
    s->kept = pb_consts(&b, 1, rows ? DIMS(2) : DIMS(3)), s->kept_strides = pb_consts(&b, 1, rows ? DIMS(3) : DIMS(1));
    s->reduced = pb_consts(&b, 1, rows ? DIMS(3) : DIMS(2)),
    s->reduced_strides = pb_consts(&b, 1, rows ? DIMS(1) : DIMS(3));
    expect_f32(x, 2, DIMS(2, 3), want, count, 0);
    pb_dispose(&b);
    pb_init(&b);
}

static void reduce_sums_or_averages_either_axis(void **state)
{
    (void)state;
    expect_reduce(HYP_PLAN__REDUCE__KIND__SUM, true, (float[]){6, 18}, 2);
    expect_reduce(HYP_PLAN__REDUCE__KIND__MEAN, true, (float[]){2, 6}, 2);
    expect_reduce(HYP_PLAN__REDUCE__KIND__SUM, false, (float[]){5, 7, 12}, 3);
    expect_reduce(HYP_PLAN__REDUCE__KIND__MEAN, false, (float[]){2.5f, 3.5f, 6}, 3);
}

static HypPlan__Copy *copy_step(uint32_t x, uint32_t y, size_t rank, const int64_t *extents, const int64_t *x_strides,
                                const int64_t *y_strides, int64_t x_offset, int64_t y_offset)
{
    HypPlan__Copy *s = pb_copy(&b);
    s->x = x, s->y = y;
    s->n_extents = s->n_x_strides = s->n_y_strides = rank;
    s->extents = pb_consts(&b, rank, extents);
    s->x_strides = pb_consts(&b, rank, x_strides);
    s->y_strides = pb_consts(&b, rank, y_strides);
    s->x_offset = pb_const(&b, x_offset), s->y_offset = pb_const(&b, y_offset);
    return s;
}

static void copy_transposes(void **state)
{
    (void)state;
    copy_step(input_f32(2, DIMS(2, 3)), output_f32(2, DIMS(3, 2)), 2, DIMS(3, 2), DIMS(1, 3), DIMS(2, 1), 0, 0);
    expect_f32((float[]){1, 2, 3, 4, 5, 6}, 2, DIMS(2, 3), (float[]){1, 4, 2, 5, 3, 6}, 6, 0);
}

static void copy_runs_backwards(void **state)
{
    (void)state;
    copy_step(input_f32(1, DIMS(6)), output_f32(1, DIMS(3)), 1, DIMS(3), DIMS(-2), DIMS(1), 5, 0);
    expect_f32((float[]){1, 2, 3, 4, 5, 6}, 1, DIMS(6), (float[]){6, 4, 2}, 3, 0);
}

static void copies_put_parts_together(void **state)
{
    (void)state;
    uint32_t x = input_f32(2, DIMS(2, 2)), y = output_f32(2, DIMS(2, 3));
    uint32_t w = pb_weight(&b, HYP_F32, 2, DIMS(2, 1), (float[]){8, 9});
    copy_step(x, y, 2, DIMS(2, 2), DIMS(2, 1), DIMS(3, 1), 0, 0);
    copy_step(w, y, 2, DIMS(2, 1), DIMS(1, 1), DIMS(3, 1), 0, 2);
    expect_f32((float[]){1, 2, 3, 4}, 2, DIMS(2, 2), (float[]){1, 2, 8, 3, 4, 9}, 6, 0);
}

static HypPlan__Gather *gather_step(hyp_dtype index_type)
{
    HypPlan__Gather *s = pb_gather(&b);
    s->x = input_f32(2, DIMS(2, 3));
    s->indices = pb_input(&b, "i", index_type, 1, pb_consts(&b, 1, DIMS(2)));
    s->y = output_f32(2, DIMS(2, 2));
    s->outer = pb_const(&b, 2), s->axis = pb_const(&b, 3), s->inner = pb_const(&b, 1), s->count = pb_const(&b, 2);
    return s;
}

static void gather_takes_indices_from_either_end(void **state)
{
    (void)state;
    gather_step(HYP_I32);
    for (size_t d = 0; d < 2; d++) {
        float x[6] = {1, 2, 3, 4, 5, 6}, y[4];
        int32_t indices[2] = {-1, 0};
        hyp_tensor in[2] = {tensor_of("x", HYP_F32, x, 2, DIMS(2, 3)), tensor_of("i", HYP_I32, indices, 1, DIMS(2))};
        hyp_tensor out = tensor_of("y", HYP_F32, y, 2, DIMS(2, 2));
        run_once(&b, host_devices[d], in, 2, &out, 1);
        assert_close(y, (float[]){3, 1, 6, 4}, 4, 0);
    }
}

static void gather_refuses_an_index_out_of_range(void **state)
{
    (void)state;
    gather_step(HYP_I64);
    for (size_t d = 0; d < 2; d++) {
        float x[6] = {0}, y[4];
        int64_t indices[2] = {0, 3};
        hyp_tensor in[2] = {tensor_of("x", HYP_F32, x, 2, DIMS(2, 3)), tensor_of("i", HYP_I64, indices, 1, DIMS(2))};
        hyp_tensor out = tensor_of("y", HYP_F32, y, 2, DIMS(2, 2));
        hyp_engine *engine = pb_load(&b, host_devices[d]);
        hyp_context *context = NULL;
        hyp_diag why = {0};
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        assert_int_equal(hyp_context_run(context, in, 2, &out, 1, &why), HYP_ERR_INVALID_ARGUMENT);
        assert_string_equal(why.message, "step 0: gather: index 3 at position 1 is out of range for an axis of 3");
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

static void fill_and_views_follow_the_symbols(void **state)
{
    (void)state;
    uint32_t n = pb_symbol(&b, "n"), two = pb_const(&b, 2), flat = pb_dim(&b, HYP_PLAN__DIM__KIND__MUL, n, two);
    uint32_t dims[2] = {n, two};
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, dims), y = pb_output(&b, "y", HYP_F32, 1, &flat);
    uint32_t shape = pb_output(&b, "shape", HYP_I64, 1, pb_consts(&b, 1, DIMS(2)));
    uint32_t view = pb_view(&b, x, 1, &flat), one = pb_const(&b, 1);
    HypPlan__Pointwise *s = pb_pointwise(&b, HYP_F32, 1, &flat);
    pb_operand(&b, s, view, &one);
    pb_result(&b, s, y, pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__ADD, 0, 0, 0, 0, HYP_F32));
    HypPlan__Fill *fill = pb_fill(&b);
    fill->y = shape, fill->n_values = 2, fill->values = dims;
    for (size_t d = 0; d < 2; d++) {
        float in[6] = {1, 2, 3, 4, 5, 6}, out[6];
        int64_t got[2];
        hyp_tensor input = tensor_of("x", HYP_F32, in, 2, DIMS(3, 2));
        hyp_tensor outputs[2] = {{.name = "y", .data = out, .bytes = sizeof out, .dtype = HYP_F32},
                                 {.name = "shape", .data = got, .bytes = sizeof got, .dtype = HYP_I64}};
        run_once(&b, host_devices[d], &input, 1, outputs, 2);
        assert_close(out, (float[]){2, 4, 6, 8, 10, 12}, 6, 0);
        assert_true(got[0] == 3 && got[1] == 2);
        assert_true(outputs[0].rank == 1 && outputs[0].dims[0] == 6);
    }
}

/* ---- nothing, and much of it ------------------------------------------------------------------------------- */

/* Axes of size 0 beside huge ones, as hostile plans have them: there is nothing to do, however often. */
static void norms_of_nothing_end_at_once(void **state)
{
    (void)state;
    const int64_t rows[] = {(int64_t)1 << 29, (int64_t)1 << 30, 0}, more[] = {(int64_t)1 << 56, 0};
    uint32_t x = input_f32(3, rows), y = output_f32(3, rows);
    HypPlan__Call *norm = pb_call(&b, "layer-norm", 1, &x, y);
    pb_call_int(&b, norm, 2);
    pb_call_float(&b, norm, 1e-5);
    expect_f32((float[1]){0}, 3, rows, (float[1]){0}, 0, 0);
    pb_dispose(&b);
    pb_init(&b);
    x = input_f32(2, more), y = output_f32(2, more);
    norm = pb_call(&b, "rms-norm", 1, &x, y);
    pb_call_int(&b, norm, 1);
    pb_call_float(&b, norm, 1e-5);
    expect_f32((float[1]){0}, 2, more, (float[1]){0}, 0, 0);
}

/* 2^59 tuples of no indices pick as many slices of no elements. */
static void picks_of_nothing_end_at_once(void **state)
{
    (void)state;
    const int64_t tuples[] = {(int64_t)1 << 30, (int64_t)1 << 29, 0}; /* and the shape of the result */
    uint32_t x = input_f32(1, DIMS(0)), y = output_f32(3, tuples);
    uint32_t in[] = {x, pb_weight(&b, HYP_I64, 3, tuples, (int64_t[1]){0})};
    pb_call_int(&b, pb_call(&b, "gather-nd", 2, in, y), 0);
    expect_f32((float[1]){0}, 1, DIMS(0), (float[1]){0}, 0, 0);
}

static void updates_of_nothing_end_at_once(void **state)
{
    (void)state;
    const int64_t tuples[] = {(int64_t)1 << 30, (int64_t)1 << 29, 0}; /* and the shape of the updates */
    uint32_t x = input_f32(1, DIMS(0)), y = output_f32(1, DIMS(0));
    uint32_t in[] = {x, pb_weight(&b, HYP_I64, 3, tuples, (int64_t[1]){0}), pb_weight(&b, HYP_F32, 3, tuples, (float[1]){0})};
    pb_call_symbol(&b, pb_call(&b, "scatter-nd", 3, in, y), "none");
    expect_f32((float[1]){0}, 1, DIMS(0), (float[1]){0}, 0, 0);
}

/* 2^56 rows of no elements, by kernels that a plan does not name: of a type that the CPU has a kernel for, and of one that
 * it has none for. */
static void rows_of_nothing_end_at_once(void **state)
{
    (void)state;
    const int64_t rows[] = {(int64_t)1 << 56, 0};
    for (int wide = 0; wide < 2; wide++) {
        hyp_dtype type = wide ? HYP_F64 : HYP_F32;
        const uint32_t dims[] = {pb_const(&b, rows[0]), pb_const(&b, 0)};
        uint32_t x = pb_input(&b, "x", type, 2, dims), y = pb_output(&b, "y", type, 2, dims);
        uint32_t z = pb_output(&b, "z", type, 2, dims);
        HypPlan__Softmax *s = pb_softmax(&b);
        s->x = x, s->y = y, s->outer = dims[0], s->axis = dims[1], s->inner = pb_const(&b, 5);
        HypPlan__Matmul *k = pb_matmul(&b); /* [2^56, 0] times [0, 0] */
        k->a = x, k->b = pb_weight(&b, type, 2, DIMS(0, 0), (double[1]){0}), k->y = z;
        k->m = dims[0], k->n = k->k = dims[1];
        hyp_tensor in = {.data = (double[1]){0}, .dtype = type, .rank = 2, .dims = {rows[0], 0}};
        hyp_tensor out[] = {in, in};
        for (size_t d = 0; d < 2; d++) {
            hyp_engine *engine = pb_load(&b, host_devices[d]);
            hyp_context *context = NULL;
            assert_ok(hyp_context_create(engine, NULL, &context, diag));
            assert_ok(hyp_context_run(context, &in, 1, out, 2, diag));
            assert_true(out[0].dims[0] == rows[0] && out[1].dims[1] == 0);
            hyp_context_destroy(context);
            hyp_engine_destroy(engine);
        }
        pb_dispose(&b);
        pb_init(&b);
    }
}

/* Nothing is there to step to, so that a sum with the stride may overflow. */
static void an_axis_of_one_may_have_any_stride(void **state)
{
    (void)state;
    uint32_t box[] = {pb_const(&b, 1), pb_const(&b, 2), pb_const(&b, 1)};
    uint32_t x = pb_input(&b, "x", HYP_F32, 1, &box[1]), y = pb_output(&b, "y", HYP_F32, 1, &box[1]);
    HypPlan__Pointwise *p = pb_pointwise(&b, HYP_F32, 3, box);
    pb_operand(&b, p, x, pb_consts(&b, 3, DIMS(INT64_MAX, 1, INT64_MAX)));
    pb_operand(&b, p, x, pb_consts(&b, 3, DIMS(INT64_MAX, 1, 1)));
    pb_result(&b, p, y, pb_instr(&b, p, HYP_PLAN__POINTWISE__OP__ADD, 0, 1, 0, 0, HYP_F32));
    float from[] = {3, 5}, want[] = {6, 10};
    expect_f32(from, 1, DIMS(2), want, 2, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_axis_of_one_may_have_any_stride),
        TEST(linear_is_x_w_transposed_plus_b),
        TEST(linear_takes_weights_stored_kn_and_no_bias),
        TEST(every_activation_is_applied),
        TEST(layers_pass_hidden_values_on),
        TEST(matmul_broadcasts_transposes_and_scales),
        TEST(every_pointwise_operator_computes_what_it_says),
        TEST(pointwise_broadcasts_and_writes_several_outputs),
        TEST(types_convert_as_the_format_says),
        TEST(rows_of_nothing_end_at_once),
        TEST(softmax_runs_along_the_middle_axis),
        TEST(reduce_sums_or_averages_either_axis),
        TEST(copy_transposes),
        TEST(copy_runs_backwards),
        TEST(copies_put_parts_together),
        TEST(gather_takes_indices_from_either_end),
        TEST(gather_refuses_an_index_out_of_range),
        TEST(fill_and_views_follow_the_symbols),
        TEST(norms_of_nothing_end_at_once),
        TEST(picks_of_nothing_end_at_once),
        TEST(updates_of_nothing_end_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
