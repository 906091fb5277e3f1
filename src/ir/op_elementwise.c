/* Elementwise operators: arithmetic with broadcasting, activations, conversion. */
#include <math.h>
#include <string.h>

#include "base/elementwise.h"
#include "ir/op.h"
#include "kernels/scalar.h"

/* ---- inference -------------------------------------------------------------------------------------- */

/* Of symbolic dims; numbers are computed like any others (infer.c). */
static hyp_status infer_negated(const hyp_infer_call *c)
{
    const hyp_infer_value *x = c->in[0];
    if (!x->content || hyp_content_count(&x->type) < 0 || x->type.dtype != HYP_I64) return HYP_OK;
    hyp_dim *content = hyp_arena_zalloc(c->arena, x->content_count, sizeof *content);
    if (!content) return hyp_fail_memory(c->diag, x->content_count * sizeof *content);
    for (uint32_t i = 0; i < x->content_count; i++) {
        hyp_status status = hyp_dim_sub(c->dims, 0, x->content[i], &content[i], NULL);
        if (status == HYP_ERR_NO_MEMORY) return hyp_fail_memory(c->diag, 0);
        if (status != HYP_OK) return HYP_OK;
    }
    c->out[0].content = content;
    c->out[0].content_count = x->content_count;
    return HYP_OK;
}

/* Whether a bound makes every number one that an integer type does not have. */
static bool misses_type(hyp_dtype t, double min, double max)
{
    int64_t stored = 0;
    if (hyp_dtype_is_float(t)) return false;
    hyp_store_i64(t, &stored, 0, -1);
    bool is_unsigned = hyp_load_f64(t, &stored, 0) > 0;
    double beyond = ldexp(1, (int)(8 * hyp_dtype_size(t)) - !is_unsigned);
    return floor(max) < (is_unsigned ? 0 : -beyond) || ceil(min) >= beyond;
}

hyp_status hyp_infer_unary(const hyp_infer_call *c)
{
    c->out[0].type = c->in[0]->type;
    if (c->op == HYP_OP_clip && (isnan(c->attrs[0].f) || isnan(c->attrs[1].f)))
        return hyp_infer_fail(c, "a bound is NaN; leave it out where there is none");
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    if (c->op == HYP_OP_clip && misses_type(c->in[0]->type.dtype, c->attrs[0].f, c->attrs[1].f))
        return hyp_infer_fail(c, "no number of type %s lies within %g .. %g", hyp_dtype_name(c->in[0]->type.dtype),
                              c->attrs[0].f, c->attrs[1].f);
    return c->op == HYP_OP_neg ? infer_negated(c) : HYP_OK;
}

hyp_status hyp_infer_unary_float(const hyp_infer_call *c)
{
    c->out[0].type = c->in[0]->type;
    return hyp_check_dtype(c, HYP_CLASS_FLOAT);
}

/* True when a >= b + more for every value of the symbols; false when unknown. */
static bool is_above(const hyp_infer_call *c, hyp_dim a, hyp_dim b, hyp_dim more)
{
    hyp_dim d;
    return hyp_dim_sub(c->dims, a, b, &d, NULL) == HYP_OK && hyp_dim_sub(c->dims, d, more, &d, NULL) == HYP_OK &&
           hyp_dim_is_nonneg(c->dims, d);
}

/* HYP_ERR_LIMIT when it depends on the symbols. */
static hyp_status compare_dims(const hyp_infer_call *c, hyp_dim a, hyp_dim b, hyp_dim *out)
{
    bool yes, no;
    if (c->op == HYP_OP_equal) {
        yes = a == b;
        no = is_above(c, a, b, 1) || is_above(c, b, a, 1);
    } else {
        hyp_dim more = c->op == HYP_OP_less;
        yes = is_above(c, b, a, more);
        no = is_above(c, a, b, !more);
    }
    *out = yes;
    return yes || no ? HYP_OK : HYP_ERR_LIMIT;
}

