/* Sizes that only the data tell: the places of elements that are not 0, boxes that are kept. During the import such a
 * size is a symbol, so that inference says where it goes. In the end it becomes the most that it can be: everything is
 * computed for so many, and outputs are cut to what there is. That is right as long as what lies within the axis never
 * depends on what lies behind its end, which is checked here node by node.
 */
#include <string.h>

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

/* Elements in front of an axis. */
static hyp_status count_before(const hyp_importer *im, const hyp_type *t, int32_t axis, hyp_dim *out)
{
    const hyp_type front = {.rank = axis};
    hyp_type part = front;
    memcpy(part.dims, t->dims, (size_t)axis * sizeof *part.dims);
    return hyp_type_elements(im->g->dims, &part, out, im->diag);
}

static bool is_axis(int64_t named, int32_t axis, int32_t rank) { return (named < 0 ? named + rank : named) == axis; }

/* Whether elements of the result within the axis come from those of the inputs within theirs alone. */
static hyp_status keeps_ends(const hyp_importer *im, const hyp_graph *g, const hyp_node *n, uint32_t input,
                             int32_t axis, bool *out)
{
    const hyp_type *x = type_of(g, n->inputs[input]), *y = type_of(g, n->outputs[0]);
    const hyp_onnx_data_size *s;
    uint32_t flags = hyp_op_get(n->op)->flags;
    int32_t to;
    *out = false;
    if (!find_axis(im, y, &s, &to) || !s) return HYP_OK;
    if ((flags & HYP_OPF_ELEMENTWISE) || n->op == HYP_OP_transpose || n->op == HYP_OP_expand)
        return *out = true, HYP_OK;
    if (flags & HYP_OPF_VIEW) {
        hyp_dim before, after;
        HYP_TRY(count_before(im, x, axis, &before));
        HYP_TRY(count_before(im, y, to, &after));
        return *out = before == after, HYP_OK;
    }
    switch (n->op) {
    case HYP_OP_gather: *out = input == 1 || !is_axis(n->attrs[0].i, axis, x->rank); break;
    case HYP_OP_gather_nd: *out = input == 1 && axis + 1 < x->rank && n->attrs[0].i == 0; break;
    case HYP_OP_concat:
    case HYP_OP_split:
    case HYP_OP_softmax: *out = !is_axis(n->attrs[0].i, axis, x->rank); break;
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean:
    case HYP_OP_reduce_max:
    case HYP_OP_reduce_min: /* axes without a number of their own are refused by inference */
        *out = true;
        for (uint32_t i = 0; i < n->attrs[0].count; i++) *out = *out && !is_axis(n->attrs[0].dims[i], axis, x->rank);
        break;
    case HYP_OP_matmul:
    case HYP_OP_gemm: *out = input == 0 && axis != x->rank - (n->attrs[0].i ? 2 : 1); break;
    case HYP_OP_slice:
        *out = n->attrs[0].dims[axis] == 0 && n->attrs[1].dims[axis] == x->dims[axis] && n->attrs[2].dims[axis] == 1;
        break;
    default: break;
    }
    return HYP_OK;
}

static hyp_status refuse(const hyp_importer *im, const hyp_graph *g, const hyp_node *n, hyp_value_id v)
{
    const char *name = n->from.source_count ? n->from.sources[0] : hyp_op_get(n->op)->name;
    const hyp_onnx_data_size *s = im->data_sizes.data;
    for (size_t i = 0; i < im->data_sizes.len; i++)
        for (int32_t a = 0; v != HYP_NO_VALUE && a < type_of(g, v)->rank; a++)
            if (hyp_dim_depends(im->g->dims, type_of(g, v)->dims[a], im->data_sizes.data[i].symbol))
                s = &im->data_sizes.data[i];
    return hyp_fail(
        im->diag, HYP_ERR_UNSUPPORTED,
        "%s: node \"%s\" (%s) needs to know '%s', a size that only the data tell; behind such a size there may be "
        "operators that go element by element or along other axes, products of rows, gathers, and reshapes that keep "
        "the axis",
        im->file, name, hyp_op_get(n->op)->name, s->name);
}

static bool makes_size(hyp_op op)
{
    return op == HYP_OP_nonzero || op == HYP_OP_non_max_suppression || op == HYP_OP_unique;
}

static hyp_status check_node(const hyp_importer *im, const hyp_graph *g, const hyp_node *n)
{
    bool touched = false;
    for (uint32_t i = 0; i < n->input_count; i++) {
        const hyp_onnx_data_size *s;
        int32_t axis;
        bool keeps;
        if (n->inputs[i] == HYP_NO_VALUE) continue;
        if (!find_axis(im, type_of(g, n->inputs[i]), &s, &axis)) return refuse(im, g, n, n->inputs[i]);
        if (!s) continue;
        touched = true;
        HYP_TRY(keeps_ends(im, g, n, i, axis, &keeps));
        if (!keeps) return refuse(im, g, n, n->inputs[i]);
    }
    for (uint32_t o = 0; o < n->output_count; o++) {
        const hyp_onnx_data_size *s;
        int32_t axis;
        if (!find_axis(im, type_of(g, n->outputs[o]), &s, &axis)) return refuse(im, g, n, n->outputs[o]);
        /* Of what has no such input, an attribute has the size: what lies within does not hang on it. */
        bool grows = makes_size(n->op) || n->op == HYP_OP_expand || n->op == HYP_OP_range;
        if (s && !touched && !grows) return refuse(im, g, n, n->outputs[o]);
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
