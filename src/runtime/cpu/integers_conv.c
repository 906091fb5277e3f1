/* integers_conv.c - convolutions in i32, exact modulo 2^32, over any number of spatial axes.
 *
 * An image is turned so that the channels of a place lie together, as floats. The windows of some results are then rows
 * of a matrix that integers.h multiplies, brought together run by run unless they are places of the image themselves;
 * sums are turned back into the plan's layout. Where groups have few results, as of each channel by itself, rows would
 * leave the vectors empty, and where numbers are large, each place of the kernel adds multiples of lines of x to lines
 * of results.
 */
#include "base/elementwise.h"
#include "runtime/cpu/integers.h"
#include "runtime/cpu/windows.h"

typedef struct integer_conv {
    const hyp_integer_layer *packed; /* of the model, by group; NULL: groups have few results, or large weights */
    const int32_t *w;                /* [channel, channel of a group, place of the kernel] */
    hyp_window window;
    uint32_t x, bias_plus1, added_plus1, y; /* tensors */
    int64_t batch, groups, in, out;         /* channels of a group */
    bool in_place;                          /* windows are places of the image */
    int64_t *taps;                          /* positions of the kernel, by axis */
    /* In the work space: the image, and for each thread rows of floats, what is made of them, and sums. */
    size_t thread_at, thread_bytes;
} integer_conv;

static void destroy(void *opaque)
{
    integer_conv *s = opaque;
    hyp_free(s->taps);
    hyp_free(s);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* One image. */
typedef struct image {
    const integer_conv *s;
    const hyp_cpu_run *run;
    const int32_t *x, *bias, *added; /* the last two may be NULL */
    float *turned;
    int32_t *y;
    hyp_integer_parts parts;
    bool by_lines;
} image;

/* Places of the image. */
static void turn_part(void *state, int64_t begin, int64_t end, int thread)
{
    enum { PLACES = 32 }; /* that stay in the cache */
    (void)thread;
    const image *r = state;
    int64_t channels = r->s->groups * r->s->in, all = r->s->window.in_count;
    for (int64_t first = begin; first < end; first += PLACES) {
        int64_t count = end - first < PLACES ? end - first : PLACES;
        float *to = r->turned + first * channels;
        /* as they are: it moves whatever has the size of a float */
        r->run->kernels->transpose((const float *)(const void *)(r->x + first), channels, count, all, to, channels);
        hyp_integers_widen(to, count * channels);
    }
}

/* The windows of results o, o + 1, ... as rows of [place of the kernel, channel]. */
static void bring_windows(const integer_conv *s, const float *turned, int64_t group, int64_t o, int64_t rows,
                          float *out)
{
    const hyp_window *w = &s->window;
    int64_t at[HYP_SPATIAL], channels = s->groups * s->in;
    for (int64_t end = o + rows; o < end; o++) {
        hyp_window_position(w->n, w->out, o, at);
        for (int64_t t = 0; t < w->kernel_count; t++, out += s->in) {
            int64_t from = hyp_window_source(w, at, s->taps + t * w->n);
            if (from < 0)
                memset(out, 0, (size_t)s->in * sizeof *out);
            else
                memcpy(out, turned + from * channels + group * s->in, (size_t)s->in * sizeof *out);
        }
    }
}

/* What the sums of results o, o + 1, ... in the columns of a group start with: [result, column]. */
static void start_sums(const image *r, int64_t group, int64_t o, int64_t rows, int64_t begin, int64_t end,
                       uint32_t *sums)
{
    const integer_conv *s = r->s;
    for (int64_t j = begin; j < end; j++) {
        int64_t channel = group * s->out + j;
        const int32_t *added = r->added ? r->added + channel * s->window.out_count + o : NULL;
        uint32_t bias = r->bias ? (uint32_t)r->bias[channel] : 0;
        for (int64_t i = 0; i < rows; i++) sums[i * s->out + j] = bias + (added ? (uint32_t)added[i] : 0);
    }
}

/* Part i: of the groups of channels, the results, and the columns of a group. */
static void run_part(const image *r, int64_t i, char *work)
{
    const integer_conv *s = r->s;
    int64_t places = s->window.out_count, parts = r->parts.groups * r->parts.slices, group = i / parts;
    int64_t o = i % parts / r->parts.slices * HYP_MLP_ROWS,
            rows = places - o < HYP_MLP_ROWS ? places - o : HYP_MLP_ROWS;
    int64_t begin, end, k = s->window.kernel_count * s->in, stride = k;
    float *made = (float *)(void *)work, *room = made + hyp_integer_made_floats(r->run->kernels);
    uint32_t *sums = (uint32_t *)(void *)(room + (s->in_place ? 0 : HYP_MLP_ROWS * k));
    const float *x = room;
    hyp_integers_slice(&r->parts, i, &begin, &end);
    if (s->in_place) {
        stride = s->groups * s->in;
        x = r->turned + o * stride + group * s->in;
    } else {
        bring_windows(s, r->turned, group, o, rows, room);
    }
    start_sums(r, group, o, rows, begin, end, sums);
    hyp_integers_add(r->run->kernels, &s->packed[group], rows, x, stride, begin, end, made, sums, s->out);
    r->run->kernels->transpose((const float *)(const void *)(sums + begin), rows, end - begin, s->out,
                               (float *)(void *)(r->y + (group * s->out + begin) * places + o), places);
}

static void run_parts(void *state, int64_t begin, int64_t end, int thread)
{
    const image *r = state;
    char *work = (char *)r->run->call.work + r->s->thread_at + (size_t)thread * r->s->thread_bytes;
    for (int64_t i = begin; i < end; i++) run_part(r, i, work);
}

/* One result channel, whole. */
static void add_lines(const image *r, int64_t channel)
{
    const integer_conv *s = r->s;
    const hyp_window *w = &s->window;
    int32_t last = w->n - 1;
    hyp_window across = *w; /* all axes but the last */
    int64_t width = w->out[last], in_width = w->in[last], lines = w->out_count / width, at[HYP_SPATIAL];
    const int32_t *x = r->x + channel / s->out * s->in * w->in_count,
                  *weight = s->w + channel * s->in * w->kernel_count;
    uint32_t *y = (uint32_t *)r->y + channel * w->out_count, bias = r->bias ? (uint32_t)r->bias[channel] : 0;
    const uint32_t *added = r->added ? (const uint32_t *)r->added + channel * w->out_count : NULL;
    across.n = last;
    for (int64_t i = 0; i < w->out_count; i++) y[i] = bias + (added ? added[i] : 0);
    for (int64_t c = 0; c < s->in; c++, x += w->in_count)
        for (int64_t t = 0; t < w->kernel_count; t++) {
            const int64_t *tap = s->taps + t * w->n;
            int64_t stride = w->stride[last], before = w->before[last] - tap[last] * w->dilation[last];
            int64_t begin = before > 0 ? (before + stride - 1) / stride : 0, end = (in_width - 1 + before) / stride + 1;
            uint32_t factor = (uint32_t)*weight++;
            if (in_width - 1 + before < 0) continue;
            if (end > width) end = width;
            for (int64_t line = 0; line < lines; line++) {
                hyp_window_position(last, w->out, line, at);
                int64_t from = hyp_window_source(&across, at, tap);
                if (from < 0) continue;
                const uint32_t *in = (const uint32_t *)x + from * in_width;
                if (begin < end)
                    hyp_integers_add_line(y + line * width + begin, factor, in + begin * stride - before, stride,
                                          end - begin);
            }
        }
}

static void lines_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t channel = begin; channel < end; channel++) add_lines(state, channel);
}

