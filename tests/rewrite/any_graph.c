#include "rewrite/any_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/values.h"

enum { NODES = 14, MAX_POOL = 64, MAX_ELEMENTS = 64 };

typedef struct maker {
    hyp_graph *g;
    term_random *random;
    hyp_dim batch;
    hyp_dtype real;
    bool steps;
    hyp_value_id pool[MAX_POOL];
    uint32_t count;
    hyp_diag diag; /* of attempts that do not fit, ignored */
} maker;

/* Where what is read moves by a bit these move by more: before them little may be rewritten. */
static bool is_step(hyp_op op) { return (hyp_op_get(op)->flags & (HYP_OPF_JUMP | HYP_OPF_EDGE)) || op == HYP_OP_cast; }

static uint32_t below(maker *m, uint32_t n) { return term_random_below(m->random, n); }

static hyp_dim random_dim(maker *m)
{
    static const hyp_dim sizes[] = {1, 2, 3, 2, 4};
    return below(m, 5) == 0 ? m->batch : sizes[below(m, 5)];
}

static void add_to_pool(maker *m, hyp_value_id id)
{
    if (m->count < MAX_POOL) m->pool[m->count++] = id;
}

static hyp_dtype random_integer(maker *m)
{
    static const hyp_dtype types[] = {HYP_I64, HYP_I32, HYP_U8, HYP_I8, HYP_BOOL};
    return types[below(m, 5)];
}

/* Data of a mood, infinities and NaN among them, or one number in all places. */
static hyp_value_id new_const(maker *m, const hyp_type *type, const double *number)
{
    unsigned char data[MAX_ELEMENTS * 8];
    size_t count = 1;
    hyp_value_id id;
    /* most rules leave alone what is not about normal */
    hyp_mood most = m->steps || below(m, 6) == 0 ? HYP_MOOD_COUNT : HYP_MOOD_STAMPS;
    hyp_mood mood = hyp_test_mood(most, term_random_next(m->random));
    for (int32_t i = 0; i < type->rank; i++) count *= (size_t)type->dims[i];
    assert_true(count <= MAX_ELEMENTS);
    for (size_t i = 0; i < count; i++) {
        double v = number ? *number : hyp_test_value(type->dtype, mood, term_random_next(m->random));
        if (hyp_dtype_is_float(type->dtype))
            hyp_store_f64(type->dtype, data, i, v);
        else
            hyp_store_i64(type->dtype, data, i, (int64_t)v);
    }
    assert_int_equal(
        hyp_graph_add_const(m->g, NULL, type, data, count * hyp_dtype_size(type->dtype), true, &id, &m->diag), HYP_OK);
    return id;
}

static hyp_value_id number_like(maker *m, hyp_value_id x, double number)
{
    return new_const(m, &(hyp_type){.dtype = m->g->values.data[x].type.dtype}, &number);
}

/* A constant of random shape, sometimes of one number that rules look for. */
static void add_const(maker *m)
{
    static const double numbers[] = {0, 1, 0.5, -2, -1, 2, 3};
    hyp_type type = {.dtype = below(m, 4) ? m->real : random_integer(m), .rank = (int32_t)below(m, 4)};
    bool same = below(m, 3) == 0;
    double number = numbers[below(m, 7)];
    for (int32_t i = 0; i < type.rank; i++) type.dims[i] = 1 + below(m, 4);
    add_to_pool(m, new_const(m, &type, same ? &number : NULL));
}

static const hyp_value *value(const maker *m, hyp_value_id id) { return &m->g->values.data[id]; }

