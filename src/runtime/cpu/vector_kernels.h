/* vector_kernels.h - our own vectorised kernels, compiled once per instruction set and chosen at load.
 *
 * vec.h, mlp_kernel.h and block_kernels.h hold the code, written with the vector extensions of gcc and clang;
 * kernels_<isa>.c compile it with the flags that src/runtime/CMakeLists.txt gives them.
 */
#ifndef HYP_RUNTIME_CPU_VECTOR_KERNELS_H
#define HYP_RUNTIME_CPU_VECTOR_KERNELS_H

#include "plan/plan.h"

/* What follows other arithmetic: op(x) with numbers p and q of its own, rounded to a type. Op CAST: nothing. */
typedef struct hyp_block_instr {
    HypPlan__Pointwise__Op op;
    float p, q;
    hyp_dtype to;
    /* Of sums, differences, products, quotients, the smaller and the larger: bit j says that operand j is one number. */
    unsigned ones;
    bool times; /* of sums: the first operand is multiplied by the third before */
    bool relu;  /* of sums: relu of it */
} hyp_block_instr;

/* ---- the small multi-layer kernel ------------------------------------------------------------------------ */

/* One layer. Weights are packed in panels of `panel` vectors of `width` floats: panel p holds columns
 * [p*panel*width, ...) of w^T as [k][vectors of this panel][width]; the last panel has only the vectors that it
 * needs; columns beyond n are 0. */
typedef struct hyp_mlp_layer {
    int64_t n, k;
    const float *weights; /* k * round_up(n, width) floats, 64-byte aligned */
    const float *bias;    /* round_up(n, width) floats, 0 beyond n and where the layer has none */
    hyp_block_instr act;  /* in f32 */
    bool far;             /* the weights are too many to be in a cache when the layer runs: HYP_FAR_WEIGHTS floats */
} hyp_mlp_layer;

/* So many floats of a step and more are mostly read from memory. Fewer stay in a third-level cache. */
enum { HYP_FAR_WEIGHTS = 1 << 20 };

typedef struct hyp_mlp {
    const hyp_mlp_layer *layers;
    size_t count;
    int64_t hidden_stride; /* floats from row to row of the hidden buffers, a multiple of 16 */
    bool add_after;        /* what is added to the result is added after the last activation, not before it */
    void *block;           /* the layers' numbers: hyp_block_drop */
} hyp_mlp;

/* Windows that slide over x: `lines` lines of `places` results each, whose windows begin x_line and x_place floats
 * apart. A window is `rows` rows, so far apart, of `runs` runs of floats each, which are `gap` apart. The first window
 * begins in line `top` of an image of `height` lines, those of the next lines of results `step` further down, and their
 * rows are `spread` lines from each other: what lies outside of the image is zeros. */
typedef struct hyp_windows {
    int64_t lines, places, x_line, x_place, rows, apart, runs, gap;
    int64_t y_place; /* floats from result to result of y and of what is added */
    int64_t top, step, spread, height;
} hyp_windows;

/* A line of tiles of HYP_TILE x HYP_TILE results of a convolution by 3x3, each from HYP_TILE_IN x HYP_TILE_IN places
 * (winograd_kernel.h). The channels of a place lie together; places are `channels` apart, but for those of y. */
#define HYP_TILE_A 0.625f
#define HYP_TILE_B 1.5f
enum { HYP_TILE = 4, HYP_TILE_IN = HYP_TILE + 2, HYP_TILE_PLACES = HYP_TILE_IN * HYP_TILE_IN };
typedef struct hyp_tiles {
    int64_t tiles, channels;
    int64_t line;          /* floats from line to line, of x or of added */
    int64_t y_line, y_place; /* of y, from line to line and from place to place */
    int64_t lines, places; /* of results that are wanted: up to HYP_TILE, and in all tiles together */
} hyp_tiles;

/* Rows that go through all layers together; a hidden buffer has this many rows. */
enum { HYP_MLP_ROWS = 48 };

/* ---- blocks ------------------------------------------------------------------------------------------------ */

/* Pointwise registers are blocks of this many floats, 64-byte aligned. */
enum { HYP_BLOCK = 256 };

/* What the block kernels have no vectors for, in one form for all instruction sets. */
void hyp_block_rare(HypPlan__Pointwise__Op op, float *out, const float *a, const float *b, int64_t n);
/* Each element as a value of this integer type. */
void hyp_block_to_integers(hyp_dtype to, float *out, int64_t n);

/* Where the parts of each result lie: those of result i are rows[r] + offsets[j] for all r < count and
 * first[i] <= j < first[i + 1]. */
typedef struct hyp_parts {
    const float *const *rows;
    int64_t count;
    const int64_t *first, *offsets;
} hyp_parts;

/* A convolution of at least `width` groups, of `in` channels to an even number `out` of results each. */
typedef struct hyp_grouped {
    int64_t groups, in, out;
    const float *bias; /* [out, groups] */
} hyp_grouped;

