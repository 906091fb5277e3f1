/* Matrix products. A fused operator gives what its parts give one after the other: in HYP_EVAL_NATIVE each
 * linear and each activation is rounded as if it were a node of its own. */
#include <float.h>
#include <string.h>

#include "base/elementwise.h"
#include "ir/op.h"
#include "kernels/product.h"

/* ---- inference -------------------------------------------------------------------------------------- */

static hyp_status check_activation(const hyp_infer_call *c, const char *name)
{
    hyp_op act;
    if (hyp_activation_find(name, &act) < 0)
        return hyp_infer_fail(c, "no activation is called '%s'; known are none" HYP_ACTIVATION_NAMES, name);
    if (act != HYP_OP_identity && act != HYP_OP_relu && !hyp_dtype_is_float(c->in[0]->type.dtype))
        return hyp_infer_fail(c, "the activation %s wants a floating-point type", name);
    return HYP_OK;
}

/* One layer on x, in place: the last dim of *x becomes N. `b` is the index of the bias, the weight precedes it. */
static hyp_status infer_layer(const hyp_infer_call *c, uint32_t b, hyp_type *x)
{
    const hyp_infer_value *w = hyp_infer_input(c, b - 1), *bias = hyp_infer_input(c, b);
    if (!w) return hyp_infer_fail(c, "input %u, a weight, is absent", b - 1);
    if (w->type.rank != 2)
        return hyp_infer_fail(c, "the weight is %s, a matrix [N K] is wanted", hyp_infer_type_text(c, &w->type));
    if (x->rank < 1) return hyp_infer_fail(c, "x is a scalar, at least one axis is wanted");
    if (x->dims[x->rank - 1] != w->type.dims[1])
        return hyp_infer_fail(c, "the last axis of x %s and K of the weight %s differ", hyp_infer_type_text(c, x),
                              hyp_infer_type_text(c, &w->type));
    if (bias && (bias->type.rank != 1 || bias->type.dims[0] != w->type.dims[0]))
        return hyp_infer_fail(c, "the bias is %s, a vector of the weight's N = %s is wanted",
                              hyp_infer_type_text(c, &bias->type), hyp_infer_dim_text(c, w->type.dims[0]));
    x->dims[x->rank - 1] = w->type.dims[0];
    return HYP_OK;
}

hyp_status hyp_infer_linear(const hyp_infer_call *c)
{
    const hyp_infer_value *x = hyp_infer_input(c, 2);
    if (!x) return hyp_infer_fail(c, "input 2, x, is absent");
    hyp_type t = x->type;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(infer_layer(c, 1, &t));
    if (c->op == HYP_OP_fused_linear) HYP_TRY(check_activation(c, c->attrs[0].sym));
    c->out[0].type = t;
    return HYP_OK;
}

/* What is added is of the result's own type: with a broadcast it would be no operand of a product's kernel. */
hyp_status hyp_infer_linear_add(const hyp_infer_call *c)
{
    static const char *const places[] = {"before", "after", NULL};
    const hyp_infer_value *added = hyp_infer_input(c, 2), *x = hyp_infer_input(c, 3);
    if (!added || !x) return hyp_infer_fail(c, "input %d, %s, is absent", x ? 2 : 3, x ? "what is added" : "x");
    hyp_type t = x->type;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(infer_layer(c, 1, &t));
    HYP_TRY(check_activation(c, c->attrs[0].sym));
    HYP_TRY(hyp_check_sym(c, 1, places));
    if (!hyp_type_equal(&added->type, &t))
        return hyp_infer_fail(c, "what is added is %s, the result %s is wanted", hyp_infer_type_text(c, &added->type),
                              hyp_infer_type_text(c, &t));
    c->out[0].type = t;
    return HYP_OK;
}

/* The gradients by a weight and by a bias. */
hyp_status hyp_infer_linear_gradient(const hyp_infer_call *c)
{
    const hyp_type *g = &c->in[0]->type, *x = &c->in[1]->type;
    bool turned = c->attrs[0].i != 0;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_FLOAT));
    if (g->rank != 2 || x->rank != 2 || g->dims[0] != x->dims[0])
        return hyp_infer_fail(c, "g and x are %s and %s, matrices with as many rows are wanted", hyp_infer_type_text(c, g),
                              hyp_infer_type_text(c, x));
    c->out[0].type = (hyp_type){.dtype = g->dtype, .rank = 2, .dims = {g->dims[1], x->dims[1]}};
    if (turned) c->out[0].type.dims[0] = x->dims[1], c->out[0].type.dims[1] = g->dims[1];
    c->out[1].type = (hyp_type){.dtype = g->dtype, .rank = 1, .dims = {g->dims[1]}};
    return HYP_OK;
}

