/* store.c - rows: operators and e-nodes are added, united, found by what they are, and logged by when they changed. */
#include <stdlib.h>
#include <string.h>

#include "egraph/core/state.h"
#include "egraph/core/table.h"
#include "egraph/core/record.h"

#ifdef HYP_SMALL_SIZES
enum { FIRST_ROWS = 1 };
#else
enum { FIRST_ROWS = 64 };
#endif

/* ---- growth ------------------------------------------------------------------------------------- */

/* Large arrays grow by moving pages, so they need not grow by much. */
static size_t next_cap(size_t cap)
{
#ifdef HYP_SMALL_SIZES
    return cap + cap / 8 + 1;
#else
    return cap < 4096 ? cap * 4 : cap < 65536 ? cap * 2 : cap + cap / 4;
#endif
}

static size_t row_bytes(const hyp_egraph *eg)
{
    size_t bytes = sizeof(hyp_row) + 2 * sizeof(uint32_t) + eg->analysis.data_size;
    return eg->explain ? bytes + sizeof(uint32_t) : bytes;
}

/* An array with an element by row, or by entry of the pool. */
typedef struct by_row {
    void *array;
    size_t elem; /* 0 = not used */
} by_row;

static void list_row_arrays(hyp_egraph *eg, by_row out[HYP_ROW_ARRAYS])
{
    size_t word = sizeof(uint32_t), proof = eg->explain ? word : 0;
    const by_row all[HYP_ROW_ARRAYS] = {
        {&eg->rows, sizeof *eg->rows},
        {&eg->parent, word},
        {&eg->stamp, word},
        {&eg->facts, eg->analysis.data_size},
        {&eg->proofs.edge, proof},
    };
    memcpy(out, all, sizeof all);
}

static void list_pool_arrays(hyp_egraph *eg, by_row out[HYP_POOL_ARRAYS])
{
    size_t word = sizeof(uint32_t);
    const by_row all[HYP_POOL_ARRAYS] = {
        {&eg->pool, word}, {&eg->pool_row, word}, {&eg->proofs.pool, eg->explain ? word : 0}};
    memcpy(out, all, sizeof all);
}

/* A failure on the way leaves arrays of different sizes; each is resized from the one it has. */
static hyp_status resize_all(hyp_egraph *eg, const by_row *arrays, size_t *sizes, size_t count, size_t cap,
                             hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        if (!arrays[i].elem || sizes[i] >= cap) continue;
        HYP_TRY(hyp_eg_resize(eg, arrays[i].array, sizes[i], cap, arrays[i].elem, diag));
        sizes[i] = cap;
    }
    return HYP_OK;
}

static void free_all(const by_row *arrays, const size_t *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++) hyp_large_free(*(void **)arrays[i].array, sizes[i] * arrays[i].elem);
}

void hyp_eg_free_rows(hyp_egraph *eg)
{
    by_row rows[HYP_ROW_ARRAYS], pool[HYP_POOL_ARRAYS];
    list_row_arrays(eg, rows);
    list_pool_arrays(eg, pool);
    free_all(rows, eg->row_sizes, HYP_ROW_ARRAYS);
    free_all(pool, eg->pool_sizes, HYP_POOL_ARRAYS);
    hyp_aligned_free(eg->buckets);
    hyp_free(eg->moved);
    hyp_free(eg->told);
    hyp_free(eg->proofs.is_made);
    hyp_free(eg->proofs.is_changed);
}

/* Bits by row, which are zero for new ones. */
static hyp_status resize_bits(hyp_egraph *eg, uint64_t **bits, size_t cap, hyp_diag *diag)
{
    uint64_t *grown = hyp_realloc(*bits, cap / 8);
    if (!grown) return hyp_fail_memory(diag, cap / 8);
    memset(grown + eg->row_cap / 64, 0, (cap - eg->row_cap) / 8);
    *bits = grown;
    return HYP_OK;
}

