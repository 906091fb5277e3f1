/* attention.c - attention in one kernel: which one, and where its operands lie. */
#include <math.h>
#include <stdio.h>

#include "base/dtype.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/prior.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/cuda/session/backend.h"

enum { Q, K, V, MASK, Y, MORE_K, MORE_V, LANES };

typedef struct attention {
    hyp_cuda_attention args;
    hyp_cuda_grid grid;
    uint32_t tensors[LANES];
    uint64_t offsets[LANES]; /* bytes */
    CUdeviceptr counters;    /* of blocks that share rows; 0 = none */
    size_t counter_bytes;
} attention;

static void attention_dispose(const hyp_cuda_library *lib, void *data)
{
    attention *a = data;
    hyp_cuda_give(lib, a->counters, a->counter_bytes);
}

static hyp_status attention_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    attention *a = data;
    hyp_cuda_matrix *matrices[LANES] = {&a->args.q, &a->args.k,      &a->args.v,     &a->args.mask,
                                        &a->args.y, &a->args.more_k, &a->args.more_v};
    for (int lane = 0; lane < LANES; lane++) matrices[lane]->data = s->at[a->tensors[lane]] + a->offsets[lane];
    a->args.parts = s->workspace;
    return hyp_cuda_launch(s, &a->grid, &a->args, diag);
}

/* ---- operands ---------------------------------------------------------------------------------------------- */

/* An operand whose rows are `row` elements apart and have `columns` of `size` bytes; `batch` has its lane. */
static hyp_cuda_matrix matrix_of(const HypPlan__Attention__Operand *o, const int64_t *values, const hyp_cuda_box *batch,
                                 int lane, int64_t row, int64_t columns, size_t size)
{
    int64_t column = values[o->strides[o->n_strides - 1]];
    hyp_cuda_matrix m = {.row = row, .column = columns > 1 ? column : 1};
    uint64_t steps = (uint64_t)(row | columns | values[o->offset]);
    for (uint32_t a = 0; a < batch->rank; a++) steps |= (uint64_t)batch->stride[lane][a];
    m.vector = m.column == 1 && columns > 0 && steps * size % HYP_CUDA_MIN_ALIGN == 0;
    return m;
}

static bool is_of_keys(int lane) { return lane == K || lane == V || lane >= MORE_K; }

/* Along the rows of q k and v stand still. Where they do so along further axes, because heads share them, and one
 * stride goes through all of these, they are rows as well: they are in one tile then, which reads k and v once. */
static void find_rows(const HypPlan__Attention *k, const int64_t *values,
                      const HypPlan__Attention__Operand *const *operands, hyp_cuda_box *batch, int64_t *out_rows,
                      int64_t row_strides[LANES])
{
    uint32_t extents[HYP_CUDA_DIMS];
    for (size_t axis = 0; axis < k->n_batch; axis++) extents[axis] = k->batch[axis];
    extents[k->n_batch] = k->rows;
    hyp_cuda_box_init(batch, values, k->n_batch + 1, extents);
    for (int lane = 0; lane < LANES; lane++) {
        hyp_cuda_box_add_lane(batch, values, operands[lane]->strides);
        if (is_of_keys(lane)) batch->stride[lane][0] = 0;
    }
    hyp_cuda_box_merge(batch);
    bool shared = batch->rank > 0;
    for (int lane = 0; lane < LANES; lane++) shared = shared && !(is_of_keys(lane) && batch->stride[lane][0] != 0);
    *out_rows = shared ? batch->extent[0] : 1;
    for (int lane = 0; lane < LANES; lane++) row_strides[lane] = shared ? batch->stride[lane][0] : 0;
    if (!shared) return;
    batch->rank--;
    for (uint32_t axis = 0; axis < batch->rank; axis++) {
        batch->extent[axis] = batch->extent[axis + 1];
        for (int lane = 0; lane < LANES; lane++) batch->stride[lane][axis] = batch->stride[lane][axis + 1];
    }
}

