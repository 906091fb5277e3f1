/* From a message to a graph: names, initializers, nodes in order, outputs. */
#include <stdio.h>
#include <string.h>

#include "onnx/import.h"

enum {
    MAX_INTERFACE = 16384, /* inputs, and outputs: the graph looks for equal names one by one */
    MOST_UNROLLED = 65536  /* nodes, of all loops together: what rewriting and a plan have time for */
};

static const char *text_of(const char *text) { return text ? text : ""; }

/* Which nodes of a graph are meant. */
typedef bool node_filter(const HypOnnx__NodeProto *node);

static bool is_any(const HypOnnx__NodeProto *node) { return (void)node, true; }

/* Whether the node, like an initializer, is the same whenever the graph that it is in is added. */
static bool is_constant(const HypOnnx__NodeProto *node)
{
    return !node->n_input && strcmp(text_of(node->op_type), "Constant") == 0 && !*text_of(node->domain);
}

static bool is_no_constant(const HypOnnx__NodeProto *node) { return !is_constant(node); }

/* ---- names -------------------------------------------------------------------------------------- */

static const char *kind_name(hyp_symbol_kind kind)
{
    static const char *const names[] = {"nothing", "an input", "an initializer", "the output of a node"};
    return names[kind];
}

static hyp_status add_name(hyp_importer *im, const char *name, hyp_symbol_kind kind, size_t index)
{
    uint32_t id;
    if (!*text_of(name)) return hyp_fail(im->diag, HYP_ERR_MALFORMED, "%s: %s has no name", im->file, kind_name(kind));
    HYP_TRY(hyp_intern_add(&im->scope.names, name, strlen(name), &id, im->diag));
    if (id < im->scope.symbols.len) {
        hyp_symbol *s = &im->scope.symbols.data[id];
        /* An initializer that is also an input is the default of an input that need not be given: a constant. */
        if (s->kind == HYP_SYMBOL_INITIALIZER && kind == HYP_SYMBOL_INPUT) return HYP_OK;
        return hyp_fail(im->diag, HYP_ERR_MALFORMED, "%s: the name \"%s\" is given twice: to %s and to %s", im->file,
                        name, kind_name(s->kind), s->kind == kind ? "another" : kind_name(kind));
    }
    return hyp_vec_push(&im->scope.symbols, im->diag, (hyp_symbol){kind, (uint32_t)index, HYP_NO_VALUE, false});
}

static hyp_status check_interface(const hyp_importer *im)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    if (graph->n_input > MAX_INTERFACE || graph->n_output > MAX_INTERFACE)
        return hyp_fail(im->diag, HYP_ERR_LIMIT, "%s: has %zu inputs and %zu outputs; at most %d of each are supported",
                        im->file, graph->n_input, graph->n_output, MAX_INTERFACE);
    if (!graph->n_output) return hyp_fail(im->diag, HYP_ERR_MALFORMED, "%s: the graph has no outputs", im->file);
    return HYP_OK;
}

static hyp_status add_initializer_names(hyp_importer *im)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    for (size_t i = 0; i < graph->n_initializer; i++)
        HYP_TRY(add_name(im, graph->initializer[i]->name, HYP_SYMBOL_INITIALIZER, i));
    return HYP_OK;
}

static hyp_status add_input_names(hyp_importer *im)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    for (size_t i = 0; i < graph->n_input; i++) HYP_TRY(add_name(im, graph->input[i]->name, HYP_SYMBOL_INPUT, i));
    return HYP_OK;
}

static hyp_status add_node_names(hyp_importer *im, node_filter *filter)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; filter(graph->node[i]) && k < graph->node[i]->n_output; k++)
            if (*graph->node[i]->output[k]) HYP_TRY(add_name(im, graph->node[i]->output[k], HYP_SYMBOL_NODE, i));
    return HYP_OK;
}

