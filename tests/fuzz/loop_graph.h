/* loop_graph.h - graphs with a loop that is run: a step whose kernel the runtime brings along, as base/loop.h has it, around a plan
 * of its own.
 */
#ifndef HYP_TESTS_LOOP_GRAPH_H
#define HYP_TESTS_LOOP_GRAPH_H

#include "ir/ir.h"

/* Makes *out, over the same dims, a graph of one loop whose trips compute `body`: its first output, where it is a number, is added
 * to a value that is carried, the others are collected, and every trip is given its inputs. By `kind` the trips are 3, or counted,
 * of which an input tells how many, another perhaps whether there are any. The plan of the body is written at `path` on the way. */
HYP_NODISCARD hyp_status loop_graph(const hyp_graph *body, uint64_t kind, const char *path, hyp_graph *out, hyp_diag *diag);

#endif
