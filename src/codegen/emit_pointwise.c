/* emit_pointwise.c - groups of elementwise nodes as one step. */
#include <string.h>

#include "base/elementwise.h"
#include "codegen/lower.h"

typedef HypPlan__Pointwise__Instr instr;

/* A step under construction. */
typedef struct builder {
    hyp_lowering *l;
    HypPlan__Pointwise *k;
    hyp_axes axes;   /* lane i: input i */
    uint32_t inputs; /* tensors so far: the lanes of `axes` */
    uint32_t tensors[HYP_PLAN_POINTWISE_INPUTS];
    uint32_t registers;
    hyp_value_id value_of[HYP_PLAN_POINTWISE_REGISTERS]; /* HYP_NO_VALUE where a register is no value */
} builder;

static void add_lane(builder *b, hyp_value_id value_of, uint32_t tensor)
{
    b->tensors[b->inputs++] = tensor;
    b->axes.lanes = (int32_t)b->inputs;
    b->value_of[b->registers++] = value_of;
}

static hyp_status add_input(builder *b, uint32_t tensor, const hyp_type *type)
{
    HYP_TRY(hyp_lower_broadcast(b->l, &b->axes, (int32_t)b->inputs, type));
    add_lane(b, HYP_NO_VALUE, tensor);
    return HYP_OK;
}

static hyp_status add_operand(builder *b, hyp_value_id v)
{
    uint32_t tensor;
    hyp_view view;
    HYP_TRY(hyp_lower_find_rows(b->l, v, &view));
    HYP_TRY(hyp_lower_read(b->l, view.value, &tensor));
    hyp_lower_broadcast_view(&b->axes, (int32_t)b->inputs, &hyp_lower_value(b->l, v)->type, view.strides);
    add_lane(b, v, tensor);
    return HYP_OK;
}

static hyp_status add_instr(builder *b, HypPlan__Pointwise__Op op, uint32_t x, uint32_t y, hyp_dtype to,
                            hyp_value_id value_of, instr **out)
{
    void *memory;
    HYP_TRY(hyp_lower_alloc(b->l, 1, sizeof **out, &memory));
    *out = memory;
    hyp_plan__pointwise__instr__init(*out);
    (*out)->op = op;
    (*out)->a = x;
    (*out)->b = y;
    (*out)->to = to;
    b->k->instrs[b->k->n_instrs++] = *out;
    b->value_of[b->registers++] = value_of;
    return HYP_OK;
}

static hyp_status begin(builder *b, const hyp_type *type, hyp_dtype compute)
{
    void *list;
    HYP_TRY(hyp_lower_alloc(b->l, HYP_PLAN_POINTWISE_REGISTERS, sizeof *b->k->instrs, &list));
    b->k->instrs = list;
    b->k->compute = compute;
    b->axes.rank = type->rank;
    memcpy(b->axes.extents, type->dims, sizeof type->dims);
    return HYP_OK;
}

/* Bits of the inputs that are dense: they have one axis at most left, crossed in steps of one. */
static uint32_t dense_inputs(const builder *b)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < b->inputs; i++) {
        hyp_dim want = 1;
        bool dense = true;
        for (int32_t a = b->axes.rank - 1; a >= 0 && dense; a--) {
            dense = b->axes.strides[i][a] == want &&
                    hyp_dim_mul(b->l->graph->dims, want, b->axes.extents[a], &want, NULL) == HYP_OK;
        }
        bits |= (uint32_t)dense << i;
    }
    return bits;
}

/* A register goes to a tensor. */
static hyp_status add_result(builder *b, uint32_t reg, uint32_t tensor)
{
    HypPlan__Pointwise *k = b->k;
    void *list;
    if (!k->outputs) {
        HYP_TRY(hyp_lower_alloc(b->l, 2 * HYP_PLAN_POINTWISE_OUTPUTS, sizeof(uint32_t), &list));
        k->outputs = list;
        k->output_regs = k->outputs + HYP_PLAN_POINTWISE_OUTPUTS;
    }
    k->outputs[k->n_outputs++] = tensor;
    k->output_regs[k->n_output_regs++] = reg;
    return HYP_OK;
}

