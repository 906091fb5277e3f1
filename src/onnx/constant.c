/* Inputs that must be known at import, computed from constants. */
#include <string.h>

#include "ir/constants.h"
#include "onnx/import.h"

/* Shapes, axes, scales and the like: a model that needs more for them is not meant to be compiled. */
static const hyp_fold_budget limits = {.bytes = (uint64_t)16 << 20, .flops = (uint64_t)1 << 30};

static hyp_status compute(hyp_importer *im, hyp_value_id v, hyp_eval_tensor *out)
{
    const hyp_value *value = &im->g->values.data[v];
    hyp_constants *c;
    void *bytes = NULL;
    HYP_TRY(hyp_constants_create(im->g, NULL, NULL, &c, im->diag));
    hyp_status status = hyp_constants_want(c, v, &limits, im->diag);
    if (status == HYP_OK) status = hyp_constants_take(c, v, &bytes, im->diag);
    if (status == HYP_OK) {
        hyp_tensor from = {.data = bytes, .dtype = value->type.dtype, .rank = value->type.rank};
        memcpy(from.dims, value->type.dims, sizeof from.dims); /* static, so the dims are their values */
        if (!hyp_type_bytes(&value->type, &from.bytes)) from.bytes = 0;
        status = hyp_eval_tensor_load(out, &from, im->diag);
    }
    hyp_free(bytes);
    hyp_constants_destroy(c);
    return status;
}

hyp_status hyp_onnx_constant(const hyp_onnx_node *n, uint32_t i, const char *what, hyp_eval_tensor *out)
{
    *out = (hyp_eval_tensor){0};
    hyp_status status = compute(n->im, n->inputs[i], out);
    if (status != HYP_OK) hyp_diag_prefix(n->im->diag, "input %u (%s) must be constant", i, what);
    return status;
}
