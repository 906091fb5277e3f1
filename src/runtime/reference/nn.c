/* nn.c - the steps of hypatia/nn.h in plain C: sums in double, one rounding to the type; the judge of the others. */
#include "runtime/nn/nn.h"

#include <math.h>

#include "base/dtype.h"
#include "runtime/reference/reference.h"

typedef struct state {
    void *workspace;
    size_t bytes;
} state;

static hyp_status nn_open(void *device, void *stream, void **out, hyp_diag *diag)
{
    (void)device;
    if (stream) return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "a stream was given, and the reference device has none");
    *out = hyp_calloc(1, sizeof(state));
    return *out ? HYP_OK : hyp_fail_memory(diag, sizeof(state));
}

static void nn_close(void *opaque)
{
    hyp_aligned_free(((state *)opaque)->workspace);
    hyp_free(opaque);
}

static hyp_status begin(void *opaque, void *stream, size_t workspace, void **out, hyp_diag *diag)
{
    state *s = opaque;
    if (stream) return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "options->stream is set, and the reference device has none");
    HYP_TRY(hyp_nn_grow(&s->workspace, &s->bytes, workspace, diag));
    *out = s->workspace;
    return HYP_OK;
}

static hyp_status end(void *opaque, hyp_status status, hyp_diag *diag)
{
    (void)opaque, (void)diag;
    return status;
}

static hyp_status prepare(void *opaque, const hyp_nn_step *step, hyp_diag *diag)
{
    (void)opaque, (void)step, (void)diag;
    return HYP_OK;
}

double hyp_reference_act_gradient(HypPlan__Act act, double v)
{
    const double pi = 3.14159265358979323846;
    switch (act) {
    case HYP_PLAN__ACT__ACT_RELU: return v > 0;
    case HYP_PLAN__ACT__ACT_GELU:
        if (isinf(v)) return v > 0;
        return 0.5 * (1 + erf(v / sqrt(2))) + v * exp(-v * v / 2) / sqrt(2 * pi);
    case HYP_PLAN__ACT__ACT_GELU_TANH: {
        double c = sqrt(2 / pi), t = tanh(c * (v + 0.044715 * v * v * v));
        double rest = v * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v);
        return 0.5 * (1 + t) + (fabs(t) == 1 ? 0 : 0.5 * rest);
    }
    case HYP_PLAN__ACT__ACT_SILU: {
        double s = 1 / (1 + exp(-v));
        return s + (s == 0 || s == 1 ? 0 : v * s * (1 - s));
    }
    default: return 1;
    }
}

typedef struct pass {
    const hyp_nn_step *s;
    const hyp_nn_operands *at;
    hyp_dtype t;
} pass;

static void store(const pass *p, void *to, int64_t i, bool add, double v)
{
    hyp_store_f64(p->t, to, (size_t)i, v + (add ? hyp_load_f64(p->t, to, (size_t)i) : 0));
}

/* v, a sum of `row` and `column` of the forward pass, by the activation; what the backward pass wants is left in aux.
 */
static double activate(const pass *p, int64_t row, int64_t column, double v)
{
    double r = hyp_reference_act(hyp_nn_plan_act(p->s->act), v);
    if (!p->s->aux) return r;
    uint8_t *mask = (uint8_t *)p->at->aux + row * hyp_nn_mask_ld(p->s->out) / 8 + column / 8;
    if (p->s->act != HYP_NN_RELU) {
        int64_t i = row * hyp_nn_hidden_ld(p->s->out) + column;
        store(p, p->at->aux, i, false, v);
        return hyp_reference_act(hyp_nn_plan_act(p->s->act), hyp_load_f64(p->t, p->at->aux, (size_t)i));
    }
    if (column % 8 == 0) *mask = 0;
    *mask = (uint8_t)(*mask | (v > 0) << column % 8);
    return r;
}

