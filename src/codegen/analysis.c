/* analysis.c - what has to run: constants, dead nodes, groups of elementwise nodes. */
#include <math.h>
#include <string.h>

#include "codegen/lower.h"
#include "ir/constants.h"
#include "ir/window.h"

static const hyp_node *producer_of(const hyp_lowering *l, hyp_value_id v)
{
    const hyp_value *value = hyp_lower_value(l, v);
    return value->kind == HYP_VALUE_NODE ? &l->graph->nodes.data[value->producer] : NULL;
}

static uint32_t flags_of(const hyp_node *node) { return hyp_op_get(node->op)->flags; }

/* ---- constants -------------------------------------------------------------------------------------- */

static hyp_status find_constants(hyp_lowering *l)
{
    const hyp_graph *g = l->graph;
    bool *constant = hyp_arena_zalloc(&l->scratch, g->values.len + 1, sizeof *constant);
    if (!constant) return hyp_fail_memory(l->diag, g->values.len);
    hyp_fold_budget budget = hyp_fold_budget_of(g, l->options->fold.bytes, l->options->fold.flops);
    HYP_TRY(hyp_constants_find(g, &budget, constant, l->diag));
    for (size_t v = 0; v < g->values.len; v++) {
        const hyp_value *value = &g->values.data[v];
        hyp_value_info *info = &l->values[v];
        info->constant = constant[v];
        info->listed = value->kind == HYP_VALUE_NODE && value->content && !info->constant &&
                       hyp_type_is_static(&value->type) && value->type.dtype == HYP_I64;
    }
    return HYP_OK;
}

bool hyp_lower_is_scalar(const hyp_lowering *l, hyp_value_id v, double *out)
{
    const hyp_value *value = hyp_lower_value(l, v);
    if (value->kind != HYP_VALUE_CONST || !value->data || value->bytes != hyp_dtype_size(value->type.dtype))
        return false;
    *out = hyp_load_f64(value->type.dtype, value->data, 0);
    return hyp_dtype_is_float(value->type.dtype);
}

/* ---- looking through nodes that move nothing --------------------------------------------------------- */

hyp_value_id hyp_lower_root(const hyp_lowering *l, hyp_value_id v)
{
    for (;;) {
        const hyp_node *node = producer_of(l, v);
        if (!node || !(flags_of(node) & HYP_OPF_VIEW) || l->values[v].listed) return v;
        if (l->values[v].constant && !l->values[node->inputs[0]].constant) return v;
        v = node->inputs[0];
    }
}

bool hyp_lower_is_windows(const hyp_lowering *l, const hyp_node *node)
{
    if (node->op != HYP_OP_split && node->op != HYP_OP_slice) return false;
    const hyp_value *x = hyp_lower_value(l, node->inputs[0]);
    hyp_value_id root = hyp_lower_root(l, node->inputs[0]);
    if (l->values[root].constant || l->values[root].listed) return false;
    for (uint32_t o = 0; o < node->output_count; o++) {
        int64_t first;
        const hyp_value_info *info = &l->values[node->outputs[o]];
        if (info->constant || info->listed ||
            !hyp_is_window(node->op, node->attrs, &x->type, &hyp_lower_value(l, node->outputs[o])->type, o, &first))
            return false;
    }
    return true;
}

bool hyp_lower_is_linear(const hyp_lowering *l, const hyp_node *node)
{
    if (node->op != HYP_OP_matmul || node->attrs[2].f != 1) return false;
    const hyp_value *a = hyp_lower_value(l, node->inputs[0]), *b = hyp_lower_value(l, node->inputs[1]);
    return l->values[node->inputs[1]].constant && b->type.rank <= 2 && (node->attrs[0].i == 0 || a->type.rank == 1);
}

static bool is_weight(const hyp_lowering *l, const hyp_node *node, uint32_t i)
{
    if (node->op == HYP_OP_matmul) return i == 1 && hyp_lower_is_linear(l, node);
    return hyp_op_is_weight(node->op, i, node->input_count);
}

