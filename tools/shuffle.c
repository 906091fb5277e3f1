#include "shuffle.h"

uint64_t shuffle_number(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* floor(a * b / 2^64), by halves. */
static uint64_t high_product(uint64_t a, uint64_t b)
{
    uint64_t a_low = a & 0xffffffffu, a_high = a >> 32, b_low = b & 0xffffffffu, b_high = b >> 32;
    uint64_t middle = a_high * b_low + (a_low * b_low >> 32), other = a_low * b_high + (middle & 0xffffffffu);
    return a_high * b_high + (middle >> 32) + (other >> 32);
}

void shuffle_rows(uint64_t *order, uint64_t count, uint64_t seed, uint64_t epoch)
{
    uint64_t key = shuffle_number(seed, epoch);
    for (uint64_t i = 0; i < count; i++) order[i] = i;
    for (uint64_t i = count; i-- > 1;) {
        uint64_t other = high_product(shuffle_number(key, i), i + 1), row = order[i];
        order[i] = order[other];
        order[other] = row;
    }
}
