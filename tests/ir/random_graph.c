#include "random_graph.h"

typedef struct maker {
    hyp_graph g;
    rng *r;
    hyp_dim lists[HYP_MAX_ATTRS][2 * HYP_MAX_RANK]; /* room for the attributes of the node being made */
    const char *syms[4];
} maker;

static const char *random_act(rng *r)
{
    static const char *const acts[] = {"none", "relu", "gelu", "gelu-tanh", "sigmoid", "tanh", "silu", "mish"};
    return acts[pick(r, 0, 7)];
}

static hyp_value_id random_value(maker *m) { return (hyp_value_id)pick(m->r, 0, (int64_t)m->g.values.len - 1); }

/* A constant with elements that are exact in every floating-point type. */
static hyp_value_id make_const(maker *m, hyp_dtype dtype, int32_t rank, int64_t d0, int64_t d1)
{
    static const char *const names[] = {NULL, "w", "odd name", "7", "quote\"", "none"};
    hyp_type t = {.dtype = dtype, .rank = rank, .dims = {rank > 0 ? d0 : 0, rank > 1 ? d1 : 0}};
    size_t count = (size_t)((rank > 0 ? d0 : 1) * (rank > 1 ? d1 : 1));
    hyp_value_id id = 0;
    hyp_diag diag = {0};
    unsigned char data[8 * 256];
    assert_true(count <= 256);
    for (size_t i = 0; i < count; i++) hyp_store_f64(dtype, data, i, (double)pick(m->r, -8, 8) / 4);
    assert_ok(
        hyp_graph_add_const(&m->g, names[pick(m->r, 0, 5)], &t, data, count * hyp_dtype_size(dtype), true, &id, &diag),
        &diag);
    return id;
}

/* Fills a list attribute so that it has a chance to fit x. */
static uint32_t random_list(maker *m, hyp_op op, uint32_t attr, const hyp_type *x, hyp_dim *list)
{
    uint32_t rank = (uint32_t)x->rank, count = 0;
    switch (op) {
    case HYP_OP_reshape: /* merge two neighbours, or put a 1 in */
        memcpy(list, x->dims, sizeof x->dims);
        if (rank >= 2 && pick(m->r, 0, 1)) {
            assert_int_equal(hyp_dim_mul(m->g.dims, list[rank - 2], list[rank - 1], &list[rank - 2], NULL), HYP_OK);
            return rank - 1;
        }
        list[rank] = 1;
        return rank + 1;
    case HYP_OP_squeeze:
        for (uint32_t i = 0; i < rank; i++)
            if (x->dims[i] == 1) list[count++] = i;
        return count;
    case HYP_OP_unsqueeze: list[0] = pick(m->r, -(int64_t)rank - 1, rank); return 1;
    case HYP_OP_expand:
        list[0] = 2;
        memcpy(list + 1, x->dims, sizeof x->dims);
        return rank + 1;
    case HYP_OP_transpose:
        for (uint32_t i = 0; i < rank; i++) list[i] = i;
        for (uint32_t i = rank; i > 1; i--) {
            int64_t j = pick(m->r, 0, i - 1);
            hyp_dim swap = list[i - 1];
            list[i - 1] = list[j];
            list[j] = swap;
        }
        return rank;
    case HYP_OP_slice:
        for (uint32_t i = 0; i < rank; i++) {
            bool backward = hyp_dim_is_const(x->dims[i]) && x->dims[i] > 0 && i % 2;
            hyp_dim values[3] = {backward ? x->dims[i] - 1 : 0, x->dims[i], backward ? -1 : 1};
            list[i] = values[attr];
        }
        return rank;
    case HYP_OP_pad:
        for (uint32_t i = 0; i < rank; i++) list[i] = pick(m->r, 0, 2);
        return rank;
    case HYP_OP_split: return list[0] = 1, list[1] = x->dims[rank - 1] - 1, 2;
    default: /* axes of a reduction */
        for (uint32_t i = 0; i < rank; i++)
            if (pick(m->r, 0, 1)) list[count++] = i;
        return count;
    }
}

