/* writer.h - from nodes of the tensor graph to those of an ONNX model: what the files that write models share, private to
 * src/onnx.
 *
 * An operator is a row of write_operators.c: a node of ONNX, or a function that builds its result of such nodes. Where it
 * takes several, they become the body of a function of the model, in a domain of ours, which any reader of ONNX can look
 * into; where it takes one, that stands in the graph. The function need not know which: the writer asks it twice.
 *
 * A writer remembers its first failure. From then on its functions do nothing of use, so that bodies can be written as
 * terms; whoever writes a model looks at `status` once, at the end. Names of values are in the writer's arena; NULL is an
 * input that is absent.
 */
#ifndef HYP_ONNX_WRITER_H
#define HYP_ONNX_WRITER_H

#include "onnx/onnx.h"

#define HYP_OW_DOMAIN "hypatia" /* of the functions that models have for operators of ours */

/* Where nodes go: the graph, or the body of a function. */
typedef struct hyp_ow_scope {
    hyp_strbuf nodes; /* messages of nodes, each with its field's head */
    uint32_t field;   /* of nodes, in the message around them */
    size_t operators; /* nodes, constants apart */
    size_t made, constants; /* names given */
} hyp_ow_scope;

typedef struct hyp_ow_weight {
    const char *name;
    hyp_value_id value;
} hyp_ow_weight;

typedef struct hyp_ow_pair {
    const char *inside, *outside; /* what a value of the graph is called in a function */
} hyp_ow_pair;

typedef struct hyp_ow_size {
    hyp_dim dim;
    const char *name;
} hyp_ow_size;

enum { HYP_OW_OUTPUTS = 8 }; /* of one node of ONNX that a row makes; more: of split and of custom operators alone */

typedef struct hyp_ow {
    const hyp_graph *g;
    const hyp_onnx_write_options *options;
    hyp_diag *diag;
    hyp_status status;
    hyp_arena arena;
    hyp_ow_scope graph, body, *at;
    const hyp_node *node;       /* that is being written */
    const char **given;         /* its results, by output: names in the body */
    const char *const *results; /* the same in the graph */
    HYP_VEC(hyp_ow_pair) formals;
    hyp_strbuf attrs;   /* of the node that is made next */
    hyp_intern names;   /* taken in the graph */
    hyp_intern labels;  /* names of nodes */
    const char **values; /* by value of the graph: its name, NULL while it has none */
    const bool *constant; /* by value: its elements are in the file */
    HYP_VEC(hyp_ow_weight) weights;
    HYP_VEC(hyp_ow_size) sizes; /* that were computed, each once */
    hyp_intern joined;    /* lists of sizes that were computed */
    HYP_VEC(const char *) joined_names;
    hyp_intern lists;     /* of integers and of numbers that are initializers, by their bytes */
    HYP_VEC(const char *) list_names;
    hyp_strbuf initializers, infos;
    hyp_intern bodies; /* of functions, behind their operator's name */
    HYP_VEC(const char *) function_names;
    hyp_strbuf functions;
    hyp_intern domains; /* that are read, but for ONNX's own */
    int64_t opset;
} hyp_ow;

/* Builds what the current node gives: its one result, or NULL after hyp_ow_give for each. */
typedef const char *hyp_ow_fn(hyp_ow *w);
typedef struct hyp_ow_row {
    const char *onnx;  /* the node that it is, of the same inputs and results; NULL: `write` makes it */
    const char *attrs; /* its attributes: "axis keepdims=keep", names here behind a = where they differ; NULL = none */
    hyp_ow_fn *write;
    hyp_ow_fn *microsoft; /* with nodes of com.microsoft where that domain is asked for; NULL where they do not fit */
} hyp_ow_row;
/* The row of an operator; `onnx` and `write` are NULL where there is none. */
hyp_ow_row hyp_ow_row_of(hyp_op op);

/* ---- writer_node.c -------------------------------------------------------------------------------------- */

void hyp_ow_note(hyp_ow *w, hyp_status status);
/* HYP_ERR_UNSUPPORTED, of the current node. Gives NULL. */
const char *hyp_ow_refuse(hyp_ow *w, const char *what);
/* HYP_ERR_NO_MEMORY. Gives NULL. */
const char *hyp_ow_no_memory(hyp_ow *w);

/* The number of these bytes among those that were given before, or the next one. */
uint32_t hyp_ow_intern(hyp_ow *w, hyp_intern *in, const void *bytes, size_t len);
/* A name that nothing in the graph has; `base` itself if it is free. */
const char *hyp_ow_unique(hyp_ow *w, const char *base);
/* The name of a value of the graph where it is used now. */
const char *hyp_ow_value(hyp_ow *w, hyp_value_id v);
/* Input i of the current node, NULL if it is absent, and its type. */
const char *hyp_ow_in(hyp_ow *w, uint32_t i);
const hyp_type *hyp_ow_type(const hyp_ow *w, uint32_t i);
static inline bool hyp_ow_has(const hyp_ow *w, uint32_t i)
{
    return i < w->node->input_count && w->node->inputs[i] != HYP_NO_VALUE;
}
static inline const hyp_type *hyp_ow_result_type(const hyp_ow *w, uint32_t i)
{
    return &w->g->values.data[w->node->outputs[i]].type;
}

