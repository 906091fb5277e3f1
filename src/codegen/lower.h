/* lower.h - the state of one lowering, shared by the files of this layer.
 *
 *   analysis.c        which values are constants, which nodes run, which elementwise nodes form one step
 *   views.c           moves that a kernel with strides looks through
 *   order.c           in which order they run
 *   lower.c           the walk over the nodes
 *   edges.c           inputs, outputs and variables
 *   emit_*.c          steps, one file per family of kernels
 *   program.c axes.c  building blocks: dims, tensors of values, steps; extents and strides
 *   slots.c           places of scratch tensors
 *   distance.c        how far away lies what steps touch
 *   side_by_side.c    what a run takes whose steps run side by side
 *   fold.c            bytes of weights
 *   update.c          how others take their place
 */
#ifndef HYP_CODEGEN_LOWER_H
#define HYP_CODEGEN_LOWER_H

#include "codegen/codegen.h"

typedef struct hyp_value_info {
    bool constant;         /* its bytes are known when the plan is written: where it is read it becomes a weight */
    bool listed;           /* its elements are known as sizes: a fill gives them */
    bool needed;           /* a step that runs reads it, or it is an output */
    bool apart;            /* it must exist as a tensor: its readers are not all in one pointwise group */
    bool outside;          /* something else than a pointwise group reads it */
    bool shown;            /* it is an output of the graph */
    bool whole;            /* it is that, or a node other than a concat reads it, or what it is moved to */
    uint32_t group_plus1;  /* the group of all its readers so far */
    uint32_t tensor_plus1; /* the tensor made for it */
    uint32_t output_plus1; /* the graph output in whose memory it is computed */
} hyp_value_info;

/* Elementwise nodes that become one step: `root` and nodes whose only readers are in the group, or in groups of which
 * each has them: those belong to none. */
typedef struct hyp_group {
    hyp_node_id root; /* the last node; its result is the step's, with those of members that are outputs of the graph */
    uint32_t results; /* of them all */
    hyp_dtype compute;
    hyp_node_id nodes[HYP_PLAN_POINTWISE_REGISTERS]; /* the members, last first */
    uint32_t node_count;
    uint32_t instrs;                                /* one for each node and each scalar that it reads */
    hyp_value_id inputs[HYP_PLAN_POINTWISE_INPUTS]; /* distinct values from outside */
    uint32_t input_count;
} hyp_group;

typedef struct hyp_lowering {
    const hyp_graph *graph;
    const hyp_codegen_options *options;
    hyp_lowered *out;  /* its arena owns all that ends in the program */
    hyp_arena scratch; /* freed when lowering is done */
    hyp_diag *diag;

    hyp_value_info *values; /* by value */
    bool *runs;             /* by node: it becomes a step, or a part of one */
    uint32_t *group_plus1;  /* by node: its pointwise group */
    hyp_node_id *order;     /* in which nodes become steps */
    size_t updates;         /* so many last ones of them only update variables, and come behind all other steps */
    uint32_t *copies;       /* by output of the graph: the tensor + 1 that is a copy for it; 0 = none */
    HYP_VEC(hyp_group) groups;

    /* The program as it grows. */
    HYP_VEC(HypPlan__Dim *) dims;
    HYP_VEC(HypPlan__Tensor *) tensors;
    HYP_VEC(hyp_value_id) folds; /* by tensor: the constant that gives a weight its bytes, else HYP_NO_VALUE */
    HYP_VEC(hyp_dim) bytes;      /* by tensor */
    HYP_VEC(HypPlan__Step *) steps;
    HYP_VEC(uint32_t) dense; /* by step: bit i set when input i of a pointwise step is dense */
    HYP_VEC(char *) symbols;
    uint32_t *symbol_plus1; /* by symbol of the graph's dims: its index in `symbols` */
    hyp_dim *dim_keys;      /* open addressing from hyp_dim to dim_indexes; dim_slots is a power of two */
    uint32_t *dim_indexes;  /* index + 1, 0 = empty */
    size_t dim_slots;
    hyp_intern rules, sources;
} hyp_lowering;

/* ---- analysis.c ------------------------------------------------------------------------------------- */

/* Fills values, runs, groups. */
hyp_status hyp_lower_analyse(hyp_lowering *l);
/* Input i of a node as its kernel reads it: for weights of linear layers and constant right operands of matmul
 * transposes and views on the way are looked through, and *transposed says whether the matrix is stored the other way
 * round; for a GPU a constant is stored as it is read. HYP_NO_VALUE for an absent input. */
hyp_value_id hyp_lower_operand(const hyp_lowering *l, const hyp_node *node, uint32_t i, bool *transposed);
/* A matmul that is a linear layer without bias: b is a constant matrix or vector, a is not transposed. */
bool hyp_lower_is_linear(const hyp_lowering *l, const hyp_node *node);
/* The value that holds the elements of a chain of views. */
hyp_value_id hyp_lower_root(const hyp_lowering *l, hyp_value_id value);
/* Whether a split or slice is no step: its results are windows of what it reads. */
bool hyp_lower_is_windows(const hyp_lowering *l, const hyp_node *node);
/* A constant of one element that an instruction can carry. */
bool hyp_lower_is_scalar(const hyp_lowering *l, hyp_value_id value, double *out);

