/* E-classes as people know them: by the names of the model. */
#include <string.h>

#include "rewrite/internal.h"

/* Walks down from the outputs. */
static void find_chosen(hyp_rw_view *view, const hyp_extraction *choice, hyp_class_id *stack, uint8_t *state)
{
    enum { NEW, BEGUN, DONE };
    hyp_rw *rw = view->rw;
    for (size_t i = 0; i < rw->in->outputs.len; i++) {
        size_t depth = 0;
        stack[depth++] = hyp_egraph_find(rw->eg, rw->class_of[rw->in->outputs.data[i].value]);
        while (depth) { /* a class is on the stack once, when it has begun */
            hyp_class_id c = stack[depth - 1], next = HYP_NONE;
            size_t count;
            const hyp_class_id *kids = hyp_enode_children(rw->eg, choice->choice[c], &count);
            if (state[c] == NEW) state[c] = BEGUN;
            for (size_t k = 0; k < count && next == HYP_NONE && state[c] == BEGUN; k++) {
                hyp_class_id kid = hyp_egraph_find(rw->eg, kids[k]);
                if (state[kid] == NEW) next = kid;
            }
            if (next != HYP_NONE) {
                stack[depth++] = next;
                continue;
            }
            depth--;
            if (state[c] == DONE) continue;
            state[c] = DONE;
            view->chosen[c] = true;
            view->order[view->order_count++] = c;
        }
    }
}

