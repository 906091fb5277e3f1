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

double hyp_price_inputs(const hyp_price *a)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->q->input_count; i++) sum += hyp_price_bytes(a, a->q->inputs[i]);
    return sum;
}

double hyp_price_outputs(const hyp_price *a)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->q->output_count; i++) sum += hyp_price_bytes(a, &a->q->outputs[i]);
    return sum;
}

/* ---- time ----------------------------------------------------------------------------------------- */

/* What a profile says of so many bytes ago, between its entries in proportion to logarithms; below the first of them
 * nothing is away. */
static hyp_away away(const hyp_device_profile *d, double since)
{
    hyp_away low = {d->aways[0].bytes / 2, d->aways[0].reading, 0, 0, 0};
    for (size_t i = 0; i < d->away_count; i++) {
        hyp_away high = d->aways[i];
        if (high.bytes < since) {
            low = high;
            continue;
        }
        double part = since <= low.bytes ? 0 : log(since / low.bytes) / log(high.bytes / low.bytes);
        return (hyp_away){since, low.reading + part * (high.reading - low.reading),
                          low.moving + part * (high.moving - low.moving), low.launch + part * (high.launch - low.launch),
                          low.layer + part * (high.layer - low.layer)};
    }
    return low;
}

double hyp_price_away(const hyp_price *a, double traffic, double working_set)
{
    return a->device->away_count > 0 ? traffic * away(a->device, working_set).moving : 0;
}

