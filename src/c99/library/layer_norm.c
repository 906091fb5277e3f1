#include "norm.c"
#include "sum.c"

/* Of x[rows, size]; means and inverses, one a row, may be NULL. */
static void hyp_layer_norm(long rows, long size, float epsilon, const float *x, const float *scale, const float *bias,
                           float *y, float *means, float *inverses)
{
    for (long r = 0; r < rows; r++) {
        const float *from = x + r * size;
        float mean = hyp_sum(from, size) / (float)size;
        float inverse = 1 / sqrtf(hyp_squares(from, size, mean) / (float)size + epsilon);
        hyp_scale_row(size, from, mean, inverse, scale, bias, y + r * size);
        if (means) means[r] = mean;
        if (inverses) inverses[r] = inverse;
    }
}
