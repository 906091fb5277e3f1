/* hypatia/egraph.h - equality saturation over terms of any language.
 *
 * A term is an operator symbol applied to child terms. An e-graph stores many terms and which of them
 * are equal: an e-node is an operator symbol and child e-classes, an e-class is a set of e-nodes known
 * to be equal. The design follows Willsey et al., "egg: Fast and extensible equality saturation"
 * (POPL 2021): hash-consing, union-find, deferred rebuilding. Matching is semi-naive as in Zhang et al.,
 * "Better together: unifying Datalog and equality saturation" (PLDI 2023).
 *
 * Thread rule: an e-graph belongs to one thread at a time; two e-graphs never share state. The one
 * exception is hyp_egraph_cancel. Ids and output are the same on every run and machine.
 *
 * Binary interface: not every struct here carries its size (hypatia/types.h), and they may change with every minor
 * release.
 *
 * Callbacks: in a condition, a function, an analysis' modify, on_rewrite and what hyp_egraph_ematch calls, terms may be
 * added and classes united; all others may read the e-graph that calls them, and what would change it fails with
 * HYP_ERR_INVALID_ARGUMENT. None may rebuild it or begin a saturation of it, push or pop. An e-graph, or a ruleset of it,
 * that a callback destroys is not destroyed then: a ruleset goes with its e-graph, and an e-graph stays.
 *
 * Ownership: whatever a function here returns by pointer is borrowed and lives until the next call
 * that changes the e-graph, unless said otherwise.
 */
#ifndef HYPATIA_EGRAPH_H
#define HYPATIA_EGRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hypatia/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hyp_egraph hyp_egraph;
typedef struct hyp_ruleset hyp_ruleset;

/* Ids are never reused, and valid until hyp_egraph_compact or the end of the e-graph; with
 * hyp_egraph_options.renumbered until it is called. */
typedef uint32_t hyp_class_id; /* an e-class; canonical only if hyp_egraph_find(eg, c) == c */
typedef uint32_t hyp_enode_id; /* an e-node */
typedef uint32_t hyp_symbol;   /* an interned operator symbol or literal */
#define HYP_NONE UINT32_MAX    /* "no such id" for all three */

/* ---- e-graph ------------------------------------------------------------------------------------ */

/* An e-class analysis (egg, section 4): a fact per class, kept while classes merge. data_size bytes per
 * class, zero-initialised, moved by memcpy. Every callback may be NULL. */
typedef struct hyp_analysis {
    size_t data_size;
    void *user;
    /* The fact of an e-node from the facts of its children; called again when those change. Adds nothing. A
     * failing status stops the insertion. HYP_ERR_MALFORMED says that the e-node means nothing: an application of a rule
     * that would make it is refused (hyp_rule_report.refused), and the run goes on. */
    hyp_status (*make)(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag);
    /* Joins `from` into `into`; *out_changed tells whether `into` changed (its parents are then made
     * anew). Must be idempotent and commutative up to order; reads the two facts only, and is not called for two that
     * are the same byte by byte. A failing status (facts that contradict each other) is what the rebuild returns when it
     * has closed congruence all the same, and ends a run with HYP_STOP_ERROR. */
    hyp_status (*merge)(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag);
    /* Called after a class is new or its fact changed; may add terms and unite classes. */
    hyp_status (*modify)(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag);
    /* Whether classes with these facts may be equal, asked before a rule unites them; reads the two facts only, which do
     * not know of unions since the last rebuild. HYP_ERR_MALFORMED refuses the application, as in `make`. So a type that
     * every e-node has, made of those of its children, is one for each class whatever rules say. */
    hyp_status (*agree)(hyp_egraph *eg, const void *a, const void *b, void *user, hyp_diag *diag);
} hyp_analysis;

/* New ids, by those of before, which are below `bound`: of a class, and of an e-node, which of one that has died is that of
 * the one that it became equal to. */
typedef struct hyp_renumbering {
    const hyp_class_id *classes;
    const hyp_enode_id *nodes;
    size_t bound;
} hyp_renumbering;

typedef struct hyp_egraph_options {
    size_t size;                  /* sizeof(hyp_egraph_options) */
    const hyp_analysis *analysis; /* copied; NULL = none */
    bool explain;                 /* keep what hyp_egraph_explain and hyp_egraph_origin need */
    bool explain_all; /* with explain: keep applications that changed nothing, too. Proofs are shorter, and each such
                       * match costs some 30 bytes */
    /* Who sets it lets the e-graph do by itself what hyp_egraph_compact does, whenever as many e-nodes have died as there
     * are others: in hyp_egraph_rebuild, hyp_egraph_push and runs, before an iteration, never inside a callback other than
     * hyp_egraph_run_options.hook. So its memory is that of what lives, however long additions, unions, runs, pushes and pops go
     * on, and the work is a constant for each e-node that was ever added. Each time it is called with the new ids, so that
     * the caller can change those that he keeps; what a push has noted has the same ids as before. It may read the e-graph,
     * but not change it. With `explain` e-nodes stay, as proofs name them, and it is not called. NULL = ids stay what
     * they are. */
    void (*renumbered)(hyp_egraph *eg, const hyp_renumbering *now, void *user);
    void *renumbered_user;
} hyp_egraph_options;

/* *out is owned by the caller: hyp_egraph_destroy. options may be NULL. Here and below, options that do not say their
 * size are refused. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_create(const hyp_egraph_options *options, hyp_egraph **out, hyp_diag *diag);
HYP_API void hyp_egraph_destroy(hyp_egraph *eg); /* NULL-safe */

/* Interns a symbol, which must be UTF-8. Ids are given in order of first sight. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_symbol(hyp_egraph *eg, const char *name, hyp_symbol *out, hyp_diag *diag);
HYP_API const char *hyp_egraph_symbol_name(const hyp_egraph *eg, hyp_symbol symbol);

/* Adds an e-node, or finds the equal one (hash-consing). children may be non-canonical. out_node may be
 * NULL. A class of the result is canonical. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_add(hyp_egraph *eg, hyp_symbol op, const hyp_class_id *children,
                                                size_t count, hyp_class_id *out, hyp_enode_id *out_node,
                                                hyp_diag *diag);
/* Adds a term written as an s-expression, as in "(+ a (* 2 b))". */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_add_text(hyp_egraph *eg, const char *term, hyp_class_id *out,
                                                     hyp_diag *diag);