/* Rows of the x of a layer, where they are known; else 0. */
static hyp_dim rows_of(const hyp_lowering *l, const hyp_node *node)
{
    hyp_value_id x = node->inputs[node->op == HYP_OP_matmul ? 0 : node->input_count - 1];
    const hyp_type *type = &hyp_lower_value(l, x)->type;
    hyp_dim rows = 1;
    for (int32_t a = 0; a + 1 < type->rank; a++)
        if (!hyp_dim_is_const(type->dims[a]) || hyp_dim_mul(l->graph->dims, rows, type->dims[a], &rows, NULL) != HYP_OK)
            return 0;
    return rows;
}

/* Is a weight [n k] of this layer stored so, also where it is the transposition of what the model has? */
static bool stores_transposed(const hyp_lowering *l, const hyp_node *node, hyp_value_id v)
{
    const hyp_target *target = l->options->target;
    const hyp_type *w = &hyp_lower_value(l, v)->type;
    if (!l->values[v].constant || !target->stores_weights_by_rows) return false;
    bool strict = w->dtype == HYP_F32 && l->options->precision != HYP_PRECISION_TF32;
    hyp_dim rows = strict ? rows_of(l, node) : 0, first = target->keeps_weights_for[0];
    return rows < first || rows > target->keeps_weights_for[1] || w->dims[0] < first || rows == 0;
}

hyp_value_id hyp_lower_operand(const hyp_lowering *l, const hyp_node *node, uint32_t i, bool *transposed)
{
    hyp_value_id v = node->inputs[i];
    *transposed = false;
    if (v == HYP_NO_VALUE || !is_weight(l, node, i)) return v;
    for (;;) {
        const hyp_node *from = producer_of(l, v);
        if (!from || hyp_lower_value(l, v)->type.rank != 2) return v;
        bool swaps = from->op == HYP_OP_transpose && from->attrs[0].dims[0] == 1;
        bool same = from->op == HYP_OP_identity || from->op == HYP_OP_dropout ||
                    (from->op == HYP_OP_transpose && from->attrs[0].dims[0] == 0);
        if ((!swaps && !same) || (swaps && stores_transposed(l, node, v))) return v;
        *transposed ^= swaps;
        v = from->inputs[0];
    }
}

/* ---- groups ----------------------------------------------------------------------------------------- */

static bool is_signed(hyp_dtype t) { return t == HYP_I8 || t == HYP_I16 || t == HYP_I32 || t == HYP_I64; }

/* No integer of this value is larger in size than what is given, as far as a few nodes before tell. */
static double largest(const hyp_lowering *l, hyp_value_id v, int depth)
{
    enum { FEW = 4096, DEPTH = 4 };
    const hyp_value *value = hyp_lower_value(l, v);
    hyp_dtype t = value->type.dtype;
    const hyp_node *from = depth < DEPTH ? producer_of(l, v) : NULL;
    double bound = t == HYP_BOOL ? 1 : ldexp(1, 8 * (int)hyp_dtype_size(t)), found = bound;
    if (hyp_dtype_is_float(t)) return INFINITY;
    if (value->kind == HYP_VALUE_CONST && value->data && value->bytes <= FEW * hyp_dtype_size(t)) {
        found = 0;
        for (size_t i = 0; i < value->bytes / hyp_dtype_size(t); i++)
            found = fmax(found, fabs(hyp_load_f64(t, value->data, i)));
    } else if (from && from->op == HYP_OP_cast) {
        if (!is_signed(t) && is_signed(hyp_lower_value(l, from->inputs[0])->type.dtype)) return bound; /* wraps */
        found = largest(l, from->inputs[0], depth + 1);
    } else if (from && (from->op == HYP_OP_add || (from->op == HYP_OP_sub && is_signed(t)))) {
        found = largest(l, from->inputs[0], depth + 1) + largest(l, from->inputs[1], depth + 1);
    }
    return fmin(found, bound);
}

/* Whether floats hold all that a node of integers reads and gives: sums and casts of bytes are computed by vectors
 * then. */
static bool fits_f32(const hyp_lowering *l, const hyp_node *node)
{
    enum { EXACT = 1 << 24 };
    bool fits = (node->op == HYP_OP_cast || node->op == HYP_OP_add || node->op == HYP_OP_sub) &&
                largest(l, node->outputs[0], 0) <= EXACT;
    for (uint32_t i = 0; i < node->input_count; i++) fits = fits && largest(l, node->inputs[i], 0) <= EXACT;
    return fits;
}

