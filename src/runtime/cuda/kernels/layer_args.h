/* layer_args.h - what few_rows.cu is told; and generated kernels that go on with what a layer leaves (pointwise_source.h),
 * whose source this file is a part of. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_LAYER_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_LAYER_ARGS_H

#ifndef HYP_CUDA_GENERATED
#include "runtime/cuda/kernels/instructions.h"
#endif

enum {
    HYP_CUDA_LAYER_ROWS = 16,     /* of x */
    HYP_CUDA_LAYER_SHORT = 256,   /* threads of a block of a short kernel, which has more registers for each */
    HYP_CUDA_LAYER_THREADS = 512, /* of a block, at most */
    HYP_CUDA_LAYER_PIECE = 16,    /* bytes that a thread reads at a time */
    HYP_CUDA_LAYER_HELD = 32,     /* elements of a single row of x that a lane keeps */
    HYP_CUDA_LAYER_TILE = 8,      /* rows of w that tensor cores take at a time, */
    HYP_CUDA_LAYER_GROUPS = 4,    /* and of x what these groups of 4 pieces have, in a warp */
    HYP_CUDA_LAYER_STAGES = 32,   /* of the ring of weights, at most */
};

/* y[rows,n] = act(scale x[rows,k] w^T + bias + added) or act(scale x w^T + bias) + added, w stored [n,k]. A piece is 16
 * bytes of a row. Turned, w is what the plan calls x and the other way round: y[n,rows], and biases belong to rows of
 * x. A single row of x may be normalized first. Shared memory has: x, or what a normalization needs; biases, sums, the
 * stages of the ring, two barriers for each of them.
 *
 * What is dealt out to the blocks are rows of w or, where there are several parts, units: a row of each part. */
typedef struct hyp_cuda_layer {
    uint64_t weight, x, bias, y, added; /* bias, added: 0 = none */
    uint64_t norm_scale, norm_bias;     /* 0 = none */
    uint32_t n, k, rows;
    uint32_t pieces;     /* of a row of w and x: k elements rounded up */
    uint32_t rows_each;  /* rows of w, or units, for every block, */
    uint32_t tile;       /* and this many more */
    uint32_t tiles_more; /* for so many first blocks */
    uint32_t chunk_rows; /* rows that are fetched at a time: a chunk */
    uint32_t chunks;     /* of a block, at most */
    uint32_t stages, stage_pieces;
    uint32_t x_pieces, biases, sums; /* in shared memory; the latter two in floats, multiples of 4 */
    uint8_t log_splits;              /* warps that share a row: 2^log_splits */
    uint8_t act;                     /* HYP_PW_RELU ...; HYP_PW_CAST = none */
    uint8_t aligned;                 /* every row of w and x starts at a multiple of 16 bytes; else there is no ring */
    uint8_t constant;                /* w, and what normalizes x, are the plan's weights, */
    uint8_t bias_constant;           /* and so is the bias, or there is none */
    uint8_t turned, add_after;
    uint8_t norm; /* HYP_CUDA_NORM_* */
    float epsilon;  /* of the normalization */
    float scale;    /* of the product, before the bias */
    uint32_t parts; /* that rows of w and of y are, next to each other and equally many */
} hyp_cuda_layer;
/* What becomes of x before the product; `root` is by the mean square, without taking the mean away. */
enum { HYP_CUDA_NORM_NONE = 0, HYP_CUDA_NORM_LAYER = 1, HYP_CUDA_NORM_ROOT = 2 };
/* Pieces that the barriers of a stage take. */
enum { HYP_CUDA_LAYER_BARRIERS = 1 };

/* A layer of one row, and elementwise steps that read it by its parts: element i, row i of each. y may be 0. */
enum { HYP_CUDA_CELL_STEPS = 2 /* at most */ };
typedef struct hyp_cuda_cell_step {
    uint64_t input[HYP_CUDA_PW_INPUTS], output[HYP_CUDA_PW_OUTPUTS];
} hyp_cuda_cell_step;
typedef struct hyp_cuda_cell {
    hyp_cuda_cell_step step[HYP_CUDA_CELL_STEPS];
    hyp_cuda_layer layer;
} hyp_cuda_cell;

#endif
