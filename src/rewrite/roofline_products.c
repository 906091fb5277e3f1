/* The roofline of products: of matrices, alone and in layers, of convolutions and of recurrences, with what their
 * kernels do beside. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"
#include "rewrite/roofline.h"

/* An activation on the result of a product: part of its kernel where the device can do that, else a pass after it,
 * whose launch takes `launch`. */
static double activation(const hyp_price *a, const char *name, double count, hyp_dtype t, double launch)
{
    hyp_op op;
    int act = hyp_rw_epilogue_find(name, &op);
    if (act <= 0) return 0; /* none, and relu6, which rides along as a relu does */
    double of_shape, simple = count / a->device->pointwise_per_second;
    uint32_t in_kernel = a->device->epilogue_acts | (t == HYP_BF16 ? a->device->epilogue_acts_bf16 : 0);
    hyp_measured_ratio(a->device, op, t, &count, &of_shape);
    double alone = of_shape * hyp_price_pass(a, count, 2 * count * (double)hyp_dtype_size(t), hyp_price_weight(op));
    if (in_kernel >> act & 1)
        return fmin(fmax(0, hyp_price_work(a, op, t, count) - simple), alone); /* a maximum with 0 rides along */
    return alone - a->device->launch_seconds + launch;
}

/* A tensor added to the result of a product: read by the product's kernel where that can add it, which saves at least
 * half of what a pass moves, else in a pass. */
static double sum(const hyp_price *a, const char *place, const hyp_type *added, double count)
{
    double size = hyp_price_bytes(a, added), of_shape;
    bool in_kernel = strcmp(place, "before") == 0 || a->device->add_after_act;
    hyp_measured_ratio(a->device, HYP_OP_add, added->dtype, &count, &of_shape);
    double alone = of_shape * hyp_price_pass(a, count, 3 * size, 1);
    return in_kernel ? fmin(fmax(count / a->device->pointwise_per_second, hyp_price_moving(a, size, size)), alone / 2)
                     : alone;
}

/* What a product takes more whose operands a [m k] and b and result y have rows of these sizes in memory: it computes
 * several times as long, or copies are made that fit. */
static double misaligned(const hyp_price *a, hyp_dtype t, double seconds, const double rows[3],
                         const double elements[3])
{
    const hyp_device_profile *d = a->device;
    double each = 16 / (double)hyp_dtype_size(t), copies = 0;
    if (d->misaligned_products <= 1 || !(t == HYP_F16 || t == HYP_BF16 || (t == HYP_F32 && a->line->tf32))) return 0;
    for (int i = 0; i < 3; i++) {
        double size = 2 * elements[i] * (double)hyp_dtype_size(t);
        if (fmod(rows[i], each) != 0) copies += d->next_launch_seconds + hyp_price_moving(a, size, size);
    }
    return fmin(copies, (d->misaligned_products - 1) * seconds);
}

/* What of a product, which computes for so long and moves for so long, is waiting for weights that are in no near cache. */
static double waiting_of(const hyp_price *a, double computing, double memory, double weights)
{
    return fmax(0, memory - fmax(computing, memory - hyp_price_waiting_weights(a, weights)));
}

/* One product x[m k] w[n k]^T + b without its launch: `moved` bytes of x and y in memory, `hidden` bytes of them in
 * the cache. *out_waiting is the part of it that is waiting for weights, where that does not hide behind computing. */
static double product(const hyp_price *a, const hyp_type *w, const hyp_type *b, double m, double moved, double hidden,
                      double *out_waiting)
{
    double weights = hyp_price_bytes(a, w) + hyp_price_bytes(a, b), n = hyp_price_size(a, w->dims[0]),
           k = hyp_price_size(a, w->dims[1]);
    double seconds = hyp_price_computing(a, 2 * m * n * k, w->dtype);
    seconds += misaligned(a, w->dtype, seconds, (const double[]){k, k, n}, (const double[]){m * k, n * k, m * n});
    double memory = hyp_price_reading_weights(a, weights) + hyp_price_moving(a, moved, weights + moved) +
                    hidden / a->device->cache_bytes_per_second;
    *out_waiting = waiting_of(a, seconds, memory, weights);
    return fmax(seconds, memory);
}

