/* recurrent_gradient.c - lstm-gradient, gru-gradient and rnn-gradient in f32: at each time the cell's own arithmetic
 * for all sequences, then the product of their gates' gradients with r, by the kernel of layers. r is packed once for a
 * run.
 *
 * Times are counted as they lie in memory, so that those of all sequences are one matrix; a sequence that is at its
 * end, or has not come to it yet, has zeros there, and keeps the gradients of its state.
 */
#include "kernels/recurrent.h"

#include "runtime/cpu/cpu.h"

enum { LANES = 16 /* floats of the widest vector */ };

typedef struct gradient {
    hyp_recurrence_gradient asked; /* its arrays are NULL: tensors are below */
    uint32_t in_plus1[HYP_SLOPES], out[3];
    hyp_dtype lengths_dtype;
    size_t e_at, c_at, layers_at; /* in floats of the work space, where h is first */
} gradient;

typedef struct gradient_run {
    const gradient *s;
    const hyp_cpu_run *run;
    const float *g, *slope[HYP_SLOPES]; /* of this time, NULL where absent */
    const void *lengths;
    float *h, *c, *e, *d; /* [batch, size], those of a GRU's e and d [batch, gates*size] */
    int64_t time;
    bool again; /* of a GRU with the reset gate before: what comes behind its first product */
} gradient_run;

/* ---- cells: a row of each ------------------------------------------------------------------------------------ */

#define AT(p, i) ((p) ? (p)[i] : 0.0f)

static void lstm_row(const gradient_run *r, int64_t n, int64_t row)
{
    const float *const *p = r->slope;
    float *h = r->h + row * n, *c = r->c + row * n, *d = r->d + row * 4 * n;
    for (int64_t i = 0, at = row * n; i < n; i++, at++) {
        float of_h = h[i] + AT(r->g, at), of_c = c[i] + AT(p[HYP_SLOPE_LSTM_A], at) * of_h;
        d[i] = AT(p[HYP_SLOPE_LSTM_I], at) * of_c;
        d[n + i] = AT(p[HYP_SLOPE_LSTM_O], at) * of_h;
        d[2 * n + i] = AT(p[HYP_SLOPE_LSTM_F], at) * of_c;
        d[3 * n + i] = AT(p[HYP_SLOPE_N], at) * of_c;
        c[i] = AT(p[HYP_SLOPE_LSTM_K], at) * of_c;
        h[i] = 0;
    }
}

static void gru_row(const gradient_run *r, int64_t n, int64_t row)
{
    const float *const *p = r->slope;
    bool after = r->s->asked.reset_after;
    float *h = r->h + row * n, *d = r->d + row * 3 * n, *e = r->e + row * 3 * n;
    for (int64_t i = 0, at = row * n; i < n; i++, at++) {
        float of_h = h[i] + AT(r->g, at);
        d[i] = AT(p[HYP_SLOPE_GRU_U], at) * of_h;
        d[2 * n + i] = AT(p[HYP_SLOPE_N], at) * of_h;
        h[i] = AT(p[HYP_SLOPE_GRU_K], at) * of_h;
        if (!after) continue;
        d[n + i] = AT(p[HYP_SLOPE_GRU_S], at) * of_h;
        e[i] = d[i];
        e[n + i] = d[n + i];
        e[2 * n + i] = AT(p[HYP_SLOPE_GRU_M], at) * d[2 * n + i];
    }
}

/* e, which is there now, is that of the state times the reset gate. */
static void gru_reset_row(const gradient_run *r, int64_t n, int64_t row)
{
    const float *const *p = r->slope;
    float *h = r->h + row * n, *d = r->d + row * 3 * n;
    const float *e = r->e + row * n;
    for (int64_t i = 0, at = row * n; i < n; i++, at++) {
        d[n + i] = AT(p[HYP_SLOPE_GRU_S], at) * e[i];
        h[i] += AT(p[HYP_SLOPE_GRU_M], at) * e[i];
    }
}

static void rnn_row(const gradient_run *r, int64_t n, int64_t row)
{
    float *h = r->h + row * n, *d = r->d + row * n;
    for (int64_t i = 0, at = row * n; i < n; i++, at++) {
        d[i] = AT(r->slope[HYP_SLOPE_N], at) * (h[i] + AT(r->g, at));
        h[i] = 0;
    }
}

