/* build.h - making nodes without a check behind each: private to src/train.
 *
 * A builder remembers its first failure. From then on its functions do nothing and give HYP_NO_VALUE, or 0 as a size,
 * so that terms can be written as terms; whoever builds looks at `status` once, at the end.
 */
#ifndef HYP_TRAIN_BUILD_H
#define HYP_TRAIN_BUILD_H

#include "ir/ir.h"

typedef struct hyp_builder {
    hyp_graph *g;
    hyp_diag *diag;
    hyp_status status;
    hyp_provenance from;           /* of the nodes that are made */
    HYP_VEC(hyp_value_id) scalars; /* constants of one element made so far: each is there once */
    hyp_arena arena;               /* forms, and lists on their way into the graph */
} hyp_builder;

void hyp_builder_dispose(hyp_builder *b);
/* Notes a failure, or HYP_OK. */
void hyp_build_note(hyp_builder *b, hyp_status status);
static inline bool hyp_build_ok(const hyp_builder *b) { return b->status == HYP_OK; }

/* ---- sizes ------------------------------------------------------------------------------------------ */

hyp_dim hyp_build_add(hyp_builder *b, hyp_dim x, hyp_dim y);
hyp_dim hyp_build_sub(hyp_builder *b, hyp_dim x, hyp_dim y);
hyp_dim hyp_build_mul(hyp_builder *b, hyp_dim x, hyp_dim y);
/* The product of the dims first..end-1. */
hyp_dim hyp_build_count(hyp_builder *b, const hyp_type *t, int32_t first, int32_t end);

/* ---- nodes ------------------------------------------------------------------------------------------ */

/* A copy, for values move when nodes are added; a scalar of f32 for HYP_NO_VALUE. */
hyp_type hyp_build_type(const hyp_builder *b, hyp_value_id v);
/* A new node and all its outputs; HYP_NO_VALUE each where there is an error. attrs: as of hyp_graph_add_node. */
void hyp_build_outputs(hyp_builder *b, hyp_op op, const hyp_attr *attrs, const hyp_value_id *inputs, uint32_t count,
                       hyp_value_id *outs, uint32_t out_count);
/* Output `output` of a new node that has `outputs` of them. */
hyp_value_id hyp_build_output(hyp_builder *b, hyp_op op, const hyp_attr *attrs, const hyp_value_id *inputs,
                              uint32_t count, uint32_t outputs, uint32_t output);
/* hyp_build_node(b, op, attrs, inputs...): a node of one output. */
#define hyp_build_node(b, op, attrs, ...)                                                                              \
    hyp_build_output((b), (op), (attrs), (const hyp_value_id[]){__VA_ARGS__},                                          \
                     sizeof((const hyp_value_id[]){__VA_ARGS__}) / sizeof(hyp_value_id), 1, 0)

/* A constant of a copy of these bytes. */
hyp_value_id hyp_build_const(hyp_builder *b, const hyp_type *type, const void *data, size_t bytes);
/* A constant of one element and rank 0. */
hyp_value_id hyp_build_scalar(hyp_builder *b, hyp_dtype dtype, double value);
/* A constant of 0, step, 2 step ... in a static type. */
hyp_value_id hyp_build_numbers(hyp_builder *b, const hyp_type *type, int64_t step);
/* The number everywhere in a tensor of this type. */
hyp_value_id hyp_build_full(hyp_builder *b, const hyp_type *type, double value);
/* The same value where there is nothing to do. */
hyp_value_id hyp_build_cast(hyp_builder *b, hyp_value_id v, hyp_dtype dtype);
hyp_value_id hyp_build_reshape(hyp_builder *b, hyp_value_id v, int32_t rank, const hyp_dim *dims);
hyp_value_id hyp_build_transpose(hyp_builder *b, hyp_value_id v, const hyp_dim *perm);
/* The first axis becomes axis `axis`. */
hyp_value_id hyp_build_axis_back(hyp_builder *b, hyp_value_id v, int32_t axis);
/* sizes[i] elements along axis i from starts[i] on, one after the other. */
hyp_value_id hyp_build_slice(hyp_builder *b, hyp_value_id v, const hyp_dim *starts, const hyp_dim *sizes);
/* The first dims[i] elements along every axis. */
hyp_value_id hyp_build_head(hyp_builder *b, hyp_value_id v, const hyp_dim *dims);
/* `before` zeros in front of axis `axis`, `after` behind it. */
hyp_value_id hyp_build_pad(hyp_builder *b, hyp_value_id v, int32_t axis, hyp_dim before, hyp_dim after);
hyp_value_id hyp_build_sum(hyp_builder *b, hyp_value_id v, const hyp_dim *axes, int32_t count, bool keep);
/* reduce-sum or reduce-mean over all axes, of which none is kept. */
hyp_value_id hyp_build_reduce_all(hyp_builder *b, hyp_op op, hyp_value_id v);
/* v summed over the axes along which a tensor of type `to` was broadcast to it, repeated along those that `to` has more
 * of, and of its element type. */
hyp_value_id hyp_build_fit(hyp_builder *b, hyp_value_id v, const hyp_type *to);

#endif
