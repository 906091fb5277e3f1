/* mlp_kernel.h - a whole small network in one call. Included by kernels_<isa>.c alone, after block_kernels.h; they
 * define HYP_PANEL, the vectors of a panel.
 *
 * A tile is R rows by V vectors of results, held in registers while k runs; where one row alone gives too few
 * independent sums to hide the latency of the multiply-adds, U partial sums are kept for each. One row goes through several
 * panels side by side instead: its time is that of reading weights, and processors read ahead in several streams at
 * once faster than in one. A group of HYP_MLP_ROWS rows goes through all layers before the next one starts, so hidden values
 * stay in the first-level cache. Not a general product: weights are not blocked over k, so layers that do not fit the second-level cache
 * are for oneDNN when there are many rows (docs/runtime-cpu.md has the measurements).
 */
#ifndef HYP_RUNTIME_CPU_MLP_KERNEL_H
#define HYP_RUNTIME_CPU_MLP_KERNEL_H

#include "runtime/cpu/vector_kernels.h"

/* Sums enough to hide the latency of the multiply-adds, and the panels that hold so many: one row goes through these side by
 * side. */
enum { SUMS = 8, BLOCK_PANELS = SUMS / HYP_PANEL };
enum { AHEAD = 1024 }; /* floats from a load to what is asked for with it */

enum { TILE_ROWS = 6 }; /* at most */

/* Far weights lie in memory: the tile that reads a panel first would wait for them, as multiplying by a line takes less
 * time. So each tile of a panel asks for its share of the panel behind. Such a layer by itself takes more rows at a time, too,
 * so that its weights are read less often. Measured with AVX2 and AVX-512. */
enum { FAR = HYP_VEC_BYTES >= 32, FAR_ROWS = 11 * TILE_ROWS };

/* One layer of a tile's work. */
typedef struct tile_args {
    const float *x, *w, *bias;
    int64_t *at; /* TILE_ROWS places where its rows begin, from x on */
    const float *added; /* before the activation, at the stride of y; NULL: nothing */
    float *y;
    /* Of windows a row of x is that of hyp_windows from `begin` on, in runs of k floats. */
    int64_t k, begin, rows, apart, runs, gap;
    int64_t y_stride;
    int64_t columns; /* results to store in each row: more than (V - 1) * W, at most V * W */
    bool relu;       /* follows in registers */
    const char *next;  /* what it asks for of the panel behind; NULL: its own weights, further along */
    int64_t next_step; /* bytes from one number of a row to the next */
} tile_args;

/* Only the last vector of a row can stick out beyond the columns. */
INLINE void add_loaded(const tile_args *t, vf *acc, const int R, const int V)
{
    int64_t left = t->columns - (V - 1) * W;
    UNROLL
    for (int r = 0; r < R; r++) {
        const float *added = t->added + r * t->y_stride;
        UNROLL
        for (int v = 0; v < V - 1; v++) acc[r * V + v] += load(added + v * W);
        acc[r * V + V - 1] += left == W ? load(added + (V - 1) * W) : load_some(added + (V - 1) * W, left, 0);
    }
}

/* The same as in add_loaded. */
INLINE void store_results(const tile_args *t, const vf *acc, const int R, const int V)
{
    int64_t left = t->columns - (V - 1) * W;
    UNROLL
    for (int r = 0; r < R; r++) {
        float *y = t->y + r * t->y_stride;
        UNROLL
        for (int v = 0; v < V - 1; v++) store(y + v * W, acc[r * V + v]);
        if (left == W)
            store(y + (V - 1) * W, acc[r * V + V - 1]);
        else
            store_some(y + (V - 1) * W, acc[r * V + V - 1], left);
    }
}

/* acc[r][v] += x[r][i] * w[v]: one step of k. Several rows take so long for a line of weights that the processor sees
 * too few of the loads that follow: the lines from `ahead` on are asked for, `asked` bytes. */
INLINE void multiply(vf *acc, const float *w, const float *const *x, int64_t i, const char *ahead, const int R,
                     const int V, const int asked)
{
    enum { LINE = 64 };
    vf wv[HYP_PANEL];
    for (int j = 0; R > 1 && j < asked; j += LINE) __builtin_prefetch(ahead + j);
    UNROLL
    for (int v = 0; v < V; v++) wv[v] = load(w + v * W);
    UNROLL
    for (int r = 0; r < R; r++) {
        vf xr = splat(x[r][i]);
        UNROLL
        for (int v = 0; v < V; v++) acc[r * V + v] += wv[v] * xr;
    }
}

