/* columns.c - transposed convolutions as a product and sums of its columns, in f32 over 1 or 2 spatial axes.
 *
 * The product z = x w has for every place of x a column for every place of the kernel and result channel: what that
 * place of x adds to the result there. Each result is the sum of the columns that fall on it, as many as windows
 * overlap. The product is that of our layers, which is as fast for any number of channels; a kernel that goes over
 * results has edges, strides and few channels to cope with (docs/runtime-cpu.md). A convolution with stride 1 is the
 * transpose of one with its kernel turned around: where it has few results for each place, they are too few to fill
 * vectors, but not together with all places of the kernel.
 *
 * z is made some rows of x at a time, to stay in the cache; the last rows, which later results want too, are kept.
 */
#include <math.h>

#include "base/elementwise.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/windows.h"

enum { Y, X }; /* spatial axes, innermost last */
enum { MOST_TAPS = 512, PAD = 16 /* floats that the sums may read and write behind */ };

typedef struct columns {
    const hyp_mlp *weights; /* of the model: one layer from a place of x to [kernel..., channel] */
    uint32_t x, bias, y;    /* tensors; bias UINT32_MAX: none */
    bool x_last, y_last;    /* their channels are */
    int64_t y_apart;        /* floats from place to place of y, if they are */
    bool flip;              /* the kernel is turned around */
    hyp_block_instr act;
    int64_t batch, in_channels, channels, taps;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], before[2];
    int64_t tile, kept;       /* rows of x in a product, and rows before them whose columns are still wanted */
    int64_t *first, *offsets; /* parts of the results of a row, as hyp_parts has them */
    size_t x_at, z_at, bias_at, made_at, made_bytes; /* in the work space; made: a row of results for each thread */
} columns;

static void columns_destroy(void *opaque)
{
    columns *s = opaque;
    hyp_free(s->first);
    hyp_free(s->offsets);
    hyp_free(s);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* Some rows of one image. */
typedef struct part {
    const columns *s;
    const hyp_cpu_run *run;
    const float *x, *bias;
    float *z, *y;
    int64_t row, rows;       /* of x: in this product */
    int64_t begin, end, top; /* of y: those that are complete; z has row `top` of x first */
} part;

static void *work(const part *r, size_t at) { return (char *)r->run->call.work + at; }

/* The place of x whose window has place k of the kernel on place o of y; -1: none. */
static int64_t source(const columns *s, int axis, int64_t o, int64_t k)
{
    int64_t at = o + s->before[axis] - k * s->dilation[axis];
    return at < 0 || at % s->stride[axis] || at / s->stride[axis] >= s->in[axis] ? -1 : at / s->stride[axis];
}

/* Brings rows of x to where their channels are last. */
static void turn_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const part *r = state;
    const columns *s = r->s;
    int64_t width = s->in[X], from = (r->row + begin) * width;
    r->run->kernels->transpose(r->x + from, s->in_channels, (end - begin) * width, s->in[Y] * width,
                               (float *)work(r, s->x_at) + begin * width * s->in_channels, s->in_channels);
}

static const float *product_x(const part *r)
{
    const columns *s = r->s;
    return s->x_last || s->in_channels == 1 ? r->x + r->row * s->in[X] * s->in_channels : work(r, s->x_at);
}

static float *product_z(const part *r) { return r->z + r->s->kept * r->s->in[X] * r->s->weights->layers[0].n; }

/* Groups of places, each with all columns. */
static void places_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const part *r = state;
    const hyp_mlp_layer *layer = &r->s->weights->layers[0];
    int64_t first = begin * HYP_MLP_ROWS, all = r->rows * r->s->in[X],
            stop = end * HYP_MLP_ROWS < all ? end * HYP_MLP_ROWS : all;
    r->run->kernels->mlp(r->s->weights, stop - first, product_x(r) + first * layer->k, NULL,
                         product_z(r) + first * layer->n, NULL);
}

/* Blocks of columns, each of all places, which are few. */
static void blocks_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const part *r = state;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    const hyp_mlp_layer *layer = &r->s->weights->layers[0];
    kernels->panels(layer, r->rows * r->s->in[X], product_x(r), layer->k, NULL, product_z(r), layer->n,
                    begin * kernels->block, end * kernels->block);
}

