/* dim_ask.c - what can be known of a dim: its symbols, its value, its parts. */
#include <string.h>

#include "ir/dim_table.h"

typedef hyp_dim_term term;
typedef hyp_dim_poly poly;
typedef hyp_dim_atom atom;

bool hyp_dim_is_linear(const hyp_dims *dims, hyp_dim d, size_t *out_symbol, int64_t *out_scale, int64_t *out_offset)
{
    if (hyp_dim_is_const(d)) return false;
    uint32_t count;
    const term *terms = hyp_dim_get_terms(dims, d, &count), *last = &terms[count - 1];
    if (count > 2 || last->degree != 1 || (count == 2 && terms[0].degree != 0)) return false;
    const atom *t = hyp_dim_get_atom(dims, last->atoms[0]);
    if (t->kind != HYP_DIM_SYMBOL) return false;
    *out_symbol = t->symbol;
    *out_scale = last->coef;
    *out_offset = count == 2 ? terms[0].coef : 0;
    return true;
}

bool hyp_dim_depends(const hyp_dims *dims, hyp_dim d, size_t symbol)
{
    if (hyp_dim_is_const(d)) return false;
    uint32_t count;
    const term *terms = hyp_dim_get_terms(dims, d, &count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            const atom *t = hyp_dim_get_atom(dims, terms[i].atoms[j]);
            bool here = t->kind == HYP_DIM_SYMBOL
                            ? t->symbol == symbol
                            : hyp_dim_depends(dims, t->a, symbol) || hyp_dim_depends(dims, t->b, symbol);
            if (here) return true;
        }
    return false;
}

/* -(d - term i) / (coefficient of term i), if that is whole. */
static bool solve_term(hyp_dims *dims, hyp_dim d, uint32_t i, hyp_dim *out)
{
    poly p;
    hyp_dim_load(dims, d, &p);
    int64_t scale = p.terms[i].coef;
    p.count--;
    memmove(&p.terms[i], &p.terms[i + 1], (p.count - i) * sizeof *p.terms);
    for (uint32_t k = 0; k < p.count; k++) {
        if (p.terms[k].coef % scale != 0) return false;
        p.terms[k].coef = -(p.terms[k].coef / scale);
    }
    return hyp_dim_store(dims, &p, out, NULL) == HYP_OK;
}

bool hyp_dim_solve(hyp_dims *dims, hyp_dim d, size_t *out_symbol, hyp_dim *out_value)
{
    if (hyp_dim_is_const(d)) return false;
    uint32_t count;
    const term *terms = hyp_dim_get_terms(dims, d, &count);
    bool found = false, found_nonneg = false;
    for (uint32_t i = 0; i < count; i++) {
        const atom *t = terms[i].degree == 1 ? hyp_dim_get_atom(dims, terms[i].atoms[0]) : NULL;
        hyp_dim value;
        if (!t || t->kind != HYP_DIM_SYMBOL || !solve_term(dims, d, i, &value)) continue;
        if (hyp_dim_depends(dims, value, t->symbol) || (hyp_dim_is_const(value) && value < 0)) continue;
        bool nonneg = hyp_dim_is_nonneg(dims, value);
        if (found && (found_nonneg > nonneg || (found_nonneg == nonneg && *out_symbol > t->symbol))) continue;
        found = true;
        found_nonneg = nonneg;
        *out_symbol = t->symbol;
        *out_value = value;
    }
    return found;
}

static hyp_status eval_atom(const hyp_dims *dims, const atom *t, const int64_t *symbols, int64_t *out, hyp_diag *diag)
{
    if (t->kind == HYP_DIM_SYMBOL) {
        *out = symbols[t->symbol];
        if (*out < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the symbolic dimension '%s' has no value",
                            hyp_dims_symbol_name(dims, t->symbol));
        return HYP_OK;
    }
    int64_t a, b;
    HYP_TRY(hyp_dim_eval(dims, t->a, symbols, &a, diag));
    HYP_TRY(hyp_dim_eval(dims, t->b, symbols, &b, diag));
    if (t->kind == HYP_DIM_MIN) return *out = a < b ? a : b, HYP_OK;
    if (t->kind == HYP_DIM_MAX) return *out = a > b ? a : b, HYP_OK;
    if (b == 0) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a dimension is divided by zero");
    if (a == INT64_MIN && b == -1) return hyp_dim_overflow(diag);
    *out = hyp_dim_floor(a, b);
    return HYP_OK;
}

