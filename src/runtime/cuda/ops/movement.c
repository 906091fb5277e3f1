/* movement.c - copy, gather and fill steps. */
#include "plan/laid_box.h"
#include "runtime/cuda/ops/steps.h"

/* ---- copy -------------------------------------------------------------------------------------------------- */

enum { COPY_THREADS = 256 };

static uint32_t shared_bytes(const hyp_cuda_transpose *t)
{
    uint32_t cells = t->narrow ? HYP_CUDA_TILE_CELLS : HYP_CUDA_TILE * (HYP_CUDA_TILE + 1);
    return cells * (uint32_t)sizeof(uint64_t);
}

void hyp_cuda_mover_plan(const hyp_cuda_device *device, const hyp_cuda_box *box, size_t size, int64_t x_offset,
                         int64_t y_offset, hyp_cuda_mover *out)
{
    hyp_cuda_move_plan(box, size, x_offset, y_offset, &out->move);
    if (out->move.kind == HYP_CUDA_MOVE_BLOCK) return;
    if (out->move.kind == HYP_CUDA_MOVE_TRANSPOSE)
        out->grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_transpose,
                                    .blocks = hyp_cuda_blocks(device, out->move.args.total_tiles, 1),
                                    .block_x = HYP_CUDA_TILE,
                                    .block_y = HYP_CUDA_TILE_ROWS,
                                    .shared_bytes = shared_bytes(&out->move.args)};
    else
        out->grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_copy,
                                    .blocks = hyp_cuda_blocks(device, out->move.args.copy.total, COPY_THREADS),
                                    .block_x = COPY_THREADS,
                                    .block_y = 1};
}

hyp_status hyp_cuda_mover_init(hyp_cuda_build *b, const hyp_cuda_box *box, size_t size, int64_t x_offset,
                               int64_t y_offset, hyp_cuda_mover *out)
{
    hyp_cuda_mover_plan(b->session->model->device, box, size, x_offset, y_offset, out);
    return out->move.kind == HYP_CUDA_MOVE_BLOCK ? HYP_OK : hyp_cuda_need_kernel(b, out->grid.kernel);
}

hyp_status hyp_cuda_mover_run(hyp_cuda_session *s, hyp_cuda_mover *mover, CUdeviceptr x, CUdeviceptr y, hyp_diag *diag)
{
    hyp_cuda_move *move = &mover->move;
    x += (CUdeviceptr)move->x_offset;
    y += (CUdeviceptr)move->y_offset;
    if (move->kind == HYP_CUDA_MOVE_BLOCK) {
        const hyp_cuda_library *lib = &s->model->device->lib;
        return hyp_cuda_check(lib, lib->cuMemcpyDtoDAsync(y, x, move->bytes, s->stream), "copying on the device", diag);
    }
    move->args.copy.x = x;
    move->args.copy.y = y;
    bool transpose = move->kind == HYP_CUDA_MOVE_TRANSPOSE;
    return hyp_cuda_launch(s, &mover->grid, transpose ? (void *)&move->args : (void *)&move->args.copy, diag);
}

typedef struct copy {
    hyp_cuda_mover mover;
    uint32_t x, y;
} copy;

static hyp_status copy_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    copy *p = data;
    return hyp_cuda_mover_run(s, &p->mover, s->at[p->x], s->at[p->y], diag);
}

/* Copies in a row of which none waits for another: one launch. */
typedef struct copies {
    hyp_cuda_copies args;
    hyp_cuda_grid grid;
    int64_t x_offset[HYP_CUDA_COPIES], y_offset[HYP_CUDA_COPIES]; /* bytes */
    uint32_t x[HYP_CUDA_COPIES], y[HYP_CUDA_COPIES];
} copies;

static hyp_status copies_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    copies *p = data;
    for (uint32_t i = 0; i < p->args.count; i++) {
        p->args.part[i].x = s->at[p->x[i]] + (CUdeviceptr)p->x_offset[i];
        p->args.part[i].y = s->at[p->y[i]] + (CUdeviceptr)p->y_offset[i];
    }
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

