/* The branch of an If, which is decided at import. */
#include "onnx/import.h"

/* The branch that a constant condition takes stands in place of the node; the other is not looked at. */
static hyp_status import_if(hyp_onnx_node *n)
{
    hyp_eval_tensor condition;
    hyp_status status = hyp_onnx_constant(n, 0, "the condition", &condition);
    if (status == HYP_OK && (condition.dtype != HYP_BOOL || condition.count != 1))
        status = hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the condition should be one bool");
    const char *name = status == HYP_OK && condition.i[0] ? "then_branch" : "else_branch";
    hyp_eval_tensor_dispose(&condition);
    HYP_TRY(status);
    const HypOnnx__AttributeProto *branch = hyp_onnx_attr(n, name);
    if (!branch || !branch->g) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has no graph \"%s\"", name);
    if (branch->g->n_input || branch->g->n_output != n->output_count)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "%s has %zu inputs and %zu outputs, 0 and %u are wanted", name,
                        branch->g->n_input, branch->g->n_output, n->output_count);
    hyp_onnx_branch taken;
    status = hyp_onnx_branch_open(n, branch->g, &taken);
    if (status == HYP_OK) status = hyp_onnx_branch_add(n, &taken, NULL, n->outputs);
    hyp_onnx_branch_close(&taken);
    if (status != HYP_OK) hyp_diag_prefix(n->im->diag, "in %s", name);
    return status;
}

static const hyp_onnx_operator rows[] = {
    {"If", 7, 1, 1, HYP_ONNX_ANY, "then_branch else_branch ", import_if, HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_branches = {rows, sizeof rows / sizeof *rows};