hyp_status hyp_dim_eval(const hyp_dims *dims, hyp_dim d, const int64_t *symbols, int64_t *out, hyp_diag *diag)
{
    if (hyp_dim_is_const(d)) return *out = d, HYP_OK;
    uint32_t count;
    const term *terms = hyp_dim_get_terms(dims, d, &count);
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t product = terms[i].coef, factor = 0;
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            HYP_TRY(eval_atom(dims, hyp_dim_get_atom(dims, terms[i].atoms[j]), symbols, &factor, diag));
            if (!hyp_mul_i64(product, factor, &product)) return hyp_dim_overflow(diag);
        }
        if (!hyp_add_i64(sum, product, &sum)) return hyp_dim_overflow(diag);
    }
    *out = sum;
    return HYP_OK;
}

static hyp_status substitute_atom(hyp_dims *dims, atom t, const hyp_dim *replacement, hyp_dim *out, hyp_diag *diag)
{
    if (t.kind == HYP_DIM_SYMBOL) return *out = replacement[t.symbol], HYP_OK;
    hyp_dim a, b;
    HYP_TRY(hyp_dim_substitute(dims, t.a, replacement, &a, diag));
    HYP_TRY(hyp_dim_substitute(dims, t.b, replacement, &b, diag));
    if (t.kind == HYP_DIM_FLOORDIV) return hyp_dim_floordiv(dims, a, b, out, diag);
    return (t.kind == HYP_DIM_MIN ? hyp_dim_min : hyp_dim_max)(dims, a, b, out, diag);
}

hyp_status hyp_dim_substitute(hyp_dims *dims, hyp_dim d, const hyp_dim *replacement, hyp_dim *out, hyp_diag *diag)
{
    if (hyp_dim_is_const(d)) return *out = d, HYP_OK;
    uint32_t count;
    const term *terms = hyp_dim_get_terms(dims, d, &count);
    hyp_dim sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        hyp_dim product = terms[i].coef, factor = 0;
        if (!hyp_dim_is_const(product)) return hyp_dim_overflow(diag);
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            HYP_TRY(substitute_atom(dims, *hyp_dim_get_atom(dims, terms[i].atoms[j]), replacement, &factor, diag));
            HYP_TRY(hyp_dim_mul(dims, product, factor, &product, diag));
        }
        HYP_TRY(hyp_dim_add(dims, sum, product, &sum, diag));
    }
    *out = sum;
    return HYP_OK;
}

hyp_status hyp_dim_inspect(hyp_dims *dims, hyp_dim d, hyp_dim_view *out, hyp_diag *diag)
{
    *out = (hyp_dim_view){.kind = HYP_DIM_CONST, .value = d};
    if (hyp_dim_is_const(d)) return HYP_OK;
    poly rest, first = {.count = 1};
    hyp_dim_load(dims, d, &rest);
    if (rest.count > 1) {
        out->kind = HYP_DIM_ADD;
        first.terms[0] = rest.terms[0];
        rest.count--;
        memmove(rest.terms, rest.terms + 1, rest.count * sizeof *rest.terms);
    } else if (rest.terms[0].coef != 1) {
        out->kind = HYP_DIM_MUL;
        first.terms[0] = (term){.coef = rest.terms[0].coef};
        rest.terms[0].coef = 1;
    } else if (rest.terms[0].degree > 1) {
        term *t = &rest.terms[0];
        out->kind = HYP_DIM_MUL;
        first.terms[0] = (term){.coef = 1, .degree = 1, .atoms = {t->atoms[0]}};
        t->degree--;
        memmove(t->atoms, t->atoms + 1, t->degree * sizeof *t->atoms);
        t->atoms[t->degree] = 0;
    } else {
        const atom *t = hyp_dim_get_atom(dims, rest.terms[0].atoms[0]);
        *out = (hyp_dim_view){.kind = (hyp_dim_kind)t->kind, .value = t->symbol, .a = t->a, .b = t->b};
        return HYP_OK;
    }
    out->value = 0;
    HYP_TRY(hyp_dim_store(dims, &first, &out->a, diag));
    return hyp_dim_store(dims, &rest, &out->b, diag);
}
