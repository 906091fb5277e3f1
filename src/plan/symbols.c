/* symbols.c - the values of a program's symbols, from the sizes of its inputs. An axis that is a symbol gives it its
 * value; one that is an expression of a single unknown symbol, scale * symbol + offset, is solved for it; all others
 * are conditions on the inputs. */
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

enum { MAX_ROUNDS = 64 /* of solving: each finds symbols that need those before; a model has one or two */ };

/* ---- messages -------------------------------------------------------------------------------------- */

/* The first input and axis that is the symbol. */
static const char *first_with_symbol(const HypPlan__Program *p, int64_t symbol, size_t *out_axis)
{
    for (size_t i = 0; i < p->n_inputs; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
        for (size_t a = 0; a < t->n_dims; a++) {
            const HypPlan__Dim *d = p->dims[t->dims[a]];
            *out_axis = a;
            if (d->kind == HYP_PLAN__DIM__KIND__SYMBOL && d->value == symbol) return t->name;
        }
    }
    return "";
}

static const HypPlan__Equality *equality_of(const HypPlan__Program *p, const char *input, size_t axis)
{
    for (size_t i = 0; i < p->n_equalities; i++)
        if (p->equalities[i]->axis == axis && strcmp(p->equalities[i]->input, input) == 0) return p->equalities[i];
    return NULL;
}

/* Adds to the message, which is written, why the axis must have another size than `found` when the model itself does
 * not say so. `other`: the size that the axis called `symbol` has. */
static hyp_status explain(hyp_status status, const HypPlan__Program *p, const char *input, size_t axis, int64_t found,
                          int64_t other, const char *symbol, hyp_diag *diag)
{
    const HypPlan__Equality *e = equality_of(p, input, axis);
    if (!e || !diag) return status;
    char first[sizeof diag->message];
    memcpy(first, diag->message, sizeof first);
    const char *one = found == 1 ? e->symbol : other == 1 ? symbol : "";
    return hyp_fail(diag, status, "%s: %s%s%s%s", first, e->reason,
                    *one ? "; to broadcast a size of 1, compile the model with --dim " : "", one, *one ? "=1" : "");
}

/* ---- axes that are a symbol or a number ------------------------------------------------------------ */

static hyp_status bind_axis(const HypPlan__Program *p, const HypPlan__Tensor *t, size_t axis, int64_t found,
                            int64_t *symbols, hyp_diag *diag)
{
    const HypPlan__Dim *d = p->dims[t->dims[axis]];
    if (found < 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': axis %zu is %lld; a size cannot be negative",
                        t->name, axis, (long long)found);
    if (d->kind == HYP_PLAN__DIM__KIND__CONST && found != d->value) {
        hyp_status status =
            hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': axis %zu is %lld, the model wants %lld", t->name,
                     axis, (long long)found, (long long)d->value);
        return explain(status, p, t->name, axis, found, -1, "", diag);
    }
    if (d->kind != HYP_PLAN__DIM__KIND__SYMBOL) return HYP_OK;
    if (symbols[d->value] < 0) symbols[d->value] = found;
    if (symbols[d->value] == found) return HYP_OK;
    size_t first_axis = 0;
    const char *first = first_with_symbol(p, d->value, &first_axis);
    hyp_status status = hyp_fail(
        diag, HYP_ERR_INVALID_ARGUMENT,
        "input '%s': axis %zu is %lld, but '%s' is %lld by axis %zu of input '%s'; they must be the same", t->name,
        axis, (long long)found, p->symbols[d->value], (long long)symbols[d->value], first_axis, first);
    return explain(status, p, t->name, axis, found, symbols[d->value], p->symbols[d->value], diag);
}

/* ---- axes that are expressions --------------------------------------------------------------------- */

/* What is known of a dim. */
typedef struct line {
    enum { UNKNOWN, NUMBER, LINE } kind;
    int64_t scale, offset; /* NUMBER: its value is offset; LINE: scale * symbol + offset */
    int64_t symbol;
} line;

/* Never an overflow that is taken for a number: what does not fit is unknown. */
static line line_sum(line a, line b)
{
    line out = {.kind = UNKNOWN};
    if (a.kind == UNKNOWN || b.kind == UNKNOWN || (a.kind == LINE && b.kind == LINE && a.symbol != b.symbol))
        return out;
    if (!hyp_add_i64(a.offset, b.offset, &out.offset) || !hyp_add_i64(a.scale, b.scale, &out.scale)) return out;
    out.kind = out.scale ? LINE : NUMBER;
    out.symbol = a.kind == LINE ? a.symbol : b.symbol;
    return out;
}

static line line_product(line a, line b)
{
    line out = {.kind = UNKNOWN};
    if (a.kind == LINE) {
        line swap = a;
        a = b;
        b = swap;
    }
    if (a.kind != NUMBER || b.kind == UNKNOWN) return out;
    if (!hyp_mul_i64(a.offset, b.offset, &out.offset) || !hyp_mul_i64(a.offset, b.scale, &out.scale)) return out;
    out.kind = out.scale ? LINE : NUMBER;
    out.symbol = b.symbol;
    return out;
}

