/* work.c - how much calls have to do, by their attributes and the shapes of their arrays: the column `work` of
 * kernels.def. */
#include <math.h>

#include "kernels/resize.h"
#include "kernels/sample.h"

hyp_kernel_work_fn hyp_kernel_work_each, hyp_kernel_work_random_uniform, hyp_kernel_work_norm, hyp_kernel_work_lrn, hyp_kernel_work_topk,
    hyp_kernel_work_conv, hyp_kernel_work_conv_transpose, hyp_kernel_work_conv_backward_weights, hyp_kernel_work_pool,
    hyp_kernel_work_recurrence, hyp_kernel_work_resize, hyp_kernel_work_grid_sample, hyp_kernel_work_affine_grid,
    hyp_kernel_work_roi_align, hyp_kernel_work_attention_gradient, hyp_kernel_work_linear_gradient,
    hyp_kernel_work_non_max_suppression, hyp_kernel_work_unique, hyp_kernel_work_grid_sample_gradient,
    hyp_kernel_work_roi_align_gradient;

/* Elements of axes first .. rank of an array, in double, which cannot overflow. */
static double elements(const hyp_array *a, int32_t first)
{
    double n = a->dtype != HYP_DTYPE_NONE;
    for (int32_t i = first; i < a->rank; i++) n *= (double)a->dims[i];
    return n;
}

static double product(const hyp_kernel_attr *list)
{
    double n = 1;
    for (uint32_t i = 0; i < list->count; i++) n *= (double)list->ints[i];
    return n;
}

/* Every element of every array once. */
double hyp_kernel_work_each(const hyp_kernel_call *c)
{
    double n = 0;
    for (uint32_t i = 0; i < c->in_count; i++) n += elements(&c->in[i], 0);
    for (uint32_t i = 0; i < c->out_count; i++) n += elements(&c->out[i], 0);
    return n;
}

/* Ten rounds, of two wide products each, for every four elements. */
double hyp_kernel_work_random_uniform(const hyp_kernel_call *c) { return 20 * elements(&c->out[0], 0); }

/* The mean, the distance from it, its square; scaled and moved. */
double hyp_kernel_work_norm(const hyp_kernel_call *c) { return hyp_kernel_work_each(c) + 6 * elements(&c->in[0], 0); }

/* A square of each channel around, and a power. */
double hyp_kernel_work_lrn(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    double channels = x->rank > 1 ? (double)x->dims[1] : 0;
    return elements(x, 0) * (2 * fmin((double)c->attrs[0].i, channels) + 4);
}

/* Each element is compared, and sinks into a heap of k. */
double hyp_kernel_work_topk(const hyp_kernel_call *c)
{
    double k = c->attrs[1].count == 1 ? (double)c->attrs[1].ints[0] : 0;
    return (elements(&c->in[0], 0) + elements(&c->out[0], 0)) * (1 + 2 * log2(fmax(k, 1)));
}

/* Every result of w[out, in, window...] takes in x window products; with nothing coming in the window is still walked
 * through. */
double hyp_kernel_work_conv(const hyp_kernel_call *c)
{
    const hyp_array *w = &c->in[1];
    double in = w->rank > 1 ? fmax((double)w->dims[1], 1) : 0;
    return 2 * elements(&c->out[0], 0) * in * elements(w, 2);
}

/* Every element of x takes part in out x window of w[in, out, window...]. */
double hyp_kernel_work_conv_transpose(const hyp_kernel_call *c)
{
    return 2 * elements(&c->in[0], 0) * elements(&c->in[1], 1);
}

/* Every element of g takes part in in x window elements of the result [out, in, window...], each of which is written. */
double hyp_kernel_work_conv_backward_weights(const hyp_kernel_call *c)
{
    return 2 * elements(&c->in[1], 0) * elements(&c->out[0], 1) + elements(&c->out[0], 0);
}

double hyp_kernel_work_pool(const hyp_kernel_call *c) { return 2 * elements(&c->out[0], 0) * product(&c->attrs[0]); }

/* At each time of x[time, batch, gates * size] a product of each sequence with r[size, gates * size]. */
double hyp_kernel_work_recurrence(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    return x->rank == 3 ? 2 * (double)x->dims[0] * (double)x->dims[1] * elements(&c->in[1], 0) : 0;
}

