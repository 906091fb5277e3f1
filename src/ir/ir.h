/* ir.h - the tensor graph: types, operators, nodes, text form, verifier, reference interpreter.
 *
 * A graph is a list of values and a list of nodes in topological order. Everything about an operator is
 * generated from its row in ops.def or sits in its family's file op_*.c. The layer knows nothing of ONNX,
 * e-graphs or devices.
 *
 * Ownership: a graph owns its nodes, names and small constants in its arena; data of large constants may
 * be borrowed (mapped model file) and must outlive the graph. A graph belongs to one thread at a time.
 * Graphs that exchange dims share one hyp_dims, which must outlive them.
 */
#ifndef HYP_IR_IR_H
#define HYP_IR_IR_H

#include "base/dtype.h"
#include "base/strbuf.h"
#include "hypatia/types.h"
#include "ir/dim.h"

/* ---- types and operators ------------------------------------------------------------------------ */

typedef struct hyp_type {
    hyp_dtype dtype;
    int32_t rank;
    hyp_dim dims[HYP_MAX_RANK]; /* entries at and above rank are 0 */
} hyp_type;

bool hyp_type_equal(const hyp_type *a, const hyp_type *b);
bool hyp_type_is_static(const hyp_type *t);
/* Product of all dims. */
HYP_NODISCARD hyp_status hyp_type_elements(hyp_dims *dims, const hyp_type *t, hyp_dim *out, hyp_diag *diag);
/* Bytes of a dense tensor of this type; false when it is symbolic or larger than memory. */
bool hyp_type_bytes(const hyp_type *t, size_t *out);
/* "f32[batch 784]", "f32[]" for a scalar. */
void hyp_type_print(hyp_strbuf *sb, const hyp_dims *dims, const hyp_type *t);

typedef enum hyp_op {
#define OP(id, ...) HYP_OP_##id,
#include "ir/ops.def"
    HYP_OP_COUNT
} hyp_op;

/* Algebraic and structural facts, columns of ops.def. */
enum {
    HYP_OPF_ELEMENTWISE = 1 << 0, /* out[i] depends on in[...][i] alone, with numpy broadcasting */
    HYP_OPF_COMMUTES = 1 << 1,
    HYP_OPF_IDEMPOTENT = 1 << 2, /* f(f(x)) == f(x) */
    HYP_OPF_VIEW = 1 << 3,       /* same elements in the same row-major order: only the type differs */
    HYP_OPF_COPY = 1 << 4,       /* moves elements, computes nothing */
    HYP_OPF_FUSED = 1 << 5,      /* made by rewriting only, never by an importer */
    HYP_OPF_OPTIONAL = 1 << 6,   /* inputs behind the required ones may be absent: HYP_NO_VALUE, `none` in text */
    HYP_OPF_CALL = 1 << 7,       /* computed by the kernel of its name (kernels/kernels.h) */
    /* IEEE arithmetic fixes the bits of the result, as do operators that move elements (VIEW, COPY): docs/rules.md.
     * Where an attribute decides (a sum of updates that are scattered), it is said of all. */
    HYP_OPF_DETERMINED = 1 << 8,
    /* A float operand that crosses one of many thresholds, as results commonly are (integers, ties), moves the result
     * by a whole step. A cast does only where it is to no float: hyp_node_has. */
    HYP_OPF_JUMP = 1 << 9,
    HYP_OPF_EDGE =
        1 << 10, /* the last bit of a float operand decides only at the ends of where it is defined: a number or NaN */
    HYP_OPF_OPAQUE = 1 << 11, /* a kernel of the caller's, who runs the plan, computes it: nobody does before */
    /* Of which places of which axes of its tensors nothing is computed together (ir/apart.h): what it works along are
     * the axes that its attribute `axis`, or `axes`, names; the last axis, and x may have any in front; all but axis 0;
     * all but axis 1 of what has three, and axis 0 of what has fewer. */
    HYP_OPF_ALONG = 1 << 12,
    HYP_OPF_LAST = 1 << 13,
    HYP_OPF_SAMPLES = 1 << 14,
    HYP_OPF_SEQUENCES = 1 << 15
};

