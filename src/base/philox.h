/* philox.h - random numbers that are a function of a key and a counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw:
 * Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011). Any of them at once, in any order, the same bits everywhere.
 *
 * What random-uniform makes of it is here, too: the interpreter, the host backends and the CUDA kernels share this
 * file. Who compiles for a device defines HYP_PHILOX_FN as what its functions begin with. No state: any thread.
 */
#ifndef HYP_BASE_PHILOX_H
#define HYP_BASE_PHILOX_H

#include <stdint.h>

#ifndef HYP_PHILOX_FN
#define HYP_PHILOX_FN static inline
#endif

enum { HYP_PHILOX_WORDS = 4, HYP_PHILOX_ROUNDS = 10 };

/* One round over the words of a counter, in place, by the two words of its key. */
HYP_PHILOX_FN void hyp_philox_round(uint32_t word[4], uint32_t key0, uint32_t key1)
{
    uint64_t a = (uint64_t)0xD2511F53u * word[0], b = (uint64_t)0xCD9E8D57u * word[2];
    word[0] = (uint32_t)(b >> 32) ^ word[1] ^ key0;
    word[1] = (uint32_t)b;
    word[2] = (uint32_t)(a >> 32) ^ word[3] ^ key1;
    word[3] = (uint32_t)a;
}

/* The key of a round from that of the first one. */
HYP_PHILOX_FN void hyp_philox_key(int round, uint32_t *key0, uint32_t *key1)
{
    *key0 += (uint32_t)round * 0x9E3779B9u;
    *key1 += (uint32_t)round * 0xBB67AE85u;
}

/* Ten rounds over the words of a counter, in place, by the two words of a key. */
HYP_PHILOX_FN void hyp_philox(uint32_t word[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < HYP_PHILOX_ROUNDS; round++) {
        uint32_t k0 = key0, k1 = key1;
        hyp_philox_key(round, &k0, &k1);
        hyp_philox_round(word, k0, k1);
    }
}

/* A number from 0 to below 1 of a word. */
HYP_PHILOX_FN float hyp_random_of(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }

/* Elements 4 block .. 4 block + 3 of the tensor of a random-uniform: multiples of 2^-24 from 0 to below 1. */
HYP_PHILOX_FN void hyp_random_block(uint64_t seed, uint64_t number, uint32_t stream, uint32_t block, float out[4])
{
    uint32_t word[4];
    word[0] = block;
    word[1] = stream;
    word[2] = (uint32_t)number;
    word[3] = (uint32_t)(number >> 32);
    hyp_philox(word, (uint32_t)seed, (uint32_t)(seed >> 32));
    for (int i = 0; i < HYP_PHILOX_WORDS; i++) out[i] = hyp_random_of(word[i]);
}

#endif
