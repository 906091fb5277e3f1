/* softmax, what it is made of (of 16 bits, too), and reduce in f32, copies of any type. */
#include "base/dtype.h"
#include "kernels/softmax_stats.h"
#include "plan/laid_box.h"
#include "runtime/cpu/cpu.h"

/* ---- softmax ----------------------------------------------------------------------------------------------- */

typedef struct softmax {
    const hyp_cpu_kernels *kernels;
    const float *x;
    float *y;
    int64_t axis, inner;
} softmax;

static void softmax_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const softmax *s = state;
    int64_t each = s->axis * s->inner;
    s->kernels->softmax(s->x + begin * each, s->y + begin * each, end - begin, s->axis, s->inner);
}

static hyp_status run_softmax(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Softmax *k = op->step->softmax;
    softmax s = {.kernels = run->kernels,
                 .x = run->call.at[k->x],
                 .y = run->call.at[k->y],
                 .axis = run->call.values[k->axis],
                 .inner = run->call.values[k->inner]};
    hyp_cpu_parallel(run, run->call.values[k->outer], hyp_cpu_grain(HYP_CPU_COMPUTED, s.axis * s.inner), softmax_part, &s);
    return HYP_OK;
}

void hyp_cpu_prepare_softmax(hyp_cpu_model *model, hyp_cpu_op *op)
{
    if (hyp_tensor_dtype(model->plan->program, op->step->softmax->x) == HYP_F32) op->run = run_softmax;
}

/* ---- softmax-stats ------------------------------------------------------------------------------------------ */

typedef struct stats {
    int64_t outer, axis, inner; /* of x */
    hyp_dtype dtype;
    bool few;    /* parts along the outer axes, at most as many as threads */
    size_t room; /* floats of each of them, or of each thread: a part of x, where that is in 16 bits */
} stats;

typedef struct stats_run {
    const stats *s;
    const hyp_cpu_kernels *kernels;
    const void *x;
    float *top, *log_sum, *wide;
} stats_run;

static void stats_part(void *state, int64_t begin, int64_t end, int thread)
{
    const stats_run *r = state;
    const stats *s = r->s;
    const int64_t each = s->axis * s->inner;
    for (int64_t o = begin; o < end; o++) {
        const float *x = (const float *)r->x + o * each;
        if (s->dtype != HYP_F32 && each > 0) { /* else there is no room, either */
            float *wide = r->wide + (s->few ? (size_t)o : (size_t)thread) * s->room;
            r->kernels->widen(s->dtype, (const uint16_t *)r->x + o * each, wide, each);
            x = wide;
        }
        r->kernels->softmax_stats(x, s->axis, s->inner, r->top + o * s->inner, r->log_sum + o * s->inner);
    }
}

static hyp_status run_stats(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Call *k = op->step->call;
    const stats *s = op->state;
    stats_run r = {.s = s,
                   .kernels = run->kernels,
                   .x = run->call.at[k->inputs_plus1[0] - 1],
                   .top = run->call.at[k->outputs[0]],
                   .log_sum = run->call.at[k->outputs[1]],
                   .wide = run->call.work};
    hyp_cpu_parallel(run, s->outer, hyp_cpu_grain(HYP_CPU_COMPUTED, s->axis * s->inner), stats_part, &r);
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_stats(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                 hyp_cpu_op *op, hyp_diag *diag)
{
    enum { LINE = 16 }; /* floats: no two threads write to the same line */
    (void)step, (void)channels_last;
    hyp_call_arguments a;
    hyp_diag unfit; /* of shapes that do not fit: the plain kernel says so */
    stats s = {0};
    size_t bytes = 0;
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, op->step->call, &unfit, &a);
    if (hyp_kernel_read_softmax_stats(&a.call, &s.outer, &s.axis, &s.inner) != HYP_OK) return HYP_OK;
    s.dtype = a.call.in[0].dtype;
    if (s.dtype != HYP_F32 && s.dtype != HYP_F16 && s.dtype != HYP_BF16) return HYP_OK;
    if (s.dtype != HYP_F32) s.room = ((size_t)(s.axis * s.inner) + LINE - 1) / LINE * LINE;
    s.few = s.outer <= op->threads;
    if (!hyp_mul_size(s.room * sizeof(float), (size_t)(s.few ? s.outer : op->threads), &bytes))
        return hyp_fail_memory(diag, SIZE_MAX);
    op->work_bytes = bytes;
    return hyp_cpu_keep_state(op, run_stats, &s, sizeof s, diag);
}

