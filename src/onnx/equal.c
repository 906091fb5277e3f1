/* Sizes that the model calls differently and a node needs to be equal: a condition of the plan, which checks it when it
 * runs. Inference leaves a note of the two; their equation is solved for a symbol, which the inputs then lack. */
#include <string.h>

#include "onnx/import.h"

enum { MAX_EQUAL = 64 }; /* each is another attempt at the import */

/* A symbol whose size must be a multiple of a number for d to be 0, and then always is: 2 * floordiv(h, 2) - h for
 * h = 2 k. *out says so with a new symbol for k. */
static bool find_multiple(hyp_importer *im, hyp_dim d, size_t symbol, hyp_onnx_equal *out)
{
    enum { MOST = 64 };
    hyp_dims *dims = im->g->dims;
    size_t count = hyp_dims_symbol_count(dims);
    int64_t *values = hyp_arena_zalloc(&im->arena, count, sizeof *values), zero;
    hyp_dim *replacement = hyp_arena_zalloc(&im->arena, count, sizeof *replacement), unused, k;
    for (size_t i = 0; values && replacement && i < count; i++) {
        if (hyp_dim_symbol(dims, hyp_dims_symbol_name(dims, i), &replacement[i], NULL) != HYP_OK) return false;
    }
    for (int64_t scale = 2; values && replacement && scale <= MOST; scale++) {
        for (int64_t rest = 0; rest < scale; rest++) {
            bool fits = true; /* tried with numbers first, which costs less */
            for (int64_t i = 1; i <= 4 && fits; i++) {
                values[symbol] = i * scale + rest;
                fits = hyp_dim_eval(dims, d, values, &zero, NULL) == HYP_OK && zero == 0;
            }
            if (!fits) continue;
            const char *name = hyp_dims_symbol_name(dims, symbol);
            const char *part =
                rest ? hyp_arena_printf(&im->arena, "(%s-%lld)/%lld", name, (long long)rest, (long long)scale)
                     : hyp_arena_printf(&im->arena, "%s/%lld", name, (long long)scale);
            if (!part || hyp_dim_symbol(dims, part, &k, NULL) != HYP_OK ||
                hyp_dim_mul(dims, k, scale, &out->size, NULL) != HYP_OK ||
                hyp_dim_add(dims, out->size, rest, &out->size, NULL) != HYP_OK)
                return false;
            replacement[symbol] = out->size;
            out->symbol = symbol;
            return hyp_dim_substitute(dims, d, replacement, &unused, NULL) == HYP_OK && unused == 0;
        }
    }
    return false;
}

/* What makes a and b equal. */
static bool solve(hyp_importer *im, hyp_dim a, hyp_dim b, hyp_onnx_equal *out)
{
    hyp_dims *dims = im->g->dims;
    hyp_dim difference;
    if (hyp_dim_sub(dims, a, b, &difference, NULL) != HYP_OK) return false;
    if (hyp_dim_solve(dims, difference, &out->symbol, &out->size)) return true;
    /* Of several symbols each could be the multiple. */
    size_t symbol = 0, count = hyp_dims_symbol_count(dims), found = 0;
    for (size_t i = 0; i < count; i++)
        if (hyp_dim_depends(dims, difference, i)) symbol = i, found++;
    return found == 1 && find_multiple(im, difference, symbol, out);
}

static const char *text_of(hyp_importer *im, hyp_dim d)
{
    hyp_strbuf sb = {0};
    hyp_dim_print(&sb, im->g->dims, d);
    const char *text = hyp_arena_strdup(&im->arena, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return text;
}

/* The sizes found before may have the symbol, too. */
static hyp_status replace_in_others(hyp_importer *im, const hyp_onnx_equal *e)
{
    size_t count = hyp_dims_symbol_count(im->g->dims);
    hyp_dim *replacement = hyp_arena_zalloc(&im->arena, count, sizeof *replacement);
    if (!replacement) return hyp_fail_memory(im->diag, count * sizeof *replacement);
    for (size_t i = 0; i < count; i++) {
        replacement[i] = e->size;
        if (i != e->symbol)
            HYP_TRY(hyp_dim_symbol(im->g->dims, hyp_dims_symbol_name(im->g->dims, i), &replacement[i], im->diag));
    }
    for (size_t i = 0; i < im->equal.len; i++) {
        hyp_dim *size = &im->equal.data[i].size;
        HYP_TRY(hyp_dim_substitute(im->g->dims, *size, replacement, size, im->diag));
    }
    return HYP_OK;
}

hyp_status hyp_onnx_take_equal(hyp_importer *im, const char *node, bool *out_taken)
{
    hyp_dim a, b;
    hyp_onnx_equal e;
    *out_taken = false;
    hyp_dims_unequal(im->g->dims, &a, &b);
    for (size_t i = 0; i < im->data_sizes.len; i++) { /* what only the data tell is no condition on inputs */
        size_t symbol = im->data_sizes.data[i].symbol;
        if (hyp_dim_depends(im->g->dims, a, symbol) || hyp_dim_depends(im->g->dims, b, symbol)) return HYP_OK;
    }
    if (a == b || im->equal.len == MAX_EQUAL || !solve(im, a, b, &e)) return HYP_OK;
    const char *x = text_of(im, a), *y = text_of(im, b);
    e.reason =
        x && y ? hyp_arena_printf(&im->source->arena, "node \"%s\" needs '%s' and '%s' to be equal", node, x, y) : NULL;
    if (!e.reason) return hyp_fail_memory(im->diag, strlen(node));
    HYP_TRY(replace_in_others(im, &e));
    HYP_TRY(hyp_vec_push(&im->equal, im->diag, e));
    *out_taken = true;
    return HYP_OK;
}

hyp_status hyp_onnx_named_size(hyp_importer *im, const char *name, hyp_dim *out)
{
    for (size_t i = 0; i < im->sizes.len; i++)
        if (strcmp(im->sizes.data[i].symbol, name) == 0) return *out = im->sizes.data[i].size, HYP_OK;
    HYP_TRY(hyp_dim_symbol(im->g->dims, name, out, im->diag));
    for (size_t i = 0; i < im->equal.len; i++)
        if (strcmp(hyp_dims_symbol_name(im->g->dims, im->equal.data[i].symbol), name) == 0)
            *out = im->equal.data[i].size;
    return HYP_OK;
}

hyp_status hyp_onnx_equal_size(hyp_importer *im, const char *input, uint32_t axis, hyp_dim *size)
{
    size_t symbol;
    int64_t scale, offset;
    if (!hyp_dim_is_linear(im->g->dims, *size, &symbol, &scale, &offset)) return HYP_OK;
    for (size_t i = 0; i < im->equal.len; i++) {
        const hyp_onnx_equal *e = &im->equal.data[i];
        if (e->symbol != symbol) continue;
        *size = e->size;
        const char *name = hyp_dims_symbol_name(im->g->dims, symbol);
        HYP_TRY(hyp_vec_push(&im->equalities, im->diag, (hyp_equality){input, axis, e->reason, name}));
    }
    return HYP_OK;
}
