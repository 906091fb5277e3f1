/* Functions of rules whose result is a tensor: small constants, and what a split was made of or into. */
#include "rewrite/internal.h"

static hyp_status scalar(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *like = hyp_rw_type_arg(call, 1);
    hyp_attr value;
    uint64_t element = 0; /* room for one of any type */
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_FLOAT, &value, diag));
    if (!like) return HYP_OK;
    hyp_type type = {.dtype = like->dtype};
    hyp_store_f64(type.dtype, &element, 0, value.f);
    return hyp_rw_constant(call->user, &type, &element, hyp_dtype_size(type.dtype), out, diag);
}

static hyp_status or_zeros(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    enum { MOST = 1 << 20 }; /* a layer has thousands of rows */
    const hyp_type *w = hyp_rw_type_arg(call, 1);
    if (hyp_rw_type_arg(call, 0)) *out = call->args[0];
    if (hyp_rw_type_arg(call, 0) || !w || w->rank == 0 || !hyp_dim_is_const(w->dims[0]) || w->dims[0] > MOST) return HYP_OK;
    const hyp_type type = {.dtype = w->dtype, .rank = 1, .dims = {w->dims[0]}};
    const size_t bytes = (size_t)w->dims[0] * hyp_dtype_size(w->dtype);
    void *zeros = hyp_calloc(bytes + 1, 1); /* of every type */
    hyp_status status =
        zeros ? hyp_rw_constant(call->user, &type, zeros, bytes, out, diag) : hyp_fail_memory(diag, bytes);
    hyp_free(zeros);
    return status;
}

static hyp_status minus_plus(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    enum { MOST = 1024 }; /* the width of a head is hundreds */
    const hyp_type *x = hyp_rw_type_arg(call, 0), *z = hyp_rw_type_arg(call, 1);
    uint64_t signs[MOST]; /* room for elements of any type */
    if (!x || !z || x->rank == 0 || z->rank == 0) return HYP_OK;
    hyp_dim minus = x->dims[x->rank - 1], plus = z->dims[z->rank - 1];
    if (!hyp_dim_is_const(minus) || !hyp_dim_is_const(plus) || minus > MOST || plus > MOST - minus) return HYP_OK;
    for (int64_t i = 0; i < minus + plus; i++) hyp_store_f64(x->dtype, signs, (size_t)i, i < minus ? -1 : 1);
    hyp_type type = {.dtype = x->dtype, .rank = 1, .dims = {minus + plus}};
    return hyp_rw_constant(call->user, &type, signs, (size_t)(minus + plus) * hyp_dtype_size(type.dtype), out, diag);
}

static hyp_status dims_tensor(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    if (!x || !hyp_type_is_static(x)) return HYP_OK;
    hyp_type type = {.dtype = HYP_I64, .rank = 1, .dims = {x->rank}};
    return hyp_rw_constant(call->user, &type, x->dims, (size_t)x->rank * sizeof *x->dims, out, diag);
}

/* (pick i a s b x...): output i of splitting the concatenation of x... along the axis, when it is one of them. */
static hyp_status pick(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr index, split_axis, concat_axis, sizes;
    hyp_dims *dims = ((hyp_rw *)call->user)->dims;
    hyp_dim start = 0, at = 0;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &index, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &split_axis, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_DIMS, &sizes, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 3, HYP_ATTR_INT, &concat_axis, diag));
    if (index.i < 0 || index.i >= sizes.count || split_axis.i != concat_axis.i || split_axis.i < 0) return HYP_OK;
    for (int64_t i = 0; i < index.i; i++) HYP_TRY(hyp_dim_add(dims, start, sizes.dims[i], &start, diag));
    for (size_t i = 4; i < call->arg_count; i++) {
        const hyp_type *x = hyp_rw_type_arg(call, i);
        if (!x || split_axis.i >= x->rank) return HYP_OK;
        hyp_dim size = x->dims[split_axis.i];
        if (at == start && size == sizes.dims[index.i]) {
            *out = call->args[i];
            return HYP_OK;
        }
        HYP_TRY(hyp_dim_add(dims, at, size, &at, diag));
    }
    return HYP_OK;
}

/* The tuple and index behind a class that is one output of a node. */
static hyp_status find_get(hyp_rw *rw, hyp_class_id c, hyp_class_id *out_tuple, uint32_t *out_index, bool *out_found,
                           hyp_diag *diag)
{
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, c, &count);
    *out_found = false;
    for (size_t i = 0; i < count && !*out_found; i++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, out_index, &n, diag));
        *out_found = shape == HYP_RW_IS_GET;
        if (*out_found) *out_tuple = hyp_egraph_find(rw->eg, n.inputs[0]);
    }
    return HYP_OK;
}