/* A list that has a chance to fit an operator on x. */
static void random_list(maker *m, const char *name, const hyp_type *x, hyp_dim out[HYP_MAX_RANK], uint32_t *out_count)
{
    uint32_t rank = (uint32_t)x->rank;
    *out_count = rank;
    if (strcmp(name, "perm") == 0) {
        for (uint32_t i = 0; i < rank; i++) out[i] = i;
        for (uint32_t i = 1; i < rank; i++) {
            uint32_t k = below(m, i + 1);
            hyp_dim t = out[i];
            out[i] = out[k];
            out[k] = t;
        }
    } else if (strcmp(name, "shape") == 0) { /* the same axes, with a 1 put in or two of them joined */
        memcpy(out, x->dims, rank * sizeof *out);
        if (below(m, 2) && rank >= 2) {
            hyp_dim joined;
            if (hyp_dim_mul(m->g->dims, out[0], out[1], &joined, &m->diag) != HYP_OK) return;
            out[0] = joined;
            memmove(out + 1, out + 2, (rank - 2) * sizeof *out);
            *out_count = rank - 1;
        } else if (below(m, 2)) {
            out[rank] = 1;
            *out_count = rank + 1;
        }
    } else if (strcmp(name, "steps") == 0) {
        for (uint32_t i = 0; i < rank; i++) out[i] = 1;
    } else if (strcmp(name, "starts") == 0) {
        for (uint32_t i = 0; i < rank; i++) out[i] = 0;
    } else if (strcmp(name, "sizes") == 0) {
        memcpy(out, x->dims, rank * sizeof *out);
    } else { /* axes */
        *out_count = 1;
        out[0] = rank ? (hyp_dim)below(m, rank) : 0;
    }
}

static void random_attr(maker *m, hyp_op op, const hyp_attr_info *info, const hyp_type *x, hyp_attr *out)
{
    static const double floats[] = {0, 1, 0.5, -1, 2, INFINITY, -INFINITY};
    static const char *const acts[] = {"none", "relu", "gelu", "tanh"};
    *out = (hyp_attr){.kind = info->kind};
    switch (info->kind) {
    case HYP_ATTR_INT: out->i = (int64_t)below(m, 4) - 1; break;
    case HYP_ATTR_FLOAT: out->f = floats[below(m, op == HYP_OP_clip ? 7 : 5)]; break;
    case HYP_ATTR_SYM:
        out->sym = op == HYP_OP_cast ? hyp_dtype_name(below(m, 2) ? m->real : random_integer(m)) : acts[below(m, 4)];
        break;
    case HYP_ATTR_SYMS: {
        const char **list = hyp_arena_zalloc(&m->g->arena, 2, sizeof *list);
        assert_non_null(list);
        for (int i = 0; i < 2; i++) list[i] = acts[below(m, 4)];
        out->syms = list;
        out->count = 2;
        break;
    }
    case HYP_ATTR_DIMS: {
        hyp_dim *list = hyp_arena_zalloc(&m->g->arena, HYP_MAX_RANK + 1, sizeof *list);
        assert_non_null(list);
        random_list(m, info->name, x, list, &out->count);
        out->dims = list;
        break;
    }
    }
}

/* Weights and such that fit x exactly would be rare among random values: made to measure. */
static hyp_value_id fitting(maker *m, hyp_op op, uint32_t input, uint32_t inputs, const hyp_type *x)
{
    bool product = op == HYP_OP_linear || op == HYP_OP_fused_linear || op == HYP_OP_matmul || op == HYP_OP_gemm;
    hyp_type type = {.dtype = x->dtype, .rank = 2};
    hyp_dim k = x->rank ? x->dims[x->rank - 1] : 1;
    if (!product || x->rank == 0 || !hyp_dim_is_const(k) || k > 8) return HYP_NO_VALUE;
    bool linear = op == HYP_OP_linear || op == HYP_OP_fused_linear;
    bool bias = input == (linear ? 1 : 2) && inputs == 3;
    double zero = 0;
    type.dims[0] = linear ? 3 : k;
    type.dims[1] = linear ? k : 3;
    if (bias) type = (hyp_type){.dtype = x->dtype, .rank = 1, .dims = {3}};
    return new_const(m, &type, bias && below(m, 4) == 0 ? &zero : NULL);
}

