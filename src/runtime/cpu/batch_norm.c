/* batch_norm.c - what batch normalizations take of each channel, in f32: one read of x, and of the gradient, by runs of
 * places that lie together. A channel is one thread's, so that its bits do not depend on how many there are. */
#include "kernels/batch_norm.h"

#include <math.h>

#include "runtime/cpu/cpu.h"

typedef struct batch_norm {
    hyp_channels shape;
    double epsilon;
} batch_norm;

typedef struct channels_run {
    const batch_norm *s;
    const hyp_cpu_kernels *kernels;
    const float *x, *g, *mean, *inverse; /* all but x: of a gradient */
    const float *scale, *bias;           /* NULL: there is no relu behind it */
    float *out[3];
} channels_run;

/* Each run is taken from its first element, as far as it may be from 0, and then joined to those before it (Chan, Golub,
 * LeVeque, "Algorithms for computing the sample variance", 1983). */
static void statistics_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const channels_run *r = state;
    const hyp_channels *c = &r->s->shape;
    const double each = (double)c->places, all = each * (double)c->images;
    for (int64_t channel = begin; channel < end; channel++) {
        double mean = 0, squares = 0, sums[2];
        for (int64_t i = 0; i < c->images; i++) {
            const float *x = r->x + (i * c->channels + channel) * c->places;
            r->kernels->channel_sums(x, NULL, c->places, x[0], sums);
            double here = sums[0] / each, away = (double)x[0] + here - mean, before = each * (double)i;
            mean += away / (double)(i + 1);
            squares += sums[1] - sums[0] * here + away * away * before / (double)(i + 1);
        }
        r->out[0][channel] = (float)mean;
        r->out[1][channel] = (float)(squares / all);
        r->out[2][channel] = (float)(1 / sqrt(squares / all + r->s->epsilon));
    }
}

/* Adds the sums of a run of a channel behind a relu: of what it lets through, some elements at a time. */
static void add_through_relu(const channels_run *r, int64_t channel, int64_t at, double *sums)
{
    enum { SOME = 512 };
    const float mean = r->mean[channel], inverse = r->inverse[channel], scale = r->scale[channel], bias = r->bias[channel];
    float through[SOME];
    for (int64_t i = 0; i < r->s->shape.places; i += SOME) {
        const float *x = r->x + at + i, *g = r->g + at + i;
        const int64_t left = r->s->shape.places - i, count = left < SOME ? left : SOME;
        double some[2];
        for (int64_t k = 0; k < count; k++) through[k] = (mean - x[k]) * inverse * scale < bias ? g[k] : 0;
        r->kernels->channel_sums(x, through, count, mean, some);
        sums[0] += some[0];
        sums[1] += some[1];
    }
}

static void gradient_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const channels_run *r = state;
    const hyp_channels *c = &r->s->shape;
    const double all = (double)c->places * (double)c->images;
    for (int64_t channel = begin; channel < end; channel++) {
        double along = 0, sum = 0, sums[2];
        for (int64_t i = 0; i < c->images; i++) {
            int64_t at = (i * c->channels + channel) * c->places;
            sums[0] = sums[1] = 0;
            if (r->scale)
                add_through_relu(r, channel, at, sums);
            else
                r->kernels->channel_sums(r->x + at, r->g + at, c->places, r->mean[channel], sums);
            sum += sums[0];
            along += sums[1];
        }
        r->out[0][channel] = (float)(along * (double)r->inverse[channel] / all);
        r->out[1][channel] = (float)(sum / all);
    }
}

static hyp_status run_batch_norm(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Call *k = op->step->call;
    const batch_norm *s = op->state;
    const bool gradient = k->n_inputs_plus1 > 1;
    channels_run r = {.s = s,
                      .kernels = run->kernels,
                      .x = hyp_cpu_call_input(run, k, 0),
                      .g = hyp_cpu_call_input(run, k, 1),
                      .mean = hyp_cpu_call_input(run, k, 2),
                      .inverse = hyp_cpu_call_input(run, k, 3),
                      .scale = hyp_cpu_call_input(run, k, 4),
                      .bias = hyp_cpu_call_input(run, k, 5)};
    for (size_t i = 0; i < k->n_outputs; i++) r.out[i] = run->call.at[k->outputs[i]];
    int64_t each = s->shape.images * s->shape.places;
    hyp_cpu_task *task = gradient ? gradient_part : statistics_part;
    hyp_cpu_parallel(run, s->shape.channels, hyp_cpu_grain(HYP_CPU_COMPUTED, each), task, &r);
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_batch_norm(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                      hyp_cpu_op *op, hyp_diag *diag)
{
    enum { FEW = 4 }; /* places: below, the plain kernel is as good */
    (void)step, (void)channels_last;
    hyp_call_arguments a;
    hyp_diag unfit = {0}; /* of shapes that do not fit: the plain kernel says so */
    batch_norm s = {0};
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, op->step->call,
                            &unfit, &a);
    bool gradient = a.call.in_count > 1;
    hyp_status fits = gradient ? hyp_kernel_read_batch_norm_gradient(&a.call, &s.shape)
                               : hyp_kernel_read_batch_norm_stats(&a.call, &s.shape);
    if (fits != HYP_OK || a.call.in[0].dtype != HYP_F32 || s.shape.places < FEW || s.shape.images == 0) return HYP_OK;
    if (!gradient) s.epsilon = a.call.attrs[0].f;
    return hyp_cpu_keep_state(op, run_batch_norm, &s, sizeof s, diag);
}