/* The class of an e-node that is already there, or HYP_NONE. Changes nothing. */
HYP_API hyp_class_id hyp_egraph_lookup(hyp_egraph *eg, hyp_symbol op, const hyp_class_id *children, size_t count);

HYP_API hyp_class_id hyp_egraph_find(hyp_egraph *eg, hyp_class_id c);
/* States that two classes are equal because of `reason` (interned text for explanations, NULL =
 * "given"). An id that an e-node had when it was added stands for that very term in explanations.
 * Congruence is restored by the next rebuild. *out_changed may be NULL. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_union(hyp_egraph *eg, hyp_class_id a, hyp_class_id b, const char *reason,
                                                  bool *out_changed, hyp_diag *diag);
/* Restores congruence and the analysis. Reading functions below need it after any union. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_rebuild(hyp_egraph *eg, hyp_diag *diag);

HYP_API size_t hyp_egraph_node_count(const hyp_egraph *eg);  /* distinct canonical e-nodes */
HYP_API size_t hyp_egraph_class_count(const hyp_egraph *eg); /* canonical e-classes */
/* Upper bound of class ids, for arrays indexed by class; ids below it may be non-canonical. */
HYP_API size_t hyp_egraph_class_bound(const hyp_egraph *eg);
/* Upper bound of e-node ids, for arrays indexed by e-node. */
HYP_API size_t hyp_egraph_enode_bound(const hyp_egraph *eg);

/* The distinct canonical e-nodes of a class, oldest first; NULL when memory is out. Inside a callback it
 * lists what is known at that moment, with duplicates that the next rebuild will find, and lives until the
 * callback returns. */
HYP_API const hyp_enode_id *hyp_egraph_class_nodes(hyp_egraph *eg, hyp_class_id c, size_t *out_count);
HYP_API hyp_symbol hyp_enode_op(const hyp_egraph *eg, hyp_enode_id n);
HYP_API const hyp_class_id *hyp_enode_children(const hyp_egraph *eg, hyp_enode_id n, size_t *out_count);
HYP_API hyp_class_id hyp_enode_class(hyp_egraph *eg, hyp_enode_id n); /* canonical */
/* The canonical class that comes after one, in the order of ids; HYP_NONE: the first one. HYP_NONE after the last. So
 * `for (c = next(eg, HYP_NONE); c != HYP_NONE; c = next(eg, c))` meets every class once; classes that are added
 * meanwhile come last. */
HYP_API hyp_class_id hyp_egraph_next_class(hyp_egraph *eg, hyp_class_id after);
/* The e-nodes of a rebuilt e-graph that have a class among their children, each once, in an order that is the same on
 * every run: the first `cap` of them are written to `out`, and *out_count says how many there are. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_class_users(hyp_egraph *eg, hyp_class_id c, hyp_enode_id *out, size_t cap,
                                                        size_t *out_count, hyp_diag *diag);
/* The analysis fact of a class; NULL without an analysis. Mutable only inside analysis callbacks. */
HYP_API void *hyp_egraph_data(hyp_egraph *eg, hyp_class_id c);

/* Recomputes every invariant (hash-cons, congruence, union-find, indexes) and says which is broken. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_check(hyp_egraph *eg, hyp_diag *diag);

/* Notes the state of the e-graph (rebuilding it first), and goes back to the last state noted: what was added, united
 * and learnt since is gone, ids of then are valid again, ids since then are not, and rulesets will search again what
 * they searched since. Symbols, rulesets and registered callbacks stay. Calls nest. A push costs what
 * changes after it, 32 bytes for each e-node of then that does, and with an analysis a copy of its facts; a pop the same
 * time. hyp_egraph_pop without a push is HYP_ERR_INVALID_ARGUMENT; it needs no memory. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_push(hyp_egraph *eg, hyp_diag *diag);
HYP_API HYP_NODISCARD hyp_status hyp_egraph_pop(hyp_egraph *eg, hyp_diag *diag);

/* An e-graph like a rebuilt one: the same ids, facts, declarations and callbacks with the same `user`s, and with
 * options.explain the same proofs; states that were pushed are not copied, and options.renumbered is not.
 * out_rulesets[i] (count of them) is like rulesets[i] of eg and has seen the same, so that either goes on as the other
 * would. They are owned by the caller: each e-graph may then be used by another thread, as far as its callbacks may. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_copy(hyp_egraph *eg, hyp_ruleset *const *rulesets, size_t count,
                                                 hyp_egraph **out, hyp_ruleset **out_rulesets, hyp_diag *diag);

/* Rebuilds the e-graph and gives e-nodes new ids, in their order, without gaps where some have died
 * (hyp_egraph_enode_bound less hyp_egraph_node_count of them): who adds and unites for ever calls it now and then, and
 * the e-graph stays as large as what lives. Ids of before are invalid, but those in the two lists are made anew:
 * classes, and e-nodes, which are those that they became equal to if they have died. Entries of HYP_NONE stay. Rulesets
 * go on as if nothing had been done. Between a push and its pop e-nodes that the push has noted keep their ids, dead or
 * not. HYP_ERR_UNSUPPORTED with options.explain. It takes 8 bytes per e-node for a moment. options.renumbered lets the
 * e-graph see to it by itself. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_compact(hyp_egraph *eg, hyp_class_id *classes, size_t class_count,
                                                    hyp_enode_id *nodes, size_t node_count, hyp_diag *diag);

/* Asks a running saturation, or else the next one, to stop soon with HYP_STOP_CANCELLED. The request is
 * spent by the run that it stops. Any thread, any signal handler. */
HYP_API void hyp_egraph_cancel(hyp_egraph *eg);

/* ---- declared operators --------------------------------------------------------------------------- */

