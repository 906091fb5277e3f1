/* demote.c - the same graph in a narrower floating-point type, between casts at its edges. */
#include <string.h>

#include "codegen/codegen.h"

typedef struct demotion {
    const hyp_graph *in;
    hyp_graph *out;
    hyp_attr to;            /* of a cast to the narrow type */
    hyp_value_id *original; /* by value of `in`: inputs, constants and what stays wide as they are */
    hyp_value_id *narrow;   /* by value of `in`: what nodes read; HYP_NO_VALUE until it is wanted */
    hyp_diag *diag;
} demotion;

static hyp_attr cast_attr(hyp_dtype to) { return hyp_attr_of_sym(hyp_dtype_name(to)); }

static hyp_status add_cast(demotion *d, hyp_value_id v, hyp_attr to, hyp_value_id *out)
{
    return hyp_graph_add_node(d->out, HYP_OP_cast, &v, 1, &to, NULL, out, 1, d->diag);
}

static hyp_status add_edges(demotion *d)
{
    const hyp_graph *in = d->in;
    for (size_t i = 0; i < in->inputs.len; i++) {
        const hyp_value *value = &in->values.data[in->inputs.data[i]];
        HYP_TRY(hyp_graph_add_input(d->out, value->name, &value->type, &d->original[in->inputs.data[i]], d->diag));
    }
    for (size_t v = 0; v < in->values.len; v++)
        if (in->values.data[v].kind == HYP_VALUE_CONST)
            HYP_TRY(hyp_graph_copy_const(d->out, &in->values.data[v], &d->original[v], d->diag));
    return HYP_OK;
}

/* A constant of one element is converted here, so that it stays a plain constant to rules and kernels. */
static hyp_status narrow_scalar(demotion *d, const hyp_value *value, hyp_value_id *out)
{
    hyp_type type = value->type;
    uint16_t element;
    type.dtype = hyp_dtype_parse(d->to.sym);
    hyp_store_f64(type.dtype, &element, 0, hyp_load_f64(HYP_F32, value->data, 0));
    return hyp_graph_add_const(d->out, value->name, &type, &element, sizeof element, true, out, d->diag);
}

/* The value that a node reads: an f32 input, constant or wide result through a cast, made on first use. */
static hyp_status narrow_value(demotion *d, hyp_value_id v, hyp_value_id *out)
{
    if (v != HYP_NO_VALUE && d->narrow[v] == HYP_NO_VALUE) {
        const hyp_value *value = &d->in->values.data[v];
        if (value->type.dtype != HYP_F32)
            d->narrow[v] = d->original[v];
        else if (value->kind == HYP_VALUE_CONST && value->data && value->bytes == sizeof(float))
            HYP_TRY(narrow_scalar(d, value, &d->narrow[v]));
        else
            HYP_TRY(add_cast(d, d->original[v], d->to, &d->narrow[v]));
    }
    *out = v == HYP_NO_VALUE ? v : d->narrow[v];
    return HYP_OK;
}

/* The value in the type that the model gives it. */
static hyp_status wide_value(demotion *d, hyp_value_id v, hyp_value_id *out)
{
    if (v == HYP_NO_VALUE || d->original[v] != HYP_NO_VALUE)
        return *out = v == HYP_NO_VALUE ? v : d->original[v], HYP_OK;
    if (d->in->values.data[v].type.dtype != HYP_F32) return *out = d->narrow[v], HYP_OK;
    return add_cast(d, d->narrow[v], cast_attr(HYP_F32), out);
}

/* Whether a node reads input i, or gives result i, in the type that the model gives it: kernels of a custom operator know
 * no other, and statistics that a batch normalization keeps, and what it scales by, are no images. */
static bool stays_wide(const hyp_node *node, uint32_t i)
{
    if (hyp_op_get(node->op)->flags & HYP_OPF_OPAQUE) return true;
    return node->op == HYP_OP_batch_norm && i > 0;
}

static hyp_status copy_node(demotion *d, const hyp_node *node)
{
    hyp_value_id *lists = hyp_calloc((size_t)node->input_count + node->output_count, sizeof *lists);
    if (!lists) return hyp_fail_memory(d->diag, node->input_count * sizeof *lists);
    hyp_value_id *outputs = lists + node->input_count;
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < node->input_count && status == HYP_OK; i++)
        status = stays_wide(node, i) ? wide_value(d, node->inputs[i], &lists[i])
                                     : narrow_value(d, node->inputs[i], &lists[i]);
    bool to_f32 = node->op == HYP_OP_cast && d->in->values.data[node->outputs[0]].type.dtype == HYP_F32;
    if (status == HYP_OK)
        status = hyp_graph_add_node(d->out, node->op, lists, node->input_count, to_f32 ? &d->to : node->attrs,
                                    &node->from, outputs, node->output_count, d->diag);
    for (uint32_t o = 0; o < node->output_count && status == HYP_OK; o++)
        (stays_wide(node, o) ? d->original : d->narrow)[node->outputs[o]] = outputs[o];
    hyp_free(lists);
    return status;
}

static hyp_status add_outputs(demotion *d)
{
    for (size_t i = 0; i < d->in->outputs.len; i++) {
        const hyp_named_value *output = &d->in->outputs.data[i];
        hyp_value_id v;
        HYP_TRY(wide_value(d, output->value, &v));
        HYP_TRY(hyp_graph_add_output(d->out, output->name, v, d->diag));
    }
    return hyp_graph_keep_hidden(d->out, d->in, d->diag);
}

static hyp_status demote(demotion *d)
{
    HYP_TRY(add_edges(d));
    for (size_t n = 0; n < d->in->nodes.len; n++) HYP_TRY(copy_node(d, &d->in->nodes.data[n]));
    return add_outputs(d);
}

hyp_status hyp_graph_demote(const hyp_graph *in, hyp_dtype to, hyp_graph *out, hyp_diag *diag)
{
    size_t count = in->values.len;
    hyp_graph g;
    hyp_graph_init(&g, in->dims);
    hyp_value_id *maps = hyp_malloc(2 * count * sizeof *maps);
    if (!maps) return hyp_fail_memory(diag, 2 * count * sizeof *maps);
    memset(maps, 0xff, 2 * count * sizeof *maps); /* HYP_NO_VALUE */
    demotion d = {.in = in, .out = &g, .to = cast_attr(to), .original = maps, .narrow = maps + count, .diag = diag};
    hyp_status status = HYP_OK;
    if (in->name && !(g.name = hyp_arena_strdup(&g.arena, in->name))) status = hyp_fail_memory(diag, strlen(in->name));
    if (status == HYP_OK) status = demote(&d);
    hyp_free(maps);
    if (status == HYP_OK)
        *out = g;
    else
        hyp_graph_dispose(&g);
    return status;
}