/* A layer by itself, without what it has beside its product. */
static double layer(const hyp_price *a, double *out_m, double *out_waiting)
{
    const hyp_cost_query *q = a->q;
    const hyp_type *w = q->inputs[0], *x = q->inputs[q->input_count - 1], *y = &q->outputs[0];
    double n = hyp_price_size(a, w->dims[0]);
    *out_m = n > 0 ? hyp_price_elements(a, y) / n : 0;
    return a->device->launch_seconds +
           product(a, w, q->inputs[1], *out_m, hyp_price_bytes(a, x) + hyp_price_bytes(a, y), 0, out_waiting);
}

double hyp_price_linear_waiting(const hyp_price *a)
{
    double m, waiting;
    layer(a, &m, &waiting);
    return waiting;
}

double hyp_price_linear(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_attr *attrs = q->op == HYP_OP_quantized_linear ? q->attrs + 2 : q->attrs; /* act, add */
    bool adds = q->op == HYP_OP_fused_linear_add || (q->op == HYP_OP_quantized_linear && q->inputs[2]);
    const hyp_type *w = q->inputs[0], *y = &q->outputs[0];
    double count = hyp_price_elements(a, y), m, waiting, seconds = layer(a, &m, &waiting);
    const double shape[] = {m, hyp_price_size(a, w->dims[0]), hyp_price_size(a, w->dims[1])};
    seconds = (seconds - waiting) * hyp_price_ratio(a, HYP_OP_linear, w->dtype, shape) + waiting;
    if (q->op != HYP_OP_linear) seconds += activation(a, attrs[0].sym, count, y->dtype, a->device->launch_seconds);
    if (adds) seconds += sum(a, attrs[1].sym, q->inputs[2], count);
    return seconds;
}

/* Where a device runs the layers in one kernel, a block of rows goes through all of them: one launch, and hidden
 * values move at the speed of the cache. Elsewhere every layer is a kernel; what is saved is that the layers
 * follow each other without anything between them, a small part of a launch. What was measured of single layers goes
 * for those of the chain, so that a chain never costs more than its layers. */
double hyp_price_mlp(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_type *x = q->inputs[q->input_count - 1], *y = &q->outputs[0];
    uint32_t layers = q->attrs[0].count;
    double size = (double)hyp_dtype_size(y->dtype), k = x->rank ? hyp_price_size(a, x->dims[x->rank - 1]) : 1;
    double m = k > 0 ? hyp_price_elements(a, x) / k : 0, in = hyp_price_bytes(a, x), seconds = 0;
    bool one = a->device->mlp_in_one_kernel;
    for (uint32_t i = 0; i < layers; i++) {
        const hyp_type *w = q->inputs[2 * i], *b = q->inputs[2 * i + 1];
        double n = hyp_price_size(a, w->dims[0]), out = m * n * size;
        bool first = i == 0, last = i + 1 == layers;
        double hidden = one ? (first ? 0 : in) + (last ? 0 : out) : 0;
        double launch = !one ? a->device->next_launch_seconds : first ? a->device->launch_seconds : 0;
        double waiting, all = launch + product(a, w, b, m, in + out - hidden, hidden, &waiting);
        const double shape[] = {m, n, hyp_price_size(a, w->dims[1])};
        seconds += (all - waiting) * hyp_price_ratio(a, HYP_OP_linear, w->dtype, shape) + waiting;
        seconds += activation(a, q->attrs[0].syms[i], m * n, y->dtype, a->device->launch_seconds);
        in = out;
    }
    return seconds;
}

/* The same of a convolution. Where none was measured it is a product, unless there are groups, and the gradient by the
 * weights is like the convolution. */
