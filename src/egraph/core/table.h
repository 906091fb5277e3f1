/* table.h - the hash-cons: open addressing with linear probing over slots of 8 bytes.
 *
 * The tag is the whole 32-bit hash, so a false probe seldom touches a row. It is also where the slot is at home, as a
 * fraction of the table: slots are in order of their tags, but for those that others pushed on, in tables of every size,
 * and one grows by being read and written once from end to end. Nothing is taken out: when the children of a row change
 * it gets another slot, and the old one is stale. It can do no harm, because a key that was left holds a class that is not
 * canonical any more and is never asked for again, and a probe compares the row itself. Stale slots go when the table is
 * made anew. */
#ifndef HYP_EGRAPH_CORE_TABLE_H
#define HYP_EGRAPH_CORE_TABLE_H

#include "egraph/core/state.h"

static inline size_t hyp_table_home(const hyp_egraph *eg, uint32_t hash) { return (uint64_t)hash * eg->slot_count >> 32; }
static inline size_t hyp_table_next(const hyp_egraph *eg, size_t i) { return ++i < eg->slot_count ? i : 0; }
/* The row in a slot, HYP_NONE where it is empty. */
static inline uint32_t hyp_table_row(const hyp_egraph *eg, size_t slot) { return ~eg->slots[slot].not_row; }

static inline uint32_t hyp_table_hash(uint32_t op, const uint32_t *kids, uint32_t n)
{
    uint64_t h = op * UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ kids[i]) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

static inline uint32_t hyp_table_hash_row(hyp_egraph *eg, uint32_t row)
{
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    return hyp_table_hash(hyp_row_op(eg, row), kids, n);
}

static inline bool hyp_table_matches(const hyp_egraph *eg, uint32_t row, uint32_t op, const uint32_t *kids, uint32_t n)
{
    const hyp_row *r = &eg->rows[row];
    if (r->op != op) return false;
    const uint32_t *have = n <= 2 ? r->kid : eg->pool + r->kid[0];
    for (uint32_t j = 0; j < n; j++)
        if (have[j] != kids[j]) return false;
    return true;
}

/* The slot of the row with this key that is not `self`, or the empty slot where it would go. */
static inline size_t hyp_table_probe_other(const hyp_egraph *eg, uint32_t hash, uint32_t op, const uint32_t *kids,
                                           uint32_t n, uint32_t self)
{
    for (size_t i = hyp_table_home(eg, hash);; i = hyp_table_next(eg, i)) {
        hyp_slot s = eg->slots[i];
        if (!s.not_row) return i;
        if (s.tag == hash && ~s.not_row != self && hyp_table_matches(eg, ~s.not_row, op, kids, n)) return i;
    }
}

/* The slot of the row with this key, or the empty slot where it would go. */
static inline size_t hyp_table_probe(const hyp_egraph *eg, uint32_t hash, uint32_t op, const uint32_t *kids, uint32_t n)
{
    return hyp_table_probe_other(eg, hash, op, kids, n, HYP_NONE);
}

/* The same for at most two children, with HYP_NONE for those that are not there; probes from slot i on. */
static inline size_t hyp_table_probe_from(const hyp_egraph *eg, size_t i, uint32_t hash, uint32_t op,
                                          const uint32_t kid[2])
{
    for (;; i = hyp_table_next(eg, i)) {
        hyp_slot s = eg->slots[i];
        if (!s.not_row) return i;
        if (s.tag != hash) continue;
        const hyp_row *row = &eg->rows[~s.not_row];
        if (row->op == op && row->kid[0] == kid[0] && row->kid[1] == kid[1]) return i;
    }
}

#endif
