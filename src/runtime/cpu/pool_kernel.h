/* pool_kernel.h - the largest and the mean of windows, with the channels last. Included by vector_kernels_<isa>.c
 * alone, after block_kernels.h.
 *
 * A tile is P neighbouring results by a vector of channels. Where windows of K places, which begin S apart, lie in x
 * along the line, each place that they cover is joined over all L lines of x first, and then with its neighbours, in
 * registers: it is read once for all results of the tile, which each by itself read it as often as they overlap. The
 * processor's instruction for the larger of two numbers loses NaN; so a tile that has met one, or an infinity, is made
 * again, each result by itself.
 */
#ifndef HYP_RUNTIME_CPU_POOL_KERNEL_H
#define HYP_RUNTIME_CPU_POOL_KERNEL_H

#include "runtime/cpu/vector_kernels.h"

typedef struct pool_args {
    const float *const *rows; /* `count` lines of x */
    int64_t count, channels, x_place, y_place;
    const int64_t *offsets, *end; /* in these: of the first result's parts */
    const float *scales;          /* of that result, and so y */
    float *y;
} pool_args;

INLINE vf pool_two(vf a, vf b, const bool sum) { return sum ? a + b : vlarger(a, b); }

/* Channels from c on, over L lines of x. What comes back is not 0 where any of them was not finite, whose largest may
 * be wrong. */
INLINE vf pool_tile(const pool_args *t, int64_t c, const int L, const int P, const int K, const int S, const bool sum)
{
    vf all[8], zero = {0};
    int64_t n = t->x_place;
    const float *rows[5];
    UNROLL
    for (int r = 0; r < L; r++) rows[r] = t->rows[r] + t->offsets[0] + c;
    UNROLL
    for (int i = 0; i < (P - 1) * S + K; i++) {
        vf place = load(rows[0] + i * n);
        if (!sum) zero += place * 0.0f;
        UNROLL
        for (int r = 1; r < L; r++) {
            vf other = load(rows[r] + i * n);
            if (!sum) zero += other * 0.0f;
            place = pool_two(place, other, sum);
        }
        UNROLL
        for (int p = 0; p < P; p++) {
            if (i == p * S) all[p] = place;
            if (i > p * S && i < p * S + K) all[p] = pool_two(all[p], place, sum);
        }
    }
    UNROLL
    for (int p = 0; p < P; p++) store(t->y + p * t->y_place + c, sum ? all[p] * t->scales[p] : all[p]);
    return zero;
}

/* Whether the tile is right. Its last vector has some of the channels before again, where there are as many. */
INLINE bool pool_tiles(const pool_args *t, const int L, const int P, const int K, const int S, const bool sum)
{
    vf zero = {0};
    int64_t n = t->channels;
    for (int64_t c = 0; c < n; c += W) zero += pool_tile(t, c + W > n && n > W ? n - W : c, L, P, K, S, sum);
    return sum || lanes_sum(zero) == 0;
}

/* V vectors of a result by itself. */
INLINE void pool_some(const pool_args *t, int64_t c, const int V, const bool sum)
{
    vf all[4];
    UNROLL
    for (int v = 0; v < V; v++) all[v] = splat(sum ? 0 : -INFINITY);
    for (int64_t r = 0; r < t->count; r++)
        for (const int64_t *at = t->offsets; at < t->end; at++) {
            const float *part = t->rows[r] + *at + c;
            UNROLL
            for (int v = 0; v < V; v++) {
                vf x = load(part + v * W);
                all[v] = sum ? all[v] + x : larger(all[v], x);
            }
        }
    UNROLL
    for (int v = 0; v < V; v++) store(t->y + c + v * W, sum ? all[v] * t->scales[0] : all[v]);
}

INLINE void pool_one(const pool_args *t, const bool sum)
{
    int64_t n = t->channels, c = 0;
    for (; c + 4 * W <= n; c += 4 * W) pool_some(t, c, 4, sum);
    for (; c < n; c += W) pool_some(t, c + W > n && n > W ? n - W : c, 1, sum);
}
static __attribute__((noinline)) void add_one(const pool_args *t) { pool_one(t, true); }
static __attribute__((noinline)) void most_one(const pool_args *t) { pool_one(t, false); }

#define POOL(L, P, K, S)                                                                                               \
    static __attribute__((noinline)) bool add_##L##_##P##_##K##_##S(const pool_args *t)                                \
    {                                                                                                                  \
        return pool_tiles(t, L, P, K, S, true);                                                                        \
    }                                                                                                                  \
    static __attribute__((noinline)) bool most_##L##_##P##_##K##_##S(const pool_args *t)                               \
    {                                                                                                                  \
        return pool_tiles(t, L, P, K, S, false);                                                                       \
    }
POOL(3, 8, 3, 1)
POOL(3, 4, 3, 1)
POOL(2, 8, 3, 1)
POOL(2, 4, 3, 1)
POOL(3, 4, 3, 2)
POOL(2, 4, 3, 2)
POOL(5, 6, 5, 1)
POOL(2, 8, 2, 2)
POOL(2, 2, 2, 2)

/* Tiles of so many results, over lines of x, for windows of so many places; those that do the most first. */
static const struct pool_size {
    int64_t lines, results, along, step;
    bool (*add)(const pool_args *t);
    bool (*most)(const pool_args *t);
} pool_sizes[] = {{3, 8, 3, 1, add_3_8_3_1, most_3_8_3_1}, {3, 4, 3, 1, add_3_4_3_1, most_3_4_3_1},
                  {2, 8, 3, 1, add_2_8_3_1, most_2_8_3_1}, {2, 4, 3, 1, add_2_4_3_1, most_2_4_3_1},
                  {3, 4, 3, 2, add_3_4_3_2, most_3_4_3_2}, {2, 4, 3, 2, add_2_4_3_2, most_2_4_3_2},
                  {5, 6, 5, 1, add_5_6_5_1, most_5_6_5_1}, {2, 8, 2, 2, add_2_8_2_2, most_2_8_2_2},
                  {2, 2, 2, 2, add_2_2_2_2, most_2_2_2_2}};

/* A size of tiles whose windows all lie in x along the line, for results from i on; NULL: there is none. */
static const struct pool_size *find_tile(const hyp_pool *s, const hyp_parts *p, int64_t i, int64_t results)
{
    for (size_t k = 0; k < sizeof pool_sizes / sizeof *pool_sizes; k++) {
        const struct pool_size *size = &pool_sizes[k];
        if (size->lines == p->count && size->along == s->along && s->gap == s->x_place &&
            s->step == size->step * s->x_place && i + size->results <= results &&
            p->first[i + size->results] - p->first[i] == size->results * s->along)
            return size;
    }
    return NULL;
}

static void pool(const hyp_pool *s, const hyp_parts *p, int64_t results, const float *scales, float *y)
{
    pool_args t = {
        .rows = p->rows, .count = p->count, .channels = s->channels, .x_place = s->x_place, .y_place = s->y_place};
    for (int64_t i = 0, tried = 0; i < results;) {
        const struct pool_size *size = i < tried ? NULL : find_tile(s, p, i, results);
        t.offsets = p->offsets + p->first[i];
        t.end = p->offsets + p->first[i + 1];
        t.scales = scales ? scales + i : NULL;
        t.y = y + i * s->y_place;
        if (!size) {
            (scales ? add_one : most_one)(&t);
            i++;
        } else if ((scales ? size->add : size->most)(&t)) {
            i += size->results;
        } else {
            tried = i + size->results;
        }
    }
}

#endif
