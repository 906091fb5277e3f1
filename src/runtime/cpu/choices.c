/* choices.c - how each kind of step can be done, and what that is predicted to take. Predictions serve to order the
 * alternatives as they were measured (docs/runtime-cpu.md); tuning measures them where a plan runs.
 */
#include "runtime/cpu/choices.h"

#include <inttypes.h>
#include <math.h>

#include "base/dtype.h"
#include "base/strbuf.h"
#include "plan/channels_last.h"
#include "runtime/cpu/widened.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#endif

/* What starting and joining threads takes, a call of oneDNN, and an operation of plain loops. */
static const double start_seconds = 10e-6, call_seconds = 3e-6, plain_seconds = 1e-9;
/* What one thread does in the time of starting others: where each of two has as much, all threads do a step. */
enum { START_FLOPS = 500000, START_BYTES = 1 << 16 };

/* A step that is looked at. */
typedef struct asked {
    const hyp_cpu_model *model;      /* whose kernels do it: of a step in 16 bits perhaps those for floats */
    const HypPlan__Program *program; /* as it is in the plan */
    const HypPlan__Step *step;
    uint32_t index;
    const int64_t *values;
    const bool *channels_last; /* NULL while loading */
    double alone;              /* seconds of one thread */
    hyp_strbuf key;
    hyp_choice *choice;
} asked;

/* ---- keys ---------------------------------------------------------------------------------------------------- */

static void put_tensor(asked *a, uint32_t tensor)
{
    const HypPlan__Tensor *t = a->program->tensors[tensor];
    hyp_strbuf_printf(&a->key, " %s", hyp_dtype_name((hyp_dtype)t->dtype));
    for (size_t i = 0; i < t->n_dims; i++)
        hyp_strbuf_printf(&a->key, "%s%" PRId64, i ? "x" : " ", a->values[t->dims[i]]);
    if (a->channels_last && a->channels_last[tensor]) hyp_strbuf_puts(&a->key, " last");
}

static void put_values(asked *a, const char *what, const uint32_t *dims, size_t count)
{
    for (size_t i = 0; i < count; i++) hyp_strbuf_printf(&a->key, "%s%" PRId64, i ? "," : what, a->values[dims[i]]);
}

/* Keeps the key, unless it is too long for one: then tuning does not know the step. */
static void keep_key(asked *a)
{
    if (a->key.len > 0 && !a->key.failed && a->key.len < sizeof a->choice->key)
        memcpy(a->choice->key, a->key.data, a->key.len + 1);
    hyp_strbuf_dispose(&a->key);
}

/* "linear f32 64: 784x256 bias relu, 256x10". Up to twice as many rows are done in the same way. */
static void put_linear(asked *a)
{
    const HypPlan__Linear *s = a->step->linear;
    int64_t m = a->values[s->m];
    hyp_strbuf_printf(&a->key, "linear %s ", hyp_dtype_name(hyp_tensor_dtype(a->program, s->x)));
    a->choice->size_at = a->key.len;
    a->choice->size_most = m <= INT64_MAX / 2 ? 2 * m : m;
    hyp_strbuf_printf(&a->key, "%" PRId64 ":", m);
    for (size_t l = 0; l < s->n_layers; l++) {
        const HypPlan__Layer *layer = s->layers[l];
        bool stored = hyp_cpu_weight(a->model->plan, layer->weight);
        hyp_strbuf_printf(&a->key, "%s %" PRId64 "x%" PRId64 "%s%s %s", l ? "," : "", a->values[layer->k],
                          a->values[layer->n],
                          stored             ? ""
                          : layer->weight_kn ? " computed kn"
                                             : " computed nk",
                          layer->bias_plus1 ? " bias" : "", hyp_plan_act_name(layer->act));
    }
    if (!s->added_plus1) return;
    bool in_place = hyp_plan_same_slot(a->program, s->added_plus1 - 1, s->y);
    hyp_strbuf_puts(&a->key, s->add_after ? "; adds after" : in_place ? "; adds in place" : "; adds");
}

static void put_matmul(asked *a)
{
    const HypPlan__Matmul *s = a->step->matmul;
    const uint32_t sizes[] = {s->m, s->n, s->k};
    hyp_strbuf_printf(&a->key, "matmul %s %c%c", hyp_dtype_name(hyp_tensor_dtype(a->program, s->a)),
                      s->trans_a ? 't' : 'n', s->trans_b ? 't' : 'n');
    put_values(a, " ", sizes, 3);
    put_values(a, " batch ", s->batch, s->n_batch);
    put_values(a, " a ", s->a_strides, s->n_a_strides);
    put_values(a, " b ", s->b_strides, s->n_b_strides);
}

