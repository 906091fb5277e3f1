/* Why a rule did not change a node: it found nothing to match, its premises do not hold, or what it made costs more. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

enum { MAX_PLACES = 8 };

/* A place where the rule applies. */
typedef struct place {
    hyp_class_id root;
    hyp_class_id right; /* its e-node, or a class */
} place;

typedef struct asker {
    const hyp_rw_inquiry *q;
    hyp_rw_view view;
    hyp_rule_info rule;
    hyp_arena arena;
    place places[MAX_PLACES];
    size_t count;
    bool focused; /* on one node */
    size_t least;  /* e-nodes that have to be found, else that one is missing is not told */
    bool told;    /* something about the rule's premises */
    hyp_class_id root; /* of what was told */
} asker;

/* ---- terms of rules ------------------------------------------------------------------------------- */

/* The text of a rule's part, in the form that people write. */
static hyp_status write_premise(asker *a, const char *text)
{
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    hyp_status status = hyp_sexpr_parse(&arena, "rule", text, strlen(text), &forms, a->q->diag);
    for (uint32_t i = 0; status == HYP_OK && i < forms->count; i++) hyp_rw_spell(a->q->out, forms->items[i]);
    hyp_arena_dispose(&arena);
    return status;
}

/* Whether a variable stands in a text, and not as the beginning of a longer one. */
static bool mentions(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += len)
        if (at[len] == ' ' || at[len] == ')' || at[len] == 0) return true;
    return false;
}

/* What the variables of a text stand for. */
static void write_variables(asker *a, const hyp_near_miss *near)
{
    for (size_t i = 0; i < near->variable_count; i++) {
        if (!mentions(near->premise, near->variables[i].name)) continue;
        hyp_strbuf_printf(a->q->out, "      %s is ", near->variables[i].name);
        hyp_rw_describe(&a->view, a->q->out, near->variables[i].class_id);
        hyp_strbuf_puts(a->q->out, "\n");
    }
}

/* The operators that a class has e-nodes of. */
static hyp_status write_operators(asker *a, hyp_class_id c)
{
    enum { MOST = 6 };
    hyp_egraph *eg = a->q->rw->eg;
    hyp_symbol shown[MOST];
    size_t count, n = 0;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
    if (!nodes) return hyp_fail_memory(a->q->diag, 0);
    for (size_t i = 0; i < count && n < MOST; i++) {
        hyp_symbol op = hyp_enode_op(eg, nodes[i]);
        const char *name = hyp_egraph_symbol_name(eg, op);
        bool again = false;
        for (size_t k = 0; k < n; k++) again = again || shown[k] == op;
        if (again) continue;
        if (name[0] == '%') name = hyp_rw_fact_of(a->q->rw, c)->constant ? "a constant" : "an input";
        hyp_strbuf_printf(a->q->out, "%s%s", n ? ", " : "", name);
        shown[n++] = op;
    }
    return HYP_OK;
}

static hyp_status tell_miss(asker *a, const hyp_near_miss *near)
{
    hyp_strbuf *out = a->q->out;
    hyp_strbuf_printf(out, "%s: no match", a->q->phase);
    if (near->root != HYP_NONE) {
        hyp_strbuf_puts(out, "; it gets furthest at ");
        hyp_rw_describe(&a->view, out, near->root);
    }
    hyp_strbuf_puts(out, near->kind == HYP_NEAR_USER ? "\n    nothing that uses " : "\n    wanted ");
    if (near->kind == HYP_NEAR_USER) {
        hyp_rw_describe(&a->view, out, near->at);
        hyp_strbuf_puts(out, " is ");
        HYP_TRY(write_premise(a, near->premise));
    } else {
        HYP_TRY(write_premise(a, near->premise));
        hyp_strbuf_puts(out, " where there is ");
        hyp_rw_describe(&a->view, out, near->at);
        hyp_strbuf_puts(out, ", which is: ");
        HYP_TRY(write_operators(a, near->at));
    }
    hyp_strbuf_puts(out, "\n");
    if (near->kind == HYP_NEAR_VARIABLE) {
        hyp_strbuf_puts(out, "      it stands for ");
        hyp_rw_describe(&a->view, out, near->other);
        hyp_strbuf_puts(out, " already\n");
    }
    write_variables(a, near);
    return HYP_OK;
}