/* What comes after the sums. */
INLINE void finish_tile(const tile_args *t, vf *acc, const int R, const int V)
{
    UNROLL
    for (int j = 0; j < R * V; j++) acc[j] += load(t->bias + j % V * W);
    if (t->added) add_loaded(t, acc, R, V);
    if (t->relu) {
        UNROLL
        for (int j = 0; j < R * V; j++) acc[j] = vrelu(acc[j]);
    }
    store_results(t, acc, R, V);
}

/* What a tile asks for of the next panel: lines from `at` on, and how many bytes further with each number of a row. */
typedef struct asked {
    const char *at;
    int64_t step;
} asked;

/* acc += a run of k floats from i on in each row, by the weights from w on; gives those that follow. Where `next` is NULL, as
 * is known at compile time, what is asked for are these weights themselves. */
INLINE const float *multiply_run(vf *acc, const float *w, const float *const *x, int64_t i, int64_t k, asked *next,
                                 const int R, const int V, const int U)
{
    const int bytes = next ? V * HYP_VEC_BYTES / 2 : V * HYP_VEC_BYTES; /* two tiles or more share a row of the next panel */
    int64_t end = i + k;
    for (; U > 1 && i + U <= end; i += U, w += U * V * W) {
        UNROLL
        for (int u = 0; u < U; u++) {
            const float *wu = w + u * V * W;
            multiply(acc + u * R * V, wu, x, i + u, next ? next->at : (const char *)(wu + AHEAD), R, V, bytes);
            if (next) next->at += next->step;
        }
    }
    for (; i < end; i++, w += V * W) {
        multiply(acc, w, x, i, next ? next->at : (const char *)(w + AHEAD), R, V, bytes);
        if (next) next->at += next->step;
    }
    return w;
}

/* R, V, U and `far` are constants at every call, so the loops over them unroll and acc lives in registers. */
INLINE void tile(const tile_args *t, const int R, const int V, const int U, const bool far)
{
    vf acc[SUMS > TILE_ROWS * HYP_PANEL ? SUMS : TILE_ROWS * HYP_PANEL];
    const float *x[TILE_ROWS], *w = t->w;
    asked of_next = {t->next, t->next_step}, *next = far ? &of_next : NULL;
    UNROLL
    for (int r = 0; r < R; r++) x[r] = t->x + t->at[r];
    UNROLL
    for (int j = 0; j < U * R * V; j++) acc[j] = (vf){0};
    if (R == TILE_ROWS && t->rows == 1 && t->runs == 1) { /* without the loops around: rows of a few numbers feel them */
        multiply_run(acc, w, x, t->begin, t->k, next, R, V, U);
    } else {
        for (int64_t row = 0, from = t->begin; row < t->rows; row++, from += t->apart)
            for (int64_t run = 0; run < t->runs; run++)
                w = multiply_run(acc, w, x, from + run * t->gap, t->k, next, R, V, U);
    }
    UNROLL
    for (int j = R * V; j < U * R * V; j++) acc[j % (R * V)] += acc[j];
    finish_tile(t, acc, R, V);
}

/* One row by a block of whole panels. The partial sums take the place of those that a single panel needs. */
static __attribute__((noinline)) void tile_block(const tile_args *t)
{
    enum { V = BLOCK_PANELS * HYP_PANEL };
    vf acc[V];
    const float *w = t->w;
    int64_t apart = t->k * HYP_PANEL * W;
    UNROLL
    for (int j = 0; j < V; j++) acc[j] = (vf){0};
    for (int64_t i = 0; i < t->k; i++, w += HYP_PANEL * W) {
        UNROLL
        for (int p = 0; p < BLOCK_PANELS; p++)
            multiply(acc + p * HYP_PANEL, w + p * apart, &t->x, i, NULL, 1, HYP_PANEL, 0);
    }
    finish_tile(t, acc, 1, V);
}

