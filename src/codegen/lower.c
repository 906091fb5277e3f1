/* lower.c - from a graph to a program.
 *
 *   analyse        constants, what runs, pointwise groups
 *   find order     of the nodes, so that little stands in memory at once
 *   emit           steps; tensors as they are read and written
 *   emit_copies    for outputs that are something else as well; before updates of variables at the end
 *   place scratch  slots
 */
#include "codegen/lower.h"

#include <string.h>

/* ---- steps ------------------------------------------------------------------------------------------ */

static bool is_f8(const hyp_lowering *l, hyp_value_id v)
{
    return v != HYP_NO_VALUE && hyp_lower_value(l, v)->type.dtype == HYP_F8E4M3;
}

/* Elements of 8 bits are converted and moved; of the products one takes them. */
static hyp_status check_f8(hyp_lowering *l, const hyp_node *node)
{
    bool any = false;
    for (uint32_t i = 0; i < node->input_count; i++) any = any || is_f8(l, node->inputs[i]);
    for (uint32_t o = 0; o < node->output_count; o++) any = any || is_f8(l, node->outputs[o]);
    if (!any || node->op == HYP_OP_quantized_linear) return HYP_OK;
    if (hyp_op_get(node->op)->flags & (HYP_OPF_ELEMENTWISE | HYP_OPF_COPY)) return HYP_OK;
    return hyp_lower_unsupported(l, node, "no kernel takes f8e4m3; cast it to another type before, and back behind it");
}

static hyp_status emit_node(hyp_lowering *l, hyp_node_id n)
{
    const hyp_node *node = &l->graph->nodes.data[n];
    HYP_TRY(check_f8(l, node));
    if (l->group_plus1[n]) {
        const hyp_group *group = &l->groups.data[l->group_plus1[n] - 1];
        return group->root == n ? hyp_emit_group(l, group) : HYP_OK;
    }
    switch (node->op) {
    case HYP_OP_linear:
    case HYP_OP_fused_linear:
    case HYP_OP_fused_linear_add:
    case HYP_OP_fused_mlp: return hyp_emit_layers(l, node);
    case HYP_OP_quantized_linear: return hyp_emit_quantized(l, node);
    case HYP_OP_matmul: return hyp_emit_matmul(l, node);
    case HYP_OP_gemm: return hyp_emit_gemm(l, node);
    case HYP_OP_attention: return hyp_emit_attention(l, node);
    case HYP_OP_transpose: return hyp_emit_transpose(l, node);
    case HYP_OP_slice: return hyp_emit_slice(l, node);
    case HYP_OP_split: return hyp_emit_split(l, node);
    case HYP_OP_concat: return hyp_emit_concat(l, node);
    case HYP_OP_expand: return hyp_emit_expand(l, node);
    case HYP_OP_pad: return hyp_emit_pad(l, node);
    case HYP_OP_gather: return hyp_emit_gather(l, node);
    case HYP_OP_softmax: return hyp_emit_softmax(l, node);
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean: return hyp_emit_reduce(l, node);
    case HYP_OP_custom: return hyp_emit_custom(l, node);
    default:
        if (hyp_op_get(node->op)->flags & HYP_OPF_CALL) return hyp_emit_call(l, node);
        return hyp_lower_unsupported(l, node, "no kernel computes it");
    }
}

hyp_status hyp_lower_price_steps(hyp_lowering *l, const hyp_node *const *nodes, size_t count, HypPlan__Step **steps,
                                 size_t step_count)
{
    const hyp_codegen_options *o = l->options;
    double seconds, share = 1;
    hyp_strbuf sb = {0};
    /* Of a split those parts have no step that others read where they lie. */
    size_t parts = nodes[0]->op == HYP_OP_split ? nodes[0]->output_count : step_count;
    HYP_TRY(o->predict(l->graph, nodes, count, o->predict_user, &seconds, l->diag));
    if (o->predict_share && o->target->streams > 1)
        HYP_TRY(o->predict_share(l->graph, nodes, count, o->predict_user, &share, l->diag));
    if (o->explain && parts > 1) hyp_strbuf_printf(&sb, "1/%zu of: ", parts);
    hyp_status status = o->explain ? o->explain(l->graph, nodes, count, o->predict_user, &sb, l->diag) : HYP_OK;
    for (size_t i = 0; i < step_count && status == HYP_OK; i++) {
        steps[i]->predicted_seconds = seconds / (double)parts;
        if (o->target->streams > 1) steps[i]->share = share;
        if (!o->explain) continue;
        steps[i]->price = hyp_arena_strdup(&l->out->arena, hyp_strbuf_text(&sb));
        if (sb.failed || !steps[i]->price) status = hyp_fail_memory(l->diag, sb.len);
    }
    hyp_strbuf_dispose(&sb);
    return status;
}

