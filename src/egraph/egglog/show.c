/* show.c - commands that print: extract, print-function, print-size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "egraph/egglog/extract.h"

#define FAIL(sx, status, ...) hyp_sexpr_fail(r->diag, r->file, (sx), (status), __VA_ARGS__)

static hyp_status flush(hyp_el_reader *r, const hyp_sexpr *at, hyp_strbuf *sb)
{
    hyp_status status = sb->failed ? FAIL(at, HYP_ERR_LIMIT, "the text is longer than 256 MB, or memory is out") : HYP_OK;
    if (status == HYP_OK) hyp_el_write(r->db, hyp_strbuf_text(sb), sb->len);
    hyp_strbuf_dispose(sb);
    return status;
}

/* Evaluates an expression at the top; what it makes stays. */
static hyp_status evaluate(hyp_el_reader *r, const hyp_sexpr *sx, uint32_t *out_sort, hyp_el_value *out)
{
    hyp_el_lower l;
    hyp_el_code *code;
    uint32_t reg;
    hyp_el_lower_begin(&l, r->db, r->file, true, r->diag);
    l.in_head = l.may_look_up = true;
    hyp_status status = hyp_el_lower_expr(&l, sx, &reg);
    if (status == HYP_OK) status = hyp_el_infer(&l, l.head.data, l.head.len);
    if (status == HYP_OK) status = hyp_el_lower_finish(&l, reg, &code);
    if (status == HYP_OK) status = hyp_el_evaluate(r->db, code, NULL, 0, out, r->diag);
    if (status == HYP_OK) *out_sort = code->result_sort;
    hyp_el_lower_dispose(&l);
    if (status == HYP_OK) status = hyp_el_rebuild(r->db, r->diag);
    return status == HYP_OK ? hyp_el_canonical(r->db, *out_sort, *out, out, r->diag) : status;
}

/* ---- extract ------------------------------------------------------------------------------------------------------ */

typedef struct variant {
    double cost;
    uint32_t node;
} variant;

static int by_cost(const void *a, const void *b)
{
    const variant *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* The nodes of a class, the one with the cheapest term first. */
static hyp_status list_variants(const hyp_el_extractor *e, uint32_t c, variant **out, size_t *out_count, hyp_diag *diag)
{
    HYP_VEC(variant) found = {0};
    for (uint32_t n = 0; n < e->p.node_count; n++) {
        if (e->p.owner[n] != e->number[c] - 1) continue;
        double cost = e->p.cost[n];
        for (uint32_t k = e->p.kid_at[n]; k < e->p.kid_at[n + 1]; k++)
            cost += e->choice[e->p.kids[k]] == HYP_EL_NONE ? (double)INFINITY : e->weight[e->p.kids[k]];
        if (isinf(cost)) continue;
        hyp_status status = hyp_vec_push(&found, diag, (variant){cost, n});
        if (status == HYP_OK) continue;
        hyp_vec_free(&found);
        return status;
    }
    if (found.len) qsort(found.data, found.len, sizeof *found.data, by_cost);
    *out = found.data;
    *out_count = found.len;
    return HYP_OK;
}

static hyp_status print_variants(hyp_el_reader *r, const hyp_el_extractor *e, uint32_t c, int64_t most, hyp_strbuf *sb)
{
    variant *found = NULL;
    size_t count = 0;
    HYP_TRY(list_variants(e, c, &found, &count, r->diag));
    hyp_strbuf_puts(sb, "(\n");
    for (size_t i = 0; i < count && (int64_t)i < most; i++) {
        hyp_strbuf_puts(sb, "   ");
        hyp_el_write_row(e, e->nodes.data[found[i].node].function, e->nodes.data[found[i].node].row, sb);
        hyp_strbuf_puts(sb, "\n");
    }
    hyp_strbuf_puts(sb, ")\n");
    hyp_free(found);
    return HYP_OK;
}

static hyp_status print_value(hyp_el_reader *r, const hyp_sexpr *form, uint32_t sort, hyp_el_value v, int64_t most)
{
    hyp_el_extractor e;
    hyp_strbuf sb = {0};
    bool term = r->db->sorts.data[sort].kind == HYP_EL_EQ;
    hyp_status status = hyp_el_extractor_begin(&e, r->db, r->diag);
    if (status == HYP_OK) status = hyp_el_extractor_want(&e, sort, v, r->diag);
    if (status == HYP_OK) status = hyp_el_extractor_solve(&e, r->diag);
    if (status == HYP_OK && term && hyp_el_choice(&e, v) == HYP_EL_NONE)
        status = FAIL(form, HYP_ERR_MISMATCH,
                      "there is no term to extract: all that there are are subsumed, deleted or unextractable");
    if (status == HYP_OK && most && term)
        status = print_variants(r, &e, v, most, &sb);
    else if (status == HYP_OK) {
        hyp_el_write_term(&e, sort, v, &sb);
        hyp_strbuf_puts(&sb, "\n");
    }
    hyp_el_extractor_dispose(&e);
    if (status == HYP_OK) return flush(r, form, &sb);
    hyp_strbuf_dispose(&sb);
    return status;
}

/* (extract E), (extract E N): the best term, or up to N with different constructors or arguments at the top. */
hyp_status hyp_el_extract(hyp_el_reader *r, const hyp_sexpr *form)
{
    uint32_t sort = HYP_EL_NONE, count_sort;
    hyp_el_value v = 0, count = 0;
    int64_t most = 0;
    if (form->count != 2 && form->count != 3) return FAIL(form, HYP_ERR_MALFORMED, "(extract EXPRESSION [N])");
    if (form->count == 3) {
        HYP_TRY(evaluate(r, form->items[2], &count_sort, &count));
        if (count_sort != HYP_EL_I64) return FAIL(form->items[2], HYP_ERR_MALFORMED, "a number of terms is wanted");
        most = hyp_el_get_i64(r->db, count);
        if (most < 0) return FAIL(form->items[2], HYP_ERR_MALFORMED, "a negative number of terms");
    }
    HYP_TRY(evaluate(r, form->items[1], &sort, &v));
    return print_value(r, form, sort, v, most);
}

/* ---- tables ----------------------------------------------------------------------------------------------------------- */

static bool shown(const hyp_el_function *f) { return f->kind != HYP_EL_GLOBAL; }

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const hyp_el_function *const *)a)->name, (*(const hyp_el_function *const *)b)->name);
}

