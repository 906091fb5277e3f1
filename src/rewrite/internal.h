/* internal.h - what the files of this folder share.
 *
 *   language.c    rule text with :attributes  -->  positional terms
 *   encode.c      graph --> e-graph; leaves.c: literals, inputs and constants, which are shared
 *   facts.c       the analysis: types, contents, constants of every class
 *   range.c       how large elements are, asked by conditions
 *   conditions.c, conditions_range.c, conditions_product.c  what rules may ask; functions.c, functions_tensor.c: what they may compute
 *   constants.c   which e-nodes compute the constants; extract.c: which e-nodes to take
 *   decode.c      extraction --> graph, provenance
 *   parts.c       parts of what was chosen that another form may be as good for; undo.c: what is better left apart where
 *                 steps run side by side; nearby.c: choices that differ from another one in one place, for both
 *   dump.c        the e-graph of a phase, for other programs
 *   spans.c       what a phase took its time for
 *   trace.c       one application as text and cost, for dumps
 *   describe.c    classes as text; explain.c: how a node came to its kernel; whynot.c: why a rule did not; record.c: all of
 *                 that for a report, with alternatives.c: what else there was
 *   cost.c        what an e-node costs; roofline.c, roofline_attention.c: on a device; kernel.c: as a kernel of the plan
 *   profile.c     devices as text; measured.c: what was measured on them
 *   rewrite.c     the three phases; phase_rules.c: which rules each of them has
 */
#ifndef HYP_REWRITE_INTERNAL_H
#define HYP_REWRITE_INTERNAL_H

#include "egraph/rules/language.h"
#include "rewrite/rewrite.h"

typedef enum hyp_rw_kind {
    HYP_RW_LITERAL = 1, /* an attribute, or `none` for an absent input */
    HYP_RW_TENSOR,
    HYP_RW_TUPLE /* the outputs of a node that may have several */
} hyp_rw_kind;

/* What is known of the sizes of a tensor's elements. */
typedef struct hyp_rw_range {
    bool no_nan;      /* and, where low and high are finite, no infinity */
    double low, high; /* of elements that are no NaN */
    double least;     /* no element but 0 is smaller in size; INFINITY where all are 0 */
    bool asked;       /* of an entry in hyp_rw.ranges: it is one */
} hyp_rw_range;

/* What is known of an e-class. 0 = nothing yet. */
typedef struct hyp_rw_fact {
    hyp_rw_kind kind;
    bool determined;               /* IEEE arithmetic fixes its bits: docs/rules.md, "Determined values" */
    bool constant;                 /* depends on constants alone, and may be computed before the plan runs */
    uint64_t work;                 /* what that takes (hyp_fold_work), with all that it is computed from */
    hyp_symbol literal;            /* LITERAL */
    uint32_t count;                /* TENSOR: 1; TUPLE: the outputs */
    const hyp_infer_value *values; /* count of them, in hyp_rw.arena or the graph */
    const void *data; /* elements of a constant, when they are at hand: of every leaf, and of small results */
    size_t bytes;
    hyp_enode_id first; /* an e-node of the class, the oldest seen */
} hyp_rw_fact;

/* A graph input or a constant: a term without children whose symbol is "%" and the index of the leaf. */
typedef struct hyp_rw_leaf {
    bool is_input;
    const char *name; /* may be NULL */
    hyp_infer_value value;
    const void *data;
    size_t bytes;
    const void *hidden; /* of an updatable constant: its elements, in place of `data`, which is NULL */
    bool copy;     /* data does not outlive this rewriting: a graph that uses it must copy it */
    uint64_t hash; /* of elided data; of data, when `hashed` */
    bool hashed;
    bool scanned; /* its elements were read, and `range` is that of them */
    hyp_rw_range range;
} hyp_rw_leaf;

