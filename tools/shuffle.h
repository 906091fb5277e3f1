/* shuffle.h - the order in which an epoch goes through the rows of its data: it follows from a seed and the number of the
 * epoch alone, so that a run that is resumed needs these two numbers and a position.
 */
#ifndef HYPATIA_TOOLS_SHUFFLE_H
#define HYPATIA_TOOLS_SHUFFLE_H

#include <stdint.h>

/* Number i of the stream of a key, for any i at once: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
 * Generators, OOPSLA 2014), mix(key + (i + 1) * 0x9e3779b97f4a7c15) modulo 2^64. */
uint64_t shuffle_number(uint64_t key, uint64_t i);

/* Fills order[0..count) with 0, 1, ... in the order of this epoch: Fisher and Yates from the end. With the key
 * shuffle_number(seed, epoch), i from count - 1 down to 1 is swapped with floor(shuffle_number(key, i) * (i + 1) / 2^64). */
void shuffle_rows(uint64_t *order, uint64_t count, uint64_t seed, uint64_t epoch);

#endif
