/* collect.c - rules that collect: as many parts as there are, of one kind and with the same keys, at once.
 *
 *   (rule NAME (collect (KEY...) (?y = PATTERN)) => (let ?m TERM) (union ?y TERM)  :if CONDITION)
 *
 * What is searched is one part, with what the condition says of each. n parts with equal keys are a match of the rule's
 * instance of that width, an ordinary rule of n patterns, which is made as text is read: a variable ?w that is no key
 * becomes ?w.0 ... ?w.n-1, so what applies a rule, proves it and judges the proof needs to know nothing of collecting. */
#include <stdio.h>
#include <string.h>

#include "egraph/rules/reader.h"

enum { NO_PART = -1 };

/* One writing out. */
typedef struct writer {
    hyp_rule_reader *p;
    const hyp_sexpr *keys;
    int width;
    const hyp_sexpr *const *right; /* whose lets are no part's */
    uint32_t right_count;
} writer;

bool hyp_rule_collects(const hyp_sexpr *left) { return hyp_sexpr_is_form(left, "collect"); }

static hyp_status new_list(hyp_rule_reader *p, const hyp_sexpr *at, size_t room, hyp_sexpr **out)
{
    hyp_sexpr *list = *out = hyp_arena_zalloc(&p->scratch, 1, sizeof *list);
    if (list) list->items = hyp_arena_zalloc(&p->scratch, room, sizeof *list->items);
    if (!list || !list->items) return hyp_fail_memory(p->diag, room * sizeof *list->items);
    list->kind = HYP_SX_LIST;
    list->line = at->line;
    list->column = at->column;
    return HYP_OK;
}

static hyp_status new_atom(hyp_rule_reader *p, const hyp_sexpr *at, hyp_sexpr_kind kind, const char *text, hyp_sexpr **out)
{
    hyp_sexpr *sx = *out = hyp_arena_zalloc(&p->scratch, 1, sizeof *sx);
    if (!sx || !text) return hyp_fail_memory(p->diag, sizeof *sx);
    *sx = (hyp_sexpr){.kind = kind, .line = at->line, .column = at->column, .text = text};
    return HYP_OK;
}

static void append(hyp_sexpr *list, hyp_sexpr *item) { list->items[list->count++] = item; }

/* ---- names ---------------------------------------------------------------------------------------- */

static bool is_variable(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == '?'; }

static bool is_key(const hyp_sexpr *keys, const char *name)
{
    for (uint32_t i = 0; i < keys->count; i++)
        if (hyp_sexpr_is(keys->items[i], name)) return true;
    return false;
}

/* Of all parts: a key, or what a let names. */
static bool is_common(const writer *w, const char *name)
{
    for (uint32_t i = 0; i < w->right_count; i++)
        if (hyp_sexpr_is_form(w->right[i], "let") && w->right[i]->count > 1 && hyp_sexpr_is(w->right[i]->items[1], name))
            return true;
    return is_key(w->keys, name);
}

static bool speaks_of_all(const hyp_sexpr *sx)
{
    if (hyp_sexpr_is_form(sx, "each")) return true;
    for (uint32_t i = 0; i < sx->count; i++)
        if (speaks_of_all(sx->items[i])) return true;
    return false;
}

/* ---- writing out ------------------------------------------------------------------------------------ */

/* A copy of a term for part number `part`, or for all of them. */
static hyp_status write_out(writer *w, const hyp_sexpr *in, int part, hyp_sexpr **out)
{
    hyp_rule_reader *p = w->p;
    if (in->kind == HYP_SX_LIST) {
        size_t room = in->count;
        for (uint32_t i = 0; i < in->count; i++)
            if (hyp_sexpr_is_form(in->items[i], "each")) room += (size_t)w->width;
        HYP_TRY(new_list(p, in, room, out));
        for (uint32_t i = 0; i < in->count; i++) {
            const hyp_sexpr *item = in->items[i];
            hyp_sexpr *copy;
            bool each = hyp_sexpr_is_form(item, "each");
            if (each && item->count != 2) return hyp_rule_fail(p, item, "(each TERM) has one term");
            for (int k = 0; k < (each ? w->width : 1); k++) {
                HYP_TRY(write_out(w, each ? item->items[1] : item, each ? k : part, &copy));
                append(*out, copy);
            }
        }
        return HYP_OK;
    }
    bool place = hyp_sexpr_is(in, "<i>"), variable = is_variable(in) && !is_common(w, in->text);
    if ((place || variable) && part == NO_PART)
        return hyp_rule_fail(p, in, "%s is another one for each part; (each TERM) is a term once for each of them", in->text);
    const char *text = place      ? hyp_arena_printf(&p->scratch, "%d", part)
                       : variable ? hyp_arena_printf(&p->scratch, "%s.%d", in->text, part)
                                  : in->text;
    HYP_TRY(new_atom(p, in, place ? HYP_SX_INT : in->kind, text, out));
    (*out)->integer = place ? part : in->integer;
    (*out)->number = place ? part : in->number;
    return HYP_OK;
}

/* (multi (?y.0 = PATTERN.0) ...) */
static hyp_status write_left(writer *w, const hyp_sexpr *left, const hyp_sexpr **out)
{
    hyp_sexpr *list, *item;
    HYP_TRY(new_list(w->p, left, (size_t)w->width + 1, &list));
    HYP_TRY(new_atom(w->p, left, HYP_SX_SYMBOL, "multi", &item));
    append(list, item);
    for (int i = 0; i < w->width; i++) {
        HYP_TRY(write_out(w, left->items[2], i, &item));
        append(list, item);
    }
    *out = list;
    return HYP_OK;
}