/* The last register goes to the tensor y. */
static hyp_status finish(builder *b, uint32_t y)
{
    hyp_lowering *l = b->l;
    HypPlan__Pointwise *k = b->k;
    void *list;
    hyp_lower_merge_axes(l, &b->axes);
    size_t rank = (size_t)b->axes.rank;
    k->n_extents = rank;
    HYP_TRY(hyp_lower_dims(l, rank, b->axes.extents, &k->extents));
    HYP_TRY(hyp_lower_alloc(l, b->inputs, sizeof *k->inputs, &list));
    for (k->inputs = list; k->n_inputs < b->inputs; k->n_inputs++) {
        void *memory;
        HYP_TRY(hyp_lower_alloc(l, 1, sizeof **k->inputs, &memory));
        HypPlan__Pointwise__Operand *x = k->inputs[k->n_inputs] = memory;
        hyp_plan__pointwise__operand__init(x);
        x->tensor = b->tensors[k->n_inputs];
        x->n_strides = rank;
        HYP_TRY(hyp_lower_dims(l, rank, b->axes.strides[k->n_inputs], &x->strides));
    }
    HYP_TRY(add_result(b, b->registers - 1, y));
    l->dense.data[l->dense.len - 1] = dense_inputs(b);
    return HYP_OK;
}

/* ---- groups ----------------------------------------------------------------------------------------- */

static HypPlan__Pointwise__Op pointwise_op(const hyp_node *node)
{
    if (node->op == HYP_OP_mod && node->attrs[0].i) return HYP_PLAN__POINTWISE__OP__FMOD;
    switch (node->op) {
#define X(op, name, OP, ...)                                                                                           \
    case HYP_OP_##op: return HYP_PLAN__POINTWISE__OP__##OP;
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
#define X(op, OP, ...)                                                                                                 \
    case HYP_OP_##op: return HYP_PLAN__POINTWISE__OP__##OP;
        HYP_PLAIN_OPS(X)
#undef X
    default: return (HypPlan__Pointwise__Op)-1; /* none: below, and no plan that has it is accepted */
    }
}

enum {
    ELEMENTWISE = 0
#define OP(id, name, lo, hi, outs, flags, ...) +(((flags) & (HYP_OPF_ELEMENTWISE | HYP_OPF_VIEW)) == HYP_OPF_ELEMENTWISE)
#include "ir/ops.def"
    ,
    KNOWN = 0
#define X(...) +1
        HYP_ACTIVATIONS(X) HYP_FUNCTIONS(X) HYP_PLAIN_OPS(X)
#undef X
};
_Static_assert((int)ELEMENTWISE == (int)KNOWN, "base/elementwise.h has a row for every elementwise operator of ops.def");

/* Bools are 0 and 1 in registers of any type, so arithmetic does what bits do. */
static HypPlan__Pointwise__Op bool_op(HypPlan__Pointwise__Op op)
{
    switch (op) {
    case HYP_PLAN__POINTWISE__OP__AND: return HYP_PLAN__POINTWISE__OP__MIN;
    case HYP_PLAN__POINTWISE__OP__OR: return HYP_PLAN__POINTWISE__OP__MAX;
    case HYP_PLAN__POINTWISE__OP__XOR: return HYP_PLAN__POINTWISE__OP__SUB; /* not 0 where they differ */
    case HYP_PLAN__POINTWISE__OP__INVERT: return HYP_PLAN__POINTWISE__OP__NOT;
    default: return op;
    }
}

static uint32_t register_of(const builder *b, hyp_value_id v)
{
    uint32_t r = 0;
    while (r < b->registers && b->value_of[r] != v) r++;
    return r;
}

/* The register of a node's operand; a scalar constant becomes an instruction on first use. */
static hyp_status operand_register(builder *b, hyp_value_id v, uint32_t *out)
{
    double scalar;
    instr *in;
    *out = register_of(b, v);
    if (*out < b->registers) return HYP_OK;
    if (!hyp_lower_is_scalar(b->l, v, &scalar))
        return hyp_fail(b->l->diag, HYP_ERR_INTERNAL, "value %u is in no register of its group", v);
    HYP_TRY(add_instr(b, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, hyp_lower_value(b->l, v)->type.dtype, v, &in));
    in->p = scalar;
    return HYP_OK;
}

