/* loss.c - losses and their gradients by what they read, as terms. Both are given, for the gradient of a loss is
 * simpler than what differentiating its stable form would give. */
#include <math.h>
#include <string.h>

#include "train/step.h"

hyp_loss_kind hyp_loss_find(const char *name)
{
    static const char *const names[] = {
        [HYP_LOSS_MSE] = "mse", [HYP_LOSS_CROSS_ENTROPY] = "cross-entropy", [HYP_LOSS_BCE] = "bce"};
    for (int i = HYP_LOSS_MSE; i <= HYP_LOSS_BCE; i++)
        if (strcmp(name, names[i]) == 0) return (hyp_loss_kind)i;
    return HYP_LOSS_OUTPUT;
}

/* ---- what a loss wants ------------------------------------------------------------------------------ */

static hyp_status fail_type(const hyp_graph *g, const hyp_type *x, const char *wanted, hyp_diag *diag)
{
    hyp_strbuf text = {0};
    hyp_type_print(&text, g->dims, x);
    hyp_status status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the output that the loss reads is %s, %s",
                                 hyp_strbuf_text(&text), wanted);
    hyp_strbuf_dispose(&text);
    return status;
}

static int32_t class_axis(const hyp_type *x) { return x->rank > 1; }

static hyp_status check_weights(const hyp_train_options *o, hyp_dim classes, hyp_diag *diag)
{
    if (!o->class_weight_count) return HYP_OK;
    if ((hyp_dim)o->class_weight_count != classes)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%zu class weights are given for %lld classes",
                        o->class_weight_count, (long long)classes);
    for (size_t i = 0; i < o->class_weight_count; i++)
        if (!(o->class_weights[i] >= 0 && o->class_weights[i] < INFINITY))
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "the weight of class %zu is %g, a number from 0 on is wanted", i,
                            (double)o->class_weights[i]);
    return HYP_OK;
}

static hyp_status labels_type(const hyp_graph *g, const hyp_train_options *o, const hyp_type *x, hyp_type *out,
                              hyp_diag *diag)
{
    int32_t axis = class_axis(x);
    if (x->rank < 1 || !hyp_dim_is_const(x->dims[axis]) || x->dims[axis] < 1)
        return fail_type(g, x, "cross-entropy wants logits [N C ...] with a fixed number C of classes", diag);
    *out = (hyp_type){.dtype = HYP_I64};
    for (int32_t i = 0; i < x->rank; i++)
        if (i != axis) out->dims[out->rank++] = x->dims[i];
    return check_weights(o, x->dims[axis], diag);
}

hyp_status hyp_loss_input(hyp_loss_kind kind, const hyp_graph *g, const hyp_train_options *o, const hyp_type *x,
                          const char **out_name, hyp_type *out_type, hyp_diag *diag)
{
    if (!hyp_dtype_is_float(x->dtype)) return fail_type(g, x, "floats are wanted", diag);
    if (kind != HYP_LOSS_CROSS_ENTROPY && o->class_weight_count)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "class weights are for the loss cross-entropy, not for %s",
                        o->loss);
    if (kind != HYP_LOSS_CROSS_ENTROPY && o->label_smoothing != 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "label smoothing is for the loss cross-entropy, not for %s",
                        o->loss);
    if (o->ignore_index > (int64_t)1 << 53 || o->ignore_index < -((int64_t)1 << 53))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the label %lld is to be ignored, one within 2^53 is wanted",
                        (long long)o->ignore_index);
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a label smoothing of %g, 0 to 1 is wanted",
                        o->label_smoothing);
    *out_name = kind == HYP_LOSS_OUTPUT ? NULL : kind == HYP_LOSS_CROSS_ENTROPY ? "labels" : "target";
    *out_type = *x;
    if (kind == HYP_LOSS_CROSS_ENTROPY) return labels_type(g, o, x, out_type, diag);
    if (kind == HYP_LOSS_OUTPUT && x->rank != 0)
        return fail_type(g, x, "a loss is a scalar; reduce it in the model, by a mean, say", diag);
    return HYP_OK;
}

/* ---- terms ------------------------------------------------------------------------------------------ */

/* The mean of a term over all elements, and the gradient of that mean: `factor` / count times a term. Both of x and t.
 */
static void build_mean(hyp_scope *s, const char *each, const char *slope, double factor, hyp_value_id *out_loss,
                       hyp_value_id *out_gradient)
{
    hyp_builder *b = s->b;
    hyp_value_id v = hyp_form_text(s, each), scalar = hyp_build_scalar(b, s->numbers, factor);
    hyp_value_id count = hyp_build_ok(b) ? hyp_head_ratio(s, (const hyp_value_id[]){v, scalar}) : HYP_NO_VALUE;
    *out_loss = hyp_build_reduce_all(b, HYP_OP_reduce_mean, v);
    *out_gradient = hyp_build_node(b, HYP_OP_mul, NULL, hyp_form_text(s, slope),
                                   hyp_build_node(b, HYP_OP_div, NULL, scalar, count));
}