static void run_image(image *r)
{
    enum { PART_FLOPS = 1 << 19 }; /* that are worth a thread */
    const integer_conv *s = r->s;
    const hyp_window *w = &s->window;
    int64_t results = s->groups * s->out, k = w->kernel_count * s->in;
    if (r->by_lines) {
        double flops = 2.0 * (double)k * (double)w->out_count;
        hyp_cpu_parallel(r->run, results, hyp_cpu_grain(HYP_CPU_COMPUTED, flops < 1e9 ? (int64_t)flops : 1 << 30),
                         lines_part, r);
        return;
    }
    double flops = 2.0 * HYP_MLP_ROWS * (double)k * (double)s->out / (double)r->parts.slices;
    hyp_cpu_parallel(r->run, w->in_count, hyp_cpu_grain(HYP_CPU_MOVED, s->groups * s->in), turn_part, r);
    hyp_cpu_parallel(r->run, s->groups * r->parts.groups * r->parts.slices,
                     hyp_cpu_grain(PART_FLOPS, flops < 1e9 ? (int64_t)flops : 1 << 30), run_parts, r);
}

static hyp_status run_conv(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const integer_conv *s = op->state;
    const hyp_window *w = &s->window;
    int64_t channels = s->groups * s->in, results = s->groups * s->out;
    image r = {.s = s, .run = run, .x = run->call.at[s->x], .turned = run->call.work, .y = run->call.at[s->y]};
    r.by_lines = !s->packed || hyp_integer_bits(run, r.x, s->batch * channels * w->in_count) >= HYP_INTEGER_LEFT;
    if (s->bias_plus1) r.bias = run->call.at[s->bias_plus1 - 1];
    if (s->added_plus1) r.added = run->call.at[s->added_plus1 - 1];
    r.parts = hyp_integers_divide(run->kernels, w->out_count, s->out, run->threads);
    for (int64_t i = 0; i < s->batch; i++) {
        run_image(&r);
        r.x += channels * w->in_count;
        r.y += results * w->out_count;
        if (r.added) r.added += results * w->out_count;
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* Whether it can be done so. */
static bool fits(const hyp_conv *v)
{
    return v->x->dtype == HYP_I32 && v->act == HYP_PW_CAST && v->x->count > 0 && v->w->count > 0 && v->y->count > 0;
}

/* Whether windows are single places, one result's after the other's. */
static bool lies_ready(const hyp_window *w)
{
    bool ready = true;
    for (int32_t a = 0; a < w->n; a++)
        ready = ready && w->kernel[a] == 1 && w->stride[a] == 1 && w->before[a] == 0 && w->out[a] == w->in[a];
    return ready;
}

static hyp_status list_taps(integer_conv *s, hyp_diag *diag)
{
    size_t bytes = (size_t)(s->window.kernel_count * s->window.n) * sizeof *s->taps;
    s->taps = hyp_malloc(bytes);
    if (!s->taps) return hyp_fail_memory(diag, bytes);
    for (int64_t t = 0; t < s->window.kernel_count; t++)
        hyp_window_position(s->window.n, s->window.kernel, t, s->taps + t * s->window.n);
    return HYP_OK;
}

static bool lay_out(const hyp_cpu_model *model, integer_conv *s, size_t *work_bytes)
{
    enum { ALIGN = 64, PAD = 64 /* bytes that transposing may read and write behind */ };
    size_t k = (size_t)(s->window.kernel_count * s->in), row = (size_t)s->out + (s->in_place ? 0 : k), turned, thread;
    if (!hyp_mul_size((size_t)(s->groups * s->in), (size_t)s->window.in_count, &turned) ||
        !hyp_mul_size(turned, sizeof(float), &turned) || !hyp_add_size(turned, PAD + ALIGN, &turned) ||
        !hyp_mul_size(row, HYP_MLP_ROWS * sizeof(float), &thread) ||
        !hyp_add_size(thread, (size_t)hyp_integer_made_floats(model->device->kernels) * sizeof(float) + PAD, &thread))
        return false;
    s->thread_at = turned / ALIGN * ALIGN;
    s->thread_bytes = thread;
    return hyp_mul_size(thread, (size_t)model->device->threads, &thread) &&
           hyp_add_size(thread, s->thread_at, work_bytes);
}

static hyp_status make(hyp_cpu_model *model, uint32_t step, integer_conv *s, size_t *work_bytes, hyp_diag *diag)
{
    enum { FEW = 4 }; /* results, which fill no vector */
    int64_t taps = s->window.kernel_count, k = taps * s->in;
    const hyp_integer_matrix first = {
        .at = s->w, .k = k, .n = s->out, .column = k, .inner = s->in, .outer_step = 1, .inner_step = taps};
    HYP_TRY(list_taps(s, diag));
    if (s->out < FEW) return HYP_OK;
    HYP_TRY(hyp_integers_find(model, step, &first, s->groups, k * s->out, &s->packed, diag));
    if (!s->packed) return HYP_OK;
    return lay_out(model, s, work_bytes) ? HYP_OK : hyp_fail_memory(diag, SIZE_MAX);
}

hyp_status hyp_cpu_prepare_integer_conv(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                        const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    hyp_cpu_conv_call c;
    if (!hyp_cpu_take_conv(model, op, values, channels_last, &c) || !fits(&c.conv)) return HYP_OK;
    integer_conv *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    *s = (integer_conv){.w = c.w,
                        .window = c.conv.window,
                        .x = c.x,
                        .bias_plus1 = c.bias_plus1,
                        .added_plus1 = c.added_plus1,
                        .y = c.y,
                        .batch = c.conv.batch,
                        .groups = c.conv.group,
                        .in = c.conv.in_channels,
                        .out = c.conv.out_channels,
                        .in_place = lies_ready(&c.conv.window)};
    hyp_status status = make(model, step, s, &op->work_bytes, diag);
    return hyp_cpu_finish_op(op, status, true, run_conv, destroy, s);
}
