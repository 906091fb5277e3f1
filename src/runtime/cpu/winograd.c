/* winograd.c - convolutions by 3x3 with stride 1, in a quarter of the multiplications (winograd_kernel.h has the
 * transforms).
 *
 * Results are tiles of 4x4. What a tile reads is transformed to 36 numbers for each channel; for each of the 36 a
 * product with weights that were transformed when packed, by the kernel of layers, goes from channels to channels; and
 * what comes out is transformed back. A part is some lines of tiles of an image, few enough that both stay in the cache
 * and enough that weights are worth reading.
 */
#include "base/elementwise.h"
#include "runtime/cpu/windows.h"

enum { Y = HYP_Y, X = HYP_X, ALIGN = 64, PAD = 16 /* floats that kernels may read behind */ };

typedef struct winograd {
    hyp_cpu_conv c;
    const hyp_mlp *weights;                  /* of the model: a layer for each of the 36 */
    int64_t across, down;                    /* tiles of an image */
    int64_t lines, parts;                    /* of tiles in a part; of an image */
    int64_t x_room, y_room;                  /* channels, rounded up to vectors */
    size_t moved_bytes, at[3], thread_bytes; /* in the work space of a thread, behind the lines of x: what is made of
                                   them, the products, and results that are to be turned */
} winograd;

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef struct run_state {
    const winograd *s;
    const hyp_cpu_run *run;
    const float *added;
} run_state;

/* Those `lines` of results by tiles of x: `count` lines of tiles. */
static void run_tiles(const run_state *r, int64_t count, int64_t lines, const float *x, const float *added, float *out,
                      int64_t y_place, char *work)
{
    const winograd *s = r->s;
    const hyp_cpu_conv *c = &s->c;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    float *made = (float *)(work + s->at[0]), *products = (float *)(work + s->at[1]);
    int64_t places = c->out[X], n = c->channels, panel = (int64_t)kernels->panel * kernels->width;
    hyp_tiles g = {.tiles = s->across, .channels = c->in_channels, .line = c->width * c->in_channels};
    int64_t x_tile = HYP_TILE_PLACES * s->x_room, y_tile = HYP_TILE_PLACES * s->y_room;
    for (int64_t i = 0; i < count; i++) kernels->tiles_in(&g, x + i * HYP_TILE * g.line, made + i * s->across * x_tile);
    for (int64_t i = 0; i < HYP_TILE_PLACES; i++)
        kernels->panels(&s->weights->layers[i], count * s->across, made + i * s->x_room, x_tile, NULL,
                        products + i * s->y_room, y_tile, 0, (n + panel - 1) / panel);
    g = (hyp_tiles){.tiles = s->across,
                    .channels = n,
                    .line = places * n,
                    .y_line = places * y_place,
                    .y_place = y_place,
                    .places = places};
    for (int64_t i = 0; i < count; i++) {
        int64_t first_line = i * HYP_TILE;
        g.lines = lines - first_line < HYP_TILE ? lines - first_line : HYP_TILE;
        kernels->tiles_out(&g, products + i * s->across * y_tile, c->bias, added ? added + first_line * g.line : NULL,
                           out + first_line * g.y_line, &c->act);
    }
}

