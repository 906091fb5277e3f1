/* kernel_args.h - what the host and our own CUDA kernels agree on: kernel names and argument structs. Read by C and by
 * nvcc, so plain data and no base headers. A struct is passed by value and must stay below the 4 KiB that a launch
 * may carry.
 *
 * Dims in these structs run from the innermost outwards: extent[0] varies fastest.
 */
#ifndef HYP_RUNTIME_CUDA_KERNELS_KERNEL_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_KERNEL_ARGS_H

#include <stdint.h>

#include "kernels/slopes.h"
#include "runtime/cuda/kernels/instructions.h"
#include "runtime/cuda/kernels/layer_args.h"

/* Every kernel by name, those of kernels.cu and those of attention.cu. */
/* clang-format off */
#define HYP_CUDA_BASIC_KERNELS(X) \
    X(pointwise_f32) X(pointwise_f64) X(pointwise_i64) X(pointwise_u64) \
    X(softmax_f32) X(softmax_f64) X(softmax_stats_f32) X(softmax_stats_f64) X(reduce_f32) X(reduce_f64) X(reduce_i64) X(reduce_pieces) \
    X(softmax_rows) X(softmax_loose_rows) X(norm_rows) X(norm_loose_rows) X(norm_parts) X(norm_long_f32) X(norm_long_f64) X(finish_product) X(copy) X(copies) X(pitch_16) X(pitch_32) X(transpose) X(gather) X(fill_i64) \
    X(row_gradient) X(row_gradient_long_f32) X(row_gradient_long_f64) \
    X(batch_stats_f32) X(batch_stats_f64) X(batch_stats_pieces) \
    X(batch_gradient_f32) X(batch_gradient_f64) X(batch_gradient_pieces) \
    X(batch_stats_end_f32) X(batch_stats_end_f64) X(batch_gradient_end_f32) X(batch_gradient_end_f64) \
    X(gather_along) X(gather_nd) X(scatter_list) X(scatter_sort) X(scatter) X(scatter_pieces) X(scatter_elements) \
    X(locate) X(topk_short) X(topk_long) X(sort_short) X(sort_long) \
    X(scan_f64) X(scan_u64) X(scan_of_f32) X(scan_of_f16) X(scan_of_bf16) X(scan_of_i64) \
    X(one_hot) X(trilu) X(reverse) X(resize_lists) X(resize_f32) X(resize_f64) X(resize_rows_2) X(resize_rows_4) \
    X(resize_nearest) X(sample_f32) X(sample_f64) X(sample_back_f32) X(sample_back_f64) \
    X(sample_slopes_f32) X(sample_slopes_f64) X(affine_grid) X(roi_align) X(roi_align_back) X(unpool) X(suppress) X(suppressed) \
    X(nonzero) X(tensor_scatter) X(lrn) X(product_f64) X(product_u64) \
    X(range_f64) X(range_u64) X(random_uniform) X(prefetch) \
    X(conv_f32) X(conv_f64) X(conv_u64) X(conv_transpose_f32) X(conv_transpose_f64) X(conv_transpose_u64) \
    X(conv_weights_f32) X(conv_weights_f64) X(conv_weights_u64) X(pool_f32) X(pool_f64) X(pool_i64) X(pool_pieces) \
    X(pool_gradient_f32) X(pool_gradient_f64) X(pool_gradient_tiles) \
    X(depthwise) X(unfold) X(tiles_in_2) X(tiles_in_4) X(tiles_out_2) X(tiles_out_4) X(tiles_in_turned_2) X(tiles_out_turned_2) X(tiles_out_turned_4) X(tile_weights_2) X(tile_weights_4) \
    X(recurrence_f32) X(recurrence_f64) X(recurrence_back_f32) X(recurrence_back_f64) X(nn_act)
#define HYP_CUDA_LAYER_KERNELS(X) \
    X(layer_f32_1) X(layer_f32_1_short) X(layer_f32_16) X(layer_f16_1) X(layer_f16_1_short) X(layer_f16_16) \
    X(layer_bf16_1) X(layer_bf16_1_short) X(layer_bf16_16) X(layer_f8e4m3_1)
#define HYP_CUDA_ATTENTION_KERNELS(X) \
    X(attention_rows_f32) X(attention_rows_f16) X(attention_rows_bf16) X(attention_rows_f64) \
    X(attention_f32_64) X(attention_f32_128) \
    X(attention_f16_64) X(attention_f16_64_tall) X(attention_f16_128) X(attention_f16_128_tall) \
    X(attention_bf16_64) X(attention_bf16_64_tall) X(attention_bf16_128) X(attention_bf16_128_tall)
