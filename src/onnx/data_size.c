/* Sizes that only the data tell: the places of elements that are not 0, boxes that are kept. During the import such a
 * size is a symbol, so that inference says where it goes. In the end it becomes the most that it can be: everything is
 * computed for so many, and outputs are cut to what there is. That is right as long as what lies within the axis never
 * depends on what lies behind its end, which is checked here node by node.
 */
#include <string.h>

#include "ir/apart.h"
#include "onnx/import.h"

static bool is_taken(const hyp_importer *im, const char *name)
{
    for (size_t i = 0; i < im->data_sizes.len; i++)
        if (strcmp(im->data_sizes.data[i].name, name) == 0) return true;
    for (size_t i = 0; i < im->model->graph->n_output; i++)
        if (im->model->graph->output[i]->name && strcmp(im->model->graph->output[i]->name, name) == 0) return true;
    for (size_t i = 0; i < im->g->inputs.len; i++) {
        const hyp_type *t = &im->g->values.data[im->g->inputs.data[i]].type;
        for (size_t s = 0; s < hyp_dims_symbol_count(im->g->dims); s++)
            for (int32_t a = 0; a < t->rank && strcmp(hyp_dims_symbol_name(im->g->dims, s), name) == 0; a++)
                if (hyp_dim_depends(im->g->dims, t->dims[a], s)) return true;
    }
    return false;
}

/* The size that the type depends on, and the only axis of it; false where it is in an expression or in several axes. */
static bool find_axis(const hyp_importer *im, const hyp_type *t, const hyp_onnx_data_size **out, int32_t *out_axis)
{
    *out = NULL;
    *out_axis = -1;
    for (int32_t a = 0; a < t->rank; a++)
        for (size_t i = 0; i < im->data_sizes.len; i++) {
            const hyp_onnx_data_size *s = &im->data_sizes.data[i];
            if (!hyp_dim_depends(im->g->dims, t->dims[a], s->symbol)) continue;
            if (t->dims[a] != s->size || *out) return false;
            *out = s;
            *out_axis = a;
        }
    return true;
}

static bool depends(const hyp_importer *im, hyp_dim d)
{
    for (size_t i = 0; i < im->data_sizes.len; i++)
        if (hyp_dim_depends(im->g->dims, d, im->data_sizes.data[i].symbol)) return true;
    return false;
}

hyp_status hyp_onnx_new_data_size(const hyp_onnx_node *n, hyp_dim most, hyp_dim *out)
{
    hyp_importer *im = n->im;
    hyp_onnx_data_size s = {.most = most, .count = HYP_NO_VALUE};
    int64_t scale, offset;
    for (uint32_t i = 0; i < n->input_count; i++) {
        bool is_value = hyp_onnx_has_input(n, i) && !hyp_onnx_is_sequence(n->inputs[i]);
        const hyp_type *t = is_value ? &im->g->values.data[n->inputs[i]].type : NULL;
        for (int32_t a = 0; t && a < t->rank; a++)
            if (depends(im, t->dims[a]))
                return hyp_fail(
                    im->diag, HYP_ERR_UNSUPPORTED,
                    "the size of its result is known only when the data is there, and so is that of its input %u", i);
    }
    const char *name = hyp_arena_printf(&im->arena, "%s_count", n->name);
    while (name && is_taken(im, name)) name = hyp_arena_printf(&im->arena, "%s_", name);
    if (!name) return hyp_fail_memory(im->diag, strlen(n->name));
    s.name = name;
    HYP_TRY(hyp_dim_symbol(im->g->dims, name, &s.size, im->diag));
    if (!hyp_dim_is_linear(im->g->dims, s.size, &s.symbol, &scale, &offset))
        return hyp_fail(im->diag, HYP_ERR_INTERNAL, "a symbol is none");
    *out = s.size;
    return hyp_vec_push(&im->data_sizes, im->diag, s);
}

/* ---- what may follow ------------------------------------------------------------------------------------------- */

static const hyp_type *type_of(const hyp_graph *g, hyp_value_id v) { return &g->values.data[v].type; }

