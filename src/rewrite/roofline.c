/* The roofline: what one kernel costs on a device. */
#include <math.h>
#include <string.h>

#include "base/elementwise.h"
#include "ir/window.h"
#include "rewrite/internal.h"
#include "rewrite/roofline.h"

/* A view is free; this much makes fewer of them better than more. */
#define VIEW_SECONDS 1e-12

/* ---- sizes ---------------------------------------------------------------------------------------- */

/* A dim as a number under the typical sizes of its symbols. */
double hyp_price_size(const hyp_price *a, hyp_dim d)
{
    if (hyp_dim_is_const(d)) return (double)d;
    int64_t value = HYP_TYPICAL_SIZE, *all = NULL;
    const int64_t *sizes = a->line->sizes;
    size_t known = a->line->size_count, count = hyp_dims_symbol_count(a->q->dims);
    if (known < count) {
        sizes = all = hyp_malloc(count * sizeof *all);
        if (!all) return HYP_TYPICAL_SIZE;
        for (size_t i = 0; i < count; i++) all[i] = i < known ? a->line->sizes[i] : HYP_TYPICAL_SIZE;
    }
    if (hyp_dim_eval(a->q->dims, d, sizes, &value, NULL) != HYP_OK) value = HYP_TYPICAL_SIZE;
    hyp_free(all);
    return (double)value;
}

double hyp_price_elements(const hyp_price *a, const hyp_type *t)
{
    double n = 1;
    for (int32_t i = 0; t && i < t->rank; i++) n *= hyp_price_size(a, t->dims[i]);
    return t ? n : 0;
}

/* 0 for an absent tensor. */
double hyp_price_bytes(const hyp_price *a, const hyp_type *t)
{
    return t ? hyp_price_elements(a, t) * (double)hyp_dtype_size(t->dtype) : 0;
}

static double all_inputs(const hyp_price *a)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->q->input_count; i++) sum += hyp_price_bytes(a, a->q->inputs[i]);
    return sum;
}

static double all_outputs(const hyp_price *a)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->q->output_count; i++) sum += hyp_price_bytes(a, &a->q->outputs[i]);
    return sum;
}

/* ---- time ----------------------------------------------------------------------------------------- */

/* Moving `traffic` bytes of a working set. */
double hyp_price_moving(const hyp_price *a, double traffic, double working_set)
{
    const hyp_device_profile *d = a->device;
    if (working_set <= d->cache_bytes) return traffic / d->cache_bytes_per_second;
    if (working_set <= d->last_cache_bytes) return traffic / d->last_cache_bytes_per_second;
    return traffic / d->bytes_per_second;
}

/* Which part of what was touched before as many bytes as `since` is in no cache any more. Where a profile says what
 * being far costs, caches shed little until half as much has gone through them as they hold, and all until it is twice
 * as much. */
static double lost(const hyp_device_profile *d, double since)
{
    double size = fmax(d->cache_bytes, d->last_cache_bytes);
    if (d->far_bytes_per_second == 0 || size == 0) return since > size;
    return fmin(1, fmax(0, (2 * since / size - 1) / 3));
}

double hyp_roofline_far(const hyp_roofline *roofline, double bytes, double since, double own)
{
    const hyp_device_profile *d = &roofline->profile;
    if (d->far_bytes_per_second == 0) return 0;
    return fmax(0, lost(d, since) - lost(d, own)) * bytes / d->far_bytes_per_second;
}

/* A kernel runs again when the run has gone over all constants of the model. */
static double far_launch(const hyp_roofline *line)
{
    return lost(&line->profile, line->constants) * line->profile.far_launch_seconds;
}

double hyp_roofline_launch(const hyp_roofline *roofline)
{
    return roofline->profile.launch_seconds + far_launch(roofline);
}

