/* windows.c - convolutions by the kernel of our layers, in f32 over 1 or 2 spatial axes, with one group.
 *
 * With the channels last, what a line of the kernel covers lies together: a window is as many runs of floats as the
 * kernel has lines, and a convolution is a layer whose rows are windows. A part is some lines of results; the lines of
 * x that they want are brought beside each other with zeros around, unless x itself will do, and stay in the cache
 * while all panels of weights go over them.
 */
#include <math.h>

#include "base/elementwise.h"
#include "kernels/window.h"
#include "runtime/cpu/cpu.h"

enum { Y, X }; /* spatial axes, innermost last */

typedef struct windows {
    const hyp_mlp *weights;     /* of the model */
    uint32_t x, added_plus1, y; /* tensors */
    bool x_last, y_last;        /* their channels are; what is added lies like y */
    bool in_place;              /* windows lie in x as it is */
    int64_t batch, in_channels, channels;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], before[2];
    int64_t lines, width; /* of results in a part; of the lines of x that it wants, in places */
    int64_t parts, split; /* of an image, and of the panels */
    size_t made_at,
        thread_bytes; /* in the work space of a thread: the lines of x, then results that are to be turned */
} windows;

static void windows_destroy(void *state) { hyp_free(state); }

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef struct run_state {
    const windows *s;
    const hyp_cpu_run *run;
} run_state;

/* Places `from` to `to` of one line of x, with the channels last. */
static void bring_places(const run_state *r, const float *x, int64_t line, int64_t from, int64_t to, float *out)
{
    const windows *s = r->s;
    int64_t c = s->in_channels, places = s->in[Y] * s->in[X];
    if (s->x_last || c == 1)
        memcpy(out, x + (line * s->in[X] + from) * c, (size_t)((to - from) * c) * sizeof *out);
    else
        r->run->kernels->transpose(x + line * s->in[X] + from, c, to - from, places, out, c);
}

/* The lines of x that results from line o on want, `count` of them, with zeros for what lies outside. */
static void bring_lines(const run_state *r, const float *x, int64_t o, int64_t count, float *out)
{
    const windows *s = r->s;
    int64_t c = s->in_channels, left = s->before[X] < s->width ? s->before[X] : s->width;
    int64_t to = s->width - left < s->in[X] ? s->width - left : s->in[X], right = s->width - left - to;
    for (int64_t i = 0; i < count; i++, out += s->width * c) {
        int64_t line = o * s->stride[Y] - s->before[Y] + i;
        if (line < 0 || line >= s->in[Y]) {
            memset(out, 0, (size_t)(s->width * c) * sizeof *out);
            continue;
        }
        memset(out, 0, (size_t)(left * c) * sizeof *out);
        bring_places(r, x, line, 0, to, out + left * c);
        memset(out + (left + to) * c, 0, (size_t)(right * c) * sizeof *out);
    }
}

/* Some lines of results of one image, in the columns of some panels. */
static void run_part(const run_state *r, int64_t image, int64_t o, int64_t first, int64_t end, char *work)
{
    const windows *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    const hyp_mlp_layer *layer = &s->weights->layers[0];
    int64_t lines = s->out[Y] - o < s->lines ? s->out[Y] - o : s->lines, plane = s->out[Y] * s->out[X], n = s->channels;
    int64_t width = s->in_place ? s->in[X] : s->width, line = width * s->in_channels;
    const float *x = (const float *)r->run->call.at[s->x] + image * s->in[Y] * s->in[X] * s->in_channels;
    float *y = (float *)r->run->call.at[s->y] + image * plane * n, *made = (float *)(work + s->made_at);
    const float *added = s->added_plus1 ? (const float *)r->run->call.at[s->added_plus1 - 1] + image * plane * n : NULL;
    const hyp_windows g = {.lines = lines,
                           .places = s->out[X],
                           .x_line = s->stride[Y] * line,
                           .x_place = s->stride[X] * s->in_channels,
                           .runs = s->kernel[Y],
                           .apart = s->dilation[Y] * line};
    if (s->in_place) {
        x += o * g.x_line;
    } else {
        bring_lines(r, x, o, (lines - 1) * s->stride[Y] + (s->kernel[Y] - 1) * s->dilation[Y] + 1, (float *)work);
        x = (const float *)work;
    }
    int64_t at = o * s->out[X], places = lines * s->out[X], panel = (int64_t)kernels->panel * kernels->width;
    int64_t from = first * panel, to = end * panel < n ? end * panel : n;
    if (s->y_last) {
        kernels->windows(layer, &g, x, added ? added + at * n : NULL, y + at * n, first, end);
        return;
    }
    if (added) kernels->transpose(added + from * plane + at, to - from, places, plane, made + from, n);
    kernels->windows(layer, &g, x, added ? made : NULL, made, first, end);
    kernels->transpose(made + from, places, to - from, n, y + from * plane + at, plane);
}

