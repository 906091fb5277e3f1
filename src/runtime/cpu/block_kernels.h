/* block_kernels.h - pointwise instructions on blocks, softmax, sums, normalization, conversions. Included by
 * kernels_<isa>.c alone, after vec.h.
 */
#ifndef HYP_RUNTIME_CPU_BLOCK_KERNELS_H
#define HYP_RUNTIME_CPU_BLOCK_KERNELS_H

#include "base/dtype.h"
#include "base/elementwise.h"
#include "runtime/cpu/vector_kernels.h"

/* ---- conversions ---------------------------------------------------------------------------------------- */

/* Half to float: shifted into place the exponent is 112 too small, which a product mends, subnormals too. */
static void widen(hyp_dtype from, const void *x, float *out, int64_t n)
{
    const uint16_t *h = x;
    if (from == HYP_F32)
        memcpy(out, x, (size_t)n * sizeof *out);
    else if (from == HYP_BF16)
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)h[i] << 16;
            memcpy(&out[i], &bits, 4);
        }
    else if (from == HYP_F8E4M3)
        for (int64_t i = 0; i < n; i++) out[i] = hyp_f8e4m3_to_f32(((const uint8_t *)x)[i]);
    else
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)(h[i] & 0x7fff) << 13, top;
            float scaled;
            memcpy(&scaled, &bits, 4);
            scaled *= 0x1p112f;
            memcpy(&top, &scaled, 4);
            top |= (h[i] & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
            top |= (uint32_t)(h[i] & 0x8000) << 16;
            memcpy(&out[i], &top, 4);
        }
}

