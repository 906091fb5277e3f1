/* ask_again.c - asks the conditions and functions that a proof cites, in an e-graph that knows what is proven so far. */
#include "egraph/prove/checker.h"

typedef hyp_check_term term;
typedef hyp_checker checker;
typedef hyp_check_query query;

static hyp_status push(checker *c, const term *t) { return hyp_vec_push(&c->stack, c->diag, t); }

/* The class of a term in the e-graph that is asked. Terms may be nested deeper than calls could be. */
static hyp_status add_term(checker *c, term *t, hyp_class_id *out)
{
    size_t base = c->stack.len;
    if (t->asked == HYP_NONE) HYP_TRY(push(c, t));
    while (c->stack.len > base) {
        term *top = (term *)c->stack.data[c->stack.len - 1];
        size_t before = c->stack.len;
        hyp_symbol symbol;
        for (uint32_t j = 0; j < top->count; j++)
            if (top->kids[j]->asked == HYP_NONE) HYP_TRY(push(c, top->kids[j]));
        if (c->stack.len > before) continue;
        c->stack.len--;
        if (top->asked != HYP_NONE) continue; /* it was there twice */
        hyp_class_id *kids = hyp_malloc(top->count * sizeof *kids);
        if (!kids) return hyp_fail_memory(c->diag, top->count * sizeof *kids);
        for (uint32_t j = 0; j < top->count; j++) kids[j] = top->kids[j]->asked;
        hyp_status status = hyp_egraph_symbol(c->asked, top->op, &symbol, c->diag);
        if (status == HYP_OK)
            status = hyp_egraph_add(c->asked, symbol, kids, top->count, &top->asked, NULL, c->diag);
        hyp_free(kids);
        HYP_TRY(status);
    }
    *out = t->asked;
    return HYP_OK;
}

static hyp_status need_asked(checker *c)
{
    if (c->asked || c->ruleset_count == 0) return HYP_OK;
    hyp_egraph_options options = {.size = sizeof options, .analysis = &c->rulesets[0]->eg->analysis};
    return hyp_egraph_create(&options, &c->asked, c->diag);
}

hyp_status hyp_check_learn(checker *c, term *a, term *b)
{
    hyp_class_id x, y;
    HYP_TRY(need_asked(c));
    if (!c->asked) return HYP_OK;
    HYP_TRY(add_term(c, a, &x));
    HYP_TRY(add_term(c, b, &y));
    HYP_TRY(hyp_egraph_union(c->asked, x, y, NULL, NULL, c->diag));
    return hyp_egraph_rebuild(c->asked, c->diag);
}

hyp_status hyp_check_analysis_says(checker *c, term *a, term *b, bool *out)
{
    hyp_class_id x, y;
    HYP_TRY(need_asked(c));
    if (!c->asked) return HYP_OK;
    HYP_TRY(add_term(c, a, &x));
    HYP_TRY(add_term(c, b, &y));
    HYP_TRY(hyp_egraph_rebuild(c->asked, c->diag));
    *out = hyp_egraph_find(c->asked, x) == hyp_egraph_find(c->asked, y);
    return HYP_OK;
}

static hyp_status call_again(checker *c, const hyp_callback *cb, const query *q, hyp_class_id *classes)
{
    hyp_egraph *eg = c->asked;
    for (size_t i = 0; i < q->arg_count; i++) HYP_TRY(add_term(c, q->args[i], &classes[i]));
    HYP_TRY(hyp_egraph_rebuild(eg, c->diag));
    for (size_t i = 0; i < q->arg_count; i++) classes[i] = hyp_egraph_find(eg, classes[i]);
    hyp_call call = {.eg = eg, .args = classes, .arg_count = q->arg_count, .user = cb->user};
    hyp_class_id given = HYP_NONE, wanted;
    bool holds = false;
    eg->running++; /* it may not be destroyed, or run */
    hyp_status status = cb->is_condition ? cb->condition(&call, &holds, c->diag) : cb->function(&call, &given, c->diag);
    eg->running--;
    HYP_TRY(status);
    if (cb->is_condition) {
        if (holds == (q->answer == HYP_ANSWER_YES)) return HYP_OK;
        return hyp_refuse(c, "asked again, %s answers %s", q->name, holds ? "yes" : "no");
    }
    if (given == HYP_NONE) return hyp_refuse(c, "asked again, %s declines", q->name);
    HYP_TRY(add_term(c, q->result, &wanted));
    HYP_TRY(hyp_egraph_rebuild(eg, c->diag));
    if (hyp_egraph_find(eg, given) == hyp_egraph_find(eg, wanted)) return HYP_OK;
    return hyp_refuse(c, "asked again, %s gives another term than %s...", q->name, q->result->op);
}

hyp_status hyp_check_ask(checker *c, const hyp_callback *cb, const query *q)
{
    HYP_TRY(need_asked(c));
    hyp_class_id *classes = hyp_arena_alloc(&c->arena, q->arg_count * sizeof *classes);
    if (!classes) return hyp_fail_memory(c->diag, q->arg_count * sizeof *classes);
    return call_again(c, cb, q, classes);
}
