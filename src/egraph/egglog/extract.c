/* extract.c - terms of least cost, by the solver of egraph/extract. */
#include "egraph/egglog/extract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST ((size_t)256 << 20) /* bytes of one text */

static bool extractable(const hyp_el_function *f) { return f->kind == HYP_EL_CONSTRUCTOR && !f->unextractable; }

static bool usable(const hyp_el_table *t, size_t row)
{
    return !(*hyp_el_stamp(t, row) & HYP_EL_SUBSUMED);
} /* dead ones neither */

/* ---- what is wanted ------------------------------------------------------------------------------------------------- */

hyp_status hyp_el_extractor_want(hyp_el_extractor *e, uint32_t sort, hyp_el_value v, hyp_diag *diag)
{
    const hyp_el_sort *s = &e->db->sorts.data[sort];
    if (s->kind != HYP_EL_EQ) {
        uint32_t len = 0;
        const uint32_t *words = s->ids ? hyp_el_words(e->db, v, &len) : NULL;
        for (uint32_t i = 0; i < len; i++) {
            uint32_t inner = s->kind == HYP_EL_MAP && i % 2 == 0 ? s->key : s->element;
            if (e->db->sorts.data[inner].ids) HYP_TRY(hyp_el_extractor_want(e, inner, words[i], diag));
        }
        return HYP_OK;
    }
    uint32_t id = hyp_el_find(e->db, v);
    if (e->number[id]) return HYP_OK;
    HYP_TRY(hyp_vec_push(&e->ids, diag, id));
    HYP_TRY(hyp_vec_push(&e->sorts, diag, sort));
    e->number[id] = (uint32_t)e->sorts.len;
    return HYP_OK;
}

/* The rows of a constructor that are in a class, and what they consist of. */
static hyp_status want_rows(hyp_el_extractor *e, uint32_t function, uint32_t id, hyp_diag *diag)
{
    hyp_el_function *f = &e->db->functions.data[function];
    uint32_t probe[HYP_EL_MAX_COLUMNS], at;
    HYP_TRY(hyp_el_index_of(e->db, &f->table, UINT64_C(1) << f->arity, &at, diag));
    const hyp_el_index *x = &f->table.indexes.data[at];
    probe[f->arity] = id;
    for (uint32_t row = hyp_el_index_head(x, probe); row != HYP_EL_NONE; row = x->next[row]) {
        const uint32_t *r = hyp_el_row(&f->table, row);
        if (r[f->arity] != id || !usable(&f->table, row)) continue;
        HYP_TRY(hyp_vec_push(&e->nodes, diag, (hyp_el_node){function, row}));
        for (uint32_t c = 0; c < f->arity; c++) HYP_TRY(hyp_el_extractor_want(e, f->sorts[c], r[c], diag));
    }
    return HYP_OK;
}

