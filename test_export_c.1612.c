/* Made by hypatia export-c of the model digits. C99, which needs its <math.h> and <stdint.h> and nothing else.
 *
 * in0: image, float [2 64]
 * out13: probabilities, float [2 10]
 * weights: the bytes of the file that was written with this one, at a multiple of 8, little-endian
 * work: holds nothing between calls. Calls with memory of their own may go side by side.
 *
 * Memory: 75944 bytes of weights, which nothing writes to, 1664 bytes of work (model_WORK), some 2 KiB of stack.
 * Returns 0; where the data are out of range, as an index is that has no element, the number of the step, from 1.
 */
#include <stdint.h>

enum { model_WORK = 1664 };
struct model_work {
    float f32[416];
};

int model(const void *weights, const float *in0, float *out13, struct model_work *work);

#include <math.h>

#define NUM(x) ((float)(x))
#define LIB(name) lib_##name
#define OWN(name) own_##name
#define own_relu(x) ((x) < 0 ? 0 : (x))
#define own_leaky_relu(x, alpha) ((x) < 0 ? (alpha) * (x) : (x))
#define own_at_most(x, limit) ((x) > (limit) ? (limit) : (x))
#define own_sigmoid(x) (1 / (1 + hyp_exp(-(x))))
#define own_softplus(x) (own_relu(x) + log1pf(hyp_exp(-fabsf(x))))
#define own_elu(x, alpha, gamma) ((gamma) * ((x) > 0 ? (x) : (alpha) * expm1f(x)))
#define lib_exp hyp_exp
#define lib_tanh hyp_tanh
#define lib_erf hyp_erf
#define function10(a, p, q) (OWN(relu)(a)) /* relu */

/* A float and its bits. Choices are made of bits where a comparison of floats would keep gcc from making vectors of a loop.
 */
union hyp_bits {
    float value;
    uint32_t bits;
};
enum { HYP_NAN = 0x7fc00000, HYP_INFINITE = 0x7f800000 };
#define HYP_SIGN 0x80000000u

/* x, brought into -limit .. limit, of which the bits are given; NaN becomes a limit. */
static inline float hyp_limit(float x, uint32_t limit)
{
    union hyp_bits u;
    u.value = x;
    const uint32_t size = u.bits & ~HYP_SIGN;
    u.bits = (u.bits & HYP_SIGN) | (size < limit ? size : limit);
    return u.value;
}

/* y, or NaN where x is. */
static inline float hyp_keep_nan(float x, float y)
{
    union hyp_bits u, v;
    u.value = x;
    v.value = y;
    v.bits |= (0u - ((u.bits & ~HYP_SIGN) > HYP_INFINITE)) & HYP_NAN;
    return v.value;
}

static inline float hyp_two_to(int32_t n)
{
    union hyp_bits u;
    u.bits = (uint32_t)(n + 127) << 23;
    return u.value;
}

/* e^x, to two units in the last place: 2^n e^r, where 2^n is in two factors, so that results below the normal range come out
 * right. */
static inline float hyp_exp(float x)
{
    const float in = hyp_limit(x, 0x42d00000); /* 104 */
    const int32_t n = (int32_t)(in * 1.44269504f + 200.5f) - 200, half = n / 2;
    const float r = (in - (float)n * 0.693359375f) - (float)n * -2.12194440e-4f;
    float q = r * 1.381421927e-03f + 8.368899114e-03f;
    q = q * r + 4.166840762e-02f;
    q = q * r + 1.666651964e-01f;
    q = q * r + 4.999999404e-01f;
    return hyp_keep_nan(x, (q * (r * r) + r + 1) * hyp_two_to(half) * hyp_two_to(n - half));
}

/* What products and convolutions end in, by number; slope: of a leaky relu. */
static void hyp_activate(int act, float *x, long count, float slope)
{
    (void)slope;
    switch (act) {
    case 10:
        for (long i = 0; i < count; i++) x[i] = function10(x[i], slope, 0);
        break;
    default: (void)x, (void)count;
    }
}