/* A convolution of at least `width` channels, each to itself. Along a line a window has `along` places, `gap`
 * floats apart, and windows begin `step` floats apart. */
typedef struct hyp_depthwise {
    int64_t channels, along, gap, step;
    const float *bias;
} hyp_depthwise;

/* Windows over channels that lie together. Along a line a window has `along` places, `gap` floats apart, and windows
 * begin `step` floats apart. Places of x are `x_place` apart, results `y_place`. */
typedef struct hyp_pool {
    int64_t channels, along, gap, step, x_place, y_place;
} hyp_pool;

/* Products of doubles: rows at a time. A panel has as many columns as a vector has floats, at most so many. */
enum { HYP_DOUBLE_ROWS = 4, HYP_DOUBLE_PANEL = 16 };

/* Rows of `size` elements, which lie one behind the other, each less its mean and over its deviation. */
typedef struct hyp_norm {
    int64_t size;
    double epsilon;
    const float *scale, *bias; /* [size], or NULL */
    bool centred;              /* else the mean is taken for 0 */
} hyp_norm;

/* The gradient of `norm` for rows of it. */
typedef struct hyp_norm_gradient {
    int64_t size;
    double epsilon;
    const float *scale; /* may be NULL */
    bool centred;       /* the mean is taken away */
    bool by_scale;      /* instead of by x; no scale then */
} hyp_norm_gradient;

