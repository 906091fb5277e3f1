/* depthwise.c - convolutions of as many groups as channels, one channel to one, in f32 over any number of spatial axes.
 *
 * With the channels last every channel is a lane: a line of results goes through all its channels, some neighbouring
 * results at a time, while the lines of x that it wants are in the cache. What is added is added in registers, and the
 * activation runs over the line just made. Tensors that lie with their channels first are turned on the way.
 */
#include "runtime/cpu/lines.h"
#include "runtime/cpu/windows.h"

typedef struct depthwise {
    hyp_lines lines;
    hyp_depthwise conv;              /* weights and bias are the model's */
    const float *weights;            /* [place of the kernel, channel] */
    uint32_t x, added_plus1, y;      /* tensors */
    bool x_last, added_last, y_last; /* their channels are */
    hyp_block_instr act;
    int64_t batch;
    size_t moved_bytes;         /* of what is added, where y takes its place and lies otherwise: it is copied before */
    size_t x_at, y_at, y_bytes; /* in the work space, behind that: an image of x, and for each thread two lines */
} depthwise;

static void depthwise_destroy(void *opaque)
{
    depthwise *s = opaque;
    hyp_lines_dispose(&s->lines);
    hyp_free(s);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* One image. */
typedef struct image {
    const depthwise *s;
    const hyp_cpu_run *run;
    const float *x, *added; /* NULL: nothing is */
    const float *turned;    /* x with the channels last */
    float *y;
} image;

static void turn_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const image *r = state;
    int64_t n = r->s->conv.channels;
    float *to = (float *)((char *)r->run->call.work + r->s->x_at) + begin * n;
    r->run->kernels->transpose(r->x + begin, n, end - begin, r->s->lines.window.in_count, to, n);
}

/* What is added to a line, with the channels last. */
static const float *find_added(const image *r, int64_t line, float *room)
{
    const depthwise *s = r->s;
    int64_t length = s->lines.length, n = s->conv.channels;
    if (!r->added) return NULL;
    if (s->added_last) return r->added + line * length * n;
    r->run->kernels->transpose(r->added + line * length, n, length, s->lines.window.out_count, room, n);
    return room;
}

static void lines_part(void *state, int64_t begin, int64_t end, int thread)
{
    const image *r = state;
    const depthwise *s = r->s;
    const hyp_lines *l = &s->lines;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    float *room = (float *)((char *)r->run->call.work + s->y_at + (size_t)thread * 2 * s->y_bytes);
    float *more = (float *)((char *)room + s->y_bytes);
    int64_t n = s->conv.channels;
    hyp_line line;
    for (int64_t i = begin; i < end; i++) {
        hyp_lines_take(l, i, r->turned, s->weights, n, &line);
        float *y = s->y_last ? r->y + i * l->length * n : room;
        kernels->depthwise(&s->conv, &line.parts, line.weights, l->taps, l->length, find_added(r, i, more), y);
        if (s->act.op != HYP_PLAN__POINTWISE__OP__CAST) kernels->activate(&s->act, y, l->length * n);
        if (!s->y_last) kernels->transpose(y, l->length, n, n, r->y + i * l->length, l->window.out_count);
    }
}

static hyp_status run_depthwise(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const depthwise *s = op->state;
    const hyp_window *w = &s->lines.window;
    int64_t n = s->conv.channels;
    image r = {.s = s, .run = run, .x = run->call.at[s->x], .y = run->call.at[s->y]};
    if (s->added_plus1) r.added = run->call.at[s->added_plus1 - 1];
    if (s->moved_bytes) r.added = memcpy(run->call.work, r.added, s->moved_bytes);
    for (int64_t i = 0; i < s->batch; i++) {
        r.turned = s->x_last ? r.x : (const float *)((const char *)run->call.work + s->x_at);
        if (!s->x_last) hyp_cpu_parallel(run, w->in_count, hyp_cpu_grain(HYP_CPU_MOVED, n), turn_part, &r);
        hyp_cpu_parallel(run, s->lines.count, hyp_cpu_grain(HYP_CPU_COMPUTED, s->lines.length * n * w->kernel_count),
                         lines_part, &r);
        r.x += w->in_count * n;
        r.y += w->out_count * n;
        if (r.added) r.added += w->out_count * n;
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* Bias [channel], then the weights [place, channel], from [channel, 1, place]. NULL when memory is out. */
static float *pack(const hyp_conv *v, const float *w, const float *bias)
{
    int64_t n = v->group, taps = v->window.kernel_count;
    float *packed = hyp_aligned_alloc(64, (size_t)(n * (1 + taps)) * sizeof *packed), *to = packed + n;
    for (int64_t c = 0; c < n && packed; c++) {
        packed[c] = bias ? bias[c] : 0;
        for (int64_t t = 0; t < taps; t++) to[t * n + c] = w[c * taps + t];
    }
    return hyp_block_share(packed, (size_t)(n * (1 + taps)) * sizeof *packed);
}

static bool fits(const hyp_conv *v, const hyp_cpu_kernels *kernels)
{
    return v->x->dtype == HYP_F32 && v->x->count > 0 && v->y->count > 0 && v->in_channels == 1 &&
           v->out_channels == 1 && v->group >= kernels->width && hyp_lines_can(&v->window);
}

hyp_status hyp_cpu_prepare_depthwise(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                     const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    hyp_cpu_conv_call c;
    if (!hyp_cpu_take_conv(model, op, values, channels_last, &c) || (c.bias_plus1 && !c.bias)) return HYP_OK;
    const hyp_conv *v = &c.conv;
    if (!fits(v, model->device->kernels)) return HYP_OK;
    depthwise *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    int64_t along = v->window.n - 1;
    *s = (depthwise){.x = c.x, .added_plus1 = c.added_plus1, .y = c.y, .act = hyp_cpu_conv_act(v), .batch = v->batch};
    s->x_last = c.x_last;
    s->added_last = c.added_last;
    s->y_last = c.y_last;
    s->conv = (hyp_depthwise){.channels = v->group,
                              .along = v->window.kernel[along],
                              .gap = v->window.dilation[along] * v->group,
                              .step = v->window.stride[along] * v->group};
    hyp_status status = hyp_cpu_find_grouped(model, step, &c, pack, &s->conv.bias, diag);
    if (status == HYP_OK) status = hyp_lines_init(&s->lines, &v->window, v->group, v->group, diag);
    if (status == HYP_OK) s->weights = s->conv.bias + v->group;
    bool moves =
        c.added_plus1 && c.added_last != c.y_last && hyp_plan_same_slot(model->plan->program, c.added_plus1 - 1, c.y);
    s->moved_bytes = moves ? (size_t)v->y->count * sizeof(float) : 0;
    s->x_at = moves ? hyp_lines_room(v->y->count) : 0;
    s->y_at = s->x_at + (s->x_last ? 0 : hyp_lines_room(v->window.in_count * v->group));
    s->y_bytes = hyp_lines_room(v->window.out[along] * v->group);
    op->work_bytes = s->y_at + (size_t)model->device->threads * 2 * s->y_bytes;
    return hyp_cpu_finish_op(op, status, true, run_depthwise, depthwise_destroy, s);
}