static void narrow(hyp_dtype to, const float *x, void *out, int64_t n)
{
    uint16_t *h = out;
    if (to == HYP_F32)
        memcpy(out, x, (size_t)n * sizeof *x);
    else if (to == HYP_BF16)
        for (int64_t i = 0; i < n; i++) {
            uint32_t u;
            memcpy(&u, &x[i], 4);
            uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
            h[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
        }
    else if (to == HYP_F8E4M3)
        for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[i] = hyp_f32_to_f8e4m3(x[i]);
    else
        for (int64_t i = 0; i < n; i++) { /* hyp_f32_to_f16 without branches, so that it becomes vectors */
            uint32_t u, tiny;
            memcpy(&u, &x[i], 4);
            uint32_t sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
            float size;
            memcpy(&size, &a, 4);
            size += 0.5f; /* whose last bit is a subnormal half's */
            memcpy(&tiny, &size, 4);
            uint32_t half = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
            half = a < 0x38800000 ? tiny - 0x3f000000 : half;
            half = a >= 0x477ff000 ? 0x7c00 : half;
            half = a > 0x7f800000 ? 0x7e00 | (a >> 13 & 0x3ff) : half;
            h[i] = (uint16_t)(sign | half);
        }
}

/* ---- pointwise -------------------------------------------------------------------------------------------- */

/* One loop per operator over whole vectors; a, b and c are the vectors at i. */
#define EACH(expression)                                                                                               \
    {                                                                                                                  \
        const float *const x0 = x[0], *const x1 = x[1], *const x2 = x[2]; /* which stores do not change */             \
        for (int64_t i = 0; i < n; i += W) {                                                                           \
            vf a = load(x0 + i), b = load(x1 + i), c = load(x2 + i);                                                   \
            (void)a, (void)b, (void)c;                                                                                 \
            store(out + i, (expression));                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    break
/* The same of operands that may each be one number, which is written out once. */
#define EACH_OR_ONE(expression)                                                                                        \
    {                                                                                                                  \
        vf once[3];                                                                                                    \
        const float *from[3];                                                                                          \
        int64_t step[3];                                                                                               \
        for (int j = 0; j < 3; j++) {                                                                                  \
            step[j] = in->ones >> j & 1 ? 0 : W;                                                                       \
            if (!step[j]) once[j] = splat(*x[j]);                                                                      \
            from[j] = step[j] ? x[j] : (const float *)&once[j];                                                        \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i += W, from[0] += step[0], from[1] += step[1], from[2] += step[2]) {               \
            vf a = load(from[0]), b = load(from[1]), c = load(from[2]);                                                \
            (void)a, (void)b, (void)c;                                                                                 \
            store(out + i, (expression));                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    break
/* The same over elements, for functions that the compiler has a vector instruction for. */
#define EACH_ELEMENT(expression)                                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        float a = x[0][i];                                                                                             \
        out[i] = (expression);                                                                                         \
    }                                                                                                                  \
    break

/* Is every element of the block this number? */
static bool is_all(const float *x, float number, int64_t n)
{
    int64_t i = 0;
    while (i < n && x[i] == number) i++;
    return i == n;
}

/* The powers that models have are products. */
static void block_pow(float *out, const float *const *x, int64_t n)
{
    switch (is_all(x[1], 2, n) ? 2 : is_all(x[1], 3, n) ? 3 : 0) {
    case 2: EACH(a * a);
    case 3: EACH(a * a * a);
    default:
        for (int64_t i = 0; i < n; i++) out[i] = powf(x[0][i], x[1][i]);
    }
}

/* To integers: what is within their range by vectors. */
static void round_to_integers(hyp_dtype to, float *out, int64_t n)
{
    bool is_signed = to == HYP_I8 || to == HYP_I16 || to == HYP_I32;
    if (!is_signed && to != HYP_U8 && to != HYP_U16) {
        hyp_block_to_integers(to, out, n);
        return;
    }
    float span = ldexpf(1, 8 * (int)hyp_dtype_size(to) - is_signed), least = is_signed ? -span : 0;
    vi inside = ~(vi){0};
    for (int64_t i = 0; i < n; i += W) {
        vf a = load(out + i);
        inside &= (a >= least) & (a < span); /* NaN is not */
    }
    for (int i = 0; i < W; i++)
        if (!inside[i]) {
            hyp_block_to_integers(to, out, n);
            return;
        }
    for (int64_t i = 0; i < n; i += W) store(out + i, vwhole(load(out + i)));
}

static void block_round(hyp_dtype to, float *out, int64_t n)
{
    const float *x[3] = {out, out, out};
    uint16_t rounded[HYP_BLOCK];
    switch (to) {
    case HYP_F32: break;
    case HYP_F16:
    case HYP_BF16:
    case HYP_F8E4M3:
        narrow(to, out, rounded, n);
        widen(to, rounded, out, n);
        break;
    case HYP_BOOL: EACH(vbool(a != 0.0f));
    default: round_to_integers(to, out, n);
    }
}

/* In one pass, but not in one rounding: what a comparison or a conversion to integers hangs on is what the operators say. */
static void block_sum(const hyp_block_instr *in, float *out, const float *const *x, int64_t n)
{
    switch (in->times << 1 | in->relu) {
    case 0: EACH_OR_ONE(a + b);
    case 1: EACH_OR_ONE(vrelu(a + b));
    case 2: EACH_OR_ONE(vrounded(a * c) + b);
    case 3: EACH_OR_ONE(vrelu(vrounded(a * c) + b));
    }
}

static __attribute__((noinline)) void block_instr(const hyp_block_instr *in, float *out, const float *const *x,
                                                  int64_t n)
{
    const float p = in->p, q = in->q;
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__ADD: block_sum(in, out, x, n); break;
    case HYP_PLAN__POINTWISE__OP__SUB: EACH_OR_ONE(a - b);
    case HYP_PLAN__POINTWISE__OP__MUL: EACH_OR_ONE(a * b);
    case HYP_PLAN__POINTWISE__OP__DIV: EACH_OR_ONE(a / b);
    case HYP_PLAN__POINTWISE__OP__MIN: EACH_OR_ONE(choose((a < b) | (a != a), a, b));
    case HYP_PLAN__POINTWISE__OP__MAX: EACH_OR_ONE(choose((a > b) | (a != a), a, b));
    case HYP_PLAN__POINTWISE__OP__ABS: EACH(vfabs(a));
    case HYP_PLAN__POINTWISE__OP__NEG: EACH(-a);
    case HYP_PLAN__POINTWISE__OP__SIGN: EACH(vsign(a));
    case HYP_PLAN__POINTWISE__OP__NOT: EACH(vbool(a == 0.0f));
    case HYP_PLAN__POINTWISE__OP__EQUAL: EACH(vbool(a == b));
    case HYP_PLAN__POINTWISE__OP__LESS: EACH(vbool(a < b));
    case HYP_PLAN__POINTWISE__OP__LESS_EQUAL: EACH(vbool(a <= b));
    case HYP_PLAN__POINTWISE__OP__WHERE: EACH(choose(a != 0.0f, b, c));
    case HYP_PLAN__POINTWISE__OP__CLIP:
        EACH(choose(choose(a < p, splat(p), a) > q, splat(q), choose(a < p, splat(p), a)));
    case HYP_PLAN__POINTWISE__OP__CONST: EACH(splat(p));
    case HYP_PLAN__POINTWISE__OP__CAST: EACH(a);
    case HYP_PLAN__POINTWISE__OP__POW: block_pow(out, x, n); break;
    case HYP_PLAN__POINTWISE__OP__SIN: EACH(vsin(a)); /* kind L to a GPU, not here */
    case HYP_PLAN__POINTWISE__OP__COS: EACH(vcos(a));
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...) CASE_##kind(OP, (__VA_ARGS__))
#define NUM(number) ((float)(number))
#define CASE_L(OP, expression)
#define CASE_V(OP, expression)                                                                                         \
    case HYP_PLAN__POINTWISE__OP__##OP:                                                                                \
        EACH(expression);
#define CASE_I(OP, expression)
#define LIB(function) v##function
#define OWN(function) v##function
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef CASE_V
#undef CASE_I
#undef LIB
#define CASE_V(OP, expression)
#define CASE_I(OP, expression)                                                                                         \
    case HYP_PLAN__POINTWISE__OP__##OP:                                                                                \
        EACH_ELEMENT(expression);
#define LIB(function) function##f
        HYP_FUNCTIONS(X)
#undef X
    default: hyp_block_rare(in->op, out, x[0], x[1], n);
    }
    block_round(in->to, out, n);
}

/* ---- rows ------------------------------------------------------------------------------------------------- */

/* These by halves: a chain would wait for each lane, and of loops over lanes gcc makes three times as much. There is no NaN
 * in v when the largest is wanted. */
#ifdef __SSE2__
INLINE float join_lanes(vf v, const bool sum)
{
#if HYP_VEC_BYTES == 64
    __m256 low = _mm512_castps512_ps256((__m512)v), high = _mm512_extractf32x8_ps((__m512)v, 1);
    __m256 eight = sum ? _mm256_add_ps(low, high) : _mm256_max_ps(high, low);
#elif HYP_VEC_BYTES == 32
    __m256 eight = (__m256)v;
#endif
#if HYP_VEC_BYTES >= 32
    __m128 first = _mm256_castps256_ps128(eight), second = _mm256_extractf128_ps(eight, 1);
    __m128 four = sum ? _mm_add_ps(first, second) : _mm_max_ps(second, first);
#else
    __m128 four = (__m128)v;
#endif
    __m128 behind = _mm_movehl_ps(four, four);
    __m128 two = sum ? _mm_add_ps(four, behind) : _mm_max_ps(behind, four);
    __m128 other = _mm_shuffle_ps(two, two, 1);
    return _mm_cvtss_f32(sum ? _mm_add_ss(two, other) : _mm_max_ss(other, two));
}
#else
INLINE float join_lanes(vf v, const bool sum)
{
    float s[W];
    store(s, v);
    UNROLL
    for (int half = W / 2; half > 0; half /= 2) {
        UNROLL
        for (int i = 0; i < half; i++) s[i] = sum ? s[i] + s[i + half] : s[i + half] > s[i] ? s[i + half] : s[i];
    }
    return s[0];
}
#endif
static float lanes_max(vf v) { return join_lanes(v, false); }
static float lanes_sum(vf v) { return join_lanes(v, true); }

#include "runtime/cpu/softmax_kernel.h"

static void shift(float *x, const float *add, int64_t step, int64_t n)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++) x[i] += add[i];
    else
        for (int64_t i = 0; i < n; i++) x[i] += add[i * step];
}

