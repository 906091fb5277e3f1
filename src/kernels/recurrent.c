/* Recurrences: LSTM, GRU and plain RNN in one direction. What depends on the input alone is a product that was computed
 * before, for all times at once; here each step adds what depends on the state. The definitions are ONNX's. */
#include <math.h>

#include "kernels/recurrent.h"

hyp_kernel_fn hyp_kernel_lstm, hyp_kernel_lstm_cells, hyp_kernel_gru, hyp_kernel_rnn;
hyp_kernel_scratch_fn hyp_kernel_scratch_lstm, hyp_kernel_scratch_gru, hyp_kernel_scratch_rnn;

typedef double activation(double);

typedef struct recurrence {
    hyp_recurrence asked;
    activation *f, *g, *last;
    double *sums, *h, *c, *reset; /* of one sequence: gates*size, size, size, size */
} recurrence;

/* ---- what is asked for ------------------------------------------------------------------------------------- */

static hyp_status find_activation(const hyp_kernel_call *c, uint32_t attr, int *out)
{
    const char *name = c->attrs[attr].sym;
    *out = strcmp(name, "sigmoid") == 0 ? HYP_PW_SIGMOID : strcmp(name, "tanh") == 0 ? HYP_PW_TANH : HYP_PW_RELU;
    return *out != HYP_PW_RELU || strcmp(name, "relu") == 0 ? HYP_OK : hyp_kernel_fail(c, "no activation '%s'", name);
}

static hyp_status want_float(const hyp_kernel_call *c, const hyp_array *a, int32_t rank, const int64_t *dims,
                             const char *what)
{
    if (!a) return HYP_OK;
    if (a->dtype != c->in[0].dtype) return hyp_kernel_fail(c, "%s is of another type than x", what);
    return hyp_kernel_want_shape(c, a, rank, dims, what);
}

/* The second output is the last h, the third the last c, the fourth all c. */
static hyp_status read_shapes(const hyp_kernel_call *c, hyp_recurrence *k)
{
    k->x = hyp_kernel_input(c, 0);
    k->r = hyp_kernel_input(c, 1);
    if (!k->x || !k->r || k->x->rank != 3 || k->r->rank != 2)
        return hyp_kernel_fail(c, "x and r are [t b n] and [m n]");
    k->lengths = hyp_kernel_input(c, k->lengths_at);
    k->h0 = hyp_kernel_input(c, k->lengths_at + 1);
    k->c0 = k->cell == HYP_CELL_LSTM ? hyp_kernel_input(c, k->lengths_at + 2) : NULL;
    k->time = k->x->dims[0];
    k->batch = k->x->dims[1];
    k->size = k->r->dims[0];
    const int64_t y[] = {k->time, k->batch, k->size}, state[] = {k->batch, k->size};
    if (!hyp_array_is_float(k->x)) return hyp_kernel_fail(c, "x is not of floats");
    if (k->size > INT64_MAX / 4 || k->x->dims[2] != k->gates * k->size)
        return hyp_kernel_fail(c, "x has %lld columns for a state of %lld", (long long)k->x->dims[2],
                               (long long)k->size);
    HYP_TRY(want_float(c, k->r, 2, (int64_t[]){k->size, k->gates * k->size}, "r"));
    HYP_TRY(want_float(c, k->h0, 2, state, "the first state"));
    HYP_TRY(want_float(c, k->c0, 2, state, "the first cell"));
    HYP_TRY(want_float(c, k->bias, 1, &k->size, "the bias"));
    HYP_TRY(want_float(c, k->peepholes, 1, (int64_t[]){3 * k->size}, "the list of peepholes"));
    HYP_TRY(want_float(c, &c->out[0], 3, y, "the result"));
    for (uint32_t i = 1; i < c->out_count && i < 3; i++)
        HYP_TRY(want_float(c, &c->out[i], 2, state, "the last state"));
    if (c->out_count > 3) HYP_TRY(want_float(c, &c->out[3], 3, y, "the list of cells"));
    return k->lengths ? hyp_kernel_want_shape(c, k->lengths, 1, &k->batch, "the list of lengths") : HYP_OK;
}