/* Nothing need be declared. Where something is, terms and rules are held to it, and a name or a number of children that
 * was not meant is an error, which says what was declared or which name is near:
 *
 *   (operators SORT (NAME ARG...)...)   NAME over children of the sorts ARG is of sort SORT; the last ARG may be
 * written ARG..., for any number. A name may stand there several times, with other ARGs (literals SORT KIND...) leaves
 * that are not declared: int, float, name (any other). Without it there are none
 *
 * Two classes of different sorts cannot be united. A sort is one when it is named. The forms may also stand in a text
 * of rules, before them. HYP_ERR_MALFORMED where terms or rules are there before the first of them, and where a name is
 * of another sort already. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_declare(hyp_egraph *eg, const char *file, const char *text, size_t len,
                                                    hyp_diag *diag);
/* The sort of a class; NULL where nothing is declared, or for no class. */
HYP_API const char *hyp_egraph_sort(hyp_egraph *eg, hyp_class_id c);

/* ---- rules -------------------------------------------------------------------------------------- */

/* Patterns are terms with variables: ?x stands for any class; ?xs... stands for the children of a node at
 * that place, zero or more, at most once per node pattern and bound once per rule.
 *
 *   (rule NAME [:class C] [:ruleset S] [:doc "..."]
 *     LHS => RHS  [:if COND])
 *   (rule NAME ... (multi (?a = P) (?b = Q)) => (union ?a R) (union ?b S))      several roots, outputs
 *   (rule NAME ... (collect (KEY...) (?a = P)) => (let ?m R) (union ?a S))      any number of parts at once
 *   (birule NAME ... L <=> R)          two rules, NAME and NAME-rev
 *   (for-each MARK (WORD...) RULE...)  every rule once for each word, which is put wherever MARK is written
 *
 * (let ?m R) before the unions of a multi-pattern names a term for them.
 *
 * A rule that collects is applied once to all matches of P that have the same keys, variables of P or terms of them, if
 * there are 2 or more; of more than 64 to 64 at a time. Matches are in the order of the ids that P's variables stand for;
 * of several with one root the first is taken. On its right side and in its condition (each T) stands for T once for
 * each part, <i> for the part's number from 0; a condition without `each` is one of every part, and parts for which it
 * does not hold are not collected. The parts change whenever the e-graph does; what was made of fewer stays.
 *
 * COND is (and C*), (or C*), (not C) or a registered condition applied to terms over the variables: a leaf
 * is added where it is missing, any other e-node is only looked up, and where there is none the condition
 * does not hold. A registered function in the right side is called with the classes of its arguments and
 * gives the class to use; when it declines, the rule does not apply to this match. A match that was
 * declined is asked again after the e-graph has changed. */

/* What a condition or function sees of a match. */
typedef struct hyp_call {
    hyp_egraph *eg;
    const hyp_class_id *args; /* canonical classes, one per argument; a ?xs... argument is spread out */
    size_t arg_count;
    void *user;
} hyp_call;

typedef hyp_status (*hyp_condition_fn)(const hyp_call *call, bool *out_holds, hyp_diag *diag);
/* *out = HYP_NONE declines. */
typedef hyp_status (*hyp_function_fn)(const hyp_call *call, hyp_class_id *out, hyp_diag *diag);

/* Known to rules parsed afterwards. arity < 0: any number. The name is copied. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_register_condition(hyp_egraph *eg, const char *name, int arity,
                                                               hyp_condition_fn fn, void *user, hyp_diag *diag);
HYP_API HYP_NODISCARD hyp_status hyp_egraph_register_function(hyp_egraph *eg, const char *name, int arity,
                                                              hyp_function_fn fn, void *user, hyp_diag *diag);

/* Reads rules. `file` is named in messages, which give line and column; two forms are read: the
 * s-expressions above, and tab-separated lines `name <TAB> left <TAB> right <TAB> condition`. An unbound
 * right-side variable, an unknown condition, a duplicate name or a rule of more than 1024 variables is refused.
 * *out is owned by the caller and must be destroyed before its e-graph. */
HYP_API HYP_NODISCARD hyp_status hyp_ruleset_parse(hyp_egraph *eg, const char *file, const char *text, size_t len,
                                                   hyp_ruleset **out, hyp_diag *diag);
HYP_API void hyp_ruleset_destroy(hyp_ruleset *rules); /* NULL-safe */

/* A rule whose right side is a function. The texts are copied. */
typedef struct hyp_rule_source {
    size_t size; /* sizeof(hyp_rule_source) */
    const char *name;
    const char *left;      /* as in a rule of text, also (multi ...) */
    const char *condition; /* as after :if; NULL = none */
    const char *doc;       /* NULL = none */
    /* Called for each match with the class of the (first) root in args[0], and behind it what the other variables stand
     * for, in order of first sight, the children of a ?xs... one after the other. It may add terms and unite classes by
     * itself. What it gives is united with the root: args[0] for nothing more, HYP_NONE to be asked again when the
     * e-graph has changed. In proofs its answer is one of a function. */
    hyp_function_fn apply;
    void *user;
} hyp_rule_source;
/* Adds a rule to a ruleset, which may be one of no text, (text NULL and len 0). It is searched, scheduled and counted
 * like any other, each match once. After a failure the ruleset is as before. Not inside a callback. */
HYP_API HYP_NODISCARD hyp_status hyp_ruleset_add(hyp_ruleset *rules, const hyp_rule_source *source, hyp_diag *diag);

/* One rule of a ruleset. The texts are borrowed from the ruleset. */
typedef struct hyp_rule_info {
    const char *name, *numeric_class, *ruleset, *doc; /* "" where absent */
    const char *text;                                 /* canonical one-line form */
} hyp_rule_info;
HYP_API size_t hyp_ruleset_count(const hyp_ruleset *rules);
HYP_API hyp_rule_info hyp_ruleset_rule(const hyp_ruleset *rules, size_t i);
/* A disabled rule is not searched. All are enabled at first. */
HYP_API void hyp_ruleset_enable(hyp_ruleset *rules, size_t i, bool enabled);

