/* declare.c - reads declarations of operators, and holds rules to them. */
#include <string.h>

#include "egraph/core/sorts.h"
#include "egraph/rules/reader.h"

/* ---- (operators SORT (NAME ARG...)...), (literals SORT KIND...) ------------------------------------------ */

bool hyp_declares(const hyp_sexpr *form)
{
    return hyp_sexpr_is_form(form, "operators") || hyp_sexpr_is_form(form, "literals");
}

/* The number of a sort, which is one from now on; `any` where its name ends in dots. */
static hyp_status read_sort(hyp_rule_reader *p, const hyp_sexpr *sx, uint32_t *out, bool *any)
{
    size_t len = sx->kind == HYP_SX_SYMBOL ? strlen(sx->text) : 0;
    bool dots = len > 3 && strcmp(sx->text + len - 3, "...") == 0;
    if (len == 0 || (dots && !any)) return hyp_rule_fail(p, sx, "the name of a sort is a word");
    if (any) *any = dots;
    return hyp_intern_add(&p->eg->sorts->names, sx->text, dots ? len - 3 : len, out, p->diag);
}

static hyp_status read_operator(hyp_rule_reader *p, const hyp_sexpr *sx, uint32_t result)
{
    enum { MOST = 64 };
    uint32_t args[MOST], symbol;
    bool any = false;
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST) return hyp_rule_fail(p, sx, "an operator is (name sort...)");
    uint32_t count = sx->kind == HYP_SX_LIST ? sx->count - 1 : 0;
    if (count > MOST)
        return hyp_rule_fail(p, sx, "an operator has up to %d arguments; the last sort may be SORT...", MOST);
    for (uint32_t j = 0; j < count; j++) {
        HYP_TRY(read_sort(p, sx->items[j + 1], &args[j], &any));
        if (any && j + 1 < count)
            return hyp_rule_fail(p, sx->items[j + 1], "only the last argument may be there any number of times");
    }
    HYP_TRY(hyp_intern_add(&p->eg->symbols, head->text, strlen(head->text), &symbol, p->diag));
    hyp_diag said = {0};
    hyp_status status = hyp_sorts_add(p->eg, symbol, args, count, any, result, &said);
    return status == HYP_ERR_MALFORMED ? hyp_rule_fail(p, sx, "%s", said.message) : status;
}

static hyp_status read_literal(hyp_rule_reader *p, const hyp_sexpr *sx, uint32_t sort)
{
    static const char *const kinds[] = {"int", "float", "name"};
    for (int i = 0; i < HYP_LITERALS; i++) {
        if (!hyp_sexpr_is(sx, kinds[i])) continue;
        uint32_t *slot = &p->eg->sorts->literal[i];
        if (*slot != HYP_NONE && *slot != sort)
            return hyp_rule_fail(p, sx, "a literal of kind %s is of another sort already", kinds[i]);
        *slot = sort;
        return HYP_OK;
    }
    return hyp_rule_fail(p, sx, "the kinds of literals are int, float and name");
}

hyp_status hyp_declare_form(hyp_rule_reader *p, const hyp_sexpr *form)
{
    uint32_t sort;
    hyp_diag said = {0};
    p->name = NULL;
    hyp_status status = hyp_sorts_begin(p->eg, &said);
    if (status == HYP_ERR_INVALID_ARGUMENT) return hyp_rule_fail(p, form, "%s", said.message);
    HYP_TRY(status);
    if (form->count < 3)
        return hyp_rule_fail(p, form, "a declaration is (operators SORT (name SORT...)...) or (literals SORT kind...)");
    HYP_TRY(read_sort(p, form->items[1], &sort, NULL));
    bool literals = hyp_sexpr_is_form(form, "literals");
    for (uint32_t i = 2; i < form->count; i++)
        HYP_TRY(literals ? read_literal(p, form->items[i], sort) : read_operator(p, form->items[i], sort));
    return HYP_OK;
}

hyp_status hyp_egraph_declare(hyp_egraph *eg, const char *file, const char *text, size_t len, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(text, len);
    HYP_TRY(hyp_eg_may_change(eg, diag));
    if (!text) text = ""; /* of no length */
    hyp_rule_reader p = {.eg = eg, .file = file ? file : "declarations", .diag = diag};
    const hyp_sexpr *forms;
    hyp_status status = hyp_sexpr_parse(&p.scratch, p.file, text, len, &forms, diag);
    for (uint32_t i = 0; status == HYP_OK && i < forms->count; i++)
        status =
            hyp_declares(forms->items[i])
                ? hyp_declare_form(&p, forms->items[i])
                : hyp_rule_fail(&p, forms->items[i], "a declaration is (operators SORT ...) or (literals SORT ...)");
    hyp_arena_dispose(&p.scratch);
    return status;
}

const char *hyp_egraph_sort(hyp_egraph *eg, hyp_class_id c)
{
    if (!eg || !eg->sorts || c >= eg->row_count) return NULL;
    uint32_t sort = hyp_sorts_of_class(eg, c);
    return sort == HYP_NONE ? NULL : eg->sorts->names.names.data[sort];
}

/* ---- rules --------------------------------------------------------------------------------------------- */

/* The sorts that a rule's variables have, as far as its terms say. */
typedef struct rule_sorts {
    hyp_rule_reader *p;
    const hyp_sexpr *form; /* for the place */
    uint32_t *of;          /* by register; HYP_NONE: not known yet */
    bool changed;
} rule_sorts;

