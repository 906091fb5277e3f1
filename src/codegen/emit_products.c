/* emit_products.c - linear layers and matrix products. */
#include <string.h>

#include "base/elementwise.h"
#include "codegen/lower.h"

/* The name as people write it: fused-linear with :act relu is fused-linear-relu. */
static hyp_status label_of(hyp_lowering *l, const hyp_node *node, const char **out)
{
    size_t count;
    const hyp_op_alias *aliases = hyp_op_aliases(&count);
    *out = hyp_op_get(node->op)->name;
    for (size_t i = 0; i < count; i++) {
        if (aliases[i].op != node->op) continue;
        hyp_strbuf text = {0};
        hyp_attr_print(&text, l->graph->dims, &node->attrs[aliases[i].attr]);
        bool same = strcmp(hyp_strbuf_text(&text), aliases[i].value) == 0, failed = text.failed;
        hyp_strbuf_dispose(&text);
        if (failed) return hyp_fail_memory(l->diag, 0);
        if (same) *out = aliases[i].name;
    }
    return HYP_OK;
}

static hyp_status want_type(hyp_lowering *l, const hyp_node *node, bool scaled)
{
    hyp_dtype t = hyp_lower_value(l, node->outputs[0])->type.dtype;
    if (hyp_dtype_is_float(t) && t != HYP_F8E4M3) return HYP_OK;
    if (!hyp_dtype_is_float(t) && t != HYP_BOOL && !scaled && l->options->target->multiplies_integers) return HYP_OK;
    return hyp_lower_unsupported(l, node, "products of %s have no kernel; cast to a floating-point type before it",
                                 hyp_dtype_name(t));
}

static bool use_tf32(const hyp_lowering *l, const hyp_node *node)
{
    return l->options->precision == HYP_PRECISION_TF32 && hyp_lower_value(l, node->outputs[0])->type.dtype == HYP_F32;
}

/* ---- linear layers ---------------------------------------------------------------------------------- */

static hyp_status find_act(hyp_lowering *l, const hyp_node *node, const char *name, HypPlan__Act *out)
{
    for (*out = HYP_PLAN__ACT__ACT_NONE; (int)*out < HYP_ACTS; ++*out)
        if (strcmp(hyp_plan_act_name(*out), name) == 0) return HYP_OK;
    return hyp_lower_unsupported(l, node, "the activation %s has no kernel", name);
}

/* A chain of layers with its input and rows; the layers are for the caller to add. */
static hyp_status begin_layers(hyp_lowering *l, const hyp_node *node, hyp_value_id x, size_t layers,
                               HypPlan__Linear **out)
{
    const hyp_type *type = &hyp_lower_value(l, x)->type;
    const char *label;
    HypPlan__Step *step;
    hyp_dim m;
    void *list;
    HYP_TRY(want_type(l, node, false));
    HYP_TRY(label_of(l, node, &label));
    HYP_TRY(hyp_lower_add_step(l, label, &node, 1, HYP_PLAN__STEP__KERNEL_LINEAR, &step));
    HYP_TRY(hyp_lower_read(l, x, &step->linear->x));
    HYP_TRY(hyp_lower_product(l, (size_t)type->rank - 1, type->dims, &m));
    HYP_TRY(hyp_lower_dim(l, m, &step->linear->m));
    HYP_TRY(hyp_lower_alloc(l, layers, sizeof *step->linear->layers, &list));
    step->linear->layers = list;
    step->linear->tf32 = use_tf32(l, node);
    *out = step->linear;
    return HYP_OK;
}

