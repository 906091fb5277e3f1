/* Inputs that must be known at import, computed from constants. */
#include <string.h>

#include "ir/constants.h"
#include "onnx/import.h"

/* Shapes, axes, scales and the like: a model that needs more for them is not meant to be compiled. */
static const hyp_fold_budget limits = {.bytes = (uint64_t)16 << 20, .flops = (uint64_t)1 << 30};
/* All together from where loops are written out, whose bodies may ask for some in every trip. */
static const uint64_t most_computed = (uint64_t)1 << 31;

/* Whether data decide a value. What was found of others is kept: a loop that is written out asks in every trip. */
static hyp_status is_from_data(hyp_importer *im, hyp_value_id v, bool *out)
{
    for (size_t i = im->from_data.len; i <= v; i++) {
        const hyp_value *value = &im->g->values.data[i];
        const hyp_node *node = value->kind == HYP_VALUE_NODE ? &im->g->nodes.data[value->producer] : NULL;
        bool data = value->kind == HYP_VALUE_INPUT;
        for (uint32_t k = 0; node && k < node->input_count; k++)
            data = data || (node->inputs[k] != HYP_NO_VALUE && im->from_data.data[node->inputs[k]]);
        HYP_TRY(hyp_vec_push(&im->from_data, im->diag, data && !hyp_value_is_listed(value)));
    }
    *out = im->from_data.data[v];
    return HYP_OK;
}

static hyp_status compute(hyp_importer *im, hyp_value_id v, hyp_eval_tensor *out)
{
    const hyp_value *value = &im->g->values.data[v];
    hyp_constants *c;
    void *bytes = NULL;
    bool from_data;
    HYP_TRY(is_from_data(im, v, &from_data));
    if (from_data) return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "it is computed from the data of the model's inputs");
    HYP_TRY(hyp_constants_create(im->g, NULL, NULL, &c, im->diag));
    hyp_fold_budget budget = limits;
    if (budget.flops > most_computed - im->computed) budget.flops = most_computed - im->computed;
    hyp_status status = hyp_constants_want(c, v, &budget, im->diag);
    if (status == HYP_ERR_LIMIT && budget.flops < limits.flops)
        status = hyp_fail(im->diag, HYP_ERR_LIMIT,
                          "what trips of loops need to be written out takes more than %llu multiplications together",
                          (unsigned long long)most_computed);
    if (im->unrolled) im->computed += hyp_constants_work(c);
    if (status == HYP_OK) status = hyp_constants_take(c, v, &bytes, im->diag);
    if (status == HYP_OK) {
        hyp_tensor from = {.data = bytes, .dtype = value->type.dtype, .rank = value->type.rank};
        memcpy(from.dims, value->type.dims, sizeof from.dims); /* static, so the dims are their values */
        if (!hyp_type_bytes(&value->type, &from.bytes)) from.bytes = 0;
        status = hyp_eval_tensor_load(out, &from, im->diag);
    }
    hyp_free(bytes);
    hyp_constants_destroy(c);
    return status;
}

/* What the import has read decides the form of the graph: nothing may take its place. */
static hyp_status settle(hyp_importer *im, hyp_value_id v, const char *what)
{
    hyp_graph *g = im->g;
    if (!im->options->updatable_count) return HYP_OK;
    bool *read = hyp_calloc(g->values.len, sizeof *read);
    if (!read) return hyp_fail_memory(im->diag, g->values.len);
    read[v] = true;
    for (size_t n = g->nodes.len; n-- > 0;) {
        const hyp_node *node = &g->nodes.data[n];
        bool is_read = false;
        for (uint32_t o = 0; o < node->output_count; o++) is_read = is_read || read[node->outputs[o]];
        for (uint32_t i = 0; is_read && i < node->input_count; i++)
            if (node->inputs[i] != HYP_NO_VALUE) read[node->inputs[i]] = true;
    }
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < g->values.len && status == HYP_OK; i++) {
        if (!read[i] || !g->values.data[i].updatable) continue;
        g->values.data[i].updatable = false;
        status = hyp_onnx_warn(im, "\"%s\" (%s) is needed to compile the model, so it will not be updatable",
                               g->values.data[i].name, what);
    }
    hyp_free(read);
    return status;
}

hyp_status hyp_onnx_constant(const hyp_onnx_node *n, uint32_t i, const char *what, hyp_eval_tensor *out)
{
    *out = (hyp_eval_tensor){0};
    hyp_status status = compute(n->im, n->inputs[i], out);
    if (status == HYP_OK) status = settle(n->im, n->inputs[i], what);
    if (status != HYP_OK) hyp_diag_prefix(n->im->diag, "input %u (%s) must be constant", i, what);
    return status;
}
