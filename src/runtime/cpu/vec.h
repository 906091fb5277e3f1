/* vec.h - vectors of floats and functions on them. Included by kernels_<isa>.c alone, which define HYP_VEC_BYTES.
 *
 * The polynomials were fitted for these ranges by reweighted least squares (Lawson's method) at Chebyshev nodes,
 * to errors below 2^-25 before rounding; tests/runtime/test_vec.c holds the functions to a few units in the last
 * place. The range reductions are those of Cody and Waite, "Software Manual for the Elementary Functions" (1980).
 */
#ifndef HYP_RUNTIME_CPU_VEC_H
#define HYP_RUNTIME_CPU_VEC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

enum { W = HYP_VEC_BYTES / 4 };

typedef float vf __attribute__((vector_size(HYP_VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(HYP_VEC_BYTES)));
typedef uint32_t vu __attribute__((vector_size(HYP_VEC_BYTES)));
typedef float vf_any __attribute__((vector_size(HYP_VEC_BYTES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Before a loop over a constant count: without it clang 14 leaves the loop, and with it the sums, in memory. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

INLINE vf load(const float *p) { return *(const vf_any *)p; }
INLINE void store(float *p, vf v) { *(vf_any *)p = v; }
INLINE vf splat(float x) { return x - (vf){0}; }

/* mask lanes are 0 or -1, as comparisons give them */
INLINE vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }

/* The first n <= W floats at p, the others `rest`; nothing behind them is read. A call of memcpy, and a vector that is read
 * from what it wrote, take several times as long. */
INLINE vf load_some(const float *p, int64_t n, float rest)
{
#if HYP_VEC_BYTES == 64
    return (vf)_mm512_mask_loadu_ps((__m512)splat(rest), (__mmask16)((1u << n) - 1), p);
#elif HYP_VEC_BYTES == 32
    static const int32_t masks[2 * W] = {-1, -1, -1, -1, -1, -1, -1, -1};
    __m256i mask = _mm256_loadu_si256((const __m256i *)(const void *)(masks + W - n));
    return choose((vi)mask, (vf)_mm256_maskload_ps(p, mask), splat(rest));
#else
    vf v = splat(rest);
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
#endif
}
/* The same to p. By halves: AMD's processors take long for masked stores of 32 bytes. */
INLINE void store_some(float *p, vf v, int64_t n)
{
#if HYP_VEC_BYTES == 64
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined __SSE2__
    if (n == W) {
        store(p, v);
        return;
    }
#if HYP_VEC_BYTES == 32
    __m128 left = _mm256_castps256_ps128((__m256)v);
    if (n & 4) {
        _mm_storeu_ps(p, left);
        left = _mm256_extractf128_ps((__m256)v, 1);
        p += 4;
    }
#else
    __m128 left = (__m128)v;
#endif
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, left);
        left = _mm_movehl_ps(left, left);
        p += 2;
    }
    if (n & 1) _mm_store_ss(p, left);
#else
    memcpy(p, &v, (size_t)n * sizeof *p);
#endif
}

/* v as it is rounded: what it is computed by and what reads it are not put into one instruction, which would round once. */
INLINE vf vrounded(vf v)
{
#if HYP_VEC_BYTES == 64
    __asm__("" : "+v"(v));
#elif defined __SSE2__
    __asm__("" : "+x"(v));
#elif defined __aarch64__
    __asm__("" : "+w"(v));
#else
    __asm__("" : "+m"(v));
#endif
    return v;
}

/* The larger of two numbers; where one is NaN, either. */
INLINE vf vlarger(vf a, vf b)
{
#if HYP_VEC_BYTES == 64
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif HYP_VEC_BYTES == 32
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return choose(a > b, a, b);
#endif
}
/* Whether any lane of a mask is set. */
INLINE bool vany(vi mask)
{
#if HYP_VEC_BYTES == 64
    return _mm512_cmplt_epi32_mask((__m512i)mask, _mm512_setzero_si512()) != 0;
#elif HYP_VEC_BYTES == 32
    return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined __SSE2__
    return _mm_movemask_ps((__m128)mask) != 0;
#else
    int32_t any = 0;
    for (int i = 0; i < W; i++) any |= mask[i];
    return any != 0;
#endif
}
INLINE vf vfabs(vf x) { return (vf)((vi)x & 0x7fffffff); }
INLINE vf with_sign(vf size, vf sign) { return (vf)(((vi)size & 0x7fffffff) | ((vi)sign & (int32_t)0x80000000)); }

/* Without what is behind the point, of numbers within the range of int32_t. */
INLINE vf vwhole(vf x) { return __builtin_convertvector(__builtin_convertvector(x, vi), vf); }

/* e^x = 2^n e^r with |r| <= ln2/2: gives e^r, and n. */
INLINE vf vexp_parts(vf x, vi *n)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vf t = x * 1.44269504f + magic;
    vf whole = t - magic;
    vf r = x - whole * 0.693359375f;
    r = r - whole * -2.12194440e-4f;
    vf q = r * 1.381421927e-03f + 8.368899114e-03f;
    q = q * r + 4.166840762e-02f;
    q = q * r + 1.666651964e-01f;
    q = q * r + 4.999999404e-01f;
    *n = (vi)((vu)t - 0x4b400000u); /* the bits of magic; of a large x anything, which is not taken */
    return q * (r * r) + r + 1.0f;
}