#define TILE(R, V, U)                                                                                                  \
    static __attribute__((noinline)) void tile_##R##_##V(const tile_args *t) { tile(t, R, V, U, false); }
TILE(1, 1, 8)
TILE(1, 2, 4)
TILE(2, 1, 4)
TILE(2, 2, 2)
TILE(3, 1, 2)
TILE(3, 2, 2)
TILE(4, 1, 2)
TILE(4, 2, 1)
TILE(6, 1, 1)
TILE(6, 2, 1)
#if HYP_PANEL == 4
TILE(1, 3, 2)
TILE(1, 4, 2)
TILE(2, 3, 1)
TILE(2, 4, 1)
TILE(3, 3, 1)
TILE(3, 4, 1)
TILE(4, 3, 1)
TILE(4, 4, 1)
TILE(6, 3, 1)
TILE(6, 4, 1)
#define TILES(R)                                                                                                       \
    {                                                                                                                  \
        tile_##R##_1, tile_##R##_2, tile_##R##_3, tile_##R##_4                                                         \
    }
#define WHOLE(R) tile_##R##_4 /* of a whole panel */
#else
#define TILES(R)                                                                                                       \
    {                                                                                                                  \
        tile_##R##_1, tile_##R##_2                                                                                     \
    }
#define WHOLE(R) tile_##R##_2
#endif

typedef void (*tile_function)(const tile_args *);
#if HYP_VEC_BYTES >= 32 /* FAR, of which others want no code */
static __attribute__((noinline)) void far_tile_4(const tile_args *t) { tile(t, 4, HYP_PANEL, 1, true); }
static __attribute__((noinline)) void far_tile_6(const tile_args *t) { tile(t, 6, HYP_PANEL, 1, true); }
#endif
static const tile_function tiles[TILE_ROWS + 1][HYP_PANEL] = {
    [1] = TILES(1), [2] = TILES(2), [3] = TILES(3), [4] = TILES(4), [6] = TILES(6)};

/* n elements from y on, by the code of pointwise steps: it exists once, not once per tile size. */
static void activate_run(const hyp_block_instr *in, float *y, int64_t n)
{
    int64_t whole = n / W * W, rest = n - whole;
    if (whole) block_instr(in, y, (const float *const[]){y, y, y}, whole);
    if (!rest) return;
    float tail[W];
    store(tail, load_some(y + whole, rest, 0));
    block_instr(in, tail, (const float *const[]){tail, tail, tail}, W);
    store_some(y + whole, load(tail), rest);
}

static bool is_relu(const hyp_block_instr *act) { return act->op == HYP_PLAN__POINTWISE__OP__RELU; }

/* Activations but relu run over whole rows just stored: the vectors of a tile are too few to hide their latency. */
static __attribute__((noinline)) void activate_rows(const hyp_block_instr *act, float *y, int64_t rows, int64_t n,
                                                    int64_t stride)
{
    if (act->op == HYP_PLAN__POINTWISE__OP__CAST || is_relu(act)) return;
    if (n == stride) {
        activate_run(act, y, rows * n);
        return;
    }
    for (int64_t r = 0; r < rows; r++) activate_run(act, y + r * stride, n);
}

/* y += added, over n elements */
static void add_run(float *y, const float *added, int64_t n)
{
    int64_t i = 0;
    for (; i + W <= n; i += W) store(y + i, load(y + i) + load(added + i));
    if (i < n) store_some(y + i, load_some(y + i, n - i, 0) + load_some(added + i, n - i, 0), n - i);
}

/* How many of the rows that are left the next tile takes. */
INLINE int64_t tile_rows(int64_t left)
{
    if (left >= 6 && left != 7 && left != 8) return 6; /* those are better as 4 and the rest */
    return left >= 4 ? 4 : left;
}

/* A tile whose results are the rows of y, and of added, from `row` on. */
INLINE void run_tile(tile_args *t, tile_function run, int64_t row, const float *added, float *y)
{
    t->y = y + row * t->y_stride;
    t->added = added ? added + row * t->y_stride : NULL;
#if HYP_VEC_BYTES >= 32
    if (t->next) run = run == WHOLE(6) ? far_tile_6 : run == WHOLE(4) ? far_tile_4 : run;
#endif
    run(t);
    if (t->next) t->next += t->k * t->rows * t->runs * t->next_step;
}

