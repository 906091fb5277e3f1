/* pool_gradient.c - gradients of the largest of windows in f32, an image of one channel at a time: each window adds to where
 * the first of its largest elements is.
 */
#include <string.h>

#include "kernels/window.h"
#include "runtime/cpu/cpu.h"

enum { MOST_TAPS = 4096 };

typedef struct pool_gradient {
    hyp_window window;
    int64_t planes, places[MOST_TAPS]; /* of the taps of a window that lies inside of x, from its first element */
} pool_gradient;

typedef struct planes {
    const pool_gradient *s;
    const float *x, *y, *g;
    float *by_x;
} planes;

/* Where the window of result o begins; -1 where a part of it is outside of x. */
static int64_t begin_of(const hyp_window *w, const int64_t *o)
{
    int64_t begin = 0;
    for (int32_t a = 0; a < w->n; a++) {
        int64_t at = o[a] * w->stride[a] - w->before[a];
        if (at < 0 || at + (w->kernel[a] - 1) * w->dilation[a] >= w->in[a]) return -1;
        begin = begin * w->in[a] + at;
    }
    return begin;
}

/* The first element of the window that is what the window gives; -1 where none is. */
static int64_t find_first(const pool_gradient *s, const int64_t *o, const float *x, float most)
{
    const hyp_window *w = &s->window;
    int64_t begin = begin_of(w, o), k[HYP_SPATIAL];
    for (int64_t p = 0; p < w->kernel_count && begin >= 0; p++)
        if (x[begin + s->places[p]] == most) return begin + s->places[p];
    for (int64_t p = 0; p < w->kernel_count && begin < 0; p++) {
        hyp_window_position(w->n, w->kernel, p, k);
        int64_t source = hyp_window_source(w, o, k);
        if (source >= 0 && x[source] == most) return source;
    }
    return -1;
}

static void planes_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const planes *r = state;
    const hyp_window *w = &r->s->window;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *x = r->x + plane * w->in_count, *y = r->y + plane * w->out_count, *g = r->g + plane * w->out_count;
        float *by_x = r->by_x + plane * w->in_count;
        int64_t o[HYP_SPATIAL] = {0};
        memset(by_x, 0, (size_t)w->in_count * sizeof *by_x);
        for (int64_t i = 0; i < w->out_count; i++, hyp_index_next(w->n, w->out, o)) {
            int64_t at = find_first(r->s, o, x, y[i]);
            if (at >= 0) by_x[at] += g[i];
        }
    }
}

static hyp_status run_pool_gradient(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const pool_gradient *s = op->state;
    const HypPlan__Call *k = op->step->call;
    planes r = {.s = s,
                .x = run->call.at[k->inputs_plus1[0] - 1],
                .y = run->call.at[k->inputs_plus1[1] - 1],
                .g = run->call.at[k->inputs_plus1[2] - 1],
                .by_x = run->call.at[k->outputs[0]]};
    int64_t each = s->window.in_count + s->window.out_count * s->window.kernel_count;
    hyp_cpu_parallel(run, s->planes, hyp_cpu_grain(HYP_CPU_COMPUTED, each), planes_part, &r);
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_pool_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                         hyp_cpu_op *op, hyp_diag *diag)
{
    (void)step, (void)channels_last;
    hyp_call_arguments a;
    hyp_window w;
    hyp_diag unfit; /* of shapes that do not fit: the plain kernel says so */
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, op->step->call, &unfit, &a);
    const hyp_array *x = &a.call.in[0];
    if (hyp_kernel_read_pool_gradient(&a.call, &w) != HYP_OK || x->dtype != HYP_F32 || w.kernel_count > MOST_TAPS) return HYP_OK;
    pool_gradient *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->window = w;
    s->planes = x->dims[0] * x->dims[1];
    for (int64_t p = 0; p < w.kernel_count; p++) {
        int64_t k[HYP_SPATIAL];
        hyp_window_position(w.n, w.kernel, p, k);
        for (int32_t i = 0; i < w.n; i++) s->places[p] = s->places[p] * w.in[i] + k[i] * w.dilation[i];
    }
    op->state = s;
    op->run = run_pool_gradient;
    op->destroy = hyp_free;
    return HYP_OK;
}
