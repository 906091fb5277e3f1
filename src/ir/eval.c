/* The reference interpreter: one operator, whole graphs. Clear before fast. */
#include <string.h>

#include "ir/op.h"

/* ---- one operator ----------------------------------------------------------------------------------- */

/* Copies the attributes with every dim replaced by its value. */
static hyp_status fix_attrs(const hyp_dims *dims, hyp_arena *arena, const hyp_op_info *info, const hyp_attr *attrs,
                            const int64_t *symbols, hyp_attr *out, hyp_diag *diag)
{
    for (uint32_t i = 0; i < info->attr_count; i++) {
        out[i] = attrs[i];
        if (attrs[i].kind != HYP_ATTR_DIMS) continue;
        int64_t *list = hyp_arena_zalloc(arena, attrs[i].count, sizeof *list);
        if (!list) return hyp_fail_memory(diag, attrs[i].count * sizeof *list);
        for (uint32_t j = 0; j < attrs[i].count; j++) {
            if (!hyp_dim_is_const(attrs[i].dims[j]) && !symbols)
                return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                                "%s: attribute '%s' is symbolic and no values are given", info->name,
                                info->attrs[i].name);
            HYP_TRY(hyp_dim_eval(dims, attrs[i].dims[j], symbols, &list[j], diag));
            if (!hyp_dim_is_const(list[j]))
                return hyp_fail(diag, HYP_ERR_LIMIT, "%s: attribute '%s' is out of range", info->name,
                                info->attrs[i].name);
        }
        out[i].dims = list;
    }
    return HYP_OK;
}

static hyp_status infer_outputs(hyp_dims *dims, hyp_arena *arena, hyp_op op, const hyp_attr *attrs,
                                const hyp_eval_tensor *const *in, uint32_t input_count, hyp_infer_value *out,
                                uint32_t output_count, hyp_diag *diag)
{
    hyp_infer_value *values = hyp_arena_zalloc(arena, input_count, sizeof *values);
    const hyp_infer_value **list = hyp_arena_zalloc(arena, input_count, sizeof *list);
    if (!values || !list) return hyp_fail_memory(diag, input_count * sizeof *values);
    for (uint32_t i = 0; i < input_count; i++) {
        if (!in[i]) continue;
        values[i].type.dtype = in[i]->dtype;
        values[i].type.rank = in[i]->rank;
        memcpy(values[i].type.dims, in[i]->dims, sizeof in[i]->dims);
        list[i] = &values[i];
    }
    return hyp_infer(dims, arena, op, attrs, list, input_count, out, output_count, diag);
}

static hyp_status eval_in(hyp_arena *arena, hyp_dims *dims, hyp_op op, const hyp_attr *attrs, hyp_eval_mode mode,
                          const hyp_eval_tensor *const *in, uint32_t input_count, hyp_eval_tensor *out,
                          uint32_t output_count, const int64_t *symbols, hyp_diag *diag)
{
    const hyp_op_info *info = hyp_op_get(op);
    hyp_attr fixed[HYP_MAX_ATTRS];
    for (uint32_t i = 0; !attrs && i < info->attr_count; i++) fixed[i] = hyp_attr_default(&info->attrs[i]);
    if (attrs) HYP_TRY(fix_attrs(dims, arena, info, attrs, symbols, fixed, diag));
    hyp_infer_value *types = hyp_arena_zalloc(arena, output_count, sizeof *types);
    if (!types) return hyp_fail_memory(diag, output_count * sizeof *types);
    HYP_TRY(infer_outputs(dims, arena, op, attrs ? fixed : NULL, in, input_count, types, output_count, diag));
    for (uint32_t i = 0; i < output_count; i++)
        HYP_TRY(hyp_eval_tensor_alloc(&out[i], types[i].type.dtype, types[i].type.rank, types[i].type.dims, diag));
    hyp_eval_call call = {.op = op,
                          .attrs = fixed,
                          .mode = mode,
                          .in = in,
                          .in_count = input_count,
                          .out = out,
                          .out_count = output_count,
                          .diag = diag};
    HYP_TRY(hyp_op_get_functions(op).eval(&call));
    for (uint32_t i = 0; i < output_count; i++)
        if (out[i].i || mode != HYP_EVAL_DOUBLE) hyp_eval_round(&out[i]);
    return HYP_OK;
}