static hyp_status add_node(builder *b, const hyp_node *node)
{
    uint32_t reg[3] = {0};
    instr *in;
    for (uint32_t i = 0; i < node->input_count; i++) HYP_TRY(operand_register(b, node->inputs[i], &reg[i]));
    hyp_dtype to = hyp_lower_value(b->l, node->outputs[0])->type.dtype;
    HypPlan__Pointwise__Op op = pointwise_op(node);
    HYP_TRY(add_instr(b, to == HYP_BOOL ? bool_op(op) : op, reg[0], reg[1], to, node->outputs[0], &in));
    in->c = reg[2];
    if (node->op == HYP_OP_leaky_relu || node->op == HYP_OP_clip || node->op == HYP_OP_elu) in->p = node->attrs[0].f;
    if (node->op == HYP_OP_clip || node->op == HYP_OP_elu) in->q = node->attrs[1].f;
    return HYP_OK;
}

/* "add", or the operators in their order: "mul+add+relu". */
static hyp_status group_label(hyp_lowering *l, const hyp_node *const *nodes, size_t count, hyp_strbuf *out)
{
    for (size_t i = 0; i < count; i++) hyp_strbuf_printf(out, "%s%s", i ? "+" : "", hyp_op_get(nodes[i]->op)->name);
    return out->failed ? hyp_fail_memory(l->diag, 0) : HYP_OK;
}

hyp_status hyp_emit_group(hyp_lowering *l, const hyp_group *group)
{
    const hyp_graph *g = l->graph;
    const hyp_node *nodes[HYP_PLAN_POINTWISE_REGISTERS], *root = &g->nodes.data[group->root];
    size_t count = group->node_count;
    for (size_t i = 0; i < count; i++) nodes[i] = &g->nodes.data[group->nodes[count - 1 - i]];

    hyp_strbuf label = {0};
    HypPlan__Step *step = NULL;
    hyp_status status = group_label(l, nodes, count, &label);
    if (status == HYP_OK)
        status = hyp_lower_add_step(l, hyp_strbuf_text(&label), nodes, count, HYP_PLAN__STEP__KERNEL_POINTWISE, &step);
    hyp_strbuf_dispose(&label);
    HYP_TRY(status);

    builder b = {.l = l, .k = step->pointwise};
    HYP_TRY(
        begin(&b, &hyp_lower_value(l, root->outputs[0])->type, group->compute == HYP_BOOL ? HYP_F32 : group->compute));
    for (uint32_t i = 0; i < group->input_count; i++) HYP_TRY(add_operand(&b, group->inputs[i]));
    for (size_t i = 0; i < count; i++) HYP_TRY(add_node(&b, nodes[i]));
    uint32_t y;
    for (size_t i = 0; i + 1 < count; i++) {
        if (!l->values[nodes[i]->outputs[0]].shown) continue;
        HYP_TRY(hyp_lower_write(l, nodes[i]->outputs[0], &y));
        HYP_TRY(add_result(&b, register_of(&b, nodes[i]->outputs[0]), y));
    }
    HYP_TRY(hyp_lower_write(l, root->outputs[0], &y));
    return finish(&b, y);
}

/* ---- the second half of a gemm ----------------------------------------------------------------------- */

hyp_status hyp_emit_scaled_sum(hyp_lowering *l, const hyp_node *node, uint32_t product, hyp_value_id addend,
                               double beta)
{
    const hyp_type *type = &hyp_lower_value(l, node->outputs[0])->type;
    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, "add", &node, 1, HYP_PLAN__STEP__KERNEL_POINTWISE, &step));
    builder b = {.l = l, .k = step->pointwise};
    HYP_TRY(begin(&b, type, type->dtype == HYP_F64 ? HYP_F64 : HYP_F32));
    uint32_t tensor, c = 1;
    instr *in;
    HYP_TRY(hyp_lower_read(l, addend, &tensor));
    HYP_TRY(add_input(&b, product, type));
    HYP_TRY(add_input(&b, tensor, &hyp_lower_value(l, addend)->type));
    if (beta != 1) {
        HYP_TRY(add_instr(&b, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, (hyp_dtype)b.k->compute, HYP_NO_VALUE, &in));
        in->p = beta;
        HYP_TRY(add_instr(&b, HYP_PLAN__POINTWISE__OP__MUL, 1, 2, (hyp_dtype)b.k->compute, HYP_NO_VALUE, &in));
        c = 3;
    }
    HYP_TRY(add_instr(&b, HYP_PLAN__POINTWISE__OP__ADD, 0, c, type->dtype, HYP_NO_VALUE, &in));
    uint32_t y;
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &y));
    return finish(&b, y);
}
