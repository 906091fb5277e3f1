/* egraph.c - an e-graph as its users see it: made, asked, added to, united. */
#include "hypatia/egraph.h"

#include <string.h>

#include "base/sexpr.h"
#include "base/sized.h"
#include "egraph/core/record.h"
#include "egraph/core/sorts.h"
#include "egraph/core/state.h"

/* ---- life --------------------------------------------------------------------------------------- */

hyp_status hyp_egraph_create(const hyp_egraph_options *options, hyp_egraph **out, hyp_diag *diag)
{
    HYP_NEED(out);
    hyp_egraph_options o = {.size = sizeof o};
    HYP_TRY(hyp_sized_take(&o, options, hyp_egraph_options, diag));
    hyp_egraph *eg = hyp_calloc(1, sizeof *eg);
    if (!eg) return hyp_fail_memory(diag, sizeof *eg);
    eg->limit_hit = HYP_STOP_SATURATED;
    eg->epoch = 1;
    if (o.analysis) eg->analysis = *o.analysis;
    eg->explain = o.explain;
    eg->explain_all = o.explain && o.explain_all;
    eg->renumbered = o.renumbered;
    eg->renumbered_user = o.renumbered_user;
    if (eg->analysis.data_size) {
        eg->fact_scratch = hyp_malloc(eg->analysis.data_size);
        if (!eg->fact_scratch) {
            hyp_free(eg);
            return hyp_fail_memory(diag, o.analysis->data_size);
        }
    } else {
        eg->analysis.make = NULL;
        eg->analysis.merge = NULL;
    }
    *out = eg;
    return HYP_OK;
}

void hyp_egraph_destroy(hyp_egraph *eg)
{
    if (!eg || hyp_eg_in_use(eg)) return;
    hyp_eg_drop_routes(eg);
    hyp_eg_free_rulesets(eg);
    for (size_t i = 0; i < eg->ops.len; i++) {
        hyp_eg_free(&eg->ops.data[i].log);
        hyp_eg_free(&eg->ops.data[i].marks);
    }
    hyp_eg_free(&eg->ops);
    hyp_eg_free(&eg->logged);
    hyp_eg_free(&eg->first_op);
    hyp_eg_discard_saved(eg);
    hyp_undo_dispose(eg, &eg->undo);
    hyp_large_free(eg->kept_since, eg->kept_cap * sizeof *eg->kept_since);
    hyp_eg_free_rows(eg);
    hyp_index_dispose(eg);
    hyp_free(eg->fact_scratch);
    hyp_eg_free(&eg->pending);
    hyp_eg_free(&eg->remake);
    hyp_eg_free(&eg->changed);
    hyp_eg_free(&eg->modify);
    hyp_eg_free(&eg->proofs.apps);
    hyp_eg_free(&eg->proofs.given);
    hyp_eg_free(&eg->proofs.milestones);
    hyp_arena_dispose(&eg->proofs.told);
    hyp_eg_free(&eg->proofs.kinds);
    hyp_vec_free(&eg->callbacks);
    hyp_sorts_destroy(eg->sorts);
    hyp_eg_view_dispose(eg);
    hyp_intern_dispose(&eg->callback_names);
    hyp_intern_dispose(&eg->symbols);
    hyp_free(eg);
}

void hyp_egraph_cancel(hyp_egraph *eg)
{
    if (eg) atomic_store(&eg->cancel, true);
}

/* ---- callbacks ---------------------------------------------------------------------------------- */

hyp_status hyp_eg_may_change(const hyp_egraph *eg, hyp_diag *diag)
{
    if (!eg->reader) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "inside %s an e-graph may be read, not changed", eg->reader);
}

hyp_status hyp_eg_may_rebuild(const hyp_egraph *eg, const char *what, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_may_change(eg, diag));
    if (!eg->busy) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s was called from inside a callback", what);
}

/* ---- symbols and callbacks ---------------------------------------------------------------------- */

hyp_status hyp_egraph_symbol(hyp_egraph *eg, const char *name, hyp_symbol *out, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(name);
    HYP_NEED(out);
    size_t len = strlen(name);
    if (hyp_text_prefix(name, len) < len) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a symbol that is not UTF-8");
    return hyp_intern_add(&eg->symbols, name, len, out, diag);
}

const char *hyp_egraph_symbol_name(const hyp_egraph *eg, hyp_symbol symbol)
{
    if (!eg) return NULL;
    return symbol < eg->symbols.names.len ? eg->symbols.names.data[symbol] : NULL;
}