/* Limits of one rule in place of those of hyp_egraph_run_options: matches that the e-graph may have before the rule is
 * banned by HYP_SCHEDULER_BACKOFF, and iterations of the first ban. 0 = as the run says, SIZE_MAX matches = never
 * banned. */
HYP_API void hyp_ruleset_backoff(hyp_ruleset *rules, size_t i, size_t match_limit, size_t ban_length);

/* ---- matching ----------------------------------------------------------------------------------- */

/* A pattern to look for, written like the left side of a rule; also (multi (?a = P) (?b = Q)). */
typedef struct hyp_pattern hyp_pattern;
/* *out is owned by the caller and must be destroyed before its e-graph. */
HYP_API HYP_NODISCARD hyp_status hyp_pattern_parse(hyp_egraph *eg, const char *text, hyp_pattern **out, hyp_diag *diag);
HYP_API void hyp_pattern_destroy(hyp_pattern *pattern); /* NULL-safe */
/* The variables in order of first sight; those of a sequence (?xs...) are not among them. Borrowed. */
HYP_API size_t hyp_pattern_variable_count(const hyp_pattern *pattern);
HYP_API const char *hyp_pattern_variable(const hyp_pattern *pattern, size_t i);

/* One match; valid during the call. All classes are canonical when the search begins. */
typedef struct hyp_match_view {
    hyp_class_id root;             /* class of the (first) pattern */
    const hyp_class_id *variables; /* variable_count of them */
    size_t variable_count;
} hyp_match_view;
/* A status other than HYP_OK ends the search and is what hyp_egraph_ematch returns. It may add terms and unite classes,
 * which this search does not see; it must not rebuild. */
typedef hyp_status (*hyp_ematch_fn)(const hyp_match_view *match, void *user, hyp_diag *diag);
/* Calls fn for every match in a rebuilt e-graph, each once, in an order that is the same on every run. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_ematch(hyp_egraph *eg, const hyp_pattern *pattern, hyp_ematch_fn fn,
                                                   void *user, hyp_diag *diag);

/* Why a rule does not apply somewhere, or that it does. */
typedef enum hyp_near_kind {
    HYP_NEAR_APPLIES,   /* it matches, and its two sides are one class */
    HYP_NEAR_PENDING,   /* it matches, but was not applied: it is disabled, or the run ended before */
    HYP_NEAR_OPERATOR,  /* class `at` has no e-node of this operator, or none with this literal */
    HYP_NEAR_VARIABLE,  /* `at` is where a variable stands again that already stands for `other` */
    HYP_NEAR_USER,      /* `at` is a part of the left side, but no e-node that uses it is `premise`, around that part */
    HYP_NEAR_CONDITION, /* this part of the condition does not hold */
    HYP_NEAR_FUNCTION,  /* this function of the right side declined */
    HYP_NEAR_ALONE,     /* of a rule that collects: it matches, but nothing else has the same keys */
    HYP_NEAR_REFUSED    /* the analysis refuses what the rule would make, or to make its two sides equal: see `reason` */
} hyp_near_kind;
typedef struct hyp_near_variable {
    const char *name; /* "?x" */
    hyp_class_id class_id;
} hyp_near_variable;
/* One answer; texts and lists are borrowed for the call. Classes are HYP_NONE where there is none. */
typedef struct hyp_near_miss {
    hyp_near_kind kind;
    size_t matched;      /* e-nodes of the left side that were found, literals not counted */
    const char *premise; /* what failed, as text of the rule in the engine's form; "" when nothing did */
    hyp_class_id root;   /* of the (first) left side */
    hyp_class_id at, other;
    hyp_class_id right; /* APPLIES, PENDING: what the (first) right side is: the id of its e-node, or a class */
    const hyp_near_variable *variables; /* those that stand for something */
    size_t variable_count;
    const char *reason; /* REFUSED: what the analysis says; else "" */
} hyp_near_miss;
/* A status other than HYP_OK ends the search. It must not change the e-graph. */
typedef hyp_status (*hyp_near_fn)(const hyp_near_miss *near, void *user, hyp_diag *diag);
/* Tells of a rule, enabled or not, in a rebuilt e-graph: at most `limit` matches with what the rest of the rule says to
 * them, or, where there is no match, the one that got furthest, if any begins. `focus` are classes of which the match,
 * or the place where it fails, must have one; focus_count 0: any. Tries some two million e-nodes and places of left
 * sides at most. May add e-nodes: literals of conditions and right sides. */
HYP_API HYP_NODISCARD hyp_status hyp_ruleset_near_misses(hyp_ruleset *rules, size_t rule, const hyp_class_id *focus,
                                                         size_t focus_count, size_t limit, hyp_near_fn fn, void *user,
                                                         hyp_diag *diag);

/* ---- saturation --------------------------------------------------------------------------------- */

typedef enum hyp_stop {
    HYP_STOP_SATURATED, /* nothing new can be found by these rules */
    HYP_STOP_ITERATIONS,
    HYP_STOP_NODES,
    HYP_STOP_MEMORY,
    HYP_STOP_TIME,
    HYP_STOP_MATCHES,
    HYP_STOP_CANCELLED,
    HYP_STOP_ERROR /* an allocation, callback or analysis failed: see the status */
} hyp_stop;
HYP_API const char *hyp_stop_name(hyp_stop stop); /* "saturated", "node limit", ... */

/* What a scheduler of the caller's is asked. */
typedef enum hyp_turn_kind {
    HYP_TURN_BEGIN, /* a rule's turn comes: the answer is the most matches, old and new, that the e-graph may have for
                       it to be applied; 0: it is left out of this iteration; SIZE_MAX: it is applied however many there
                       are */
    HYP_TURN_OVER,  /* it has more than that, and is left out; the answer means nothing */
    HYP_TURN_IDLE /* an iteration changed nothing, and rules were left out of it: 0 ends the run as saturated, any other
                     answer begins the next iteration. `rule` is HYP_NONE */
} hyp_turn_kind;
typedef struct hyp_rule_turn {
    hyp_turn_kind kind;
    size_t iteration, rule;
    size_t matches; /* BEGIN: of all searches until now. OVER: the answer to BEGIN */
} hyp_rule_turn;