static void hide(float *x, const uint8_t *mask, int64_t step, bool shown, float fill, int64_t n)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++) x[i] = (mask[i] != 0) != shown ? fill : x[i];
    else
        for (int64_t i = 0; i < n; i++) x[i] = (mask[i * step] != 0) != shown ? fill : x[i];
}

/* ---- sums ------------------------------------------------------------------------------------------------- */

/* Of n floats less `centre`, or of their squares. Short float sums go into a double, so that the error does not grow
 * with the length. */
INLINE double sum_all(const float *x, int64_t n, float centre, const bool squares)
{
    enum { RUN = 64 * W };
    double total = 0;
    int64_t i = 0;
    while (n - i >= W) {
        vf s[4] = {{0}, {0}, {0}, {0}};
        int64_t end = n - i < RUN ? n : i + RUN;
        for (; i + 4 * W <= end; i += 4 * W) {
            UNROLL
            for (int j = 0; j < 4; j++) {
                vf d = load(x + i + j * W) - centre;
                s[j] += squares ? d * d : d;
            }
        }
        for (; i + W <= end; i += W) {
            vf d = load(x + i) - centre;
            s[0] += squares ? d * d : d;
        }
        total += (double)lanes_sum((s[0] + s[1]) + (s[2] + s[3]));
    }
    for (; i < n; i++) {
        double d = (double)(x[i] - centre);
        total += squares ? d * d : d;
    }
    return total;
}

