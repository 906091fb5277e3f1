/* fuzz_egraph.h - the fuzz target of e-graphs, as libFuzzer calls it. */
#ifndef TESTS_FUZZ_FUZZ_EGRAPH_H
#define TESTS_FUZZ_FUZZ_EGRAPH_H

#include <stddef.h>
#include <stdint.h>

/* What was done so far: calls, those that callbacks made, those that were refused, and how often ids were made anew. */
typedef struct fuzz_told {
    uint64_t calls, inside, refused, renumbered;
} fuzz_told;
extern fuzz_told told;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