/* Adds a layer of n by k; `weight` is stored [k n] when `kn`. */
static hyp_status add_layer(hyp_lowering *l, HypPlan__Linear *linear, hyp_dim n, hyp_dim k, hyp_value_id weight,
                            bool kn, hyp_value_id bias, HypPlan__Act act)
{
    void *memory;
    HYP_TRY(hyp_lower_alloc(l, 1, sizeof(HypPlan__Layer), &memory));
    HypPlan__Layer *layer = memory;
    hyp_plan__layer__init(layer);
    HYP_TRY(hyp_lower_dim(l, n, &layer->n));
    HYP_TRY(hyp_lower_dim(l, k, &layer->k));
    HYP_TRY(hyp_lower_read(l, weight, &layer->weight));
    layer->weight_kn = kn;
    if (bias != HYP_NO_VALUE) {
        HYP_TRY(hyp_lower_read(l, bias, &layer->bias_plus1));
        layer->bias_plus1++;
    }
    layer->act = act;
    linear->layers[linear->n_layers++] = layer;
    return HYP_OK;
}

/* What is added to the last layer, which a linear of the plan has room for whatever its layers. */
static hyp_status add_addend(hyp_lowering *l, hyp_value_id added, const char *place, HypPlan__Linear *linear)
{
    HYP_TRY(hyp_lower_read(l, added, &linear->added_plus1));
    linear->added_plus1++;
    linear->add_after = strcmp(place, "after") == 0;
    return HYP_OK;
}

/* The tensor of every hidden result, and y. */
static hyp_status finish_layers(hyp_lowering *l, HypPlan__Linear *linear, const hyp_type *x, const hyp_dim *ns,
                                hyp_value_id y)
{
    hyp_dim m;
    HYP_TRY(hyp_lower_product(l, (size_t)x->rank - 1, x->dims, &m));
    for (size_t i = 0; i + 1 < linear->n_layers; i++) {
        hyp_type type = {.dtype = x->dtype, .rank = 2, .dims = {m, ns[i]}};
        uint32_t hidden;
        HYP_TRY(hyp_lower_add_tensor(l, NULL, &type, HYP_PLAN__PLACE__PLACE_SCRATCH, &hidden));
        linear->layers[i]->hidden_plus1 = hidden + 1;
    }
    return hyp_lower_write(l, y, &linear->y);
}

hyp_status hyp_emit_layers(hyp_lowering *l, const hyp_node *node)
{
    uint32_t layers = node->op == HYP_OP_fused_mlp ? node->attrs[0].count : 1;
    hyp_value_id x = node->inputs[node->input_count - 1];
    HypPlan__Linear *linear;
    HYP_TRY(begin_layers(l, node, x, layers, &linear));
    hyp_dim *ns = hyp_arena_zalloc(&l->scratch, layers, sizeof *ns);
    if (!ns) return hyp_fail_memory(l->diag, layers * sizeof *ns);
    for (uint32_t i = 0; i < layers; i++) {
        const hyp_type *w = &hyp_lower_value(l, node->inputs[2 * i])->type; /* [n k] also when it is stored [k n] */
        const char *name = node->op == HYP_OP_linear      ? "none"
                           : node->op == HYP_OP_fused_mlp ? node->attrs[0].syms[i]
                                                          : node->attrs[0].sym;
        HypPlan__Act act = HYP_PLAN__ACT__ACT_NONE;
        bool kn;
        hyp_value_id weight = hyp_lower_operand(l, node, 2 * i, &kn);
        HYP_TRY(find_act(l, node, name, &act));
        HYP_TRY(add_layer(l, linear, w->dims[0], w->dims[1], weight, kn, node->inputs[2 * i + 1], act));
        ns[i] = w->dims[0];
    }
    if (node->op == HYP_OP_fused_linear_add) HYP_TRY(add_addend(l, node->inputs[2], node->attrs[1].sym, linear));
    return finish_layers(l, linear, &hyp_lower_value(l, x)->type, ns, node->outputs[0]);
}

