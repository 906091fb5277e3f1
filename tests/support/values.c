#include "support/values.h"

#include <math.h>

typedef struct range {
    int lowest, highest; /* exponents of the smallest subnormal and of the largest power of two */
    int room;            /* 2^-room .. 2^room */
    double stamp;        /* what large neighbours are near to */
} range;

static range range_of(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F16: return (range){-24, 15, 14, 1000};
    case HYP_BF16: return (range){-133, 127, 30, 1000};
    case HYP_F64: return (range){-1074, 1023, 300, 1e9};
    default: return (range){-149, 127, 30, 1e9};
    }
}

/* Uniform in [0, n); takes the bits that it uses. */
static uint32_t take(uint64_t *bits, uint32_t n)
{
    uint64_t x = *bits = *bits * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((x >> 33) % n);
}

static double ordinary(uint64_t *bits)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += (double)take(bits, 1 << 24) * 0x1p-24;
    return (sum - 2) * 1.5;
}

static double special(range r, hyp_mood mood, uint64_t *bits)
{
    double largest = ldexp(1.9999999, r.highest), sign = take(bits, 2) ? 1 : -1;
    const double list[] = {0.0, 0.0, 1.0, largest, ldexp(1, r.lowest), INFINITY, INFINITY, NAN, NAN};
    uint32_t count = sizeof list / sizeof *list;
    return sign * list[take(bits, mood == HYP_MOOD_NAN ? count : count - 2)];
}

static double real(hyp_dtype dtype, hyp_mood mood, uint64_t *bits)
{
    range r = range_of(dtype);
    double sign = take(bits, 2) ? 1 : -1, fraction = 1 + (double)take(bits, 1 << 28) * 0x1p-28;
    uint32_t span = (uint32_t)(r.highest - r.lowest);
    switch (mood) {
    case HYP_MOOD_TIES: {
        double n = take(bits, 33);
        return sign * n * (take(bits, 4) == 0 ? 0.1 : ldexp(1, -(int)take(bits, 5)));
    }
    case HYP_MOOD_POWERS: return sign * ldexp(1, r.lowest + (int)take(bits, span + 1));
    case HYP_MOOD_ROOM: return sign * ldexp(fraction, (int)take(bits, 2 * (uint32_t)r.room) - r.room);
    case HYP_MOOD_WIDE: return sign * ldexp(fraction, r.lowest + (int)take(bits, span));
    case HYP_MOOD_LARGE: return sign * ldexp(fraction, r.highest - (int)take(bits, 8));
    case HYP_MOOD_TINY: return sign * ldexp(fraction, r.lowest + (int)take(bits, 14));
    case HYP_MOOD_STAMPS: return r.stamp + r.stamp * 0.01 * ordinary(bits);
    case HYP_MOOD_INTEGERS: return sign * take(bits, take(bits, 3) ? 257 : 65536);
    case HYP_MOOD_INFINITE:
    case HYP_MOOD_NAN: return take(bits, 4) ? ordinary(bits) : special(r, mood, bits);
    default: return ordinary(bits);
    }
}

static double integer(hyp_mood mood, uint64_t *bits)
{
    double sign = take(bits, 2) ? 1 : -1;
    switch (mood) {
    case HYP_MOOD_ORDINARY: return (double)take(bits, 11) - 2;
    case HYP_MOOD_POWERS: return sign * ldexp(1, (int)take(bits, 63));
    case HYP_MOOD_TIES:
    case HYP_MOOD_INTEGERS: return sign * take(bits, 65536);
    case HYP_MOOD_STAMPS: return 1.7e9 + take(bits, 1000);
    default: return sign * ldexp(1 + (double)take(bits, 1 << 28) * 0x1p-28, (int)take(bits, 62));
    }
}

double hyp_test_value(hyp_dtype dtype, hyp_mood mood, uint64_t bits)
{
    uint64_t element = 0;
    if (dtype == HYP_BOOL) return take(&bits, 2);
    bool is_float = hyp_dtype_is_float(dtype);
    double v = is_float ? real(dtype, mood, &bits) : integer(mood, &bits);
    if (is_float)
        hyp_store_f64(dtype, &element, 0, v);
    else
        hyp_store_i64(dtype, &element, 0, (int64_t)v);
    v = hyp_load_f64(dtype, &element, 0);
    /* rounding up may leave the range, which only the last two moods are to do */
    return is_float && isinf(v) && mood < HYP_MOOD_INFINITE ? copysign(1, v) : v;
}

hyp_mood hyp_test_mood(hyp_mood count, uint64_t bits)
{
    uint32_t i = take(&bits, (uint32_t)count + 3);
    return i < (uint32_t)count ? (hyp_mood)i : HYP_MOOD_ORDINARY;
}