/* The gradient g with respect to the result of an activation of so many columns, by that. */
static double gradient(const pass *p, int64_t columns, int64_t row, int64_t column, double g)
{
    size_t i = (size_t)(row * hyp_nn_hidden_ld(columns) + column);
    if (p->s->act == HYP_NN_NONE) return g;
    if (p->s->act != HYP_NN_RELU)
        return g * hyp_reference_act_gradient(hyp_nn_plan_act(p->s->act), hyp_load_f64(p->t, p->at->aux, i));
    if (!p->s->aux) return hyp_load_f64(p->t, p->at->h, i) > 0 ? g : 0;
    const uint8_t *mask = (const uint8_t *)p->at->aux + row * hyp_nn_mask_ld(columns) / 8 + column / 8;
    return *mask >> column % 8 & 1 ? g : 0;
}

/* The sum over i < n of a[a0 + i a_step] b[b0 + i b_step]. */
static double dot(hyp_dtype t, const void *a, int64_t a0, int64_t a_step, const void *b, int64_t b0, int64_t b_step,
                  int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += hyp_load_f64(t, a, (size_t)(a0 + i * a_step)) * hyp_load_f64(t, b, (size_t)(b0 + i * b_step));
    return sum;
}

/* The sums of the columns of the matrix at `from`. */
static void sum_rows(const pass *p, const void *from, int64_t columns, int64_t ld)
{
    for (int64_t j = 0; j < columns && p->s->bias; j++) {
        double sum = 0;
        for (int64_t i = 0; i < p->s->rows; i++) sum += hyp_load_f64(p->t, from, (size_t)(i * ld + j));
        store(p, p->at->b, j, p->s->add_bias, sum);
    }
}

static hyp_status run(void *opaque, const hyp_nn_step *s, const hyp_nn_operands *at, hyp_diag *diag)
{
    const pass p = {s, at, (hyp_dtype)s->dtype};
    (void)opaque, (void)diag;
    for (int64_t i = 0; i < s->rows && s->kind == HYP_NN_FORWARD; i++)
        for (int64_t j = 0; j < s->out; j++) {
            double v = dot(p.t, at->x, i * s->x_ld, 1, at->w, j * s->in, 1, s->in);
            if (s->bias) v += hyp_load_f64(p.t, at->b, (size_t)j);
            store(&p, at->y, i * s->y_ld + j, false, activate(&p, i, j, v));
        }
    for (int64_t i = 0; i < s->rows && s->kind == HYP_NN_DGRAD; i++)
        for (int64_t j = 0; j < s->in; j++) {
            double v = dot(p.t, at->y, i * s->y_ld, 1, at->w, j, s->in, s->out);
            store(&p, at->x, i * s->x_ld + j, s->add, gradient(&p, s->in, i, j, v));
        }
    for (int64_t i = 0; i < s->out && s->kind == HYP_NN_WGRAD; i++)
        for (int64_t j = 0; j < s->in; j++)
            store(&p, at->w, i * s->in + j, s->add, dot(p.t, at->y, i, s->y_ld, at->x, j, s->x_ld, s->rows));
    for (int64_t i = 0; i < s->rows && s->kind == HYP_NN_GRAD; i++)
        for (int64_t j = 0; j < s->out; j++)
            store(&p, at->x, i * s->x_ld + j, false,
                  gradient(&p, s->out, i, j, hyp_load_f64(p.t, at->y, (size_t)(i * s->y_ld + j))));
    if (s->kind == HYP_NN_DGRAD) sum_rows(&p, at->x, s->in, s->x_ld);
    if (s->kind == HYP_NN_WGRAD || s->kind == HYP_NN_SUMS) sum_rows(&p, at->y, s->out, s->y_ld);
    return HYP_OK;
}

static bool describe(const void *opaque, size_t i, char *out, size_t size)
{
    (void)opaque, (void)i, (void)out, (void)size;
    return false;
}

const hyp_nn_backend hyp_nn_backend_reference = {
    .saved_align = 16,
    .open = nn_open,
    .close = nn_close,
    .begin = begin,
    .end = end,
    .prepare = prepare,
    .run = run,
    .describe = describe,
};