hyp_status hyp_emit_quantized(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type *w = &hyp_lower_value(l, node->inputs[0])->type, *x = &hyp_lower_value(l, node->inputs[3])->type;
    HypPlan__Linear *linear;
    HypPlan__Act act;
    hyp_dtype result = hyp_lower_value(l, node->outputs[0])->type.dtype;
    if (result != HYP_BF16)
        return hyp_lower_unsupported(l, node, "a layer in 8 bits with a result of %s has no kernel; bf16 has",
                                     hyp_dtype_name(result));
    HYP_TRY(begin_layers(l, node, node->inputs[3], 1, &linear));
    HYP_TRY(find_act(l, node, node->attrs[2].sym, &act));
    HYP_TRY(add_layer(l, linear, w->dims[0], w->dims[1], node->inputs[0], false, node->inputs[1], act));
    linear->layers[0]->x_scale = (float)node->attrs[0].f;
    linear->layers[0]->weight_scale = (float)node->attrs[1].f;
    if (node->inputs[2] != HYP_NO_VALUE) HYP_TRY(add_addend(l, node->inputs[2], node->attrs[3].sym, linear));
    return finish_layers(l, linear, x, w->dims, node->outputs[0]);
}

/* A product with a constant is a layer, which devices prepare at load. */
static hyp_status emit_as_layer(hyp_lowering *l, const hyp_node *node)
{
    const hyp_value *a = hyp_lower_value(l, node->inputs[0]), *b = hyp_lower_value(l, node->inputs[1]);
    HypPlan__Linear *linear;
    HYP_TRY(begin_layers(l, node, node->inputs[0], 1, &linear));
    bool transposed, vector = b->type.rank == 1, nk = node->attrs[1].i != 0;
    hyp_value_id weight = hyp_lower_operand(l, node, 1, &transposed);
    hyp_dim n = vector ? 1 : b->type.dims[nk ? 0 : 1];
    HYP_TRY(add_layer(l, linear, n, a->type.dims[a->type.rank - 1], weight, !vector && nk == transposed, HYP_NO_VALUE,
                      HYP_PLAN__ACT__ACT_NONE));
    return finish_layers(l, linear, &a->type, &n, node->outputs[0]);
}

/* ---- matmul ----------------------------------------------------------------------------------------- */

/* The matrices of one operand: its batch axes, and whether the last two are swapped. A vector is a row (a) or a
 * column (b). */
typedef struct operand {
    hyp_type batch;
    hyp_dim rows, columns;
    bool transposed;
} operand;

static operand split_operand(const hyp_type *t, bool transposed, bool is_a)
{
    operand o = {.batch = *t};
    if (t->rank == 1) {
        o.rows = is_a ? 1 : t->dims[0];
        o.columns = is_a ? t->dims[0] : 1;
        o.batch.rank = 0;
        return o;
    }
    o.transposed = transposed;
    o.rows = t->dims[t->rank - (transposed ? 1 : 2)];
    o.columns = t->dims[t->rank - (transposed ? 2 : 1)];
    o.batch.rank = t->rank - 2;
    return o;
}

/* The batch axes with the strides of a (lane 0), b (1) and y (2), merged. */
static hyp_status batch_axes(hyp_lowering *l, const operand *a, const operand *b, hyp_axes *axes)
{
    hyp_dims *dims = l->graph->dims;
    const operand *wide = a->batch.rank >= b->batch.rank ? a : b, *narrow = wide == a ? b : a;
    hyp_type y = {.rank = wide->batch.rank};
    int32_t shift = wide->batch.rank - narrow->batch.rank;
    for (int32_t i = 0; i < y.rank; i++) {
        y.dims[i] = wide->batch.dims[i];
        if (i >= shift && y.dims[i] == 1) y.dims[i] = narrow->batch.dims[i - shift];
    }
    *axes = (hyp_axes){.rank = y.rank, .lanes = 3};
    memcpy(axes->extents, y.dims, sizeof y.dims);
    HYP_TRY(hyp_lower_broadcast(l, axes, 0, &a->batch));
    HYP_TRY(hyp_lower_broadcast(l, axes, 1, &b->batch));
    HYP_TRY(hyp_lower_broadcast(l, axes, 2, &y));
    hyp_dim sizes[3];
    HYP_TRY(hyp_dim_mul(dims, a->rows, a->columns, &sizes[0], l->diag));
    HYP_TRY(hyp_dim_mul(dims, b->rows, b->columns, &sizes[1], l->diag));
    HYP_TRY(hyp_dim_mul(dims, a->rows, b->columns, &sizes[2], l->diag));
    for (int32_t lane = 0; lane < axes->lanes; lane++)
        for (int32_t i = 0; i < axes->rank; i++)
            HYP_TRY(hyp_dim_mul(dims, axes->strides[lane][i], sizes[lane], &axes->strides[lane][i], l->diag));
    hyp_lower_merge_axes(l, axes);
    return HYP_OK;
}