/* Moving `traffic` bytes of a working set, which was touched as many bytes ago. */
double hyp_price_moving(const hyp_price *a, double traffic, double working_set)
{
    const hyp_device_profile *d = a->device;
    if (d->away_count > 0) return traffic / d->cache_bytes_per_second + hyp_price_away(a, traffic, working_set);
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

/* What a byte takes more so many seconds later, between entries as above. */
static double aged(const hyp_device_profile *d, double ago, bool windows)
{
    double at = d->age_count ? d->ages[0].seconds / 2 : 0, low = 0;
    for (size_t i = 0; i < d->age_count; i++) {
        double next = d->ages[i].seconds, high = windows ? d->ages[i].windows : d->ages[i].moving;
        if (next >= ago) return ago <= at ? low : low + log(ago / at) / log(next / at) * (high - low);
        at = next;
        low = high;
    }
    return low;
}

double hyp_roofline_far(const hyp_roofline *roofline, double bytes, double since, double ago, double own, bool windows)
{
    const hyp_device_profile *d = &roofline->profile;
    double by_time = aged(d, ago, windows);
    if (d->away_count > 0) return bytes * fmax(0, fmax(away(d, since).moving, by_time) - away(d, own).moving);
    if (d->far_bytes_per_second == 0) return bytes * by_time;
    return bytes * fmax(by_time, fmax(0, lost(d, since) - lost(d, own)) / d->far_bytes_per_second);
}

/* A kernel runs again when the run has gone over all constants of the model, and all else. */
static double far_launch(const hyp_roofline *line)
{
    const hyp_device_profile *d = &line->profile;
    if (d->away_count > 0) return away(d, line->round).launch;
    return lost(d, line->constants) * d->far_launch_seconds;
}

double hyp_roofline_launch(const hyp_roofline *roofline)
{
    return roofline->profile.launch_seconds + far_launch(roofline);
}

/* Reading weights that come round when so many bytes were gone over. */
static double reading(const hyp_price *a, double size, double round)
{
    const hyp_device_profile *d = a->device;
    if (d->away_count > 0) return size * away(d, round).reading;
    double far = lost(d, round);
    double near = round <= d->cache_bytes || d->last_cache_bytes == 0 ? d->cache_bytes_per_second
                                                                      : d->last_cache_bytes_per_second;
    return size * ((1 - far) / near + far / d->bytes_per_second);
}

double hyp_price_reading_weights(const hyp_price *a, double size) { return reading(a, size, 2 * size); }

double hyp_price_waiting_weights(const hyp_price *a, double size)
{
    const hyp_device_profile *d = a->device;
    return d->layers_apart ? size * fmax(0, away(d, 2 * size).reading - d->aways[0].reading) : 0;
}

/* How much longer it takes in a run, which goes over all constants of the model before it comes back to these. */
static double far_weights(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    double more = 0, round = a->device->away_count > 0 ? a->line->round : a->line->constants;
    uint32_t first = q->op == HYP_OP_gather; /* of whose table some rows are read */
    for (uint32_t i = first; i < q->input_count; i++) {
        double size = q->input_const && q->input_const[i] ? hyp_price_bytes(a, q->inputs[i]) : 0;
        if (2 * size < round) more += reading(a, size, round) - hyp_price_reading_weights(a, size);
    }
    return more;
}

/* How much longer than where it was measured the kernel takes for its own sake: a layer, which has to begin to read, for each
 * matrix of weights. */
static double far_kernel(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_device_profile *d = a->device;
    uint32_t matrices = 0;
    switch (q->op) {
    case HYP_OP_linear:
    case HYP_OP_fused_linear:
    case HYP_OP_fused_linear_add:
    case HYP_OP_fused_mlp:
    case HYP_OP_matmul:
    case HYP_OP_gemm:
        for (uint32_t i = 0; i < q->input_count; i++)
            matrices += q->inputs[i] && q->inputs[i]->rank == 2 && q->input_const && q->input_const[i];
        break;
    default: break;
    }
    return matrices > 0 && d->layers_apart ? matrices * away(d, a->line->round).layer : far_launch(a->line);
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

void hyp_price_note_share(const hyp_price *a, hyp_op op, hyp_dtype t, const double *shape)
{
    double share;
    if (a->share && hyp_measured_share(a->device, op, t, shape, &share)) *a->share = fmax(*a->share, share);
}

/* What measurements say of the roofline of a product, the shape as in hyp_measured; nothing where it runs in TF32,
 * which they do not know. */
double hyp_price_ratio(const hyp_price *a, hyp_op op, hyp_dtype t, const double *shape)
{
    double out = 1;
    hyp_price_note_share(a, op, t, shape);
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

double hyp_price_pass(const hyp_price *a, double count, double traffic, double weight)
{
    return a->device->launch_seconds +
           fmax(count * weight / a->device->pointwise_per_second, hyp_price_moving(a, traffic, traffic));
}

double hyp_price_work(const hyp_price *a, hyp_op op, hyp_dtype t, double count)
{
    double element;
    if (hyp_measured_element(a->device, op, t, &element)) return count * element;
    if (t != HYP_F32 && hyp_measured_element(a->device, HYP_OP_add, t, &element))
        return count * element * hyp_price_weight(op);
    return count * hyp_price_weight(op) / a->device->pointwise_per_second;
}

double hyp_roofline_work(const hyp_cost_query *query, const hyp_roofline *roofline)
{
    hyp_price a = {query, roofline, &roofline->profile, NULL};
    return hyp_price_work(&a, query->op, query->outputs[0].dtype, hyp_price_elements(&a, &query->outputs[0]));
}

double hyp_price_product(const hyp_price *a, const hyp_attr *sizes)
{
    double n = 1;
    for (uint32_t i = 0; i < sizes->count; i++) n *= hyp_price_size(a, sizes->dims[i]);
    return n;
}

/* Sizes of the axes of x from one on, which counts from the end where it is below 0, or of that one alone. */
static double axes_of(const hyp_price *a, const hyp_type *x, int64_t axis, bool alone)
{
    int64_t first = axis < 0 ? axis + x->rank : axis, end = alone ? first + 1 : x->rank;
    double n = 1;
    for (int64_t i = first; i >= 0 && i < end && i < x->rank; i++) n *= hyp_price_size(a, x->dims[i]);
    return n;
}

/* Elements of a window of a pool. */
static double taps_of(const hyp_price *a) { return hyp_price_product(a, &a->q->attrs[0]); }

/* Elements from one that is summed to the next: those behind the last of the axes. Images lie with their channels last. */
static double between(const hyp_price *a)
{
    const hyp_attr *axes = &a->q->attrs[0];
    const hyp_type *x = a->q->inputs[0];
    enum { IMAGE = 4 };
    int64_t last = -1, first = x->rank;
    for (uint32_t i = 0; i < axes->count; i++) {
        int64_t axis = axes->dims[i] < 0 ? axes->dims[i] + x->rank : axes->dims[i];
        last = axis > last ? axis : last;
        first = axis < first ? axis : first;
    }
    if (x->rank == IMAGE && axes->count == IMAGE - 2 && first == 2) return hyp_price_size(a, x->dims[1]);
    return last < 0 || last + 1 >= x->rank ? 1 : axes_of(a, x, last + 1, false);
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

/* The third one. */
static double third_size(const hyp_price *a)
{
    switch (a->q->op) {
    case HYP_OP_max_pool:
    case HYP_OP_average_pool: return hyp_price_product(a, &a->q->attrs[1]);
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean: return between(a);
    default: return 1;
    }
}

/* A pool. Taps are summed, or compared, in registers, where passes do little but move, and wait for what is away. */
static double pool(const hyp_price *a, double taps, double traffic)
{
    const hyp_device_profile *d = a->device;
    const double at_once = 8, waiting = hyp_price_away(a, traffic, traffic);
    if (d->away_count == 0) return hyp_price_pass(a, taps, traffic, 1);
    return d->launch_seconds + waiting +
           fmax(taps / (at_once * d->pointwise_per_second), hyp_price_moving(a, traffic, traffic) - waiting);
}

/* What moves or computes every element about once. */
static double one_pass(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    double out = hyp_price_outputs(a), in = hyp_price_inputs(a),
           count = q->output_count ? hyp_price_elements(a, &q->outputs[0]) : 0;
    switch (q->op) {
    case HYP_OP_softmax: return hyp_price_pass(a, count, 2 * in + out, hyp_price_weight(HYP_OP_exp) + 3);
    case HYP_OP_gather_elements:
    case HYP_OP_gather_nd:
        return hyp_price_pass(a, 0, 2 * out + hyp_price_bytes(a, q->inputs[1]), 0); /* of x what is taken */
    case HYP_OP_softmax_stats:
        return hyp_price_pass(a, hyp_price_elements(a, q->inputs[0]), in + out, hyp_price_weight(HYP_OP_exp) + 2);
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean: return hyp_price_pass(a, hyp_price_elements(a, q->inputs[0]), in + out, 1);
    case HYP_OP_batch_norm_stats: return hyp_price_pass(a, hyp_price_elements(a, q->inputs[0]), in + out, 3);
    case HYP_OP_batch_norm_gradient:
        if (q->input_joined && q->input_joined[1]) /* it is written for these sums alone */
            in += hyp_price_bytes(a, q->inputs[1]);
        return hyp_price_pass(a, hyp_price_elements(a, q->inputs[0]), in + out, 4);
    case HYP_OP_max_pool_gradient: return hyp_price_pass(a, count, in + out, 4);
    case HYP_OP_max_pool:
    case HYP_OP_average_pool: return pool(a, count * taps_of(a), in + out);
    default: break;
    }
    if (hyp_op_get(q->op)->flags & HYP_OPF_COPY) {
        double launches =
            q->output_count > 1 ? q->output_count : 1; /* a split: a copy each; those of a concat run as one */
        double read = q->op == HYP_OP_gather ? out + hyp_price_bytes(a, q->inputs[1]) : out;
        return hyp_price_pass(a, 0, read + out, 0) + (launches - 1) * a->device->launch_seconds;
    }
    double weight = hyp_price_weight(q->op), read = in;
    for (uint32_t i = 0; q->input_joined && i < q->input_count; i++)
        if (q->input_joined[i]) read -= hyp_price_bytes(a, q->inputs[i]);
    if (q->joined)
        return fmax(hyp_price_work(a, q->op, q->outputs[0].dtype, count), hyp_price_moving(a, read, in + out));
    return hyp_price_pass(a, count, read + out, weight);
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

/* What parts cost that lie in a whole: nothing, but for outputs, each of which is copied. */
static double views_of_parts(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    double bytes = q->shown ? hyp_price_outputs(a) * q->shown / q->output_count : 0;
    return q->shown ? hyp_price_pass(a, 0, 2 * bytes, 0) + (q->shown - 1) * a->device->launch_seconds : VIEW_SECONDS;
}

/* Are they some channels of images, which lie in one piece but not as a device's kernels of images have them? */
static bool cuts_channels(const hyp_cost_query *q)
{
    for (uint32_t i = 0; i < q->output_count; i++)
        if (!hyp_rw_cuts_channels(q->inputs[0], &q->outputs[i])) return false;
    return true;
}

double hyp_roofline_turn(const hyp_roofline *roofline, double elements, bool copied)
{
    const hyp_cost_query none = {0};
    const hyp_price a = {&none, roofline, &roofline->profile, NULL};
    double ratio, bytes = 2 * elements * (double)hyp_dtype_size(HYP_F32), launch = a.device->launch_seconds;
    hyp_measured_ratio(a.device, HYP_OP_transpose, HYP_F32, (const double[]){elements, 1}, &ratio);
    double pass = hyp_price_pass(&a, 0, bytes, 0);
    return fmax(0, pass * ratio - (copied ? pass : launch));
}

/* Such channels of images where kernels want the channels last: who makes the whole turns it, and who reads a part turns
 * that back, each in about the time of a transposition that leaves no two elements together. */
static double turned_parts(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    double ratio, bytes = hyp_price_outputs(a), shape[] = {0, 1};
    for (uint32_t i = 0; i < q->output_count; i++) shape[0] += hyp_price_elements(a, &q->outputs[i]);
    hyp_measured_ratio(a->device, HYP_OP_transpose, q->outputs[0].dtype, shape, &ratio);
    return 2 * hyp_price_pass(a, 0, 2 * bytes, 0) * ratio;
}

/* The devices of a group meet, and send each other what they have. */
static double all_reduce(const hyp_price *a)
{
    const hyp_device_profile *d = a->device;
    if (d->all_reduce_bytes_per_second == 0) return one_pass(a);
    return d->all_reduce_seconds + hyp_price_inputs(a) / d->all_reduce_bytes_per_second;
}

/* An elementwise operator in its reader's kernel: no pass, such as was measured, and never more than one of its own. */
static double in_reader(const hyp_price *a)
{
    hyp_cost_query query = *a->q;
    hyp_price apart = {&query, a->line, a->device, a->share};
    query.joined = false;
    return fmin(one_pass(a), hyp_price_kernel(&apart));
}

double hyp_price_kernel(const hyp_price *a)
{
    const hyp_cost_query *q = a->q;
    const hyp_device_profile *device = a->device;
    uint32_t flags = hyp_op_get(q->op)->flags;
    if (flags & HYP_OPF_VIEW) return VIEW_SECONDS;
    if (is_windows(q) && (device->images_read_parts || !cuts_channels(q))) return views_of_parts(a);
    if ((flags & HYP_OPF_CALL) && !device->kernel_calls[q->op]) return HYP_COST_UNSUPPORTED;
    if (q->op == HYP_OP_linear_gradient && device->sums_in_products <= 0) return HYP_COST_UNSUPPORTED;
    if ((q->op == HYP_OP_attention || q->op == HYP_OP_attention_gradient) && !hyp_price_has_attention(a))
        return HYP_COST_UNSUPPORTED;
    bool cuts = cuts_out(q) && device->attention_reads_parts;
    bool turns = q->op == HYP_OP_transpose && q->attrs[0].count == 2; /* a layer's weight */
    if (q->in_place > 0 && q->in_place == q->output_count && (cuts || turns)) return views_of_parts(a);
    if (is_windows(q) && cuts_channels(q)) return turned_parts(a);
    switch (q->op) {
    case HYP_OP_attention: return hyp_price_attention(a);
    case HYP_OP_attention_gradient: return hyp_price_attention_gradient(a);
    case HYP_OP_linear:
    case HYP_OP_fused_linear:
    case HYP_OP_fused_linear_add:
    case HYP_OP_quantized_linear: return hyp_price_linear(a);
    case HYP_OP_fused_mlp: return hyp_price_mlp(a);
    case HYP_OP_matmul:
    case HYP_OP_gemm: return hyp_price_matmul(a);
    case HYP_OP_linear_gradient: return hyp_price_linear_gradient(a);
    case HYP_OP_conv:
    case HYP_OP_conv_transpose:
    case HYP_OP_conv_backward_weights: return hyp_price_convolution(a);
    case HYP_OP_lstm:
    case HYP_OP_lstm_cells:
    case HYP_OP_lstm_gradient:
    case HYP_OP_gru:
    case HYP_OP_gru_gradient:
    case HYP_OP_rnn:
    case HYP_OP_rnn_gradient: return hyp_price_recurrence(a);
    case HYP_OP_all_reduce: return all_reduce(a);
    case HYP_OP_shape: return device->launch_seconds;
    default: break;
    }
    if (q->output_count == 0) return one_pass(a);
    if (q->joined) return in_reader(a);
    bool reduces = q->op == HYP_OP_reduce_sum || q->op == HYP_OP_reduce_mean;
    double of_shape, count = hyp_price_elements(a, reduces ? q->inputs[0] : &q->outputs[0]);
    const double shape[] = {count, second_size(a), third_size(a)};
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

double hyp_roofline_waiting(const hyp_cost_query *query, const hyp_roofline *roofline)
{
    const hyp_price a = {query, roofline, &roofline->profile, NULL};
    return query->op == HYP_OP_linear ? hyp_price_linear_waiting(&a) : 0;
}

double hyp_roofline_cost(const hyp_cost_query *query, void *roofline)
{
    const hyp_roofline *line = roofline;
    hyp_price a = {query, line, &line->profile, NULL};
    hyp_device_profile more;
    double seconds = hyp_price_kernel(&a);
    if (line->threads > line->profile.threads && line->profile.speedup_count > 0) {
        more = hyp_roofline_with_threads(&line->profile, line->threads);
        a.device = &more;
        seconds = fmin(seconds, hyp_price_kernel(&a)); /* a kernel that is too short for them runs on fewer */
    }
    if (seconds <= VIEW_SECONDS || seconds >= HYP_COST_UNSUPPORTED) return seconds;
    return seconds + far_weights(&a) + (query->joined ? 0 : far_kernel(&a));
}

/* Bytes that it moves: of what others are copied from, those that are taken. */
static double moved_bytes(const hyp_price *a)
{
    double out = hyp_price_outputs(a), in = hyp_price_inputs(a);
    return hyp_op_get(a->q->op)->flags & HYP_OPF_COPY ? 2 * out : in + out;
}

double hyp_roofline_share(const hyp_cost_query *query, void *roofline)
{
    const hyp_roofline *line = roofline;
    double measured = 0, seconds = hyp_roofline_cost(query, roofline);
    const hyp_price a = {query, line, &line->profile, &measured};
    if (seconds <= VIEW_SECONDS || seconds >= HYP_COST_UNSUPPORTED || !(hyp_price_kernel(&a) > 0)) return 0;
    double bytes = moved_bytes(&a), moving = hyp_price_moving(&a, bytes, bytes) / seconds;
    return fmax(fmin(1, moving), measured > 0 ? measured : a.device->crowding);
}