hyp_status hyp_recurrence_read(const hyp_kernel_call *c, hyp_recurrence *k)
{
    *k = (hyp_recurrence){.lengths_at = 2, .reverse = c->attrs[0].i != 0, .clip = c->attrs[1].f};
    uint32_t activations = 1;
    if (strcmp(c->op, "lstm") == 0 || strcmp(c->op, "lstm-cells") == 0) {
        k->cell = HYP_CELL_LSTM;
        k->peepholes = hyp_kernel_input(c, 5);
        k->coupled = c->attrs[5].i != 0;
        activations = 3;
    } else if (strcmp(c->op, "gru") == 0) {
        k->cell = HYP_CELL_GRU;
        k->bias = hyp_kernel_input(c, 2);
        k->reset_after = c->attrs[4].i != 0;
        k->lengths_at = 3;
        activations = 2;
    }
    k->gates = k->cell == HYP_CELL_LSTM ? 4 : k->cell == HYP_CELL_GRU ? 3 : 1;
    HYP_TRY(read_shapes(c, k));
    HYP_TRY(find_activation(c, 2, &k->f));
    if (activations > 1) HYP_TRY(find_activation(c, 3, &k->g));
    return activations > 2 ? find_activation(c, 4, &k->h) : HYP_OK;
}

hyp_status hyp_recurrence_check_lengths(const hyp_kernel_call *c, const hyp_array *lengths, int64_t time)
{
    for (int64_t b = 0; lengths && b < lengths->count; b++)
        if (hyp_array_i64(lengths, b) < 0 || hyp_array_i64(lengths, b) > time)
            return hyp_kernel_fail(c, "length %lld is out of range for sequences of %lld",
                                   (long long)hyp_array_i64(lengths, b), (long long)time);
    return HYP_OK;
}

/* ---- one sequence after the other -------------------------------------------------------------------------- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return x < 0 ? 0 : x; }

static activation *function_of(int act)
{
    return act == HYP_PW_SIGMOID ? sigmoid : act == HYP_PW_TANH ? tanh : relu;
}

static size_t scratch_of(const hyp_kernel_call *c, size_t gates)
{
    int64_t size = c->in_count > 1 && c->in[1].rank == 2 ? c->in[1].dims[0] : 0;
    size_t bytes;
    return size < 0 || !hyp_mul_size((size_t)size, (gates + 3) * sizeof(double), &bytes) ? SIZE_MAX : bytes;
}

size_t hyp_kernel_scratch_lstm(const hyp_kernel_call *c) { return scratch_of(c, 4); }
size_t hyp_kernel_scratch_gru(const hyp_kernel_call *c) { return scratch_of(c, 3); }
size_t hyp_kernel_scratch_rnn(const hyp_kernel_call *c) { return scratch_of(c, 1); }

/* sums[from .. to) += state r[:, from .. to) */
static void add_product(const recurrence *k, const double *state, int64_t from, int64_t to)
{
    const hyp_array *r = k->asked.r;
    int64_t columns = r->dims[1];
    double *restrict sums = k->sums;
    for (int64_t i = 0; i < k->asked.size; i++) {
        double s = state[i];
        if (r->stored == HYP_F32) {
            const float *row = (const float *)r->data + i * columns;
            for (int64_t j = from; j < to; j++) sums[j] += s * (double)row[j];
        } else {
            for (int64_t j = from; j < to; j++) sums[j] += s * hyp_array_f64(r, i * columns + j);
        }
    }
}

static double clipped(const recurrence *k, double v)
{
    double clip = k->asked.clip;
    return clip > 0 ? (v > clip ? clip : v < -clip ? -clip : v) : v;
}

static void load_state(const recurrence *k, const hyp_array *from, int64_t b, double *state)
{
    for (int64_t i = 0; i < k->asked.size; i++) state[i] = from ? hyp_array_f64(from, b * k->asked.size + i) : 0;
}

static void store_state(const recurrence *k, const hyp_array *to, int64_t row, const double *state)
{
    for (int64_t i = 0; i < k->asked.size; i++) hyp_array_set_f64(to, row * k->asked.size + i, state[i]);
}

static void rnn_step(recurrence *k)
{
    add_product(k, k->h, 0, k->asked.size);
    for (int64_t i = 0; i < k->asked.size; i++) k->h[i] = k->f(clipped(k, k->sums[i]));
}