static double sum_floats(const float *x, int64_t n) { return sum_all(x, n, 0, false); }

static double sum_squares(const float *x, int64_t n, float centre) { return sum_all(x, n, centre, true); }

static void sum_rows(const float *x, int64_t rows, int64_t stride, int64_t n, double *sums)
{
    enum { RUN = 32 };
    float part[HYP_BLOCK];
    for (int64_t first = 0; first < rows; first += RUN) {
        int64_t end = rows - first < RUN ? rows : first + RUN;
        memset(part, 0, (size_t)n * sizeof *part);
        for (int64_t r = first; r < end; r++)
            for (int64_t j = 0; j < n; j++) part[j] += x[r * stride + j];
        for (int64_t j = 0; j < n; j++) sums[j] += (double)part[j];
    }
}

static void combine(const float *const *rows, const float *weights, int64_t taps, int64_t n, float *y)
{
    if (taps == 2) {
        const float *a = rows[0], *b = rows[1], u = weights[0], v = weights[1];
        for (int64_t i = 0; i < n; i++) y[i] = u * a[i] + v * b[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) y[i] = weights[0] * rows[0][i];
    for (int64_t t = 1; t < taps; t++)
        for (int64_t i = 0; i < n; i++) y[i] += weights[t] * rows[t][i];
}

INLINE vf larger(vf most, vf v) { return choose((v > most) | (v != v), v, most); }

/* V vectors of one result, from c on: the sum of its parts, or the largest. */
INLINE void join_some(const hyp_parts *p, int64_t i, const float *start, int64_t c, float *y, const int V,
                      const bool sum)
{
    vf all[4];
    UNROLL
    for (int v = 0; v < V; v++) all[v] = start ? load(start + c + v * W) : splat(sum ? 0 : -INFINITY);
    for (int64_t r = 0; r < p->count; r++)
        for (int64_t j = p->first[i]; j < p->first[i + 1]; j++) {
            const float *part = p->rows[r] + p->offsets[j] + c;
            UNROLL
            for (int v = 0; v < V; v++) all[v] = sum ? all[v] + load(part + v * W) : larger(all[v], load(part + v * W));
        }
    UNROLL
    for (int v = 0; v < V; v++) store(y + c + v * W, all[v]);
}

INLINE void join_parts(const hyp_parts *p, int64_t results, const float *start, int64_t n, float *y, const bool sum)
{
    for (int64_t i = 0; i < results; i++, y += n) {
        int64_t c = 0;
        for (; c + 4 * W <= n; c += 4 * W) join_some(p, i, start, c, y, 4, sum);
        for (; c + W <= n; c += W) join_some(p, i, start, c, y, 1, sum);
        if (c < n) /* beyond n lie results that follow, or as much again */
            join_some(p, i, start, n < W ? 0 : n - W, y, 1, sum);
    }
}

static void add_parts(const hyp_parts *p, int64_t results, const float *start, int64_t n, float *y)
{
    join_parts(p, results, start, n, y, true);
}

static void most_parts(const hyp_parts *p, int64_t results, const float *start, int64_t n, float *y)
{
    join_parts(p, results, start, n, y, false);
}

/* V vectors of groups from g on: O results of each, from o on. */
INLINE void grouped_some(const hyp_grouped *s, const hyp_parts *p, const float *const *weights, const int64_t *taps,
                         int64_t i, int64_t o, int64_t g, float *y, const int O, const int V)
{
    vf sums[8];
    int64_t n = s->groups, begin = o * n + g;
    UNROLL
    for (int j = 0; j < O * V; j++) sums[j] = load(s->bias + begin + j / V * n + j % V * W);
    for (int64_t r = 0; r < p->count; r++)
        for (int64_t k = p->first[i]; k < p->first[i + 1]; k++) {
            const float *x = p->rows[r] + p->offsets[k] + g, *w = weights[r] + taps[k] * s->in * s->out * n + begin;
            for (int64_t c = 0; c < s->in; c++, x += n, w += s->out * n) {
                vf xs[2];
                UNROLL
                for (int v = 0; v < V; v++) xs[v] = load(x + v * W);
                UNROLL
                for (int j = 0; j < O * V; j++) sums[j] += xs[j % V] * load(w + j / V * n + j % V * W);
            }
        }
    UNROLL
    for (int j = 0; j < O * V; j++) store(y + begin + j / V * n + j % V * W, sums[j]);
}

#define GROUPED(O, V)                                                                                                  \
    static __attribute__((noinline)) void grouped_##O##_##V(const hyp_grouped *s, const hyp_parts *p,                  \
                                                            const float *const *weights, const int64_t *taps,          \
                                                            int64_t i, int64_t o, int64_t g, float *y)                 \
    {                                                                                                                  \
        grouped_some(s, p, weights, taps, i, o, g, y, O, V);                                                           \
    }