static void put_attention(asked *a)
{
    const HypPlan__Attention *s = a->step->attention;
    const uint32_t sizes[] = {s->rows, s->keys, s->width, s->columns};
    const HypPlan__Attention__Operand *operands[] = {s->q, s->k, s->v, s->mask, s->y};
    hyp_strbuf_printf(&a->key, "attention %s", hyp_dtype_name(hyp_tensor_dtype(a->program, s->q->tensor)));
    put_values(a, " ", sizes, 4);
    put_values(a, " batch ", s->batch, s->n_batch);
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        if (operands[i]) put_values(a, " strides ", operands[i]->strides, operands[i]->n_strides);
}

static void put_call(asked *a)
{
    const HypPlan__Call *s = a->step->call;
    hyp_strbuf_puts(&a->key, s->kernel);
    for (size_t i = 0; i < s->n_inputs_plus1; i++)
        if (s->inputs_plus1[i])
            put_tensor(a, s->inputs_plus1[i] - 1);
        else
            hyp_strbuf_puts(&a->key, " none");
    hyp_strbuf_puts(&a->key, " ->");
    for (size_t i = 0; i < s->n_outputs; i++) put_tensor(a, s->outputs[i]);
    for (size_t i = 0; i < s->n_attrs; i++)
        if (s->attrs[i]->kind == HYP_PLAN__CALL__ATTR__KIND__SYM)
            hyp_strbuf_printf(&a->key, "; %s", s->attrs[i]->text);
        else
            put_values(a, "; ", s->attrs[i]->dims, s->attrs[i]->n_dims);
}

/* ---- alternatives -------------------------------------------------------------------------------------------- */

static const char no_work[] = "there is nothing to compute";
enum { AVX2_FLOATS = 8, AVX512_FLOATS = 16 }; /* of a vector */

#ifdef HYP_HAVE_ONEDNN

/* oneDNN on all threads, on one, and, where `tile` says so, on tiles of rows; the best of them takes `least`. */
static void offer_onednn(asked *a, double least, bool tiles, bool prefers_tiles, const char *cannot)
{
    prefers_tiles = prefers_tiles && tiles;
    int threads = a->model->device->threads;
    double all = start_seconds + a->alone / 2; /* as of two, where it was measured */
    double best = threads > 1 && all <= a->alone ? all : a->alone, worse = 0.05 * least;
    if (threads < 2) all = best;
    hyp_choice_offer(a->choice, "oneDNN", HYP_CPU_ONEDNN, least + (all - best) + (prefers_tiles ? worse : 0), cannot);
    if (threads > 1)
        hyp_choice_offer(a->choice, "oneDNN on one thread", HYP_CPU_ONEDNN_ALONE, least + (a->alone - best), cannot);
    if (tiles)
        hyp_choice_offer(a->choice, "oneDNN by tiles of rows", HYP_CPU_ONEDNN_TILES,
                         least + (all - best) + (prefers_tiles ? 0 : worse), cannot);
}
#endif

/* Plain loops can everything that is in the plan's layout, and nothing is slower. */
static void offer_plain(asked *a)
{
    double slowest = call_seconds;
    hyp_step_work work = hyp_plan_step_work(a->program, a->index, a->values);
    for (size_t i = 0; i < a->choice->count; i++) slowest = fmax(slowest, a->choice->list[i].seconds);
    bool last = a->channels_last && a->step->kernel_case != HYP_PLAN__STEP__KERNEL_POINTWISE &&
                hyp_uses_layouts(a->step, a->channels_last);
    hyp_choice_offer(a->choice, "plain loops", HYP_CPU_PLAIN, slowest + work.flops * plain_seconds,
                     last ? "a tensor lies with its channels last" : NULL);
}

/* Our own kernels for layers, alone and shared by threads: rows through all layers, or, where they are few, layer by
 * layer, in groups of rows. Reading weights is what takes its time, up to some rows. */
