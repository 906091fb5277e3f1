/* memory.c - the growth of an e-graph's arrays, counted and held against the limit of a run. */
#include "egraph/core/state.h"

/* Held back for each row: entries in the log and among the unions that are pending, with an analysis its place in the
 * index, and for proofs the record of its congruence and what it was given; and what a pop puts back. */
bool hyp_eg_affordable(const hyp_egraph *eg, size_t more)
{
    enum { FOR_LOGS = 4 * sizeof(uint32_t), FOR_INDEX = 24 * sizeof(uint32_t), FOR_PROOFS = 6 * sizeof(uint32_t) };
    size_t each = FOR_LOGS + (hyp_eg_analysed(eg) ? FOR_INDEX : 0) + (eg->explain ? FOR_PROOFS : 0);
    size_t held_back = each * eg->row_count, kept = eg->undo.rows.cap;
    if (eg->frozen > kept) held_back += (eg->frozen - kept) * sizeof(hyp_kept_row);
    return !eg->max_bytes || eg->rebuilding || eg->bytes + more + held_back <= eg->max_bytes;
}

hyp_status hyp_eg_claim(hyp_egraph *eg, size_t more, hyp_diag *diag)
{
    if (hyp_eg_affordable(eg, more)) return HYP_OK;
    eg->limit_hit = HYP_STOP_MEMORY;
    return hyp_fail(diag, HYP_ERR_LIMIT, "the e-graph has %zu bytes and its limit is %zu", eg->bytes, eg->max_bytes);
}

void hyp_eg_count_bytes(hyp_egraph *eg, size_t more)
{
    eg->bytes += more;
    if (eg->bytes > eg->peak_bytes) eg->peak_bytes = eg->bytes;
}

hyp_status hyp_eg_resize(hyp_egraph *eg, void *array, size_t count, size_t next, size_t elem, hyp_diag *diag)
{
    size_t bytes;
    if (!hyp_mul_size(next, elem, &bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    void *grown = hyp_large_realloc(*(void **)array, count * elem, bytes);
    if (!grown) return hyp_fail_memory(diag, bytes);
    *(void **)array = grown;
    hyp_eg_count_bytes(eg, (next - count) * elem);
    return HYP_OK;
}

hyp_status hyp_eg_grow(hyp_egraph *eg, void **data, size_t *cap, size_t want, size_t elem, hyp_diag *diag)
{
#ifdef HYP_SMALL_SIZES
    size_t next = *cap < 64 ? 0 : *cap * 2, more;
#else
    size_t next = *cap < 8 ? 16 : *cap < 65536 ? *cap * 2 : *cap + *cap / 8, more; /* large arrays grow by moving pages */
#endif
    if (next < want) next = want;
    if (!hyp_mul_size(next - *cap, elem, &more)) return hyp_fail_memory(diag, SIZE_MAX);
    HYP_TRY(hyp_eg_claim(eg, more, diag));
    HYP_TRY(hyp_eg_resize(eg, data, *cap, next, elem, diag));
    *cap = next;
    return HYP_OK;
}
