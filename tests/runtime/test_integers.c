/* Products and convolutions of whole numbers with every instruction set, against sums in 64 bits brought to 32: of
 * bytes less their zero points over their whole range, sums that wrap, and numbers that are too large for exact floats.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

enum { MOST = 1 << 17 };

static plan_builder b;
static rng r;
static const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX + 1];

/* How large numbers are. */
typedef enum range {
    BYTES,   /* of uint8 or int8, less a zero point of that type: up to 255 in size */
    EDGES,   /* the ends of that range, nearly all of one sign, which make the largest sums */
    LARGEST, /* 256 in size, the most that floats are exact for */
    BEYOND,  /* some thousands, of one sign */
    SINGLE,  /* as BYTES, with 257 in a single place */
    ALL,     /* of int32_t */
    RANGES
} range;

static int32_t draw(range of)
{
    static const int32_t edges[] = {255, 255, 255, 255, 255, 255, 254, -255};
    switch (of) {
    case BYTES: return (int32_t)rng_below(&r, 511) - 255;
    case EDGES: return edges[rng_below(&r, 8)];
    case LARGEST: return -256;
    case BEYOND: return 3000 + (int32_t)rng_below(&r, 1000);
    default: return (int32_t)(uint32_t)rng_below(&r, (uint64_t)1 << 32);
    }
}

static void fill(range of, int32_t *x, size_t count)
{
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) x[i] = draw(of == SINGLE ? BYTES : of);
    if (of == SINGLE && count > 0) x[rng_below(&r, count)] = 257;
}

static int32_t plus(int32_t a, int32_t c) { return (int32_t)((uint32_t)a + (uint32_t)c); }

/* Runs the builder's plan with all instruction sets. */
static void check(const char *what, const hyp_tensor *in, size_t inputs, const int32_t *want, size_t count)
{
    static int32_t y[MOST];
    for (size_t i = 0; isa[i]; i++) {
        hyp_tensor out = {.name = "y", .data = y, .bytes = count * sizeof *y, .dtype = HYP_I32};
        assert_int_equal(setenv(HYP_CPU_VARIABLE, isa[i]->isa, 1), 0);
        memset(y, 0x55, count * sizeof *y);
        run_once(&b, HYP_DEVICE_CPU, in, inputs, &out, 1);
        for (size_t at = 0; at < count; at++)
            if (y[at] != want[at])
                fail_msg("%s, %s: element %zu is %d, not %d", what, isa[i]->isa, at, y[at], want[at]);
    }
    assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
    pb_dispose(&b);
}

/* ---- layers ---------------------------------------------------------------------------------------------------- */

/* What a layer does besides multiplying: bits. */
enum { BIAS = 1, RELU = 2, KN = 4, BEFORE = 8, AFTER = 16, IN_PLACE = 32 };

