/* Gradients of recurrences in one direction. What depends on a time alone, the slopes of its cell, was computed before,
 * for all times at once; here gradients go from each time to the one before it. What is done at a time is in
 * ir/ops.def. */
#include "kernels/recurrent.h"

hyp_kernel_fn hyp_kernel_lstm_gradient, hyp_kernel_gru_gradient, hyp_kernel_rnn_gradient;

/* ---- what is asked for ------------------------------------------------------------------------------------- */

static hyp_status want(const hyp_kernel_call *c, const hyp_array *a, int32_t rank, const int64_t *dims,
                       const char *what)
{
    if (!a) return HYP_OK;
    if (a->dtype != c->in[0].dtype) return hyp_kernel_fail(c, "%s is of another type than n", what);
    return hyp_kernel_want_shape(c, a, rank, dims, what);
}

hyp_status hyp_recurrence_gradient_read(const hyp_kernel_call *c, hyp_recurrence_gradient *k)
{
    bool lstm = strcmp(c->op, "lstm-gradient") == 0, gru = strcmp(c->op, "gru-gradient") == 0;
    const hyp_array *n = hyp_kernel_input(c, HYP_SLOPE_N);
    *k = (hyp_recurrence_gradient){.cell = lstm  ? HYP_CELL_LSTM
                                           : gru ? HYP_CELL_GRU
                                                 : HYP_CELL_RNN,
                                   .r = hyp_kernel_input(c, 1),
                                   .lengths = hyp_kernel_input(c, 2),
                                   .g = hyp_kernel_input(c, 3),
                                   .h = hyp_kernel_input(c, 4),
                                   .c = lstm ? hyp_kernel_input(c, 5) : NULL,
                                   .gates = lstm  ? 4
                                            : gru ? 3
                                                  : 1,
                                   .reverse = c->attrs[0].i != 0,
                                   .reset_after = gru && c->attrs[1].i != 0};
    if (!n || !k->r || n->rank != 3 || k->r->rank != 2 || !hyp_array_is_float(n))
        return hyp_kernel_fail(c, "n and r are [t b n] and [n m] of floats");
    k->time = n->dims[0];
    k->batch = n->dims[1];
    k->size = n->dims[2];
    if (k->size > INT64_MAX / 4) return hyp_kernel_fail(c, "a state of %lld", (long long)k->size);
    const int64_t all[] = {k->time, k->batch, k->size}, columns = k->gates * k->size;
    HYP_TRY(want(c, k->r, 2, (int64_t[]){k->size, columns}, "r"));
    HYP_TRY(want(c, k->g, 3, all, "g"));
    HYP_TRY(want(c, k->h, 2, all + 1, "h"));
    HYP_TRY(want(c, k->c, 2, all + 1, "c"));
    k->slope[HYP_SLOPE_N] = n;
    for (uint32_t i = lstm ? HYP_SLOPE_LSTM_I : HYP_SLOPE_GRU_U; k->gates > 1 && i < c->in_count; i++) {
        k->slope[i] = hyp_kernel_input(c, i);
        HYP_TRY(want(c, k->slope[i], 3, all, "a slope"));
    }
    HYP_TRY(want(c, &c->out[0], 3, (int64_t[]){k->time, k->batch, columns}, "the result"));
    for (uint32_t i = 1; i < c->out_count; i++) HYP_TRY(want(c, &c->out[i], 2, all + 1, "the gradient of a state"));
    return k->lengths ? hyp_kernel_want_shape(c, k->lengths, 1, &k->batch, "the list of lengths") : HYP_OK;
}

/* ---- one sequence after the other -------------------------------------------------------------------------- */

typedef struct sequence {
    hyp_recurrence_gradient asked;
    double *h, *c, *e,
        *d;      /* size, size, size, gates*size: the gradients of state and cell; of a GRU, by m; of the gates */
    int64_t row; /* time * batch + sequence */
} sequence;

static double slope(const sequence *s, int which, int64_t i)
{
    const hyp_array *a = s->asked.slope[which];
    return a ? hyp_array_f64(a, s->row * s->asked.size + i) : 0;
}

/* The sum of d[j] r[i][j] over the columns of gates from `first` to `end`. */
static double product(const sequence *s, const double *d, int64_t i, int64_t first, int64_t end)
{
    int64_t columns = s->asked.gates * s->asked.size;
    double sum = 0;
    for (int64_t j = first * s->asked.size; j < end * s->asked.size; j++)
        sum += d[j] * hyp_array_f64(s->asked.r, i * columns + j);
    return sum;
}

