#include "support/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct known {
    double bound; /* no element of a floating-point value is larger in magnitude */
    bool exact;   /* an input or a constant: the same bits however the graph is run */
    bool read;
} known;

typedef struct maker {
    const hyp_random_graph_options *options;
    hyp_graph *g;
    hyp_random random;
    HYP_VEC(known) known; /* by value */
    hyp_dim symbols[2];
    int *drawn;
    int inputs;
    hyp_diag *diag;
} maker;

/* ---- drawing ---------------------------------------------------------------------------------------- */

int64_t hyp_random_int(hyp_random *r, int64_t low, int64_t high)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    uint64_t x = r->state ^ (r->state >> 33);
    return low + (int64_t)((x >> 11) % (uint64_t)(high - low + 1));
}

double hyp_random_real(hyp_random *r, double low, double high)
{
    return low + (high - low) * (double)hyp_random_int(r, 0, 1 << 24) / (1 << 24);
}

static int64_t draw(maker *m, int64_t low, int64_t high) { return hyp_random_int(&m->random, low, high); }
static bool chance(maker *m, int percent) { return draw(m, 1, 100) <= percent; }

static hyp_attr attr_int(int64_t i) { return (hyp_attr){.kind = HYP_ATTR_INT, .i = i}; }
static hyp_attr attr_float(double f) { return (hyp_attr){.kind = HYP_ATTR_FLOAT, .f = f}; }
static hyp_attr attr_sym(const char *s) { return (hyp_attr){.kind = HYP_ATTR_SYM, .sym = s}; }
static hyp_attr attr_dims(const hyp_dim *dims, uint32_t n)
{
    return (hyp_attr){.kind = HYP_ATTR_DIMS, .dims = dims, .count = n};
}

static const hyp_type *type_of(const maker *m, hyp_value_id v) { return &m->g->values.data[v].type; }
static bool is_float(const maker *m, hyp_value_id v) { return hyp_dtype_is_float(type_of(m, v)->dtype); }
static bool is_fixed(hyp_dim d) { return hyp_dim_is_const(d); }

enum { FLOAT = 1, INTEGER = 2, NUMBER = 4, BOOL = 8, EXACT = 16, SMALL_BOUND = 64 };

static bool fits(const maker *m, hyp_value_id v, int want, int32_t low, int32_t high)
{
    const hyp_type *t = type_of(m, v);
    bool real = hyp_dtype_is_float(t->dtype);
    return t->rank >= low && t->rank <= high && (!(want & FLOAT) || real) &&
           (!(want & INTEGER) || (!real && t->dtype != HYP_BOOL)) && (!(want & NUMBER) || t->dtype != HYP_BOOL) &&
           (!(want & BOOL) || t->dtype == HYP_BOOL) && (!(want & EXACT) || !real || m->known.data[v].exact) &&
           m->known.data[v].bound <= SMALL_BOUND;
}

/* Some value of the wanted kind and rank; later ones are likelier, so that graphs grow deep. */
static bool pick(maker *m, int want, int32_t low, int32_t high, hyp_value_id *out)
{
    int64_t count = (int64_t)m->g->values.len;
    for (int tries = 0; tries < 40 && count > 0; tries++) {
        int64_t a = draw(m, 0, count - 1), b = draw(m, 0, count - 1);
        *out = (hyp_value_id)(a > b ? a : b);
        if (fits(m, *out, want, low, high)) return true;
    }
    return false;
}

/* ---- values ----------------------------------------------------------------------------------------- */

static hyp_status note_value(maker *m, hyp_value_id v, double bound, bool exact)
{
    HYP_TRY(hyp_vec_reserve(&m->known, (size_t)v + 1, m->diag));
    m->known.data[v] = (known){.bound = bound, .exact = exact};
    m->known.len = (size_t)v + 1;
    return HYP_OK;
}

static double draw_element(hyp_random *r, hyp_dtype dtype, double scale)
{
    if (dtype == HYP_BOOL) return (double)hyp_random_int(r, 0, 1);
    bool is_unsigned = dtype == HYP_U8 || dtype == HYP_U16 || dtype == HYP_U32 || dtype == HYP_U64;
    if (!hyp_dtype_is_float(dtype)) return (double)hyp_random_int(r, is_unsigned ? 0 : -3, 3);
    return hyp_random_real(r, -scale, scale);
}

/* A constant of fixed shape with elements up to `scale`; integers are 1, 2 or 3 when `positive`. */
static hyp_status make_const(maker *m, const hyp_type *type, double scale, bool positive, hyp_value_id *out)
{
    size_t count = 1;
    for (int32_t i = 0; i < type->rank; i++) count *= (size_t)type->dims[i];
    void *data = hyp_calloc(count, 8);
    if (!data) return hyp_fail_memory(m->diag, count * 8);
    for (size_t i = 0; i < count; i++) {
        double x = draw_element(&m->random, type->dtype, scale);
        if (positive) x = hyp_dtype_is_float(type->dtype) ? fabs(x) + scale / 4 : 1 + fmod(fabs(x), 3);
        hyp_store_f64(type->dtype, data, i, x);
    }
    hyp_status status =
        hyp_graph_add_const(m->g, NULL, type, data, count * hyp_dtype_size(type->dtype), true, out, m->diag);
    hyp_free(data);
    HYP_TRY(status);
    return note_value(m, *out, scale * 1.25, true);
}

static hyp_status make_input(maker *m, const hyp_type *type, hyp_value_id *out)
{
    char name[16];
    snprintf(name, sizeof name, "x%d", m->inputs++);
    HYP_TRY(hyp_graph_add_input(m->g, name, type, out, m->diag));
    return note_value(m, *out, 2, true);
}

/* A constant, or an input where the shape has symbols or chance will have it. */
static hyp_status make_leaf(maker *m, const hyp_type *type, double scale, hyp_value_id *out)
{
    if (hyp_type_is_static(type) && !chance(m, 20)) return make_const(m, type, scale, false, out);
    return make_input(m, type, out);
}

static hyp_status add(maker *m, hyp_op op, const hyp_value_id *in, uint32_t in_count, const hyp_attr *attrs,
                      double bound, hyp_value_id *outs, uint32_t out_count)
{
    char source[24];
    snprintf(source, sizeof source, "node%zu", m->g->nodes.len);
    const char *sources[] = {source};
    hyp_provenance from = {.sources = sources, .source_count = 1};
    HYP_TRY(hyp_graph_add_node(m->g, op, in, in_count, attrs, &from, outs, out_count, m->diag));
    for (uint32_t i = 0; i < in_count; i++)
        if (in[i] != HYP_NO_VALUE) m->known.data[in[i]].read = true;
    for (uint32_t i = 0; i < out_count; i++) HYP_TRY(note_value(m, outs[i], bound, false));
    if (m->drawn) m->drawn[op]++;
    return HYP_OK;
}

static hyp_status add_unary(maker *m, hyp_op op, hyp_value_id x, const hyp_attr *attrs, double bound, hyp_value_id *out)
{
    return add(m, op, &x, 1, attrs, bound, out, 1);
}

/* ---- linear algebra --------------------------------------------------------------------------------- */

static const char *draw_act(maker *m)
{
    static const char *const acts[] = {"none", "relu", "gelu", "gelu-tanh", "sigmoid", "tanh"};
    return acts[draw(m, 0, 5)];
}