static void multiply(part *r)
{
    enum { PART_FLOPS = 1 << 19 }; /* that are worth a thread */
    const columns *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    const hyp_mlp_layer *layer = &s->weights->layers[0];
    int64_t places = r->rows * s->in[X], block = (int64_t)kernels->block * kernels->panel * kernels->width;
    if (product_x(r) == work(r, s->x_at))
        hyp_cpu_parallel(r->run, r->rows, hyp_cpu_grain(HYP_CPU_MOVED, s->in[X] * s->in_channels), turn_part, r);
    if (places > HYP_MLP_ROWS)
        hyp_cpu_parallel(r->run, (places + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS,
                         hyp_cpu_grain(PART_FLOPS, 2 * HYP_MLP_ROWS * layer->n * layer->k), places_part, r);
    else
        hyp_cpu_parallel(r->run, (layer->n + block - 1) / block,
                         hyp_cpu_grain(PART_FLOPS, 2 * places * block * layer->k), blocks_part, r);
}

/* Rows of y. */
static void sums_part(void *state, int64_t begin, int64_t end, int thread)
{
    const part *r = state;
    const columns *s = r->s;
    int64_t width = s->in[X] * s->taps * s->channels, n = s->out[X] * s->channels;
    float *room = (float *)((char *)work(r, s->made_at) + (size_t)thread * s->made_bytes);
    bool in_place = s->y_last && s->y_apart == s->channels && s->channels >= r->run->kernels->width &&
                    s->act.op == HYP_PLAN__POINTWISE__OP__CAST;
    memset(room + n, 0, PAD * sizeof *room);
    for (int64_t o = r->begin + begin; o < r->begin + end; o++) {
        const float *rows[MOST_TAPS];
        float *made = in_place ? r->y + o * n : room;
        hyp_parts parts = {.rows = rows, .first = s->first, .offsets = s->offsets};
        for (int64_t k = 0; k < s->kernel[Y]; k++) {
            int64_t i = source(s, Y, o, k), t = (s->flip ? s->kernel[Y] - 1 - k : k) * s->kernel[X];
            if (i >= 0) rows[parts.count++] = r->z + (i - r->top) * width + t * s->channels;
        }
        r->run->kernels->add_parts(&parts, s->out[X], r->bias, s->channels, made);
        if (s->act.op != HYP_PLAN__POINTWISE__OP__CAST) r->run->kernels->activate(&s->act, made, n);
        if (in_place) continue;
        if (s->y_last || s->channels == 1)
            hyp_cpu_copy_rows(made, s->channels, r->y + o * s->out[X] * s->y_apart, s->y_apart, s->out[X], s->channels);
        else
            r->run->kernels->transpose(made, s->out[X], s->channels, s->channels, r->y + o * s->out[X],
                                       s->out[Y] * s->out[X]);
    }
}

/* Rows of y that have all their parts when so many rows of x have been multiplied. */
static int64_t complete(const columns *s, int64_t rows)
{
    int64_t o = s->stride[Y] * rows - s->before[Y];
    return rows == s->in[Y] || o > s->out[Y] ? s->out[Y] : o < 0 ? 0 : o;
}

static void run_image(part *r)
{
    const columns *s = r->s;
    int64_t width = s->in[X] * s->taps * s->channels;
    r->end = 0;
    for (r->row = 0; r->row < s->in[Y]; r->row += s->tile) {
        r->rows = s->in[Y] - r->row < s->tile ? s->in[Y] - r->row : s->tile;
        multiply(r);
        r->top = r->row - s->kept;
        r->begin = r->end;
        r->end = complete(s, r->row + r->rows);
        hyp_cpu_parallel(r->run, r->end - r->begin, hyp_cpu_grain(HYP_CPU_COMPUTED, s->out[X] * s->channels), sums_part,
                         r);
        if (s->kept) memmove(r->z, r->z + s->tile * width, (size_t)(s->kept * width) * sizeof *r->z);
    }
}

static hyp_status run_columns(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const columns *s = op->state;
    part r = {.s = s, .run = run, .x = run->call.at[s->x], .y = run->call.at[s->y]};
    float *bias = work(&r, s->bias_at);
    memset(bias, 0, (size_t)(s->channels + PAD) * sizeof *bias);
    if (s->bias != UINT32_MAX) memcpy(bias, run->call.at[s->bias], (size_t)s->channels * sizeof *bias);
    r.bias = bias;
    r.z = work(&r, s->z_at);
    for (int64_t i = 0; i < s->batch; i++) {
        run_image(&r);
        r.x += s->in_channels * s->in[Y] * s->in[X];
        r.y += s->y_apart * s->out[Y] * s->out[X];
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* The weights as a layer's: from [in, out, kernel...], those of a convolution from [out, in, kernel...]. NULL when
 * memory is out. */
static hyp_mlp *pack(const hyp_cpu_kernels *kernels, const columns *s, const float *w)
{
    int64_t n = s->taps * s->channels, k = s->in_channels;
    size_t bytes = (size_t)n * (size_t)k * sizeof(float);
    float *turned = hyp_malloc(bytes);
    for (int64_t i = 0; i < k && turned; i++)
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t t = 0; t < s->taps; t++)
                turned[i * n + t * s->channels + c] = w[(s->flip ? c * k + i : i * s->channels + c) * s->taps + t];
    hyp_mlp *packed = turned ? hyp_cpu_pack_layers(kernels, 1, turned, n, k, NULL, NULL) : NULL;
    hyp_free(turned);
    return packed;
}

static hyp_status find_packed(hyp_cpu_model *model, uint32_t step, columns *s, const float *w, hyp_diag *diag)
{
    hyp_mem_account *before = hyp_cpu_packing_begin(model);
    if (!model->columns[step]) model->columns[step] = pack(model->device->kernels, s, w);
    s->weights = model->columns[step];
    hyp_cpu_packing_end(model, before);
    return s->weights ? HYP_OK
                      : hyp_fail_memory(diag, (size_t)(s->in_channels * s->taps * s->channels) * sizeof(float));
}

/* False where it is none of those that can be done so. */
static bool fill(columns *s, const hyp_conv *v, bool transpose)
{
    const hyp_window *w = &v->window;
    if (v->x->dtype != HYP_F32 || v->group != 1 || v->z || w->n > 2 || v->x->count == 0 || v->y->count == 0)
        return false;
    s->act = hyp_cpu_conv_act(v);
    s->flip = !transpose;
    s->batch = v->batch;
    s->in_channels = v->in_channels;
    s->channels = v->out_channels;
    s->taps = w->kernel_count;
    for (int axis = Y; axis <= X; axis++) {
        int i = axis < w->n ? axis : -1; /* of a single axis each place is a row */
        s->in[axis] = i < 0 ? 1 : v->x->dims[2 + i];
        s->out[axis] = i < 0 ? 1 : v->y->dims[2 + i];
        s->kernel[axis] = i < 0 ? 1 : w->kernel[i];
        s->stride[axis] = i < 0 ? 1 : w->stride[i];
        s->dilation[axis] = i < 0 ? 1 : w->dilation[i];
        s->before[axis] = i < 0 ? 0 : w->before[i];
        if (!transpose && s->stride[axis] != 1) return false;
        if (!transpose) s->before[axis] = (s->kernel[axis] - 1) * s->dilation[axis] - s->before[axis];
    }
    return s->taps <= MOST_TAPS;
}

/* As many rows of x as have columns for a share of the cache. False where the fewest have too many. */
static bool choose_tile(columns *s)
{
    enum { FLOATS = 1 << 17, MOST_FLOATS = 1 << 24 };
    double row = (double)s->in[X] * (double)s->taps * (double)s->channels;
    s->kept = (s->kernel[Y] - 1) * s->dilation[Y] / s->stride[Y];
    double rows = fmax(FLOATS / row, (double)s->kept + 1);
    s->tile = rows >= (double)s->in[Y] ? s->in[Y] : (int64_t)rows;
    if (s->tile == s->in[Y]) s->kept = 0;
    return row * (double)(s->kept + s->tile) <= MOST_FLOATS;
}

/* Where the parts of the results of a row lie. */
static hyp_status list_parts(columns *s, hyp_diag *diag)
{
    size_t bytes = (size_t)s->out[X] * (size_t)s->kernel[X] * sizeof *s->offsets;
    s->first = hyp_malloc((size_t)(s->out[X] + 1) * sizeof *s->first);
    s->offsets = hyp_malloc(bytes);
    if (!s->first || !s->offsets) return hyp_fail_memory(diag, bytes);
    int64_t count = 0;
    for (int64_t o = 0; o < s->out[X]; o++) {
        s->first[o] = count;
        for (int64_t k = 0; k < s->kernel[X]; k++) {
            int64_t i = source(s, X, o, k);
            if (i >= 0) s->offsets[count++] = (i * s->taps + (s->flip ? s->kernel[X] - 1 - k : k)) * s->channels;
        }
    }
    s->first[s->out[X]] = count;
    return HYP_OK;
}

/* So many floats and some behind them, at `*end` of the work space. */
static size_t reserve(size_t *end, int64_t floats)
{
    enum { ALIGN = 64 };
    size_t at = *end;
    *end = (at + (size_t)(floats + PAD) * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static hyp_status make(hyp_cpu_model *model, uint32_t step, columns *s, const float *w, size_t *work_bytes,
                       hyp_diag *diag)
{
    HYP_TRY(find_packed(model, step, s, w, diag));
    HYP_TRY(list_parts(s, diag));
    s->x_at = reserve(work_bytes, s->x_last ? 0 : s->tile * s->in[X] * s->in_channels);
    s->z_at = reserve(work_bytes, (s->kept + s->tile) * s->in[X] * s->taps * s->channels);
    s->bias_at = reserve(work_bytes, s->channels);
    s->made_at = reserve(work_bytes, s->out[X] * s->channels);
    s->made_bytes = *work_bytes - s->made_at;
    *work_bytes = s->made_at + (size_t)model->device->threads * s->made_bytes;
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_columns(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    hyp_cpu_conv_call c;
    if (!hyp_cpu_take_conv(model, op, values, channels_last, &c)) return HYP_OK;
    bool transpose = strcmp(op->step->call->kernel, "conv-transpose") == 0;
    columns *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    *s = (columns){.x = c.x, .y = c.y, .bias = c.bias_plus1 - 1, .x_last = c.x_last, .y_last = c.y_last};
    bool can = fill(s, &c.conv, transpose) && choose_tile(s);
    s->y_apart = hyp_cpu_place_step(op, c.y, s->channels);
    hyp_status status = can ? make(model, step, s, c.w, &op->work_bytes, diag) : HYP_OK;
    return hyp_cpu_finish_op(op, status, can, run_columns, columns_destroy, s);
}
