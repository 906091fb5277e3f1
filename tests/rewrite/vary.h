/* vary.h - the neighbours of a case: the graph with one or two things changed, as an adversary would. Most of them are
 * what a condition of the rule is there to keep out. */
#ifndef HYP_TESTS_VARY_H
#define HYP_TESTS_VARY_H

#include "rewrite/term_graph.h"

/* A copy of a case whose forms from `first` on differ a little. A constant is an input or has another value, a size is
 * 1 or one axis more, a type is one of integers, an attribute or an operand is another one; if `jumps`, what comes out
 * may go through a function that jumps. What comes of it need not be a graph. NULL: no memory. */
const hyp_sexpr *vary_case(hyp_arena *arena, const hyp_sexpr *kase, uint32_t first, bool jumps, term_random *random);

#endif