static void lstm_back(sequence *s)
{
    int64_t n = s->asked.size;
    for (int64_t i = 0; i < n; i++) {
        s->c[i] += slope(s, HYP_SLOPE_LSTM_A, i) * s->h[i];
        s->d[i] = slope(s, HYP_SLOPE_LSTM_I, i) * s->c[i];
        s->d[n + i] = slope(s, HYP_SLOPE_LSTM_O, i) * s->h[i];
        s->d[2 * n + i] = slope(s, HYP_SLOPE_LSTM_F, i) * s->c[i];
        s->d[3 * n + i] = slope(s, HYP_SLOPE_N, i) * s->c[i];
        s->c[i] *= slope(s, HYP_SLOPE_LSTM_K, i);
    }
    for (int64_t i = 0; i < n; i++) s->h[i] = product(s, s->d, i, 0, 4);
}

static void gru_back(sequence *s)
{
    int64_t n = s->asked.size;
    bool after = s->asked.reset_after;
    for (int64_t i = 0; i < n; i++) {
        s->d[i] = slope(s, HYP_SLOPE_GRU_U, i) * s->h[i];
        s->d[2 * n + i] = slope(s, HYP_SLOPE_N, i) * s->h[i];
        if (after) s->d[n + i] = slope(s, HYP_SLOPE_GRU_S, i) * s->h[i];
        s->h[i] *= slope(s, HYP_SLOPE_GRU_K, i);
    }
    for (int64_t i = 0; i < n; i++)
        s->e[i] = after ? slope(s, HYP_SLOPE_GRU_M, i) * s->d[2 * n + i] : product(s, s->d, i, 2, 3);
    for (int64_t i = 0; i < n && !after; i++) {
        s->d[n + i] = slope(s, HYP_SLOPE_GRU_S, i) * s->e[i];
        s->h[i] += slope(s, HYP_SLOPE_GRU_M, i) * s->e[i];
    }
    for (int64_t i = 0; i < n; i++) {
        s->h[i] += product(s, s->d, i, 0, 2);
        if (after) s->h[i] += product(s, s->e - 2 * n, i, 2, 3);
    }
}

static void rnn_back(sequence *s)
{
    for (int64_t i = 0; i < s->asked.size; i++) s->d[i] = slope(s, HYP_SLOPE_N, i) * s->h[i];
    for (int64_t i = 0; i < s->asked.size; i++) s->h[i] = product(s, s->d, i, 0, 1);
}

static void load(const hyp_array *from, int64_t row, int64_t size, double *to)
{
    for (int64_t i = 0; i < size; i++) to[i] = from ? hyp_array_f64(from, row * size + i) : 0;
}

static void store(const hyp_array *to, int64_t row, int64_t size, const double *from)
{
    for (int64_t i = 0; i < size; i++) hyp_array_set_f64(to, row * size + i, from ? from[i] : 0);
}

static hyp_status run(const hyp_kernel_call *call, void (*back)(sequence *))
{
    sequence s;
    const hyp_recurrence_gradient *k = &s.asked;
    HYP_TRY(hyp_recurrence_gradient_read(call, &s.asked));
    HYP_TRY(hyp_recurrence_check_lengths(call, k->lengths, k->time));
    if (k->size == 0) return HYP_OK;
    int64_t columns = k->gates * k->size;
    s.h = call->scratch;
    s.c = s.h + k->size;
    s.e = s.c + k->size;
    s.d = s.e + k->size;
    for (int64_t b = 0; b < k->batch; b++) {
        int64_t length = k->lengths ? hyp_array_i64(k->lengths, b) : k->time;
        load(k->h, b, k->size, s.h);
        load(k->c, b, k->size, s.c);
        for (int64_t i = 0; i < length; i++) {
            s.row = (k->reverse ? i : length - 1 - i) * k->batch + b;
            for (int64_t j = 0; j < k->size && k->g; j++) s.h[j] += hyp_array_f64(k->g, s.row * k->size + j);
            back(&s);
            store(&call->out[0], s.row, columns, s.d);
        }
        for (int64_t t = length; t < k->time; t++) store(&call->out[0], t * k->batch + b, columns, NULL);
        store(&call->out[1], b, k->size, s.h);
        if (k->cell == HYP_CELL_LSTM) store(&call->out[2], b, k->size, s.c);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_lstm_gradient(const hyp_kernel_call *c) { return run(c, lstm_back); }
hyp_status hyp_kernel_gru_gradient(const hyp_kernel_call *c) { return run(c, gru_back); }
hyp_status hyp_kernel_rnn_gradient(const hyp_kernel_call *c) { return run(c, rnn_back); }
