/* emit_call.c - steps for operators that are computed by the kernel of their name, and for custom ones. */
#include <stdlib.h>
#include <string.h>

#include "codegen/lower.h"
#include "ir/custom.h"
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

/* The tensors of a call, in the shapes that the node gives them. */
static hyp_status set_tensors(hyp_lowering *l, const hyp_node *node, HypPlan__Call *k)
{
    void *memory;
    size_t inputs = node->input_count;
    while (inputs && node->inputs[inputs - 1] == HYP_NO_VALUE) inputs--;
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
    return HYP_OK;
}

static hyp_status want_room(hyp_lowering *l, const hyp_node *node)
{
    size_t inputs = node->input_count;
    while (inputs && node->inputs[inputs - 1] == HYP_NO_VALUE) inputs--;
    const bool custom = node->op == HYP_OP_custom;
    const uint32_t most_inputs = custom ? HYP_PLAN_CUSTOM_INPUTS : HYP_PLAN_CALL_INPUTS;
    const uint32_t most_outputs = custom ? HYP_PLAN_CUSTOM_OUTPUTS : HYP_PLAN_CALL_OUTPUTS;
    if (inputs <= most_inputs && node->output_count <= most_outputs) return HYP_OK;
    return hyp_lower_unsupported(l, node, "it has %zu inputs and %u outputs, kernels have at most %u and %u", inputs,
                                 node->output_count, most_inputs, most_outputs);
}

hyp_status hyp_emit_call(hyp_lowering *l, const hyp_node *node)
{
    const char *name = hyp_op_get(node->op)->name;
    HypPlan__Step *step;
    HYP_TRY(want_room(l, node));
    HYP_TRY(hyp_lower_add_step(l, name, &node, 1, HYP_PLAN__STEP__KERNEL_CALL, &step));
    HypPlan__Call *k = step->call;
    k->kernel = hyp_arena_strdup(&l->out->arena, name);
    if (!k->kernel) return hyp_fail_memory(l->diag, 0);
    HYP_TRY(set_tensors(l, node, k));
    return set_attrs(l, node, k);
}

/* ---- custom operators: ir/custom.h says how their texts are made ------------------------------------------------ */

static hyp_status read_elements(hyp_lowering *l, char *text, HypPlan__Custom__Attr *a)
{
    void *memory;
    size_t count = 0;
    for (const char *p = text; *p; p++) count += *p == ',';
    bool floats = a->kind == HYP_PLAN__CUSTOM__ATTR__KIND__FLOATS, ints = a->kind == HYP_PLAN__CUSTOM__ATTR__KIND__INTS;
    size_t size = ints ? sizeof *a->ints : floats ? sizeof *a->floats : sizeof *a->strings;
    HYP_TRY(hyp_lower_alloc(l, count, size, &memory));
    if (ints) a->ints = memory, a->n_ints = count;
    if (floats) a->floats = memory, a->n_floats = count;
    if (!ints && !floats) a->strings = memory, a->n_strings = count;
    for (size_t i = 0; i < count; i++) {
        char *end = strchr(text, ',');
        *end = 0;
        if (ints) a->ints[i] = strtoll(text, NULL, 10);
        if (floats) a->floats[i] = (float)hyp_strtod(text, NULL);
        if (!ints && !floats) a->strings[i] = (ProtobufCBinaryData){hyp_custom_unescape(text), (uint8_t *)text};
        text = end + 1;
    }
    return HYP_OK;
}

static hyp_status read_value(hyp_lowering *l, const hyp_node *node, const char *value, HypPlan__Custom__Attr *a)
{
    static const char kinds[] = "ifsIFS";
    char *text = hyp_arena_strdup(&l->out->arena, value);
    if (!text) return hyp_fail_memory(l->diag, strlen(value));
    char *elements = strchr(text, '=');
    const char *kind = elements && elements[1] ? strchr(kinds, elements[1]) : NULL;
    if (!kind || elements[2] != ':')
        return hyp_lower_unsupported(l, node, "the attribute '%s' is not of the form name=k:value,", value);
    *elements = 0;
    a->name = text;
    a->kind = (HypPlan__Custom__Attr__Kind)((kind - kinds) % 3);
    a->list = kind - kinds >= 3;
    hyp_custom_unescape(a->name);
    return read_elements(l, elements + 3, a);
}

hyp_status hyp_emit_custom(hyp_lowering *l, const hyp_node *node)
{
    HypPlan__Step *step;
    void *memory;
    char *domain = hyp_arena_strdup(&l->out->arena, node->attrs[0].sym);
    if (!domain) return hyp_fail_memory(l->diag, 0);
    char *name = strstr(domain, "::");
    if (!name) return hyp_lower_unsupported(l, node, "'%s' is not of the form domain::Name", domain);
    HYP_TRY(want_room(l, node));
    HYP_TRY(hyp_lower_add_step(l, domain, &node, 1, HYP_PLAN__STEP__KERNEL_CUSTOM, &step));
    HypPlan__Custom *k = step->custom;
    *name = 0;
    k->domain = domain;
    hyp_custom_unescape(k->domain);
    HYP_TRY(hyp_lower_alloc(l, 1, sizeof *k->call, &memory));
    k->call = memory;
    hyp_plan__call__init(k->call);
    k->call->kernel = name + 2;
    hyp_custom_unescape(k->call->kernel);
    HYP_TRY(set_tensors(l, node, k->call));
    const hyp_attr *values = &node->attrs[1];
    HYP_TRY(hyp_lower_alloc(l, values->count, sizeof *k->attrs, &memory));
    k->attrs = memory;
    for (; k->n_attrs < values->count; k->n_attrs++) {
        HYP_TRY(hyp_lower_alloc(l, 1, sizeof **k->attrs, &memory));
        k->attrs[k->n_attrs] = memory;
        hyp_plan__custom__attr__init(memory);
        HYP_TRY(read_value(l, node, values->syms[k->n_attrs], memory));
    }
    return HYP_OK;
}