/* The value of a name that something reads; its caller says what in front of messages. */
static hyp_status find_value(hyp_importer *im, const char *name, hyp_value_id *out)
{
    const hyp_onnx_scope *scope = &im->scope;
    const hyp_symbol *s = hyp_onnx_find(scope, name);
    while (!s && scope->outer) {
        scope = scope->outer;
        s = hyp_onnx_find(scope, name);
    }
    if (!s) {
        size_t count = im->scope.names.names.len;
        const char **names = hyp_arena_zalloc(&im->arena, count + 1, sizeof *names);
        for (size_t i = 0; names && i < count; i++) names[i] = im->scope.names.names.data[i];
        const char *near = names ? hyp_nearest(name, names) : NULL;
        return hyp_fail(im->diag, HYP_ERR_MALFORMED,
                        "reads \"%s\", which is no input, initializer or output of a node%s%s%s", name,
                        near ? "; the nearest name is \"" : "", near ? near : "", near ? "\"" : "");
    }
    if (s->value == HYP_NO_VALUE)
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "reads \"%s\", an output of node \"%s\" that is not supported",
                        name, text_of(hyp_onnx_node_name(im, scope->graph->node[s->index])));
    *out = s->value;
    return HYP_OK;
}

/* What the IR calls an invalid argument came from the file. */
static hyp_status malformed(hyp_importer *im, hyp_status status)
{
    if (status != HYP_ERR_INVALID_ARGUMENT) return status;
    if (im->diag) im->diag->status = HYP_ERR_MALFORMED;
    return HYP_ERR_MALFORMED;
}

/* ---- parts of the graph ------------------------------------------------------------------------- */

/* Until opset 6 the second operand lay along the axes of the first from `axis` on: axes of size 1 behind it say so now.
 * A slope of PRelu lay along the channels. */
static hyp_status align_operand(hyp_onnx_node *n, hyp_value_id *inputs)
{
    int64_t axis = -1;
    bool slope = n->im->opset < 7 && strcmp(n->op->name, "PRelu") == 0;
    if (!slope && !hyp_onnx_aligns_operands(n)) return HYP_OK;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", slope ? 1 : -1, &axis));
    hyp_type a = hyp_onnx_value_type(n, inputs[0]), b = hyp_onnx_value_type(n, inputs[1]);
    if (axis < 0 || axis + b.rank >= a.rank || b.rank == 0) return HYP_OK;
    for (int32_t i = b.rank; i < a.rank - axis; i++) b.dims[i] = 1;
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, inputs[1], b.dims, a.rank - (int32_t)axis, &inputs[1]);
}

static hyp_status wrong_inputs(const hyp_onnx_node *n, size_t count)
{
    char most[16] = " or more";
    if (n->op->max_inputs == n->op->min_inputs)
        most[0] = 0;
    else if (n->op->max_inputs < HYP_ONNX_ANY_ABSENT)
        snprintf(most, sizeof most, " to %u", n->op->max_inputs);
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has %zu inputs, the operator takes %u%s", count, n->op->min_inputs,
                    most);
}

/* Inputs and outputs by name around the import function of the operator. */
static hyp_status import_node(hyp_onnx_node *n)
{
    hyp_importer *im = n->im;
    const HypOnnx__NodeProto *proto = n->proto;
    size_t count = proto->n_input, outputs = proto->n_output;
    while (count > 0 && !*proto->input[count - 1]) count--;
    while (outputs > 0 && outputs > n->op->max_outputs && !*proto->output[outputs - 1]) outputs--;
    if (count < n->op->min_inputs || count > n->op->max_inputs) return wrong_inputs(n, count);
    if (outputs < 1 || outputs > n->op->max_outputs)
        return hyp_fail(im->diag, HYP_ERR_MALFORMED, "has %zu outputs, which the operator does not have", outputs);
    HYP_TRY(hyp_onnx_check_attributes(n));
    hyp_value_id *inputs = hyp_arena_zalloc(&im->arena, count, sizeof *inputs);
    n->outputs = hyp_arena_zalloc(&im->arena, outputs, sizeof *n->outputs);
    if (!inputs || !n->outputs) return hyp_fail_memory(im->diag, (count + outputs) * sizeof *inputs);
    for (size_t i = 0; i < count; i++) {
        inputs[i] = HYP_NO_VALUE;
        if (*proto->input[i])
            HYP_TRY(find_value(im, proto->input[i], &inputs[i]));
        if (hyp_onnx_is_sequence(inputs[i]) && n->op->op != HYP_ONNX_SEQUENCES)
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "input %zu is a sequence; a tensor is wanted", i);
        if (*proto->input[i]) continue;
        if (i < n->op->min_inputs || n->op->max_inputs == HYP_ONNX_ANY)
            return hyp_fail(im->diag, HYP_ERR_MALFORMED, "input %zu is missing", i);
    }
    for (size_t i = 0; i < outputs; i++) n->outputs[i] = HYP_NO_VALUE;
    n->inputs = inputs;
    n->input_count = (uint32_t)count;
    n->output_count = (uint32_t)outputs;
    HYP_TRY(align_operand(n, inputs));
    HYP_TRY(n->op->import(n));
    for (size_t i = 0; i < outputs; i++)
        if (*proto->output[i]) hyp_onnx_symbol(im, proto->output[i])->value = n->outputs[i];
    return HYP_OK;
}