typedef enum hyp_scheduler {
    HYP_SCHEDULER_SIMPLE, /* every rule in every iteration */
    /* As in egg: a rule of which the e-graph has more than backoff_match_limit matches (old ones count, too) is banned
     * for backoff_ban_length iterations, and none is applied; both double for its next time. An iteration that changes
     * nothing shortens the bans until one ends. Counts of matches, e-nodes and e-classes are those of egg. */
    HYP_SCHEDULER_BACKOFF,
    HYP_SCHEDULER_CALLBACK /* options.turn decides: of each enabled rule that does not collect */
} hyp_scheduler;

/* One application that changed the e-graph, for traces. It is told of when the batch of matches is done that it belongs to;
 * who is told may add terms and unite classes. */
typedef struct hyp_rewrite_event {
    size_t iteration, rule;
    hyp_class_id left, right;    /* root class matched; class of the right side before they were united */
    const hyp_enode_id *matched; /* e-nodes of the left side in pre-order; NULL without options.explain */
    size_t matched_count;
    hyp_enode_id created; /* root e-node of the right side, HYP_NONE if it was only a variable */
} hyp_rewrite_event;

typedef struct hyp_iteration_report {
    size_t e_nodes, e_classes; /* after the iteration */
    size_t matches, applications;
    double search_seconds, apply_seconds, rebuild_seconds;
} hyp_iteration_report;

typedef struct hyp_egraph_run_options {
    size_t size;           /* sizeof(hyp_egraph_run_options) */
    size_t max_iterations; /* 0 = no limit, here and below */
    size_t max_nodes;      /* e-nodes; never overshot, not by one rule */
    size_t max_bytes;      /* memory of the e-graph, of which some is held back for rebuilding */
    double max_seconds;    /* below 0 or NaN: HYP_ERR_INVALID_ARGUMENT */
    size_t max_matches; /* applied matches in this run; one that a condition declined is not counted */
    hyp_scheduler scheduler;
    size_t backoff_match_limit; /* 0 = 1000 */
    size_t backoff_ban_length;  /* 0 = 5 iterations */
    void (*on_rewrite)(const hyp_rewrite_event *event, void *user);
    void *user;
    bool (*stop)(void *user); /* asked often: once it is true, the run ends with HYP_STOP_CANCELLED; NULL = never */
    void *stop_user;
    /* Called after each iteration, when the e-graph is rebuilt, with what it did and how many there were, in a schedule of the
     * part that runs; it may read the e-graph, but not change it. NULL = nobody is told. */
    void (*on_iteration)(const hyp_iteration_report *iteration, size_t count, void *user);
    void *on_iteration_user;
    /* Called before each iteration, the first one too (of a schedule, of the part that runs), with how many were
     * before. The e-graph is rebuilt; it may be added to, united, rebuilt, extracted from and explained, and is rebuilt
     * again afterwards. Backoff and what rules have seen go on as if it were not there. A status other than HYP_OK ends
     * the run; hyp_egraph_cancel ends it with HYP_STOP_CANCELLED. NULL = nothing. */
    hyp_status (*hook)(hyp_egraph *eg, size_t iteration, void *user, hyp_diag *diag);
    void *hook_user;
    /* HYP_SCHEDULER_CALLBACK only: see hyp_turn_kind. It may read the e-graph, but not change it. */
    size_t (*turn)(hyp_egraph *eg, const hyp_rule_turn *turn, void *user);
    void *turn_user;
} hyp_egraph_run_options;

typedef struct hyp_rule_report {
    size_t matches, applications; /* found; those that changed the e-graph */
    double seconds;               /* search and apply */
    size_t refused; /* applications that the analysis refused, or a condition or function with HYP_ERR_MALFORMED */
    char *refusal;  /* what was said of the first one; NULL = there was none */
    /* Matches that a condition or function kept from being applied, in the end; of a rule that collects, parts that were left
     * out. 0 where there were too many to keep. What a final condition says no to is no match, and not counted. */
    size_t declined;
    /* Of a rule that collects, parts beyond those that one application takes (1024), in the end: they are in others. */
    size_t beyond;
} hyp_rule_report;

typedef struct hyp_egraph_run_report {
    hyp_stop stop;
    size_t e_nodes, e_classes, peak_bytes;
    size_t matches; /* applied, as max_matches counts them */
    double seconds;
    hyp_iteration_report *iterations;
    size_t iteration_count;
    hyp_rule_report *rules; /* one per rule of the ruleset, in its order */
    size_t rule_count;
} hyp_egraph_run_report;

/* Runs the rules until nothing changes or a limit is reached. The e-graph is rebuilt and usable after any
 * stop, also after a failing status, whose message names the rule that was being applied. *out_report is
 * owned by the caller (hyp_egraph_run_report_dispose). */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_run(hyp_egraph *eg, hyp_ruleset *rules,
                                                const hyp_egraph_run_options *options,
                                                hyp_egraph_run_report *out_report, hyp_diag *diag);
HYP_API void hyp_egraph_run_report_dispose(hyp_egraph_run_report *report);

/* ---- schedules ---------------------------------------------------------------------------------- */

typedef enum hyp_schedule_kind {
    HYP_SCHEDULE_RUN, /* `times` iterations of `rules`, fewer if they are saturated before; backoff is kept among them
                       */
    HYP_SCHEDULE_SEQUENCE, /* the parts one after the other */
    HYP_SCHEDULE_REPEAT,   /* the parts in their order, `times` times or until a round changes nothing */
    HYP_SCHEDULE_SATURATE  /* the parts in their order until a round changes nothing */
} hyp_schedule_kind;

typedef struct hyp_schedule {
    hyp_schedule_kind kind;
    size_t times;                     /* RUN, REPEAT; 0 = 1 */
    hyp_ruleset *rules;               /* RUN */
    const struct hyp_schedule *parts; /* the others */
    size_t part_count;
} hyp_schedule;

