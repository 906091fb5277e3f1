/* recompute.c - which values of a training step the options want computed again. */
#include <fnmatch.h>
#include <string.h>

#include "driver/driver.h"

static bool fits(const char *name, const char *const *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], name, 0) == 0) return true;
    return false;
}

static bool is_of(const hyp_node *node, const char *const *patterns, size_t count)
{
    for (uint32_t i = 0; i < node->from.source_count; i++)
        if (fits(node->from.sources[i], patterns, count)) return true;
    return false;
}

static hyp_status check_patterns(const hyp_graph *model, const char *const *patterns, size_t count, hyp_diag *diag)
{
    for (size_t p = 0; p < count; p++) {
        bool any = false;
        for (size_t n = 0; n < model->nodes.len && !any; n++) any = is_of(&model->nodes.data[n], &patterns[p], 1);
        if (!any)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "no node of the model is called like '%s', which was to be computed again", patterns[p]);
    }
    return HYP_OK;
}

/* What only a step has, or what variables become, comes behind the forward pass. */
static bool is_forward(const hyp_graph *step, size_t output)
{
    const char *name = step->outputs.data[output].name;
    return output < hyp_graph_shown(step) && strcmp(name, "gradient-norm") != 0 && strncmp(name, "gradient:", 9) != 0;
}

/* Nodes of the forward pass: those that the loss and the model's outputs need. What several processes add up together
 * does not need each other. */
static void find_forward(const hyp_graph *step, bool *values, bool *nodes)
{
    for (size_t i = 0; i < step->outputs.len; i++)
        if (is_forward(step, i)) values[step->outputs.data[i].value] = true;
    for (size_t n = step->nodes.len; n-- > 0;) {
        const hyp_node *node = &step->nodes.data[n];
        for (uint32_t o = 0; o < node->output_count && node->op != HYP_OP_all_reduce; o++)
            nodes[n] = nodes[n] || values[node->outputs[o]];
        for (uint32_t i = 0; i < node->input_count && node->op == HYP_OP_all_reduce; i++)
            values[node->inputs[i]] = values[node->inputs[i]] || values[node->outputs[i]];
        for (uint32_t i = 0; i < node->input_count && nodes[n]; i++)
            if (node->inputs[i] != HYP_NO_VALUE) values[node->inputs[i]] = true;
    }
}

hyp_status hyp_recompute_nodes(const hyp_graph *step, const hyp_graph *model, const char *const *patterns, size_t count,
                               hyp_graph *out, hyp_diag *diag)
{
    size_t nodes = step->nodes.len;
    HYP_TRY(check_patterns(model, patterns, count, diag));
    bool *forward = hyp_calloc(4 * nodes + step->values.len, sizeof *forward);
    if (!forward) return hyp_fail_memory(diag, 4 * nodes);
    bool *again = forward + nodes, *late = again + nodes, *follows = late + nodes;
    find_forward(step, follows + nodes, forward);
    for (size_t n = 0; n < nodes; n++) {
        const hyp_node *node = &step->nodes.data[n];
        again[n] = forward[n] && hyp_can_compute_again(node) && is_of(node, patterns, count);
        follows[n] = forward[n] && node->input_count == 1 && hyp_op_get(node->op)->flags & (HYP_OPF_VIEW | HYP_OPF_COPY);
        late[n] = !forward[n];
    }
    hyp_status status = hyp_graph_compute_again(step, &(hyp_again){again, late, follows, NULL}, out, diag);
    hyp_free(forward);
    return status;
}
