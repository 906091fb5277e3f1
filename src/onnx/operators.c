/* The operator table, and the report of what is not in it. */
#include <string.h>

#include "onnx/import.h"

enum {
    ANY = HYP_ONNX_ANY,
    LISTED_NODES = 3, /* of one unsupported operator */
    LISTED_OPERATORS = 100
};

#define SAME hyp_onnx_import_same
#define FOLD hyp_onnx_import_fold

/* name, first opset, inputs at least and at most, outputs at most, attributes, import function, IR operator.
 * Opset differences are handled in the functions, which read attributes and inputs alike. */
static const hyp_onnx_operator table[] = {
    {"Add", 7, 2, 2, 1, "", SAME, HYP_OP_add},
    {"Cast", 7, 1, 1, 1, "to saturate round_mode ", hyp_onnx_import_cast, HYP_OP_cast},
    {"Clip", 7, 1, 3, 1, "min max ", hyp_onnx_import_clip, HYP_OP_clip},
    {"Concat", 7, 1, ANY, 1, "axis ", hyp_onnx_import_concat, HYP_OP_concat},
    {"Constant", 7, 0, 0, 1, "value value_float value_floats value_int value_ints ", hyp_onnx_import_constant,
     HYP_OP_COUNT},
    {"CumSum", 11, 2, 2, 1, "exclusive reverse ", hyp_onnx_import_cumsum, HYP_OP_cumsum},
    {"Div", 7, 2, 2, 1, "", SAME, HYP_OP_div},
    {"Dropout", 7, 1, 3, 2, "ratio seed ", hyp_onnx_import_dropout, HYP_OP_dropout},
    {"Erf", 9, 1, 1, 1, "", SAME, HYP_OP_erf},
    {"Exp", 7, 1, 1, 1, "", SAME, HYP_OP_exp},
    {"Expand", 8, 2, 2, 1, "", hyp_onnx_import_expand, HYP_OP_expand},
    {"Flatten", 7, 1, 1, 1, "axis ", hyp_onnx_import_flatten, HYP_OP_flatten},
    {"Gather", 7, 2, 2, 1, "axis ", hyp_onnx_import_gather, HYP_OP_gather},
    {"Gelu", 20, 1, 1, 1, "approximate ", hyp_onnx_import_gelu, HYP_OP_gelu},
    {"Gemm", 7, 2, 3, 1, "alpha beta transA transB ", hyp_onnx_import_gemm, HYP_OP_gemm},
    {"Identity", 7, 1, 1, 1, "", SAME, HYP_OP_identity},
    {"LeakyRelu", 7, 1, 1, 1, "alpha ", hyp_onnx_import_leaky_relu, HYP_OP_leaky_relu},
    {"MatMul", 7, 2, 2, 1, "", SAME, HYP_OP_matmul},
    {"Max", 7, 1, ANY, 1, "", FOLD, HYP_OP_max},
    {"Min", 7, 1, ANY, 1, "", FOLD, HYP_OP_min},
    {"Mul", 7, 2, 2, 1, "", SAME, HYP_OP_mul},
    {"Pow", 7, 2, 2, 1, "", SAME, HYP_OP_pow},
    {"ReduceMean", 7, 1, 2, 1, "axes keepdims noop_with_empty_axes ", hyp_onnx_import_reduce, HYP_OP_reduce_mean},
    {"ReduceSum", 7, 1, 2, 1, "axes keepdims noop_with_empty_axes ", hyp_onnx_import_reduce, HYP_OP_reduce_sum},
    {"Relu", 7, 1, 1, 1, "", SAME, HYP_OP_relu},
    {"Reshape", 7, 2, 2, 1, "allowzero ", hyp_onnx_import_reshape, HYP_OP_reshape},
    {"Shape", 7, 1, 1, 1, "start end ", hyp_onnx_import_shape, HYP_OP_shape},
    {"Sigmoid", 7, 1, 1, 1, "", SAME, HYP_OP_sigmoid},
    {"Slice", 7, 1, 5, 1, "axes ends starts ", hyp_onnx_import_slice, HYP_OP_slice},
    {"Softmax", 7, 1, 1, 1, "axis ", hyp_onnx_import_softmax, HYP_OP_softmax},
    {"Split", 7, 1, 2, ANY, "axis num_outputs split ", hyp_onnx_import_split, HYP_OP_split},
    {"Sqrt", 7, 1, 1, 1, "", SAME, HYP_OP_sqrt},
    {"Squeeze", 7, 1, 2, 1, "axes ", hyp_onnx_import_squeeze, HYP_OP_squeeze},
    {"Sub", 7, 2, 2, 1, "", SAME, HYP_OP_sub},
    {"Sum", 7, 1, ANY, 1, "", FOLD, HYP_OP_add},
    {"Tanh", 7, 1, 1, 1, "", SAME, HYP_OP_tanh},
    {"Transpose", 7, 1, 1, 1, "perm ", hyp_onnx_import_transpose, HYP_OP_transpose},
    {"Unsqueeze", 7, 1, 2, 1, "axes ", hyp_onnx_import_unsqueeze, HYP_OP_unsqueeze},
};

