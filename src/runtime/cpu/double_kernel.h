/* double_kernel.h - products of doubles. Included by kernels_<isa>.c alone, after vec.h. */
#ifndef HYP_RUNTIME_CPU_DOUBLE_KERNEL_H
#define HYP_RUNTIME_CPU_DOUBLE_KERNEL_H

#include "runtime/cpu/vector_kernels.h"

typedef double vd __attribute__((vector_size(HYP_VEC_BYTES)));
typedef double vd_any __attribute__((vector_size(HYP_VEC_BYTES), aligned(8), may_alias));

/* A panel is two vectors wide. Rows beyond the last are computed as that one. */
static void multiply_doubles(const double *a, int64_t row, int64_t column, int64_t rows, const double *panel, int64_t k,
                             double *out)
{
    const double *at[HYP_DOUBLE_ROWS];
    vd sums[HYP_DOUBLE_ROWS][2];
    UNROLL for (int i = 0; i < HYP_DOUBLE_ROWS; i++)
    {
        at[i] = a + (i < rows ? i : rows - 1) * row;
        sums[i][0] = sums[i][1] = (vd){0};
    }
    for (int64_t l = 0; l < k; l++, panel += W) {
        vd left = *(const vd_any *)panel, right = *(const vd_any *)(panel + W / 2);
        UNROLL for (int i = 0; i < HYP_DOUBLE_ROWS; i++)
        {
            vd x = at[i][l * column] - (vd){0};
            sums[i][0] += x * left;
            sums[i][1] += x * right;
        }
    }
    UNROLL for (int i = 0; i < HYP_DOUBLE_ROWS; i++)
    {
        *(vd_any *)(out + i * W) = sums[i][0];
        *(vd_any *)(out + i * W + W / 2) = sums[i][1];
    }
}

#endif