hyp_status hyp_op_eval(hyp_dims *dims, hyp_op op, const hyp_attr *attrs, hyp_eval_mode mode,
                       const hyp_eval_tensor *const *in, uint32_t input_count, hyp_eval_tensor *out,
                       uint32_t output_count, const int64_t *symbols, hyp_diag *diag)
{
    hyp_arena arena = {0};
    if ((unsigned)op >= HYP_OP_COUNT) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "no operator %d", (int)op);
    memset(out, 0, output_count * sizeof *out);
    hyp_status status = eval_in(&arena, dims, op, attrs, mode, in, input_count, out, output_count, symbols, diag);
    if (status != HYP_OK)
        for (uint32_t i = 0; i < output_count; i++) hyp_eval_tensor_dispose(&out[i]);
    hyp_arena_dispose(&arena);
    return status;
}

/* ---- graphs ----------------------------------------------------------------------------------------- */

typedef struct run {
    const hyp_graph *g;
    hyp_eval_mode mode;
    hyp_diag *diag;
    hyp_eval_tensor *tensors;      /* by value; inputs are borrowed views, the rest owned */
    uint32_t *uses;                /* by value: reads still to come, outputs count as one each */
    int64_t *symbols;              /* by symbol; -1 = not known */
    const hyp_eval_watch *watch;   /* NULL: all of the graph runs */
    const hyp_eval_change *change; /* NULL: nothing is changed on the way */
} run;

static hyp_status check_inputs(const run *r, const hyp_eval_tensor *inputs, size_t count)
{
    const hyp_graph *g = r->g;
    if (count != g->inputs.len)
        return hyp_fail(r->diag, HYP_ERR_INVALID_ARGUMENT, "%zu inputs given, the graph has %zu", count, g->inputs.len);
    for (size_t i = 0; i < count; i++) {
        const hyp_value *v = &g->values.data[g->inputs.data[i]];
        if (inputs[i].dtype != v->type.dtype || inputs[i].rank != v->type.rank)
            return hyp_fail(
                r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' is %s of rank %d, the graph wants %s of rank %d",
                v->name, hyp_dtype_name(inputs[i].dtype), inputs[i].rank, hyp_dtype_name(v->type.dtype), v->type.rank);
    }
    return HYP_OK;
}

/* Solves the dims of the form scale * symbol + offset, then checks every dim whose symbols are known. */
static hyp_status bind_symbols(run *r, const hyp_eval_tensor *inputs)
{
    const hyp_graph *g = r->g;
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_type *t = &g->values.data[g->inputs.data[i]].type;
        for (int32_t j = 0; j < t->rank; j++) {
            size_t symbol;
            int64_t scale, offset, rest;
            if (!hyp_dim_is_linear(g->dims, t->dims[j], &symbol, &scale, &offset) || r->symbols[symbol] >= 0) continue;
            if (__builtin_sub_overflow(inputs[i].dims[j], offset, &rest)) continue;
            r->symbols[symbol] = rest / scale > 0 ? rest / scale : 0; /* the check below sees what does not fit */
        }
    }
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_value *v = &g->values.data[g->inputs.data[i]];
        for (int32_t j = 0; j < v->type.rank; j++) {
            int64_t want;
            HYP_TRY(hyp_dim_eval(g->dims, v->type.dims[j], r->symbols, &want, r->diag));
            if (want == inputs[i].dims[j]) continue;
            hyp_strbuf sb = {0};
            hyp_dim_print(&sb, g->dims, v->type.dims[j]);
            hyp_status status = hyp_fail(r->diag, HYP_ERR_INVALID_ARGUMENT,
                                         "input '%s': axis %d has size %lld, the graph wants %s = %lld", v->name, j,
                                         (long long)inputs[i].dims[j], hyp_strbuf_text(&sb), (long long)want);
            hyp_strbuf_dispose(&sb);
            return status;
        }
    }
    return HYP_OK;
}

