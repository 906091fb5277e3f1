/* norm_kernel.h - layer-norm and rms-norm of rows, and their gradients. Included by block_kernels.h. */
#ifndef HYP_RUNTIME_CPU_NORM_KERNEL_H
#define HYP_RUNTIME_CPU_NORM_KERNEL_H

enum { NORM_VECTORS = HYP_VEC_BYTES == 64 ? 16 : 8 }; /* of 32 and of 16 registers */

/* Of a row of V vectors, which stay in registers. The sums of so few are floats in sum_all, too. */
INLINE void norm_row(const hyp_norm *p, const float *x, float *y, double share, const int V)
{
    vf row[NORM_VECTORS], sum = {0}, squares = {0};
    UNROLL
    for (int v = 0; v < V; v++) {
        row[v] = load(x + v * W);
        sum += row[v];
    }
    if (p->centred) {
        float mean = (float)((double)lanes_sum(sum) * share);
        UNROLL
        for (int v = 0; v < V; v++) row[v] -= mean;
    }
    UNROLL
    for (int v = 0; v < V; v++) squares += row[v] * row[v];
    float inverse = (float)(1 / sqrt((double)lanes_sum(squares) * share + p->epsilon));
    UNROLL
    for (int v = 0; v < V; v++) {
        vf scaled = row[v] * inverse;
        if (p->scale) scaled *= load(p->scale + v * W);
        if (p->bias) scaled += load(p->bias + v * W);
        store(y + v * W, scaled);
    }
}
#define NORM_ROWS(V)                                                                                                   \
    static __attribute__((noinline)) void norm_rows_##V(const hyp_norm *p, const float *x, float *y, int64_t rows)     \
    {                                                                                                                  \
        for (int64_t i = 0; i < rows; i++) norm_row(p, x + i * V * W, y + i * V * W, 1 / (double)(V * W), V);          \
    }
NORM_ROWS(1)
NORM_ROWS(2)
NORM_ROWS(3)
NORM_ROWS(4)
NORM_ROWS(6)
NORM_ROWS(8)
#if HYP_VEC_BYTES == 64
NORM_ROWS(12)
NORM_ROWS(16)
#endif
static void (*const norm_rows[NORM_VECTORS + 1])(const hyp_norm *p, const float *x, float *y, int64_t rows) = {
    [1] = norm_rows_1, [2] = norm_rows_2, [3] = norm_rows_3, [4] = norm_rows_4, [6] = norm_rows_6, [8] = norm_rows_8,
#if HYP_VEC_BYTES == 64
    [12] = norm_rows_12, [16] = norm_rows_16,
#endif
};

static void norm_long(const hyp_norm *p, const float *x, float *y)
{
    const float *scale = p->scale, *bias = p->bias;
    int64_t n = p->size, i = 0;
    float mean = p->centred ? (float)(sum_floats(x, n) / (double)n) : 0;
    float inverse = (float)(1 / sqrt(sum_squares(x, n, mean) / (double)n + p->epsilon));
    for (; i + W <= n; i += W) {
        vf v = (load(x + i) - mean) * inverse;
        if (scale) v *= load(scale + i);
        if (bias) v += load(bias + i);
        store(y + i, v);
    }
    for (; i < n; i++) {
        float v = (x[i] - mean) * inverse;
        if (scale) v *= scale[i];
        y[i] = bias ? v + bias[i] : v;
    }
}

static void norm(const hyp_norm *p, const float *x, float *y, int64_t rows)
{
    int64_t vectors = p->size / W;
    if (p->size % W == 0 && vectors <= NORM_VECTORS && norm_rows[vectors]) {
        norm_rows[vectors](p, x, y, rows);
        return;
    }
    for (int64_t i = 0; i < rows; i++) norm_long(p, x + i * p->size, y + i * p->size);
}

/* scale[i] or 1, times g[i]. */
INLINE vf scaled_gradient(const float *g, const float *scale, int64_t i)
{
    return scale ? load(g + i) * load(scale + i) : load(g + i);
}

/* The sum of g[i] scale[i] (x[i] - centre), or with x NULL of g[i] scale[i], in runs as sum_all has. */
static double sum_products(const float *x, const float *g, const float *scale, int64_t n, float centre)
{
    enum { RUN = 64 * W };
    double total = 0;
    int64_t i = 0;
    while (n - i >= W) {
        vf s = {0};
        int64_t end = n - i < RUN ? n : i + RUN;
        for (; i + W <= end; i += W) {
            vf v = scaled_gradient(g, scale, i);
            s += x ? v * (load(x + i) - centre) : v;
        }
        total += (double)lanes_sum(s);
    }
    for (; i < n; i++) total += (double)(g[i] * (scale ? scale[i] : 1) * (x ? x[i] - centre : 1));
    return total;
}

static void norm_gradient(const hyp_norm_gradient *p, const float *x, const float *g, float *y)
{
    int64_t n = p->size, i = 0;
    float mean = p->centred ? (float)(sum_floats(x, n) / (double)n) : 0;
    float inverse = (float)(1 / sqrt(sum_squares(x, n, mean) / (double)n + p->epsilon)), of_s = 0, along = 0;
    if (p->by_scale) {
        for (; i + W <= n; i += W) store(y + i, load(g + i) * ((load(x + i) - mean) * inverse));
        for (; i < n; i++) y[i] = g[i] * ((x[i] - mean) * inverse);
        return;
    }
    if (p->centred) of_s = (float)(sum_products(NULL, g, p->scale, n, 0) / (double)n);
    along = inverse * (float)(sum_products(x, g, p->scale, n, mean) / (double)n);
    for (; i + W <= n; i += W)
        store(y + i, inverse * (scaled_gradient(g, p->scale, i) - of_s - (load(x + i) - mean) * inverse * along));
    for (; i < n; i++)
        y[i] = inverse * (g[i] * (p->scale ? p->scale[i] : 1) - of_s - (x[i] - mean) * inverse * along);
}

#endif
