/* What is computed before a plan runs, and what that may cost. */
#include <string.h>

#include "ir/constants.h"
#include "ir/op.h"
#include "kernels/product.h"

/* ---- the cost of a node -------------------------------------------------------------------------------- */

/* Multiplications of the library in whose time the interpreter does one step. */
enum { STEP = 16, PLAIN_PRODUCT = 4 };

static uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    if (a == 0 || b == 0) return 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t size_of(hyp_dim d) { return hyp_dim_is_const(d) ? (uint64_t)d : UINT64_MAX; }

/* UINT64_MAX where they are not fixed. */
static uint64_t elements(const hyp_type *t)
{
    uint64_t count = 1;
    for (int32_t i = 0; t && i < t->rank; i++) count = times(count, size_of(t->dims[i]));
    return t ? count : 0;
}

static uint64_t size_of_axis(const hyp_type *t, int32_t axis)
{
    if (axis < 0) axis += t->rank;
    if (axis < 0 || axis >= t->rank) return 1;
    return size_of(t->dims[axis]);
}

/* The product of a list attribute's sizes. */
static uint64_t attr_product(hyp_op op, const hyp_attr *attrs, const char *name)
{
    uint32_t at;
    uint64_t product = 1;
    if (!hyp_op_find_attr(op, name, &at)) return 1;
    for (uint32_t i = 0; i < attrs[at].count; i++) product = times(product, size_of(attrs[at].dims[i]));
    return product;
}

/* Terms of a sum of a convolution with these weights. */
static uint64_t conv_depth(const hyp_type *w)
{
    uint64_t filters = size_of_axis(w, 0);
    return filters ? elements(w) / filters : 0;
}

/* Terms of a sum of the gradient by these weights, g being that by the result. */
static uint64_t gradient_depth(const hyp_type *g)
{
    uint64_t filters = size_of_axis(g, 1);
    return filters ? elements(g) / filters : 0;
}

/* Multiplications of matrices, as the library does them. */
static uint64_t product_flops(hyp_op op, const hyp_attr *attrs, const hyp_type *const *in, uint32_t input_count,
                              const hyp_type *out)
{
    switch (op) {
    case HYP_OP_matmul: return times(elements(out), size_of_axis(in[0], attrs[0].i && in[0]->rank > 1 ? -2 : -1));
    case HYP_OP_gemm: return times(elements(out), size_of_axis(in[0], attrs[0].i ? 0 : 1));
    case HYP_OP_linear:
    case HYP_OP_fused_linear:
    case HYP_OP_fused_linear_add:
    case HYP_OP_quantized_linear: return times(elements(out), size_of_axis(in[0], 1));
    case HYP_OP_conv: return times(elements(out), conv_depth(in[1]));
    case HYP_OP_conv_backward_weights: return times(elements(out), gradient_depth(in[1]));
    case HYP_OP_fused_mlp: {
        const hyp_type *x = in[input_count - 1];
        uint64_t sum = 0, rows = elements(x), k = size_of_axis(x, -1);
        for (uint32_t i = 0; i + 1 < input_count; i += 2) sum = add(sum, times(k ? rows / k : 0, elements(in[i])));
        return rows == UINT64_MAX ? UINT64_MAX : sum;
    }
    default: return 0;
    }
}