/* One element of a result's content. HYP_ERR_LIMIT: it cannot be told. */
static hyp_status combine_contents(const hyp_infer_call *c, hyp_dim a, hyp_dim b, hyp_dim *out)
{
    const hyp_status unknown = HYP_ERR_LIMIT;
    switch (c->op) {
    case HYP_OP_add: return hyp_dim_add(c->dims, a, b, out, NULL);
    case HYP_OP_sub: return hyp_dim_sub(c->dims, a, b, out, NULL);
    case HYP_OP_mul: return hyp_dim_mul(c->dims, a, b, out, NULL);
    case HYP_OP_min: return hyp_dim_min(c->dims, a, b, out, NULL);
    case HYP_OP_max: return hyp_dim_max(c->dims, a, b, out, NULL);
    case HYP_OP_div: /* truncation is the floor only where nothing is negative */
        if (b == 0) return unknown;
        if (hyp_dim_is_const(a) && hyp_dim_is_const(b)) return *out = a / b, HYP_OK;
        if (!hyp_dim_is_nonneg(c->dims, a) || !hyp_dim_is_nonneg(c->dims, b)) return unknown;
        return hyp_dim_floordiv(c->dims, a, b, out, NULL);
    case HYP_OP_mod: /* where nothing is negative, both remainders are the same */
        if (!hyp_dim_is_const(b) || b <= 0 || !hyp_dim_is_nonneg(c->dims, a)) return unknown;
        HYP_TRY(hyp_dim_floordiv(c->dims, a, b, out, NULL));
        HYP_TRY(hyp_dim_mul(c->dims, *out, b, out, NULL));
        return hyp_dim_sub(c->dims, a, *out, out, NULL);
    case HYP_OP_equal:
    case HYP_OP_less:
    case HYP_OP_less_equal: return compare_dims(c, a, b, out);
    default: return unknown;
    }
}

hyp_status hyp_infer_pair_content(const hyp_infer_call *c)
{
    const hyp_infer_value *a = c->in[0], *b = c->in[1];
    hyp_infer_value *out = &c->out[0];
    int64_t count = hyp_content_count(&out->type), k = 0;
    if (!a->content || !b->content || count < 0) return HYP_OK;
    hyp_dim *content = hyp_arena_zalloc(c->arena, (size_t)count, sizeof *content);
    if (!content) return hyp_fail_memory(c->diag, (size_t)count * sizeof *content);
    hyp_walk w = {.rank = out->type.rank};
    memcpy(w.dims, out->type.dims, sizeof w.dims);
    hyp_walk_broadcast(&w, 1, a->type.rank, a->type.dims);
    hyp_walk_broadcast(&w, 2, b->type.rank, b->type.dims);
    for (hyp_walk_start(&w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++, k++) {
            hyp_dim x = a->content[w.at[1] + i * w.step[1]], y = b->content[w.at[2] + i * w.step[2]];
            hyp_status status = combine_contents(c, x, y, &content[k]);
            if (status == HYP_ERR_NO_MEMORY) return hyp_fail_memory(c->diag, 0);
            if (status != HYP_OK) return HYP_OK;
            if (hyp_dim_is_const(content[k]) && hyp_wrap_i64(out->type.dtype, content[k]) != content[k]) return HYP_OK;
        }
    out->content = content;
    out->content_count = (uint32_t)count;
    return HYP_OK;
}

hyp_status hyp_infer_binary(const hyp_infer_call *c)
{
    c->out[0].type.dtype = c->in[0]->type.dtype;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(hyp_broadcast(c, &c->in[0]->type, &c->in[1]->type, &c->out[0].type));
    return hyp_infer_pair_content(c);
}

hyp_status hyp_infer_pow(const hyp_infer_call *c)
{
    c->out[0].type.dtype = c->in[0]->type.dtype;
    if (c->in[0]->type.dtype == HYP_BOOL || c->in[1]->type.dtype == HYP_BOOL)
        return hyp_infer_fail(c, "powers of bool are not defined; cast first");
    return hyp_broadcast(c, &c->in[0]->type, &c->in[1]->type, &c->out[0].type);
}

hyp_status hyp_infer_cast(const hyp_infer_call *c)
{
    const hyp_infer_value *x = c->in[0];
    hyp_dtype to = hyp_dtype_parse(c->attrs[0].sym);
    if (to == HYP_DTYPE_NONE) return hyp_infer_fail(c, "no element type is called '%s'", c->attrs[0].sym);
    c->out[0].type = x->type;
    c->out[0].type.dtype = to;
    if (!x->content || hyp_content_count(&c->out[0].type) < 0) return HYP_OK;
    for (uint32_t i = 0; i < x->content_count; i++) {
        bool fits = hyp_dim_is_const(x->content[i]) ? hyp_wrap_i64(to, x->content[i]) == x->content[i]
                                                    : to == HYP_I64 || to == HYP_I32;
        if (!fits) return HYP_OK;
    }
    c->out[0].content = x->content;
    c->out[0].content_count = x->content_count;
    return HYP_OK;
}

/* ---- arithmetic ------------------------------------------------------------------------------------- */

/* NaN wins on either side. */
static double min_f64(double a, double b) { return isnan(a) || a < b ? a : b; }

static double max_f64(double a, double b) { return isnan(a) || a > b ? a : b; }

#define ROW(expression)                                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        double x = a[i * sa], y = b[i * sb];                                                                           \
        out[i] = (expression);                                                                                         \
    }                                                                                                                  \
    break;