static inline const hyp_value *hyp_lower_value(const hyp_lowering *l, hyp_value_id v)
{
    return &l->graph->values.data[v];
}

/* ---- order.c ---------------------------------------------------------------------------------------- */

/* Fills the order of the nodes, of a graph that was analysed: that with the least memory, of its own and others; and how many
 * updates are behind all else in it. */
hyp_status hyp_lower_find_order(hyp_lowering *l);

/* ---- views.c ---------------------------------------------------------------------------------------- */

/* A value as a part of another, `value`: element i lies at offset + i . strides there. */
typedef struct hyp_view {
    hyp_value_id value;
    hyp_dim offset, strides[HYP_MAX_RANK];
} hyp_view;
/* Looks through transpositions, slices in steps of 1, splits and reshapes that split axes; for `matrices` not where
 * neither rows nor columns of them would lie together any more. */
hyp_status hyp_lower_find_view(hyp_lowering *l, hyp_value_id v, bool matrices, hyp_view *out);

/* How a concat reads one of its inputs: by the axes of `of`, which is the input itself, or a value behind views whose axes
 * a reshape merged into the input's. Axis i of it is, `step[i]` elements at a time, part of axis `axis[i]` of the input. */
typedef struct hyp_fine_view {
    hyp_value_id of;
    int32_t axis[HYP_MAX_RANK];
    hyp_dim step[HYP_MAX_RANK];
    hyp_view view; /* of `of` */
} hyp_fine_view;
hyp_status hyp_lower_find_fine_view(hyp_lowering *l, hyp_value_id v, hyp_fine_view *out);

/* A value that is a concat, or one whose axes changed places or were split from ones of one element: its parts lie one
 * behind the other along an axis of the value. */
typedef struct hyp_parts {
    const hyp_node *concat;     /* NULL: it is none */
    int32_t rank, axis;         /* of the value */
    int32_t from[HYP_MAX_RANK]; /* by axis of the value: that of the concat's result; -1: none, it is of one element */
} hyp_parts;
hyp_status hyp_lower_find_parts(hyp_lowering *l, hyp_value_id v, hyp_parts *out);
/* The same of an input of a concat, whose parts are copied in its place; not where it is there as a tensor in any case. */
hyp_status hyp_lower_find_copied_parts(hyp_lowering *l, hyp_value_id v, hyp_parts *out);
/* Part i as it lies behind views, strides by axis of the whole value, and its size along the axis. */
hyp_status hyp_lower_find_part(hyp_lowering *l, const hyp_parts *parts, uint32_t i, hyp_view *out, hyp_dim *out_size);
/* The keys and values of an attention of one row that come in two parts of the same sizes, such as those of the past
 * and of a new token: a GPU reads them where they lie. concat is NULL for what does not. */
hyp_status hyp_lower_find_key_parts(hyp_lowering *l, const hyp_node *node, hyp_parts *out_k, hyp_parts *out_v);

/* What an elementwise step reads for v. On a GPU the value behind transpositions that leave rows of some length as they
 * are, such as those of the heads of an attention: the copy would be one more kernel. Else v itself: on a CPU, rows
 * that are not one after the other cost more than the copy. */
hyp_status hyp_lower_find_rows(hyp_lowering *l, hyp_value_id v, hyp_view *out);

/* ---- edges.c ---------------------------------------------------------------------------------------- */

/* Before there are steps: inputs, variables without what they become. */
hyp_status hyp_lower_add_edges(hyp_lowering *l);
/* Steps for outputs that are an input, a constant, or another output's memory seen otherwise: copies. */
hyp_status hyp_lower_emit_copies(hyp_lowering *l);
/* When all steps are there: outputs, what variables begin with and become. */
hyp_status hyp_lower_finish_edges(hyp_lowering *l);
/* Of a finished program: which variables are updated in place, all that may be. */
hyp_status hyp_lower_mark_in_place(hyp_lowering *l);

/* ---- program.c -------------------------------------------------------------------------------------- */

hyp_status hyp_lower_dim(hyp_lowering *l, hyp_dim d, uint32_t *out);
/* A list of dims in the program's arena. */
hyp_status hyp_lower_dims(hyp_lowering *l, size_t n, const hyp_dim *dims, uint32_t **out);
/* Product of n dims. */
hyp_status hyp_lower_product(hyp_lowering *l, size_t n, const hyp_dim *dims, hyp_dim *out);
hyp_status hyp_lower_add_tensor(hyp_lowering *l, const char *name, const hyp_type *type, HypPlan__Place place,
                                uint32_t *out);
/* A tensor with the elements of another, or of its root, and where that is a window of the same part. */
hyp_status hyp_lower_add_view(hyp_lowering *l, const char *name, const hyp_type *type, uint32_t of, uint32_t *out);
/* Adds a step that stands for these nodes (there may be none), which give it its provenance. The kernel is for the
 * caller to fill in. */
