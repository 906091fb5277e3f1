/* table.c - the hash-cons is made from the rows: when it is to grow, or to be rid of stale slots. */
#include "egraph/core/table.h"

#include <string.h>

#include "egraph/core/state.h"

static void insert(hyp_egraph *eg, uint32_t hash, uint32_t row)
{
    size_t at = hyp_table_home(eg, hash);
    while (hyp_bucket_full(&eg->buckets[at])) at = hyp_table_next(eg, at);
    hyp_table_put(eg, hyp_table_slot(at, hyp_bucket_find(&eg->buckets[at], 0)), hash, row);
}

/* The hash of a live row as it is stored. */
static inline uint32_t hash_row(hyp_egraph *eg, uint32_t row)
{
    const hyp_row *r = &eg->rows[row];
    if (!eg->pool_len) return hyp_table_hash_few(r->op, r->kid); /* no row has more than two children */
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    return hyp_table_hash(r->op, kids, n);
}

/* First buckets are asked for, then met. */
void hyp_eg_purge_slots(hyp_egraph *eg)
{
    enum { PART = 64 };
    uint32_t hash[PART], rows[PART];
    memset(eg->buckets, 0, eg->bucket_count * sizeof *eg->buckets);
    for (uint32_t row = 0, end; row < eg->row_count; row = end) {
        size_t n = 0;
        end = eg->row_count - row < PART ? (uint32_t)eg->row_count : row + PART;
        for (uint32_t i = row; i < end; i++) {
            if (hyp_row_dead(eg, i)) continue;
            rows[n] = i;
            hash[n] = hash_row(eg, i);
            hyp_table_prefetch(eg, hash[n++]);
        }
        for (size_t i = 0; i < n; i++) insert(eg, hash[i], rows[i]);
    }
    eg->slot_used = eg->live_count;
}

hyp_status hyp_eg_reserve_slots(hyp_egraph *eg, size_t more, hyp_diag *diag)
{
    size_t live = eg->live_count + more, used = eg->slot_used + more, had = eg->bucket_count, count = had ? had : 1;
    if (hyp_slots_do(live, used, had)) return HYP_OK;
    while (!hyp_slots_do(live, live, count)) count *= 2;
    if (count > had) {
        HYP_TRY(hyp_eg_claim(eg, (count - had) * sizeof *eg->buckets, diag));
        hyp_bucket *buckets = hyp_aligned_alloc(sizeof *buckets, count * sizeof *buckets);
        if (!buckets) return hyp_fail_memory(diag, count * sizeof *buckets);
        hyp_aligned_free(eg->buckets);
        hyp_eg_count_bytes(eg, (count - had) * sizeof *eg->buckets);
        eg->buckets = buckets;
        eg->bucket_count = count;
    }
    hyp_eg_purge_slots(eg);
    return HYP_OK;
}
