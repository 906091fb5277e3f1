/* The roofline of attention and of its gradients: several products and what lies between them, in one kernel or two. */
#include <math.h>

#include "rewrite/internal.h"
#include "rewrite/roofline.h"

bool hyp_price_has_attention(const hyp_price *a)
{
    const hyp_type *q = a->q->inputs[0], *v = a->q->inputs[2];
    double widest = fmax(hyp_price_size(a, q->dims[q->rank - 1]), hyp_price_size(a, v->dims[v->rank - 1]));
    bool forward = a->q->op == HYP_OP_attention;
    double most = forward ? a->device->attention_widest : a->device->attention_gradient_widest;
    uint32_t types = forward ? a->device->attention_types : a->device->attention_gradient_types;
    return (most <= 0 || widest <= most) && (types >> q->dtype & 1);
}

/* The products and the softmax between them, one launch; q, k, v, the mask and the result move once, scores stay in the
 * cache. */
double hyp_price_attention(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_type *x = q->inputs[0], *v = q->inputs[2], *y = &q->outputs[0],
                   *mask = q->input_count > 3 ? q->inputs[3] : NULL;
    double rows = hyp_price_size(a, x->dims[x->rank - 2]), width = hyp_price_size(a, x->dims[x->rank - 1]);
    double keys = hyp_price_size(a, v->dims[v->rank - 2]), columns = hyp_price_size(a, v->dims[v->rank - 1]);
    double batch = hyp_price_elements(a, y) / fmax(1, rows * columns), scores = batch * rows * keys, of_softmax;
    double of_shape, hidden = scores * (double)hyp_dtype_size(y->dtype) / a->device->cache_bytes_per_second;
    double in = hyp_price_bytes(a, x) + hyp_price_bytes(a, q->inputs[1]),
           out = hyp_price_bytes(a, v) + hyp_price_bytes(a, y);
    hyp_roofline line = *a->line;
    line.tf32 = false; /* its kernels do not round to it */
    const hyp_price full = {q, &line, a->device, NULL};
    double score = fmax(hyp_price_computing(&full, 2 * scores * width, y->dtype), hyp_price_moving(a, in, in) + hidden);
    double mix =
        fmax(hyp_price_computing(&full, 2 * scores * columns, y->dtype), hyp_price_moving(a, out, out) + hidden);
    double weight = hyp_price_weight(HYP_OP_exp) + 3 + (mask != NULL);
    double softmax = fmax(scores * weight / a->device->pointwise_per_second,
                          hyp_price_moving(a, hyp_price_bytes(a, mask), in) + 2 * hidden);
    if (q->attrs[5].i == 0) softmax = 0; /* scores are weights as they are */
    const double shape[] = {batch, rows, keys, width};
    hyp_price_note_share(a, HYP_OP_attention, y->dtype, shape);
    if (hyp_measured_ratio(a->device, HYP_OP_attention, y->dtype, shape, &of_shape))
        return (a->device->launch_seconds + score + mix + softmax) * of_shape;
    hyp_measured_ratio(a->device, HYP_OP_softmax, y->dtype, (const double[]){scores, keys}, &of_softmax);
    score *= hyp_price_ratio(a, HYP_OP_matmul, y->dtype, (const double[]){batch, rows, keys, width});
    mix *= hyp_price_ratio(a, HYP_OP_matmul, y->dtype, (const double[]){batch, rows, columns, keys});
    return a->device->launch_seconds + score + mix + softmax * of_softmax;
}

/* Products, each of rows with keys, and what becomes of scores between them, a softmax and its gradient; little moves.
 */
double hyp_price_attention_gradient(const hyp_price *a)
{
    const hyp_type *x = a->q->inputs[0], *v = a->q->inputs[2];
    const hyp_device_profile *d = a->device;
    int32_t row = x->rank - (a->q->attrs[0].i ? 3 : 2), last = x->rank - 1;
    double rows = hyp_price_size(a, x->dims[row]), keys = hyp_price_size(a, v->dims[row]),
           width = hyp_price_size(a, x->dims[last]);
    const double shape[] = {hyp_price_elements(a, x) / fmax(1, rows * width), rows, keys, width};
    double scores = shape[0] * rows * keys,
           count = d->attention_gradient_products > 0 ? d->attention_gradient_products : 5;
    double of_shape,
        products = hyp_price_computing(a, count * scores * (width + hyp_price_size(a, v->dims[last])), x->dtype);
    double between = scores * (count / 5 * (hyp_price_weight(HYP_OP_exp) + 3) + 4) / d->pointwise_per_second;
    if (!hyp_measured_ratio(d, HYP_OP_attention_gradient, x->dtype, shape, &of_shape))
        hyp_measured_ratio(d, HYP_OP_attention, x->dtype, shape, &of_shape);
    return (2 * d->launch_seconds + products + between) * of_shape;
}
