#include "ir/apart.h"

#include <string.h>

/* ---- parts of a tensor ------------------------------------------------------------------------------------------ */

bool hyp_apart_find(const hyp_graph *g, const hyp_type *t, size_t symbol, hyp_apart *out)
{
    hyp_dim size;
    *out = (hyp_apart){.axis = -1};
    for (int32_t a = 0; a < t->rank; a++) {
        if (!hyp_dim_depends(g->dims, t->dims[a], symbol)) continue;
        if (out->axis >= 0 || hyp_dim_symbol(g->dims, hyp_dims_symbol_name(g->dims, symbol), &size, NULL) != HYP_OK ||
            !hyp_dim_divides(g->dims, size, t->dims[a], &out->each) || hyp_dim_depends(g->dims, out->each, symbol))
            return false;
        out->axis = a;
    }
    return true;
}

static const hyp_type *type_of(const hyp_graph *g, hyp_value_id v) { return &g->values.data[v].type; }

/* ---- operators -------------------------------------------------------------------------------------------------- */

/* A node that reads parts along `axis` of input `input`, and gives them along `to`. */
typedef struct look {
    const hyp_graph *g;
    const hyp_node *n;
    uint32_t input;
    const hyp_type *x, *y;
    int32_t axis, to;
} look;

static bool is_axis(int64_t named, int32_t axis, int32_t rank) { return (named < 0 ? named + rank : named) == axis; }

/* Whether the attribute `axis`, or `axes`, names another one. */
static bool is_beside(const look *l)
{
    uint32_t at;
    if (hyp_op_find_attr(l->n->op, "axis", &at)) return !is_axis(l->n->attrs[at].i, l->axis, l->x->rank);
    if (!hyp_op_find_attr(l->n->op, "axes", &at)) return false;
    for (uint32_t i = 0; i < l->n->attrs[at].count; i++)
        if (is_axis(l->n->attrs[at].dims[i], l->axis, l->x->rank)) return false;
    return true;
}

/* Whether as many elements are in front of the parts before and after: a part then is the same elements. */
static bool keeps_front(const look *l)
{
    hyp_type before = {.rank = l->axis}, after = {.rank = l->to};
    hyp_dim m, n;
    memcpy(before.dims, l->x->dims, (size_t)l->axis * sizeof *before.dims);
    memcpy(after.dims, l->y->dims, (size_t)l->to * sizeof *after.dims);
    return hyp_type_elements(l->g->dims, &before, &m, NULL) == HYP_OK &&
           hyp_type_elements(l->g->dims, &after, &n, NULL) == HYP_OK && m == n;
}

/* Which axis of a factor the product runs along. */
static int32_t summed_axis(const look *l)
{
    bool second = l->input == 1, turned = l->n->attrs[second].i != 0;
    if (l->x->rank == 1) return 0;
    return l->x->rank - (second == turned ? 1 : 2);
}

static const hyp_type *input_type(const look *l, uint32_t i) { return type_of(l->g, l->n->inputs[i]); }

/* The elements of a tuple of places, along the last axis of the indices: HYP_MAX_RANK + 1 where that is open. */
static int64_t tuple_size(const hyp_type *indices)
{
    hyp_dim size = indices->rank ? indices->dims[indices->rank - 1] : 0;
    return hyp_dim_is_const(size) ? size : HYP_MAX_RANK + 1;
}

/* Whole rows behind a tuple of places, which lie in the first axes of x, behind those of the batch. */
static bool keeps_gathered(const look *l)
{
    const int64_t batch = l->n->attrs[0].i;
    if (l->axis < batch) return true;
    if (l->input == 0) return l->axis >= batch + tuple_size(input_type(l, 1));
    return l->axis + 1 < l->x->rank;
}

static bool keeps_scattered(const look *l)
{
    const hyp_type *indices = input_type(l, 1);
    if (l->input == 0) return l->axis >= tuple_size(indices);
    return l->input == 2 && l->axis >= indices->rank - 1;
}

/* Whether three tensors have the same parts along the axis, which is not the one where indices point. */
static bool keeps_elements(const look *l, uint32_t tensors)
{
    bool same = !is_axis(l->n->attrs[0].i, l->axis, l->x->rank);
    for (uint32_t i = 0; i < tensors; i++) same = same && input_type(l, i)->dims[l->axis] == l->x->dims[l->axis];
    return same;
}

