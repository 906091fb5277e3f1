/* Resize and the other operators that sample images. */
#include <math.h>
#include <string.h>

#include "onnx/import.h"

/* What a Resize or Upsample node says about each axis of x. */
typedef struct resize {
    hyp_type x;
    hyp_dim sizes[HYP_MAX_RANK];
    double scales[HYP_MAX_RANK];
    bool has_scales;
    int64_t axes[HYP_MAX_RANK]; /* that are meant by the lists of the node */
    uint32_t axis_count;
} resize;

/* The size times a number, rounded down. A symbolic one is multiplied by a fraction. */
static hyp_status scale_size(const hyp_onnx_node *n, hyp_dim size, double scale, hyp_dim *out)
{
    enum { LARGEST_DIVISOR = 64 };
    hyp_dims *dims = n->im->g->dims;
    if (!(scale > 0 && scale < 1e9)) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "a scale is %g", scale);
    if (hyp_dim_is_const(size)) { /* in single precision, as the scales are */
        float scaled = floorf((float)size * (float)scale);
        if (!(scaled < 281474976710656.0f))
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "a size is %g", (double)scaled);
        *out = (hyp_dim)scaled;
        return HYP_OK;
    }
    for (int64_t divisor = 1; divisor <= LARGEST_DIVISOR; divisor++) {
        double factor = rint(scale * (double)divisor);
        if (fabs(factor / (double)divisor - scale) > 1e-7 * scale) continue;
        HYP_TRY(hyp_dim_mul(dims, size, (hyp_dim)factor, out, n->im->diag));
        return hyp_dim_floordiv(dims, *out, divisor, out, n->im->diag);
    }
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "cannot scale a symbolic dim by %g; fix it with --dim", scale);
}

static hyp_status set_scales(const hyp_onnx_node *n, resize *r, const double *scales, size_t count)
{
    if (count != r->axis_count)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has %zu scales for %u axes", count, r->axis_count);
    for (uint32_t i = 0; i < r->axis_count; i++) {
        int64_t axis = r->axes[i];
        r->scales[axis] = scales[i];
        HYP_TRY(scale_size(n, r->x.dims[axis], scales[i], &r->sizes[axis]));
    }
    r->has_scales = true;
    return HYP_OK;
}

static hyp_status read_scales(const hyp_onnx_node *n, uint32_t input, resize *r)
{
    hyp_eval_tensor t;
    if (!hyp_onnx_has_input(n, input)) return HYP_OK;
    hyp_type type = hyp_onnx_input_type(n, input);
    if (type.rank == 1 && type.dims[0] == 0) return HYP_OK;
    hyp_status status = hyp_onnx_constant(n, input, "scales", &t);
    if (status == HYP_OK)
        status = t.f ? set_scales(n, r, t.f, t.count)
                     : hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the scales are no floating-point numbers");
    hyp_eval_tensor_dispose(&t);
    return status;
}

/* Sizes of a box that x is to fill or to fit in, keeping the ratios of its axes. */
static hyp_status keep_ratio(const hyp_onnx_node *n, resize *r, bool larger)
{
    double scale = larger ? 0 : INFINITY;
    for (uint32_t i = 0; i < r->axis_count; i++) {
        hyp_dim have = r->x.dims[r->axes[i]], want = r->sizes[r->axes[i]];
        if (!hyp_dim_is_const(have) || !hyp_dim_is_const(want) || have < 1)
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                            "the ratio of its axes is kept, for which their sizes must be known; fix them with --dim");
        double ratio = (double)want / (double)have;
        scale = larger ? fmax(scale, ratio) : fmin(scale, ratio);
    }
    for (uint32_t i = 0; i < r->axis_count; i++) {
        r->scales[r->axes[i]] = scale;
        r->sizes[r->axes[i]] = (hyp_dim)((double)r->x.dims[r->axes[i]] * scale + 0.5);
    }
    r->has_scales = true;
    return HYP_OK;
}

static hyp_status read_sizes(const hyp_onnx_node *n, resize *r)
{
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};
    const char *policy;
    hyp_onnx_ints sizes;
    HYP_TRY(hyp_onnx_attr_choice(n, "keep_aspect_ratio_policy", policies, &policy));
    HYP_TRY(hyp_onnx_input_ints(n, 3, "sizes", &sizes));
    if (sizes.count == 0)
        return r->has_scales ? HYP_OK : hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has neither scales nor sizes");
    if (r->has_scales || sizes.count != r->axis_count)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has %u sizes for %u axes%s", sizes.count, r->axis_count,
                        r->has_scales ? ", and scales" : "");
    for (uint32_t i = 0; i < sizes.count; i++) r->sizes[r->axes[i]] = sizes.items[i];
    return policy == policies[0] ? HYP_OK : keep_ratio(n, r, policy == policies[2]);
}