/* Blocks for a part. Beside the other work of a run there are so few that they take nothing from it but bandwidth. */
static uint32_t blocks_of(const hyp_cuda_device *device, int64_t total, bool aside)
{
    enum { SHARE = 16 }; /* of the multiprocessors */
    uint32_t blocks = hyp_cuda_blocks(device, total, COPY_THREADS), few = (uint32_t)device->multiprocessors / SHARE + 1;
    return aside && few < blocks ? few : blocks;
}

static void add_part(const hyp_cuda_device *device, copies *p, const copy *from, bool aside)
{
    const hyp_cuda_move *move = &from->mover.move;
    const hyp_cuda_copy *whole = &move->args.copy;
    uint32_t i = p->args.count++;
    hyp_cuda_part *part = &p->args.part[i];
    p->x[i] = from->x;
    p->y[i] = from->y;
    p->x_offset[i] = move->x_offset;
    p->y_offset[i] = move->y_offset;
    *part = (hyp_cuda_part){.total = whole->total, .rank = whole->rank, .size = whole->size};
    for (uint32_t a = 0; a < whole->rank; a++) {
        part->extent[a] = whole->extent[a];
        part->x_stride[a] = whole->x_stride[a];
        part->y_stride[a] = whole->y_stride[a];
    }
    if (move->kind == HYP_CUDA_MOVE_BLOCK) {
        uint32_t size = hyp_cuda_widest((uint64_t)move->bytes | (uint64_t)move->x_offset | (uint64_t)move->y_offset);
        *part = (hyp_cuda_part){.total = (int64_t)(move->bytes / size), .rank = 1, .size = size};
        part->extent[0] = hyp_cuda_extent_of(part->total);
        part->x_stride[0] = part->y_stride[0] = 1;
    }
    p->grid.blocks += blocks_of(device, part->total, aside);
    p->args.first_block[i + 1] = p->grid.blocks;
}

static bool is_part(const copy *p)
{
    const hyp_cuda_move *move = &p->mover.move;
    return move->kind == HYP_CUDA_MOVE_BLOCK ||
           (move->kind == HYP_CUDA_MOVE_STRIDED && move->args.copy.rank <= HYP_CUDA_PART_DIMS);
}

/* May a launch that writes these tensors make a copy, too? A scratch tensor may lie where another part reads, unless
 * all parts build that one, or are windows of one tensor, which is still there. */
static bool may_join(const hyp_cuda_build *b, const uint32_t *y, uint32_t count, const copy *last)
{
    bool output = b->program->tensors[last->y]->place == HYP_PLAN__PLACE__PLACE_OUTPUT;
    bool windows = hyp_plan_is_window(b->program->tensors[last->y]);
    for (uint32_t i = 0; i < count && windows; i++) windows = hyp_plan_root(b->program, y[i]) == last->x && y[i] != last->x;
    if (windows) return true;
    for (uint32_t i = 0; i < count; i++)
        if (hyp_plan_root(b->program, last->x) == y[i] || (y[i] != last->y && !output)) return false;
    return true;
}

/* Lets an op make the copy `last`, too, where that is possible. */
static hyp_status join(hyp_cuda_build *b, hyp_cuda_op *op, const copy *last, bool aside, bool *out_done)
{
    const hyp_cuda_device *device = b->session->model->device;
    const copy *first = op->run == copy_run ? op->data : NULL;
    copies *all = op->run == copies_run ? op->data : NULL;
    const uint32_t *y = first ? &first->y : all ? all->y : NULL;
    *out_done = y && is_part(last) && (!first || is_part(first)) && (!all || all->args.count < HYP_CUDA_COPIES) &&
                may_join(b, y, first ? 1 : all->args.count, last);
    if (!*out_done) return HYP_OK;
    if (!all) {
        all = hyp_arena_zalloc(&b->prepared->arena, 1, sizeof *all);
        if (!all) return hyp_fail_memory(b->diag, sizeof *all);
        all->grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_copies, .block_x = COPY_THREADS, .block_y = 1};
        add_part(device, all, first, aside);
        op->run = copies_run;
        op->data = all;
        HYP_TRY(hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_copies));
    }
    add_part(device, all, last, aside);
    op->last_step = b->step;
    return HYP_OK;
}

