/* classes.c - logits of as many classes as products of 16 bits are fast with. Rows of 50257 numbers of 2 bytes begin at
 * odd places: products, and what else goes over them, read and write them several times as slowly as rows that are
 * multiples of 16 bytes. So there are some classes more that nothing is. Their weights are 0, their biases the least
 * number that there is: a softmax gives them 0, and nothing comes back from them. */
#include "train/step.h"

enum {
    PIECE = 8 /* elements of 16 bits that lie at a multiple of 16 bytes */,
    ENOUGH = 1024 /* classes that are worth it */
};

/* The logits that are widened. */
typedef struct widening {
    hyp_builder *b;
    hyp_dim classes, more;
} widening;

/* Zeros behind axis `axis` of a weight, before it is transposed. */
static hyp_value_id pad_weight(const widening *w, hyp_value_id v, int32_t axis)
{
    const hyp_graph *g = w->b->g;
    const hyp_value *value = &g->values.data[v];
    const hyp_node *n = value->kind == HYP_VALUE_NODE ? &g->nodes.data[value->producer] : NULL;
    if (n && n->op == HYP_OP_transpose && value->type.rank == 2 && n->attrs[0].dims[0] == 1)
        return hyp_build_transpose(w->b, pad_weight(w, n->inputs[0], 1 - axis), (const hyp_dim[]){1, 0});
    return hyp_build_pad(w->b, v, axis, 0, w->more);
}

/* Biases: those that are given, or zeros, and for the classes that nothing is the least number. */
static hyp_value_id widen_bias(const widening *w, hyp_value_id bias, hyp_dtype dtype)
{
    const hyp_type type = {.dtype = dtype, .rank = 1, .dims = {w->classes + w->more}};
    const size_t size = hyp_dtype_size(dtype), bytes = (size_t)type.dims[0] * size;
    unsigned char *data = hyp_build_ok(w->b) ? hyp_arena_zalloc(&w->b->arena, bytes, 1) : NULL;
    if (!data) return hyp_build_note(w->b, hyp_fail_memory(w->b->diag, bytes)), HYP_NO_VALUE;
    const double least = dtype == HYP_F16 ? -65504 : -0x1.fep127;
    for (int64_t i = w->classes; i < type.dims[0]; i++) hyp_store_f64(dtype, data, (size_t)i, least);
    hyp_value_id v = hyp_build_const(w->b, &type, data, bytes);
    return bias == HYP_NO_VALUE ? v
                                : hyp_build_node(w->b, HYP_OP_add, NULL, hyp_build_pad(w->b, bias, 0, 0, w->more), v);
}

static bool is_bias(const widening *w, hyp_value_id v)
{
    hyp_type t = hyp_build_type(w->b, v);
    return v == HYP_NO_VALUE || (t.rank == 1 && t.dims[0] == w->classes);
}

/* A product in 16 bits of a weight [classes, k] or [k, classes], with these biases; HYP_NO_VALUE where it is none. */
static hyp_value_id widen_product(const widening *w, const hyp_node *n, hyp_value_id bias)
{
    hyp_builder *b = w->b;
    hyp_value_id in[3] = {n->inputs[0], n->inputs[1], n->input_count > 2 ? n->inputs[2] : HYP_NO_VALUE};
    const uint32_t weight = n->op == HYP_OP_linear ? 0 : 1, own = n->op == HYP_OP_linear ? 1 : 2;
    hyp_type t = hyp_build_type(b, in[weight]);
    if (hyp_dtype_size(t.dtype) != 2 || t.rank != 2 ||
        (bias != HYP_NO_VALUE && in[own] != HYP_NO_VALUE && n->op != HYP_OP_matmul))
        return HYP_NO_VALUE;
    const bool rows = n->op == HYP_OP_linear || n->attrs[1].i != 0; /* a class each */
    if (n->op == HYP_OP_gemm && n->attrs[3].f != 1) return HYP_NO_VALUE;
    if (n->op != HYP_OP_matmul && bias == HYP_NO_VALUE) bias = in[own];
    if (!is_bias(w, bias)) return HYP_NO_VALUE;
    in[weight] = pad_weight(w, in[weight], rows ? 0 : 1);
    in[own] = widen_bias(w, bias, t.dtype);
    if (n->op != HYP_OP_matmul) return hyp_build_node(b, n->op, n->attrs, in[0], in[1], in[2]);
    return hyp_build_node(b, HYP_OP_add, NULL, hyp_build_node(b, HYP_OP_matmul, n->attrs, in[0], in[1]), in[own]);
}

/* v, whose last axis are the classes, with some more of them, of a product behind casts, views and a bias that is
 * added; HYP_NO_VALUE where it is none. What was made until that was found is read by nothing. */
static hyp_value_id widen(const widening *w, hyp_value_id v, hyp_value_id bias)
{
    hyp_builder *b = w->b;
    hyp_type type = hyp_build_type(b, v);
    if (!hyp_build_ok(b) || b->g->values.data[v].kind != HYP_VALUE_NODE) return HYP_NO_VALUE;
    if (type.rank < 1 || type.dims[type.rank - 1] != w->classes) return HYP_NO_VALUE;
    const hyp_node n = b->g->nodes.data[b->g->values.data[v].producer];
    hyp_value_id out = HYP_NO_VALUE;
    b->from = n.from;
    if (n.op == HYP_OP_matmul || n.op == HYP_OP_linear || n.op == HYP_OP_gemm) return widen_product(w, &n, bias);
    if (n.op == HYP_OP_add && bias == HYP_NO_VALUE)
        for (int i = 0; i < 2 && out == HYP_NO_VALUE; i++)
            if (is_bias(w, n.inputs[i])) out = widen(w, n.inputs[1 - i], n.inputs[i]);
    if (n.op == HYP_OP_cast || n.op == HYP_OP_reshape) out = widen(w, n.inputs[0], bias);
    if (out == HYP_NO_VALUE || n.op == HYP_OP_add) return out;
    b->from = n.from;
    type.dims[type.rank - 1] += w->more;
    return n.op == HYP_OP_cast ? hyp_build_cast(b, out, type.dtype) : hyp_build_reshape(b, out, type.rank, type.dims);
}

hyp_value_id hyp_classes_widen(hyp_builder *b, const hyp_train_options *o, hyp_value_id logits)
{
    const hyp_type type = hyp_build_type(b, logits);
    const hyp_dim classes = type.rank == 1 || type.rank == 2 ? type.dims[type.rank - 1] : 0;
    if (o->label_smoothing != 0 || !hyp_dim_is_const(classes) || classes < ENOUGH || classes % PIECE == 0)
        return logits;
    const widening w = {b, classes, PIECE - classes % PIECE};
    hyp_value_id out = widen(&w, logits, HYP_NO_VALUE);
    b->from = (hyp_provenance){0};
    return out == HYP_NO_VALUE ? logits : out;
}