/* Returns how many matrices there are. */
static int64_t place_operands(attention *a, hyp_cuda_build *b, const HypPlan__Attention *k)
{
    hyp_cuda_attention *p = &a->args;
    const HypPlan__Attention__Operand *mask = k->mask ? k->mask : k->q; /* any address will do */
    const HypPlan__Attention__Operand *more_k = k->more_k ? k->more_k : k->k, *more_v = k->more_v ? k->more_v : k->v;
    const HypPlan__Attention__Operand *operands[LANES] = {k->q, k->k, k->v, mask, k->y, more_k, more_v};
    const int64_t columns[LANES] = {p->width, p->width, p->columns, p->keys, p->columns, p->width, p->columns};
    hyp_cuda_matrix *matrices[LANES] = {&p->q, &p->k, &p->v, &p->mask, &p->y, &p->more_k, &p->more_v};
    hyp_cuda_box batch;
    int64_t row_strides[LANES];
    find_rows(k, b->values, operands, &batch, &p->rows, row_strides);
    for (int lane = 0; lane < LANES; lane++)
        if (is_of_keys(lane)) row_strides[lane] = p->keys > 1 ? b->values[operands[lane]->strides[k->n_batch]] : 0;
    p->rank = batch.rank;
    for (uint32_t axis = 0; axis < batch.rank; axis++) p->batch[axis] = hyp_cuda_extent_of(batch.extent[axis]);
    for (int lane = 0; lane < LANES; lane++) {
        size_t size = hyp_dtype_size(hyp_cuda_dtype(b->program, operands[lane]->tensor));
        *matrices[lane] = matrix_of(operands[lane], b->values, &batch, lane, row_strides[lane], columns[lane], size);
        a->tensors[lane] = operands[lane]->tensor;
        a->offsets[lane] = (uint64_t)b->values[operands[lane]->offset] * size;
        for (uint32_t axis = 0; axis < batch.rank; axis++) p->stride[lane][axis] = batch.stride[lane][axis];
    }
    return hyp_cuda_box_count(&batch);
}

/* Scores become exponents of 2. Without a mask their scale is left to the subtraction of the largest, unless it would
 * turn their order round. */
void hyp_cuda_set_scores(hyp_cuda_attention *p, hyp_dtype mask, bool shown, double scale, double fill)
{
    const double log2_e = 1.4426950408889634;
    bool none = mask == HYP_DTYPE_NONE, plain;
    scale *= log2_e, fill *= log2_e;
    plain = none && scale > 1e-30 && scale < 1e30;
    p->masked = plain              ? HYP_CUDA_MASK_NONE
                : none             ? HYP_CUDA_MASK_SCALED
                : mask != HYP_BOOL ? HYP_CUDA_MASK_ADDED
                : shown            ? HYP_CUDA_MASK_SHOWS
                                   : HYP_CUDA_MASK_HIDES;
    p->scale = plain ? 1 : scale;
    p->unit = plain ? scale : 1;
    p->fill = fill < HYP_CUDA_LOWEST && !isinf(fill) ? HYP_CUDA_LOWEST : fill;
    if (mask != HYP_BOOL) p->fill = NAN;
    p->shift_step = !none && p->mask.row != 0 ? HYP_CUDA_SHIFT_STEP : 0;
}

/* ---- kernels ----------------------------------------------------------------------------------------------- */

/* Where few blocks are enough for the rows, their keys are split among `most` times as many, which put together what
 * they find: a record of so many bytes each. */
