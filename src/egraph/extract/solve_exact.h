/* solve_exact.h - the parts of the exact search: making a problem smaller, and bounding it from below.
 *
 * A problem in here is a core problem whose node origins are trails: what is chosen of the problem that the
 * search began with when the node is chosen. */
#ifndef HYP_EGRAPH_EXTRACT_SOLVE_EXACT_H
#define HYP_EGRAPH_EXTRACT_SOLVE_EXACT_H

#include "egraph/extract/problem.h"

/* A trail below `leaves` is a node of the first problem; one above is two trails. */
typedef struct hyp_trails {
    uint32_t leaves;
    HYP_VEC(uint32_t) pairs; /* two entries each */
} hyp_trails;
/* A trail that is both. */
HYP_NODISCARD hyp_status hyp_trails_join(hyp_trails *t, uint32_t a, uint32_t b, uint32_t *out, hyp_diag *diag);

/* Replaces *p by its core. */
HYP_NODISCARD hyp_status hyp_problem_renew(hyp_problem *p, hyp_diag *diag);

/* The reductions; each keeps an answer of least cost, and each answer left costs what its trails cost or more. */
enum {
    HYP_REDUCE_CYCLES = 1,      /* nodes with a child that cannot do without the node's own class */
    HYP_REDUCE_DOMINATED = 2,   /* nodes that need no less and cost no less than another of their class */
    HYP_REDUCE_REQUIRED = 4,    /* classes in every answer become roots; nodes need not name them any more */
    HYP_REDUCE_CHAINS = 8,      /* classes of one node become part of the nodes that use them */
    HYP_REDUCE_SINGLE_USE = 16, /* the nodes of a class that one node uses become variants of that node */
    HYP_REDUCE_TREES = 32,      /* parts with one root in which nothing can be shared become the least tree */
    HYP_REDUCE_ALL = 63
};
/* Replaces *p by what is left when no reduction of the set applies any more. HYP_ERR_UNSUPPORTED if there is no
 * answer. */
HYP_NODISCARD hyp_status hyp_reduce(hyp_problem *p, hyp_trails *trails, unsigned which, hyp_diag *diag);

/* HYP_REDUCE_TREES; *found grows by the parts that became a node. */
HYP_NODISCARD hyp_status hyp_settle_trees(hyp_problem *p, hyp_trails *trails, uint32_t *found, hyp_diag *diag);

/* Numbers the parts of p that share no class: part is by class, `parent` is room for as many. Gives how many. */
uint32_t hyp_problem_parts(const hyp_problem *p, uint32_t *part, uint32_t *parent);

/* Makes classes that are known to be in every answer of interest roots. */
HYP_NODISCARD hyp_status hyp_require(hyp_problem *p, const unsigned char *required, hyp_diag *diag);

/* A set of classes that the relaxed answer had on a cycle. If its anchor, one of them, is in use, then one of them
 * chooses a node without a child in the set: nodes cut_nodes[at .. end) of the bound. */
typedef struct hyp_cut {
    uint32_t at, end, anchor;
    uint64_t hash;                         /* of the set and the anchor */
    double weight, best_weight, direction; /* as share, best_share and direction are for edges */
} hyp_cut;

/* A Lagrangian bound: each class splits its cost over the classes that use it, and is then priced by itself. */
typedef struct hyp_bound {
    const hyp_problem *p;
    uint32_t edge_count;
    uint32_t *edge;     /* by place in p->kids: the pair (class of the node, child) */
    uint32_t *edge_kid; /* by edge */
    double *share;      /* by edge: what the class pays for the child, >= 0 */
    double *best_share;
    double *used;         /* by node: how often the relaxed answers chose it, 0..1, late ones count more */
    double *direction;    /* by edge: smoothed subgradient */
    double *price, *paid; /* by class: least node with shares; what the users pay */
    uint32_t *least;      /* by class: that node */
    HYP_VEC(hyp_cut) cuts;
    HYP_VEC(uint32_t) cut_nodes;
    double *bonus, *toll; /* by node, by class: what cuts give for the first and take for the second */
    unsigned char *chosen, *root;
    double value, best; /* of the current shares; of best_share */
    double step;
} hyp_bound;

HYP_NODISCARD hyp_status hyp_bound_begin(hyp_bound *b, const hyp_problem *p, hyp_diag *diag);
void hyp_bound_end(hyp_bound *b);
/* One step of subgradient ascent towards `target`, an answer's cost. */
void hyp_bound_step(hyp_bound *b, double target);
/* Adds cuts for cycles of the current relaxed answer. */
HYP_NODISCARD hyp_status hyp_bound_cut(hyp_bound *b, hyp_diag *diag);
/* Takes up the best shares and raises the bound by cuts as dual ascent for Steiner trees does (Wong 1984): while
 * a root cannot be reached by nodes without regret, the classes it leads to without it make a cut, whose weight may
 * grow by the least regret of a node that leaves it. */
HYP_NODISCARD hyp_status hyp_bound_raise(hyp_bound *b, double target, hyp_diag *diag);
/* What choosing a node costs more than choosing the least one of its class, at the current prices. */
double hyp_bound_regret(const hyp_bound *b, uint32_t node);
/* By the best shares: sets the cost of nodes to infinity where using them leads to `limit` or above, and sets
 * required[c] for classes that every answer below `limit` uses. Gives how many were found. */
uint32_t hyp_bound_fix(hyp_bound *b, double limit, double *cost, unsigned char *required);

#endif