typedef enum hyp_attr_kind {
    HYP_ATTR_INT,   /* int64 */
    HYP_ATTR_FLOAT, /* double */
    HYP_ATTR_SYM,   /* a symbol: an activation, an element type */
    HYP_ATTR_DIMS,  /* list of hyp_dim: axes, permutations, shapes, offsets */
    HYP_ATTR_SYMS   /* list of symbols */
} hyp_attr_kind;

/* A value of an attribute; the kind is in the operator's schema. Lists are in the graph's arena. */
typedef struct hyp_attr {
    hyp_attr_kind kind;
    uint32_t count; /* of the list kinds */
    union {
        int64_t i;
        double f;
        const char *sym;
        const hyp_dim *dims;
        const char *const *syms;
    };
} hyp_attr;

static inline hyp_attr hyp_attr_of_int(int64_t i) { return (hyp_attr){.kind = HYP_ATTR_INT, .i = i}; }
static inline hyp_attr hyp_attr_of_float(double f) { return (hyp_attr){.kind = HYP_ATTR_FLOAT, .f = f}; }
static inline hyp_attr hyp_attr_of_sym(const char *sym) { return (hyp_attr){.kind = HYP_ATTR_SYM, .sym = sym}; }
static inline hyp_attr hyp_attr_of_dims(const hyp_dim *dims, uint32_t count)
{
    return (hyp_attr){.kind = HYP_ATTR_DIMS, .count = count, .dims = dims};
}

bool hyp_attr_equal(const hyp_attr *a, const hyp_attr *b);
/* Canonical text: 3, 0.5, relu, (1 0 2), (batch 784), (relu none). This text is the literal that stands
 * for the attribute in e-graph terms. */
void hyp_attr_print(hyp_strbuf *sb, const hyp_dims *dims, const hyp_attr *a);
/* Reads the text form of a value of this kind; lists are allocated from `arena`. */
HYP_NODISCARD hyp_status hyp_attr_parse(hyp_arena *arena, hyp_dims *dims, const char *file, const hyp_sexpr *sx,
                                        hyp_attr_kind kind, hyp_attr *out, hyp_diag *diag);

typedef struct hyp_attr_info {
    const char *name; /* without the colon */
    hyp_attr_kind kind;
    bool required;            /* else default_text stands for it when it is absent */
    const char *default_text; /* canonical text of an INT, FLOAT or SYM */
} hyp_attr_info;

/* The default of an attribute that is not required. */
hyp_attr hyp_attr_default(const hyp_attr_info *info);

enum { HYP_MAX_ATTRS = 10, HYP_VARIADIC = 1 << 20 };

typedef struct hyp_op_info {
    const char *name;                /* "fused-mlp" */
    uint32_t min_inputs, max_inputs; /* max HYP_VARIADIC: any number */
    uint32_t outputs;                /* HYP_VARIADIC: as many as the node says (split) */
    uint32_t flags;
    uint32_t attr_count;
    const hyp_attr_info *attrs;
    const char *gradient; /* text of a form for each input (docs/ir.md, "Gradients"); NULL: there is none */
    const char *doc;      /* one line: what it computes */
} hyp_op_info;

const hyp_op_info *hyp_op_get(hyp_op op);
/* False for an unknown name (also for an alias). */
bool hyp_op_find(const char *name, hyp_op *out);
/* The place of an activation in `none` and HYP_ACTIVATIONS (base/elementwise.h), -1 where there is none of the name; *out:
 * the operator that computes it, HYP_OP_identity for none. */
