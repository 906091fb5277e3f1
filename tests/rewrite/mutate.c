#include "rewrite/mutate.h"

#include <stdio.h>
#include <string.h>

#include "rewrite/internal.h"

typedef struct mutator {
    hyp_arena *arena;
    const hyp_sexpr *each; /* the for-each around the rule, or NULL */
    const hyp_sexpr *rule;
    mutants *out;
    hyp_diag *diag;
} mutator;

static hyp_sexpr *copy_list(mutator *m, const hyp_sexpr *sx)
{
    hyp_sexpr *out = hyp_arena_zalloc(m->arena, 1, sizeof *out);
    if (!out) return NULL;
    *out = *sx;
    out->items = hyp_arena_zalloc(m->arena, sx->count + 1, sizeof *out->items);
    if (!out->items) return NULL;
    if (sx->count) memcpy(out->items, sx->items, sx->count * sizeof *out->items);
    return out;
}

static hyp_sexpr *symbol(mutator *m, const char *text)
{
    hyp_sexpr *out = hyp_arena_zalloc(m->arena, 1, sizeof *out);
    if (out) *out = (hyp_sexpr){.kind = HYP_SX_SYMBOL, .text = text};
    return out;
}

static const char *spell(mutator *m, const hyp_sexpr *sx)
{
    hyp_strbuf sb = {0};
    hyp_sexpr_print(&sb, sx);
    const char *text = hyp_arena_strdup(m->arena, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return text;
}

/* A copy of `in` with `old`, a node of it, replaced by `new`. */
static hyp_sexpr *with(mutator *m, const hyp_sexpr *in, const hyp_sexpr *old, hyp_sexpr *new)
{
    if (in == old) return new;
    if (in->kind != HYP_SX_LIST) return (hyp_sexpr *)(uintptr_t)in;
    hyp_sexpr *out = copy_list(m, in);
    for (uint32_t i = 0; out && i < in->count; i++)
        if (!(out->items[i] = with(m, in->items[i], old, new))) return NULL;
    return out;
}

static hyp_status note(mutator *m, const hyp_sexpr *rule, const char *what, const char *dropped)
{
    if (!rule || !what) return hyp_fail_memory(m->diag, 0);
    const char *text = spell(m, rule);
    if (m->each)
        text = hyp_arena_printf(m->arena, "(for-each %s %s %s)", m->each->items[1]->text, spell(m, m->each->items[2]),
                                text);
    HYP_TRY(hyp_vec_reserve(m->out, m->out->len + 1, m->diag));
    m->out->data[m->out->len++] = (mutant){what, text, m->rule, m->each ? m->each->items[2] : NULL, dropped};
    return HYP_OK;
}

/* ---- conditions ------------------------------------------------------------------------------------- */

static hyp_status drop(mutator *m, const hyp_sexpr *conditions)
{
    bool several = hyp_sexpr_is_form(conditions, "and");
    for (uint32_t i = several; i < (several ? conditions->count : 1); i++) {
        const hyp_sexpr *gone = several ? conditions->items[i] : conditions;
        hyp_sexpr *rest = copy_list(m, several ? conditions : m->rule), *rule;
        if (!rest) return hyp_fail_memory(m->diag, 0);
        if (several) {
            memmove(rest->items + i, rest->items + i + 1, (rest->count - i - 1) * sizeof *rest->items);
            rest->count--;
            rule = with(m, m->rule, conditions, rest);
        } else {
            rest->count -= 2; /* :if and its condition are the last items */
            rule = rest;
        }
        const char *head = gone->kind == HYP_SX_LIST ? gone->items[0]->text : gone->text;
        if (strcmp(head, "not") == 0 && gone->items[1]->kind == HYP_SX_LIST)
            head = hyp_arena_printf(m->arena, "not %s", gone->items[1]->items[0]->text);
        HYP_TRY(note(m, rule, hyp_arena_printf(m->arena, "without %s", spell(m, gone)), head));
    }
    return HYP_OK;
}

/* (all-equal ?c 1) holds for any constant, or within a thousand times the tolerance. */
static hyp_status widen(mutator *m, const hyp_sexpr *condition)
{
    if (condition->kind != HYP_SX_LIST) return HYP_OK;
    for (uint32_t i = 0; i < condition->count; i++) HYP_TRY(widen(m, condition->items[i]));
    bool equal = hyp_sexpr_is_form(condition, "all-equal");
    if ((!equal && !hyp_sexpr_is_form(condition, "near")) || condition->count < 3) return HYP_OK;
    const char *head = condition->items[0]->text, *spelt = spell(m, condition);
    hyp_sexpr *any = copy_list(m, condition), *wider = copy_list(m, condition);
    if (!any || !wider) return hyp_fail_memory(m->diag, 0);
    any->items[0] = symbol(m, "const");
    any->count = 2;
    HYP_TRY(note(m, with(m, m->rule, condition, any), hyp_arena_printf(m->arena, "any constant for %s", spelt), head));
    double tolerance = condition->count > 3 ? 1000 * condition->items[3]->number : 1e-3;
    wider->items[0] = symbol(m, "all-equal");
    wider->items[3] = symbol(m, hyp_arena_printf(m->arena, "%g", tolerance < 0.5 ? tolerance : 0.5));
    wider->count = 4;
    if (condition->items[2]->number == 0) return HYP_OK; /* a tolerance is a part of the number */
    return note(m, with(m, m->rule, condition, wider),
                hyp_arena_printf(m->arena, "within %s of %s", wider->items[3]->text, spelt), head);
}

/* ---- the left side ---------------------------------------------------------------------------------- */

/* A copy of a condition in which every term that is spelt as `old` is `new`: it speaks of what the left side finds. */
static hyp_sexpr *respell(mutator *m, const hyp_sexpr *in, const char *old, hyp_sexpr *new)
{
    if (strcmp(spell(m, in), old) == 0) return new;
    if (in->kind != HYP_SX_LIST) return (hyp_sexpr *)(uintptr_t)in;
    hyp_sexpr *out = copy_list(m, in);
    for (uint32_t i = 0; out && i < in->count; i++)
        if (!(out->items[i] = respell(m, in->items[i], old, new))) return NULL;
    return out;
}

/* The rule with `term`, on its left side, replaced by `new`, in its condition, too. */
static hyp_sexpr *with_term(mutator *m, const hyp_sexpr *term, hyp_sexpr *new)
{
    hyp_sexpr *rule = with(m, m->rule, term, new);
    for (uint32_t i = 1; rule && i < rule->count; i++)
        if (hyp_sexpr_is(rule->items[i - 1], ":if")) rule->items[i] = respell(m, rule->items[i], spell(m, term), new);
    return rule;
}

static hyp_status free_attributes(mutator *m, const hyp_sexpr *term)
{
    if (term->kind != HYP_SX_LIST) return HYP_OK;
    for (uint32_t i = 0; i < term->count; i++) {
        const hyp_sexpr *item = term->items[i];
        HYP_TRY(free_attributes(m, item));
        if (item->kind != HYP_SX_SYMBOL || item->text[0] != ':' || i + 1 == term->count) continue;
        const hyp_sexpr *value = term->items[i + 1];
        if (value->kind == HYP_SX_SYMBOL && value->text[0] == '?') continue;
        hyp_sexpr *open = copy_list(m, term);
        if (!open) return hyp_fail_memory(m->diag, 0);
        open->items[i + 1] = symbol(m, "?any");
        HYP_TRY(note(m, with_term(m, term, open),
                     hyp_arena_printf(m->arena, "any %s for %s", item->text, spell(m, value)), NULL));
    }
    return HYP_OK;
}

enum { MAX_VARIABLES = 64 };

/* The second time that a variable occurs, it is another one. */
static hyp_status part_variables(mutator *m, const hyp_sexpr *term, const char **seen, uint32_t *count)
{
    if (term->kind == HYP_SX_SYMBOL && term->text[0] == '?') {
        for (uint32_t i = 0; i < *count; i++)
            if (strcmp(seen[i], term->text) == 0)
                return note(m, with(m, m->rule, term, symbol(m, "?another")),
                            hyp_arena_printf(m->arena, "another value for %s", term->text), NULL);
        if (*count < MAX_VARIABLES) seen[(*count)++] = term->text;
    }
    for (uint32_t i = 0; term->kind == HYP_SX_LIST && i < term->count; i++)
        HYP_TRY(part_variables(m, term->items[i], seen, count));
    return HYP_OK;
}

/* ---- rules ------------------------------------------------------------------------------------------ */

static const char *more(const char *numeric_class)
{
    switch (numeric_class[0]) {
    case 'A': return "R";
    case 'R': return "E";
    case 'N': return "Z";
    case 'Z': return "E";
    default: return NULL;
    }
}

static hyp_status mutate_rule(mutator *m)
{
    const hyp_sexpr *rule = m->rule, *left = NULL;
    const char *seen[MAX_VARIABLES];
    uint32_t count = 0;
    for (uint32_t i = 2; i < rule->count; i++) {
        const hyp_sexpr *item = rule->items[i];
        if (hyp_sexpr_is(item, ":class") && more(rule->items[i + 1]->text)) {
            const char *to = more(rule->items[i + 1]->text);
            HYP_TRY(note(m, with(m, rule, rule->items[i + 1], symbol(m, to)),
                         hyp_arena_printf(m->arena, "class %s", to), "class"));
        }
        if (hyp_sexpr_is(item, "=>")) left = rule->items[i - 1];
        if (!hyp_sexpr_is(item, ":if")) continue;
        HYP_TRY(drop(m, rule->items[i + 1]));
        HYP_TRY(widen(m, rule->items[i + 1]));
    }
    if (!left) return HYP_OK; /* of a birule both sides are patterns: nothing can be left open */
    HYP_TRY(free_attributes(m, left));
    bool multi = hyp_sexpr_is_form(left, "multi"); /* whose first variables name the roots: they stand for themselves */
    for (uint32_t i = multi; multi && i < left->count; i++)
        if (count < MAX_VARIABLES) HYP_TRY(part_variables(m, left->items[i]->items[2], seen, &count));
    return multi ? HYP_OK : part_variables(m, left, seen, &count);
}

hyp_status mutate_rules(hyp_arena *arena, const char *name, const char *text, size_t len, mutants *out, hyp_diag *diag)
{
    const hyp_sexpr *forms;
    HYP_TRY(hyp_sexpr_parse(arena, name, text, len, &forms, diag));
    for (uint32_t i = 0; i < forms->count; i++) {
        hyp_sexpr *form = forms->items[i];
        bool each = hyp_sexpr_is_form(form, "for-each");
        const hyp_sexpr *words;
        if (each) HYP_TRY(hyp_rule_words(hyp_rw_word_lists, arena, name, form->items[2], &words, diag));
        if (each) form->items[2] = (hyp_sexpr *)(uintptr_t)words;
        for (uint32_t k = each ? 3 : 0; k < (each ? form->count : 1); k++) {
            mutator m = {arena, each ? form : NULL, each ? form->items[k] : form, out, diag};
            HYP_TRY(mutate_rule(&m));
        }
    }
    return HYP_OK;
}
