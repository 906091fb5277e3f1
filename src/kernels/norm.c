/* Normalization along axes. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

hyp_kernel_fn hyp_kernel_layer_norm, hyp_kernel_layer_norm_stats, hyp_kernel_rms_norm, hyp_kernel_norm_gradient,
    hyp_kernel_softmax_gradient, hyp_kernel_lrn;

/* Inputs from `first` on have an element for each of a row. */
static hyp_status find_rows(const hyp_kernel_call *c, uint32_t first, int64_t *rows, int64_t *size)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int32_t axis;
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, &axis));
    if (!hyp_array_same_shape(x, y) || x->dtype != y->dtype || !hyp_array_is_float(x))
        return hyp_kernel_fail(c, "the result is of another type");
    *rows = *size = 1;
    for (int32_t i = 0; i < x->rank; i++) *(i < axis ? rows : size) *= x->dims[i];
    for (uint32_t i = first; i < c->in_count; i++) {
        const hyp_array *a = hyp_kernel_input(c, i);
        if (a && (a->count != *size || !hyp_array_is_float(a)))
            return hyp_kernel_fail(c, "input %u has %lld elements, wanted %lld", i, (long long)a->count,
                                   (long long)*size);
    }
    for (uint32_t i = 1; i < c->out_count; i++)
        if (c->out[i].count != *rows || !hyp_array_is_float(&c->out[i]))
            return hyp_kernel_fail(c, "output %u does not have one element for each row", i);
    if (x->count == 0 && c->out_count == 1) *rows = 0; /* however many rows of nothing there are */
    return HYP_OK;
}

hyp_status hyp_kernel_norm_rows(const hyp_kernel_call *c, int64_t *rows, int64_t *size)
{
    return find_rows(c, 1, rows, size);
}

static double scaled(const hyp_kernel_call *c, int64_t i, double v)
{
    const hyp_array *scale = hyp_kernel_input(c, 1), *bias = hyp_kernel_input(c, 2);
    if (scale) v *= hyp_array_f64(scale, i);
    return bias ? v + hyp_array_f64(bias, i) : v;
}

hyp_status hyp_kernel_layer_norm(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    int64_t rows, size;
    HYP_TRY(hyp_kernel_norm_rows(c, &rows, &size));
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < size; i++) sum += hyp_array_f64(x, r * size + i);
        double mean = sum / (double)size;
        for (int64_t i = 0; i < size; i++) {
            double d = hyp_array_f64(x, r * size + i) - mean;
            squares += d * d;
        }
        double inverse = 1 / sqrt(squares / (double)size + c->attrs[1].f);
        for (int64_t i = 0; i < size; i++)
            hyp_array_set_f64(&c->out[0], r * size + i, scaled(c, i, (hyp_array_f64(x, r * size + i) - mean) * inverse));
        if (c->out_count > 1) hyp_array_set_f64(&c->out[1], r, mean);
        if (c->out_count > 2) hyp_array_set_f64(&c->out[2], r, inverse);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_layer_norm_stats(const hyp_kernel_call *c) { return hyp_kernel_layer_norm(c); }

hyp_status hyp_kernel_rms_norm(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    int64_t rows, size;
    HYP_TRY(hyp_kernel_norm_rows(c, &rows, &size));
    for (int64_t r = 0; r < rows; r++) {
        double squares = 0;
        for (int64_t i = 0; i < size; i++) {
            double v = hyp_array_f64(x, r * size + i);
            squares += v * v;
        }
        double inverse = 1 / sqrt(squares / (double)size + c->attrs[1].f);
        for (int64_t i = 0; i < size; i++)
            hyp_array_set_f64(&c->out[0], r * size + i, scaled(c, i, hyp_array_f64(x, r * size + i) * inverse));
    }
    return HYP_OK;
}

/* ---- gradients -------------------------------------------------------------------------------------- */

static hyp_status want_like_x(const hyp_kernel_call *c, const hyp_array *a)
{
    const hyp_array *x = &c->in[0];
    if (a && hyp_array_same_shape(x, a) && x->dtype == a->dtype && hyp_array_is_float(x)) return HYP_OK;
    return hyp_kernel_fail(c, "gradients are not of the type of x");
}

hyp_status hyp_kernel_norm_gradient_rows(const hyp_kernel_call *c, int64_t *rows, int64_t *size, bool *by_scale)
{
    HYP_TRY(find_rows(c, 2, rows, size));
    HYP_TRY(want_like_x(c, hyp_kernel_input(c, 1)));
    *by_scale = strcmp(c->attrs[3].sym, "scale") == 0;
    if (!*by_scale && strcmp(c->attrs[3].sym, "x") != 0)
        return hyp_kernel_fail(c, "by '%s': x or scale is wanted", c->attrs[3].sym);
    if (*by_scale && hyp_kernel_input(c, 2)) return hyp_kernel_fail(c, "the gradient by the scale takes none");
    return HYP_OK;
}