static const char *text_of(const char *text) { return text ? text : ""; }

static bool is_onnx_domain(const char *domain) { return !*domain || strcmp(domain, "ai.onnx") == 0; }

static const hyp_onnx_operator *find_row(const char *domain, const char *op_type)
{
    if (!is_onnx_domain(domain)) return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, op_type) == 0) return &table[i];
    return NULL;
}

const hyp_onnx_operator *hyp_onnx_operator_find(const hyp_importer *im, const HypOnnx__NodeProto *node)
{
    const hyp_onnx_operator *row = find_row(text_of(node->domain), text_of(node->op_type));
    return row && row->since <= im->opset ? row : NULL;
}

/* An unsupported operator and the first nodes that have it. */
typedef struct missing {
    const HypOnnx__NodeProto *first;
    size_t count;
    const char *nodes[LISTED_NODES];
} missing;

typedef struct missing_list {
    missing items[LISTED_OPERATORS]; /* in order of first sight */
    size_t len, nodes, unlisted;     /* operators listed, nodes of any, nodes of operators beyond the list */
} missing_list;

static void note_missing(hyp_importer *im, missing_list *list, const HypOnnx__NodeProto *node)
{
    missing *m = NULL;
    for (size_t i = 0; i < list->len && !m; i++) {
        const HypOnnx__NodeProto *other = list->items[i].first;
        if (strcmp(text_of(other->op_type), text_of(node->op_type)) == 0 &&
            strcmp(text_of(other->domain), text_of(node->domain)) == 0)
            m = &list->items[i];
    }
    list->nodes++;
    if (!m && list->len == LISTED_OPERATORS) {
        list->unlisted++;
        return;
    }
    if (!m) {
        m = &list->items[list->len++];
        *m = (missing){.first = node};
    }
    if (m->count < LISTED_NODES) m->nodes[m->count] = hyp_onnx_node_name(im, node);
    m->count++;
}

static void print_missing(const hyp_importer *im, hyp_strbuf *sb, const missing *m)
{
    const char *domain = text_of(m->first->domain), *name = text_of(m->first->op_type);
    const hyp_onnx_operator *row = find_row(domain, name);
    if (!is_onnx_domain(domain)) hyp_strbuf_printf(sb, "%s::", domain);
    hyp_strbuf_printf(sb, "%s x%zu (", name, m->count);
    if (row)
        hyp_strbuf_printf(sb, "from opset %lld on, the model has %lld; ", (long long)row->since, (long long)im->opset);
    for (size_t i = 0; i < im->model->n_functions; i++)
        if (strcmp(text_of(im->model->functions[i]->name), name) == 0 &&
            strcmp(text_of(im->model->functions[i]->domain), domain) == 0) {
            hyp_strbuf_puts(sb, "a function of the model: inline it; ");
            break;
        }
    for (size_t i = 0; i < m->count && i < LISTED_NODES; i++)
        hyp_strbuf_printf(sb, "%s%s", i ? ", " : "", text_of(m->nodes[i]));
    hyp_strbuf_puts(sb, m->count > LISTED_NODES ? ", ...)" : ")");
}

hyp_status hyp_onnx_check_operators(hyp_importer *im)
{
    for (size_t i = 0; i < im->model->n_functions; i++) {
        const HypOnnx__FunctionProto *f = im->model->functions[i];
        if (find_row(text_of(f->domain), text_of(f->name)))
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED,
                            "%s: has a function of its own in place of the operator %s; inline the model's functions",
                            im->file, f->name);
    }
    missing_list list = {0};
    for (size_t i = 0; i < im->graph->n_node; i++)
        if (!hyp_onnx_operator_find(im, im->graph->node[i])) note_missing(im, &list, im->graph->node[i]);
    if (!list.nodes) return HYP_OK;

    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "%zu operator%s not supported (%zu node%s): ", list.len, list.len == 1 ? " is" : "s are",
                      list.nodes, list.nodes == 1 ? "" : "s");
    for (size_t i = 0; i < list.len; i++) {
        if (i) hyp_strbuf_puts(&sb, "; ");
        print_missing(im, &sb, &list.items[i]);
    }
    if (list.unlisted) hyp_strbuf_printf(&sb, "; more operators with %zu nodes", list.unlisted);
    hyp_status status = hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "%s: %s", im->file, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}
