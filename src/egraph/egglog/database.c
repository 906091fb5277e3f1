/* database.c - names, ids, changes to tables, and rebuilding: after it every row has canonical ids, and one row for a key.
 */
#include <string.h>
#include <time.h>

#include "egraph/egglog/db.h"

/* ---- names ------------------------------------------------------------------------------------------- */

hyp_status hyp_el_name_of(hyp_egglog *db, const char *text, uint32_t *out, hyp_diag *diag)
{
    HYP_TRY(hyp_intern_add(&db->names, text, strlen(text), out, diag));
    while (db->named.len <= *out)
        HYP_TRY(hyp_vec_push(&db->named, diag, (hyp_el_name){HYP_EL_NONE, HYP_EL_NONE, HYP_EL_NONE}));
    return HYP_OK;
}

static hyp_el_name stands_for(const hyp_egglog *db, const char *name)
{
    uint32_t id;
    bool known = hyp_intern_find(&db->names, name, strlen(name), &id) && id < db->named.len;
    return known ? db->named.data[id] : (hyp_el_name){HYP_EL_NONE, HYP_EL_NONE, HYP_EL_NONE};
}

uint32_t hyp_el_sort_named(const hyp_egglog *db, const char *name) { return stands_for(db, name).sort; }
uint32_t hyp_el_function_named(const hyp_egglog *db, const char *name) { return stands_for(db, name).function; }
uint32_t hyp_el_ruleset_named(const hyp_egglog *db, const char *name) { return stands_for(db, name).ruleset; }

/* ---- limits ------------------------------------------------------------------------------------------- */

double hyp_el_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

hyp_status hyp_el_check_limits(hyp_egglog *db, hyp_diag *diag)
{
    if (atomic_exchange(&db->cancel, false)) return hyp_fail(diag, HYP_ERR_CANCELLED, "the run was cancelled");
    if (db->deadline > 0 && hyp_el_now() > db->deadline)
        return hyp_fail(diag, HYP_ERR_LIMIT, "the run has taken more than its %g seconds", db->options.max_seconds);
    if (db->options.max_rows && db->live > db->options.max_rows)
        return hyp_fail(diag, HYP_ERR_LIMIT, "the database has %zu rows and its limit is %zu", db->live,
                        db->options.max_rows);
    return HYP_OK;
}

/* ---- ids ---------------------------------------------------------------------------------------------- */

hyp_status hyp_el_new_id(hyp_egglog *db, hyp_el_value *out, hyp_diag *diag)
{
    size_t id = db->parent.len;
    if (id >= HYP_EL_NONE) return hyp_fail(diag, HYP_ERR_LIMIT, "more than 2^32 e-classes");
    HYP_TRY(hyp_el_grow(db, &db->parent.data, &db->parent.cap, id + 1, sizeof *db->parent.data, diag));
    db->parent.data[db->parent.len++] = *out = (uint32_t)id;
    return HYP_OK;
}

hyp_status hyp_el_unite(hyp_egglog *db, uint32_t a, uint32_t b, hyp_diag *diag)
{
    a = hyp_el_find(db, a);
    b = hyp_el_find(db, b);
    if (a == b) return HYP_OK;
    uint32_t old = a < b ? a : b, young = a < b ? b : a;
    HYP_TRY(hyp_el_grow(db, &db->dirty.data, &db->dirty.cap, db->dirty.len + 1, sizeof *db->dirty.data, diag));
    db->parent.data[young] = old;
    db->dirty.data[db->dirty.len++] = young;
    db->changes++;
    return HYP_OK;
}

/* ---- changes to a table -------------------------------------------------------------------------------- */

static hyp_status stage(hyp_egglog *db, hyp_el_op op, uint32_t function, const uint32_t *words, uint32_t count,
                        hyp_diag *diag)
{
    HYP_TRY(hyp_vec_reserve(&db->staged_words, db->staged_words.len + count + 1, diag));
    HYP_TRY(hyp_vec_push(&db->staged, diag, (hyp_el_staged){op, function, db->staged_words.len}));
    if (count) memcpy(db->staged_words.data + db->staged_words.len, words, count * sizeof *words);
    db->staged_words.len += count;
    return HYP_OK;
}