static hyp_status tell_premise(asker *a, const hyp_near_miss *near)
{
    hyp_strbuf *out = a->q->out;
    hyp_strbuf_printf(out, "%s: it matches ", a->q->phase);
    hyp_rw_describe(&a->view, out, near->root);
    hyp_strbuf_puts(out, near->kind == HYP_NEAR_CONDITION ? ", but this does not hold: " : ", but this has no result: ");
    HYP_TRY(write_premise(a, near->premise));
    hyp_strbuf_puts(out, "\n");
    write_variables(a, near);
    return HYP_OK;
}

static hyp_status on_near(const hyp_near_miss *near, void *user, hyp_diag *diag)
{
    asker *a = user;
    (void)diag;
    if (near->kind == HYP_NEAR_OPERATOR && near->matched < a->least && !a->focused) return HYP_OK; /* not even its root */
    a->root = near->root;
    switch (near->kind) {
    case HYP_NEAR_APPLIES:
        if (a->count < MAX_PLACES) a->places[a->count++] = (place){near->root, near->right};
        return HYP_OK;
    case HYP_NEAR_PENDING:
        hyp_strbuf_printf(a->q->out, "%s: it matches ", a->q->phase);
        hyp_rw_describe(&a->view, a->q->out, near->root);
        if (!hyp_rw_may_unite(a->q->rw, &a->rule, near->root, near->right))
            hyp_strbuf_puts(a->q->out, " and its premises hold, but this value's bits are determined and a node of the "
                                       "model jumps by the last bit of such a value (floor, a cast, a comparison): only "
                                       "rules of class E may change it; --allow-approximate lifts this\n");
        else
            hyp_strbuf_puts(a->q->out, " and its premises hold, but it was not applied: it is disabled, or a limit ended "
                                       "the phase before\n");
        break;
    case HYP_NEAR_ALONE:
        hyp_strbuf_printf(a->q->out, "%s: it matches ", a->q->phase);
        hyp_rw_describe(&a->view, a->q->out, near->root);
        hyp_strbuf_puts(a->q->out, " and its premises hold, but there is nothing to collect with it\n");
        break;
    case HYP_NEAR_REFUSED:
        hyp_strbuf_printf(a->q->out, "%s: it matches ", a->q->phase);
        hyp_rw_describe(&a->view, a->q->out, near->root);
        hyp_strbuf_printf(a->q->out, ", but what it would make there means nothing: %s\n", near->reason);
        break;
    case HYP_NEAR_CONDITION:
    case HYP_NEAR_FUNCTION: HYP_TRY(tell_premise(a, near)); break;
    default: HYP_TRY(tell_miss(a, near)); break;
    }
    a->told = true;
    return HYP_OK;
}

/* ---- what it costs -------------------------------------------------------------------------------- */

static void write_cost(hyp_strbuf *out, const hyp_rw_weigh *w, double cost)
{
    if (w->by_form)
        hyp_strbuf_printf(out, "%.6g", cost);
    else
        hyp_strbuf_printf(out, "%.3f us", cost * 1e6);
}

/* What the best choice with this form would cost, beside the one that was made. */
static hyp_status compare(asker *a, hyp_enode_id node)
{
    const hyp_rw_inquiry *q = a->q;
    hyp_extraction with = {0};
    hyp_status status = hyp_rw_extract(q->rw, q->weigh, node, &with, q->diag);
    double cost = with.dag_cost;
    hyp_extraction_dispose(&with);
    bool never = status == HYP_ERR_UNSUPPORTED;
    if (!never) HYP_TRY(status);
    if (never || !isfinite(cost)) {
        hyp_strbuf_puts(q->out, "    but no plan can have that form: it needs the value that it computes\n");
        return HYP_OK;
    }
    if (!q->weigh->by_form && cost >= HYP_COST_UNSUPPORTED) {
        hyp_strbuf_puts(q->out, "    but the target has no kernel for it\n");
        return HYP_OK;
    }
    hyp_strbuf_puts(q->out, q->weigh->by_form ? "    but another form is the normal one: the least weight with it is "
                                              : "    but the cheapest plan found with it takes ");
    write_cost(q->out, q->weigh, cost);
    hyp_strbuf_puts(q->out, q->weigh->by_form ? ", that of what was taken " : " by the cost model, the one that was taken ");
    write_cost(q->out, q->weigh, q->choice->dag_cost);
    hyp_strbuf_puts(q->out, ": ");
    write_cost(q->out, q->weigh, cost - q->choice->dag_cost);
    hyp_strbuf_puts(q->out, cost > q->choice->dag_cost ? " more\n" : " more, and of equals the older is taken\n");
    return HYP_OK;
}