/* The numbers of the classes, of a shape that broadcasts to the logits. Floats where they are exact, so that they are
 * compared in one step with what is chosen by it. */
static hyp_value_id class_numbers(hyp_builder *b, const hyp_type *x)
{
    int32_t axis = class_axis(x);
    bool exact = x->dims[axis] <= 1 << 24;
    const hyp_type type = {
        .dtype = exact ? x->dtype : HYP_I64, .rank = x->rank - axis, .dims = {x->dims[axis], 1, 1, 1, 1, 1, 1, 1}};
    return hyp_build_numbers(b, &type, 1);
}

/* All 1 where none are given. */
static hyp_value_id class_weights(hyp_builder *b, const hyp_train_options *o, hyp_dim classes, hyp_dtype dtype,
                                  double *out_sum)
{
    hyp_type type = {.dtype = HYP_F32, .rank = 1, .dims = {classes}};
    size_t bytes = (size_t)type.dims[0] * sizeof(float);
    float *weights = hyp_arena_alloc(&b->arena, bytes);
    if (!weights) return hyp_build_note(b, hyp_fail_memory(b->diag, bytes)), HYP_NO_VALUE;
    *out_sum = 0;
    for (int64_t i = 0; i < type.dims[0]; i++) {
        weights[i] = o->class_weight_count ? o->class_weights[i] : 1;
        *out_sum += (double)weights[i];
    }
    return hyp_build_cast(b, hyp_build_const(b, &type, weights, bytes), dtype);
}

/* Names of what a row of logits has: its label t, whether that is ignored, and its weight k, 0 where it is. A label
 * that is no class is an error of the run: of the gather. */
static void name_labels(hyp_builder *b, const hyp_train_options *o, hyp_scope *s, const hyp_type *x, hyp_dim classes,
                        hyp_value_id table)
{
    hyp_type row = *x;
    row.dims[class_axis(x)] = 1;
    hyp_scope_name(s, "t", hyp_build_reshape(b, hyp_scope_find(s, "labels"), row.rank, row.dims));
    hyp_scope_name(s, "table", table);
    hyp_scope_name(s, "none-of-them", hyp_build_scalar(b, HYP_I64, (double)o->ignore_index));
    hyp_scope_name(s, "beyond", hyp_build_scalar(b, HYP_I64, (double)classes));
    hyp_scope_name(s, "first", hyp_build_scalar(b, HYP_I64, 0));
    hyp_scope_name(s, "ignored", hyp_form_text(s, "(equal t none-of-them)"));
    hyp_scope_name(s, "class", hyp_form_text(s, "(where ignored first (where (less t first) beyond t))"));
    hyp_scope_name(s, "k", hyp_form_text(s, "(where ignored 0 (gather table class))"));
    hyp_scope_name(s, "n", hyp_build_reduce_all(b, HYP_OP_reduce_sum, hyp_scope_find(s, "k")));
}

/* Logits of 16 bits that x is a cast of to 32; else x. A model in 16 bits gives its results in 32: what is no elementwise
 * operator reads the logits themselves, so that nothing needs a copy of them that is twice as large. */
static hyp_value_id before_widening(const hyp_builder *b, hyp_value_id x)
{
    if (!hyp_build_ok(b)) return x;
    const hyp_value *v = &b->g->values.data[x];
    if (v->kind != HYP_VALUE_NODE || b->g->nodes.data[v->producer].op != HYP_OP_cast || v->type.dtype != HYP_F32) return x;
    const hyp_value_id from = b->g->nodes.data[v->producer].inputs[0];
    const hyp_dtype dtype = b->g->values.data[from].type.dtype;
    return dtype == HYP_F16 || dtype == HYP_BF16 ? from : x;
}

/* With m the largest of a row of x and e = log sum exp(x - m), of both of which nothing overflows, log p = (x - m) - e.
 * The loss of a row is l = -log p[label], and has by x the gradient (sum q) p - q over n, q being the weights of the
 * classes in the row: k at the label, or of label smoothing. What is as large as x is read twice, and written once. */