/* One axis after the other: so many neighbours of each element that the axis has then. */
double hyp_kernel_work_resize(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    double count = elements(x, 0), work = elements(y, 0);
    for (int32_t a = 0; a < x->rank && a < y->rank && x->dims[a] > 0; a++) {
        double taps = (double)hyp_resize_taps(c, x->dims[a], y->dims[a]);
        count *= (double)y->dims[a] / (double)x->dims[a];
        work += (count + (double)y->dims[a]) * (2 * taps + 1); /* the sums, and the weights that all lines share */
    }
    return work;
}

/* So many neighbours, up to 4 along each axis, of a place. */
static double neighbours(const hyp_kernel_call *c)
{
    double taps = strcmp(c->attrs[0].sym, "nearest") == 0 ? 1 : strcmp(c->attrs[0].sym, "linear") == 0 ? 2 : 4;
    return pow(taps, fmax(c->in[0].rank - 2, 0));
}

/* A sum over the neighbours for every channel. */
double hyp_kernel_work_grid_sample(const hyp_kernel_call *c)
{
    return 2 * (elements(&c->out[0], 0) + elements(&c->in[1], 0)) * neighbours(c);
}

/* The same, by the grid for every axis; the sums of an image are cleared and rounded. */
double hyp_kernel_work_grid_sample_gradient(const hyp_kernel_call *c)
{
    double axes = strcmp(c->attrs[3].sym, "grid") == 0 ? fmax(c->in[0].rank - 2, 1) : 1;
    return 2 * (elements(&c->in[2], 0) + elements(&c->in[1], 0)) * neighbours(c) * axes + 2 * elements(&c->out[0], 0);
}

double hyp_kernel_work_affine_grid(const hyp_kernel_call *c) { return 8 * elements(&c->out[0], 0); }

/* Five products, of which those with scores are of all keys with each row. */
/* Every row of g and x is a product of each of its elements with each of the other's. */
double hyp_kernel_work_linear_gradient(const hyp_kernel_call *c)
{
    return 2 * elements(&c->in[0], 0) * elements(&c->in[1], 1) + elements(&c->in[0], 0) + elements(&c->out[0], 0);
}

double hyp_kernel_work_attention_gradient(const hyp_kernel_call *c)
{
    const hyp_array *q = &c->in[0], *v = &c->in[2];
    int32_t row = q->rank - 2 - (c->attrs[0].i != 0 && q->rank > 2);
    if (q->rank < 2 || v->rank != q->rank) return 0;
    double columns = (double)v->dims[v->rank - 1], both = 3 * (double)q->dims[q->rank - 1] + 2 * columns;
    return hyp_kernel_work_each(c) + 2 * elements(v, 0) / fmax(columns, 1) * (double)q->dims[row] * both;
}

/* Four neighbours of each sample. How many there are the attribute says, or else the data. */
double hyp_kernel_work_roi_align(const hyp_kernel_call *c)
{
    double samples = c->attrs[3].i > 0 ? (double)c->attrs[3].i : HYP_ROI_SAMPLES;
    return 8 * elements(&c->out[0], 0) * samples * samples;
}

double hyp_kernel_work_roi_align_gradient(const hyp_kernel_call *c)
{
    double samples = c->attrs[3].i > 0 ? (double)c->attrs[3].i : HYP_ROI_SAMPLES;
    return 8 * elements(&c->in[3], 0) * samples * samples + 2 * elements(&c->out[0], 0);
}

/* Each class of each image sorts its boxes, and compares them with those that it has taken. */
double hyp_kernel_work_non_max_suppression(const hyp_kernel_call *c)
{
    const hyp_array *boxes = &c->in[0];
    double n = boxes->rank == 3 ? (double)boxes->dims[1] : 0, images = boxes->rank == 3 ? (double)boxes->dims[0] : 0;
    double taken = c->out[0].rank == 2 ? fmin((double)c->out[0].dims[0] / fmax(images, 1), n) : 0;
    return elements(&c->in[1], 0) * (log2(fmax(n, 2)) + 16 * taken);
}

/* Items are sorted, and compared element by element. */
double hyp_kernel_work_unique(const hyp_kernel_call *c)
{
    double n = fmax(elements(&c->in[0], 0), elements(&c->out[2], 0));
    return hyp_kernel_work_each(c) + n * 2 * log2(fmax(n, 2));
}
