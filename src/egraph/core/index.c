/* index.c - keeps the two indexes of index.h: the base of the last rebuild, and links for what came since. */
#include "egraph/core/index.h"

#include <string.h>

#include "egraph/core/state.h"

#ifdef HYP_SMALL_SIZES
enum { FEW = 1 };
#else
enum { FEW = 256 };
#endif

/* ---- the base ----------------------------------------------------------------------------------- */

static hyp_status fit(hyp_egraph *eg, void *array, size_t *cap, size_t want, size_t elem, hyp_diag *diag)
{
    if (want <= *cap) return HYP_OK;
    want += want / 8;
    if (eg->max_bytes && !eg->rebuilding && eg->bytes + (want - *cap) * elem > eg->max_bytes) {
        eg->limit_hit = HYP_STOP_MEMORY;
        return hyp_fail(diag, HYP_ERR_LIMIT, "an index of the e-graph would pass its limit of %zu bytes",
                        eg->max_bytes);
    }
    HYP_TRY(hyp_eg_resize(eg, array, *cap, want, elem, diag));
    *cap = want;
    return HYP_OK;
}

/* Sets at[c+1] to where the parts of c begin; when they have been placed that is where they end. */
static void count_parts(hyp_egraph *eg)
{
    hyp_index *x = &eg->index;
    memset(x->at, 0, ((size_t)x->bound + 2) * sizeof *x->at);
    for (uint32_t row = 0; row < x->rows; row++) {
        if (hyp_row_dead(eg, row)) continue;
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(eg, row, &n);
        x->at[eg->rows[row].home + 2].member++;
        for (uint32_t j = 0; j < n; j++) x->at[kids[j] + 2].use++;
    }
    for (size_t c = 2; c < (size_t)x->bound + 2; c++) {
        x->at[c].member += x->at[c - 1].member;
        x->at[c].use += x->at[c - 1].use;
    }
}

/* What of the rows of an operator is placed: themselves, or their uses of child j. */
#define MEMBERS UINT32_MAX

static inline void place_row(hyp_egraph *eg, uint32_t row, uint32_t j, uint32_t arity, uint32_t fresh)
{
    hyp_index *x = &eg->index;
    const hyp_row *r = &eg->rows[row];
    if (j == MEMBERS) {
        x->members[x->at[r->home + 1].member++] = (hyp_member){r->op | fresh, {r->kid[0], r->kid[1]}, row};
        return;
    }
    const uint32_t *kids = arity <= 2 ? r->kid : eg->pool + r->kid[0];
    x->uses[x->at[kids[j] + 1].use++] =
        (hyp_use){.op = r->op | fresh,
                  .slot = arity <= 2 ? 2 * row + j : HYP_SLOT_POOL | (r->kid[0] + j),
                  .other = arity == 2 ? kids[1 - j] : HYP_NONE,
                  .home = r->home};
}

/* The rows of one log that count, in order of last change. Inlined for each kind: most of the time of a base goes here, and
 * the less there is to do for a part, the more of the misses of the cache are under way at a time. */
static inline void place_log(hyp_egraph *eg, const hyp_op *op, uint32_t j, uint32_t arity)
{
    const hyp_mark *marks = op->marks.data;
    for (size_t m = 0; m < op->marks.len; m++) {
        uint32_t epoch = marks[m].epoch, fresh = epoch == eg->epoch ? HYP_INDEX_FRESH : 0;
        size_t end = m + 1 < op->marks.len ? marks[m + 1].pos : op->log.len;
        for (size_t pos = marks[m].pos; pos < end; pos++) {
            uint32_t row = op->log.data[pos];
            if (eg->stamp[row] == epoch && !hyp_row_dead(eg, row)) place_row(eg, row, j, arity, fresh);
        }
    }
}