/* 2^n in two factors, so that results below the normal range come out right. */
INLINE vf vexp(vf x)
{
    vi n;
    vf e = vexp_parts(x, &n);
    vi half = n >> 1;
    vf y = e * (vf)((vu)(half + 127) << 23) * (vf)((vu)(n - half + 127) << 23);
    y = choose(x > 88.8f, splat(INFINITY), y);
    return choose(x < -104.0f, splat(0), y); /* NaN passes both comparisons by and came through e */
}

/* The same for |x| < 80. */
INLINE vf vexp_within(vf x)
{
    vi n;
    vf e = vexp_parts(x, &n);
    return e * (vf)((vu)(n + 127) << 23);
}

/* A quotient of polynomials, fitted like the others, in less time than e^x takes. */
INLINE vf vtanh(vf x)
{
    const float most = 7.9f, one = 9.02f; /* where the fit ends; from where on tanh rounds to 1 */
    vf c = choose(x > most, splat(most), choose(x < -most, splat(-most), x)), s = c * c;
    vf p = s * 1.542835015e-08f + 2.202331962e-05f;
    p = p * s + 3.578998614e-03f;
    p = p * s + 1.345062554e-01f;
    p = p * s + 1.0f;
    vf q = s * 8.598835848e-07f + 3.423660237e-04f;
    q = q * s + 2.619226091e-02f;
    q = q * s + 4.678395391e-01f;
    q = q * s + 1.0f;
    return choose(vfabs(x) > one, with_sign(splat(1), x), c * p / q);
}

INLINE vf verf(vf x)
{
    vf a = vfabs(x), s = x * x;
    vf p = s * -5.953869550e-04f + 4.985971376e-03f;
    p = p * s + -2.676174603e-02f;
    p = p * s + 1.128168330e-01f;
    p = p * s + -3.761247993e-01f;
    p = p * s + 1.283791512e-01f;
    vf small = p * x + x;
    vf c = choose(a > 4.0f, splat(4.0f), a); /* erf(4) rounds to 1 */
    vf q = c * 1.043291650e-05f + -3.148562391e-04f;
    q = q * c + 3.610334825e-03f;
    q = q * c + -2.369455248e-02f;
    q = q * c + 1.061590314e-01f;
    q = q * c + 6.351980567e-01f;
    q = q * c + 1.286370754e-01f;
    /* NaN before the sign: of a choice between x and what has its sign clang 18 and later make a masked instruction for
     * AVX-512 that takes its operands in the wrong order (llvm/llvm-project issue 157929). */
    vf large = with_sign(choose(x != x, x, 1.0f - vexp_within(-(q * c + c))), x);
    return choose(a < 0.92f, small, large);
}

/* x less its part below zero, in less than half of the time that erf takes: relu(x) - |x| Q(|x|), where Q, the normal
 * distribution's upper tail, is a polynomial, and less than half a unit of what it is taken from beyond its end. */
INLINE vf vgelu(vf x)
{
    const float end = 5.3f;
    vf a = vfabs(x), u = a * (2 / end) - 1.0f;
    vf q = u * -4.290001585e-03f + 5.957818709e-03f;
    q = q * u + 1.978729076e-02f;
    q = q * u + -3.941573870e-02f;
    q = q * u + -2.201729897e-02f;
    q = q * u + 1.059203222e-01f;
    q = q * u + -5.953633297e-02f;
    q = q * u + -1.084321582e-01f;
    q = q * u + 2.024972161e-01f;
    q = q * u + -8.983686067e-02f;
    q = q * u + -1.323794987e-01f;
    q = q * u + 2.609420626e-01f;
    q = q * u + -2.224934744e-01f;
    q = q * u + 1.108399260e-01f;
    q = q * u + -3.156782522e-02f;
    q = q * u + 4.024599192e-03f;
    vf positive = choose(x < 0.0f, x * 0.0f, x); /* NaN stays, and -inf becomes it, as by the formula */
    return choose(a > end, positive, positive - a * q);
}