/* Reading weights that come round when so many bytes were gone over. */
static double reading(const hyp_price *a, double size, double round)
{
    const hyp_device_profile *d = a->device;
    double far = lost(d, round);
    double near = round <= d->cache_bytes || d->last_cache_bytes == 0 ? d->cache_bytes_per_second
                                                                      : d->last_cache_bytes_per_second;
    return size * ((1 - far) / near + far / d->bytes_per_second);
}

/* Reading those of a kernel alone, as it was measured: beside another one like it. */
static double reading_weights(const hyp_price *a, double size) { return reading(a, size, 2 * size); }

/* How much longer it takes in a run, which goes over all constants of the model before it comes back to these. */
static double far_weights(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    double more = 0;
    uint32_t first = q->op == HYP_OP_gather; /* of whose table some rows are read */
    for (uint32_t i = first; i < q->input_count; i++) {
        double size = q->input_const && q->input_const[i] ? hyp_price_bytes(a, q->inputs[i]) : 0;
        if (2 * size < a->line->constants) more += reading(a, size, a->line->constants) - reading_weights(a, size);
    }
    return more;
}

double hyp_price_computing(const hyp_price *a, double flops, hyp_dtype t)
{
    const hyp_device_profile *d = a->device;
    switch (t) {
    case HYP_F32: return flops / (a->line->tf32 ? d->flops_tf32 : d->flops_f32);
    case HYP_F16: return flops / d->flops_f16;
    case HYP_BF16: return flops / d->flops_bf16;
    case HYP_F8E4M3: return flops / d->flops_f8;
    case HYP_F64: return flops / d->flops_f64;
    case HYP_I32:
        if (d->flops_i32 > 0) return flops / d->flops_i32;
        break;
    default: break;
    }
    return flops / (2 * d->pointwise_per_second);
}

double hyp_roofline_full(const hyp_roofline *roofline, hyp_dtype dtype, double flops, double bytes)
{
    const hyp_price a = {NULL, roofline, &roofline->profile};
    return fmax(hyp_price_computing(&a, flops, dtype), bytes / a.device->bytes_per_second);
}

/* What measurements say of the roofline of a product, the shape as in hyp_measured; nothing where it runs in TF32,
 * which they do not know. */
double hyp_price_ratio(const hyp_price *a, hyp_op op, hyp_dtype t, const double *shape)
{
    double out = 1;
    if (!(a->line->tf32 && t == HYP_F32)) hyp_measured_ratio(a->device, op, t, shape, &out);
    return out;
}

/* Simple arithmetic counts as one; this is how much more a function takes. */
double hyp_price_weight(hyp_op op)
{
    switch (op) {
#define X(op, name, OP, number, act, weight, ...)                                                                      \
    case HYP_OP_##op: return weight;
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
#define X(op, OP, number, operands, weight)                                                                            \
    case HYP_OP_##op: return weight;
        HYP_PLAIN_OPS(X)
#undef X
    default: return 1;
    }
}

/* A kernel of its own that reads and writes every element once. */
static double pass(const hyp_price *a, double count, double traffic, double weight)
{
    return a->device->launch_seconds +
           fmax(count * weight / a->device->pointwise_per_second, hyp_price_moving(a, traffic, traffic));
}

/* The arithmetic of an operator alone. */
static double work(const hyp_price *a, hyp_op op, hyp_dtype t, double count)
{
    double element;
    if (hyp_measured_element(a->device, op, t, &element)) return count * element;
    if (t != HYP_F32 && hyp_measured_element(a->device, HYP_OP_add, t, &element))
        return count * element * hyp_price_weight(op);
    return count * hyp_price_weight(op) / a->device->pointwise_per_second;
}

/* An activation on the result of a product: part of its kernel where the device can do that, else a pass after it, whose
 * launch takes `launch`. */