/* Runs several rulesets. The limits in `options` are of the whole, iterations of all rulesets counted together. The
 * report is of the whole too: its rules are those of the RUN parts, in the order of the schedule. HYP_STOP_SATURATED
 * means that the schedule ended by itself and its last iteration of every RUN part found nothing new;
 * HYP_STOP_ITERATIONS that it ended otherwise or by max_iterations. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_run_schedule(hyp_egraph *eg, const hyp_schedule *schedule,
                                                         const hyp_egraph_run_options *options,
                                                         hyp_egraph_run_report *out_report, hyp_diag *diag);

/* ---- explanations ------------------------------------------------------------------------------- */

/* How an e-node came to be: HYP_NONE rule for one that was added by the caller (or where memory is out), else the index of
 * the rule in the ruleset that made it and the e-nodes that its left side matched. Needs options.explain. */
typedef struct hyp_origin {
    uint32_t rule;               /* index into the ruleset of the run, HYP_NONE if added by the caller or an analysis */
    uint32_t ruleset;            /* 0 for the first ruleset parsed in this e-graph, 1 for the next, ... */
    const hyp_enode_id *matched; /* in pre-order of the left side */
    size_t matched_count;
} hyp_origin;
HYP_API hyp_origin hyp_egraph_origin(const hyp_egraph *eg, hyp_enode_id node);

typedef enum hyp_answer {
    HYP_ANSWER_NO,
    HYP_ANSWER_YES,
    HYP_ANSWER_ABSENT, /* a condition was not asked, as a term among its arguments was not in the e-graph: a no */
    HYP_ANSWER_TERM    /* of a function */
} hyp_answer;

/* What a condition or a function was asked where a rule was applied, and its answer then. */
typedef struct hyp_proof_query {
    const char *name;
    const char *const *args; /* terms; none where one of them is a function that declined */
    size_t arg_count;
    hyp_answer answer;
    const char *result; /* HYP_ANSWER_TERM: the term that the function gave; else NULL */
} hyp_proof_query;

/* One step of a proof: one use of a rule or reason at one place of the term. */
typedef struct hyp_proof_step {
    const char *rule; /* name of the rule or reason; NULL in the first entry, which is the start term */
    bool stated;      /* `rule` is the reason of a union by the caller or an analysis */
    bool forward;     /* left to right */
    const char *term; /* the whole term after the step */
    /* What the rule asked, in its order: the condition first, a function after those among its arguments. */
    const hyp_proof_query *queries;
    size_t query_count;
    /* Of a multi-pattern: for each of its parts (?v = P) a proof from what ?v stands for to the instance of P. */
    const struct hyp_proof *parts;
    size_t part_count;
} hyp_proof_step;
typedef struct hyp_proof {
    hyp_proof_step *steps; /* steps[0].term is `a`, the last one's term is `b` */
    size_t count;
    void *memory;
} hyp_proof;
/* A proof that two terms (s-expressions, already in the e-graph) are equal, by a proof forest as in
 * Nieuwenhuis and Oliveras, "Proof-producing congruence closure" (RTA 2005), shortened by the greedy method
 * of Flores et al., "Small proofs from congruence closure" (FMCAD 2022). HYP_ERR_INVALID_ARGUMENT if a term
 * is not there, HYP_ERR_MISMATCH if they are not known to be equal. Needs options.explain. *out is owned by
 * the caller (hyp_proof_dispose). */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_explain(hyp_egraph *eg, const char *a, const char *b, hyp_proof *out,
                                                    hyp_diag *diag);
HYP_API void hyp_proof_dispose(hyp_proof *proof);

/* The same proof, shared: every term and every equality that is proven stands once, so that its size is that of what
 * was used, also where terms share parts and a list of whole terms would be exponentially longer. Terms and lemmas are
 * numbered; each refers to earlier ones only. */
typedef struct hyp_shared_term {
    const char *op;
    const uint32_t *kids;
    uint32_t count;
} hyp_shared_term;
/* An equality of two terms: by a lemma that states it, in one direction or the other, or HYP_NONE for one term. */
typedef struct hyp_lemma_use {
    uint32_t from, to, lemma;
} hyp_lemma_use;
typedef struct hyp_shared_query { /* as hyp_proof_query */
    const char *name;
    const uint32_t *args;
    size_t arg_count;
    hyp_answer answer;
    uint32_t result; /* HYP_ANSWER_TERM; else HYP_NONE */
} hyp_shared_query;
typedef enum hyp_lemma_kind {
    HYP_LEMMA_RULE,       /* a rule turns `from`, as a whole, into `to` */
    HYP_LEMMA_STATED,     /* a union by the caller or an analysis */
    HYP_LEMMA_CONGRUENCE, /* one operator over equal children */
    HYP_LEMMA_CHAIN       /* from one term to the next */
} hyp_lemma_kind;
typedef struct hyp_lemma {
    hyp_lemma_kind kind;
    uint32_t from, to;
    const char *rule; /* RULE, STATED: the name of the rule or reason; else NULL */
    const hyp_shared_query *queries;
    size_t query_count;
    /* CONGRUENCE: one for each child. CHAIN: in their order. RULE of a multi-pattern: for each of its parts (?v = P)
     * from what ?v stands for to the instance of P. */
    const hyp_lemma_use *uses;
    size_t use_count;
} hyp_lemma;
typedef struct hyp_shared_proof {
    hyp_shared_term *terms;
    size_t term_count;
    hyp_lemma *lemmas;
    size_t lemma_count;
    hyp_lemma_use claim; /* `from` is `a`, `to` is `b` */
    void *memory;
} hyp_shared_proof;
/* As hyp_egraph_explain, which writes this out. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_explain_shared(hyp_egraph *eg, const char *a, const char *b,
                                                           hyp_shared_proof *out, hyp_diag *diag);
/* The same for two e-nodes of one class: the terms are those that they were added as. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_explain_nodes(hyp_egraph *eg, hyp_enode_id a, hyp_enode_id b,
                                                          hyp_shared_proof *out, hyp_diag *diag);
/* The list of whole terms. HYP_ERR_LIMIT when it is longer than 256 MB. */
HYP_API HYP_NODISCARD hyp_status hyp_shared_proof_flatten(const hyp_shared_proof *proof, hyp_proof *out, hyp_diag *diag);
HYP_API void hyp_shared_proof_dispose(hyp_shared_proof *proof);

