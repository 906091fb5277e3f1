/* Initializers: constants of the graph, which of them may be replaced, and what they become in a run. */
#include <fnmatch.h>
#include <string.h>

#include "onnx/import.h"
#include "onnx/tensor.h"

/* Whether a node takes an input as weights or a bias: of a product, a convolution or a normalization, or as what is
 * added to a product. */
static bool takes_weights(const hyp_importer *im, const HypOnnx__NodeProto *node, size_t input)
{
    static const char *const names[] = {"Gemm", "MatMul", "Conv", "ConvTranspose", "LayerNormalization",
                                        "RMSNormalization", "BatchNormalization", "InstanceNormalization",
                                        "GroupNormalization"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(node->op_type, names[i]) == 0) return true;
    if (strcmp(node->op_type, "Add") != 0 || node->n_input != 2) return false;
    const hyp_symbol *other = hyp_onnx_find(&im->scope, node->input[1 - input]);
    return other && other->kind == HYP_SYMBOL_NODE &&
           strcmp(im->scope.graph->node[other->index]->op_type, "MatMul") == 0;
}

/* Numbers of one element, and what is no float, are a matter of the model's form: of its shapes, and of what is
 * recognized. Not so the bias of a layer with one result: by initializer, whether it is such weights. */
static hyp_status find_single_weights(hyp_importer *im, bool **out)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    bool *found = hyp_arena_zalloc(&im->arena, graph->n_initializer + 1, sizeof *found);
    if (!found) return hyp_fail_memory(im->diag, graph->n_initializer);
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_input; k++) {
            const hyp_symbol *s = hyp_onnx_find(&im->scope, graph->node[i]->input[k]);
            if (s && s->kind == HYP_SYMBOL_INITIALIZER && takes_weights(im, graph->node[i], k)) found[s->index] = true;
        }
    *out = found;
    return HYP_OK;
}

static bool may_change(const hyp_value *v, bool is_weight)
{
    size_t size = hyp_dtype_size(v->type.dtype);
    if (v->kind != HYP_VALUE_CONST || !hyp_dtype_is_float(v->type.dtype)) return false;
    return v->bytes > size || (v->bytes == size && v->type.rank > 0 && is_weight);
}

hyp_status hyp_onnx_mark_updatable(hyp_importer *im)
{
    const HypOnnx__GraphProto *graph = im->scope.graph;
    bool *weights = NULL;
    if (im->options->updatable_count) HYP_TRY(find_single_weights(im, &weights));
    for (size_t p = 0; p < im->options->updatable_count; p++) {
        const char *pattern = im->options->updatable[p];
        bool any = false;
        for (size_t i = 0; i < graph->n_initializer; i++) {
            const char *name = graph->initializer[i]->name;
            hyp_value *v = &im->g->values.data[hyp_onnx_symbol(im, name)->value];
            if (may_change(v, weights[i]) && fnmatch(pattern, name, 0) == 0) v->updatable = any = true;
        }
        if (!any)
            return hyp_fail(
                im->diag, HYP_ERR_INVALID_ARGUMENT,
                "%s: no initializer of floats, of more than one element or a layer's, is called like \"%s\", which "
                "was to be updatable",
                im->file, pattern);
    }
    return HYP_OK;
}

hyp_status hyp_onnx_add_initializers(hyp_importer *im)
{
    for (size_t i = 0; i < im->scope.graph->n_initializer; i++) {
        const HypOnnx__TensorProto *proto = im->scope.graph->initializer[i];
        hyp_tensor t;
        hyp_status status = hyp_onnx_tensor_read(im->source, proto, &t, im->diag);
        if (status == HYP_OK)
            status = hyp_onnx_add_const(im, proto->name, &t, &hyp_onnx_symbol(im, proto->name)->value);
        if (status != HYP_OK) {
            hyp_diag_prefix(im->diag, "%s: initializer", im->file);
            return status;
        }
    }
    return HYP_OK;
}

hyp_status hyp_onnx_becomes(const hyp_onnx_node *n, hyp_value_id before, hyp_value_id after)
{
    const hyp_value *v = &n->im->g->values.data[before];
    if (!n->im->options->states || v->kind != HYP_VALUE_CONST || !v->name) return HYP_OK;
    const char *name = hyp_arena_printf(&n->im->arena, "new:%s", v->name);
    if (!name) return hyp_fail_memory(n->im->diag, strlen(v->name));
    for (size_t i = 0; i < n->im->states.len; i++)
        if (strcmp(n->im->states.data[i].name, name) == 0)
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                            "another node keeps its statistics in '%s', too; give each initializers of its own", v->name);
    return hyp_vec_push(&n->im->states, n->im->diag, (hyp_named_value){name, after});
}

hyp_status hyp_onnx_add_states(hyp_importer *im)
{
    for (size_t i = 0; i < im->states.len; i++)
        HYP_TRY(hyp_graph_add_output(im->g, im->states.data[i].name, im->states.data[i].value, im->diag));
    return HYP_OK;
}