static void parts(void *state, int64_t begin, int64_t end, int thread)
{
    const run_state *r = state;
    const windows *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    int64_t panel = (int64_t)kernels->panel * kernels->width, panels = (s->channels + panel - 1) / panel;
    for (int64_t i = begin; i < end; i++) {
        int64_t slice = i % s->split, part = i / s->split % s->parts, image = i / s->split / s->parts;
        run_part(r, image, part * s->lines, panels * slice / s->split, panels * (slice + 1) / s->split,
                 (char *)r->run->call.work + (size_t)thread * s->thread_bytes);
    }
}

static hyp_status run_windows(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    enum { PART_FLOPS = 1 << 19 }; /* that are worth a thread */
    (void)diag;
    const windows *s = op->state;
    run_state r = {s, run};
    int64_t flops = 2 * s->lines * s->out[X] * s->channels * s->weights->layers[0].k / s->split;
    hyp_cpu_parallel(run, s->batch * s->parts * s->split, hyp_cpu_grain(PART_FLOPS, flops), parts, &r);
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* The weights [out, in, kernel...] as a layer's, whose rows are [kernel..., in]. NULL when memory is out. */
static hyp_mlp *pack(const hyp_cpu_kernels *kernels, const windows *s, const float *w, const float *bias,
                     HypPlan__Act act)
{
    int64_t taps = s->kernel[Y] * s->kernel[X], n = s->channels, k = taps * s->in_channels;
    float *turned = hyp_malloc((size_t)n * (size_t)k * sizeof(float));
    for (int64_t o = 0; o < n && turned; o++)
        for (int64_t i = 0; i < s->in_channels; i++)
            for (int64_t t = 0; t < taps; t++)
                turned[(t * s->in_channels + i) * n + o] = w[(o * s->in_channels + i) * taps + t];
    hyp_mlp *packed = turned ? hyp_cpu_pack_layer(kernels, turned, n, k, bias, act) : NULL;
    hyp_free(turned);
    return packed;
}

static hyp_status find_packed(hyp_cpu_model *model, uint32_t step, windows *s, const float *w, const float *bias,
                              HypPlan__Act act, hyp_diag *diag)
{
    pthread_mutex_lock(&model->packing);
    if (!model->rows[step]) model->rows[step] = pack(model->device->kernels, s, w, bias, act);
    s->weights = model->rows[step];
    pthread_mutex_unlock(&model->packing);
    return s->weights ? HYP_OK : hyp_fail_memory(diag, (size_t)s->channels * (size_t)s->in_channels * sizeof(float));
}

/* False where it is none of those that can be done so. */
static bool fill(windows *s, const hyp_conv *v)
{
    const hyp_window *w = &v->window;
    if (v->x->dtype != HYP_F32 || v->group != 1 || w->n > 2 || v->x->count == 0 || v->y->count == 0) return false;
    s->batch = v->batch;
    s->in_channels = v->in_channels;
    s->channels = v->out_channels;
    s->in_place = s->x_last || s->in_channels == 1;
    for (int axis = Y; axis <= X; axis++) {
        int i = axis - (2 - w->n); /* a single axis is the innermost */
        s->in[axis] = i < 0 ? 1 : v->x->dims[2 + i];
        s->out[axis] = i < 0 ? 1 : v->y->dims[2 + i];
        s->kernel[axis] = i < 0 ? 1 : w->kernel[i];
        s->stride[axis] = i < 0 ? 1 : w->stride[i];
        s->dilation[axis] = i < 0 ? 1 : w->dilation[i];
        s->before[axis] = i < 0 ? 0 : w->before[i];
        int64_t reach = (s->out[axis] - 1) * s->stride[axis] + (s->kernel[axis] - 1) * s->dilation[axis] + 1;
        s->in_place = s->in_place && s->before[axis] == 0 && reach <= s->in[axis];
        if (axis == X) s->width = reach;
    }
    return s->dilation[X] == 1 || s->kernel[X] == 1;
}

/* Lines that make a part: so many places that every panel of weights is worth reading. */
static bool choose_parts(windows *s, int threads, int64_t blocks, size_t *work_bytes)
{
    enum { PLACES = 192, PAD = 16, ALIGN = 64, MOST_FLOATS = 1 << 24 };
    int64_t parts = s->out[Y] * s->out[X] / PLACES;
    if (parts < 1) parts = 1;
    s->lines = (s->out[Y] + parts - 1) / parts;
    s->parts = (s->out[Y] + s->lines - 1) / s->lines;
    int64_t wanted = threads > 1 ? 2 * threads : 1, all = s->batch * s->parts;
    s->split = all < wanted ? (wanted + all - 1) / all : 1;
    if (s->split > blocks) s->split = blocks;
    double x_lines =
        (double)(s->lines - 1) * (double)s->stride[Y] + (double)(s->kernel[Y] - 1) * (double)s->dilation[Y] + 1;
    double x = s->in_place ? 0 : x_lines * (double)s->width * (double)s->in_channels;
    double made = s->y_last ? 0 : (double)s->lines * (double)s->out[X] * (double)s->channels;
    if (x + made > MOST_FLOATS) return false;
    s->made_at = ((size_t)x + PAD) * sizeof(float) / ALIGN * ALIGN + ALIGN;
    s->thread_bytes = s->made_at + ((size_t)made + PAD) * sizeof(float) / ALIGN * ALIGN + ALIGN;
    *work_bytes = (size_t)threads * s->thread_bytes;
    return true;
}

/* What a step reads and writes; false where that is not for this kernel. */
static bool take_tensors(windows *s, const hyp_cpu_model *model, const HypPlan__Call *call, const bool *channels_last)
{
    s->x = call->inputs_plus1[0] - 1;
    s->y = call->outputs[0];
    s->added_plus1 = call->n_inputs_plus1 > 3 ? call->inputs_plus1[3] : 0;
    s->x_last = channels_last[s->x];
    s->y_last = channels_last[s->y];
    bool bias = call->n_inputs_plus1 > 2 && call->inputs_plus1[2];
    if (bias && !hyp_cpu_weight(model->plan, call->inputs_plus1[2] - 1)) return false;
    return hyp_cpu_weight(model->plan, call->inputs_plus1[1] - 1) &&
           (!s->added_plus1 || channels_last[s->added_plus1 - 1] == s->y_last);
}

hyp_status hyp_cpu_prepare_windows(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    const HypPlan__Call *call = op->step->call;
    const hyp_cpu_kernels *kernels = model->device->kernels;
    int act = hyp_conv_act(call->attrs[4]->text);
    hyp_call_arguments a;
    hyp_conv v;
    hyp_diag unfit; /* of shapes that do not fit: the plain kernel says so */
    windows *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, call, &unfit, &a);
    bool can = act >= 0 && act != HYP_PW_CLIP && take_tensors(s, model, call, channels_last) &&
               hyp_kernel_read_conv(&a.call, false, &v) == HYP_OK && fill(s, &v);
    int64_t panel = (int64_t)kernels->panel * kernels->width;
    can = can && choose_parts(s, model->device->threads, (s->channels + panel - 1) / panel, &op->work_bytes);
    const float *bias = can && v.b ? hyp_cpu_weight(model->plan, call->inputs_plus1[2] - 1) : NULL;
    hyp_status status = !can ? HYP_OK
                             : find_packed(model, step, s, hyp_cpu_weight(model->plan, call->inputs_plus1[1] - 1), bias,
                                           hyp_plan_op_act((HypPlan__Pointwise__Op)act), diag);
    if (status != HYP_OK || !can) {
        hyp_free(s);
        return status;
    }
    op->run = run_windows;
    op->destroy = windows_destroy;
    op->state = s;
    return HYP_OK;
}