int hyp_activation_find(const char *name, hyp_op *out);
/* What a convolution ends in, by its name: also relu6, which is a clip, and leaky-relu, whose slope is an attribute. */
bool hyp_conv_activation_find(const char *name, hyp_op *out);
/* Index of an attribute in the operator's schema; false when it has none of this name. */
bool hyp_op_find_attr(hyp_op op, const char *name, uint32_t *out_index);

/* A name that stands for an operator with one attribute fixed: fused-linear-relu is fused-linear with
 * :act relu. The readers expand it, the printer prefers it. Rows ALIAS(...) of ops.def. */
typedef struct hyp_op_alias {
    const char *name;
    hyp_op op;
    uint32_t attr;     /* index into the operator's attributes */
    const char *value; /* canonical text */
} hyp_op_alias;
const hyp_op_alias *hyp_op_aliases(size_t *out_count);

/* ---- graph -------------------------------------------------------------------------------------- */

typedef uint32_t hyp_value_id;
typedef uint32_t hyp_node_id;
#define HYP_NO_VALUE UINT32_MAX /* an absent optional input */

/* Tensors that one all-reduce takes at most: what a kernel can give. */
enum { HYP_ALL_REDUCE_MOST = 8 };

typedef enum hyp_value_kind { HYP_VALUE_INPUT, HYP_VALUE_CONST, HYP_VALUE_NODE } hyp_value_kind;

typedef struct hyp_value {
    hyp_value_kind kind;
    const char *name; /* unique among inputs and outputs; elsewhere for people, may be NULL */
    hyp_type type;
    hyp_node_id producer;   /* HYP_VALUE_NODE */
    uint32_t output;        /* which output of the producer */
    const void *data;       /* HYP_VALUE_CONST, and what a variable begins with: row-major, little-endian; NULL for 0
                               bytes, which are zeros to a variable, or elided text */
    size_t bytes;           /* of data, also when it is elided */
    bool owned;             /* data is in the graph's arena, else borrowed */
    uint64_t hash;          /* of elided data: hyp_hash(data, bytes, 0) */
    bool updatable;         /* HYP_VALUE_CONST with a name: others may take the place of its elements when the plan is
                               there, so nothing but what is computed of it may depend on them */
    bool measured;          /* HYP_VALUE_CONST: statistics of data, as a batch normalization has them: training leaves it */
    const hyp_dim *content; /* the elements, when this is a small integer tensor known at compile time, also
                               symbolically (the output of shape); NULL otherwise. */
    uint32_t content_count;
} hyp_value;

/* Where a node came from, for reports: names of source nodes and of rules. Lists are sorted, unique and in
 * the arena. */
typedef struct hyp_provenance {
    const char *const *sources;
    uint32_t source_count;
    const char *const *rules; /* in the order in which they were applied */
    uint32_t rule_count;
} hyp_provenance;

typedef struct hyp_node {
    hyp_op op;
    const hyp_value_id *inputs;
    uint32_t input_count;
    const hyp_value_id *outputs;
    uint32_t output_count;
    const hyp_attr *attrs; /* one per row of the schema, defaults filled in */
    hyp_provenance from;
} hyp_node;

typedef struct hyp_named_value {
    const char *name; /* as the model calls it */
    hyp_value_id value;
} hyp_named_value;

/* An output of which only the data say how much of an axis there is. The value has room for the most, and output number `count`,
 * an i64, says how many come from the first on; what lies behind them means nothing. Texts have no sizes: they are of the model
 * around a graph. */
typedef struct hyp_data_size {
    uint32_t output, axis, count;
} hyp_data_size;

/* State that a run changes: a parameter, a moment of an optimizer, a count of steps. It is an input, its value before the
 * run, and an output of the same static type, its value after it, neither of which who runs the graph sees. The input has
 * the name, and the elements that the variable begins with (hyp_value.data); the output is called "new:NAME". */
typedef struct hyp_variable {
    uint32_t input, output; /* indices into the lists of the graph; output HYP_NO_OUTPUT until it is set */
} hyp_variable;
#define HYP_NO_OUTPUT UINT32_MAX