#define HYP_CUDA_ATTENTION_GRADIENT_KERNELS(X) \
    X(attention_by_queries_bf16_64) X(attention_by_keys_bf16_64)
#define HYP_CUDA_KERNELS(X) \
    HYP_CUDA_BASIC_KERNELS(X) HYP_CUDA_LAYER_KERNELS(X) HYP_CUDA_ATTENTION_KERNELS(X) HYP_CUDA_ATTENTION_GRADIENT_KERNELS(X)
/* clang-format on */

typedef enum hyp_cuda_kernel {
#define X(name) HYP_CUDA_KERNEL_##name,
    HYP_CUDA_KERNELS(X)
#undef X
        HYP_CUDA_KERNEL_COUNT,
    HYP_CUDA_KERNEL_FIRST_LAYER = HYP_CUDA_KERNEL_layer_f32_1,
    HYP_CUDA_KERNEL_FIRST_ATTENTION = HYP_CUDA_KERNEL_attention_rows_f32
} hyp_cuda_kernel;

enum {
    HYP_CUDA_PW_REGISTERS = 32,
    HYP_CUDA_PW_INSTRS = HYP_CUDA_PW_REGISTERS + 2 * HYP_CUDA_PW_OUTPUTS,
    HYP_CUDA_PW_VECTOR = 8, /* neighbours that one thread of pointwise_f32 does at a time */
    HYP_CUDA_FILL_VALUES = 32,
    HYP_CUDA_ROW_PIECES = 2,      /* pieces of a row that one thread of softmax_rows and norm_rows keeps in registers */
    HYP_CUDA_REDUCE_THREADS = 256, /* of a block of a reduction */
    HYP_CUDA_DIGITS = 256, /* that scatter_sort and topk go by at a time; threads of a block, of the latter at least */
    HYP_CUDA_TOPK_COUNTS = 130,   /* doubles in front of what a block of topk sorts: HYP_CUDA_DIGITS + 4 counters */
    HYP_CUDA_TOPK_TILE = 4096,    /* words behind these: what a block of topk sorts in shared memory */
    HYP_CUDA_RESIZE_EACH = 4,     /* columns of a row that a thread of resize_rows has */
    HYP_CUDA_SCAN_EACH = 4,       /* neighbours that a thread of a scan has */
    HYP_CUDA_SPATIAL = 3,         /* axes that windows slide over */
    HYP_CUDA_GATES = 4,           /* of a recurrence, at most */
    HYP_CUDA_DEPTHWISE = 4,       /* results that a thread of `depthwise` makes in a row */
    HYP_CUDA_POOL_CELLS = 8,      /* strides of a side of a tile of pool_gradient_tiles */
    HYP_CUDA_POOL_TAPS = 255,     /* of its windows, at most */
    HYP_CUDA_POOL_THREADS = 256,  /* of its blocks, at most */
    HYP_CUDA_PARTS = 6,           /* of the sums of a product */
    HYP_CUDA_PART_THREADS = 512,  /* of a block of norm_parts, at most, */
    HYP_CUDA_PART_FOURS = 2,      /* each with so many times four elements of its row */
    HYP_CUDA_COPIES = 24,         /* parts of one launch of `copies`, */
    HYP_CUDA_PART_DIMS = 3,       /* each of at most so many axes */
    HYP_CUDA_PREFETCHES = 8,      /* constants that one launch of `prefetch` sends for */
    HYP_CUDA_TILE = 32,           /* a transpose block moves a tile of this many rows and columns */
    HYP_CUDA_TILE_CELLS = 2048,   /* or one of so many elements */
    HYP_CUDA_TILE_ROWS = 8,       /* with this many rows of threads */
    HYP_CUDA_ATTENTION_ROWS = 64, /* that a block of attention has of q; a tall kernel twice as many */
    HYP_CUDA_ATTENTION_KEYS = 64, /* that it takes at a time */
    HYP_CUDA_ATTENTION_THREADS = 128,
    HYP_CUDA_ROW_THREAD_BITS = 8,
    HYP_CUDA_ROW_THREADS = 1 << HYP_CUDA_ROW_THREAD_BITS, /* of a block of attention_rows */
};

/* Where an instruction finds an operand. The result of the instruction before it stays in registers, so that a chain
 * touches no other memory than its tensors; a result that is needed later goes to shared memory, one temp for each
 * result alive. */
