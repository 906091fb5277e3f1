/* import.h - the state of one import, shared by the files of the importer. */
#ifndef HYP_ONNX_IMPORT_H
#define HYP_ONNX_IMPORT_H

#include "onnx.pb-c.h"
#include "onnx/onnx.h"
#include "onnx/source.h"

enum {
    HYP_ONNX_OPSET_MIN = 1,
    HYP_ONNX_OPSET_TABLE = 7, /* where the rows of operators begin: what is older has this as its first opset */
    HYP_ONNX_OPSET_MAX = 28,
    HYP_ONNX_ANY = INT32_MAX,           /* number of inputs or outputs of an operator */
    HYP_ONNX_ANY_ABSENT = INT32_MAX - 1, /* number of inputs, some of which may be absent */
    HYP_ONNX_CUSTOM_INPUTS = 128,        /* of a custom operator in a plan */
    HYP_ONNX_CUSTOM_OUTPUTS = 64
};

/* What a name of the ONNX graph stands for. */
typedef enum hyp_symbol_kind {
    HYP_SYMBOL_UNKNOWN,
    HYP_SYMBOL_INPUT,
    HYP_SYMBOL_INITIALIZER,
    HYP_SYMBOL_NODE
} hyp_symbol_kind;

typedef struct hyp_symbol {
    hyp_symbol_kind kind;
    uint32_t index;     /* into the input, initializer or node list of the GraphProto */
    hyp_value_id value; /* HYP_NO_VALUE until it is in the graph */
    bool lacking;       /* no value will be: the node, or one before it, is not supported */
} hyp_symbol;

typedef HYP_VEC(hyp_symbol) hyp_symbols;

/* A graph in the file and what its names stand for. */
typedef struct hyp_onnx_scope {
    const HypOnnx__GraphProto *graph;
    hyp_intern names;                   /* of values */
    hyp_symbols symbols;                /* by id in `names` */
    const struct hyp_onnx_scope *outer; /* around the branch that this is; NULL for the model's graph */
} hyp_onnx_scope;

/* A symbolic dim of inputs that is taken to be another size. */
typedef struct hyp_onnx_equal {
    size_t symbol; /* index in the graph's dims */
    hyp_dim size;  /* has no symbol that is replaced */
    const char *reason;
} hyp_onnx_equal;

/* A size that only the data tell. */
typedef struct hyp_onnx_data_size {
    const char *name; /* of the symbol that it is during the import, and of the output that says it in the end */
    size_t symbol;    /* index in the graph's dims */
    hyp_dim size, most;
    hyp_value_id count;
} hyp_onnx_data_size;

/* A sequence of ONNX: a list that is known when the model is imported. Nothing of it is in the graph but its values. */
typedef struct hyp_onnx_sequence {
    const hyp_value_id *items; /* in the importer's arena */
    uint32_t count;
} hyp_onnx_sequence;
/* The id of the first; what has a smaller one is a value of the graph. */
#define HYP_ONNX_SEQUENCE ((hyp_value_id)1 << 31)
#define HYP_ONNX_SEQUENCES ((hyp_op)(HYP_OP_COUNT + 1)) /* of a row, in the place of an operator */
static inline bool hyp_onnx_is_sequence(hyp_value_id v) { return v >= HYP_ONNX_SEQUENCE && v != HYP_NO_VALUE; }

/* A symbolic dim of inputs that has its size before the plan runs. */
typedef struct hyp_onnx_size {
    const char *symbol;
    int64_t size;
} hyp_onnx_size;

