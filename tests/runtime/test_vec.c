/* The vectorised functions of every instruction set against libm in double. */
#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

/* Distance in units of the last place of the exact value, at least those of the smallest normal number. */
static double ulps(float got, double exact)
{
    if (isnan(exact) && isnan(got)) return 0;
    if ((double)got == exact || (float)exact == got) return 0;
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)got - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

typedef double (*function)(double);
static double relu(double x) { return x < 0 ? 0 : x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double elu(double x) { return x > 0 ? x : expm1(x); }
static double silu(double x) { return x * sigmoid(x); }
static double quick_gelu(double x) { return x * sigmoid(1.702 * x); }
static double sign(double x) { return (x > 0) - (x < 0); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double hard_swish(double x) { return x * fmin(fmax(x / 6 + 0.5, 0), 1); }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double mish(double x) { return x * tanh(softplus(x)); }
static double gelu(double x) { return 0.5 * x * (1 + erf(x * sqrt(0.5))); }
static double gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }

static void apply(const hyp_cpu_kernels *k, HypPlan__Pointwise__Op op, const float *x, float *y, int64_t n)
{
    hyp_block_instr instr = {.op = op, .p = 1, .q = 1, .to = HYP_F32};
    k->instr(&instr, y, (const float *const[]){x, x, x}, n);
}

/* Largest error in units of the last place, or absolute where `absolute`, over [low, high]. */
static double worst(const hyp_cpu_kernels *k, HypPlan__Pointwise__Op op, function f, double low, double high,
                    bool absolute)
{
    enum { BLOCKS = 400 };
    _Alignas(64) float x[HYP_BLOCK], y[HYP_BLOCK];
    rng r = {7};
    double most = 0;
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < HYP_BLOCK; i++) x[i] = (float)(low + (high - low) * (rng_float(&r) + 1) / 2);
        apply(k, op, x, y, HYP_BLOCK);
        for (int i = 0; i < HYP_BLOCK; i++) {
            double exact = f((double)x[i]), e = absolute ? fabs((double)y[i] - exact) : ulps(y[i], exact);
            if (e > most) most = e;
        }
    }
    return most;
}

