/* dnnl_compat.h - the calls of oneDNN that we use, the same for versions 2 and 3 of its C API. Where an object is
 * refused (an unsupported type, no memory) a function gives NULL or false: the caller takes another kernel.
 */
#ifndef HYP_RUNTIME_CPU_DNNL_COMPAT_H
#define HYP_RUNTIME_CPU_DNNL_COMPAT_H

#include <oneapi/dnnl/dnnl.h>

#include <stdbool.h>

#include "hypatia/types.h"

/* An owned description of memory, and a borrowed one. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t hyp_md;
typedef const_dnnl_memory_desc_t hyp_md_ref;
#else
typedef dnnl_memory_desc_t *hyp_md;
typedef const dnnl_memory_desc_t *hyp_md_ref;
#endif

/* dnnl_data_type_undef for what oneDNN does not have. */
dnnl_data_type_t hyp_dnnl_type(hyp_dtype dtype);

/* strides NULL: whatever layout the primitive likes best. NULL on failure. */
hyp_md hyp_md_create(int rank, const int64_t *dims, dnnl_data_type_t type, const int64_t *strides);
hyp_md hyp_md_clone(hyp_md_ref md);
void hyp_md_destroy(hyp_md md); /* NULL-safe */

/* An activation as oneDNN has it; kind dnnl_alg_kind_undef: none. */
typedef struct hyp_dnnl_act {
    dnnl_alg_kind_t kind;
    float alpha, beta;
} hyp_dnnl_act;
/* By its name in plans, relu6 included, and leaky-relu of this slope. False when oneDNN has none of this name. */
bool hyp_dnnl_find_act(const char *name, double slope, hyp_dnnl_act *out);

/* What happens to the results of a product or convolution: y = act(alpha * y), or act(alpha * y + what y held before).
 * A tensor `added` of the shape of y is added before the activation, or after it; NULL: none. */
typedef struct hyp_dnnl_post {
    float alpha;
    hyp_dnnl_act act;
    bool accumulate;
    hyp_md_ref added;
    bool add_after;
} hyp_dnnl_post;

/* The number of the argument that is added when a primitive runs. */
int hyp_dnnl_added_arg(const hyp_dnnl_post *post);

/* A product with scratch memory from the caller and products in the full precision of their type. bias may be
 * NULL. NULL when oneDNN has none, or only its slow reference. */
dnnl_primitive_desc_t hyp_dnnl_matmul(dnnl_engine_t engine, hyp_md_ref src, hyp_md_ref weights, hyp_md_ref bias,
                                      hyp_md_ref dst, const hyp_dnnl_post *post);

/* A window over 1 to 3 spatial axes. */
enum { HYP_DNNL_SPATIAL = 3 };
typedef struct hyp_dnnl_window {
    dnnl_dims_t strides;
    dnnl_dims_t dilates; /* positions left out between two of the window: 0 for a dense one */
    dnnl_dims_t before, after;
} hyp_dnnl_window;

/* A convolution, or the transpose of one, at inference; bias may be NULL. Weights are
 * [groups, out, in, kernel...], without groups where there is one. NULL when oneDNN has none. */
dnnl_primitive_desc_t hyp_dnnl_convolution(dnnl_engine_t engine, bool transpose, const hyp_dnnl_window *window,
                                           hyp_md_ref src, hyp_md_ref weights, hyp_md_ref bias, hyp_md_ref dst,
                                           const hyp_dnnl_post *post);

/* The gradient of such a convolution by the weights, dst being that by its result; no bias. NULL when oneDNN has none. */
dnnl_primitive_desc_t hyp_dnnl_backward_weights(dnnl_engine_t engine, const hyp_dnnl_window *window, hyp_md_ref src,
                                                hyp_md_ref weights, hyp_md_ref dst);
/* Whether it is oneDNN's plain loops. */
bool hyp_dnnl_is_reference(const_dnnl_primitive_desc_t pd);

/* Description of an argument of a primitive: what is dnnl_query_weights_md or dnnl_query_scratchpad_md. */
hyp_md_ref hyp_dnnl_query(const_dnnl_primitive_desc_t pd, dnnl_query_t what);
/* A reorder of `from` into `to`. */
dnnl_primitive_desc_t hyp_dnnl_reorder(dnnl_engine_t engine, hyp_md_ref from, hyp_md_ref to);

#endif