static void binary_row_f64(const hyp_eval_call *c, double *out, const double *a, int64_t sa, const double *b,
                           int64_t sb, int64_t n)
{
    switch (c->op) {
    case HYP_OP_add: ROW(x + y)
    case HYP_OP_sub: ROW(x - y)
    case HYP_OP_mul: ROW(x * y)
    case HYP_OP_div: ROW(x / y)
    case HYP_OP_mod: ROW(hyp_mod_f64(x, y, c->attrs[0].i != 0))
    case HYP_OP_pow: ROW(hyp_pow_f64(x, y))
    case HYP_OP_min: ROW(min_f64(x, y))
    case HYP_OP_max: ROW(max_f64(x, y))
    default: break;
    }
}

/* y != 0 for div and mod. Signed operands wrap modulo 2^64. */
static int64_t binary_i64(const hyp_eval_call *c, hyp_dtype t, int64_t x, int64_t y)
{
    uint64_t u = (uint64_t)x, v = (uint64_t)y;
    bool is_u64 = t == HYP_U64, less = hyp_less_i64(x, y, is_u64);
    switch (c->op) {
    case HYP_OP_add: return (int64_t)(u + v);
    case HYP_OP_sub: return (int64_t)(u - v);
    case HYP_OP_mul: return (int64_t)(u * v);
    case HYP_OP_div: return hyp_div_i64(x, y, is_u64);
    case HYP_OP_mod: return hyp_mod_i64(x, y, c->attrs[0].i != 0, is_u64);
    case HYP_OP_min: return less ? x : y;
    case HYP_OP_max: return less ? y : x;
    case HYP_OP_and: return x & y;
    case HYP_OP_or: return x | y;
    case HYP_OP_xor: return x ^ y;
    case HYP_OP_shift_left: return hyp_shift_i64(x, y, true, is_u64);
    case HYP_OP_shift_right: return hyp_shift_i64(x, y, false, is_u64);
    default: return hyp_pow_i64(x, y, c->in[1]->dtype == HYP_U64);
    }
}

/* An integer element as a double. */
static double to_f64(hyp_dtype t, int64_t v) { return t == HYP_U64 ? (double)(uint64_t)v : (double)v; }

/* A double as an integer: truncated, saturated at 64 bits, NaN is 0. */
static int64_t to_i64(hyp_dtype t, double v)
{
    uint64_t u;
    if (t != HYP_U64) return hyp_load_i64(HYP_F64, &v, 0);
    hyp_store_f64(HYP_U64, &u, 0, v);
    return (int64_t)u;
}

/* pow where base and exponent are of different kinds. */
static void mixed_pow_row(const hyp_eval_call *c, const hyp_walk *w)
{
    const hyp_eval_tensor *a = c->in[0], *b = c->in[1];
    for (int64_t i = 0; i < w->row; i++) {
        int64_t at = w->at[1] + i * w->step[1], bt = w->at[2] + i * w->step[2], to = w->at[0] + i;
        double result = hyp_pow_f64(a->f ? a->f[at] : to_f64(a->dtype, a->i[at]), b->f ? b->f[bt] : to_f64(b->dtype, b->i[bt]));
        if (a->f)
            c->out[0].f[to] = result;
        else
            c->out[0].i[to] = to_i64(a->dtype, result);
    }
}

void hyp_eval_walk(const hyp_eval_tensor *out, const hyp_eval_tensor *a, const hyp_eval_tensor *b, hyp_walk *w)
{
    *w = (hyp_walk){.rank = out->rank};
    memcpy(w->dims, out->dims, sizeof w->dims);
    hyp_strides(w->rank, w->dims, w->stride[0]);
    hyp_walk_broadcast(w, 1, a->rank, a->dims);
    hyp_walk_broadcast(w, 2, b->rank, b->dims);
    hyp_walk_start(w);
}

hyp_status hyp_eval_binary(const hyp_eval_call *c)
{
    const hyp_eval_tensor *a = c->in[0], *b = c->in[1], *out = &c->out[0];
    hyp_walk w;
    for (hyp_eval_walk(out, a, b, &w); w.row >= 0; hyp_walk_next(&w)) {
        if (a->f && b->f) {
            binary_row_f64(c, out->f + w.at[0], a->f + w.at[1], w.step[1], b->f + w.at[2], w.step[2], w.row);
            continue;
        }
        if (a->f || b->f) {
            mixed_pow_row(c, &w);
            continue;
        }
        for (int64_t i = 0; i < w.row; i++) {
            int64_t y = b->i[w.at[2] + i * w.step[2]];
            if ((c->op == HYP_OP_div || c->op == HYP_OP_mod) && y == 0)
                return hyp_fail(c->diag, HYP_ERR_INVALID_ARGUMENT, "%s: an integer is divided by zero",
                                hyp_op_get(c->op)->name);
            out->i[w.at[0] + i] = binary_i64(c, a->dtype, a->i[w.at[1] + i * w.step[1]], y);
        }
    }
    return HYP_OK;
}

