#include "norm.c"

/* Of x[rows, size]. */
static void hyp_rms_norm(long rows, long size, float epsilon, const float *x, const float *scale, float *y)
{
    for (long r = 0; r < rows; r++) {
        const float *from = x + r * size;
        float inverse = 1 / sqrtf(hyp_squares(from, size, 0) / (float)size + epsilon);
        hyp_scale_row(size, from, 0, inverse, scale, 0, y + r * size);
    }
}