hyp_status hyp_lower_add_seconds(hyp_lowering *l, HypPlan__Step *step, double seconds, const char *what, double least)
{
    step->predicted_seconds += seconds;
    if (!l->options->explain || seconds <= least * step->predicted_seconds) return HYP_OK;
    step->price = hyp_arena_printf(&l->out->arena, "%s; %s: %.4g us", step->price, what, seconds * 1e6);
    return step->price ? HYP_OK : hyp_fail_memory(l->diag, 1);
}

/* Shares the time of a node, or of the group that it is the root of, among the steps from `first` on, which are its. */
static hyp_status predict(hyp_lowering *l, hyp_node_id n, size_t first)
{
    const hyp_node *nodes[HYP_PLAN_POINTWISE_REGISTERS] = {&l->graph->nodes.data[n]};
    size_t count = 1, steps = l->steps.len - first;
    if (!l->options->predict || steps == 0) return HYP_OK;
    if (l->group_plus1[n]) {
        const hyp_group *group = &l->groups.data[l->group_plus1[n] - 1];
        count = group->node_count;
        for (size_t i = 0; i < count; i++) nodes[i] = &l->graph->nodes.data[group->nodes[count - 1 - i]];
    }
    return hyp_lower_price_steps(l, nodes, count, &l->steps.data[first], steps);
}

/* The last of the steps from `first` on gives the results of the node, and of the group that it is the root of. */
static void note_steps(hyp_lowering *l, hyp_node_id n, size_t first)
{
    uint32_t last = (uint32_t)l->steps.len - 1;
    if (l->steps.len == first) return;
    l->out->node_steps[n] = last;
    for (uint32_t i = 0; l->group_plus1[n] && i < l->groups.data[l->group_plus1[n] - 1].node_count; i++)
        l->out->node_steps[l->groups.data[l->group_plus1[n] - 1].nodes[i]] = last;
}

static hyp_status emit(hyp_lowering *l)
{
    void *steps;
    HYP_TRY(hyp_lower_alloc(l, l->graph->nodes.len, sizeof *l->out->node_steps, &steps));
    l->out->node_steps = steps;
    for (size_t i = 0; i < l->graph->nodes.len; i++) l->out->node_steps[i] = HYP_NO_STEP;
    for (size_t i = 0; i < l->graph->nodes.len; i++) {
        hyp_node_id n = l->order[i];
        const hyp_node *node = &l->graph->nodes.data[n];
        if (i + l->updates == l->graph->nodes.len) HYP_TRY(hyp_lower_emit_copies(l));
        size_t first = l->steps.len;
        for (uint32_t o = 0; o < node->output_count; o++) {
            const hyp_value_info *info = &l->values[node->outputs[o]];
            if (info->needed && info->listed) HYP_TRY(hyp_emit_fill(l, node, node->outputs[o]));
        }
        if (l->runs[n]) HYP_TRY(emit_node(l, n));
        note_steps(l, n, first);
        HYP_TRY(predict(l, n, first));
    }
    return l->updates ? HYP_OK : hyp_lower_emit_copies(l);
}

/* ---- the program ------------------------------------------------------------------------------------------ */

static hyp_status copy_text(hyp_lowering *l, const char *text, char **out)
{
    *out = hyp_arena_strdup(&l->out->arena, text ? text : "");
    return *out ? HYP_OK : hyp_fail_memory(l->diag, 0);
}