/* The type to compute an elementwise node in: what keeps every element exact before the operation. HYP_BOOL: there are
 * only bools, which are exact in any type. */
static hyp_dtype compute_type(const hyp_lowering *l, const hyp_node *node)
{
    hyp_dtype out = hyp_lower_value(l, node->outputs[0])->type.dtype;
    bool any_float = hyp_dtype_is_float(out), any_int = !any_float, any_f64 = out == HYP_F64, any_wide = false;
    bool any_u64 = out == HYP_U64, all_bool = out == HYP_BOOL;
    for (uint32_t i = 0; i < node->input_count; i++) {
        hyp_dtype t = hyp_lower_value(l, node->inputs[i])->type.dtype;
        any_f64 = any_f64 || t == HYP_F64;
        any_float = any_float || hyp_dtype_is_float(t);
        any_int = any_int || !hyp_dtype_is_float(t);
        any_wide = any_wide || (!hyp_dtype_is_float(t) && hyp_dtype_size(t) >= 4);
        any_u64 = any_u64 || t == HYP_U64;
        all_bool = all_bool && t == HYP_BOOL;
    }
    bool power = node->op == HYP_OP_pow;
    if (all_bool) return HYP_BOOL;
    if (!any_float && power) any_u64 = hyp_lower_value(l, node->inputs[1])->type.dtype == HYP_U64; /* has it a sign? */
    if (!any_float && fits_f32(l, node)) return HYP_F32;
    if (!any_float) return any_u64 ? HYP_U64 : HYP_I64;
    if (any_f64 || (any_int && power)) return HYP_F64;
    bool narrow = hyp_dtype_size(out) == 2 || out == HYP_F8E4M3;
    return any_wide && narrow ? HYP_F64 : HYP_F32; /* i32 to f16 by way of f32 would round twice */
}

/* Adds a node to a group; false, and nothing changed, when it would be too large. */
static bool join_group(const hyp_lowering *l, hyp_group *group, hyp_node_id n)
{
    const hyp_node *node = &l->graph->nodes.data[n];
    hyp_group g = *group;
    uint32_t kept = 0;
    if (n == g.root || l->values[node->outputs[0]].shown) g.results++;
    if (g.results > HYP_PLAN_POINTWISE_OUTPUTS) return false;
    for (uint32_t i = 0; i < g.input_count; i++)
        if (g.inputs[i] != node->outputs[0]) g.inputs[kept++] = g.inputs[i];
    g.input_count = kept;
    g.instrs++;
    for (uint32_t i = 0; i < node->input_count; i++) {
        double scalar;
        uint32_t at = 0;
        if (hyp_lower_is_scalar(l, node->inputs[i], &scalar)) {
            g.instrs++;
            continue;
        }
        while (at < g.input_count && g.inputs[at] != node->inputs[i]) at++;
        if (at < g.input_count) continue;
        if (g.input_count == HYP_PLAN_POINTWISE_INPUTS) return false;
        g.inputs[g.input_count++] = node->inputs[i];
    }
    if (g.input_count + g.instrs > HYP_PLAN_POINTWISE_REGISTERS) return false;
    if (g.compute == HYP_BOOL) g.compute = compute_type(l, node);
    g.nodes[g.node_count++] = n;
    *group = g;
    return true;
}

static bool can_join(const hyp_lowering *l, const hyp_group *group, const hyp_node *node)
{
    const hyp_type *mine = &hyp_lower_value(l, node->outputs[0])->type;
    const hyp_type *root = &hyp_lower_value(l, l->graph->nodes.data[group->root].outputs[0])->type;
    hyp_dtype compute = compute_type(l, node);
    return mine->rank == root->rank && memcmp(mine->dims, root->dims, (size_t)mine->rank * sizeof *mine->dims) == 0 &&
           (compute == group->compute || compute == HYP_BOOL || group->compute == HYP_BOOL);
}

