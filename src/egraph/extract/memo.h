/* memo.h - answers to extraction problems that were met before.
 *
 * What a model repeats makes the same problems again: equal in every number, so that the answer is the one that solving
 * them again would give. Problems are compared as a whole, never by a hash alone. */
#ifndef HYP_EGRAPH_EXTRACT_MEMO_H
#define HYP_EGRAPH_EXTRACT_MEMO_H

#include "egraph/extract/problem.h"

/* What came of a problem. */
typedef struct hyp_memo_answer {
    const uint32_t *choice; /* by class */
    double dag_cost, tree_cost, lower_bound;
    bool proven;
    uint64_t work; /* that it took, as budgets count it */
} hyp_memo_answer;

typedef struct hyp_extract_memo hyp_extract_memo;

HYP_NODISCARD hyp_status hyp_memo_create(hyp_extract_memo **out, hyp_diag *diag);
void hyp_memo_destroy(hyp_extract_memo *memo); /* NULL-safe */

/* The answer to a problem that is equal but for what its nodes stand for; NULL if there was none. Answers of other
 * `budget`s are others. It lives as long as the memo. */
HYP_NODISCARD hyp_status hyp_memo_find(hyp_extract_memo *memo, const hyp_problem *p, uint64_t budget,
                                       const hyp_memo_answer **out, hyp_diag *diag);
/* Keeps a copy of the answer to the problem that was looked for last, while there is room. */
HYP_NODISCARD hyp_status hyp_memo_add(hyp_extract_memo *memo, const hyp_memo_answer *answer, hyp_diag *diag);

/* hyp_egraph_extract_with, whose budget is one of work alone, with the answers to earlier problems of this function and
 * this memo at hand. */
HYP_NODISCARD hyp_status hyp_egraph_extract_again(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                                  const hyp_extract_options *options, hyp_node_cost_fn cost, void *user,
                                                  hyp_extract_memo *memo, hyp_extraction *out, hyp_diag *diag);

#endif