/* Both matrices are stored in 8 bits and everything else in the type `to`. */
hyp_status hyp_infer_quantized_linear(const hyp_infer_call *c)
{
    static const char *const places[] = {"before", "after", NULL};
    const hyp_infer_value *w = hyp_infer_input(c, 0), *x = hyp_infer_input(c, 3);
    hyp_dtype to = hyp_dtype_parse(c->attrs[4].sym);
    if (!w || !x) return hyp_infer_fail(c, "%s is absent", w ? "x" : "the weight");
    if (w->type.dtype != HYP_F8E4M3 || x->type.dtype != HYP_F8E4M3)
        return hyp_infer_fail(c, "the weight is %s and x %s, f8e4m3 is wanted", hyp_infer_type_text(c, &w->type),
                              hyp_infer_type_text(c, &x->type));
    if (!hyp_dtype_is_float(to)) return hyp_infer_fail(c, "'%s' is no floating-point type", c->attrs[4].sym);
    for (int i = 0; i < 2; i++)
        if (!(c->attrs[i].f > 0 && c->attrs[i].f <= FLT_MAX))
            return hyp_infer_fail(c, "a scale is %g, a positive number is wanted", c->attrs[i].f);
    hyp_type t = x->type;
    HYP_TRY(infer_layer(c, 1, &t));
    HYP_TRY(check_activation(c, c->attrs[2].sym));
    HYP_TRY(hyp_check_sym(c, 3, places));
    t.dtype = to;
    const hyp_infer_value *b = hyp_infer_input(c, 1), *added = hyp_infer_input(c, 2);
    if (b && b->type.dtype != to)
        return hyp_infer_fail(c, "the bias is %s, %s is wanted", hyp_infer_type_text(c, &b->type), c->attrs[4].sym);
    if (added && !hyp_type_equal(&added->type, &t))
        return hyp_infer_fail(c, "what is added is %s, the result %s is wanted", hyp_infer_type_text(c, &added->type),
                              hyp_infer_type_text(c, &t));
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_infer_fused_mlp(const hyp_infer_call *c)
{
    uint32_t layers = c->attrs[0].count;
    if (c->in_count != 2 * (uint64_t)layers + 1)
        return hyp_infer_fail(c, "%u inputs for %u activations; a weight and a bias for each and x last are wanted",
                              c->in_count, layers);
    const hyp_infer_value *x = c->in[c->in_count - 1];
    if (!x) return hyp_infer_fail(c, "x, the last input, is absent");
    hyp_type t = x->type;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    for (uint32_t i = 0; i < layers; i++) {
        HYP_TRY(infer_layer(c, 2 * i + 1, &t));
        HYP_TRY(check_activation(c, c->attrs[0].syms[i]));
    }
    c->out[0].type = t;
    return HYP_OK;
}

static hyp_status check_scale(const hyp_infer_call *c, const char *name, double scale)
{
    if (!hyp_dtype_is_float(c->in[0]->type.dtype) &&
        !(scale >= -9007199254740992.0 && scale <= 9007199254740992.0 && (double)(int64_t)scale == scale))
        return hyp_infer_fail(c, "%s = %g on integers, a whole number is wanted", name, scale);
    return HYP_OK;
}

hyp_status hyp_infer_matmul(const hyp_infer_call *c)
{
    hyp_type a = c->in[0]->type, b = c->in[1]->type, batch = {.dtype = a.dtype};
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(check_scale(c, "alpha", c->attrs[2].f));
    if (a.rank < 1 || b.rank < 1) return hyp_infer_fail(c, "a scalar operand; ranks of at least 1 are wanted");
    int32_t ar = a.rank, br = b.rank;
    /* [.. M K] x [.. K N]: a vector has no M or no N */
    bool ta = c->attrs[0].i && ar > 1, tb = c->attrs[1].i && br > 1;
    hyp_dim ka = ar == 1 || !ta ? a.dims[ar - 1] : a.dims[ar - 2], m = ar == 1 ? 1 : a.dims[ta ? ar - 1 : ar - 2];
    hyp_dim kb = br == 1 ? b.dims[0] : b.dims[tb ? br - 1 : br - 2], n = br == 1 ? 1 : b.dims[tb ? br - 2 : br - 1];
    if (!hyp_check_equal(c, ka, kb))
        return hyp_infer_fail(c, "%s%s and %s%s: the inner sizes %s and %s differ", hyp_infer_type_text(c, &a),
                              ta ? " transposed" : "", hyp_infer_type_text(c, &b), tb ? " transposed" : "",
                              hyp_infer_dim_text(c, ka), hyp_infer_dim_text(c, kb));
    a.rank = ar > 2 ? ar - 2 : 0;
    b.rank = br > 2 ? br - 2 : 0;
    HYP_TRY(hyp_broadcast(c, &a, &b, &batch));
    if (ar > 1) batch.dims[batch.rank++] = m;
    if (br > 1) batch.dims[batch.rank++] = n;
    c->out[0].type = batch;
    return HYP_OK;
}

hyp_status hyp_infer_gemm(const hyp_infer_call *c)
{
    const hyp_infer_value *a = c->in[0], *b = c->in[1], *addend = hyp_infer_input(c, 2);
    if (!a || !b) return hyp_infer_fail(c, "a matrix is absent");
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(check_scale(c, "alpha", c->attrs[2].f));
    HYP_TRY(check_scale(c, "beta", c->attrs[3].f));
    bool ta = c->attrs[0].i != 0, tb = c->attrs[1].i != 0;
    if (a->type.rank != 2 || b->type.rank != 2)
        return hyp_infer_fail(c, "%s and %s, two matrices are wanted", hyp_infer_type_text(c, &a->type),
                              hyp_infer_type_text(c, &b->type));
    if (!hyp_check_equal(c, a->type.dims[ta ? 0 : 1], b->type.dims[tb ? 1 : 0]))
        return hyp_infer_fail(c, "%s%s and %s%s: the inner sizes differ", hyp_infer_type_text(c, &a->type),
                              ta ? " transposed" : "", hyp_infer_type_text(c, &b->type), tb ? " transposed" : "");
    hyp_type t = {.dtype = a->type.dtype, .rank = 2, .dims = {a->type.dims[ta ? 1 : 0], b->type.dims[tb ? 0 : 1]}};
    if (addend) {
        hyp_type both = t;
        HYP_TRY(hyp_broadcast(c, &addend->type, &t, &both));
        if (!hyp_type_equal(&both, &t))
            return hyp_infer_fail(c, "c %s does not broadcast to the result %s", hyp_infer_type_text(c, &addend->type),
                                  hyp_infer_type_text(c, &t));
    }
    c->out[0].type = t;
    return HYP_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------------- */

/* out[m n] = scale * a[m k] b[k n]. a and b are at these strides; out is dense, row by row. Every element is
 * summed in ascending k. Where columns of b are dense, four at a time: their sums do not wait for each other, and they
 * stay in the cache for all rows. */
#define DEFINE_PRODUCT(name, T)                                                                                        \
    static void name##_rows(T *out, const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row, int64_t m, \
                            int64_t k, int64_t n)                                                                      \
    {                                                                                                                  \
        for (int64_t i = 0; i < m; i++, out += n, a += a_row) {                                                        \
            for (int64_t j = 0; j < n; j++) out[j] = 0;                                                                \
            for (int64_t l = 0; l < k; l++) {                                                                          \
                const T factor = a[l * a_column], *row = b + l * b_row;                                                \
                for (int64_t j = 0; j < n; j++) out[j] += factor * row[j];                                             \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_columns(T *out, const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row,         \
                               int64_t b_column, int64_t m, int64_t k, int64_t n)                                      \
    {                                                                                                                  \
        for (int64_t j = 0; j < n; j += 4)                                                                             \
            for (int64_t i = 0; i < m; i++) {                                                                          \
                const T *x = a + i * a_row, *column[4];                                                                \
                T sum[4] = {0};                                                                                        \
                for (int c = 0; c < 4; c++) column[c] = b + (j + c < n ? j + c : j) * b_column;                        \
                for (int64_t l = 0; l < k; l++)                                                                        \
                    for (int c = 0; c < 4; c++) sum[c] += x[l * a_column] * column[c][l * b_row];                      \
                for (int c = 0; c < 4 && j + c < n; c++) out[i * n + j + c] = sum[c];                                  \
            }                                                                                                          \
    }                                                                                                                  \
    static void name(T *out, const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row, int64_t b_column, \
                     int64_t m, int64_t k, int64_t n, T scale)                                                         \
    {                                                                                                                  \
        if (b_column == 1)                                                                                             \
            name##_rows(out, a, a_row, a_column, b, b_row, m, k, n);                                                   \
        else                                                                                                           \
            name##_columns(out, a, a_row, a_column, b, b_row, b_column, m, k, n);                                      \
        for (int64_t i = 0; i < m * n; i++) out[i] *= scale;                                                           \
    }
DEFINE_PRODUCT(product_f64, double)
DEFINE_PRODUCT(product_u64, uint64_t) /* wraps, as signed integers do modulo 2^64 */

/* A matrix inside a tensor. */
typedef struct matrix {
    const hyp_eval_tensor *tensor;
    int64_t at, row, column; /* offset of its first element, strides */
} matrix;

const float *hyp_eval_stored(const hyp_eval_tensor *t, float **out_own)
{
    *out_own = NULL;
    if ((uintptr_t)t->stored % sizeof(float) == 0) return t->stored;
    *out_own = hyp_malloc(t->count * sizeof **out_own);
    if (*out_own) memcpy(*out_own, t->stored, t->count * sizeof **out_own);
    return *out_own;
}

/* The matrix as floats, which hold its elements; *out_transposed: column by column, *out_own: the caller's to free.
 * NULL: no memory. */
static const float *narrow(const matrix *x, int64_t rows, int64_t columns, bool *out_transposed, float **out_own)
{
    *out_transposed = x->column != 1;
    int64_t outer = *out_transposed ? columns : rows, inner = *out_transposed ? rows : columns;
    int64_t outer_step = *out_transposed ? x->column : x->row, inner_step = *out_transposed ? x->row : x->column;
    *out_own = NULL;
    if (x->tensor->stored) return hyp_eval_stored(x->tensor, out_own); /* of two axes: all of it */
    float *out = *out_own = hyp_malloc((size_t)(rows * columns) * sizeof *out);
    for (int64_t i = 0; out && i < outer; i++)
        for (int64_t j = 0; j < inner; j++)
            out[i * inner + j] = (float)x->tensor->f[x->at + i * outer_step + j * inner_step];
    return out;
}

/* The product by a library, of types whose elements a float holds. */
static hyp_status multiply_fast(hyp_eval_tensor *out, int64_t at, const matrix *a, const matrix *b, int64_t m,
                                int64_t k, int64_t n, double scale, hyp_diag *diag)
{
    hyp_product p = {.m = m, .n = n, .k = k};
    float *own_a, *own_b;
    p.a = narrow(a, m, k, &p.trans_a, &own_a);
    p.b = narrow(b, k, n, &p.trans_b, &own_b);
    hyp_status status =
        p.a && p.b ? hyp_product_f32(&p, out->f + at, diag) : hyp_fail_memory(diag, (size_t)(m * n) * sizeof *own_a);
    for (int64_t i = 0; status == HYP_OK && scale != 1 && i < m * n; i++) out->f[at + i] *= scale;
    hyp_free(own_a);
    hyp_free(own_b);
    return status;
}

bool hyp_is_large_product(int64_t m, int64_t k, int64_t n)
{
    return m > 0 && k > 0 && n > HYP_SMALL_PRODUCT / m / k; /* a tensor's sizes: no product of two overflows */
}

static hyp_status multiply(const hyp_eval_call *c, hyp_eval_tensor *out, int64_t at, matrix a, matrix b, int64_t m,
                           int64_t k, int64_t n, double scale)
{
    bool single = out->f && out->dtype != HYP_F64 && a.tensor->dtype != HYP_F64 && b.tensor->dtype != HYP_F64;
    if (c->mode == HYP_EVAL_FAST && single && hyp_is_large_product(m, k, n))
        return multiply_fast(out, at, &a, &b, m, k, n, scale, c->diag);
    if (out->f)
        product_f64(out->f + at, a.tensor->f + a.at, a.row, a.column, b.tensor->f + b.at, b.row, b.column, m, k, n,
                    scale);
    else
        product_u64((uint64_t *)out->i + at, (const uint64_t *)a.tensor->i + a.at, a.row, a.column,
                    (const uint64_t *)b.tensor->i + b.at, b.row, b.column, m, k, n, (uint64_t)(int64_t)scale);
    return HYP_OK;
}

/* The last two axes of a tensor, swapped when `transposed`. */
static matrix last_axes(const hyp_eval_tensor *t, bool transposed)
{
    int64_t columns = t->dims[t->rank - 1];
    return transposed ? (matrix){t, 0, 1, columns} : (matrix){t, 0, columns, 1};
}

/* out[i] += addend[i % n] */
static void add_rows(hyp_eval_tensor *out, const hyp_eval_tensor *addend, size_t n)
{
    for (size_t i = 0; i < out->count; i++) {
        if (out->f)
            out->f[i] += addend->f[i % n];
        else
            out->i[i] = (int64_t)((uint64_t)out->i[i] + (uint64_t)addend->i[i % n]);
    }
}

static void activate(const char *act, hyp_eval_tensor *out)
{
    hyp_op op;
    if (hyp_activation_find(act, &op) <= 0) return;
    if (out->f) hyp_eval_unary_f64(op, NULL, out->f, out->f, out->count);
    for (size_t i = 0; !out->f && i < out->count; i++)
        if (out->i[i] < 0 && out->dtype != HYP_U64) out->i[i] = 0; /* relu */
}

/* act(scale x w^T + b) into `out`, whose last axis is N; b may be NULL. */
static hyp_status scaled_layer(const hyp_eval_call *c, const hyp_eval_tensor *w, const hyp_eval_tensor *b,
                               const char *act, double scale, const hyp_eval_tensor *x, hyp_eval_tensor *out)
{
    int64_t n = w->dims[0], k = w->dims[1], m = n ? (int64_t)out->count / n : 0;
    HYP_TRY(multiply(c, out, 0, (matrix){x, 0, k, 1}, last_axes(w, true), m, k, n, scale));
    if (b) add_rows(out, b, (size_t)n);
    if (c->mode != HYP_EVAL_DOUBLE || out->i) hyp_eval_round(out);
    activate(act, out);
    return HYP_OK;
}

static hyp_status layer(const hyp_eval_call *c, const hyp_eval_tensor *w, const hyp_eval_tensor *b, const char *act,
                        const hyp_eval_tensor *x, hyp_eval_tensor *out)
{
    return scaled_layer(c, w, b, act, 1, x, out);
}

hyp_status hyp_eval_linear(const hyp_eval_call *c)
{
    const char *act = c->op == HYP_OP_fused_linear ? c->attrs[0].sym : "none";
    return layer(c, c->in[0], c->in[1], act, c->in[2], &c->out[0]);
}

/* A layer to which in[2] is added, where it is there. */
static hyp_status added_layer(const hyp_eval_call *c, double scale, const char *act, const char *place)
{
    bool after = strcmp(place, "after") == 0;
    hyp_eval_tensor *out = &c->out[0];
    HYP_TRY(scaled_layer(c, c->in[0], c->in[1], after ? act : "none", scale, c->in[3], out));
    if (c->mode != HYP_EVAL_DOUBLE || out->i) hyp_eval_round(out);
    if (c->in[2]) add_rows(out, c->in[2], out->count);
    if (after) return HYP_OK; /* results are rounded by the caller */
    if (c->mode != HYP_EVAL_DOUBLE || out->i) hyp_eval_round(out);
    activate(act, out);
    return HYP_OK;
}

hyp_status hyp_eval_linear_add(const hyp_eval_call *c) { return added_layer(c, 1, c->attrs[0].sym, c->attrs[1].sym); }

hyp_status hyp_eval_quantized_linear(const hyp_eval_call *c)
{
    return added_layer(c, c->attrs[0].f * c->attrs[1].f, c->attrs[2].sym, c->attrs[3].sym);
}

hyp_status hyp_eval_fused_mlp(const hyp_eval_call *c)
{
    uint32_t layers = c->attrs[0].count;
    hyp_eval_tensor hidden = {0}, next = {0};
    const hyp_eval_tensor *x = c->in[c->in_count - 1];
    for (uint32_t i = 0; i < layers; i++) {
        const hyp_eval_tensor *w = c->in[2 * i], *b = c->in[2 * i + 1];
        const char *act = c->attrs[0].syms[i];
        if (i + 1 == layers) {
            hyp_status status = layer(c, w, b, act, x, &c->out[0]);
            hyp_eval_tensor_dispose(&hidden);
            return status;
        }
        int64_t dims[HYP_MAX_RANK];
        memcpy(dims, x->dims, sizeof dims);
        dims[x->rank - 1] = w->dims[0];
        hyp_status status = hyp_eval_tensor_alloc(&next, x->dtype, x->rank, dims, c->diag);
        if (status == HYP_OK) status = layer(c, w, b, act, x, &next);
        if (status != HYP_OK) {
            hyp_eval_tensor_dispose(&hidden);
            hyp_eval_tensor_dispose(&next);
            return status;
        }
        if (c->mode != HYP_EVAL_DOUBLE) hyp_eval_round(&next);
        hyp_eval_tensor_dispose(&hidden);
        hidden = next;
        next = (hyp_eval_tensor){0};
        x = &hidden;
    }
    hyp_eval_tensor_dispose(&hidden);
    return HYP_OK;
}

hyp_status hyp_eval_matmul(const hyp_eval_call *c)
{
    const hyp_eval_tensor *at = c->in[0], *bt = c->in[1];
    hyp_eval_tensor *out = &c->out[0];
    int32_t vectors = (at->rank == 1) + (bt->rank == 1), batch = out->rank - (2 - vectors);
    matrix a = at->rank == 1 ? (matrix){at, 0, 0, 1} : last_axes(at, c->attrs[0].i != 0);
    matrix b = bt->rank == 1 ? (matrix){bt, 0, 1, 1} : last_axes(bt, c->attrs[1].i != 0);
    int64_t m = at->rank == 1 ? 1 : at->dims[at->rank - (c->attrs[0].i ? 1 : 2)];
    int64_t n = bt->rank == 1 ? 1 : bt->dims[bt->rank - (c->attrs[1].i ? 2 : 1)];
    int64_t k = at->rank == 1 ? at->dims[0] : at->dims[at->rank - (c->attrs[0].i ? 2 : 1)];
    if (at->rank > 2 && bt->rank <= 2 && !c->attrs[0].i && at->count &&
        out->count) { /* all rows of a meet one matrix */
        m = (int64_t)at->count / k;
        return multiply(c, out, 0, a, b, m, k, n, c->attrs[2].f);
    }
    /* The leading axes, each step one whole matrix. */
    hyp_walk w = {.rank = batch};
    memcpy(w.dims, out->dims, (size_t)batch * sizeof *w.dims);
    if (out->count == 0) return HYP_OK;
    hyp_walk_broadcast(&w, 1, at->rank > 2 ? at->rank - 2 : 0, at->dims);
    hyp_walk_broadcast(&w, 2, bt->rank > 2 ? bt->rank - 2 : 0, bt->dims);
    int64_t to = 0, a_size = at->rank > 1 ? m * k : 0, b_size = bt->rank > 1 ? k * n : 0;
    for (hyp_walk_start(&w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++, to += m * n) {
            a.at = (w.at[1] + i * w.step[1]) * a_size;
            b.at = (w.at[2] + i * w.step[2]) * b_size;
            HYP_TRY(multiply(c, out, to, a, b, m, k, n, c->attrs[2].f));
        }
    return HYP_OK;
}

hyp_status hyp_eval_gemm(const hyp_eval_call *c)
{
    const hyp_eval_tensor *a = c->in[0], *b = c->in[1], *addend = hyp_eval_input(c, 2);
    hyp_eval_tensor *out = &c->out[0];
    bool ta = c->attrs[0].i != 0, tb = c->attrs[1].i != 0;
    double beta = c->attrs[3].f;
    HYP_TRY(multiply(c, out, 0, last_axes(a, ta), last_axes(b, tb), out->dims[0], a->dims[ta ? 0 : 1], out->dims[1],
                     c->attrs[2].f));
    if (!addend) return HYP_OK;
    hyp_walk w = {.rank = 2, .dims = {out->dims[0], out->dims[1]}};
    hyp_strides(2, w.dims, w.stride[0]);
    hyp_walk_broadcast(&w, 1, addend->rank, addend->dims);
    for (hyp_walk_start(&w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            int64_t from = w.at[1] + i * w.step[1], to = w.at[0] + i;
            if (out->f)
                out->f[to] += beta * addend->f[from];
            else
                out->i[to] = (int64_t)((uint64_t)out->i[to] + (uint64_t)(int64_t)beta * (uint64_t)addend->i[from]);
        }
    return HYP_OK;
}