/* Steps of the interpreter for each element of the result. */
static uint64_t steps(hyp_op op, const hyp_attr *attrs, const hyp_type *const *in)
{
    enum { SORTED = 64, SAMPLED = 64 };
    switch (op) {
    case HYP_OP_conv: { /* what lies under a window is gathered once for all filters of a group, eight in a step */
        uint64_t group = attrs[3].i > 0 ? (uint64_t)attrs[3].i : 1, filters = size_of_axis(in[1], 0) / group;
        return filters ? add(1, conv_depth(in[1]) / filters / 8) : 1;
    }
    case HYP_OP_conv_backward_weights: { /* likewise */
        uint64_t group = attrs[3].i > 0 ? (uint64_t)attrs[3].i : 1, filters = size_of_axis(in[1], 1) / group;
        return filters ? add(1, gradient_depth(in[1]) / filters / 8) : 1;
    }
    case HYP_OP_conv_transpose: return elements(in[1]);
    case HYP_OP_max_pool:
    case HYP_OP_max_pool_places:
    case HYP_OP_max_pool_gradient:
    case HYP_OP_average_pool:
    case HYP_OP_lp_pool: return attr_product(op, attrs, "kernel");
    case HYP_OP_attention_gradient: { /* every row meets every key in five products */
        int32_t row = attrs[0].i ? -3 : -2;
        return times(5, add(size_of_axis(in[0], row), size_of_axis(in[2], row)));
    }
    case HYP_OP_attention: return times(2, times(size_of_axis(in[1], -2), size_of_axis(in[1], -1)));
    case HYP_OP_lstm:
    case HYP_OP_lstm_cells:
    case HYP_OP_gru:
    case HYP_OP_rnn: return size_of_axis(in[1], -1); /* every state makes all gates of the next one */
    case HYP_OP_lstm_gradient:
    case HYP_OP_gru_gradient:
    case HYP_OP_rnn_gradient: return size_of_axis(in[1], 0); /* every gate adds to the whole state before */
    case HYP_OP_resize:
    case HYP_OP_grid_sample:
    case HYP_OP_roi_align: return SAMPLED;
    case HYP_OP_grid_sample_gradient:
    case HYP_OP_roi_align_gradient: { /* so many for each sample, of which there may be more than of what they add to */
        uint64_t out = elements(in[0]), samples = elements(in[op == HYP_OP_roi_align_gradient ? 3 : 2]);
        return out ? times(SAMPLED, add(1, samples / out)) : 1;
    }
    case HYP_OP_topk: return SORTED;
    case HYP_OP_lrn: {
        uint32_t at;
        return hyp_op_find_attr(op, "size", &at) && attrs[at].i > 0 ? (uint64_t)attrs[at].i : 1;
    }
    default: return 1;
    }
}

hyp_work hyp_work_of(hyp_op op, const hyp_attr *attrs, const hyp_type *const *in, uint32_t input_count,
                     const hyp_type *const *out, uint32_t output_count)
{
    hyp_work work = {.products = product_flops(op, attrs, in, input_count, out[0])};
    uint64_t each = hyp_op_get(op)->flags & HYP_OPF_VIEW ? 1 : steps(op, attrs, in);
    for (uint32_t i = 0; i < output_count; i++) work.steps = add(work.steps, times(elements(out[i]), each));
    bool library = hyp_product_is_fast() && hyp_dtype_is_float(out[0]->dtype) && out[0]->dtype != HYP_F64;
    work.products = times(work.products, library ? 1 : PLAIN_PRODUCT);
    return work;
}

uint64_t hyp_fold_work(hyp_op op, const hyp_attr *attrs, const hyp_type *const *in, uint32_t input_count,
                       const hyp_type *const *out, uint32_t output_count)
{
    hyp_work work = hyp_work_of(op, attrs, in, input_count, out, output_count);
    for (uint32_t i = 0; i < input_count; i++) work.steps = add(work.steps, elements(in[i]));
    return add(times(work.steps, STEP), work.products);
}

/* ---- budgets --------------------------------------------------------------------------------------------- */

hyp_fold_budget hyp_fold_budget_of(const hyp_graph *g, uint64_t bytes, uint64_t flops)
{
    const uint64_t least_bytes = (uint64_t)16 << 20, least_flops = (uint64_t)1 << 34;
    uint64_t stored = 0;
    for (size_t v = 0; v < g->values.len; v++)
        if (g->values.data[v].kind == HYP_VALUE_CONST) stored = add(stored, g->values.data[v].bytes);
    uint64_t more_bytes = times(stored, 16), more_flops = times(stored, 64);
    return (hyp_fold_budget){.bytes = bytes                      ? bytes
                                      : more_bytes > least_bytes ? more_bytes
                                                                 : least_bytes,
                             .flops = flops                      ? flops
                                      : more_flops > least_flops ? more_flops
                                                                 : least_flops};
}

bool hyp_fold_is_fixed(hyp_op op, const hyp_attr *attrs, const hyp_type *const *out, uint32_t output_count)
{
    const hyp_op_info *info = hyp_op_get(op);
    if (info->flags & HYP_OPF_OPAQUE) return false;
    for (uint32_t i = 0; i < output_count; i++)
        if (!hyp_type_is_static(out[i])) return false;
    for (uint32_t i = 0; i < info->attr_count; i++)
        for (uint32_t j = 0; info->attrs[i].kind == HYP_ATTR_DIMS && j < attrs[i].count; j++)
            if (!hyp_dim_is_const(attrs[i].dims[j])) return false;
    return true;
}

