/* softmax_kernel.h - softmax, and what it is made of. Included by block_kernels.h. */
#ifndef HYP_RUNTIME_CPU_SOFTMAX_KERNEL_H
#define HYP_RUNTIME_CPU_SOFTMAX_KERNEL_H

/* A NaN loses every comparison, so it is not the maximum, but it reaches the sum and so every result. */
static void softmax_row(const float *x, float *y, int64_t n)
{
    vf most = splat(-INFINITY), sum = {0}, tail = most;
    int64_t whole = n / W * W, rest = n - whole;
    for (int64_t i = 0; i < whole; i += W) {
        vf v = load(x + i);
        most = choose(v > most, v, most);
    }
    if (rest) tail = load_some(x + whole, rest, -INFINITY);
    vf top = splat(lanes_max(choose(tail > most, tail, most)));
    for (int64_t i = 0; i < whole; i += W) {
        vf e = vexp(load(x + i) - top);
        store(y + i, e);
        sum += e;
    }
    if (rest) { /* what is not there is -infinity, and so becomes 0, but where the whole row does not become numbers */
        tail = vexp(tail - top);
        sum += tail;
    }
    vf share = splat(1.0f / lanes_sum(sum)); /* to multiply takes a fraction of the time of a division */
    for (int64_t i = 0; i < whole; i += W) store(y + i, load(y + i) * share);
    if (rest) store_some(y + whole, tail * share, rest);
}

/* Up to W neighbouring columns at once. */
static void softmax_columns(const float *x, float *y, int64_t axis, int64_t inner, int64_t columns)
{
    bool whole = columns == W;
    vf most = splat(-INFINITY), sum = {0};
    for (int64_t a = 0; a < axis; a++) {
        vf v = whole ? load(x + a * inner) : load_some(x + a * inner, columns, 0);
        most = choose(v > most, v, most);
    }
    for (int64_t a = 0; a < axis; a++) {
        vf e = vexp((whole ? load(x + a * inner) : load_some(x + a * inner, columns, 0)) - most);
        sum += e;
        if (whole)
            store(y + a * inner, e);
        else
            store_some(y + a * inner, e, columns);
    }
    for (int64_t a = 0; a < axis; a++) {
        if (whole)
            store(y + a * inner, load(y + a * inner) / sum);
        else
            store_some(y + a * inner, load_some(y + a * inner, columns, 0) / sum, columns);
    }
}

/* Up to W rows shorter than a vector at once: turned, they are columns. Even of a single one it takes no longer than by lanes, and so
 * what a row becomes depends on no others, nor on how rows are shared by threads. */
static void softmax_short_rows(const float *x, float *y, int64_t rows, int64_t n)
{
    float turned[W * W] = {0}; /* of rows that there are not */
    for (int64_t a = 0; a < n; a++)
        for (int64_t r = 0; r < rows; r++) turned[a * W + r] = x[r * n + a];
    softmax_columns(turned, turned, n, W, W);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t a = 0; a < n; a++) y[r * n + a] = turned[a * W + r];
}

/* Of `outer` blocks of [axis, inner], each of its own. */
static void softmax(const float *x, float *y, int64_t outer, int64_t axis, int64_t inner)
{
    if (inner == 1 && axis < W) {
        for (int64_t o = 0; o < outer; o += W) softmax_short_rows(x + o * axis, y + o * axis, outer - o < W ? outer - o : W, axis);
        return;
    }
    if (inner == 1) {
        for (int64_t o = 0; o < outer; o++) softmax_row(x + o * axis, y + o * axis, axis);
        return;
    }
    for (int64_t o = 0; o < outer; o++, x += axis * inner, y += axis * inner)
        for (int64_t i = 0; i < inner; i += W) softmax_columns(x + i, y + i, axis, inner, inner - i < W ? inner - i : W);
}

/* What the elements under a largest one are less: 0 where that is -infinity, so that the exponentials are 0. */
INLINE vf base_of(vf top) { return choose(top == splat(-INFINITY), splat(0), top); }

static void stats_row(const float *x, int64_t n, float *top, float *log_sum)
{
    vf most = splat(-INFINITY), sum = {0};
    int64_t whole = n / W * W;
    for (int64_t i = 0; i < whole; i += W) most = choose(load(x + i) > most, load(x + i), most);
    vf tail = load_some(x + whole, n - whole, -INFINITY);
    *top = lanes_max(choose(tail > most, tail, most));
    vf base = base_of(splat(*top));
    for (int64_t i = 0; i < whole; i += W) sum += vexp(load(x + i) - base);
    *log_sum = logf(lanes_sum(sum + vexp(tail - base)));
}

/* Up to W neighbouring columns at once. */
static void stats_columns(const float *x, int64_t axis, int64_t inner, int64_t columns, float *top, float *log_sum)
{
    vf most = splat(-INFINITY), sum = {0};
    float sums[W];
    for (int64_t a = 0; a < axis; a++) {
        vf v = load_some(x + a * inner, columns, 0);
        most = choose(v > most, v, most);
    }
    for (int64_t a = 0; a < axis; a++) sum += vexp(load_some(x + a * inner, columns, 0) - base_of(most));
    store(sums, sum);
    store_some(top, most, columns);
    for (int64_t i = 0; i < columns; i++) log_sum[i] = logf(sums[i]);
}

static void softmax_stats(const float *x, int64_t axis, int64_t inner, float *top, float *log_sum)
{
    if (inner == 1) {
        stats_row(x, axis, top, log_sum);
        return;
    }
    for (int64_t i = 0; i < inner; i += W)
        stats_columns(x + i, axis, inner, inner - i < W ? inner - i : W, top + i, log_sum + i);
}

#endif