GROUPED(4, 2)
GROUPED(4, 1)
GROUPED(2, 2)
GROUPED(2, 1)

static void grouped(const hyp_grouped *s, const hyp_parts *p, const float *const *weights, const int64_t *taps,
                    int64_t results, float *y)
{
    for (int64_t i = 0; i < results; i++, y += s->out * s->groups)
        for (int64_t o = 0; o < s->out;) {
            bool four = o + 4 <= s->out;
            int64_t g = 0;
            for (; g + 2 * W <= s->groups; g += 2 * W)
                (four ? grouped_4_2 : grouped_2_2)(s, p, weights, taps, i, o, g, y);
            for (; g < s->groups; g += W) /* the last again with some of those before it */
                (four ? grouped_4_1 : grouped_2_1)(s, p, weights, taps, i, o, g + W <= s->groups ? g : s->groups - W,
                                                   y);
            o += four ? 4 : 2;
        }
}

typedef float four __attribute__((vector_size(16)));
typedef float four_any __attribute__((vector_size(16), aligned(4), may_alias));
#ifdef __clang__
#define PICK4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK4(a, b, ...) __builtin_shuffle(a, b, (vi4){__VA_ARGS__})
typedef int32_t vi4 __attribute__((vector_size(16)));
#endif

INLINE void transpose_four(const float *x, int64_t x_stride, float *y, int64_t y_stride)
{
    four a = *(const four_any *)x, b = *(const four_any *)(x + x_stride);
    four c = *(const four_any *)(x + 2 * x_stride), d = *(const four_any *)(x + 3 * x_stride);
    four ab = PICK4(a, b, 0, 4, 1, 5), cd = PICK4(c, d, 0, 4, 1, 5);
    four ab2 = PICK4(a, b, 2, 6, 3, 7), cd2 = PICK4(c, d, 2, 6, 3, 7);
    *(four_any *)y = PICK4(ab, cd, 0, 1, 4, 5);
    *(four_any *)(y + y_stride) = PICK4(ab, cd, 2, 3, 6, 7);
    *(four_any *)(y + 2 * y_stride) = PICK4(ab2, cd2, 0, 1, 4, 5);
    *(four_any *)(y + 3 * y_stride) = PICK4(ab2, cd2, 2, 3, 6, 7);
}