/* Operators whose axes have a part each of their own. */
static bool keeps_by_itself(const look *l)
{
    const hyp_attr *attrs = l->n->attrs;
    int32_t axis = l->axis, rank = l->x->rank;
    switch (l->n->op) {
    case HYP_OP_transpose:
    case HYP_OP_expand: return true;
    case HYP_OP_gather: return l->input == 1 || !is_axis(attrs[0].i, axis, rank);
    case HYP_OP_gather_elements: return keeps_elements(l, 2); /* indices may be fewer than what they are read beside */
    case HYP_OP_scatter_elements: return keeps_elements(l, 3);
    case HYP_OP_gather_nd: return keeps_gathered(l);
    case HYP_OP_scatter_nd: return keeps_scattered(l);
    case HYP_OP_tensor_scatter: return l->input == 2 || !is_axis(attrs[0].i, axis, rank);
    case HYP_OP_reverse_sequence: return l->input == 1 || !is_axis(attrs[1].i, axis, rank);
    case HYP_OP_bit_cast: return true;
    case HYP_OP_matmul: return axis != summed_axis(l);
    case HYP_OP_gemm: return l->input == 2 || axis != summed_axis(l);
    case HYP_OP_attention: return axis < rank - 2;
    case HYP_OP_slice:
        return attrs[0].dims[axis] == 0 && attrs[1].dims[axis] == l->x->dims[axis] && attrs[2].dims[axis] == 1;
    case HYP_OP_pad: return l->input == 0 && attrs[0].dims[axis] == 0 && attrs[1].dims[axis] == 0;
    case HYP_OP_layer_norm:
    case HYP_OP_layer_norm_stats:
    case HYP_OP_rms_norm: return l->input == 0 && axis < (attrs[0].i < 0 ? attrs[0].i + rank : attrs[0].i);
    case HYP_OP_trilu: return l->input == 0; /* places alone decide, counted from the first */
    case HYP_OP_max_pool_places: return axis == 0 && l->to == 0;
    case HYP_OP_one_hot: return l->input == 0;
    default: return false;
    }
}

static bool keeps(const look *l)
{
    uint32_t flags = hyp_op_get(l->n->op)->flags;
    if (flags & HYP_OPF_VIEW) return keeps_front(l); /* before the next: an identity is both */
    if (flags & HYP_OPF_ELEMENTWISE) return true;
    bool is_sum = l->n->op == HYP_OP_cumsum || l->n->op == HYP_OP_cumprod; /* attributes axis, exclusive, reverse */
    if (is_sum && !l->n->attrs[2].i) return true;
    if (flags & HYP_OPF_ALONG) return is_beside(l);
    if (flags & HYP_OPF_LAST) return l->axis < l->x->rank - 1 && l->to < l->y->rank - 1;
    if (flags & HYP_OPF_SAMPLES) return l->axis == 0 && l->to == 0;
    if (flags & HYP_OPF_SEQUENCES) return l->axis == (l->x->rank == 3) && l->to == (l->y->rank == 3);
    return keeps_by_itself(l);
}

/* A node may have the size of the symbol as that of the axis where its result has parts, and as no other number. */
static bool attrs_are_sizes(const hyp_graph *g, const hyp_node *n, size_t symbol, const hyp_apart *y)
{
    for (uint32_t i = 0; i < hyp_op_get(n->op)->attr_count; i++) {
        const hyp_attr *attr = &n->attrs[i];
        for (uint32_t k = 0; attr->kind == HYP_ATTR_DIMS && k < attr->count; k++)
            if (hyp_dim_depends(g->dims, attr->dims[k], symbol) &&
                ((int32_t)k != y->axis || attr->count != (uint32_t)type_of(g, n->outputs[0])->rank))
                return false;
    }
    return true;
}

bool hyp_node_keeps_parts(const hyp_graph *g, const hyp_node *n, size_t symbol)
{
    hyp_apart x, y = {.axis = -1};
    bool reads = false, gives = true;
    for (uint32_t o = n->output_count; o-- > 0; gives = gives && y.axis >= 0)
        if (!hyp_apart_find(g, type_of(g, n->outputs[o]), symbol, &y)) return false;
    if (!attrs_are_sizes(g, n, symbol, &y)) return false;
    for (uint32_t i = 0; i < n->input_count; i++) {
        if (n->inputs[i] == HYP_NO_VALUE) continue;
        if (!hyp_apart_find(g, type_of(g, n->inputs[i]), symbol, &x)) return false;
        if (x.axis < 0) continue;
        const look l = {g, n, i, type_of(g, n->inputs[i]), type_of(g, n->outputs[0]), x.axis, y.axis};
        if (!gives || !keeps(&l)) return false;
        reads = true;
    }
    /* Of what reads no parts an attribute has their number: what lies within does not hang on it. */
    return reads || y.axis < 0 || n->op == HYP_OP_expand || n->op == HYP_OP_range;
}