typedef struct hyp_importer {
    const char *file;
    const HypOnnx__ModelProto *model;
    hyp_onnx_scope scope; /* the graph that is being imported */
    int64_t model_opset;
    int64_t opset; /* of the node that is being imported: a function may have one of its own */
    hyp_onnx_source *source;
    const hyp_onnx_options *options; /* never NULL */
    hyp_graph *g;
    HYP_VEC(hyp_onnx_equal) equal;    /* found so far */
    HYP_VEC(hyp_onnx_size) sizes;     /* what --dim, --shapes and --bind make of symbolic dims of inputs; of this attempt */
    HYP_VEC(hyp_onnx_data_size) data_sizes; /* of this attempt */
    HYP_VEC(hyp_onnx_sequence) sequences;   /* of this attempt */
    HYP_VEC(bool) from_data;                /* of the values so far, whether data decide them; of this attempt */
    HYP_VEC(hyp_named_value) states; /* what initializers become, by their names; of this attempt */
    HYP_VEC(hyp_equality) equalities; /* the axes of inputs that have such a dim */
    HYP_VEC(const char *) warnings;   /* from the source's arena; of this attempt */
    size_t unlisted_warnings;         /* above the most that are kept */
    hyp_strbuf unsupported;           /* what is not supported, of all nodes seen so far */
    size_t unsupported_count;         /* of texts in it */
    uint32_t unrolled;       /* nodes that the bodies of loops were written out to; of this attempt */
    uint64_t unrolled_bytes; /* of constants in there */
    uint32_t writing, running; /* loops around the node, from the last one on that is run: written out; all that are run */
    uint32_t bodies;           /* that were compiled, of this attempt */
    size_t sequence_items, sequence_parts; /* that were copied from list to list; that were split or joined */
    uint64_t computed;       /* work that constants took since, as hyp_constants_work counts it */
    bool again;                       /* the import failed for want of an equality that now stands in `equal` */
    hyp_arena arena;                  /* freed after the import */
    hyp_diag *diag; /* never NULL */
} hyp_importer;

/* import.c: builds the graph of im->model, again where sizes of inputs are found to have to be equal. */
HYP_NODISCARD hyp_status hyp_onnx_build(hyp_importer *im);
void hyp_onnx_drop_names(hyp_onnx_scope *scope); /* and nothing else of the scope */

/* A name in a scope, not in those around it; NULL if it has none. */
hyp_symbol *hyp_onnx_find(const hyp_onnx_scope *scope, const char *name);
/* The symbol of a value's name, NULL if the graph that is being imported has none. Borrowed until the next is added. */
hyp_symbol *hyp_onnx_symbol(const hyp_importer *im, const char *name);

/* "the node's own name", else "Op:first output": how messages and provenance call a node. From the arena;
 * NULL when memory is out. */
const char *hyp_onnx_node_name(hyp_importer *im, const HypOnnx__NodeProto *node);

/* Notes something that looks wrong in the model and does no harm, once, without the file's name; after some, only their
 * number. */
HYP_NODISCARD hyp_status hyp_onnx_warn(hyp_importer *im, const char *fmt, ...) HYP_PRINTF(2, 3);

/* The last of the warnings: how many were left out. */
HYP_NODISCARD hyp_status hyp_onnx_close_warnings(hyp_importer *im);
/* Adds the message that is written to what is not supported; import goes on, so that all is named. */
HYP_NODISCARD hyp_status hyp_onnx_note_unsupported(hyp_importer *im);
/* HYP_ERR_UNSUPPORTED with all that was noted. */
HYP_NODISCARD hyp_status hyp_onnx_fail_unsupported(hyp_importer *im);

/* initializers.c: the scope's as constants; those that options->updatable names are marked then; and at the end the outputs
 * for what hyp_onnx_becomes noted. */
HYP_NODISCARD hyp_status hyp_onnx_add_initializers(hyp_importer *im);
HYP_NODISCARD hyp_status hyp_onnx_mark_updatable(hyp_importer *im);
HYP_NODISCARD hyp_status hyp_onnx_add_states(hyp_importer *im);

/* declared.c: of an output, HYP_ERR_MALFORMED when its elements are not of the declared type; a rank or size that does
 * not hold is a warning. What is declared of other values is not read. */
HYP_NODISCARD hyp_status hyp_onnx_check_output(hyp_importer *im, const HypOnnx__ValueInfoProto *info,
                                               hyp_value_id value);

/* expand.c: sets the scope's graph to the model's, with every call of a function of the model replaced by the
 * function's nodes, from the source's arena. Of a node with graphs in attributes, `outer` lists what they read from
 * around them. HYP_ERR_MALFORMED for functions that call themselves, HYP_ERR_LIMIT when the result is out of
 * proportion. */
HYP_NODISCARD hyp_status hyp_onnx_expand(hyp_importer *im);

/* equal.c: when inference noted two symbolic sizes that this node needs to be equal, takes them as equal from the next
 * attempt at the import on. Sizes that cannot be solved for a symbol are not taken. */
HYP_NODISCARD hyp_status hyp_onnx_take_equal(hyp_importer *im, const char *node, bool *out_taken);
/* The size that a symbolic dim of this name has: a number, another size that it is taken to equal, or the symbol. */
HYP_NODISCARD hyp_status hyp_onnx_named_size(hyp_importer *im, const char *name, hyp_dim *out);
/* Replaces the size of an input's axis by the one that it is taken to equal, if any, and says so in `equalities`. */
HYP_NODISCARD hyp_status hyp_onnx_equal_size(hyp_importer *im, const char *input, uint32_t axis, hyp_dim *size);