hyp_status hyp_lower_add_step(hyp_lowering *l, const char *label, const hyp_node *const *nodes, size_t node_count,
                              HypPlan__Step__KernelCase kernel, HypPlan__Step **out);
/* Zeroed memory in the program's arena. */
hyp_status hyp_lower_alloc(hyp_lowering *l, size_t count, size_t size, void **out);
/* The tensor to read a value from, made on first use: a weight for a constant, a view for a view or a window. */
hyp_status hyp_lower_read(hyp_lowering *l, hyp_value_id value, uint32_t *out_tensor);
/* The tensor to compute a value into: the output's memory where it is one, else scratch. */
hyp_status hyp_lower_write(hyp_lowering *l, hyp_value_id value, uint32_t *out_tensor);
/* "add at 'node name': ..." with HYP_ERR_UNSUPPORTED. */
hyp_status hyp_lower_unsupported(hyp_lowering *l, const hyp_node *node, const char *fmt, ...) HYP_PRINTF(3, 4);
/* The dims of a finished program for the sizes that predictions are for. */
hyp_status hyp_lower_typical_values(hyp_lowering *l, const int64_t **out);
/* By symbol of the graph's dims: the size that predictions are for; where there are none, one guess for all. */
hyp_status hyp_lower_guess_sizes(hyp_lowering *l, const int64_t **out);
/* Moves the lists into the program. */
hyp_status hyp_lower_finish_program(hyp_lowering *l);

/* ---- axes.c ----------------------------------------------------------------------------------------- */

/* An index space and the strides of up to HYP_PLAN_POINTWISE_INPUTS arrays in it. */
typedef struct hyp_axes {
    int32_t rank;
    int32_t lanes;
    hyp_dim extents[HYP_MAX_RANK];
    hyp_dim strides[HYP_PLAN_POINTWISE_INPUTS][HYP_MAX_RANK];
} hyp_axes;

/* Row-major strides of a shape. */
hyp_status hyp_lower_strides(hyp_lowering *l, int32_t rank, const hyp_dim *dims, hyp_dim *out);
/* The strides of an operand of this type under numpy broadcasting to the extents, as lane `lane`. */
hyp_status hyp_lower_broadcast(hyp_lowering *l, hyp_axes *axes, int32_t lane, const hyp_type *type);
/* The same for an operand that lies with these strides. */
void hyp_lower_broadcast_view(hyp_axes *axes, int32_t lane, const hyp_type *type, const hyp_dim *strides);
/* Drops axes of one element and joins neighbours that every lane crosses with one stride. */
void hyp_lower_merge_axes(hyp_lowering *l, hyp_axes *axes);

/* ---- emit_*.c: one or more steps for a node --------------------------------------------------------- */

hyp_status hyp_emit_layers(hyp_lowering *l, const hyp_node *node); /* linear and what is fused from it */
hyp_status hyp_emit_quantized(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_matmul(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_gemm(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_attention(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_group(hyp_lowering *l, const hyp_group *group);
/* y = product + beta * c, the second half of a gemm. */
hyp_status hyp_emit_scaled_sum(hyp_lowering *l, const hyp_node *node, uint32_t product, hyp_value_id addend,
                               double beta);
hyp_status hyp_emit_transpose(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_slice(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_split(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_concat(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_expand(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_pad(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_gather(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_softmax(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_reduce(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_call(hyp_lowering *l, const hyp_node *node); /* any operator with HYP_OPF_CALL */
hyp_status hyp_emit_custom(hyp_lowering *l, const hyp_node *node);
hyp_status hyp_emit_fill(hyp_lowering *l, const hyp_node *node, hyp_value_id value);
/* A dense copy of all elements: an output that is something else as well. */
hyp_status hyp_emit_whole_copy(hyp_lowering *l, uint32_t from, uint32_t to, const hyp_type *type);

/* Prices what some steps compute together, and says of each what its share is made of: lower.c. */
hyp_status hyp_lower_price_steps(hyp_lowering *l, const hyp_node *const *nodes, size_t count, HypPlan__Step **steps,
                                 size_t step_count);
/* Adds to what is predicted of a step, and says what for where that is more than `least` of the whole: lower.c. */
hyp_status hyp_lower_add_seconds(hyp_lowering *l, HypPlan__Step *step, double seconds, const char *what, double least);

/* ---- slots.c ---------------------------------------------------------------------------------------- */

/* Gives every scratch tensor a slot. */
hyp_status hyp_lower_place_scratch(hyp_lowering *l);

/* ---- turns.c ---------------------------------------------------------------------------------------- */

/* Adds to the predictions of a finished program what steps take for turning images. */
hyp_status hyp_lower_add_turns(hyp_lowering *l);

/* ---- distance.c ------------------------------------------------------------------------------------- */

/* Adds to the predictions of a finished program what its steps take longer than each would right after itself. */
hyp_status hyp_lower_add_distances(hyp_lowering *l);

/* ---- side_by_side.c --------------------------------------------------------------------------------- */

/* Predicts what a finished program takes as a whole, where its steps run side by side; else the sum of its steps stands. */
hyp_status hyp_lower_predict_side_by_side(hyp_lowering *l);

#endif