static hyp_status split_keys(hyp_cuda_build *b, attention *a, int64_t blocks, int64_t most, size_t record_bytes)
{
    hyp_cuda_attention *p = &a->args;
    int64_t room = (int64_t)(b->session->workspace_bytes / record_bytes) / blocks;
    int64_t splits = most < room ? most : room, tile = HYP_CUDA_ATTENTION_KEYS;
    if (splits < 2) return HYP_OK;
    hyp_cuda_use_workspace(b, b->session->workspace_bytes);
    p->split_keys = ((p->keys + splits - 1) / splits + tile - 1) / tile * tile;
    p->splits = hyp_cuda_extent_of((p->keys + p->split_keys - 1) / p->split_keys);
    size_t counters = (size_t)blocks * sizeof(uint32_t);
    HYP_TRY(hyp_cuda_take_zeroed(b->session, counters, &a->counters, b->diag));
    a->counter_bytes = counters;
    p->counters = a->counters;
    return HYP_OK;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Tiles, and how much of a block's shared memory they take. Tall tiles have twice the rows, and read less for what they compute. */
static int64_t tile_rows(bool tall) { return (tall ? 2 : 1) * HYP_CUDA_ATTENTION_ROWS; }
static bool is_wide(const hyp_cuda_attention *p) { return p->width > 64 || p->columns > 64; }

static size_t tile_bytes(const hyp_cuda_attention *p, hyp_dtype dtype, bool tall)
{
    enum { KEYS = HYP_CUDA_ATTENTION_KEYS };
    int64_t rows = tile_rows(tall), span = is_wide(p) ? 128 : 64;
    bool shifts = !p->plain && (p->masked != HYP_CUDA_MASK_NONE || p->keys % KEYS != 0);
    int64_t elements = dtype != HYP_F32 ? (rows + 2 * KEYS) * span / 2
                                        : 2 * HYP_CUDA_TILE_FLOATS(span) + HYP_CUDA_KEY_FLOATS(span);
    if (shifts) elements += (p->shift_step ? rows : 2) * HYP_CUDA_SHIFT_STEP; /* the second: loaded ahead */
    return 16 + (size_t)elements * sizeof(float);
}

/* The kernel of tiles for heads up to 64 or 128 wide, and how many blocks a matrix has. */
static hyp_status use_tiles(hyp_cuda_build *b, attention *a, hyp_dtype dtype, int64_t matrices, bool tall)
{
    static const hyp_cuda_kernel kernels[3][2][2] = {
        {{HYP_CUDA_KERNEL_attention_f16_64, HYP_CUDA_KERNEL_attention_f16_64_tall},
         {HYP_CUDA_KERNEL_attention_f16_128, HYP_CUDA_KERNEL_attention_f16_128_tall}},
        {{HYP_CUDA_KERNEL_attention_bf16_64, HYP_CUDA_KERNEL_attention_bf16_64_tall},
         {HYP_CUDA_KERNEL_attention_bf16_128, HYP_CUDA_KERNEL_attention_bf16_128_tall}},
        {{HYP_CUDA_KERNEL_attention_f32_64}, {HYP_CUDA_KERNEL_attention_f32_128}}};
    enum { BLOCKS = 2, FEWEST = 256, MOST = 16 }; /* for a multiprocessor; keys of a split; splits, by their room */
    const hyp_cuda_device *device = b->session->model->device;
    hyp_cuda_attention *p = &a->args;
    int64_t rows = tile_rows(tall), span = is_wide(p) ? 128 : 64;
    p->blocks = hyp_cuda_extent_of((p->rows + rows - 1) / rows);
    int64_t blocks = matrices * p->blocks.size;
    a->grid.kernel = kernels[dtype == HYP_F16 ? 0 : dtype == HYP_BF16 ? 1 : 2][is_wide(p)][tall];
    a->grid.block_x = HYP_CUDA_ATTENTION_THREADS;
    a->grid.alone = blocks > device->multiprocessors;
    a->grid.shared_bytes = (uint32_t)tile_bytes(p, dtype, tall);
    return split_keys(b, a, blocks, least(least(BLOCKS * device->multiprocessors / blocks, p->keys / FEWEST), MOST),
                      (size_t)(HYP_CUDA_ATTENTION_ROWS * (span + 4)) * sizeof(float));
}

/* Is a tensor the caller's, or a weight, which no kernel of the run writes? */
static bool stands(const hyp_cuda_build *b, uint32_t tensor)
{
    HypPlan__Place place = b->program->tensors[hyp_plan_root(b->program, tensor)]->place;
    return place == HYP_PLAN__PLACE__PLACE_INPUT || place == HYP_PLAN__PLACE__PLACE_WEIGHT;
}

static hyp_status use_rows(hyp_cuda_build *b, attention *a, hyp_dtype dtype, int64_t matrices)
{
    const hyp_cuda_device *device = b->session->model->device;
    hyp_cuda_attention *p = &a->args;
    hyp_cuda_grid *out = &a->grid;
    p->past_stands = stands(b, a->tensors[K]) && stands(b, a->tensors[V]);
    b->prepared->reads_early |= p->past_stands;
    size_t size = hyp_dtype_size(dtype), computing = size < 4 ? 4 : size;
    int64_t vector = (int64_t)(16 / size), widest = p->width > p->columns ? p->width : p->columns;
    while (p->lane_bits < 5 && vector << p->lane_bits < widest) p->lane_bits++;
    int64_t span = vector << p->lane_bits, padded = p->width > 0 ? (p->width + span - 1) / span * span : span;
    int64_t column_blocks = (p->columns + span - 1) / span;
    p->padded_width = padded;
    p->column_blocks = hyp_cuda_extent_of(column_blocks);
    p->blocks = hyp_cuda_extent_of(p->rows * column_blocks);
    int64_t records = HYP_CUDA_ROW_THREADS / 32 * (span + 2);
    int64_t most = (int64_t)((device->shared_bytes - 16) / computing) - records;
    if (padded > most)
        return hyp_fail(b->diag, HYP_ERR_UNSUPPORTED,
                        "attention over heads of %lld elements, at most %lld fit into the shared memory of this GPU",
                        (long long)p->width, (long long)most);
    out->kernel = dtype == HYP_F64    ? HYP_CUDA_KERNEL_attention_rows_f64
                  : dtype == HYP_F32  ? HYP_CUDA_KERNEL_attention_rows_f32
                  : dtype == HYP_BF16 ? HYP_CUDA_KERNEL_attention_rows_bf16
                                      : HYP_CUDA_KERNEL_attention_rows_f16;
    out->block_x = HYP_CUDA_ROW_THREADS;
    out->shared_bytes = 16 + (uint32_t)((size_t)(padded + records) * computing);
    enum { BLOCKS = 4, FEWEST = 64 }; /* for a multiprocessor; keys of a split */
    int64_t blocks = matrices * p->blocks.size;
    return split_keys(b, a, blocks, least(BLOCKS * device->multiprocessors / blocks, p->keys / FEWEST),
                      (size_t)(span + 2) * computing);
}

/* ---- choosing ------------------------------------------------------------------------------------------------ */

enum { BY_ROWS, TALL, TILES }; /* forms */

static const char *tiles_cannot(const hyp_cuda_device *d, const hyp_cuda_attention *p, hyp_dtype dtype, bool two_parts, bool tall)
{
    if (d->sm < 80 || dtype == HYP_F64) return "there are no tiles for this type, or before compute capability 8.0";
    if (p->width > 128 || p->columns > 128) return "heads are wider than 128";
    if (two_parts) return "keys come in two parts";
    if (tall && dtype == HYP_F32) return "f32 has no tall tiles";
    return tile_bytes(p, dtype, tall) > d->shared_bytes ? "its tiles do not fit into shared memory" : NULL;
}

/* For so few rows that tiles are nearly empty, a row a block is faster, which matters where arithmetic is dear; tall tiles are
 * where there are enough of them for two to every multiprocessor (H200). */
void hyp_cuda_offer_attention(const hyp_cuda_device *d, const hyp_cuda_attention *p, hyp_dtype dtype, int64_t matrices,
                              bool two_parts, hyp_choice *out)
{
    const double few = dtype == HYP_F32 ? 4.5 : 1.5, size = (double)hyp_dtype_size(dtype), count = (double)matrices;
    const double rows = (double)p->rows, keys = (double)p->keys, both = (double)(p->width + p->columns);
    double floor = hyp_cuda_floor_seconds(dtype, false, count * (rows + keys) * both * size, 2 * count * rows * keys * both);
    bool enough = matrices * ((p->rows + tile_rows(true) - 1) / tile_rows(true)) >= 2 * d->multiprocessors;
    hyp_choice_init(out);
    snprintf(out->key, sizeof out->key,
             "attention%s %s %lld: %lld rows, %lld keys%s, heads %lld %lld, mask %u %d, vectors %d%d%d%d",
             p->plain ? " without softmax" : "", hyp_dtype_name(dtype), (long long)matrices, (long long)p->rows, (long long)p->keys, two_parts ? " in two parts" : "",
             (long long)p->width, (long long)p->columns, p->masked, p->shift_step != 0, p->q.vector != 0, p->k.vector != 0,
             p->v.vector != 0, p->y.vector != 0);
    hyp_choice_offer(out, "rows", BY_ROWS, hyp_cuda_own_seconds * rows / few + floor, NULL);
    hyp_choice_offer(out, "tall tiles", TALL, hyp_cuda_own_seconds * (enough ? 0.9 : 1.1) + floor,
                     tiles_cannot(d, p, dtype, two_parts, true));
    hyp_choice_offer(out, "tiles", TILES, hyp_cuda_own_seconds + floor, tiles_cannot(d, p, dtype, two_parts, false));
}

typedef struct to_add {
    attention *a;
    hyp_dtype dtype;
    int64_t matrices;
} to_add;

static hyp_status add_form(hyp_cuda_build *b, const void *step, uint32_t form)
{
    const to_add *s = step;
    return form == BY_ROWS ? use_rows(b, s->a, s->dtype, s->matrices)
                           : use_tiles(b, s->a, s->dtype, s->matrices, form == TALL);
}

hyp_status hyp_cuda_add_attention(hyp_cuda_build *b, const HypPlan__Attention *k)
{
    const int64_t *values = b->values;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->q->tensor);
    int64_t results = values[k->rows] * values[k->columns];
    for (size_t i = 0; i < k->n_batch; i++) results *= values[k->batch[i]];
    if (results == 0) return HYP_OK;
    if (values[k->keys] == 0) return hyp_cuda_add_zero(b, k->y->tensor, (size_t)results * hyp_dtype_size(dtype));
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, attention_run, sizeof(attention), &data));
    b->prepared->ops.data[b->prepared->ops.len - 1].dispose = attention_dispose;
    attention *a = data;
    hyp_cuda_attention *p = &a->args;
    *p = (hyp_cuda_attention){.keys = values[k->keys],
                              .first_keys = values[k->more_k ? k->first_keys : k->keys],
                              .width = values[k->width],
                              .columns = values[k->columns],
                              .splits = hyp_cuda_extent_of(1),
                              .split_keys = values[k->keys]};
    int64_t matrices = place_operands(a, b, k);
    hyp_dtype mask = k->mask ? hyp_cuda_dtype(b->program, k->mask->tensor) : HYP_DTYPE_NONE;
    hyp_cuda_set_scores(p, mask, k->shown, (double)k->scale, (double)k->fill);
    if (k->plain) p->plain = 1, p->scale = (double)k->scale, p->unit = 1, p->masked = HYP_CUDA_MASK_NONE;
    a->grid.block_y = 1;
    hyp_choice choice;
    hyp_cuda_offer_attention(b->session->model->device, p, dtype, matrices, k->more_k != NULL, &choice);
    HYP_TRY(hyp_cuda_add_chosen(b, &choice, add_form, &(to_add){a, dtype, matrices}));
    p->total = matrices * p->blocks.size * p->splits.size;
    a->grid.blocks = (uint32_t)(p->total < INT32_MAX ? p->total : INT32_MAX);
    return hyp_cuda_need_kernel(b, a->grid.kernel);
}