static void build_cross_entropy(hyp_builder *b, const hyp_train_options *o, hyp_scope *s, hyp_dim classes, double scale,
                                hyp_value_id *out_loss, hyp_value_id *out_gradient)
{
    hyp_value_id given = before_widening(b, hyp_scope_find(s, "x"));
    hyp_type x = hyp_build_type(b, hyp_scope_find(s, "x"));
    int32_t axis = class_axis(&x);
    double smoothing = o->label_smoothing, sum = 0;
    hyp_value_id weights = class_weights(b, o, classes, x.dtype, &sum), numbers = class_numbers(b, &x);
    hyp_type column = hyp_build_type(b, numbers);
    hyp_attr along = hyp_attr_of_int(axis),
             keep[] = {hyp_attr_of_dims((const hyp_dim[]){axis}, 1), hyp_attr_of_int(1)};
#define SUM(text) hyp_build_node(b, HYP_OP_reduce_sum, keep, hyp_form_text(s, text))
    name_labels(b, o, s, &x, classes, weights);
    if (smoothing != 0) hyp_scope_name(s, "w", hyp_build_reshape(b, weights, column.rank, column.dims));
    hyp_scope_name(s, "c", numbers);
    hyp_scope_name_number(s, "kept", 1 - smoothing);
    hyp_scope_name_number(s, "spread", smoothing / (double)classes);
    hyp_scope_name_number(s, "spread-sum", smoothing / (double)classes * sum);
    hyp_scope_name_number(s, "scale", scale);
    hyp_value_id stats[2];
    hyp_build_outputs(b, HYP_OP_softmax_stats, &along, (const hyp_value_id[]){given}, 1, stats, 2);
    hyp_scope_name(s, "m", stats[0]);
    hyp_scope_name(s, "e", stats[1]);
    hyp_value_id chosen = hyp_build_node(b, HYP_OP_gather_elements, &along, given, hyp_scope_find(s, "class"));
    hyp_scope_name(s, "at", hyp_build_cast(b, chosen, x.dtype));
    hyp_scope_name(s, "l", hyp_form_text(s, "(add (sub m at) e)"));
    hyp_scope_name(s, "p", hyp_form_text(s, "(exp (sub (sub x m) e))"));
    hyp_scope_name(s, "is", hyp_form_text(s, "(equal (like c t) c)"));
    /* Where all labels are ignored n is 0: the loss is no number, and gradients are 0. */
    const char *each = "(mul k l)",
               *gradient = "(let f (where ignored 0 (mul k (div scale n)))) (mul f (sub p (where is 1 0)))";
    if (smoothing != 0) {
        hyp_scope_name(s, "o", SUM("(mul w (sub x at))"));
        each = "(add (mul kept (mul k l)) (sub (mul spread-sum l) (mul spread o)))";
        gradient = "(let r (where ignored 0 (div scale n))) (let h (mul r (mul kept k))) "
                   "(sub (mul (add h (mul r spread-sum)) p) (add (where is h 0) (mul (mul r spread) w)))";
    }
#undef SUM
    hyp_scope_name(s, "each", hyp_form_text(s, each));
    *out_loss = hyp_build_reduce_all(b, HYP_OP_reduce_sum, hyp_form_text(s, "(where ignored 0 each)"));
    *out_loss = hyp_build_node(b, HYP_OP_div, NULL, *out_loss, hyp_scope_find(s, "n"));
    *out_gradient = hyp_form_text(s, gradient);
}

void hyp_loss_build(hyp_builder *b, hyp_loss_kind kind, const hyp_train_options *o, hyp_value_id x, hyp_dim classes,
                    hyp_value_id target, double scale, hyp_value_id *out_loss, hyp_value_id *out_gradient)
{
    hyp_type type = hyp_build_type(b, x);
    hyp_dtype wide = hyp_dtype_wide(type.dtype);
    hyp_scope s = {.b = b, .numbers = wide};
    hyp_scope_name(&s, "x", hyp_build_cast(b, x, wide));
    hyp_scope_name(&s, kind == HYP_LOSS_CROSS_ENTROPY ? "labels" : "t",
                   kind == HYP_LOSS_CROSS_ENTROPY || target == HYP_NO_VALUE ? target : hyp_build_cast(b, target, wide));
    if (kind == HYP_LOSS_MSE)
        build_mean(&s, "(let d (sub x t)) (mul d d)", "(sub x t)", 2 * scale, out_loss, out_gradient);
    else if (kind == HYP_LOSS_BCE)
        build_mean(&s, "(add (mul (sub 1 t) x) (softplus (neg x)))", "(sub (sigmoid x) t)", scale, out_loss,
                   out_gradient);
    else if (kind == HYP_LOSS_CROSS_ENTROPY)
        build_cross_entropy(b, o, &s, classes, scale, out_loss, out_gradient);
    else
        *out_loss = hyp_scope_find(&s, "x"), *out_gradient = hyp_build_scalar(b, wide, scale);
    *out_gradient = hyp_build_fit(b, *out_gradient, &type);
    hyp_scope_dispose(&s);
}