enum { HYP_PW_LAST = 0, HYP_PW_TEMP = 1, HYP_PW_INPUT = 2, HYP_PW_CONST = 3, HYP_PW_OUTPUT = 4 };

typedef struct hyp_cuda_pw_operand {
    uint8_t kind;  /* HYP_PW_LAST ... */
    uint8_t index; /* of the temp, input or constant */
} hyp_cuda_pw_operand;

typedef struct hyp_cuda_pw_instr {
    uint8_t op;
    uint8_t to; /* hyp_dtype that the result is rounded to */
    hyp_cuda_pw_operand a, b, c;
    uint8_t temp_plus1; /* the result is also kept in this temp; 0 = not */
    uint8_t pad[7];
    double p, q; /* CLIP of integers: their bits */
} hyp_cuda_pw_instr;

typedef struct hyp_cuda_pw_input {
    uint64_t data;
    int64_t stride[HYP_CUDA_DIMS]; /* in elements; 0 = broadcast */
    uint32_t dtype;
    uint32_t vector; /* HYP_CUDA_PW_VECTOR neighbours may be read at once */
} hyp_cuda_pw_input;

typedef struct hyp_cuda_pw_output {
    uint64_t data; /* dense */
    uint32_t dtype;
    uint32_t vector; /* ... written at once */
} hyp_cuda_pw_output;

typedef struct hyp_cuda_pointwise {
    hyp_cuda_extent extent[HYP_CUDA_DIMS];
    hyp_cuda_extent row_chunks; /* threads for one pass over extent[0] */
    int64_t chunks;             /* threads in total: row_chunks times the other extents */
    uint32_t rank, instrs;
    hyp_cuda_pw_input input[HYP_CUDA_PW_INPUTS];
    hyp_cuda_pw_output output[HYP_CUDA_PW_OUTPUTS];
    hyp_cuda_pw_instr instr[HYP_CUDA_PW_INSTRS];
    double constant[HYP_CUDA_PW_REGISTERS];
    uint64_t gate; /* 0: none; else as in hyp_cuda_pw_addresses */
} hyp_cuda_pointwise;

/* `along_x`: the threads of a block's x dimension work together on one result (neighbours in memory belong to it);
 * otherwise those of its y dimension do (neighbours in memory belong to different results). */
typedef struct hyp_cuda_softmax {
    uint64_t x, y; /* of softmax-stats y is where the largest go, */
    uint64_t log_sum; /* and there the logs of the sums, both in f32, or f64 where that is x's type */
    int64_t columns, axis; /* columns: outer * inner */
    hyp_cuda_extent inner;
    uint32_t dtype;
    uint32_t along_x;
    uint32_t vector; /* of softmax-stats: rows, of 16 bits, are whole pieces of 8 elements */
} hyp_cuda_softmax;

/* y[i / y_row, i % y_row] = x[i / y_row, i % y_row] for i < total, where rows of x lie x_row elements apart and what is
 * beyond its rows and columns is 0. y begins at a multiple of 16 bytes. */
typedef struct hyp_cuda_pitch {
    uint64_t x, y;
    hyp_cuda_extent y_row;
    int64_t x_row, rows, columns /* no more than y_row */, total;
} hyp_cuda_pitch;

/* Results are made in so many parts each: all first parts lie one behind the other, then all second ones. Of reduce_pieces a
 * term, or a result where results are neighbours (along_x is 0), is 16 bytes, which begin at a multiple of that:
 * an extent counts them, and its stride steps over them. In a run a result is of elements that follow each other from
 * anywhere on. */
typedef struct hyp_cuda_reduce {
    uint64_t x, y;
    int64_t total;             /* results.size times how many parts there are */
    int64_t terms;             /* of a part, the last of which may have fewer; elements of a run, */
    int64_t all_terms;         /* product of the reduced extents */
    int64_t mean;              /* by which sums are divided; -1: they are not */
    hyp_cuda_extent results;   /* product of the kept extents */
    hyp_cuda_extent row_terms; /* term t lies at t * term_stride + t / row_terms * row_stride; not where reduced_rank > 2 */
    int64_t term_stride, row_stride;
    hyp_cuda_extent kept[HYP_CUDA_DIMS], reduced[HYP_CUDA_DIMS];
    int64_t kept_stride[HYP_CUDA_DIMS], reduced_stride[HYP_CUDA_DIMS];
    uint32_t kept_rank, reduced_rank;
    uint32_t dtype, y_dtype;
    uint32_t largest; /* in place of the sum */
    uint32_t turned;  /* largest: elements are turned before and after, which makes it the smallest */
    uint32_t along_x;
    uint32_t run;     /* reduce_pieces, along_x */
    uint32_t add;     /* to what y has */
    uint32_t size;    /* of an element of x, in bytes */
} hyp_cuda_reduce;