/* All of x, where rows and columns are multiples of 4, going along the lines that lie farther apart: these may share a
 * set of the first-level cache, which holds few of them. */
static void transpose_fours(const float *x, int64_t rows, int64_t columns, int64_t x_stride, float *y, int64_t y_stride)
{
    enum { RUN = 64 };
    bool along_x = x_stride > y_stride;
    int64_t inner = along_x ? columns : rows, outer = along_x ? rows : columns;
    int64_t x_inner = along_x ? 1 : x_stride, y_inner = along_x ? y_stride : 1;
    int64_t x_outer = along_x ? x_stride : 1, y_outer = along_x ? 1 : y_stride;
    for (int64_t first = 0; first < inner; first += RUN)
        for (int64_t j = 0; j < outer; j += 4)
            for (int64_t i = first; i < inner && i < first + RUN; i += 4)
                transpose_four(x + i * x_inner + j * x_outer, x_stride, y + i * y_inner + j * y_outer, y_stride);
}

static void transpose(const float *x, int64_t rows, int64_t columns, int64_t x_stride, float *y, int64_t y_stride)
{
    int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    transpose_fours(x, whole_rows, whole_columns, x_stride, y, y_stride);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; i++) y[j * y_stride + i] = x[i * x_stride + j];
}

static void copy_rows(const float *x, int64_t rows, int64_t columns, int64_t x_stride, float *y, int64_t y_stride)
{
    int64_t whole = columns / W * W, rest = columns - whole;
    for (int64_t i = 0; i < rows; i++, x += x_stride, y += y_stride) {
        for (int64_t j = 0; j < whole; j += W) store(y + j, load(x + j));
        if (rest) store_some(y + whole, load_some(x + whole, rest, 0), rest);
    }
}

#include "runtime/cpu/norm_kernel.h"

/* ---- gradients of softmax and of batch normalization ----------------------------------------------------------- */

static void softmax_gradient_row(const float *y, const float *g, float *out, int64_t n)
{
    float sum = (float)sum_products(y, g, NULL, n, 0);
    int64_t i = 0;
    for (; i + W <= n; i += W) store(out + i, load(y + i) * (load(g + i) - sum));
    for (; i < n; i++) out[i] = y[i] * (g[i] - sum);
}

static void softmax_gradient(const float *y, const float *g, float *out, int64_t axis, int64_t inner)
{
    float sums[HYP_BLOCK];
    if (inner == 1) softmax_gradient_row(y, g, out, axis);
    for (int64_t first = 0; first < inner && inner > 1; first += HYP_BLOCK) {
        int64_t n = inner - first < HYP_BLOCK ? inner - first : HYP_BLOCK;
        memset(sums, 0, (size_t)n * sizeof *sums);
        for (int64_t at = first; at < axis * inner; at += inner)
            for (int64_t i = 0; i < n; i++) sums[i] += y[at + i] * g[at + i];
        for (int64_t at = first; at < axis * inner; at += inner)
            for (int64_t i = 0; i < n; i++) out[at + i] = y[at + i] * (g[at + i] - sums[i]);
    }
}

/* Of d = x - centre: the sums of d and d d, or with g of g and g d, in runs as sum_all has. */
static void channel_sums(const float *x, const float *g, int64_t n, float centre, double *sums)
{
    enum { RUN = 64 * W };
    int64_t i = 0;
    sums[0] = sums[1] = 0;
    while (n - i >= W) {
        vf of[2] = {{0}, {0}}, along[2] = {{0}, {0}};
        int64_t end = n - i < RUN ? n : i + RUN;
        for (int j = 0; i + W <= end; i += W, j ^= 1) {
            vf d = load(x + i) - centre, v = g ? load(g + i) : d;
            of[j] += v;
            along[j] += v * d;
        }
        sums[0] += (double)lanes_sum(of[0] + of[1]);
        sums[1] += (double)lanes_sum(along[0] + along[1]);
    }
    for (; i < n; i++) {
        float d = x[i] - centre, v = g ? g[i] : d;
        sums[0] += (double)v;
        sums[1] += (double)(v * d);
    }
}

#endif