static hyp_status refuse(const hyp_importer *im, const hyp_node *n, const hyp_onnx_data_size *s)
{
    const char *name = n->from.source_count ? n->from.sources[0] : hyp_op_get(n->op)->name;
    return hyp_fail(
        im->diag, HYP_ERR_UNSUPPORTED,
        "%s: node \"%s\" (%s) needs to know '%s', a size that only the data tell; behind such a size there may be "
        "operators that go element by element or along other axes, products of rows, gathers, and reshapes that keep "
        "the axis",
        im->file, name, hyp_op_get(n->op)->name, s->name);
}

static bool reads(const hyp_importer *im, const hyp_graph *g, const hyp_node *n, const hyp_onnx_data_size *s)
{
    for (uint32_t i = 0; i < n->input_count; i++)
        for (int32_t a = 0; n->inputs[i] != HYP_NO_VALUE && a < type_of(g, n->inputs[i])->rank; a++)
            if (hyp_dim_depends(im->g->dims, type_of(g, n->inputs[i])->dims[a], s->symbol)) return true;
    return false;
}

/* Of custom operators those that are loops do. */
static bool makes_size(hyp_op op)
{
    return op == HYP_OP_nonzero || op == HYP_OP_non_max_suppression || op == HYP_OP_unique || op == HYP_OP_custom;
}

static hyp_status check_node(const hyp_importer *im, const hyp_graph *g, const hyp_node *n)
{
    for (size_t i = 0; i < im->data_sizes.len; i++) {
        const hyp_onnx_data_size *s = &im->data_sizes.data[i];
        if (makes_size(n->op) && !reads(im, g, n, s)) continue;
        if (!hyp_node_keeps_parts(g, n, s->symbol)) return refuse(im, n, s);
    }
    return HYP_OK;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* The outputs that say how many there are, each behind those of the model. */
static hyp_status add_counts(hyp_importer *im)
{
    hyp_graph *g = im->g;
    size_t shown = g->outputs.len;
    for (size_t i = 0; i < shown; i++) {
        const hyp_onnx_data_size *s;
        int32_t axis;
        if (!find_axis(im, type_of(g, g->outputs.data[i].value), &s, &axis))
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED,
                            "%s: output \"%s\" has a size that only the data tell, in several axes or in an expression",
                            im->file, g->outputs.data[i].name);
        if (!s) continue;
        size_t count = shown;
        while (count < g->outputs.len && strcmp(g->outputs.data[count].name, s->name) != 0) count++;
        if (count == g->outputs.len) HYP_TRY(hyp_graph_add_output(g, s->name, s->count, im->diag));
        HYP_TRY(hyp_vec_push(&g->sizes, im->diag, (hyp_data_size){(uint32_t)i, (uint32_t)axis, (uint32_t)count}));
    }
    g->hidden_outputs = (uint32_t)(g->outputs.len - shown);
    return HYP_OK;
}

static hyp_status put_the_most(const hyp_importer *im, const hyp_graph *live, hyp_graph *out)
{
    size_t count = hyp_dims_symbol_count(live->dims);
    hyp_dim *replacement = hyp_calloc(count + 1, sizeof *replacement);
    if (!replacement) return hyp_fail_memory(im->diag, count * sizeof *replacement);
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < count && status == HYP_OK; i++)
        status = hyp_dim_symbol(live->dims, hyp_dims_symbol_name(live->dims, i), &replacement[i], im->diag);
    for (size_t i = 0; i < im->data_sizes.len; i++)
        replacement[im->data_sizes.data[i].symbol] = im->data_sizes.data[i].most;
    if (status == HYP_OK) status = hyp_graph_specialize(live, replacement, out, im->diag);
    hyp_free(replacement);
    return status;
}

hyp_status hyp_onnx_settle_data_sizes(hyp_importer *im)
{
    hyp_graph live, settled;
    if (!im->data_sizes.len) return HYP_OK;
    HYP_TRY(add_counts(im));
    HYP_TRY(hyp_graph_copy_live(im->g, &live, im->diag));
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < live.nodes.len && status == HYP_OK; i++) status = check_node(im, &live, &live.nodes.data[i]);
    if (status == HYP_OK) status = put_the_most(im, &live, &settled);
    hyp_graph_dispose(&live);
    if (status != HYP_OK) return status;
    hyp_graph_dispose(im->g);
    *im->g = settled;
    return HYP_OK;
}