/* What a symbol means at the head of an e-node. */
typedef struct hyp_rw_symbol {
    enum { HYP_RW_SYM_NEW, HYP_RW_SYM_OP, HYP_RW_SYM_GET, HYP_RW_SYM_OTHER } head; /* with children */
    hyp_op op;
    uint8_t parsed; /* bit k: read as an attribute of kind k, which is attrs[k] */
    hyp_attr attrs[HYP_ATTR_SYMS + 1];
} hyp_rw_symbol;

/* One phase at work: an e-graph and what its symbols and e-nodes stand for. Belongs to one thread. */
typedef struct hyp_rw {
    hyp_egraph *eg;
    const hyp_graph *in;
    hyp_dims *dims;
    hyp_arena arena;
    HYP_VEC(hyp_rw_symbol) symbols; /* by hyp_symbol; grown on demand */
    hyp_symbol none;                /* the absent input */
    HYP_VEC(hyp_rw_leaf) leaves;
    uint32_t *leaf_slots; /* constants by type and a sample of their bytes: leaf + 1, 0 = empty */
    size_t leaf_slot_count;
    hyp_class_id *class_of; /* by value of `in`; as encoded, not canonical later */
    /* Nodes of `in` behind an e-node made by encoding (several when they are equal): a list of node + 1 that ends
     * with 0. */
    HYP_VEC(uint32_t) encoded; /* by e-node: the newest of its nodes */
    uint32_t *node_next;       /* by node: the one before it */
    HYP_VEC(uint32_t) seen;    /* by e-node: == seen_stamp, visited by the provenance being gathered */
    uint32_t seen_stamp;
    HYP_VEC(const hyp_infer_value *) inputs; /* of the e-node being made */
    HYP_VEC(hyp_rw_range) ranges;            /* by class, of those that were asked: see range.c */
    bool keeps_bits;                         /* a step of `in` reads what is determined: see hyp_rw_may_unite */
    HYP_VEC(const hyp_type *) types;         /* of an e-node whose work is asked for */
    hyp_fold_budget fold; /* what constants may take; set before encoding, else what suits the graph */
    size_t unfolded;      /* e-nodes of constants that would take more than that */
    hyp_limit *limit;     /* of the search; NULL = none */
} hyp_rw;

/* ---- encode.c ------------------------------------------------------------------------------------ */

/* Makes the e-graph of a graph. rw is zero-initialised and disposed of by the caller, also after a failure.
 * `in` must outlive it. */
HYP_NODISCARD hyp_status hyp_rw_encode(hyp_rw *rw, const hyp_graph *in, hyp_diag *diag);
/* The e-graph without any term: enough to read rules. */
HYP_NODISCARD hyp_status hyp_rw_init(hyp_rw *rw, hyp_dims *dims, hyp_diag *diag);
void hyp_rw_dispose(hyp_rw *rw);

/* ---- leaves.c ------------------------------------------------------------------------------------ */

/* A constant with these elements (copied), the same class for equal ones. */
HYP_NODISCARD hyp_status hyp_rw_constant(hyp_rw *rw, const hyp_type *type, const void *data, size_t bytes,
                                         hyp_class_id *out, hyp_diag *diag);