/* data_size.c: a symbol for what only the data tell of the node's result, at most `most`; its caller sets `count` of the newest of
 * im->data_sizes. */
struct hyp_onnx_node;
HYP_NODISCARD hyp_status hyp_onnx_new_data_size(const struct hyp_onnx_node *n, hyp_dim most, hyp_dim *out);
/* At the end of the import: puts the most in the place of such symbols, and adds the outputs that say how many there are. What
 * comes before the end of such an axis has to be the same whatever lies behind it: HYP_ERR_UNSUPPORTED names a node of which
 * that cannot be said. */
HYP_NODISCARD hyp_status hyp_onnx_settle_data_sizes(hyp_importer *im);

/* inputs.c: adds the graph's inputs, with the dims that the options give. */
HYP_NODISCARD hyp_status hyp_onnx_add_inputs(hyp_importer *im);

/* order.c: a topological order of the nodes that is the file's own where that is one. `order` has room for
 * all. Needs the symbols. A cycle is HYP_ERR_MALFORMED and named. */
HYP_NODISCARD hyp_status hyp_onnx_order_nodes(hyp_importer *im, uint32_t *order);

/* ---- operators ---------------------------------------------------------------------------------- */

/* One node on its way in. */
typedef struct hyp_onnx_node {
    hyp_importer *im;
    const HypOnnx__NodeProto *proto;
    const char *name;
    const struct hyp_onnx_operator *op;
    const hyp_value_id *inputs; /* HYP_NO_VALUE where absent; trailing absent ones are cut */
    uint32_t input_count;
    hyp_value_id *outputs; /* to be filled in */
    uint32_t output_count;
} hyp_onnx_node;

/* Adds to the graph what the node says and sets its outputs; one left unset is refused when it is used. Its
 * caller puts the file and the node in front of messages. */
typedef hyp_status hyp_onnx_import_fn(hyp_onnx_node *n);

/* A row of a family's table. Opset differences are handled in the import functions, which read attributes and
 * inputs alike. */
typedef struct hyp_onnx_operator {
    const char *name; /* "Gemm"; in another domain than ONNX's own "com.microsoft::FusedGemm" */
    int64_t since;    /* the first opset that has it; 1 in other domains */
    uint32_t min_inputs, max_inputs, max_outputs;
    const char *attributes; /* names, each followed by a space; another that ONNX has is refused, of ONNX's operators one
                               that it never had is a warning; NULL: any */
    hyp_onnx_import_fn *import;
    hyp_op op; /* what hyp_onnx_import_same and _fold make; HYP_ONNX_SEQUENCES: inputs may be sequences, not values alone */
} hyp_onnx_operator;

/* The operators of one import_*.c: their rows stand behind the functions that import them. */
typedef struct hyp_onnx_family {
    const hyp_onnx_operator *rows;
    size_t count;
} hyp_onnx_family;

/* The families that operators.c looks through. */
extern const hyp_onnx_family hyp_onnx_elementwise;
extern const hyp_onnx_family hyp_onnx_math;
extern const hyp_onnx_family hyp_onnx_branches;
extern const hyp_onnx_family hyp_onnx_loops;
extern const hyp_onnx_family hyp_onnx_scans;
extern const hyp_onnx_family hyp_onnx_loss;
extern const hyp_onnx_family hyp_onnx_shape;
extern const hyp_onnx_family hyp_onnx_index;
extern const hyp_onnx_family hyp_onnx_scatter;
extern const hyp_onnx_family hyp_onnx_select;
extern const hyp_onnx_family hyp_onnx_sequences;
extern const hyp_onnx_family hyp_onnx_generate;
extern const hyp_onnx_family hyp_onnx_pad;
extern const hyp_onnx_family hyp_onnx_resize;
extern const hyp_onnx_family hyp_onnx_attention;
extern const hyp_onnx_family hyp_onnx_norm;
extern const hyp_onnx_family hyp_onnx_recurrent;
extern const hyp_onnx_family hyp_onnx_reduce;
extern const hyp_onnx_family hyp_onnx_quant;
extern const hyp_onnx_family hyp_onnx_einsum;
extern const hyp_onnx_family hyp_onnx_window;

/* import_custom.c: the row of operators that are computed by kernels of the caller's. */
extern const hyp_onnx_operator hyp_onnx_custom;

/* NULL if the operator of the node is not supported in the model's opset; hyp_onnx_custom if it is one of a domain for which
 * the options say so. */