/* Gates update, reset, candidate. */
static void gru_step(recurrence *k)
{
    int64_t n = k->asked.size;
    bool after = k->asked.reset_after;
    const hyp_array *bias = k->asked.bias;
    const double *sums = k->sums;
    add_product(k, k->h, 0, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        double reset = k->f(clipped(k, sums[n + i]));
        k->reset[i] = after ? reset : reset * k->h[i];
    }
    if (after) {
        for (int64_t i = 0; i < n; i++) {
            k->c[i] = sums[2 * n + i];
            k->sums[2 * n + i] = bias ? hyp_array_f64(bias, i) : 0;
        }
        add_product(k, k->h, 2 * n, 3 * n);
        for (int64_t i = 0; i < n; i++) k->sums[2 * n + i] = k->c[i] + k->reset[i] * sums[2 * n + i];
    } else {
        for (int64_t i = 0; i < n && bias; i++) k->sums[2 * n + i] += hyp_array_f64(bias, i);
        add_product(k, k->reset, 2 * n, 3 * n);
    }
    for (int64_t i = 0; i < n; i++) {
        double update = k->f(clipped(k, sums[i]));
        k->h[i] = (1 - update) * k->g(clipped(k, sums[2 * n + i])) + update * k->h[i];
    }
}

/* Gates input, output, forget, cell; the peepholes are those of the first three. */
static void lstm_step(recurrence *k)
{
    int64_t n = k->asked.size;
    const hyp_array *p = k->asked.peepholes;
    add_product(k, k->h, 0, 4 * n);
    for (int64_t i = 0; i < n; i++) {
        double in = k->sums[i], out = k->sums[n + i], forget = k->sums[2 * n + i], c = k->c[i];
        if (p) {
            in += hyp_array_f64(p, i) * c;
            forget += hyp_array_f64(p, 2 * n + i) * c;
        }
        in = k->f(clipped(k, in));
        forget = k->asked.coupled ? 1 - in : k->f(clipped(k, forget));
        c = forget * c + in * k->g(clipped(k, k->sums[3 * n + i]));
        if (p) out += hyp_array_f64(p, n + i) * c;
        k->c[i] = c;
        k->h[i] = k->f(clipped(k, out)) * k->last(c);
    }
}

/* Every sequence from its first time to its last, or back; times behind its length give 0 and leave the state. `step`
 * finds in k->sums what x says and makes the next state. */
static hyp_status run(const hyp_kernel_call *call, void (*step)(recurrence *))
{
    recurrence k;
    const hyp_recurrence *asked = &k.asked;
    HYP_TRY(hyp_recurrence_read(call, &k.asked));
    HYP_TRY(hyp_recurrence_check_lengths(call, asked->lengths, asked->time));
    if (asked->size == 0) return HYP_OK; /* of nothing there may be any number of times */
    int64_t columns = asked->gates * asked->size;
    k.f = function_of(asked->f);
    k.g = function_of(asked->g);
    k.last = function_of(asked->h);
    k.sums = call->scratch;
    k.h = k.sums + columns;
    k.c = k.h + asked->size;
    k.reset = k.c + asked->size;
    for (int64_t b = 0; b < asked->batch; b++) {
        int64_t length = asked->lengths ? hyp_array_i64(asked->lengths, b) : asked->time;
        load_state(&k, asked->h0, b, k.h);
        load_state(&k, asked->c0, b, k.c);
        for (int64_t i = 0; i < length; i++) {
            int64_t row = (asked->reverse ? length - 1 - i : i) * asked->batch + b;
            for (int64_t j = 0; j < columns; j++) k.sums[j] = hyp_array_f64(asked->x, row * columns + j);
            step(&k);
            store_state(&k, &call->out[0], row, k.h);
            if (call->out_count > 3) store_state(&k, &call->out[3], row, k.c);
        }
        for (int64_t t = length; t < asked->time; t++)
            for (int64_t i = 0; i < asked->size; i++) {
                int64_t at = (t * asked->batch + b) * asked->size + i;
                hyp_array_set_f64(&call->out[0], at, 0);
                if (call->out_count > 3) hyp_array_set_f64(&call->out[3], at, 0);
            }
        store_state(&k, &call->out[1], b, k.h);
        if (asked->cell == HYP_CELL_LSTM) store_state(&k, &call->out[2], b, k.c);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_rnn(const hyp_kernel_call *c) { return run(c, rnn_step); }
hyp_status hyp_kernel_gru(const hyp_kernel_call *c) { return run(c, gru_step); }
hyp_status hyp_kernel_lstm(const hyp_kernel_call *c) { return run(c, lstm_step); }
hyp_status hyp_kernel_lstm_cells(const hyp_kernel_call *c) { return run(c, lstm_step); }