static void functions_are_accurate_to_a_few_units_in_the_last_place(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        HypPlan__Pointwise__Op op;
        function f;
        double low, high, bound;
        bool absolute;
    } cases[] = {
        {"exp", HYP_PLAN__POINTWISE__OP__EXP, exp, -87, 88.7, 2, false},
        {"exp near 0", HYP_PLAN__POINTWISE__OP__EXP, exp, -1, 1, 2, false},
        {"exp below the normal range", HYP_PLAN__POINTWISE__OP__EXP, exp, -110, -87, 2, false},
        {"tanh", HYP_PLAN__POINTWISE__OP__TANH, tanh, -10, 10, 6, false},
        {"tanh near 0", HYP_PLAN__POINTWISE__OP__TANH, tanh, -0.7, 0.7, 4, false},
        {"erf", HYP_PLAN__POINTWISE__OP__ERF, erf, -5, 5, 2.5, false},
        {"erf near 0", HYP_PLAN__POINTWISE__OP__ERF, erf, -0.01, 0.01, 2.5, false},
        {"sigmoid", HYP_PLAN__POINTWISE__OP__SIGMOID, sigmoid, -20, 20, 4, false},
        {"relu", HYP_PLAN__POINTWISE__OP__RELU, relu, -2, 2, 0, false},
        {"sqrt", HYP_PLAN__POINTWISE__OP__SQRT, sqrt, 0, 100, 0.5001, false},
        {"log", HYP_PLAN__POINTWISE__OP__LOG, log, 0, 1e6, 2, false},
        {"log near 1", HYP_PLAN__POINTWISE__OP__LOG, log, 0.5, 1.6, 2, false},
        {"log of the smallest", HYP_PLAN__POINTWISE__OP__LOG, log, 0, 1e-37, 2, false},
        {"softplus", HYP_PLAN__POINTWISE__OP__SOFTPLUS, softplus, -80, 80, 4, false},
        {"softplus near 0", HYP_PLAN__POINTWISE__OP__SOFTPLUS, softplus, -2, 2, 4, false},
        {"softsign", HYP_PLAN__POINTWISE__OP__SOFTSIGN, softsign, -50, 50, 2, false},
        {"elu", HYP_PLAN__POINTWISE__OP__ELU, elu, -20, 2, 3, false},
        {"elu near 0", HYP_PLAN__POINTWISE__OP__ELU, elu, -1e-3, 1e-3, 3, false},
        {"sign", HYP_PLAN__POINTWISE__OP__SIGN, sign, -2, 2, 0, false},
        {"round", HYP_PLAN__POINTWISE__OP__ROUND, nearbyint, -9, 9, 0, false},
        {"floor", HYP_PLAN__POINTWISE__OP__FLOOR, floor, -9, 9, 0, false},
        {"ceil", HYP_PLAN__POINTWISE__OP__CEIL, ceil, -9, 9, 0, false},
        {"abs", HYP_PLAN__POINTWISE__OP__ABS, fabs, -9, 9, 0, false},
        {"sin", HYP_PLAN__POINTWISE__OP__SIN, sin, -100, 100, 2, false},
        {"sin of little", HYP_PLAN__POINTWISE__OP__SIN, sin, -1e-3, 1e-3, 2, false},
        {"sin of much", HYP_PLAN__POINTWISE__OP__SIN, sin, 1e3, 1e5, 2.5e-7, true},
        {"cos", HYP_PLAN__POINTWISE__OP__COS, cos, -100, 100, 2, false},
        {"cos of much", HYP_PLAN__POINTWISE__OP__COS, cos, -1e5, -1e3, 2.5e-7, true},
        {"atanh", HYP_PLAN__POINTWISE__OP__ATANH, atanh, -1, 1, 2, false},
        {"silu", HYP_PLAN__POINTWISE__OP__SILU, silu, -20, 20, 6, false},
        {"quick-gelu", HYP_PLAN__POINTWISE__OP__QUICK_GELU, quick_gelu, -20, 20, 1e-6, true},
        {"hard-swish", HYP_PLAN__POINTWISE__OP__HARD_SWISH, hard_swish, -5, 5, 1e-6, true},
        {"mish", HYP_PLAN__POINTWISE__OP__MISH, mish, -20, 20, 8, false},
        {"gelu", HYP_PLAN__POINTWISE__OP__GELU, gelu, -6, 6, 5e-7, true},
        {"gelu near 0", HYP_PLAN__POINTWISE__OP__GELU, gelu, -0.5, 0.5, 10, false},
        {"gelu of much", HYP_PLAN__POINTWISE__OP__GELU, gelu, 6, 100, 1, false},
        {"gelu-tanh", HYP_PLAN__POINTWISE__OP__GELU_TANH, gelu_tanh, -6, 6, 1e-6, true},
    };
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    for (size_t i = 0; list[i]; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            double e = worst(list[i], cases[c].op, cases[c].f, cases[c].low, cases[c].high, cases[c].absolute);
            print_message("%-8s %-28s %.3g %s\n", list[i]->isa, cases[c].name, e, cases[c].absolute ? "" : "ulp");
            if (e > cases[c].bound)
                fail_msg("%s on %s: error %g, bound %g", cases[c].name, list[i]->isa, e, cases[c].bound);
        }
}

