/* rewrite.h - a graph in, an equal and cheaper graph out, by equality saturation. Sees ir, egraph and base.
 *
 * Terms: a node is a term (op attribute* input*): every attribute of the operator's schema is a leaf whose
 * symbol is the attribute's canonical text, then come the inputs; an absent input is the leaf `none`. A constant
 * or graph input is a leaf too. A node with several outputs is a term whose class stands for the tuple;
 * (get :index i t) is one output. In rule text attributes are written `:name value` anywhere after the operator;
 * one that is left out has its default value, on both sides. docs/rules.md explains the language.
 */
#ifndef HYP_REWRITE_REWRITE_H
#define HYP_REWRITE_REWRITE_H

#include <signal.h>

#include "base/progress.h"
#include "hypatia/egraph.h"
#include "ir/constants.h"

/* What a cost model is asked: one operator with the types of its inputs and outputs. */
typedef struct hyp_cost_query {
    hyp_op op;
    const hyp_attr *attrs;
    const hyp_type *const *inputs; /* NULL for an absent input */
    const bool *input_const;       /* the input is computed from constants alone */
    uint32_t input_count;
    const hyp_type *outputs;
    uint32_t output_count;
    uint32_t in_place; /* of a split, a slice or the transposition of a matrix: how many results are read where they lie, if
                          the device lets it */
    uint32_t shown; /* of a split or slice: how many results are outputs of the graph, which are copies wherever they lie */
    bool joined;   /* of an elementwise operator: a reader's kernel computes it, so that its result is not written */
    const bool *input_joined; /* and so is this input, which is not read then; NULL = none is */
    hyp_dims *dims;
} hyp_cost_query;

/* Seconds that a target which cannot run an operator says it takes: such a form is taken only where there is no other. */
#define HYP_COST_UNSUPPORTED 1e6

/* Seconds for one execution: >= 0, INFINITY: never take it. A node whose inputs are all constant
 * is never asked about: it is folded and costs nothing but its bytes, which its user counts. */
typedef double (*hyp_cost_fn)(const hyp_cost_query *query, void *user);

typedef struct hyp_measured hyp_measured;

/* How many times as fast a device is with so many threads as with those of its profile: at computing, and at moving. */
enum { HYP_SPEEDUPS = 16 };
typedef struct hyp_speedup {
    double threads, compute, memory;
} hyp_speedup;

/* What a run that has gone over so many bytes since it last touched something takes more to touch it again: seconds for
 * each byte that is moved, for a kernel whose program and list of operands it is, and for one that is a layer, beside reading its
 * weights; and, in all, seconds for each byte of weights that is read. */
enum { HYP_AWAYS = 16 };
typedef struct hyp_away {
    double bytes, reading, moving, launch, layer;
} hyp_away;

/* What is touched again so many seconds after it was takes more: seconds for each byte that is moved, and in
 * kernels of windows (convolutions, pools), which cannot foresee as well what they will want. A cache that others
 * share fills with their data meanwhile, whatever the run has gone over itself. */
enum { HYP_AGES = 16 };
typedef struct hyp_age {
    double seconds, moving, windows;
} hyp_age;