typedef struct hyp_equation {
    const char *left, *right; /* terms */
} hyp_equation;

typedef struct hyp_proof_check_options {
    size_t size;               /* sizeof(hyp_proof_check_options) */
    const hyp_equation *given; /* what a `stated` step may use, in either direction; NULL = each is taken as it is */
    size_t given_count;
    /* Asks conditions and functions again, and refuses an answer that is another one. They are asked in an e-graph
     * made for it, with the analysis that the first ruleset's e-graph has, which holds what they are asked about and
     * the steps before; an answer that took what other rules had found may therefore be refused, and a callback must
     * not keep ids of another e-graph. A stated step also passes if this analysis makes its two terms equal. An absent
     * term is taken as absent. Without `ask`, answers are taken as they were given. */
    bool ask;
} hyp_proof_check_options;

/* Replays a proof of a = b on terms: each step must be one use, at one place, of a rule of its name in one of the
 * rulesets, whose condition the recorded answers fulfil, whose functions gave the terms that stand there, and whose
 * parts are proven. Nothing is read of the e-graph that made the proof: the rulesets may belong to it or to another one
 * in which the same rules were parsed. HYP_ERR_MISMATCH names the step at fault and why, and *out_step (may be NULL)
 * is its index. Terms nested deeper than 256 are refused. options may be NULL. Time and memory: linear in the proof's
 * text, for each rule of a step's name. */
HYP_API HYP_NODISCARD hyp_status hyp_proof_check(const hyp_proof *proof, const char *a, const char *b,
                                                 hyp_ruleset *const *rulesets, size_t ruleset_count,
                                                 const hyp_proof_check_options *options, size_t *out_step,
                                                 hyp_diag *diag);

/* The same for a shared proof, lemma by lemma; *out_lemma (may be NULL) is the one at fault. Where a and b are NULL, what
 * the proof claims is what it must prove: its `claim` says of which terms. Time and memory: linear in the proof, for each
 * rule of a lemma's name. */
HYP_API HYP_NODISCARD hyp_status hyp_shared_proof_check(const hyp_shared_proof *proof, const char *a, const char *b,
                                                        hyp_ruleset *const *rulesets, size_t ruleset_count,
                                                        const hyp_proof_check_options *options, size_t *out_lemma,
                                                        hyp_diag *diag);

/* ---- extraction --------------------------------------------------------------------------------- */

/* Cost of one e-node without its children, of an e-graph that it may read but not change: >= 0; infinity = never choose
 * it. For HYP_EXTRACT_EXACT it may be negative, too: a reward for whoever needs the class. With the other methods,
 * where a class counts as often as it is used, a least tree need not exist then, and a negative cost is refused, like
 * NaN. */
typedef double (*hyp_node_cost_fn)(hyp_egraph *eg, hyp_enode_id node, void *user);

/* Cost of a term, from the e-node at its root and the costs of its children's terms (count of them): the depth of a
 * term, say, the time until it is there, or the largest register that it needs. It must be monotone: at least the cost
 * of each child, and not less when a child costs more; infinity = never choose it. May read the e-graph, but not change
 * it. */
typedef double (*hyp_term_cost_fn)(hyp_egraph *eg, hyp_enode_id node, const double *kid_costs, size_t count,
                                   void *user);

typedef enum hyp_extract_method {
    HYP_EXTRACT_TREE, /* least sum over the tree, every use of a shared class counted: a priority queue (Knuth 1977) */
    HYP_EXTRACT_DAG,  /* small sum over distinct classes, greedily and then improved: shared work counts once */
    HYP_EXTRACT_EXACT /* least sum over distinct classes, as far as the budget reaches; costs may be negative */
} hyp_extract_method;

typedef struct hyp_extract_options {
    size_t size; /* sizeof(hyp_extract_options) */
    hyp_extract_method method;
    /* HYP_EXTRACT_EXACT only; 0 = 10 s, or no limit when there is one of work. When the search ends by itself or by
     * its work, the answer is the same on every run and machine; when time ends it, it is the best found until then. */
    double budget_seconds;
    uint64_t budget_work; /* HYP_EXTRACT_EXACT only: e-nodes and edges looked at for bounds, some 2e8 a second; 0 = any */
    bool (*stop)(void *user); /* HYP_EXTRACT_EXACT only: once it is true, time has ended; NULL = never */
    void *stop_user;
    const bool *given; /* by canonical class id, below hyp_egraph_class_bound: classes that are there already, cost nothing and
                          get no choice; of hyp_egraph_extract_with only. NULL = none */
} hyp_extract_options;

typedef struct hyp_extraction {
    hyp_enode_id *choice; /* by canonical class id; HYP_NONE where nothing was chosen */
    size_t class_bound;
    double tree_cost; /* summed over the roots */
    double dag_cost;
    double lower_bound; /* of the cost that the method makes small: no answer is below; 0 when not known */
    bool proven;        /* no answer is better by more than rounding */
} hyp_extraction;

/* Chooses one e-node per class that the roots need, never in a cycle. HYP_ERR_UNSUPPORTED if a root has
 * no finite acyclic choice. *out is owned by the caller (hyp_extraction_dispose). Ties go to the older
 * e-node. hyp_egraph_extract is the same with nothing but a method. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_extract_with(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                                         const hyp_extract_options *options, hyp_node_cost_fn cost,
                                                         void *user, hyp_extraction *out, hyp_diag *diag);
HYP_API HYP_NODISCARD hyp_status hyp_egraph_extract(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                                    hyp_extract_method method, hyp_node_cost_fn cost, void *user,
                                                    hyp_extraction *out, hyp_diag *diag);
/* For each class the term of least cost, by Knuth's algorithm: each e-node is asked about at most once, when the least
 * costs of its children are known. tree_cost is the sum over the roots, dag_cost NaN: such a cost knows no sharing.
 * HYP_ERR_INVALID_ARGUMENT where a cost is NaN or less than that of a child. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_extract_by_term(hyp_egraph *eg, const hyp_class_id *roots,
                                                            size_t root_count, hyp_term_cost_fn cost, void *user,
                                                            hyp_extraction *out, hyp_diag *diag);
HYP_API void hyp_extraction_dispose(hyp_extraction *ex);
/* The chosen term of a class as text in a malloc'ed string, which the caller frees with free().
 * HYP_ERR_INVALID_ARGUMENT where nothing was chosen, or what was is no term any more since the e-graph has changed;
 * where it still is one, it is given. HYP_ERR_LIMIT when the text is longer than 256 MB: shared subterms are written
 * out, so it may be exponentially longer than what was chosen. Reads back with hyp_egraph_add_text: a symbol that would
 * end early is quoted. */
