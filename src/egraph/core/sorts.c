#include "egraph/core/sorts.h"

#include <string.h>

hyp_status hyp_sorts_begin(hyp_egraph *eg, hyp_diag *diag)
{
    if (eg->sorts) return HYP_OK;
    if (eg->ops.len)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "operators are declared before the first term and the first rule");
    eg->sorts = hyp_calloc(1, sizeof *eg->sorts);
    if (!eg->sorts) return hyp_fail_memory(diag, sizeof *eg->sorts);
    for (int i = 0; i < HYP_LITERALS; i++) eg->sorts->literal[i] = HYP_NONE;
    return HYP_OK;
}

void hyp_sorts_destroy(hyp_sorts *s)
{
    if (!s) return;
    hyp_intern_dispose(&s->names);
    hyp_vec_free(&s->all);
    hyp_vec_free(&s->args);
    hyp_vec_free(&s->by_symbol);
    hyp_free(s);
}

static const char *sort_name(const hyp_sorts *s, uint32_t sort)
{
    return sort == HYP_NONE ? "?" : s->names.names.data[sort];
}

hyp_status hyp_sorts_add(hyp_egraph *eg, hyp_symbol symbol, const uint32_t *args, uint32_t count, bool any,
                         uint32_t result, hyp_diag *diag)
{
    hyp_sorts *s = eg->sorts;
    uint32_t before = hyp_declared_first(s, symbol);
    if (before != HYP_NONE && s->all.data[before].result != result)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "'%s' is a %s already, and an operator is of one sort",
                        eg->symbols.names.data[symbol], sort_name(s, s->all.data[before].result));
    for (uint32_t way = before; way != HYP_NONE; way = s->all.data[way].next) {
        const hyp_declared *d = &s->all.data[way];
        if (d->count == count && d->any == any &&
            (!count || memcmp(s->args.data + d->first, args, count * sizeof *args) == 0))
            return HYP_OK; /* said again */
    }
    HYP_TRY(hyp_vec_reserve(&s->args, s->args.len + count, diag));
    HYP_TRY(hyp_vec_reserve(&s->all, s->all.len + 1, diag));
    HYP_TRY(hyp_vec_reserve(&s->by_symbol, (size_t)symbol + 1, diag));
    while (s->by_symbol.len <= symbol) s->by_symbol.data[s->by_symbol.len++] = HYP_NONE;
    s->all.data[s->all.len] = (hyp_declared){.symbol = symbol,
                                             .result = result,
                                             .first = (uint32_t)s->args.len,
                                             .count = count,
                                             .any = any,
                                             .next = s->by_symbol.data[symbol]};
    s->by_symbol.data[symbol] = (uint32_t)s->all.len++;
    if (count) memcpy(s->args.data + s->args.len, args, count * sizeof *args);
    s->args.len += count;
    return HYP_OK;
}

static void write_sorts(hyp_strbuf *sb, const hyp_sorts *s, const uint32_t *args, uint32_t count, bool any)
{
    hyp_strbuf_puts(sb, "(");
    for (uint32_t i = 0; i < count; i++)
        hyp_strbuf_printf(sb, "%s%s%s", i ? " " : "", sort_name(s, args[i]), any && i + 1 == count ? "..." : "");
    hyp_strbuf_puts(sb, ")");
}