/* A key of a function written for a message. */
static hyp_status two_values(hyp_egglog *db, const hyp_el_function *f, uint32_t old, uint32_t new, hyp_diag *diag)
{
    hyp_strbuf sb = {0};
    hyp_el_print_literal(db, f->sorts[f->arity], old, &sb);
    hyp_strbuf_puts(&sb, " and ");
    hyp_el_print_literal(db, f->sorts[f->arity], new, &sb);
    hyp_status status = hyp_fail(diag, HYP_ERR_MISMATCH, "%s has no :merge, and gets two values for one key: %.200s",
                                 f->name, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

/* What a table says that the value at a key is to be, `old` being there and `new` coming. */
static hyp_status merge(hyp_egglog *db, uint32_t function, uint32_t old, uint32_t new, uint32_t *out, hyp_diag *diag)
{
    const hyp_el_function *f = &db->functions.data[function];
    uint32_t sort = f->sorts[f->arity], pair[2];
    HYP_TRY(hyp_el_canonical(db, sort, old, &pair[0], diag));
    HYP_TRY(hyp_el_canonical(db, sort, new, &pair[1], diag));
    *out = pair[0];
    if (pair[0] == pair[1]) return HYP_OK;
    if (f->merge) return hyp_el_evaluate(db, f->merge, pair, 2, out, diag);
    if (f->no_merge) return two_values(db, f, pair[0], pair[1], diag);
    if (db->sorts.data[sort].kind == HYP_EL_EQ && f->kind != HYP_EL_FUNCTION)
        return hyp_el_unite(db, pair[0], pair[1], diag);
    return HYP_OK;
}

/* Puts a row where its key may be taken; `flag` is HYP_EL_SUBSUMED or 0, and stays once it is there. */
static hyp_status place(hyp_egglog *db, uint32_t function, const uint32_t *columns, uint32_t flag, hyp_diag *diag)
{
    hyp_el_table *t = &db->functions.data[function].table;
    uint32_t row = hyp_el_lookup(t, columns), last = t->width - 1, value;
    if (row == HYP_EL_NONE) return hyp_el_append(db, t, columns, db->epoch | flag, diag);
    uint32_t old = hyp_el_row(t, row)[last];
    if (flag && !(*hyp_el_stamp(t, row) & HYP_EL_SUBSUMED)) {
        *hyp_el_stamp(t, row) |= HYP_EL_SUBSUMED;
        db->changes++;
    }
    if (old == columns[last]) return HYP_OK;
    HYP_TRY(merge(db, function, old, columns[last], &value, diag));
    t = &db->functions.data[function].table;
    uint32_t changed[HYP_EL_MAX_COLUMNS];
    memcpy(changed, hyp_el_row(t, row), t->width * sizeof *changed);
    uint32_t before;
    HYP_TRY(hyp_el_canonical(db, db->functions.data[function].sorts[last], old, &before, diag));
    if (value == before) return HYP_OK;
    changed[last] = value;
    flag = *hyp_el_stamp(t, row) & HYP_EL_SUBSUMED;
    hyp_el_kill(db, t, row);
    return hyp_el_append(db, t, changed, db->epoch | flag, diag);
}

hyp_status hyp_el_put(hyp_egglog *db, uint32_t function, const uint32_t *columns, hyp_diag *diag)
{
    const hyp_el_function *f = &db->functions.data[function];
    const hyp_el_table *t = &f->table;
    if (db->searching && f->kind == HYP_EL_FUNCTION) {
        uint32_t row = hyp_el_lookup(t, columns);
        if (row != HYP_EL_NONE && row < t->limit) {
            if (hyp_el_row(t, row)[t->width - 1] == columns[t->width - 1]) return HYP_OK;
            return stage(db, HYP_EL_ASSIGN, function, columns, t->width, diag);
        }
    }
    return place(db, function, columns, 0, diag);
}

hyp_status hyp_el_remove(hyp_egglog *db, uint32_t function, const uint32_t *key, hyp_diag *diag)
{
    hyp_el_table *t = &db->functions.data[function].table;
    if (db->searching) return stage(db, HYP_EL_DELETE, function, key, t->width - 1, diag);
    uint32_t row = hyp_el_lookup(t, key);
    if (row != HYP_EL_NONE) hyp_el_kill(db, t, row);
    return HYP_OK;
}

hyp_status hyp_el_subsume(hyp_egglog *db, uint32_t function, const uint32_t *key, hyp_diag *diag)
{
    hyp_el_table *t = &db->functions.data[function].table;
    if (db->searching) return stage(db, HYP_EL_SUBSUME, function, key, t->width - 1, diag);
    uint32_t row = hyp_el_lookup(t, key), columns[HYP_EL_MAX_COLUMNS];
    if (row == HYP_EL_NONE) { /* it is there from now on, for checks alone */
        memcpy(columns, key, (t->width - 1) * sizeof *columns);
        columns[t->width - 1] = 0;
        if (db->functions.data[function].kind == HYP_EL_CONSTRUCTOR)
            HYP_TRY(hyp_el_new_id(db, &columns[t->width - 1], diag));
        return hyp_el_append(db, t, columns, db->epoch | HYP_EL_SUBSUMED, diag);
    }
    if (*hyp_el_stamp(t, row) & HYP_EL_SUBSUMED) return HYP_OK;
    *hyp_el_stamp(t, row) |= HYP_EL_SUBSUMED;
    db->changes++;
    return HYP_OK;
}

/* Deletions first: what another rule sets in the same iteration is there after it. */
hyp_status hyp_el_settle(hyp_egglog *db, hyp_diag *diag)
{
    hyp_status status = HYP_OK;
    db->searching = false;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < db->staged.len && status == HYP_OK; i++) {
            hyp_el_staged s = db->staged.data[i];
            const uint32_t *words = db->staged_words.data + s.at;
            if ((s.op == HYP_EL_DELETE) != (round == 0)) continue;
            if (s.op == HYP_EL_DELETE)
                status = hyp_el_remove(db, s.function, words, diag);
            else if (s.op == HYP_EL_SUBSUME)
                status = hyp_el_subsume(db, s.function, words, diag);
            else
                status = place(db, s.function, words, 0, diag);
        }
    }
    db->staged.len = db->staged_words.len = 0;
    return status;
}