static hyp_status add_callback(hyp_egraph *eg, const char *name, const hyp_callback *callback, hyp_diag *diag)
{
    uint32_t id;
    if (hyp_intern_find(&eg->callback_names, name, strlen(name), &id) && id < eg->callbacks.len)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a condition or function named '%s' is registered already",
                        name);
    HYP_TRY(hyp_vec_reserve(&eg->callbacks, eg->callbacks.len + 1, diag));
    HYP_TRY(hyp_intern_add(&eg->callback_names, name, strlen(name), &id, diag));
    eg->callbacks.data[eg->callbacks.len++] = *callback;
    return HYP_OK;
}

hyp_status hyp_egraph_register_condition(hyp_egraph *eg, const char *name, int arity, hyp_condition_fn fn, void *user,
                                         hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(name);
    HYP_NEED(fn);
    return add_callback(eg, name, &(hyp_callback){.is_condition = true, .arity = arity, .condition = fn, .user = user}, diag);
}

hyp_status hyp_egraph_register_function(hyp_egraph *eg, const char *name, int arity, hyp_function_fn fn, void *user,
                                        hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(name);
    HYP_NEED(fn);
    return add_callback(eg, name, &(hyp_callback){.arity = arity, .function = fn, .user = user}, diag);
}

/* ---- terms -------------------------------------------------------------------------------------- */

static hyp_status check_ids(const hyp_egraph *eg, const hyp_class_id *ids, size_t count, hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= eg->row_count)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", ids[i]);
    return HYP_OK;
}

hyp_status hyp_egraph_add(hyp_egraph *eg, hyp_symbol op, const hyp_class_id *children, size_t count, hyp_class_id *out,
                          hyp_enode_id *out_node, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(children, count);
    uint32_t id, row;
    bool created;
    if (op >= eg->symbols.names.len)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no symbol of this e-graph", op);
    if (count >= HYP_ROW_LIMIT) return hyp_fail(diag, HYP_ERR_LIMIT, "%zu children are too many", count);
    HYP_TRY(check_ids(eg, children, count, diag));
    HYP_TRY(hyp_sorts_check(eg, op, children, count, diag));
    id = hyp_eg_op_find(eg, op, (uint32_t)count);
    if (id == HYP_NONE) HYP_TRY(hyp_eg_op(eg, op, (uint32_t)count, &id, diag));
    HYP_TRY(hyp_eg_add(eg, id, children, HYP_NONE, &row, &created, diag));
    if (out) *out = hyp_eg_find(eg, row);
    if (out_node) *out_node = row;
    return HYP_OK;
}

hyp_class_id hyp_egraph_lookup(hyp_egraph *eg, hyp_symbol op, const hyp_class_id *children, size_t count)
{
    if (!eg || (!children && count)) return HYP_NONE;
    enum { SMALL = 16 };
    uint32_t small[SMALL] = {0}, *kids = small;
    uint32_t id = count < HYP_ROW_LIMIT ? hyp_eg_op_find(eg, op, (uint32_t)count) : HYP_NONE;
    if (id == HYP_NONE || check_ids(eg, children, count, NULL) != HYP_OK) return HYP_NONE;
    if (count > SMALL && !(kids = hyp_malloc(count * sizeof *kids))) return HYP_NONE;
    for (size_t i = 0; i < count; i++) kids[i] = hyp_eg_find(eg, children[i]);
    uint32_t row = hyp_eg_lookup(eg, id, kids);
    if (kids != small) hyp_free(kids);
    return row == HYP_NONE ? HYP_NONE : hyp_eg_find(eg, row);
}

/* A list of a term that is being added, with the classes of its children so far from `base` on. */
typedef struct open_term {
    const hyp_sexpr *sx;
    hyp_symbol symbol;
    size_t base;
} open_term;

typedef struct term_adder {
    hyp_egraph *eg;
    HYP_VEC(open_term) open;
    HYP_VEC(hyp_class_id) classes;
    hyp_diag *diag;
} term_adder;

static hyp_status open_a_term(term_adder *t, const hyp_sexpr *sx)
{
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST)
        return hyp_sexpr_fail(t->diag, "term", sx, HYP_ERR_MALFORMED, "a term in parentheses begins with an operator");
    HYP_TRY(hyp_vec_push(&t->open, t->diag, (open_term){.sx = sx, .base = t->classes.len}));
    return hyp_egraph_symbol(t->eg, head->text, &t->open.data[t->open.len - 1].symbol, t->diag);
}

