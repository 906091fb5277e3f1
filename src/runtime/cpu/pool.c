/* pool.c - the largest and the mean of windows, in f32 over any number of spatial axes.
 *
 * Results are made with the channels last, some vectors of channels at a time, each over all of its window: what a
 * window holds is read from the cache as often as windows overlap. An image that lies with its channels first is turned
 * before and after, which takes less than its windows do. Unlike oneDNN's these kernels find -infinity and NaN.
 */
#include "kernels/window.h"
#include "runtime/cpu/cpu.h"

enum { MOST_LINES = 512, MOST_PARTS = 1 << 24, PAD = 16 /* floats that kernels may read and write behind */ };

typedef struct pool {
    hyp_window window;
    uint32_t x, y;                        /* tensors */
    bool average, pads;                   /* the mean; padding counts */
    bool x_in_place, y_in_place;          /* else turned, or copied to where there is room behind */
    bool x_last, y_last;                  /* their channels are */
    int64_t batch, channels, lines, line; /* lines of results in an image, of so many */
    int64_t inner;                        /* the innermost axis: the one along a line */
    int64_t *first, *offsets;             /* parts of the results of a line, as hyp_parts has them */
    int64_t *counts;                      /* how many places along the line the mean of each is of */
    size_t x_at, y_at, y_bytes;           /* in the work space: an image, and a line for each thread */
} pool;

static void pool_destroy(void *opaque)
{
    pool *s = opaque;
    hyp_free(s->first);
    hyp_free(s->offsets);
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
    float *to = (float *)((char *)r->run->call.work + s->x_at) + begin * s->channels;
    if (s->x_last || s->channels == 1)
        memcpy(to, r->x + begin * s->channels, (size_t)((end - begin) * s->channels) * sizeof *to);
    else
        r->run->kernels->transpose(r->x + begin, s->channels, end - begin, s->window.in_count, to, s->channels);
}

/* The window without the axis along a line. */
static hyp_window across(const pool *s)
{
    hyp_window w = s->window;
    w.n = (int32_t)s->inner;
    w.kernel_count /= w.kernel[s->inner];
    return w;
}

/* Means of the sums of a line. */
static void divide(const pool *s, const int64_t *o, float *y)
{
    hyp_window w = across(s);
    int64_t rows = hyp_window_count(&w, o, s->pads);
    for (int64_t i = 0; i < s->line; i++) {
        float count = (float)(rows * s->counts[i]);
        for (int64_t c = 0; c < s->channels; c++) y[i * s->channels + c] /= count;
    }
}

/* The lines of x that the windows of this line of results lie on. */
static void find_lines(const image *r, const int64_t *o, const float **lines, hyp_parts *parts)
{
    const pool *s = r->s;
    hyp_window w = across(s);
    int64_t k[HYP_SPATIAL];
    for (int64_t i = 0; i < w.kernel_count; i++) {
        hyp_window_position(w.n, w.kernel, i, k);
        int64_t source = hyp_window_source(&w, o, k);
        if (source >= 0) lines[parts->count++] = r->turned + source * w.in[s->inner] * s->channels;
    }
}

static void lines_part(void *state, int64_t begin, int64_t end, int thread)
{
    const image *r = state;
    const pool *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    float *room = (float *)((char *)r->run->call.work + s->y_at + (size_t)thread * s->y_bytes);
    for (int64_t l = begin; l < end; l++) {
        const float *lines[MOST_LINES];
        hyp_parts parts = {.rows = lines, .first = s->first, .offsets = s->offsets};
        int64_t o[HYP_SPATIAL] = {0}, n = s->line * s->channels;
        hyp_window_position((int32_t)s->inner, s->window.out, l, o);
        find_lines(r, o, lines, &parts);
        float *y = s->y_in_place ? r->y + l * n : room;
        (s->average ? kernels->add_parts : kernels->most_parts)(&parts, s->line, NULL, s->channels, y);
        if (s->average) divide(s, o, y);
        if (s->y_in_place) continue;
        if (s->y_last || s->channels == 1)
            memcpy(r->y + l * n, y, (size_t)n * sizeof *y);
        else
            kernels->transpose(y, s->line, s->channels, s->channels, r->y + l * s->line, s->window.out_count);
    }
}