/* Of each channel of x, and of a gradient g that lies as x does, three values over all else, in so many parts, one behind
 * the other. A term is one element, or in *_pieces 16 bytes, which are of one channel where `along`, else of neighbouring
 * channels: then a group of channels is as many. Term t of a group lies at t * stride + t / run * jump, in elements,
 * behind its first. */
typedef struct hyp_cuda_channels {
    uint64_t x, g;
    uint64_t mean;            /* of a gradient: by channel, f32 or f64 as the kernel computes */
    uint64_t inverse, scale, bias; /* 0: there is no relu behind it, which lets through what is above `least` */
    uint64_t parts;           /* [part, channel] of three values of that type */
    int64_t total;            /* groups times parts */
    int64_t terms, all_terms; /* of a part, the last of which may have fewer; of a group */
    int64_t stride, jump;
    int64_t group;            /* elements from a group to the next */
    int64_t channels;
    hyp_cuda_extent groups, run;
    double least;
    uint32_t dtype, along;
} hyp_cuda_channels;

/* Puts the parts together: mean, variance and 1 / sqrt(variance + epsilon), or the two means of a gradient. */
typedef struct hyp_cuda_channels_end {
    uint64_t parts, inverse; /* inverse: of a gradient */
    uint64_t first, second, third;
    int64_t channels, part_count;
    int64_t count; /* of elements of a channel */
    double epsilon;
} hyp_cuda_channels_end;

/* Rows of f32, f16 or bf16, each shared by the threads of a block's x dimension. */
typedef struct hyp_cuda_rows {
    uint64_t x, y;
    int64_t count, size;
    int64_t pieces; /* of a row: of 16 bytes, or of up to 8 elements */
    uint32_t dtype;
    uint32_t vector; /* rows start at multiples of 16 bytes and are read in such pieces */
} hyp_cuda_rows;

typedef struct hyp_cuda_norm {
    hyp_cuda_rows rows;
    uint64_t scale, bias; /* 0 = absent */
    double epsilon;
    uint32_t scale_dtype, bias_dtype; /* as that of the rows where they are read in pieces; norm_long_*: any floats */
    uint32_t centred;                 /* the mean is taken away: layer-norm, else rms-norm */
    uint32_t mean_dtype, inverse_dtype;
    uint32_t pad;
    uint64_t mean, inverse; /* where those of each row go; 0 = nowhere, as in all kernels but norm_long_* */
} hyp_cuda_norm;

/* The same behind a product whose sums are in several parts: x = the sum of parts + bias + added is rounded, written to
 * rows.x, and normalized. f16 and bf16, all of one type; sizes that are multiples of 4. A row is a block's. */
typedef struct hyp_cuda_norm_parts {
    hyp_cuda_norm norm;
    uint64_t parts;       /* f32 [count, rows, size] */
    uint64_t bias, added; /* a row; of the size of x; 0 = absent */
    uint32_t count;       /* up to HYP_CUDA_PARTS */
    uint32_t constant;    /* bias, and scale and bias of the norm, are the plan's weights */
} hyp_cuda_norm_parts;

/* Gradients of softmax and of norms, by x or by the scale: rows.x is x, of softmax its result, and rows.y the gradient. */
typedef struct hyp_cuda_row_gradient {
    hyp_cuda_rows rows;
    hyp_cuda_extent inner; /* row_gradient_long_*: elements of a row are so many apart, and as many rows lie between them */
    uint64_t g, scale;     /* g is as x; scale: a row of any floats, 0 = absent; row_gradient: of the type of the rows */
    double epsilon;
    uint32_t scale_dtype;
    uint32_t softmax, centred, by_scale;
} hyp_cuda_row_gradient;

/* y = act(x + bias + before) + after in pieces of 16 bytes: bias is a row, the others have the size of y. f32, f16,
 * bf16. */
typedef struct hyp_cuda_finish {
    uint64_t x, y, bias, before, after; /* 0 = absent, but for x and y */
    int64_t pieces;
    hyp_cuda_extent row_pieces;
    uint32_t dtype;
    uint32_t act; /* HYP_PW_RELU ..., another: none */
} hyp_cuda_finish;

typedef struct hyp_cuda_range {
    uint64_t start, delta, y; /* scalars of y's type */
    int64_t count;
    uint32_t dtype, pad;
} hyp_cuda_range;

