/* constant_chain.h - constants that are only converted, scaled and transposed, as most weights are: computed in blocks,
 * without tensors of doubles in between. Part of ir/constants.h.
 */
#ifndef HYP_IR_CONSTANT_CHAIN_H
#define HYP_IR_CONSTANT_CHAIN_H

#include "ir/ir.h"

enum { HYP_CHAIN_STEPS = 8 };

typedef struct hyp_chain {
    hyp_value_id from;
    bool swaps; /* rows and columns */
    uint32_t count;
    struct {
        hyp_dtype to;
        double factor;        /* 1: none */
    } steps[HYP_CHAIN_STEPS]; /* the first one first */
} hyp_chain;

/* What v is of another value, by operators whose results nothing else reads and that are not known yet: uses[v] is how
 * often a value is read, known[v] != NULL says that it was computed. False where it is none. */
bool hyp_chain_find(const hyp_graph *g, const uint32_t *uses, void *const *known, hyp_value_id v, hyp_chain *out);
/* v from the bytes of chain->from. */
void hyp_chain_run(const hyp_graph *g, const hyp_chain *chain, hyp_value_id v, const void *from, void *out);

#endif