static double activation(const hyp_price *a, const char *name, double count, hyp_dtype t, double launch)
{
    hyp_op op;
    int act = hyp_rw_epilogue_find(name, &op);
    if (act <= 0) return 0; /* none, and relu6, which rides along as a relu does */
    double of_shape, simple = count / a->device->pointwise_per_second;
    uint32_t in_kernel = a->device->epilogue_acts | (t == HYP_BF16 ? a->device->epilogue_acts_bf16 : 0);
    hyp_measured_ratio(a->device, op, t, &count, &of_shape);
    double alone = of_shape * pass(a, count, 2 * count * (double)hyp_dtype_size(t), hyp_price_weight(op));
    if (in_kernel >> act & 1) return fmin(fmax(0, work(a, op, t, count) - simple), alone); /* a maximum with 0 rides along */
    return alone - a->device->launch_seconds + launch;
}

/* A tensor added to the result of a product: read by the product's kernel where that can add it, which saves at least half of
 * what a pass moves, else in a pass. */
static double sum(const hyp_price *a, const char *place, const hyp_type *added, double count)
{
    double size = hyp_price_bytes(a, added), of_shape;
    bool in_kernel = strcmp(place, "before") == 0 || a->device->add_after_act;
    hyp_measured_ratio(a->device, HYP_OP_add, added->dtype, &count, &of_shape);
    double alone = of_shape * pass(a, count, 3 * size, 1);
    return in_kernel ? fmin(fmax(count / a->device->pointwise_per_second, hyp_price_moving(a, size, size)), alone / 2)
                     : alone;
}

/* What a product takes more whose operands a [m k] and b and result y have rows of these sizes in memory: it computes several
 * times as long, or copies are made that fit. */
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

/* One product x[m k] w[n k]^T + b without its launch: `moved` bytes of x and y in memory, `hidden` bytes of them in
 * the cache. */
static double product(const hyp_price *a, const hyp_type *w, const hyp_type *b, double m, double moved, double hidden)
{
    double weights = hyp_price_bytes(a, w) + hyp_price_bytes(a, b), n = hyp_price_size(a, w->dims[0]),
           k = hyp_price_size(a, w->dims[1]);
    double seconds = hyp_price_computing(a, 2 * m * n * k, w->dtype);
    seconds += misaligned(a, w->dtype, seconds, (const double[]){k, k, n}, (const double[]){m * k, n * k, m * n});
    return fmax(seconds, reading_weights(a, weights) + hyp_price_moving(a, moved, weights + moved) +
                             hidden / a->device->cache_bytes_per_second);
}

static double linear(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_attr *attrs = q->op == HYP_OP_quantized_linear ? q->attrs + 2 : q->attrs; /* act, add */
    bool adds = q->op == HYP_OP_fused_linear_add || (q->op == HYP_OP_quantized_linear && q->inputs[2]);
    const hyp_type *w = q->inputs[0], *x = q->inputs[q->input_count - 1], *y = &q->outputs[0];
    double count = hyp_price_elements(a, y), n = hyp_price_size(a, w->dims[0]), m = n > 0 ? count / n : 0;
    double seconds =
        a->device->launch_seconds + product(a, w, q->inputs[1], m, hyp_price_bytes(a, x) + hyp_price_bytes(a, y), 0);
    seconds *= hyp_price_ratio(a, HYP_OP_linear, w->dtype, (const double[]){m, n, hyp_price_size(a, w->dims[1])});
    if (q->op != HYP_OP_linear) seconds += activation(a, attrs[0].sym, count, y->dtype, a->device->launch_seconds);
    if (adds) seconds += sum(a, attrs[1].sym, q->inputs[2], count);
    return seconds;
}

/* Where a device runs the layers in one kernel, a block of rows goes through all of them: one launch, and hidden
 * values move at the speed of the cache. Elsewhere every layer is a kernel; what is saved is that the layers
 * follow each other without anything between them, a small part of a launch. What was measured of single layers goes
 * for those of the chain, so that a chain never costs more than its layers. */
