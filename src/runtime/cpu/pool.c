/* pool.c - the largest and the mean of windows, in f32 over any number of spatial axes.
 *
 * Results are made with the channels last, a line of them at a time (pool_kernel.h). An image that lies with its
 * channels first is turned before and after. Unlike oneDNN's these kernels find -infinity and NaN. A mean is a sum times
 * the reciprocal of its number, whose rounding is one more than a division has.
 */
#include "runtime/cpu/lines.h"

typedef struct pool {
    hyp_lines lines;
    hyp_pool kernel;
    uint32_t x, y;               /* tensors */
    bool average, pads;          /* the mean; padding counts */
    bool x_in_place, y_in_place; /* else turned, or copied to where there is room behind */
    bool x_last, y_last;         /* their channels are */
    int64_t x_apart, y_apart;    /* floats from place to place, of those that are */
    int64_t batch;
    float *counts;              /* how many places along a line the mean of each is of */
    size_t x_at, y_at, y_bytes; /* in the work space: an image, and for each thread a line */
    size_t thread_bytes;        /* and behind that the reciprocals of what its means are of */
} pool;

static void pool_destroy(void *opaque)
{
    pool *s = opaque;
    hyp_lines_dispose(&s->lines);
    hyp_free(s->counts);
    hyp_free(s);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* One image. */
typedef struct image {
    const pool *s;
    const hyp_cpu_run *run;
    const float *x, *turned;
    float *y;
} image;

/* Brings places of x to where their channels are last. */
static void turn_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const image *r = state;
    const pool *s = r->s;
    int64_t channels = s->lines.channels;
    float *to = (float *)((char *)r->run->call.work + s->x_at) + begin * channels;
    if (s->x_last || channels == 1)
        hyp_cpu_copy_rows(r->x + begin * s->x_apart, s->x_apart, to, channels, end - begin, channels);
    else
        r->run->kernels->transpose(r->x + begin, channels, end - begin, s->lines.window.in_count, to, channels);
}

/* The reciprocals of how many places the means of a line, which is at o, are of. */
static const float *find_scales(const pool *s, const int64_t *o, float *scales)
{
    float across = (float)hyp_window_count(&s->lines.across, o, s->pads);
    for (int64_t i = 0; i < s->lines.length; i++) scales[i] = 1 / (across * s->counts[i]);
    return scales;
}

static void lines_part(void *state, int64_t begin, int64_t end, int thread)
{
    const image *r = state;
    const pool *s = r->s;
    const hyp_lines *l = &s->lines;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    float *room = (float *)((char *)r->run->call.work + s->y_at + (size_t)thread * s->thread_bytes);
    float *scales = (float *)((char *)room + s->y_bytes);
    for (int64_t i = begin; i < end; i++) {
        const float *rows[HYP_LINES_MOST];
        int64_t o[HYP_SPATIAL];
        hyp_parts parts = {.rows = rows, .first = l->first, .offsets = l->offsets};
        parts.count = hyp_lines_find(l, i, r->turned, rows, NULL, o);
        float *y = s->y_in_place ? r->y + i * l->length * s->y_apart : room;
        kernels->pool(&s->kernel, &parts, l->length, s->average ? find_scales(s, o, scales) : NULL, y);
        if (s->y_in_place) continue;
        if (s->y_last || l->channels == 1)
            hyp_cpu_copy_rows(y, l->channels, r->y + i * l->length * s->y_apart, s->y_apart, l->length, l->channels);
        else
            kernels->transpose(y, l->length, l->channels, l->channels, r->y + i * l->length, l->window.out_count);
    }
}

static hyp_status run_pool(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const pool *s = op->state;
    const hyp_window *w = &s->lines.window;
    int64_t channels = s->lines.channels, line = s->lines.length * channels * w->kernel_count;
    image r = {.s = s, .run = run, .x = run->call.at[s->x], .y = run->call.at[s->y]};
    for (int64_t i = 0; i < s->batch; i++) {
        r.turned = s->x_in_place ? r.x : (const float *)((const char *)run->call.work + s->x_at);
        if (!s->x_in_place) hyp_cpu_parallel(run, w->in_count, hyp_cpu_grain(HYP_CPU_MOVED, channels), turn_part, &r);
        hyp_cpu_parallel(run, s->lines.count, hyp_cpu_grain(HYP_CPU_COMPUTED, line), lines_part, &r);
        r.x += w->in_count * s->x_apart;
        r.y += w->out_count * s->y_apart;
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

static hyp_status make(const hyp_cpu_device *device, pool *s, const hyp_window *w, int64_t channels, size_t *work_bytes,
                       hyp_diag *diag)
{
    bool fills = channels >= device->kernels->width; /* nothing is read or written behind the last */
    s->x_in_place = s->x_last && fills;
    s->y_in_place = s->y_last && fills;
    int64_t x_place = s->x_in_place ? s->x_apart : channels, y_place = s->y_in_place ? s->y_apart : channels;
    HYP_TRY(hyp_lines_init(&s->lines, w, channels, x_place, diag));
    int64_t length = s->lines.length;
    s->counts = hyp_malloc((size_t)length * sizeof *s->counts);
    if (!s->counts) return hyp_fail_memory(diag, (size_t)length * sizeof *s->counts);
    for (int64_t o = 0; o < length; o++) s->counts[o] = (float)hyp_window_count(&s->lines.along, &o, s->pads);
    int32_t along = w->n - 1;
    s->kernel = (hyp_pool){.channels = channels,
                           .along = w->kernel[along],
                           .gap = w->dilation[along] * x_place,
                           .step = w->stride[along] * x_place,
                           .x_place = x_place,
                           .y_place = y_place};
    s->y_at = s->x_in_place ? 0 : hyp_lines_room(w->in_count * channels);
    s->y_bytes = s->y_in_place ? 0 : hyp_lines_room(length * channels);
    s->thread_bytes = s->y_bytes + (s->average ? hyp_lines_room(length) : 0);
    *work_bytes = s->y_at + (size_t)device->threads * s->thread_bytes;
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_pool(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                hyp_cpu_op *op, hyp_diag *diag)
{
    (void)step;
    const HypPlan__Call *call = op->step->call;
    hyp_call_arguments a;
    hyp_window w;
    hyp_diag unfit; /* of shapes that do not fit: the plain kernel says so */
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, call, &unfit, &a);
    if (hyp_kernel_read_pool(&a.call, &w) != HYP_OK) return HYP_OK;
    const hyp_array *x = &a.call.in[0], *y = &a.call.out[0];
    if (x->dtype != HYP_F32 || x->count == 0 || y->count == 0 || !hyp_lines_can(&w)) return HYP_OK;
    pool *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->x = call->inputs_plus1[0] - 1;
    s->y = call->outputs[0];
    s->x_last = channels_last[s->x];
    s->y_last = channels_last[s->y];
    s->x_apart = hyp_cpu_place_step(op, s->x, x->dims[1]);
    s->y_apart = hyp_cpu_place_step(op, s->y, x->dims[1]);
    s->average = strcmp(call->kernel, "average-pool") == 0;
    s->pads = s->average && a.call.attrs[5].i != 0;
    s->batch = x->dims[0];
    hyp_status status = make(model->device, s, &w, x->dims[1], &op->work_bytes, diag);
    return hyp_cpu_finish_op(op, status, true, run_pool, pool_destroy, s);
}
