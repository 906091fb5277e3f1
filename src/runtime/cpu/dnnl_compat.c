#include "runtime/cpu/dnnl_compat.h"

#include <math.h>
#include <string.h>

#include "base/elementwise.h"
#include "base/mem.h"

dnnl_data_type_t hyp_dnnl_type(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F32: return dnnl_f32;
    case HYP_F16: return dnnl_f16;
    case HYP_BF16: return dnnl_bf16;
    default: return dnnl_data_type_undef;
    }
}

#if DNNL_VERSION_MAJOR >= 3

hyp_md hyp_md_create(int rank, const int64_t *dims, dnnl_data_type_t type, const int64_t *strides)
{
    hyp_md md = NULL;
    dnnl_status_t status = strides ? dnnl_memory_desc_create_with_strides(&md, rank, dims, type, strides)
                                   : dnnl_memory_desc_create_with_tag(&md, rank, dims, type, dnnl_format_tag_any);
    return status == dnnl_success ? md : NULL;
}

hyp_md hyp_md_clone(hyp_md_ref from)
{
    hyp_md md = NULL;
    return dnnl_memory_desc_clone(&md, from) == dnnl_success ? md : NULL;
}

void hyp_md_destroy(hyp_md md)
{
    if (md) dnnl_memory_desc_destroy(md);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha, float beta)
{
    return dnnl_post_ops_append_eltwise(ops, kind, alpha, beta);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static bool is_implementation(const_dnnl_primitive_desc_t pd, const char *name, size_t length)
{
    const char *is = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &is) == dnnl_success &&
           strncmp(is, name, length) == 0;
}

/* Whether it is a vector, be it a row or a column, with other elements between two of its own. */
static bool is_spread(hyp_md_ref md)
{
    const dnnl_dims_t *dims = NULL, *strides = NULL;
    int rank = 0;
    if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &rank) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_dims, &dims) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success)
        return true;
    const int64_t *size = *dims + rank - 2, *step = *strides + rank - 2; /* of rows, of columns */
    return (size[0] == 1 && size[1] > 1 && step[1] > 1) || (size[1] == 1 && size[0] > 1 && step[0] > 1);
}

/* Takes pd over, and gives it or the next kernel in its list whose name begins in another way; NULL where there is
 * none. */
static dnnl_primitive_desc_t without(dnnl_primitive_desc_t pd, const char *name)
{
    while (is_implementation(pd, name, strlen(name)))
        if (dnnl_primitive_desc_next_impl(pd) != dnnl_success) {
            dnnl_primitive_desc_destroy(pd);
            return NULL;
        }
    return pd;
}

/* The kernels for AVX-512 that 3.7 has first (brg_matmul) take the elements of a vector for neighbours: a column of
 * results is written over what lies between them, a row of a transposed src is read from there. Those behind them in
 * the list are right. Matrices are safe, as are weights of one column. A part of a product may be such a vector where
 * the whole is none. */
static dnnl_primitive_desc_t matmul(dnnl_engine_t engine, hyp_md_ref src, hyp_md_ref weights, hyp_md_ref bias,
                                    hyp_md_ref dst, const_dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_matmul_primitive_desc_create(&pd, engine, src, weights, bias, dst, attr) != dnnl_success) return NULL;
    return is_spread(src) || is_spread(dst) ? without(pd, "brg") : pd;
}

/* On AVX2 version 3 convolves by newer kernels than 2, which it still has behind them in its list: those for one
 * channel a group and for 1x1 are slower (docs/runtime-cpu.md). Takes pd over, and gives it or the next older kernel.
 */
