#include <string.h>

#include "egraph/proof.h"
#include "egraph/rule.h"
#include "egraph/state.h"
#include "egraph/table.h"

#ifdef HYP_SMALL_SIZES
enum { FIRST_ROWS = 1 };
#else
enum { FIRST_ROWS = 64 };
#endif

/* ---- growth ------------------------------------------------------------------------------------- */

/* Whether `more` bytes may be taken. A rebuild must not fail, so for each row what it may need is held back:
 * entries in the log, and among the unions and deaths that are pending. */
static bool affordable(const hyp_egraph *eg, size_t more)
{
    enum { HELD_BACK = 4 * sizeof(uint32_t) };
    return !eg->max_bytes || eg->rebuilding || eg->bytes + more + HELD_BACK * eg->row_count <= eg->max_bytes;
}

static hyp_status claim(hyp_egraph *eg, size_t more, hyp_diag *diag)
{
    if (affordable(eg, more)) return HYP_OK;
    eg->limit_hit = HYP_STOP_MEMORY;
    return hyp_fail(diag, HYP_ERR_LIMIT, "the e-graph has %zu bytes and its limit is %zu", eg->bytes, eg->max_bytes);
}

static void count_bytes(hyp_egraph *eg, size_t more)
{
    eg->bytes += more;
    if (eg->bytes > eg->peak_bytes) eg->peak_bytes = eg->bytes;
}

hyp_status hyp_eg_reserve_(hyp_egraph *eg, void **data, size_t *cap, size_t want, size_t elem, hyp_diag *diag)
{
    if (want <= *cap) return HYP_OK;
    size_t before = *cap, next = before * 2 > want ? before * 2 : want, more;
    if (!hyp_mul_size(next - before, elem, &more)) return hyp_fail_memory(diag, SIZE_MAX);
    HYP_TRY(claim(eg, more, diag));
    HYP_TRY(hyp_vec_reserve_(data, cap, want, elem, diag));
    count_bytes(eg, (*cap - before) * elem);
    return HYP_OK;
}

static size_t row_bytes(const hyp_egraph *eg)
{
    size_t bytes = sizeof(hyp_row) + 6 * sizeof(uint32_t) + eg->analysis.data_size;
    return eg->explain ? bytes + 5 * sizeof(uint32_t) : bytes;
}