static hyp_status run_pool(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const pool *s = op->state;
    const hyp_window *w = &s->window;
    int64_t line = s->line * s->channels * w->kernel_count;
    image r = {.s = s, .run = run, .x = run->call.at[s->x], .y = run->call.at[s->y]};
    for (int64_t i = 0; i < s->batch; i++) {
        r.turned = s->x_in_place ? r.x : (const float *)((const char *)run->call.work + s->x_at);
        if (!s->x_in_place)
            hyp_cpu_parallel(run, w->in_count, hyp_cpu_grain(HYP_CPU_MOVED, s->channels), turn_part, &r);
        hyp_cpu_parallel(run, s->lines, hyp_cpu_grain(HYP_CPU_COMPUTED, line), lines_part, &r);
        r.x += w->in_count * s->channels;
        r.y += w->out_count * s->channels;
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* Where the parts of the results of a line lie. */
static hyp_status list_parts(pool *s, hyp_diag *diag)
{
    const hyp_window *w = &s->window;
    int64_t i = s->inner, taps = w->kernel[i], count = 0;
    hyp_window along = {.n = 1,
                        .in = {w->in[i]},
                        .kernel = {taps},
                        .stride = {w->stride[i]},
                        .dilation = {w->dilation[i]},
                        .before = {w->before[i]},
                        .after = {w->after[i]}};
    size_t most = (size_t)(s->line * taps);
    s->first = hyp_malloc((size_t)(s->line + 1) * sizeof *s->first);
    s->offsets = hyp_malloc(most * sizeof *s->offsets);
    s->counts = hyp_malloc((size_t)s->line * sizeof *s->counts);
    if (!s->first || !s->offsets || !s->counts) return hyp_fail_memory(diag, most * sizeof *s->offsets);
    for (int64_t o = 0; o < s->line; o++) {
        s->first[o] = count;
        s->counts[o] = hyp_window_count(&along, &o, s->pads);
        for (int64_t k = 0; k < taps; k++) {
            int64_t source = hyp_window_source(&along, &o, &k);
            if (source >= 0) s->offsets[count++] = source * s->channels;
        }
    }
    s->first[s->line] = count;
    return HYP_OK;
}

static size_t room_for(int64_t floats) { return ((size_t)(floats + PAD) * sizeof(float) + 63) / 64 * 64; }

static hyp_status make(const hyp_cpu_device *device, pool *s, size_t *work_bytes, hyp_diag *diag)
{
    HYP_TRY(list_parts(s, diag));
    bool fills = s->channels >= device->kernels->width; /* nothing is read or written behind the last */
    s->x_in_place = s->x_last && fills;
    s->y_in_place = s->y_last && fills;
    s->y_at = s->x_in_place ? 0 : room_for(s->window.in_count * s->channels);
    s->y_bytes = s->y_in_place ? 0 : room_for(s->line * s->channels);
    *work_bytes = s->y_at + (size_t)device->threads * s->y_bytes;
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
    int64_t inner = w.n - 1;
    bool work = x->count > 0 && y->count > 0;
    if (x->dtype != HYP_F32 || !work || w.kernel_count / w.kernel[inner] > MOST_LINES ||
        w.kernel[inner] > MOST_PARTS / w.out[inner])
        return HYP_OK;
    pool *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->window = w;
    s->x = call->inputs_plus1[0] - 1;
    s->y = call->outputs[0];
    s->x_last = channels_last[s->x];
    s->y_last = channels_last[s->y];
    s->average = strcmp(call->kernel, "average-pool") == 0;
    s->pads = s->average && a.call.attrs[5].i != 0;
    s->batch = x->dims[0];
    s->channels = x->dims[1];
    s->inner = inner;
    s->line = w.out[inner];
    s->lines = w.out_count / w.out[inner];
    hyp_status status = make(model->device, s, &op->work_bytes, diag);
    if (status != HYP_OK) {
        pool_destroy(s);
        return status;
    }
    op->run = run_pool;
    op->destroy = pool_destroy;
    op->state = s;
    return HYP_OK;
}
