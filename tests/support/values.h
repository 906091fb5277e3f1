/* values.h - numbers that an adversary would try, over the whole range of an element type. */
#ifndef HYP_TESTS_VALUES_H
#define HYP_TESTS_VALUES_H

#include "base/dtype.h"

/* A tensor is drawn in one mood, because one NaN in every sum would hide all else. */
typedef enum hyp_mood {
    HYP_MOOD_ORDINARY, /* about normal, mostly within -2 .. 2; integers within -2 .. 8 */
    HYP_MOOD_TIES,     /* halves and small multiples of sixteenths and of 0.1, 0 of both signs */
    HYP_MOOD_STAMPS,   /* seconds since 1970 (in 16 bits, about 1000): large, and close to each other */
    HYP_MOOD_INTEGERS, /* integers, as floats too: divisors, counts, codes of 8 and 16 bits */
    HYP_MOOD_ROOM,     /* 2^-30 .. 2^30, in f64 2^-300 .. 2^300, in f16 2^-14 .. 2^15: where class R has room */
    HYP_MOOD_POWERS,   /* powers of two over all exponents */
    HYP_MOOD_WIDE,     /* any finite number: exponents are equally likely */
    HYP_MOOD_LARGE,    /* the upper few powers of two */
    HYP_MOOD_TINY,     /* subnormals and what is just above */
    HYP_MOOD_INFINITE, /* one in four is an infinity, a zero of either sign, the largest or the least */
    HYP_MOOD_NAN,      /* the same, with NaN among them */
    HYP_MOOD_COUNT
} hyp_mood;

/* A function of 64 random bits, so that every generator can use it. The number is one of the type. */
double hyp_test_value(hyp_dtype dtype, hyp_mood mood, uint64_t bits);
/* One of the first `count` moods, or ORDINARY, which is the likeliest. */
hyp_mood hyp_test_mood(hyp_mood count, uint64_t bits);

#endif