static void place_all(hyp_egraph *eg)
{
    hyp_eg_sort_logged(eg);
    for (size_t i = 0; i < eg->logged.len; i++) {
        const hyp_op *op = &eg->ops.data[eg->logged.data[i]];
        place_log(eg, op, MEMBERS, 0);
        if (op->arity == 1) place_log(eg, op, 0, 1);
        if (op->arity == 2) place_log(eg, op, 0, 2), place_log(eg, op, 1, 2);
        for (uint32_t j = 0; j < op->arity && op->arity > 2; j++) place_log(eg, op, j, op->arity);
    }
}

static hyp_status make_base(hyp_egraph *eg, hyp_diag *diag)
{
    hyp_index *x = &eg->index;
    x->ready = false;
    size_t bound = eg->linked, words = (bound + 63) / 64, slots = 0;
    for (size_t i = 0; i < eg->logged.len; i++) {
        const hyp_op *op = &eg->ops.data[eg->logged.data[i]];
        slots += (size_t)op->live * op->arity;
    }
    HYP_TRY(fit(eg, &x->at, &x->at_cap, bound + 2, sizeof *x->at, diag));
    HYP_TRY(fit(eg, &x->members, &x->member_cap, eg->live_count + !eg->live_count, sizeof *x->members, diag));
    HYP_TRY(fit(eg, &x->uses, &x->use_cap, slots + !slots, sizeof *x->uses, diag)); /* never NULL: places are offsets */
    HYP_TRY(fit(eg, &x->stale, &x->stale_cap, words, sizeof *x->stale, diag));
    if (words) memset(x->stale, 0, words * sizeof *x->stale);
    for (size_t c = 0; c < x->head_count; c++) x->head[c] = (hyp_place){HYP_NONE, HYP_NONE};
    x->links.len = 0;
    x->changed = x->sweeps = 0;
    x->bound = x->rows = (uint32_t)bound;
    x->parts = eg->live_count + slots;
    x->epoch = eg->epoch;
    count_parts(eg);
    place_all(eg);
    x->ready = true;
    return HYP_OK;
}

/* ---- changes ------------------------------------------------------------------------------------ */

hyp_status hyp_index_reserve(hyp_egraph *eg, uint32_t kids, hyp_diag *diag)
{
    hyp_index *x = &eg->index;
    if (x->head_count < eg->row_count) {
        size_t count = x->head_count;
        HYP_TRY(fit(eg, &x->head, &x->head_count, eg->row_count + eg->row_count / 2, sizeof *x->head, diag));
        for (size_t c = count; c < x->head_count; c++) x->head[c] = (hyp_place){HYP_NONE, HYP_NONE};
    }
    return hyp_eg_reserve(eg, &x->links, x->links.len + kids + 1, diag);
}

static void hang(hyp_index *x, uint32_t *head, uint32_t id)
{
    x->links.data[x->links.len] = (hyp_link){id, *head};
    *head = (uint32_t)x->links.len++;
    x->changed++;
}

void hyp_index_add_member(hyp_egraph *eg, uint32_t c, uint32_t row)
{
    hang(&eg->index, &eg->index.head[c].member, row);
}

void hyp_index_add_use(hyp_egraph *eg, uint32_t c, uint32_t slot) { hang(&eg->index, &eg->index.head[c].use, slot); }

void hyp_index_spoil(hyp_egraph *eg, uint32_t row)
{
    if (row >= eg->index.rows) return;
    eg->index.stale[row >> 6] |= UINT64_C(1) << (row & 63);
    eg->index.changed++;
}

static hyp_status add_row(hyp_egraph *eg, uint32_t row, hyp_diag *diag)
{
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    HYP_TRY(hyp_index_reserve(eg, n, diag));
    hyp_index_add_member(eg, eg->rows[row].home, row);
    for (uint32_t j = 0; j < n; j++) hyp_index_add_use(eg, kids[j], hyp_row_slot(eg, row, j));
    return HYP_OK;
}

