/* record.h - the proof forest and the record of rule applications; both only with options.explain.
 *
 * Every union adds one edge between two e-nodes. The path between two e-nodes of one class, once there,
 * never changes, so whatever an edge needs for its own proof is older than the edge, and a proof ends.
 * Nieuwenhuis and Oliveras, "Proof-producing congruence closure" (RTA 2005).
 *
 * Records are rows of numbers in proofs.apps, of as many bytes as they need, 7 bits in each, the lowest first. A number
 * that is an id stands there one higher, HYP_NONE as 0. A record begins with what it is:
 *
 *   HYP_APP_STATED      a union by the caller: the symbol of its reason
 *   HYP_APP_CONGRUENT   a union by congruence: nothing
 *   HYP_APP_RULE + k    an application of proofs.kinds[k]: a row per e-node of the left side in pre-order, then by index of
 *                       the right side an id per e-node and function call, and a hyp_answer per call of a condition
 *                       (HYP_NONE: not asked)
 *
 * A record has an even number of bytes, and its place is counted in pairs of them; the order of places is that of time. */
#ifndef HYP_EGRAPH_CORE_RECORD_H
#define HYP_EGRAPH_CORE_RECORD_H

#include "egraph/core/state.h"

/* `why` of an edge is the place of its record. A union by congruence asks for HYP_WHY_CONGRUENCE, and gets a record of its
 * own. */
#define HYP_WHY_CONGRUENCE 0x7ffffffeu
#define HYP_WHY_LIMIT 0x7ffffff0u
enum { HYP_APP_STATED, HYP_APP_CONGRUENT, HYP_APP_RULE };
enum { HYP_APP_NUMBER = 5 }; /* bytes of a number at most */

static inline uint8_t *hyp_app_put(uint8_t *to, uint32_t number)
{
    for (; number >= 0x80; number >>= 7) *to++ = (uint8_t)(number | 0x80);
    *to++ = (uint8_t)number;
    return to;
}
static inline const uint8_t *hyp_app_get(const uint8_t *from, uint32_t *out)
{
    uint32_t number = *from & 0x7f;
    for (unsigned shift = 7; *from++ & 0x80; shift += 7) number |= (uint32_t)(*from & 0x7f) << shift;
    *out = number;
    return from;
}

/* Where the next record begins, and its bytes; there is room for it. */
static inline uint32_t hyp_app_place(const hyp_egraph *eg) { return (uint32_t)(eg->proofs.apps.len / 2); }
static inline uint8_t *hyp_app_begin(hyp_egraph *eg) { return eg->proofs.apps.data + eg->proofs.apps.len; }
static inline void hyp_app_end(hyp_egraph *eg, uint8_t *end)
{
    size_t len = (size_t)(end - eg->proofs.apps.data);
    if (len % 2) *end = 0;
    eg->proofs.apps.len = len + len % 2;
}

/* Reads what a record is; what follows is read from *out_rest on. */
static inline uint32_t hyp_app_head(const hyp_egraph *eg, uint32_t place, const uint8_t **out_rest)
{
    uint32_t head;
    *out_rest = hyp_app_get(eg->proofs.apps.data + 2 * (size_t)place, &head);
    return head;
}
static inline const hyp_app_kind *hyp_app_kind_of(const hyp_egraph *eg, uint32_t head)
{
    return &eg->proofs.kinds.data[head - HYP_APP_RULE];
}
/* Reads `count` ids. */
static inline const uint8_t *hyp_app_ids(const uint8_t *from, uint32_t count, uint32_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        from = hyp_app_get(from, &out[i]);
        out[i]--;
    }
    return from;
}
/* The place behind a record that has been read to its end. */
static inline uint32_t hyp_app_after(const hyp_egraph *eg, const uint8_t *end)
{
    return (uint32_t)(((size_t)(end - eg->proofs.apps.data) + 1) / 2);
}

/* Sees to it that *known is 1 more than the index of a kind, which it stays from then on; 0: it has none so far. */
HYP_NODISCARD hyp_status hyp_proof_kind(hyp_egraph *eg, const hyp_app_kind *kind, uint32_t *known, hyp_diag *diag);

/* Joins the trees of a and b, which differ. In the proof, `why` turns a into b from left to right. */
void hyp_proof_edge(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why);
/* Room for `numbers` more in proofs.apps, in `records` records. */
HYP_NODISCARD hyp_status hyp_proof_reserve(hyp_egraph *eg, size_t numbers, size_t records, hyp_diag *diag);
/* Notes, with room for it, that rows from now on are made by applications whose records come from now on. */
void hyp_proof_milestone(hyp_egraph *eg);

/* Keeps the children that a row of at most two was given, before others stand in it; there is room for it. */
static inline void hyp_proof_keep_given(hyp_egraph *eg, uint32_t row, const uint32_t kid[2])
{
    hyp_proofs *p = &eg->proofs;
    uint64_t bit = UINT64_C(1) << (row & 63);
    if (p->is_changed[row >> 6] & bit) return;
    p->is_changed[row >> 6] |= bit;
    p->given.data[p->given.len++] = (hyp_given_kids){row, {kid[0], kid[1]}};
}
/* Notes what proofs must know of a new row of n <= 2 children; there is room for it. */
static inline void hyp_proof_new_row(hyp_egraph *eg, uint32_t row, uint32_t n, const uint32_t kid[2], const uint32_t *given)
{
    hyp_proofs *p = &eg->proofs;
    uint64_t bit = UINT64_C(1) << (row & 63);
    p->parent[row] = p->why[row] = HYP_NONE;
    if (p->is_made[row >> 6] & bit) p->is_made[row >> 6] &= ~bit; /* until the application that makes it is recorded */
    if ((n > 0 && kid[0] != given[0]) || (n > 1 && kid[1] != given[1]))
        hyp_proof_keep_given(eg, row, (uint32_t[2]){given[0], n > 1 ? given[1] : HYP_NONE});
}
/* Forgets what is kept of rows that are gone: of the last one, which was not made after all; of all after a pop. What is
 * kept of other rows stays true. */
void hyp_proof_take_back(hyp_egraph *eg, uint32_t row);
void hyp_proof_forget_rows(hyp_egraph *eg);
/* Makes ready for hyp_given, until the e-graph changes. */
void hyp_proof_sort_given(hyp_egraph *eg);
const uint32_t *hyp_proof_given(const hyp_egraph *eg, uint32_t row);

/* The children that an e-node was given, as e-nodes. */
static inline const uint32_t *hyp_given(const hyp_egraph *eg, uint32_t row, uint32_t *out_count)
{
    const hyp_row *r = &eg->rows[row];
    uint32_t n = *out_count = eg->ops.data[r->op & ~HYP_ROW_DEAD].arity;
    if (n > 2) return eg->proofs.pool + r->kid[0];
    return eg->proofs.is_changed[row >> 6] >> (row & 63) & 1 ? hyp_proof_given(eg, row) : r->kid;
}

#endif
