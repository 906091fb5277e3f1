/* What the model declares of its outputs, compared with what they are: only an element type that does not hold is an error,
 * because others convert the outputs by it. */
#include <stdio.h>
#include <string.h>

#include "onnx/import.h"
#include "onnx/tensor.h"

/* NULL when nothing is declared. */
static const HypOnnx__TypeProto__Tensor *declared_tensor(const HypOnnx__ValueInfoProto *info)
{
    return info->type ? info->type->tensor_type : NULL;
}

/* The command line's sizes are not the model's. */
static bool sizes_are_given(const hyp_importer *im)
{
    return im->options->shape_count || im->options->dim_count || im->options->bound_count;
}

/* Whether rank and fixed sizes are as declared; a size that only a run tells is. */
static bool holds(const hyp_importer *im, const HypOnnx__TypeProto__Tensor *declared, const hyp_type *type)
{
    if (!declared || !declared->shape) return true;
    if (declared->shape->n_dim != (size_t)type->rank) return false;
    for (int32_t i = 0; i < type->rank && !sizes_are_given(im); i++) {
        const HypOnnx__TensorShapeProto__Dimension *dim = declared->shape->dim[i];
        bool named = dim->dim_param && *dim->dim_param, sized = !named && dim->has_dim_value && dim->dim_value >= 0;
        if (sized && hyp_dim_is_const(type->dims[i]) && dim->dim_value != type->dims[i]) return false;
    }
    return true;
}

/* "f32[2 n], not [2 3 4]" */
static const char *difference(const hyp_importer *im, const HypOnnx__TypeProto__Tensor *declared, const hyp_type *type,
                              hyp_strbuf *sb)
{
    hyp_strbuf_puts(sb, "[");
    for (int32_t i = 0; i < type->rank; i++) {
        if (i) hyp_strbuf_puts(sb, " ");
        hyp_dim_print(sb, im->g->dims, type->dims[i]);
    }
    hyp_strbuf_puts(sb, "], not [");
    for (size_t i = 0; i < declared->shape->n_dim && i < 2 * HYP_MAX_RANK; i++) {
        const HypOnnx__TensorShapeProto__Dimension *dim = declared->shape->dim[i];
        if (i) hyp_strbuf_puts(sb, " ");
        if (dim->dim_param && *dim->dim_param)
            hyp_strbuf_puts(sb, dim->dim_param);
        else if (dim->has_dim_value && dim->dim_value >= 0)
            hyp_strbuf_printf(sb, "%lld", (long long)dim->dim_value);
        else
            hyp_strbuf_puts(sb, "?");
    }
    hyp_strbuf_puts(sb, "] as declared");
    return hyp_strbuf_text(sb);
}

hyp_status hyp_onnx_check_output(hyp_importer *im, const HypOnnx__ValueInfoProto *info, hyp_value_id value)
{
    const HypOnnx__TypeProto__Tensor *declared = declared_tensor(info);
    const hyp_type type = im->g->values.data[value].type;
    if (declared && declared->elem_type && declared->elem_type != (int32_t)type.dtype)
        return hyp_fail(im->diag, HYP_ERR_MALFORMED, "is declared with elements of type %s, but they are %s",
                        hyp_onnx_dtype_name(declared->elem_type), hyp_dtype_name(type.dtype));
    if (holds(im, declared, &type)) return HYP_OK;
    hyp_strbuf sb = {0};
    hyp_status status = hyp_onnx_warn(im, "output \"%s\" is %s", info->name, difference(im, declared, &type, &sb));
    hyp_strbuf_dispose(&sb);
    return status;
}