static line line_of(const HypPlan__Dim *d, const int64_t *symbols, const line *lines)
{
    switch (d->kind) {
    case HYP_PLAN__DIM__KIND__CONST: return (line){.kind = NUMBER, .offset = d->value};
    case HYP_PLAN__DIM__KIND__SYMBOL:
        if (symbols[d->value] >= 0) return (line){.kind = NUMBER, .offset = symbols[d->value]};
        return (line){.kind = LINE, .scale = 1, .symbol = d->value};
    case HYP_PLAN__DIM__KIND__ADD: return line_sum(lines[d->a], lines[d->b]);
    case HYP_PLAN__DIM__KIND__MUL: return line_product(lines[d->a], lines[d->b]);
    default: break;
    }
    if (lines[d->a].kind != NUMBER || lines[d->b].kind != NUMBER) return (line){.kind = UNKNOWN};
    int64_t a = lines[d->a].offset, b = lines[d->b].offset;
    line out = {.kind = NUMBER};
    if (d->kind == HYP_PLAN__DIM__KIND__MIN)
        out.offset = a < b ? a : b;
    else if (d->kind == HYP_PLAN__DIM__KIND__MAX)
        out.offset = a > b ? a : b;
    else if (b == 0 || (a == INT64_MIN && b == -1))
        out.kind = UNKNOWN; /* hyp_plan_eval_dims says it */
    else
        out.offset = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return out;
}

static hyp_status solve_axis(const HypPlan__Program *p, const HypPlan__Tensor *t, size_t axis, int64_t found, line l,
                             int64_t *symbols, hyp_diag *diag)
{
    int64_t rest = 0, scale = l.scale, value = -1;
    bool fits = hyp_add_i64(found, l.offset == INT64_MIN ? 0 : -l.offset, &rest) && l.offset != INT64_MIN;
    if (fits && !(rest == INT64_MIN && scale == -1) && rest % scale == 0) value = rest / scale;
    if (value >= 0) {
        symbols[l.symbol] = value;
        return HYP_OK;
    }
    char more[32] = "";
    if (l.offset) snprintf(more, sizeof more, "%lld and ", (long long)l.offset);
    hyp_status status =
        hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': axis %zu is %lld, the model wants %sa multiple of %lld",
                 t->name, axis, (long long)found, more, (long long)scale);
    return explain(status, p, t->name, axis, found, -1, "", diag);
}

static bool any_unknown(const HypPlan__Program *p, const int64_t *symbols)
{
    for (size_t s = 0; s < p->n_symbols; s++)
        if (symbols[s] < 0) return true;
    return false;
}

/* Solves for one unknown symbol after the other, as far as the axes that are known (0 or more) tell, and leaves what is
 * known of every dim in `lines`. Each round but the last finds a symbol. */
static hyp_status solve(const HypPlan__Program *p, const int64_t *const *dims, int64_t *symbols, line *lines,
                        hyp_diag *diag)
{
    bool found = true;
    for (int round = 0; found && round <= MAX_ROUNDS; round++) {
        found = false;
        for (size_t i = 0; i < p->n_dims; i++) lines[i] = line_of(p->dims[i], symbols, lines);
        for (size_t i = 0; i < p->n_inputs && any_unknown(p, symbols); i++) {
            const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
            for (size_t a = 0; a < t->n_dims; a++) {
                line l = lines[t->dims[a]];
                if (dims[i][a] < 0 || l.kind != LINE || symbols[l.symbol] >= 0) continue;
                HYP_TRY(solve_axis(p, t, a, dims[i][a], l, symbols, diag));
                found = true;
            }
        }
    }
    return HYP_OK;
}

static hyp_status check_expressions(const HypPlan__Program *p, const int64_t *const *dims, const line *lines,
                                    hyp_diag *diag)
{
    for (size_t i = 0; i < p->n_inputs; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
        for (size_t a = 0; a < t->n_dims; a++) {
            line l = lines[t->dims[a]];
            if (dims[i][a] < 0 || l.kind != NUMBER || l.offset == dims[i][a]) continue;
            hyp_status status =
                hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': axis %zu is %lld, the other inputs make it %lld",
                         t->name, a, (long long)dims[i][a], (long long)l.offset);
            return explain(status, p, t->name, a, dims[i][a], -1, "", diag);
        }
    }
    return HYP_OK;
}

/* ---- all of them ----------------------------------------------------------------------------------- */

/* Whether a kernel tells it: it is an axis of what a custom operator gives. */
static bool is_custom_symbol(const HypPlan__Program *p, size_t symbol)
{
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i]->kernel_case != HYP_PLAN__STEP__KERNEL_CUSTOM) continue;
        const HypPlan__Call *call = p->steps[i]->custom->call;
        for (size_t o = 0; o < call->n_outputs; o++) {
            const HypPlan__Tensor *t = p->tensors[call->outputs[o]];
            for (size_t a = 0; a < t->n_dims; a++) {
                const HypPlan__Dim *d = p->dims[t->dims[a]];
                if (d->kind == HYP_PLAN__DIM__KIND__SYMBOL && (size_t)d->value == symbol) return true;
            }
        }
    }
    return false;
}