typedef struct hyp_cpu_kernels {
    const char *isa; /* "avx512" */
    int width;       /* floats in a vector */
    int panel;       /* vectors in a panel */
    int block;       /* panels that one row goes through side by side; threads share out whole blocks */

    /* y[m,n_last] = the network of x[m,k_first], with added[m,n_last] unless that is NULL; it may be y where it is
     * added before the activation. hidden: 2 * HYP_MLP_ROWS * hidden_stride floats, 64-byte aligned. */
    void (*mlp)(const hyp_mlp *mlp, int64_t m, const float *x, const float *added, float *y, float *hidden);

    /* One layer for up to HYP_MLP_ROWS rows: y = act(x w + b + added) in the columns of the panels from `first`, a
     * multiple of `block`, to `end`. */
    void (*panels)(const hyp_mlp_layer *layer, int64_t rows, const float *x, int64_t x_stride, const float *added,
                   float *y, int64_t y_stride, int64_t first, int64_t end);

    /* The same for windows of x, whose layer->k floats are those of its runs. */
    void (*windows)(const hyp_mlp_layer *layer, const hyp_windows *g, const float *x, const float *added, float *y,
                    int64_t first, int64_t end);

    /* made[tiles, HYP_TILE_PLACES, channels rounded up to `width`] = a line of tiles of x, transformed. Up to 15 floats
     * behind x are read, and some of what is made beyond the channels means nothing. */
    void (*tiles_in)(const hyp_tiles *g, const float *x, float *made);
    /* y = act(what made, in that layout, is the transform of + bias + added), where NULL adds nothing; added may be y. */
    void (*tiles_out)(const hyp_tiles *g, const float *made, const float *bias, const float *added, float *y,
                      const hyp_block_instr *act);

    /* out[i] = op(x[0][i], x[1][i], x[2][i]) rounded to in->to, for i < n, n a multiple of 16. All three operands can
     * be read, and may be out. */
    void (*instr)(const hyp_block_instr *in, float *out, const float *const *x, int64_t n);
    /* y[i] = op(y[i]), for i < n, any number. */
    void (*activate)(const hyp_block_instr *in, float *y, int64_t n);
    /* Softmax over axis of x[outer, axis, inner]; y may be x. What comes out depends on no other block of [axis, inner]. */
    void (*softmax)(const float *x, float *y, int64_t outer, int64_t axis, int64_t inner);
    /* Of each of the inner columns of x[axis, inner] the largest, and the log of the sum of the exponentials of what is less it. */
    void (*softmax_stats)(const float *x, int64_t axis, int64_t inner, float *top, float *log_sum);
    /* x[i] += add[i * step], and x[i] = fill where mask[i * step] is true (false if shown), for i < n. */
    void (*shift)(float *x, const float *add, int64_t step, int64_t n);
    void (*hide)(float *x, const uint8_t *mask, int64_t step, bool shown, float fill, int64_t n);
    /* Sum of n floats that lie together. */
    double (*sum)(const float *x, int64_t n);
    /* sums[j] += sum over i < rows of x[i*stride + j], for j < n <= HYP_BLOCK. */
    void (*sum_rows)(const float *x, int64_t rows, int64_t stride, int64_t n, double *sums);
    /* y[i] = sum over t < taps of weights[t] * rows[t][i], for i < n; y is none of the rows. */
    void (*combine)(const float *const *rows, const float *weights, int64_t taps, int64_t n, float *y);
    /* y[i*n + c] = start[c], which may be NULL, + the sum over the parts of result i of part[c], for i < results, c <
     * n. Whole vectors are read and written where n is less than one: start, parts and y have room for them. */
    void (*add_parts)(const hyp_parts *parts, int64_t results, const float *start, int64_t n, float *y);
    /* The same with the largest for the sum: NaN where there is one, -infinity where there are no parts. */
    void (*most_parts)(const hyp_parts *parts, int64_t results, const float *start, int64_t n, float *y);
    /* y[i, channels], results y_place apart, = scales[i] times the sum over the parts of result i, each [channels], or,
     * where scales is NULL, what most_parts makes of them. Whole vectors are read and written as there. */
    void (*pool)(const hyp_pool *pool, const hyp_parts *parts, int64_t results, const float *scales, float *y);
    /* y[i, out, groups] = bias + the sum over the parts of result i, each [in, groups], of their products with the
     * weights: those of the part at rows[r] + offsets[j] are weights[r] + taps[j] * in * out * groups, [in, out,
     * groups]. */
    void (*grouped)(const hyp_grouped *conv, const hyp_parts *parts, const float *const *weights, const int64_t *taps,
                    int64_t results, float *y);
    /* y[i, channels] = bias + the sum over the parts of result i, each [channels], of their products with the weights:
     * those of the part at rows[r] + offsets[j] are weights[r] + taps[j] * channels; + added[i, channels] unless that
     * is NULL. It may be y. */
    void (*depthwise)(const hyp_depthwise *conv, const hyp_parts *parts, const float *const *weights,
                      const int64_t *taps, int64_t results, const float *added, float *y);
    /* y[j*y_stride + i] = x[i*x_stride + j] for i < rows, j < columns. */
    void (*transpose)(const float *x, int64_t rows, int64_t columns, int64_t x_stride, float *y, int64_t y_stride);
    /* y[i*y_stride + j] = x[i*x_stride + j] for i < rows, j < columns, a few vectors: calls of memcpy take longer. */
    void (*copy_rows)(const float *x, int64_t rows, int64_t columns, int64_t x_stride, float *y, int64_t y_stride);
    /* Each row of y = (x - mean) / sqrt(mean square of that + epsilon) * scale + bias; y may be x. */
    void (*norm)(const hyp_norm *p, const float *x, float *y, int64_t rows);
    /* Of a row of it: y = the gradient by x, or that by the scale before the sum over the rows; g is that by its result.
     * y may be g. */
    void (*norm_gradient)(const hyp_norm_gradient *p, const float *x, const float *g, float *y);
    /* Of d = x - centre for n elements that lie together: sums[0] and sums[1] of d and d d, or where g is not NULL of g
     * and g d. */
    void (*channel_sums)(const float *x, const float *g, int64_t n, float centre, double *sums);
    /* out = y (g - the sum of y g along the axis), for [axis, inner]; out may be g. */
    void (*softmax_gradient)(const float *y, const float *g, float *out, int64_t axis, int64_t inner);
    /* Conversion of n elements. */
    /* out[HYP_DOUBLE_ROWS width] = a panel[k width], of `rows` rows of a, at least one, the others like the last. */
    void (*doubles)(const double *a, int64_t row, int64_t column, int64_t rows, const double *panel, int64_t k,
                    double *out);
    void (*widen)(hyp_dtype from, const void *x, float *out, int64_t n);
    void (*narrow)(hyp_dtype to, const float *x, void *out, int64_t n);
    /* y[4 blocks] = what hyp_random_block of base/philox.h makes of the blocks from `first` on. */
    void (*random)(uint64_t seed, uint64_t number, uint32_t stream, uint32_t first, int64_t blocks, float *y);
} hyp_cpu_kernels;

extern const hyp_cpu_kernels hyp_cpu_kernels_generic;
#ifdef HYP_CPU_X86
extern const hyp_cpu_kernels hyp_cpu_kernels_avx2;
extern const hyp_cpu_kernels hyp_cpu_kernels_avx512;
#elif defined HYP_CPU_ARM
extern const hyp_cpu_kernels hyp_cpu_kernels_neon;
#endif

/* The environment variable that says which instruction set is the most that may be used. */
#define HYP_CPU_VARIABLE "HYPATIA_CPU"

/* The most that may be used, and who says so: "options->cpu_level" or HYP_CPU_VARIABLE. */
typedef struct hyp_cpu_limit {
    const char *most; /* the name of an instruction set; NULL or "": all */
    const char *by;
} hyp_cpu_limit;

/* The best that this processor has, up to the limit. HYP_ERR_INVALID_ARGUMENT for a name that this build has no kernels
 * for. */
HYP_NODISCARD hyp_status hyp_cpu_kernels_choose(hyp_cpu_limit limit, const hyp_cpu_kernels **out, hyp_diag *diag);
/* All that this processor has, worst first, NULL-terminated: for tests. */
enum { HYP_CPU_KERNELS_MAX = 4 };
void hyp_cpu_kernels_list(const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX]);

#endif
