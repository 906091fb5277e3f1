/* What was measured on a device, and what it says of kernels that were not.
 *
 * A measurement is kept as its ratio to the roofline. A question is answered by the roofline times the ratio that the
 * measurements of the same operator and type give for its shape: that of the one of equal shape, else their mean in
 * logarithms, weighted by the inverse of the fourth power of the distance between the logarithms of the shapes
 * (Shepard, "A two-dimensional interpolation function for irregularly-spaced data", 1968). Between measurements the
 * ratio stays between theirs, far from all of them it is nearly that of the nearest.
 *
 * Of convolutions and products the product of all sizes is one size more: how far such a kernel is from the roofline hangs
 * most on how much there is to do. Their measurements in the built-in profiles, each asked for without itself, are as near
 * or nearer so on every device by their mean square: within 1.5 were 55 of 100 convolutions in bf16 of an H200, and are 73,
 * but 72 and 68 with AVX-512, and 70 and 59 without AVX. Layers and attention are no nearer by it.
 * Filters count by the group, so that this product is the work: with those of all groups 10 and 9 of 36 convolutions of
 * single channels of an H100 and an H200 were within 1.5 so, and are 16 of each. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

/* Operators that are measured by more than their elements. Places are those of the tensor that has a channel for each
 * filter: of the result, of the input of a transposed convolution, of the gradient by the result. STEPS are the places that
 * windows go on by, along all axes together. BETWEEN are the elements from one that is summed to the next: 1 along the last
 * axis. An entry without its last size, where that may be left out, is of any. */
static const struct {
    hyp_op op;
    uint32_t count;
    const char *sizes; /* the last one may be left out where it is in brackets */
} shapes[] = {
    {HYP_OP_linear, 3, "M N K"},
    {HYP_OP_matmul, 4, "BATCH M N K"},
    {HYP_OP_conv, 6, "PLACES FILTERS CHANNELS TAPS GROUPS [STEPS]"}, /* channels of a group */
    {HYP_OP_conv_transpose, 5, "PLACES FILTERS CHANNELS TAPS GROUPS"},
    {HYP_OP_conv_backward_weights, 5, "PLACES FILTERS CHANNELS TAPS GROUPS"},
    {HYP_OP_attention, 4, "BATCH ROWS KEYS WIDTH"},
    {HYP_OP_attention_gradient, 4, "BATCH ROWS KEYS WIDTH"},
    {HYP_OP_max_pool, 3, "ELEMENTS TAPS [STEPS]"},
    {HYP_OP_average_pool, 3, "ELEMENTS TAPS [STEPS]"},
    {HYP_OP_softmax, 2, "ELEMENTS ROW"}, /* elements of a row that is normalized, or summed */
    {HYP_OP_layer_norm, 2, "ELEMENTS ROW"},
    {HYP_OP_rms_norm, 2, "ELEMENTS ROW"},
    {HYP_OP_reduce_sum, 3, "ELEMENTS ROW [BETWEEN]"},
    {HYP_OP_reduce_mean, 3, "ELEMENTS ROW [BETWEEN]"},
    {HYP_OP_scatter_nd, 2, "ELEMENTS UPDATES"}, /* of the result; tuples of indices */
    {HYP_OP_transpose, 2, "ELEMENTS RUN"}, /* elements that stay side by side */
};

/* The sizes that the shape of a measurement of this operator has; NULL: it cannot be measured. */
static const char *sizes_of(hyp_op op, uint32_t *out_count)
{
    uint32_t flags = hyp_op_get(op)->flags;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].op == op) {
            *out_count = shapes[i].count;
            return shapes[i].sizes;
        }
    *out_count = 1;
    switch (op) {
    case HYP_OP_concat:
    case HYP_OP_gather:
    case HYP_OP_pad: return "ELEMENTS";
    default: return (flags & HYP_OPF_ELEMENTWISE) && !(flags & HYP_OPF_VIEW) ? "ELEMENTS" : NULL;
    }
}

/* Where a size of a shape lies between others: its logarithm, of filters that of those of a group. */
static double place_of(hyp_op op, const double *shape, uint32_t i)
{
    enum { FILTERS = 1, GROUPS = 4 };
    bool grouped = op == HYP_OP_conv || op == HYP_OP_conv_transpose || op == HYP_OP_conv_backward_weights;
    return log2(fmax(1, grouped && i == FILTERS ? shape[FILTERS] / fmax(1, shape[GROUPS]) : shape[i]));
}

