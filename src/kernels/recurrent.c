/* Recurrences: LSTM, GRU and plain RNN in one direction. What depends on the input alone is a product that was computed
 * before, for all times at once; here each step adds what depends on the state. The definitions are ONNX's. */
#include <math.h>

#include "kernels/kernels.h"

hyp_kernel_fn hyp_kernel_lstm, hyp_kernel_gru, hyp_kernel_rnn;
hyp_kernel_scratch_fn hyp_kernel_scratch_lstm, hyp_kernel_scratch_gru, hyp_kernel_scratch_rnn;

typedef double activation(double);

typedef struct recurrence {
    const hyp_kernel_call *call;
    const hyp_array *x, *r, *lengths; /* [time batch gates*size], [size gates*size], [batch] or NULL */
    const hyp_array *h0, *c0;         /* [batch size] or NULL; c0 of an LSTM */
    int64_t time, batch, gates, size;
    bool reverse;
    double clip; /* 0: none */
    activation *f, *g;
    double *sums, *h, *c, *reset; /* of one sequence: gates*size, size, size, size */
} recurrence;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return x < 0 ? 0 : x; }

static hyp_status find_activation(const hyp_kernel_call *c, uint32_t attr, activation **out)
{
    const char *name = c->attrs[attr].sym;
    *out = strcmp(name, "sigmoid") == 0 ? sigmoid : strcmp(name, "tanh") == 0 ? tanh : relu;
    return *out != relu || strcmp(name, "relu") == 0 ? HYP_OK : hyp_kernel_fail(c, "no activation '%s'", name);
}

static hyp_status want_float(const recurrence *k, const hyp_array *a, int32_t rank, const int64_t *dims,
                             const char *what)
{
    if (!a) return HYP_OK;
    if (a->dtype != k->x->dtype) return hyp_kernel_fail(k->call, "%s is of another type than x", what);
    return hyp_kernel_want_shape(k->call, a, rank, dims, what);
}

/* Inputs x, r, and from `lengths_at` on lengths, h and, for an LSTM, c. The second output is the last h, the third the
 * last c. */
static hyp_status start(recurrence *k, const hyp_kernel_call *c, int64_t gates, uint32_t lengths_at)
{
    *k = (recurrence){.call = c, .x = hyp_kernel_input(c, 0), .r = hyp_kernel_input(c, 1), .gates = gates};
    if (!k->x || !k->r || k->x->rank != 3 || k->r->rank != 2)
        return hyp_kernel_fail(c, "x and r are [t b n] and [m n]");
    k->lengths = hyp_kernel_input(c, lengths_at);
    k->h0 = hyp_kernel_input(c, lengths_at + 1);
    k->c0 = c->out_count == 3 ? hyp_kernel_input(c, lengths_at + 2) : NULL;
    k->time = k->x->dims[0];
    k->batch = k->x->dims[1];
    k->size = k->r->dims[0];
    k->reverse = c->attrs[0].i != 0;
    k->clip = c->attrs[1].f;
    const int64_t y[] = {k->time, k->batch, k->size}, state[] = {k->batch, k->size};
    if (!hyp_array_is_float(k->x)) return hyp_kernel_fail(c, "x is not of floats");
    if (k->size > INT64_MAX / 4 || k->x->dims[2] != gates * k->size)
        return hyp_kernel_fail(c, "x has %lld columns for a state of %lld", (long long)k->x->dims[2],
                               (long long)k->size);
    HYP_TRY(want_float(k, k->r, 2, (int64_t[]){k->size, gates * k->size}, "r"));
    HYP_TRY(want_float(k, k->h0, 2, state, "the first state"));
    HYP_TRY(want_float(k, k->c0, 2, state, "the first cell"));
    HYP_TRY(want_float(k, &c->out[0], 3, y, "the result"));
    for (uint32_t i = 1; i < c->out_count; i++) HYP_TRY(want_float(k, &c->out[i], 2, state, "the last state"));
    if (k->lengths) HYP_TRY(hyp_kernel_want_shape(c, k->lengths, 1, &k->batch, "the list of lengths"));
    for (int64_t b = 0; k->lengths && b < k->batch; b++)
        if (hyp_array_i64(k->lengths, b) < 0 || hyp_array_i64(k->lengths, b) > k->time)
            return hyp_kernel_fail(c, "length %lld is out of range for sequences of %lld",
                                   (long long)hyp_array_i64(k->lengths, b), (long long)k->time);
    HYP_TRY(find_activation(c, 2, &k->f));
    k->g = k->f;
    k->sums = c->scratch;
    k->h = k->sums + gates * k->size;
    k->c = k->h + k->size;
    k->reset = k->c + k->size;
    return HYP_OK;
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
    int64_t columns = k->gates * k->size;
    double *restrict sums = k->sums;
    for (int64_t i = 0; i < k->size; i++) {
        double s = state[i];
        if (k->r->stored == HYP_F32) {
            const float *row = (const float *)k->r->data + i * columns;
            for (int64_t j = from; j < to; j++) sums[j] += s * (double)row[j];
        } else {
            for (int64_t j = from; j < to; j++) sums[j] += s * hyp_array_f64(k->r, i * columns + j);
        }
    }
}

