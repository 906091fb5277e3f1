/* Inputs that must be known at import, computed from constants by the reference interpreter. */
#include <string.h>

#include "onnx/import.h"

enum { MAX_DEPTH = 32, MAX_NODES = 1000 /* of one computation: values are not kept for a second use */ };

typedef struct computation {
    hyp_importer *im;
    uint32_t nodes;
} computation;

static hyp_status compute(computation *c, hyp_value_id v, int depth, hyp_eval_tensor *out);

static hyp_status unknown(const computation *c)
{
    return hyp_fail(c->im->diag, HYP_ERR_UNSUPPORTED, "it is computed from the data of the model's inputs");
}

static hyp_status compute_node(computation *c, const hyp_value *value, int depth, hyp_eval_tensor *out)
{
    const hyp_node *node = &c->im->g->nodes.data[value->producer];
    hyp_arena arena = {0};
    hyp_eval_tensor *in = hyp_arena_zalloc(&arena, node->input_count, sizeof *in);
    hyp_eval_tensor *outs = hyp_arena_zalloc(&arena, node->output_count, sizeof *outs);
    const hyp_eval_tensor **pointers = hyp_arena_zalloc(&arena, node->input_count, sizeof *pointers);
    hyp_status status = in && outs && pointers ? HYP_OK : hyp_fail_memory(c->im->diag, node->input_count * sizeof *in);
    for (uint32_t i = 0; status == HYP_OK && i < node->input_count; i++) {
        if (node->inputs[i] == HYP_NO_VALUE) continue;
        status = compute(c, node->inputs[i], depth + 1, &in[i]);
        pointers[i] = &in[i];
    }
    if (status == HYP_OK)
        status = hyp_op_eval(c->im->g->dims, node->op, node->attrs, HYP_EVAL_NATIVE, pointers, node->input_count, outs,
                             node->output_count, NULL, c->im->diag);
    for (uint32_t i = 0; in && i < node->input_count; i++) hyp_eval_tensor_dispose(&in[i]);
    for (uint32_t i = 0; status == HYP_OK && i < node->output_count; i++) {
        if (i == value->output)
            *out = outs[i];
        else
            hyp_eval_tensor_dispose(&outs[i]);
    }
    hyp_arena_dispose(&arena);
    return status;
}

/* A node whose sizes depend on the shapes of inputs has no value yet. */
static bool is_fixed(const hyp_node *node, uint32_t attr_count)
{
    for (uint32_t i = 0; i < attr_count; i++)
        for (uint32_t j = 0; node->attrs[i].kind == HYP_ATTR_DIMS && j < node->attrs[i].count; j++)
            if (!hyp_dim_is_const(node->attrs[i].dims[j])) return false;
    return true;
}

static hyp_status compute(computation *c, hyp_value_id v, int depth, hyp_eval_tensor *out)
{
    const hyp_value *value = &c->im->g->values.data[v];
    if (value->kind == HYP_VALUE_CONST) {
        hyp_tensor from = {.data = (void *)(uintptr_t)value->data,
                           .bytes = value->bytes,
                           .dtype = value->type.dtype,
                           .rank = value->type.rank};
        memcpy(from.dims, value->type.dims, sizeof from.dims);
        return hyp_eval_tensor_load(out, &from, c->im->diag);
    }
    bool listed = value->content != NULL;
    for (uint32_t i = 0; i < value->content_count; i++) listed = listed && hyp_dim_is_const(value->content[i]);
    if (listed) {
        HYP_TRY(hyp_eval_tensor_alloc(out, value->type.dtype, value->type.rank, value->type.dims, c->im->diag));
        memcpy(out->i, value->content, value->content_count * sizeof *out->i);
        return HYP_OK;
    }
    if (value->kind != HYP_VALUE_NODE || depth == MAX_DEPTH || ++c->nodes > MAX_NODES) return unknown(c);
    const hyp_node *node = &c->im->g->nodes.data[value->producer];
    if (!is_fixed(node, hyp_op_get(node->op)->attr_count)) return unknown(c);
    return compute_node(c, value, depth, out);
}

hyp_status hyp_onnx_constant(const hyp_onnx_node *n, uint32_t i, const char *what, hyp_eval_tensor *out)
{
    computation c = {.im = n->im};
    *out = (hyp_eval_tensor){0};
    hyp_status status = compute(&c, n->inputs[i], 0, out);
    if (status != HYP_OK) hyp_diag_prefix(n->im->diag, "input %u (%s) must be constant", i, what);
    return status;
}