/* Puts an elementwise node into the group of its readers when it has only one, else into one of its own. Nodes are
 * visited in reverse, so the readers are known, and no path can leave a group and come back. That a value is an output of
 * the graph, too, is no other reader: the step has it as a further result, as that of an optimizer has its moments. */
static hyp_status find_group(hyp_lowering *l, hyp_node_id n, uint32_t *out)
{
    const hyp_node *node = &l->graph->nodes.data[n];
    const hyp_value_info *result = &l->values[node->outputs[0]];
    if (!result->apart && result->group_plus1) {
        hyp_group *group = &l->groups.data[result->group_plus1 - 1];
        if (can_join(l, group, node) && join_group(l, group, n)) {
            *out = result->group_plus1 - 1;
            return HYP_OK;
        }
    }
    HYP_TRY(hyp_vec_grow(&l->groups, l->diag));
    *out = (uint32_t)l->groups.len - 1;
    l->groups.data[*out] = (hyp_group){.root = n, .compute = compute_type(l, node)};
    bool fits = join_group(l, &l->groups.data[*out], n);
    return fits ? HYP_OK : hyp_fail(l->diag, HYP_ERR_INTERNAL, "a node of %u inputs fits no step", node->input_count);
}

/* Whether a node is a cast to a type that is no smaller: then its readers read no more where they read what it does. */
static bool is_widening(const hyp_lowering *l, const hyp_node *node)
{
    return node->op == HYP_OP_cast && hyp_dtype_size(hyp_lower_value(l, node->outputs[0])->type.dtype) >=
                                          hyp_dtype_size(hyp_lower_value(l, node->inputs[0])->type.dtype);
}

/* Puts a cast that several groups read into each of them; false where one cannot take it, or something else reads it. */
static bool join_readers(hyp_lowering *l, hyp_node_id n)
{
    const hyp_node *node = &l->graph->nodes.data[n];
    const hyp_value_info *result = &l->values[node->outputs[0]];
    bool all = true;
    if (!result->apart || result->outside || result->shown || !is_widening(l, node)) return false;
    for (size_t i = 0; i < l->groups.len; i++) {
        hyp_group *group = &l->groups.data[i];
        bool reads = false;
        for (uint32_t k = 0; k < group->input_count; k++) reads = reads || group->inputs[k] == node->outputs[0];
        if (reads) all = can_join(l, group, node) && join_group(l, group, n) && all;
    }
    return all;
}

/* ---- what runs -------------------------------------------------------------------------------------- */

static bool must_run(const hyp_lowering *l, const hyp_node *node)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        const hyp_value_info *info = &l->values[node->outputs[o]];
        if (info->needed && !info->constant && !info->listed) return true;
    }
    return false;
}

static void note_reader(hyp_lowering *l, hyp_value_id v, uint32_t group_plus1)
{
    hyp_value_info *info = &l->values[v];
    info->needed = true;
    if (!group_plus1) info->outside = true;
    if (!group_plus1 || (info->group_plus1 && info->group_plus1 != group_plus1)) info->apart = true;
    info->group_plus1 = group_plus1;
}

static void claim_outputs(hyp_lowering *l)
{
    const hyp_graph *g = l->graph;
    for (size_t i = 0; i < g->outputs.len; i++) {
        hyp_value_id v = g->outputs.data[i].value, root = hyp_lower_root(l, v);
        l->values[v].needed = l->values[v].shown = true;
        if (root != v) note_reader(l, v, 0);
        hyp_value_info *info = &l->values[root];
        const hyp_node *from = producer_of(l, root);
        if (!info->constant && !info->output_plus1 && from && !hyp_lower_is_windows(l, from))
            info->output_plus1 = (uint32_t)i + 1;
    }
}

/* Notes what is read of a concat's parts instead of its result; false where it is no concat. */
static hyp_status note_parts(hyp_lowering *l, const hyp_parts *parts, bool *out_done)
{
    *out_done = parts->concat != NULL;
    for (uint32_t i = 0; parts->concat && i < parts->concat->input_count; i++) {
        hyp_view view;
        hyp_dim size;
        HYP_TRY(hyp_lower_find_part(l, parts, i, &view, &size));
        note_reader(l, view.value, 0);
    }
    return HYP_OK;
}