bool hyp_fold_fits(const hyp_fold_budget *budget, hyp_op op, const hyp_attr *attrs, const hyp_type *const *in,
                   uint32_t input_count, const hyp_type *const *out, uint32_t output_count, uint64_t *work)
{
    if (!hyp_fold_is_fixed(op, attrs, out, output_count)) return false;
    for (uint32_t i = 0; i < output_count; i++) {
        size_t bytes;
        if (!hyp_type_bytes(out[i], &bytes) || bytes > budget->bytes) return false;
    }
    *work = add(*work, hyp_fold_work(op, attrs, in, input_count, out, output_count));
    return *work <= budget->flops;
}

/* ---- constants of a graph -------------------------------------------------------------------------------- */

bool hyp_value_is_listed(const hyp_value *value)
{
    for (uint32_t i = 0; value->content && i < value->content_count; i++)
        if (!hyp_dim_is_const(value->content[i])) return false;
    return value->content && hyp_type_is_static(&value->type);
}

/* The types of a node, in lists that are large enough for any node of the graph. */
typedef struct types {
    const hyp_type **in, **out;
} types;

static bool node_fits(const hyp_graph *g, const hyp_node *node, const bool *constant, const hyp_fold_budget *budget,
                      types *t, uint64_t *work)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        hyp_value_id v = node->inputs[i];
        if (v != HYP_NO_VALUE && !constant[v]) return false;
        t->in[i] = v == HYP_NO_VALUE ? NULL : &g->values.data[v].type;
    }
    for (uint32_t i = 0; i < node->output_count; i++) t->out[i] = &g->values.data[node->outputs[i]].type;
    uint64_t with = *work;
    if (!hyp_fold_fits(budget, node->op, node->attrs, t->in, node->input_count, t->out, node->output_count, &with))
        return false;
    *work = with;
    return true;
}

/* From the last node to the first: what nodes that run read of constants is stored, as long as there is room; what is
 * not stored runs as well. */
static void limit_stored(const hyp_graph *g, uint64_t bytes, bool *constant, bool *read)
{
    uint64_t stored = 0;
    for (size_t i = 0; i < g->outputs.len; i++) read[g->outputs.data[i].value] = true;
    for (hyp_node_id n = (hyp_node_id)g->nodes.len; n-- > 0;) {
        const hyp_node *node = &g->nodes.data[n];
        bool runs = false;
        for (uint32_t o = 0; o < node->output_count; o++) {
            hyp_value_id v = node->outputs[o];
            size_t size;
            if (!read[v]) continue;
            if (constant[v] && hyp_type_bytes(&g->values.data[v].type, &size) && size <= bytes - stored)
                stored += size;
            else
                constant[v] = hyp_value_is_listed(&g->values.data[v]);
            runs = runs || !constant[v];
        }
        for (uint32_t i = 0; runs && i < node->input_count; i++)
            if (node->inputs[i] != HYP_NO_VALUE) read[node->inputs[i]] = true;
    }
}

hyp_status hyp_constants_find(const hyp_graph *g, const hyp_fold_budget *budget, bool *out, hyp_diag *diag)
{
    hyp_arena arena = {0};
    uint32_t inputs = 1, outputs = 1;
    for (size_t n = 0; n < g->nodes.len; n++) {
        const hyp_node *node = &g->nodes.data[n];
        inputs = node->input_count > inputs ? node->input_count : inputs;
        outputs = node->output_count > outputs ? node->output_count : outputs;
    }
    types t = {hyp_arena_zalloc(&arena, inputs, sizeof *t.in), hyp_arena_zalloc(&arena, outputs, sizeof *t.out)};
    bool *read = hyp_arena_zalloc(&arena, g->values.len + 1, sizeof *read);
    hyp_status status = t.in && t.out && read ? HYP_OK : hyp_fail_memory(diag, g->values.len);
    if (status == HYP_OK) {
        uint64_t work = 0;
        for (size_t v = 0; v < g->values.len; v++) out[v] = g->values.data[v].kind == HYP_VALUE_CONST;
        for (size_t n = 0; n < g->nodes.len; n++) {
            const hyp_node *node = &g->nodes.data[n];
            bool fits = node_fits(g, node, out, budget, &t, &work);
            for (uint32_t o = 0; o < node->output_count; o++)
                out[node->outputs[o]] = fits || hyp_value_is_listed(&g->values.data[node->outputs[o]]);
        }
        limit_stored(g, budget->bytes, out, read);
    }
    hyp_arena_dispose(&arena);
    return status;
}
