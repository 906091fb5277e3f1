/* table.h - the hash-cons: buckets of a cache line, with the ids of twelve rows and a byte of the hash of each.
 *
 * A probe reads one bucket, mostly, and of the rows in it those alone whose byte is that of the hash. The rest of the hash
 * says which bucket is a row's home; where that is full it goes to the next one. So the table may be nearly full, and is
 * small, which is what counts: it is met anywhere, and more of it is in the processor's caches. Nothing is taken out: when
 * the children of a row change it gets another place, and the old one is stale. It can do no harm, because a key that was
 * left holds a class that is not canonical any more and is never asked for again, and a probe compares the row itself.
 * Stale places go when the table is made anew from the rows, as it is where it grows. */
#ifndef HYP_EGRAPH_CORE_TABLE_H
#define HYP_EGRAPH_CORE_TABLE_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "egraph/core/state.h"

/* The hash of an operator and its children: at most two, with HYP_NONE for those that are not there. The upper half of a sum
 * of products by constants of 64 bits: multilinear hashing, as good as any where the constants are drawn at random, and none
 * of the products waits for another. */
static inline uint32_t hyp_table_hash_few(uint32_t op, const uint32_t kid[2])
{
    uint64_t h = op * UINT64_C(0x9E3779B97F4A7C15) + kid[0] * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)((h + kid[1] * UINT64_C(0xA0761D6478BD642F)) >> 32);
}
/* The same for any number. */
static inline uint32_t hyp_table_hash(uint32_t op, const uint32_t *kids, uint32_t n)
{
    if (n <= 2) {
        const uint32_t kid[2] = {n > 0 ? kids[0] : HYP_NONE, n > 1 ? kids[1] : HYP_NONE};
        return hyp_table_hash_few(op, kid);
    }
    uint64_t h = op * UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < n; i++) h = (h ^ h >> 32 ^ kids[i]) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

static inline size_t hyp_table_home(const hyp_egraph *eg, uint32_t hash)
{
    return (uint64_t)hash * eg->bucket_count >> 32;
}
static inline size_t hyp_table_next(const hyp_egraph *eg, size_t bucket)
{
    return ++bucket < eg->bucket_count ? bucket : 0;
}
static inline void hyp_table_prefetch(const hyp_egraph *eg, uint32_t hash)
{
    __builtin_prefetch(&eg->buckets[hyp_table_home(eg, hash)], 1);
}

/* The places of a bucket that have this tag, as bits; 0 is the tag of those that are empty, which are the last, and has bits
 * beyond them. */
static inline uint32_t hyp_bucket_find(const hyp_bucket *b, uint8_t tag)
{
#ifdef __SSE2__
    __m128i tags = _mm_load_si128((const __m128i *)b->tag);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi32((int)(tag * 0x01010101u))));
#else
    uint32_t found = 0;
    for (uint32_t i = 0; i < HYP_BUCKET_WIDTH; i++) found |= (uint32_t)(b->tag[i] == tag) << i;
    return found;
#endif
}
static inline bool hyp_bucket_full(const hyp_bucket *b) { return b->tag[HYP_BUCKET_ROWS - 1]; }
static inline uint8_t hyp_table_tag(uint32_t hash)
{
    uint8_t low = (uint8_t)hash;
    return low ? low : 1;
}

/* A place of a row in the table. */
static inline size_t hyp_table_slot(size_t bucket, uint32_t found)
{
    return bucket * HYP_BUCKET_WIDTH + (uint32_t)__builtin_ctz(found);
}
static inline void hyp_table_put(hyp_egraph *eg, size_t slot, uint32_t hash, uint32_t row)
{
    hyp_bucket *b = &eg->buckets[slot / HYP_BUCKET_WIDTH];
    b->tag[slot % HYP_BUCKET_WIDTH] = hyp_table_tag(hash);
    b->row[slot % HYP_BUCKET_WIDTH] = row;
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
/* The same for at most two children, with HYP_NONE for those that are not there. */
static inline bool hyp_table_is(const hyp_egraph *eg, uint32_t row, uint32_t op, const uint32_t kid[2])
{
    const hyp_row *r = &eg->rows[row];
    uint64_t have, want;
    memcpy(&have, r->kid, sizeof have);
    memcpy(&want, kid, sizeof want);
    return (r->op == op) & (have == want);
}

/* The row with this key that is not `self`, HYP_NONE if there is none, and its slot, or the empty slot where it would go. */
static inline uint32_t hyp_table_probe_other(const hyp_egraph *eg, uint32_t hash, uint32_t op, const uint32_t *kids,
                                             uint32_t n, uint32_t self, size_t *out_slot)
{
    uint8_t tag = hyp_table_tag(hash);
    for (size_t i = hyp_table_home(eg, hash);; i = hyp_table_next(eg, i)) {
        const hyp_bucket *b = &eg->buckets[i];
        for (uint32_t found = hyp_bucket_find(b, tag); found; found &= found - 1) {
            *out_slot = hyp_table_slot(i, found);
            uint32_t row = b->row[*out_slot % HYP_BUCKET_WIDTH];
            if (row != self && hyp_table_matches(eg, row, op, kids, n)) return row;
        }
        if (hyp_bucket_full(b)) continue;
        *out_slot = hyp_table_slot(i, hyp_bucket_find(b, 0));
        return HYP_NONE;
    }
}
static inline uint32_t hyp_table_probe(const hyp_egraph *eg, uint32_t hash, uint32_t op, const uint32_t *kids, uint32_t n,
                                       size_t *out_slot)
{
    return hyp_table_probe_other(eg, hash, op, kids, n, HYP_NONE, out_slot);
}

/* The row that has this hash, most probably, if one has it; if none has, any row, often the first. */
static inline uint32_t hyp_table_guess(const hyp_egraph *eg, uint32_t hash)
{
    const hyp_bucket *b = &eg->buckets[hyp_table_home(eg, hash)];
    uint32_t found = hyp_bucket_find(b, hyp_table_tag(hash));
    return b->row[__builtin_ctz(found | 1u << (HYP_BUCKET_ROWS - 1))]; /* nothing to branch on */
}

/* Puts a row into the arrays and the table; nobody else is told of it. */
static inline uint32_t hyp_eg_put_row(hyp_egraph *eg, uint32_t op, const uint32_t kid[2], uint32_t into, uint32_t hash,
                                      size_t slot)
{
    uint32_t id = (uint32_t)eg->row_count++, home = into == HYP_NONE ? id : into;
    eg->parent[id] = home;
    eg->rows[id] = (hyp_row){.op = op, .kid = {kid[0], kid[1]}, .home = home};
    hyp_table_put(eg, slot, hash, id);
    eg->slot_used++;
    eg->live_count++;
    eg->class_count += home == id;
    eg->ops.data[op].live++;
    eg->version++;
    return id;
}

#endif
