/* text.c - what was chosen, as text. The e-graph may be another one by now: nothing of an extraction is believed. */
#include "base/sexpr.h"
#include "egraph/core/state.h"

#define LONGEST_TEXT ((size_t)1 << 28) /* bytes */

/* A term being counted or written: the next child of a row. */
typedef struct frame {
    uint32_t row, next;
} frame;

typedef struct text_writer {
    hyp_egraph *eg;
    const hyp_extraction *ex;
    size_t *sizes; /* by row: of the term without the letters of its symbols; OPEN: it is being counted; 0: not yet */
    HYP_VEC(frame) stack;
    hyp_strbuf text;
    hyp_diag *diag;
} text_writer;
#define OPEN SIZE_MAX

/* The e-node that was chosen for a class. */
static hyp_status chosen(const text_writer *w, uint32_t c, uint32_t *out)
{
    *out = c < w->ex->class_bound ? w->ex->choice[c] : HYP_NONE;
    if (*out < w->eg->row_count && hyp_eg_find(w->eg, *out) == c) return HYP_OK;
    return hyp_fail(w->diag, HYP_ERR_INVALID_ARGUMENT,
                    *out == HYP_NONE
                        ? "nothing was chosen for class %u; if the e-graph has changed since, extract again"
                        : "the e-graph has changed since its class %u was chosen for; extract again",
                    c);
}

static hyp_status open_row(text_writer *w, uint32_t row) { return hyp_vec_push(&w->stack, w->diag, (frame){row, 0}); }

static hyp_status too_long(const text_writer *w)
{
    return hyp_fail(w->diag, HYP_ERR_LIMIT, "the term is longer than %zu MB when it is written out",
                    LONGEST_TEXT >> 20);
}

/* Whether there is a term, and its symbols and blanks alone are short enough. */
static hyp_status measure(text_writer *w, uint32_t root)
{
    HYP_TRY(open_row(w, root));
    while (w->stack.len) {
        frame *top = &w->stack.data[w->stack.len - 1];
        uint32_t n, kid;
        const uint32_t *kids = hyp_row_kids(w->eg, top->row, &n);
        if (top->next == 0) w->sizes[top->row] = OPEN;
        if (top->next < n) {
            HYP_TRY(chosen(w, hyp_eg_find(w->eg, kids[top->next++]), &kid));
            if (w->sizes[kid] == OPEN)
                return hyp_fail(w->diag, HYP_ERR_INVALID_ARGUMENT,
                                "what was chosen is a circle, as the e-graph has changed since; extract again");
            if (!w->sizes[kid]) HYP_TRY(open_row(w, kid));
            continue;
        }
        size_t size = 1 + (size_t)n;
        for (uint32_t k = 0; k < n && size <= LONGEST_TEXT; k++) {
            HYP_TRY(chosen(w, hyp_eg_find(w->eg, kids[k]), &kid));
            size += w->sizes[kid];
        }
        if (size > LONGEST_TEXT) return too_long(w);
        w->sizes[top->row] = size;
        w->stack.len--;
    }
    return HYP_OK;
}

static hyp_status print(text_writer *w, uint32_t root)
{
    HYP_TRY(open_row(w, root));
    while (w->stack.len) {
        frame *top = &w->stack.data[w->stack.len - 1];
        uint32_t n, kid;
        const uint32_t *kids = hyp_row_kids(w->eg, top->row, &n);
        if (top->next == 0) {
            if (n) hyp_strbuf_puts(&w->text, "(");
            hyp_sexpr_print_symbol(&w->text, hyp_egraph_symbol_name(w->eg, hyp_enode_op(w->eg, top->row)));
        }
        if (top->next == n) {
            if (n) hyp_strbuf_puts(&w->text, ")");
            w->stack.len--;
            continue;
        }
        hyp_strbuf_puts(&w->text, " ");
        if (w->text.failed) return hyp_fail_memory(w->diag, w->text.cap);
        if (w->text.len >= LONGEST_TEXT) return too_long(w);
        HYP_TRY(chosen(w, hyp_eg_find(w->eg, kids[top->next++]), &kid));
        HYP_TRY(open_row(w, kid));
    }
    return w->text.failed ? hyp_fail_memory(w->diag, w->text.cap) : HYP_OK;
}

static hyp_status write_term(text_writer *w, hyp_class_id root)
{
    uint32_t row, c = hyp_egraph_find(w->eg, root);
    if (c == HYP_NONE) return hyp_fail(w->diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", root);
    HYP_TRY(chosen(w, c, &row));
    HYP_TRY(measure(w, row));
    return print(w, row);
}

hyp_status hyp_extraction_term(hyp_egraph *eg, const hyp_extraction *ex, hyp_class_id root, char **out, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(ex);
    HYP_NEED(out);
    *out = NULL;
    text_writer w = {.eg = eg, .ex = ex, .sizes = hyp_calloc(eg->row_count, sizeof *w.sizes), .diag = diag};
    hyp_status status = w.sizes ? write_term(&w, root) : hyp_fail_memory(diag, eg->row_count * sizeof *w.sizes);
    hyp_free(w.sizes);
    hyp_vec_free(&w.stack);
    if (status == HYP_OK)
        *out = w.text.data;
    else
        hyp_strbuf_dispose(&w.text);
    return status;
}

char *hyp_extraction_text(hyp_egraph *eg, const hyp_extraction *ex, hyp_class_id root)
{
    char *text = NULL;
    return hyp_extraction_term(eg, ex, root, &text, NULL) == HYP_OK ? text : NULL;
}