/* For the tiles of a panel of so many vectors, which have so many rows together. */
INLINE void ask_ahead(tile_args *t, const hyp_mlp_layer *layer, int64_t vectors, int64_t rows)
{
    int64_t count = (rows + TILE_ROWS - 1) / TILE_ROWS;
    t->next = FAR && layer->far && count > 1 ? (const char *)(t->w + layer->k * vectors * W) : NULL;
    t->next_step = (vectors * HYP_VEC_BYTES + count - 1) / count;
}

INLINE void place_rows(int64_t *at, int64_t x_stride)
{
    for (int64_t r = 0; r < TILE_ROWS; r++) at[r] = r * x_stride;
}

/* Rows by one panel of so many vectors: those from x, added and y on. */
static void run_rows(tile_args *t, int64_t vectors, int64_t rows, const float *x, int64_t x_stride, const float *added,
                     float *y)
{
    for (int64_t row = 0, count; row < rows; row += count) {
        count = tile_rows(rows - row);
        t->x = x + row * x_stride;
        run_tile(t, tiles[count][vectors - 1], row, added, y);
    }
}

/* The same for lines of windows, where t->at has the places of a line: a tile may begin in one line and end in another. */
static void run_lines(tile_args *t, int64_t vectors, const hyp_windows *g, int64_t lines, const float *x,
                      const float *added, float *y)
{
    bool dense = g->x_line == g->places * g->x_place; /* as if all were one line */
    int64_t rows = lines * g->places, places = dense ? rows : g->places, place = 0;
    t->x = x;
    for (int64_t row = 0, count; row < rows; row += count) {
        count = tile_rows(rows - row);
        bool bent = place + count > places;
        const float *from = t->x;
        for (int64_t r = 0; bent && r < count; r++, place++, from += g->x_place) {
            if (place == places) { /* the next line */
                from += g->x_line - places * g->x_place;
                place = 0;
            }
            t->at[r] = from - t->x;
        }
        run_tile(t, tiles[count][vectors - 1], row, added, y);
        if (bent) {
            place_rows(t->at, g->x_place);
            t->x = from;
        } else {
            t->x += count * g->x_place;
            place += count;
        }
    }
}

/* Sets t to the panel that begins at `column`; gives the vectors of it. */
static int64_t take_panel(tile_args *t, const hyp_mlp_layer *layer, int64_t column)
{
    int64_t left = layer->n - column;
    t->w = layer->weights + column * layer->k; /* panels before the last one are whole */
    t->bias = layer->bias + column;
    t->columns = left < HYP_PANEL * W ? left : HYP_PANEL * W;
    return (t->columns + W - 1) / W;
}

/* y[rows,n] = act(x[rows,k] w + b + added) for the columns of the panels from `first` to `end`, where `added` has the stride
 * of y and NULL adds nothing. Blocks begin at their multiples, so that sums do not depend on where a thread's part begins. */
static void run_panels(const hyp_mlp_layer *layer, int64_t rows, const float *x, int64_t x_stride, const float *added,
                       float *y, int64_t y_stride, int64_t first, int64_t end)
{
    enum { BLOCK = BLOCK_PANELS * HYP_PANEL * W };
    int64_t at[TILE_ROWS];
    place_rows(at, x_stride);
    tile_args t = {.at = at, .k = layer->k, .rows = 1, .runs = 1, .y_stride = y_stride, .relu = is_relu(&layer->act)};
    int64_t start = first * HYP_PANEL * W, stop = end * HYP_PANEL * W < layer->n ? end * HYP_PANEL * W : layer->n;
    for (int64_t column = start; column < stop;) {
        int64_t vectors = take_panel(&t, layer, column);
        if (rows == 1 && column % BLOCK == 0 && column + BLOCK <= stop) {
            t.x = x;
            t.y = y + column;
            t.added = added ? added + column : NULL;
            t.columns = BLOCK;
            tile_block(&t);
            column += BLOCK;
            continue;
        }
        ask_ahead(&t, layer, vectors, rows);
        run_rows(&t, vectors, rows, x, x_stride, added ? added + column : NULL, y + column);
        column += HYP_PANEL * W;
    }
    if (start < stop) activate_rows(&layer->act, y + start, rows, stop - start, y_stride);
}