static bool add_node(maker *m, hyp_op op)
{
    const hyp_op_info *info = hyp_op_get(op);
    hyp_attr attrs[HYP_MAX_ATTRS];
    hyp_value_id inputs[8], outs[8];
    uint32_t count = info->min_inputs, outputs = info->outputs == HYP_VARIADIC ? 1 : info->outputs;
    bool linear = op == HYP_OP_linear || op == HYP_OP_fused_linear;
    if (count < info->max_inputs && count < 3) count += below(m, 2);
    uint32_t main = linear ? 2 : 0; /* the input that attributes and weights are made for */
    inputs[main] = m->pool[below(m, m->count)];
    hyp_type x = value(m, inputs[main])->type;
    for (uint32_t i = 0; i < count; i++) {
        if (i == main) continue;
        inputs[i] = below(m, 4) ? fitting(m, op, i, count, &x) : HYP_NO_VALUE;
        if (inputs[i] == HYP_NO_VALUE) inputs[i] = m->pool[below(m, m->count)];
        if (linear && i == 1 && below(m, 3) == 0) inputs[i] = HYP_NO_VALUE;
    }
    for (uint32_t i = 0; i < info->attr_count; i++) random_attr(m, op, &info->attrs[i], &x, &attrs[i]);
    if (op == HYP_OP_split) { /* one axis in two */
        hyp_dim *sizes = hyp_arena_zalloc(&m->g->arena, 2, sizeof *sizes);
        int64_t axis = attrs[0].i < 0 ? attrs[0].i + x.rank : attrs[0].i;
        if (!sizes || axis < 0 || axis >= x.rank || !hyp_dim_is_const(x.dims[axis]) || x.dims[axis] < 2) return false;
        sizes[0] = 1;
        sizes[1] = x.dims[axis] - 1;
        attrs[1].dims = sizes;
        attrs[1].count = outputs = 2;
    }
    const char *source = info->name;
    hyp_provenance from = {.sources = &source, .source_count = 1};
    if (hyp_graph_add_node(m->g, op, inputs, count, attrs, &from, outs, outputs, &m->diag) != HYP_OK) return false;
    for (uint32_t i = 0; i < outputs; i++) add_to_pool(m, outs[i]);
    return true;
}

static bool apply(maker *m, hyp_op op, hyp_value_id a, hyp_value_id b, const hyp_attr *attrs, hyp_value_id *out)
{
    const hyp_value_id inputs[] = {a, b};
    const char *source = hyp_op_get(op)->name;
    hyp_provenance from = {.sources = &source, .source_count = 1};
    return hyp_graph_add_node(m->g, op, inputs, b == HYP_NO_VALUE ? 1 : 2, attrs, &from, out, 1, &m->diag) == HYP_OK;
}

static bool apply_number(maker *m, hyp_op op, hyp_value_id x, double number, hyp_value_id *out)
{
    return apply(m, op, x, number_like(m, x, number), NULL, out);
}

/* What exporters write that does nothing, or little: x + 0, x * -1 * -1, --x, max(x, 0). */
static bool add_identity(maker *m)
{
    static const struct {
        hyp_op op;
        double number;
    } list[] = {{HYP_OP_add, 0},  {HYP_OP_add, -0.0}, {HYP_OP_sub, 0}, {HYP_OP_mul, 1},   {HYP_OP_div, 1},
                {HYP_OP_pow, 1},  {HYP_OP_mul, 0},    {HYP_OP_max, 0}, {HYP_OP_min, 6},   {HYP_OP_pow, 2},
                {HYP_OP_mul, -1}, {HYP_OP_div, 4},    {HYP_OP_div, 3}, {HYP_OP_max, -0.0}};
    hyp_value_id x = m->pool[below(m, m->count)], y;
    size_t i = below(m, sizeof list / sizeof *list);
    bool made = below(m, 6) ? apply_number(m, list[i].op, x, list[i].number, &y)
                            : apply(m, HYP_OP_neg, x, HYP_NO_VALUE, NULL, &y) &&
                                  apply(m, HYP_OP_neg, y, HYP_NO_VALUE, NULL, &y);
    if (made && list[i].number == -1) made = apply_number(m, HYP_OP_mul, y, -1, &y);
    if (made) add_to_pool(m, y);
    return made;
}