static void check_layer(int64_t m, int64_t n, int64_t k, int form, range of_x, range of_w)
{
    static int32_t x[MOST], w[MOST], bias[MOST], added[MOST], want[MOST];
    const int64_t x_dims[2] = {m, k}, y_dims[2] = {m, n};
    fill(of_x, x, (size_t)(m * k));
    fill(of_w, w, (size_t)(n * k));
    fill(ALL, bias, (size_t)n);
    fill(ALL, added, (size_t)(m * n));
    pb_init(&b);
    uint32_t *shape = pb_consts(&b, 2, y_dims), all = pb_const(&b, m * n);
    uint32_t one = pb_input(&b, "x", HYP_I32, 2, pb_consts(&b, 2, x_dims)), two = pb_input(&b, "r", HYP_I32, 2, shape);
    uint32_t y = pb_output(&b, "y", HYP_I32, 2, shape), to = y;
    if (form & IN_PLACE) {
        uint32_t held = pb_scratch(&b, HYP_I32, 0, 2, shape);
        pb_copy_all(&b, two, held, all);
        two = held;
        to = pb_scratch(&b, HYP_I32, 0, 2, shape);
    }
    HypPlan__Linear *s = pb_linear(&b, one, to, pb_const(&b, m));
    const int64_t w_dims[2] = {form & KN ? k : n, form & KN ? n : k};
    pb_layer(&b, s, n, k, pb_weight(&b, HYP_I32, 2, w_dims, w),
             form & BIAS ? pb_weight(&b, HYP_I32, 1, &n, bias) : PB_NONE,
             form & RELU ? HYP_PLAN__ACT__ACT_RELU : HYP_PLAN__ACT__ACT_NONE, PB_NONE)
        ->weight_kn = form & KN;
    s->added_plus1 = form & (BEFORE | AFTER | IN_PLACE) ? two + 1 : 0;
    s->add_after = form & AFTER;
    if (form & IN_PLACE) pb_copy_all(&b, to, y, all);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            uint64_t sum = form & BIAS ? (uint64_t)bias[j] : 0;
            for (int64_t l = 0; l < k; l++)
                sum += (uint64_t)((int64_t)x[i * k + l] * w[form & KN ? l * n + j : j * k + l]);
            int32_t value = (int32_t)(uint32_t)sum, more = added[i * n + j];
            if (form & (BEFORE | IN_PLACE)) value = plus(value, more);
            if (form & RELU && value < 0) value = 0;
            want[i * n + j] = form & AFTER ? plus(value, more) : value;
        }
    hyp_tensor in[2] = {tensor_of("x", HYP_I32, x, 2, x_dims), tensor_of("r", HYP_I32, added, 2, y_dims)};
    char what[96];
    snprintf(what, sizeof what, "a layer %dx%dx%d of form %d, x %d, w %d", (int)m, (int)k, (int)n, form, of_x, of_w);
    check(what, in, 2, want, (size_t)(m * n));
}

static void layers_are_exact(void **state)
{
    (void)state;
    static const int forms[] = {0, KN, BIAS, BIAS | RELU | KN, BEFORE | RELU, AFTER | RELU | BIAS, IN_PLACE | BIAS};
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 5, 255},  {3, 17, 256}, {49, 3, 257},
                                       {7, 33, 258}, {2, 9, 513},  {97, 65, 40}, {1, 130, 90},
                                       {5, 4, 5000}, {1, 1, 5000}, {48, 70, 600}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int of = BYTES; of < RANGES; of++)
            for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
                if (f == i % 7 || sizes[i][2] < 300) {
                    check_layer(sizes[i][0], sizes[i][1], sizes[i][2], forms[f], (range)of, BYTES);
                    check_layer(sizes[i][0], sizes[i][1], sizes[i][2], forms[f], EDGES, (range)of);
                }
}

/* 255 * 255 * 40,000 is beyond int32_t. */
static void sums_wrap(void **state)
{
    (void)state;
    check_layer(1, 2, 40000, 0, EDGES, EDGES);
    check_layer(2, 1, 40000, BIAS | RELU, LARGEST, LARGEST);
}

/* ---- matmuls --------------------------------------------------------------------------------------------------- */

/* y[batch m n]; b has one matrix for all of the batch or one for each. */
static void check_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, int form, range of_a, range of_b)
{
    static int32_t x[MOST], w[MOST], want[MOST];
    bool trans_a = form & 1, trans_b = form & 2, shared = form & 4;
    int64_t x_dims[3] = {batch, trans_a ? k : m, trans_a ? m : k};
    int64_t w_dims[3] = {shared ? 1 : batch, trans_b ? n : k, trans_b ? k : n}, y_dims[3] = {batch, m, n};
    pb_init(&b);
    HypPlan__Matmul *s = pb_matmul(&b);
    s->a = pb_input(&b, "x", HYP_I32, 3, pb_consts(&b, 3, x_dims));
    s->b = pb_input(&b, "w", HYP_I32, 3, pb_consts(&b, 3, w_dims));
    s->y = pb_output(&b, "y", HYP_I32, 3, pb_consts(&b, 3, y_dims));
    pb_dense(&b, s, (const int64_t[4]){batch, m, n, k}, trans_a, trans_b, shared);
    fill(of_a, x, (size_t)(batch * m * k));
    fill(of_b, w, (size_t)(w_dims[0] * n * k));
    for (int64_t at = 0; at < batch * m * n; at++) {
        int64_t row = at / n % m, column = at % n, of = at / (m * n);
        uint64_t sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += (uint64_t)((int64_t)x[of * m * k + (trans_a ? l * m + row : row * k + l)] *
                              w[(shared ? 0 : of * n * k) + (trans_b ? column * k + l : l * n + column)]);
        want[at] = (int32_t)(uint32_t)sum;
    }
    hyp_tensor in[2] = {tensor_of("x", HYP_I32, x, 3, x_dims), tensor_of("w", HYP_I32, w, 3, w_dims)};
    char what[96];
    snprintf(what, sizeof what, "a matmul %dx%dx%dx%d of form %d, a %d, b %d", (int)batch, (int)m, (int)k, (int)n, form,
             of_a, of_b);
    check(what, in, 2, want, (size_t)(batch * m * n));
}