static hyp_status add_list(const hyp_onnx_node *n, const double *list, int32_t count, hyp_value_id *out)
{
    hyp_type type = {.dtype = HYP_F64, .rank = 1, .dims = {count}};
    return hyp_graph_add_const(n->im->g, NULL, &type, list, (size_t)count * sizeof *list, true, out, n->im->diag);
}

/* The region that is resized: starts, then ends, of all axes. */
static hyp_status read_region(const hyp_onnx_node *n, const resize *r, hyp_value_id *out)
{
    double list[2 * HYP_MAX_RANK];
    hyp_eval_tensor t;
    if (!hyp_onnx_has_input(n, 1)) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "tf_crop_and_resize without a roi");
    *out = n->inputs[1];
    if (!hyp_onnx_attr(n, "axes")) return HYP_OK;
    hyp_status status = hyp_onnx_constant(n, 1, "roi", &t);
    if (status == HYP_OK && (!t.f || t.count != 2 * r->axis_count))
        status = hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the roi does not fit the axes");
    for (int32_t i = 0; i < 2 * r->x.rank; i++) list[i] = i >= r->x.rank;
    for (uint32_t i = 0; status == HYP_OK && i < r->axis_count; i++) {
        list[r->axes[i]] = t.f[i];
        list[r->x.rank + r->axes[i]] = t.f[r->axis_count + i];
    }
    hyp_eval_tensor_dispose(&t);
    return status == HYP_OK ? add_list(n, list, 2 * r->x.rank, out) : status;
}

static hyp_status start(const hyp_onnx_node *n, resize *r)
{
    hyp_onnx_ints axes;
    *r = (resize){.x = hyp_onnx_input_type(n, 0)};
    HYP_TRY(hyp_onnx_attr_ints(n, "axes", &axes));
    r->axis_count = axes.present ? axes.count : (uint32_t)r->x.rank;
    if (r->axis_count > (uint32_t)r->x.rank) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has too many axes");
    for (int32_t i = 0; i < r->x.rank; i++) {
        r->sizes[i] = r->x.dims[i];
        r->scales[i] = 1;
        r->axes[i] = i;
    }
    for (uint32_t i = 0; i < axes.count; i++) HYP_TRY(hyp_onnx_axis(n, axes.items[i], r->x.rank, &r->axes[i]));
    return HYP_OK;
}

static hyp_status finish(const hyp_onnx_node *n, const resize *r, hyp_value_id region, hyp_attr *attrs)
{
    hyp_value_id inputs[] = {n->inputs[0], HYP_NO_VALUE, region};
    attrs[0] = hyp_attr_of_dims(r->sizes, (uint32_t)r->x.rank);
    if (r->has_scales) HYP_TRY(add_list(n, r->scales, r->x.rank, &inputs[1]));
    return hyp_onnx_emit(n, HYP_OP_resize, inputs,
                         region != HYP_NO_VALUE ? 3
                         : r->has_scales        ? 2
                                                : 1,
                         attrs, n->outputs, 1);
}

static const char *const modes[] = {"nearest", "linear", "cubic", NULL};

static hyp_status import_resize(hyp_onnx_node *n)
{
    static const char *const coordinates[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
        NULL};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    bool first_form = n->im->opset < 11; /* which had one way to find coordinates, and no others */
    resize r;
    hyp_value_id region = HYP_NO_VALUE;
    hyp_attr attrs[8] = {{0},
                         hyp_attr_of_sym(NULL),
                         hyp_attr_of_sym("asymmetric"),
                         hyp_attr_of_sym("floor"),
                         hyp_attr_of_float(0),
                         hyp_attr_of_int(0),
                         hyp_attr_of_int(0),
                         hyp_attr_of_float(0)};
    HYP_TRY(start(n, &r));
    HYP_TRY(hyp_onnx_attr_choice(n, "mode", modes, &attrs[1].sym));
    if (!first_form) HYP_TRY(hyp_onnx_attr_choice(n, "coordinate_transformation_mode", coordinates, &attrs[2].sym));
    if (!first_form) HYP_TRY(hyp_onnx_attr_choice(n, "nearest_mode", nearest, &attrs[3].sym));
    HYP_TRY(hyp_onnx_attr_float(n, "cubic_coeff_a", -0.75, &attrs[4].f));
    HYP_TRY(hyp_onnx_attr_int(n, "exclude_outside", 0, &attrs[5].i));
    HYP_TRY(hyp_onnx_attr_int(n, "antialias", 0, &attrs[6].i));
    HYP_TRY(hyp_onnx_attr_float(n, "extrapolation_value", 0, &attrs[7].f));
    HYP_TRY(read_scales(n, first_form ? 1 : 2, &r));
    HYP_TRY(read_sizes(n, &r));
    if (strcmp(attrs[2].sym, "tf_crop_and_resize") == 0) HYP_TRY(read_region(n, &r, &region));
    return finish(n, &r, region, attrs);
}

