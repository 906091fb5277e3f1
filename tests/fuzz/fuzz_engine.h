/* fuzz_engine.h - the fuzz target's functions, and how far its plans came since the start of the process. */
#ifndef HYP_TESTS_FUZZ_ENGINE_H
#define HYP_TESTS_FUZZ_ENGINE_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

extern uint64_t fuzz_opened;             /* plans that loaded */
extern uint64_t fuzz_prepared, fuzz_ran; /* sets of shapes */
extern uint64_t fuzz_rounded;            /* of those that ran: with sizes rounded up */
extern uint64_t fuzz_updated;            /* plans whose weights were replaced */
extern uint64_t fuzz_tuned;              /* plans that were tuned */

#endif