/* `as_stored`: who reads it takes its bytes as they are. */
static hyp_status load_const(run *r, hyp_value_id id, bool as_stored)
{
    const hyp_value *v = &r->g->values.data[id];
    hyp_eval_tensor *t = &r->tensors[id];
    if (as_stored && v->data) {
        size_t count = v->bytes / sizeof(float);
        *t = (hyp_eval_tensor){.dtype = HYP_F32, .rank = v->type.rank, .count = count, .stored = v->data};
        memcpy(t->dims, v->type.dims, sizeof t->dims);
        return HYP_OK;
    }
    if (v->bytes && !v->data)
        return hyp_fail(r->diag, HYP_ERR_INVALID_ARGUMENT,
                        "the bytes of constant '%s' were left out of the text (its hash stands for them), so the graph "
                        "cannot run",
                        v->name ? v->name : "");
    HYP_TRY(hyp_eval_tensor_alloc(t, v->type.dtype, v->type.rank, v->type.dims, r->diag));
    hyp_eval_load_elements(t, v->data);
    return HYP_OK;
}

/* One read of a value is over. */
static void release(run *r, hyp_value_id id)
{
    if (--r->uses[id] == 0 && r->g->values.data[id].kind != HYP_VALUE_INPUT) hyp_eval_tensor_dispose(&r->tensors[id]);
}

static bool asked(const run *r, hyp_node_id node, uint8_t what) { return !r->watch || (r->watch->nodes[node] & what); }

static hyp_status run_node(run *r, hyp_node_id node)
{
    const hyp_node *n = &r->g->nodes.data[node];
    const hyp_eval_tensor **in = hyp_calloc(n->input_count, sizeof *in);
    hyp_eval_tensor *out = hyp_calloc(n->output_count, sizeof *out);
    hyp_status status = in && out ? HYP_OK : hyp_fail_memory(r->diag, n->input_count * sizeof *in);
    for (uint32_t i = 0; status == HYP_OK && i < n->input_count; i++) {
        hyp_value_id id = n->inputs[i];
        if (id == HYP_NO_VALUE) continue;
        const hyp_eval_tensor *t = &r->tensors[id];
        bool as_stored = r->mode == HYP_EVAL_FAST && hyp_eval_reads_stored(n->op, i, &r->g->values.data[id].type);
        if (!t->f && !t->i && !(t->stored && as_stored) && r->g->values.data[id].kind == HYP_VALUE_CONST)
            status = load_const(r, id, as_stored);
        in[i] = t;
    }
    bool tells = asked(r, node, HYP_WATCH_TELL), runs = asked(r, node, HYP_WATCH_RUN);
    if (status == HYP_OK && r->watch && tells) status = r->watch->tell(r->watch->user, node, in, r->diag);
    if (status == HYP_OK && r->change) status = r->change->before(r->change->user, node, in, r->diag);
    bool whole = r->change && r->change->whole && n->op == HYP_OP_attention;
    if (status == HYP_OK && runs)
        status = hyp_op_eval(r->g->dims, n->op, n->attrs, whole ? HYP_EVAL_DOUBLE : r->mode, in, n->input_count, out, n->output_count, r->symbols,
                             r->diag);
    if (r->change) r->change->after(r->change->user, node, in, out, status == HYP_OK);
    if (status == HYP_OK) {
        for (uint32_t i = 0; i < n->input_count; i++)
            if (n->inputs[i] != HYP_NO_VALUE) release(r, n->inputs[i]);
        for (uint32_t i = 0; i < n->output_count; i++) {
            r->tensors[n->outputs[i]] = out[i];
            if (r->uses[n->outputs[i]] == 0) hyp_eval_tensor_dispose(&r->tensors[n->outputs[i]]);
        }
    }
    hyp_free(in);
    hyp_free(out);
    return status;
}

static hyp_status copy_tensor(const hyp_eval_tensor *from, hyp_eval_tensor *to, hyp_diag *diag)
{
    HYP_TRY(hyp_eval_tensor_alloc(to, from->dtype, from->rank, from->dims, diag));
    if (from->count) memcpy(to->f ? (void *)to->f : to->i, from->f ? (void *)from->f : from->i, from->count * 8);
    return HYP_OK;
}

static hyp_status collect_outputs(run *r, hyp_eval_tensor *outputs)
{
    for (size_t i = 0; i < r->g->outputs.len; i++) {
        hyp_value_id id = r->g->outputs.data[i].value;
        hyp_eval_tensor *t = &r->tensors[id];
        hyp_value_kind kind = r->g->values.data[id].kind;
        if (kind == HYP_VALUE_CONST && !t->f && !t->i) HYP_TRY(load_const(r, id, false));
        if (kind != HYP_VALUE_INPUT && r->uses[id] == 1) {
            outputs[i] = *t; /* the last use: hand it over */
            *t = (hyp_eval_tensor){0};
        } else {
            HYP_TRY(copy_tensor(t, &outputs[i], r->diag));
        }
        r->uses[id]--;
    }
    return HYP_OK;
}