static hyp_attr random_attr(maker *m, hyp_op op, uint32_t attr, const hyp_type *x)
{
    static const double scales[] = {1, 0.5, -2, 0.01};
    const hyp_attr_info *info = &hyp_op_get(op)->attrs[attr];
    hyp_attr a = {.kind = info->kind};
    switch (info->kind) {
    case HYP_ATTR_INT:
        a.i = strcmp(info->name, "axis") == 0 ? pick(m->r, -x->rank, x->rank) : pick(m->r, 0, 1);
        if (op == HYP_OP_split) a.i = -1;
        break;
    case HYP_ATTR_FLOAT: a.f = scales[pick(m->r, 0, 3)]; break;
    case HYP_ATTR_SYM:
        a.sym = op == HYP_OP_cast                ? (pick(m->r, 0, 3) ? "f32" : "i32")
                : strcmp(info->name, "to") == 0  ? "f32"
                : strcmp(info->name, "add") == 0 ? (pick(m->r, 0, 1) ? "before" : "after")
                                                 : random_act(m->r);
        break;
    case HYP_ATTR_DIMS:
        a.count = random_list(m, op, attr, x, m->lists[attr]);
        a.dims = m->lists[attr];
        break;
    case HYP_ATTR_SYMS:
        a.count = (uint32_t)pick(m->r, 2, 3);
        for (uint32_t i = 0; i < a.count; i++) m->syms[i] = random_act(m->r);
        a.syms = m->syms;
        break;
    }
    return a;
}

/* Inputs for the operator, the first or last of them `x`; weights are made to fit. */
static uint32_t random_operands(maker *m, hyp_op op, hyp_value_id x, uint32_t layers, hyp_value_id *in)
{
    hyp_type t = m->g.values.data[x].type;
    int64_t k = t.rank && hyp_dim_is_const(t.dims[t.rank - 1]) ? t.dims[t.rank - 1] : 3;
    uint32_t count = 0;
    if (op == HYP_OP_linear || op == HYP_OP_fused_linear || op == HYP_OP_fused_mlp) {
        for (uint32_t i = 0; i < (op == HYP_OP_fused_mlp ? layers : 1) && k <= 32; i++) {
            int64_t n = pick(m->r, 1, 6);
            in[count++] = make_const(m, t.dtype, 2, n, k);
            in[count++] = pick(m->r, 0, 1) ? make_const(m, t.dtype, 1, n, 0) : HYP_NO_VALUE;
            k = n;
        }
        in[count++] = x;
        return count;
    }
    if (op == HYP_OP_fused_linear_add && k <= 32) { /* x is added to a product with a square matrix */
        in[0] = make_const(m, t.dtype, 2, k, k);
        in[1] = pick(m->r, 0, 1) ? make_const(m, t.dtype, 1, k, 0) : HYP_NO_VALUE;
        in[2] = in[3] = x;
        return 4;
    }
    if (op == HYP_OP_quantized_linear) { /* nothing but constants is of its type */
        in[0] = make_const(m, HYP_F8E4M3, 2, 4, 3);
        in[1] = pick(m->r, 0, 1) ? make_const(m, HYP_F32, 1, 4, 0) : HYP_NO_VALUE;
        in[2] = pick(m->r, 0, 1) ? make_const(m, HYP_F32, 2, 2, 4) : HYP_NO_VALUE;
        in[3] = make_const(m, HYP_F8E4M3, 2, 2, 3);
        return 4;
    }
    in[count++] = x;
    if (op == HYP_OP_matmul || op == HYP_OP_gemm) in[count++] = k <= 32 ? make_const(m, t.dtype, 2, k, 4) : x;
    while (op == HYP_OP_attention && count < 3) in[count++] = x;
    if (op == HYP_OP_pad) in[count++] = make_const(m, t.dtype, 0, 0, 0);
    if (op == HYP_OP_gather) in[count++] = make_const(m, HYP_I64, 1, 3, 0);
    if (op == HYP_OP_where) { /* what there is are numbers: the condition goes before them */
        in[0] = make_const(m, HYP_BOOL, 0, 0, 0);
        in[1] = x;
        count = 2;
    }
    if (op == HYP_OP_gemm && pick(m->r, 0, 1)) in[count++] = make_const(m, t.dtype, 1, 4, 0);
    const hyp_op_info *info = hyp_op_get(op);
    while (count < info->min_inputs) in[count++] = pick(m->r, 0, 1) ? x : random_value(m);
    return count;
}