typedef struct hyp_cuda_random {
    uint64_t seed, number, y; /* scalars of i64; f32 */
    int64_t count;
    uint32_t stream, pad;
} hyp_cuda_random;

/* Windows that slide over the spatial axes of x[images, in_channels, in...]: what a result y[images, channels, out...]
 * is made of. Axes that there are not have one element. */
typedef struct hyp_cuda_windows {
    hyp_cuda_extent channels, out[HYP_CUDA_SPATIAL];
    int64_t in[HYP_CUDA_SPATIAL], kernel[HYP_CUDA_SPATIAL], stride[HYP_CUDA_SPATIAL], dilation[HYP_CUDA_SPATIAL];
    int64_t before[HYP_CUDA_SPATIAL], after[HYP_CUDA_SPATIAL]; /* padding */
    int64_t in_channels, in_count, kernel_count;               /* counts: products of the extents */
    int64_t total;                                             /* elements of y */
    uint32_t x_last, y_last;                                   /* lies as [images, ..., channels] */
} hyp_cuda_windows;

/* y = act(x * weight + bias + added). */
typedef struct hyp_cuda_conv {
    hyp_cuda_windows windows;
    uint64_t x, weight, bias, added, y; /* bias, added: 0 = none; added lies as y does */
    hyp_cuda_extent group_out;          /* channels of y in a group */
    int64_t group_in;                   /* and of x */
    int64_t filter_step, channel_step, tap_step; /* elements between these in the weight */
    uint32_t dtype;
    uint32_t act;         /* HYP_PW_RELU ..., CLIP: from 0 to 6, CAST: none */
} hyp_cuda_conv;

/* The transpose of it, without activation and what is added: each result is the sum over the places of x whose windows
 * reach it. `out` of the windows are y's extents, `in` x's; their strides are 1, for it is along x that windows go in steps.
 * The weight is [channels of x, channels of a group of y, kernel...]. */
typedef struct hyp_cuda_conv_transpose {
    hyp_cuda_conv conv;
    int64_t step[HYP_CUDA_SPATIAL];
} hyp_cuda_conv_transpose;

/* The gradient y of a convolution by its weights [channels of g, channels of a group of x, kernel...], from x and the
 * gradient g by its result. The windows are the convolution's. */
typedef struct hyp_cuda_conv_weights {
    hyp_cuda_windows windows;
    uint64_t x, g, y;
    int64_t group_in, group_out; /* channels of x and of g in a group */
    int64_t weights, places;     /* elements of y; of a channel of g */
    uint32_t dtype, pad;
} hyp_cuda_conv_weights;

/* y = act(x * weight + bias), each channel by itself, HYP_CUDA_DEPTHWISE neighbours of a row of y a thread: out[0] of the
 * windows counts such groups, and their stride[0] is from group to group. A channel is a piece of 16 bytes of them, which
 * come last in x, y and the weight, [kernel..., channels]. f32, f16, bf16. */
typedef struct hyp_cuda_depthwise {
    hyp_cuda_windows windows;
    uint64_t x, weight, bias, y; /* bias: 0 = none */
    int64_t row, step;           /* results in a row; stride[0] as the step has it */
    uint32_t dtype;
    uint32_t act;   /* as above */
    uint32_t clips; /* x is to be clipped from 0 to 6 */
    uint32_t pad;
} hyp_cuda_depthwise;

/* Every window of x written out as a row of y: y[places, kernel..., channels]. A channel is a piece of 16 bytes of them,
 * which come last in x; `total` counts pieces of a place. */
typedef struct hyp_cuda_unfold {
    hyp_cuda_windows windows;
    uint64_t x, y;
} hyp_cuda_unfold;

/* Rows of an activation. v = x + bias is kept in z, y = act(v), and the mask has a bit where that is positive; y = 0: only these.
 * Or its gradient: y = x times the derivative, at z or, of a relu, where the mask has a bit. f32, f16, bf16. */
typedef struct hyp_cuda_nn_act {
    uint64_t x, bias, z, y, mask; /* bias, z, mask: 0 = absent */
    hyp_cuda_extent row_pieces;   /* of 8 elements, the last one of a row perhaps less */
    int64_t pieces, columns;
    int64_t x_ld, y_ld, z_ld, mask_ld; /* from row to row: elements; of the mask bytes */
    uint32_t dtype;
    uint32_t act;      /* HYP_PW_RELU, GELU, GELU_TANH, SILU; CAST: none */
    uint32_t gradient; /* which of the two */
    uint32_t vector;   /* rows start at multiples of 16 bytes */
} hyp_cuda_nn_act;

