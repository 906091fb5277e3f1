#include "rewrite/vary.h"

#include <math.h>
#include <string.h>

/* A node of the case that may change, and where it stands. */
typedef struct place {
    hyp_sexpr *list; /* the list that it is an item of */
    uint32_t index;
    bool in_term;   /* of a graph's terms, else of an input or a constant */
    bool attribute; /* the value of an attribute, or inside of one */
} place;

enum { MAX_PLACES = 512 };
typedef struct varied {
    hyp_arena *arena;
    hyp_sexpr *kase;
    uint32_t first;
    place places[MAX_PLACES];
    uint32_t count;
    term_random *random;
} varied;

static hyp_sexpr *copy(hyp_arena *arena, const hyp_sexpr *sx)
{
    hyp_sexpr *out = hyp_arena_zalloc(arena, 1, sizeof *out);
    if (!out) return NULL;
    *out = *sx;
    if (sx->kind != HYP_SX_LIST) return out;
    out->items = hyp_arena_zalloc(arena, sx->count + 4, sizeof *out->items); /* room for more items */
    for (uint32_t i = 0; out->items && i < sx->count; i++)
        if (!(out->items[i] = copy(arena, sx->items[i]))) return NULL;
    return out->items ? out : NULL;
}

static hyp_sexpr *atom(varied *v, hyp_sexpr_kind kind, const char *text, double number)
{
    hyp_sexpr *out = hyp_arena_zalloc(v->arena, 1, sizeof *out);
    if (!out) return NULL;
    *out = (hyp_sexpr){.kind = kind, .text = text, .number = number};
    if (kind == HYP_SX_INT) {
        out->integer = (int64_t)number;
        out->text = hyp_arena_printf(v->arena, "%lld", (long long)number);
    }
    if (kind == HYP_SX_FLOAT) out->text = hyp_arena_printf(v->arena, "%.17g", number);
    return out;
}

static void collect(varied *v, hyp_sexpr *list, uint32_t from, bool in_term, bool attribute)
{
    bool value = false; /* of an attribute, whose name was before it */
    for (uint32_t i = from; i < list->count && v->count < MAX_PLACES; i++) {
        hyp_sexpr *item = list->items[i];
        bool named = item->kind == HYP_SX_SYMBOL && item->text[0] == ':';
        if (!named) v->places[v->count++] = (place){list, i, in_term, attribute || value};
        if (item->kind == HYP_SX_LIST) collect(v, item, attribute || value ? 0 : 1, in_term, attribute || value);
        value = named;
    }
}

static uint32_t below(varied *v, uint32_t n) { return term_random_below(v->random, n); }

static hyp_sexpr *any_form(varied *v) { return v->kase->items[v->first + below(v, v->kase->count - v->first)]; }

static bool is_value(const hyp_sexpr *form) { return form->items[form->count - 1]->kind == HYP_SX_FLOAT; }

static void exchange_kind(varied *v, hyp_sexpr *form)
{
    bool constant = hyp_sexpr_is_form(form, "const");
    if (!constant && !hyp_sexpr_is_form(form, "input")) return;
    if (constant && is_value(form)) form->count--;
    form->items[0] = atom(v, HYP_SX_SYMBOL, constant ? "input" : "const", 0);
}

static void change_types(varied *v)
{
    static const char *const types[] = {"i32", "i64", "u8", "i8"};
    const char *type = types[below(v, 4)];
    for (uint32_t i = v->first; i < v->kase->count; i++) {
        hyp_sexpr *form = v->kase->items[i];
        if ((hyp_sexpr_is_form(form, "const") || hyp_sexpr_is_form(form, "input")) && hyp_sexpr_is(form->items[2], "F"))
            form->items[2] = atom(v, HYP_SX_SYMBOL, type, 0);
    }
}

static void change_sizes(varied *v, hyp_sexpr *form)
{
    bool constant = hyp_sexpr_is_form(form, "const");
    if (!constant && !hyp_sexpr_is_form(form, "input")) return;
    uint32_t end = form->count - (constant && is_value(form)), sizes = end - 3;
    if (sizes == 0 || below(v, 2)) { /* another axis in front */
        memmove(form->items + 4, form->items + 3, (form->count - 3) * sizeof *form->items);
        form->items[3] = atom(v, HYP_SX_INT, NULL, 1 + (double)below(v, 3));
        form->count++;
    } else if (below(v, 3)) {
        form->items[3 + below(v, sizes)] = atom(v, HYP_SX_INT, NULL, below(v, 4) ? 1 : below(v, 5));
    } else { /* an axis less */
        memmove(form->items + 3, form->items + 4, (form->count - 4) * sizeof *form->items);
        form->count--;
    }
}