static hyp_status read_shape(const char *file, const hyp_sexpr *form, hyp_measured *out, hyp_diag *diag)
{
    for (uint32_t i = 0; i < out->rank; i++) {
        const hyp_sexpr *sx = form->items[2 + i];
        if (sx->kind != HYP_SX_INT || sx->integer < 1 || sx->integer > (int64_t)1 << 40)
            return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "a size from 1 to 2^40 is wanted here");
        out->shape[i] = (double)sx->integer;
    }
    for (uint32_t i = 0; i < out->rank; i++) out->place[i] = place_of(out->op, out->shape, i);
    return HYP_OK;
}

hyp_status hyp_measured_read(const char *file, const hyp_sexpr *form, hyp_measured *out, hyp_diag *diag)
{
    hyp_measured m = {0};
    const char *kind = form->items[0]->text, *value = strcmp(kind, "share") == 0 ? "SHARE" : "SECONDS";
    if (form->count < 2 || form->items[1]->kind != HYP_SX_SYMBOL)
        return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED,
                              "(%s OPERATOR SIZE... TYPE %s) is wanted", kind, value);
    const char *name = form->items[1]->text, *sizes = hyp_op_find(name, &m.op) ? sizes_of(m.op, &m.rank) : NULL;
    if (!sizes)
        return hyp_sexpr_fail(diag, file, form->items[1], HYP_ERR_MALFORMED,
                              "'%s' is no operator that is measured: linear, matmul, convolutions, attention, pools, "
                              "softmax, sums, means, normalizations, transpose, concat, gather, pad and elementwise "
                              "ones are",
                              name);
    if (strchr(sizes, '[') && form->count == m.rank + 3) m.rank--;
    if (form->count != m.rank + 4)
        return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED, "(%s %s %s TYPE %s) is wanted", kind, name, sizes, value);
    HYP_TRY(read_shape(file, form, &m, diag));
    const hyp_sexpr *type = form->items[m.rank + 2], *seconds = form->items[m.rank + 3];
    m.dtype = type->kind == HYP_SX_SYMBOL ? hyp_dtype_parse(type->text) : HYP_DTYPE_NONE;
    if (m.dtype == HYP_DTYPE_NONE)
        return hyp_sexpr_fail(diag, file, type, HYP_ERR_MALFORMED, "an element type is wanted here, f32 for example");
    bool number = seconds->kind == HYP_SX_INT || seconds->kind == HYP_SX_FLOAT;
    if (!number || !(seconds->number >= HYP_LEAST_SECONDS && seconds->number <= HYP_MOST_SECONDS))
        return hyp_sexpr_fail(diag, file, seconds, HYP_ERR_MALFORMED, "%s from %g to %g is wanted here", value,
                              HYP_LEAST_SECONDS, HYP_MOST_SECONDS);
    m.seconds = seconds->number;
    *out = m;
    return HYP_OK;
}