static void special_values_come_out_right(void **state)
{
    (void)state;
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    for (size_t i = 0; list[i]; i++) {
        _Alignas(64) float x[16] = {NAN,  INFINITY, -INFINITY, 0.0f,  -0.0f, 200,
                                    -200, 1e-30f,   -1e-30f,   88.8f, 3e38f, -3e38f},
                           y[16];
        apply(list[i], HYP_PLAN__POINTWISE__OP__EXP, x, y, 16);
        assert_true(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && y[3] == 1 && isinf(y[5]) && y[6] == 0);
        assert_true(isinf(y[9]) && isinf(y[10]) && y[11] == 0);
        apply(list[i], HYP_PLAN__POINTWISE__OP__TANH, x, y, 16);
        assert_true(isnan(y[0]) && y[1] == 1 && y[2] == -1 && y[3] == 0 && y[5] == 1 && y[6] == -1 && y[7] == 1e-30f);
        apply(list[i], HYP_PLAN__POINTWISE__OP__ERF, x, y, 16);
        assert_true(isnan(y[0]) && y[1] == 1 && y[2] == -1 && y[3] == 0 && y[5] == 1 && y[6] == -1);
        apply(list[i], HYP_PLAN__POINTWISE__OP__RELU, x, y, 16);
        assert_true(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && y[4] == 0 && y[6] == 0 && y[5] == 200);
        apply(list[i], HYP_PLAN__POINTWISE__OP__SIGMOID, x, y, 16);
        assert_true(isnan(y[0]) && y[1] == 1 && y[2] == 0 && y[3] == 0.5f && y[6] == 0);
        apply(list[i], HYP_PLAN__POINTWISE__OP__GELU, x, y, 16);
        assert_true(isnan(y[0]) && isinf(y[1]) && y[5] == 200 && y[6] == 0);
        apply(list[i], HYP_PLAN__POINTWISE__OP__SIN, x, y, 16);
        assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && !signbit(y[3]) && y[3] == 0 && signbit(y[4]) && y[4] == 0);
        assert_true(y[7] == 1e-30f && y[8] == -1e-30f && y[10] == sinf(3e38f) && y[11] == sinf(-3e38f));
        apply(list[i], HYP_PLAN__POINTWISE__OP__COS, x, y, 16);
        assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && y[3] == 1 && y[4] == 1 && y[7] == 1);
        assert_true(y[10] == cosf(3e38f));
        apply(list[i], HYP_PLAN__POINTWISE__OP__LOG, x, y, 16);
        assert_true(isnan(y[0]) && isinf(y[1]) && isnan(y[2]) && y[3] == -INFINITY && y[4] == -INFINITY && isnan(y[6]));
        apply(list[i], HYP_PLAN__POINTWISE__OP__SOFTPLUS, x, y, 16);
        assert_true(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && y[5] == 200 && y[6] == 0 && y[10] == 3e38f);
        apply(list[i], HYP_PLAN__POINTWISE__OP__ELU, x, y, 16);
        assert_true(isnan(y[0]) && isinf(y[1]) && y[2] == -1 && signbit(y[4]) && y[6] == -1 && y[8] == -1e-30f);
        apply(list[i], HYP_PLAN__POINTWISE__OP__SIGN, x, y, 16);
        assert_true(isnan(y[0]) && y[1] == 1 && y[2] == -1 && y[3] == 0 && y[4] == 0 && y[8] == -1);
        apply(list[i], HYP_PLAN__POINTWISE__OP__ROUND, x, y, 16);
        assert_true(isnan(y[0]) && isinf(y[1]) && signbit(y[4]) && signbit(y[8]) && y[10] == 3e38f);
    }
}

static void every_half_converts_exactly(void **state)
{
    (void)state;
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    static const hyp_dtype types[] = {HYP_F16, HYP_BF16};
    for (size_t i = 0; list[i]; i++)
        for (size_t t = 0; t < 2; t++)
            for (uint32_t first = 0; first < 65536; first += HYP_BLOCK) {
                uint16_t h[HYP_BLOCK], back[HYP_BLOCK];
                float f[HYP_BLOCK];
                for (uint32_t j = 0; j < HYP_BLOCK; j++) h[j] = (uint16_t)(first + j);
                list[i]->widen(types[t], h, f, HYP_BLOCK);
                list[i]->narrow(types[t], f, back, HYP_BLOCK);
                for (uint32_t j = 0; j < HYP_BLOCK; j++) {
                    double exact = hyp_load_f64(types[t], h, j);
                    assert_true(isnan(exact) ? isnan(f[j]) : (double)f[j] == exact);
                    if (!isnan(exact)) assert_int_equal(back[j], h[j]);
                }
            }
}

/* Midway between neighbours, a bit to either side, beyond the largest, subnormal floats and what is no number: the bits
 * that the functions for one number give. */
static void floats_round_to_halves_as_one_by_one(void **state)
{
    (void)state;
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    static const float ends[] = {INFINITY, 65519.996f, 65520, 3.4e38f, 0x1p-149f, 0x1p-126f, 0x1p-25f, 0x1.000002p-25f, 0};
    for (size_t i = 0; list[i]; i++)
        for (uint32_t first = 0; first < 65536; first += HYP_BLOCK)
            for (int part = 0; part < 4; part++) {
                float f[HYP_BLOCK];
                uint16_t halves[HYP_BLOCK], tops[HYP_BLOCK];
                for (uint32_t j = 0; j < HYP_BLOCK; j++) {
                    /* Between two bf16: their bits and a half; between two f16: 13 bits less. NaN has all of them. */
                    static const uint32_t offsets[] = {0, 0x7fff, 0x8000, 0x8001};
                    uint32_t h = first + j, bits = (h << 16) + offsets[part];
                    memcpy(&f[j], &bits, 4);
                    if (part && h < 0x7c00) {
                        uint16_t pair[2] = {(uint16_t)h, (uint16_t)(h + 1)};
                        double low = hyp_load_f64(HYP_F16, pair, 0), high = hyp_load_f64(HYP_F16, pair, 1);
                        float middle = (float)((low + (h == 0x7bff ? 65536 : high)) / 2);
                        f[j] = part == 1 ? middle : nextafterf(middle, part == 2 ? 0 : INFINITY);
                    } else if (part && h < 0x7c00 + sizeof ends / sizeof *ends) {
                        f[j] = part == 1 ? ends[h - 0x7c00] : -ends[h - 0x7c00];
                    }
                }
                list[i]->narrow(HYP_F16, f, halves, HYP_BLOCK);
                list[i]->narrow(HYP_BF16, f, tops, HYP_BLOCK);
                for (uint32_t j = 0; j < HYP_BLOCK; j++) {
                    if (halves[j] != hyp_f32_to_f16(f[j])) fail_msg("%s: f16 of %a is %#x", list[i]->isa, (double)f[j], halves[j]);
                    if (tops[j] != hyp_f32_to_bf16(f[j])) fail_msg("%s: bf16 of %a is %#x", list[i]->isa, (double)f[j], tops[j]);
                }
            }
}

