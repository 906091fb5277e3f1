#include "runtime/core/dim_text.h"

#include <inttypes.h>

/* A dim is a DAG whose text can be exponentially longer than the plan, so depth and length are bounded. */
enum { MAX_DEPTH = 12, MAX_TEXT = 160 };

/* `tight`: the text stands beside a '*' or '/', so a sum needs parentheses. */
static void put(hyp_strbuf *sb, size_t start, const HypPlan__Program *p, uint32_t dim, int depth, bool tight)
{
    if (depth == MAX_DEPTH || sb->len - start > MAX_TEXT) {
        hyp_strbuf_puts(sb, "...");
        return;
    }
    const HypPlan__Dim *d = p->dims[dim];
    static const char *const separators[] = {[HYP_PLAN__DIM__KIND__ADD] = " + ",
                                             [HYP_PLAN__DIM__KIND__MUL] = "*",
                                             [HYP_PLAN__DIM__KIND__FLOORDIV] = "/",
                                             [HYP_PLAN__DIM__KIND__MIN] = ", ",
                                             [HYP_PLAN__DIM__KIND__MAX] = ", "};
    switch (d->kind) {
    case HYP_PLAN__DIM__KIND__CONST: hyp_strbuf_printf(sb, "%" PRId64, d->value); return;
    case HYP_PLAN__DIM__KIND__SYMBOL: hyp_strbuf_puts(sb, p->symbols[d->value]); return;
    default: break;
    }
    bool call = d->kind == HYP_PLAN__DIM__KIND__MIN || d->kind == HYP_PLAN__DIM__KIND__MAX;
    bool product = d->kind == HYP_PLAN__DIM__KIND__MUL || d->kind == HYP_PLAN__DIM__KIND__FLOORDIV;
    bool parens = call || tight;
    if (call) hyp_strbuf_puts(sb, d->kind == HYP_PLAN__DIM__KIND__MIN ? "min" : "max");
    if (parens) hyp_strbuf_puts(sb, "(");
    put(sb, start, p, d->a, depth + 1, product);
    hyp_strbuf_puts(sb, separators[d->kind]);
    put(sb, start, p, d->b, depth + 1, product);
    if (parens) hyp_strbuf_puts(sb, ")");
}

void hyp_dim_text(hyp_strbuf *sb, const HypPlan__Program *program, uint32_t dim)
{
    put(sb, sb->len, program, dim, 0, false);
}

void hyp_dims_text(hyp_strbuf *sb, const HypPlan__Program *program, const uint32_t *dims, size_t count)
{
    hyp_strbuf_puts(sb, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) hyp_strbuf_puts(sb, ", ");
        hyp_dim_text(sb, program, dims[i]);
    }
    hyp_strbuf_puts(sb, "]");
}
