/* resize of f32 images along their last two axes: rows are resized when they are first needed, and each row of the
 * result is a weighted sum of some of them. */
#include "kernels/resize.h"
#include "runtime/cpu/cpu.h"

enum { MAX_TAPS = 64 };

/* The neighbours of each element of an axis, ready to use. */
typedef struct axis {
    int64_t in, out, taps;
    bool same;        /* nothing happens along it */
    int64_t *sources; /* out x taps */
    float *weights;   /* out x taps */
} axis;

typedef struct resize {
    axis rows, columns;
    int64_t images;
    uint32_t x, y;
} resize;

typedef struct resize_run {
    const resize *s;
    const hyp_cpu_kernels *kernels;
    const float *x;
    float *y, *work;
} resize_run;

static void resize_row(const axis *a, const float *x, float *y)
{
    const int64_t *from = a->sources;
    const float *w = a->weights;
    if (a->taps == 1)
        for (int64_t i = 0; i < a->out; i++) y[i] = x[from[i]];
    else if (a->taps == 2)
        for (int64_t i = 0; i < a->out; i++) y[i] = w[2 * i] * x[from[2 * i]] + w[2 * i + 1] * x[from[2 * i + 1]];
    else
        for (int64_t i = 0; i < a->out; i++, from += a->taps, w += a->taps) {
            float sum = 0;
            for (int64_t t = 0; t < a->taps; t++) sum += w[t] * x[from[t]];
            y[i] = sum;
        }
}

/* The rows of x that one row of the result needs lie together, so that each has a place of its own among `taps`. */
static void resize_image(const resize_run *r, const float *x, float *y, float *work)
{
    const axis *rows = &r->s->rows, *columns = &r->s->columns;
    int64_t kept[MAX_TAPS];
    const float *lines[MAX_TAPS];
    for (int64_t t = 0; t < rows->taps; t++) kept[t] = -1;
    for (int64_t i = 0; i < rows->out; i++, y += columns->out) {
        for (int64_t t = 0; t < rows->taps; t++) {
            int64_t from = rows->sources[i * rows->taps + t], place = from % rows->taps;
            float *line = work + place * columns->out;
            lines[t] = columns->same ? x + from * columns->in : line;
            if (columns->same || kept[place] == from) continue;
            resize_row(columns, x + from * columns->in, line);
            kept[place] = from;
        }
        if (rows->taps == 1)
            memcpy(y, lines[0], (size_t)columns->out * sizeof *y);
        else
            r->kernels->combine(lines, rows->weights + i * rows->taps, rows->taps, columns->out, y);
    }
}

static void resize_part(void *state, int64_t begin, int64_t end, int thread)
{
    const resize_run *r = state;
    const axis *rows = &r->s->rows, *columns = &r->s->columns;
    float *work = r->work + (int64_t)thread * rows->taps * columns->out;
    for (int64_t i = begin; i < end; i++)
        resize_image(r, r->x + i * rows->in * columns->in, r->y + i * rows->out * columns->out, work);
}

static hyp_status run_resize(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const resize *s = op->state;
    resize_run r = {s, run->kernels, run->call.at[s->x], run->call.at[s->y], run->call.work};
    hyp_cpu_parallel(run, s->images, 16384 / (s->rows.out * s->columns.out) + 1, resize_part, &r);
    return HYP_OK;
}

/* ---- preparation ------------------------------------------------------------------------------------------- */

static void destroy(void *state)
{
    resize *s = state;
    hyp_free(s->rows.sources);
    hyp_free(s->rows.weights);
    hyp_free(s->columns.sources);
    hyp_free(s->columns.weights);
    hyp_free(s);
}

static void fill_axis(const hyp_resize_axis *plan, axis *a)
{
    for (int64_t i = 0; i < a->out; i++)
        for (int64_t t = 0; t < a->taps; t++) {
            a->sources[i * a->taps + t] = a->same ? i : hyp_resize_source(plan, i, t);
            a->weights[i * a->taps + t] = a->same ? 1 : (float)plan->weights[i * a->taps + t];
        }
}

static hyp_status prepare_axis(const hyp_kernel_call *c, int32_t number, axis *a, hyp_diag *diag)
{
    hyp_resize_axis plan = {.in = c->in[0].dims[number], .out = c->out[0].dims[number]};
    int64_t most = hyp_resize_taps(c, plan.in, plan.out);
    size_t count = (size_t)plan.out * (size_t)most;
    *a = (axis){.in = plan.in, .out = plan.out, .taps = most};
    if (most > MAX_TAPS) return HYP_OK;
    plan.first = hyp_calloc((size_t)plan.out, sizeof *plan.first);
    plan.weights = hyp_calloc(count, sizeof *plan.weights);
    a->sources = hyp_calloc(count, sizeof *a->sources);
    a->weights = hyp_calloc(count, sizeof *a->weights);
    hyp_status status = plan.first && plan.weights && a->sources && a->weights
                            ? hyp_resize_plan(c, number, &plan)
                            : hyp_fail_memory(diag, count * sizeof *plan.weights);
    a->same = plan.taps == 0;
    a->taps = a->same ? 1 : plan.taps;
    if (status == HYP_OK) fill_axis(&plan, a);
    hyp_free(plan.first);
    hyp_free(plan.weights);
    return status;
}

/* Only the last two axes change, by scales that are known, and nothing lies outside of the image. */
static bool applies(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    if (x->dtype != HYP_F32 || x->rank < 2 || y->count == 0 || hyp_kernel_input(c, 2)) return false;
    for (int32_t i = 0; i < x->rank - 2; i++) {
        const hyp_array *scales = hyp_kernel_input(c, 1);
        if (x->dims[i] != y->dims[i] || (scales && hyp_array_f64(scales, i) != 1)) return false;
    }
    return strcmp(c->attrs[HYP_RESIZE_COORDINATES].sym, "tf_crop_and_resize") != 0;
}

hyp_status hyp_cpu_prepare_resize(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                  hyp_cpu_op *op, hyp_diag *diag)
{
    (void)step, (void)channels_last;
    const HypPlan__Call *call = op->step->call;
    hyp_call_arguments a;
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, call, diag, &a);
    if (a.call.in_count > 1 && call->inputs_plus1[1]) {
        const void *scales = hyp_cpu_weight(model->plan, call->inputs_plus1[1] - 1);
        if (!scales) return HYP_OK;
        a.in[1].data = (void *)(uintptr_t)scales;
    }
    HYP_TRY(hyp_resize_check(&a.call));
    if (!applies(&a.call)) return HYP_OK;
    resize *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    int32_t rank = a.in[0].rank;
    s->x = call->inputs_plus1[0] - 1;
    s->y = call->outputs[0];
    s->images = 1;
    for (int32_t i = 0; i < rank - 2; i++) s->images *= a.in[0].dims[i];
    hyp_status status = prepare_axis(&a.call, rank - 2, &s->rows, diag);
    if (status == HYP_OK) status = prepare_axis(&a.call, rank - 1, &s->columns, diag);
    if (status != HYP_OK || s->rows.taps > MAX_TAPS || s->columns.taps > MAX_TAPS) {
        destroy(s);
        return status;
    }
    op->state = s;
    op->run = run_resize;
    op->destroy = destroy;
    op->work_bytes = (size_t)model->device->threads * (size_t)(s->rows.taps * s->columns.out) * sizeof(float);
    return HYP_OK;
}