/* A choice by a comparison with a number or with another value. */
static bool add_choice(maker *m)
{
    static const hyp_op compare[] = {HYP_OP_less, HYP_OP_less_equal, HYP_OP_equal};
    hyp_value_id x = m->pool[below(m, m->count)], y, which, out;
    bool other = below(m, 2);
    y = other ? m->pool[below(m, m->count)] : number_like(m, x, below(m, 2) ? 0 : 1);
    if (!apply(m, compare[below(m, 3)], x, y, NULL, &which)) return false;
    const hyp_value_id inputs[] = {which, below(m, 2) ? x : y, below(m, 2) ? y : x};
    const char *source = "where";
    hyp_provenance from = {.sources = &source, .source_count = 1};
    if (hyp_graph_add_node(m->g, HYP_OP_where, inputs, 3, NULL, &from, &out, 1, &m->diag) != HYP_OK) return false;
    add_to_pool(m, out);
    return true;
}

/* Quantized and back, as it is written out: (clip(round(x / s) + z) as a byte - z) s. */
static bool add_quantized(maker *m)
{
    const hyp_attr bounds[] = {{.kind = HYP_ATTR_FLOAT, .f = 0}, {.kind = HYP_ATTR_FLOAT, .f = 255}};
    hyp_value_id x = m->pool[below(m, m->count)], y;
    double scale = below(m, 2) ? 0.0625 : 0.1, zero = below(m, 2) ? 128 : 0;
    hyp_dtype t = value(m, x)->type.dtype;
    hyp_attr byte = {.kind = HYP_ATTR_SYM, .sym = "u8"}, back = {.kind = HYP_ATTR_SYM, .sym = hyp_dtype_name(t)};
    if (!hyp_dtype_is_float(t)) return false;
    bool made = apply_number(m, HYP_OP_div, x, scale, &y) && apply(m, HYP_OP_round, y, HYP_NO_VALUE, NULL, &y) &&
                apply_number(m, HYP_OP_add, y, zero, &y) && apply(m, HYP_OP_clip, y, HYP_NO_VALUE, bounds, &y) &&
                apply(m, HYP_OP_cast, y, HYP_NO_VALUE, &byte, &y) &&
                apply(m, HYP_OP_cast, y, HYP_NO_VALUE, &back, &y) && apply_number(m, HYP_OP_sub, y, zero, &y) &&
                apply_number(m, HYP_OP_mul, y, scale, &y);
    if (made) add_to_pool(m, y);
    return made;
}

static bool add_something(maker *m)
{
    switch (below(m, 12)) {
    case 0:
    case 1: return add_identity(m);
    case 2: return m->steps && add_choice(m);
    case 3: return m->steps && below(m, 2) && add_quantized(m);
    default: break;
    }
    /* Most of them are the first rows of the table, which most rules are about; few are calls of kernels. */
    hyp_op op = (hyp_op)below(m, below(m, 3) ? HYP_OP_relu + 1 : HYP_OP_COUNT);
    if (is_step(op) && !m->steps) return false;
    return (!(hyp_op_get(op)->flags & HYP_OPF_CALL) || below(m, 8) == 0) && add_node(m, op);
}

void any_graph_make(hyp_graph *g, hyp_dtype real, bool steps, term_random *random)
{
    static const char *const inputs[] = {"x0", "x1", "x2"}, *const outputs[] = {"y0", "y1", "y2"};
    maker m = {.g = g, .random = random, .real = real, .steps = steps};
    assert_int_equal(hyp_dim_symbol(g->dims, "batch", &m.batch, &m.diag), HYP_OK);
    for (int i = 0; i < ANY_INPUTS; i++) {
        hyp_type type = {.dtype = i < 2 ? real : random_integer(&m), .rank = 1 + (int32_t)below(&m, 3)};
        hyp_value_id id;
        for (int32_t k = 0; k < type.rank; k++) type.dims[k] = random_dim(&m);
        assert_int_equal(hyp_graph_add_input(g, inputs[i], &type, &id, &m.diag), HYP_OK);
        add_to_pool(&m, id);
    }
    for (int i = 0; i < 4; i++) add_const(&m);
    for (int i = 0, tries = 0; i < NODES && tries < 4000; tries++) i += add_something(&m);
    for (int i = 0; i < ANY_OUTPUTS; i++)
        assert_int_equal(hyp_graph_add_output(g, outputs[i], m.pool[m.count - 1 - below(&m, 6)], &m.diag), HYP_OK);
}