/* A device as the cost model sees it, from a text file (profiles/NAME.profile). */
typedef struct hyp_device_profile {
    const char *name;
    double threads; /* of the CPU that the other numbers are for */
    double launch_seconds;      /* fixed cost of one kernel */
    double all_reduce_seconds;   /* fixed cost of a sum over a group of two devices, */
    double all_reduce_bytes_per_second; /* and what it adds up, of each device; 0: it is priced as a copy */
    double next_launch_seconds; /* of one more of the same step: of the layers of a chain, of the pass after a product */
    double join_seconds;        /* what it takes to start more threads on a kernel, and to wait for them */
    double bytes_per_second;    /* main memory */
    double cache_bytes;         /* working sets up to this move at cache_bytes_per_second */
    double cache_bytes_per_second;
    double last_cache_bytes; /* the same of a cache behind that one; 0 = there is none */
    double last_cache_bytes_per_second;
    double far_bytes_per_second; /* what was driven from all caches takes as much longer; 0 = no longer than near it */
    double far_launch_seconds;   /* and so does a kernel whose program and list of operands were */
    hyp_away aways[HYP_AWAYS];   /* by rising bytes; in place of the two, and of caches where weights are read */
    bool layers_apart;           /* they say what layers take, and what those wait for weights is in no measurement's ratio */
    size_t away_count;
    hyp_age ages[HYP_AGES]; /* by rising seconds; none: time by itself makes nothing far */
    size_t age_count;
    double flops_f32, flops_tf32, flops_f16, flops_bf16, flops_f8, flops_f64; /* multiply and add count as two */
    double flops_i32; /* of products of whole numbers; 0: there are none but by elementwise arithmetic */
    double pointwise_per_second;                                              /* elements of simple arithmetic */
    hyp_speedup speedups[HYP_SPEEDUPS]; /* by rising threads */
    size_t speedup_count;
    uint32_t epilogue_acts; /* bit i: activation i of hyp_rw_epilogue_find is computed by
                               the product's kernel */
    uint32_t epilogue_acts_bf16; /* further ones, of bf16 */
    double misaligned_products; /* how many times as long products of 16 bits, and in TF32, compute where what lies
                                   together is no multiple of 16 bytes; 0: they do not mind */
    double columns_at_once; /* that products of computed matrices make: of fewer they take as long; 0: each counts */
    bool add_after_act;     /* the product's kernel adds a tensor after its activation; before it every device's does */
    bool kernel_calls[HYP_OP_COUNT]; /* it has the kernel of this operator, which is called by name: a convolution,
                                        a normalization, ... */
    uint32_t attention_types; /* bit t: attention of hyp_dtype t is one kernel, scores stay in the cache; else there are
                                 only its parts */
    uint32_t attention_gradient_types; /* the same of its gradients */
    double attention_gradient_products; /* that their kernels do, those of scores again included; 0 = 5, each once */
    bool attention_reads_parts; /* it reads the parts of a split in place, and so does a concat: a product for all pays */
    bool images_read_parts; /* kernels of images read some channels of one in place; else those are turned, or copied */
    double attention_widest;  /* the widest head that this kernel is good for; 0 = any */
    double attention_gradient_widest; /* that those of gradients are good for; 0 = any */
    bool mlp_in_one_kernel; /* fused-mlp is one kernel, hidden values stay in the cache; else one a layer */
    double sums_in_products; /* products add up rows of what they read, gradients of biases, which takes so much of what a
                                kernel for it takes; 0 = they do not, and sums are left apart */
    bool depthwise_ends_in_acts;  /* kernels that convolve each channel by itself end in any activation, at no cost */
    bool one_tap_convs_as_layers; /* a convolution of one tap, without groups, runs as a linear of the channels */
    double hop_seconds;  /* who goes on on another stream begins so much later; 0: there is but one */
    double crowding;     /* the share of the device that a kernel takes from others at once with it, */
    const hyp_measured *shares; /* unless one like it was tried; in the arena of the parser */
    size_t share_count;
    const hyp_measured *measured; /* what kernels took that were tried, in the arena of the parser */
    size_t measured_count;
} hyp_device_profile;
/* The bit of what products and convolutions end in: as hyp_activation_find, and leaky-relu, which convolutions alone can. */
int hyp_rw_epilogue_find(const char *name, hyp_op *out);
/* Built-in profiles, by the names of their files in profiles/. NULL when there is no such name. */
const char *hyp_profile_builtin(const char *name);
HYP_NODISCARD hyp_status hyp_profile_parse(hyp_arena *arena, const char *file, const char *text, size_t len,
                                           hyp_device_profile *out, hyp_diag *diag);

/* What a symbolic dim counts as in costs where nothing else is said. */
enum { HYP_TYPICAL_SIZE = 32 };

/* Roofline (Williams, Waterman, Patterson, CACM 2009): launch + max(bytes / bandwidth, flops / peak), times what the
 * nearest measurements of the profile say of it. */
typedef struct hyp_roofline {
    hyp_device_profile profile;
    bool tf32;
    double threads;   /* that a run is given; 0 = those of the profile */
    double constants; /* bytes of all constants of the model, which a run reads one after the other: they come from
                         the cache that has room for all of them; 0 = from the one that has room for a kernel's */
    double round;     /* bytes that a run goes over, these included, as far as is known: after so many it comes back to the
                         program of a kernel, and to weights; where a profile says how long that takes (hyp_away) */
    const int64_t *sizes; /* by symbol of the query's dims: what it counts as; of symbols from size_count on
                             HYP_TYPICAL_SIZE */
    size_t size_count;
} hyp_roofline;
double hyp_roofline_cost(const hyp_cost_query *query, void *roofline);
/* Seconds more that a kernel takes because `bytes` that it moves were last touched when a run had yet to go over
 * `since` bytes, `ago` seconds before, itself goes over `own`: which is how near they were when such a kernel was measured. `windows`: it is
 * one of windows. */