static hyp_status add_equalities(hyp_lowering *l)
{
    HypPlan__Program *p = l->out->program;
    size_t count = l->options->equality_count;
    void *list, *memory;
    HYP_TRY(hyp_lower_alloc(l, count, sizeof *p->equalities, &list));
    HYP_TRY(hyp_lower_alloc(l, count, sizeof **p->equalities, &memory));
    p->equalities = list;
    for (size_t i = 0; i < count; i++) {
        const hyp_equality *from = &l->options->equalities[i];
        HypPlan__Equality *to = (HypPlan__Equality *)memory + i;
        hyp_plan__equality__init(to);
        to->axis = from->axis;
        HYP_TRY(copy_text(l, from->input, &to->input));
        HYP_TRY(copy_text(l, from->reason, &to->reason));
        HYP_TRY(copy_text(l, from->symbol, &to->symbol));
        p->equalities[i] = to;
    }
    p->n_equalities = count;
    return HYP_OK;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static hyp_status prepare(hyp_lowering *l)
{
    static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16", "fp8"};
    const hyp_graph *g = l->graph;
    const hyp_codegen_options *o = l->options;
    size_t symbols = hyp_dims_symbol_count(g->dims);
    l->values = hyp_arena_zalloc(&l->scratch, g->values.len, sizeof *l->values);
    l->runs = hyp_arena_zalloc(&l->scratch, g->nodes.len, sizeof *l->runs);
    l->group_plus1 = hyp_arena_zalloc(&l->scratch, g->nodes.len, sizeof *l->group_plus1);
    l->symbol_plus1 = hyp_arena_zalloc(&l->scratch, symbols, sizeof *l->symbol_plus1);
    if (!l->values || !l->runs || !l->group_plus1 || !l->symbol_plus1)
        return hyp_fail_memory(l->diag, g->values.len * sizeof *l->values);
    void *memory;
    HYP_TRY(hyp_lower_alloc(l, 1, sizeof(HypPlan__Program), &memory));
    HypPlan__Program *p = l->out->program = memory;
    hyp_plan__program__init(p);
    HYP_TRY(copy_text(l, o->producer, &p->producer));
    HYP_TRY(copy_text(l, o->target->name, &p->target));
    HYP_TRY(copy_text(l, precisions[o->precision], &p->precision));
    if (o->classes) HYP_TRY(copy_text(l, o->classes, &p->classes));
    p->model_hash = o->model_hash;
    return copy_text(l, o->model_name, &p->model_name);
}

/* The runtime learns the value of a symbol from an input that has it as an axis. */
static hyp_status check_symbols(hyp_lowering *l)
{
    const HypPlan__Program *p = l->out->program;
    size_t s;
    HYP_TRY(hyp_plan_find_unbound(p, &s, l->diag));
    if (s < p->n_symbols)
        return hyp_fail(
            l->diag, HYP_ERR_UNSUPPORTED,
            "the size '%s' is no axis of an input, so that its value cannot be known at run time; give it a "
            "value with --dim %s=N",
            p->symbols[s], p->symbols[s]);
    return HYP_OK;
}

static hyp_status lower(hyp_lowering *l)
{
    HYP_TRY(prepare(l));
    HYP_TRY(hyp_lower_add_edges(l));
    HYP_TRY(hyp_lower_analyse(l));
    HYP_TRY(hyp_lower_find_order(l));
    HYP_TRY(emit(l));
    HYP_TRY(hyp_lower_finish_edges(l));
    HYP_TRY(hyp_lower_place_scratch(l));
    HYP_TRY(hyp_lower_finish_program(l));
    HYP_TRY(hyp_lower_mark_in_place(l));
    HYP_TRY(hyp_lower_add_turns(l));
    HYP_TRY(hyp_lower_add_distances(l));
    HYP_TRY(hyp_lower_predict_side_by_side(l));
    HYP_TRY(check_symbols(l));
    HYP_TRY(add_equalities(l));
    hyp_plan_place_weights(l->out->program);

    void *folds, *tensors;
    HYP_TRY(hyp_lower_alloc(l, l->graph->values.len, sizeof(uint32_t), &tensors));
    l->out->value_tensors = tensors;
    for (size_t v = 0; v < l->graph->values.len; v++) l->out->value_tensors[v] = l->values[v].tensor_plus1;
    HYP_TRY(hyp_lower_alloc(l, l->folds.len, sizeof(hyp_value_id), &folds));
    if (l->folds.len) memcpy(folds, l->folds.data, l->folds.len * sizeof(hyp_value_id));
    l->out->folds = folds;
    hyp_status status = hyp_plan_validate(l->out->program, l->diag);
    if (status != HYP_OK) hyp_diag_prefix(l->diag, "the lowered program is wrong, please report it");
    return status;
}

hyp_status hyp_codegen_lower(const hyp_graph *graph, const hyp_codegen_options *options, hyp_lowered *out,
                             hyp_diag *diag)
{
    hyp_lowered lowered = {.graph = graph};
    hyp_lowering l = {.graph = graph, .options = options, .out = &lowered, .diag = diag};
    hyp_status status = lower(&l);
    hyp_vec_free(&l.groups);
    hyp_vec_free(&l.dims);
    hyp_vec_free(&l.tensors);
    hyp_vec_free(&l.folds);
    hyp_vec_free(&l.bytes);
    hyp_vec_free(&l.steps);
    hyp_vec_free(&l.dense);
    hyp_vec_free(&l.symbols);
    hyp_intern_dispose(&l.rules);
    hyp_intern_dispose(&l.sources);
    hyp_arena_dispose(&l.scratch);
    if (status == HYP_OK)
        *out = lowered;
    else
        hyp_lowered_dispose(&lowered);
    return status;
}

void hyp_lowered_dispose(hyp_lowered *lowered)
{
    hyp_arena_dispose(&lowered->arena);
    *lowered = (hyp_lowered){0};
}