/* A row of n elements. */
static void check_norm_row(const hyp_cpu_kernels *k, const hyp_norm *p, const float *x, const float *y)
{
    const bool centred = p->centred, affine = p->scale != NULL;
    const float *scale = p->scale, *bias = p->bias;
    int64_t n = p->size;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    double mean = centred ? sum / (double)n : 0;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double inverse = 1 / sqrt(squares / (double)n + 1e-5);
    for (int64_t i = 0; i < n; i++) {
        double want =
            ((double)x[i] - mean) * inverse * (affine ? (double)scale[i] : 1) + (affine ? (double)bias[i] : 0);
        /* The mean is rounded to a float, which moves every element by as much. */
        double tolerance = 2e-6 + (centred ? fabs(mean) * 0x1p-23 * inverse : 0);
        if (!(fabs((double)y[i] - want) <= tolerance))
            fail_msg("%s: element %d of %d: %.9g, not %.9g", k->isa, (int)i, (int)n, (double)y[i], want);
    }
}

/* Rows of n elements around `centre`, with or without scale and bias, against double. */
static void check_norm(const hyp_cpu_kernels *k, int64_t n, double centre, bool centred, bool affine)
{
    enum { MOST = 1500, ROWS = 3 };
    static float x[ROWS * MOST], scale[MOST], bias[MOST], y[ROWS * MOST + 1];
    rng r = {(uint64_t)n};
    for (int64_t i = 0; i < ROWS * n; i++) x[i] = (float)(centre + (double)(i / n) + rng_float(&r));
    for (int64_t i = 0; i < n; i++) {
        scale[i] = (float)rng_float(&r);
        bias[i] = (float)rng_float(&r);
    }
    const hyp_norm p = {n, 1e-5, affine ? scale : NULL, affine ? bias : NULL, centred};
    y[ROWS * n] = 42;
    k->norm(&p, x, y, ROWS);
    assert_float_equal(y[ROWS * n], 42, 0);
    for (int64_t row = 0; row < ROWS; row++) check_norm_row(k, &p, x + row * n, y + row * n);
}

static void rows_are_normalized_on_every_instruction_set(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 4, 7, 8, 12, 16, 24, 32, 33, 48, 63, 64, 65, 80, 96, 128, 144, 200, 1023, 1500};
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    for (size_t l = 0; list[l]; l++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int form = 0; form < 8; form++) check_norm(list[l], sizes[i], form & 4 ? 100 : 0, form & 1, form & 2);
}

/* Block by block, for numbers of them that fill vectors and that do not; nothing is written behind. */
static void random_numbers_are_the_same_on_every_instruction_set(void **state)
{
    enum { MOST = 133 };
    static const struct {
        uint64_t seed, number;
        uint32_t stream, first;
    } rows[] = {{0, 0, 0, 0}, {~0ull, 5, 7, 1000}, {1ull << 40, (3ull << 32) + 1, UINT32_MAX, UINT32_MAX - MOST}};
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    (void)state;
    hyp_cpu_kernels_list(list);
    for (size_t l = 0; list[l]; l++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int64_t blocks = 0; blocks <= MOST; blocks++) {
                float y[4 * MOST + 1], want[4];
                y[4 * blocks] = -1;
                list[l]->random(rows[i].seed, rows[i].number, rows[i].stream, rows[i].first, blocks, y);
                for (int64_t b = 0; b < blocks; b++) {
                    hyp_random_block(rows[i].seed, rows[i].number, rows[i].stream, rows[i].first + (uint32_t)b, want);
                    assert_memory_equal(y + 4 * b, want, sizeof want);
                }
                assert_true(y[4 * blocks] == -1);
            }
}

