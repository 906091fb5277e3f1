/* Small results of arithmetic on constants become constants of the graph. */
#include "ir/constants.h"

enum { LARGEST = 4 << 20, TOGETHER = 32 << 20 }; /* bytes */

typedef struct folding {
    const hyp_graph *in;
    hyp_constants *constants;
    bool *replaced; /* by node */
} folding;

/* Not what only moves or converts elements: whatever rules make of that, they keep its bits. */
static bool is_arithmetic(const hyp_node *node)
{
    return node->output_count == 1 && node->op != HYP_OP_cast &&
           !(hyp_op_get(node->op)->flags & (HYP_OPF_VIEW | HYP_OPF_COPY));
}

/* Of a chain of such nodes the last one: what only they read goes with them. */
static hyp_status choose(folding *f, const bool *constant, bool *read, hyp_diag *diag)
{
    const hyp_graph *g = f->in;
    size_t together = 0;
    for (size_t i = 0; i < g->outputs.len; i++) read[g->outputs.data[i].value] = true;
    for (size_t n = g->nodes.len; n-- > 0;) {
        const hyp_node *node = &g->nodes.data[n];
        hyp_value_id v = node->outputs[0];
        size_t bytes;
        bool small = is_arithmetic(node) && constant[v] && hyp_type_bytes(&g->values.data[v].type, &bytes) &&
                     bytes <= LARGEST && bytes <= TOGETHER - together;
        if (small && read[v]) {
            together += bytes;
            f->replaced[n] = true;
            HYP_TRY(hyp_constants_want(f->constants, v, NULL, diag));
        }
        for (uint32_t i = 0; !small && i < node->input_count; i++)
            if (node->inputs[i] != HYP_NO_VALUE) read[node->inputs[i]] = true;
    }
    return HYP_OK;
}

/* A node that cannot be evaluated, an index out of range say, stays: what is made of it says so, if it is of use. */
static hyp_status replace(void *user, hyp_graph *out, hyp_node_id n, const hyp_value_id *inputs, hyp_value_id *outputs,
                          bool *out_made, hyp_diag *diag)
{
    folding *f = user;
    const hyp_node *node = &f->in->nodes.data[n];
    const hyp_value *value = &f->in->values.data[node->outputs[0]];
    void *data;
    size_t bytes;
    (void)inputs;
    *out_made = false;
    if (!f->replaced[n] || !hyp_type_bytes(&value->type, &bytes)) return HYP_OK;
    hyp_diag ignored = {0};
    hyp_status status = hyp_constants_take(f->constants, node->outputs[0], &data, &ignored);
    if (status != HYP_OK) return status == HYP_ERR_NO_MEMORY ? hyp_fail_memory(diag, bytes) : HYP_OK;
    status = hyp_graph_add_const(out, value->name, &value->type, data, bytes, true, outputs, diag);
    hyp_free(data);
    *out_made = status == HYP_OK;
    return status;
}

/* What others may replace, and all that is computed of it, is not known yet. */
static void strike_updatable(const hyp_graph *g, bool *constant)
{
    for (size_t v = 0; v < g->values.len; v++) constant[v] = constant[v] && !g->values.data[v].updatable;
    for (size_t n = 0; n < g->nodes.len; n++) {
        const hyp_node *node = &g->nodes.data[n];
        bool known = true;
        for (uint32_t i = 0; i < node->input_count; i++)
            known = known && (node->inputs[i] == HYP_NO_VALUE || constant[node->inputs[i]]);
        for (uint32_t o = 0; o < node->output_count; o++)
            constant[node->outputs[o]] = constant[node->outputs[o]] && known;
    }
}

static hyp_status fold(folding *f, const hyp_fold_budget *budget, hyp_graph *out, hyp_diag *diag)
{
    bool *constant = hyp_calloc(2 * f->in->values.len + 1, sizeof *constant);
    f->replaced = hyp_calloc(f->in->nodes.len + 1, sizeof *f->replaced);
    hyp_status status = constant && f->replaced ? HYP_OK : hyp_fail_memory(diag, f->in->values.len);
    if (status == HYP_OK) status = hyp_constants_find(f->in, budget, constant, diag);
    if (status == HYP_OK) strike_updatable(f->in, constant);
    if (status == HYP_OK) status = choose(f, constant, constant + f->in->values.len, diag);
    hyp_graph folded;
    hyp_graph_init(&folded, f->in->dims);
    if (status == HYP_OK) status = hyp_graph_rebuild(f->in, replace, f, &folded, diag);
    if (status == HYP_OK) status = hyp_graph_copy_live(&folded, out, diag); /* without what was read for them alone */
    hyp_graph_dispose(&folded);
    hyp_free(constant);
    hyp_free(f->replaced);
    return status;
}

hyp_status hyp_graph_fold(const hyp_graph *in, const hyp_fold_budget *budget, hyp_graph *out, hyp_diag *diag)
{
    folding f = {.in = in};
    HYP_TRY(hyp_constants_create(in, NULL, NULL, &f.constants, diag));
    hyp_status status = fold(&f, budget, out, diag);
    hyp_constants_destroy(f.constants);
    return status;
}