double hyp_roofline_far(const hyp_roofline *roofline, double bytes, double since, double ago, double own, bool windows);
/* Seconds more of a kernel that has to turn so many elements of images in f32, [N C spatial...] to channels last or back: a
 * transposition without a launch; in place of copying them where they are `copied`. */
double hyp_roofline_turn(const hyp_roofline *roofline, double elements, bool copied);
/* The share of the device that a kernel takes from others which run at once with it (base/timetable.h): as measured of
 * kernels like it, and no less than the part of its time that it takes to move what it does. */
double hyp_roofline_share(const hyp_cost_query *query, void *roofline);
/* Seconds of one kernel that computes these nodes of a graph: one node, or elementwise nodes of one shape of which the
 * last gives the result. */
HYP_NODISCARD hyp_status hyp_roofline_kernel(const hyp_graph *graph, const hyp_node *const *nodes, size_t count,
                                             const hyp_roofline *roofline, double *out_seconds, hyp_diag *diag);

/* The share of one kernel, of nodes as above. */
HYP_NODISCARD hyp_status hyp_roofline_kernel_share(const hyp_graph *graph, const hyp_node *const *nodes, size_t count,
                                                   const hyp_roofline *roofline, double *out_share, hyp_diag *diag);

/* Appends what these seconds are made of, for people: the launch, what there is to do at which rates of the profile, and what
 * measurements make of it. "launch 0.3 us + work 21 us (3.36e+09 f32 operations at 1.6e+11/s: 21 us | 4.1e+06 bytes of memory at
 * 1.2e+10/s: 0.34 us), x 1.03 as measured, mostly (linear 16 1024 1024 f32)". What stands in parentheses runs side by side, or in
 * turns where there are several layers, so the work is between the longest and the sum. */
HYP_NODISCARD hyp_status hyp_roofline_explain(const hyp_graph *graph, const hyp_node *const *nodes, size_t count,
                                              const hyp_roofline *roofline, hyp_strbuf *out, hyp_diag *diag);

/* One application of a rule, for --dump-rewrites. Texts are borrowed for the call. */
typedef struct hyp_rewrite_trace {
    const char *phase; /* "normalize", "recognize" or "optimize" */
    size_t iteration;
    const char *rule;
    const char *matched;        /* term matched, shortened unless full_terms */
    const char *result;         /* term made, in the same way */
    const char *const *sources; /* nodes of the model that the left side stands for */
    size_t source_count;
    double cost_before, cost_after; /* seconds of the matched part and of what replaced it; NAN when unknown */
} hyp_rewrite_trace;

/* When a search is to end that is not at its end, though it then depends on the machine. What asks and is told that it
 * is reached is cut short; so `why` says afterwards whether anything was. */
typedef struct hyp_limit {
    double deadline;                    /* by hyp_limit_clock; 0 = none */
    const volatile sig_atomic_t *asked; /* not 0: somebody asked for it; NULL = nobody can */
    enum { HYP_LIMIT_NOT_REACHED, HYP_LIMIT_TIME, HYP_LIMIT_ASKED } why;
    hyp_progress *progress; /* of the search, which tells of it whenever it asks; NULL = nobody listens */
} hyp_limit;
double hyp_limit_clock(void);       /* seconds */
bool hyp_limit_reached(void *limit); /* a hyp_limit, or NULL */
void hyp_limit_extend(hyp_limit *limit, double seconds); /* by what was no search; NULL-safe */

/* Graphs that compute the same and are predicted to take about as long: of a part of what was chosen, whose inputs are
 * values of the whole, the best ones whose plans have different steps; of all of it those that there are. */