/* ---- reduce ------------------------------------------------------------------------------------------------ */

typedef struct reduce {
    hyp_walk kept, reduced; /* lane 0: x; without the axis that runs inside */
    int64_t kept_count, reduced_count;
    int64_t length;    /* of the inner run */
    bool inner_kept;   /* the inner run is over kept elements, else over reduced ones */
    int64_t row_count; /* inner_kept: extent and stride of the last reduced axis, which goes into one call */
    int64_t row_stride;
    double scale; /* 1, or 1 / elements for a mean */
    uint32_t x, y;
} reduce;

typedef struct reduce_run {
    const reduce *s;
    const hyp_cpu_kernels *kernels;
    const float *x;
    float *y;
} reduce_run;

/* Each result is the sum over some runs that lie together. */
static void sum_runs(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const reduce_run *r = state;
    const reduce *s = r->s;
    hyp_walk kept = s->kept, reduced = s->reduced;
    hyp_walk_seek(&kept, begin);
    for (int64_t o = begin; o < end; o++, hyp_walk_next(&kept)) {
        double sum = 0;
        for (int64_t i = 0; i < s->reduced_count; i++, hyp_walk_next(&reduced))
            sum += r->kernels->sum(r->x + kept.offset[0] + reduced.offset[0], s->length);
        r->y[o] = (float)(sum * s->scale);
    }
}

/* Neighbouring results have neighbouring elements: rows are added up, a block of columns at a time. */
static void sum_columns(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const reduce_run *r = state;
    const reduce *s = r->s;
    hyp_walk kept = s->kept, reduced = s->reduced;
    double sums[HYP_BLOCK];
    hyp_walk_seek(&kept, begin);
    for (int64_t o = begin; o < end; o++, hyp_walk_next(&kept))
        for (int64_t first = 0; first < s->length; first += HYP_BLOCK) {
            int64_t n = s->length - first < HYP_BLOCK ? s->length - first : HYP_BLOCK;
            for (int64_t j = 0; j < n; j++) sums[j] = 0;
            for (int64_t i = 0; i < s->reduced_count; i++, hyp_walk_next(&reduced))
                r->kernels->sum_rows(r->x + kept.offset[0] + reduced.offset[0] + first, s->row_count, s->row_stride, n,
                                     sums);
            for (int64_t j = 0; j < n; j++) r->y[o * s->length + first + j] = (float)(sums[j] * s->scale);
        }
}

static hyp_status run_reduce(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const reduce *s = op->state;
    reduce_run r = {s, run->kernels, run->call.at[s->x], run->call.at[s->y]};
    int64_t each = s->reduced_count * s->length * (s->inner_kept ? s->row_count : 1);
    hyp_cpu_parallel(run, s->kept_count, hyp_cpu_grain(HYP_CPU_MOVED, each), s->inner_kept ? sum_columns : sum_runs, &r);
    return HYP_OK;
}

/* False where the elements lie in no order that the kernels know. */
static bool translate(const HypPlan__Reduce *step, const int64_t *values, reduce *s)
{
    int64_t strides[HYP_WALK_LANES];
    *s = (reduce){.x = step->x, .y = step->y, .scale = 1};
    hyp_walk_init(&s->kept, values, step->kept, step->n_kept);
    hyp_walk_lane(&s->kept, values, step->kept_strides, 0);
    hyp_walk_init(&s->reduced, values, step->reduced, step->n_reduced);
    hyp_walk_lane(&s->reduced, values, step->reduced_strides, 0);
    if (step->kind == HYP_PLAN__REDUCE__KIND__MEAN) s->scale = 1 / (double)hyp_walk_count(&s->reduced);
    hyp_walk_coalesce(&s->kept);
    hyp_walk_coalesce(&s->reduced);
    s->inner_kept = s->kept.rank && s->kept.strides[0][s->kept.rank - 1] == 1;
    if (s->inner_kept) {
        s->length = hyp_walk_take_inner(&s->kept, strides);
        s->row_count = hyp_walk_take_inner(&s->reduced, strides);
        s->row_stride = strides[0];
    } else {
        s->length = hyp_walk_take_inner(&s->reduced, strides);
        if (s->length != 1 && strides[0] != 1) return false;
    }
    s->kept_count = hyp_walk_count(&s->kept);
    s->reduced_count = hyp_walk_count(&s->reduced);
    return true;
}