static dnnl_primitive_desc_t prefer_older(dnnl_primitive_desc_t pd)
{
    static const char *const slower[] = {"brdgmm_dw:avx2", "brgconv_1x1:avx2"}, older[] = "jit";
    bool is_slower = false;
    for (size_t i = 0; i < sizeof slower / sizeof *slower; i++)
        is_slower = is_slower || is_implementation(pd, slower[i], strlen(slower[i]) + 1);
    dnnl_primitive_desc_t kept = NULL; /* a copy knows of no others */
    if (!is_slower || dnnl_primitive_desc_clone(&kept, pd) != dnnl_success) return pd;
    bool found = false;
    while (!found && dnnl_primitive_desc_next_impl(pd) == dnnl_success)
        found = is_implementation(pd, older, strlen(older));
    dnnl_primitive_desc_destroy(found ? kept : pd);
    return found ? pd : kept;
}

static dnnl_primitive_desc_t convolution(dnnl_engine_t engine, bool transpose, const hyp_dnnl_window *w, hyp_md_ref src,
                                         hyp_md_ref weights, hyp_md_ref bias, hyp_md_ref dst,
                                         const_dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status =
        transpose ? dnnl_deconvolution_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference,
                                                                     dnnl_deconvolution_direct, src, weights, bias, dst,
                                                                     w->strides, w->dilates, w->before, w->after, attr)
                  : dnnl_convolution_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference,
                                                                   dnnl_convolution_direct, src, weights, bias, dst,
                                                                   w->strides, w->dilates, w->before, w->after, attr);
    return status == dnnl_success ? prefer_older(pd) : NULL;
}

static dnnl_primitive_desc_t backward_weights(dnnl_engine_t engine, const hyp_dnnl_window *w, hyp_md_ref src,
                                              hyp_md_ref weights, hyp_md_ref dst, const_dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t forward = NULL, pd = NULL; /* which it has to be told of */
    if (dnnl_convolution_forward_primitive_desc_create(&forward, engine, dnnl_forward_training, dnnl_convolution_direct,
                                                       src, weights, NULL, dst, w->strides, w->dilates, w->before,
                                                       w->after, NULL) != dnnl_success)
        return NULL;
    dnnl_status_t status = dnnl_convolution_backward_weights_primitive_desc_create(
        &pd, engine, dnnl_convolution_direct, src, weights, NULL, dst, w->strides, w->dilates, w->before, w->after,
        forward, attr);
    dnnl_primitive_desc_destroy(forward);
    return status == dnnl_success ? pd : NULL;
}

#else

hyp_md hyp_md_create(int rank, const int64_t *dims, dnnl_data_type_t type, const int64_t *strides)
{
    dnnl_memory_desc_t desc;
    dnnl_status_t status = strides ? dnnl_memory_desc_init_by_strides(&desc, rank, dims, type, strides)
                                   : dnnl_memory_desc_init_by_tag(&desc, rank, dims, type, dnnl_format_tag_any);
    return status == dnnl_success ? hyp_md_clone(&desc) : NULL;
}

hyp_md hyp_md_clone(hyp_md_ref from)
{
    hyp_md md = hyp_malloc(sizeof *md);
    if (md) *md = *from;
    return md;
}

void hyp_md_destroy(hyp_md md) { hyp_free(md); }

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha, float beta)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, kind, alpha, beta);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1.0f); }

static dnnl_primitive_desc_t matmul(dnnl_engine_t engine, hyp_md_ref src, hyp_md_ref weights, hyp_md_ref bias,
                                    hyp_md_ref dst, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_matmul_desc_init(&desc, src, weights, bias, dst) != dnnl_success) return NULL;
    return dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL) == dnnl_success ? pd : NULL;
}

static dnnl_primitive_desc_t convolution(dnnl_engine_t engine, bool transpose, const hyp_dnnl_window *w, hyp_md_ref src,
                                         hyp_md_ref weights, hyp_md_ref bias, hyp_md_ref dst,
                                         const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t desc; /* the transpose has a description of the same type */
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status =
        transpose ? dnnl_dilated_deconvolution_forward_desc_init(&desc, dnnl_forward_inference,
                                                                 dnnl_deconvolution_direct, src, weights, bias, dst,
                                                                 w->strides, w->dilates, w->before, w->after)
                  : dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct,
                                                               src, weights, bias, dst, w->strides, w->dilates,
                                                               w->before, w->after);
    if (status != dnnl_success) return NULL;
    return dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL) == dnnl_success ? pd : NULL;
}

