/* tiles_args.h - the arguments of the kernels that do convolutions by 3x3 on tiles, as those of kernel_args.h. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_TILES_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_TILES_ARGS_H

#include "runtime/cuda/kernels/kernel_args.h"

/* Where elements of an image lie: elements between images, rows, columns and channels. */
typedef struct hyp_cuda_image_steps {
    int64_t image, row, column, channel;
} hyp_cuda_image_steps;

/* What a block of a kernel that turns tiles has at a time, a thread each, and numbers between its lines in shared
 * memory: those of so many tiles of four channels are in all banks. */
enum { HYP_CUDA_TURNED_TILES = 8, HYP_CUDA_TURNED_CHANNELS = 32, HYP_CUDA_TURNED_PITCH = 36 };

/* Some tiles of all images of a convolution: tiles_in makes of x[images, channels, rows, columns] what the products
 * read, made[places, room, channels], tiles_out of these, products[places, room, filters], y = act(the convolution +
 * bias + added). A tile is a square of results, of 2 or 4 a side as the kernel has it; its places are (side + 2)^2.
 * tiles_in_turned makes made[places, channels, room], tiles_out_turned reads products[places, filters, room]. f32. */
typedef struct hyp_cuda_tiles {
    uint64_t x, weight, bias, added, y; /* bias, added: 0 = none */
    uint64_t made, products;
    hyp_cuda_extent across, down; /* tiles of an image */
    hyp_cuda_extent parts;        /* of channels (tiles_in) or filters (tiles_out): a thread each, or a block, turned */
    int64_t first, tiles, room;   /* the first tile of all images'; how many of them there are; and there may be */
    int64_t channels, filters;
    hyp_cuda_image_steps x_step, added_step, y_step;
    int64_t filter_step, tap_step, channel_step; /* elements between these in the weight */
    int32_t in[2], out[2], before[2];            /* rows, columns; padding */
    int32_t pooled[2]; /* of y, where that is the largest of every 2x2 of the results; 0: it is all of them */
    uint32_t act, pad; /* as that of hyp_cuda_conv */
} hyp_cuda_tiles;

/* made[places, channels, filters] = the weight as products read it. */
typedef struct hyp_cuda_tile_weights {
    uint64_t weight, made;
    hyp_cuda_extent filters;
    int64_t pairs; /* of a channel and a filter */
    int64_t filter_step, tap_step, channel_step;
} hyp_cuda_tile_weights;

#endif
