/* undo.c - what the rows of a state that a pop goes back to were like, kept before they change, and put back. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/core/table.h"

/* ---- keeping ------------------------------------------------------------------------------------ */

static void note(hyp_egraph *eg, uint32_t row, uint32_t flag)
{
    hyp_kept_row kept = {row | flag, eg->kept_since[row], eg->parent[row], eg->stamp[row], eg->rows[row]};
    eg->undo.rows.data[eg->undo.rows.len++] = kept;
    eg->kept_since[row] = eg->pushes << 1 | (flag != 0);
}

hyp_status hyp_eg_keep_row(hyp_egraph *eg, uint32_t row, bool kids, hyp_diag *diag)
{
    uint32_t mark = eg->kept_since[row], n;
    const uint32_t *from = hyp_row_kids(eg, row, &n);
    bool pooled = kids && n > 2;
    if (mark >> 1 == eg->pushes && (!pooled || mark & 1)) return HYP_OK;
    HYP_TRY(hyp_eg_reserve(eg, &eg->undo.rows, eg->undo.rows.len + eg->undo.promised + 1, diag));
    if (pooled) {
        HYP_TRY(hyp_eg_reserve(eg, &eg->undo.kids, eg->undo.kids.len + n, diag));
        memcpy(eg->undo.kids.data + eg->undo.kids.len, from, n * sizeof *from);
        eg->undo.kids.len += n;
    }
    note(eg, row, pooled ? HYP_KEPT_KIDS : 0);
    return HYP_OK;
}

void hyp_eg_keep_reserved(hyp_egraph *eg, uint32_t row)
{
    if (row < eg->frozen && eg->kept_since[row] >> 1 != eg->pushes) note(eg, row, 0);
}

/* Path halving of what a pop goes back to. Without memory for it the path stays as long as it is. */
static void shorten(hyp_egraph *eg, uint32_t c, uint32_t above)
{
    hyp_stop before = eg->limit_hit;
    if (hyp_eg_keep(eg, c, false, NULL) == HYP_OK) eg->parent[c] = above;
    eg->limit_hit = before;
}

uint32_t hyp_eg_find_far(hyp_egraph *eg, uint32_t c)
{
    for (;;) {
        uint32_t up = eg->parent[c], above = eg->parent[up];
        if (above == up) return up;
        if (c < eg->frozen)
            shorten(eg, c, above);
        else
            eg->parent[c] = above;
        c = above;
    }
}

hyp_status hyp_eg_reserve_undo(hyp_egraph *eg, size_t count, hyp_diag *diag)
{
    if (!eg->frozen) return HYP_OK;
    HYP_TRY(hyp_eg_reserve(eg, &eg->undo.rows, eg->undo.rows.len + count, diag));
    eg->undo.promised = count;
    return eg->explain ? hyp_eg_reserve(eg, &eg->undo.roots, eg->undo.roots.len + count, diag) : HYP_OK;
}

hyp_status hyp_eg_freeze(hyp_egraph *eg, hyp_undo *out, hyp_diag *diag)
{
    if (eg->kept_cap < eg->row_count) {
        size_t cap = eg->row_count + eg->row_count / 2;
        HYP_TRY(hyp_eg_resize(eg, &eg->kept_since, eg->kept_cap, cap, sizeof *eg->kept_since, diag));
        memset(eg->kept_since + eg->kept_cap, 0, (cap - eg->kept_cap) * sizeof *eg->kept_since);
        eg->kept_cap = cap;
    }
    if (++eg->pushes == UINT32_C(1) << 31) { /* then some rows are kept once more */
        memset(eg->kept_since, 0, eg->kept_cap * sizeof *eg->kept_since);
        eg->pushes = 1;
    }
    *out = eg->undo;
    eg->undo = (hyp_undo){0};
    eg->frozen = (uint32_t)eg->row_count;
    eg->frozen_epoch = eg->epoch++; /* so that the entries of logs from here on are known */
    return HYP_OK;
}