typedef struct hyp_graph {
    hyp_arena arena;
    hyp_dims *dims; /* borrowed */
    const char *name;
    HYP_VEC(hyp_value) values;
    HYP_VEC(hyp_node) nodes;          /* in topological order */
    HYP_VEC(hyp_value_id) inputs;     /* in the model's order, then those of variables in the variables' order */
    HYP_VEC(hyp_named_value) outputs; /* in the model's order; a value may be named twice */
    HYP_VEC(hyp_data_size) sizes;     /* ascending by output */
    HYP_VEC(hyp_variable) variables;
    uint32_t hidden_outputs; /* the last so many: counts, and behind them what variables become */
} hyp_graph;

/* For messages: why an axis of an input must have the size that its type says, though the model calls it otherwise. */
typedef struct hyp_equality {
    const char *input;
    uint32_t axis;
    const char *reason; /* "node "add" needs 'm' and 'n' to be equal" */
    const char *symbol; /* what the model calls the axis: "m" */
} hyp_equality;

void hyp_graph_init(hyp_graph *g, hyp_dims *dims);
void hyp_graph_dispose(hyp_graph *g);

HYP_NODISCARD hyp_status hyp_graph_add_input(hyp_graph *g, const char *name, const hyp_type *type, hyp_value_id *out,
                                             hyp_diag *diag);
/* `data` is borrowed when `copy` is false. bytes must fit the static type. Integer tensors of at most 64
 * elements get their content. */
HYP_NODISCARD hyp_status hyp_graph_add_const(hyp_graph *g, const char *name, const hyp_type *type, const void *data,
                                             size_t bytes, bool copy, hyp_value_id *out, hyp_diag *diag);
/* A constant whose data are not there, only their size and hash (elided text): it can be compared and
 * printed, not evaluated. */
HYP_NODISCARD hyp_status hyp_graph_add_elided_const(hyp_graph *g, const char *name, const hyp_type *type, size_t bytes,
                                                    uint64_t hash, hyp_value_id *out, hyp_diag *diag);
/* Adds a constant of another graph as it is: elided, updatable, its data copied where that graph owns them. */
HYP_NODISCARD hyp_status hyp_graph_copy_const(hyp_graph *g, const hyp_value *from, hyp_value_id *out, hyp_diag *diag);
/* Adds a node: checks arity and attributes, infers the types (and contents) of its outputs; a failure
 * says what the operator wanted. attrs: one per schema row, in its order; NULL = all defaults. Inputs,
 * attributes and provenance are copied. outs has room for output_count ids. */
