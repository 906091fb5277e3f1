/* What a kernel of the plan costs: one node of a graph, or elementwise nodes that run as one. */
#include <math.h>

#include "rewrite/internal.h"

/* Computed from constants alone, as far as can be seen in so many steps. */
static bool is_constant(const hyp_graph *g, hyp_value_id v, int steps)
{
        const hyp_value *value = &g->values.data[v];
        if (value->kind != HYP_VALUE_NODE) return value->kind == HYP_VALUE_CONST;
        const hyp_node *from = &g->nodes.data[value->producer];
    bool all = steps > 0 && from->input_count > 0;
    for (uint32_t i = 0; i < from->input_count && all; i++)
        all = from->inputs[i] == HYP_NO_VALUE || is_constant(g, from->inputs[i], steps - 1);
    return all;
}

/* The question about a node; its lists are in `arena`. */
static hyp_status describe(const hyp_graph *g, const hyp_node *node, hyp_arena *arena, hyp_cost_query *out,
                           hyp_diag *diag)
{
    enum { STEPS = 6 };
    const hyp_type **inputs = hyp_arena_zalloc(arena, node->input_count + 1, sizeof *inputs);
    bool *constant = hyp_arena_zalloc(arena, node->input_count + 1, sizeof *constant);
    hyp_type *outputs = hyp_arena_zalloc(arena, node->output_count + 1, sizeof *outputs);
    if (!inputs || !constant || !outputs) return hyp_fail_memory(diag, node->input_count * sizeof *inputs);
    for (uint32_t i = 0; i < node->input_count; i++) {
        bool absent = node->inputs[i] == HYP_NO_VALUE;
        inputs[i] = absent ? NULL : &g->values.data[node->inputs[i]].type;
        constant[i] = absent || is_constant(g, node->inputs[i], STEPS);
    }
    for (uint32_t i = 0; i < node->output_count; i++) outputs[i] = g->values.data[node->outputs[i]].type;
    *out = (hyp_cost_query){.op = node->op,
                            .attrs = node->attrs,
                            .inputs = inputs,
                            .input_const = constant,
                            .input_count = node->input_count,
                            .outputs = outputs,
                            .output_count = node->output_count,
                            .dims = g->dims};
    return HYP_OK;
}

static bool computes(const hyp_node *const *nodes, size_t count, hyp_value_id v)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t o = 0; o < nodes[i]->output_count; o++)
            if (nodes[i]->outputs[o] == v) return true;
    return false;
}

static bool is_output(const hyp_graph *g, hyp_value_id v)
{
    for (size_t i = 0; i < g->outputs.len; i++)
        if (g->outputs.data[i].value == v) return true;
    return false;
}

/* The values that a group reads and gives, each once, as inputs and outputs of an addition: it moves as much as the group
 * does. */
static hyp_status describe_edges(const hyp_graph *g, const hyp_node *const *nodes, size_t count, hyp_arena *arena,
                                 hyp_cost_query *out, hyp_diag *diag)
{
    const hyp_node *last = nodes[count - 1];
    size_t room = 1, found = 0, given = 0;
    for (size_t i = 0; i < count; i++) room += nodes[i]->input_count;
    hyp_value_id *reads = hyp_arena_zalloc(arena, room, sizeof *reads);
    hyp_value_id *gives = hyp_arena_zalloc(arena, count, sizeof *gives);
    if (!reads || !gives) return hyp_fail_memory(diag, room * sizeof *reads);
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < nodes[i]->input_count; k++) {
            hyp_value_id v = nodes[i]->inputs[k];
            size_t at = 0;
            if (v == HYP_NO_VALUE || computes(nodes, count, v)) continue;
            while (at < found && reads[at] != v) at++;
            if (at == found) reads[found++] = v;
        }
    for (size_t i = 0; i + 1 < count; i++)
        if (is_output(g, nodes[i]->outputs[0])) gives[given++] = nodes[i]->outputs[0];
    gives[given++] = last->outputs[0];
    hyp_node all = *last;
    all.op = HYP_OP_add;
    all.inputs = reads;
    all.input_count = (uint32_t)found;
    all.outputs = gives;
    all.output_count = (uint32_t)given;
    return describe(g, &all, arena, out, diag);
}

static hyp_status group_seconds(const hyp_graph *g, const hyp_node *const *nodes, size_t count,
                                const hyp_roofline *line, hyp_arena *arena, double *out, hyp_diag *diag)
{
    hyp_cost_query query;
    double work = hyp_roofline_launch(line);
    for (size_t i = 0; i < count; i++) {
        HYP_TRY(describe(g, nodes[i], arena, &query, diag));
        work += hyp_roofline_work(&query, line);
    }
    HYP_TRY(describe_edges(g, nodes, count, arena, &query, diag));
    *out = fmax(work, hyp_roofline_cost(&query, (void *)(uintptr_t)line));
    return HYP_OK;
}

/* An elementwise operator of one tensor and itself moves that once, which counts where a profile tells what moving takes. */
static bool reads_twice(const hyp_node *n, const hyp_device_profile *profile)
{
    return profile->away_count > 0 && (hyp_op_get(n->op)->flags & HYP_OPF_ELEMENTWISE) && n->input_count == 2 &&
           n->inputs[0] == n->inputs[1];
}

hyp_status hyp_roofline_kernel(const hyp_graph *graph, const hyp_node *const *nodes, size_t count,
                               const hyp_roofline *roofline, double *out_seconds, hyp_diag *diag)
{
    hyp_arena arena = {0};
    hyp_cost_query query;
    hyp_status status;
    if (count > 1 || reads_twice(nodes[0], &roofline->profile)) {
        status = group_seconds(graph, nodes, count, roofline, &arena, out_seconds, diag);
    } else {
        status = describe(graph, nodes[0], &arena, &query, diag);
        if (status == HYP_OK) *out_seconds = hyp_roofline_cost(&query, (void *)(uintptr_t)roofline);
    }
    hyp_arena_dispose(&arena);
    return status;
}

hyp_status hyp_roofline_kernel_share(const hyp_graph *graph, const hyp_node *const *nodes, size_t count,
                                     const hyp_roofline *roofline, double *out_share, hyp_diag *diag)
{
    hyp_arena arena = {0};
    hyp_cost_query query;
    hyp_status status = count > 1 ? describe_edges(graph, nodes, count, &arena, &query, diag)
                                  : describe(graph, nodes[0], &arena, &query, diag);
    if (status == HYP_OK) *out_share = hyp_roofline_share(&query, (void *)(uintptr_t)roofline);
    hyp_arena_dispose(&arena);
    return status;
}