static hyp_status grow(void *array, size_t count, size_t elem, hyp_diag *diag)
{
    size_t bytes;
    if (!hyp_mul_size(count, elem, &bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    void *grown = hyp_realloc(*(void **)array, bytes);
    if (!grown) return hyp_fail_memory(diag, bytes);
    *(void **)array = grown;
    return HYP_OK;
}

static size_t next_cap(size_t cap)
{
#ifdef HYP_SMALL_SIZES
    return cap + cap / 8 + 1;
#else
    return cap < 4096 ? cap * 4 : cap * 2;
#endif
}

static hyp_status reserve_row(hyp_egraph *eg, hyp_diag *diag)
{
    if (eg->row_count < eg->row_cap) return HYP_OK;
    size_t cap = eg->row_cap ? next_cap(eg->row_cap) : FIRST_ROWS, each = row_bytes(eg);
    if (eg->row_count >= HYP_ROW_LIMIT)
        return hyp_fail(diag, HYP_ERR_LIMIT, "an e-graph holds at most %u e-nodes", HYP_ROW_LIMIT);
    if (!affordable(eg, (cap - eg->row_cap) * each)) cap = eg->row_cap + eg->row_cap / 8 + 1;
    HYP_TRY(claim(eg, (cap - eg->row_cap) * each, diag));
    HYP_TRY(grow(&eg->rows, cap, sizeof *eg->rows, diag));
    HYP_TRY(grow(&eg->parent, cap, sizeof *eg->parent, diag));
    HYP_TRY(grow(&eg->home, cap, sizeof *eg->home, diag));
    HYP_TRY(grow(&eg->stamp, cap, sizeof *eg->stamp, diag));
    HYP_TRY(grow(&eg->use_next, cap, 2 * sizeof *eg->use_next, diag));
    HYP_TRY(grow(&eg->use_head, cap, sizeof *eg->use_head, diag));
    if (eg->analysis.data_size) HYP_TRY(grow(&eg->facts, cap, eg->analysis.data_size, diag));
    if (eg->explain) {
        HYP_TRY(grow(&eg->proofs.kid, cap, 2 * sizeof *eg->proofs.kid, diag));
        HYP_TRY(grow(&eg->proofs.parent, cap, sizeof *eg->proofs.parent, diag));
        HYP_TRY(grow(&eg->proofs.why, cap, sizeof *eg->proofs.why, diag));
        HYP_TRY(grow(&eg->proofs.origin, cap, sizeof *eg->proofs.origin, diag));
    }
    count_bytes(eg, (cap - eg->row_cap) * each);
    eg->row_cap = cap;
    return HYP_OK;
}

static hyp_status reserve_pool(hyp_egraph *eg, size_t more, hyp_diag *diag)
{
    size_t want = eg->pool_len + more, cap = eg->pool_cap ? next_cap(eg->pool_cap) : FIRST_ROWS;
    if (want <= eg->pool_cap) return HYP_OK;
    if (want >= HYP_SLOT_POOL) return hyp_fail(diag, HYP_ERR_LIMIT, "an e-graph holds at most 2^31 children");
    if (cap < want) cap = want;
    size_t each = (eg->explain ? 4 : 3) * sizeof(uint32_t);
    HYP_TRY(claim(eg, (cap - eg->pool_cap) * each, diag));
    HYP_TRY(grow(&eg->pool, cap, sizeof *eg->pool, diag));
    HYP_TRY(grow(&eg->pool_next, cap, sizeof *eg->pool_next, diag));
    HYP_TRY(grow(&eg->pool_row, cap, sizeof *eg->pool_row, diag));
    if (eg->explain) HYP_TRY(grow(&eg->proofs.pool, cap, sizeof *eg->proofs.pool, diag));
    count_bytes(eg, (cap - eg->pool_cap) * each);
    eg->pool_cap = cap;
    return HYP_OK;
}

static hyp_status reserve_slot(hyp_egraph *eg, hyp_diag *diag)
{
    if ((eg->live_count + 1) * 3 < eg->slot_count) return HYP_OK;
    size_t count = !eg->slot_count ? 4 : eg->slot_count < (1 << 18) ? eg->slot_count * 4 : eg->slot_count * 2;
    HYP_TRY(claim(eg, (count - eg->slot_count) * sizeof *eg->slots, diag));
    hyp_slot *slots = hyp_malloc(count * sizeof *slots);
    if (!slots) return hyp_fail_memory(diag, count * sizeof *slots);
    memset(slots, 0xff, count * sizeof *slots);
    size_t mask = count - 1;
    for (size_t i = 0; i < eg->slot_count; i++) {
        hyp_slot s = eg->slots[i];
        if (s.row == HYP_NONE) continue;
        size_t j = s.tag & mask;
        while (slots[j].row != HYP_NONE) j = (j + 1) & mask;
        slots[j] = s;
    }
    hyp_free(eg->slots);
    eg->slots = slots;
    count_bytes(eg, (count - eg->slot_count) * sizeof *slots);
    eg->slot_count = count;
    return HYP_OK;
}

/* Drops the entries of a log that no longer count. */
static void compact_log(hyp_egraph *eg, hyp_op *op)
{
    size_t kept = 0, marks = 0;
    for (size_t m = 0; m < op->marks.len; m++) {
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

hyp_status hyp_eg_reserve_log(hyp_egraph *eg, uint32_t id, hyp_diag *diag)
{
    hyp_op *op = &eg->ops.data[id];
    if (eg->rebuilding && op->log.len == op->log.cap && op->log.len > 2 * (size_t)op->live) compact_log(eg, op);
    HYP_TRY(hyp_eg_reserve(eg, &op->marks, op->marks.len + 1, diag));
    return hyp_eg_reserve(eg, &op->log, op->log.len + 1, diag);
}

void hyp_eg_log(hyp_egraph *eg, uint32_t row)
{
    hyp_op *op = &eg->ops.data[hyp_row_op(eg, row)];
    if (op->marks.len == 0 || op->marks.data[op->marks.len - 1].epoch != eg->epoch)
        op->marks.data[op->marks.len++] = (hyp_mark){eg->epoch, (uint32_t)op->log.len};
    op->log.data[op->log.len++] = row;
    eg->stamp[row] = eg->epoch;
}

/* ---- operators ---------------------------------------------------------------------------------- */

uint32_t hyp_eg_op_find(const hyp_egraph *eg, hyp_symbol symbol, uint32_t arity)
{
    uint32_t op = symbol < eg->first_op.len ? eg->first_op.data[symbol] : HYP_NONE;
    while (op != HYP_NONE && eg->ops.data[op].arity != arity) op = eg->ops.data[op].next_op;
    return op;
}

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

/* Everything that a new row with n children of operator `op` needs, so that adding it cannot fail. */
static hyp_status reserve_node(hyp_egraph *eg, uint32_t op, hyp_diag *diag)
{
    if (eg->max_nodes && eg->live_count >= eg->max_nodes) {
        eg->limit_hit = HYP_STOP_NODES;
        return hyp_fail(diag, HYP_ERR_LIMIT, "the e-graph has reached its limit of %zu e-nodes", eg->max_nodes);
    }
    HYP_TRY(reserve_row(eg, diag));
    HYP_TRY(reserve_slot(eg, diag));
    HYP_TRY(hyp_eg_reserve_log(eg, op, diag));
    if (eg->analysis.modify) HYP_TRY(hyp_eg_reserve(eg, &eg->modify, eg->modify.len + 1, diag));
    return HYP_OK;
}

hyp_status hyp_eg_add(hyp_egraph *eg, uint32_t op, const uint32_t *kids, uint32_t into, uint32_t *out,
                      bool *out_created, hyp_diag *diag)
{
    uint32_t n = eg->ops.data[op].arity, given[2] = {HYP_NONE, HYP_NONE}, small[2] = {HYP_NONE, HYP_NONE};
    uint32_t *key = small;
    if (n > 2) { /* the key is written where it will stay if it is new */
        bool inside = kids >= eg->pool && kids < eg->pool + eg->pool_len;
        size_t offset = inside ? (size_t)(kids - eg->pool) : 0;
        HYP_TRY(reserve_pool(eg, n, diag));
        if (inside) kids = eg->pool + offset;
        key = eg->pool + eg->pool_len;
        for (uint32_t j = 0; j < n; j++) key[j] = hyp_eg_find(eg, kids[j]);
    } else {
        for (uint32_t j = 0; j < n; j++) {
            given[j] = kids[j];
            small[j] = hyp_eg_find(eg, kids[j]);
        }
    }
    uint32_t hash = hyp_table_hash(op, key, n);
    size_t i = eg->slot_count ? hyp_table_probe(eg, hash, op, key, n) : 0;
    if (eg->slot_count && eg->slots[i].row != HYP_NONE) {
        *out = eg->slots[i].row;
        *out_created = false;
        return HYP_OK;
    }
    if (eg->making)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an analysis added a term in `make`; add it in `modify`");
    size_t slots = eg->slot_count;
    HYP_TRY(reserve_node(eg, op, diag));
    if (eg->slot_count != slots) i = hyp_table_probe(eg, hash, op, key, n);

    uint32_t id = (uint32_t)eg->row_count;
    bool alone = into == HYP_NONE;
    hyp_row *row = &eg->rows[id];
    *row = (hyp_row){.op = op, .kid = {small[0], small[1]}, .next = id};
    if (n > 2) row->kid[0] = (uint32_t)eg->pool_len;
    eg->parent[id] = eg->home[id] = alone ? id : into;
    eg->use_head[id] = HYP_NONE;
    if (eg->analysis.data_size) {
        memset(hyp_fact(eg, id), 0, eg->analysis.data_size);
        if (eg->analysis.make) {
            eg->row_count++, eg->pool_len += n > 2 ? n : 0;
            eg->making = true;
            hyp_status status = eg->analysis.make(eg, id, hyp_fact(eg, id), eg->analysis.user, diag);
            eg->making = false;
            eg->row_count--, eg->pool_len -= n > 2 ? n : 0;
            if (status != HYP_OK) {
                eg->version++; /* what was listed meanwhile may name the row */
                return status;
            }
        }
    }
    if (n > 2) {
        for (uint32_t j = 0; j < n; j++) eg->pool_row[eg->pool_len + j] = id;
        if (eg->explain) memcpy(eg->proofs.pool + eg->pool_len, kids, n * sizeof *kids);
        eg->pool_len += n;
    }
    if (eg->explain) {
        eg->proofs.kid[2 * (size_t)id] = n > 2 ? row->kid[0] : given[0];
        eg->proofs.kid[2 * (size_t)id + 1] = given[1];
        eg->proofs.parent[id] = eg->proofs.why[id] = HYP_NONE;
        eg->proofs.origin[id] = eg->app;
    }
    eg->slots[i] = (hyp_slot){hash, id};
    eg->row_count++;
    eg->live_count++;
    eg->class_count += alone;
    eg->ops.data[op].live++;
    eg->version++;
    hyp_eg_log(eg, id);
    if (eg->analysis.modify) eg->modify.data[eg->modify.len++] = id;
    *out = id;
    *out_created = true;
    return HYP_OK;
}

uint32_t hyp_eg_lookup(hyp_egraph *eg, uint32_t op, const uint32_t *kids)
{
    if (!eg->slot_count) return HYP_NONE;
    uint32_t n = eg->ops.data[op].arity;
    return eg->slots[hyp_table_probe(eg, hyp_table_hash(op, kids, n), op, kids, n)].row;
}

/* ---- unions ------------------------------------------------------------------------------------- */

hyp_status hyp_eg_reserve_union(hyp_egraph *eg, hyp_diag *diag)
{
    return hyp_eg_reserve(eg, &eg->pending, eg->pending.len + 1, diag);
}

bool hyp_eg_union_reserved(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why)
{
    uint32_t x = hyp_eg_find(eg, a), y = hyp_eg_find(eg, b);
    if (x == y) return false;
    uint32_t winner = x < y ? x : y, loser = x < y ? y : x;
    eg->parent[loser] = winner;
    eg->pending.data[eg->pending.len++] = loser;
    eg->class_count--;
    eg->version++;
    if (eg->explain) hyp_proof_edge(eg, a, b, why);
    return true;
}

hyp_status hyp_eg_union(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why, bool *out_changed, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_reserve_union(eg, diag));
    *out_changed = hyp_eg_union_reserved(eg, a, b, why);
    return HYP_OK;
}