/* ---- nodes that are not supported: all are named, so import goes on behind them ------------------- */

static bool is_lacking(const hyp_importer *im, const char *name)
{
    const hyp_symbol *s = *text_of(name) ? hyp_onnx_symbol(im, name) : NULL;
    return s && s->lacking;
}

static bool reads_lacking(const hyp_importer *im, const HypOnnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_input; i++)
        if (is_lacking(im, node->input[i])) return true;
    for (size_t i = 0; i < node->n_outer; i++)
        if (is_lacking(im, node->outer[i])) return true;
    return false;
}

static void set_lacking(const hyp_importer *im, const HypOnnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_output; i++)
        if (*node->output[i]) hyp_onnx_symbol(im, node->output[i])->lacking = true;
}

static hyp_status add_nodes(hyp_importer *im, node_filter *filter)
{
    size_t nodes = im->scope.graph->n_node;
    uint32_t *order = hyp_arena_zalloc(&im->arena, nodes, sizeof *order);
    if (!order) return hyp_fail_memory(im->diag, nodes * sizeof *order);
    HYP_TRY(hyp_onnx_order_nodes(im, order));
    for (size_t i = 0; i < nodes; i++) {
        hyp_onnx_node n = {.im = im, .proto = im->scope.graph->node[order[i]]};
        if (!filter(n.proto)) continue;
        n.op = hyp_onnx_operator_find(im, n.proto);
        im->opset = n.proto->has_opset ? n.proto->opset : im->model_opset;
        n.name = hyp_onnx_node_name(im, n.proto);
        if (!n.name) return hyp_fail_memory(im->diag, 1);
        if (!n.op || reads_lacking(im, n.proto)) {
            set_lacking(im, n.proto);
            continue;
        }
        hyp_dims_note_unequal(im->g->dims, 0, 0);
        hyp_status status = import_node(&n);
        if (status == HYP_OK) continue;
        if (status == HYP_ERR_INVALID_ARGUMENT || status == HYP_ERR_UNSUPPORTED)
            HYP_TRY(hyp_onnx_take_equal(im, n.name, &im->again));
        hyp_diag_prefix(im->diag, "node \"%s\" (%s)", n.name, n.op->name);
        if (im->scope.outer) return malformed(im, status); /* the node that has the branch fails */
        if (status == HYP_ERR_UNSUPPORTED && !im->again) {
            HYP_TRY(hyp_onnx_note_unsupported(im));
            set_lacking(im, n.proto);
            continue;
        }
        if (im->unsupported_count && !im->again) break;
        hyp_diag_prefix(im->diag, "%s", im->file);
        return malformed(im, status);
    }
    return HYP_OK;
}

static hyp_status add_output(hyp_importer *im, const HypOnnx__ValueInfoProto *info)
{
    hyp_value_id value;
    HYP_TRY(find_value(im, info->name, &value));
    if (hyp_onnx_is_sequence(value))
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "is a sequence; only tensors are supported");
    HYP_TRY(hyp_onnx_check_output(im, info, value));
    return hyp_graph_add_output(im->g, info->name, value, im->diag);
}

