/* Operators that sample images at other places than where their elements are; the kernels compute them. */
#include "ir/op.h"

/* A list of as many numbers, if the input is there. */
static hyp_status want_list(const hyp_infer_call *c, uint32_t i, int64_t count)
{
    const hyp_infer_value *v = hyp_infer_input(c, i);
    if (!v || (v->type.rank == 1 && v->type.dims[0] == count && hyp_dtype_is_float(v->type.dtype))) return HYP_OK;
    return hyp_infer_fail(c, "input %u is %s, %lld floating-point numbers are wanted", i,
                          hyp_infer_type_text(c, &v->type), (long long)count);
}

hyp_status hyp_infer_resize(const hyp_infer_call *c)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const coordinates[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
        NULL};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    const hyp_type *x = &c->in[0]->type;
    hyp_type t = {.dtype = x->dtype};
    HYP_TRY(hyp_check_shape(c, &c->attrs[0], &t));
    HYP_TRY(hyp_check_sym(c, 1, modes));
    HYP_TRY(hyp_check_sym(c, 2, coordinates));
    HYP_TRY(hyp_check_sym(c, 3, nearest));
    if (t.rank != x->rank) return hyp_infer_fail(c, "%d sizes for the axes of %s", t.rank, hyp_infer_type_text(c, x));
    HYP_TRY(want_list(c, 1, x->rank));
    HYP_TRY(want_list(c, 2, 2 * (int64_t)x->rank));
    c->out[0].type = t;
    return HYP_OK;
}

/* The type of samples of images at the places of a grid. */
static hyp_status infer_samples(const hyp_infer_call *c, hyp_type *out)
{
    static const char *const modes[] = {"linear", "nearest", "cubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    const hyp_type *x = &c->in[0]->type, *grid = &c->in[1]->type;
    hyp_type t = *x;
    HYP_TRY(hyp_check_sym(c, 0, modes));
    HYP_TRY(hyp_check_sym(c, 1, paddings));
    if (!hyp_dtype_is_float(x->dtype) || !hyp_dtype_is_float(grid->dtype))
        return hyp_infer_fail(c, "%s and %s, floating-point types are wanted", hyp_infer_type_text(c, x),
                              hyp_infer_type_text(c, grid));
    if (x->rank < 3 || x->rank > 5 || grid->rank != x->rank || grid->dims[0] != x->dims[0] ||
        grid->dims[x->rank - 1] != x->rank - 2)
        return hyp_infer_fail(c, "the grid %s does not fit the images %s", hyp_infer_type_text(c, grid),
                              hyp_infer_type_text(c, x));
    for (int32_t i = 2; i < x->rank; i++) t.dims[i] = grid->dims[i - 1];
    *out = t;
    return HYP_OK;
}

hyp_status hyp_infer_grid_sample(const hyp_infer_call *c) { return infer_samples(c, &c->out[0].type); }

static hyp_status check_gradient(const hyp_infer_call *c, uint32_t input, const hyp_type *want)
{
    const hyp_type *g = &c->in[input]->type;
    if (hyp_type_equal(g, want)) return HYP_OK;
    return hyp_infer_fail(c, "the gradient by the result is %s, %s is wanted", hyp_infer_type_text(c, g),
                          hyp_infer_type_text(c, want));
}

hyp_status hyp_infer_grid_sample_gradient(const hyp_infer_call *c)
{
    static const char *const by[] = {"x", "grid", NULL};
    hyp_type y;
    HYP_TRY(infer_samples(c, &y));
    HYP_TRY(check_gradient(c, 2, &y));
    HYP_TRY(hyp_check_sym(c, 3, by));
    bool by_grid = strcmp(c->attrs[3].sym, "grid") == 0;
    hyp_type t = c->in[by_grid]->type;
    if (!by_grid && t.dtype != HYP_F64) t.dtype = HYP_F32;
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_infer_affine_grid(const hyp_infer_call *c)
{
    const hyp_type *theta = &c->in[0]->type;
    hyp_type size = {.dtype = theta->dtype}, t = {.dtype = theta->dtype};
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_FLOAT));
    HYP_TRY(hyp_check_shape(c, &c->attrs[0], &size));
    int64_t axes = size.rank - 2;
    if ((axes != 2 && axes != 3) || theta->rank != 3 || theta->dims[0] != size.dims[0] || theta->dims[1] != axes ||
        theta->dims[2] != axes + 1)
        return hyp_infer_fail(c, "the matrices %s do not fit the size %s", hyp_infer_type_text(c, theta),
                              hyp_infer_type_text(c, &size));
    t.dims[t.rank++] = size.dims[0];
    for (int32_t i = 2; i < size.rank; i++) t.dims[t.rank++] = size.dims[i];
    t.dims[t.rank++] = axes;
    c->out[0].type = t;
    return HYP_OK;
}

/* The type of bins of regions of images. */
static hyp_status infer_bins(const hyp_infer_call *c, hyp_type *out)
{
    static const char *const modes[] = {"avg", "max", NULL};
    static const char *const coordinates[] = {"half_pixel", "output_half_pixel", NULL};
    const hyp_type *x = &c->in[0]->type, *rois = &c->in[1]->type, *images = &c->in[2]->type;
    hyp_type bins = {.dtype = x->dtype};
    HYP_TRY(hyp_check_sym(c, 0, modes));
    HYP_TRY(hyp_check_sym(c, 1, coordinates));
    HYP_TRY(hyp_check_shape(c, &c->attrs[2], &bins));
    HYP_TRY(hyp_check_index_type(c, 2));
    if (x->rank != 4 || !hyp_dtype_is_float(x->dtype) || rois->rank != 2 || rois->dims[1] != 4 ||
        rois->dtype != x->dtype || images->rank != 1 || images->dims[0] != rois->dims[0] || bins.rank != 2)
        return hyp_infer_fail(c, "the regions %s of the images %s do not fit %s", hyp_infer_type_text(c, rois),
                              hyp_infer_type_text(c, images), hyp_infer_type_text(c, x));
    *out = (hyp_type){.dtype = x->dtype, .rank = 4, .dims = {rois->dims[0], x->dims[1], bins.dims[0], bins.dims[1]}};
    return HYP_OK;
}

hyp_status hyp_infer_roi_align(const hyp_infer_call *c) { return infer_bins(c, &c->out[0].type); }

hyp_status hyp_infer_roi_align_gradient(const hyp_infer_call *c)
{
    hyp_type y;
    HYP_TRY(infer_bins(c, &y));
    c->out[0].type = c->in[0]->type;
    return check_gradient(c, 3, &y);
}