/* One step in time of an LSTM, a GRU or an RNN: from `sums`, the product of the state with the weights, and what x
 * [times, batch, columns] says, to the state and to y [times, batch, size]. With lengths, sequences end, and begin in
 * reverse, where each is to. */
typedef struct hyp_cuda_recurrence {
    uint64_t x, y;
    uint64_t lengths, first_h, first_c, bias, peepholes; /* 0 = absent */
    uint64_t last_h, last_c; /* where states are to be left; 0 = nowhere */
    uint64_t cells;          /* [times, batch, size]: those of all times; 0 = nowhere */
    uint64_t h, c;           /* [batch, size]: of the type of x; as sums. c: 0 = the cell has none */
    uint64_t sums, reset;    /* [batch, columns] of f32 or f64; of h, times the reset gate, as h */
    uint64_t error;          /* as that of a gather, for a length that is out of range */
    hyp_cuda_extent size;
    int64_t batch, times, columns;
    int64_t time; /* that this is, counted from where sequences begin */
    double clip;  /* 0 = none */
    uint32_t dtype, lengths_dtype;
    uint32_t part;  /* HYP_CUDA_RECUR_BEGIN ... */
    uint8_t act[3]; /* HYP_PW_RELU ...: f, g, h of ONNX */
    uint8_t gates;  /* 4: an LSTM; 3: a GRU; 1: an RNN */
    uint8_t reverse, coupled, reset_after, pad;
    uint32_t step;
} hyp_cuda_recurrence;
/* What a launch does: puts the first state where h and c are, makes `reset`, or does what is left. */
enum { HYP_CUDA_RECUR_BEGIN = 0, HYP_CUDA_RECUR_RESET = 1, HYP_CUDA_RECUR_GATES = 2 };

/* One step back in time of their gradients: from h, c and `sums`, what the product of the step behind has added to h, to d and
 * `operand`, which the next product reads. */
typedef struct hyp_cuda_recurrence_back {
    uint64_t slope[HYP_SLOPES]; /* [times, batch, size]; 0 = absent, which is 0 */
    uint64_t lengths, g, last_h, last_c; /* what comes in; 0 = absent */
    uint64_t d, first_h, first_c;    /* [times, batch, columns]; where the gradients of the first states are to be left; 0 = nowhere */
    uint64_t h, c, sums, reset;      /* [batch, size] of f32 or f64; reset: of the first product of a GRU that has two; 0 = none */
    uint64_t operand;                /* [batch, columns], of the type of d */
    uint64_t error;                  /* as that of a recurrence */
    hyp_cuda_extent size;
    int64_t batch, times, columns;
    int64_t time; /* that this is, as it lies in memory */
    uint32_t dtype, lengths_dtype;
    uint32_t part; /* HYP_CUDA_BACK_BEGIN ... */
    uint8_t gates; /* as above */
    uint8_t reset_after, pad[2];
    uint32_t step, pad2;
} hyp_cuda_recurrence_back;
/* What a launch does: puts the gradients of the last states where h and c are, does a time, or what is left of it behind the first
 * of two products, or leaves those of the first states. */
enum { HYP_CUDA_BACK_BEGIN = 0, HYP_CUDA_BACK_TIME = 1, HYP_CUDA_BACK_RESET = 2, HYP_CUDA_BACK_END = 3 };

typedef struct hyp_cuda_copy {
    uint64_t x, y; /* offsets are added by the host */
    hyp_cuda_extent extent[HYP_CUDA_DIMS];
    int64_t x_stride[HYP_CUDA_DIMS], y_stride[HYP_CUDA_DIMS];
    int64_t total;
    uint32_t rank;
    uint32_t size; /* of an element: 1, 2, 4, 8 or 16 bytes */
} hyp_cuda_copy;

/* Several copies at once: part i is made by the blocks from first_block[i] on. */
typedef struct hyp_cuda_part {
    uint64_t x, y; /* as above */
    hyp_cuda_extent extent[HYP_CUDA_PART_DIMS];
    int64_t x_stride[HYP_CUDA_PART_DIMS], y_stride[HYP_CUDA_PART_DIMS];
    int64_t total;
    uint32_t rank, size;
} hyp_cuda_part;
typedef struct hyp_cuda_copies {
    hyp_cuda_part part[HYP_CUDA_COPIES];
    uint32_t first_block[HYP_CUDA_COPIES + 1];
    uint32_t count;
} hyp_cuda_copies;

