/* windows.c - convolutions by the kernel of our layers, in f32 over 1 or 2 spatial axes.
 *
 * With the channels last, what a line of the kernel covers lies together: a window is as many runs of floats as the
 * kernel has lines, and a convolution is a layer whose rows are windows. A part is some lines of results; the lines of
 * x that they want are brought beside each other with zeros around, unless x itself will do, and stay in the cache
 * while all panels of weights go over them.
 *
 * A convolution with few results fills a part of a vector. The results of some neighbouring places lie together, too: they
 * are those of one place of a convolution with as many times the results and the stride, whose kernel has the weights of
 * each of the places further along, between zeros.
 *
 * Each of several groups is a layer of its own. What a place has of a group is a short run between those of the others,
 * and places are so far apart that few sets of the first-level cache would hold a window: lines of x are brought so that
 * each group has an image by itself.
 */
#include "runtime/cpu/windows.h"

#include <math.h>

#include "base/elementwise.h"
#include "kernels/window.h"

enum { Y = HYP_Y, X = HYP_X };

typedef struct windows {
    hyp_cpu_conv c;
    const hyp_mlp *weights; /* of the model */
    int64_t together;       /* neighbouring places whose results are made at once */
    int64_t area;           /* of several groups: floats from one's lines of x to those of the next */
    bool in_place;          /* windows lie in x as it is */
    bool acts_behind;       /* the activation comes when all groups of a part are done: a group's results are few */
    int64_t lines;          /* of results in a part */
    int64_t parts, split;   /* of an image, and of the panels or groups */
    size_t moved_bytes, made_at,
        thread_bytes; /* in the work space of a thread: the lines of x, then results that are to be turned */
} windows;

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef struct run_state {
    const windows *s;
    const hyp_cpu_run *run;
    const float *added;
} run_state;

/* Places `from` to `to` of one line of x, with the channels last. */
static void bring_places(const hyp_cpu_run *run, const hyp_cpu_conv *s, const float *x, int64_t line, int64_t from,
                         int64_t to, float *out)
{
    int64_t c = s->in_channels, places = s->in[Y] * s->in[X];
    if (s->x_last || c == 1)
        hyp_cpu_copy_rows(x + (line * s->in[X] + from) * s->x_apart, s->x_apart, out, c, to - from, c);
    else
        run->kernels->transpose(x + line * s->in[X] + from, c, to - from, places, out, c);
}

void hyp_cpu_bring_lines(const hyp_cpu_run *run, const hyp_cpu_conv *s, const float *x, int64_t line, int64_t count,
                         float *out)
{
    int64_t c = s->in_channels, left = s->before[X] < s->width ? s->before[X] : s->width;
    int64_t to = s->width - left < s->in[X] ? s->width - left : s->in[X], right = s->width - left - to;
    for (int64_t end = line + count; line < end; line++, out += s->width * c) {
        if (line < 0 || line >= s->in[Y]) {
            memset(out, 0, (size_t)(s->width * c) * sizeof *out);
            continue;
        }
        memset(out, 0, (size_t)(left * c) * sizeof *out);
        bring_places(run, s, x, line, 0, to, out + left * c);
        memset(out + (left + to) * c, 0, (size_t)(right * c) * sizeof *out);
    }
}

const float *hyp_cpu_find_added(const hyp_cpu_run *run, const hyp_cpu_conv *s, float *room)
{
    if (!s->added_plus1) return NULL;
    const float *added = run->call.at[s->added_plus1 - 1];
    if (!s->moves_added) return added;
    int64_t places = s->out[Y] * s->out[X], rows = s->y_last ? s->channels : places,
            columns = s->y_last ? places : s->channels;
    for (int64_t i = 0; i < s->batch; i++)
        run->kernels->transpose(added + i * places * s->channels, rows, columns, columns,
                                room + i * places * s->channels, rows);
    return room;
}

/* Channels of what results are divided by: panels, or groups. */
static int64_t count_unit(const windows *s, const hyp_cpu_kernels *kernels)
{
    return s->c.groups > 1 ? s->c.channels / s->c.groups : (int64_t)kernels->panel * kernels->width;
}