/* A class without a name of its own is called by the nodes of the model that it stands for: "MatMul_1+Add_2". */
static hyp_status name_by_sources(hyp_rw_view *view, hyp_class_id c, hyp_enode_id n, hyp_arena *arena, hyp_diag *diag)
{
    enum { MOST = 3 };
    hyp_strbuf sb = {0};
    const hyp_provenance *from = &view->rw->in->nodes.data[view->rw->encoded.data[n] - 1].from;
    if (!from->source_count) return HYP_OK;
    for (uint32_t i = 0; i < from->source_count && i < MOST; i++)
        hyp_strbuf_printf(&sb, "%s%s", i ? "+" : "", from->sources[i]);
    if (from->source_count > MOST) hyp_strbuf_puts(&sb, "+...");
    view->names[c] = sb.failed ? NULL : hyp_arena_strdup(arena, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return view->names[c] ? HYP_OK : hyp_fail_memory(diag, 64);
}

hyp_status hyp_rw_view_init(hyp_rw_view *view, hyp_rw *rw, const hyp_extraction *choice, hyp_arena *arena,
                            hyp_diag *diag)
{
    size_t bound = hyp_egraph_class_bound(rw->eg);
    *view = (hyp_rw_view){.rw = rw,
                          .bound = bound,
                          .names = hyp_arena_zalloc(arena, bound, sizeof *view->names),
                          .encoded = hyp_arena_alloc(arena, bound * sizeof *view->encoded),
                          .chosen = hyp_arena_zalloc(arena, bound, sizeof *view->chosen),
                          .order = hyp_arena_alloc(arena, bound * sizeof *view->order)};
    hyp_class_id *stack = hyp_arena_alloc(arena, (bound + 1) * sizeof *stack);
    uint8_t *state = hyp_arena_zalloc(arena, bound, sizeof *state);
    if (!view->names || !view->encoded || !view->chosen || !view->order || !stack || !state)
        return hyp_fail_memory(diag, bound * sizeof *view->names);
    memset(view->encoded, 0xff, bound * sizeof *view->encoded); /* HYP_NONE */
    find_chosen(view, choice, stack, state);
    for (size_t i = rw->in->values.len; i-- > 0;) { /* the first value of a class names it */
        const char *name = rw->in->values.data[i].name;
        if (name && name[0]) view->names[hyp_egraph_find(rw->eg, rw->class_of[i])] = name;
    }
    for (size_t i = 0; i < rw->in->values.len; i++) { /* a leaf's class is named by its own e-node */
        hyp_class_id c = hyp_egraph_find(rw->eg, rw->class_of[i]);
        if (rw->in->values.data[i].kind != HYP_VALUE_NODE && view->encoded[c] == HYP_NONE)
            view->encoded[c] = rw->class_of[i];
    }
    for (hyp_enode_id n = 0; n < rw->encoded.len; n++) {
        hyp_class_id c = hyp_enode_class(rw->eg, n);
        if (!rw->encoded.data[n] || view->encoded[c] != HYP_NONE) continue;
        view->encoded[c] = n;
        if (!view->names[c]) HYP_TRY(name_by_sources(view, c, n, arena, diag));
    }
    return HYP_OK;
}

bool hyp_rw_stands_for(const hyp_rw *rw, hyp_enode_id node, const char *source)
{
    if (node >= rw->encoded.len) return false;
    for (uint32_t i = rw->encoded.data[node]; i; i = rw->node_next[i - 1]) {
        const hyp_provenance *from = &rw->in->nodes.data[i - 1].from;
        for (uint32_t k = 0; k < from->source_count; k++)
            if (strcmp(from->sources[k], source) == 0) return true;
    }
    return false;
}

/* The value of a constant with one element, of the types that rules look at. */
static bool write_scalar(hyp_strbuf *sb, const hyp_rw_fact *f)
{
    if (!f->data || f->count != 1 || f->bytes != hyp_dtype_size(f->values[0].type.dtype)) return false;
    if (f->values[0].type.dtype == HYP_F32) {
        float value;
        memcpy(&value, f->data, sizeof value);
        hyp_strbuf_printf(sb, "%.9g ", (double)value);
    } else if (f->values[0].type.dtype == HYP_I64) {
        int64_t value;
        memcpy(&value, f->data, sizeof value);
        hyp_strbuf_printf(sb, "%lld ", (long long)value);
    } else {
        return false;
    }
    return true;
}

void hyp_rw_describe(const hyp_rw_view *view, hyp_strbuf *sb, hyp_class_id c)
{
    hyp_rw *rw = view->rw;
    c = hyp_egraph_find(rw->eg, c);
    const hyp_rw_fact *f = hyp_rw_fact_of(rw, c);
    const char *symbol = hyp_egraph_symbol_name(rw->eg, hyp_enode_op(rw->eg, f->first));
    if (f->kind == HYP_RW_LITERAL) {
        hyp_strbuf_puts(sb, hyp_egraph_symbol_name(rw->eg, f->literal));
        return;
    }
    const char *name = c < view->bound ? view->names[c] : NULL;
    if (name) {
        hyp_strbuf_puts(sb, "'");
        hyp_strbuf_visible(sb, name, false);
        hyp_strbuf_puts(sb, "' ");
    } else if (!write_scalar(sb, f)) {
        hyp_strbuf_printf(sb, symbol[0] == '%' ? "a constant " : "(%s ...) ", symbol);
    }
    for (uint32_t i = 0; i < f->count; i++) {
        if (i) hyp_strbuf_puts(sb, ", ");
        hyp_type_print(sb, rw->dims, &f->values[i].type);
    }
}

void hyp_rw_describe_form(const hyp_rw_view *view, hyp_strbuf *sb, hyp_enode_id node)
{
    hyp_rw *rw = view->rw;
    size_t count;
    const hyp_class_id *kids = hyp_enode_children(rw->eg, node, &count);
    if (!count) {
        hyp_rw_describe(view, sb, hyp_enode_class(rw->eg, node));
        return;
    }
    hyp_strbuf_printf(sb, "(%s", hyp_egraph_symbol_name(rw->eg, hyp_enode_op(rw->eg, node)));
    for (size_t i = 0; i < count; i++) {
        hyp_class_id kid = hyp_egraph_find(rw->eg, kids[i]);
        const hyp_rw_fact *f = hyp_rw_fact_of(rw, kid);
        const char *known = f->kind == HYP_RW_LITERAL ? hyp_egraph_symbol_name(rw->eg, f->literal)
                            : kid < view->bound       ? view->names[kid]
                                                      : NULL;
        hyp_strbuf_printf(sb, " %s", known ? known : "...");
    }
    hyp_strbuf_puts(sb, ")");
}