/* ---- rebuilding ---------------------------------------------------------------------------------------- */

static hyp_status mend_row(hyp_egglog *db, uint32_t function, uint32_t row, hyp_diag *diag)
{
    const hyp_el_function *f = &db->functions.data[function];
    hyp_el_table *t = &db->functions.data[function].table;
    uint32_t stamp = *hyp_el_stamp(t, row), columns[HYP_EL_MAX_COLUMNS];
    bool changed = false;
    if (stamp == HYP_EL_DEAD) return HYP_OK;
    for (uint32_t i = 0; i < t->width; i++) {
        uint32_t old = hyp_el_row(t, row)[i];
        HYP_TRY(hyp_el_canonical(db, f->sorts[i], old, &columns[i], diag));
        changed |= columns[i] != old;
    }
    if (!changed) return HYP_OK;
    hyp_el_kill(db, t, row);
    return place(db, function, columns, stamp & HYP_EL_SUBSUMED, diag);
}

/* Whether a row surely has nothing to mend: plain ids only. */
static inline bool settled(const hyp_egglog *db, const uint32_t *row, uint64_t ids)
{
    for (; ids; ids &= ids - 1) {
        uint32_t id = row[__builtin_ctzll(ids)];
        if (db->parent.data[id] != id) return false;
    }
    return true;
}

static hyp_status sweep(hyp_egglog *db, uint32_t function, uint64_t ids, bool containers, hyp_diag *diag)
{
    size_t count = db->functions.data[function].table.count;
    for (size_t row = 0; row < count; row++) {
        const hyp_el_table *t = &db->functions.data[function].table;
        const uint32_t *r = hyp_el_row(t, row);
        if (r[t->width] == HYP_EL_DEAD || (!containers && settled(db, r, ids))) continue;
        HYP_TRY(mend_row(db, function, (uint32_t)row, diag));
    }
    return HYP_OK;
}

/* Few ids: the rows that have them are looked up. */
static hyp_status look_up_rows(hyp_egglog *db, uint32_t function, uint64_t ids, size_t dirty, hyp_diag *diag)
{
    uint32_t probe[HYP_EL_MAX_COLUMNS], at;
    for (; ids; ids &= ids - 1) {
        hyp_el_table *t = &db->functions.data[function].table;
        uint32_t column = (uint32_t)__builtin_ctzll(ids);
        HYP_TRY(hyp_el_index_of(db, t, UINT64_C(1) << column, &at, diag));
        for (size_t i = 0; i < dirty; i++) {
            probe[column] = db->dirty.data[i];
            for (uint32_t row = hyp_el_index_head(&t->indexes.data[at], probe); row != HYP_EL_NONE;) {
                uint32_t next = t->indexes.data[at].next[row];
                if (hyp_el_row(t, row)[column] == probe[column]) HYP_TRY(mend_row(db, function, row, diag));
                row = next;
            }
        }
    }
    return HYP_OK;
}

/* Whether rows may have ids that are to be mended, and be united for it. */
static bool is_mended(const hyp_el_function *f) { return f->ids && f->table.live && f->kind != HYP_EL_GLOBAL; }

static hyp_status mend_function(hyp_egglog *db, uint32_t function, size_t dirty, hyp_diag *diag)
{
    const hyp_el_function *f = &db->functions.data[function];
    uint64_t ids = 0;
    bool containers = false;
    for (uint32_t i = 0; i <= f->arity; i++) {
        const hyp_el_sort *s = &db->sorts.data[f->sorts[i]];
        if (s->kind == HYP_EL_EQ) ids |= UINT64_C(1) << i;
        if (s->kind != HYP_EL_EQ && s->ids) containers = true;
    }
    if (containers || 4 * dirty > f->table.count) return sweep(db, function, ids, containers, diag);
    return look_up_rows(db, function, ids, dirty, diag);
}