/* Gradients of one row, where norm reads the same, against double. */
static void check_gradients(const hyp_cpu_kernels *k, int64_t n, double centre, bool centred, bool scaled)
{
    enum { MOST = 1500 };
    float x[MOST], g[MOST], scale[MOST], by_x[MOST + 1], by_scale[MOST + 1], of_softmax[MOST + 1];
    rng r = {(uint64_t)n + 1};
    double mean = 0, squares = 0, of_s = 0, along = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(centre + rng_float(&r));
        g[i] = (float)rng_float(&r);
        scale[i] = scaled ? (float)rng_float(&r) : 1;
        mean += centred ? (double)x[i] / (double)n : 0;
        sum += (double)x[i] * (double)g[i];
    }
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    double inverse = 1 / sqrt(squares + 1e-5);
    for (int64_t i = 0; i < n; i++) {
        double s = (double)g[i] * (double)scale[i] / (double)n;
        of_s += centred ? s : 0;
        along += s * ((double)x[i] - mean) * inverse;
    }
    by_x[n] = by_scale[n] = of_softmax[n] = 42;
    hyp_norm_gradient p = {.size = n, .epsilon = 1e-5, .scale = scaled ? scale : NULL, .centred = centred};
    k->norm_gradient(&p, x, g, by_x);
    p.by_scale = true, p.scale = NULL;
    k->norm_gradient(&p, x, g, by_scale);
    k->softmax_gradient(x, g, of_softmax, n, 1);
    assert_true(by_x[n] == 42 && by_scale[n] == 42 && of_softmax[n] == 42);
    /* The mean is rounded to a float, as above, and then multiplied by the root of the deviation twice. */
    double moved = centred ? fabs(mean) * 0x1p-23 * inverse : 0, size = 1 + fabs(centre);
    for (int64_t i = 0; i < n; i++) {
        double h = ((double)x[i] - mean) * inverse;
        double want[] = {inverse * ((double)g[i] * (double)scale[i] - of_s - h * along), (double)g[i] * h,
                         (double)x[i] * ((double)g[i] - sum)};
        double have[] = {(double)by_x[i], (double)by_scale[i], (double)of_softmax[i]};
        double room[] = {(4e-6 + 4 * moved) * inverse, 2e-6 + moved, 2e-6 * size * size * (1 + sqrt((double)n))};
        for (int j = 0; j < 3; j++)
            if (!(fabs(have[j] - want[j]) <= room[j]))
                fail_msg("%s: gradient %d, element %d of %d: %.9g, not %.9g", k->isa, j, (int)i, (int)n, have[j], want[j]);
    }
}

static void gradients_of_rows_are_right_on_every_instruction_set(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 7, 16, 33, 63, 64, 65, 200, 1023, 1500};
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    for (size_t l = 0; list[l]; l++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int form = 0; form < 8; form++)
                check_gradients(list[l], sizes[i], form & 4 ? 10 : 0, form & 1, form & 2);
}

/* One channel against double, also far from 0, where the squares alone would leave nothing. */
static void check_channel(const hyp_cpu_kernels *k, int64_t n, double centre, bool of_g)
{
    enum { MOST = 5000 };
    static float x[MOST], g[MOST];
    rng r = {(uint64_t)n + 1};
    double want[2] = {0}, size[2] = {0}, have[2];
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(centre + rng_float(&r));
        g[i] = (float)rng_float(&r);
    }
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)x[0], v = of_g ? (double)g[i] : d;
        want[0] += v, size[0] += fabs(v);
        want[1] += v * d, size[1] += fabs(v * d);
    }
    k->channel_sums(x, of_g ? g : NULL, n, x[0], have);
    for (int j = 0; j < 2; j++)
        if (!(fabs(have[j] - want[j]) <= 64 * 0x1p-24 * size[j] + 1e-30))
            fail_msg("%s: sum %d of %d floats around %g: %.9g, not %.9g", k->isa, j, (int)n, centre, have[j], want[j]);
}

static void channels_are_summed_on_every_instruction_set(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 3, 16, 33, 49, 196, 1024, 1300, 5000};
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    for (size_t l = 0; list[l]; l++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int form = 0; form < 4; form++) check_channel(list[l], sizes[i], form & 2 ? 1000 : 0, form & 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_accurate_to_a_few_units_in_the_last_place),
        cmocka_unit_test(special_values_come_out_right),
        cmocka_unit_test(every_half_converts_exactly),
        cmocka_unit_test(floats_round_to_halves_as_one_by_one),
        cmocka_unit_test(rows_are_normalized_on_every_instruction_set),
        cmocka_unit_test(random_numbers_are_the_same_on_every_instruction_set),
        cmocka_unit_test(gradients_of_rows_are_right_on_every_instruction_set),
        cmocka_unit_test(channels_are_summed_on_every_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