/* None fits: the ways of the operator, or the name that may have been meant. */
static hyp_status tell_ways(const hyp_egraph *eg, hyp_symbol symbol, const uint32_t *args, uint32_t count,
                            hyp_diag *diag)
{
    const hyp_sorts *s = eg->sorts;
    hyp_strbuf sb = {0};
    const char *name = eg->symbols.names.data[symbol];
    uint32_t way = hyp_declared_first(s, symbol);
    if (way == HYP_NONE) {
        const char **names = hyp_calloc(s->all.len + 1, sizeof *names);
        for (size_t i = 0; names && i < s->all.len; i++) names[i] = eg->symbols.names.data[s->all.data[i].symbol];
        const char *near = names ? hyp_nearest(name, names) : NULL;
        hyp_strbuf_printf(&sb, "the operator '%s' is not declared", name);
        if (near) hyp_strbuf_printf(&sb, "; did you mean '%s'?", near);
        hyp_free(names);
    } else {
        hyp_strbuf_printf(&sb, "'%s' takes ", name);
        for (; way != HYP_NONE; way = s->all.data[way].next) {
            const hyp_declared *d = &s->all.data[way];
            write_sorts(&sb, s, s->args.data + d->first, d->count, d->any);
            if (d->next != HYP_NONE) hyp_strbuf_puts(&sb, " or ");
        }
        hyp_strbuf_puts(&sb, ", not ");
        write_sorts(&sb, s, args, count, false);
    }
    hyp_status status = hyp_fail(diag, HYP_ERR_MALFORMED, "%s", hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

static uint32_t literal_sort(const hyp_sorts *s, const char *text)
{
    char *end;
    const char *digits = *text == '-' || *text == '+' ? text + 1 : text;
    hyp_literal kind = HYP_LITERAL_NAME;
    if ((*digits >= '0' && *digits <= '9') || *digits == '.') {
        hyp_strtod(text, &end);
        if (*end == 0) kind = digits[strspn(digits, "0123456789")] == 0 ? HYP_LITERAL_INT : HYP_LITERAL_FLOAT;
    }
    return s->literal[kind];
}

static bool fits(const hyp_sorts *s, const hyp_declared *d, const uint32_t *args, uint32_t count)
{
    if (!hyp_declared_takes(d, count)) return false;
    for (uint32_t j = 0; j < count; j++)
        if (args[j] != HYP_NONE && args[j] != hyp_declared_arg(s, d, j)) return false;
    return true;
}

hyp_status hyp_sorts_of(const hyp_egraph *eg, hyp_symbol symbol, const uint32_t *args, uint32_t count, uint32_t *out,
                        uint32_t *out_way, hyp_diag *diag)
{
    const hyp_sorts *s = eg->sorts;
    uint32_t ways = 0, first = hyp_declared_first(s, symbol);
    *out_way = HYP_NONE;
    *out = first == HYP_NONE ? HYP_NONE : s->all.data[first].result;
    for (uint32_t way = first; way != HYP_NONE; way = s->all.data[way].next) {
        const hyp_declared *d = &s->all.data[way];
        if (!fits(s, d, args, count)) continue;
        *out_way = ways++ == 0 ? way : HYP_NONE;
    }
    if (first == HYP_NONE && count == 0) {
        *out = literal_sort(s, eg->symbols.names.data[symbol]);
        ways = *out != HYP_NONE;
    }
    return ways ? HYP_OK : tell_ways(eg, symbol, args, count, diag);
}

uint32_t hyp_sorts_of_class(hyp_egraph *eg, uint32_t c)
{
    const hyp_sorts *s = eg->sorts;
    hyp_symbol symbol = eg->ops.data[hyp_row_op(eg, hyp_eg_find(eg, c))].symbol;
    uint32_t way = hyp_declared_first(s, symbol);
    return way == HYP_NONE ? literal_sort(s, eg->symbols.names.data[symbol]) : s->all.data[way].result;
}

static hyp_status check(hyp_egraph *eg, hyp_symbol symbol, const uint32_t *kids, size_t count, hyp_diag *diag)
{
    enum { SMALL = 16 };
    uint32_t small[SMALL] = {0}, *args = small, sort, way;
    if (count > SMALL && !(args = hyp_malloc(count * sizeof *args))) return hyp_fail_memory(diag, count * sizeof *args);
    for (size_t j = 0; j < count; j++) args[j] = hyp_sorts_of_class(eg, kids[j]);
    hyp_status status = hyp_sorts_of(eg, symbol, args, (uint32_t)count, &sort, &way, diag);
    if (args != small) hyp_free(args);
    return status;
}

hyp_status hyp_sorts_check(hyp_egraph *eg, hyp_symbol symbol, const uint32_t *kids, size_t count, hyp_diag *diag)
{
    return eg->sorts ? check(eg, symbol, kids, count, diag) : HYP_OK;
}

hyp_status hyp_sorts_agree(hyp_egraph *eg, uint32_t a, uint32_t b, hyp_diag *diag)
{
    if (!eg->sorts) return HYP_OK;
    uint32_t x = hyp_sorts_of_class(eg, a), y = hyp_sorts_of_class(eg, b);
    if (x == y || x == HYP_NONE || y == HYP_NONE) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_MALFORMED, "a %s and a %s cannot be one class", sort_name(eg->sorts, x),
                    sort_name(eg->sorts, y));
}