static double convolution_ratio(const hyp_price *a, hyp_op op, hyp_dtype t, const double *shape)
{
    double out = 1;
    hyp_price_note_share(a, op, t, shape);
    if (a->line->tf32 && t == HYP_F32) return out;
    if (op == HYP_OP_conv_backward_weights) {
        if (hyp_measured_ratio(a->device, op, t, shape, &out)) return out;
        op = HYP_OP_conv;
    }
    if (!hyp_measured_ratio(a->device, op, t, shape, &out) && shape[4] == 1 && op == HYP_OP_conv)
        hyp_measured_ratio(a->device, HYP_OP_linear, t, (const double[]){shape[0], shape[1], shape[2] * shape[3]},
                           &out);
    return out;
}

/* A convolution multiplies every result by the weights of its channel, the transpose of one every element of x, and the
 * gradient by the weights, which are its result, every element of the gradient by what the convolution gives. */
double hyp_price_convolution(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    bool transpose = q->op == HYP_OP_conv_transpose, backward = q->op == HYP_OP_conv_backward_weights;
    const hyp_type *y = &q->outputs[0], *w = backward ? y : q->inputs[1];
    const hyp_type *of = transpose ? q->inputs[0] : backward ? q->inputs[1] : y; /* a channel a filter */
    const hyp_type *other = transpose ? y : q->inputs[0];
    const hyp_type *added = q->op == HYP_OP_conv && q->input_count > 3 ? q->inputs[3] : NULL;
    double filters = fmax(1, hyp_price_size(a, w->dims[0])), in = fmax(1, hyp_price_size(a, w->dims[1]));
    double taps = hyp_price_elements(a, w) / (filters * in), groups = hyp_price_size(a, other->dims[1]) / in;
    double weights = backward ? 0 : hyp_price_bytes(a, w),
           moved = hyp_price_inputs(a) - weights - hyp_price_bytes(a, added) + hyp_price_outputs(a);
    double waiting = hyp_price_away(a, moved, weights + moved);
    double seconds = a->device->launch_seconds + waiting +
                     fmax(hyp_price_computing(a, 2 * hyp_price_elements(a, of) * in * taps, w->dtype),
                          hyp_price_reading_weights(a, weights) + hyp_price_moving(a, moved, weights + moved) - waiting);
    const double places = hyp_price_elements(a, of) / filters,
                 shape[] = {places, filters, in, taps, groups, hyp_price_product(a, &q->attrs[0])};
    seconds *= convolution_ratio(a, q->op, w->dtype, shape);
    if (q->op != HYP_OP_conv) return seconds;
    double count = hyp_price_elements(a, y);
    if (added) seconds += sum(a, "before", added, count);
    /* Of what is no part of the kernel one may be a pass, but never more than a node of its own. */
    bool inside = in == 1 && groups > 1 && a->device->depthwise_ends_in_acts;
    return seconds + (inside ? 0 : activation(a, q->attrs[4].sym, count, y->dtype, a->device->next_launch_seconds));
}

