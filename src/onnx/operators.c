/* Finding operators in the families' tables, and the report of what is in none. */
#include <string.h>

#include "onnx/import.h"

enum {
    LISTED_NODES = 3, /* of one unsupported operator */
    LISTED_OPERATORS = 100
};

static const hyp_onnx_family *const families[] = {
    &hyp_onnx_elementwise, &hyp_onnx_math,      &hyp_onnx_branches,  &hyp_onnx_loops,     &hyp_onnx_scans,    &hyp_onnx_loss,
    &hyp_onnx_shape,       &hyp_onnx_index,     &hyp_onnx_scatter,   &hyp_onnx_select,    &hyp_onnx_generate,
    &hyp_onnx_pad,         &hyp_onnx_resize,    &hyp_onnx_norm,      &hyp_onnx_reduce,    &hyp_onnx_quant,
    &hyp_onnx_einsum,      &hyp_onnx_window,    &hyp_onnx_attention, &hyp_onnx_recurrent, &hyp_onnx_sequences,
};

static const char *text_of(const char *text) { return text ? text : ""; }

static bool is_onnx_domain(const char *domain) { return !*domain || strcmp(domain, "ai.onnx") == 0; }

/* "Gemm" or "com.microsoft::FusedGemm", as rows are named. */
static bool is_called(const hyp_onnx_operator *row, const char *domain, const char *op_type)
{
    size_t len = is_onnx_domain(domain) ? 0 : strlen(domain);
    if (len == 0) return *op_type && strcmp(row->name, op_type) == 0; /* some rows have no name */
    return strncmp(row->name, domain, len) == 0 && strncmp(row->name + len, "::", 2) == 0 &&
           strcmp(row->name + len + 2, op_type) == 0;
}

static const hyp_onnx_operator *find_row(const char *domain, const char *op_type)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t i = 0; i < families[f]->count; i++)
            if (is_called(&families[f]->rows[i], domain, op_type)) return &families[f]->rows[i];
    return NULL;
}

const hyp_onnx_operator *hyp_onnx_operator_find(const hyp_importer *im, const HypOnnx__NodeProto *node)
{
    const hyp_onnx_operator *row = find_row(text_of(node->domain), text_of(node->op_type));
    int64_t opset = node->has_opset ? node->opset : im->model_opset;
    if (opset < HYP_ONNX_OPSET_TABLE) opset = HYP_ONNX_OPSET_TABLE;
    if (row && row->since <= opset) return row;
    const char *domain = is_onnx_domain(text_of(node->domain)) ? "ai.onnx" : node->domain;
    for (size_t i = 0; i < im->options->custom_domain_count; i++)
        if (strcmp(im->options->custom_domains[i], domain) == 0) return &hyp_onnx_custom;
    return NULL;
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
        hyp_strbuf_printf(sb, "from opset %lld on, the model has %lld; ", (long long)row->since,
                          (long long)(m->first->has_opset ? m->first->opset : im->model_opset));
    for (size_t i = 0; i < m->count && i < LISTED_NODES; i++)
        hyp_strbuf_printf(sb, "%s%s", i ? ", " : "", text_of(m->nodes[i]));
    hyp_strbuf_puts(sb, m->count > LISTED_NODES ? ", ...)" : ")");
}

hyp_status hyp_onnx_check_operators(hyp_importer *im)
{
    missing_list list = {0};
    for (size_t i = 0; i < im->scope.graph->n_node; i++)
        if (!hyp_onnx_operator_find(im, im->scope.graph->node[i])) note_missing(im, &list, im->scope.graph->node[i]);
    if (!list.nodes) return HYP_OK;

    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "%zu operator%s not supported (%zu node%s): ", list.len, list.len == 1 ? " is" : "s are",
                      list.nodes, list.nodes == 1 ? "" : "s");
    for (size_t i = 0; i < list.len; i++) {
        if (i) hyp_strbuf_puts(&sb, "; ");
        print_missing(im, &sb, &list.items[i]);
    }
    if (list.unlisted) hyp_strbuf_printf(&sb, "; more operators with %zu nodes", list.unlisted);
    for (size_t i = 0; i < list.len; i++) {
        const char *domain = text_of(list.items[i].first->domain);
        if (is_onnx_domain(domain)) continue;
        hyp_strbuf_printf(&sb, "; with --custom-domain %s they are called from kernels of your own", domain);
        break;
    }
    hyp_status status = hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "%s: %s", im->file, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}