/* All places of images whose channels are last: the rows of each are added up. */
static void translate_images(const HypPlan__Tensor *x, const int64_t *values, reduce *s)
{
    int64_t channels = values[x->dims[1]], places = 1;
    for (size_t k = 2; k < x->n_dims; k++) places *= values[x->dims[k]];
    s->kept = (hyp_walk){.rank = 1, .lanes = 1, .extents = {values[x->dims[0]]}, .strides = {{places * channels}}};
    s->reduced = (hyp_walk){.lanes = 1};
    s->inner_kept = true;
    s->length = s->row_stride = channels;
    s->row_count = places;
    s->kept_count = hyp_walk_count(&s->kept);
    s->reduced_count = 1;
}

hyp_status hyp_cpu_prepare_reduce(hyp_cpu_model *model, const int64_t *values, const bool *channels_last, hyp_cpu_op *op,
                                  hyp_diag *diag)
{
    reduce s;
    const HypPlan__Tensor *x = model->plan->program->tensors[op->step->reduce->x];
    if (x->dtype != HYP_F32) return HYP_OK;
    if (!translate(op->step->reduce, values, &s)) return HYP_OK;
    if (channels_last[s.x]) translate_images(x, values, &s);
    return hyp_cpu_keep_state(op, run_reduce, &s, sizeof s, diag);
}

/* ---- copy -------------------------------------------------------------------------------------------------- */

/* The last two axes make a tile; lane 0 is x, lane 1 is y. For a transpose, rows run along the axis where x lies
 * together, so that every cache line is used up. */
typedef struct copy {
    hyp_walk walk;
    int64_t count;
    int64_t rows, columns, row_steps[HYP_WALK_LANES], column_steps[HYP_WALK_LANES];
    size_t size; /* bytes of an element */
    uint32_t x, y;
    struct copy *next; /* another part of y: copies of steps that follow each other run as one, see run_copies */
} copy;

enum { TILE = 32, CHUNK_BYTES = 1 << 17 /* of y that the parts go through together */ };

#define COPY_TILES(T)                                                                                                  \
    for (int64_t c0 = 0; c0 < s->columns; c0 += TILE)                                                                  \
        for (int64_t r = row; r < end; r++)                                                                            \
            for (int64_t c = c0; c < s->columns && c < c0 + TILE; c++)                                                 \
                ((T *)y)[r * s->row_steps[1] + c * s->column_steps[1]] =                                               \
                    ((const T *)x)[r * s->row_steps[0] + c * s->column_steps[0]];                                      \
    break

/* Rows of one element each, which x has once. */
#define FILL_ROWS(T)                                                                                                   \
    for (int64_t r = row; r < end; r++) {                                                                              \
        const T v = ((const T *)x)[r * s->row_steps[0]];                                                               \
        T *to = (T *)y + r * s->row_steps[1];                                                                          \
        for (int64_t c = 0; c < s->columns; c++) to[c] = v;                                                            \
    }                                                                                                                  \
    break

/* The same where x lies together along one axis of a tile and y along the other: false where they do not, and for
 * elements of another size. The kernel moves bits. */
static bool transpose_band(const copy *s, const hyp_cpu_kernels *kernels, int64_t row, int64_t end, const void *x, void *y)
{
    const float *from = (const float *)x + row * s->row_steps[0];
    float *to = (float *)y + row * s->row_steps[1];
    if (s->size != sizeof(float)) return false;
    if (s->row_steps[0] == 1 && s->column_steps[1] == 1)
        kernels->transpose(from, s->columns, end - row, s->column_steps[0], to, s->row_steps[1]);
    else if (s->column_steps[0] == 1 && s->row_steps[1] == 1)
        kernels->transpose(from, end - row, s->columns, s->row_steps[0], to, s->column_steps[1]);
    else
        return false;
    return true;
}

