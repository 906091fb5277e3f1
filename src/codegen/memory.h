/* memory.h - plans that take less memory, because values are computed again instead of kept.
 *
 * Nodes of a graph are there twice then: those behind a step read the second one, which is a node like any other, so
 * that everything from lowering to verification knows nothing of it. Extraction comes before, for equal nodes are one
 * in an e-graph. */
#ifndef HYP_CODEGEN_MEMORY_H
#define HYP_CODEGEN_MEMORY_H

#include "codegen/codegen.h"

/* Which nodes are there twice. */
typedef struct hyp_again {
    const bool *nodes;   /* by node: it is computed again for who reads it late, or to compute something again */
    const bool *late;    /* by node: it reads what is computed again */
    const bool *follows; /* by node: it is no work, and is there twice where what it reads is */
    const hyp_node_id *order; /* in which nodes are listed, as far as what they read is there; NULL: as in the graph */
} hyp_again;
/* Makes the graph, initialised in *out on success. Results have the same bits: the same operators read equal values. */
HYP_NODISCARD hyp_status hyp_graph_compute_again(const hyp_graph *in, const hyp_again *again, hyp_graph *out, hyp_diag *diag);

/* Whether a node may be there twice: it gives the same each time, and nobody else notices. */
bool hyp_can_compute_again(const hyp_node *node);

/* What the plan of a graph takes, for the sizes that predictions are for. */
typedef struct hyp_footprint {
    size_t bytes; /* all that a run holds: constants that steps read, variables, scratch memory, the target's workspace */
    size_t scratch_bytes, variable_bytes; /* of these */
    double seconds;                       /* predicted, of a run */
} hyp_footprint;
HYP_NODISCARD hyp_status hyp_codegen_footprint(const hyp_graph *graph, const hyp_codegen_options *options,
                                               hyp_footprint *out, hyp_diag *diag);
/* Of a program that was lowered; HYP_ERR_INVALID_ARGUMENT where no typical sizes are known. */
HYP_NODISCARD hyp_status hyp_footprint_of(const HypPlan__Program *program, hyp_footprint *out, hyp_diag *diag);

/* Makes a graph whose plan takes at most `budget` bytes in all (hyp_footprint), for the sizes that predictions are for, by
 * computing values again where they are read long after: *out, initialised on success, of the same inputs and outputs.
 * Of values that stand where most memory is taken, those are not kept of which the fewest predicted seconds give the
 * most bytes, until it fits (the greedy choice of Kirisame et al. 2021, DTR, with what is known of a whole graph:
 * sizes, times and lives). What is tried does not depend on the budget: a smaller one goes further on the same way.
 * Options need `predict` and `typical_sizes`.
 *
 * HYP_ERR_INVALID_ARGUMENT where no choice that was found fits: the message has the least, and what it would cost. */
HYP_NODISCARD hyp_status hyp_codegen_fit(const hyp_graph *in, const hyp_codegen_options *options, size_t budget,
                                         hyp_graph *out, hyp_diag *diag);

#endif
