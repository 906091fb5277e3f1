/* path.h - short ways between two e-nodes of a class over all equalities that were recorded.
 *
 * The proof forest has one path between two e-nodes, the one that was known first. Beside it there are applications
 * that changed nothing when they were made (kept with options.explain_all), and e-nodes that have become congruent
 * since. Each equality has a rank, by when it was known, and its own proof needs only equalities of lower rank; so
 * whatever ways are chosen, a proof ends. Among the equalities below a rank, the way with the fewest steps is taken;
 * the steps of the proofs that an edge needs itself are counted as the forest has them, and looked for in the same way
 * when the edge is crossed. So no proof is longer than that of the forest. This is the greedy method of Flores et al.,
 * "Small proofs from congruence closure" (FMCAD 2022); a smallest proof is NP-hard to find. Work is bounded; where it
 * ends, the forest's path is taken. */
#ifndef HYP_EGRAPH_PROVE_PATH_H
#define HYP_EGRAPH_PROVE_PATH_H

#include "egraph/core/record.h"

#define HYP_ANY_RANK UINT64_MAX

/* One equality, to be crossed from a to b. */
typedef struct hyp_edge {
    uint32_t a, b;
    uint32_t place; /* in proofs.apps: of its record; of a congruent edge when it was known, HYP_NONE until that is asked */
    bool congruent; /* by now, and recorded nowhere */
    bool backward;  /* the record leads from b to a */
} hyp_edge;

static inline uint64_t hyp_edge_rank(const hyp_edge *e)
{
    return 2 * (uint64_t)e->place + e->congruent;
}

typedef struct hyp_way {
    hyp_edge *edges;
    uint32_t count;
} hyp_way;

/* The steps that crossing an edge takes in the forest: asks for hyp_forest_cost. */
typedef hyp_status (*hyp_edge_cost_fn)(void *user, const hyp_edge *edge, uint32_t *out);

typedef struct hyp_router hyp_router;
/* *out is owned by the caller: hyp_router_destroy. Reads the e-graph, which must not change meanwhile. */
HYP_NODISCARD hyp_status hyp_router_create(hyp_egraph *eg, hyp_edge_cost_fn cost, void *user, hyp_router **out,
                                           hyp_diag *diag);
void hyp_router_destroy(hyp_router *r); /* NULL-safe */
/* Forgets what was asked, as if it were new: ways that were given end here. `user` is who asks from here on. */
void hyp_router_begin(hyp_router *r, void *user);
/* The same of what the e-graph keeps for its next proof, made where it is not there or not what it would be now. */
HYP_NODISCARD hyp_status hyp_router_kept(hyp_egraph *eg, hyp_edge_cost_fn cost, void *user, hyp_router **out,
                                         hyp_diag *diag);

/* The steps that the forest's path takes, those of what it crosses included. */
HYP_NODISCARD hyp_status hyp_forest_cost(hyp_router *r, uint32_t from, uint32_t to, uint32_t *out);
/* A way between two e-nodes of a class over edges whose rank is below `bound`. It lives as long as the router. */
HYP_NODISCARD hyp_status hyp_route(hyp_router *r, uint32_t from, uint32_t to, uint64_t bound, hyp_way *out,
                                   hyp_diag *diag);

#endif