static hyp_status add_outputs(hyp_importer *im)
{
    for (size_t i = 0; i < im->scope.graph->n_output; i++) {
        const HypOnnx__ValueInfoProto *info = im->scope.graph->output[i];
        hyp_status status =
            *text_of(info->name) ? add_output(im, info) : hyp_fail(im->diag, HYP_ERR_MALFORMED, "has no name");
        if (status == HYP_OK) continue;
        hyp_diag_prefix(im->diag, "%s: output \"%s\"", im->file, text_of(info->name));
        return malformed(im, status);
    }
    return HYP_OK;
}

static hyp_status check_opset(hyp_importer *im)
{
    for (size_t i = 0; i < im->model->n_opset_import; i++) {
        const HypOnnx__OperatorSetIdProto *set = im->model->opset_import[i];
        if (!*text_of(set->domain) || strcmp(set->domain, "ai.onnx") == 0) im->model_opset = set->version;
    }
    /* A model of other domains alone: their operators are named as unsupported. */
    if (!im->model_opset && im->model->n_opset_import) im->model_opset = HYP_ONNX_OPSET_MAX;
    if (!im->model_opset)
        return hyp_fail(im->diag, HYP_ERR_MALFORMED, "%s: does not say which version of the ONNX operators it uses",
                        im->file);
    if (im->model_opset < HYP_ONNX_OPSET_MIN || im->model_opset > HYP_ONNX_OPSET_MAX)
        return hyp_fail(
            im->diag, HYP_ERR_UNSUPPORTED,
            "%s: uses version %lld of the ONNX operators; %d to %d are supported, so convert or export it again",
            im->file, (long long)im->model_opset, HYP_ONNX_OPSET_MIN, HYP_ONNX_OPSET_MAX);
    return HYP_OK;
}

static hyp_status check_sparse(hyp_importer *im)
{
    if (!im->scope.graph->n_sparse_initializer) return HYP_OK;
    const HypOnnx__TensorProto *values = im->scope.graph->sparse_initializer[0]->values;
    return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "%s: initializer \"%s\" is sparse; only dense ones are supported",
                    im->file, values ? text_of(values->name) : "");
}

void hyp_onnx_drop_names(hyp_onnx_scope *scope)
{
    hyp_intern_dispose(&scope->names);
    hyp_vec_free(&scope->symbols);
    *scope = (hyp_onnx_scope){.graph = scope->graph};
}

/* Since version 4 of the format, an initializer that is also an input is the default of one that may be given. */
static hyp_status warn_of_defaults(hyp_importer *im)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    size_t count = 0;
    const char *first = NULL;
    for (size_t i = 0; i < graph->n_input && im->model->ir_version >= 4; i++) {
        const hyp_symbol *s = hyp_onnx_symbol(im, graph->input[i]->name);
        if (s->kind != HYP_SYMBOL_INITIALIZER) continue;
        if (count++ == 0) first = graph->input[i]->name;
    }
    if (!count) return HYP_OK;
    char more[32] = "";
    if (count > 1) snprintf(more, sizeof more, " and %zu more", count - 1);
    return hyp_onnx_warn(im,
                         "input \"%s\"%s has a default value in the model, which is a constant of the plan: no other "
                         "can be given when it runs; drop it from the model's initializers to keep it an input",
                         first, more);
}

/* Forgets what an attempt at the import has made, but for the sizes that it found equal. */
static void begin_attempt(hyp_importer *im)
{
    hyp_dims *dims = im->g->dims;
    hyp_graph_dispose(im->g);
    hyp_graph_init(im->g, dims);
    hyp_onnx_drop_names(&im->scope);
    im->equalities.len = im->data_sizes.len = im->states.len = im->warnings.len = im->unlisted_warnings = 0;
    hyp_strbuf_dispose(&im->unsupported);
    im->unsupported_count = 0;
    im->sequences.len = im->from_data.len = im->sequence_items = im->sequence_parts = im->unrolled = 0;
    im->unrolled_bytes = im->computed = 0;
    im->writing = im->running = im->bodies = 0;
    im->again = false;
    *im->diag = (hyp_diag){0};
}