const hyp_onnx_operator *hyp_onnx_operator_find(const hyp_importer *im, const HypOnnx__NodeProto *node);

/* HYP_ERR_UNSUPPORTED with the list of every unsupported operator, if there is one. */
HYP_NODISCARD hyp_status hyp_onnx_check_operators(hyp_importer *im);

/* HYP_ERR_UNSUPPORTED for an attribute of the node that Hypatia lacks; a warning for one that no opset has. */
HYP_NODISCARD hyp_status hyp_onnx_check_attributes(const hyp_onnx_node *n);
/* Whether both operands are elements, the second of which an old model may have aligned to an axis of the first. */
bool hyp_onnx_aligns_operands(const hyp_onnx_node *n);

/* import.c: a graph in an attribute of a node, which may be added several times. It sees the names around the node. Its
 * initializers and Constants are added once, by open; it has to be closed, also after a failure, and not to be moved. */
typedef struct hyp_onnx_branch {
    hyp_onnx_scope around, constants;
    int64_t opset;
    size_t adds;
} hyp_onnx_branch;
HYP_NODISCARD hyp_status hyp_onnx_branch_open(const hyp_onnx_node *n, const HypOnnx__GraphProto *graph,
                                              hyp_onnx_branch *out);
/* Adds its other nodes, with inputs[i] for its input i, and sets outs[i] to its output i. HYP_ERR_LIMIT where what is added
 * again and again, or stands in other branches, is too much. */
HYP_NODISCARD hyp_status hyp_onnx_branch_add(const hyp_onnx_node *n, hyp_onnx_branch *branch, const hyp_value_id *inputs,
                                             hyp_value_id *outs);
void hyp_onnx_branch_close(hyp_onnx_branch *branch);

/* Import functions for rows of any family (import_elementwise.c). */
hyp_onnx_import_fn hyp_onnx_import_same; /* one IR operator, same inputs, no attributes */

/* ---- helpers for import functions (node.c) ------------------------------------------------------ */

/* The attribute, NULL when absent. */
const HypOnnx__AttributeProto *hyp_onnx_attr(const hyp_onnx_node *n, const char *name);
/* Its value, or `missing` when it is absent; another kind of attribute is refused. */
HYP_NODISCARD hyp_status hyp_onnx_attr_int(const hyp_onnx_node *n, const char *name, int64_t missing, int64_t *out);
HYP_NODISCARD hyp_status hyp_onnx_attr_float(const hyp_onnx_node *n, const char *name, double missing, double *out);

/* A text that is one of `choices` (NULL-terminated), the first when it is absent. *out is the choice itself. */
HYP_NODISCARD hyp_status hyp_onnx_attr_choice(const hyp_onnx_node *n, const char *name, const char *const *choices,
                                              const char **out);

/* A short list of integers, at most HYP_ONNX_MAX_INTS: an attribute, or a value known at import. */
enum { HYP_ONNX_MAX_INTS = 64 };
typedef struct hyp_onnx_ints {
    bool present;
    uint32_t count;
    hyp_dim items[HYP_ONNX_MAX_INTS]; /* numbers below HYP_DIM_CONST_MIN are raised to it */
} hyp_onnx_ints;
HYP_NODISCARD hyp_status hyp_onnx_attr_ints(const hyp_onnx_node *n, const char *name, hyp_onnx_ints *out);
/* Of input i, absent or not; HYP_ERR_UNSUPPORTED when it is not known before the data is there. `what`
 * names it in messages. */
HYP_NODISCARD hyp_status hyp_onnx_input_ints(const hyp_onnx_node *n, uint32_t i, const char *what, hyp_onnx_ints *out);
/* From input i when the node has it, else from the attribute of this name. */
HYP_NODISCARD hyp_status hyp_onnx_ints_of(const hyp_onnx_node *n, uint32_t i, const char *name, hyp_onnx_ints *out);

static inline bool hyp_onnx_has_input(const hyp_onnx_node *n, uint32_t i)
{
    return i < n->input_count && n->inputs[i] != HYP_NO_VALUE;
}
/* The type of input i, which is there. */
hyp_type hyp_onnx_input_type(const hyp_onnx_node *n, uint32_t i);
static inline hyp_type hyp_onnx_value_type(const hyp_onnx_node *n, hyp_value_id v)
{
    return n->im->g->values.data[v].type;
}

