/* edges.c - inputs, outputs and variables of a program. */
#include "codegen/lower.h"

/* A copy costs what an `expand` to the same shape does. */
static hyp_status predict_copy(hyp_lowering *l, hyp_value_id v, HypPlan__Step *step)
{
    const hyp_node copy = {.op = HYP_OP_expand, .inputs = &v, .input_count = 1, .outputs = &v, .output_count = 1};
    const hyp_node *node = &copy;
    if (!l->options->predict) return HYP_OK;
    return hyp_lower_price_steps(l, &node, 1, &step, 1);
}

/* What a variable becomes is no output where it stays what it is. */
static bool stays(const hyp_graph *g, const HypPlan__Variable *variable, size_t output)
{
    return variable && g->inputs.data[variable->input] == g->outputs.data[output].value;
}

/* By output of the graph: the variable that it is what becomes of, or NULL. */
static hyp_status list_set(hyp_lowering *l, HypPlan__Variable ***out)
{
    const hyp_graph *g = l->graph;
    *out = hyp_arena_zalloc(&l->scratch, g->outputs.len + 1, sizeof **out);
    if (!*out) return hyp_fail_memory(l->diag, g->outputs.len * sizeof **out);
    for (size_t i = 0; i < g->variables.len; i++)
        (*out)[g->variables.data[i].output] = l->out->program->variables[i];
    return HYP_OK;
}

static bool is_computed_there(const hyp_lowering *l, size_t output)
{
    return l->values[hyp_lower_root(l, l->graph->outputs.data[output].value)].output_plus1 == output + 1;
}

static hyp_status emit_copy(hyp_lowering *l, const hyp_named_value *output, uint32_t *out)
{
    uint32_t from;
    const hyp_type *type = &hyp_lower_value(l, output->value)->type;
    HYP_TRY(hyp_lower_read(l, output->value, &from));
    HYP_TRY(hyp_lower_add_tensor(l, output->name, type, HYP_PLAN__PLACE__PLACE_OUTPUT, out));
    HYP_TRY(hyp_emit_whole_copy(l, from, *out, type));
    return predict_copy(l, output->value, l->steps.data[l->steps.len - 1]);
}

hyp_status hyp_lower_emit_copies(hyp_lowering *l)
{
    const hyp_graph *g = l->graph;
    HypPlan__Variable **set;
    HYP_TRY(list_set(l, &set));
    l->copies = hyp_arena_zalloc(&l->scratch, g->outputs.len + 1, sizeof *l->copies);
    if (!l->copies) return hyp_fail_memory(l->diag, g->outputs.len * sizeof *l->copies);
    for (size_t i = 0; i < g->outputs.len; i++) {
        uint32_t tensor;
        if (stays(g, set[i], i) || is_computed_there(l, i)) continue;
        HYP_TRY(emit_copy(l, &g->outputs.data[i], &tensor));
        l->copies[i] = tensor + 1;
    }
    return HYP_OK;
}

static hyp_status list_outputs(hyp_lowering *l)
{
    const hyp_graph *g = l->graph;
    HypPlan__Program *p = l->out->program;
    void *list;
    HypPlan__Variable **set;
    HYP_TRY(list_set(l, &set));
    HYP_TRY(hyp_lower_alloc(l, g->outputs.len, sizeof(uint32_t), &list));
    p->outputs = list;
    for (size_t i = 0; i < g->outputs.len; i++) {
        hyp_value_id root = hyp_lower_root(l, g->outputs.data[i].value);
        if (stays(g, set[i], i)) continue;
        p->outputs[p->n_outputs++] = (l->copies[i] ? l->copies[i] : l->values[root].tensor_plus1) - 1;
        if (set[i]) set[i]->output_plus1 = (uint32_t)p->n_outputs;
    }
    return HYP_OK;
}

