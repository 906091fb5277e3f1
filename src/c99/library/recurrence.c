#include "activate.h"

/* An LSTM, a GRU or a plain recurrence over x[time, batch, gates size], in which what the input says has been computed. */
enum hyp_cell { HYP_RNN = 1, HYP_GRU = 3, HYP_LSTM = 4 }; /* how many gates */
struct hyp_recurrence {
    enum hyp_cell cell;
    long time, batch, size;
    const float *x, *r, *h0, *c0, *bias, *peepholes; /* all but the first two may be NULL */
    const void *lengths;                             /* of int64_t if `wide`, else of int32_t, or NULL */
    int wide, reverse, coupled, reset_after, f, g, last;
    float clip;
    float *y, *h, *c, *cells; /* states, the last state and cell, all cells, which may be NULL */
};

/* to[j] += state r[:, first + j] */
static void hyp_add_state(const struct hyp_recurrence *s, const float *state, long first, long count, float *to)
{
    for (long i = 0; i < s->size; i++) {
        const float *row = s->r + i * (long)s->cell * s->size + first, v = state[i];
        for (long j = 0; j < count; j++) to[j] += v * row[j];
    }
}

static void hyp_gates(const struct hyp_recurrence *s, int act, float *x, long count)
{
    if (s->clip > 0)
        for (long i = 0; i < count; i++) x[i] = x[i] > s->clip ? s->clip : x[i] < -s->clip ? -s->clip : x[i];
    hyp_activate(act, x, count, 0);
}

/* Gates input, output, forget, cell; the peepholes are those of the first three. */
static void hyp_lstm(const struct hyp_recurrence *s, float *sums, float *h, float *c)
{
    long n = s->size;
    const float *p = s->peepholes;
    hyp_add_state(s, h, 0, 4 * n, sums);
    for (long i = 0; i < n && p; i++) {
        sums[i] += p[i] * c[i];
        sums[2 * n + i] += p[2 * n + i] * c[i];
    }
    hyp_gates(s, s->f, sums, n);
    hyp_gates(s, s->f, sums + 2 * n, n);
    hyp_gates(s, s->g, sums + 3 * n, n);
    for (long i = 0; i < n; i++) {
        float forget = s->coupled ? 1 - sums[i] : sums[2 * n + i];
        c[i] = forget * c[i] + sums[i] * sums[3 * n + i];
        if (p) sums[n + i] += p[n + i] * c[i];
        h[i] = c[i];
    }
    hyp_gates(s, s->f, sums + n, n);
    hyp_activate(s->last, h, n, 0);
    for (long i = 0; i < n; i++) h[i] *= sums[n + i];
}

/* Gates update, reset, candidate. */
static void hyp_gru(const struct hyp_recurrence *s, float *sums, float *h)
{
    long n = s->size;
    float *update = sums, *reset = sums + n, *candidate = sums + 2 * n, *more = sums + 3 * n;
    hyp_add_state(s, h, 0, 2 * n, sums);
    hyp_gates(s, s->f, sums, 2 * n);
    for (long i = 0; i < n; i++) more[i] = s->bias ? s->bias[i] : 0;
    if (s->reset_after) {
        hyp_add_state(s, h, 2 * n, n, more);
        for (long i = 0; i < n; i++) candidate[i] += reset[i] * more[i];
    } else {
        for (long i = 0; i < n; i++) {
            candidate[i] += more[i];
            reset[i] *= h[i];
        }
        hyp_add_state(s, reset, 2 * n, n, candidate);
    }
    hyp_gates(s, s->g, candidate, n);
    for (long i = 0; i < n; i++) h[i] = (1 - update[i]) * candidate[i] + update[i] * h[i];
}

static void hyp_rnn(const struct hyp_recurrence *s, float *sums, float *h)
{
    hyp_add_state(s, h, 0, s->size, sums);
    hyp_gates(s, s->f, sums, s->size);
    for (long i = 0; i < s->size; i++) h[i] = sums[i];
}

/* sums: [gates size], and of a GRU [size] more. Not 0: a length is out of range. */
static int hyp_recur(const struct hyp_recurrence *s, float *sums)
{
    long n = s->size, columns = (long)s->cell * n;
    for (long b = 0; b < s->batch; b++) {
        int64_t length = !s->lengths ? s->time
                         : s->wide   ? ((const int64_t *)s->lengths)[b]
                                     : ((const int32_t *)s->lengths)[b];
        float *h = s->h + b * n, *c = s->c ? s->c + b * n : 0;
        if (length < 0 || length > s->time) return 1;
        for (long i = 0; i < n; i++) h[i] = s->h0 ? s->h0[b * n + i] : 0;
        for (long i = 0; i < n && c; i++) c[i] = s->c0 ? s->c0[b * n + i] : 0;
        for (long t = 0; t < s->time; t++) {
            long row = ((s->reverse && t < length ? (long)length - 1 - t : t) * s->batch + b);
            for (long i = 0; i < columns && t < length; i++) sums[i] = s->x[row * columns + i];
            if (t < length && s->cell == HYP_LSTM) hyp_lstm(s, sums, h, c);
            if (t < length && s->cell == HYP_GRU) hyp_gru(s, sums, h);
            if (t < length && s->cell == HYP_RNN) hyp_rnn(s, sums, h);
            for (long i = 0; i < n; i++) s->y[row * n + i] = t < length ? h[i] : 0;
            for (long i = 0; i < n && s->cells; i++) s->cells[row * n + i] = t < length ? c[i] : 0;
        }
    }
    return 0;
}