/* ---- which name a class keeps ---- */

/* From row to row that has an id in a column, table by table of those that are mended. */
typedef struct uses {
    uint32_t id, table, column, row;
} uses;

/* Steps to the next row; false at the end. */
static hyp_status next_use(hyp_egglog *db, uses *at, bool *out, hyp_diag *diag)
{
    uint32_t probe[HYP_EL_MAX_COLUMNS], index;
    for (; at->table < db->mended.len; at->table++, at->column = 0) {
        hyp_el_function *f = &db->functions.data[db->mended.data[at->table]];
        for (; at->column <= f->arity; at->column++, at->row = HYP_EL_NONE) {
            if (db->sorts.data[f->sorts[at->column]].kind != HYP_EL_EQ) continue;
            HYP_TRY(hyp_el_index_of(db, &f->table, UINT64_C(1) << at->column, &index, diag));
            const hyp_el_index *x = &f->table.indexes.data[index];
            probe[at->column] = at->id;
            at->row = at->row == HYP_EL_NONE ? hyp_el_index_head(x, probe) : x->next[at->row];
            while (at->row != HYP_EL_NONE && (*hyp_el_stamp(&f->table, at->row) == HYP_EL_DEAD ||
                                              hyp_el_row(&f->table, at->row)[at->column] != at->id))
                at->row = x->next[at->row];
            *out = at->row != HYP_EL_NONE;
            if (*out) return HYP_OK;
        }
    }
    *out = false;
    return HYP_OK;
}

/* The older of two ids stays, unless many times as many rows name the younger: else a class that is united with older ones
 * all the time would have all its rows changed each time. Work is that of the lighter side. */
static hyp_status choose_name(hyp_egglog *db, uint32_t *loser, hyp_diag *diag)
{
    enum { TIMES = 8, FEW = 16 };
    uint32_t kept = *loser, root = hyp_el_find(db, kept);
    uses a = {root, 0, 0, HYP_EL_NONE}, b = {kept, 0, 0, HYP_EL_NONE};
    bool more = true, another = true;
    for (size_t light = 0, heavy = 0; heavy <= FEW + light * TIMES; heavy++, light += more) {
        HYP_TRY(next_use(db, &b, &another, diag));
        if (!another) return HYP_OK;
        if (more) HYP_TRY(next_use(db, &a, &more, diag));
    }
    db->parent.data[root] = db->parent.data[kept] = kept;
    *loser = root;
    return HYP_OK;
}

/* ---- the loop ---- */

static hyp_status mend_all(hyp_egglog *db, size_t dirty, hyp_diag *diag)
{
    for (uint32_t i = 0; i < db->mended.len; i++) HYP_TRY(mend_function(db, db->mended.data[i], dirty, diag));
    return HYP_OK;
}

/* Globals come last, once: there is nothing that they could be united with. */
static hyp_status mend_globals(hyp_egglog *db, hyp_diag *diag)
{
    for (uint32_t f = 0; f < db->functions.len; f++) {
        const hyp_el_function *global = &db->functions.data[f];
        if (global->kind != HYP_EL_GLOBAL || !global->ids) continue;
        bool plain = db->sorts.data[global->sorts[0]].kind == HYP_EL_EQ;
        HYP_TRY(sweep(db, f, plain ? 1 : 0, !plain, diag));
    }
    return HYP_OK;
}

hyp_status hyp_el_rebuild(hyp_egglog *db, hyp_diag *diag)
{
    enum { SHARE = 16 };
    bool united = db->dirty.len > 0;
    db->mended.len = 0;
    for (uint32_t f = 0; f < db->functions.len && united; f++)
        if (is_mended(&db->functions.data[f])) HYP_TRY(hyp_vec_push(&db->mended, diag, f));
    while (db->dirty.len) {
        size_t dirty = db->dirty.len;
        for (size_t i = 0; i < dirty && dirty * SHARE <= db->live; i++)
            HYP_TRY(choose_name(db, &db->dirty.data[i], diag));
        HYP_TRY(mend_all(db, dirty, diag));
        db->dirty.len -= dirty;
        memmove(db->dirty.data, db->dirty.data + dirty, db->dirty.len * sizeof *db->dirty.data);
    }
    if (united) HYP_TRY(mend_globals(db, diag));
    for (uint32_t f = 0; f < db->functions.len; f++) HYP_TRY(hyp_el_compact(db, &db->functions.data[f].table, diag));
    return HYP_OK;
}