/* Up to TILE rows from `row` on. */
static void copy_band(const copy *s, const hyp_cpu_kernels *kernels, int64_t row, const void *x, void *y)
{
    int64_t end = s->rows - row < TILE ? s->rows : row + TILE;
    if (s->column_steps[0] == 1 && s->column_steps[1] == 1) {
        int64_t size = (int64_t)s->size;
        for (int64_t r = row; r < end; r++)
            memcpy((char *)y + r * s->row_steps[1] * size, (const char *)x + r * s->row_steps[0] * size,
                   (size_t)(s->columns * size));
        return;
    }
    if (s->column_steps[0] == 0 && s->column_steps[1] == 1) {
        switch (s->size) {
        case 1: FILL_ROWS(uint8_t);
        case 2: FILL_ROWS(uint16_t);
        case 4: FILL_ROWS(uint32_t);
        default: FILL_ROWS(uint64_t);
        }
        return;
    }
    if (transpose_band(s, kernels, row, end, x, y)) return;
    switch (s->size) {
    case 1: COPY_TILES(uint8_t);
    case 2: COPY_TILES(uint16_t);
    case 4: COPY_TILES(uint32_t);
    default: COPY_TILES(uint64_t);
    }
}

/* Bands begin .. end-1, which are counted through all tiles. */
static void copy_bands(const copy *s, const hyp_cpu_run *run, int64_t begin, int64_t end)
{
    int64_t size = (int64_t)s->size, bands = (s->rows + TILE - 1) / TILE, band = begin % (bands ? bands : 1);
    const char *x = run->call.at[s->x];
    char *y = run->call.at[s->y];
    hyp_walk w = s->walk;
    if (begin < end) hyp_walk_seek(&w, begin / bands);
    for (int64_t i = begin; i < end; i++) {
        copy_band(s, run->kernels, band * TILE, x + w.offset[0] * size, y + w.offset[1] * size);
        if (++band < bands) continue;
        band = 0;
        hyp_walk_next(&w);
    }
}

typedef struct copy_run {
    const copy *first;
    const hyp_cpu_run *run;
    int64_t chunks;
} copy_run;

static void copy_chunks(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const copy_run *r = state;
    for (int64_t i = begin; i < end; i++)
        for (const copy *s = r->first; s; s = s->next) {
            int64_t bands = s->count * ((s->rows + TILE - 1) / TILE), each = bands / r->chunks,
                    rest = bands % r->chunks;
            copy_bands(s, r->run, each * i + rest * i / r->chunks, each * (i + 1) + rest * (i + 1) / r->chunks);
        }
}

/* Parts that are as many rows of y each, as far apart: those of one row after the other, so that y is written from its
 * beginning to its end. */
enum { ABREAST = 16 };
typedef struct row_run {
    size_t count;
    const copy *parts[ABREAST]; /* in the order of y */
    const hyp_cpu_run *run;
} row_run;

static bool goes_abreast(const copy *s, const copy *first)
{
    return s->count == 1 && s->column_steps[0] == 1 && s->column_steps[1] == 1 && s->rows == first->rows &&
           s->row_steps[1] == first->row_steps[1];
}

static bool find_rows(const copy *first, row_run *out)
{
    out->count = 0;
    for (const copy *s = first; s; s = s->next) {
        if (!goes_abreast(s, first) || out->count == ABREAST) return false;
        size_t i = out->count++;
        for (; i > 0 && out->parts[i - 1]->walk.offset[1] > s->walk.offset[1]; i--) out->parts[i] = out->parts[i - 1];
        out->parts[i] = s;
    }
    return out->count > 1 && first->rows >= TILE;
}

static void copy_rows(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const row_run *r = state;
    const int64_t size = (int64_t)r->parts[0]->size;
    for (int64_t row = begin; row < end; row++)
        for (size_t i = 0; i < r->count; i++) {
            const copy *s = r->parts[i];
            const char *x = r->run->call.at[s->x];
            char *y = r->run->call.at[s->y];
            memcpy(y + (s->walk.offset[1] + row * s->row_steps[1]) * size,
                   x + (s->walk.offset[0] + row * s->row_steps[0]) * size, (size_t)(s->columns * size));
        }
}

/* All parts of y go forward in step, so that what they write together is still in the cache. */
static hyp_status run_copies(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    copy_run r = {.first = op->state, .run = run};
    row_run rows = {.run = run};
    int64_t elements = 0;
    for (const copy *s = r.first; s; s = s->next) elements += s->count * s->rows * s->columns;
    if (find_rows(r.first, &rows)) {
        int64_t grain = hyp_cpu_grain(HYP_CPU_MOVED, elements / r.first->rows);
        hyp_cpu_parallel(run, r.first->rows, grain, copy_rows, &rows);
        return HYP_OK;
    }
    r.chunks = elements / (CHUNK_BYTES / (int64_t)r.first->size) + 1;
    if (r.chunks > INT32_MAX) r.chunks = INT32_MAX; /* so that no product overflows */
    hyp_cpu_parallel(run, r.chunks, hyp_cpu_grain(HYP_CPU_MOVED, elements / r.chunks), copy_chunks, &r);
    return HYP_OK;
}

