/* random.h - the same numbers on every machine. */
#ifndef HYP_ONNX_RANDOM_H
#define HYP_ONNX_RANDOM_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014) as a function of the counter, so that element i does not depend on the elements
 * before it. */
static inline uint64_t hyp_random_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
