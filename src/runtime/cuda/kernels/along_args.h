/* along_args.h - the arguments of the kernels of along.cu, scans.cu and places.cu, which the host fills in. As kernel_args.h. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_ALONG_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_ALONG_ARGS_H

#include "runtime/cuda/kernels/kernel_args.h"

/* How elements are ordered: their bits become a key, which is the larger the earlier they come, and the same for both
 * zeros. */
typedef struct hyp_cuda_order {
    uint64_t sign;   /* its bit; 0 = there is none */
    uint64_t number; /* the largest magnitude of floats that is no NaN; 0 = integers */
    uint64_t flip;   /* all bits of an element where the smallest come first, else 0 */
    uint64_t nan;    /* the key of NaN */
    uint32_t size, pad;
} hyp_cuda_order;

/* An element of a lane. */
typedef struct hyp_cuda_ranked {
    uint64_t key;
    int64_t at; /* along the axis */
} hyp_cuda_ranked;

/* The first, or the last, of the elements of each lane of x that come before all others. Where a lane is made in parts
 * these leave hyp_cuda_ranked[part, lane] in `list`, of which a second launch then takes the first. */
typedef struct hyp_cuda_locate {
    hyp_cuda_order order;
    uint64_t x, list, places, values; /* values: 0 = places alone are wanted */
    hyp_cuda_extent lanes, inner;
    int64_t axis, terms, total; /* terms: of a part; total: lanes times parts */
    int64_t parts;              /* that are in the list for each lane; 0 = elements are looked at */
    uint32_t to_list, last, along_x, pad;
} hyp_cuda_locate;

/* The first k elements of each lane of x, in their order. Where a lane is made in parts these leave
 * numbers[lane, part, k] in `list`, in any order and filled up with such of key 0 behind the axis, which a
 * second launch takes. A number is of one word in *_short, for elements of up to four bytes, else of two. Lanes of
 * sort_* are padded and sorted whole, in shared memory. */
typedef struct hyp_cuda_topk {
    hyp_cuda_order order;
    uint64_t x, values, places, list;
    uint64_t room; /* numbers[block, padded] to sort in; 0 = shared memory */
    hyp_cuda_extent inner, parts;
    int64_t axis, terms, total; /* terms: of a part, or from_list those of a lane; total: lanes times parts */
    int64_t k, padded;          /* padded: a power of two */
    uint32_t digits;            /* of a key and of a place behind it, HYP_CUDA_DIGITS each */
    uint32_t from_list, to_list, pad;
} hyp_cuda_topk;

/* Sums or products of the elements up to each one of its lane. The threads of a block's x dimension share a lane, or
 * part of one. `sums` are [part, lane] of doubles or 64-bit integers, which the first of two launches makes. */
typedef struct hyp_cuda_scan {
    uint64_t x, y, sums; /* sums: 0 = a lane has one part */
    hyp_cuda_extent lanes, inner;
    int64_t axis, terms, total; /* terms: of a part; total: lanes times parts */
    uint64_t mask;              /* elements are 1 where they have one of these bits, else 0; 0 = they are themselves */
    uint32_t dtype, y_dtype;
    uint32_t product, exclusive, reverse;
    uint32_t makes_sums; /* and nothing else */
} hyp_cuda_scan;

/* The places of x of which `counts`, int64_t [count], tells how many there are up to each: y[axis, room], where what
 * lies behind them repeats the last one, and how many there are. */
typedef struct hyp_cuda_nonzero {
    uint64_t counts, y, found, error;      /* error: as of hyp_cuda_gather */
    hyp_cuda_extent extent[HYP_CUDA_DIMS]; /* of x, the innermost first */
    int64_t count, room;
    uint32_t rank, step;
} hyp_cuda_nonzero;

/* y[outer, depth, inner] of elements of `size` bytes: values[1] where indices[outer, inner] says, else values[0]. */
typedef struct hyp_cuda_one_hot {
    uint64_t indices, values, y;
    hyp_cuda_extent inner, depth;
    int64_t total;
    uint32_t dtype, floats; /* of the indices */
    uint32_t size, pad;
} hyp_cuda_one_hot;

/* Matrices of elements of `size` bytes. */
typedef struct hyp_cuda_trilu {
    uint64_t x, y, diagonal; /* 0 = none */
    hyp_cuda_extent columns, rows;
    int64_t total;
    uint32_t dtype, upper; /* dtype: of the diagonal */
    uint32_t size, pad;
} hyp_cuda_trilu;

/* y = x[outer, size, inner], but for `length` places from first[batch] on, which are the updates; elements of `bytes`.
 */
typedef struct hyp_cuda_tensor_scatter {
    uint64_t x, updates, first, y, error; /* first: 0 = from 0 on; error: as of hyp_cuda_gather */
    hyp_cuda_extent inner, size, outer;   /* outer: of an element of the batch */
    int64_t length, most, total;          /* most: that `first` may be */
    uint32_t dtype, circular;             /* dtype: of first */
    uint32_t bytes, step;
} hyp_cuda_tensor_scatter;

/* y = x / (bias + alpha * the sum of squares from `before` channels in front on to `behind`)^beta */
typedef struct hyp_cuda_lrn {
    uint64_t x, y;
    hyp_cuda_extent inner, channels;
    int64_t before, behind, total;
    double alpha, beta, bias;
    uint32_t dtype, pad;
} hyp_cuda_lrn;

/* Each y is the product of all elements along the reduced axes. */
typedef struct hyp_cuda_product {
    uint64_t x, y;
    hyp_cuda_extent kept[HYP_CUDA_DIMS], reduced[HYP_CUDA_DIMS];
    int64_t kept_stride[HYP_CUDA_DIMS], reduced_stride[HYP_CUDA_DIMS];
    int64_t total, terms;
    uint32_t kept_rank, reduced_rank;
    uint32_t dtype, pad;
} hyp_cuda_product;

/* y = x, but the first lengths[b] elements along the axis of time in reverse order; of elements of `size` bytes. An
 * element lies at b * batch + t * time and what other axes add. */
typedef struct hyp_cuda_reverse {
    uint64_t x, y, lengths, error;               /* error: as of hyp_cuda_gather */
    hyp_cuda_extent batch, batches, time, times; /* elements from one to the next, and how many there are */
    int64_t total;
    uint32_t dtype; /* of the lengths */
    uint32_t size, step, pad;
} hyp_cuda_reverse;

#endif
