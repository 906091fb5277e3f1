/* record.h - the proof forest and the record of rule applications; both only with options.explain.
 *
 * Every union adds one edge between two e-nodes. The path between two e-nodes of one class, once there,
 * never changes, so whatever an edge needs for its own proof is older than the edge, and a proof ends.
 * Nieuwenhuis and Oliveras, "Proof-producing congruence closure" (RTA 2005). */
#ifndef HYP_EGRAPH_CORE_RECORD_H
#define HYP_EGRAPH_CORE_RECORD_H

#include "egraph/core/state.h"

/* `why` of an edge is the offset of its record in proofs.apps; so the order of offsets is that of time. A union by
 * congruence asks for HYP_WHY_CONGRUENCE, and gets a record of its own, one word: HYP_APP_CONGRUENT. */
#define HYP_WHY_CONGRUENCE 0x7ffffffeu
#define HYP_WHY_LIMIT 0x7ffffff0u
#define HYP_APP_CONGRUENT 0xfffffffeu

/* An application in proofs.apps: its index in proofs.kinds, then a row per e-node of the left side in pre-order, then by
 * index of the right side an id per e-node and function call, and a hyp_answer per call of a condition (HYP_NONE: not
 * asked). A union by the caller is HYP_NONE and the symbol of its reason. */
enum { HYP_APP_KIND, HYP_APP_ROWS, HYP_APP_REASON = 1, HYP_APP_REASON_SIZE };

static inline const hyp_app_kind *hyp_app_kind_of(const hyp_egraph *eg, const uint32_t *record)
{
    return &eg->proofs.kinds.data[record[HYP_APP_KIND]];
}

/* Sees to it that *known is 1 more than the index of a kind, which it stays from then on; 0: it has none so far. */
HYP_NODISCARD hyp_status hyp_proof_kind(hyp_egraph *eg, const hyp_app_kind *kind, uint32_t *known, hyp_diag *diag);

/* Joins the trees of a and b, which differ. In the proof, `why` turns a into b from left to right. */
void hyp_proof_edge(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why);
/* Room for `words` more in proofs.apps. */
HYP_NODISCARD hyp_status hyp_proof_reserve(hyp_egraph *eg, size_t words, hyp_diag *diag);

/* The children that an e-node was given, as e-nodes. */
static inline const uint32_t *hyp_given(const hyp_egraph *eg, uint32_t row, uint32_t *out_count)
{
    const uint32_t *kid = eg->proofs.kid + 2 * (size_t)row;
    uint32_t n = *out_count = eg->ops.data[hyp_row_op(eg, row)].arity;
    return n <= 2 ? kid : eg->proofs.pool + kid[0];
}

#endif