static hyp_status import_upsample(hyp_onnx_node *n)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, "scales");
    double scales[HYP_MAX_RANK];
    resize r;
    hyp_attr attrs[8] = {{0},
                         hyp_attr_of_sym(NULL),
                         hyp_attr_of_sym("asymmetric"),
                         hyp_attr_of_sym("floor"),
                         hyp_attr_of_float(-0.75),
                         hyp_attr_of_int(0),
                         hyp_attr_of_int(0),
                         hyp_attr_of_float(0)};
    HYP_TRY(start(n, &r));
    HYP_TRY(hyp_onnx_attr_choice(n, "mode", modes, &attrs[1].sym));
    for (size_t i = 0; a && i < a->n_floats && i < HYP_MAX_RANK; i++) scales[i] = (double)a->floats[i];
    HYP_TRY(a ? set_scales(n, &r, scales, a->n_floats) : read_scales(n, 1, &r));
    if (!r.has_scales) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has no scales");
    return finish(n, &r, HYP_NO_VALUE, attrs);
}

static hyp_status import_grid_sample(hyp_onnx_node *n)
{
    /* Older opsets call linear and cubic by their names for two axes. */
    static const char *const grid_modes[] = {"linear", "nearest", "cubic", "bilinear", "bicubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    hyp_attr attrs[] = {hyp_attr_of_sym(NULL), hyp_attr_of_sym(NULL), hyp_attr_of_int(0)};
    HYP_TRY(hyp_onnx_attr_choice(n, "mode", grid_modes, &attrs[0].sym));
    HYP_TRY(hyp_onnx_attr_choice(n, "padding_mode", paddings, &attrs[1].sym));
    HYP_TRY(hyp_onnx_attr_int(n, "align_corners", 0, &attrs[2].i));
    if (attrs[0].sym[0] == 'b') attrs[0].sym += 2;
    return hyp_onnx_emit(n, HYP_OP_grid_sample, n->inputs, 2, attrs, n->outputs, 1);
}

static hyp_status import_affine_grid(hyp_onnx_node *n)
{
    hyp_onnx_ints size;
    hyp_attr align_corners = hyp_attr_of_int(0);
    HYP_TRY(hyp_onnx_input_ints(n, 1, "size", &size));
    HYP_TRY(hyp_onnx_attr_int(n, "align_corners", 0, &align_corners.i));
    hyp_attr attrs[] = {hyp_attr_of_dims(size.items, size.count), align_corners};
    return hyp_onnx_emit(n, HYP_OP_affine_grid, n->inputs, 1, attrs, n->outputs, 1);
}

static hyp_status import_roi_align(hyp_onnx_node *n)
{
    static const char *const pool_modes[] = {"avg", "max", NULL};
    static const char *const coordinates[] = {"half_pixel", "output_half_pixel", NULL};
    hyp_dim bins[2];
    hyp_attr attrs[] = {hyp_attr_of_sym(NULL), hyp_attr_of_sym("output_half_pixel"), hyp_attr_of_dims(bins, 2),
                        hyp_attr_of_int(0), hyp_attr_of_float(1)};
    HYP_TRY(hyp_onnx_attr_choice(n, "mode", pool_modes, &attrs[0].sym));
    if (n->im->opset >= 16)
        HYP_TRY(hyp_onnx_attr_choice(n, "coordinate_transformation_mode", coordinates, &attrs[1].sym));
    HYP_TRY(hyp_onnx_attr_int(n, "output_height", 1, &bins[0]));
    HYP_TRY(hyp_onnx_attr_int(n, "output_width", 1, &bins[1]));
    HYP_TRY(hyp_onnx_attr_int(n, "sampling_ratio", 0, &attrs[3].i));
    HYP_TRY(hyp_onnx_attr_float(n, "spatial_scale", 1, &attrs[4].f));
    return hyp_onnx_emit(n, HYP_OP_roi_align, n->inputs, 3, attrs, n->outputs, 1);
}

static const hyp_onnx_operator rows[] = {
    {"AffineGrid", 20, 2, 2, 1, "align_corners ", import_affine_grid, HYP_OP_affine_grid},
    {"GridSample", 16, 2, 2, 1, "align_corners mode padding_mode ", import_grid_sample, HYP_OP_grid_sample},
    {"Resize", 10, 1, 4, 1,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode ",
     import_resize, HYP_OP_resize},
    {"RoiAlign", 10, 3, 3, 1,
     "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale ", import_roi_align,
     HYP_OP_roi_align},
    {"Upsample", 7, 1, 2, 1, "mode scales ", import_upsample, HYP_OP_resize},
};
const hyp_onnx_family hyp_onnx_resize = {rows, sizeof rows / sizeof *rows};