/* Leaves of rw->in: a constant, and an input, whose class goes to rw->class_of. */
HYP_NODISCARD hyp_status hyp_rw_encode_constant(hyp_rw *rw, const hyp_value *v, hyp_class_id *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_rw_encode_input(hyp_rw *rw, hyp_value_id id, hyp_diag *diag);
/* The leaf with this text. */
HYP_NODISCARD hyp_status hyp_rw_literal(hyp_rw *rw, const char *text, hyp_class_id *out, hyp_diag *diag);
/* The leaf that stands for the value of an attribute. */
HYP_NODISCARD hyp_status hyp_rw_attr_literal(hyp_rw *rw, const hyp_attr *a, hyp_class_id *out, hyp_diag *diag);

/* ---- facts.c ------------------------------------------------------------------------------------- */

/* The analysis; its user is the hyp_rw. */
hyp_analysis hyp_rw_analysis(hyp_rw *rw);

static inline const hyp_rw_fact *hyp_rw_fact_of(const hyp_rw *rw, hyp_class_id c) { return hyp_egraph_data(rw->eg, c); }
static inline bool hyp_rw_is_none(const hyp_rw *rw, const hyp_rw_fact *f)
{
    return f->kind == HYP_RW_LITERAL && f->literal == rw->none;
}

/* Whether a rule may state that `left` equals `right` (HYP_NONE: any term). Where a step reads a
 * determined value, determined classes are left to rules of class E, and none is united with one that is not: so each
 * e-node of a determined class gives its bits, also after the unions that follow by congruence. */
bool hyp_rw_may_unite(const hyp_rw *rw, const hyp_rule_info *rule, hyp_class_id left, hyp_class_id right);
/* Makes the rules of a ruleset keep to it. */
void hyp_rw_guard(hyp_rw *rw, hyp_ruleset *rules);

/* What a symbol means at the head of an e-node with children: an operator, `get`, or neither. The pointer lives
 * until the next call. */
HYP_NODISCARD hyp_status hyp_rw_symbol_of(hyp_rw *rw, hyp_symbol symbol, const hyp_rw_symbol **out, hyp_diag *diag);

/* An e-node of an operator, taken apart. */
typedef struct hyp_rw_node {
    hyp_op op;
    hyp_attr attrs[HYP_MAX_ATTRS];
    const hyp_class_id *inputs; /* classes, borrowed from the e-graph; absent ones are of `none` */
    uint32_t input_count;
} hyp_rw_node;
typedef enum hyp_rw_shape { HYP_RW_IS_LEAF, HYP_RW_IS_LITERAL, HYP_RW_IS_GET, HYP_RW_IS_OP } hyp_rw_shape;
/* What an e-node is. LEAF: *out_index is the leaf; GET: *out_index is the output, out->inputs[0] the tuple;
 * OP: out is filled. */
HYP_NODISCARD hyp_status hyp_rw_inspect(hyp_rw *rw, hyp_enode_id node, hyp_rw_shape *out_shape, uint32_t *out_index,
                                        hyp_rw_node *out, hyp_diag *diag);
/* Calls `visit` with every e-node of every class, canonical, in order; a failure ends it. Leaves come, too: see `shape`. */
typedef hyp_status hyp_rw_visit_fn(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n);
HYP_NODISCARD hyp_status hyp_rw_visit_nodes(hyp_rw *rw, hyp_rw_visit_fn *visit, void *user, hyp_diag *diag);

/* Whether a node of constants, whose results these are, may be computed before the plan runs; *out_work is what it
 * takes with all that it is computed from. */
HYP_NODISCARD hyp_status hyp_rw_folds(hyp_rw *rw, const hyp_rw_node *n, const hyp_infer_value *results, uint32_t count,
                                      bool *out_folds, uint64_t *out_work, hyp_diag *diag);

/* ---- range.c ------------------------------------------------------------------------------------- */

/* The range of a class. The first question about a large constant reads it once. */
HYP_NODISCARD hyp_status hyp_rw_range_of(hyp_rw *rw, hyp_class_id c, hyp_rw_range *out, hyp_diag *diag);
/* A size up to which, and down to whose inverse, numbers can be multiplied in any order: docs/rules.md, class R. */
#define HYP_RW_MODERATE 0x1p30
double hyp_rw_most(hyp_rw_range r);     /* the largest size */
bool hyp_rw_is_bounded(hyp_rw_range r); /* no NaN, no infinity */
/* Whether numbers of this size are finite in the type, with a little to spare for rounding on the way. */
bool hyp_rw_fits(hyp_dtype t, double size);

/* ---- language.c ---------------------------------------------------------------------------------- */

/* A hyp_desugar_fn; its user is the hyp_rw. Terms of rules in the positional form that encoding uses. */
hyp_status hyp_rw_desugar(void *rw, hyp_arena *arena, const char *file, const hyp_sexpr *in, bool is_left,
                          const hyp_sexpr **out, hyp_diag *diag);

/* The lists of words that rules may name. */
extern const hyp_word_list hyp_rw_word_lists[];

/* The name to write for an operator with these attribute values (NULL where one is no literal): an alias where one
 * fits, whose attribute is *out_hidden, else HYP_MAX_ATTRS. */
const char *hyp_rw_op_name(hyp_op op, const char *const *values, uint32_t *out_hidden);
/* The inverse of hyp_rw_desugar, as text: attributes by name, those with their default value left out. */
void hyp_rw_spell(hyp_strbuf *sb, const hyp_sexpr *sx);

/* ---- conditions.c, functions.c ------------------------------------------------------------------- */

/* A row of the table of conditions or functions; docs/rules.md has the list of the doc lines, made by rules_page. */
typedef struct hyp_rw_callback {
    const char *name;
    int arity; /* < 0: any number */
    hyp_condition_fn condition;
    hyp_function_fn function; /* exactly one of the two */
    const char *doc;
    /* Of a condition: what it says of classes never changes, so it is asked once. Types stay as they are. The order of
     * two classes and what makes a constant a stored one may change when classes become one; then the younger class,
     * which the rules have made, is met again. */
    bool final;
} hyp_rw_callback;
#define HYP_RW_FUNCTION(name, arity, function, doc) {name, arity, NULL, function, doc, false}

/* The tables of the files that are called so, each of conditions or of functions alone, which end with a row of zeros; and
 * a list of all that ends with NULL. */
extern const hyp_rw_callback hyp_rw_conditions[], hyp_rw_product_conditions[], hyp_rw_range_conditions[],
    hyp_rw_shape_conditions[], hyp_rw_functions[], hyp_rw_tensor_functions[];
extern const hyp_rw_callback *const hyp_rw_callbacks[];

/* The type of an argument, NULL when it is no tensor: most conditions are about one. */
const hyp_type *hyp_rw_type_arg(const hyp_call *call, size_t i);
/* The argument as a literal of this kind; HYP_ERR_MALFORMED names what it is instead. */
HYP_NODISCARD hyp_status hyp_rw_literal_arg(const hyp_call *call, size_t i, hyp_attr_kind kind, hyp_attr *out,
                                            hyp_diag *diag);

/* ---- decode.c ------------------------------------------------------------------------------------ */

/* The names of rules. */
typedef struct hyp_rw_rules {
    const char *const *names; /* by rule of the e-graph's ruleset */
    size_t count;
} hyp_rw_rules;

/* Some of the classes that an extraction has chosen, as a graph of their own: what they need that is not inside becomes
 * an input, but constants, which come along. */
typedef struct hyp_rw_part {
    const bool *inside;          /* by class */
    const hyp_class_id *outputs; /* tensors */
    size_t output_count;
} hyp_rw_part;

/* The graph that an extraction stands for, or a part of it (NULL: all), into `out` (initialised, empty). Nodes get their
 * sources and rules. */
HYP_NODISCARD hyp_status hyp_rw_decode(hyp_rw *rw, const hyp_extraction *choice, const hyp_rw_rules *rules,
                                       const hyp_rw_part *part, hyp_graph *out, hyp_diag *diag);
/* The model's nodes and the rules behind some e-nodes; lists live in `arena`. */
HYP_NODISCARD hyp_status hyp_rw_provenance(hyp_rw *rw, const hyp_rw_rules *rules, const hyp_enode_id *nodes,
                                           size_t count, hyp_arena *arena, hyp_provenance *out, hyp_diag *diag);

/* ---- cost.c -------------------------------------------------------------------------------------- */

/* What constants are computed by: see constants.c. */
typedef struct hyp_constant_forms {
    size_t bound;       /* of classes; 0: nothing is decided */
    hyp_enode_id *form; /* by class: the e-node to take; HYP_NONE where constants alone do not give it */
    double *operators;  /* by class: how many there are in that term, each place counted */
} hyp_constant_forms;

/* How a phase weighs e-nodes. Zero-initialise, set what is first, dispose of. */
typedef struct hyp_rw_weigh {
    hyp_rw *rw;
    hyp_cost_fn cost; /* of the device */
    void *user;
    bool by_form; /* not by cost, but by how normal the form is, of those that the device can run */
    bool whole_images; /* no channels are cut out of images where that has its cost and something else is possible */
    bool cuts_images;  /* the answer: an e-node does that */
    bool leave_apart;  /* nothing joint is taken where something else is possible */
    hyp_diag *diag;
    hyp_status status;                /* of the first failure; the costs are no good after it */
    HYP_VEC(const hyp_type *) inputs; /* of the question being asked, and below */
    HYP_VEC(bool) input_const;
    HYP_VEC(hyp_type) outputs;
    hyp_constant_forms constants;
    size_t bound; /* of classes that those below know: questions about a finished phase may have added others */
    uint32_t *parts_in_place; /* by class of what may be read in place: of how many results that holds; NULL = none */
    uint32_t *parts_shown;    /* by class of a split or slice: how many results are outputs of the graph; NULL = none */
    bool *joined;             /* by class: an elementwise operator gives it, and another one reads it; NULL = not asked */
    HYP_VEC(bool) input_joined; /* of the question being asked */
    bool *joint; /* by class: the graph had it not, and it is there to be cut into parts or made of them; NULL = not asked */
} hyp_rw_weigh;
void hyp_rw_weigh_dispose(hyp_rw_weigh *weigh);
/* Whether a part of an image has other channels than the whole. */
static inline bool hyp_rw_cuts_channels(const hyp_type *whole, const hyp_type *part)
{
    enum { AXES = 4 };
    return part->rank >= AXES && part->dims[1] != whole->dims[1];
}
/* Whether a node of the graph cuts channels out of an image. */
bool hyp_rw_cuts_images(const hyp_graph *g);
/* A hyp_node_cost_fn; its user is a hyp_rw_weigh. */
double hyp_rw_node_cost(hyp_egraph *eg, hyp_enode_id node, void *weigh);
/* The share of the device of what an e-node computes, by a function like hyp_roofline_share; 0 of constants. */
double hyp_rw_node_share(hyp_rw_weigh *weigh, hyp_enode_id node, hyp_cost_fn share);
/* Fills weigh->joint for the e-graph as it is, unless that was done: joint.c. */
HYP_NODISCARD hyp_status hyp_rw_find_joint(hyp_rw_weigh *weigh);
/* The sum over the nodes of a graph that do not depend on constants alone, and how many of them are no views. */
HYP_NODISCARD hyp_status hyp_rw_graph_cost(const hyp_graph *g, const hyp_fold_budget *fold, hyp_cost_fn cost,
                                           void *user, double *out_cost, size_t *out_nodes, hyp_diag *diag);

/* ---- constants.c --------------------------------------------------------------------------------- */

/* Fills weigh->constants for the e-graph as it is. */
HYP_NODISCARD hyp_status hyp_rw_choose_constants(hyp_rw_weigh *weigh, hyp_diag *diag);
void hyp_constant_forms_dispose(hyp_constant_forms *forms);

/* ---- in_place.c ---------------------------------------------------------------------------------- */

/* Fills weigh->parts_in_place and parts_shown for the e-graph as it is; without them every split, slice and transposition costs
 * its copies where it has any. */
HYP_NODISCARD hyp_status hyp_rw_find_in_place(hyp_rw_weigh *weigh);
/* Sets read[v], by value of a graph, for what attention, a concat, a transposition or, as its weight, a layer reads in
 * place, and shown[v] for outputs, also past views. */
void hyp_rw_find_in_place_values(const hyp_graph *g, bool *read, bool *shown);

/* ---- groups.c ------------------------------------------------------------------------------------ */

/* Fills weigh->joined for the e-graph as it is, if there is any such class: what is computed elementwise and may be so in
 * the kernel of a reader. An estimate: there may be other readers, too. Without it every elementwise operator is a kernel of
 * its own. */
HYP_NODISCARD hyp_status hyp_rw_find_joined(hyp_rw_weigh *weigh, bool *out_any);

/* ---- extract.c ----------------------------------------------------------------------------------- */

/* Chooses e-nodes for the outputs of rw->in, of least DAG cost as far as a fixed amount of work reaches: out->proven
 * says whether it did. With `forced`, the best choice that has this e-node; HYP_ERR_UNSUPPORTED when there is none.
 * HYP_NONE: no such wish. On failure *out holds nothing. */
HYP_NODISCARD hyp_status hyp_rw_extract(hyp_rw *rw, hyp_rw_weigh *weigh, hyp_enode_id forced, hyp_extraction *out,
                                        hyp_diag *diag);

/* ---- parts.c ------------------------------------------------------------------------------------- */

/* Asks options->choose about the parts of a choice that have another form of nearly the same price, and puts those
 * into `choice` that it takes; *out_changed says how many. `weigh` made the choice, whose plan takes `seconds`. */
HYP_NODISCARD hyp_status hyp_rw_choose_parts(hyp_rw_weigh *weigh, const hyp_rewrite_options *options,
                                             const hyp_rw_rules *rules, double seconds, hyp_extraction *choice,
                                             size_t *out_changed);

/* ---- undo.c -------------------------------------------------------------------------------------- */

/* Undoes in `choice`, which `weigh` made, what was put together that is better left apart on options->streams;
 * *out_changed says in how many places. */
HYP_NODISCARD hyp_status hyp_rw_undo(hyp_rw_weigh *weigh, const hyp_rewrite_options *options, hyp_extraction *choice,
                                     size_t *out_changed);

/* ---- describe.c ---------------------------------------------------------------------------------- */

/* What people know of a finished phase: the names of classes, which e-nodes stand for the model's nodes, and what was
 * chosen. Its lists live in the arena that it was made with. */
typedef struct hyp_rw_view {
    hyp_rw *rw;
    size_t bound;          /* of classes; younger ones have none of what follows */
    const char **names;    /* by class: of an input, a constant or a value of rw->in; NULL = none */
    hyp_enode_id *encoded; /* by class: the oldest e-node that stands for a node, or the leaf; else HYP_NONE */
    bool *chosen;          /* by class: the outputs need it */
    hyp_class_id *order;   /* those that are chosen, each after what it needs */
    size_t order_count;
} hyp_rw_view;
HYP_NODISCARD hyp_status hyp_rw_view_init(hyp_rw_view *view, hyp_rw *rw, const hyp_extraction *choice, hyp_arena *arena,
                                          hyp_diag *diag);
/* "'h' f32[n 64]", or the operator where a class has no name; a small constant with its value. */
void hyp_rw_describe(const hyp_rw_view *view, hyp_strbuf *sb, hyp_class_id c);
/* The form that an e-node is: its operator over what it is made of, by name. */
void hyp_rw_describe_form(const hyp_rw_view *view, hyp_strbuf *sb, hyp_enode_id node);
/* Whether an e-node stands for a node of rw->in that stands for this node of the model. */
bool hyp_rw_stands_for(const hyp_rw *rw, hyp_enode_id node, const char *source);

/* ---- explain.c, whynot.c --------------------------------------------------------------------------- */

/* A finished phase, for those who ask about it. */
typedef struct hyp_rw_inquiry {
    hyp_rw *rw;
    const hyp_rw_rules *names;
    hyp_ruleset *rules; /* NULL: there were none */
    const char *phase;
    const hyp_extraction *choice;
    hyp_rw_weigh *weigh; /* by which it was made */
    hyp_strbuf *out;
    hyp_diag *diag;
} hyp_rw_inquiry;
/* The chains of rules from what stood for a node of the model to what was chosen, each checked. */
HYP_NODISCARD hyp_status hyp_rw_explain(const hyp_rw_inquiry *q, const char *source);
/* The same for who listens: each chain is a value, its terms and an end; `user` is the listener's. Texts are borrowed
 * for the call. */
typedef struct hyp_rw_listener {
    void *user;
    /* Of what was encoded, and what was chosen for it. */
    void (*value)(void *user, const hyp_rw_view *view, hyp_class_id c, hyp_enode_id chosen);
    /* The first term, and then what each rule made of it. What its operators cost is asked of `prices`, NULL: not. */
    void (*term)(void *user, const char *text, double cost, const char *rule, bool reversed);
    /* What was left out, and of how many lemmas the proof has that was checked; 0: it is too large to be told. */
    void (*end)(void *user, size_t left_out, size_t lemmas);
    hyp_rw_weigh *prices;
    bool unchanged;   /* it hears of values that stay as they were, too: without terms and end */
    hyp_limit *limit; /* beyond which nothing more is told; NULL = all is */
    uint64_t work;    /* so is what takes more than this: terms of proofs, which go down to the inputs, and some for each
                         e-node that there is; 0 = any */
    size_t untold;    /* values that changed, and were left out for that */
} hyp_rw_listener;
/* `source` NULL: every value. *out_told: how many there were. */
HYP_NODISCARD hyp_status hyp_rw_tell(const hyp_rw_inquiry *q, const char *source, hyp_rw_listener *to, size_t *out_told);
/* Why a rule, by its index, did not change what stands for a node of the model (NULL: any). */
HYP_NODISCARD hyp_status hyp_rw_why_not(const hyp_rw_inquiry *q, size_t rule, const char *source);
/* Where a rule that nothing matched got furthest, and what was missing; or what it matched, and the premise that did not
 * hold. Nothing is said of one of whose left side not two operators were found; *out_root is HYP_NONE then. */
HYP_NODISCARD hyp_status hyp_rw_near_miss(const hyp_rw_inquiry *q, const hyp_rw_view *view, size_t rule,
                                          hyp_class_id *out_root);

/* ---- record.c, alternatives.c ----------------------------------------------------------------------- */

/* Begins a row of a list of a record, and ends it: `before` is the length of the list before it. */
size_t hyp_rw_begin_row(hyp_strbuf *list);
void hyp_rw_end_row(hyp_rewrite_record *record, hyp_strbuf *list, size_t before);
/* What the saturation of a phase did, and how long it took. */
HYP_NODISCARD hyp_status hyp_rw_record_run(hyp_rewrite_record *record, const char *phase,
                                           const hyp_egraph_run_report *run, const hyp_rw_rules *rules, hyp_diag *diag);
/* Chains and misses of a finished phase, alternatives where the device's cost decided. */
HYP_NODISCARD hyp_status hyp_rw_record_phase(const hyp_rw_inquiry *q, const hyp_rewrite_options *options, const bool *asked);
/* What else there was for what was chosen. */
HYP_NODISCARD hyp_status hyp_rw_record_alternatives(const hyp_rw_inquiry *q, const hyp_rw_view *view,
                                                    const hyp_rewrite_options *options);


/* ---- roofline.c ---------------------------------------------------------------------------------- */

/* Seconds of the arithmetic of an elementwise operator alone, without a launch and without reading or writing. */
double hyp_roofline_work(const hyp_cost_query *query, const hyp_roofline *roofline);
/* The profile of a device with more threads than it was measured with. */
hyp_device_profile hyp_roofline_with_threads(const hyp_device_profile *profile, double threads);
/* Seconds of a kernel that does nothing. */
double hyp_roofline_launch(const hyp_roofline *roofline);
/* What of the price of a kernel is waiting for weights that are in no near cache, of which measurements say nothing. */
double hyp_roofline_waiting(const hyp_cost_query *query, const hyp_roofline *roofline);

/* ---- measured.c ---------------------------------------------------------------------------------- */

enum { HYP_MEASURED_SIZES = 6 };

/* Seconds that a profile may speak of. */
#define HYP_LEAST_SECONDS 1e-15
#define HYP_MOST_SECONDS 1e6

/* An entry of a profile: what one operator took for one shape. */
struct hyp_measured {
    hyp_op op;
    hyp_dtype dtype;
    uint32_t rank;                    /* sizes of the shape */
    double shape[HYP_MEASURED_SIZES]; /* as `sizes_of` in measured.c says */
    double place[HYP_MEASURED_SIZES]; /* binary logarithms of the shape, of filters of those of a group */
    double seconds, log_ratio;        /* log_ratio: logarithm of seconds over the roofline */
    bool computes;                    /* elementwise: it says how long the arithmetic takes, not only how long moving does */
};
/* Reads (measured OP SIZE... TYPE SECONDS), or a share in the same way, all but the ratio. */
HYP_NODISCARD hyp_status hyp_measured_read(const char *file, const hyp_sexpr *form, hyp_measured *out, hyp_diag *diag);
/* One operator, type and shape. */
bool hyp_measured_same(const hyp_measured *a, const hyp_measured *b);
/* Sets the ratio of an entry to the roofline of a profile, whose entries are not looked at. */
void hyp_measured_compare(const hyp_device_profile *profile, hyp_measured *m);
/* What to multiply the roofline of this kernel with; false, and 1, where the profile has no entry of the operator and
 * type. `shape` is as in hyp_measured. */
bool hyp_measured_ratio(const hyp_device_profile *profile, hyp_op op, hyp_dtype dtype, const double *shape,
                        double *out);
/* The same of the share of the device that this kernel takes; false where the profile has none of its operator and type. */
bool hyp_measured_share(const hyp_device_profile *profile, hyp_op op, hyp_dtype dtype, const double *shape, double *out);
/* Seconds that the arithmetic of an operator takes for an element: the least that an entry of it says, without its launch.
 * false where there is none. */
bool hyp_measured_element(const hyp_device_profile *profile, hyp_op op, hyp_dtype dtype, double *out);

/* ---- dump.c -------------------------------------------------------------------------------------- */

/* Writes the e-graph of this phase, or what is around the node of the model, or the e-class "@7"; NULL: all of it. */
HYP_NODISCARD hyp_status hyp_rw_dump(const hyp_rw_inquiry *q, const hyp_rewrite_dump *dump, const char *around);

/* ---- trace.c ------------------------------------------------------------------------------------- */

/* What one side of an event has of a class, for whole terms. */
typedef struct hyp_rw_trace_mark {
    uint32_t side;  /* which this is about */
    uint32_t times; /* that the class occurs */
    bool written;
} hyp_rw_trace_mark;

typedef struct hyp_rw_tracer {
    hyp_rw *rw;
    hyp_rw_weigh weigh; /* by the device's cost, in every phase */
    const hyp_rw_rules *rules;
    const char *phase;
    const hyp_rewrite_options *options;
    hyp_status status; /* of the first failure */
    hyp_diag *diag;
    HYP_VEC(hyp_rw_trace_mark) marks; /* by class; whoever runs frees them */
    uint32_t sides;                   /* of events, so far */
} hyp_rw_tracer;
/* The on_rewrite of a run; its user is a hyp_rw_tracer. */
void hyp_rw_on_rewrite(const hyp_rewrite_event *event, void *tracer);

#endif
