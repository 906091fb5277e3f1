/* numbering.h - keys of three numbers, numbered 0, 1, 2, ... in order of first sight. */
#ifndef HYP_EGRAPH_PROVE_NUMBERING_H
#define HYP_EGRAPH_PROVE_NUMBERING_H

#include "egraph/core/state.h"

typedef struct hyp_number_key {
    uint64_t x;
    uint32_t a, b;
} hyp_number_key;
typedef struct hyp_numbering {
    HYP_VEC(hyp_number_key) keys;
    uint32_t *slots; /* number + 1, 0 = empty */
    size_t slot_count;
} hyp_numbering;

HYP_NODISCARD hyp_status hyp_number(hyp_numbering *n, uint64_t x, uint32_t a, uint32_t b, uint32_t *out,
                                    hyp_diag *diag);
void hyp_numbering_dispose(hyp_numbering *n);

#endif