static hyp_status fail_unknown(const HypPlan__Program *p, const int64_t *symbols, hyp_diag *diag)
{
    for (size_t s = 0; s < p->n_symbols; s++)
        if (symbols[s] < 0 && !is_custom_symbol(p, s))
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "the size '%s' cannot be computed from inputs of these shapes", p->symbols[s]);
    return HYP_OK;
}

/* Numbers and symbols first, whose contradictions are the plainest to name. */
static hyp_status bind_plain(const HypPlan__Program *p, const int64_t *const *dims, int64_t *symbols,
                             bool *out_expressions, hyp_diag *diag)
{
    for (size_t i = 0; i < p->n_inputs; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
        for (size_t a = 0; a < t->n_dims; a++) {
            if (p->dims[t->dims[a]]->kind > HYP_PLAN__DIM__KIND__SYMBOL) *out_expressions = true;
            HYP_TRY(bind_axis(p, t, a, dims[i][a], symbols, diag));
        }
    }
    return HYP_OK;
}

hyp_status hyp_plan_bind_symbols(const HypPlan__Program *program, const int64_t *const *dims, const int32_t *ranks,
                                 int64_t *symbols, hyp_diag *diag)
{
    const HypPlan__Program *p = program;
    bool expressions = false;
    for (size_t s = 0; s < p->n_symbols; s++) symbols[s] = -1;
    for (size_t i = 0; i < p->n_inputs; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
        if (ranks[i] < 0 || (size_t)ranks[i] != t->n_dims)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' has %d axes, the model wants %zu", t->name,
                            (int)ranks[i], t->n_dims);
    }
    HYP_TRY(bind_plain(p, dims, symbols, &expressions, diag));
    if (!expressions) return HYP_OK;
    line *lines = hyp_calloc(p->n_dims, sizeof *lines);
    if (!lines) return hyp_fail_memory(diag, p->n_dims * sizeof *lines);
    hyp_status status = solve(p, dims, symbols, lines, diag);
    if (status == HYP_OK) status = fail_unknown(p, symbols, diag);
    if (status == HYP_OK) status = check_expressions(p, dims, lines, diag);
    hyp_free(lines);
    return status;
}

hyp_status hyp_plan_complete_dims(const HypPlan__Program *program, int64_t *const *dims, int64_t *symbols,
                                  hyp_diag *diag)
{
    const HypPlan__Program *p = program;
    line *lines = hyp_calloc(p->n_dims ? p->n_dims : 1, sizeof *lines);
    if (!lines) return hyp_fail_memory(diag, p->n_dims * sizeof *lines);
    hyp_status status = solve(p, (const int64_t *const *)dims, symbols, lines, diag);
    for (size_t i = 0; status == HYP_OK && i < p->n_inputs; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
        for (size_t a = 0; a < t->n_dims; a++)
            if (dims[i][a] < 0 && lines[t->dims[a]].kind == NUMBER) dims[i][a] = lines[t->dims[a]].offset;
    }
    hyp_free(lines);
    return status;
}

/* ---- whether they can be known --------------------------------------------------------------------- */

hyp_status hyp_plan_find_unbound(const HypPlan__Program *program, size_t *out_symbol, hyp_diag *diag)
{
    enum { NUMBERS = -1, MIXED = -2 }; /* else the one symbol that a dim is linear in */
    const HypPlan__Program *p = program;
    int64_t *of = hyp_calloc(p->n_dims ? p->n_dims : 1, sizeof *of);
    uint8_t *known = hyp_calloc(p->n_symbols ? p->n_symbols : 1, 1);
    *out_symbol = 0;
    bool found = of && known;
    for (int round = 0; found && round < MAX_ROUNDS; round++) {
        found = false;
        for (size_t i = 0; i < p->n_dims; i++) {
            const HypPlan__Dim *d = p->dims[i];
            of[i] = NUMBERS;
            if (d->kind == HYP_PLAN__DIM__KIND__SYMBOL && !known[d->value]) of[i] = d->value;
            if (d->kind <= HYP_PLAN__DIM__KIND__SYMBOL || (of[d->a] == NUMBERS && of[d->b] == NUMBERS)) continue;
            int64_t other = of[d->a] == NUMBERS ? of[d->b] : of[d->a];
            bool one = of[d->a] == NUMBERS || of[d->b] == NUMBERS;
            of[i] = one && d->kind <= HYP_PLAN__DIM__KIND__MUL ? other : MIXED;
        }
        for (size_t i = 0; i < p->n_inputs; i++) {
            const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
            for (size_t a = 0; a < t->n_dims; a++) {
                int64_t s = of[t->dims[a]];
                if (s < 0 || known[s]) continue;
                known[s] = 1;
                found = true;
            }
        }
    }
    while (known && *out_symbol < p->n_symbols && (known[*out_symbol] || is_custom_symbol(p, *out_symbol)))
        ++*out_symbol;
    bool failed = !of || !known;
    hyp_free(of);
    hyp_free(known);
    return failed ? hyp_fail_memory(diag, p->n_dims * sizeof *of) : HYP_OK;
}
