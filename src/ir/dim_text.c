/* dim_text.c - dims as text, and back. */
#include <string.h>

#include "ir/dim_table.h"

typedef hyp_dim_term term;
typedef hyp_dim_atom atom;

/* A name that can stand bare in a dimension: letters, digits and _ . - after a letter or _, and none of
 * the words that mean something else to a reader. */
static bool is_plain(const char *name)
{
    static const char *const taken[] = {"floordiv", "min", "max", "inf", "nan"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0) return false;
    for (const char *p = name; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
        if (!letter && (p == name || !((*p >= '0' && *p <= '9') || *p == '.' || *p == '-'))) return false;
    }
    return *name != 0;
}

static void print_atom(hyp_strbuf *sb, const hyp_dims *dims, const atom *t)
{
    if (t->kind == HYP_DIM_SYMBOL) {
        const char *name = hyp_dims_symbol_name(dims, t->symbol);
        if (is_plain(name))
            hyp_strbuf_puts(sb, name);
        else
            hyp_strbuf_quote(sb, name);
        return;
    }
    hyp_strbuf_puts(sb, t->kind == HYP_DIM_FLOORDIV ? "(floordiv " : t->kind == HYP_DIM_MIN ? "(min " : "(max ");
    hyp_dim_print(sb, dims, t->a);
    hyp_strbuf_puts(sb, " ");
    hyp_dim_print(sb, dims, t->b);
    hyp_strbuf_puts(sb, ")");
}

static void print_term(hyp_strbuf *sb, const hyp_dims *dims, const term *t)
{
    bool product = t->degree > 1 || (t->degree == 1 && t->coef != 1);
    if (product) hyp_strbuf_puts(sb, "(*");
    if (t->coef != 1 || t->degree == 0) hyp_strbuf_printf(sb, product ? " %lld" : "%lld", (long long)t->coef);
    for (uint32_t i = 0; i < t->degree; i++) {
        if (product) hyp_strbuf_puts(sb, " ");
        print_atom(sb, dims, hyp_dim_get_atom(dims, t->atoms[i]));
    }
    if (product) hyp_strbuf_puts(sb, ")");
}

void hyp_dim_print(hyp_strbuf *sb, const hyp_dims *dims, hyp_dim d)
{
    if (hyp_dim_is_const(d)) {
        hyp_strbuf_printf(sb, "%lld", (long long)d);
        return;
    }
    uint32_t count;
    const term *terms = hyp_dim_get_terms(dims, d, &count);
    if (count == 1) {
        print_term(sb, dims, terms);
        return;
    }
    hyp_strbuf_puts(sb, "(+");
    for (uint32_t i = 0; i < count; i++) {
        hyp_strbuf_puts(sb, " ");
        print_term(sb, dims, &terms[i]);
    }
    hyp_strbuf_puts(sb, ")");
}

hyp_status hyp_dim_parse(hyp_dims *dims, const char *file, const hyp_sexpr *sx, hyp_dim *out, hyp_diag *diag)
{
    typedef hyp_status operation(hyp_dims *, hyp_dim, hyp_dim, hyp_dim *, hyp_diag *);
    static const struct {
        const char *name;
        operation *apply;
    } operations[] = {{"+", hyp_dim_add},
                      {"*", hyp_dim_mul},
                      {"floordiv", hyp_dim_floordiv},
                      {"min", hyp_dim_min},
                      {"max", hyp_dim_max}};
    if (sx->kind == HYP_SX_INT) {
        if (!hyp_dim_is_const(sx->integer)) return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "too small");
        return *out = sx->integer, HYP_OK;
    }
    if (sx->kind == HYP_SX_STRING || (sx->kind == HYP_SX_SYMBOL && is_plain(sx->text)))
        return hyp_dim_symbol(dims, sx->text, out, diag);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (!hyp_sexpr_is_form(sx, operations[i].name)) continue;
        if (sx->count < 3 || (sx->count > 3 && operations[i].apply == hyp_dim_floordiv))
            return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "'%s' wants two operands", operations[i].name);
        hyp_dim all, next;
        HYP_TRY(hyp_dim_parse(dims, file, sx->items[1], &all, diag));
        for (uint32_t j = 2; j < sx->count; j++) {
            HYP_TRY(hyp_dim_parse(dims, file, sx->items[j], &next, diag));
            hyp_status status = operations[i].apply(dims, all, next, &all, diag);
            if (status != HYP_OK) {
                hyp_diag_prefix(diag, "%s:%u:%u", file, sx->line, sx->column);
                return status == HYP_ERR_INVALID_ARGUMENT ? HYP_ERR_MALFORMED : status;
            }
        }
        return *out = all, HYP_OK;
    }
    return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED,
                          "a dimension is an integer, a name (quoted if it has odd characters) or one of (+ a b), "
                          "(* a b), (floordiv a b), (min a b), (max a b)");
}