enum { HYP_REWRITE_FORMS = 8 /* at most */ };
typedef struct hyp_rewrite_forms {
    const hyp_graph *const *graphs; /* the first is taken where nothing better is known; of a part the others come in the
                                       order of their seconds */
    const char *const *names;       /* of all of it: "by parts", "rewritten", "apart", "normal form", "as it is"; NULL
                                       of a part */
    const double *seconds;          /* predicted */
    size_t count;
} hyp_rewrite_forms;
/* Which form to take. The time that it takes does not count for a limit. */
typedef hyp_status hyp_rewrite_choose_fn(const hyp_rewrite_forms *forms, size_t *out, void *user, hyp_diag *diag);

/* What the plan of a graph takes. */
typedef struct hyp_rewrite_price {
    double seconds; /* of a run */
    double work;    /* of its steps one after the other: as much, or more where they run side by side */
    uint64_t steps; /* a hash of them, which plans that do the same share */
    bool no_plan;   /* it becomes none as it stands: what its nodes cost one by one is said */
} hyp_rewrite_price;
/* What plans are chosen by, in seconds. Of what running side by side is predicted to gain a tenth is not believed: the more
 * runs at once, the less is known of it, and what needs less work is also better in company. */
static inline double hyp_rewrite_rank(const hyp_rewrite_price *p) { return p->seconds + 0.1 * (p->work - p->seconds); }

/* The e-graph of the optimizing rules as they left it, for other programs. */
enum { HYP_REWRITE_DUMP_DEPTH = 2 };
typedef struct hyp_rewrite_dump {
    void (*write)(const char *text, size_t len, void *user);
    void *user;
    bool dot;           /* for Graphviz, with what was chosen drawn bold; else as egraph-serialize has it, costs in seconds */
    const char *around; /* a node of the model or one of its results, or an e-class "@7": what is near it; NULL = all */
    size_t depth;       /* how near, in steps from operator to operand or back; 0 = HYP_REWRITE_DUMP_DEPTH */
    size_t nodes;       /* e-nodes that are drawn at most; 0 = 500 */
} hyp_rewrite_dump;

/* What took some time: for who draws it. What is inside of another ends no later than that. Of rules only how long all their work
 * took is known: they are one after the other from where their saturation began. Texts are borrowed for the call. */
typedef struct hyp_rewrite_span {
    const char *kind;      /* "phase", "part" of a phase or an iteration, "iteration", "rule" */
    const char *name;
    size_t number;         /* of an iteration */
    double start, seconds; /* by hyp_limit_clock */
    size_t matches, applications, e_nodes, e_classes; /* where they are known; 0 */
} hyp_rewrite_span;

/* What a rewriting keeps for who looks at it afterwards: rows of JSON, with commas between them, that docs/report.md describes.
 * What depends on the machine is in `times` alone. Zero-initialise but for `most`; the caller's to dispose of. */
typedef struct hyp_rewrite_record {
    size_t most;             /* bytes of each list: what is beyond is left out */
    hyp_strbuf phases;       /* what each of them did, by iteration and by rule */
    hyp_strbuf chains;       /* how values came to the form that was chosen, rule by rule */
    hyp_strbuf alternatives; /* what else there was for what was chosen, and what it would cost more */
    hyp_strbuf misses;       /* rules that were not applied, and what was missing where they got furthest */
    hyp_strbuf forms;        /* of the whole: what their plans would take */
    hyp_strbuf times;        /* of phases, by iteration and by rule */
    size_t left_out;         /* rows */
} hyp_rewrite_record;
void hyp_rewrite_record_dispose(hyp_rewrite_record *record);