bool hyp_measured_same(const hyp_measured *a, const hyp_measured *b)
{
    return a->op == b->op && a->dtype == b->dtype && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

/* ---- the ratio to the roofline ---------------------------------------------------------------------- */

enum { INPUTS = 5 }; /* that shapes of measurements speak of, at most */

/* The question whose answer was measured, with everything that it points to. */
typedef struct question {
    hyp_type types[INPUTS], output;
    const hyp_type *inputs[INPUTS];
    hyp_dim window, steps;
    hyp_attr attrs[HYP_MAX_ATTRS];
    hyp_cost_query query;
} question;

/* Products of two sizes may be more than a dimension holds. */
static hyp_dim size(double n) { return (hyp_dim)fmin(n, 0x1p62); }

static hyp_type tensor(const hyp_measured *m, int32_t rank, double a, double b, double c)
{
    return (hyp_type){.dtype = m->dtype, .rank = rank, .dims = {size(a), size(b), size(c)}};
}

/* Of one where an entry does not say. */
static double steps_of(const hyp_measured *m)
{
    uint32_t last = m->op == HYP_OP_conv ? 5 : m->op == HYP_OP_max_pool || m->op == HYP_OP_average_pool ? 2 : m->rank;
    return last < m->rank ? m->shape[last] : 1;
}

static void ask(const hyp_measured *m, question *q)
{
    const double *s = m->shape, steps = steps_of(m);
    *q = (question){.steps = (hyp_dim)steps};
    q->query = (hyp_cost_query){.op = m->op,
                                .attrs = q->attrs,
                                .inputs = q->inputs,
                                .input_count = hyp_op_get(m->op)->min_inputs,
                                .outputs = &q->output,
                                .output_count = 1};
    for (uint32_t i = 0; i < INPUTS; i++) q->inputs[i] = &q->types[i];
    switch (m->op) {
    case HYP_OP_linear:
        q->types[0] = tensor(m, 2, s[1], s[2], 0);
        q->types[1] = tensor(m, 1, s[1], 0, 0);
        q->types[2] = tensor(m, 2, s[0], s[2], 0);
        q->output = tensor(m, 2, s[0], s[1], 0);
        break;
    case HYP_OP_matmul:
        q->types[0] = tensor(m, 3, s[0], s[1], s[3]);
        q->types[1] = tensor(m, 3, s[0], s[3], s[2]);
        q->output = tensor(m, 3, s[0], s[1], s[2]);
        break;
    case HYP_OP_conv: /* along one axis */
        q->types[0] = tensor(m, 3, 1, s[2] * s[4], s[0] * steps);
        q->attrs[0] = (hyp_attr){.kind = HYP_ATTR_DIMS, .count = 1, .dims = &q->steps};
        q->types[1] = tensor(m, 3, s[1], s[2], s[3]);
        q->output = tensor(m, 3, 1, s[1], s[0]);
        q->attrs[4].sym = "none";
        break;
    case HYP_OP_conv_transpose:
        q->types[0] = tensor(m, 3, 1, s[1], s[0]);
        q->types[1] = tensor(m, 3, s[1], s[2], s[3]);
        q->output = tensor(m, 3, 1, s[2] * s[4], s[0]);
        break;
    case HYP_OP_conv_backward_weights:
        q->types[0] = tensor(m, 3, 1, s[2] * s[4], s[0]);
        q->types[1] = tensor(m, 3, 1, s[1], s[0]);
        q->output = tensor(m, 3, s[1], s[2], s[3]);
        break;
    case HYP_OP_attention:
        q->attrs[5].i = 1; /* with its softmax */
        q->types[0] = q->output = tensor(m, 3, s[0], s[1], s[3]);
        q->types[1] = q->types[2] = tensor(m, 3, s[0], s[2], s[3]);
        break;
    case HYP_OP_attention_gradient:
        q->types[0] = q->types[3] = q->types[4] = q->output = tensor(m, 3, s[0], s[1], s[3]);
        q->types[1] = q->types[2] = tensor(m, 3, s[0], s[2], s[3]);
        break;
    case HYP_OP_max_pool:
    case HYP_OP_average_pool:
        q->types[0] = tensor(m, 1, s[0] * steps, 0, 0);
        q->output = tensor(m, 1, s[0], 0, 0);
        q->attrs[1] = (hyp_attr){.kind = HYP_ATTR_DIMS, .count = 1, .dims = &q->steps};
        q->window = (hyp_dim)s[1];
        q->attrs[0] = (hyp_attr){.kind = HYP_ATTR_DIMS, .count = 1, .dims = &q->window};
        break;
    default:
        for (uint32_t i = 0; i < 3; i++) q->types[i] = tensor(m, 1, s[0], 0, 0);
        q->output = q->types[0];
        if (m->op == HYP_OP_gather) q->types[1].dims[0] = 1; /* rows are long */
        if (m->op == HYP_OP_reduce_sum || m->op == HYP_OP_reduce_mean) q->output.dims[0] = (hyp_dim)fmax(1, s[0] / s[1]);
    }
}

void hyp_measured_compare(const hyp_device_profile *profile, hyp_measured *m)
{
    hyp_roofline line = {.profile = *profile};
    question q;
    line.profile.measured_count = 0;
    ask(m, &q);
    double launch = profile->launch_seconds, roofline = hyp_roofline_cost(&q.query, &line), pass = roofline - launch;
    /* Of what a layer waits for its weights nothing says how good its kernel is. */
    double waiting = fmin(hyp_roofline_waiting(&q.query, &line), 0.9 * fmin(m->seconds, roofline));
    m->log_ratio = log((m->seconds - waiting) / (roofline - waiting));
    /* Little work says more of launching. And where arithmetic hides behind what is moved, a pass says something of it only
     * if it takes twice as long at least. */
    bool hides = pass > hyp_roofline_work(&q.query, &line) * (1 + 1e-9);
    m->computes = pass >= launch && m->seconds >= 2 * launch && (!hides || m->seconds - launch >= 2 * pass);
}

/* Whether an entry says something of this kernel. A convolution of one tap has the sizes of a layer, and a device may run it
 * as one. Gradients go over rows as what they are gradients of does. */
static bool is_of(const hyp_device_profile *profile, const hyp_measured *m, hyp_op op, const double *shape)
{
    bool layer = profile->one_tap_convs_as_layers && op == HYP_OP_conv && shape[3] == 1 && shape[4] == 1;
    hyp_op like = op == HYP_OP_norm_gradient ? HYP_OP_layer_norm : op == HYP_OP_softmax_gradient ? HYP_OP_softmax : op;
    return m->op == like || (layer && m->op == HYP_OP_linear);
}

/* Convolutions of a kind are like each other: of single channels, of groups, of one tap, of nine in steps of one, for which
 * libraries have other algorithms, and the rest. The shape has steps. */
static int kind_of_convolution(const double *shape)
{
    enum { CHANNELS = 2, TAPS, GROUPS, STEPS };
    if (shape[GROUPS] > 1) return shape[CHANNELS] == 1 ? 1 : 2;
    if (shape[TAPS] == 1) return 3;
    return shape[TAPS] == 9 && shape[STEPS] == 1 ? 4 : 5;
}

/* What entries say of a kernel, between which and far from which it is as above. */
static bool interpolate(const hyp_device_profile *profile, const hyp_measured *list, size_t count, hyp_op op,
                        hyp_dtype dtype, const double *shape, double *out)
{
    double place[HYP_MEASURED_SIZES] = {0}, weights = 0, sum = 0;
    enum { WORK_SIZES = 5, OTHER_KIND = 8 }; /* the steps of a convolution are no work */
    uint32_t known = 0; /* sizes of the shape that an entry of the class asked for so far */
    bool by_work = op == HYP_OP_matmul || op == HYP_OP_conv || op == HYP_OP_conv_transpose ||
                   op == HYP_OP_conv_backward_weights;
    for (size_t i = 0; i < count; i++) {
        const hyp_measured *m = &list[i];
        if (m->dtype != dtype || !is_of(profile, m, op, shape)) continue;
        double distance = 0, all = 0; /* squared; of the product of all sizes */
        for (; known < m->rank; known++) place[known] = place_of(op, shape, known);
        for (uint32_t a = 0; a < m->rank; a++) {
            distance += (place[a] - m->place[a]) * (place[a] - m->place[a]);
            if (a < WORK_SIZES) all += place[a] - m->place[a];
        }
        if (by_work) distance += all * all;
        if (m->op == HYP_OP_conv && m->rank > WORK_SIZES && kind_of_convolution(shape) != kind_of_convolution(m->shape))
            distance += OTHER_KIND;
        if (distance == 0) {
            *out = exp(m->log_ratio);
            return true;
        }
        double weight = 1 / (distance * distance);
        weights += weight;
        sum += weight * m->log_ratio;
    }
    *out = weights > 0 ? exp(sum / weights) : 1;
    return weights > 0;
}

bool hyp_measured_ratio(const hyp_device_profile *profile, hyp_op op, hyp_dtype dtype, const double *shape, double *out)
{
    return interpolate(profile, profile->measured, profile->measured_count, op, dtype, shape, out);
}

bool hyp_measured_share(const hyp_device_profile *profile, hyp_op op, hyp_dtype dtype, const double *shape, double *out)
{
    return interpolate(profile, profile->shares, profile->share_count, op, dtype, shape, out);
}

bool hyp_measured_element(const hyp_device_profile *profile, hyp_op op, hyp_dtype dtype, double *out)
{
    *out = INFINITY;
    for (size_t i = 0; i < profile->measured_count; i++) {
        const hyp_measured *m = &profile->measured[i];
        if (m->op == op && m->dtype == dtype && m->computes)
            *out = fmin(*out, fmax(0, m->seconds - profile->launch_seconds) / m->shape[0]);
    }
    return isfinite(*out);
}