/* The lines of tiles of one image from `first` on. */
static void run_part(const run_state *r, int64_t image, int64_t first, char *work)
{
    const winograd *s = r->s;
    const hyp_cpu_conv *c = &s->c;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    int64_t count = s->down - first < s->lines ? s->down - first : s->lines, o = first * HYP_TILE, n = c->channels;
    int64_t left = c->out[Y] - o, lines = left < count * HYP_TILE ? left : count * HYP_TILE;
    int64_t places = c->out[X], plane = c->out[Y] * places, line = c->width * c->in_channels;
    float *x = (float *)work, *turned = (float *)(work + s->at[2]);
    float *y = (float *)r->run->call.at[c->y] + image * plane * c->y_apart;
    const float *added = r->added ? r->added + image * plane * n : NULL;
    hyp_cpu_bring_lines(r->run, c, (const float *)r->run->call.at[c->x] + image * c->in[Y] * c->in[X] * c->x_apart,
                        o - c->before[Y], count * HYP_TILE + 2, x);
    int64_t y_place = c->y_last ? c->y_apart : n;
    float *out = c->y_last ? y + o * places * y_place : turned;
    if (added && c->added_last) {
        added += o * places * n;
    } else if (added) {
        kernels->transpose(added + o * places, n, lines * places, plane, turned, n);
        added = turned;
    }
    if (hyp_cpu_is_tame(x, (lines + 2) * line))
        run_tiles(r, count, lines, x, added, out, y_place, work);
    else
        hyp_cpu_conv_directly(kernels, c,
                              &(hyp_direct){.x = x,
                                            .line = line,
                                            .place = c->in_channels,
                                            .lines = lines,
                                            .to = n,
                                            .added = added,
                                            .y = out,
                                            .y_place = y_place});
    if (!c->y_last) kernels->transpose(turned, lines * places, n, n, y + o * places, plane);
}

static void parts(void *state, int64_t begin, int64_t end, int thread)
{
    const run_state *r = state;
    for (int64_t i = begin; i < end; i++)
        run_part(r, i / r->s->parts, i % r->s->parts * r->s->lines,
                 (char *)r->run->call.work + r->s->moved_bytes + (size_t)thread * r->s->thread_bytes);
}

