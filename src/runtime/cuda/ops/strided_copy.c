#include "runtime/cuda/ops/strided_copy.h"

#include <stdlib.h>

enum { X, Y };

uint32_t hyp_cuda_widest(uint64_t bytes)
{
    bytes |= 16;
    return (uint32_t)(bytes & -bytes);
}

/* The order of a copy is free: y is written in the order of its memory. */
static void sort_by_y(hyp_cuda_box *box)
{
    for (uint32_t a = 1; a < box->rank; a++)
        for (uint32_t i = a; i > 0 && llabs(box->stride[Y][i]) < llabs(box->stride[Y][i - 1]); i--)
            hyp_cuda_box_swap(box, i, i - 1);
}

/* The axis along which x is contiguous, when tiles pay; 0 when there is none. */
static uint32_t transposed_axis(const hyp_cuda_box *box)
{
    enum { WORTH = 8 };
    if (box->stride[Y][0] != 1 || box->stride[X][0] == 1 || box->extent[0] < WORTH) return 0;
    for (uint32_t a = 1; a < box->rank; a++)
        if (box->stride[X][a] == 1 && box->extent[a] >= WORTH) return a;
    return 0;
}

static void set_copy(const hyp_cuda_box *box, size_t size, hyp_cuda_copy *out)
{
    out->size = (uint32_t)size;
    out->rank = box->rank;
    out->total = hyp_cuda_box_count(box);
    for (uint32_t a = 0; a < box->rank; a++) {
        out->extent[a] = hyp_cuda_extent_of(box->extent[a]);
        out->x_stride[a] = box->stride[X][a];
        out->y_stride[a] = box->stride[Y][a];
    }
}

/* The sides of tiles: those of narrow matrices, such as the filters of one output channel of a convolution, have their width, and
 * are as long as fits, all alike. */
static void plan_tiles(const hyp_cuda_box *box, int64_t side[2])
{
    side[0] = side[1] = HYP_CUDA_TILE;
    for (int narrow = 0; narrow < 2; narrow++) {
        int64_t width = box->extent[narrow], length = box->extent[1 - narrow];
        if (width >= HYP_CUDA_TILE || length <= HYP_CUDA_TILE) continue;
        int64_t most = narrow ? HYP_CUDA_TILE_CELLS / (width | 1) : HYP_CUDA_TILE_CELLS / width - 1;
        int64_t parts = (length + most - 1) / most;
        side[narrow] = width;
        side[1 - narrow] = (length + parts - 1) / parts;
    }
}

static void plan_transpose(hyp_cuda_box *box, uint32_t axis, size_t size, hyp_cuda_move *out)
{
    while (axis > 1) hyp_cuda_box_swap(box, axis, axis - 1), axis--;
    int64_t side[2];
    plan_tiles(box, side);
    int64_t tiles0 = (box->extent[0] + side[0] - 1) / side[0];
    int64_t tiles1 = (box->extent[1] + side[1] - 1) / side[1];
    out->kind = HYP_CUDA_MOVE_TRANSPOSE;
    out->args.side0 = hyp_cuda_extent_of(side[0]);
    out->args.side1 = hyp_cuda_extent_of(side[1]);
    out->args.narrow = side[0] != HYP_CUDA_TILE || side[1] != HYP_CUDA_TILE;
    set_copy(box, size, &out->args.copy);
    out->args.tiles0 = hyp_cuda_extent_of(tiles0);
    out->args.tiles = hyp_cuda_extent_of(tiles0 * tiles1);
    out->args.total_tiles = tiles0 * tiles1;
    for (uint32_t a = 2; a < box->rank; a++) out->args.total_tiles *= box->extent[a];
}

/* Rows that are contiguous on both sides move in pieces of up to 16 bytes, as far as every row starts at a multiple. */
static size_t widen(hyp_cuda_box *box, size_t size, int64_t x_offset, int64_t y_offset)
{
    if (box->stride[X][0] != 1 || box->stride[Y][0] != 1) return size;
    uint64_t places = (uint64_t)box->extent[0] | (uint64_t)x_offset | (uint64_t)y_offset;
    for (uint32_t a = 1; a < box->rank; a++) places |= (uint64_t)box->stride[X][a] | (uint64_t)box->stride[Y][a];
    uint32_t wide = hyp_cuda_widest(places * size);
    int64_t factor = (int64_t)(wide / size);
    box->extent[0] /= factor;
    for (uint32_t a = 1; a < box->rank; a++) box->stride[X][a] /= factor, box->stride[Y][a] /= factor;
    return wide;
}

void hyp_cuda_move_plan(const hyp_cuda_box *given, size_t size, int64_t x_offset, int64_t y_offset, hyp_cuda_move *out)
{
    hyp_cuda_box box = *given;
    sort_by_y(&box);
    hyp_cuda_box_merge(&box);
    *out = (hyp_cuda_move){.x_offset = x_offset * (int64_t)size, .y_offset = y_offset * (int64_t)size};
    bool one_row = box.rank == 1 && box.stride[X][0] == 1 && box.stride[Y][0] == 1;
    if (box.rank == 0 || one_row) {
        out->kind = HYP_CUDA_MOVE_BLOCK;
        out->bytes = (size_t)hyp_cuda_box_count(&box) * size;
        return;
    }
    uint32_t axis = transposed_axis(&box);
    if (axis) {
        plan_transpose(&box, axis, size, out);
        return;
    }
    out->kind = HYP_CUDA_MOVE_STRIDED;
    size = widen(&box, size, x_offset, y_offset);
    set_copy(&box, size, &out->args.copy);
}
