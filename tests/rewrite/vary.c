#include "rewrite/vary.h"

#include <math.h>
#include <string.h>

/* Changes are counted as a case is walked through, always in the same order; the one whose turn it is gets made. */
typedef struct varied {
    hyp_arena *arena;
    hyp_sexpr *kase;
    uint32_t first;
    bool jumps;
    uint32_t turn; /* how many changes come before the one that is made */
    uint32_t passed;
    bool made;
    uint32_t names; /* of values that were added */
} varied;

static bool turn(varied *v)
{
    if (v->made || v->passed++ != v->turn) return false;
    v->made = true;
    return true;
}

enum { ROOM = 24 }; /* items that changes may add to a list */

/* ---- s-expressions ----------------------------------------------------------------------------------- */

static hyp_sexpr *list_of(varied *v, uint32_t room)
{
    hyp_sexpr *out = hyp_arena_zalloc(v->arena, 1, sizeof *out);
    if (!out) return NULL;
    out->kind = HYP_SX_LIST;
    out->items = hyp_arena_zalloc(v->arena, room + ROOM, sizeof *out->items);
    return out->items ? out : NULL;
}

static hyp_sexpr *copy(varied *v, const hyp_sexpr *sx)
{
    hyp_sexpr *out = sx->kind == HYP_SX_LIST ? list_of(v, sx->count) : hyp_arena_zalloc(v->arena, 1, sizeof *out);
    if (!out) return NULL;
    hyp_sexpr **items = out->items;
    *out = *sx;
    out->items = items;
    for (uint32_t i = 0; sx->kind == HYP_SX_LIST && i < sx->count; i++)
        if (!(items[i] = copy(v, sx->items[i]))) return NULL;
    return out;
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

static hyp_sexpr *symbol(varied *v, const char *text) { return atom(v, HYP_SX_SYMBOL, text, 0); }
static hyp_sexpr *integer(varied *v, int64_t n) { return atom(v, HYP_SX_INT, NULL, (double)n); }
static hyp_sexpr *number(varied *v, double x) { return atom(v, HYP_SX_FLOAT, NULL, x); }

/* A list has room for a few more items. */
static void insert(hyp_sexpr *list, uint32_t at, hyp_sexpr *item)
{
    memmove(list->items + at + 1, list->items + at, (list->count - at) * sizeof *list->items);
    list->items[at] = item;
    list->count++;
}

static void take_out(hyp_sexpr *list, uint32_t at)
{
    memmove(list->items + at, list->items + at + 1, (list->count - at - 1) * sizeof *list->items);
    list->count--;
}

static bool is_attribute(const hyp_sexpr *item) { return item->kind == HYP_SX_SYMBOL && item->text[0] == ':'; }

static bool is_const(const hyp_sexpr *form) { return hyp_sexpr_is_form(form, "const"); }

static bool is_leaf(const hyp_sexpr *form) { return is_const(form) || hyp_sexpr_is_form(form, "input"); }

static hyp_sexpr *definition(varied *v, const char *name)
{
    for (uint32_t i = v->first; i < v->kase->count; i++) {
        hyp_sexpr *form = v->kase->items[i];
        if (!hyp_sexpr_is_form(form, "out") && strcmp(form->items[1]->text, name) == 0) return form;
    }
    return NULL;
}

/* Values with a name are written out wherever they are read, so that each of the places can differ. */
static hyp_sexpr *write_out(varied *v, hyp_sexpr *term)
{
    if (term->kind == HYP_SX_SYMBOL && !is_attribute(term)) {
        const hyp_sexpr *form = definition(v, term->text);
        return form && hyp_sexpr_is_form(form, "let") ? copy(v, form->items[2]) : term;
    }
    for (uint32_t i = 1; term->kind == HYP_SX_LIST && i < term->count; i++)
        if (!is_attribute(term->items[i - 1]) && !(term->items[i] = write_out(v, term->items[i]))) return NULL;
    return term;
}

static bool write_out_lets(varied *v)
{
    for (uint32_t i = v->first; i < v->kase->count; i++) {
        hyp_sexpr *form = v->kase->items[i], **term = &form->items[form->count - 1];
        if (!is_leaf(form) && !(*term = write_out(v, *term))) return false;
    }
    for (uint32_t i = v->kase->count; i-- > v->first;)
        if (hyp_sexpr_is_form(v->kase->items[i], "let")) take_out(v->kase, i);
    return true;
}

/* ---- inputs and constants ---------------------------------------------------------------------------- */

static bool has_value(const hyp_sexpr *form)
{
    return is_const(form) && form->items[form->count - 1]->kind == HYP_SX_FLOAT;
}

static bool is_size(const hyp_sexpr *item)
{
    return item->kind == HYP_SX_SYMBOL && item->text[0] >= 'A' && item->text[0] <= 'Z' && item->text[1] == 0 &&
           item->text[0] != 'F';
}

/* A symbolic size gets a number in the whole case; those that the case lists have one. */
static void fix_size(varied *v, hyp_sexpr *sx, const char *name)
{
    for (uint32_t i = 0; i < sx->count; i++)
        if (sx->items[i]->kind == HYP_SX_LIST)
            fix_size(v, sx->items[i], name);
        else if (is_size(sx->items[i]) && strcmp(sx->items[i]->text, name) == 0)
            sx->items[i] = integer(v, 2);
}

static bool is_listed(const varied *v, const char *name)
{
    const hyp_sexpr *sizes = v->kase->items[v->first - 1];
    for (uint32_t i = 1; v->first > 2 && i < sizes->count; i++)
        if (strcmp(sizes->items[i]->text, name) == 0) return true;
    return false;
}

/* An input is a constant, a constant is an input. */
static void change_kind(varied *v, hyp_sexpr *form)
{
    if (!turn(v)) return;
    bool constant = is_const(form);
    if (has_value(form)) form->count--;
    form->items[0] = symbol(v, constant ? "input" : "const");
    for (uint32_t i = 3; i < form->count && !constant; i++) {
        const char *name = form->items[i]->text;
        if (is_size(form->items[i]) && !is_listed(v, name)) fix_size(v, v->kase, name);
    }
}

static void change_type(varied *v, hyp_sexpr *form)
{
    static const char *const types[] = {"f32", "f16", "i32", "bool"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (turn(v)) form->items[2] = symbol(v, types[i]);
}

/* More axes than anything else has, the first one of n. */
static void more_axes(varied *v, hyp_sexpr *form, int64_t n)
{
    for (int i = 0; i < 3; i++) insert(form, 3, integer(v, 1));
    insert(form, 3, integer(v, n));
}

static void change_sizes(varied *v, hyp_sexpr *form)
{
    uint32_t end = form->count - has_value(form);
    for (int64_t n = 1; n < 4; n++)
        if (turn(v)) insert(form, 3, integer(v, n));
    for (int64_t n = 1; n < 3; n++)
        if (turn(v)) more_axes(v, form, n);
    for (uint32_t i = 3; i < end; i++)
        for (int64_t n = 1; n < 4; n++)
            if (turn(v)) form->items[i] = integer(v, n);
    for (uint32_t i = 3; i < end; i++)
        if (!is_const(form) && turn(v)) form->items[i] = symbol(v, "S");
    if (end > 3 && turn(v)) take_out(form, 3);
    if (end > 3 && turn(v)) insert(form, end, integer(v, 1));
}

/* Another value for all elements, or random ones. */
static void change_value(varied *v, hyp_sexpr *form)
{
    if (!is_const(form)) return;
    bool has = has_value(form);
    double was = has ? form->items[form->count - 1]->number : 1;
    const double values[] = {was * 1.0005, was * 1.01, -was,  was + 1, was * 2, was / 2,       0.0,       -0.0, 1.0,
                             INFINITY,     1e30,       1e-30, 60000,   1e-7,    5.9604645e-08, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (turn(v)) {
            form->count -= has;
            insert(form, form->count, number(v, values[i]));
        }
    if (has && turn(v)) form->count--;
}

static void change_leaf(varied *v, hyp_sexpr *form)
{
    change_kind(v, form);
    change_type(v, form);
    change_sizes(v, form);
    change_value(v, form);
}

/* ---- attributes -------------------------------------------------------------------------------------- */

static void change_symbol(varied *v, const char *attribute, hyp_sexpr **slot)
{
    static const char *const words[][7] = {{"act", "none", "relu", "gelu", "tanh", "relu6", "leaky-relu"},
                                           {"acts", "none", "relu", "gelu", "tanh", "relu6"},
                                           {"add", "before", "after"},
                                           {"to", "f32", "f16", "i32", "f64", "bool"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t k = 1; strcmp(words[i][0], attribute) == 0 && k < 7 && words[i][k]; k++)
            if (turn(v)) *slot = symbol(v, words[i][k]);
}

static void change_attribute(varied *v, const char *attribute, hyp_sexpr **slot)
{
    hyp_sexpr *item = *slot;
    switch (item->kind) {
    case HYP_SX_INT:
        if (turn(v)) *slot = integer(v, item->integer + 1);
        if (turn(v)) *slot = integer(v, item->integer - 1);
        break;
    case HYP_SX_FLOAT: {
        const double values[] = {item->number + 1, -item->number, 0, item->number * 1.0005, INFINITY, -INFINITY};
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            if (turn(v)) *slot = number(v, values[i]);
        break;
    }
    case HYP_SX_LIST:
        for (uint32_t i = 0; i < item->count; i++) change_attribute(v, attribute, &item->items[i]);
        for (uint32_t i = 1; i < item->count; i++)
            if (turn(v)) {
                hyp_sexpr *was = item->items[i];
                item->items[i] = item->items[i - 1];
                item->items[i - 1] = was;
            }
        for (int64_t n = 0; n < 2; n++)
            if (turn(v)) insert(item, n ? item->count : 0, integer(v, n));
        if (item->count > 0 && turn(v)) take_out(item, item->count - 1);
        break;
    default: change_symbol(v, attribute, slot);
    }
}

/* Those that have their default value are not there. */
static void add_attribute(varied *v, hyp_sexpr *term)
{
    hyp_op op;
    if (!hyp_op_find(term->items[0]->text, &op)) return;
    const hyp_op_info *info = hyp_op_get(op);
    for (uint32_t i = 0; i < info->attr_count; i++) {
        bool there = false;
        for (uint32_t k = 1; k < term->count; k++)
            there =
                there || (is_attribute(term->items[k]) && strcmp(term->items[k]->text + 1, info->attrs[i].name) == 0);
        if (there) continue;
        hyp_sexpr *value = NULL;
        for (int64_t n = 0; n < 3 && info->attrs[i].kind == HYP_ATTR_INT; n++)
            if (turn(v)) value = integer(v, n);
        for (int n = 0; n < 2 && info->attrs[i].kind == HYP_ATTR_FLOAT; n++)
            if (turn(v)) value = number(v, n ? 0.5 : -3);
        if (info->attrs[i].kind == HYP_ATTR_SYM) change_symbol(v, info->attrs[i].name, &value);
        if (!value) continue;
        insert(term, 1, value);
        insert(term, 1, symbol(v, hyp_arena_printf(v->arena, ":%s", info->attrs[i].name)));
    }
}

/* ---- terms ------------------------------------------------------------------------------------------- */

static hyp_sexpr *around(varied *v, const char *op, hyp_sexpr *inner)
{
    hyp_sexpr *term = list_of(v, 4);
    if (!term) return inner;
    insert(term, 0, inner);
    insert(term, 0, symbol(v, op));
    if (strcmp(op, "cast") == 0) {
        insert(term, 1, symbol(v, "i32"));
        insert(term, 1, symbol(v, ":to"));
    }
    return term;
}

/* Another input or constant like the one of this name, which only this place reads, perhaps with a difference. */
static void part(varied *v, hyp_sexpr **slot, const hyp_sexpr *form)
{
    for (int kind = 0; kind < 6; kind++) {
        if (!turn(v)) continue;
        hyp_sexpr *other = copy(v, form);
        const char *name = hyp_arena_printf(v->arena, "other%u", v->names++);
        if (!other || !name) return;
        other->items[1] = symbol(v, name);
        if (kind == 1 || kind == 2) insert(other, 3, integer(v, kind));
        if (kind == 3 && has_value(other)) other->items[other->count - 1]->number *= 1.0005;
        if (kind == 4 && has_value(other)) other->items[other->count - 1]->number += 1;
        if (kind == 5) more_axes(v, other, 2);
        if ((kind == 3 || kind == 4) && !has_value(other) && other->count > 3) other->items[3] = integer(v, kind - 2);
        *slot = other->items[1];
        insert(v->kase, v->first, other);
    }
    if (!is_const(form) || !turn(v)) return; /* of a range that is known, but no constant */
    hyp_sexpr *other = copy(v, form);
    const char *name = hyp_arena_printf(v->arena, "other%u", v->names++);
    if (!other || !name) return;
    other->count -= has_value(other);
    other->items[0] = symbol(v, "input");
    other->items[1] = symbol(v, name);
    hyp_sexpr *term = around(v, "cast", other->items[1]), *clip = around(v, "clip", term);
    term->items[2] = other->items[2];
    other->items[2] = symbol(v, "i8");
    for (int end = 0; end < 2; end++) {
        insert(clip, 1, number(v, end ? -3 : 3));
        insert(clip, 1, symbol(v, end ? ":min" : ":max"));
    }
    *slot = clip;
    insert(v->kase, v->first, other);
}

static void change_term(varied *v, hyp_sexpr *term);

static void change_operand(varied *v, hyp_sexpr *term, uint32_t at)
{
    static const char *const functions[] = {"tanh", "neg", "sqrt"};
    hyp_sexpr **slot = &term->items[at], *item = *slot;
    const hyp_sexpr *form = item->kind == HYP_SX_SYMBOL ? definition(v, item->text) : NULL;
    if (form) part(v, slot, form);
    if (form && turn(v)) *slot = symbol(v, "none");
    for (uint32_t i = v->first; i < v->kase->count && !v->made; i++) { /* what has a name */
        const hyp_sexpr *other = v->kase->items[i];
        if (is_leaf(other) && other != form && turn(v)) *slot = other->items[1];
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (turn(v)) *slot = around(v, functions[i], item);
    if (item->kind != HYP_SX_LIST) return;
    for (uint32_t i = 1; i < item->count && !hyp_sexpr_is_form(item, "get"); i++) { /* what it reads instead */
        if (is_attribute(item->items[i]) || is_attribute(item->items[i - 1])) continue;
        if (turn(v)) *slot = item->items[i];
    }
    change_term(v, item);
}

static void change_term(varied *v, hyp_sexpr *term)
{
    if (term->kind != HYP_SX_LIST) return;
    uint32_t last = 0; /* operand; an operator is none */
    for (uint32_t i = 1; i < term->count && !v->made; i++) {
        if (is_attribute(term->items[i])) {
            i++;
            change_attribute(v, term->items[i - 1]->text + 1, &term->items[i]);
            continue;
        }
        change_operand(v, term, i);
        if (last && turn(v)) {
            hyp_sexpr *was = term->items[i];
            term->items[i] = term->items[last];
            term->items[last] = was;
        }
        last = i;
    }
    if (last && turn(v)) take_out(term, last);
    if (!v->made) add_attribute(v, term);
}

/* ---- all of it --------------------------------------------------------------------------------------- */

enum { INTEGERS = 0 }; /* the number of the first change of these, which is to i32 */

static void change_types(varied *v)
{
    static const char *const types[] = {"i32", "i64", "u8", "i8"};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (!turn(v)) continue;
        for (uint32_t i = v->first; i < v->kase->count; i++) {
            hyp_sexpr *form = v->kase->items[i];
            if (is_leaf(form) && hyp_dtype_is_float(hyp_dtype_parse(form->items[2]->text))) form->items[2]->text = "F";
            if (is_leaf(form) && hyp_sexpr_is(form->items[2], "F")) form->items[2] = symbol(v, types[k]);
        }
    }
}

/* What comes out jumps where the value before moves by a bit. */
static void add_jump(varied *v)
{
    static const char *const jumps[] = {"floor", "ceil", "round", "sign", "cast"};
    for (size_t k = 0; k < sizeof jumps / sizeof *jumps; k++) {
        if (!turn(v)) continue;
        for (uint32_t i = v->first; v->jumps && i < v->kase->count; i++) {
            hyp_sexpr *form = v->kase->items[i];
            if (hyp_sexpr_is_form(form, "out")) form->items[1] = around(v, jumps[k], form->items[1]);
        }
    }
}

/* Makes change number `which`; the number of changes that there are. */
static uint32_t change(varied *v, uint32_t which)
{
    v->turn = which;
    v->passed = 0;
    v->made = false;
    change_types(v);
    add_jump(v);
    for (uint32_t i = v->first; i < v->kase->count && !v->made; i++) {
        hyp_sexpr *form = v->kase->items[i];
        if (is_leaf(form))
            change_leaf(v, form);
        else
            change_operand(v, form, 1);
    }
    return v->passed;
}

static bool begin(varied *v, const hyp_sexpr *kase)
{
    hyp_sexpr *out = copy(v, kase);
    v->kase = out;
    return out && write_out_lets(v);
}

uint32_t vary_count(hyp_arena *arena, const hyp_sexpr *kase, uint32_t first)
{
    varied v = {.arena = arena, .first = first};
    return begin(&v, kase) ? 2 * change(&v, UINT32_MAX) : 0;
}

const hyp_sexpr *vary_case(hyp_arena *arena, const hyp_sexpr *kase, uint32_t first, uint32_t which, bool jumps,
                           term_random *random)
{
    varied v = {.arena = arena, .first = first, .jumps = jumps};
    if (!begin(&v, kase)) return NULL;
    uint32_t count = change(&v, UINT32_MAX);
    if (which < 2 * count) {
        if (which >= count) change(&v, INTEGERS);
        change(&v, which % count);
        return v.kase;
    }
    for (int times = 0; times == 0 || (times < 3 && term_random_below(random, 2)); times++)
        change(&v, term_random_below(random, change(&v, UINT32_MAX)));
    return v.kase;
}