static void rows_part(void *state, int64_t begin, int64_t end, int thread)
{
    const gradient_run *r = state;
    const hyp_recurrence_gradient *k = &r->s->asked;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        if (r->lengths && r->time >= hyp_load_i64(r->s->lengths_dtype, r->lengths, (size_t)row)) {
            memset(r->d + row * k->gates * k->size, 0, (size_t)(k->gates * k->size) * sizeof *r->d);
            if (k->reset_after) memset(r->e + row * k->gates * k->size, 0, (size_t)(k->gates * k->size) * sizeof *r->e);
        } else if (r->again) {
            gru_reset_row(r, k->size, row);
        } else if (k->cell == HYP_CELL_LSTM) {
            lstm_row(r, k->size, row);
        } else if (k->cell == HYP_CELL_GRU) {
            gru_row(r, k->size, row);
        } else {
            rnn_row(r, k->size, row);
        }
    }
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static size_t round_up(size_t n) { return (n + LANES - 1) / LANES * LANES; }

/* The transpose of `gates` gates of r from `first` on as a layer, in memory at *at, which goes behind it. */
static hyp_mlp_layer lay_back(const gradient *s, const hyp_cpu_run *run, int64_t first, int64_t gates, float **at)
{
    const hyp_recurrence_gradient *k = &s->asked;
    const float *r = run->call.at[s->in_plus1[1] - 1];
    size_t room = round_up((size_t)k->size);
    float *bias = *at, *panels = bias + room;
    memset(bias, 0, room * sizeof *bias);
    hyp_cpu_pack_panels(run->kernels, r + first * k->size, k->gates * k->size, 1, k->size, gates * k->size, panels);
    *at = panels + room * (size_t)(gates * k->size);
    return (hyp_mlp_layer){.n = k->size,
                           .k = gates * k->size,
                           .bias = bias,
                           .weights = panels,
                           .act = {.op = HYP_PLAN__POINTWISE__OP__CAST, .to = HYP_F32}};
}

/* y[batch, size] = x r^T, or y + it. */
static void multiply(const gradient_run *r, const hyp_mlp_layer *layer, const float *x, bool adds, float *y)
{
    const hyp_recurrence_gradient *k = &r->s->asked;
    int64_t columns = k->gates * k->size;
    for (int64_t row = 0; row < k->batch; row += HYP_MLP_ROWS) {
        int64_t left = k->batch - row, rows = left < HYP_MLP_ROWS ? left : HYP_MLP_ROWS;
        float *to = y + row * k->size;
        hyp_cpu_run_layer(r->run, layer, rows, x + row * columns, columns, adds ? to : NULL, to, k->size);
    }
}

static void take_time(gradient_run *r, const hyp_mlp_layer *layer)
{
    const hyp_recurrence_gradient *k = &r->s->asked;
    int64_t grain = hyp_cpu_grain(HYP_CPU_COMPUTED, 2 * k->gates * k->size);
    bool before = k->cell == HYP_CELL_GRU && !k->reset_after;
    r->again = false;
    hyp_cpu_parallel(r->run, k->batch, grain, rows_part, r);
    if (before) {
        multiply(r, &layer[1], r->d + 2 * k->size, false, r->e);
        r->again = true;
        hyp_cpu_parallel(r->run, k->batch, grain, rows_part, r);
    }
    multiply(r, &layer[0], k->cell == HYP_CELL_GRU && k->reset_after ? r->e : r->d, true, r->h);
}

static const float *tensor(const hyp_cpu_run *run, uint32_t plus1) { return plus1 ? run->call.at[plus1 - 1] : NULL; }

/* Input i from this element on. */
static const float *at_time(const gradient *s, const hyp_cpu_run *run, uint32_t i, size_t element)
{
    const float *data = tensor(run, s->in_plus1[i]);
    return data ? data + element : NULL;
}

static void load_state(float *to, const float *from, size_t count)
{
    if (from)
        memcpy(to, from, count * sizeof *to);
    else
        memset(to, 0, count * sizeof *to);
}