/* Axis of -rank .. rank-1 to 0 .. rank-1. */
HYP_NODISCARD hyp_status hyp_onnx_axis(const hyp_onnx_node *n, int64_t axis, int32_t rank, int64_t *out);
/* The same for a list, sorted; a repeated or symbolic axis is refused. */
HYP_NODISCARD hyp_status hyp_onnx_axes(const hyp_onnx_node *n, hyp_onnx_ints *axes, int32_t rank);

/* Adds a tensor, whose data is borrowed, as a constant. */
HYP_NODISCARD hyp_status hyp_onnx_add_const(hyp_importer *im, const char *name, const hyp_tensor *t, hyp_value_id *out);

/* Adds one element of this type, from a double, as a constant. */
HYP_NODISCARD hyp_status hyp_onnx_add_scalar(const hyp_onnx_node *n, hyp_dtype dtype, double value, hyp_value_id *out);
/* The elements of input i, computed here and now when it depends on nothing but constants (constant.c). Otherwise
 * HYP_ERR_UNSUPPORTED; `what` names the input. The caller disposes of *out, also after a failure. */
HYP_NODISCARD hyp_status hyp_onnx_constant(const hyp_onnx_node *n, uint32_t i, const char *what, hyp_eval_tensor *out);

/* Whether input i, which the node has, is one number that is known now and that a double holds. */
bool hyp_onnx_is_number(const hyp_onnx_node *n, uint32_t i, double *out);

/* initializers.c: notes what a constant with a name becomes in a run, for options->states; other values are the caller's to keep. */
HYP_NODISCARD hyp_status hyp_onnx_becomes(const hyp_onnx_node *n, hyp_value_id before, hyp_value_id after);

/* Adds an IR node with this node's provenance. */
HYP_NODISCARD hyp_status hyp_onnx_emit(const hyp_onnx_node *n, hyp_op op, const hyp_value_id *inputs,
                                       uint32_t input_count, const hyp_attr *attrs, hyp_value_id *outs,
                                       uint32_t output_count);
/* One input (that of the node at 0), one output (that of the node at 0). */
HYP_NODISCARD hyp_status hyp_onnx_emit_unary(const hyp_onnx_node *n, hyp_op op, const hyp_attr *attrs);
/* An operator of two operands and no attributes. */
HYP_NODISCARD hyp_status hyp_onnx_emit_binary(const hyp_onnx_node *n, hyp_op op, hyp_value_id a, hyp_value_id b,
                                              hyp_value_id *out);
/* y through the activation that an attribute of com.microsoft's fused operators names; alpha is leaky-relu's. */
HYP_NODISCARD hyp_status hyp_onnx_emit_fused(const hyp_onnx_node *n, double alpha, hyp_value_id y, hyp_value_id *out);
/* An operator whose only attribute is a list: reshape, expand, transpose. */
HYP_NODISCARD hyp_status hyp_onnx_emit_dims(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, const hyp_dim *dims,
                                            int32_t count, hyp_value_id *out);
/* x in another element type; x itself when it has it. */
HYP_NODISCARD hyp_status hyp_onnx_emit_cast(const hyp_onnx_node *n, hyp_value_id x, hyp_dtype to, hyp_value_id *out);
/* `size` elements of x from `start` along one axis, in steps of `step`. */
HYP_NODISCARD hyp_status hyp_onnx_emit_part(const hyp_onnx_node *n, hyp_value_id x, int32_t axis, hyp_dim start,
                                            hyp_dim size, hyp_dim step, hyp_value_id *out);
/* Where a list of bools is true, as a list whose size the data may decide (import_select.c). */
HYP_NODISCARD hyp_status hyp_onnx_emit_kept(const hyp_onnx_node *n, hyp_value_id mask, hyp_value_id *out);
/* A vector over the channels as [C, 1, ...] of this rank. A scalar stays. */
HYP_NODISCARD hyp_status hyp_onnx_emit_channels(const hyp_onnx_node *n, hyp_value_id v, int32_t rank,
                                                hyp_value_id *out);
/* numpy matmul of a and b, the last axes of b swapped first if trans_b. */
HYP_NODISCARD hyp_status hyp_onnx_emit_matmul(const hyp_onnx_node *n, hyp_value_id a, hyp_value_id b, bool trans_b,
                                              double alpha, hyp_value_id *out);
/* log(softmax(x)) along the axis, 0 .. rank-1 (import_reduce.c). */
HYP_NODISCARD hyp_status hyp_onnx_emit_log_softmax(const hyp_onnx_node *n, hyp_value_id x, int64_t axis,
                                                   hyp_value_id *out);

#endif