static hyp_status add_data_sizes(hyp_lowering *l)
{
    HypPlan__Program *p = l->out->program;
    void *list, *memory;
    HYP_TRY(hyp_lower_alloc(l, l->graph->sizes.len, sizeof *p->data_sizes, &list));
    HYP_TRY(hyp_lower_alloc(l, l->graph->sizes.len, sizeof **p->data_sizes, &memory));
    p->data_sizes = list;
    p->hidden_outputs = l->graph->hidden_outputs - (uint32_t)l->graph->variables.len;
    for (; p->n_data_sizes < l->graph->sizes.len; p->n_data_sizes++) {
        const hyp_data_size *from = &l->graph->sizes.data[p->n_data_sizes];
        HypPlan__DataSize *to = (HypPlan__DataSize *)memory + p->n_data_sizes;
        hyp_plan__data_size__init(to);
        to->output = from->output;
        to->axis = from->axis;
        to->count = from->count;
        p->data_sizes[p->n_data_sizes] = to;
    }
    return HYP_OK;
}

static hyp_status add_variables(hyp_lowering *l)
{
    HypPlan__Program *p = l->out->program;
    size_t count = l->graph->variables.len;
    void *list, *memory;
    HYP_TRY(hyp_lower_alloc(l, count, sizeof *p->variables, &list));
    HYP_TRY(hyp_lower_alloc(l, count, sizeof **p->variables, &memory));
    p->variables = list;
    for (; p->n_variables < count; p->n_variables++) {
        HypPlan__Variable *to = (HypPlan__Variable *)memory + p->n_variables;
        hyp_plan__variable__init(to);
        to->input = l->graph->variables.data[p->n_variables].input;
        p->variables[p->n_variables] = to;
    }
    return HYP_OK;
}

/* What variables begin with comes behind all other weights: no step reads it. */
static hyp_status add_initial(hyp_lowering *l)
{
    for (size_t i = 0; i < l->graph->variables.len; i++) {
        const hyp_value *value = hyp_graph_variable(l->graph, i);
        HypPlan__Variable *to = l->out->program->variables[i];
        uint32_t initial;
        if (!value->bytes) continue;
        HYP_TRY(hyp_lower_add_tensor(l, value->name, &value->type, HYP_PLAN__PLACE__PLACE_WEIGHT, &initial));
        l->folds.data[initial] = l->graph->inputs.data[to->input];
        to->initial_plus1 = initial + 1;
    }
    return HYP_OK;
}

static hyp_status add_inputs(hyp_lowering *l)
{
    const hyp_graph *g = l->graph;
    void *list;
    HYP_TRY(hyp_lower_alloc(l, g->inputs.len, sizeof(uint32_t), &list));
    uint32_t *inputs = list;
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_value *value = hyp_lower_value(l, g->inputs.data[i]);
        HYP_TRY(hyp_lower_add_tensor(l, value->name, &value->type, HYP_PLAN__PLACE__PLACE_INPUT, &inputs[i]));
        l->values[g->inputs.data[i]].tensor_plus1 = inputs[i] + 1;
    }
    l->out->program->inputs = inputs;
    l->out->program->n_inputs = g->inputs.len;
    return HYP_OK;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

hyp_status hyp_lower_add_edges(hyp_lowering *l)
{
    HYP_TRY(add_inputs(l));
    return add_variables(l);
}

hyp_status hyp_lower_finish_edges(hyp_lowering *l)
{
    HYP_TRY(list_outputs(l));
    HYP_TRY(add_data_sizes(l));
    return add_initial(l);
}

hyp_status hyp_lower_mark_in_place(hyp_lowering *l)
{
    HypPlan__Program *p = l->out->program;
    bool *may_be = hyp_arena_zalloc(&l->scratch, p->n_variables + 1, sizeof *may_be);
    if (!may_be) return hyp_fail_memory(l->diag, p->n_variables);
    HYP_TRY(hyp_plan_find_in_place(p, may_be, l->diag));
    for (size_t i = 0; i < p->n_variables; i++) p->variables[i]->in_place = may_be[i];
    return HYP_OK;
}