static void matmuls_are_exact(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 1, 1, 1},    {1, 1, 1, 5000}, {1, 3, 5, 700},  {2, 4, 8, 259},
                                       {1, 5, 17, 300}, {3, 9, 16, 1},   {1, 2, 33, 260}, {0, 2, 3, 4},
                                       {2, 0, 3, 5},    {1, 2, 0, 5},    {2, 3, 4, 0},    {1, 13, 31, 64},
                                       {1, 64, 2, 40},  {2, 6, 15, 100}, {2, 50, 70, 90}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = 0; form < 8; form++) {
            range of = (range)((i + (size_t)form) % RANGES);
            check_matmul(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], form, of, BYTES);
            check_matmul(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], form, EDGES, of);
        }
}

/* ---- convolutions ---------------------------------------------------------------------------------------------- */

typedef struct conv {
    int64_t n; /* spatial axes */
    int64_t batch, groups, in, out;
    int64_t size[3], kernel[3], stride[3], dilation[3], pads[6];
} conv;

/* x at channel c of image i, 0 in the padding. */
static int64_t element(const conv *v, const int32_t *x, int64_t i, int64_t c, const int64_t *at)
{
    int64_t place = i * v->groups * v->in + c;
    for (int64_t a = 0; a < v->n; a++) {
        if (at[a] < 0 || at[a] >= v->size[a]) return 0;
        place = place * v->size[a] + at[a];
    }
    return x[place];
}

static int32_t convolve(const conv *v, const int32_t *x, const int32_t *w, int64_t i, int64_t m, const int64_t *o)
{
    int64_t taps = v->kernel[0] * v->kernel[1] * v->kernel[2];
    uint64_t sum = 0;
    for (int64_t c = 0; c < v->in; c++)
        for (int64_t t = 0; t < taps; t++) {
            int64_t rest = t, at[3];
            for (int64_t a = v->n; a-- > 0; rest /= v->kernel[a])
                at[a] = o[a] * v->stride[a] + rest % v->kernel[a] * v->dilation[a] - v->pads[a];
            sum += (uint64_t)(element(v, x, i, m / v->out * v->in + c, at) * w[(m * v->in + c) * taps + t]);
        }
    return (int32_t)(uint32_t)sum;
}

