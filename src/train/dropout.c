/* dropout.c - elements that a step drops. Which ones follows from the seed that the run is given, from how many steps
 * there were before, and from their places: the backward pass has the same, and so has a step that is run again. */
#include "train/step.h"

static bool drops(const hyp_node *n) { return n->op == HYP_OP_dropout && n->attrs[0].f > 0; }

hyp_status hyp_dropout_check(const hyp_graph *model, hyp_diag *diag)
{
    for (size_t i = 0; i < model->nodes.len; i++)
        if (drops(&model->nodes.data[i])) return HYP_OK;
    return hyp_fail(
        diag, HYP_ERR_INVALID_ARGUMENT,
        "there is nothing to drop: the model has no Dropout with a ratio above 0. Exporters leave them out unless "
        "they are told that the model is to be trained (torch.onnx.export: training=TrainingMode.TRAINING)");
}

/* Where training is on, else 0 or 1: (where training yes no), a scalar. */
static hyp_value_id choose(hyp_builder *b, const hyp_dropout *d, hyp_dtype dtype, double yes, double no)
{
    return hyp_build_node(b, HYP_OP_where, NULL, d->training, hyp_build_scalar(b, dtype, yes),
                          hyp_build_scalar(b, dtype, no));
}

hyp_value_id hyp_dropout_build(hyp_builder *b, hyp_dropout *d, const hyp_node *n, hyp_value_id x)
{
    if (!drops(n)) return HYP_NO_VALUE;
    hyp_type type = hyp_build_type(b, x);
    hyp_dtype wide = hyp_dtype_wide(type.dtype);
    double ratio = n->attrs[0].f, kept = ratio < 1 ? 1 / (1 - ratio) : 0; /* of a ratio of 1 nothing is left to scale */
    const hyp_attr attrs[] = {hyp_attr_of_dims(type.dims, (uint32_t)type.rank), hyp_attr_of_int(d->streams++)};
    b->from = n->from;
    hyp_value_id place = hyp_build_node(b, HYP_OP_random_uniform, attrs, d->seed, d->draws);
    hyp_value_id dropped = hyp_build_node(b, HYP_OP_less, NULL, place, choose(b, d, HYP_F32, ratio, 0));
    hyp_value_id scaled = hyp_build_node(b, HYP_OP_mul, NULL, hyp_build_cast(b, x, wide), choose(b, d, wide, kept, 1));
    hyp_value_id y = hyp_build_node(b, HYP_OP_where, NULL, dropped, hyp_build_scalar(b, wide, 0), scaled);
    y = hyp_build_cast(b, y, type.dtype);
    b->from = (hyp_provenance){0};
    return y;
}

hyp_value_id hyp_dropout_count(hyp_builder *b, const hyp_dropout *d)
{
    return hyp_build_node(b, HYP_OP_add, NULL, d->draws, hyp_build_scalar(b, HYP_I64, 1));
}