/* A floating-point value whose last axis is fixed and short. */
static bool pick_rows(maker *m, int32_t low, int32_t high, hyp_value_id *out)
{
    for (int tries = 0; tries < 10; tries++) {
        if (!pick(m, FLOAT, low, high, out)) return false;
        hyp_dim last = type_of(m, *out)->dims[type_of(m, *out)->rank - 1];
        if (is_fixed(last) && last <= 40) return true;
    }
    return false;
}

/* w and b of a layer that takes k features. */
static hyp_status make_layer(maker *m, hyp_dtype dtype, int64_t k, int64_t n, double x_bound, hyp_value_id *w,
                             hyp_value_id *b, double *bound)
{
    double scale = k > 0 ? 1 / sqrt((double)k) : 1;
    hyp_type weight = {dtype, 2, {n, k}}, stored = {dtype, 2, {k, n}}, bias = {dtype, 1, {n}};
    if (chance(m, 30)) { /* as exporters write it */
        hyp_value_id transposed;
        static const hyp_dim perm[] = {1, 0};
        hyp_attr attr = attr_dims(perm, 2);
        HYP_TRY(make_leaf(m, &stored, scale, &transposed));
        HYP_TRY(add_unary(m, HYP_OP_transpose, transposed, &attr, m->known.data[transposed].bound, w));
    } else {
        HYP_TRY(make_leaf(m, &weight, scale, w));
    }
    *b = HYP_NO_VALUE;
    if (chance(m, 60)) HYP_TRY(make_leaf(m, &bias, 0.5, b));
    *bound = x_bound * (double)k * m->known.data[*w].bound + 2;
    return HYP_OK;
}

static hyp_status make_linear(maker *m, hyp_op op)
{
    hyp_value_id x, in[9], out;
    const char *acts[4] = {"none"};
    hyp_attr attr = {.kind = HYP_ATTR_SYMS, .syms = acts};
    if (!pick_rows(m, 1, 4, &x)) return HYP_OK;
    const hyp_type type = *type_of(m, x);
    double bound = m->known.data[x].bound;
    uint32_t layers = op == HYP_OP_fused_mlp ? (uint32_t)draw(m, 2, 4) : 1;
    int64_t k = type.dims[type.rank - 1];
    for (uint32_t i = 0; i < layers; i++) {
        int64_t n = draw(m, 1, 6);
        acts[i] = draw_act(m);
        HYP_TRY(make_layer(m, type.dtype, k, n, bound, &in[2 * i], &in[2 * i + 1], &bound));
        k = n;
    }
    in[2 * layers] = x;
    attr.count = layers;
    if (op != HYP_OP_fused_mlp) attr = attr_sym(acts[0]);
    return add(m, op, in, 2 * layers + 1, op == HYP_OP_linear ? NULL : &attr, bound, &out, 1);
}

/* Something to add to a linear of x: a value that could be its result (x itself, say), else a leaf. */
static hyp_status pick_added(maker *m, const hyp_type *x, hyp_value_id *out)
{
    for (int tries = 0; tries < 6; tries++) {
        hyp_value_id v;
        if (!pick_rows(m, x->rank, x->rank, &v)) break;
        const hyp_type *t = type_of(m, v);
        bool same = t->dtype == x->dtype;
        for (int32_t i = 0; i + 1 < x->rank; i++) same = same && t->dims[i] == x->dims[i];
        if (same) return *out = v, HYP_OK;
    }
    hyp_type leaf = *x;
    leaf.dims[leaf.rank - 1] = draw(m, 1, 6);
    return make_leaf(m, &leaf, 1, out);
}

static hyp_status make_linear_add(maker *m, hyp_op op)
{
    hyp_value_id x, in[4], out;
    double bound;
    if (!pick_rows(m, 1, 4, &x)) return HYP_OK;
    const hyp_type type = *type_of(m, x);
    HYP_TRY(pick_added(m, &type, &in[2]));
    int64_t n = type_of(m, in[2])->dims[type.rank - 1];
    HYP_TRY(make_layer(m, type.dtype, type.dims[type.rank - 1], n, m->known.data[x].bound, &in[0], &in[1], &bound));
    in[3] = x;
    const hyp_attr attrs[] = {attr_sym(draw_act(m)), attr_sym(chance(m, 50) ? "before" : "after")};
    return add(m, op, in, 4, attrs, bound + m->known.data[in[2]].bound, &out, 1);
}

/* b for a matmul with a: a vector, a matrix, or a batch that broadcasts with that of a. */
static hyp_type draw_right_side(maker *m, const hyp_type *a, hyp_dim k, bool transposed)
{
    hyp_type b = {.dtype = a->dtype};
    int kind = (int)draw(m, 0, 3);
    if (kind >= 2)
        for (int32_t i = 0; i + 2 < a->rank; i++) b.dims[b.rank++] = chance(m, 50) ? a->dims[i] : 1;
    if (kind == 3 && b.rank < 3) {
        memmove(b.dims + 1, b.dims, sizeof b.dims - sizeof *b.dims);
        b.dims[0] = 2;
        b.rank++;
    }
    if (kind == 0) return b.dims[b.rank++] = k, b;
    hyp_dim n = draw(m, 1, 5);
    b.dims[b.rank++] = transposed ? n : k;
    b.dims[b.rank++] = transposed ? k : n;
    return b;
}

static hyp_status make_matmul(maker *m, hyp_op op)
{
    static const double alphas[] = {1, 1, 0.5, -1.5};
    hyp_value_id in[2], out;
    if (!pick(m, FLOAT, 1, 4, &in[0])) return HYP_OK;
    const hyp_type a = *type_of(m, in[0]);
    bool trans_a = chance(m, 30), trans_b = chance(m, 40);
    hyp_dim k = a.dims[a.rank > 1 && trans_a ? a.rank - 2 : a.rank - 1];
    hyp_type b = draw_right_side(m, &a, k, trans_b);
    double alpha = alphas[draw(m, 0, 3)], terms = is_fixed(k) ? (double)k : 16;
    HYP_TRY(make_leaf(m, &b, 0.5, &in[1]));
    hyp_attr attrs[] = {attr_int(trans_a), attr_int(trans_b), attr_float(alpha)};
    return add(m, op, in, 2, attrs, m->known.data[in[0]].bound * m->known.data[in[1]].bound * terms * 1.5, &out, 1);
}

static hyp_status make_gemm(maker *m, hyp_op op)
{
    hyp_value_id in[3] = {0, 0, HYP_NO_VALUE}, out;
    if (!pick(m, FLOAT, 2, 2, &in[0])) return HYP_OK;
    const hyp_type a = *type_of(m, in[0]);
    bool trans_a = chance(m, 30), trans_b = chance(m, 50);
    hyp_dim rows = a.dims[trans_a ? 1 : 0], k = a.dims[trans_a ? 0 : 1], n = draw(m, 1, 5);
    hyp_type b = {a.dtype, 2, {trans_b ? n : k, trans_b ? k : n}};
    const hyp_type addends[] = {{a.dtype, 0, {0}},    {a.dtype, 1, {n}},       {a.dtype, 1, {1}},
                                {a.dtype, 2, {1, n}}, {a.dtype, 2, {rows, 1}}, {a.dtype, 2, {rows, n}}};
    HYP_TRY(make_leaf(m, &b, 0.5, &in[1]));
    if (chance(m, 75)) HYP_TRY(make_leaf(m, &addends[draw(m, 0, 5)], 1, &in[2]));
    hyp_attr attrs[] = {attr_int(trans_a), attr_int(trans_b), attr_float(chance(m, 50) ? 1 : 0.5),
                        attr_float(chance(m, 50) ? 1 : -2)};
    double bound = m->known.data[in[0]].bound * m->known.data[in[1]].bound * (is_fixed(k) ? (double)k : 16) + 4;
    return add(m, op, in, in[2] == HYP_NO_VALUE && chance(m, 50) ? 2 : 3, attrs, bound, &out, 1);
}