static int by_place(const void *a, const void *b)
{
    const hyp_el_node *x = a, *y = b;
    if (x->function != y->function) return x->function < y->function ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* All classes that terms of the wanted ones may have, with their rows. */
static hyp_status reach(hyp_el_extractor *e, hyp_diag *diag)
{
    const hyp_egglog *db = e->db;
    uint32_t *first = hyp_malloc((db->sorts.len + db->functions.len + 1) * sizeof *first); /* lists by sort */
    if (!first) return hyp_fail_memory(diag, db->functions.len * sizeof *first);
    uint32_t *next = first + db->sorts.len;
    memset(first, 0xff, db->sorts.len * sizeof *first); /* HYP_EL_NONE */
    for (uint32_t i = 0; i < db->functions.len; i++) {
        const hyp_el_function *f = &db->functions.data[i];
        if (!extractable(f) || !f->table.live) continue;
        next[i] = first[f->sorts[f->arity]];
        first[f->sorts[f->arity]] = i;
    }
    hyp_status status = HYP_OK;
    for (size_t c = 0; c < e->sorts.len && status == HYP_OK; c++)
        for (uint32_t f = first[e->sorts.data[c]]; f != HYP_EL_NONE && status == HYP_OK; f = next[f])
            status = want_rows(e, f, e->ids.data[c], diag);
    hyp_free(first);
    if (e->nodes.len) qsort(e->nodes.data, e->nodes.len, sizeof *e->nodes.data, by_place);
    return status;
}

/* ---- the problem ------------------------------------------------------------------------------------------------ */

/* The classes in a value go to `kids` where that is not NULL; gives their number, and adds the price of the rest. */
static size_t parts(const hyp_el_extractor *e, uint32_t sort, hyp_el_value v, uint32_t *kids, double *cost)
{
    const hyp_el_sort *s = &e->db->sorts.data[sort];
    if (s->kind == HYP_EL_EQ) {
        if (kids) *kids = e->number[hyp_el_find(e->db, v)] - 1;
        return 1;
    }
    if (s->kind < HYP_EL_VEC) {
        *cost += 1;
        return 0;
    }
    uint32_t len;
    const uint32_t *words = hyp_el_words(e->db, v, &len);
    size_t count = 0;
    for (uint32_t i = 0; i < len; i++)
        count +=
            parts(e, s->kind == HYP_EL_MAP && i % 2 == 0 ? s->key : s->element, words[i], kids ? kids + count : NULL, cost);
    return count;
}

/* One pass over the nodes: counts children, or fills what was made for the count. */
static size_t fill(hyp_el_extractor *e, bool count)
{
    size_t kid = 0;
    for (size_t n = 0; n < e->nodes.len; n++) {
        const hyp_el_function *f = &e->db->functions.data[e->nodes.data[n].function];
        const uint32_t *r = hyp_el_row(&f->table, e->nodes.data[n].row);
        double cost = f->cost;
        for (uint32_t c = 0; c < f->arity; c++) kid += parts(e, f->sorts[c], r[c], count ? NULL : e->p.kids + kid, &cost);
        if (count) continue;
        e->p.owner[n] = e->number[r[f->arity]] - 1;
        e->p.cost[n] = cost;
        e->p.kid_at[n + 1] = (uint32_t)kid;
    }
    return kid;
}

static bool is_best(const hyp_el_extractor *e, uint32_t node, const bool *settled)
{
    double cost = e->p.cost[node];
    for (uint32_t k = e->p.kid_at[node]; k < e->p.kid_at[node + 1]; k++) {
        if (!settled[e->p.kids[k]]) return false;
        cost += e->weight[e->p.kids[k]];
    }
    return cost == e->weight[e->p.owner[node]];
}

/* Of terms of equal cost, takes the one that egglog takes: that which rounds over all rows in their order reach first. Few
 * rounds reach nearly all; what they do not reach keeps the solver's choice, which only leads to classes that are as good.
 */
static hyp_status break_ties(hyp_el_extractor *e, hyp_diag *diag)
{
    enum { ROUNDS = 64 };
    bool *settled = hyp_calloc(e->p.class_count + 1, sizeof *settled), more = true;
    if (!settled) return hyp_fail_memory(diag, e->p.class_count);
    for (int round = 0; round < ROUNDS && more; round++) {
        more = false;
        for (uint32_t n = 0; n < e->p.node_count; n++) {
            uint32_t c = e->p.owner[n];
            if (settled[c] || e->choice[c] == HYP_EL_NONE || !is_best(e, n, settled)) continue;
            e->choice[c] = n;
            settled[c] = more = true;
        }
    }
    hyp_free(settled);
    return HYP_OK;
}

hyp_status hyp_el_extractor_begin(hyp_el_extractor *e, hyp_egglog *db, hyp_diag *diag)
{
    *e = (hyp_el_extractor){.db = db};
    e->number = hyp_calloc(db->parent.len + 1, sizeof *e->number);
    return e->number ? HYP_OK : hyp_fail_memory(diag, db->parent.len * sizeof *e->number);
}

hyp_status hyp_el_extractor_solve(hyp_el_extractor *e, hyp_diag *diag)
{
    size_t limit = e->db->options.max_bytes;
    e->db->options.max_bytes = 0; /* what is there can be extracted when a limit is met */
    hyp_status status = reach(e, diag);
    e->db->options.max_bytes = limit;
    HYP_TRY(status);
    size_t nodes = e->nodes.len, classes = e->sorts.len, kids = fill(e, true);
    if (nodes >= UINT32_MAX || kids >= UINT32_MAX) return hyp_fail(diag, HYP_ERR_LIMIT, "too many terms to extract from");
    HYP_TRY(hyp_problem_alloc(&e->p, classes, nodes, kids, 0, diag));
    e->choice = hyp_malloc((classes + 1) * sizeof *e->choice);
    e->weight = hyp_malloc((classes + 1) * sizeof *e->weight);
    if (!e->choice || !e->weight) return hyp_fail_memory(diag, classes * sizeof *e->weight);
    e->p.kid_at[0] = 0;
    fill(e, false);
    for (size_t c = 0; c < classes; c++) e->choice[c] = HYP_EL_NONE;
    HYP_TRY(hyp_problem_link(&e->p, diag));
    HYP_TRY(hyp_solve_tree(&e->p, true, e->choice, e->weight, diag));
    return break_ties(e, diag);
}

void hyp_el_extractor_dispose(hyp_el_extractor *e)
{
    hyp_problem_dispose(&e->p);
    hyp_free(e->number);
    hyp_vec_free(&e->ids);
    hyp_vec_free(&e->sorts);
    hyp_vec_free(&e->nodes);
    hyp_free(e->choice);
    hyp_free(e->weight);
}

/* ---- text ----------------------------------------------------------------------------------------------------------- */

/* What is still to be written, the next last: terms may be deeper than the stack of a thread is. */
typedef struct task {
    const char *text; /* NULL: a value */
    uint32_t sort, value;
} task;
typedef HYP_VEC(task) tasks;

static bool later(tasks *todo, const char *text, uint32_t sort, uint32_t value)
{
    return hyp_vec_push(todo, NULL, (task){text, sort, value}) == HYP_OK;
}

/* The columns of a call, behind its name. */
static bool call_later(tasks *todo, const hyp_el_function *f, const uint32_t *row)
{
    bool good = later(todo, ")", 0, 0);
    for (uint32_t c = f->arity; c-- > 0 && good;) good = later(todo, NULL, f->sorts[c], row[c]) && later(todo, " ", 0, 0);
    return good;
}

static bool container_later(tasks *todo, const hyp_egglog *db, const hyp_el_sort *s, hyp_el_value v, hyp_strbuf *sb)
{
    static const char *const name[] = {"vec", "set", "map"};
    uint32_t len;
    const uint32_t *words = hyp_el_words(db, v, &len);
    const char *kind = name[s->kind - HYP_EL_VEC];
    bool good = true, map = s->kind == HYP_EL_MAP;
    if (!len) {
        hyp_strbuf_printf(sb, "(%s-empty)", kind);
        return true;
    }
    for (uint32_t i = 0; map && i < len; i += 2) hyp_strbuf_puts(sb, "(map-insert ");
    hyp_strbuf_puts(sb, map ? "(map-empty)" : s->kind == HYP_EL_SET ? "(set-of" : "(vec-of");
    if (!map) good = later(todo, ")", 0, 0);
    for (uint32_t i = len; i-- > 0 && good;) {
        if (map && i % 2) good = later(todo, ")", 0, 0);
        good = good && later(todo, NULL, map && i % 2 == 0 ? s->key : s->element, words[i]) && later(todo, " ", 0, 0);
    }
    return good;
}

static bool write_value(const hyp_el_extractor *e, tasks *todo, uint32_t sort, hyp_el_value v, hyp_strbuf *sb)
{
    const hyp_el_sort *s = &e->db->sorts.data[sort];
    if (s->kind >= HYP_EL_VEC) return container_later(todo, e->db, s, v, sb);
    if (s->kind != HYP_EL_EQ) {
        hyp_el_print_literal(e->db, sort, v, sb);
        return true;
    }
    uint32_t node = hyp_el_choice(e, v);
    if (node == HYP_EL_NONE) {
        hyp_strbuf_puts(sb, "Unextractable");
        return true;
    }
    const hyp_el_function *f = &e->db->functions.data[e->nodes.data[node].function];
    hyp_strbuf_printf(sb, "(%s", f->name);
    return call_later(todo, f, hyp_el_row(&f->table, e->nodes.data[node].row));
}

static void write_all(const hyp_el_extractor *e, tasks *todo, bool good, hyp_strbuf *sb)
{
    while (todo->len && good && !sb->failed) {
        task t = todo->data[--todo->len];
        if (t.text)
            hyp_strbuf_puts(sb, t.text);
        else
            good = write_value(e, todo, t.sort, t.value, sb);
        if (sb->len > LONGEST) good = false;
    }
    if (!good) sb->failed = true;
    hyp_vec_free(todo);
}

void hyp_el_write_term(const hyp_el_extractor *e, uint32_t sort, hyp_el_value v, hyp_strbuf *sb)
{
    tasks todo = {0};
    bool good = later(&todo, NULL, sort, v);
    write_all(e, &todo, good, sb);
}

void hyp_el_write_row(const hyp_el_extractor *e, uint32_t function, uint32_t row, hyp_strbuf *sb)
{
    tasks todo = {0};
    const hyp_el_function *f = &e->db->functions.data[function];
    hyp_strbuf_printf(sb, "(%s", f->name);
    bool good = call_later(&todo, f, hyp_el_row(&f->table, row));
    write_all(e, &todo, good, sb);
}