/* Lines of results from o on, which want so many lines of the image x, in the panels from `first` to `end`. */
static void run_layer(const run_state *r, const hyp_windows *g, const float *x, int64_t o, int64_t wanted, int64_t first,
                      int64_t end, const float *added, float *out, float *work)
{
    const windows *s = r->s;
    const hyp_cpu_conv *c = &s->c;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    int64_t place = s->in_place ? c->x_apart : c->in_channels, line = (s->in_place ? c->in[X] : c->width) * place;
    int64_t unit = count_unit(s, kernels), n = c->channels;
    if (s->in_place) {
        x += o * g->x_line;
    } else {
        hyp_cpu_bring_lines(r->run, c, x, o * c->stride[Y] - c->before[Y], wanted, work);
        x = work;
    }
    if (s->together == 1 || hyp_cpu_is_tame(x, wanted * line - (place - c->in_channels)))
        kernels->windows(&s->weights->layers[0], g, x, added, out, first, end);
    else
        hyp_cpu_conv_directly(kernels, c,
                              &(hyp_direct){.x = x,
                                            .line = line,
                                            .place = place,
                                            .lines = g->lines,
                                            .from = first * unit,
                                            .to = end * unit < n ? end * unit : n,
                                            .added = added,
                                            .y = out,
                                            .y_place = c->y_last ? c->y_apart : n});
}

/* What lines of an image have of the groups from `first` to `end`, each group's by itself, with zeros around. */
static void bring_groups(const run_state *r, const float *x, int64_t line, int64_t count, int64_t first, int64_t end,
                         float *out)
{
    const windows *s = r->s;
    const hyp_cpu_conv *c = &s->c;
    int64_t of_group = c->in_channels / c->groups, plane = c->in[Y] * c->in[X], n = end - first;
    int64_t left = c->before[X] < c->width ? c->before[X] : c->width, places = c->width - left;
    if (places > c->in[X]) places = c->in[X];
    for (int64_t l = 0; l < count; l++, line++) {
        float *to = out + l * c->width * of_group, *inner = to + left * of_group;
        bool inside = line >= 0 && line < c->in[Y];
        int64_t right = c->width - left - places;
        for (int64_t g = 0; g < n; g++) {
            memset(to + g * s->area, 0, (size_t)((inside ? left : c->width) * of_group) * sizeof *to);
            if (inside) memset(inner + g * s->area + places * of_group, 0, (size_t)(right * of_group) * sizeof *to);
        }
        for (int64_t g = 0; g < n && inside && !c->x_last; g++)
            r->run->kernels->transpose(x + (first + g) * of_group * plane + line * c->in[X], of_group, places, plane,
                                       inner + g * s->area, of_group);
        for (int64_t p = 0; p < places && inside && c->x_last; p++)
            r->run->kernels->copy_rows(x + (line * c->in[X] + p) * c->x_apart + first * of_group, n, of_group, of_group,
                                       inner + p * of_group, s->area);
    }
}

/* The same as run_layer, for groups from `first` to `end`. */
static void run_groups(const run_state *r, hyp_windows *g, const float *x, int64_t o, int64_t wanted, int64_t first,
                       int64_t end, const float *added, float *out, float *work)
{
    const windows *s = r->s;
    const hyp_cpu_conv *c = &s->c;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    int64_t each = c->channels / c->groups, panel = (int64_t)kernels->panel * kernels->width;
    bring_groups(r, x, o * c->stride[Y] - c->before[Y], wanted, first, end, work);
    for (int64_t i = first; i < end; i++)
        kernels->windows(&s->weights->layers[i], g, work + (i - first) * s->area, added ? added + i * each : NULL,
                         out + i * each, 0, (each + panel - 1) / panel);
    for (int64_t p = 0; s->acts_behind && p < g->lines * g->places; p++)
        kernels->activate(&c->act, out + p * g->y_place + first * each, (end - first) * each);
}

