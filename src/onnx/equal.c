/* Sizes that the model calls differently and a node needs to be equal: taken as equal, which the plan checks when it
 * runs. Inference leaves a note of the two; one of them is solved for a symbol, which that input then lacks. */
#include <string.h>

#include "onnx/import.h"

enum { MAX_EQUAL = 64 }; /* each is another attempt at the import */

static bool contains(const hyp_dims *dims, hyp_dim d, size_t symbol, int64_t *values)
{
    int64_t unused;
    size_t count = hyp_dims_symbol_count(dims);
    for (size_t i = 0; i < count; i++) values[i] = i == symbol ? -1 : 1;
    return hyp_dim_eval(dims, d, values, &unused, NULL) != HYP_OK; /* other failures: do not take it either */
}

/* a = b solved for a symbol of a that b lacks: symbol = b - offset. */
static bool solve(hyp_importer *im, hyp_dim a, hyp_dim b, hyp_onnx_equal *out)
{
    int64_t scale, offset;
    int64_t *values = hyp_arena_zalloc(&im->arena, hyp_dims_symbol_count(im->g->dims), sizeof *values);
    return values && hyp_dim_is_linear(im->g->dims, a, &out->symbol, &scale, &offset) && scale == 1 &&
           !contains(im->g->dims, b, out->symbol, values) &&
           hyp_dim_sub(im->g->dims, b, offset, &out->size, NULL) == HYP_OK;
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
    hyp_onnx_equal first, second, *e = &second;
    *out_taken = false;
    hyp_dims_unequal(im->g->dims, &a, &b);
    if (hyp_dim_is_const(a) || hyp_dim_is_const(b) || im->equal.len == MAX_EQUAL) return HYP_OK;
    bool has_first = solve(im, a, b, &first), has_second = solve(im, b, a, &second);
    if (!has_first && !has_second) return HYP_OK;
    /* The symbol that was declared later goes, so that messages compare with the first. */
    if (!has_second || (has_first && first.symbol > second.symbol)) e = &first;
    const char *x = text_of(im, a), *y = text_of(im, b);
    e->reason =
        x && y ? hyp_arena_printf(&im->source->arena, "node \"%s\" needs '%s' and '%s' to be equal", node, x, y) : NULL;
    if (!e->reason) return hyp_fail_memory(im->diag, strlen(node));
    HYP_TRY(replace_in_others(im, e));
    HYP_TRY(hyp_vec_grow(&im->equal, im->diag));
    im->equal.data[im->equal.len - 1] = *e;
    *out_taken = true;
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
        HYP_TRY(hyp_vec_grow(&im->equalities, im->diag));
        im->equalities.data[im->equalities.len - 1] = (hyp_equality){input, axis, e->reason};
    }
    return HYP_OK;
}