static double fused_mlp(const hyp_price *a)
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
        seconds += (launch + product(a, w, b, m, in + out - hidden, hidden)) *
                   hyp_price_ratio(a, HYP_OP_linear, w->dtype, (const double[]){m, n, hyp_price_size(a, w->dims[1])});
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
    if (a->line->tf32 && t == HYP_F32) return out;
    if (op == HYP_OP_conv_backward_weights) {
        if (hyp_measured_ratio(a->device, op, t, shape, &out)) return out;
        op = HYP_OP_conv;
    }
    if (!hyp_measured_ratio(a->device, op, t, shape, &out) && shape[4] == 1 && op == HYP_OP_conv)
        hyp_measured_ratio(a->device, HYP_OP_linear, t, (const double[]){shape[0], shape[1], shape[2] * shape[3]}, &out);
    return out;
}

/* A convolution multiplies every result by the weights of its channel, the transpose of one every element of x, and the
 * gradient by the weights, which are its result, every element of the gradient by what the convolution gives. */
static double convolution(const hyp_price *a)
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
           moved = all_inputs(a) - weights - hyp_price_bytes(a, added) + all_outputs(a);
    double seconds =
        a->device->launch_seconds + fmax(hyp_price_computing(a, 2 * hyp_price_elements(a, of) * in * taps, w->dtype),
                                         reading_weights(a, weights) + hyp_price_moving(a, moved, weights + moved));
    seconds *= convolution_ratio(a, q->op, w->dtype,
                                 (const double[]){hyp_price_elements(a, of) / filters, filters, in, taps, groups});
    if (q->op != HYP_OP_conv) return seconds;
    double count = hyp_price_elements(a, y);
    if (added) seconds += sum(a, "before", added, count);
    /* Of what is no part of the kernel one may be a pass, but never more than a node of its own. */
    bool inside = in == 1 && groups > 1 && a->device->depthwise_ends_in_acts;
    return seconds + (inside ? 0 : activation(a, q->attrs[4].sym, count, y->dtype, a->device->next_launch_seconds));
}

static double matmul(const hyp_price *a)
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
    double seconds = hyp_price_computing(a, 2 * hyp_price_elements(a, y) * k, y->dtype);
    seconds += misaligned(
        a, y->dtype, seconds, row,
        (const double[]){hyp_price_elements(a, x), hyp_price_elements(a, q->inputs[1]), hyp_price_elements(a, y)});
    seconds = a->device->launch_seconds +
              fmax(seconds, reading_weights(a, weights) + hyp_price_moving(a, moved, weights + moved));
    bool layer = constant && q->inputs[1]->rank <= 2 && !trans; /* runs as one */
    double batch = hyp_price_elements(a, y) / fmax(1, rows * n);
    seconds *= layer ? hyp_price_ratio(a, HYP_OP_linear, y->dtype, (const double[]){batch * rows, n, k})
                     : hyp_price_ratio(a, HYP_OP_matmul, y->dtype, (const double[]){batch, rows, n, k});
    if (q->op == HYP_OP_gemm && q->input_count > 2 && q->inputs[2]) /* runs as a product and an addition */
        seconds += pass(a, hyp_price_elements(a, y), 2 * hyp_price_bytes(a, y) + hyp_price_bytes(a, q->inputs[2]), 1);
    return seconds;
}

static double one_kernel(const hyp_price *a);

/* The product, and sums in its epilogue: on an H200 they take 0.5 to 0.85 of the time that a kernel of their own does. */
static double linear_gradient(const hyp_price *a)
{
    const double share = 0.75;
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
    const hyp_cost_query sums = {.op = HYP_OP_reduce_sum,
                                 .inputs = &g,
                                 .input_count = 1,
                                 .outputs = &a->q->outputs[1],
                                 .output_count = 1,
                                 .dims = a->q->dims};
    const hyp_price of_product = {&product, a->line, a->device}, of_sums = {&sums, a->line, a->device};
    return matmul(&of_product) + share * one_kernel(&of_sums);
}