static hyp_status run_winograd(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    enum { PART_FLOPS = 1 << 19 }; /* that are worth a thread */
    (void)diag;
    const winograd *s = op->state;
    run_state r = {s, run, hyp_cpu_find_added(run, &s->c, run->call.work)};
    int64_t flops = 2 * HYP_TILE_PLACES * s->lines * s->across * s->c.channels * s->c.in_channels;
    hyp_cpu_parallel(run, s->c.batch * s->parts, hyp_cpu_grain(PART_FLOPS, flops), parts, &r);
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* Three weights of a line, `step` apart, at the six points. */
static void line_of_weights(const double *w, int step, double *out, int out_step)
{
    static const double a = HYP_TILE_A, b = HYP_TILE_B, points[] = {0, a, -a, b, -b};
    const double sizes[] = {a * a * b * b, 2 * a * a * (a * a - b * b), 2 * b * b * (b * b - a * a)};
    for (int i = 0; i < 5; i++) {
        double p = points[i];
        out[i * out_step] = (w[0] + p * w[step] + p * p * w[2 * step]) / sizes[(i + 1) / 2];
    }
    out[5 * out_step] = w[2 * step];
}

/* The weights [out, in, 3, 3] as 36 layers. NULL when memory is out. */
static hyp_mlp *pack(const hyp_cpu_kernels *kernels, const hyp_cpu_conv *c)
{
    enum { TAPS = 9 };
    size_t n = (size_t)c->channels, k = (size_t)c->in_channels;
    float *made = hyp_malloc(HYP_TILE_PLACES * n * k * sizeof *made);
    for (size_t o = 0; o < n && made; o++)
        for (size_t i = 0; i < k; i++) {
            double w[TAPS], lines[HYP_TILE_IN * 3], all[HYP_TILE_PLACES];
            for (size_t t = 0; t < TAPS; t++) w[t] = (double)c->w[(o * k + i) * TAPS + t];
            for (int j = 0; j < 3; j++) line_of_weights(w + j, 3, lines + j, 3);
            for (int j = 0; j < HYP_TILE_IN; j++) line_of_weights(lines + j * 3, 1, all + j * HYP_TILE_IN, 1);
            for (size_t p = 0; p < HYP_TILE_PLACES; p++) made[(p * k + i) * n + o] = (float)all[p];
        }
    hyp_mlp *packed =
        made ? hyp_cpu_pack_layers(kernels, HYP_TILE_PLACES, made, c->channels, c->in_channels, NULL, NULL) : NULL;
    hyp_free(made);
    return packed;
}

/* *out_can: weights may be added up with each other. */
static hyp_status find_packed(hyp_cpu_model *model, uint32_t step, winograd *s, bool *out_can, hyp_diag *diag)
{
    const int64_t pairs = s->c.channels * s->c.in_channels, taps = s->c.kernel[Y] * s->c.kernel[X];
    hyp_mem_account *before = hyp_cpu_packing_begin(model);
    *out_can = model->winograd[step] || hyp_cpu_is_tame(s->c.w, pairs * taps);
    if (*out_can && !model->winograd[step]) model->winograd[step] = pack(model->device->kernels, &s->c);
    s->weights = model->winograd[step];
    hyp_cpu_packing_end(model, before);
    return s->weights || !*out_can ? HYP_OK : hyp_fail_memory(diag, HYP_TILE_PLACES * (size_t)pairs * sizeof(float));
}

static size_t bytes_of(double floats) { return ((size_t)floats + PAD) * sizeof(float) / ALIGN * ALIGN + ALIGN; }

static bool choose_parts(winograd *s, const hyp_cpu_device *device, size_t *work_bytes)
{
    enum { FEW_TILES = 16, MOST_TILES = 48, CACHED_BYTES = 384 << 10, MOST_FLOATS = 1 << 24 };
    hyp_cpu_conv *c = &s->c;
    int64_t width = device->kernels->width;
    s->across = (c->out[X] + HYP_TILE - 1) / HYP_TILE;
    s->down = (c->out[Y] + HYP_TILE - 1) / HYP_TILE;
    s->x_room = (c->in_channels + width - 1) / width * width;
    s->y_room = (c->channels + width - 1) / width * width;
    c->width = s->across * HYP_TILE + 2;
    int64_t tile_bytes = HYP_TILE_PLACES * (s->x_room + s->y_room) * (int64_t)sizeof(float);
    int64_t tiles = CACHED_BYTES / tile_bytes;
    tiles = tiles < FEW_TILES ? FEW_TILES : tiles > MOST_TILES ? MOST_TILES : tiles;
    s->lines = tiles > s->across ? tiles / s->across : 1;
    int64_t each = device->threads > 1 ? (s->down + 2 * device->threads - 1) / (2 * device->threads) : s->down;
    if (s->lines > each) s->lines = each;
    s->parts = (s->down + s->lines - 1) / s->lines;
    s->lines = (s->down + s->parts - 1) / s->parts;
    double lines = (double)s->lines * HYP_TILE, made = (double)s->lines * (double)s->across * HYP_TILE_PLACES;
    double floats[] = {(lines + 2) * (double)c->width * (double)c->in_channels, made * (double)s->x_room,
                       made * (double)s->y_room,
                       !hyp_cpu_turns(c) ? 0 : lines * (double)c->out[X] * (double)c->channels};
    if (floats[0] + floats[1] + floats[2] + floats[3] > MOST_FLOATS) return false;
    for (int i = 0; i < 3; i++) s->at[i] = (i ? s->at[i - 1] : 0) + bytes_of(floats[i]);
    s->thread_bytes = s->at[2] + bytes_of(floats[3]);
    s->moved_bytes = (hyp_cpu_moved_bytes(c) + ALIGN - 1) / ALIGN * ALIGN;
    *work_bytes = s->moved_bytes + (size_t)device->threads * s->thread_bytes;
    return true;
}

static bool is_three_by_three(const hyp_cpu_conv *c)
{
    bool is = c->groups == 1;
    for (int axis = Y; axis <= X; axis++)
        is = is && c->kernel[axis] == 3 && c->stride[axis] == 1 && c->dilation[axis] == 1;
    return is;
}

hyp_status hyp_cpu_prepare_winograd(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                    const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    winograd *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    bool can = hyp_cpu_read_conv(model, op, values, channels_last, &s->c) && is_three_by_three(&s->c) &&
               choose_parts(s, model->device, &op->work_bytes);
    hyp_status status = can ? find_packed(model, step, s, &can, diag) : HYP_OK;
    return hyp_cpu_finish_op(op, status, can, run_winograd, hyp_free, s);
}