bool hyp_node_reads_index(const hyp_graph *g, const hyp_node *n, uint32_t i)
{
    switch (n->op) {
    case HYP_OP_gather:
    case HYP_OP_gather_elements:
    case HYP_OP_gather_nd:
    case HYP_OP_scatter_elements:
    case HYP_OP_scatter_nd:
    case HYP_OP_reverse_sequence: return i == 1;
    case HYP_OP_tensor_scatter: return i == 2;
    default: break;
    }
    return (hyp_op_get(n->op)->flags & HYP_OPF_SEQUENCES) && n->inputs[i] != HYP_NO_VALUE &&
           !hyp_dtype_is_float(type_of(g, n->inputs[i])->dtype);
}

/* ---- padding ---------------------------------------------------------------------------------------------------- */

/* Whether the added parts of what a node gives have, element by element, what the added parts of its inputs have, or
 * what is in the others, too. */
static bool only_moves(const hyp_graph *g, const hyp_node *n, size_t symbol, const bool *harmless)
{
    uint32_t flags = hyp_op_get(n->op)->flags;
    hyp_apart parts;
    if (!(flags & (HYP_OPF_VIEW | HYP_OPF_COPY)) && n->op != HYP_OP_cast) return false;
    if (n->op == HYP_OP_pad || n->op == HYP_OP_gather) return false;
    for (uint32_t i = 0; i < n->input_count; i++)
        if (!hyp_apart_find(g, type_of(g, n->inputs[i]), symbol, &parts) ||
            (parts.axis >= 0 && !harmless[n->inputs[i]]))
            return false;
    return true;
}

static void tell(const hyp_node *n, const char *what, hyp_strbuf *why)
{
    const char *name = n->from.source_count ? n->from.sources[0] : NULL;
    hyp_strbuf_printf(why, "%s%s%s%s%s %s", name ? "node \"" : "", name ? name : "", name ? "\" (" : "",
                      hyp_op_get(n->op)->name, name ? ")" : "", what);
}

/* What is in the way at a node; `harmless` says of every value before it that its added parts have zeros, or what is in
 * the others, too. */
static void check_node(const hyp_graph *g, const hyp_node *n, size_t symbol, const bool *harmless, hyp_strbuf *why)
{
    hyp_apart parts;
    for (uint32_t i = 0; i < n->input_count; i++) {
        if (n->inputs[i] == HYP_NO_VALUE || !hyp_node_reads_index(g, n, i) || harmless[n->inputs[i]]) continue;
        if (hyp_apart_find(g, type_of(g, n->inputs[i]), symbol, &parts) && parts.axis < 0) continue;
        tell(n, "reads numbers that are computed, and may be out of range in the added parts", why);
        return;
    }
    if (!hyp_node_keeps_parts(g, n, symbol)) tell(n, "may mix what lies along it, or computes with its size", why);
}

hyp_status hyp_graph_check_padding(const hyp_graph *g, size_t symbol, hyp_strbuf *why, hyp_diag *diag)
{
    hyp_apart parts;
    bool *harmless = hyp_calloc(g->values.len + 1, sizeof *harmless);
    if (!harmless) return hyp_fail_memory(diag, g->values.len);
    for (size_t i = 0; i < g->inputs.len && !why->len; i++) {
        const hyp_value *x = &g->values.data[g->inputs.data[i]];
        harmless[g->inputs.data[i]] = true;
        if (!hyp_apart_find(g, &x->type, symbol, &parts))
            hyp_strbuf_printf(why, "input \"%s\" has it in several axes, or in an expression", x->name);
    }
    for (size_t i = 0; i < g->nodes.len && !why->len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        check_node(g, n, symbol, harmless, why);
        bool all = only_moves(g, n, symbol, harmless);
        for (uint32_t o = 0; o < n->output_count; o++) harmless[n->outputs[o]] = all;
    }
    hyp_free(harmless);
    return why->failed ? hyp_fail_memory(diag, why->len) : HYP_OK;
}