/* Does a copy wait for nothing in the run, and nothing in the run for it? */
static bool is_aside(const hyp_cuda_build *b, const copy *p)
{
    HypPlan__Place from = b->program->tensors[hyp_plan_root(b->program, p->x)]->place;
    if (b->session->model->gated < b->program->n_steps) return false; /* an input may be a variable, which changes at the end */
    return (from == HYP_PLAN__PLACE__PLACE_INPUT || from == HYP_PLAN__PLACE__PLACE_WEIGHT) &&
           b->program->tensors[p->y]->place == HYP_PLAN__PLACE__PLACE_OUTPUT && b->read && !b->read[p->y];
}

/* Puts the newest op, a copy, in its place: into the one before it, or to those in front that may run aside. */
static hyp_status settle(hyp_cuda_build *b, const copy *p)
{
    hyp_cuda_prepared *prepared = b->prepared;
    hyp_cuda_op *ops = prepared->ops.data, newest = ops[prepared->ops.len - 1];
    bool aside = is_aside(b, p), done = false;
    size_t begin = aside ? 0 : prepared->aside, end = aside ? prepared->aside : prepared->ops.len - 1;
    if (end > begin) HYP_TRY(join(b, &ops[end - 1], p, aside, &done));
    if (done) {
        prepared->ops.len--;
    } else if (aside) {
        for (size_t i = prepared->ops.len - 1; i > prepared->aside; i--) ops[i] = ops[i - 1];
        ops[prepared->aside++] = newest;
    }
    return HYP_OK;
}

hyp_status hyp_cuda_add_box(hyp_cuda_build *b, const hyp_cuda_box *box, uint32_t x, uint32_t y, int64_t x_offset,
                            int64_t y_offset)
{
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, copy_run, sizeof(copy), &data));
    copy *p = data;
    p->x = x;
    p->y = y;
    size_t size = hyp_dtype_size(hyp_cuda_dtype(b->program, x));
    HYP_TRY(hyp_cuda_mover_init(b, box, size, x_offset, y_offset, &p->mover));
    return settle(b, p);
}

/* Of tensors of which one at least lies with the channels last. */
static hyp_status add_laid(hyp_cuda_build *b, const HypPlan__Copy *k)
{
    bool window = hyp_plan_is_window(b->program->tensors[k->x]);
    uint32_t x = window ? hyp_plan_root(b->program, k->x) : k->x;
    const size_t *own = b->prepared->own_offset;
    hyp_laid_box laid;
    if (own && own[x] != HYP_CUDA_AS_PLANNED && own[x] == own[k->y]) return HYP_OK; /* they are the same: layouts.c */
    if (!hyp_lay_copy(b->program, k, b->values, hyp_cuda_lies_last(b, x), hyp_cuda_lies_last(b, k->y), &laid))
        return hyp_fail(b->diag, HYP_ERR_INTERNAL, "a copy cannot be done with the channels last");
    hyp_cuda_box box = {.rank = (uint32_t)laid.rank, .lanes = 2};
    for (uint32_t a = 0; a < box.rank; a++) {
        box.extent[a] = laid.extents[box.rank - 1 - a];
        box.stride[0][a] = laid.strides[HYP_LAID_X][box.rank - 1 - a];
        box.stride[1][a] = laid.strides[HYP_LAID_Y][box.rank - 1 - a];
    }
    return hyp_cuda_add_box(b, &box, x, k->y, laid.offsets[HYP_LAID_X], laid.offsets[HYP_LAID_Y]);
}