/* ---- elementwise ------------------------------------------------------------------------------------ */

/* A type that broadcasts to `t`: some leading axes gone, some axes 1. */
static hyp_type draw_narrower(maker *m, const hyp_type *t, bool fixed)
{
    hyp_type narrow = {.dtype = t->dtype};
    int32_t skip = t->rank > 0 && chance(m, 50) ? (int32_t)draw(m, 0, t->rank) : 0;
    for (int32_t i = skip; i < t->rank; i++)
        narrow.dims[narrow.rank++] = chance(m, 25) || (fixed && !is_fixed(t->dims[i])) ? 1 : t->dims[i];
    return narrow;
}

static bool broadcasts(const hyp_type *a, const hyp_type *b)
{
    for (int32_t i = 1; i <= a->rank && i <= b->rank; i++) {
        hyp_dim x = a->dims[a->rank - i], y = b->dims[b->rank - i];
        if (x != y && x != 1 && y != 1) return false;
    }
    return true;
}

/* sigmoid(x) + low: a value between low and low + 1. */
static hyp_status make_positive(maker *m, hyp_value_id x, double low, hyp_value_id *out)
{
    hyp_type scalar = {.dtype = type_of(m, x)->dtype};
    hyp_value_id in[2];
    unsigned char data[8];
    HYP_TRY(add_unary(m, HYP_OP_sigmoid, x, NULL, 1, &in[0]));
    hyp_store_f64(scalar.dtype, data, 0, low);
    HYP_TRY(hyp_graph_add_const(m->g, NULL, &scalar, data, hyp_dtype_size(scalar.dtype), true, &in[1], m->diag));
    HYP_TRY(note_value(m, in[1], low, true));
    return add(m, HYP_OP_add, in, 2, NULL, 1 + low, out, 1);
}

/* Keeps an integer inside [-8, 8], whatever wrapped before. */
static hyp_status make_small(maker *m, hyp_value_id x, hyp_value_id *out)
{
    hyp_attr bounds[] = {attr_float(-8), attr_float(8)};
    return add_unary(m, HYP_OP_clip, x, bounds, 8, out);
}

/* The second operand: another value of the type that broadcasts, or a new leaf. */
static hyp_status second_operand(maker *m, hyp_value_id x, hyp_value_id *out)
{
    const hyp_type type = *type_of(m, x);
    if (chance(m, 10)) return *out = x, HYP_OK;
    for (int tries = 0; tries < 8; tries++)
        if (pick(m, 0, 0, 4, out) && type_of(m, *out)->dtype == type.dtype && broadcasts(&type, type_of(m, *out)))
            return HYP_OK;
    hyp_type narrow = draw_narrower(m, &type, chance(m, 70));
    return make_leaf(m, &narrow, 1, out);
}

static hyp_status make_div(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    if (!pick(m, NUMBER, 0, 4, &in[0])) return HYP_OK;
    const hyp_type type = *type_of(m, in[0]);
    double bound = m->known.data[in[0]].bound * 4;
    if (is_float(m, in[0]) && chance(m, 40)) {
        HYP_TRY(second_operand(m, in[0], &in[1]));
        HYP_TRY(make_positive(m, in[1], 0.5, &in[1]));
    } else {
        hyp_type narrow = draw_narrower(m, &type, true);
        HYP_TRY(make_const(m, &narrow, 1, true, &in[1]));
    }
    return add(m, op, in, 2, NULL, bound, &out, 1);
}

static hyp_status make_pow(maker *m, hyp_op op)
{
    static const double exponents[] = {2, 0.5, 3, -1, 1};
    hyp_value_id in[2], out;
    unsigned char data[8];
    if (!pick(m, NUMBER, 0, 4, &in[0])) return HYP_OK;
    hyp_type scalar = {.dtype = is_float(m, in[0]) && chance(m, 80) ? type_of(m, in[0])->dtype : HYP_I64};
    HYP_TRY(is_float(m, in[0]) ? make_positive(m, in[0], 0.5, &in[0]) : make_small(m, in[0], &in[0]));
    hyp_store_f64(scalar.dtype, data, 0,
                  hyp_dtype_is_float(scalar.dtype) ? exponents[draw(m, 0, 4)] : (double)draw(m, 0, 2));
    HYP_TRY(hyp_graph_add_const(m->g, NULL, &scalar, data, hyp_dtype_size(scalar.dtype), true, &in[1], m->diag));
    HYP_TRY(note_value(m, in[1], 3, true));
    double bound = m->known.data[in[0]].bound;
    return add(m, op, in, 2, NULL, bound * bound * bound + 2, &out, 1);
}

static hyp_status make_binary(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    if (!pick(m, NUMBER, 0, 4, &in[0])) return HYP_OK;
    HYP_TRY(second_operand(m, in[0], &in[1]));
    if (chance(m, 30)) {
        hyp_value_id swap = in[0];
        in[0] = in[1];
        in[1] = swap;
    }
    double a = m->known.data[in[0]].bound, b = m->known.data[in[1]].bound;
    return add(m, op, in, 2, NULL, op == HYP_OP_mul ? a * b : a + b, &out, 1);
}

/* What the result of a function is bounded by, which takes values up to `bound`. */
static double bound_of(hyp_op op, double bound)
{
    switch (op) {
    case HYP_OP_sigmoid:
    case HYP_OP_tanh:
    case HYP_OP_erf:
    case HYP_OP_sign:
    case HYP_OP_sin:
    case HYP_OP_cos: return 1;
    case HYP_OP_exp:
    case HYP_OP_tan:
    case HYP_OP_sinh:
    case HYP_OP_cosh:
    case HYP_OP_atan:
    case HYP_OP_asin:
    case HYP_OP_acos:
    case HYP_OP_atanh:
    case HYP_OP_acosh: return 4;
    default: return bound + 1;
    }
}

static hyp_status make_unary(maker *m, hyp_op op)
{
    bool any_number = op == HYP_OP_relu || op == HYP_OP_clip || op == HYP_OP_abs || op == HYP_OP_neg;
    bool jumps = op == HYP_OP_sign || op == HYP_OP_ceil || op == HYP_OP_floor || op == HYP_OP_round;
    hyp_value_id x, out;
    hyp_attr attrs[2] = {attr_float(0.1), attr_float(INFINITY)};
    if (!pick(m, jumps ? FLOAT | EXACT : any_number ? NUMBER : FLOAT, 0, 4, &x)) return HYP_OK;
    double bound = bound_of(op, m->known.data[x].bound);
    switch (op) {
    case HYP_OP_exp:
    case HYP_OP_tan:
    case HYP_OP_sinh:
    case HYP_OP_cosh: HYP_TRY(add_unary(m, HYP_OP_tanh, x, NULL, 1, &x)); break;
    case HYP_OP_asin:
    case HYP_OP_acos:
    case HYP_OP_atanh: /* well inside [-1, 1] */
        HYP_TRY(add_unary(m, HYP_OP_sigmoid, x, NULL, 1, &x));
        HYP_TRY(add_unary(m, HYP_OP_sin, x, NULL, 1, &x));
        break;
    case HYP_OP_log:
    case HYP_OP_sqrt: HYP_TRY(make_positive(m, x, 0.25, &x)); break;
    case HYP_OP_acosh: HYP_TRY(make_positive(m, x, 1.5, &x)); break;
    case HYP_OP_elu: attrs[1].f = 1.5; break;
    case HYP_OP_clip:
        attrs[0].f = chance(m, 30) ? -INFINITY : -1;
        attrs[1].f = chance(m, 30) ? INFINITY : 2;
        break;
    default: break;
    }
    return add_unary(m, op, x, attrs, bound * (op == HYP_OP_elu ? 1.5 : 1), &out);
}