/* 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)) has the logarithm e ln2 + log(1 + f). */
INLINE vf vlog(vf x)
{
    vi tiny = x < 1.17549435e-38f;
    vf scaled = choose(tiny, x * 33554432.0f, x); /* 2^25: no subnormal is left */
    scaled = choose(x > 0.0f, scaled, splat(1));  /* whose bits are in range below */
    vi e = ((vi)scaled - 0x3f3504f3) >> 23;       /* the bits of sqrt(1/2) */
    vf f = (vf)((vi)scaled - (e << 23)) - 1.0f;
    vf n = __builtin_convertvector(e - (tiny & 25), vf);
    vf p = f * -7.634493025e-02f + 1.276157564e-01f;
    p = p * f + -1.316018306e-01f;
    p = p * f + 1.420175823e-01f;
    p = p * f + -1.662335730e-01f;
    p = p * f + 2.000122687e-01f;
    p = p * f + -2.500082104e-01f;
    p = p * f + 3.333333171e-01f;
    vf s = f * f;
    vf y = n * 0.693359375f + (f + (p * f * s - 0.5f * s + n * -2.12194440e-4f));
    y = choose(x == 0.0f, splat(-INFINITY), y);
    return choose((x >= 0.0f) & (x < INFINITY), y, choose(x < 0.0f, splat(NAN), x));
}

/* log(1 + t) for t in [0, 1]: what the sum loses is put back to first order. */
INLINE vf vlog1p(vf t)
{
    vf u = t + 1.0f;
    return vlog(u) + (t - (u - 1.0f)) / u;
}

/* e^x - 1 for x <= 0 */
INLINE vf vexpm1(vf x)
{
    vf p = x * 1.125922591e-03f + 8.193295319e-03f;
    p = p * x + 4.163204843e-02f;
    p = p * x + 1.666628876e-01f;
    p = p * x + 4.999998647e-01f;
    return choose(x > -0.5f, p * (x * x) + x, vexp(x) - 1.0f);
}

/* The sine or, a quarter of a turn on, the cosine: of x - n pi/2 in [-pi/4, pi/4] one or the other, by n. pi/2 is three
 * numbers of which n times the first two is exact; beyond MOST, the C library's. */
INLINE vf vturn(vf x, const int quarter)
{
    const float magic = 12582912.0f, MOST = 8192.0f; /* magic: as in vexp */
    vf t = x * 6.366197724e-01f + magic, n = t - magic;
    vi whole = (vi)((vu)t - 0x4b400000u) + quarter;
    vf r = x - n * 1.5703125f;
    r = r - n * 4.839897156e-04f;
    r = r - n * -1.629206850e-07f;
    vf z = r * r;
    vf s = z * -1.951202867e-04f + 8.332137018e-03f;
    s = (s * z + -1.666665375e-01f) * (z * r) + r;
    vf c = z * 2.442943878e-05f + -1.388728386e-03f;
    c = (c * z + 4.166664556e-02f) * (z * z) + (1.0f - 0.5f * z);
    vf y = choose((whole & 1) != 0, c, s);
    y = (vf)((vi)y ^ (vi)((vu)(whole & 2) << 30));
    vi far = ~((x <= MOST) & (x >= -MOST));
    for (int i = 0; vany(far) && i < W; i++)
        if (far[i]) y[i] = quarter ? cosf(x[i]) : sinf(x[i]);
    return quarter ? y : choose(x == 0.0f, x, y); /* -0 stays, of which r has lost the sign */
}
INLINE vf vsin(vf x) { return vturn(x, 0); }
INLINE vf vcos(vf x) { return vturn(x, 1); }

INLINE vf vrelu(vf x) { return (vf)((vi)x & ~(x < 0.0f)); } /* NaN stays */
INLINE vf vsigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }
INLINE vf vat_most(vf x, float limit) { return choose(x > limit, splat(limit), x); }
INLINE vf vleaky_relu(vf x, float alpha) { return choose(x < 0.0f, x * alpha, x); }
INLINE vf vsoftplus(vf x) { return vrelu(x) + vlog1p(vexp(-vfabs(x))); }
INLINE vf velu(vf x, float alpha, float gamma) { return gamma * choose(x >= 0.0f, x, alpha * vexpm1(x)); }
INLINE vf vsign(vf x) { return choose(x == 0.0f, splat(0), choose(x == x, with_sign(splat(1), x), x)); }
INLINE vf vbool(vi mask) { return (vf)(mask & (vi)splat(1)); }

#endif
