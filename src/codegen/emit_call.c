/* emit_call.c - steps for operators that are computed by the kernel of their name. */
#include "codegen/lower.h"
#include "plan/call.h"

static hyp_status set_attr(hyp_lowering *l, const hyp_node *node, const hyp_attr *from, HypPlan__Call__Attr *to)
{
    switch (from->kind) {
    case HYP_ATTR_INT:
        to->kind = HYP_PLAN__CALL__ATTR__KIND__INT;
        to->n_dims = 1;
        return hyp_lower_dims(l, 1, &from->i, &to->dims);
    case HYP_ATTR_FLOAT:
        to->kind = HYP_PLAN__CALL__ATTR__KIND__FLOAT;
        to->number = from->f;
        return HYP_OK;
    case HYP_ATTR_SYM:
        to->kind = HYP_PLAN__CALL__ATTR__KIND__SYM;
        to->text = hyp_arena_strdup(&l->out->arena, from->sym);
        return to->text ? HYP_OK : hyp_fail_memory(l->diag, 0);
    case HYP_ATTR_DIMS:
        to->kind = HYP_PLAN__CALL__ATTR__KIND__INTS;
        to->n_dims = from->count;
        return hyp_lower_dims(l, from->count, from->dims, &to->dims);
    default: return hyp_lower_unsupported(l, node, "a kernel takes no list of symbols");
    }
}

static hyp_status set_attrs(hyp_lowering *l, const hyp_node *node, HypPlan__Call *k)
{
    void *memory;
    k->n_attrs = hyp_op_get(node->op)->attr_count;
    HYP_TRY(hyp_lower_alloc(l, k->n_attrs, sizeof *k->attrs, &memory));
    k->attrs = memory;
    for (size_t i = 0; i < k->n_attrs; i++) {
        HYP_TRY(hyp_lower_alloc(l, 1, sizeof **k->attrs, &memory));
        k->attrs[i] = memory;
        hyp_plan__call__attr__init(k->attrs[i]);
        HYP_TRY(set_attr(l, node, &node->attrs[i], k->attrs[i]));
    }
    hyp_plan_call_shorten(k);
    return HYP_OK;
}

/* A tensor that holds a value, in the value's own shape: the memory of an output may have another. */
static hyp_status in_shape(hyp_lowering *l, hyp_value_id v, uint32_t *tensor)
{
    const hyp_value *value = hyp_lower_value(l, v);
    const HypPlan__Tensor *t = l->tensors.data[*tensor];
    bool same = t->n_dims == (size_t)value->type.rank;
    for (size_t i = 0; i < t->n_dims && same; i++) {
        uint32_t d;
        HYP_TRY(hyp_lower_dim(l, value->type.dims[i], &d));
        same = t->dims[i] == d;
    }
    if (same) return HYP_OK;
    return hyp_lower_add_view(l, value->name, &value->type, *tensor, tensor);
}

hyp_status hyp_emit_call(hyp_lowering *l, const hyp_node *node)
{
    const char *name = hyp_op_get(node->op)->name;
    HypPlan__Step *step;
    void *memory;
    size_t inputs = node->input_count;
    while (inputs && node->inputs[inputs - 1] == HYP_NO_VALUE) inputs--;
    if (inputs > HYP_PLAN_CALL_INPUTS || node->output_count > HYP_PLAN_CALL_OUTPUTS)
        return hyp_lower_unsupported(l, node, "it has %zu inputs and %u outputs, kernels have at most %d and %d", inputs,
                                     node->output_count, HYP_PLAN_CALL_INPUTS, HYP_PLAN_CALL_OUTPUTS);
    HYP_TRY(hyp_lower_add_step(l, name, &node, 1, HYP_PLAN__STEP__KERNEL_CALL, &step));
    HypPlan__Call *k = step->call;
    k->kernel = hyp_arena_strdup(&l->out->arena, name);
    if (!k->kernel) return hyp_fail_memory(l->diag, 0);
    k->n_inputs_plus1 = inputs;
    HYP_TRY(hyp_lower_alloc(l, inputs, sizeof *k->inputs_plus1, &memory));
    k->inputs_plus1 = memory;
    for (size_t i = 0; i < inputs; i++) {
        uint32_t x;
        if (node->inputs[i] == HYP_NO_VALUE) continue;
        HYP_TRY(hyp_lower_read(l, node->inputs[i], &x));
        HYP_TRY(in_shape(l, node->inputs[i], &x));
        k->inputs_plus1[i] = x + 1;
    }
    k->n_outputs = node->output_count;
    HYP_TRY(hyp_lower_alloc(l, k->n_outputs, sizeof *k->outputs, &memory));
    k->outputs = memory;
    for (size_t i = 0; i < k->n_outputs; i++) {
        HYP_TRY(hyp_lower_write(l, node->outputs[i], &k->outputs[i]));
        HYP_TRY(in_shape(l, node->outputs[i], &k->outputs[i]));
    }
    return set_attrs(l, node, k);
}