/* What all products are made of. Rows of sums are arrays of their own, and loops over j have fixed ends, so that compilers
 * keep them in registers. */
enum { HYP_ROWS = 4, HYP_TILE = 16 };

/* For four rows: c[r][j] = the sum over i < depth of a[r * a_row + i * a_step] * b[i * b_step + j]. */
static void hyp_tile_4(long depth, const float *a, long a_row, long a_step, const float *b, long b_step,
                       float (*c)[HYP_TILE])
{
    float c0[HYP_TILE] = {0}, c1[HYP_TILE] = {0}, c2[HYP_TILE] = {0}, c3[HYP_TILE] = {0};
    for (long i = 0; i < depth; i++) {
        const float *from = b + i * b_step, *left = a + i * a_step;
        const float a0 = left[0], a1 = left[a_row], a2 = left[2 * a_row], a3 = left[3 * a_row];
        for (int j = 0; j < HYP_TILE; j++) {
            c0[j] += a0 * from[j];
            c1[j] += a1 * from[j];
            c2[j] += a2 * from[j];
            c3[j] += a3 * from[j];
        }
    }
    for (int j = 0; j < HYP_TILE; j++) {
        c[0][j] = c0[j];
        c[1][j] = c1[j];
        c[2][j] = c2[j];
        c[3][j] = c3[j];
    }
}

/* One row, in four sums that do not wait for each other. */
static void hyp_tile_1(long depth, const float *a, long a_step, const float *b, long b_step, float *c)
{
    float c0[HYP_TILE] = {0}, c1[HYP_TILE] = {0}, c2[HYP_TILE] = {0}, c3[HYP_TILE] = {0};
    long whole = depth / 4 * 4;
    for (long i = 0; i < whole; i += 4) {
        const float *from0 = b + i * b_step, *from1 = from0 + b_step, *from2 = from1 + b_step, *from3 = from2 + b_step;
        const float *left = a + i * a_step;
        const float a0 = left[0], a1 = left[a_step], a2 = left[2 * a_step], a3 = left[3 * a_step];
        for (int j = 0; j < HYP_TILE; j++) {
            c0[j] += a0 * from0[j];
            c1[j] += a1 * from1[j];
            c2[j] += a2 * from2[j];
            c3[j] += a3 * from3[j];
        }
    }
    for (int j = 0; j < HYP_TILE; j++) c[j] = (c0[j] + c1[j]) + (c2[j] + c3[j]);
    for (long i = whole; i < depth; i++)
        for (int j = 0; j < HYP_TILE; j++) c[j] += a[i * a_step] * b[i * b_step + j];
}

/* As hyp_tile_4, for r < rows and j < width. */
static void hyp_tile(long rows, long width, long depth, const float *a, long a_row, long a_step, const float *b, long b_step,
                     float (*c)[HYP_TILE])
{
    long r = 0;
    for (; width == HYP_TILE && r + 4 <= rows; r += 4) hyp_tile_4(depth, a + r * a_row, a_row, a_step, b, b_step, c + r);
    for (; width == HYP_TILE && r < rows; r++) hyp_tile_1(depth, a + r * a_row, a_step, b, b_step, c[r]);
    for (; r < rows; r++) {
        for (long j = 0; j < width; j++) c[r][j] = 0;
        for (long i = 0; i < depth; i++)
            for (long j = 0; j < width; j++) c[r][j] += a[r * a_row + i * a_step] * b[i * b_step + j];
    }
}

/* A product of a[m, k] with b[k, n], and what follows it. */
struct hyp_product {
    long m, n, k;
    const float *a;
    long a_row, a_step;
    const float *b; /* in panels of HYP_TILE columns, each [k, columns], unless there is room to make such */
    long b_row, b_column;
    float *room; /* [k, HYP_TILE]; NULL: b is in panels */
    float alpha;
    const float *bias, *added; /* [n] and [m, n]; NULL: nothing */
    int after, act;            /* whether what is added is so after the activation */
    float *y;                  /* may be what is added */
    long y_row;
};

