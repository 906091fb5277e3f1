/* any_graph.h - random graphs from the operator table with values over the whole range of the types: of floating-point
 * numbers and of integers, with comparisons, quantization and identities written out. */
#ifndef HYP_TESTS_ANY_GRAPH_H
#define HYP_TESTS_ANY_GRAPH_H

#include "rewrite/term_graph.h"

enum { ANY_INPUTS = 3, ANY_OUTPUTS = 3 };

/* Adds nodes to an empty graph; its floating-point numbers are of the type `real`. With `steps` there are comparisons,
 * roundings, casts and quantization. A failure is one of the test's. */
void any_graph_make(hyp_graph *g, hyp_dtype real, bool steps, term_random *random);

#endif