/* Of values that are the same however the graph is run, since their results jump. */
static hyp_status make_compare(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    if (!pick(m, NUMBER | EXACT, 0, 4, &in[0])) return HYP_OK;
    HYP_TRY(second_operand(m, in[0], &in[1]));
    if (is_float(m, in[1]) && !m->known.data[in[1]].exact) return HYP_OK;
    return add(m, op, in, 2, NULL, 1, &out, 1);
}

static hyp_status make_mod(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    hyp_attr fmod = attr_int(draw(m, 0, 1));
    if (!pick(m, NUMBER | EXACT, 0, 4, &in[0])) return HYP_OK;
    const hyp_type type = *type_of(m, in[0]);
    hyp_type narrow = draw_narrower(m, &type, true);
    HYP_TRY(make_const(m, &narrow, 1, true, &in[1]));
    return add(m, op, in, 2, &fmod, 4, &out, 1);
}

/* Of bools, or of integers. */
static hyp_status make_bits(maker *m, hyp_op op)
{
    bool shifts = op == HYP_OP_shift_left || op == HYP_OP_shift_right;
    hyp_value_id in[2], out;
    if (!pick(m, shifts || chance(m, 40) ? INTEGER : BOOL, 0, 4, &in[0])) return HYP_OK;
    HYP_TRY(second_operand(m, in[0], &in[1]));
    return add(m, op, in, op == HYP_OP_not ? 1 : 2, NULL, shifts ? 1e9 : 16, &out, 1);
}

static hyp_status make_where(maker *m, hyp_op op)
{
    hyp_value_id in[3], out;
    if (!pick(m, 0, 0, 4, &in[1])) return HYP_OK;
    const hyp_type type = *type_of(m, in[1]);
    hyp_type condition = draw_narrower(m, &type, chance(m, 70));
    condition.dtype = HYP_BOOL;
    bool found = pick(m, BOOL, 0, 4, &in[0]) && broadcasts(&type, type_of(m, in[0]));
    if (!found) HYP_TRY(make_leaf(m, &condition, 1, &in[0]));
    hyp_type other = draw_narrower(m, &type, chance(m, 70));
    HYP_TRY(make_leaf(m, &other, 1, &in[2]));
    if (!broadcasts(type_of(m, in[0]), &other)) return HYP_OK;
    return add(m, op, in, 3, NULL, m->known.data[in[1]].bound + 2, &out, 1);
}

static hyp_status make_cast(maker *m, hyp_op op)
{
    static const hyp_dtype integers[] = {HYP_U8, HYP_I8, HYP_U16, HYP_I16, HYP_I32, HYP_I64, HYP_U32, HYP_BOOL};
    hyp_value_id x, out;
    if (!pick(m, 0, 0, 4, &x)) return HYP_OK;
    bool wide = m->options->dtype != HYP_F64 && chance(m, 15);
    hyp_dtype to = wide ? (m->options->dtype == HYP_F32 ? HYP_F64 : HYP_F32) : m->options->dtype;
    if (chance(m, 40) && (!is_float(m, x) || m->known.data[x].exact)) to = integers[draw(m, 0, 7)];
    hyp_attr attr = attr_sym(hyp_dtype_name(to));
    bool exact = m->known.data[x].exact;
    if (hyp_dtype_is_float(to) && fits(m, x, INTEGER, 0, 4)) HYP_TRY(make_small(m, x, &x));
    HYP_TRY(add_unary(m, op, x, &attr, m->known.data[x].bound, &out));
    m->known.data[out].exact = exact;
    return HYP_OK;
}

/* ---- moving elements -------------------------------------------------------------------------------- */