/* Where the panel of so many columns from `first` on is; *step is from one of its rows to the next. */
static const float *hyp_panel(const struct hyp_product *p, long first, long width, long *step)
{
    *step = width;
    if (!p->room) return p->b + first * p->k;
    if (p->b_column == 1 && p->m <= HYP_ROWS) {
        *step = p->b_row;
        return p->b + first;
    }
    for (long i = 0; i < p->k; i++)
        for (long j = 0; j < width; j++) p->room[i * width + j] = p->b[i * p->b_row + (first + j) * p->b_column];
    return p->room;
}

/* y = alpha a b + bias + added, by the activation. */
static void hyp_multiply(const struct hyp_product *p)
{
    for (long first = 0; first < p->n; first += HYP_TILE) {
        long width = p->n - first < HYP_TILE ? p->n - first : HYP_TILE, step;
        const float *panel = hyp_panel(p, first, width, &step);
        for (long row = 0; row < p->m; row += HYP_ROWS) {
            float c[HYP_ROWS][HYP_TILE];
            long rows = p->m - row < HYP_ROWS ? p->m - row : HYP_ROWS;
            hyp_tile(rows, width, p->k, p->a + row * p->a_row, p->a_row, p->a_step, panel, step, c);
            for (long r = 0; r < rows; r++) {
                float *y = p->y + (row + r) * p->y_row + first;
                const float *added = p->added ? p->added + (row + r) * p->n + first : 0;
                if (p->alpha != 1)
                    for (long j = 0; j < width; j++) c[r][j] *= p->alpha;
                if (p->bias)
                    for (long j = 0; j < width; j++) c[r][j] += p->bias[first + j];
                if (added && !p->after)
                    for (long j = 0; j < width; j++) c[r][j] += added[j];
                hyp_activate(p->act, c[r], width, 0);
                for (long j = 0; j < width; j++) y[j] = added && p->after ? c[r][j] + added[j] : c[r][j];
            }
        }
    }
}

/* Sums of many numbers in lanes side by side, which compilers make vectors of, and which round less. */
enum { HYP_LANES = 16 };

static float hyp_sum(const float *x, long count)
{
    float lanes[HYP_LANES] = {0}, sum = 0;
    long whole = count / HYP_LANES * HYP_LANES;
    for (long i = 0; i < whole; i += HYP_LANES)
        for (int j = 0; j < HYP_LANES; j++) lanes[j] += x[i + j];
    for (long i = whole; i < count; i++) sum += x[i];
    for (int j = 0; j < HYP_LANES; j++) sum += lanes[j];
    return sum;
}

/* The largest, in lanes side by side. */
static float hyp_most(const float *x, long count)
{
    float lanes[HYP_LANES], most = x[0];
    long whole = count / HYP_LANES * HYP_LANES;
    for (int j = 0; j < HYP_LANES; j++) lanes[j] = most;
    for (long i = 0; i < whole; i += HYP_LANES)
        for (int j = 0; j < HYP_LANES; j++) lanes[j] = lanes[j] < x[i + j] ? x[i + j] : lanes[j];
    for (long i = whole; i < count; i++) most = most < x[i] ? x[i] : most;
    for (int j = 0; j < HYP_LANES; j++) most = most < lanes[j] ? lanes[j] : most;
    return most;
}

static void hyp_exp_all(float *x, long count)
{
    for (long i = 0; i < count; i++) x[i] = hyp_exp(x[i]);
}

static void hyp_softmax_row(long count, const float *x, float *y)
{
    const float most = hyp_most(x, count);
    for (long i = 0; i < count; i++) y[i] = x[i] - most;
    hyp_exp_all(y, count);
    const float sum = hyp_sum(y, count);
    for (long i = 0; i < count; i++) y[i] /= sum;
}