typedef struct hyp_rewrite_options {
    const char *const *rule_files; /* path names for messages, paired with rule_texts */
    const char *const *rule_texts;
    size_t rule_file_count;
    bool no_builtin;             /* the files' rules alone; else they come after the built-in ones */
    const char *const *disabled; /* rule names; an unknown name is an error that lists near ones */
    size_t disabled_count;
    const char *const *only; /* rule names, as above: no other rule is applied; count 0 = all */
    size_t only_count;
    bool allow_approximate;           /* class A too */
    size_t max_iterations, max_nodes; /* of each phase; 0 = 1000, and 100000 or 64 a node of the graph */
    hyp_fold_budget fold;             /* constants that rules make stay within it; 0 as in hyp_fold_budget_of */
    hyp_limit *limit;                 /* NULL = none: the others count work, so that results do not depend on the machine */
    hyp_cost_fn cost;
    void *cost_user;
    /* The price of the plan that a graph becomes, by which forms are chosen that `cost` finds good in ways of its own;
     * HYP_ERR_UNSUPPORTED where it becomes none. NULL: the sum of what its nodes cost. */
    hyp_status (*price)(const hyp_graph *graph, hyp_rewrite_price *out, void *user, hyp_diag *diag);
    void *price_user;
    uint32_t streams; /* on which the steps of a plan may run side by side; up to 1: one after the other. With `price` only */
    double hop_seconds; /* as the device's profile has it */
    hyp_cost_fn share;  /* of the device, as hyp_roofline_share; its user is cost_user */
    /* Asked where the cost model cannot tell, and last about the whole; NULL: the cost model alone decides. With `price`
     * only. */
    hyp_rewrite_choose_fn *choose;
    void *choose_user;
    size_t forms; /* of a part, that it is asked about: 2 to HYP_REWRITE_FORMS; 0 = 3 */
    void (*trace)(const hyp_rewrite_trace *event, void *user); /* may be NULL */
    void *trace_user;
    bool full_terms; /* of the trace: whole terms, down to inputs and constants */
    const hyp_rewrite_dump *dump; /* NULL = none */
    void (*span)(const hyp_rewrite_span *span, void *user); /* NULL = nobody asks */
    void *span_user;
    hyp_rewrite_record *record; /* filled; NULL: nothing is kept */
    /* Questions, by the name of a node of the model or of one of its results; an unknown one is an error. The text of
     * the answer goes to `answer`. */
    const char *explain;      /* the chains of rules from this node to what was chosen, each checked; NULL = none */
    const char *why_not;      /* why this rule changed nothing; NULL = none */
    const char *why_not_node; /* at this node; NULL = anywhere */
    hyp_strbuf *answer;       /* not NULL when something is asked */
} hyp_rewrite_options;

typedef struct hyp_rule_use {
    const char *name, *ruleset, *numeric_class, *doc;
    size_t matches, applications; /* in all phases */
    size_t refused;               /* applications whose right side has no type, or another than the left one */
    const char *refusal;          /* what is wrong with the first of them; NULL = there was none */
    size_t declined;              /* matches that a condition or function kept from being applied: hyp_rule_report */
    size_t beyond;                /* parts beyond those of one application, of rules that collect: hyp_rule_report */
    size_t used;                  /* steps of the result that owe their form to this rule */
} hyp_rule_use;

typedef struct hyp_rewrite_report {
    hyp_arena arena; /* owns everything below */
    hyp_rule_use *rules;
    size_t rule_count;
    struct hyp_rewrite_phase {
        const char *name;
        hyp_stop stop;
        size_t iterations, e_nodes, e_classes, peak_bytes;
        bool proven; /* what was chosen costs least: the search for it was not cut short */
        double gap;  /* by how much of its cost something else could cost less at most, as far as is known; 0: proven, 1: nothing
                        is known */
        size_t unfolded; /* e-nodes of constants alone that are computed in every run, as they take more than the budget */
        double seconds;
    } phases[3]; /* normalize, recognize, optimize */
    size_t phase_count;
    double cost_before, cost_after;   /* seconds by `price` */
    size_t nodes_before, nodes_after; /* that run on the device: constant ones are not counted */
    size_t parts_changed;             /* of the result, on the advice of `choose` */
    const char *form;                 /* of the result, where `choose` has taken another than predicted; else NULL */
    const char *explained;            /* the node of the model that options.explain means; NULL without */
} hyp_rewrite_report;

/* Rewrites `in` into `out` (initialised, empty, of the same dims). Inputs and outputs keep names, order and
 * types. Every node of the result has the source nodes it stands for and the rules that made it. */
HYP_NODISCARD hyp_status hyp_rewrite(const hyp_graph *in, const hyp_rewrite_options *options, hyp_graph *out,
                                     hyp_rewrite_report *report, hyp_diag *diag);
void hyp_rewrite_report_dispose(hyp_rewrite_report *report);

/* The rules that the names of the options choose, without running them: for --list-rules. Fills the rules of the
 * report; class A is there whether approximations are allowed or not. */
HYP_NODISCARD hyp_status hyp_rewrite_list(const hyp_rewrite_options *options, hyp_rewrite_report *report,
                                          hyp_diag *diag);

#endif