/* Another value for all elements, or random ones. */
static void change_value(varied *v, hyp_sexpr *form)
{
    if (!hyp_sexpr_is_form(form, "const") || !is_value(form)) return;
    double was = form->items[form->count - 1]->number;
    const double values[] = {was * 1.0005, was * 1.01, -was, was + 1, was * 2, 0,
                             -0.0,         INFINITY,   1e30, 60000,   1e-7,    NAN};
    uint32_t which = below(v, sizeof values / sizeof *values + 2);
    if (which < sizeof values / sizeof *values)
        form->items[form->count - 1] = atom(v, HYP_SX_FLOAT, NULL, values[which]);
    else
        form->count--;
}

static void change_attribute(varied *v)
{
    for (int tries = 0; tries < 20 && v->count; tries++) {
        const place *p = &v->places[below(v, v->count)];
        hyp_sexpr *item = p->list->items[p->index];
        if (!p->attribute || !p->in_term) continue;
        if (item->kind == HYP_SX_INT)
            p->list->items[p->index] = atom(v, HYP_SX_INT, NULL, (double)item->integer + (below(v, 2) ? 1 : -1));
        else if (item->kind == HYP_SX_FLOAT)
            p->list->items[p->index] = atom(v, HYP_SX_FLOAT, NULL, below(v, 2) ? item->number + 1 : -item->number);
        else
            continue;
        return;
    }
}

/* An operand is another value, or changes its place with its neighbour. */
static void change_operand(varied *v)
{
    for (int tries = 0; tries < 20 && v->count; tries++) {
        const place *p = &v->places[below(v, v->count)], *q = &v->places[below(v, v->count)];
        if (!p->in_term || p->attribute || !q->in_term || q->attribute) continue;
        hyp_sexpr *taken = q->list->items[q->index];
        if (below(v, 2) == 0) { /* an input or a constant by its name */
            const hyp_sexpr *form = any_form(v);
            if (!hyp_sexpr_is_form(form, "const") && !hyp_sexpr_is_form(form, "input")) continue;
            p->list->items[p->index] = form->items[1];
        } else if (q->list == p->list) {
            q->list->items[q->index] = p->list->items[p->index];
            p->list->items[p->index] = taken;
        } else if (taken->kind == HYP_SX_SYMBOL) {
            p->list->items[p->index] = taken;
        } else {
            continue;
        }
        return;
    }
}

/* What comes out jumps where the value before moves by a bit. */
static void add_jump(varied *v)
{
    static const char *const jumps[] = {"floor", "ceil", "round", "sign", "cast"};
    const char *op = jumps[below(v, 5)];
    for (uint32_t i = v->first; i < v->kase->count; i++) {
        hyp_sexpr *form = v->kase->items[i], *term = hyp_arena_zalloc(v->arena, 1, sizeof *term);
        if (!hyp_sexpr_is_form(form, "out") || !term) continue;
        term->kind = HYP_SX_LIST;
        term->items = hyp_arena_zalloc(v->arena, 5, sizeof *term->items);
        if (!term->items) return;
        term->items[term->count++] = atom(v, HYP_SX_SYMBOL, op, 0);
        if (strcmp(op, "cast") == 0) {
            term->items[term->count++] = atom(v, HYP_SX_SYMBOL, ":to", 0);
            term->items[term->count++] = atom(v, HYP_SX_SYMBOL, "i32", 0);
        }
        term->items[term->count++] = form->items[1];
        form->items[1] = term;
    }
}

const hyp_sexpr *vary_case(hyp_arena *arena, const hyp_sexpr *kase, uint32_t first, bool jumps, term_random *random)
{
    varied v = {.arena = arena, .kase = copy(arena, kase), .first = first, .random = random};
    if (!v.kase) return NULL;
    for (uint32_t i = first; i < v.kase->count; i++) {
        hyp_sexpr *form = v.kase->items[i];
        if (hyp_sexpr_is_form(form, "let"))
            collect(&v, form, 2, true, false);
        else if (hyp_sexpr_is_form(form, "out"))
            collect(&v, form, 1, true, false);
    }
    for (uint32_t times = 1 + (below(&v, 4) == 0); times > 0; times--) {
        switch (below(&v, jumps ? 9 : 8)) {
        case 0: exchange_kind(&v, any_form(&v)); break;
        case 1: change_types(&v); break;
        case 2:
        case 3: change_sizes(&v, any_form(&v)); break;
        case 4: change_value(&v, any_form(&v)); break;
        case 5:
        case 6: change_attribute(&v); break;
        case 7: change_operand(&v); break;
        default: add_jump(&v); break;
        }
    }
    return v.kase;
}
