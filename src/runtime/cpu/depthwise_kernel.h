/* depthwise_kernel.h - convolutions of each channel by itself, with the channels last. Included by
 * vector_kernels_<isa>.c alone, after block_kernels.h.
 *
 * A tile is P neighbouring results by V vectors of channels, held in registers while all places of the kernel go by: a
 * vector of weights is read once for P results. Results whose windows stick out of x along the line are tiles of one.
 * Where windows of 3, 5 or 7 places follow each other place by place, a line of the kernel is held in registers, too, and
 * a vector of x is read once for all results that it is part of: neighbours lie so far apart in the first-level cache
 * that reads of several at once get in each other's way. Such tiles may stick out: what lies outside is left out.
 */
#ifndef HYP_RUNTIME_CPU_DEPTHWISE_KERNEL_H
#define HYP_RUNTIME_CPU_DEPTHWISE_KERNEL_H

#include "runtime/cpu/vector_kernels.h"

typedef struct depthwise_args {
    const hyp_depthwise *conv;
    const float *const *rows, *const *weights; /* `count` lines of x and of the kernel */
    int64_t count, x, w, taps; /* where in these the first result and its `taps` places of the kernel begin */
    int64_t before, inside;    /* of runs: places of x before the line, and so many that lie on it behind these */
    const float *added;        /* of the first result, and so y */
    float *y;
} depthwise_args;

/* Results of channels from c on. The first `done` channels are in y already, from other vectors: they stay, since what
 * is added may lie there. */
INLINE void depthwise_store(const depthwise_args *t, vf *sums, int64_t c, int64_t done, const int P, const int V)
{
    vi lanes;
    UNROLL
    for (int i = 0; i < W; i++) lanes[i] = i;
    UNROLL
    for (int j = 0; j < P * V; j++) {
        int64_t at = j / V * t->conv->channels + c + j % V * W;
        if (t->added) sums[j] += load(t->added + at);
        store(t->y + at, done > 0 ? choose(lanes < (int32_t)done, load(t->y + at), sums[j]) : sums[j]);
    }
}

INLINE void depthwise_some(const depthwise_args *t, int64_t c, int64_t done, const int P, const int V)
{
    enum { MOST = 12, HALF = 3 /* places that the address of one reaches */ };
    vf sums[MOST];
    int64_t n = t->conv->channels, step = t->conv->step, gap = t->conv->gap;
    UNROLL
    for (int j = 0; j < P * V; j++) sums[j] = load(t->conv->bias + c + j % V * W);
    for (int64_t r = 0; r < t->count; r++) {
        const float *x = t->rows[r] + t->x + c, *w = t->weights[r] + t->w + c;
        for (int64_t k = 0; k < t->taps; k++, x += gap, w += n) {
            const float *far = x + HALF * step;
            vf weights[8];
            UNROLL
            for (int v = 0; v < V; v++) weights[v] = load(w + v * W);
            UNROLL
            for (int j = 0; j < P * V; j++) {
                const float *place = j / V < HALF ? x + j / V * step : far + (j / V - HALF) * step;
                sums[j] += weights[j % V] * load(place + j % V * W);
            }
        }
    }
    depthwise_store(t, sums, c, done, P, V);
}

/* K places of the kernel, which are as far apart as windows are. */
INLINE void depthwise_run(const depthwise_args *t, int64_t c, int64_t done, const int P, const int K)
{
    vf sums[8];
    const int64_t n = t->conv->channels, before = t->before, inside = t->inside;
    UNROLL
    for (int p = 0; p < P; p++) sums[p] = load(t->conv->bias + c);
    for (int64_t r = 0; r < t->count; r++) {
        const float *x = t->rows[r] + t->x + c, *w = t->weights[r] + c; /* the first that lies on the line */
        vf weights[7];
        UNROLL
        for (int k = 0; k < K; k++) weights[k] = load(w + k * n);
        UNROLL
        for (int i = 0; i < P + K - 1; i++) {
            if ((uint64_t)(i - before) >= (uint64_t)inside) continue;
            vf place = load(x);
            x += n;
            UNROLL
            for (int k = 0; k < K; k++)
                if (i - k >= 0 && i - k < P) sums[i - k] += weights[k] * place;
        }
    }
    depthwise_store(t, sums, c, done, P, 1);
}