HYP_API HYP_NODISCARD hyp_status hyp_extraction_term(hyp_egraph *eg, const hyp_extraction *ex, hyp_class_id root,
                                                     char **out, hyp_diag *diag);
/* The same, NULL for every failure. */
HYP_API char *hyp_extraction_text(hyp_egraph *eg, const hyp_extraction *ex, hyp_class_id root);

/* ---- egraph-serialize files ------------------------------------------------------------------------ */

/* The JSON that egg, egglog and the extraction gym exchange:
 *   {"nodes": {ID: {"op": text, "children": [ID], "eclass": CLASS, "cost": number, "subsumed": bool}},
 *    "root_eclasses": [CLASS], "class_data": {CLASS: {"type": text}}}
 * A child is any node of its class, or, as in older files, the class itself where no node has that id. A cost of
 * null is infinite; missing ones are 1. Other fields are skipped. */
typedef struct hyp_serialized hyp_serialized;

/* Reads a file. HYP_ERR_MALFORMED names line and column, or the node at fault. Memory is a small multiple of the file's
 * size. *out is owned by the caller: hyp_serialized_destroy. Not changed afterwards; any thread may read it. */
HYP_API HYP_NODISCARD hyp_status hyp_serialized_read(const char *path, hyp_serialized **out, hyp_diag *diag);
/* The same from memory; `name` is used in messages. */
HYP_API HYP_NODISCARD hyp_status hyp_serialized_parse(const char *name, const char *text, size_t len,
                                                      hyp_serialized **out, hyp_diag *diag);
HYP_API void hyp_serialized_destroy(hyp_serialized *s); /* NULL-safe */

HYP_API size_t hyp_serialized_node_count(const hyp_serialized *s); /* nodes are 0 .. count-1 in order of the file */
HYP_API size_t hyp_serialized_class_count(const hyp_serialized *s);
HYP_API const uint32_t *hyp_serialized_roots(const hyp_serialized *s, size_t *out_count); /* classes */

/* One node, and of what is none: NULL texts, class HYP_NONE. The texts are borrowed. */
typedef struct hyp_serialized_node {
    const char *id, *op;
    uint32_t eclass;
    const uint32_t *children; /* classes */
    size_t child_count;
    double cost;
    bool subsumed;
} hyp_serialized_node;
HYP_API hyp_serialized_node hyp_serialized_get(const hyp_serialized *s, uint32_t node);
HYP_API const char *hyp_serialized_class_name(const hyp_serialized *s, uint32_t c); /* NULL for no class */
HYP_API const char *hyp_serialized_class_type(const hyp_serialized *s, uint32_t c); /* NULL without class_data, too */

/* hyp_egraph_extract_with on a file's nodes, costs and roots; choice is by class and names nodes of the file.
 * A subsumed node is not chosen. HYP_ERR_UNSUPPORTED for a negative cost (but with HYP_EXTRACT_EXACT), and where there
 * are no roots. */
HYP_API HYP_NODISCARD hyp_status hyp_serialized_extract(const hyp_serialized *s, const hyp_extract_options *options,
                                                        hyp_extraction *out, hyp_diag *diag);
/* Adds what a file has to an e-graph and rebuilds it; nodes without a finite term below them are left out.
 * out_classes (one per class of the file, may be NULL) gets the e-classes, HYP_NONE for those left out. */
HYP_API HYP_NODISCARD hyp_status hyp_serialized_load(const hyp_serialized *s, hyp_egraph *eg, hyp_class_id *out_classes,
                                                     hyp_diag *diag);

typedef void (*hyp_text_fn)(const char *text, size_t len, void *user);

/* Writes the classes below the roots, or all without roots. cost NULL = 1 each. The same e-graph gives the same bytes.
 * Node i of class c has the id "c.i". */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_write_json(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                                       hyp_node_cost_fn cost, void *user, hyp_text_fn write,
                                                       void *write_user, hyp_diag *diag);
/* Graphviz: a cluster per class. At most max_nodes e-nodes (0 = 500) are shown, those nearest to the roots first; a
 * graph that was cut has the label "N of M e-nodes shown". `chosen` (may be NULL) is drawn bold. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_write_dot(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                                      size_t max_nodes, const hyp_extraction *chosen, hyp_text_fn write,
                                                      void *write_user, hyp_diag *diag);
/* A part of an e-graph: the classes that are `depth` steps at most from some, along what nodes read and along what reads them. */
typedef struct hyp_egraph_part {
    const hyp_class_id *around;
    size_t count, depth;
} hyp_egraph_part;
/* The same of a part. In JSON, of a class outside that a node inside reads, there is one node without children, whose operator ends
 * in " ..." where it has some; the classes that the part is around are its roots. */
HYP_API HYP_NODISCARD hyp_status hyp_egraph_write_part_json(hyp_egraph *eg, const hyp_egraph_part *part,
                                                            hyp_node_cost_fn cost, void *user, hyp_text_fn write,
                                                            void *write_user, hyp_diag *diag);
HYP_API HYP_NODISCARD hyp_status hyp_egraph_write_part_dot(hyp_egraph *eg, const hyp_egraph_part *part, size_t max_nodes,
                                                           const hyp_extraction *chosen, hyp_text_fn write,
                                                           void *write_user, hyp_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