static hyp_status build_graph(hyp_importer *im)
{
    hyp_status status = hyp_onnx_check_operators(im);
    if (status == HYP_ERR_UNSUPPORTED) status = hyp_onnx_note_unsupported(im);
    HYP_TRY(status);
    HYP_TRY(check_interface(im));
    HYP_TRY(add_initializer_names(im));
    HYP_TRY(add_input_names(im));
    HYP_TRY(add_node_names(im, is_any));
    HYP_TRY(warn_of_defaults(im));
    HYP_TRY(hyp_onnx_add_inputs(im));
    HYP_TRY(hyp_onnx_add_initializers(im));
    HYP_TRY(hyp_onnx_mark_updatable(im));
    HYP_TRY(add_nodes(im, is_any));
    if (im->unsupported_count) return hyp_onnx_fail_unsupported(im);
    HYP_TRY(add_outputs(im));
    HYP_TRY(hyp_onnx_add_states(im));
    return hyp_onnx_settle_data_sizes(im);
}

/* Sizes of inputs that a node needs to be equal are found on the way; the graph is built anew with them. */
hyp_status hyp_onnx_build(hyp_importer *im)
{
    HYP_TRY(check_opset(im));
    HYP_TRY(hyp_onnx_expand(im));
    HYP_TRY(check_sparse(im));
    hyp_status status = build_graph(im);
    while (status != HYP_OK && im->again) {
        begin_attempt(im);
        status = build_graph(im);
    }
    return status;
}

/* ---- graphs in attributes ------------------------------------------------------------------------- */

static hyp_status add_constants(hyp_importer *im)
{
    HYP_TRY(check_interface(im));
    HYP_TRY(hyp_onnx_check_operators(im));
    HYP_TRY(check_sparse(im));
    HYP_TRY(add_initializer_names(im));
    HYP_TRY(add_node_names(im, is_constant));
    HYP_TRY(hyp_onnx_add_initializers(im));
    return add_nodes(im, is_constant);
}

static hyp_status add_branch(hyp_importer *im, const hyp_value_id *inputs, hyp_value_id *outs)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    HYP_TRY(add_input_names(im));
    HYP_TRY(add_node_names(im, is_no_constant));
    for (size_t i = 0; i < graph->n_input; i++) hyp_onnx_symbol(im, graph->input[i]->name)->value = inputs[i];
    HYP_TRY(add_nodes(im, is_no_constant));
    for (size_t i = 0; i < graph->n_output; i++) HYP_TRY(find_value(im, text_of(graph->output[i]->name), &outs[i]));
    return HYP_OK;
}

hyp_status hyp_onnx_branch_open(const hyp_onnx_node *n, const HypOnnx__GraphProto *graph, hyp_onnx_branch *out)
{
    hyp_importer *im = n->im;
    *out = (hyp_onnx_branch){.around = im->scope, .opset = im->opset};
    out->constants = (hyp_onnx_scope){.graph = graph, .outer = &out->around};
    im->scope = out->constants;
    hyp_status status = add_constants(im);
    out->constants = im->scope;
    im->scope = out->around;
    im->opset = out->opset;
    return status;
}

hyp_status hyp_onnx_branch_add(const hyp_onnx_node *n, hyp_onnx_branch *branch, const hyp_value_id *inputs,
                               hyp_value_id *outs)
{
    hyp_importer *im = n->im;
    const HypOnnx__GraphProto *graph = branch->constants.graph;
    size_t nodes = graph->n_node + graph->n_output;
    /* What is in the model's graph itself, and is there once, is as large as the file. */
    bool counts = branch->adds++ || branch->around.outer;
    if (counts && nodes > MOST_UNROLLED - im->unrolled)
        return hyp_fail(im->diag, HYP_ERR_LIMIT,
                        "loops, which are written out, come to more than %d nodes; fewer trips are wanted: a smaller size "
                        "of what they go over (--dim), or a trip count where the data decide when one ends",
                        MOST_UNROLLED);
    if (counts) im->unrolled += (uint32_t)nodes;
    im->scope = (hyp_onnx_scope){.graph = graph, .outer = &branch->constants};
    hyp_status status = add_branch(im, inputs, outs);
    hyp_onnx_drop_names(&im->scope);
    im->scope = branch->around;
    im->opset = branch->opset;
    return status;
}

void hyp_onnx_branch_close(hyp_onnx_branch *branch) { hyp_onnx_drop_names(&branch->constants); }