double hyp_price_matmul(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_type *x = q->inputs[0], *y = &q->outputs[0];
    bool trans = q->attrs[0].i != 0 && x->rank > 1;
    double k = x->rank ? hyp_price_size(a, x->dims[x->rank - (trans ? 2 : 1)]) : 1;
    bool constant = q->input_const && q->input_const[1];
    double weights = constant ? hyp_price_bytes(a, q->inputs[1]) : 0;
    double moved = hyp_price_bytes(a, x) + hyp_price_bytes(a, q->inputs[1]) - weights + hyp_price_bytes(a, y);
    double n = y->rank > 1 ? hyp_price_size(a, y->dims[y->rank - 1]) : 1;
    double rows = y->rank > 1 ? hyp_price_size(a, y->dims[y->rank - 2]) : 1;
    const double row[3] = {trans ? rows : k, q->attrs[1].i && q->inputs[1]->rank > 1 ? k : n, n};
    bool layer = constant && q->inputs[1]->rank <= 2 && !trans; /* runs as one */
    double computed = hyp_price_elements(a, y), at_once = a->device->columns_at_once;
    if (at_once > 1 && !layer) computed *= ceil(n / at_once) * at_once / fmax(1, n);
    double seconds = hyp_price_computing(a, 2 * computed * k, y->dtype);
    seconds += misaligned(
        a, y->dtype, seconds, row,
        (const double[]){hyp_price_elements(a, x), hyp_price_elements(a, q->inputs[1]), hyp_price_elements(a, y)});
    double memory = hyp_price_reading_weights(a, weights) + hyp_price_moving(a, moved, weights + moved);
    double waiting = layer ? waiting_of(a, seconds, memory, weights) : 0;
    seconds = a->device->launch_seconds + fmax(seconds, memory) - waiting;
    double batch = hyp_price_elements(a, y) / fmax(1, rows * n);
    seconds *= layer ? hyp_price_ratio(a, HYP_OP_linear, y->dtype, (const double[]){batch * rows, n, k})
                     : hyp_price_ratio(a, HYP_OP_matmul, y->dtype, (const double[]){batch, rows, n, k});
    seconds += waiting;
    if (q->op == HYP_OP_gemm && q->input_count > 2 && q->inputs[2]) /* runs as a product and an addition */
        seconds += hyp_price_pass(a, hyp_price_elements(a, y),
                                  2 * hyp_price_bytes(a, y) + hyp_price_bytes(a, q->inputs[2]), 1);
    return seconds;
}

/* The product, and sums in its epilogue. */
double hyp_price_linear_gradient(const hyp_price *a)
{
    const hyp_type *g = a->q->inputs[0], *x = a->q->inputs[1];
    const bool turned = a->q->attrs[0].i != 0;
    const hyp_attr attrs[] = {hyp_attr_of_int(1), hyp_attr_of_int(0), {.kind = HYP_ATTR_FLOAT, .f = 1}};
    const hyp_type *factors[] = {turned ? x : g, turned ? g : x};
    const hyp_cost_query product = {.op = HYP_OP_matmul,
                                    .attrs = attrs,
                                    .inputs = factors,
                                    .input_count = 2,
                                    .outputs = &a->q->outputs[0],
                                    .output_count = 1,
                                    .dims = a->q->dims};
    const hyp_dim first = 0;
    const hyp_attr rows = {.kind = HYP_ATTR_DIMS, .count = 1, .dims = &first};
    const hyp_cost_query sums = {.op = HYP_OP_reduce_sum,
                                 .attrs = &rows,
                                 .inputs = &g,
                                 .input_count = 1,
                                 .outputs = &a->q->outputs[1],
                                 .output_count = 1,
                                 .dims = a->q->dims};
    const hyp_price of_product = {&product, a->line, a->device, a->share},
                    of_sums = {&sums, a->line, a->device, NULL};
    return hyp_price_matmul(&of_product) + a->device->sums_in_products * hyp_price_kernel(&of_sums);
}

/* For each point in time a product of the states with r, which waits for the one before, and the functions of the
 * gates. */
double hyp_price_recurrence(const hyp_price *a)
{
    const hyp_type *x = a->q->inputs[0], *r = a->q->inputs[1];
    double time = hyp_price_size(a, x->dims[0]), batch = hyp_price_size(a, x->dims[1]),
           size = hyp_price_size(a, r->dims[0]);
    double gates = hyp_price_elements(a, r) / fmax(1, size), weights = hyp_price_bytes(a, r),
           moved = hyp_price_inputs(a) - weights + hyp_price_outputs(a);
    double step = fmax(hyp_price_computing(a, 2 * batch * hyp_price_elements(a, r), r->dtype),
                       hyp_price_moving(a, weights, weights)) *
                  hyp_price_ratio(a, HYP_OP_linear, r->dtype, (const double[]){batch, gates, size});
    return a->device->launch_seconds + time * step + hyp_price_work(a, HYP_OP_sigmoid, x->dtype, time * batch * gates) +
           hyp_price_moving(a, moved, moved);
}
