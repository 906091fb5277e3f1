/* panels.h - what a run computes as the weights of a layer: its panels, made in the run. */
#ifndef HYP_RUNTIME_CPU_PANELS_H
#define HYP_RUNTIME_CPU_PANELS_H

#include "runtime/cpu/cpu.h"

/* The panels of a layer of w[n, k], as hyp_cpu_pack_panels makes them, from a part of it that lies at `from`: columns from
 * `column` to `column_end`, for k from `depth` to `depth_end`, the next of which lie so many floats on. */
typedef struct hyp_panels_part {
    const float *from;
    int64_t column, column_end, column_step, depth, depth_end, depth_step;
} hyp_panels_part;

void hyp_panels_pack(const hyp_cpu_kernels *kernels, const hyp_panels_part *p, int64_t n, int64_t k, float *out);
/* 0 behind the columns of the last vector. */
void hyp_panels_clear_rest(const hyp_cpu_kernels *kernels, int64_t n, int64_t k, float *out);
/* y[rows, n] = x[rows, k] by the panels of a layer whose sums nothing follows, for up to HYP_MLP_ROWS rows. */
void hyp_panels_multiply(const hyp_cpu_kernels *kernels, const hyp_mlp_layer *layer, int64_t rows, const float *x,
                         int64_t x_stride, float *y, int64_t y_stride);

enum { HYP_PANELS_LINE = 16 /* floats, of a cache line and of the widest vector */ };

/* n floats up to whole lines. */
static inline int64_t hyp_panels_lines(int64_t n)
{
    return (n + HYP_PANELS_LINE - 1) / HYP_PANELS_LINE * HYP_PANELS_LINE;
}

/* n up to whole vectors. */
static inline int64_t hyp_panels_vectors(const hyp_cpu_kernels *kernels, int64_t n)
{
    return (n + kernels->width - 1) / kernels->width * kernels->width;
}

#endif