/* extent[0] is contiguous in y, extent[1] in x; the others are whole matrices apart. Elements of up to 8 bytes. A tile is a square of
 * HYP_CUDA_TILE, or, of a narrow matrix, as wide as that and longer. */
typedef struct hyp_cuda_transpose {
    hyp_cuda_copy copy;
    hyp_cuda_extent tiles0, tiles; /* tiles along extent[0]; in one matrix */
    int64_t total_tiles;
    hyp_cuda_extent side0, side1; /* of a tile; with a pad behind side1 at most HYP_CUDA_TILE_CELLS */
    uint32_t narrow; /* bool */
} hyp_cuda_transpose;

typedef struct hyp_cuda_gather {
    uint64_t x, indices, y;
    uint64_t error; /* int64_t[3] that the host sees: {1, the index, the step} after an index out of range */
    hyp_cuda_extent inner, count;
    int64_t axis, total;
    uint32_t wide_indices; /* int64, else int32 */
    uint32_t size;         /* of an element, as above */
    uint32_t step, pad;
} hyp_cuda_gather;

/* y[i] is the element of x that the index i says along one axis; the other axes, at extents[], are those of the indices. */
typedef struct hyp_cuda_gather_along {
    uint64_t x, indices, y, error; /* error: as above */
    hyp_cuda_extent extent[HYP_CUDA_DIMS];
    int64_t stride[HYP_CUDA_DIMS]; /* of x; 0 for the axis */
    int64_t axis, axis_stride, total;
    uint32_t rank, wide_indices, size, step; /* size: of an element, as above */
} hyp_cuda_gather_along;

/* Row t of y, of inner.size pieces, is that of x that the `width` indices from index t * width on say: along axes of `dims`,
 * whose elements are `strides` pieces apart, of the batch that has the row. */
typedef struct hyp_cuda_gather_nd {
    uint64_t x, indices, y, error; /* error: as above */
    hyp_cuda_extent inner, of_batch; /* of_batch: rows */
    int64_t batch, total;            /* pieces of x from a batch to the next; pieces of y */
    int64_t dims[HYP_CUDA_DIMS], strides[HYP_CUDA_DIMS];
    uint32_t width, wide_indices, size, step; /* size: of a piece, as above */
} hyp_cuda_gather_nd;

/* An update and where it goes: to y[place, pieces]. -1: its index is out of range. */
typedef struct hyp_cuda_scattered {
    int64_t place, update;
} hyp_cuda_scattered;

/* Update u, of `pieces`, goes to the place that it begins with, if it has a line of its own, and that the `width` indices from
 * index u * width on say: along axes of `dims`, whose elements are `strides` places apart. Those of a line alone may meet at a
 * place: `line` updates, line_step from one to the next. */
typedef struct hyp_cuda_scatter {
    uint64_t updates, indices, y, error; /* error: as above */
    uint64_t list;                       /* hyp_cuda_scattered [updates_count], sorted by place; 0: none, lines are short */
    int64_t updates_count, total;        /* total: pieces of all updates */
    hyp_cuda_extent pieces, line, line_step;
    hyp_cuda_extent extent[HYP_CUDA_DIMS]; /* of the updates, and the places apart of the elements along each: 0 for that of a */
    int64_t offset[HYP_CUDA_DIMS];         /* line. rank 0: all updates are one line, which begins at place 0 */
    int64_t dims[HYP_CUDA_DIMS], strides[HYP_CUDA_DIMS];
    uint32_t rank;
    uint32_t width;
    uint32_t wide_indices;
    uint32_t size;    /* of a piece, as above: any that replaces what was there; */
    uint32_t dtype;   /* an element that is combined with it, or 16 bytes of f32, f16 or bf16 */
    uint32_t combine; /* HYP_PW_ADD, MUL, MIN or MAX */
    uint32_t step, pad;
} hyp_cuda_scatter;

/* Sorts hyp_cuda_scattered[count] by HYP_CUDA_DIGITS digits of the place, from bit `shift` on: counts[blocks, digits], of
 * uint32_t, is made, or what lies at `from` goes to `to` as it says. */
typedef struct hyp_cuda_sort {
    uint64_t from, to, counts;
    int64_t count, each; /* each: of a block, a multiple of its threads */
    uint32_t shift, moves;
} hyp_cuda_sort;

typedef struct hyp_cuda_fill {
    uint64_t y;
    int64_t value[HYP_CUDA_FILL_VALUES];
    uint32_t count;
} hyp_cuda_fill;