hyp_status hyp_index_sync(hyp_egraph *eg, hyp_diag *diag)
{
    hyp_index *x = &eg->index;
    size_t changed = x->changed + 2 * (eg->linked - x->seen);
    /* Rows of many children: a base has a part for each of them, and much must have changed to be worth making it. */
    if (!x->ready || (changed * 4 > (size_t)x->rows * 3 + FEW && changed * 8 > x->parts)) {
        HYP_TRY(make_base(eg, diag));
        x->seen = (uint32_t)eg->linked;
        return HYP_OK;
    }
    hyp_status status = HYP_OK;
    for (; x->seen < eg->linked && status == HYP_OK; x->seen++)
        if (!hyp_row_dead(eg, x->seen)) status = add_row(eg, x->seen, diag);
    if (status != HYP_OK) x->ready = false;
    return status;
}

void hyp_index_forget(hyp_egraph *eg)
{
    hyp_index *x = &eg->index;
    if (x->ready) x->sweeps = UINT32_MAX / 2; /* it was worth having: the next rebuild that needs it makes it */
    x->ready = false;
    x->seen = 0;
}

void hyp_index_dispose(hyp_egraph *eg)
{
    hyp_index *x = &eg->index;
    hyp_large_free(x->at, x->at_cap * sizeof *x->at);
    hyp_large_free(x->members, x->member_cap * sizeof *x->members);
    hyp_large_free(x->uses, x->use_cap * sizeof *x->uses);
    hyp_large_free(x->stale, x->stale_cap * sizeof *x->stale);
    hyp_large_free(x->head, x->head_count * sizeof *x->head);
    hyp_eg_free(&x->links);
}

/* ---- reading ------------------------------------------------------------------------------------ */

hyp_cursor hyp_members_of(const hyp_egraph *eg, uint32_t c)
{
    const hyp_index *x = &eg->index;
    hyp_cursor at = {.c = c, .link = c < x->head_count ? x->head[c].member : HYP_NONE};
    if (c < x->bound) at.at = x->at[c].member, at.end = x->at[c + 1].member;
    return at;
}

hyp_cursor hyp_uses_of(const hyp_egraph *eg, uint32_t c)
{
    const hyp_index *x = &eg->index;
    hyp_cursor at = {.c = c, .link = c < x->head_count ? x->head[c].use : HYP_NONE};
    if (c < x->bound) at.at = x->at[c].use, at.end = x->at[c + 1].use;
    return at;
}

uint32_t hyp_next_member(const hyp_egraph *eg, hyp_cursor *at)
{
    const hyp_index *x = &eg->index;
    while (at->at < at->end || at->link != HYP_NONE) {
        uint32_t row;
        if (at->at < at->end) {
            row = x->members[at->at++].row;
        } else {
            row = x->links.data[at->link].id;
            at->link = x->links.data[at->link].next;
        }
        if (!hyp_row_dead(eg, row) && eg->rows[row].home == at->c) return row;
    }
    return HYP_NONE;
}

uint32_t hyp_next_use(const hyp_egraph *eg, hyp_cursor *at)
{
    const hyp_index *x = &eg->index;
    while (at->at < at->end || at->link != HYP_NONE) {
        uint32_t slot;
        if (at->at < at->end) {
            slot = x->uses[at->at++].slot;
        } else {
            slot = x->links.data[at->link].id;
            at->link = x->links.data[at->link].next;
        }
        uint32_t row = hyp_slot_row(eg, slot);
        if (!hyp_row_dead(eg, row) && *hyp_slot_kid(eg, slot) == at->c) return slot;
    }
    return HYP_NONE;
}

hyp_parts hyp_parts_of(const hyp_egraph *eg, uint32_t c)
{
    hyp_cursor members = hyp_members_of(eg, c), uses = hyp_uses_of(eg, c);
    return (hyp_parts){(size_t)(members.end - members.at) + (uses.end - uses.at), {members.link, uses.link}};
}

bool hyp_next_part(const hyp_egraph *eg, hyp_parts *at)
{
    if (at->base) return at->base--, true;
    uint32_t *link = at->link[0] != HYP_NONE ? &at->link[0] : &at->link[1];
    if (*link == HYP_NONE) return false;
    *link = eg->index.links.data[*link].next;
    return true;
}
