/* eval_conv.c - convolutions of the interpreter as products of matrices: the weights of a group [out K] times what lies
 * under the windows [K places], K being the channels of the group times the positions of the kernel. The sums have the
 * terms of the kernel's own loops (kernels/conv.c), and those of the padding, which are zeros. The gradient by the
 * weights is the product of the gradient by the result [out places] with the same windows.
 */
#include <math.h>
#include <string.h>

#include "ir/op.h"
#include "kernels/product.h"
#include "kernels/window.h"

bool hyp_eval_reads_stored(hyp_op op, uint32_t i, const hyp_type *type)
{
    if (!hyp_product_is_fast() || type->dtype != HYP_F32 || !hyp_type_is_static(type)) return false;
    int64_t count = 1;
    for (int32_t a = 0; a < type->rank; a++) count *= type->dims[a]; /* of a constant that is in memory */
    if (count <= HYP_SMALL_PRODUCT) return false;                    /* a product with a larger matrix is large */
    switch (op) {
    case HYP_OP_conv: return i == 1;
    case HYP_OP_linear:
    case HYP_OP_gather: return i == 0;
    case HYP_OP_matmul:
    case HYP_OP_gemm: return i < 2 && type->rank == 2;
    default: return false;
    }
}

/* One convolution, or gradient by the weights, on its way. */
typedef struct work {
    const hyp_conv *v;
    const double *x;
    const float *w; /* NULL: a gradient */
    float *columns; /* [K places] of a block */
    double *sums;   /* [out places], of a gradient [out K] */
    float *g;       /* [out places]: the part of a gradient's y */
    int64_t depth;  /* K */
    int64_t row;    /* places along the last axis; a block is of whole ones */
} work;

/* What lies under one position of the kernel, for the rows [first, first + count) of places of one channel. */
static void gather(const work *k, const double *channel, int64_t position, int64_t first, int64_t count, float *out)
{
    const hyp_window *w = &k->v->window;
    int32_t last = w->n - 1;
    int64_t at[HYP_SPATIAL], p[HYP_SPATIAL];
    hyp_window_position(w->n, w->kernel, position, p);
    for (int64_t r = first; r < first + count; r++) {
        int64_t base = 0;
        bool inside = true;
        hyp_window_position(last, w->out, r, at);
        for (int32_t a = 0; a < last; a++) {
            int64_t i = at[a] * w->stride[a] + p[a] * w->dilation[a] - w->before[a];
            inside = inside && i >= 0 && i < w->in[a];
            base = base * w->in[a] + i;
        }
        int64_t from = p[last] * w->dilation[last] - w->before[last];
        for (int64_t o = 0; o < k->row; o++, from += w->stride[last])
            *out++ = inside && from >= 0 && from < w->in[last] ? (float)channel[base * w->in[last] + from] : 0;
    }
}

/* sums[m n] by plain loops: few terms, or few of them for each element that is read. */
static void multiply_small(const work *k, const float *w, int64_t n)
{
    for (int64_t m = 0; m < k->v->out_channels; m++) {
        double *to = k->sums + m * n;
        for (int64_t j = 0; j < n; j++) to[j] = 0;
        for (int64_t l = 0; l < k->depth; l++) {
            double factor = (double)w[m * k->depth + l];
            const float *from = k->columns + l * n;
            for (int64_t j = 0; j < n; j++) to[j] += factor * (double)from[j];
        }
    }
}

/* Adds what a block of n places says of the weights of one group of one sample. */
static hyp_status add_weights(const work *k, int64_t sample, int64_t g, int64_t at, int64_t n, hyp_diag *diag)
{
    const hyp_conv *v = k->v;
    const double *y = v->y->data;
    double *w = (double *)v->w->data + g * v->out_channels * k->depth;
    for (int64_t m = 0; m < v->out_channels; m++) {
        const double *from = y + ((sample * v->group + g) * v->out_channels + m) * v->window.out_count + at;
        for (int64_t j = 0; j < n; j++) k->g[m * n + j] = (float)from[j];
    }
    if (v->out_channels > 1 && hyp_is_large_product(v->out_channels, k->depth, n)) {
        hyp_product p = {.trans_b = true, .m = v->out_channels, .n = k->depth, .k = n, .a = k->g, .b = k->columns};
        HYP_TRY(hyp_product_f32(&p, k->sums, diag));
        for (int64_t i = 0; i < v->out_channels * k->depth; i++) w[i] += k->sums[i];
        return HYP_OK;
    }
    for (int64_t m = 0; m < v->out_channels; m++)
        for (int64_t l = 0; l < k->depth; l++)
            for (int64_t j = 0; j < n; j++)
                w[m * k->depth + l] += (double)k->g[m * n + j] * (double)k->columns[l * n + j];
    return HYP_OK;
}