static hyp_status note_sort(rule_sorts *r, uint32_t reg, uint32_t sort)
{
    if (sort == HYP_NONE || r->of[reg] == sort) return HYP_OK;
    const hyp_intern *names = &r->p->eg->sorts->names;
    if (r->of[reg] != HYP_NONE)
        return hyp_rule_fail(r->p, r->form, "a %s stands where a %s is wanted", names->names.data[r->of[reg]],
                             names->names.data[sort]);
    r->of[reg] = sort;
    r->changed = true;
    return HYP_OK;
}

/* Of one way to use an operator: what its variables are. Behind a sequence variable places are not known. */
static hyp_status note_kids(rule_sorts *r, const hyp_pat *pat, uint32_t way)
{
    const hyp_sorts *s = r->p->eg->sorts;
    const hyp_declared *d = &s->all.data[way];
    for (uint32_t j = 0; j < pat->count && d->count; j++) {
        if (pat->kids[j].kind == HYP_PAT_SEQ) break;
        if (pat->kids[j].kind == HYP_PAT_VAR) HYP_TRY(note_sort(r, pat->kids[j].reg, hyp_declared_arg(s, d, j)));
    }
    return HYP_OK;
}

static bool has_way(const hyp_egraph *eg, hyp_symbol symbol)
{
    return hyp_declared_first(eg->sorts, symbol) != HYP_NONE;
}

static hyp_status sort_of_pat(rule_sorts *r, const hyp_pat *pat, uint32_t *out);

static hyp_status sort_of_node(rule_sorts *r, const hyp_pat *pat, uint32_t *out)
{
    uint32_t *args = hyp_arena_alloc(&r->p->scratch, pat->count * sizeof *args), way;
    hyp_diag said = {0};
    if (!args) return hyp_fail_memory(r->p->diag, pat->count * sizeof *args);
    for (uint32_t j = 0; j < pat->count; j++) HYP_TRY(sort_of_pat(r, &pat->kids[j], &args[j]));
    hyp_status status;
    if (pat->sequence != HYP_NONE && has_way(r->p->eg, pat->symbol)) { /* it may have any number of children */
        const hyp_sorts *s = r->p->eg->sorts;
        *out = s->all.data[hyp_declared_first(s, pat->symbol)].result;
        return HYP_OK;
    }
    status = hyp_sorts_of(r->p->eg, pat->symbol, args, pat->count, out, &way, &said);
    if (status != HYP_OK)
        return status == HYP_ERR_MALFORMED ? hyp_rule_fail(r->p, r->form, "%s", said.message)
                                           : hyp_fail_memory(r->p->diag, 0);
    return way == HYP_NONE ? HYP_OK : note_kids(r, pat, way);
}

/* The sort of a term of a rule, HYP_NONE while it is not known: a function may give anything. */
static hyp_status sort_of_pat(rule_sorts *r, const hyp_pat *pat, uint32_t *out)
{
    *out = HYP_NONE;
    if (pat->kind == HYP_PAT_VAR) *out = r->of[pat->reg];
    if (pat->kind == HYP_PAT_NODE) return sort_of_node(r, pat, out);
    uint32_t ignored;
    for (uint32_t j = 0; pat->kind == HYP_PAT_CALL && j < pat->count; j++)
        HYP_TRY(sort_of_pat(r, &pat->kids[j], &ignored));
    return HYP_OK;
}

static hyp_status check_cond(rule_sorts *r, const hyp_cond *cond)
{
    uint32_t ignored;
    for (uint32_t i = 0; i < cond->count; i++)
        HYP_TRY(cond->kind == HYP_COND_CALL ? sort_of_pat(r, &cond->args[i], &ignored) : check_cond(r, &cond->kids[i]));
    return HYP_OK;
}

static hyp_status check_action(rule_sorts *r, const hyp_action *action)
{
    uint32_t left, right;
    if (action->root)
        left = r->of[action->root->reg];
    else
        HYP_TRY(sort_of_pat(r, &action->left, &left));
    HYP_TRY(sort_of_pat(r, &action->right, &right));
    if (left == right || left == HYP_NONE || right == HYP_NONE) {
        if (action->right.kind == HYP_PAT_VAR) HYP_TRY(note_sort(r, action->right.reg, left));
        return HYP_OK;
    }
    const hyp_intern *names = &r->p->eg->sorts->names;
    return hyp_rule_fail(r->p, r->form, "its left side is a %s and its right side a %s", names->names.data[left],
                         names->names.data[right]);
}

hyp_status hyp_rule_check_sorts(hyp_rule_reader *p, const hyp_sexpr *form)
{
    const hyp_rule *rule = p->rule;
    if (!p->eg->sorts) return HYP_OK;
    rule_sorts r = {
        .p = p, .form = form, .of = hyp_arena_alloc(&p->scratch, rule->reg_count * sizeof *r.of), .changed = true};
    if (!r.of) return hyp_fail_memory(p->diag, rule->reg_count * sizeof *r.of);
    memset(r.of, 0xff, rule->reg_count * sizeof *r.of);
    while (r.changed) { /* each time a variable more is known */
        r.changed = false;
        for (uint32_t i = 0; i < rule->left_count; i++) {
            uint32_t sort;
            HYP_TRY(sort_of_pat(&r, &rule->left[i], &sort));
            HYP_TRY(note_sort(&r, rule->left[i].reg, sort));
        }
        for (uint32_t i = 0; i < rule->action_count && !p->eg->sorts->left_only; i++)
            HYP_TRY(check_action(&r, &rule->actions[i]));
        if (rule->cond) HYP_TRY(check_cond(&r, rule->cond));
    }
    return HYP_OK;
}