/* For each point in time a product of the states with r, which waits for the one before, and the functions of the
 * gates. */
static double recurrence(const hyp_price *a)
{
    const hyp_type *x = a->q->inputs[0], *r = a->q->inputs[1];
    double time = hyp_price_size(a, x->dims[0]), batch = hyp_price_size(a, x->dims[1]),
           size = hyp_price_size(a, r->dims[0]);
    double gates = hyp_price_elements(a, r) / fmax(1, size), weights = hyp_price_bytes(a, r),
           moved = all_inputs(a) - weights + all_outputs(a);
    double step = fmax(hyp_price_computing(a, 2 * batch * hyp_price_elements(a, r), r->dtype),
                       hyp_price_moving(a, weights, weights)) *
                  hyp_price_ratio(a, HYP_OP_linear, r->dtype, (const double[]){batch, gates, size});
    return a->device->launch_seconds + time * step + work(a, HYP_OP_sigmoid, x->dtype, time * batch * gates) +
           hyp_price_moving(a, moved, moved);
}

double hyp_roofline_work(const hyp_cost_query *query, const hyp_roofline *roofline)
{
    hyp_price a = {query, roofline, &roofline->profile};
    return work(&a, query->op, query->outputs[0].dtype, hyp_price_elements(&a, &query->outputs[0]));
}

/* Elements of a window of a pool. */
static double taps_of(const hyp_price *a)
{
    double taps = 1;
    for (uint32_t i = 0; i < a->q->attrs[0].count; i++) taps *= hyp_price_size(a, a->q->attrs[0].dims[i]);
    return taps;
}

/* Sizes of the axes of x from one on, which counts from the end where it is below 0, or of that one alone. */
static double axes_of(const hyp_price *a, const hyp_type *x, int64_t axis, bool alone)
{
    int64_t first = axis < 0 ? axis + x->rank : axis, end = alone ? first + 1 : x->rank;
    double n = 1;
    for (int64_t i = first; i >= 0 && i < end && i < x->rank; i++) n *= hyp_price_size(a, x->dims[i]);
    return n;
}

/* Elements that a transpose leaves side by side. */
static double run_of(const hyp_price *a)
{
    const hyp_attr *perm = &a->q->attrs[0];
    double run = 1;
    for (uint32_t i = perm->count; i > 0 && perm->dims[i - 1] == i - 1; i--)
        run *= hyp_price_size(a, a->q->inputs[0]->dims[i - 1]);
    return run;
}

/* The second size of the shape of a measurement; 1 where it has none. */
static double second_size(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    switch (q->op) {
    case HYP_OP_max_pool:
    case HYP_OP_average_pool: return taps_of(a);
    case HYP_OP_softmax:
    case HYP_OP_softmax_gradient: return axes_of(a, q->inputs[0], q->attrs[0].i, true);
    case HYP_OP_norm_gradient:
    case HYP_OP_layer_norm:
    case HYP_OP_rms_norm: return axes_of(a, q->inputs[0], q->attrs[0].i, false);
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean:
        return hyp_price_elements(a, q->inputs[0]) / fmax(1, hyp_price_elements(a, &q->outputs[0]));
    case HYP_OP_transpose: return run_of(a);
    case HYP_OP_scatter_nd: {
        const hyp_type *indices = q->inputs[1];
        return hyp_price_elements(a, indices) /
               fmax(1, indices->rank ? hyp_price_size(a, indices->dims[indices->rank - 1]) : 1);
    }
    default: return 1;
    }
}