static hyp_status write_right(writer *w, hyp_written_rule *out)
{
    hyp_sexpr *list, *item;
    const hyp_sexpr *unions = NULL;
    HYP_TRY(new_list(w->p, out->form, (size_t)w->width + w->right_count, &list));
    for (uint32_t i = 0; i < w->right_count; i++) {
        if (!hyp_sexpr_is_form(w->right[i], "let")) {
            if (unions) return hyp_rule_fail(w->p, w->right[i], "a rule that collects has one union, of each part");
            unions = w->right[i];
            continue;
        }
        HYP_TRY(write_out(w, w->right[i], NO_PART, &item));
        append(list, item);
    }
    if (!unions) return hyp_rule_fail(w->p, out->form, "a rule that collects has a union, of each part");
    for (int i = 0; i < w->width; i++) {
        HYP_TRY(write_out(w, unions, i, &item));
        append(list, item);
    }
    out->right = (const hyp_sexpr *const *)list->items;
    out->right_count = list->count;
    return HYP_OK;
}

/* The parts of a condition: those of an `and`, else itself. */
static const hyp_sexpr *const *conjuncts(const hyp_sexpr *const *condition, uint32_t *out_count)
{
    bool several = *condition && hyp_sexpr_is_form(*condition, "and");
    *out_count = several ? (*condition)->count - 1 : *condition != NULL;
    return several ? (const hyp_sexpr *const *)(*condition)->items + 1 : condition;
}

/* What is said of one part once for each, then what is said of all; with `parts` false the former alone, as it is. */
static hyp_status write_condition(writer *w, bool parts, hyp_written_rule *rule)
{
    uint32_t count;
    const hyp_sexpr *const *all = conjuncts(&rule->condition, &count);
    hyp_sexpr *list, *item;
    if (!count) return HYP_OK;
    HYP_TRY(new_list(w->p, rule->condition, 1 + (size_t)count * (size_t)w->width, &list));
    HYP_TRY(new_atom(w->p, rule->condition, HYP_SX_SYMBOL, "and", &item));
    append(list, item);
    for (uint32_t i = 0; i < count; i++) {
        bool of_all = speaks_of_all(all[i]);
        if (of_all && !parts) continue;
        for (int k = 0; k < (of_all ? 1 : w->width); k++) {
            if (parts)
                HYP_TRY(write_out(w, all[i], of_all ? NO_PART : k, &item));
            else
                item = (hyp_sexpr *)(uintptr_t)all[i];
            append(list, item);
        }
    }
    rule->condition = list->count > 1 ? list : NULL;
    return HYP_OK;
}

static hyp_status check_form(hyp_rule_reader *p, const hyp_sexpr *left)
{
    if (left->count != 3 || left->items[1]->kind != HYP_SX_LIST || left->items[2]->kind != HYP_SX_LIST)
        return hyp_rule_fail(p, left, "a collection is (collect (KEY...) (?variable = term))");
    return HYP_OK;
}

hyp_status hyp_collect_part(hyp_rule_reader *p, const hyp_written_rule *src, hyp_written_rule *out)
{
    HYP_TRY(check_form(p, src->left));
    writer w = {.p = p, .keys = src->left->items[1], .width = 1};
    hyp_sexpr *left, *multi;
    *out = *src;
    out->right = NULL;
    out->right_count = 0;
    HYP_TRY(new_list(p, src->left, 2, &left));
    HYP_TRY(new_atom(p, src->left, HYP_SX_SYMBOL, "multi", &multi));
    append(left, multi);
    append(left, src->left->items[2]);
    out->left = left;
    return write_condition(&w, false, out);
}

hyp_status hyp_collect_instance(hyp_rule_reader *p, const hyp_written_rule *src, uint32_t width, hyp_written_rule *out)
{
    writer w = {
        .p = p, .keys = src->left->items[1], .width = (int)width, .right = src->right, .right_count = src->right_count};
    *out = *src;
    HYP_TRY(write_left(&w, src->left, &out->left));
    HYP_TRY(write_right(&w, out));
    return write_condition(&w, true, out);
}

/* ---- keeping what was written ------------------------------------------------------------------------ */

static hyp_sexpr *keep(hyp_arena *arena, const hyp_sexpr *in)
{
    hyp_sexpr *out = in ? hyp_arena_alloc(arena, sizeof *out) : NULL;
    if (!out) return NULL;
    *out = *in;
    if (in->kind != HYP_SX_LIST) {
        out->text = hyp_arena_strdup(arena, in->text);
        return out->text ? out : NULL;
    }
    out->items = hyp_arena_alloc(arena, in->count * sizeof *out->items);
    for (uint32_t i = 0; out->items && i < in->count; i++)
        if (!(out->items[i] = keep(arena, in->items[i]))) return NULL;
    return out->items ? out : NULL;
}

hyp_status hyp_collect_keep(hyp_rule_reader *p, const hyp_written_rule *src, hyp_written_rule *out)
{
    hyp_arena *arena = &p->rules->arena;
    const hyp_sexpr **right = hyp_arena_alloc(arena, src->right_count * sizeof *right);
    bool ok = right != NULL;
    *out = (hyp_written_rule){.name = p->rule->info.name, .right = right, .right_count = src->right_count};
    ok = ok && (out->left = keep(arena, src->left));
    out->form = out->left;
    for (uint32_t i = 0; ok && i < src->right_count; i++) ok = (right[i] = keep(arena, src->right[i])) != NULL;
    if (src->condition) ok = ok && (out->condition = keep(arena, src->condition));
    return ok ? HYP_OK : hyp_fail_memory(p->diag, sizeof *src);
}
