/* Losses, as ONNX composes them: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss. */
#include <string.h>

#include "onnx/import.h"

static hyp_status where(const hyp_onnx_node *n, hyp_value_id condition, hyp_value_id a, hyp_value_id b,
                        hyp_value_id *out)
{
    return hyp_onnx_emit(n, HYP_OP_where, (const hyp_value_id[]){condition, a, b}, 3, NULL, out, 1);
}

/* Of all elements. */
static hyp_status reduce(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, hyp_value_id *out)
{
    hyp_dim axes[HYP_MAX_RANK];
    int32_t rank = hyp_onnx_value_type(n, x).rank;
    for (int32_t i = 0; i < rank; i++) axes[i] = i;
    hyp_attr attrs[] = {hyp_attr_of_dims(axes, (uint32_t)rank), hyp_attr_of_int(0)};
    return hyp_onnx_emit(n, op, &x, 1, attrs, out, 1);
}

/* -x[n][target[n][...]][...] of logarithms of probabilities x [N C ...], as target [N ...] says. */
static hyp_status pick(const hyp_onnx_node *n, hyp_value_id x, hyp_value_id target, hyp_value_id *out)
{
    const hyp_dim classes = 1;
    hyp_attr axis = hyp_attr_of_int(1);
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_unsqueeze, target, &classes, 1, &target));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather_elements, (const hyp_value_id[]){x, target}, 2, &axis, out, 1));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_squeeze, *out, &classes, 1, out));
    return hyp_onnx_emit(n, HYP_OP_neg, out, 1, NULL, out, 1);
}

/* Targets that are to be ignored count nothing, neither in the sum nor in what a mean divides by. */
static hyp_status emit_loss(const hyp_onnx_node *n, hyp_value_id x, hyp_value_id *out)
{
    static const char *const reductions[] = {"mean", "sum", "none", NULL};
    const char *reduction;
    hyp_value_id target = n->inputs[1], kept = HYP_NO_VALUE, weight = HYP_NO_VALUE, zero, loss;
    hyp_type type = hyp_onnx_value_type(n, x), target_type = hyp_onnx_value_type(n, target);
    bool ignores = hyp_onnx_attr(n, "ignore_index") != NULL;
    int64_t ignored;
    HYP_TRY(hyp_onnx_attr_choice(n, "reduction", reductions, &reduction));
    HYP_TRY(hyp_onnx_attr_int(n, "ignore_index", 0, &ignored));
    if (type.rank < 2 || target_type.rank != type.rank - 1)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED,
                        "the scores have rank %d and the targets rank %d; [N C ...] and [N ...] are wanted", type.rank,
                        target_type.rank);
    HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, 0, &zero));
    if (ignores) {
        hyp_value_id number, first;
        HYP_TRY(hyp_onnx_add_scalar(n, target_type.dtype, (double)ignored, &number));
        HYP_TRY(hyp_onnx_add_scalar(n, target_type.dtype, 0, &first));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_equal, target, number, &kept));
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_not, &kept, 1, NULL, &kept, 1));
        HYP_TRY(where(n, kept, target, first, &target));
        HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, 1, &weight));
    }
    if (hyp_onnx_has_input(n, 2)) {
        hyp_attr axis = hyp_attr_of_int(0);
        const hyp_value_id of_class[] = {n->inputs[2], target};
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, of_class, 2, &axis, &weight, 1));
    }
    if (ignores) HYP_TRY(where(n, kept, weight, zero, &weight));
    HYP_TRY(pick(n, x, target, &loss));
    if (ignores) HYP_TRY(where(n, kept, loss, zero, &loss)); /* not infinity times 0 */
    if (weight != HYP_NO_VALUE) HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, loss, weight, &loss));
    if (strcmp(reduction, "none") == 0) return *out = loss, HYP_OK;
    if (strcmp(reduction, "sum") == 0) return reduce(n, HYP_OP_reduce_sum, loss, out);
    if (weight == HYP_NO_VALUE) return reduce(n, HYP_OP_reduce_mean, loss, out);
    HYP_TRY(reduce(n, HYP_OP_reduce_sum, loss, &loss));
    HYP_TRY(reduce(n, HYP_OP_reduce_sum, weight, &weight));
    return hyp_onnx_emit_binary(n, HYP_OP_div, loss, weight, out);
}

static hyp_status import_log_likelihood_loss(hyp_onnx_node *n) { return emit_loss(n, n->inputs[0], n->outputs); }

static hyp_status import_cross_entropy_loss(hyp_onnx_node *n)
{
    hyp_value_id x;
    int64_t axis;
    HYP_TRY(hyp_onnx_axis(n, 1, hyp_onnx_input_type(n, 0).rank, &axis));
    HYP_TRY(hyp_onnx_emit_log_softmax(n, n->inputs[0], axis, &x));
    if (n->output_count > 1) n->outputs[1] = x;
    return emit_loss(n, x, n->outputs);
}

static const hyp_onnx_operator rows[] = {
    {"NegativeLogLikelihoodLoss", 12, 2, 3, 1, "ignore_index reduction ", import_log_likelihood_loss, HYP_OP_COUNT},
    {"SoftmaxCrossEntropyLoss", 12, 2, 3, 2, "ignore_index reduction ", import_cross_entropy_loss, HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_loss = {rows, sizeof rows / sizeof *rows};