static hyp_status make_view(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    if (!pick(m, 0, 0, 4, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    hyp_dim list[HYP_MAX_RANK];
    uint32_t count = 0;
    hyp_attr attr = attr_dims(list, 0);
    bool exact = m->known.data[x].exact;
    if (op == HYP_OP_flatten) {
        attr = attr_int(draw(m, -t.rank, t.rank));
    } else if (op == HYP_OP_squeeze) {
        for (int32_t i = 0; i < t.rank; i++)
            if (t.dims[i] == 1 && chance(m, 70)) list[count++] = chance(m, 30) ? i - t.rank : i;
    } else if (op == HYP_OP_unsqueeze) {
        list[count++] = draw(m, -t.rank - 1, t.rank);
    } else if (op == HYP_OP_reshape) {
        for (int32_t i = 0; i < t.rank; i++) { /* join some neighbours, put some ones in between */
            if (count > 0 && chance(m, 40))
                HYP_TRY(hyp_dim_mul(m->g->dims, list[count - 1], t.dims[i], &list[count - 1], m->diag));
            else
                list[count++] = t.dims[i];
            if (count < 4 && chance(m, 15)) list[count++] = 1;
        }
        if (count > 0 && count < 5 && is_fixed(list[count - 1]) && list[count - 1] > 0 && list[count - 1] % 2 == 0) {
            list[count] = list[count - 1] / 2;
            list[count++ - 1] = 2;
        }
    }
    if (attr.kind == HYP_ATTR_DIMS) attr.count = count;
    if (op == HYP_OP_dropout) attr = attr_float(chance(m, 50) ? 0.5 : 0);
    bool plain = op == HYP_OP_identity;
    HYP_TRY(add_unary(m, op, x, plain ? NULL : &attr, m->known.data[x].bound, &out));
    m->known.data[out].exact = exact;
    return HYP_OK;
}

static hyp_status make_expand(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    if (!pick(m, 0, 0, 3, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    hyp_dim shape[HYP_MAX_RANK];
    uint32_t count = 0;
    if (chance(m, 40)) shape[count++] = draw(m, 1, 3);
    for (int32_t i = 0; i < t.rank; i++) {
        shape[count] = t.dims[i];
        if (t.dims[i] == 1 && chance(m, 60)) shape[count] = m->options->symbolic && chance(m, 30) ? m->symbols[0] : 3;
        count++;
    }
    hyp_attr attr = attr_dims(shape, count);
    return add_unary(m, op, x, &attr, m->known.data[x].bound, &out);
}

static hyp_status make_transpose(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    if (!pick(m, 0, 0, 5, &x)) return HYP_OK;
    uint32_t rank = (uint32_t)type_of(m, x)->rank;
    hyp_dim perm[HYP_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    for (uint32_t i = rank; i > 1; i--) {
        int64_t j = draw(m, 0, i - 1);
        hyp_dim swap = perm[i - 1];
        perm[i - 1] = perm[j];
        perm[j] = swap;
    }
    hyp_attr attr = attr_dims(perm, rank);
    return add_unary(m, op, x, &attr, m->known.data[x].bound, &out);
}

static hyp_status make_slice(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    hyp_dim lists[3][HYP_MAX_RANK]; /* starts, sizes, steps */
    if (!pick(m, 0, 1, 4, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    for (int32_t i = 0; i < t.rank; i++) {
        int64_t step = chance(m, 30) ? draw(m, 1, 2) : 1, sign = chance(m, 30) ? -1 : 1;
        lists[0][i] = 0;
        lists[1][i] = t.dims[i];
        lists[2][i] = sign;
        if (!is_fixed(t.dims[i]) || chance(m, 40)) { /* all of it, forward or backward */
            if (sign < 0) HYP_TRY(hyp_dim_add(m->g->dims, t.dims[i], -1, &lists[0][i], m->diag));
            continue;
        }
        int64_t size = t.dims[i] ? draw(m, chance(m, 5) ? 0 : 1, (t.dims[i] - 1) / step + 1) : 0;
        int64_t room = size ? t.dims[i] - 1 - (size - 1) * step : 0, first = room > 0 ? draw(m, 0, room) : 0;
        lists[0][i] = sign > 0 || size == 0 ? first : first + (size - 1) * step;
        lists[1][i] = size;
        lists[2][i] = sign * step;
    }
    uint32_t rank = (uint32_t)t.rank;
    hyp_attr attrs[] = {attr_dims(lists[0], rank), attr_dims(lists[1], rank), attr_dims(lists[2], rank)};
    return add_unary(m, op, x, attrs, m->known.data[x].bound, &out);
}

static hyp_status make_split(maker *m, hyp_op op)
{
    hyp_value_id x, outs[3];
    hyp_dim sizes[3];
    if (!pick(m, 0, 1, 4, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    int32_t axis = (int32_t)draw(m, 0, t.rank - 1);
    if (!is_fixed(t.dims[axis])) return HYP_OK;
    uint32_t parts = (uint32_t)draw(m, 1, 3);
    int64_t left = t.dims[axis];
    for (uint32_t i = 0; i < parts; i++) {
        sizes[i] = i + 1 == parts ? left : draw(m, 0, left);
        left -= sizes[i];
    }
    hyp_attr attrs[] = {attr_int(chance(m, 30) ? axis - t.rank : axis), attr_dims(sizes, parts)};
    return add(m, op, &x, 1, attrs, m->known.data[x].bound, outs, parts);
}

static hyp_status make_concat(maker *m, hyp_op op)
{
    hyp_value_id in[3], out;
    if (!pick(m, 0, 1, 4, &in[0])) return HYP_OK;
    hyp_type t = *type_of(m, in[0]);
    int32_t axis = (int32_t)draw(m, 0, t.rank - 1);
    double bound = m->known.data[in[0]].bound;
    uint32_t count = (uint32_t)draw(m, 1, 3);
    for (uint32_t i = 1; i < count; i++) {
        hyp_type part = t;
        part.dims[axis] = draw(m, 1, 3);
        if (chance(m, 40))
            in[i] = in[0];
        else
            HYP_TRY(make_leaf(m, &part, 1, &in[i]));
        bound = fmax(bound, m->known.data[in[i]].bound);
    }
    hyp_attr attr = attr_int(chance(m, 30) ? axis - t.rank : axis);
    return add(m, op, in, count, &attr, bound, &out, 1);
}

static hyp_status make_pad(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    hyp_dim pads[2][HYP_MAX_RANK];
    if (!pick(m, 0, 0, 4, &in[0])) return HYP_OK;
    hyp_type t = *type_of(m, in[0]), scalar = {.dtype = t.dtype};
    for (int32_t i = 0; i < t.rank; i++)
        for (int side = 0; side < 2; side++) {
            pads[side][i] = chance(m, 50) ? 0 : draw(m, 1, 3);
            if (m->options->symbolic && chance(m, 10)) pads[side][i] = m->symbols[1];
        }
    HYP_TRY(make_leaf(m, &scalar, 1, &in[1]));
    hyp_attr attrs[] = {attr_dims(pads[0], (uint32_t)t.rank), attr_dims(pads[1], (uint32_t)t.rank)};
    return add(m, op, in, 2, attrs, fmax(m->known.data[in[0]].bound, m->known.data[in[1]].bound), &out, 1);
}

static hyp_status make_gather(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    if (!pick(m, 0, 1, 3, &in[0])) return HYP_OK;
    hyp_type t = *type_of(m, in[0]),
             indices = {.dtype = chance(m, 50) ? HYP_I64 : HYP_I32, .rank = (int32_t)draw(m, 0, 2)};
    int32_t axis = (int32_t)draw(m, 0, t.rank - 1);
    int64_t size = t.dims[axis];
    if (!is_fixed(size) || size == 0) return HYP_OK;
    for (int32_t i = 0; i < indices.rank; i++) indices.dims[i] = draw(m, 1, 3);
    if (chance(m, 30)) { /* indices that are known at run time only */
        hyp_attr bounds[] = {attr_float((double)-size), attr_float((double)(size - 1))};
        HYP_TRY(make_input(m, &indices, &in[1]));
        HYP_TRY(add_unary(m, HYP_OP_clip, in[1], bounds, 2, &in[1]));
    } else {
        unsigned char data[9 * 8];
        size_t count = 1;
        for (int32_t i = 0; i < indices.rank; i++) count *= (size_t)indices.dims[i];
        for (size_t i = 0; i < count; i++) hyp_store_i64(indices.dtype, data, i, draw(m, -size, size - 1));
        HYP_TRY(hyp_graph_add_const(m->g, NULL, &indices, data, count * hyp_dtype_size(indices.dtype), true, &in[1],
                                    m->diag));
        HYP_TRY(note_value(m, in[1], 2, true));
    }
    hyp_attr attr = attr_int(chance(m, 30) ? axis - t.rank : axis);
    return add(m, op, in, 2, &attr, m->known.data[in[0]].bound, &out, 1);
}

static hyp_status make_shape(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    if (!pick(m, 0, 0, 4, &x)) return HYP_OK;
    HYP_TRY(add_unary(m, op, x, NULL, 2, &out));
    m->known.data[out].exact = true;
    return HYP_OK;
}

/* ---- reductions ------------------------------------------------------------------------------------- */

static hyp_status make_softmax(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    if (!pick(m, FLOAT, 1, 4, &x)) return HYP_OK;
    int32_t rank = type_of(m, x)->rank;
    hyp_attr attr = attr_int(draw(m, -rank, rank - 1));
    return add_unary(m, op, x, &attr, 1, &out);
}

/* q is any value; k and v are leaves of as many heads or one, read through a transposition half of the time. */
static hyp_status make_attention(maker *m, hyp_op op)
{
    hyp_value_id in[4] = {0}, out;
    if (!pick(m, FLOAT, 2, 4, &in[0])) return HYP_OK;
    const hyp_type q = *type_of(m, in[0]);
    int32_t batch = q.rank - 2;
    bool trans_k = chance(m, 50);
    hyp_dim n = draw(m, 1, 20), width = q.dims[q.rank - 1], p = draw(m, 1, 18);
    for (uint32_t i = 1; i < 3; i++) {
        hyp_type t = {q.dtype, 0, {0}};
        for (int32_t a = 0; a < batch; a++) t.dims[t.rank++] = chance(m, 30) ? 1 : q.dims[a];
        t.dims[t.rank++] = i == 1 && !trans_k ? width : n;
        t.dims[t.rank++] = i == 2 ? p : trans_k ? width : n;
        bool moved = batch > 0 && chance(m, 50);
        if (moved) { /* [.. rows heads width], seen as [.. heads rows width] */
            hyp_dim heads = t.dims[batch - 1];
            t.dims[batch - 1] = t.dims[batch];
            t.dims[batch] = heads;
        }
        HYP_TRY(make_leaf(m, &t, 0.5, &in[i]));
        if (!moved) continue;
        hyp_dim perm[] = {0, 1, 2, 3};
        perm[batch - 1] = batch;
        perm[batch] = batch - 1;
        hyp_attr attr = attr_dims(perm, (uint32_t)q.rank);
        HYP_TRY(add_unary(m, HYP_OP_transpose, in[i], &attr, m->known.data[in[i]].bound, &in[i]));
    }
    in[3] = HYP_NO_VALUE;
    if (chance(m, 60)) {
        hyp_type mask = {chance(m, 50) ? HYP_BOOL : q.dtype, 0, {0}};
        for (int32_t a = (int32_t)draw(m, 0, q.rank - 1); a < q.rank; a++)
            mask.dims[mask.rank++] = chance(m, 40) ? 1 : a == q.rank - 1 ? n : q.dims[a];
        HYP_TRY(make_leaf(m, &mask, 1, &in[3]));
    }
    hyp_attr attrs[] = {attr_int(trans_k), attr_int(batch > 0 && chance(m, 40)), attr_float(chance(m, 50) ? 1 : -0.25),
                        attr_float(-4), attr_int(chance(m, 50)), attr_int(in[3] != HYP_NO_VALUE || chance(m, 70))};
    return add(m, op, in, in[3] == HYP_NO_VALUE && chance(m, 50) ? 3 : 4, attrs, m->known.data[in[2]].bound, &out, 1);
}

static hyp_status make_reduce(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    hyp_dim axes[HYP_MAX_RANK];
    uint32_t count = 0;
    if (!pick(m, NUMBER, 0, 4, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    double terms = 1;
    for (int32_t i = 0; i < t.rank; i++) {
        if (!chance(m, 50)) continue;
        axes[count++] = chance(m, 30) ? i - t.rank : i;
        terms *= is_fixed(t.dims[i]) ? (double)t.dims[i] : 8;
    }
    hyp_attr attrs[] = {attr_dims(axes, count), attr_int(draw(m, 0, 1))};
    double bound = m->known.data[x].bound * (op == HYP_OP_reduce_sum ? terms : 1);
    return add_unary(m, op, x, attrs, bound, &out);
}

/* ---- calls of kernels --------------------------------------------------------------------------------- */

static hyp_status make_cumsum(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    if (!pick(m, FLOAT, 1, 4, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    int64_t axis = draw(m, -t.rank, t.rank - 1);
    hyp_dim size = t.dims[axis < 0 ? axis + t.rank : axis];
    hyp_attr attrs[] = {attr_int(axis), attr_int(draw(m, 0, 1)), attr_int(draw(m, 0, 1))};
    return add_unary(m, op, x, attrs, m->known.data[x].bound * (is_fixed(size) ? (double)size : 8), &out);
}

static hyp_status make_resize(maker *m, hyp_op op)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"asymmetric", "half_pixel", "align_corners"};
    hyp_value_id x, out;
    if (!pick(m, FLOAT, 1, 4, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    for (int32_t i = t.rank > 2 && chance(m, 90) ? t.rank - 2 : 0; i < t.rank; i++)
        if (is_fixed(t.dims[i]) && t.dims[i] > 0 && chance(m, 80)) t.dims[i] = draw(m, 1, 7);
    hyp_attr attrs[] = {attr_dims(t.dims, (uint32_t)t.rank),
                        attr_sym(modes[draw(m, 0, 2)]),
                        attr_sym(coordinates[draw(m, 0, 2)]),
                        attr_sym("floor"),
                        attr_float(-0.75),
                        attr_int(draw(m, 0, 1)),
                        attr_int(0),
                        attr_float(0)};
    attrs[6].i = attrs[1].sym != modes[0] && chance(m, 30);
    return add_unary(m, op, x, attrs, 2 * m->known.data[x].bound, &out);
}

static hyp_status make_cumprod(maker *m, hyp_op op)
{
    hyp_value_id x, out;
    if (!pick(m, FLOAT, 1, 4, &x)) return HYP_OK;
    hyp_type t = *type_of(m, x);
    int64_t axis = draw(m, -t.rank, t.rank - 1);
    hyp_dim size = t.dims[axis < 0 ? axis + t.rank : axis];
    double bound = pow(fmax(m->known.data[x].bound, 1), is_fixed(size) ? (double)size : 8);
    if (bound > SMALL_BOUND) return HYP_OK;
    hyp_attr attrs[] = {attr_int(axis), attr_int(draw(m, 0, 1)), attr_int(draw(m, 0, 1))};
    return add_unary(m, op, x, attrs, bound, &out);
}

/* A floating-point value of which the axes from `first` on have fixed sizes, and elements. */
static bool pick_fixed(maker *m, int32_t low, int32_t high, int32_t first, hyp_value_id *out)
{
    for (int tries = 0; tries < 10; tries++) {
        if (!pick(m, FLOAT, low, high, out)) return false;
        const hyp_type *t = type_of(m, *out);
        bool fixed = true;
        for (int32_t i = first; i < t->rank; i++) fixed = fixed && is_fixed(t->dims[i]) && t->dims[i] > 0;
        if (fixed) return true;
    }
    return false;
}

/* Integers from `low` to `high`, in turn where they are to be distinct. */
static hyp_status make_indices(maker *m, const hyp_type *like, int64_t low, int64_t high, bool distinct, hyp_value_id *out)
{
    hyp_type t = *like;
    size_t count = 1;
    t.dtype = HYP_I64;
    for (int32_t i = 0; i < t.rank; i++) count *= (size_t)t.dims[i];
    int64_t *data = hyp_calloc(count, sizeof *data);
    if (!data) return hyp_fail_memory(m->diag, count * sizeof *data);
    for (size_t i = 0; i < count; i++) data[i] = distinct ? high - (int64_t)i : draw(m, low, high);
    hyp_status status = hyp_graph_add_const(m->g, NULL, &t, data, count * sizeof *data, true, out, m->diag);
    hyp_free(data);
    HYP_TRY(status);
    return note_value(m, *out, (double)high, true);
}

/* Places are exact, as those of mode nearest are far from each other. */
static hyp_status make_grid_sample(maker *m, hyp_op op)
{
    static const char *const modes[] = {"linear", "nearest", "cubic"}, *const paddings[] = {"zeros", "border", "reflection"};
    hyp_value_id in[2], out;
    if (!pick_fixed(m, 3, 4, 2, &in[0])) return HYP_OK;
    hyp_type t = *type_of(m, in[0]);
    for (int32_t i = 1; i + 1 < t.rank; i++) t.dims[i] = draw(m, 1, 3);
    t.dims[t.rank - 1] = t.rank - 2;
    HYP_TRY(make_leaf(m, &t, 1.4, &in[1]));
    const hyp_attr attrs[] = {attr_sym(modes[draw(m, 0, 2)]), attr_sym(paddings[draw(m, 0, 2)]), attr_int(draw(m, 0, 1))};
    return add(m, op, in, 2, attrs, 3 * m->known.data[in[0]].bound, &out, 1);
}

static hyp_status make_affine_grid(maker *m, hyp_op op)
{
    const hyp_dim size[] = {2, 1, draw(m, 1, 3), draw(m, 1, 4)};
    hyp_value_id theta, out;
    HYP_TRY(make_leaf(m, &(hyp_type){m->options->dtype, 3, {2, 2, 3}}, 0.5, &theta));
    const hyp_attr attrs[] = {attr_dims(size, 4), attr_int(draw(m, 0, 1))};
    return add_unary(m, op, theta, attrs, 3 * m->known.data[theta].bound, &out);
}

static hyp_status make_roi_align(maker *m, hyp_op op)
{
    hyp_value_id in[3], out;
    if (!pick_fixed(m, 4, 4, 0, &in[0])) return HYP_OK;
    const hyp_type x = *type_of(m, in[0]), one = {HYP_I64, 1, {2}};
    const hyp_dim bins[] = {draw(m, 1, 2), draw(m, 1, 3)};
    HYP_TRY(make_const(m, &(hyp_type){x.dtype, 2, {2, 4}}, 4, false, &in[1]));
    HYP_TRY(make_indices(m, &one, 0, x.dims[0] - 1, false, &in[2]));
    const hyp_attr attrs[] = {attr_sym(chance(m, 60) ? "avg" : "max"), attr_sym(chance(m, 50) ? "half_pixel" : "output_half_pixel"),
                              attr_dims(bins, 2), attr_int(draw(m, 0, 2)), attr_float(0.75)};
    return add(m, op, in, 3, attrs, m->known.data[in[0]].bound, &out, 1);
}

static hyp_status make_unpool(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    if (!pick_fixed(m, 3, 4, 0, &in[0])) return HYP_OK;
    hyp_type t = *type_of(m, in[0]);
    int64_t count = 1;
    hyp_dim sizes[HYP_MAX_RANK];
    for (int32_t i = 0; i < t.rank; i++) {
        count *= t.dims[i];
        sizes[i] = t.dims[i] + draw(m, 0, 2);
    }
    HYP_TRY(make_indices(m, &t, 0, count - 1, true, &in[1]));
    const hyp_attr attrs[] = {attr_dims(t.dims + 2, (uint32_t)t.rank - 2), attr_dims(sizes + 2, (uint32_t)t.rank - 2)};
    return add(m, op, in, 2, attrs, m->known.data[in[0]].bound, &out, 1);
}

static hyp_status make_cache(maker *m, hyp_op op)
{
    hyp_value_id in[3], out;
    if (!pick_fixed(m, 2, 4, 0, &in[0])) return HYP_OK;
    hyp_type t = *type_of(m, in[0]), batch = {HYP_I64, 1, {t.dims[0]}};
    int32_t axis = (int32_t)draw(m, 1, t.rank - 1);
    const int64_t size = t.dims[axis];
    bool circular = chance(m, 50);
    t.dims[axis] = draw(m, 1, size);
    HYP_TRY(make_leaf(m, &t, 1, &in[1]));
    HYP_TRY(make_indices(m, &batch, 0, circular ? size - 1 : size - t.dims[axis], false, &in[2]));
    const hyp_attr attrs[] = {attr_int(chance(m, 50) ? axis : axis - t.rank), attr_sym(circular ? "circular" : "linear")};
    double bound = fmax(m->known.data[in[0]].bound, m->known.data[in[1]].bound);
    return add(m, op, in, chance(m, 70) ? 3 : 2, attrs, bound, &out, 1);
}

static hyp_status make_one_hot(maker *m, hyp_op op)
{
    hyp_value_id in[2], out;
    const hyp_dim depth = draw(m, 1, 4);
    if (!pick(m, INTEGER, 0, 3, &in[0])) return HYP_OK;
    HYP_TRY(make_leaf(m, &(hyp_type){m->options->dtype, 1, {2}}, 1, &in[1]));
    const hyp_attr attrs[] = {attr_int(draw(m, 0, type_of(m, in[0])->rank)), attr_dims(&depth, 1)};
    return add(m, op, in, 2, attrs, m->known.data[in[1]].bound, &out, 1);
}

/* Of updates that are put there, one for a place. */
static hyp_status make_scatter(maker *m, hyp_op op)
{
    static const char *const reductions[] = {"none", "add", "mul", "min", "max"};
    hyp_value_id in[3], out;
    const int how = (int)draw(m, 0, 4);
    if (!pick_fixed(m, 1, 4, 0, &in[0])) return HYP_OK;
    hyp_type t = *type_of(m, in[0]);
    int32_t axis = (int32_t)draw(m, 0, t.rank - 1);
    const int64_t size = t.dims[axis];
    t.dims[axis] = how == 0 ? 1 : draw(m, 1, 3);
    HYP_TRY(make_indices(m, &t, -size, size - 1, false, &in[1]));
    HYP_TRY(make_leaf(m, &t, 1, &in[2]));
    double one = m->known.data[in[0]].bound, more = fmax(m->known.data[in[2]].bound, 1);
    const hyp_attr attrs[] = {attr_int(axis), attr_sym(reductions[how])};
    return add(m, op, in, 3, attrs, how == 2 ? one * more * more * more : one + 3 * more, &out, 1);
}

static hyp_status make_norm_stats(maker *m, hyp_op op)
{
    hyp_value_id in[2], outs[3];
    if (!pick_fixed(m, 1, 4, 0, &in[0])) return HYP_OK;
    const hyp_type t = *type_of(m, in[0]);
    HYP_TRY(make_leaf(m, &(hyp_type){t.dtype, 1, {t.dims[t.rank - 1]}}, 1, &in[1]));
    const hyp_attr attrs[] = {attr_int(-1), attr_float(0.5)};
    double bound = 2 * m->known.data[in[0]].bound * fmax(m->known.data[in[1]].bound, 1);
    return add(m, op, in, (uint32_t)draw(m, 1, 2), attrs, bound, outs, 3);
}

/* Interpreter and runtime share their kernels, so that not every one needs to be drawn: what is checked is the way
 * through the plan, what the CPU backend computes by itself, and gradients that are made of several operators. */
static hyp_status make_call(maker *m, hyp_op op)
{
    switch (op) {
    case HYP_OP_cumsum: return make_cumsum(m, op);
    case HYP_OP_cumprod: return make_cumprod(m, op);
    case HYP_OP_resize: return make_resize(m, op);
    case HYP_OP_grid_sample: return make_grid_sample(m, op);
    case HYP_OP_affine_grid: return make_affine_grid(m, op);
    case HYP_OP_roi_align: return make_roi_align(m, op);
    case HYP_OP_max_unpool: return make_unpool(m, op);
    case HYP_OP_tensor_scatter: return make_cache(m, op);
    case HYP_OP_one_hot: return make_one_hot(m, op);
    case HYP_OP_scatter_elements: return make_scatter(m, op);
    case HYP_OP_layer_norm_stats: return make_norm_stats(m, op);
    default: return HYP_OK;
    }
}

/* ---- the graph -------------------------------------------------------------------------------------- */

static hyp_status make_node(maker *m, hyp_op op)
{
    switch (op) {
    case HYP_OP_linear:
    case HYP_OP_fused_linear:
    case HYP_OP_fused_mlp: return make_linear(m, op);
    case HYP_OP_fused_linear_add: return make_linear_add(m, op);
    case HYP_OP_quantized_linear: return HYP_OK; /* what is near the middle of two bytes may become either */
    case HYP_OP_matmul: return make_matmul(m, op);
    case HYP_OP_gemm: return make_gemm(m, op);
    case HYP_OP_div: return make_div(m, op);
    case HYP_OP_pow: return make_pow(m, op);
    case HYP_OP_add:
    case HYP_OP_sub:
    case HYP_OP_mul:
    case HYP_OP_min:
    case HYP_OP_max: return make_binary(m, op);
    case HYP_OP_mod: return make_mod(m, op);
    case HYP_OP_equal:
    case HYP_OP_less:
    case HYP_OP_less_equal: return make_compare(m, op);
    case HYP_OP_and:
    case HYP_OP_or:
    case HYP_OP_xor:
    case HYP_OP_not:
    case HYP_OP_shift_left:
    case HYP_OP_shift_right: return make_bits(m, op);
    case HYP_OP_where: return make_where(m, op);
    case HYP_OP_cast: return make_cast(m, op);
    case HYP_OP_identity:
    case HYP_OP_dropout:
    case HYP_OP_reshape:
    case HYP_OP_flatten:
    case HYP_OP_squeeze:
    case HYP_OP_unsqueeze: return make_view(m, op);
    case HYP_OP_expand: return make_expand(m, op);
    case HYP_OP_transpose: return make_transpose(m, op);
    case HYP_OP_slice: return make_slice(m, op);
    case HYP_OP_split: return make_split(m, op);
    case HYP_OP_concat: return make_concat(m, op);
    case HYP_OP_gather: return make_gather(m, op);
    case HYP_OP_pad: return make_pad(m, op);
    case HYP_OP_size:
    case HYP_OP_shape: return make_shape(m, op);
    case HYP_OP_softmax: return make_softmax(m, op);
    case HYP_OP_attention: return make_attention(m, op);
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean: return make_reduce(m, op);
    default:
        if (hyp_op_get(op)->flags & HYP_OPF_CALL) return make_call(m, op);
        return make_unary(m, op);
    }
}

static hyp_status make_leaves(maker *m)
{
    hyp_dtype t = m->options->dtype;
    hyp_dim n = 3, k = 2;
    hyp_value_id v;
    if (m->options->symbolic) {
        HYP_TRY(hyp_dim_symbol(m->g->dims, "n", &n, m->diag));
        HYP_TRY(hyp_dim_symbol(m->g->dims, "m", &k, m->diag));
        m->symbols[0] = n;
        m->symbols[1] = k;
    }
    HYP_TRY(make_input(m, &(hyp_type){t, 2, {n, draw(m, 1, 6)}}, &v));
    HYP_TRY(make_input(m, &(hyp_type){t, 3, {k, draw(m, 1, 4), draw(m, 1, 5)}}, &v));
    if (m->options->symbolic || chance(m, 30)) HYP_TRY(make_input(m, &(hyp_type){t, 3, {n, k, 2}}, &v));
    if (chance(m, 50)) HYP_TRY(make_input(m, &(hyp_type){HYP_I64, 2, {n, 3}}, &v));
    if (chance(m, 20)) HYP_TRY(make_input(m, &(hyp_type){t, 4, {n, 2, k, 3}}, &v));
    if (chance(m, 20)) HYP_TRY(make_input(m, &(hyp_type){HYP_BOOL, 1, {4}}, &v));
    HYP_TRY(make_const(m, &(hyp_type){t, 2, {draw(m, 1, 4), draw(m, 1, 6)}}, 1, false, &v));
    return make_const(m, &(hyp_type){HYP_I32, 1, {3}}, 1, false, &v);
}

/* Every value that nothing reads, but for some that stay dead; now and then one that is read, twice. */
static hyp_status make_outputs(maker *m)
{
    char name[16];
    int outputs = 0;
    hyp_value_id last = (hyp_value_id)m->g->values.len - 1;
    for (hyp_value_id v = 0; v <= last; v++) {
        bool unread = !m->known.data[v].read && m->g->values.data[v].kind == HYP_VALUE_NODE;
        int times = unread ? !chance(m, 10) : chance(m, 6);
        if (v == last && outputs == 0) times = 1;
        times += times && chance(m, 5);
        for (; times > 0; times--) {
            snprintf(name, sizeof name, "y%d", outputs++);
            HYP_TRY(hyp_graph_add_output(m->g, name, v, m->diag));
        }
    }
    return HYP_OK;
}

static hyp_status make_graph(maker *m)
{
    HYP_TRY(make_leaves(m));
    size_t leaves = m->g->nodes.len;
    for (int i = 0, tries = 0; i < m->options->nodes && tries < 50 * m->options->nodes; tries++) {
        bool first = i == 0 && m->options->first_op >= 0 && tries < 40;
        hyp_op op = first ? (hyp_op)m->options->first_op : (hyp_op)draw(m, 0, HYP_RANDOM_OPS - 1);
        if (m->options->no_fused && (hyp_op_get(op)->flags & HYP_OPF_FUSED)) continue;
        size_t before = m->g->nodes.len;
        HYP_TRY(make_node(m, op));
        i += m->g->nodes.len > before;
    }
    if (m->g->nodes.len == leaves) HYP_TRY(make_node(m, HYP_OP_identity));
    return make_outputs(m);
}

hyp_status hyp_random_graph(const hyp_random_graph_options *options, hyp_dims *dims, hyp_graph *out, int *drawn,
                            hyp_diag *diag)
{
    maker m = {.options = options,
               .g = out,
               .random = {options->seed * 0x9e3779b97f4a7c15u + 1},
               .drawn = drawn,
               .diag = diag};
    hyp_graph_init(out, dims);
    out->name = "random";
    hyp_status status = make_graph(&m);
    hyp_vec_free(&m.known);
    if (status != HYP_OK) hyp_graph_dispose(out);
    return status;
}

/* ---- data ------------------------------------------------------------------------------------------- */

void hyp_random_bind(const hyp_dims *dims, int64_t n, int64_t m, int64_t *out)
{
    for (size_t i = 0; i < hyp_dims_symbol_count(dims); i++)
        out[i] = strcmp(hyp_dims_symbol_name(dims, i), "n") == 0 ? n : m;
}

hyp_status hyp_random_input(const hyp_graph *g, size_t input, const int64_t *symbols, hyp_random *r, hyp_tensor *out,
                            hyp_diag *diag)
{
    const hyp_value *value = &g->values.data[g->inputs.data[input]];
    hyp_tensor t = {.name = value->name, .dtype = value->type.dtype, .rank = value->type.rank};
    size_t count = 1;
    for (int32_t i = 0; i < t.rank; i++) {
        HYP_TRY(hyp_dim_eval(g->dims, value->type.dims[i], symbols, &t.dims[i], diag));
        count *= (size_t)t.dims[i];
    }
    t.bytes = count * hyp_dtype_size(t.dtype);
    t.data = hyp_malloc(t.bytes);
    if (!t.data) return hyp_fail_memory(diag, t.bytes);
    for (size_t i = 0; i < count; i++) hyp_store_f64(t.dtype, t.data, i, draw_element(r, t.dtype, 2));
    *out = t;
    return HYP_OK;
}
