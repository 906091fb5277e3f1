/* extract.c - terms of least cost, by the solver of egraph/extract. */
#include "egraph/egglog/extract.h"

#include <math.h>
#include <string.h>

#define LONGEST ((size_t)256 << 20) /* bytes of one text */

static bool extractable(const hyp_el_function *f) { return f->kind == HYP_EL_CONSTRUCTOR && !f->unextractable; }

static bool usable(const hyp_el_table *t, size_t row)
{
    return !(*hyp_el_stamp(t, row) & HYP_EL_SUBSUMED);
} /* dead ones neither */

/* ---- the problem ------------------------------------------------------------------------------------------------ */

/* The classes in a value go to `kids` where that is not NULL; gives their number, and adds the price of the rest. */
static size_t parts(hyp_egglog *db, uint32_t sort, hyp_el_value v, uint32_t *kids, double *cost)
{
    const hyp_el_sort *s = &db->sorts.data[sort];
    if (s->kind == HYP_EL_EQ) {
        if (kids) *kids = hyp_el_find(db, v);
        return 1;
    }
    if (s->kind < HYP_EL_VEC) {
        *cost += 1;
        return 0;
    }
    uint32_t len;
    const uint32_t *words = hyp_el_words(db, v, &len);
    size_t count = 0;
    for (uint32_t i = 0; i < len; i++)
        count +=
            parts(db, s->kind == HYP_EL_MAP && i % 2 == 0 ? s->key : s->element, words[i], kids ? kids + count : NULL, cost);
    return count;
}

/* One pass over all rows: counts, or fills what was made for the counts. */
static void gather(hyp_el_extractor *e, bool fill, size_t *out_nodes, size_t *out_kids)
{
    hyp_egglog *db = e->db;
    size_t node = 0, kid = 0;
    for (uint32_t i = 0; i < db->functions.len; i++) {
        const hyp_el_function *f = &db->functions.data[i];
        if (!extractable(f)) continue;
        for (size_t row = 0; row < f->table.count; row++) {
            if (!usable(&f->table, row)) continue;
            const uint32_t *r = hyp_el_row(&f->table, row);
            double cost = f->cost;
            for (uint32_t c = 0; c < f->arity; c++)
                kid += parts(db, f->sorts[c], r[c], fill ? e->p.kids + kid : NULL, &cost);
            if (fill) {
                e->p.owner[node] = hyp_el_find(db, r[f->arity]);
                e->p.cost[node] = cost;
                e->p.kid_at[node + 1] = (uint32_t)kid;
                e->function[node] = i;
                e->row[node] = (uint32_t)row;
            }
            node++;
        }
    }
    *out_nodes = node;
    *out_kids = kid;
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
    size_t nodes, kids, classes = db->parent.len;
    gather(e, false, &nodes, &kids);
    if (nodes >= UINT32_MAX || kids >= UINT32_MAX) return hyp_fail(diag, HYP_ERR_LIMIT, "too many terms to extract from");
    HYP_TRY(hyp_problem_alloc(&e->p, classes, nodes, kids, 0, diag));
    e->function = hyp_malloc((nodes + 1) * sizeof *e->function);
    e->row = hyp_malloc((nodes + 1) * sizeof *e->row);
    e->choice = hyp_malloc((classes + 1) * sizeof *e->choice);
    e->weight = hyp_malloc((classes + 1) * sizeof *e->weight);
    if (!e->function || !e->row || !e->choice || !e->weight) return hyp_fail_memory(diag, classes * sizeof *e->weight);
    e->p.kid_at[0] = 0;
    gather(e, true, &nodes, &kids);
    for (size_t c = 0; c < classes; c++) e->choice[c] = HYP_EL_NONE;
    HYP_TRY(hyp_problem_link(&e->p, diag));
    HYP_TRY(hyp_solve_tree(&e->p, true, e->choice, e->weight, diag));
    return break_ties(e, diag);
}

void hyp_el_extractor_dispose(hyp_el_extractor *e)
{
    hyp_problem_dispose(&e->p);
    hyp_free(e->function);
    hyp_free(e->row);
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
    uint32_t node = e->choice[hyp_el_find(e->db, v)];
    if (node == HYP_EL_NONE) {
        hyp_strbuf_puts(sb, "Unextractable");
        return true;
    }
    const hyp_el_function *f = &e->db->functions.data[e->function[node]];
    hyp_strbuf_printf(sb, "(%s", f->name);
    return call_later(todo, f, hyp_el_row(&f->table, e->row[node]));
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
