/* random_graph.h - random valid graphs over the whole operator table, for tests that compare two ways of running one.
 *
 * A seed gives the same graph everywhere. Values are kept tame, so that a comparison means something: they stay small,
 * roots and powers see positive numbers, nothing is divided by a value near 0, and only inputs and constants, which are
 * exact, are truncated to integers. Errors of rounding grow with the depth of the graph, by a few units of its
 * narrowest floating-point type per node.
 */
#ifndef HYP_TESTS_RANDOM_GRAPH_H
#define HYP_TESTS_RANDOM_GRAPH_H

#include "ir/ir.h"

typedef struct hyp_random {
    uint64_t state;
} hyp_random;

/* Uniform in [low, high]. */
int64_t hyp_random_int(hyp_random *r, int64_t low, int64_t high);
double hyp_random_real(hyp_random *r, double low, double high);

/* Operators that are drawn: those behind have kernels, or sizes, that only a run knows. */
enum { HYP_RANDOM_OPS = HYP_OP_custom };

typedef struct hyp_random_graph_options {
    uint64_t seed;
    int nodes;       /* about how many; operators may bring helpers with them */
    hyp_dtype dtype; /* the floating-point type of the graph: f32, f64, f16 or bf16; integers of all types occur too */
    bool symbolic;   /* some dims are the symbols "n" and "m", which may be any sizes, also 0 */
    bool no_fused;   /* only operators that an importer makes */
    int first_op;    /* -1, or the operator that is drawn first, so that a series of graphs has them all */
} hyp_random_graph_options;

/* Makes a graph with at least one node and one output; *out is initialised by the call. drawn (may be NULL) has
 * HYP_OP_COUNT counters that are increased for every node. */
HYP_NODISCARD hyp_status hyp_random_graph(const hyp_random_graph_options *options, hyp_dims *dims, hyp_graph *out,
                                          int *drawn, hyp_diag *diag);

/* Sizes for the symbols of the dims table: "n" and "m" as given. `out` has hyp_dims_symbol_count entries. */
void hyp_random_bind(const hyp_dims *dims, int64_t n, int64_t m, int64_t *out);

/* A tensor with random data for an input, under these symbols. The data are the caller's: hyp_free. */
HYP_NODISCARD hyp_status hyp_random_input(const hyp_graph *g, size_t input, const int64_t *symbols, hyp_random *r,
                                          hyp_tensor *out, hyp_diag *diag);

#endif
