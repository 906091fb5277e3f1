/* problem.h - extraction as a problem in flat arrays, apart from where it came from.
 *
 *   e-graph or file --> problem --(core)--> smaller problem --> solver --> choice by class
 *
 * A problem is an AND-OR graph: a class is satisfied by one of its nodes, a node needs all of its child
 * classes. An answer chooses a node for each class that the roots need, without a cycle. */
#ifndef HYP_EGRAPH_EXTRACT_PROBLEM_H
#define HYP_EGRAPH_EXTRACT_PROBLEM_H

#include "base/mem.h"
#include "hypatia/egraph.h"

typedef struct hyp_problem {
    uint32_t class_count, node_count, root_count;
    uint32_t *owner;  /* by node: its class */
    uint32_t *kid_at; /* by node, node_count + 1 entries: its children are kids[kid_at[n] .. kid_at[n+1]) */
    uint32_t *kids;   /* classes */
    double *cost;     /* by node: >= 0, or infinite = never; of hyp_solve_signed and hyp_problem_solve also negative */
    uint32_t *roots;  /* classes */
    /* What a node's tree costs, from those of its children. NULL: the sum of them and its own cost. */
    double (*tree_cost)(void *user, uint32_t node, const double *kids, size_t count);
    void *tree_user;
    /* Made by hyp_problem_link. */
    uint32_t *up_at; /* by class, class_count + 1: the nodes that use it are up[up_at[c] .. up_at[c+1]) */
    uint32_t *up;    /* a node once for each place that it has the class at */
    /* Of a core problem only, whose nodes are grouped by class and whose children are distinct and ascend. */
    uint32_t *first;  /* by class, class_count + 1: its nodes are first[c] .. first[c+1] */
    uint32_t *origin; /* by node: what it stands for: a node of the problem that this is the core of, or a trail */
} hyp_problem;

/* Room for the arrays that every problem has; the last kid_at is set. */
HYP_NODISCARD hyp_status hyp_problem_alloc(hyp_problem *p, size_t classes, size_t nodes, size_t kids, size_t roots,
                                           hyp_diag *diag);
void hyp_problem_dispose(hyp_problem *p); /* fine on a zeroed one */
/* Fills up_at and up. */
HYP_NODISCARD hyp_status hyp_problem_link(hyp_problem *p, hyp_diag *diag);

/* The part of a linked problem that matters: nodes of finite cost whose children can all be satisfied and
 * that a root can reach, classes renumbered in order of first sight, children without duplicates, no
 * node that needs its own class. origin names the nodes of `p`, or is p's own of them where it has such.
 * HYP_ERR_UNSUPPORTED if a root cannot be satisfied. *out is linked. */
HYP_NODISCARD hyp_status hyp_problem_core(const hyp_problem *p, hyp_problem *out, hyp_diag *diag);

/* The cost of what the roots need under `choice` (by class): summed once a class, and over the trees; both
 * infinite if there is a cycle or a gap. Sets the choices that are not needed to HYP_NONE when `trim`. tree
 * may be NULL. */
HYP_NODISCARD hyp_status hyp_problem_price(const hyp_problem *p, uint32_t *choice, bool trim, double *dag, double *tree,
                                           hyp_diag *diag);

/* The strongly connected components of the classes of a core problem under all nodes, numbered so that a
 * child is in no later component. */
HYP_NODISCARD hyp_status hyp_problem_components(const hyp_problem *p, uint32_t *component, hyp_diag *diag);

/* ---- solvers: choice is by class and is set where needed or more -------------------------------------- */

/* Least tree costs: Knuth's generalisation of Dijkstra's algorithm. Ends when the roots are settled, or with
 * `all` when nothing is left; weight (by class, may be NULL) gets the tree costs. Ties go to the lower node.
 * HYP_ERR_UNSUPPORTED if a root cannot be satisfied. Needs a linked problem. */
HYP_NODISCARD hyp_status hyp_solve_tree(const hyp_problem *p, bool all, uint32_t *choice, double *weight,
                                        hyp_diag *diag);

/* A small DAG cost on a core problem. */
HYP_NODISCARD hyp_status hyp_solve_greedy(const hyp_problem *p, uint32_t *choice, hyp_diag *diag);

/* Makes an answer better by exchanging one node at a time, until none helps or `work` steps are spent. `spare` is a
 * choice for every class, without a cycle, for classes that come into use. */
HYP_NODISCARD hyp_status hyp_improve(const hyp_problem *p, const uint32_t *component, const uint32_t *spare,
                                     uint32_t *choice, uint64_t work, double *cost, hyp_diag *diag);

/* hyp_improve, again with new spare choices while that helps, at most `rounds` times. Choices that are not
 * needed become HYP_NONE. */
HYP_NODISCARD hyp_status hyp_polish(const hyp_problem *p, const uint32_t *component, uint32_t *spare, uint32_t *choice,
                                    int rounds, double *cost, hyp_diag *diag);

/* How far an exact search goes: INFINITY and UINT64_MAX are no limits. */
typedef struct hyp_exact_budget {
    double seconds;
    uint64_t work; /* as hyp_extract_options.budget_work */
    bool (*stop)(void *user); /* once it is true, the budget is spent; NULL = never */
    void *user;
} hyp_exact_budget;
/* The least DAG cost on a core problem, as far as the budget reaches: `choice` holds an answer to begin with, and gets a
 * better one. No answer costs less than *bound. */
HYP_NODISCARD hyp_status hyp_solve_exact(const hyp_problem *p, hyp_exact_budget budget, uint32_t *choice, double *bound,
                                         bool *proven, hyp_diag *diag);

/* The least DAG cost of a linked problem some of whose costs are negative, as far as the options' budget reaches: sets
 * out->lower_bound and ->proven. */
HYP_NODISCARD hyp_status hyp_solve_signed(const hyp_problem *p, const hyp_extract_options *options, uint32_t *choice,
                                          hyp_extraction *out, hyp_diag *diag);

/* What extraction does with a problem: by method. `choice` has room for class_count; figures of *out are set,
 * its choice is not. */
HYP_NODISCARD hyp_status hyp_problem_solve(hyp_problem *p, const hyp_extract_options *options, uint32_t *choice,
                                           hyp_extraction *out, hyp_diag *diag);

#endif
