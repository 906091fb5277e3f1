/* table.h - the hash-cons: open addressing with linear probing over slots of 8 bytes.
 *
 * The tag is the whole 32-bit hash, so growing and deleting (by shifting back, no tombstones) never
 * touch a row, and a false probe seldom does. The load stays below 1/3. */
#ifndef HYP_EGRAPH_TABLE_H
#define HYP_EGRAPH_TABLE_H

#include "egraph/state.h"

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

/* The slot of the row with this key, or the empty slot where it would go. */
static inline size_t hyp_table_probe(const hyp_egraph *eg, uint32_t hash, uint32_t op, const uint32_t *kids, uint32_t n)
{
    size_t mask = eg->slot_count - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        hyp_slot s = eg->slots[i];
        if (s.row == HYP_NONE) return i;
        if (s.tag != hash) continue;
        const hyp_row *row = &eg->rows[s.row];
        if (row->op != op) continue;
        const uint32_t *have = n <= 2 ? row->kid : eg->pool + row->kid[0];
        uint32_t j = 0;
        while (j < n && have[j] == kids[j]) j++;
        if (j == n) return i;
    }
}

/* Takes a row out; it must be there. */
static inline void hyp_table_remove(hyp_egraph *eg, uint32_t hash, uint32_t row)
{
    size_t mask = eg->slot_count - 1, i = hash & mask;
    while (eg->slots[i].row != row) i = (i + 1) & mask;
    for (size_t j = (i + 1) & mask; eg->slots[j].row != HYP_NONE; j = (j + 1) & mask) {
        size_t home = eg->slots[j].tag & mask;
        if (((j - home) & mask) >= ((j - i) & mask)) { /* its home does not lie between the hole and it */
            eg->slots[i] = eg->slots[j];
            i = j;
        }
    }
    eg->slots[i].row = HYP_NONE;
}

#endif