static hyp_status run_graph(run *r, const hyp_eval_tensor *inputs, size_t input_count, hyp_eval_tensor *outputs)
{
    const hyp_graph *g = r->g;
    HYP_TRY(check_inputs(r, inputs, input_count));
    for (size_t i = 0; i < hyp_dims_symbol_count(g->dims); i++) r->symbols[i] = -1;
    HYP_TRY(bind_symbols(r, inputs));
    for (size_t i = 0; i < g->outputs.len && !r->watch; i++) r->uses[g->outputs.data[i].value]++;
    for (size_t i = 0; i < g->nodes.len; i++)
        for (uint32_t j = 0; asked(r, (hyp_node_id)i, UINT8_MAX) && j < g->nodes.data[i].input_count; j++)
            if (g->nodes.data[i].inputs[j] != HYP_NO_VALUE) r->uses[g->nodes.data[i].inputs[j]]++;
    for (size_t i = 0; i < input_count; i++) r->tensors[g->inputs.data[i]] = inputs[i];
    for (size_t i = 0; i < g->nodes.len; i++) {
        hyp_status status = asked(r, (hyp_node_id)i, UINT8_MAX) ? run_node(r, (hyp_node_id)i) : HYP_OK;
        if (status != HYP_OK) {
            const hyp_provenance *from = &g->nodes.data[i].from;
            hyp_diag_prefix(r->diag, "node %zu%s%s", i, from->source_count ? ", from " : "",
                            from->source_count ? from->sources[0] : "");
            return status;
        }
    }
    return r->watch ? HYP_OK : collect_outputs(r, outputs);
}

static hyp_status evaluate(const hyp_graph *g, hyp_eval_mode mode, const hyp_eval_watch *watch,
                           const hyp_eval_change *change, const hyp_eval_tensor *inputs, size_t input_count,
                           hyp_eval_tensor *outputs, hyp_diag *diag)
{
    run r = {.g = g, .mode = mode, .diag = diag, .watch = watch, .change = change};
    r.tensors = hyp_calloc(g->values.len, sizeof *r.tensors);
    r.uses = hyp_calloc(g->values.len, sizeof *r.uses);
    r.symbols = hyp_calloc(hyp_dims_symbol_count(g->dims), sizeof *r.symbols);
    hyp_status status = r.tensors && r.uses && r.symbols ? run_graph(&r, inputs, input_count, outputs)
                                                         : hyp_fail_memory(diag, g->values.len * sizeof *r.tensors);
    for (size_t i = 0; r.tensors && i < g->values.len; i++)
        if (g->values.data[i].kind != HYP_VALUE_INPUT) hyp_eval_tensor_dispose(&r.tensors[i]);
    hyp_free(r.tensors);
    hyp_free(r.uses);
    hyp_free(r.symbols);
    return status;
}

hyp_status hyp_graph_eval(const hyp_graph *g, hyp_eval_mode mode, const hyp_eval_tensor *inputs, size_t input_count,
                          hyp_eval_tensor *outputs, hyp_diag *diag)
{
    return hyp_graph_eval_changed(g, mode, inputs, input_count, NULL, outputs, diag);
}

hyp_status hyp_graph_eval_changed(const hyp_graph *g, hyp_eval_mode mode, const hyp_eval_tensor *inputs,
                                  size_t input_count, const hyp_eval_change *change, hyp_eval_tensor *outputs,
                                  hyp_diag *diag)
{
    if (g->outputs.len) memset(outputs, 0, g->outputs.len * sizeof *outputs);
    hyp_status status = evaluate(g, mode, NULL, change, inputs, input_count, outputs, diag);
    for (size_t i = 0; status != HYP_OK && i < g->outputs.len; i++) hyp_eval_tensor_dispose(&outputs[i]);
    return status;
}

hyp_status hyp_graph_watch(const hyp_graph *g, hyp_eval_mode mode, const hyp_eval_tensor *inputs, size_t input_count,
                           const hyp_eval_watch *watch, hyp_diag *diag)
{
    return evaluate(g, mode, watch, NULL, inputs, input_count, NULL, diag);
}