/* Attributes of the node that is made next. */
void hyp_ow_int(hyp_ow *w, const char *name, int64_t value);
void hyp_ow_float(hyp_ow *w, const char *name, double value);
void hyp_ow_text(hyp_ow *w, const char *name, const char *value, size_t len);
void hyp_ow_texts(hyp_ow *w, const char *name, const char *const *values, size_t count);
void hyp_ow_floats(hyp_ow *w, const char *name, const double *values, size_t count);
void hyp_ow_ints(hyp_ow *w, const char *name, const int64_t *values, size_t count);
/* Of a list attribute of the current node, of known sizes. */
void hyp_ow_sizes(hyp_ow *w, const char *name, const hyp_attr *list);
/* Those that a row names, of the current node. */
void hyp_ow_attrs(hyp_ow *w, const char *names);

/* A node with these inputs, and its results, which get names. `op` is of ONNX, or "domain::Name". */
void hyp_ow_nodes(hyp_ow *w, const char *op, const char *const *in, size_t count, const char **out, size_t out_count);
const char *hyp_ow_node(hyp_ow *w, const char *op, const char *const *in, size_t count);
#define hyp_ow_op(w, op, ...)                                                                                          \
    hyp_ow_node((w), (op), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
/* Says that this is result i of the current node. */
void hyp_ow_give(hyp_ow *w, uint32_t i, const char *name);

/* Constants: a list of i64, a number as a tensor of rank 0 or of the one element [1], and a tensor of this shape, an i64
 * list, with the number everywhere. */
const char *hyp_ow_list(hyp_ow *w, const int64_t *values, size_t count);
const char *hyp_ow_scalar(hyp_ow *w, hyp_dtype dtype, double value);
const char *hyp_ow_full(hyp_ow *w, const char *shape, hyp_dtype dtype, double value);
/* Sizes as a list of i64, computed from the inputs of the graph where they are not known. */
const char *hyp_ow_dims(hyp_ow *w, const hyp_dim *dims, size_t count);

const char *hyp_ow_transpose(hyp_ow *w, const char *x, const int64_t *perm, size_t rank);
/* The last two axes changed. */
const char *hyp_ow_swap(hyp_ow *w, const char *x, int32_t rank);
const char *hyp_ow_cast(hyp_ow *w, const char *x, hyp_dtype from, hyp_dtype to);
const char *hyp_ow_squeeze(hyp_ow *w, const char *x, int64_t axis);
const char *hyp_ow_unsqueeze(hyp_ow *w, const char *x, int64_t axis);

/* ---- the operators: write_*.c --------------------------------------------------------------------------- */

/* An elementwise operator of one operand, with its attributes, on x of this element type. */
const char *hyp_ow_unary(hyp_ow *w, hyp_op op, const hyp_attr *attrs, const char *x, hyp_dtype dtype);
/* The value that the current writing reads in place of input i of a node: of a weight that was transposed, what it is of. */
hyp_value_id hyp_ow_weight_of(const hyp_graph *g, const hyp_node *node, uint32_t i, bool *out_transposed);
/* The layer that computes what a recurrence reads, and nothing else does; NULL if there is none. */
const hyp_node *hyp_ow_projection(const hyp_graph *g, const hyp_node *node);

/* write_products.c */
hyp_ow_fn hyp_ow_linear, hyp_ow_linear_ms, hyp_ow_linear_add, hyp_ow_mlp, hyp_ow_quantized, hyp_ow_matmul, hyp_ow_matmul_ms,
    hyp_ow_gemm, hyp_ow_attention, hyp_ow_conv, hyp_ow_conv_ms, hyp_ow_conv_transpose, hyp_ow_layer_norm, hyp_ow_rms_norm,
    hyp_ow_lstm, hyp_ow_gru, hyp_ow_rnn;
/* write_shapes.c */
hyp_ow_fn hyp_ow_reshape, hyp_ow_squeezed, hyp_ow_unsqueezed, hyp_ow_expand, hyp_ow_split, hyp_ow_slice, hyp_ow_pad,
    hyp_ow_reduce, hyp_ow_scan, hyp_ow_cumprod, hyp_ow_reverse_sequence, hyp_ow_topk, hyp_ow_one_hot, hyp_ow_range,
    hyp_ow_tensor_scatter, hyp_ow_bit_cast, hyp_ow_resize, hyp_ow_affine_grid, hyp_ow_roi_align, hyp_ow_max_unpool,
    hyp_ow_nonzero, hyp_ow_suppression, hyp_ow_unique_op;

/* ---- writer_file.c -------------------------------------------------------------------------------------- */

enum { HYP_OW_ANY = -1 }; /* a dim of which nothing is known beforehand */
/* Fields of messages. */
void hyp_ow_put_int(hyp_strbuf *sb, uint32_t field, int64_t value);
void hyp_ow_put_text(hyp_strbuf *sb, uint32_t field, const char *text);
void hyp_ow_put_part(hyp_strbuf *sb, uint32_t field, const hyp_strbuf *part);
/* A ValueInfoProto, and the same as a field; type NULL: its name alone. */
void hyp_ow_print_value(hyp_strbuf *value, const char *name, const hyp_dims *dims, const hyp_type *type);
void hyp_ow_put_value(hyp_strbuf *sb, uint32_t field, const char *name, const hyp_dims *dims, const hyp_type *type);
/* A TensorProto of these bytes. */
void hyp_ow_put_tensor(hyp_strbuf *sb, uint32_t field, const char *name, hyp_dtype dtype, int32_t rank, const int64_t *dims,
                       const void *data, size_t bytes);
/* Writes the model whose graph was written. */
HYP_NODISCARD hyp_status hyp_ow_write_file(hyp_ow *w, const char *path);

#endif
