/* From a graph to an e-graph. */
#include <string.h>

#include "rewrite/internal.h"

/* ---- life ----------------------------------------------------------------------------------------- */

static hyp_status register_callbacks(hyp_rw *rw, hyp_diag *diag)
{
    size_t count;
    const hyp_rw_callback *rows = hyp_rw_conditions(&count);
    for (size_t i = 0; i < count; i++)
        HYP_TRY(hyp_egraph_register_condition(rw->eg, rows[i].name, rows[i].arity, rows[i].condition, rw, diag));
    for (size_t i = 0; i < count; i++)
        if (rows[i].final) hyp_egraph_make_final(rw->eg, rows[i].name);
    rows = hyp_rw_functions(&count);
    for (size_t i = 0; i < count; i++)
        HYP_TRY(hyp_egraph_register_function(rw->eg, rows[i].name, rows[i].arity, rows[i].function, rw, diag));
    return HYP_OK;
}

hyp_status hyp_rw_init(hyp_rw *rw, hyp_dims *dims, hyp_diag *diag)
{
    rw->dims = dims;
    hyp_analysis analysis = hyp_rw_analysis(rw);
    hyp_egraph_options options = {.size = sizeof options, .analysis = &analysis, .explain = true};
    HYP_TRY(hyp_egraph_create(&options, &rw->eg, diag));
    HYP_TRY(hyp_egraph_symbol(rw->eg, "none", &rw->none, diag));
    return register_callbacks(rw, diag);
}

void hyp_rw_dispose(hyp_rw *rw)
{
    hyp_egraph_destroy(rw->eg);
    hyp_vec_free(&rw->symbols);
    hyp_vec_free(&rw->leaves);
    hyp_vec_free(&rw->inputs);
    hyp_vec_free(&rw->types);
    hyp_vec_free(&rw->ranges);
    hyp_vec_free(&rw->encoded);
    hyp_vec_free(&rw->seen);
    hyp_free(rw->leaf_slots);
    hyp_arena_dispose(&rw->arena);
    *rw = (hyp_rw){0};
}

/* ---- leaves --------------------------------------------------------------------------------------- */

hyp_status hyp_rw_literal(hyp_rw *rw, const char *text, hyp_class_id *out, hyp_diag *diag)
{
    hyp_symbol symbol;
    HYP_TRY(hyp_egraph_symbol(rw->eg, text, &symbol, diag));
    return hyp_egraph_add(rw->eg, symbol, NULL, 0, out, NULL, diag);
}

static hyp_status add_leaf_term(hyp_rw *rw, size_t leaf, hyp_class_id *out, hyp_diag *diag)
{
    char text[16] = "%";
    size_t n = 0;
    char digits[12];
    do digits[n++] = (char)('0' + leaf % 10);
    while (leaf /= 10);
    for (size_t i = 0; i < n; i++) text[1 + i] = digits[n - 1 - i];
    return hyp_rw_literal(rw, text, out, diag);
}

static hyp_status push_leaf(hyp_rw *rw, const hyp_rw_leaf *leaf, hyp_diag *diag)
{
    if (rw->leaves.len >= UINT32_MAX / 2) return hyp_fail(diag, HYP_ERR_LIMIT, "too many constants and inputs");
    HYP_TRY(hyp_vec_grow(&rw->leaves, diag));
    rw->leaves.data[rw->leaves.len - 1] = *leaf;
    return HYP_OK;
}

/* Enough to tell almost all constants apart without reading all of their bytes: the type and both ends. */
static uint64_t sample_hash(const hyp_rw_leaf *c)
{
    enum { END = 128 };
    uint64_t h = hyp_hash(&c->value.type.dtype, sizeof c->value.type.dtype, c->bytes);
    h = hyp_hash(c->value.type.dims, (size_t)c->value.type.rank * sizeof *c->value.type.dims, h);
    if (!c->data) return hyp_hash(&c->hash, sizeof c->hash, h);
    size_t head = c->bytes < END ? c->bytes : END;
    h = hyp_hash(c->data, head, h);
    return hyp_hash((const char *)c->data + (c->bytes - head), head, h);
}

static uint64_t whole_hash(hyp_rw_leaf *c)
{
    if (c->data && !c->hashed) {
        c->hash = hyp_hash(c->data, c->bytes, 0);
        c->hashed = true;
    }
    return c->hash;
}

static bool same_constant(hyp_rw_leaf *a, hyp_rw_leaf *b)
{
    if (!hyp_type_equal(&a->value.type, &b->value.type) || a->bytes != b->bytes) return false;
    if (a->data == b->data && a->data) return true;
    if (a->bytes && whole_hash(a) != whole_hash(b)) return false;
    return !a->data || !b->data || memcmp(a->data, b->data, a->bytes) == 0; /* elided data: by its hash */
}