/* Notes the parts of an input that its kernel reads one by one: keys and values of one row, a concat in another. */
static hyp_status note_input_parts(hyp_lowering *l, const hyp_node *node, uint32_t i, bool *out_done)
{
    hyp_parts k = {0}, v = {0};
    *out_done = false;
    if (node->op == HYP_OP_concat) HYP_TRY(hyp_lower_find_copied_parts(l, node->inputs[i], &k));
    if (node->op == HYP_OP_attention && (i == 1 || i == 2)) HYP_TRY(hyp_lower_find_key_parts(l, node, &k, &v));
    return note_parts(l, i == 2 && node->op == HYP_OP_attention ? &v : &k, out_done);
}

/* Whether who reads what a node gives may read what it was given instead (views.c). */
static bool is_seen_through(const hyp_node *node)
{
    bool moves = node->op == HYP_OP_transpose || node->op == HYP_OP_split || flags_of(node) & HYP_OPF_VIEW;
    if (node->op != HYP_OP_slice) return moves;
    for (uint32_t a = 0; a < node->attrs[2].count; a++)
        if (node->attrs[2].dims[a] != 1) return false;
    return true;
}

/* What is there as a tensor whatever concats read of it. */
static void find_whole(hyp_lowering *l)
{
    for (size_t v = 0; v < l->graph->values.len; v++) l->values[v].whole = l->values[v].shown;
    for (size_t n = l->graph->nodes.len; n-- > 0;) {
        const hyp_node *node = &l->graph->nodes.data[n];
        bool through = is_seen_through(node), whole = node->op != HYP_OP_concat && !through;
        for (uint32_t i = 0; i < node->output_count && through; i++)
            whole = whole || l->values[node->outputs[i]].whole;
        for (uint32_t i = 0; i < node->input_count && whole; i++)
            if (node->inputs[i] != HYP_NO_VALUE) l->values[node->inputs[i]].whole = true;
    }
}

hyp_status hyp_lower_analyse(hyp_lowering *l)
{
    HYP_TRY(find_constants(l));
    claim_outputs(l);
    find_whole(l);
    for (hyp_node_id n = (hyp_node_id)l->graph->nodes.len; n-- > 0;) {
        const hyp_node *node = &l->graph->nodes.data[n];
        uint32_t flags = flags_of(node), group = 0;
        if (!must_run(l, node)) continue;
        l->runs[n] = !(flags & HYP_OPF_VIEW) && !hyp_lower_is_windows(l, node);
        bool elementwise = l->runs[n] && (flags & HYP_OPF_ELEMENTWISE), grouped = elementwise && !join_readers(l, n);
        if (elementwise && !grouped) l->runs[n] = false; /* by itself */
        if (grouped) {
            HYP_TRY(find_group(l, n, &group));
            l->group_plus1[n] = group + 1;
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            bool transposed, in_parts;
            HYP_TRY(note_input_parts(l, node, i, &in_parts));
            if (in_parts) continue;
            hyp_value_id v = hyp_lower_operand(l, node, i, &transposed);
            if (node->op == HYP_OP_attention && i < 3) {
                hyp_view view;
                HYP_TRY(hyp_lower_find_view(l, v, true, &view));
                v = view.value;
            } else if (node->op == HYP_OP_transpose && l->runs[n]) { /* reads what its result is a view of */
                hyp_view view;
                HYP_TRY(hyp_lower_find_view(l, node->outputs[0], false, &view));
                v = view.value;
            } else if (node->op == HYP_OP_concat) {
                hyp_fine_view fine;
                HYP_TRY(hyp_lower_find_fine_view(l, v, &fine));
                v = fine.view.value;
            }
            bool joins = grouped;
            if (elementwise && v != HYP_NO_VALUE) {
                hyp_view view;
                HYP_TRY(hyp_lower_find_rows(l, v, &view));
                joins = grouped && view.value == v;
                v = view.value;
            }
            if (v != HYP_NO_VALUE) note_reader(l, v, joins ? group + 1 : 0);
        }
    }
    return HYP_OK;
}