static dnnl_primitive_desc_t backward_weights(dnnl_engine_t engine, const hyp_dnnl_window *w, hyp_md_ref src,
                                              hyp_md_ref weights, hyp_md_ref dst, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t forward_desc, desc;
    dnnl_primitive_desc_t forward = NULL, pd = NULL; /* which it has to be told of */
    if (dnnl_dilated_convolution_forward_desc_init(&forward_desc, dnnl_forward_training, dnnl_convolution_direct, src,
                                                   weights, NULL, dst, w->strides, w->dilates, w->before,
                                                   w->after) != dnnl_success ||
        dnnl_dilated_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, src, weights, NULL, dst,
                                                            w->strides, w->dilates, w->before,
                                                            w->after) != dnnl_success ||
        dnnl_primitive_desc_create(&forward, &forward_desc, NULL, engine, NULL) != dnnl_success)
        return NULL;
    dnnl_status_t status = dnnl_primitive_desc_create(&pd, &desc, attr, engine, forward);
    dnnl_primitive_desc_destroy(forward);
    return status == dnnl_success ? pd : NULL;
}

#endif

/* What oneDNN calls an activation, and its numbers. 2.x has hard-swish's built in. A relu that is not compiled for the
 * processor, as 2.6 has it on ARM, is a product with 0 below 0: NaN of -inf, and -0 of others. */
#ifdef HYP_CPU_X86
#define ACT_relu dnnl_eltwise_relu, 0, 0
#else
#define ACT_relu dnnl_eltwise_clip, 0, INFINITY
#endif
#define ACT_gelu dnnl_eltwise_gelu_erf, 0, 0
#define ACT_gelu_tanh dnnl_eltwise_gelu_tanh, 0, 0
#define ACT_sigmoid dnnl_eltwise_logistic, 0, 0
#define ACT_tanh dnnl_eltwise_tanh, 0, 0
#define ACT_silu dnnl_eltwise_swish, 1, 0
#define ACT_quick_gelu dnnl_eltwise_swish, 1.702f, 0
#define ACT_hard_swish dnnl_eltwise_hardswish, 1.0f / 6, 0.5f
#define ACT_mish dnnl_eltwise_mish, 0, 0
#define ACT_softplus dnnl_eltwise_soft_relu, 1, 0

bool hyp_dnnl_find_act(const char *name, double slope, hyp_dnnl_act *out)
{
#define X(op, name, ...) {name, {ACT_##op}},
    static const struct {
        const char *name;
        hyp_dnnl_act act;
    } known[] = {{"none", {dnnl_alg_kind_undef, 0, 0}},
                 {"relu6", {dnnl_eltwise_clip, 0, 6}},
                 {"leaky-relu", {dnnl_eltwise_relu, 0, 0}},
                 HYP_ACTIVATIONS(X)};
#undef X
    if (slope == 0 && strcmp(name, "leaky-relu") == 0) return false; /* oneDNN takes it for a relu, which loses NaN */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        *out = known[i].act;
        if (out->kind == dnnl_eltwise_relu) out->alpha = (float)slope;
        return true;
    }
    return false;
}

int hyp_dnnl_added_arg(const hyp_dnnl_post *post)
{
    bool after_act = post->add_after && post->act.kind != dnnl_alg_kind_undef;
    int before = (post->alpha != 1.0f) + post->accumulate + after_act;
    return DNNL_ARG_ATTR_MULTIPLE_POST_OP(before) | DNNL_ARG_SRC_1;
}