static double offer_own_layers(asked *a, const char *cannot)
{
    enum { READ_ROWS = 4 }; /* that are computed while their weights are read */
    static const double read_rate = 25e9;
    const HypPlan__Linear *s = a->step->linear;
    int threads = a->model->device->threads;
    int64_t m = a->values[s->m], rows = m < HYP_MLP_ROWS ? m : HYP_MLP_ROWS;
    double groups = (double)((m + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS), alone = 0, by_panels = 0;
    bool by_rows = hyp_cpu_rows_share(m, threads), worth = by_rows;
    for (size_t l = 0; l < s->n_layers; l++) {
        int64_t n = a->values[s->layers[l]->n], k = a->values[s->layers[l]->k];
        double bytes = (double)n * (double)k * sizeof(float);
        double seconds = bytes * fmax(1, (double)rows / READ_ROWS) / read_rate;
        bool shares = threads > 1 && hyp_cpu_layer_shares(a->model->device->kernels, n, k, rows);
        worth = worth || shares;
        alone += groups * seconds;
        by_panels += groups * (shares ? fmin(start_seconds + seconds / 2, 0.99 * seconds) : seconds);
    }
    if (by_rows) worth = alone > 2 * start_seconds;
    double shared = by_rows ? start_seconds + alone / 2 : by_panels;
    hyp_choice_offer(a->choice, "own", HYP_CPU_OWN, alone, cannot);
    if (threads > 1)
        hyp_choice_offer(a->choice, "own shared by threads", HYP_CPU_OWN_SHARED, shared,
                         cannot    ? cannot
                         : worth   ? NULL
                         : by_rows ? "it is too little for two threads"
                                   : "no layer has enough weights for two threads");
    return worth && threads > 1 ? shared : alone;
}

#ifdef HYP_HAVE_ONEDNN
/* Whether oneDNN was measured to be faster than our own kernel for layers: for more than a few rows, where the weights
 * do not stay in the second-level cache, or where several threads share the weights, and its blocking over k counts.
 * With vectors of 8 floats it brings all weights into its own layout in each call, which takes more rows to be worth
 * it. */
static bool onednn_is_faster(const asked *a, size_t bytes)
{
    enum { FEW_ROWS = 16, FEW_COPIED = 512, CACHED_BYTES = 1 << 21, THREADED_FLOPS = 1 << 22 };
    int64_t m = a->values[a->step->linear->m], few = a->model->device->kernels->width > 8 ? FEW_ROWS : FEW_COPIED;
    double flops = (double)m * (double)bytes / 2; /* 2 per 4-byte weight and row */
    bool by_panels = a->model->device->threads > 1 && !hyp_cpu_rows_share(m, a->model->device->threads);
    return m > few && (bytes > CACHED_BYTES || (flops > THREADED_FLOPS && by_panels));
}

static const char *onednn_cannot_linear(const asked *a)
{
    const HypPlan__Linear *s = a->step->linear;
    bool work = a->values[s->m] > 0;
    for (size_t l = 0; l < s->n_layers; l++)
        work = work && a->values[s->layers[l]->n] > 0 && a->values[s->layers[l]->k] > 0;
    return hyp_tensor_dtype(a->program, s->x) == HYP_F8E4M3 ? "it has no 8 bits"
           : work                                           ? NULL
                                                            : no_work;
}
#endif

/* Products in f64 have a kernel of ours and nothing else. False: they are of another type. */
static bool offer_doubles(asked *a, uint32_t tensor)
{
    if (hyp_tensor_dtype(a->program, tensor) != HYP_F64) return false;
    hyp_choice_offer(a->choice, "own in double", HYP_CPU_DOUBLES, 4 * a->alone, NULL);
    return true;
}

/* Products of integers: in i32 we have a kernel, in other sizes nothing has. False: they are of another type. */
static bool offer_integers(asked *a, uint32_t tensor, const char *cannot)
{
    hyp_dtype t = hyp_tensor_dtype(a->program, tensor);
    if (hyp_dtype_is_float(t)) return false;
    if (t != HYP_I32) cannot = "it is for i32";
    hyp_choice_offer(a->choice, "own in exact parts", HYP_CPU_INTEGERS, call_seconds + 1.2 * a->alone, cannot);
    return true;
}

static void offer_linear(asked *a)
{
    const HypPlan__Linear *s = a->step->linear;
    if (offer_doubles(a, s->x) || offer_integers(a, s->x, s->n_layers > 1 ? "it is for a single layer" : NULL)) {
        put_linear(a);
        return;
    }
    const hyp_linear_weights *w = a->model->linear[a->index];
    double own = offer_own_layers(a, hyp_linear_cannot_own(w));
#ifdef HYP_HAVE_ONEDNN
    enum { FEW_WEIGHTS = 1 << 20 }; /* every tile reads all of them again */
    int threads = a->model->device->threads;
    double weights = 0;
    for (size_t l = 0; l < s->n_layers; l++)
        weights += (double)a->values[s->layers[l]->n] * (double)a->values[s->layers[l]->k];
    double least = onednn_is_faster(a, hyp_linear_bytes(w)) ? 0.8 * own : own + call_seconds;
    offer_onednn(a, least, hyp_dnnl_tile_rows(s, a->values, threads) < a->values[s->m], weights <= FEW_WEIGHTS,
                 onednn_cannot_linear(a));
#else
    (void)s, (void)own;
#endif
    put_linear(a);
}

/* Ours makes panels of each right matrix, which a few rows are not worth; with vectors of 8 floats oneDNN takes as long to
 * begin a matrix as for some ten thousand operations. */
static void offer_matmul(asked *a)
{
    enum { FEW_ROWS = 4, FEW_TIMES = 4 };
    static const double begin_own = 0.1e-6, begin_onednn = 0.4e-6, packing_rate = 5e9;
    if (offer_doubles(a, a->step->matmul->a) || offer_integers(a, a->step->matmul->a, NULL)) {
        put_matmul(a);
        return;
    }
    const HypPlan__Matmul *s = a->step->matmul;
    const int64_t m = a->values[s->m], n = a->values[s->n], k = a->values[s->k];
    double matrices = 1, packing = (double)n * (double)k / packing_rate;
    for (size_t i = 0; i < s->n_batch; i++) matrices *= (double)a->values[s->batch[i]];
    bool f32 = hyp_tensor_dtype(a->model->plan->program, s->a) == HYP_F32;
    bool work = m > 0 && n > 0 && k > 0 && matrices > 0;
    double own = 1.2 * a->alone + matrices * (begin_own + (m < FEW_ROWS ? FEW_TIMES : 1) * packing);
    hyp_choice_offer(a->choice, "own", HYP_CPU_OWN, own, !f32 ? "it is for f32" : work ? NULL : no_work);
#ifdef HYP_HAVE_ONEDNN
    bool wide = a->model->device->kernels->width >= AVX512_FLOATS;
    offer_onednn(a, call_seconds + a->alone + (wide ? 0 : matrices * begin_onednn), false, false, work ? NULL : no_work);
#else
    (void)begin_onednn;
#endif
    put_matmul(a);
}

/* Ours makes panels of k and v, which takes as long for a single row as for many; oneDNN takes as long to begin a product of a small
 * matrix as of a large one, and longer for keys that do not fill vectors. */
static void offer_attention(asked *a)
{
    const HypPlan__Attention *s = a->step->attention;
    bool f32 = hyp_tensor_dtype(a->model->plan->program, s->q->tensor) == HYP_F32, work = true;
    const int64_t sizes[] = {a->values[s->rows], a->values[s->keys], a->values[s->width], a->values[s->columns]};
    double matrices = 1, packing_rate = 5e9;
    for (size_t i = 0; i < 4; i++) work = work && sizes[i] > 0;
    for (size_t i = 0; i < s->n_batch; i++) matrices *= (double)a->values[s->batch[i]];
    work = work && matrices > 0;
    double packing = matrices * (double)sizes[1] * (double)(sizes[2] + sizes[3]) / packing_rate;
    hyp_choice_offer(a->choice, "own", HYP_CPU_OWN, a->alone + packing, f32 ? NULL : "it is for f32");
#ifdef HYP_HAVE_ONEDNN
    enum { SCORES = 1 << 16, FEWEST = 32 }; /* as dnnl_attention.c divides rows */
    static const double block_seconds = 1.4e-6;
    double block = fmax(FEWEST, SCORES / fmax(1, (double)sizes[1])), blocks = matrices * ceil((double)sizes[0] / block);
    double ragged = sizes[1] % a->model->device->kernels->width ? 1.25 : 1;
    hyp_choice_offer(a->choice, "oneDNN by blocks of rows", HYP_CPU_ONEDNN, ragged * a->alone + blocks * block_seconds,
                     !f32        ? "it is for f32"
                     : s->more_k ? "the keys are in two parts"
                     : work      ? NULL
                                 : no_work);
#endif
    put_attention(a);
}

static int64_t size_of(const asked *a, uint32_t tensor, size_t axis)
{
    const HypPlan__Tensor *t = a->program->tensors[tensor];
    return axis < t->n_dims ? a->values[t->dims[axis]] : 1;
}

/* 36 products of a tile of 4x4 results in place of 9 of each result, or reading their weights, and the transforms
 * around them, which go over whole vectors. */
static double winograd_seconds(const asked *a, uint32_t x, uint32_t y)
{
    enum { TILE = 4, PLACES = 36, PART = 24 /* tiles that the weights are read for */ };
    static const double own = 0.8 / START_FLOPS * 10e-6, transform_seconds = 0.43e-9, read_rate = 10e9;
    int64_t width = a->model->device->kernels->width, in = size_of(a, x, 1), out = size_of(a, y, 1);
    int64_t in_room = (in + width - 1) / width * width, out_room = (out + width - 1) / width * width;
    double tiles =
        (double)(size_of(a, y, 0) * ((size_of(a, y, 2) + TILE - 1) / TILE) * ((size_of(a, y, 3) + TILE - 1) / TILE));
    double weights = PLACES * (double)in * (double)out_room;
    double products = fmax(2 * tiles * weights * own, ceil(tiles / PART) * weights * sizeof(float) / read_rate);
    return products + tiles * PLACES * (double)(in_room + out_room) * transform_seconds;
}

enum { FEW_CHANNELS = 8, CACHED_FLOATS = 1 << 20 };

/* What the kernel of layers takes for windows, over what oneDNN's convolution is predicted to. With vectors of 8 floats it
 * is faster but where channels do not fill panels, or where the first convolution of a network reads few of them, if
 * oneDNN need not turn a tensor; with vectors of 16 it is slower but for a single channel, few places, and small ones for
 * which oneDNN 2.6 makes a copy of x, for its steps, or turns a tensor. Too few results for a vector cost oneDNN more.
 * reads: floats of weights. */
static double own_over_onednn(const asked *a, const HypPlan__Call *call, double places, double taps, double reads)
{
    enum { FEW_PLACES = 64, FEW_TAPS = 9, MOST_TAPS = 25 };
    uint32_t x = call->inputs_plus1[0] - 1, y = call->outputs[0];
    const hyp_cpu_kernels *kernels = a->model->device->kernels;
    int64_t in = size_of(a, x, 1), channels = size_of(a, y, 1), panel = (int64_t)kernels->panel * kernels->width;
    const double faster = 0.8, slower = 1.5;
    if (channels < FEW_CHANNELS) return in >= FEW_CHANNELS && taps == 1 ? faster : slower;
    if (kernels->width < AVX2_FLOATS) return faster;
    const bool *last = a->channels_last;
    if (kernels->width < AVX512_FLOATS) {
        bool fills = channels % panel == 0 || channels >= 4 * panel, first = in > 1 && in <= 4;
        return last && last[y] && (first || (!fills && last[x])) ? slower : faster;
    }
    bool small = reads <= CACHED_FLOATS / 16, turned = last && (!last[y] || (!last[x] && in > 4));
    bool steps = taps == 1 && size_of(a, x, 3) > size_of(a, y, 3), few = places <= FEW_PLACES;
    if (channels % kernels->width == 0 && (in == 1 || (few && small && taps <= MOST_TAPS))) return faster;
    if (few && taps <= FEW_TAPS && channels % panel == 0) return faster;
    return small && (steps || (turned && taps <= MOST_TAPS)) ? faster : slower;
}

/* The last number of a list that an operator has, which is 1 where it has none. */
static int64_t last_of(const asked *a, const HypPlan__Call__Attr *list)
{
    return list->n_dims > 0 ? a->values[list->dims[list->n_dims - 1]] : 1;
}

/* What the kernel of channels by themselves takes over what oneDNN is predicted to: where it holds a line of 5 or 7 places
 * in registers it is faster with vectors of 16 floats, unless so many places share a set of the first-level cache. With
 * vectors of 4 it is taken: oneDNN 2.6 cannot do them all for SSE4.1 (onednn_cannot_convolve). */
static double channels_over_onednn(const asked *a, const HypPlan__Call *call)
{
    enum { SHARE_SETS = 256 /* channels whose places, a multiple of 1 KiB apart, do */ };
    uint32_t w = call->inputs_plus1[1] - 1, y = call->outputs[0];
    int64_t along = size_of(a, w, a->program->tensors[w]->n_dims - 1), channels = size_of(a, y, 1);
    int64_t width = a->model->device->kernels->width;
    bool follow = last_of(a, call->attrs[0]) == 1 && last_of(a, call->attrs[2]) == 1; /* stride and dilation */
    bool held = follow && (along == 5 || along == 7);
    if (width < AVX2_FLOATS) return 0.8;
    return width >= AVX512_FLOATS && held && channels % SHARE_SETS != 0 ? 0.8 : 1.3;
}

/* What the kernel of layers takes for each group, over what oneDNN is predicted to: with vectors of 8 floats, which a group
 * fills, half of it. */
static double groups_over_onednn(const asked *a, int64_t of_group)
{
    int64_t width = a->model->device->kernels->width;
    return width < AVX512_FLOATS && of_group >= width ? 0.5 : 1.4;
}

/* Where results are few, those of neighbouring places share vectors, for zeros among the weights. */
static void offer_neighbours(asked *a, const HypPlan__Call *call)
{
    const hyp_cpu_kernels *kernels = a->model->device->kernels;
    uint32_t w = call->inputs_plus1[1] - 1, y = call->outputs[0];
    int64_t along = size_of(a, w, a->program->tensors[w]->n_dims - 1), channels = size_of(a, y, 1);
    int64_t length = size_of(a, y, a->program->tensors[y]->n_dims - 1);
    double cost, filled = (double)channels / (double)kernels->width;
    if (along < 1 || channels < 1) return;
    int64_t count = hyp_cpu_count_neighbours(kernels, channels, along, last_of(a, call->attrs[0]), &cost);
    if (count == 1) return;
    hyp_choice_offer(a->choice, "own, neighbours at once", HYP_CPU_NEIGHBOURS, 0.22 * a->alone * cost / filled,
                     last_of(a, call->attrs[2]) != 1 ? "the kernel has gaps"
                     : length % count != 0           ? "a line is no multiple of them"
                                                     : NULL);
}

/* Our own ways to convolve. The kernel of groups is faster where these have fewer channels than oneDNN's vectors. A product
 * and sums are faster for transposed convolutions, and where a convolution makes too few channels to fill vectors of many,
 * or has so few places that reading its weights counts; not where the columns that a row of results needs leave the
 * cache. */
static void offer_convolution(asked *a)
{
    const HypPlan__Call *call = a->step->call;
    bool transpose = strcmp(call->kernel, "conv-transpose") == 0;
    if (!transpose && strcmp(call->kernel, "conv") != 0) return;
    if (call->n_inputs_plus1 < 2 || !call->inputs_plus1[0] || !call->inputs_plus1[1]) return;
    uint32_t x = call->inputs_plus1[0] - 1, w = call->inputs_plus1[1] - 1, y = call->outputs[0];
    int64_t channels = size_of(a, y, 1);
    double rows = (double)size_of(a, w, 2), taps = rows * (double)size_of(a, w, 3);
    double places = (double)(size_of(a, y, 2) * size_of(a, y, 3)), reads = taps * (double)(channels * size_of(a, x, 1));
    bool wide = a->model->device->kernels->width >= AVX512_FLOATS;
    bool tiny = !transpose && taps > 1 && places <= (wide ? 4 : 9) && reads > CACHED_FLOATS / 4;
    bool few = channels < FEW_CHANNELS && size_of(a, x, 1) >= FEW_CHANNELS && taps > 1;
    bool cached = rows * taps * (double)channels * (double)size_of(a, x, 3) <= CACHED_FLOATS;
    bool clips = !transpose && strcmp(call->attrs[4]->text, "relu6") == 0; /* in a pass of its own, but not by oneDNN */
    double own = clips && !wide ? 1.5 : own_over_onednn(a, call, places, taps, reads);
    int64_t of_group = size_of(a, w, 1);
    bool grouped = !transpose && of_group < size_of(a, x, 1);
    if (grouped && of_group == 1 && channels == size_of(a, x, 1))
        hyp_choice_offer(a->choice, "own by channels", HYP_CPU_DEPTHWISE, channels_over_onednn(a, call) * a->alone, NULL);
    if (grouped && of_group > 1)
        hyp_choice_offer(a->choice, "own by groups", HYP_CPU_GROUPED, (of_group < FEW_CHANNELS ? 0.8 : 1.5) * a->alone,
                         NULL);
    if (grouped && of_group > 1) own = groups_over_onednn(a, of_group);
    if (!transpose && (!grouped || of_group > 1))
        hyp_choice_offer(a->choice, "own", HYP_CPU_WINDOWS, own * a->alone, NULL);
    if (!transpose && !grouped) offer_neighbours(a, call);
    if (!transpose && !grouped && rows == 3 && taps == 9)
        hyp_choice_offer(a->choice, "own in fewer multiplications", HYP_CPU_WINOGRAD, winograd_seconds(a, x, y), NULL);
    hyp_choice_offer(a->choice, "product and sums of its columns", HYP_CPU_COLUMNS,
                     (tiny                           ? 0.7
                      : (transpose || few) && cached ? 0.5
                                                     : 2) *
                         a->alone,
                     NULL);
}

#ifdef HYP_HAVE_ONEDNN
/* What oneDNN 2.6 would try, and end the program. */
static const char *onednn_cannot_convolve(const asked *a)
{
    const HypPlan__Call *call = a->step->call;
    uint32_t added_plus1 = strcmp(call->kernel, "conv") == 0 ? hyp_plan_call_input(call, 3) : 0;
    bool sse = strcmp(hyp_dnnl_isa(), "sse4.1") == 0, avx2 = strcmp(hyp_dnnl_isa(), "avx2") == 0;
    if (!added_plus1 || (!sse && !avx2)) return NULL;
    int64_t channels = size_of(a, call->outputs[0], 1);
    if (channels != size_of(a, call->inputs_plus1[0] - 1, 1) || size_of(a, call->inputs_plus1[1] - 1, 1) != 1) return NULL;
    if (sse) return channels % 4 != 0 ? "for SSE4.1 it reads what is added as if that were aligned" : NULL;
    bool gaps = last_of(a, call->attrs[2]) > 1;
    return gaps && channels % AVX2_FLOATS != 0 ? "for AVX2 it reads beyond what is added where the kernel has gaps" : NULL;
}
#endif

static void offer_call(asked *a)
{
    const HypPlan__Call *call = a->step->call;
    hyp_cpu_form form = hyp_cpu_call_form(call->kernel);
    if (strcmp(call->kernel, "conv") == 0 && call->n_inputs_plus1 > 1 && call->inputs_plus1[0] &&
        call->inputs_plus1[1] && offer_integers(a, call->inputs_plus1[0] - 1, NULL)) {
        put_call(a);
        return;
    }
    if (form == HYP_CPU_OWN) hyp_choice_offer(a->choice, "own", HYP_CPU_OWN, a->alone, NULL);
#ifdef HYP_HAVE_ONEDNN
    if (form == HYP_CPU_ONEDNN) offer_onednn(a, call_seconds + a->alone, false, false, onednn_cannot_convolve(a));
#endif
    if (form != HYP_CPU_OWN) offer_convolution(a);
    if (hyp_choice_open(a->choice) > 0 && form != HYP_CPU_OWN) put_call(a);
}

void hyp_cpu_offer(const hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                   hyp_choice *out)
{
    if (model->wide && model->wide->widens->steps[step]) model = model->wide;
    const HypPlan__Program *p = model->widens ? model->widens->narrow->program : model->plan->program;
    asked a = {.model = model,
               .program = p,
               .step = p->steps[step],
               .index = step,
               .values = values,
               .channels_last = channels_last,
               .choice = out};
    hyp_step_work work = hyp_plan_step_work(p, step, values);
    a.alone = start_seconds * fmax(work.flops / START_FLOPS, work.bytes / START_BYTES);
    hyp_choice_init(out);
    switch (a.step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: offer_linear(&a); break;
    case HYP_PLAN__STEP__KERNEL_MATMUL: offer_matmul(&a); break;
    case HYP_PLAN__STEP__KERNEL_ATTENTION: offer_attention(&a); break;
    case HYP_PLAN__STEP__KERNEL_CALL: offer_call(&a); break;
    case HYP_PLAN__STEP__KERNEL_POINTWISE:
    case HYP_PLAN__STEP__KERNEL_REDUCE:
    case HYP_PLAN__STEP__KERNEL_COPY:
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: hyp_choice_offer(out, "own", HYP_CPU_OWN, a.alone, NULL); break;
    default: break; /* gather and fill only move memory: plain loops do it as well as any */
    }
    offer_plain(&a);
    keep_key(&a);
}