/* Constants that are sent for, so that kernels find them in the second-level cache; multiples of 16 bytes of each. */
typedef struct hyp_cuda_prefetch {
    uint64_t at[HYP_CUDA_PREFETCHES], bytes[HYP_CUDA_PREFETCHES];
    uint32_t count, pad;
} hyp_cuda_prefetch;

/* What becomes of a score. ADDED is a number of the operands' type; a bool HIDES or SHOWS where it is true. */
enum {
    HYP_CUDA_MASK_NONE = 0,
    HYP_CUDA_MASK_SCALED = 1, /* no mask, but a scale that `unit` cannot be */
    HYP_CUDA_MASK_ADDED = 2,
    HYP_CUDA_MASK_HIDES = 3,
    HYP_CUDA_MASK_SHOWS = 4,
};

/* Scores are exponents of 2, log2(e) times what they are elsewhere; numbers that this makes -inf are this one. */
#define HYP_CUDA_LOWEST (-3.402823466e38)

/* An operand; strides in elements. */
typedef struct hyp_cuda_matrix {
    uint64_t data; /* offsets are added by the host */
    int64_t row, column;
    uint32_t vector; /* rows are contiguous, begin at multiples of 16 bytes and are multiples of them long */
    uint32_t pad;
} hyp_cuda_matrix;

enum { HYP_CUDA_ATTENTION_LANES = 7 }; /* q, k, v, mask, y, more of k, more of v */

typedef struct hyp_cuda_attention {
    hyp_cuda_matrix q, k, v, mask, y;
    hyp_cuda_matrix more_k, more_v; /* attention_rows: the keys behind `first_keys`, which are those of k and v */
    hyp_cuda_extent batch[HYP_CUDA_DIMS];
    int64_t stride[HYP_CUDA_ATTENTION_LANES][HYP_CUDA_DIMS];
    hyp_cuda_extent blocks;        /* for one index of the batch */
    hyp_cuda_extent column_blocks; /* attention_rows: for one row */
    hyp_cuda_extent splits;        /* blocks that share rows and columns */
    int64_t split_keys;            /* of each of them */
    uint64_t parts, counters;      /* where they leave what they found, and for all that share rows a uint32_t, 0 */
    int64_t total;                 /* blocks */
    int64_t rows, keys, first_keys, width, columns;
    int64_t padded_width; /* attention_rows: to a multiple of what its lanes take at a time */
    uint32_t rank;        /* of the batch */
    uint32_t masked;      /* HYP_CUDA_MASK_NONE ... */
    uint32_t lane_bits;   /* attention_rows: 2^lane_bits lanes have a key together */
    uint32_t past_stands; /* attention_rows: nothing in the run writes what k and v are */
    uint32_t plain;       /* weights are scores times `scale`, without a softmax; there is no mask, and unit is 1 */
    uint32_t shift_step; /* else: HYP_CUDA_SHIFT_STEP, or 0 where the mask is the same for every row */
    double scale, fill;  /* as exponents of 2; without a mask the scale is 1 */
    double unit;         /* what scores are multiplied by: the scale without a mask, then positive, else 1 */
} hyp_cuda_attention;

/* attention_by_queries_* and, after it, attention_by_keys_*. */
typedef struct hyp_cuda_attention_gradient {
    hyp_cuda_attention attention;        /* without splits and second parts; y is its result */
    hyp_cuda_matrix g, by_q, by_k, by_v; /* g lies as y, the others as q, k and v */
    uint64_t stats;                      /* of each matrix and row two f32: the exponent of 2 that its exponentials are
                                            divided by, and the sum of y g */
    hyp_cuda_extent key_blocks;          /* attention_by_keys: for one index of the batch */
    int64_t key_total;
    double slope; /* of scores by the products that they are of */
} hyp_cuda_attention_gradient;

/* Shared memory of the f32 kernel for heads up to `d` wide, in floats: a tile of 64 rows, one whose place the weights
 * take, which have 16 floats more in a row than there are keys. Shifts of scores follow the tiles of all kernels where
 * they are needed, so many floats from row to row. */
enum { HYP_CUDA_SHIFT_STEP = HYP_CUDA_ATTENTION_KEYS + 8 };
#define HYP_CUDA_TILE_FLOATS(d) (64 * ((d) + 4))
#define HYP_CUDA_KEY_FLOATS(d) ((d) + 4 < 80 ? 64 * 80 : HYP_CUDA_TILE_FLOATS(d))

#endif