static hyp_status tell_place(asker *a, const place *p)
{
    const hyp_rw_inquiry *q = a->q;
    hyp_egraph *eg = q->rw->eg;
    hyp_class_id root = hyp_egraph_find(eg, p->root);
    size_t kids, count, i = 0;
    bool needed = root < a->view.bound && a->view.chosen[root];
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, root, &count);
    if (!nodes) return hyp_fail_memory(q->diag, 0);
    while (i < count && nodes[i] != p->right) i++;
    hyp_strbuf_printf(q->out, "%s: it applies to ", q->phase);
    hyp_rw_describe(&a->view, q->out, root);
    hyp_strbuf_puts(q->out, ", and gives ");
    bool is_node = i < count && (hyp_enode_children(eg, p->right, &kids), kids > 0);
    if (!is_node) { /* the right side is a part of the left one */
        hyp_rw_describe(&a->view, q->out, p->right);
        hyp_strbuf_puts(q->out, ", in the place of which ");
        hyp_rw_describe_form(&a->view, q->out, needed ? q->choice->choice[root] : nodes[0]);
        hyp_strbuf_puts(q->out, " was taken\n");
        return HYP_OK;
    }
    hyp_rw_describe_form(&a->view, q->out, p->right);
    hyp_strbuf_puts(q->out, "\n");
    if (needed && q->choice->choice[root] == p->right) {
        hyp_strbuf_puts(q->out, "    that form was taken\n");
        return HYP_OK;
    }
    if (!needed) hyp_strbuf_puts(q->out, "    that value is not computed on its own: it lies inside of another form\n");
    return compare(a, p->right);
}

/* ---- the call ------------------------------------------------------------------------------------- */

/* The classes that stand for a node of the model. */
static hyp_status find_focus(asker *a, const char *source, hyp_class_id **out, size_t *out_count)
{
    hyp_rw *rw = a->q->rw;
    hyp_class_id *list = *out = hyp_arena_alloc(&a->arena, (rw->encoded.len + 1) * sizeof *list);
    if (!list) return hyp_fail_memory(a->q->diag, rw->encoded.len * sizeof *list);
    *out_count = 0;
    for (hyp_enode_id n = 0; n < rw->encoded.len; n++)
        if (hyp_rw_stands_for(rw, n, source)) list[(*out_count)++] = hyp_enode_class(rw->eg, n);
    return HYP_OK;
}

static hyp_status ask(asker *a, size_t rule, const char *source)
{
    const hyp_rw_inquiry *q = a->q;
    hyp_class_id *focus = NULL;
    size_t count = 0;
    HYP_TRY(hyp_rw_view_init(&a->view, q->rw, q->choice, &a->arena, q->diag));
    if (source) HYP_TRY(find_focus(a, source, &focus, &count));
    if (source && !count) {
        hyp_strbuf_printf(q->out, "%s: nothing of '", q->phase);
        hyp_strbuf_visible(q->out, source, false);
        hyp_strbuf_puts(q->out, "' is left for this phase\n");
        return HYP_OK;
    }
    HYP_TRY(hyp_ruleset_near_misses(q->rules, rule, focus, count, MAX_PLACES, on_near, a, q->diag));
    for (size_t i = 0; i < a->count; i++) HYP_TRY(tell_place(a, &a->places[i]));
    if (!a->told && !a->count)
        hyp_strbuf_printf(q->out, "%s: nothing begins like the rule's left side\n", q->phase);
    return q->out->failed ? hyp_fail_memory(q->diag, q->out->len) : HYP_OK;
}

hyp_status hyp_rw_why_not(const hyp_rw_inquiry *q, size_t rule, const char *source)
{
    asker a = {.q = q, .focused = source != NULL, .least = 1};
    if (q->rules) a.rule = hyp_ruleset_rule(q->rules, rule);
    hyp_status status = ask(&a, rule, source);
    hyp_arena_dispose(&a.arena);
    return status;
}

hyp_status hyp_rw_near_miss(const hyp_rw_inquiry *q, const hyp_rw_view *view, size_t rule, hyp_class_id *out_root)
{
    asker a = {.q = q, .view = *view, .rule = hyp_ruleset_rule(q->rules, rule), .least = 2};
    hyp_status status = hyp_ruleset_near_misses(q->rules, rule, NULL, 0, 1, on_near, &a, q->diag);
    *out_root = a.told ? a.root : HYP_NONE;
    if (status != HYP_OK) return status;
    return q->out->failed ? hyp_fail_memory(q->diag, q->out->len) : HYP_OK;
}
