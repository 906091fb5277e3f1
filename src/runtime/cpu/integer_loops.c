/* integer_loops.c - the loops of integers.h that the compiler is to make vectors of. */
#include "runtime/cpu/integers.h"

uint32_t hyp_integer_bits_of(const int32_t *x, int64_t n)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < n; i++) bits |= (uint32_t)(x[i] < 0 ? ~x[i] : x[i]);
    return bits;
}

void hyp_integers_widen(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t whole;
        memcpy(&whole, &x[i], sizeof whole);
        x[i] = (float)whole;
    }
}

void hyp_integers_sum(uint32_t *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] += (uint32_t)(int32_t)from[i];
}

void hyp_integers_add_line(uint32_t *to, uint32_t factor, const uint32_t *x, int64_t step, int64_t n)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++) to[i] += factor * x[i];
    else
        for (int64_t i = 0; i < n; i++) to[i] += factor * x[i * step];
}