/* Along the axis of x[outer, axis, inner], for several of `inner` at a time. NaN makes all of a softmax NaN by its sum. */
static void hyp_softmax(long outer, long axis, long inner, const float *x, float *y)
{
    for (long o = 0; o < outer && inner == 1; o++) hyp_softmax_row(axis, x + o * axis, y + o * axis);
    for (long o = 0; o < outer && inner > 1; o++)
        for (long first = 0; first < inner; first += HYP_LANES) {
            const float *from = x + o * axis * inner + first;
            float *to = y + o * axis * inner + first, most[HYP_LANES], sum[HYP_LANES] = {0};
            long width = inner - first < HYP_LANES ? inner - first : HYP_LANES;
            for (long j = 0; j < width; j++) most[j] = from[j];
            for (long i = 1; i < axis; i++)
                for (long j = 0; j < width; j++) most[j] = most[j] < from[i * inner + j] ? from[i * inner + j] : most[j];
            for (long i = 0; i < axis; i++) {
                for (long j = 0; j < width; j++) to[i * inner + j] = from[i * inner + j] - most[j];
                hyp_exp_all(to + i * inner, width);
                for (long j = 0; j < width; j++) sum[j] += to[i * inner + j];
            }
            for (long i = 0; i < axis; i++)
                for (long j = 0; j < width; j++) to[i * inner + j] /= sum[j];
        }
}

#define panels_kn1 ((const float *)(const void *)((const char *)weights + 0))
#define weight2 ((const float *)(const void *)((const char *)weights + 32768))
#define panels_kn3 ((const float *)(const void *)((const char *)weights + 33280))
#define weight4 ((const float *)(const void *)((const char *)weights + 66048))
#define panels_kn5 ((const float *)(const void *)((const char *)weights + 66304))
#define weight6 ((const float *)(const void *)((const char *)weights + 74496))
#define panels_kn7 ((const float *)(const void *)((const char *)weights + 74624))
#define weight8 ((const float *)(const void *)((const char *)weights + 75904))

int model(const void *weights, const float *in0, float *out13, struct model_work *work)
{
    (void)work;
    (void)weights;
    (void)in0;
    (void)out13;
    /* fused-mlp */
    {
        const struct hyp_product s = {
            .m = 2,
            .n = 128,
            .k = 64,
            .a = in0,
            .a_row = 64,
            .a_step = 1,
            .b = panels_kn1,
            .alpha = 1.0f,
            .bias = weight2,
            .after = 0,
            .act = 10,
            .y = work->f32 + 0,
            .y_row = 128,
        };
        hyp_multiply(&s);
    }
    {
        const struct hyp_product s = {
            .m = 2,
            .n = 64,
            .k = 128,
            .a = work->f32 + 0,
            .a_row = 128,
            .a_step = 1,
            .b = panels_kn3,
            .alpha = 1.0f,
            .bias = weight4,
            .after = 0,
            .act = 10,
            .y = work->f32 + 256,
            .y_row = 64,
        };
        hyp_multiply(&s);
    }
    {
        const struct hyp_product s = {
            .m = 2,
            .n = 32,
            .k = 64,
            .a = work->f32 + 256,
            .a_row = 64,
            .a_step = 1,
            .b = panels_kn5,
            .alpha = 1.0f,
            .bias = weight6,
            .after = 0,
            .act = 10,
            .y = work->f32 + 0,
            .y_row = 32,
        };
        hyp_multiply(&s);
    }
    {
        const struct hyp_product s = {
            .m = 2,
            .n = 10,
            .k = 32,
            .a = work->f32 + 0,
            .a_row = 32,
            .a_step = 1,
            .b = panels_kn7,
            .alpha = 1.0f,
            .bias = weight8,
            .after = 0,
            .act = 20,
            .y = work->f32 + 384,
            .y_row = 10,
        };
        hyp_multiply(&s);
    }
    /* softmax */
    hyp_softmax(2, 10, 1, work->f32 + 384, out13);
    return 0;
}