/* One b for a batch of row-major a is one taller product. */
static hyp_status join_batch(hyp_lowering *l, hyp_axes *axes, operand *a)
{
    hyp_dim matrix;
    HYP_TRY(hyp_dim_mul(l->graph->dims, a->rows, a->columns, &matrix, l->diag));
    if (axes->rank != 1 || a->transposed || axes->strides[0][0] != matrix || axes->strides[1][0] != 0) return HYP_OK;
    axes->rank = 0;
    return hyp_dim_mul(l->graph->dims, axes->extents[0], a->rows, &a->rows, l->diag);
}

/* Adds the step that computes alpha a b into the tensor y. */
static hyp_status emit_product(hyp_lowering *l, const hyp_node *node, uint32_t y)
{
    const hyp_value *av = hyp_lower_value(l, node->inputs[0]), *bv = hyp_lower_value(l, node->inputs[1]);
    operand a = split_operand(&av->type, node->attrs[0].i != 0, true);
    operand b = split_operand(&bv->type, node->attrs[1].i != 0, false);
    hyp_axes axes;
    HYP_TRY(batch_axes(l, &a, &b, &axes));
    HYP_TRY(join_batch(l, &axes, &a));

    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, hyp_op_get(node->op)->name, &node, 1, HYP_PLAN__STEP__KERNEL_MATMUL, &step));
    HypPlan__Matmul *k = step->matmul;
    size_t rank = (size_t)axes.rank;
    HYP_TRY(hyp_lower_read(l, node->inputs[0], &k->a));
    HYP_TRY(hyp_lower_read(l, node->inputs[1], &k->b));
    k->y = y;
    k->n_batch = k->n_a_strides = k->n_b_strides = rank;
    HYP_TRY(hyp_lower_dims(l, rank, axes.extents, &k->batch));
    HYP_TRY(hyp_lower_dims(l, rank, axes.strides[0], &k->a_strides));
    HYP_TRY(hyp_lower_dims(l, rank, axes.strides[1], &k->b_strides));
    HYP_TRY(hyp_lower_dim(l, a.rows, &k->m));
    HYP_TRY(hyp_lower_dim(l, b.columns, &k->n));
    HYP_TRY(hyp_lower_dim(l, a.columns, &k->k));
    k->trans_a = a.transposed;
    k->trans_b = b.transposed;
    k->alpha = (float)node->attrs[2].f;
    k->tf32 = use_tf32(l, node);
    return HYP_OK;
}

hyp_status hyp_emit_matmul(hyp_lowering *l, const hyp_node *node)
{
    HYP_TRY(want_type(l, node, node->attrs[2].f != 1));
    if (hyp_lower_is_linear(l, node)) return emit_as_layer(l, node);
    uint32_t y;
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &y));
    return emit_product(l, node, y);
}

hyp_status hyp_emit_gemm(hyp_lowering *l, const hyp_node *node)
{
    bool adds = node->input_count > 2 && node->inputs[2] != HYP_NO_VALUE && node->attrs[3].f != 0;
    uint32_t product;
    HYP_TRY(want_type(l, node, node->attrs[2].f != 1 || adds));
    if (!adds) {
        HYP_TRY(hyp_lower_write(l, node->outputs[0], &product));
        return emit_product(l, node, product);
    }
    const hyp_type *type = &hyp_lower_value(l, node->outputs[0])->type;
    HYP_TRY(hyp_lower_add_tensor(l, NULL, type, HYP_PLAN__PLACE__PLACE_SCRATCH, &product));
    HYP_TRY(emit_product(l, node, product));
    return hyp_emit_scaled_sum(l, node, product, node->inputs[2], node->attrs[3].f);
}
