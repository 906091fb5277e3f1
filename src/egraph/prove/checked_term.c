/* checked_term.c - the terms of a proof that is checked. */
#include <string.h>

#include "base/sexpr.h"
#include "egraph/prove/checker.h"

typedef hyp_check_term term;
typedef hyp_checker checker;

static hyp_status spine(checker *c, uint64_t before, uint32_t next, uint32_t is_kid, uint32_t *out)
{
    HYP_TRY(hyp_number(&c->spines, before, next, is_kid, out, c->diag));
    if (*out < c->by_spine.len) return HYP_OK;
    return hyp_vec_push(&c->by_spine, c->diag, NULL);
}

hyp_status hyp_check_make(checker *c, const char *op, term **kids, uint32_t count, term **out)
{
    uint32_t name, at;
    HYP_TRY(hyp_intern_add(&c->ops, op, strlen(op), &name, c->diag));
    HYP_TRY(spine(c, name, count, 0, &at));
    for (uint32_t j = 0; j < count; j++) HYP_TRY(spine(c, at, kids[j]->number, 1, &at));
    *out = c->by_spine.data[at];
    if (*out) return HYP_OK;
    term *t = *out = c->by_spine.data[at] = hyp_arena_alloc(&c->arena, sizeof *t);
    if (!t) return hyp_fail_memory(c->diag, sizeof *t);
    *t = (term){c->ops.names.data[name], count, kids, c->term_count++, HYP_NONE};
    return HYP_OK;
}

static hyp_status from_sexpr(checker *c, const hyp_sexpr *sx, term **out)
{
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST) return hyp_refuse(c, "a term in parentheses begins with an operator");
    uint32_t count = sx->kind == HYP_SX_LIST ? sx->count - 1 : 0;
    term **kids = hyp_arena_zalloc(&c->arena, count, sizeof *kids);
    if (!kids) return hyp_fail_memory(c->diag, count * sizeof *kids);
    for (uint32_t j = 0; j < count; j++) HYP_TRY(from_sexpr(c, sx->items[j + 1], &kids[j]));
    return hyp_check_make(c, head->text, kids, count, out);
}

hyp_status hyp_check_read(checker *c, const char *text, term **out)
{
    const hyp_sexpr *forms;
    if (!text) return hyp_refuse(c, "a term is missing");
    hyp_status status = hyp_sexpr_parse(&c->arena, "term", text, strlen(text), &forms, c->diag);
    if (status != HYP_OK) return status == HYP_ERR_NO_MEMORY ? status : hyp_refuse(c, "this is not a term: %s", text);
    if (forms->count != 1) return hyp_refuse(c, "one term was wanted, not %u: %s", forms->count, text);
    return from_sexpr(c, forms->items[0], out);
}
