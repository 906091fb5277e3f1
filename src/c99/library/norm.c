#include "squares.c"

/* y = (x - mean) * inverse * scale + bias; scale and bias may be NULL. */
static void hyp_scale_row(long size, const float *x, float mean, float inverse, const float *scale, const float *bias,
                          float *y)
{
    if (scale && bias)
        for (long i = 0; i < size; i++) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
    else if (scale)
        for (long i = 0; i < size; i++) y[i] = (x[i] - mean) * inverse * scale[i];
    else
        for (long i = 0; i < size; i++) y[i] = (x[i] - mean) * inverse + (bias ? bias[i] : 0);
}