static hyp_status print_sizes(hyp_el_reader *r, const hyp_sexpr *form)
{
    const hyp_egglog *db = r->db;
    const hyp_el_function **order = hyp_malloc((db->functions.len + 1) * sizeof *order);
    hyp_strbuf sb = {0};
    size_t count = 0;
    if (!order) return hyp_fail_memory(r->diag, db->functions.len * sizeof *order);
    for (size_t i = 0; i < db->functions.len; i++)
        if (shown(&db->functions.data[i])) order[count++] = &db->functions.data[i];
    qsort(order, count, sizeof *order, by_name);
    hyp_strbuf_puts(&sb, "(");
    for (size_t i = 0; i < count; i++)
        hyp_strbuf_printf(&sb, "%s(%s %zu)", i ? "\n " : "", order[i]->name, order[i]->table.live);
    hyp_strbuf_puts(&sb, ")\n");
    hyp_free(order);
    return flush(r, form, &sb);
}

/* What the first `most` rows are made of. */
static hyp_status want_rows(hyp_el_extractor *e, const hyp_el_function *f, int64_t most, hyp_diag *diag)
{
    for (size_t row = 0; row < f->table.count && most > 0; row++) {
        if (*hyp_el_stamp(&f->table, row) == HYP_EL_DEAD) continue;
        for (uint32_t c = 0; c <= f->arity; c++)
            HYP_TRY(hyp_el_extractor_want(e, f->sorts[c], hyp_el_row(&f->table, row)[c], diag));
        most--;
    }
    return hyp_el_extractor_solve(e, diag);
}

static hyp_status print_rows(hyp_el_reader *r, const hyp_sexpr *form, uint32_t function, int64_t most)
{
    const hyp_el_function *f = &r->db->functions.data[function];
    hyp_el_extractor e;
    hyp_strbuf sb = {0};
    hyp_status status = hyp_el_extractor_begin(&e, r->db, r->diag);
    if (status == HYP_OK) status = want_rows(&e, f, most, r->diag);
    hyp_strbuf_puts(&sb, "(\n");
    for (size_t row = 0; row < f->table.count && most > 0 && status == HYP_OK; row++) {
        if (*hyp_el_stamp(&f->table, row) == HYP_EL_DEAD) continue;
        hyp_strbuf_puts(&sb, "   ");
        hyp_el_write_row(&e, function, (uint32_t)row, &sb);
        if (f->kind != HYP_EL_RELATION) {
            hyp_strbuf_puts(&sb, " -> ");
            hyp_el_write_term(&e, f->sorts[f->arity], hyp_el_row(&f->table, row)[f->arity], &sb);
        }
        hyp_strbuf_puts(&sb, "\n");
        most--;
    }
    hyp_strbuf_puts(&sb, ")\n");
    hyp_el_extractor_dispose(&e);
    if (status == HYP_OK) return flush(r, form, &sb);
    hyp_strbuf_dispose(&sb);
    return status;
}

/* (print-function NAME [N]), (print-size [NAME]) */
hyp_status hyp_el_print_function(hyp_el_reader *r, const hyp_sexpr *form)
{
    bool size = hyp_sexpr_is_form(form, "print-size");
    int64_t most = INT64_MAX;
    HYP_TRY(hyp_el_rebuild(r->db, r->diag));
    if (size && form->count == 1) return print_sizes(r, form);
    if (form->count < 2 || form->items[1]->kind != HYP_SX_SYMBOL)
        return FAIL(form, HYP_ERR_MALFORMED, "(%s NAME)", form->items[0]->text);
    uint32_t function = hyp_el_function_named(r->db, form->items[1]->text);
    if (function == HYP_EL_NONE)
        return FAIL(form->items[1], HYP_ERR_MALFORMED, "there is no table %s", form->items[1]->text);
    if (form->count > (size ? 2u : 3u))
        return FAIL(form->items[form->count - 1], HYP_ERR_UNSUPPORTED, "options of %s are not read", form->items[0]->text);
    if (!size) {
        if (form->count == 3 && (form->items[2]->kind != HYP_SX_INT || form->items[2]->integer < 0))
            return FAIL(form->items[2], HYP_ERR_MALFORMED, "a number of rows is wanted");
        if (form->count == 3) most = form->items[2]->integer;
        return print_rows(r, form, function, most);
    }
    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "%zu\n", r->db->functions.data[function].table.live);
    return flush(r, form, &sb);
}
