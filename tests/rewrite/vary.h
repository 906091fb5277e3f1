/* vary.h - the neighbours of a case: the graph with one thing changed, or a few, as an adversary would. Most of them
 * are what a condition of the rule is there to keep out. */
#ifndef HYP_TESTS_VARY_H
#define HYP_TESTS_VARY_H

#include "rewrite/term_graph.h"

#define VARY_DRAWN UINT32_MAX

/* A copy of a case whose forms from `first` on differ by change number `which`, of integers in the second half of them,
 * or by one to three that are drawn where there are not so many. A constant is an input or has another value, a size is
 * 1 or another one, there is an axis more or less, a type is another one, an attribute is; an operand is not there,
 * another one, the one of its neighbour, a function of it or what it was made of; one place of those that read a value
 * reads another one that is like it. If `jumps`, what comes out may go through a function that jumps. What comes of it
 * need not be a graph. NULL: no memory. */
const hyp_sexpr *vary_case(hyp_arena *arena, const hyp_sexpr *kase, uint32_t first, uint32_t which, bool jumps,
                           term_random *random);
/* How many changes there are. */
uint32_t vary_count(hyp_arena *arena, const hyp_sexpr *kase, uint32_t first);

#endif