static double clipped(const recurrence *k, double v)
{
    return k->clip > 0 ? (v > k->clip ? k->clip : v < -k->clip ? -k->clip : v) : v;
}

static void load_state(const recurrence *k, const hyp_array *from, int64_t b, double *state)
{
    for (int64_t i = 0; i < k->size; i++) state[i] = from ? hyp_array_f64(from, b * k->size + i) : 0;
}

static void store_state(const recurrence *k, const hyp_array *to, int64_t row, const double *state)
{
    for (int64_t i = 0; i < k->size; i++) hyp_array_set_f64(to, row * k->size + i, state[i]);
}

/* Every sequence from its first time to its last, or back; times behind its length give 0 and leave the state. `step`
 * finds in k->sums what x says and makes the next state. */
static void run(recurrence *k, void (*step)(recurrence *))
{
    const hyp_array *y = &k->call->out[0];
    int64_t columns = k->gates * k->size;
    for (int64_t b = 0; b < k->batch; b++) {
        int64_t length = k->lengths ? hyp_array_i64(k->lengths, b) : k->time;
        load_state(k, k->h0, b, k->h);
        load_state(k, k->c0, b, k->c);
        for (int64_t i = 0; i < length; i++) {
            int64_t row = (k->reverse ? length - 1 - i : i) * k->batch + b;
            for (int64_t j = 0; j < columns; j++) k->sums[j] = hyp_array_f64(k->x, row * columns + j);
            step(k);
            store_state(k, y, row, k->h);
        }
        for (int64_t t = length; t < k->time; t++)
            for (int64_t i = 0; i < k->size; i++) hyp_array_set_f64(y, (t * k->batch + b) * k->size + i, 0);
        store_state(k, &k->call->out[1], b, k->h);
        if (k->call->out_count == 3) store_state(k, &k->call->out[2], b, k->c);
    }
}

static void rnn_step(recurrence *k)
{
    add_product(k, k->h, 0, k->size);
    for (int64_t i = 0; i < k->size; i++) k->h[i] = k->f(clipped(k, k->sums[i]));
}

hyp_status hyp_kernel_rnn(const hyp_kernel_call *c)
{
    recurrence k;
    HYP_TRY(start(&k, c, 1, 2));
    run(&k, rnn_step);
    return HYP_OK;
}

/* Gates update, reset, candidate. */
static void gru_step(recurrence *k)
{
    int64_t n = k->size;
    bool before = k->call->attrs[4].i != 0;
    const hyp_array *bias = hyp_kernel_input(k->call, 2);
    const double *sums = k->sums;
    add_product(k, k->h, 0, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        double reset = k->f(clipped(k, sums[n + i]));
        k->reset[i] = before ? reset : reset * k->h[i];
    }
    if (before) { /* the reset gate takes the product with the state, not the state */
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

hyp_status hyp_kernel_gru(const hyp_kernel_call *c)
{
    recurrence k;
    HYP_TRY(start(&k, c, 3, 3));
    HYP_TRY(want_float(&k, hyp_kernel_input(c, 2), 1, &k.size, "the bias"));
    HYP_TRY(find_activation(c, 3, &k.g));
    run(&k, gru_step);
    return HYP_OK;
}

/* Gates input, output, forget, cell; the peepholes are those of the first three. */
static void lstm_step(recurrence *k)
{
    const hyp_kernel_call *call = k->call;
    int64_t n = k->size;
    bool coupled = call->attrs[5].i != 0;
    const hyp_array *p = hyp_kernel_input(call, 5);
    activation *last = tanh;
    (void)find_activation(call, 4, &last); /* checked before */
    add_product(k, k->h, 0, 4 * n);
    for (int64_t i = 0; i < n; i++) {
        double in = k->sums[i], out = k->sums[n + i], forget = k->sums[2 * n + i], c = k->c[i];
        if (p) {
            in += hyp_array_f64(p, i) * c;
            forget += hyp_array_f64(p, 2 * n + i) * c;
        }
        in = k->f(clipped(k, in));
        forget = coupled ? 1 - in : k->f(clipped(k, forget));
        c = forget * c + in * k->g(clipped(k, k->sums[3 * n + i]));
        if (p) out += hyp_array_f64(p, n + i) * c;
        k->c[i] = c;
        k->h[i] = k->f(clipped(k, out)) * last(c);
    }
}

hyp_status hyp_kernel_lstm(const hyp_kernel_call *c)
{
    recurrence k;
    activation *last;
    HYP_TRY(start(&k, c, 4, 2));
    HYP_TRY(want_float(&k, hyp_kernel_input(c, 5), 1, (int64_t[]){3 * k.size}, "the list of peepholes"));
    HYP_TRY(find_activation(c, 3, &k.g));
    HYP_TRY(find_activation(c, 4, &last));
    run(&k, lstm_step);
    return HYP_OK;
}