/* What moves or computes every element about once. */
static double one_pass(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    double out = all_outputs(a), in = all_inputs(a),
           count = q->output_count ? hyp_price_elements(a, &q->outputs[0]) : 0;
    switch (q->op) {
    case HYP_OP_softmax: return pass(a, count, 2 * in + out, hyp_price_weight(HYP_OP_exp) + 3);
    case HYP_OP_gather_elements:
    case HYP_OP_gather_nd: return pass(a, 0, 2 * out + hyp_price_bytes(a, q->inputs[1]), 0); /* of x what is taken */
    case HYP_OP_softmax_stats:
        return pass(a, hyp_price_elements(a, q->inputs[0]), in + out, hyp_price_weight(HYP_OP_exp) + 2);
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean: return pass(a, hyp_price_elements(a, q->inputs[0]), in + out, 1);
    case HYP_OP_batch_norm_stats: return pass(a, hyp_price_elements(a, q->inputs[0]), in + out, 3);
    case HYP_OP_batch_norm_gradient: return pass(a, hyp_price_elements(a, q->inputs[0]), in + out, 4);
    case HYP_OP_max_pool_gradient: return pass(a, count, in + out, 4);
    case HYP_OP_max_pool:
    case HYP_OP_average_pool: return pass(a, count * taps_of(a), in + out, 1);
    default: break;
    }
    if (hyp_op_get(q->op)->flags & HYP_OPF_COPY) {
        double launches = q->output_count > 1 ? q->output_count : 1; /* a split: a copy each; those of a concat run as one */
        double read = q->op == HYP_OP_gather ? out + hyp_price_bytes(a, q->inputs[1]) : out;
        return pass(a, 0, read + out, 0) + (launches - 1) * a->device->launch_seconds;
    }
    double weight = hyp_price_weight(q->op), read = in;
    for (uint32_t i = 0; q->input_joined && i < q->input_count; i++)
        if (q->input_joined[i]) read -= hyp_price_bytes(a, q->inputs[i]);
    if (q->joined) return fmax(work(a, q->op, q->outputs[0].dtype, count), hyp_price_moving(a, read, in + out));
    return pass(a, count, read + out, weight);
}

/* Does it take parts of its input that lie there as they are? */
static bool cuts_out(const hyp_cost_query *q)
{
    if (q->op != HYP_OP_slice) return q->op == HYP_OP_split;
    for (uint32_t i = 0; i < q->attrs[2].count; i++)
        if (q->attrs[2].dims[i] != 1) return false;
    return true;
}

/* Are all its results pieces of its input, of which a plan has no copies? */
static bool is_windows(const hyp_cost_query *q)
{
    int64_t first;
    for (uint32_t i = 0; i < q->output_count; i++)
        if (!hyp_is_window(q->op, q->attrs, q->inputs[0], &q->outputs[i], i, &first)) return false;
    return q->output_count > 0;
}

/* Are they some channels of images, which lie in one piece but not as a device's kernels of images have them? */
static bool cuts_channels(const hyp_cost_query *q)
{
    enum { AXES = 4 };
    for (uint32_t i = 0; i < q->output_count; i++)
        if (q->outputs[i].rank < AXES || q->outputs[i].dims[1] == q->inputs[0]->dims[1]) return false;
    return true;
}

/* The devices of a group meet, and send each other what they have. */
static double all_reduce(const hyp_price *a)
{
    const hyp_device_profile *d = a->device;
    if (d->all_reduce_bytes_per_second == 0) return one_pass(a);
    return d->all_reduce_seconds + all_inputs(a) / d->all_reduce_bytes_per_second;
}

/* An elementwise operator in its reader's kernel: no pass, such as was measured, and never more than one of its own. */
static double in_reader(const hyp_price *a)
{
    hyp_cost_query query = *a->q;
    hyp_price apart = {&query, a->line, a->device};
    query.joined = false;
    return fmin(one_pass(a), one_kernel(&apart));
}