/* ---- putting back --------------------------------------------------------------------------------- */

/* The log of an operator as it was. */
static void cut_log(hyp_egraph *eg, uint32_t id, uint32_t epoch)
{
    hyp_op *op = &eg->ops.data[id];
    while (op->marks.len && op->marks.data[op->marks.len - 1].epoch > epoch)
        op->log.len = op->marks.data[--op->marks.len].pos;
    if (op->log.len || !op->logged_at) return;
    uint32_t last = eg->logged.data[--eg->logged.len];
    eg->logged.data[op->logged_at - 1] = last;
    eg->ops.data[last].logged_at = op->logged_at;
    op->logged_at = 0;
}

/* Forgets the rows that are no more. Places of the table that name them are stale. */
static void drop_rows(hyp_egraph *eg, uint32_t rows, uint32_t epoch)
{
    for (uint32_t i = rows; i < eg->row_count; i++) {
        uint32_t op = hyp_row_op(eg, i);
        eg->ops.data[op].live -= !hyp_row_dead(eg, i);
        eg->rows[i].op |= HYP_ROW_DEAD;
        cut_log(eg, op, epoch);
    }
    eg->row_count = rows;
}

static void put_back(hyp_egraph *eg, uint32_t epoch)
{
    size_t kids = eg->undo.kids.len;
    for (size_t i = eg->undo.rows.len; i-- > 0;) {
        const hyp_kept_row *kept = &eg->undo.rows.data[i];
        uint32_t row = kept->id & ~HYP_KEPT_KIDS, op = kept->row.op & ~HYP_ROW_DEAD, n = eg->ops.data[op].arity;
        eg->ops.data[op].live += hyp_row_dead(eg, row);
        eg->ops.data[op].live -= kept->row.op & HYP_ROW_DEAD ? 1 : 0;
        eg->rows[row] = kept->row;
        eg->parent[row] = kept->parent;
        eg->stamp[row] = kept->stamp;
        eg->kept_since[row] = kept->mark;
        if (kept->id & HYP_KEPT_KIDS) {
            kids -= n;
            memcpy(eg->pool + kept->row.kid[0], eg->undo.kids.data + kids, n * sizeof *eg->pool);
        }
        cut_log(eg, op, epoch);
    }
}

/* Gives the rows that were put back their places in the table, where they have lost them. */
static void find_places(hyp_egraph *eg)
{
    if (!hyp_slots_do(0, eg->slot_used + eg->undo.rows.len, eg->bucket_count)) {
        hyp_eg_purge_slots(eg);
        return;
    }
    for (size_t i = 0; i < eg->undo.rows.len; i++) {
        uint32_t row = eg->undo.rows.data[i].id & ~HYP_KEPT_KIDS, n;
        if (hyp_row_dead(eg, row)) continue;
        size_t slot;
        const uint32_t *kids = hyp_row_kids(eg, row, &n);
        uint32_t op = eg->rows[row].op, hash = hyp_table_hash(op, kids, n);
        if (hyp_table_probe(eg, hash, op, kids, n, &slot) == row) continue;
        hyp_table_put(eg, slot, hash, row);
        eg->slot_used++;
    }
}

void hyp_eg_thaw(hyp_egraph *eg, uint32_t rows, uint32_t epoch)
{
    drop_rows(eg, rows, epoch);
    put_back(eg, epoch);
    if (eg->bucket_count) find_places(eg);
}

void hyp_undo_dispose(hyp_egraph *eg, hyp_undo *undo)
{
    eg->bytes -= undo->rows.cap * sizeof *undo->rows.data + undo->kids.cap * sizeof *undo->kids.data;
    eg->bytes -= undo->roots.cap * sizeof *undo->roots.data;
    hyp_eg_free(&undo->rows);
    hyp_eg_free(&undo->kids);
    hyp_eg_free(&undo->roots);
    *undo = (hyp_undo){0};
}