/* Of the rows of a window those from `first` to `end` lie in the image. */
typedef struct inside {
    int64_t first, end;
} inside;

static inside find_inside(const hyp_windows *g, int64_t line)
{
    int64_t top = g->top + line * g->step, below = g->height - top;
    int64_t first = top < 0 ? (g->spread - 1 - top) / g->spread : 0;
    int64_t end = below > 0 ? (below + g->spread - 1) / g->spread : 0;
    if (end > g->rows) end = g->rows;
    return (inside){first < end ? first : end, end};
}

/* How many lines from this one on have windows with the same rows in the image. */
static int64_t count_alike(const hyp_windows *g, int64_t line, inside rows)
{
    for (int64_t next = line + 1; next < g->lines; next++) {
        inside now = find_inside(g, next);
        if (now.first != rows.first || now.end != rows.end) return next - line;
    }
    return g->lines - line;
}

/* The same where each row of x is a window: lines of places, whose windows overlap. The zeros above and below the image
 * are left out; lines of which the same is left share tiles. */
static void run_windows(const hyp_mlp_layer *layer, const hyp_windows *g, const float *x, const float *added, float *y,
                        int64_t first, int64_t end)
{
    int64_t window_row = layer->k / g->rows, y_line = g->places * g->y_place;
    int64_t at[TILE_ROWS];
    place_rows(at, g->x_place);
    tile_args t = {.at = at,
                   .k = window_row / g->runs,
                   .apart = g->apart,
                   .runs = g->runs,
                   .gap = g->gap,
                   .y_stride = g->y_place,
                   .relu = is_relu(&layer->act)};
    int64_t start = first * HYP_PANEL * W, stop = end * HYP_PANEL * W < layer->n ? end * HYP_PANEL * W : layer->n;
    for (int64_t column = start; column < stop; column += HYP_PANEL * W) {
        int64_t vectors = take_panel(&t, layer, column);
        const float *weights = t.w;
        ask_ahead(&t, layer, vectors, g->lines * g->places);
        for (int64_t line = 0, lines; line < g->lines; line += lines) {
            inside rows = find_inside(g, line);
            lines = count_alike(g, line, rows);
            t.w = weights + rows.first * window_row * vectors * W;
            t.begin = rows.first * g->apart;
            t.rows = rows.end - rows.first;
            int64_t to = line * y_line + column;
            run_lines(&t, vectors, g, lines, x + line * g->x_line, added ? added + to : NULL, y + to);
        }
    }
    if (start < stop) activate_rows(&layer->act, y + start, g->lines * g->places, stop - start, g->y_place);
}

static void run_layer(const hyp_mlp_layer *layer, int64_t rows, const float *x, int64_t x_stride, const float *added,
                      float *y, int64_t y_stride)
{
    run_panels(layer, rows, x, x_stride, added, y, y_stride, 0, (layer->n + HYP_PANEL * W - 1) / (HYP_PANEL * W));
}

static void run_mlp(const hyp_mlp *mlp, int64_t m, const float *x, const float *added, float *y, float *hidden)
{
    const hyp_mlp_layer *last = &mlp->layers[mlp->count - 1];
    float *halves[2] = {hidden, hidden ? hidden + HYP_MLP_ROWS * mlp->hidden_stride : NULL};
    int64_t most = FAR && mlp->count == 1 && last->far ? FAR_ROWS : HYP_MLP_ROWS;
    for (int64_t row = 0; row < m; row += most) {
        int64_t rows = m - row < most ? m - row : most;
        const float *in = x + row * mlp->layers[0].k;
        int64_t stride = mlp->layers[0].k;
        for (size_t l = 0; l + 1 < mlp->count; l++) {
            run_layer(&mlp->layers[l], rows, in, stride, NULL, halves[l & 1], mlp->hidden_stride);
            in = halves[l & 1];
            stride = mlp->hidden_stride;
        }
        float *out = y + row * last->n;
        const float *more = added ? added + row * last->n : NULL;
        run_layer(last, rows, in, stride, mlp->add_after ? NULL : more, out, last->n);
        if (more && mlp->add_after) add_run(out, more, rows * last->n);
    }
}

#endif