static void check_conv(const conv *v, bool bias, bool adds, range of_x, range of_w)
{
    static int32_t x[MOST], w[MOST], biases[MOST], added[MOST], want[MOST];
    int64_t results = v->groups * v->out, x_dims[5] = {v->batch, v->groups * v->in}, w_dims[5] = {results, v->in};
    int64_t y_dims[5] = {v->batch, results}, y_count = v->batch * results, x_count = v->batch * v->groups * v->in;
    int64_t w_count = results * v->in, out[3] = {1, 1, 1};
    for (int64_t a = 0; a < v->n; a++) {
        x_dims[2 + a] = v->size[a], w_dims[2 + a] = v->kernel[a];
        out[a] = y_dims[2 + a] =
            (v->size[a] + v->pads[a] + v->pads[v->n + a] - (v->kernel[a] - 1) * v->dilation[a] - 1) / v->stride[a] + 1;
        x_count *= v->size[a], w_count *= v->kernel[a], y_count *= out[a];
    }
    size_t rank = 2 + (size_t)v->n;
    fill(of_x, x, (size_t)x_count);
    fill(of_w, w, (size_t)w_count);
    fill(ALL, biases, (size_t)results);
    fill(ALL, added, (size_t)y_count);
    pb_init(&b);
    uint32_t *shape = pb_consts(&b, rank, y_dims);
    uint32_t inputs[] = {
        pb_input(&b, "x", HYP_I32, rank, pb_consts(&b, rank, x_dims)), pb_weight(&b, HYP_I32, rank, w_dims, w),
        bias ? pb_weight(&b, HYP_I32, 1, &results, biases) : PB_NONE, pb_input(&b, "z", HYP_I32, rank, shape)};
    HypPlan__Call *call = pb_call(&b, "conv", adds ? 4 : 3, inputs, pb_output(&b, "y", HYP_I32, rank, shape));
    pb_call_ints(&b, call, (size_t)v->n, v->stride);
    pb_call_ints(&b, call, 2 * (size_t)v->n, v->pads);
    pb_call_ints(&b, call, (size_t)v->n, v->dilation);
    pb_call_int(&b, call, v->groups);
    pb_call_symbol(&b, call, "none");
    int64_t places = out[0] * out[1] * out[2];
    for (int64_t at = 0; at < y_count; at++) {
        int64_t rest = at % places, o[3], m = at / places % results;
        for (int64_t a = v->n; a-- > 0; rest /= out[a]) o[a] = rest % out[a];
        want[at] = convolve(v, x, w, at / places / results, m, o);
        if (bias) want[at] = plus(want[at], biases[m]);
        if (adds) want[at] = plus(want[at], added[at]);
    }
    hyp_tensor in[2] = {tensor_of("x", HYP_I32, x, rank, x_dims), tensor_of("z", HYP_I32, added, rank, y_dims)};
    char what[96];
    snprintf(what, sizeof what, "%d groups of %d to %d channels, x %d, w %d", (int)v->groups, (int)v->in, (int)v->out,
             of_x, of_w);
    check(what, in, 2, want, (size_t)y_count);
}

static void convolutions_are_exact(void **state)
{
    (void)state;
    static const conv all[] = {
        {2, 1, 1, 3, 8, {9, 7, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1, 1}},
        {2, 2, 1, 40, 21, {6, 9, 1}, {3, 3, 1}, {2, 2, 1}, {1, 1, 1}, {0, 1, 1, 0}},
        {2, 2, 2, 24, 6, {8, 8, 1}, {3, 2, 1}, {1, 2, 1}, {2, 1, 1}, {2, 0, 1, 3}},
        {2, 1, 1, 300, 70, {5, 11, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}}, /* places of the image */
        {2, 1, 3, 30, 5, {7, 7, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}},
        {2, 1, 1, 33, 9, {9, 9, 1}, {1, 1, 1}, {2, 3, 1}, {1, 1, 1}, {0}},
        {2, 2, 11, 1, 1, {9, 10, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1, 1}}, /* each channel by itself */
        {2, 1, 5, 1, 1, {9, 10, 1}, {5, 3, 1}, {2, 3, 1}, {1, 3, 1}, {4, 9, 4, 9}},
        {2, 1, 2, 3, 2, {4, 2, 1}, {3, 7, 1}, {1, 1, 1}, {1, 1, 1}, {1, 6, 1, 6}}, /* a kernel wider than the image */
        {1, 2, 1, 12, 10, {50, 1, 1}, {9, 1, 1}, {2, 1, 1}, {1, 1, 1}, {4, 4}},
        {1, 1, 4, 2, 1, {50, 1, 1}, {4, 1, 1}, {1, 1, 1}, {2, 1, 1}, {3, 0}},
        {3, 1, 1, 10, 6, {4, 5, 6}, {2, 3, 2}, {1, 1, 2}, {1, 1, 1}, {1, 1, 0, 0, 1, 1}},
        {3, 1, 3, 1, 1, {4, 5, 6}, {2, 3, 2}, {1, 1, 2}, {1, 1, 1}, {1, 1, 0, 0, 1, 1}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int of = BYTES; of < RANGES; of++) {
            check_conv(&all[i], of & 1, of % 3 == 0, (range)of, BYTES);
            check_conv(&all[i], !(of & 1), of % 3 == 1, EDGES, (range)of);
        }
}

int main(void)
{
    r.state = 16;
    hyp_cpu_kernels_list(isa);
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_exact), cmocka_unit_test(sums_wrap),
                                       cmocka_unit_test(matmuls_are_exact), cmocka_unit_test(convolutions_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