static bool append_added(dnnl_post_ops_t ops, const hyp_dnnl_post *post, bool after)
{
    if (!post->added || post->add_after != after) return true;
    return dnnl_post_ops_append_binary(ops, dnnl_binary_add, post->added) == dnnl_success;
}

static bool fill_attributes(dnnl_primitive_attr_t attr, const hyp_dnnl_post *post)
{
    dnnl_post_ops_t ops = NULL;
    if (dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) != dnnl_success ||
        dnnl_primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict) != dnnl_success ||
        dnnl_post_ops_create(&ops) != dnnl_success)
        return false;
    bool ok = true;
    if (post->alpha != 1.0f) ok = append_eltwise(ops, dnnl_eltwise_linear, post->alpha, 0.0f) == dnnl_success;
    if (post->accumulate) ok = ok && append_sum(ops) == dnnl_success;
    ok = ok && append_added(ops, post, false);
    if (post->act.kind != dnnl_alg_kind_undef)
        ok = ok && append_eltwise(ops, post->act.kind, post->act.alpha, post->act.beta) == dnnl_success;
    ok = ok && append_added(ops, post, true);
    ok = ok && dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
    dnnl_post_ops_destroy(ops);
    return ok;
}

bool hyp_dnnl_is_reference(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           strncmp(name, "ref", 3) == 0;
}

dnnl_primitive_desc_t hyp_dnnl_matmul(dnnl_engine_t engine, hyp_md_ref src, hyp_md_ref weights, hyp_md_ref bias,
                                      hyp_md_ref dst, const hyp_dnnl_post *post)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    if (fill_attributes(attr, post)) pd = matmul(engine, src, weights, bias, dst, attr);
    dnnl_primitive_attr_destroy(attr);
    if (pd && hyp_dnnl_is_reference(pd)) {
        dnnl_primitive_desc_destroy(pd);
        pd = NULL;
    }
    return pd;
}

/* Convolutions that it does as products, and its reference, have a relu that is not compiled: see ACT_relu. */
static bool has_plain_relu(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           (strncmp(name, "ref", 3) == 0 || strstr(name, "gemm"));
}

dnnl_primitive_desc_t hyp_dnnl_convolution(dnnl_engine_t engine, bool transpose, const hyp_dnnl_window *window,
                                           hyp_md_ref src, hyp_md_ref weights, hyp_md_ref bias, hyp_md_ref dst,
                                           const hyp_dnnl_post *post)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    if (fill_attributes(attr, post)) pd = convolution(engine, transpose, window, src, weights, bias, dst, attr);
    dnnl_primitive_attr_destroy(attr);
    bool relu = post->act.kind == dnnl_eltwise_relu && post->act.alpha == 0;
    if (!pd || !relu || !has_plain_relu(pd)) return pd;
    hyp_dnnl_post clipped = *post;
    clipped.act = (hyp_dnnl_act){dnnl_eltwise_clip, 0, INFINITY};
    dnnl_primitive_desc_destroy(pd);
    return hyp_dnnl_convolution(engine, transpose, window, src, weights, bias, dst, &clipped);
}

dnnl_primitive_desc_t hyp_dnnl_backward_weights(dnnl_engine_t engine, const hyp_dnnl_window *window, hyp_md_ref src,
                                                hyp_md_ref weights, hyp_md_ref dst)
{
    const hyp_dnnl_post none = {.alpha = 1.0f, .act = {dnnl_alg_kind_undef, 0, 0}};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    if (fill_attributes(attr, &none)) pd = backward_weights(engine, window, src, weights, dst, attr);
    dnnl_primitive_attr_destroy(attr);
    return pd;
}

hyp_md_ref hyp_dnnl_query(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

dnnl_primitive_desc_t hyp_dnnl_reorder(dnnl_engine_t engine, hyp_md_ref from, hyp_md_ref to)
{
    dnnl_primitive_desc_t pd = NULL;
    return dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL) == dnnl_success ? pd : NULL;
}