/* The part of a split that this is, or with `views` one of its views; its index and the class of the parts. */
static hyp_status find_part(hyp_rw *rw, hyp_class_id c, bool views, hyp_class_id *out_tuple, uint32_t *out_index,
                            bool *out_found, hyp_diag *diag)
{
    size_t count;
    HYP_TRY(find_get(rw, c, out_tuple, out_index, out_found, diag));
    for (size_t i = 0; views && !*out_found; i++) {
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, c, &count);
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t ignored;
        if (i >= count) return HYP_OK;
        HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &ignored, &n, diag));
        if (shape == HYP_RW_IS_OP && (hyp_op_get(n.op)->flags & HYP_OPF_VIEW))
            HYP_TRY(find_get(rw, hyp_egraph_find(rw->eg, n.inputs[0]), out_tuple, out_index, out_found, diag));
    }
    return HYP_OK;
}

/* Whether parts along this axis lie one behind the other. */
static bool has_rows_of_one(const hyp_type *whole, int64_t axis)
{
    for (int64_t a = 0; a < axis; a++)
        if (whole->dims[a] != 1) return false;
    return axis >= 0;
}

/* What was split into exactly the arguments from `first` on: along this axis, or with `axis` NULL along any that leaves
 * the parts, or views of them, one behind the other. */
static hyp_status find_whole(const hyp_call *call, size_t first, const hyp_attr *axis, hyp_class_id *out, hyp_diag *diag)
{
    hyp_rw *rw = call->user;
    hyp_class_id tuple = HYP_NONE, next;
    for (size_t i = first; i < call->arg_count; i++) {
        uint32_t index;
        bool found;
        HYP_TRY(find_part(rw, call->args[i], !axis, &next, &index, &found, diag));
        if (!found || index != i - first || (i > first && next != tuple)) return HYP_OK;
        tuple = next;
    }
    if (tuple == HYP_NONE || hyp_rw_fact_of(rw, tuple)->count != call->arg_count - first) return HYP_OK;
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, tuple, &count);
    for (size_t i = 0; i < count; i++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t ignored, which;
        HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &ignored, &n, diag));
        if (shape != HYP_RW_IS_OP || n.op != HYP_OP_split || !hyp_op_find_attr(n.op, "axis", &which)) continue;
        int64_t along = n.attrs[which].i;
        if (axis ? along != axis->i : !has_rows_of_one(&hyp_rw_fact_of(rw, n.inputs[0])->values[0].type, along)) continue;
        *out = hyp_egraph_find(rw->eg, n.inputs[0]);
        return HYP_OK;
    }
    return HYP_OK;
}

/* (unsplit a x...): the tensor that was split along the axis into exactly x... */
static hyp_status unsplit(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &axis, diag));
    return find_whole(call, 1, &axis, out, diag);
}

/* (unsplit-flat x...): the tensor of which x... are all parts, one behind the other in memory. */
static hyp_status unsplit_flat(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    return find_whole(call, 0, NULL, out, diag);
}

/* ---- the table ------------------------------------------------------------------------------------- */

const hyp_rw_callback hyp_rw_tensor_functions[] = {
    HYP_RW_FUNCTION("scalar", 2, scalar, "(scalar v x): the number v as a constant of x's element type"),
    HYP_RW_FUNCTION("or-zeros", 2, or_zeros, "(or-zeros b w): the vector b where it is there, else N zeros, for w [N ...]"),
    HYP_RW_FUNCTION("minus-plus", 2, minus_plus,
      "(minus-plus x y): the constant vector -1 ... -1 1 ... 1 of the last sizes of x and y and of x's element type"),
    HYP_RW_FUNCTION("dims-tensor", 1, dims_tensor, "(dims-tensor x): the shape of x as a constant"),
    HYP_RW_FUNCTION("pick", -1, pick, "(pick i a s b x...): the one of x... that is output i of (split a s (concat b x...))"),
    HYP_RW_FUNCTION("unsplit", -1, unsplit, "(unsplit a x...): the tensor that a split along axis a turned into x..."),
    HYP_RW_FUNCTION("unsplit-flat", -1, unsplit_flat,
      "(unsplit-flat x...): the tensor of which x... are all parts or views of them, each behind the one before"),
    {0},
};