/* The capacity is a multiple of 64: `moved` and its like have a word for that many. */
static hyp_status resize_rows(hyp_egraph *eg, size_t cap, hyp_diag *diag)
{
    by_row arrays[HYP_ROW_ARRAYS];
    list_row_arrays(eg, arrays);
    HYP_TRY(resize_all(eg, arrays, eg->row_sizes, HYP_ROW_ARRAYS, cap, diag));
    HYP_TRY(resize_bits(eg, &eg->moved, cap, diag));
    if (eg->analysis.make) HYP_TRY(resize_bits(eg, &eg->told, cap, diag));
    if (eg->explain) HYP_TRY(resize_bits(eg, &eg->proofs.is_made, cap, diag));
    if (eg->explain) HYP_TRY(resize_bits(eg, &eg->proofs.is_changed, cap, diag));
    size_t sets = 1 + (eg->analysis.make ? 1 : 0) + (eg->explain ? 2 : 0);
    hyp_eg_count_bytes(eg, sets * (cap - eg->row_cap) / 8);
    eg->row_cap = cap;
    return HYP_OK;
}

static hyp_status reserve_row_space(hyp_egraph *eg, size_t count, hyp_diag *diag)
{
    size_t want = eg->row_count + count, each = row_bytes(eg);
    if (want <= eg->row_cap) return HYP_OK;
    if (want > HYP_ROW_LIMIT)
        return hyp_fail(diag, HYP_ERR_LIMIT, "an e-graph holds at most %u e-nodes", HYP_ROW_LIMIT);
    size_t cap = eg->row_cap ? next_cap(eg->row_cap) : FIRST_ROWS;
    if (cap < want) cap = want;
    cap = (cap + 63) & ~(size_t)63;
    if (!hyp_eg_affordable(eg, (cap - eg->row_cap) * (each + 1))) cap = (want + want / 8 + 63) & ~(size_t)63;
    HYP_TRY(hyp_eg_claim(eg, (cap - eg->row_cap) * (each + 1), diag));
    return resize_rows(eg, cap, diag);
}

static hyp_status reserve_pool(hyp_egraph *eg, size_t more, hyp_diag *diag)
{
    size_t want = eg->pool_len + more, cap = eg->pool_cap ? next_cap(eg->pool_cap) : FIRST_ROWS;
    if (want <= eg->pool_cap) return HYP_OK;
    if (want >= HYP_SLOT_POOL) return hyp_fail(diag, HYP_ERR_LIMIT, "an e-graph holds at most 2^31 children");
    if (cap < want) cap = want;
    HYP_TRY(hyp_eg_claim(eg, (cap - eg->pool_cap) * HYP_POOL_ARRAYS * sizeof(uint32_t), diag));
    by_row arrays[HYP_POOL_ARRAYS];
    list_pool_arrays(eg, arrays);
    HYP_TRY(resize_all(eg, arrays, eg->pool_sizes, HYP_POOL_ARRAYS, cap, diag));
    eg->pool_cap = cap;
    return HYP_OK;
}

hyp_status hyp_eg_reserve_like(hyp_egraph *eg, const hyp_egraph *other, hyp_diag *diag)
{
    if (other->row_count == 0) return HYP_OK;
    HYP_TRY(resize_rows(eg, other->row_cap, diag));
    HYP_TRY(reserve_pool(eg, other->pool_len, diag));
    return hyp_eg_reserve_slots(eg, other->live_count, diag);
}

/* Drops the entries of a log that no longer count. */
static void compact_log(hyp_egraph *eg, hyp_op *op)
{
    size_t kept, marks = op->marks.len;
    while (marks && op->marks.data[marks - 1].epoch > eg->frozen_epoch) marks--; /* what was there at a push stays */
    kept = marks < op->marks.len ? op->marks.data[marks].pos : op->log.len;
    for (size_t m = marks; m < op->marks.len; m++) {
        hyp_mark mark = op->marks.data[m];
        size_t end = m + 1 < op->marks.len ? op->marks.data[m + 1].pos : op->log.len, first = kept;
        for (size_t i = mark.pos; i < end; i++) {
            uint32_t row = op->log.data[i];
            if (eg->stamp[row] == mark.epoch && !hyp_row_dead(eg, row)) op->log.data[kept++] = row;
        }
        if (kept > first) op->marks.data[marks++] = (hyp_mark){mark.epoch, (uint32_t)first};
    }
    op->log.len = kept;
    op->marks.len = marks;
}