static void add_random_node(maker *m)
{
    static const char *const sources[] = {"Gemm_0", "odd (name)", "z"}, *const rules[] = {"r2", "r1"};
    hyp_value_id in[16], out[4];
    hyp_attr attrs[HYP_MAX_ATTRS];
    hyp_op op = (hyp_op)pick(m->r, 0, HYP_OP_COUNT - 1);
    hyp_value_id x = random_value(m);
    hyp_type t = m->g.values.data[x].type;
    const hyp_op_info *info = hyp_op_get(op);
    if (t.rank > 5 || (op == HYP_OP_split && (t.rank == 0 || !hyp_dim_is_const(t.dims[t.rank - 1])))) return;
    for (uint32_t i = 0; i < info->attr_count; i++) attrs[i] = random_attr(m, op, i, &t);
    size_t values = m->g.values.len;
    uint32_t inputs = random_operands(m, op, x, op == HYP_OP_fused_mlp ? attrs[0].count : 0, in);
    hyp_provenance from = {.sources = sources,
                           .source_count = (uint32_t)pick(m->r, 0, 3),
                           .rules = rules,
                           .rule_count = (uint32_t)pick(m->r, 0, 2)};
    uint32_t outputs = op == HYP_OP_split ? 2 : 1;
    hyp_status status = hyp_graph_add_node(&m->g, op, in, inputs, attrs, &from, out, outputs, NULL);
    if (status != HYP_OK) m->g.values.len = values; /* forget the weights of an operator that did not fit */
}

hyp_graph random_graph(hyp_dims *dims, rng *r, int nodes)
{
    maker m = {.r = r};
    hyp_dim n = 0, k = 0;
    hyp_value_id id;
    hyp_diag diag = {0};
    hyp_graph_init(&m.g, dims);
    m.g.name = "random";
    assert_ok(hyp_dim_symbol(dims, "n", &n, &diag), &diag);
    assert_ok(hyp_dim_symbol(dims, "m", &k, &diag), &diag);
    assert_ok(hyp_graph_add_input(&m.g, "x", &(hyp_type){HYP_F32, 3, {n, 2, 3}}, &id, &diag), &diag);
    assert_ok(hyp_graph_add_input(&m.g, "in 2", &(hyp_type){HYP_F32, 2, {k, 3}}, &id, &diag), &diag);
    make_const(&m, HYP_F32, 0, 0, 0);
    make_const(&m, HYP_I64, 1, 3, 0);
    for (int tries = 0; tries < 20 * nodes && m.g.nodes.len < (size_t)nodes; tries++) add_random_node(&m);
    bool *read = hyp_calloc(m.g.values.len, sizeof *read);
    assert_non_null(read);
    for (size_t i = 0; i < m.g.nodes.len; i++)
        for (uint32_t j = 0; j < m.g.nodes.data[i].input_count; j++)
            if (m.g.nodes.data[i].inputs[j] != HYP_NO_VALUE) read[m.g.nodes.data[i].inputs[j]] = true;
    for (hyp_value_id i = 0; i < m.g.values.len; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%u", i);
        if (!read[i]) assert_ok(hyp_graph_add_output(&m.g, name, i, &diag), &diag);
    }
    hyp_free(read);
    return m.g;
}

void random_inputs(const hyp_graph *g, rng *r, int64_t n, int64_t m, hyp_eval_tensor *out)
{
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_type *t = &g->values.data[g->inputs.data[i]].type;
        int64_t symbols[2] = {n, m}, dims[HYP_MAX_RANK];
        hyp_diag diag = {0};
        for (int32_t j = 0; j < t->rank; j++)
            assert_ok(hyp_dim_eval(g->dims, t->dims[j], symbols, &dims[j], &diag), &diag);
        assert_ok(hyp_eval_tensor_alloc(&out[i], t->dtype, t->rank, dims, &diag), &diag);
        for (size_t j = 0; j < out[i].count; j++) out[i].f[j] = (double)pick(r, -16, 16) / 8;
    }
}