/* The rows [first, first + count) of places of one group of one sample. */
static hyp_status run_block(const work *k, int64_t sample, int64_t g, int64_t first, int64_t count, hyp_diag *diag)
{
    const hyp_conv *v = k->v;
    const hyp_window *win = &v->window;
    int64_t n = count * k->row, channel = (sample * v->group + g) * v->in_channels;
    for (int64_t i = 0; i < v->in_channels; i++)
        for (int64_t p = 0; p < win->kernel_count; p++)
            gather(k, k->x + (channel + i) * win->in_count, p, first, count,
                   k->columns + (i * win->kernel_count + p) * n);
    if (!k->w) return add_weights(k, sample, g, first * k->row, n, diag);
    const float *w = k->w + g * v->out_channels * k->depth;
    if (v->out_channels > 1 && hyp_is_large_product(v->out_channels, k->depth, n)) {
        hyp_product p = {.m = v->out_channels, .n = n, .k = k->depth, .a = w, .b = k->columns};
        HYP_TRY(hyp_product_f32(&p, k->sums, diag));
    } else {
        multiply_small(k, w, n);
    }
    double *y = v->y->data;
    for (int64_t m = 0; m < v->out_channels; m++) {
        int64_t filter = g * v->out_channels + m;
        double bias = v->b ? hyp_array_f64(v->b, filter) : 0;
        double *to = y + (sample * v->out_channels * v->group + filter) * win->out_count + first * k->row;
        for (int64_t j = 0; j < n; j++) to[j] = k->sums[m * n + j] + bias;
    }
    return HYP_OK;
}

static hyp_status run(work *k, hyp_diag *diag)
{
    enum { BLOCK = 1 << 20 }; /* elements under the windows of a block, about */
    const hyp_conv *v = k->v;
    int64_t rows = v->window.out_count / k->row,
            of_row = k->row * (k->depth > v->out_channels ? k->depth : v->out_channels);
    int64_t block = BLOCK / of_row < 1 ? 1 : BLOCK / of_row < rows ? BLOCK / of_row : rows;
    size_t sums = (size_t)((k->w ? block * k->row : k->depth) * v->out_channels);
    k->columns = hyp_malloc((size_t)(block * k->row * k->depth) * sizeof *k->columns);
    k->sums = hyp_malloc(sums * sizeof *k->sums);
    k->g = k->w ? NULL : hyp_malloc((size_t)(block * k->row * v->out_channels) * sizeof *k->g);
    bool there = k->columns && k->sums && (k->w || k->g);
    hyp_status status = there ? HYP_OK : hyp_fail_memory(diag, (size_t)(block * of_row) * sizeof *k->sums);
    for (int64_t s = 0; s < v->batch; s++)
        for (int64_t g = 0; g < v->group; g++)
            for (int64_t first = 0; first < rows && status == HYP_OK; first += block)
                status = run_block(k, s, g, first, rows - first < block ? rows - first : block, diag);
    hyp_free(k->columns);
    hyp_free(k->sums);
    hyp_free(k->g);
    return status;
}

static bool is_empty(const hyp_conv *v) { return v->y->count == 0 || v->w->count == 0 || v->window.in_count == 0; }

static hyp_status run_weights(const hyp_eval_call *c, const hyp_conv *v, bool *out_done)
{
    const hyp_eval_tensor *x = c->in[0], *g = c->in[1];
    if (!x->f || !g->f || x->dtype == HYP_F64 || is_empty(v)) return HYP_OK;
    for (size_t i = 0; i < g->count; i++) /* see below; what is beyond a float would not be finite as one */
        if (!isfinite((float)g->f[i])) return HYP_OK;
    work k = {
        .v = v, .x = x->f, .depth = v->in_channels * v->window.kernel_count, .row = v->window.out[v->window.n - 1]};
    memset(v->w->data, 0, (size_t)v->w->count * sizeof(double));
    *out_done = true;
    return run(&k, c->diag);
}

static hyp_status run_conv(const hyp_eval_call *c, const hyp_conv *v, bool *out_done)
{
    const hyp_eval_tensor *x = c->in[0], *w = c->in[1];
    if (!x->f || x->dtype == HYP_F64 || v->z || strcmp(c->attrs[4].sym, "none") != 0 || is_empty(v)) return HYP_OK;
    float *own;
    work k = {.v = v, .x = x->f};
    if (w->stored) {
        k.w = hyp_eval_stored(w, &own);
    } else {
        k.w = own = hyp_malloc(w->count * sizeof *own);
        for (size_t i = 0; own && i < w->count; i++) own[i] = (float)w->f[i];
    }
    if (!k.w) return hyp_fail_memory(c->diag, w->count * sizeof *own);
    k.depth = v->in_channels * v->window.kernel_count;
    k.row = v->window.out[v->window.n - 1];
    bool finite = true; /* a padding has no terms, but as zeros they would give NaN with what is not */
    for (size_t i = 0; i < w->count; i++) finite = finite && isfinite(k.w[i]);
    hyp_status status = finite ? run(&k, c->diag) : HYP_OK;
    *out_done = finite;
    hyp_free(own);
    return status;
}

hyp_status hyp_eval_conv_fast(const hyp_eval_call *c, const hyp_kernel_call *call, bool *out_done)
{
    hyp_conv v;
    *out_done = false;
    if (c->mode != HYP_EVAL_FAST) return HYP_OK;
    if (c->op == HYP_OP_conv_backward_weights) {
        HYP_TRY(hyp_kernel_read_conv_weights(call, &v));
        return run_weights(c, &v, out_done);
    }
    if (c->op != HYP_OP_conv) return HYP_OK;
    HYP_TRY(hyp_kernel_read_conv(call, false, &v));
    return run_conv(c, &v, out_done);
}