static double one_kernel(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_device_profile *device = a->device;
    uint32_t flags = hyp_op_get(q->op)->flags;
    if (flags & HYP_OPF_VIEW) return VIEW_SECONDS;
    if (is_windows(q) && (device->images_read_parts || !cuts_channels(q))) return VIEW_SECONDS;
    if ((flags & HYP_OPF_CALL) && !device->kernel_calls[q->op]) return HYP_COST_UNSUPPORTED;
    if (q->op == HYP_OP_linear_gradient && !device->sums_in_products) return HYP_COST_UNSUPPORTED;
    if ((q->op == HYP_OP_attention || q->op == HYP_OP_attention_gradient) && !hyp_price_has_attention(a))
        return HYP_COST_UNSUPPORTED;
    bool cuts = cuts_out(q) && device->attention_reads_parts;
    bool turns = q->op == HYP_OP_transpose && q->attrs[0].count == 2; /* a layer's weight */
    if (q->in_place > 0 && q->in_place == q->output_count && (cuts || turns)) return VIEW_SECONDS;
    switch (q->op) {
    case HYP_OP_attention: return hyp_price_attention(a);
    case HYP_OP_attention_gradient: return hyp_price_attention_gradient(a);
    case HYP_OP_linear:
    case HYP_OP_fused_linear:
    case HYP_OP_fused_linear_add:
    case HYP_OP_quantized_linear: return linear(a);
    case HYP_OP_fused_mlp: return fused_mlp(a);
    case HYP_OP_matmul:
    case HYP_OP_gemm: return matmul(a);
    case HYP_OP_linear_gradient: return linear_gradient(a);
    case HYP_OP_conv:
    case HYP_OP_conv_transpose:
    case HYP_OP_conv_backward_weights: return convolution(a);
    case HYP_OP_lstm:
    case HYP_OP_lstm_cells:
    case HYP_OP_lstm_gradient:
    case HYP_OP_gru:
    case HYP_OP_gru_gradient:
    case HYP_OP_rnn:
    case HYP_OP_rnn_gradient: return recurrence(a);
    case HYP_OP_all_reduce: return all_reduce(a);
    case HYP_OP_shape: return device->launch_seconds;
    default: break;
    }
    if (q->output_count == 0) return one_pass(a);
    if (q->joined) return in_reader(a);
    bool reduces = q->op == HYP_OP_reduce_sum || q->op == HYP_OP_reduce_mean;
    double of_shape, count = hyp_price_elements(a, reduces ? q->inputs[0] : &q->outputs[0]);
    const double shape[] = {count, second_size(a)};
    bool measured = hyp_measured_ratio(device, q->op, q->outputs[0].dtype, shape, &of_shape);
    if (!measured && q->op == HYP_OP_reduce_sum) /* the same but for a division */
        measured = hyp_measured_ratio(device, HYP_OP_reduce_mean, q->outputs[0].dtype, shape, &of_shape);
    if (!measured && (flags & HYP_OPF_ELEMENTWISE)) {
        hyp_op like = q->input_count > 1 ? HYP_OP_add : HYP_OP_relu; /* what moves as much */
        if (!hyp_measured_ratio(device, like, q->outputs[0].dtype, shape, &of_shape))
            hyp_measured_ratio(device, HYP_OP_add, q->outputs[0].dtype, shape, &of_shape);
    }
    double copied = cuts ? (double)(q->output_count - q->in_place) / q->output_count : 1; /* of its parts */
    return one_pass(a) * of_shape * copied;
}

double hyp_roofline_cost(const hyp_cost_query *query, void *roofline)
{
    const hyp_roofline *line = roofline;
    hyp_price a = {query, line, &line->profile};
    hyp_device_profile more;
    double seconds = one_kernel(&a);
    if (line->threads > line->profile.threads && line->profile.speedup_count > 0) {
        more = hyp_roofline_with_threads(&line->profile, line->threads);
        a.device = &more;
        seconds = fmin(seconds, one_kernel(&a)); /* a kernel that is too short for them runs on fewer */
    }
    if (seconds <= VIEW_SECONDS || seconds >= HYP_COST_UNSUPPORTED) return seconds;
    return seconds + far_weights(&a) + (query->joined ? 0 : far_launch(line));
}
