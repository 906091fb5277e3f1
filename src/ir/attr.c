/* Types and attributes as values and as text. */
#include <math.h>
#include <string.h>

#include "ir/ir.h"

bool hyp_type_equal(const hyp_type *a, const hyp_type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

bool hyp_type_is_static(const hyp_type *t)
{
    for (int32_t i = 0; i < t->rank; i++)
        if (!hyp_dim_is_const(t->dims[i])) return false;
    return true;
}

hyp_status hyp_type_elements(hyp_dims *dims, const hyp_type *t, hyp_dim *out, hyp_diag *diag)
{
    hyp_dim product = 1;
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] == 0) return *out = 0, HYP_OK; /* whatever the others' product would be */
    }
    for (int32_t i = 0; i < t->rank; i++) HYP_TRY(hyp_dim_mul(dims, product, t->dims[i], &product, diag));
    *out = product;
    return HYP_OK;
}

bool hyp_type_bytes(const hyp_type *t, size_t *out)
{
    size_t bytes = hyp_dtype_size(t->dtype);
    for (int32_t i = 0; i < t->rank; i++) {
        if (!hyp_dim_is_const(t->dims[i])) return false;
        if (t->dims[i] == 0) bytes = 0;
    }
    for (int32_t i = 0; i < t->rank; i++)
        if (!hyp_mul_size(bytes, (size_t)t->dims[i], &bytes)) return false;
    *out = bytes;
    return true;
}

static void print_dims(hyp_strbuf *sb, const hyp_dims *dims, const hyp_dim *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i) hyp_strbuf_puts(sb, " ");
        hyp_dim_print(sb, dims, list[i]);
    }
}

void hyp_type_print(hyp_strbuf *sb, const hyp_dims *dims, const hyp_type *t)
{
    hyp_strbuf_printf(sb, "%s[", hyp_dtype_name(t->dtype));
    print_dims(sb, dims, t->dims, (size_t)t->rank);
    hyp_strbuf_puts(sb, "]");
}

bool hyp_attr_equal(const hyp_attr *a, const hyp_attr *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case HYP_ATTR_INT: return a->i == b->i;
    case HYP_ATTR_FLOAT: /* as their texts are: zeros by sign, all NaNs the same */
        return isnan(a->f) ? isnan(b->f) != 0 : a->f == b->f && !signbit(a->f) == !signbit(b->f);
    case HYP_ATTR_SYM: return strcmp(a->sym, b->sym) == 0;
    case HYP_ATTR_DIMS:
        return a->count == b->count && (!a->count || memcmp(a->dims, b->dims, a->count * sizeof *a->dims) == 0);
    case HYP_ATTR_SYMS:
        if (a->count != b->count) return false;
        for (uint32_t i = 0; i < a->count; i++)
            if (strcmp(a->syms[i], b->syms[i]) != 0) return false;
        return true;
    }
    return false;
}

void hyp_attr_print(hyp_strbuf *sb, const hyp_dims *dims, const hyp_attr *a)
{
    switch (a->kind) {
    case HYP_ATTR_INT: hyp_strbuf_printf(sb, "%lld", (long long)a->i); break;
    case HYP_ATTR_FLOAT: hyp_strbuf_double(sb, a->f); break;
    case HYP_ATTR_SYM: hyp_strbuf_puts(sb, a->sym); break;
    case HYP_ATTR_DIMS:
        hyp_strbuf_puts(sb, "(");
        print_dims(sb, dims, a->dims, a->count);
        hyp_strbuf_puts(sb, ")");
        break;
    case HYP_ATTR_SYMS:
        hyp_strbuf_puts(sb, "(");
        for (uint32_t i = 0; i < a->count; i++) hyp_strbuf_printf(sb, "%s%s", i ? " " : "", a->syms[i]);
        hyp_strbuf_puts(sb, ")");
        break;
    }
}

static hyp_status parse_dims(hyp_arena *arena, hyp_dims *dims, const char *file, const hyp_sexpr *sx, hyp_attr *out,
                             hyp_diag *diag)
{
    hyp_dim *list = hyp_arena_zalloc(arena, sx->count, sizeof *list);
    if (!list) return hyp_fail_memory(diag, sx->count * sizeof *list);
    for (uint32_t i = 0; i < sx->count; i++) HYP_TRY(hyp_dim_parse(dims, file, sx->items[i], &list[i], diag));
    *out = (hyp_attr){.kind = HYP_ATTR_DIMS, .count = sx->count, .dims = list};
    return HYP_OK;
}

static hyp_status parse_syms(hyp_arena *arena, const char *file, const hyp_sexpr *sx, hyp_attr *out, hyp_diag *diag)
{
    const char **list = hyp_arena_zalloc(arena, sx->count, sizeof *list);
    if (!list) return hyp_fail_memory(diag, sx->count * sizeof *list);
    for (uint32_t i = 0; i < sx->count; i++) {
        if (sx->items[i]->kind != HYP_SX_SYMBOL)
            return hyp_sexpr_fail(diag, file, sx->items[i], HYP_ERR_MALFORMED, "a symbol is wanted here");
        list[i] = hyp_arena_strdup(arena, sx->items[i]->text);
        if (!list[i]) return hyp_fail_memory(diag, strlen(sx->items[i]->text));
    }
    *out = (hyp_attr){.kind = HYP_ATTR_SYMS, .count = sx->count, .syms = list};
    return HYP_OK;
}

hyp_status hyp_attr_parse(hyp_arena *arena, hyp_dims *dims, const char *file, const hyp_sexpr *sx, hyp_attr_kind kind,
                          hyp_attr *out, hyp_diag *diag)
{
    static const char *const wanted[] = {
        [HYP_ATTR_INT] = "an integer",         [HYP_ATTR_FLOAT] = "a number",
        [HYP_ATTR_SYM] = "a symbol",           [HYP_ATTR_DIMS] = "a list of dimensions such as (1 batch (* 2 n))",
        [HYP_ATTR_SYMS] = "a list of symbols",
    };
    hyp_attr a = {.kind = kind};
    if (kind == HYP_ATTR_DIMS && sx->kind == HYP_SX_LIST) return parse_dims(arena, dims, file, sx, out, diag);
    if (kind == HYP_ATTR_SYMS && sx->kind == HYP_SX_LIST) return parse_syms(arena, file, sx, out, diag);
    if (kind == HYP_ATTR_INT && sx->kind == HYP_SX_INT) {
        a.i = sx->integer;
    } else if (kind == HYP_ATTR_FLOAT && (sx->kind == HYP_SX_FLOAT || sx->kind == HYP_SX_INT)) {
        a.f = sx->number;
    } else if (kind == HYP_ATTR_SYM && sx->kind == HYP_SX_SYMBOL) {
        a.sym = hyp_arena_strdup(arena, sx->text);
        if (!a.sym) return hyp_fail_memory(diag, strlen(sx->text));
    } else {
        return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "%s is wanted here", wanted[kind]);
    }
    *out = a;
    return HYP_OK;
}