static hyp_status grow_leaf_slots(hyp_rw *rw, hyp_diag *diag)
{
    size_t count = rw->leaf_slot_count ? 2 * rw->leaf_slot_count : 64;
    uint32_t *slots = hyp_calloc(count, sizeof *slots);
    if (!slots) return hyp_fail_memory(diag, count * sizeof *slots);
    for (size_t i = 0; i < rw->leaves.len; i++) {
        if (rw->leaves.data[i].is_input) continue;
        size_t at = (size_t)sample_hash(&rw->leaves.data[i]) & (count - 1);
        while (slots[at]) at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    hyp_free(rw->leaf_slots);
    rw->leaf_slots = slots;
    rw->leaf_slot_count = count;
    return HYP_OK;
}

/* The leaf of a constant: the first one that equals it. *out_new tells whether it was added. */
static hyp_status share(hyp_rw *rw, hyp_rw_leaf *c, size_t *out_leaf, bool *out_new, hyp_diag *diag)
{
    if (2 * rw->leaves.len >= rw->leaf_slot_count) HYP_TRY(grow_leaf_slots(rw, diag));
    size_t mask = rw->leaf_slot_count - 1, at = (size_t)sample_hash(c) & mask;
    for (; rw->leaf_slots[at]; at = (at + 1) & mask) {
        *out_leaf = rw->leaf_slots[at] - 1;
        *out_new = false;
        if (same_constant(&rw->leaves.data[*out_leaf], c)) return HYP_OK;
    }
    HYP_TRY(push_leaf(rw, c, diag));
    *out_leaf = rw->leaves.len - 1;
    *out_new = true;
    rw->leaf_slots[at] = (uint32_t)rw->leaves.len;
    return HYP_OK;
}

hyp_status hyp_rw_constant(hyp_rw *rw, const hyp_type *type, const void *data, size_t bytes, hyp_class_id *out,
                           hyp_diag *diag)
{
    hyp_rw_leaf c = {.value = {.type = *type}, .data = data, .bytes = bytes, .copy = true};
    size_t leaf;
    bool is_new;
    HYP_TRY(share(rw, &c, &leaf, &is_new, diag));
    if (is_new) {
        void *copy = hyp_arena_alloc(&rw->arena, bytes);
        if (!copy) return hyp_fail_memory(diag, bytes);
        memcpy(copy, data, bytes);
        rw->leaves.data[leaf].data = copy;
    }
    return add_leaf_term(rw, leaf, out, diag);
}

static hyp_status encode_constant(hyp_rw *rw, const hyp_value *v, hyp_class_id *out, hyp_diag *diag)
{
    hyp_rw_leaf c = {.name = v->name,
                     .value = {v->type, v->content, v->content_count},
                     .data = v->data,
                     .bytes = v->bytes,
                     .copy = v->owned,
                     .hash = v->hash};
    size_t leaf;
    bool is_new;
    HYP_TRY(share(rw, &c, &leaf, &is_new, diag));
    return add_leaf_term(rw, leaf, out, diag);
}

static hyp_status encode_input(hyp_rw *rw, hyp_value_id id, hyp_diag *diag)
{
    const hyp_value *v = &rw->in->values.data[id];
    hyp_rw_leaf leaf = {.is_input = true, .name = v->name, .value = {v->type, v->content, v->content_count}};
    HYP_TRY(push_leaf(rw, &leaf, diag));
    return add_leaf_term(rw, rw->leaves.len - 1, &rw->class_of[id], diag);
}

/* ---- nodes ---------------------------------------------------------------------------------------- */

/* Axes count from the start in terms, so that equal nodes are equal terms. `rank` is that of the tensor whose
 * axes are meant. */
static hyp_status normal_axes(hyp_rw *rw, const hyp_node *n, uint32_t which, hyp_attr *a, hyp_diag *diag)
{
    const char *name = hyp_op_get(n->op)->attrs[which].name;
    if (n->op == HYP_OP_flatten || n->input_count == 0 || n->inputs[0] == HYP_NO_VALUE) return HYP_OK;
    int64_t rank = rw->in->values.data[n->inputs[0]].type.rank;
    if (strcmp(name, "axis") == 0 && a->kind == HYP_ATTR_INT && a->i < 0) a->i += rank;
    if (strcmp(name, "axes") != 0 || a->kind != HYP_ATTR_DIMS) return HYP_OK;
    if (n->op == HYP_OP_unsqueeze) rank += a->count;
    hyp_dim *list = hyp_arena_zalloc(&rw->arena, a->count, sizeof *list);
    if (!list) return hyp_fail_memory(diag, a->count * sizeof *list);
    for (uint32_t i = 0; i < a->count; i++)
        list[i] = hyp_dim_is_const(a->dims[i]) && a->dims[i] < 0 ? a->dims[i] + rank : a->dims[i];
    a->dims = list;
    return HYP_OK;
}

static hyp_status attr_class(hyp_rw *rw, const hyp_attr *a, hyp_class_id *out, hyp_diag *diag)
{
    hyp_strbuf sb = {0};
    hyp_attr_print(&sb, rw->dims, a);
    hyp_status status = sb.failed ? hyp_fail_memory(diag, sb.len) : hyp_rw_literal(rw, hyp_strbuf_text(&sb), out, diag);
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status note_origin(hyp_rw *rw, hyp_enode_id enode, hyp_node_id node, hyp_diag *diag)
{
    if (enode >= rw->encoded.len) {
        HYP_TRY(hyp_vec_reserve(&rw->encoded, (size_t)enode + 1, diag));
        memset(rw->encoded.data + rw->encoded.len, 0, (enode + 1 - rw->encoded.len) * sizeof *rw->encoded.data);
        rw->encoded.len = (size_t)enode + 1;
    }
    rw->node_next[node] = rw->encoded.data[enode];
    rw->encoded.data[enode] = node + 1;
    return HYP_OK;
}

static hyp_status encode_node(hyp_rw *rw, hyp_node_id id, hyp_class_id *children, hyp_diag *diag)
{
    const hyp_node *n = &rw->in->nodes.data[id];
    const hyp_op_info *info = hyp_op_get(n->op);
    size_t count = 0;
    hyp_class_id none;
    HYP_TRY(hyp_rw_literal(rw, "none", &none, diag));
    for (uint32_t i = 0; i < info->attr_count; i++) {
        hyp_attr a = n->attrs[i];
        HYP_TRY(normal_axes(rw, n, i, &a, diag));
        HYP_TRY(attr_class(rw, &a, &children[count++], diag));
    }
    for (uint32_t i = 0; i < n->input_count; i++)
        children[count++] = n->inputs[i] == HYP_NO_VALUE ? none : rw->class_of[n->inputs[i]];
    if (info->max_inputs != HYP_VARIADIC)
        for (uint32_t i = n->input_count; i < info->max_inputs; i++) children[count++] = none;
    hyp_symbol symbol;
    hyp_class_id c;
    hyp_enode_id enode;
    HYP_TRY(hyp_egraph_symbol(rw->eg, info->name, &symbol, diag));
    hyp_status status = hyp_egraph_add(rw->eg, symbol, children, count, &c, &enode, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "node %u", id);
        return status;
    }
    HYP_TRY(note_origin(rw, enode, id, diag));
    if (info->outputs == 1) {
        rw->class_of[n->outputs[0]] = c;
        return HYP_OK;
    }
    HYP_TRY(hyp_egraph_symbol(rw->eg, "get", &symbol, diag));
    for (uint32_t i = 0; i < n->output_count; i++) {
        hyp_attr index = {.kind = HYP_ATTR_INT, .i = i};
        hyp_class_id pair[2] = {0, c};
        HYP_TRY(attr_class(rw, &index, &pair[0], diag));
        HYP_TRY(hyp_egraph_add(rw->eg, symbol, pair, 2, &rw->class_of[n->outputs[i]], NULL, diag));
    }
    return HYP_OK;
}

/* Whether a node jumps by the last bit of an operand that is determined, and no constant. */
static bool steps_on_bits(const hyp_rw *rw, const hyp_node *n)
{
    if (!hyp_node_has(rw->in, n, HYP_OPF_JUMP | HYP_OPF_EDGE)) return false;
    for (uint32_t i = 0; i < n->input_count; i++) {
        if (n->inputs[i] == HYP_NO_VALUE || !hyp_dtype_is_float(rw->in->values.data[n->inputs[i]].type.dtype)) continue;
        const hyp_rw_fact *f = hyp_rw_fact_of(rw, rw->class_of[n->inputs[i]]);
        if (f->determined && !f->constant) return true;
    }
    return false;
}

hyp_status hyp_rw_encode(hyp_rw *rw, const hyp_graph *in, hyp_diag *diag)
{
    HYP_TRY(hyp_rw_init(rw, in->dims, diag));
    rw->in = in;
    rw->fold = hyp_fold_budget_of(in, rw->fold.bytes, rw->fold.flops);
    size_t widest = 0;
    for (size_t i = 0; i < in->nodes.len; i++)
        if (in->nodes.data[i].input_count > widest) widest = in->nodes.data[i].input_count;
    rw->class_of = hyp_arena_zalloc(&rw->arena, in->values.len, sizeof *rw->class_of);
    rw->node_next = hyp_arena_zalloc(&rw->arena, in->nodes.len, sizeof *rw->node_next);
    hyp_class_id *children = hyp_arena_zalloc(&rw->arena, widest + HYP_MAX_ATTRS + 8, sizeof *children);
    if (!rw->class_of || !rw->node_next || !children)
        return hyp_fail_memory(diag, in->values.len * sizeof *rw->class_of);
    for (size_t i = 0; i < in->inputs.len; i++) HYP_TRY(encode_input(rw, in->inputs.data[i], diag));
    for (size_t i = 0; i < in->values.len; i++)
        if (in->values.data[i].kind == HYP_VALUE_CONST)
            HYP_TRY(encode_constant(rw, &in->values.data[i], &rw->class_of[i], diag));
    for (size_t i = 0; i < in->nodes.len; i++) HYP_TRY(encode_node(rw, (hyp_node_id)i, children, diag));
    HYP_TRY(hyp_egraph_rebuild(rw->eg, diag));
    for (size_t i = 0; i < in->nodes.len && !rw->keeps_bits; i++)
        rw->keeps_bits = steps_on_bits(rw, &in->nodes.data[i]);
    return HYP_OK;
}