/* All channels of a tile: `many` vectors at a time, then by one, at last some of those before again. */
#define DEPTHWISE(name, many, several, one)                                                                            \
    static __attribute__((noinline)) void name(const depthwise_args *t)                                                \
    {                                                                                                                  \
        int64_t n = t->conv->channels, c = 0;                                                                          \
        for (; (many) > 1 && c + (many)*W <= n; c += (many)*W) several;                                                \
        while (c < n) {                                                                                                \
            int64_t done = c + W <= n ? 0 : W - (n - c);                                                               \
            c -= done;                                                                                                 \
            one;                                                                                                       \
            c += W;                                                                                                    \
        }                                                                                                              \
    }
#define DEPTHWISE_RUN(P, K) DEPTHWISE(depthwise_run_##P##_##K, 1, (void)0, depthwise_run(t, c, done, P, K))
DEPTHWISE_RUN(8, 3)
DEPTHWISE_RUN(4, 3)
DEPTHWISE_RUN(2, 3)
DEPTHWISE_RUN(1, 3)
DEPTHWISE_RUN(8, 5)
DEPTHWISE_RUN(4, 5)
DEPTHWISE_RUN(2, 5)
DEPTHWISE_RUN(1, 5)
DEPTHWISE_RUN(8, 7)
DEPTHWISE_RUN(4, 7)
DEPTHWISE_RUN(2, 7)
DEPTHWISE_RUN(1, 7)
DEPTHWISE(depthwise_6, 2, depthwise_some(t, c, 0, 6, 2), depthwise_some(t, c, done, 6, 1))
DEPTHWISE(depthwise_3, 4, depthwise_some(t, c, 0, 3, 4), depthwise_some(t, c, done, 3, 1))
DEPTHWISE(depthwise_1, 8, depthwise_some(t, c, 0, 1, 8), depthwise_some(t, c, done, 1, 1))

/* Tiles for windows of so many places (0: any) that follow each other place by place, or for any: `results` of them. */
static const struct depthwise_size {
    int64_t along, results;
    void (*run)(const depthwise_args *t);
} depthwise_sizes[] = {
    {3, 8, depthwise_run_8_3}, {3, 4, depthwise_run_4_3}, {3, 2, depthwise_run_2_3}, {3, 1, depthwise_run_1_3},
    {5, 8, depthwise_run_8_5}, {5, 4, depthwise_run_4_5}, {5, 2, depthwise_run_2_5}, {5, 1, depthwise_run_1_5},
    {7, 8, depthwise_run_8_7}, {7, 4, depthwise_run_4_7}, {7, 2, depthwise_run_2_7}, {7, 1, depthwise_run_1_7},
    {0, 6, depthwise_6},       {0, 3, depthwise_3},       {0, 1, depthwise_1}};

/* Whether `count` results from i on can be a tile: as a run each has a place on the line, else all windows lie on it. */
static bool depthwise_fits(const hyp_parts *p, int64_t i, int64_t count, int64_t along, bool is_run)
{
    if (!is_run) return count == 1 || p->first[i + count] - p->first[i] == count * along;
    return p->first[i + 1] > p->first[i] && p->first[i + count] > p->first[i + count - 1];
}

static void depthwise(const hyp_depthwise *s, const hyp_parts *p, const float *const *weights, const int64_t *taps,
                      int64_t results, const float *added, float *y)
{
    const struct depthwise_size *size;
    int64_t n = s->channels, run = s->step == n && s->gap == n ? s->along : 0;
    for (int64_t i = 0; i < results; i += size->results) {
        int64_t first = p->first[i];
        for (size = depthwise_sizes;; size++) /* the last fits */
            if ((size->along == 0 || size->along == run) && i + size->results <= results &&
                depthwise_fits(p, i, size->results, s->along, size->along > 0))
                break;
        depthwise_args t = {.conv = s,
                            .rows = p->rows,
                            .weights = weights,
                            .count = p->count,
                            .taps = p->first[i + 1] - first,
                            .added = added ? added + i * n : NULL,
                            .y = y + i * n};
        if (t.taps > 0) {
            t.x = p->offsets[first];
            t.w = taps[first] * n;
            t.before = taps[first];
            t.inside = (p->offsets[p->first[i + size->results] - 1] - t.x) / n + 1;
        }
        size->run(&t);
    }
}

#endif
