/* random_kernel.h - random numbers by their places, many blocks of a generator at a time: included by the vector_kernels_*.c. */
#include "base/philox.h"

/* y[4 blocks] = the blocks from `first` on. A word of many counters lies together, so that loops over them become vectors. */
static void random_blocks(uint64_t seed, uint64_t number, uint32_t stream, uint32_t first, int64_t blocks, float *y)
{
    enum { TOGETHER = 32 };
    uint32_t c[HYP_PHILOX_WORDS][TOGETHER];
    int64_t done = 0;
    for (; done + TOGETHER <= blocks; done += TOGETHER) {
        for (int i = 0; i < TOGETHER; i++) {
            c[0][i] = first + (uint32_t)(done + i);
            c[1][i] = stream;
            c[2][i] = (uint32_t)number;
            c[3][i] = (uint32_t)(number >> 32);
        }
        for (int round = 0; round < HYP_PHILOX_ROUNDS; round++) {
            uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
            hyp_philox_key(round, &key0, &key1);
            for (int i = 0; i < TOGETHER; i++) {
                uint32_t word[HYP_PHILOX_WORDS] = {c[0][i], c[1][i], c[2][i], c[3][i]};
                hyp_philox_round(word, key0, key1);
                for (int k = 0; k < HYP_PHILOX_WORDS; k++) c[k][i] = word[k];
            }
        }
        for (int i = 0; i < TOGETHER; i++)
            for (int k = 0; k < HYP_PHILOX_WORDS; k++) y[HYP_PHILOX_WORDS * (done + i) + k] = hyp_random_of(c[k][i]);
    }
    for (; done < blocks; done++)
        hyp_random_block(seed, number, stream, first + (uint32_t)done, y + HYP_PHILOX_WORDS * done);
}