hyp_status hyp_cuda_add_copy(hyp_cuda_build *b, const HypPlan__Copy *k)
{
    hyp_cuda_box box;
    hyp_cuda_box_init(&box, b->values, k->n_extents, k->extents);
    hyp_cuda_box_add_lane(&box, b->values, k->x_strides);
    hyp_cuda_box_add_lane(&box, b->values, k->y_strides);
    if (hyp_cuda_box_count(&box) == 0) return HYP_OK;
    if (hyp_cuda_lies_last(b, k->x) || hyp_cuda_lies_last(b, k->y)) return add_laid(b, k);
    return hyp_cuda_add_box(b, &box, k->x, k->y, b->values[k->x_offset], b->values[k->y_offset]);
}

/* ---- gather ------------------------------------------------------------------------------------------------ */

hyp_status hyp_cuda_add_gather(hyp_cuda_build *b, const HypPlan__Gather *k)
{
    int64_t outer = b->values[k->outer], axis = b->values[k->axis], inner = b->values[k->inner];
    int64_t count = b->values[k->count], size = (int64_t)hyp_dtype_size(hyp_cuda_dtype(b->program, k->x));
    if (outer == 0 || inner == 0 || count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_need_report(b));
    enum { THREADS = 256 };
    uint32_t wide = hyp_cuda_widest((uint64_t)(inner * size));
    int64_t pieces = inner * size / wide;
    const hyp_cuda_gather args = {.error = b->session->error_at,
                                  .inner = hyp_cuda_extent_of(pieces),
                                  .count = hyp_cuda_extent_of(count),
                                  .axis = axis,
                                  .total = outer * count * pieces,
                                  .wide_indices = hyp_cuda_dtype(b->program, k->indices) == HYP_I64,
                                  .size = wide,
                                  .step = b->step};
    const hyp_cuda_grid grid = {.kernel = HYP_CUDA_KERNEL_gather,
                                .blocks = hyp_cuda_blocks(b->session->model->device, args.total, THREADS),
                                .block_x = THREADS,
                                .block_y = 1};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_gather, x, k->x + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_gather, indices, k->indices + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_gather, y, k->y + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

/* ---- fill -------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_add_fill(hyp_cuda_build *b, const HypPlan__Fill *k)
{
    const hyp_cuda_grid grid = {
        .kernel = HYP_CUDA_KERNEL_fill_i64, .blocks = 1, .block_x = HYP_CUDA_FILL_VALUES, .block_y = 1};
    for (size_t first = 0; first < k->n_values; first += HYP_CUDA_FILL_VALUES) {
        size_t left = k->n_values - first;
        hyp_cuda_fill args = {.count = (uint32_t)(left < HYP_CUDA_FILL_VALUES ? left : HYP_CUDA_FILL_VALUES)};
        for (uint32_t i = 0; i < args.count; i++) args.value[i] = b->values[k->values[first + i]];
        const hyp_cuda_slot y = {offsetof(hyp_cuda_fill, y), k->y + 1, first * sizeof(int64_t)};
        HYP_TRY(hyp_cuda_add_launch(b, &grid, &args, sizeof args, &y, 1));
    }
    return HYP_OK;
}

/* ---- zero -------------------------------------------------------------------------------------------------- */

typedef struct zero {
    uint32_t y;
    size_t bytes;
} zero;

static hyp_status zero_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    const zero *p = data;
    const hyp_cuda_library *lib = &s->model->device->lib;
    return hyp_cuda_check(lib, lib->cuMemsetD8Async(s->at[p->y], 0, p->bytes, s->stream), "clearing a tensor", diag);
}

hyp_status hyp_cuda_add_zero(hyp_cuda_build *b, uint32_t y, size_t bytes)
{
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, zero_run, sizeof(zero), &data));
    *(zero *)data = (zero){y, bytes};
    return HYP_OK;
}