static hyp_status run_gradient(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const gradient *s = op->state;
    const hyp_recurrence_gradient *k = &s->asked;
    size_t states = (size_t)(k->batch * k->size);
    bool gru = k->cell == HYP_CELL_GRU, two = gru && !k->reset_after;
    float *work = run->call.work, *layers = work + s->layers_at;
    gradient_run r = {.s = s, .run = run, .h = work, .c = work + s->c_at, .e = gru ? work + s->e_at : NULL};
    if (s->in_plus1[2]) {
        hyp_call_arguments a;
        hyp_reference_arguments(&run->call, op->step->call, diag, &a);
        HYP_TRY(hyp_recurrence_check_lengths(&a.call, &a.in[2], k->time));
        r.lengths = run->call.at[s->in_plus1[2] - 1];
    }
    hyp_mlp_layer layer[2] = {lay_back(s, run, 0, two ? 2 : k->gates, &layers)};
    if (two) layer[1] = lay_back(s, run, 2, 1, &layers);
    load_state(r.h, tensor(run, s->in_plus1[4]), states);
    if (k->cell == HYP_CELL_LSTM) load_state(r.c, tensor(run, s->in_plus1[5]), states);
    for (int64_t i = 0; i < k->time; i++) {
        r.time = k->reverse ? i : k->time - 1 - i;
        size_t at = (size_t)r.time * states;
        r.g = at_time(s, run, 3, at);
        r.slope[HYP_SLOPE_N] = at_time(s, run, HYP_SLOPE_N, at);
        for (uint32_t p = k->cell == HYP_CELL_LSTM ? HYP_SLOPE_LSTM_I : HYP_SLOPE_GRU_U; p < HYP_SLOPES; p++)
            r.slope[p] = at_time(s, run, p, at);
        r.d = (float *)run->call.at[s->out[0]] + at * (size_t)k->gates;
        take_time(&r, layer);
    }
    memcpy(run->call.at[s->out[1]], r.h, states * sizeof *r.h);
    if (k->cell == HYP_CELL_LSTM) memcpy(run->call.at[s->out[2]], r.c, states * sizeof *r.c);
    return HYP_OK;
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

/* States, what a GRU multiplies, and r as layers; whole vectors each. */
static bool find_work(gradient *s, size_t *work_bytes)
{
    const hyp_recurrence_gradient *k = &s->asked;
    size_t states, all, room = round_up((size_t)k->size), layers, floats;
    if (!hyp_mul_size((size_t)k->batch, (size_t)k->size, &states) || states > SIZE_MAX / 16 ||
        !hyp_mul_size(round_up(states), (size_t)k->gates, &all) ||
        !hyp_mul_size(room, (size_t)(k->gates * k->size) + 2, &layers))
        return false;
    s->c_at = round_up(states);
    s->e_at = 2 * s->c_at;
    s->layers_at = s->e_at;
    if (k->cell == HYP_CELL_GRU && !hyp_add_size(s->layers_at, all, &s->layers_at)) return false;
    return hyp_add_size(s->layers_at, layers, &floats) && hyp_mul_size(floats, sizeof(float), work_bytes);
}

hyp_status hyp_cpu_prepare_recurrent_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                              const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    (void)channels_last, (void)step;
    const HypPlan__Call *call = op->step->call;
    hyp_call_arguments a;
    hyp_recurrence_gradient k;
    hyp_diag unfit; /* of shapes that do not fit: the plain kernel says so */
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, call, &unfit, &a);
    if (hyp_recurrence_gradient_read(&a.call, &k) != HYP_OK || a.in[0].dtype != HYP_F32 || k.batch == 0 || k.size == 0)
        return HYP_OK;
    gradient *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    if (k.lengths) s->lengths_dtype = k.lengths->dtype;
    for (uint32_t i = 0; i < HYP_SLOPES; i++) s->in_plus1[i] = hyp_plan_call_input(call, i);
    for (size_t i = 0; i < call->n_outputs; i++) s->out[i] = call->outputs[i];
    s->asked = k;
    s->asked.r = s->asked.lengths = s->asked.g = s->asked.h = s->asked.c = NULL;
    memset(s->asked.slope, 0, sizeof s->asked.slope);
    bool can = find_work(s, &op->work_bytes);
    return hyp_cpu_finish_op(op, HYP_OK, can, run_gradient, hyp_free, s);
}