/* Some lines of results of one image, in the columns of some panels, or groups. */
static void run_part(const run_state *r, int64_t image, int64_t o, int64_t first, int64_t end, char *work)
{
    const windows *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    const hyp_cpu_conv *c = &s->c;
    int64_t lines = c->out[Y] - o < s->lines ? c->out[Y] - o : s->lines, plane = c->out[Y] * c->out[X], n = c->channels;
    int64_t width = s->in_place ? c->in[X] : c->width, place = s->in_place ? c->x_apart : c->in_channels / c->groups;
    int64_t line = width * place;
    const float *x = (const float *)r->run->call.at[c->x] + image * c->in[Y] * c->in[X] * c->x_apart;
    float *y = (float *)r->run->call.at[c->y] + image * plane * c->y_apart, *made = (float *)(work + s->made_at);
    const float *added = r->added ? r->added + image * plane * n : NULL;
    bool gaps = c->dilation[X] > 1; /* without them what a line of the kernel covers is one run */
    hyp_windows g = {.lines = lines,
                     .places = c->out[X] / s->together,
                     .x_line = c->stride[Y] * line,
                     .x_place = s->together * c->stride[X] * place,
                     .rows = c->kernel[Y],
                     .apart = c->dilation[Y] * line,
                     .runs = gaps ? c->kernel[X] : 1,
                     .gap = c->dilation[X] * place,
                     .y_place = (c->y_last ? c->y_apart : n) * s->together,
                     .top = o * c->stride[Y] - c->before[Y],
                     .step = c->stride[Y],
                     .spread = c->dilation[Y],
                     .height = c->in[Y]};
    int64_t wanted = (lines - 1) * c->stride[Y] + (c->kernel[Y] - 1) * c->dilation[Y] + 1;
    int64_t at = o * c->out[X], places = lines * c->out[X], unit = count_unit(s, kernels);
    int64_t from = first * unit, to = end * unit < n ? end * unit : n;
    float *out = c->y_last ? y + at * c->y_apart : made;
    if (added && c->added_last) {
        added += at * n;
    } else if (added) {
        kernels->transpose(added + from * plane + at, to - from, places, plane, made + from, n);
        added = made;
    }
    if (c->groups > 1)
        run_groups(r, &g, x, o, wanted, first, end, added, out, (float *)work);
    else
        run_layer(r, &g, x, o, wanted, first, end, added, out, (float *)work);
    if (!c->y_last) kernels->transpose(made + from, places, to - from, n, y + from * plane + at, plane);
}

static void parts(void *state, int64_t begin, int64_t end, int thread)
{
    const run_state *r = state;
    const windows *s = r->s;
    int64_t unit = count_unit(s, r->run->kernels), units = (s->c.channels + unit - 1) / unit;
    for (int64_t i = begin; i < end; i++) {
        int64_t slice = i % s->split, part = i / s->split % s->parts, image = i / s->split / s->parts;
        run_part(r, image, part * s->lines, units * slice / s->split, units * (slice + 1) / s->split,
                 (char *)r->run->call.work + s->moved_bytes + (size_t)thread * s->thread_bytes);
    }
}

