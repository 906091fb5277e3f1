/* grouped.c - convolutions of many groups of few channels, in f32 over any number of spatial axes.
 *
 * A vector holds one channel of several groups: images are turned so that the channels of a place are [channel of a
 * group, group], where the groups do not touch each other and every weight is used for what it is. oneDNN's kernels
 * have the channels of one group in a vector, which few do not fill.
 */
#include "runtime/cpu/lines.h"
#include "runtime/cpu/windows.h"

typedef struct grouped {
    hyp_lines lines;
    hyp_grouped conv;     /* weights and bias are the model's */
    const float *weights; /* [place of the kernel, channel, result, group] */
    uint32_t x, y;        /* tensors */
    bool x_last, y_last;  /* their channels are */
    hyp_block_instr act;
    int64_t batch;
    size_t y_at, y_bytes; /* in the work space: a line for each thread, behind an image */
} grouped;

static void grouped_destroy(void *opaque)
{
    grouped *s = opaque;
    hyp_lines_dispose(&s->lines);
    hyp_free(s);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* One image. */
typedef struct image {
    const grouped *s;
    const hyp_cpu_run *run;
    const float *x;
    float *turned, *y;
} image;

/* Places of x, each to [channel of a group, group]. */
static void turn_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const image *r = state;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    int64_t groups = r->s->conv.groups, in = r->s->conv.in, all = groups * in, places = r->s->lines.window.in_count;
    if (r->s->x_last)
        for (int64_t i = begin; i < end; i++)
            kernels->transpose(r->x + i * all, groups, in, in, r->turned + i * all, groups);
    else
        for (int64_t c = 0; c < in; c++)
            kernels->transpose(r->x + c * places + begin, groups, end - begin, in * places,
                               r->turned + begin * all + c * groups, all);
}

/* A line of results from [place, result of a group, group] to where it belongs. */
static void put_line(const image *r, int64_t line, const float *from)
{
    const grouped *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    int64_t groups = s->conv.groups, out = s->conv.out, all = groups * out, n = s->lines.length,
            places = s->lines.window.out_count;
    float *y = r->y + line * n * (s->y_last ? all : 1);
    if (s->y_last)
        for (int64_t i = 0; i < n; i++) kernels->transpose(from + i * all, out, groups, groups, y + i * all, out);
    else
        for (int64_t o = 0; o < out; o++)
            kernels->transpose(from + o * groups, n, groups, all, y + o * places, out * places);
}

static void lines_part(void *state, int64_t begin, int64_t end, int thread)
{
    const image *r = state;
    const grouped *s = r->s;
    const hyp_lines *l = &s->lines;
    float *y = (float *)((char *)r->run->call.work + s->y_at + (size_t)thread * s->y_bytes);
    int64_t each = s->conv.in * s->conv.out * s->conv.groups;
    hyp_line line;
    for (int64_t i = begin; i < end; i++) {
        hyp_lines_take(l, i, r->turned, s->weights, each, &line);
        r->run->kernels->grouped(&s->conv, &line.parts, line.weights, l->taps, l->length, y);
        if (s->act.op != HYP_PLAN__POINTWISE__OP__CAST)
            r->run->kernels->activate(&s->act, y, l->length * s->conv.out * s->conv.groups);
        put_line(r, i, y);
    }
}

static hyp_status run_grouped(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const grouped *s = op->state;
    const hyp_window *w = &s->lines.window;
    int64_t in = s->conv.in * s->conv.groups, out = s->conv.out * s->conv.groups;
    image r = {.s = s, .run = run, .x = run->call.at[s->x], .turned = run->call.work, .y = run->call.at[s->y]};
    for (int64_t i = 0; i < s->batch; i++) {
        hyp_cpu_parallel(run, w->in_count, hyp_cpu_grain(HYP_CPU_MOVED, in), turn_part, &r);
        hyp_cpu_parallel(run, s->lines.count, hyp_cpu_grain(HYP_CPU_COMPUTED, s->lines.length * out * w->kernel_count),
                         lines_part, &r);
        r.x += w->in_count * in;
        r.y += w->out_count * out;
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* Bias [result, group], then the weights, from [group, result] and [group, result, channel, place]. NULL when memory is
 * out. */
static float *pack(const hyp_conv *v, const float *w, const float *bias)
{
    int64_t groups = v->group, in = v->in_channels, out = v->out_channels, taps = v->window.kernel_count,
            all = groups * out;
    float *packed = hyp_aligned_alloc(64, (size_t)(all * (1 + in * taps)) * sizeof *packed), *to = packed + all;
    for (int64_t g = 0; g < groups && packed; g++)
        for (int64_t o = 0; o < out; o++) {
            packed[o * groups + g] = bias ? bias[g * out + o] : 0;
            for (int64_t c = 0; c < in; c++)
                for (int64_t t = 0; t < taps; t++)
                    to[((t * in + c) * out + o) * groups + g] = w[((g * out + o) * in + c) * taps + t];
        }
    return hyp_block_share(packed, (size_t)(all * (1 + in * taps)) * sizeof *packed);
}

/* Whether it can be done so. */
static bool fits(const hyp_conv *v, const hyp_cpu_kernels *kernels)
{
    return v->x->dtype == HYP_F32 && !v->z && v->x->count > 0 && v->y->count > 0 && v->group >= kernels->width &&
           v->out_channels % 2 == 0 && hyp_lines_can(&v->window);
}

hyp_status hyp_cpu_prepare_grouped(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    hyp_cpu_conv_call c;
    if (!hyp_cpu_take_conv(model, op, values, channels_last, &c) || (c.bias_plus1 && !c.bias)) return HYP_OK;
    const hyp_conv *v = &c.conv;
    if (!fits(v, model->device->kernels)) return HYP_OK;
    grouped *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    *s = (grouped){.x = c.x, .y = c.y, .x_last = c.x_last, .y_last = c.y_last, .batch = v->batch};
    s->act = hyp_cpu_conv_act(v);
    s->conv = (hyp_grouped){.groups = v->group, .in = v->in_channels, .out = v->out_channels};
    hyp_status status = hyp_cpu_find_grouped(model, step, &c, pack, &s->conv.bias, diag);
    int64_t channels = v->group * v->in_channels;
    if (status == HYP_OK) status = hyp_lines_init(&s->lines, &v->window, channels, channels, diag);
    if (status == HYP_OK) s->weights = s->conv.bias + v->group * v->out_channels;
    s->y_at = hyp_lines_room(v->window.in_count * v->group * v->in_channels);
    s->y_bytes = hyp_lines_room(s->lines.length * v->group * v->out_channels);
    op->work_bytes = s->y_at + (size_t)model->device->threads * s->y_bytes;
    return hyp_cpu_finish_op(op, status, true, run_grouped, grouped_destroy, s);
}