/* With h = (x - mean) / deviation and s = g scale: by x (s - mean of s - h mean of (s h)) / deviation, where the means of
 * x and s are 0 unless centred; by the scale g h. */
hyp_status hyp_kernel_norm_gradient(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *g = &c->in[1], *scale = hyp_kernel_input(c, 2);
    bool centred = c->attrs[2].i != 0, by_scale;
    int64_t rows, size;
    HYP_TRY(hyp_kernel_norm_gradient_rows(c, &rows, &size, &by_scale));
    double n = (double)size;
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, squares = 0, sum = 0, along = 0; /* of s, of s h */
        for (int64_t i = 0; centred && i < size; i++) mean += hyp_array_f64(x, r * size + i);
        mean /= n;
        for (int64_t i = 0; i < size; i++) {
            double d = hyp_array_f64(x, r * size + i) - mean;
            squares += d * d;
        }
        double inverse = 1 / sqrt(squares / n + c->attrs[1].f);
        for (int64_t i = 0; i < size && !by_scale; i++) {
            double s = hyp_array_f64(g, r * size + i) * (scale ? hyp_array_f64(scale, i) : 1);
            sum += centred ? s : 0;
            along += s * (hyp_array_f64(x, r * size + i) - mean) * inverse;
        }
        for (int64_t i = 0; i < size; i++) {
            double s = hyp_array_f64(g, r * size + i) * (scale ? hyp_array_f64(scale, i) : 1);
            double h = (hyp_array_f64(x, r * size + i) - mean) * inverse;
            hyp_array_set_f64(&c->out[0], r * size + i, by_scale ? s * h : inverse * (s - sum / n - h * (along / n)));
        }
    }
    return HYP_OK;
}

hyp_status hyp_kernel_softmax_gradient_rows(const hyp_kernel_call *c, int64_t *outer, int64_t *size, int64_t *inner)
{
    int32_t axis;
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, c->in[0].rank, &axis));
    HYP_TRY(want_like_x(c, &c->in[1]));
    HYP_TRY(want_like_x(c, &c->out[0]));
    hyp_array_split(&c->in[0], axis, outer, size, inner);
    if (c->in[0].count == 0) *outer = 0; /* however many rows of nothing there are */
    return HYP_OK;
}

hyp_status hyp_kernel_softmax_gradient(const hyp_kernel_call *c)
{
    const hyp_array *y = &c->in[0], *g = &c->in[1];
    int64_t outer, size, inner;
    HYP_TRY(hyp_kernel_softmax_gradient_rows(c, &outer, &size, &inner));
    for (int64_t row = 0; row < outer * inner; row++) {
        int64_t start = row / inner * size * inner + row % inner;
        double sum = 0;
        for (int64_t i = start; i < start + size * inner; i += inner) sum += hyp_array_f64(y, i) * hyp_array_f64(g, i);
        for (int64_t i = start; i < start + size * inner; i += inner)
            hyp_array_set_f64(&c->out[0], i, hyp_array_f64(y, i) * (hyp_array_f64(g, i) - sum));
    }
    return HYP_OK;
}

hyp_status hyp_kernel_read_lrn(const hyp_kernel_call *c, int64_t *channels, int64_t *inner)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int64_t outer;
    if (x->rank < 2 || c->attrs[0].i < 1 || !hyp_array_same_shape(x, y) || x->dtype != y->dtype || !hyp_array_is_float(x))
        return hyp_kernel_fail(c, "tensors that do not fit");
    hyp_array_split(x, 1, &outer, channels, inner);
    return HYP_OK;
}

/* x / (bias + alpha / size * sum of squares over `size` channels around)^beta; attrs: size alpha beta bias. */
hyp_status hyp_kernel_lrn(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int64_t size = c->attrs[0].i, channels, inner;
    HYP_TRY(hyp_kernel_read_lrn(c, &channels, &inner));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t channel = i / inner % channels, first = i - channel * inner;
        int64_t low = channel - (size - 1) / 2, high = channel + size / 2;
        double squares = 0;
        for (int64_t j = low < 0 ? 0 : low; j <= high && j < channels; j++) {
            double v = hyp_array_f64(x, first + j * inner);
            squares += v * v;
        }
        double scale = c->attrs[3].f + c->attrs[1].f / (double)size * squares;
        hyp_array_set_f64(y, i, hyp_array_f64(x, i) / pow(scale, c->attrs[2].f));
    }
    return HYP_OK;
}