/* ---- functions of one value ------------------------------------------------------------------------- */

int hyp_activation_find(const char *name, hyp_op *out)
{
#define X(op, name, OP, number, act, ...) {name, HYP_OP_##op},
    static const struct {
        const char *name;
        hyp_op op;
    } known[] = {{"none", HYP_OP_identity}, HYP_ACTIVATIONS(X)};
#undef X
    *out = HYP_OP_identity;
    for (int i = 0; i < (int)(sizeof known / sizeof *known); i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        *out = known[i].op;
        return i;
    }
    return -1;
}

/* What integers have, too. */
bool hyp_conv_activation_find(const char *name, hyp_op *out)
{
#define X(op, name, ...) {name, HYP_OP_##op},
    static const struct {
        const char *name;
        hyp_op op;
    } known[] = {
        {"none", HYP_OP_identity}, {"relu6", HYP_OP_clip}, {"leaky-relu", HYP_OP_leaky_relu}, HYP_CONV_ACTIVATIONS(X)};
#undef X
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        *out = known[i].op;
        return true;
    }
    return false;
}

static double plain_f64(hyp_op op, double x, double p, double q)
{
    switch (op) {
    case HYP_OP_abs: return fabs(x);
    case HYP_OP_neg: return -x;
    case HYP_OP_sign: return hyp_sign_f64(x);
    case HYP_OP_clip: x = x < p ? p : x; return x > q ? q : x;
    default: return x;
    }
}

/* By its number in base/elementwise.h; -1 where it is not one of the functions there. */
static int function_of(hyp_op op)
{
    switch (op) {
#define X(op, name, OP, ...)                                                                                           \
    case HYP_OP_##op: return HYP_PW_##OP;
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
    default: return -1;
    }
}

void hyp_eval_unary_f64(hyp_op op, const hyp_attr *attrs, const double *x, double *out, size_t count)
{
    uint32_t given = attrs ? hyp_op_get(op)->attr_count : 0;
    double p = given > 0 ? attrs[0].f : 0, q = given > 1 ? attrs[1].f : 0;
    int function = function_of(op);
    for (size_t i = 0; i < count; i++)
        out[i] = function >= 0 ? hyp_function_f64(function, x[i], p, q) : plain_f64(op, x[i], p, q);
}

static int64_t clamp_i64(int64_t x, int64_t low, int64_t high, bool is_u64)
{
    if (hyp_less_i64(x, low, is_u64)) x = low;
    return hyp_less_i64(high, x, is_u64) ? high : x;
}

/* The functions that integers have. */
static void unary_i64(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0];
    bool is_u64 = x->dtype == HYP_U64, clips = c->op == HYP_OP_clip;
    int64_t low = clips ? hyp_clip_bound_i64(c->attrs[0].f, true, is_u64) : 0;
    int64_t high = clips ? hyp_clip_bound_i64(c->attrs[1].f, false, is_u64) : 0;
    for (size_t i = 0; i < x->count; i++) {
        int64_t v = x->i[i], negated = (int64_t)(0 - (uint64_t)v);
        bool positive = v > 0 || is_u64;
        switch (c->op) {
        case HYP_OP_abs: v = positive ? v : negated; break;
        case HYP_OP_neg: v = negated; break;
        case HYP_OP_sign: v = hyp_sign_i64(v, is_u64); break;
        case HYP_OP_clip: v = clamp_i64(v, low, high, is_u64); break;
        default: v = positive ? v : 0; /* relu */
        }
        c->out[0].i[i] = v;
    }
}

hyp_status hyp_eval_unary(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0], *out = &c->out[0];
    if (!x->f) return unary_i64(c), HYP_OK;
    hyp_eval_unary_f64(c->op, c->attrs, x->f, out->f, x->count);
    return HYP_OK;
}

hyp_status hyp_eval_cast(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0], *out = &c->out[0];
    bool to_bool = out->dtype == HYP_BOOL;
    for (size_t i = 0; i < x->count; i++) {
        if (x->f && out->f)
            out->f[i] = x->f[i];
        else if (x->f)
            out->i[i] = to_bool ? x->f[i] != 0 : to_i64(out->dtype, x->f[i]);
        else if (out->f)
            out->f[i] = to_f64(x->dtype, x->i[i]);
        else
            out->i[i] = to_bool ? x->i[i] != 0 : x->i[i]; /* narrowed by the rounding of every result */
    }
    return HYP_OK;
}