static hyp_status run_windows(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    enum { PART_FLOPS = 1 << 19 }; /* that are worth a thread */
    (void)diag;
    const windows *s = op->state;
    run_state r = {s, run, hyp_cpu_find_added(run, &s->c, run->call.work)};
    int64_t flops = 2 * s->lines * s->c.out[X] * s->c.channels * s->weights->layers[0].k / s->split;
    hyp_cpu_parallel(run, s->c.batch * s->parts * s->split, hyp_cpu_grain(PART_FLOPS, flops), parts, &r);
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* The weights [out, in, kernel...] as layers, one for each group, whose rows are [kernel..., in] and whose columns are the
 * results of so many places. NULL when memory is out. */
static hyp_mlp *pack_windows(const hyp_cpu_kernels *kernels, const windows *s)
{
    const hyp_cpu_conv *c = &s->c;
    int64_t together = s->together, along = c->kernel[X] + (together - 1) * c->stride[X], in = c->in_channels / c->groups;
    int64_t n = c->channels / c->groups, all = n * together, k = c->kernel[Y] * along * in;
    float *turned = hyp_calloc((size_t)(c->groups * all) * (size_t)k, sizeof(float));
    float *bias = hyp_calloc((size_t)(c->groups * all), sizeof(float));
    for (int64_t g = 0; g < c->groups && turned && bias; g++)
        for (int64_t p = 0; p < together; p++)
            for (int64_t o = 0; o < n; o++) {
                const float *w = c->w + (g * n + o) * in * c->kernel[Y] * c->kernel[X];
                float *to = turned + g * k * all + p * n + o;
                bias[g * all + p * n + o] = c->bias ? c->bias[g * n + o] : 0;
                for (int64_t i = 0; i < in; i++)
                    for (int64_t y = 0; y < c->kernel[Y]; y++)
                        for (int64_t x = 0; x < c->kernel[X]; x++)
                            to[((y * along + p * c->stride[X] + x) * in + i) * all] = *w++;
            }
    const hyp_block_instr *act = s->acts_behind ? NULL : &c->act;
    hyp_mlp *packed = turned && bias ? hyp_cpu_pack_layers(kernels, (size_t)c->groups, turned, all, k, bias, act) : NULL;
    hyp_free(turned);
    hyp_free(bias);
    return packed;
}

static hyp_status find_packed(hyp_cpu_model *model, uint32_t step, windows *s, hyp_diag *diag)
{
    hyp_mem_account *before = hyp_cpu_packing_begin(model);
    hyp_mlp **packed = s->together > 1 ? &model->neighbours[step] : &model->rows[step];
    if (!*packed) *packed = pack_windows(model->device->kernels, s);
    s->weights = *packed;
    hyp_cpu_packing_end(model, before);
    return s->weights ? HYP_OK
                      : hyp_fail_memory(diag, (size_t)s->c.channels * (size_t)s->c.in_channels * sizeof(float));
}

/* Lines of results whose lines of x stay in the second-level cache. Of several groups whole lines are read from one end to
 * the other: what some groups have of each place would come from memory line by line. */
static int64_t count_cached_lines(const windows *s, int64_t fewest)
{
    enum { CACHED_FLOATS = 1 << 16 };
    const hyp_cpu_conv *c = &s->c;
    double line = (double)(s->in_place ? c->in[X] : c->width) * (double)c->in_channels;
    double reach = (double)(c->kernel[Y] - 1) * (double)c->dilation[Y] + 1;
    double lines = (CACHED_FLOATS / line - reach) / (double)c->stride[Y] + 1;
    return lines < (double)fewest ? fewest : lines < (double)c->out[Y] ? (int64_t)lines : c->out[Y];
}

/* Lines that make a part: so many places that every panel of weights is worth reading. */
static bool choose_parts(windows *s, const hyp_cpu_kernels *kernels, int threads, size_t *work_bytes)
{
    enum { PLACES = 192, FEW_PLACES = 48, PAD = 16, ALIGN = 64, MOST_FLOATS = 1 << 24 };
    const hyp_cpu_conv *c = &s->c;
    int64_t parts = c->out[Y] * c->out[X] / PLACES, unit = count_unit(s, kernels), units = (c->channels + unit - 1) / unit;
    if (parts < 1) parts = 1;
    s->lines = (c->out[Y] + parts - 1) / parts;
    int64_t cached = count_cached_lines(s, c->groups > 1 ? 1 : (FEW_PLACES + c->out[X] - 1) / c->out[X]);
    if (s->lines > cached) s->lines = cached;
    s->parts = (c->out[Y] + s->lines - 1) / s->lines;
    double x_lines =
        (double)(s->lines - 1) * (double)c->stride[Y] + (double)(c->kernel[Y] - 1) * (double)c->dilation[Y] + 1;
    double x = s->in_place ? 0 : x_lines * (double)c->width * (double)(c->in_channels / c->groups);
    double made = !hyp_cpu_turns(c) ? 0 : (double)s->lines * (double)c->out[X] * (double)c->channels;
    if (x * (double)c->groups + made > MOST_FLOATS) return false;
    int64_t wanted = threads > 1 ? 2 * threads : 1, all = c->batch * s->parts;
    s->split = all < wanted ? (wanted + all - 1) / all : 1;
    if (s->split > units) s->split = units;
    s->area = (int64_t)x / PAD * PAD + (c->groups > 1 ? 3 : 1) * PAD; /* areas begin in different sets of a cache */
    int64_t areas = c->groups > 1 ? (units + s->split - 1) / s->split : 1;
    s->made_at = (size_t)(areas * s->area) * sizeof(float) / ALIGN * ALIGN + ALIGN;
    s->thread_bytes = s->made_at + ((size_t)made + PAD) * sizeof(float) / ALIGN * ALIGN + ALIGN;
    s->moved_bytes = (hyp_cpu_moved_bytes(c) + ALIGN - 1) / ALIGN * ALIGN;
    *work_bytes = s->moved_bytes + (size_t)threads * s->thread_bytes;
    return true;
}

static bool take_sizes(hyp_cpu_conv *s, const hyp_conv *v)
{
    const hyp_window *w = &v->window;
    if (v->x->dtype != HYP_F32 || w->n > 2 || v->x->count == 0 || v->y->count == 0) return false;
    s->batch = v->batch;
    s->groups = v->group;
    s->in_channels = v->group * v->in_channels;
    s->channels = v->group * v->out_channels;
    for (int axis = Y; axis <= X; axis++) {
        int i = axis - (2 - w->n); /* a single axis is the innermost */
        s->in[axis] = i < 0 ? 1 : v->x->dims[2 + i];
        s->out[axis] = i < 0 ? 1 : v->y->dims[2 + i];
        s->kernel[axis] = i < 0 ? 1 : w->kernel[i];
        s->stride[axis] = i < 0 ? 1 : w->stride[i];
        s->dilation[axis] = i < 0 ? 1 : w->dilation[i];
        s->before[axis] = i < 0 ? 0 : w->before[i];
    }
    s->width = (s->out[X] - 1) * s->stride[X] + (s->kernel[X] - 1) * s->dilation[X] + 1;
    return true;
}

bool hyp_cpu_take_conv(const hyp_cpu_model *model, const hyp_cpu_op *op, const int64_t *values,
                       const bool *channels_last, hyp_cpu_conv_call *out)
{
    const HypPlan__Call *call = op->step->call;
    const hyp_reference_call asked = {.program = model->plan->program, .values = values};
    hyp_diag unfit;
    *out = (hyp_cpu_conv_call){.x = call->inputs_plus1[0] - 1, .y = call->outputs[0]};
    out->bias_plus1 = hyp_plan_call_input(call, 2);
    out->added_plus1 = hyp_plan_call_input(call, 3);
    out->x_last = channels_last[out->x];
    out->y_last = channels_last[out->y];
    out->added_last = out->added_plus1 && channels_last[out->added_plus1 - 1];
    out->w = hyp_cpu_weight(model->plan, call->inputs_plus1[1] - 1);
    if (out->bias_plus1) out->bias = hyp_cpu_weight(model->plan, out->bias_plus1 - 1);
    hyp_reference_arguments(&asked, call, &unfit, &out->arguments);
    bool transpose = strcmp(call->kernel, "conv-transpose") == 0;
    return out->w && hyp_kernel_read_conv(&out->arguments.call, transpose, &out->conv) == HYP_OK;
}

hyp_status hyp_cpu_find_grouped(hyp_cpu_model *model, uint32_t step, const hyp_cpu_conv_call *call,
                                hyp_cpu_pack_conv *pack, const float **out, hyp_diag *diag)
{
    hyp_mem_account *before = hyp_cpu_packing_begin(model);
    if (!model->grouped[step]) model->grouped[step] = pack(&call->conv, call->w, call->bias);
    *out = model->grouped[step];
    hyp_cpu_packing_end(model, before);
    return *out ? HYP_OK : hyp_fail_memory(diag, (size_t)call->conv.w->count * sizeof **out);
}

bool hyp_cpu_read_conv(const hyp_cpu_model *model, const hyp_cpu_op *op, const int64_t *values,
                       const bool *channels_last, hyp_cpu_conv *out)
{
    hyp_cpu_conv_call c;
    *out = (hyp_cpu_conv){.batch = 0};
    if (!hyp_cpu_take_conv(model, op, values, channels_last, &c) || (c.bias_plus1 && !c.bias) ||
        !take_sizes(out, &c.conv))
        return false;
    out->x = c.x;
    out->y = c.y;
    out->added_plus1 = c.added_plus1;
    out->x_last = c.x_last;
    out->y_last = c.y_last;
    out->x_apart = hyp_cpu_place_step(op, c.x, out->in_channels);
    out->y_apart = hyp_cpu_place_step(op, c.y, out->channels);
    out->moves_added =
        c.added_plus1 && c.added_last != c.y_last && hyp_plan_same_slot(model->plan->program, c.added_plus1 - 1, c.y);
    out->added_last = out->moves_added ? c.y_last : c.added_last;
    out->w = c.w;
    out->bias = c.bias;
    out->act = hyp_cpu_conv_act(&c.conv);
    return true;
}

/* Whether windows lie in x as it is. */
static bool lies_ready(const hyp_cpu_conv *s)
{
    int64_t reach = (s->out[Y] - 1) * s->stride[Y] + (s->kernel[Y] - 1) * s->dilation[Y] + 1;
    bool runs = s->x_apart == s->in_channels || s->kernel[X] == 1; /* what a line of the kernel covers lies together */
    return runs && (s->x_last || s->in_channels == 1) && s->before[Y] == 0 && s->before[X] == 0 && reach <= s->in[Y] &&
           s->width <= s->in[X];
}

int64_t hyp_cpu_count_neighbours(const hyp_cpu_kernels *kernels, int64_t channels, int64_t kernel, int64_t stride,
                                 double *cost)
{
    enum { ROWS = 6 /* of a tile */, MOST = 8 };
    static const double enough = 1.25; /* times the least is taken: fewer places divide more lines */
    double costs[MOST + 1], least = INFINITY;
    int64_t panel = (int64_t)kernels->panel * kernels->width, found = 1;
    for (int64_t p = 1; p <= MOST && p * channels <= panel; p *= 2) {
        double vectors = (double)((p * channels + kernels->width - 1) / kernels->width);
        double along = (double)kernel + (double)(p - 1) * (double)stride;
        costs[p] = fmax(vectors + ROWS, ROWS * vectors) / (double)(ROWS * p) * along;
        least = fmin(least, costs[p]);
    }
    if (!(least < INFINITY)) return 1;
    while (costs[found] > enough * least) found *= 2;
    if (cost) *cost = costs[found] / (double)kernel;
    return found;
}

hyp_status hyp_cpu_prepare_windows(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, bool neighbours, hyp_cpu_op *op, hyp_diag *diag)
{
    const hyp_cpu_kernels *kernels = model->device->kernels;
    windows *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    bool can = hyp_cpu_read_conv(model, op, values, channels_last, &s->c);
    s->together = 1;
    s->acts_behind = can && s->c.groups > 1 && s->c.act.op != HYP_PLAN__POINTWISE__OP__CAST &&
                     s->c.act.op != HYP_PLAN__POINTWISE__OP__RELU;
    if (can && neighbours) {
        s->together = hyp_cpu_count_neighbours(kernels, s->c.channels, s->c.kernel[X], s->c.stride[X], NULL);
        can = s->c.groups == 1 && s->together > 1 && s->c.dilation[X] == 1 && s->c.out[X] % s->together == 0 &&
              s->c.y_apart == s->c.channels;
    }
    s->in_place = can && s->c.groups == 1 && lies_ready(&s->c);
    can = can && choose_parts(s, kernels, model->device->threads, &op->work_bytes);
    hyp_status status = can ? find_packed(model, step, s, diag) : HYP_OK;
    return hyp_cpu_finish_op(op, status, can, run_windows, hyp_free, s);
}