static hyp_status run_nothing(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)op, (void)run, (void)diag;
    return HYP_OK;
}

/* Moves the axis where x lies together to the place before the last, where it becomes the rows of tiles. */
static void bring_rows(hyp_walk *w)
{
    size_t to = w->rank - 1, from = to;
    for (size_t a = 0; a + 1 < w->rank; a++)
        if (w->strides[0][a] == 1) from = a;
    if (from == to) return;
    int64_t extent = w->extents[from];
    for (size_t a = from; a + 1 < to; a++) w->extents[a] = w->extents[a + 1];
    w->extents[to - 1] = extent;
    for (size_t l = 0; l < w->lanes; l++) {
        int64_t stride = w->strides[l][from];
        for (size_t a = from; a + 1 < to; a++) w->strides[l][a] = w->strides[l][a + 1];
        w->strides[l][to - 1] = stride;
    }
}

/* The walk of a copy as its tensors lie, in the order of y. False: in the plan's order, or so that none is known. */
static bool walk_as_laid(const HypPlan__Program *p, const hyp_cpu_op *op, const int64_t *values, const bool *channels_last,
                         hyp_walk *walk)
{
    const HypPlan__Copy *step = op->step->copy;
    const uint32_t tensors[] = {[HYP_LAID_X] = step->x, [HYP_LAID_Y] = step->y};
    hyp_laid_box laid;
    if (!channels_last[step->x] && !channels_last[step->y]) return false;
    if (!hyp_lay_copy(p, step, values, channels_last[step->x], channels_last[step->y], &laid)) return false;
    hyp_laid_sort(&laid, 2, HYP_LAID_Y);
    /* a window's memory begins where the window does */
    if (hyp_plan_is_window(p->tensors[step->x])) laid.offsets[HYP_LAID_X] -= (int64_t)p->tensors[step->x]->first;
    *walk = (hyp_walk){.rank = laid.rank, .lanes = 2};
    memcpy(walk->extents, laid.extents, sizeof laid.extents);
    for (size_t lane = 0; lane < 2; lane++) hyp_cpu_walk_tensor(op, p, values, tensors[lane], &laid, lane, walk, lane);
    return true;
}

hyp_status hyp_cpu_prepare_copy(hyp_cpu_model *model, uint32_t index, const int64_t *values, const bool *channels_last,
                                hyp_cpu_op *before, hyp_cpu_op *op, hyp_diag *diag)
{
    const HypPlan__Copy *step = op->step->copy;
    if (op->places && op->places->copied[index]) {
        op->run = run_nothing;
        return HYP_OK;
    }
    copy *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->x = step->x;
    s->y = step->y;
    s->size = hyp_dtype_size(hyp_tensor_dtype(model->plan->program, step->x));
    if (!walk_as_laid(model->plan->program, op, values, channels_last, &s->walk)) {
        hyp_walk_init(&s->walk, values, step->extents, step->n_extents);
        hyp_walk_lane(&s->walk, values, step->x_strides, values[step->x_offset]);
        hyp_walk_lane(&s->walk, values, step->y_strides, values[step->y_offset]);
    }
    bool empty = hyp_walk_count(&s->walk) == 0;
    hyp_walk_coalesce(&s->walk);
    if (s->walk.rank > 1) bring_rows(&s->walk);
    s->columns = hyp_walk_take_inner(&s->walk, s->column_steps);
    s->rows = hyp_walk_take_inner(&s->walk, s->row_steps);
    s->count = empty ? 0 : hyp_walk_count(&s->walk);
    if (s->columns == 1) s->column_steps[0] = s->column_steps[1] = 1; /* a run of one element lies together */
    op->state = s;
    op->run = run_copies;
    op->destroy = hyp_free;
    copy *other = before && before->step->kernel_case == HYP_PLAN__STEP__KERNEL_COPY ? before->state : NULL;
    if (other && other->y == s->y) { /* takes over what the step before was to run */
        s->next = other;
        before->run = run_nothing;
    }
    return HYP_OK;
}