void hyp_eg_compact_logs(hyp_egraph *eg)
{
    for (size_t i = 0; i < eg->logged.len; i++) compact_log(eg, &eg->ops.data[eg->logged.data[i]]);
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void hyp_eg_sort_logged(hyp_egraph *eg)
{
    size_t in_order = 1;
    while (in_order < eg->logged.len && eg->logged.data[in_order - 1] < eg->logged.data[in_order]) in_order++;
    if (in_order == eg->logged.len || !eg->logged.len) return;
    qsort(eg->logged.data, eg->logged.len, sizeof *eg->logged.data, by_id);
    for (uint32_t i = 0; i < eg->logged.len; i++) eg->ops.data[eg->logged.data[i]].logged_at = i + 1;
}

hyp_status hyp_eg_reserve_log(hyp_egraph *eg, uint32_t id, size_t count, hyp_diag *diag)
{
    hyp_op *op = &eg->ops.data[id];
    if (!op->logged_at) {
        HYP_TRY(hyp_eg_reserve(eg, &eg->logged, eg->logged.len + 1, diag));
        eg->logged.data[eg->logged.len++] = id;
        op->logged_at = (uint32_t)eg->logged.len;
    }
    if (eg->rebuilding && op->log.len + count > op->log.cap && op->log.len > 2 * (size_t)op->live) compact_log(eg, op);
    HYP_TRY(hyp_eg_reserve(eg, &op->marks, op->marks.len + 1, diag));
    return hyp_eg_reserve(eg, &op->log, op->log.len + count, diag);
}

void hyp_eg_log(hyp_egraph *eg, uint32_t row)
{
    hyp_op *op = &eg->ops.data[hyp_row_op(eg, row)];
    if (op->marks.len == 0 || op->marks.data[op->marks.len - 1].epoch != eg->epoch)
        op->marks.data[op->marks.len++] = (hyp_mark){eg->epoch, (uint32_t)op->log.len};
    op->log.data[op->log.len++] = row;
    eg->stamp[row] = eg->epoch;
}

/* Room in a log for the fresh rows of its operator, and the mark of this epoch. */
static hyp_status open_log(hyp_egraph *eg, uint32_t id, uint32_t fresh, hyp_diag *diag)
{
    hyp_op *op = &eg->ops.data[id];
    HYP_TRY(hyp_eg_reserve_log(eg, id, fresh, diag));
    if (op->marks.len == 0 || op->marks.data[op->marks.len - 1].epoch != eg->epoch)
        op->marks.data[op->marks.len++] = (hyp_mark){eg->epoch, (uint32_t)op->log.len};
    return HYP_OK;
}

hyp_status hyp_eg_link(hyp_egraph *eg, hyp_diag *diag)
{
    if (eg->linked == eg->row_count) return HYP_OK;
    hyp_status status = HYP_OK;
    uint32_t first = HYP_NONE; /* of the operators that have fresh rows */
    for (uint32_t i = (uint32_t)eg->linked; i < eg->row_count; i++) {
        hyp_op *op = &eg->ops.data[hyp_row_op(eg, i)];
        if (op->fresh++ == 0) op->next_fresh = first, first = hyp_row_op(eg, i);
    }
    for (uint32_t o = first; o != HYP_NONE; o = eg->ops.data[o].next_fresh) {
        if (status == HYP_OK) status = open_log(eg, o, eg->ops.data[o].fresh, diag);
        eg->ops.data[o].fresh = 0;
    }
    HYP_TRY(status);
    for (; eg->linked < eg->row_count; eg->linked++) {
        if (eg->rows[eg->linked].op & HYP_ROW_DEAD) continue;
        hyp_op *op = &eg->ops.data[eg->rows[eg->linked].op];
        op->log.data[op->log.len++] = (uint32_t)eg->linked;
        eg->stamp[eg->linked] = eg->epoch;
    }
    return HYP_OK;
}

/* ---- operators ---------------------------------------------------------------------------------- */

hyp_status hyp_eg_op(hyp_egraph *eg, hyp_symbol symbol, uint32_t arity, uint32_t *out, hyp_diag *diag)
{
    uint32_t op = hyp_eg_op_find(eg, symbol, arity);
    if (op == HYP_NONE) {
        HYP_TRY(hyp_eg_reserve(eg, &eg->first_op, (size_t)symbol + 1, diag));
        HYP_TRY(hyp_eg_reserve(eg, &eg->ops, eg->ops.len + 1, diag));
        while (eg->first_op.len <= symbol) eg->first_op.data[eg->first_op.len++] = HYP_NONE;
        op = (uint32_t)eg->ops.len++;
        eg->ops.data[op] = (hyp_op){.symbol = symbol, .arity = arity, .next_op = eg->first_op.data[symbol]};
        eg->first_op.data[symbol] = op;
    }
    *out = op;
    return HYP_OK;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

hyp_status hyp_eg_reserve_rows(hyp_egraph *eg, size_t count, hyp_diag *diag)
{
    if (hyp_eg_has_room(eg, count)) return HYP_OK;
    if (eg->max_nodes && eg->live_count + count > eg->max_nodes) {
        eg->limit_hit = HYP_STOP_NODES;
        return hyp_fail(diag, HYP_ERR_LIMIT, "the e-graph has reached its limit of %zu e-nodes", eg->max_nodes);
    }
    HYP_TRY(reserve_row_space(eg, count, diag));
    HYP_TRY(hyp_eg_reserve_slots(eg, count, diag));
    return eg->explain ? hyp_eg_reserve(eg, &eg->proofs.given, eg->proofs.given.len + count, diag) : HYP_OK;
}

/* Takes back the row that was made last, whose fact could not be made. */
static void take_back(hyp_egraph *eg, size_t slot)
{
    uint32_t id = (uint32_t)--eg->row_count;
    eg->buckets[slot / HYP_BUCKET_WIDTH].tag[slot % HYP_BUCKET_WIDTH] = 0;
    eg->slot_used--;
    if (eg->explain) hyp_proof_take_back(eg, id);
    eg->live_count--;
    eg->class_count--;
    eg->ops.data[eg->rows[id].op].live--;
    eg->rows[id].op |= HYP_ROW_DEAD; /* its id is left in the table, where hyp_table_guess may find it */
    hyp_eg_view_forget(eg);          /* what was listed meanwhile may name the row */
}

static hyp_status make_fact(hyp_egraph *eg, uint32_t id, hyp_diag *diag)
{
    eg->making = true;
    const char *outer = hyp_eg_begin_reading(eg, HYP_READER_MAKE);
    hyp_status status = eg->analysis.make(eg, id, hyp_fact(eg, id), eg->analysis.user, diag);
    hyp_eg_end_reading(eg, outer);
    eg->making = false;
    return status;
}

/* What proofs must know of a new row: its children as they were given. */
static void note_given(hyp_egraph *eg, uint32_t id, uint32_t op, const uint32_t kid[2], const uint32_t *given)
{
    uint32_t n = eg->ops.data[op].arity;
    if (n > 2) memcpy(eg->proofs.pool + kid[0], given, n * sizeof *given);
    hyp_proof_new_row(eg, id, n > 2 ? 0 : n, kid, given, false);
}

hyp_status hyp_eg_new_row(hyp_egraph *eg, const hyp_new_row *row, uint32_t *out, hyp_diag *diag)
{
    uint32_t id = hyp_eg_put_row(eg, row->op, row->kid, HYP_NONE, row->hash, row->slot);
    if (eg->explain) note_given(eg, id, row->op, row->kid, row->given);
    HYP_TRY(hyp_eg_analyse_row(eg, id, row->slot, row->into, diag));
    *out = id;
    return HYP_OK;
}

hyp_status hyp_eg_analyse_row(hyp_egraph *eg, uint32_t row, size_t slot, uint32_t into, hyp_diag *diag)
{
    if (eg->analysis.data_size) memset(hyp_fact(eg, row), 0, eg->analysis.data_size);
    hyp_status status = eg->analysis.make ? make_fact(eg, row, diag) : HYP_OK;
    if (status != HYP_OK) {
        take_back(eg, slot);
        return status;
    }
    if (into != HYP_NONE) hyp_eg_adopt(eg, row, into);
    return HYP_OK;
}

void hyp_eg_adopt(hyp_egraph *eg, uint32_t row, uint32_t into)
{
    eg->parent[row] = eg->rows[row].home = into;
    eg->class_count--;
}

hyp_status hyp_eg_add(hyp_egraph *eg, uint32_t op, const uint32_t *kids, uint32_t into, uint32_t *out,
                      bool *out_created, hyp_diag *diag)
{
    uint32_t n = eg->ops.data[op].arity, given[2] = {HYP_NONE, HYP_NONE};
    hyp_new_row row = {.op = op, .kid = {HYP_NONE, HYP_NONE}, .given = kids, .into = into};
    uint32_t *key = row.kid;
    if (n > 2) { /* the key is written where it will stay if it is new */
        bool inside = eg->pool && kids >= eg->pool && kids < eg->pool + eg->pool_len;
        size_t offset = inside ? (size_t)(kids - eg->pool) : 0;
        HYP_TRY(reserve_pool(eg, n, diag));
        if (inside) row.given = kids = eg->pool + offset;
        key = eg->pool + eg->pool_len;
    } else { /* kids may be of a row, and move */
        for (uint32_t j = 0; j < n; j++) given[j] = kids[j];
        row.given = kids = given;
    }
    for (uint32_t j = 0; j < n; j++) key[j] = hyp_eg_find(eg, kids[j]);
    row.hash = hyp_table_hash(op, key, n);
    *out = eg->bucket_count ? hyp_table_probe(eg, row.hash, op, key, n, &row.slot) : HYP_NONE;
    *out_created = *out == HYP_NONE;
    if (!*out_created) return HYP_OK;
    HYP_TRY(hyp_eg_may_change(eg, diag));
    if (!hyp_eg_has_room(eg, 1)) {
        HYP_TRY(hyp_eg_reserve_rows(eg, 1, diag));
        hyp_table_probe(eg, row.hash, op, key, n, &row.slot); /* the table may be another */
    }
    if (n <= 2) return hyp_eg_new_row(eg, &row, out, diag);
    row.kid[0] = (uint32_t)eg->pool_len; /* taken before an analysis may ask for something that is written there */
    for (uint32_t j = 0; j < n; j++) eg->pool_row[eg->pool_len++] = (uint32_t)eg->row_count;
    hyp_status status = hyp_eg_new_row(eg, &row, out, diag);
    if (status != HYP_OK) eg->pool_len -= n;
    return status;
}

uint32_t hyp_eg_lookup(hyp_egraph *eg, uint32_t op, const uint32_t *kids)
{
    if (!eg->bucket_count) return HYP_NONE;
    uint32_t n = eg->ops.data[op].arity;
    size_t slot;
    return hyp_table_probe(eg, hyp_table_hash(op, kids, n), op, kids, n, &slot);
}

/* ---- unions ------------------------------------------------------------------------------------- */

hyp_status hyp_eg_reserve_union(hyp_egraph *eg, hyp_diag *diag)
{
    if (eg->explain) HYP_TRY(hyp_proof_reserve(eg, 2, 1, diag));
    HYP_TRY(hyp_eg_reserve_undo(eg, 1, diag));
    return hyp_eg_reserve(eg, &eg->pending, eg->pending.len + 1, diag);
}

bool hyp_eg_union_reserved(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why)
{
    uint32_t x = hyp_eg_find(eg, a), y = hyp_eg_find(eg, b);
    if (x == y) return false;
    uint32_t winner = x < y ? x : y, loser = x < y ? y : x;
    hyp_eg_keep_reserved(eg, loser);
    eg->parent[loser] = winner;
    hyp_eg_unsettle_class(eg, loser);
    eg->pending.data[eg->pending.len++] = loser;
    eg->class_count--;
    eg->version++;
    if (!eg->explain) return true;
    hyp_proof_edge(eg, a, b, why == HYP_WHY_CONGRUENCE ? hyp_proof_congruence(eg, a, b) : why);
    return true;
}

hyp_status hyp_eg_union(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why, bool *out_changed, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_reserve_union(eg, diag));
    *out_changed = hyp_eg_union_reserved(eg, a, b, why);
    return HYP_OK;
}