HYP_NODISCARD hyp_status hyp_graph_add_node(hyp_graph *g, hyp_op op, const hyp_value_id *inputs, uint32_t input_count,
                                            const hyp_attr *attrs, const hyp_provenance *from, hyp_value_id *outs,
                                            uint32_t output_count, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_graph_add_output(hyp_graph *g, const char *name, hyp_value_id value, hyp_diag *diag);
/* Appends a node of another graph over the same dims, with the names of its results: map[v] is what a value v of that graph is in
 * this one, of all that it reads before and of its results behind. */
HYP_NODISCARD hyp_status hyp_graph_copy_node(hyp_graph *g, const hyp_graph *from, const hyp_node *node,
                                             hyp_value_id *map, hyp_diag *diag);
/* A variable of a static type that begins with these elements, which are borrowed when `copy` is false, or with zeros for
 * NULL and 0 bytes; *out is its value before the run. All other inputs are there before it. */
HYP_NODISCARD hyp_status hyp_graph_add_variable(hyp_graph *g, const char *name, const hyp_type *type, const void *data,
                                                size_t bytes, bool copy, hyp_value_id *out, hyp_diag *diag);
/* Says what a variable becomes: a value of its type, also the one before the run. Every variable wants it once, when all
 * outputs that are shown are there. */
HYP_NODISCARD hyp_status hyp_graph_set_variable(hyp_graph *g, hyp_value_id before, hyp_value_id after, hyp_diag *diag);
/* Takes over what who runs the graph does not see, sizes and variables, of a graph with the same inputs and outputs in the
 * same order. Whoever makes a graph of another does so. */
HYP_NODISCARD hyp_status hyp_graph_keep_hidden(hyp_graph *g, const hyp_graph *from, hyp_diag *diag);
/* The inputs and outputs that the model has: the first so many. */
static inline size_t hyp_graph_shown_inputs(const hyp_graph *g) { return g->inputs.len - g->variables.len; }
static inline size_t hyp_graph_shown(const hyp_graph *g) { return g->outputs.len - g->hidden_outputs; }
/* The value before the run, which has the name and the elements. */
static inline const hyp_value *hyp_graph_variable(const hyp_graph *g, size_t i)
{
    return &g->values.data[g->inputs.data[g->variables.data[i].input]];
}

/* Inputs, consts and nodes that no output needs disappear, except graph inputs. Equal constants stay. *out is
 * set on success and need not be initialised; data that `in` borrows stay borrowed, data that it owns are
 * copied, so `in` may be disposed of. */
HYP_NODISCARD hyp_status hyp_graph_copy_live(const hyp_graph *in, hyp_graph *out, hyp_diag *diag);
/* Copies what is live, with other nodes in place of some. Called for each node of `in`, in their order: `inputs` are
 * its inputs in `out`; a maker that adds nodes of its own to `out` sets *out_made and outputs[], as many as the node
 * has and of the same types. */
typedef hyp_status hyp_node_maker(void *user, hyp_graph *out, hyp_node_id node, const hyp_value_id *inputs,
                                  hyp_value_id *outputs, bool *out_made, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_graph_rebuild(const hyp_graph *in, hyp_node_maker *make, void *user, hyp_graph *out,
                                           hyp_diag *diag);
/* Copies as above, dead nodes too, with symbols replaced (`--dim batch=32`): replacement[i] stands for symbol i
 * of in->dims. */
HYP_NODISCARD hyp_status hyp_graph_specialize(const hyp_graph *in, const hyp_dim *replacement, hyp_graph *out,
                                              hyp_diag *diag);

/* Types and contents of the outputs of an operator, without a graph: used by add_node and by the e-graph's
 * analysis. in[i] == NULL for an absent optional input. Contents of outputs are allocated from `arena`. */
typedef struct hyp_infer_value {
    hyp_type type;
    const hyp_dim *content; /* NULL = unknown */
    uint32_t content_count;
} hyp_infer_value;
HYP_NODISCARD hyp_status hyp_infer(hyp_dims *dims, hyp_arena *arena, hyp_op op, const hyp_attr *attrs,
                                   const hyp_infer_value *const *in, uint32_t input_count, hyp_infer_value *out,
                                   uint32_t output_count, hyp_diag *diag);

/* Recomputes every invariant of the graph: ids, order, arity, attributes, types as inferred, names. */
HYP_NODISCARD hyp_status hyp_graph_verify(const hyp_graph *g, hyp_diag *diag);
/* Same inputs, outputs, nodes in their order, attributes and constants (bytes) up to value numbering; names of
 * other values and provenance do not count. The graphs may belong to different dims tables. */
bool hyp_graph_equal(const hyp_graph *a, const hyp_graph *b);

/* Text: one form per graph, a value or node a line.
 *
 *   (graph "mlp"
 *     (input %x (f32 batch 784))                            inputs, then constants, then nodes, then outputs
 *     (const %b (f32 2) 0.5 -1.0)                           elements; or (hex "00ff...") when numbers cannot say them
 *     (const %w (f32 2 784) (hash "0123456789abcdef"))      elided
 *     (%3 (fused-linear-relu %w %b %x) :from ("Gemm_0" "Relu_1") :rules ("fuse-linear-relu"))
 *     ((%4 %5) (split :axis 1 :sizes (1 1) %3))             attributes, defaults left out; inputs, `none` if absent
 *     (output "y" %4))
 *
 * Of a graph with variables also (variable %v (f32 2) 0.5 -1.0) behind the inputs, as constants are written or without
 * elements for zeros, and (set %v %5) behind the outputs: what it becomes.
 *
 * A value is referred to by %name, by "name" when the name has odd characters, or by %number when it has no
 * name of its own; numbers count the values in the order of the text.
 *
 * Constants of more than `elide_above` bytes are written as their hash; such text parses, compares and prints,
 * but does not evaluate. SIZE_MAX: everything is written. parse(print(g)) equals g, and prints the same. */
HYP_NODISCARD hyp_status hyp_graph_print(hyp_strbuf *sb, const hyp_graph *g, size_t elide_above, hyp_diag *diag);
/* `g` is initialised and empty, and stays so on failure; `file` is named in messages. */
HYP_NODISCARD hyp_status hyp_graph_parse(hyp_graph *g, const char *file, const char *text, size_t len, hyp_diag *diag);

/* Whether input i of so many is the weight of a layer (linear, or what is fused of such), which is read in either order: no
 * transposition of it is computed. */
bool hyp_op_is_weight(hyp_op op, uint32_t i, uint32_t input_count);
/* Whether a node's operator has one of these flags, of which HYP_OPF_JUMP holds for casts to what is no float alone. */
bool hyp_node_has(const hyp_graph *g, const hyp_node *n, uint32_t flags);

/* ---- reference interpreter ----------------------------------------------------------------------- */

typedef enum hyp_eval_mode {
    HYP_EVAL_NATIVE, /* every result is rounded to its element type, as at run time; sums are kept in double */
    HYP_EVAL_FAST,   /* the same, but that large products are a library's (kernels/product.h): for ir/constants.h,
                        expect.c */
    HYP_EVAL_DOUBLE  /* floating-point values stay double throughout: the value to compare with */
} hyp_eval_mode;

/* A tensor of the interpreter: floats as doubles, integers and bools as int64, row-major. */
typedef struct hyp_eval_tensor {
    hyp_dtype dtype;
    int32_t rank;
    int64_t dims[HYP_MAX_RANK];
    size_t count;
    double *f;          /* floating-point types, else NULL */
    int64_t *i;         /* integer types and bool, else NULL */
    const void *stored; /* a large constant of f32 on its way to a product (HYP_EVAL_FAST): its bytes, aligned by
                         * chance, borrowed, in place of f, which is NULL */
} hyp_eval_tensor;

HYP_NODISCARD hyp_status hyp_eval_tensor_alloc(hyp_eval_tensor *t, hyp_dtype dtype, int32_t rank, const int64_t *dims,
                                               hyp_diag *diag);
void hyp_eval_tensor_dispose(hyp_eval_tensor *t);
HYP_NODISCARD hyp_status hyp_eval_tensor_load(hyp_eval_tensor *t, const hyp_tensor *from, hyp_diag *diag);
/* Rounds to t->dtype into dense memory of hyp_dtype_size * count bytes. */
void hyp_eval_tensor_store(const hyp_eval_tensor *t, void *data);

/* Runs the graph. `inputs` in the order of g->inputs; symbols take their values from the inputs' dims (a
 * contradiction is an error). outputs[i] is filled for g->outputs[i], owned by the caller. Intermediate
 * values are freed after their last use. */
HYP_NODISCARD hyp_status hyp_graph_eval(const hyp_graph *g, hyp_eval_mode mode, const hyp_eval_tensor *inputs,
                                        size_t input_count, hyp_eval_tensor *outputs, hyp_diag *diag);
/* The same, changed on the way: `before` a node runs it may put tensors of its own in the place of what the node reads
 * (in[i] is NULL where an input is absent), which are to stand until `after`; `after` may change what it wrote, and is
 * called for every `before`, with ran = false and no results where the node failed. change NULL: hyp_graph_eval. */
typedef struct hyp_eval_change {
    hyp_status (*before)(void *user, hyp_node_id node, const hyp_eval_tensor **in, hyp_diag *diag);
    void (*after)(void *user, hyp_node_id node, const hyp_eval_tensor *const *in, hyp_eval_tensor *out, bool ran);
    void *user;
    bool whole; /* attention rounds nothing but its result */
} hyp_eval_change;
HYP_NODISCARD hyp_status hyp_graph_eval_changed(const hyp_graph *g, hyp_eval_mode mode, const hyp_eval_tensor *inputs,
                                                size_t input_count, const hyp_eval_change *change,
                                                hyp_eval_tensor *outputs, hyp_diag *diag);
/* Runs as much of the graph as is asked for and gives no outputs: nodes that are HYP_WATCH_RUN run, which takes that
 * all nodes that they read from do, and of those that are HYP_WATCH_TELL `tell` is told what they read; in[i] is NULL
 * where an input is absent. What it returns other than HYP_OK ends the run. */
typedef struct hyp_eval_watch {
    hyp_status (*tell)(void *user, hyp_node_id node, const hyp_eval_tensor *const *in, hyp_diag *diag);
    void *user;
    const uint8_t *nodes; /* by node: HYP_WATCH_RUN, HYP_WATCH_TELL, or both */
} hyp_eval_watch;
enum { HYP_WATCH_RUN = 1, HYP_WATCH_TELL = 2 };
HYP_NODISCARD hyp_status hyp_graph_watch(const hyp_graph *g, hyp_eval_mode mode, const hyp_eval_tensor *inputs,
                                         size_t input_count, const hyp_eval_watch *watch, hyp_diag *diag);
/* What an implementation of the graph may give: expect.c. */
typedef struct hyp_expect_options {
    double unit;         /* what a result of type f32 may be rounded by, relative; 0 = as f32 is */
    double product_unit; /* what products may round what they multiply by; 0 = not */
    double largest;      /* no value of type f32 may be larger in a narrow type; 0 = as f32 */
    bool determined;     /* only sums, products and functions may be rounded in another way: + - * / keep their bits */
    bool any_nan;        /* what becomes of NaN is not said */
    bool any_inf;        /* nor where a value that is no longer finite goes, of images to all places behind a convolution */
} hyp_expect_options;
/* Runs the graph in native arithmetic, and again with every result off by about what another order of sums, another
 * implementation of a function or a narrower type changes. values[i] is what output i is natively; tolerances[i], of
 * f64, how far it moved, with room to spare: 0 where it is determined, so that bits must agree, and INFINITY where
 * nothing can be said: behind a comparison or a rounding to integers that goes either way, or where little is left of
 * the value. What reaches a discontinuity from inputs and constants through IEEE arithmetic alone is never moved,
 * unless `unit` is given. Both arrays are owned by the caller, as the results of hyp_graph_eval. Deterministic. */
HYP_NODISCARD hyp_status hyp_graph_expect(const hyp_graph *g, const hyp_eval_tensor *inputs, size_t input_count,
                                          const hyp_expect_options *options, hyp_eval_tensor *values,
                                          hyp_eval_tensor *tolerances, hyp_diag *diag);

/* Runs one operator on concrete tensors: constant folding, rule tests. */
HYP_NODISCARD hyp_status hyp_op_eval(hyp_dims *dims, hyp_op op, const hyp_attr *attrs, hyp_eval_mode mode,
                                     const hyp_eval_tensor *const *in, uint32_t input_count, hyp_eval_tensor *out,
                                     uint32_t output_count, const int64_t *symbols, hyp_diag *diag);

#endif
