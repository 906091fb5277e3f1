/* constants.h - values of constants: which are computed before a plan runs, and their bytes.
 *
 * There is one arithmetic, that of the interpreter's native mode: every node by itself, in its element types, each
 * result rounded as a backend rounds it. So a folded value has the bits that the reference backend computes for the
 * same nodes, except for the last ones behind sums of products, which a library multiplies.
 */
#ifndef HYP_IR_CONSTANTS_H
#define HYP_IR_CONSTANTS_H

#include "ir/ir.h"

/* ---- budgets ------------------------------------------------------------------------------------------- */

/* What may be computed before a plan runs. A constant beyond it is computed by the plan. */
typedef struct hyp_fold_budget {
    uint64_t bytes; /* of a result, also one in between, and of all results that a plan stores together */
    uint64_t flops; /* of all together, in multiplications as hyp_fold_work counts them */
} hyp_fold_budget;

/* The budget of a graph: what was asked for, or in place of a 0 what suits its constants: 16 times their bytes and no
 * less than 16 MiB; 64 multiplications for each of their bytes and no less than 2^34. */
hyp_fold_budget hyp_fold_budget_of(const hyp_graph *g, uint64_t bytes, uint64_t flops);

/* What evaluating a node takes; UINT64_MAX where sizes are not fixed or beyond all bounds. in[i] is NULL where an input
 * is absent. */
typedef struct hyp_work {
    uint64_t products; /* multiplications, as a library does them in large products */
    uint64_t steps;    /* of the interpreter, about one for each element of the results; without what is read */
} hyp_work;
hyp_work hyp_work_of(hyp_op op, const hyp_attr *attrs, const hyp_type *const *in, uint32_t input_count,
                     const hyp_type *const *out, uint32_t output_count);

/* What a node costs to evaluate, in multiplications of a large product by the library; other operators' steps are
 * dearer. UINT64_MAX where sizes are not fixed or beyond all bounds. in[i] is NULL where an input is absent. */
uint64_t hyp_fold_work(hyp_op op, const hyp_attr *attrs, const hyp_type *const *in, uint32_t input_count,
                       const hyp_type *const *out, uint32_t output_count);
/* Whether all sizes are fixed: a node of constants has a value before the plan runs. */
bool hyp_fold_is_fixed(hyp_op op, const hyp_attr *attrs, const hyp_type *const *out, uint32_t output_count);
/* Whether a node of constants may be computed before the plan runs, when its inputs took *work, to which its own is
 * added: all sizes are fixed, and both stay within the budget. */
bool hyp_fold_fits(const hyp_fold_budget *budget, hyp_op op, const hyp_attr *attrs, const hyp_type *const *in,
                   uint32_t input_count, const hyp_type *const *out, uint32_t output_count, uint64_t *work);

/* out[v], for every value: it is a constant, or computed from constants alone within the budget; in the order of the
 * nodes, then, for what is stored, from the last to the first. */
HYP_NODISCARD hyp_status hyp_constants_find(const hyp_graph *g, const hyp_fold_budget *budget, bool *out,
                                            hyp_diag *diag);

/* ---- evaluation ------------------------------------------------------------------------------------------ */

/* Evaluates values of one graph. What several of them read is computed once and kept until its last use. */
typedef struct hyp_constants hyp_constants;

/* `forget` (may be NULL) is told of bytes of constants that were read and are not needed again. The graph is borrowed;
 * it may grow only while no value is wanted. */
HYP_NODISCARD hyp_status hyp_constants_create(const hyp_graph *g,
                                              void (*forget)(void *user, const void *data, size_t bytes), void *user,
                                              hyp_constants **out, hyp_diag *diag);
void hyp_constants_destroy(hyp_constants *c); /* NULL-safe */

/* Announces that a value will be taken. HYP_ERR_UNSUPPORTED when it depends on an input of the graph, or on sizes that
 * are not fixed. A budget (NULL = none) bounds it and all that it depends on: HYP_ERR_LIMIT names the node beyond it.
 */
HYP_NODISCARD hyp_status hyp_constants_want(hyp_constants *c, hyp_value_id v, const hyp_fold_budget *budget,
                                            hyp_diag *diag);
/* What all that was announced with a budget takes, counted as budgets are. */
uint64_t hyp_constants_work(const hyp_constants *c);
/* The bytes of a value that was announced, the caller's to hyp_free; once for each announcement. A failure names the
 * node that it came from. */
HYP_NODISCARD hyp_status hyp_constants_take(hyp_constants *c, hyp_value_id v, void **out, hyp_diag *diag);

/* The graph with constants in place of nodes that compute small ones: before rewriting, so that no rule, which may
 * round otherwise, changes what the model's own arithmetic gives. Results of up to 4 MiB, 32 MiB of them together; what
 * only moves or converts elements stays. *out is set on success and need not be initialised; it borrows what `in`
 * borrows. */
HYP_NODISCARD hyp_status hyp_graph_fold(const hyp_graph *in, const hyp_fold_budget *budget, hyp_graph *out,
                                        hyp_diag *diag);

/* A tensor whose elements are all known as sizes, whatever it is computed from. */
bool hyp_value_is_listed(const hyp_value *value);

/* Evaluates one node of one output whose inputs are at hand: the same arithmetic, for values that are in no graph. */
HYP_NODISCARD hyp_status hyp_constants_node(hyp_dims *dims, hyp_op op, const hyp_attr *attrs,
                                            const hyp_tensor *const *in, uint32_t input_count, hyp_eval_tensor *out,
                                            hyp_diag *diag);

#endif