/* Terms may be nested deeper than calls could be. */
static hyp_status add_sexpr(term_adder *t, const hyp_sexpr *sx)
{
    HYP_TRY(open_a_term(t, sx));
    while (t->open.len) {
        const open_term *top = &t->open.data[t->open.len - 1];
        size_t count = top->sx->kind == HYP_SX_LIST ? top->sx->count - 1 : 0, done = t->classes.len - top->base;
        if (done < count) {
            HYP_TRY(open_a_term(t, top->sx->items[done + 1]));
            continue;
        }
        hyp_class_id c;
        HYP_TRY(hyp_vec_reserve(&t->classes, top->base + 1, t->diag));
        HYP_TRY(hyp_egraph_add(t->eg, top->symbol, t->classes.data + top->base, count, &c, NULL, t->diag));
        t->classes.data[top->base] = c;
        t->classes.len = top->base + 1;
        t->open.len--;
    }
    return HYP_OK;
}

hyp_status hyp_egraph_add_text(hyp_egraph *eg, const char *term, hyp_class_id *out, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(term);
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    term_adder t = {.eg = eg, .diag = diag};
    hyp_status status = hyp_sexpr_parse_deep(&arena, "term", term, strlen(term), SIZE_MAX, &forms, diag);
    if (status == HYP_OK && forms->count != 1)
        status = hyp_fail(diag, HYP_ERR_MALFORMED, "one term was wanted, %u were found in: %s", forms->count, term);
    if (status == HYP_OK) status = add_sexpr(&t, forms->items[0]);
    if (status == HYP_OK && out) *out = t.classes.data[0];
    hyp_vec_free(&t.open);
    hyp_vec_free(&t.classes);
    hyp_arena_dispose(&arena);
    return status;
}

hyp_class_id hyp_egraph_find(hyp_egraph *eg, hyp_class_id c)
{
    if (!eg) return HYP_NONE;
    return c < eg->row_count ? hyp_eg_find(eg, c) : HYP_NONE;
}

hyp_status hyp_egraph_union(hyp_egraph *eg, hyp_class_id a, hyp_class_id b, const char *reason, bool *out_changed,
                            hyp_diag *diag)
{
    HYP_NEED(eg);
    const hyp_class_id both[2] = {a, b};
    uint32_t why = HYP_NONE;
    bool changed = false;
    HYP_TRY(hyp_eg_may_change(eg, diag));
    HYP_TRY(check_ids(eg, both, 2, diag));
    HYP_TRY(hyp_sorts_agree(eg, a, b, diag));
    if (eg->explain && hyp_eg_find(eg, a) != hyp_eg_find(eg, b)) {
        hyp_symbol symbol;
        HYP_TRY(hyp_egraph_symbol(eg, reason ? reason : "given", &symbol, diag));
        HYP_TRY(hyp_eg_reserve_union(eg, diag));
        HYP_TRY(hyp_proof_reserve(eg, 3, 1, diag));
        why = hyp_proof_state(eg, a, b, symbol);
    }
    HYP_TRY(hyp_eg_union(eg, a, b, why, &changed, diag));
    if (out_changed) *out_changed = changed;
    return HYP_OK;
}

/* ---- reading ------------------------------------------------------------------------------------ */

size_t hyp_egraph_node_count(const hyp_egraph *eg) { return eg ? eg->live_count : 0; }
size_t hyp_egraph_class_count(const hyp_egraph *eg) { return eg ? eg->class_count : 0; }
size_t hyp_egraph_class_bound(const hyp_egraph *eg) { return eg ? eg->row_count : 0; }
size_t hyp_egraph_enode_bound(const hyp_egraph *eg) { return eg ? eg->row_count : 0; }

hyp_symbol hyp_enode_op(const hyp_egraph *eg, hyp_enode_id n)
{
    return eg && n < eg->row_count ? eg->ops.data[hyp_row_op(eg, n)].symbol : HYP_NONE;
}

const hyp_class_id *hyp_enode_children(const hyp_egraph *eg, hyp_enode_id n, size_t *out_count)
{
    if (!eg || !out_count) return NULL;
    *out_count = 0;
    if (n >= eg->row_count) return NULL;
    size_t count = *out_count = eg->ops.data[hyp_row_op(eg, n)].arity;
    return count <= 2 ? eg->rows[n].kid : eg->pool + eg->rows[n].kid[0];
}

hyp_class_id hyp_enode_class(hyp_egraph *eg, hyp_enode_id n) { return hyp_egraph_find(eg, n); }

void *hyp_egraph_data(hyp_egraph *eg, hyp_class_id c)
{
    if (!eg) return NULL;
    return eg->analysis.data_size && c < eg->row_count ? hyp_fact(eg, hyp_eg_find(eg, c)) : NULL;
}
