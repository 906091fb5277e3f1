/* apart.h - whether what lies at different places of an axis stays apart: whether the first n parts of what a graph
 * gives hang on the first n parts of its inputs alone, so that more parts behind them do not show. */
#ifndef HYP_IR_APART_H
#define HYP_IR_APART_H

#include "ir/ir.h"

/* Where a tensor has parts: `axis` is the only one whose size depends on the symbol, and it is the symbol times `each`,
 * which does not. axis -1: the size of no axis does. */
typedef struct hyp_apart {
    int32_t axis;
    hyp_dim each;
} hyp_apart;

/* False where the symbol is in several axes, or in an expression that is no such product. */
bool hyp_apart_find(const hyp_graph *g, const hyp_type *t, size_t symbol, hyp_apart *out);

/* Whether the first n parts of what a node gives come from the first n parts of what it reads, for every n. What it
 * reads and gives has its parts where hyp_apart_find says; false where it says nothing, and for operators of which
 * nothing is known. That indices are in range is another matter: hyp_node_reads_index. */
bool hyp_node_keeps_parts(const hyp_graph *g, const hyp_node *n, size_t symbol);
/* Whether input i holds numbers that have to be in a range, else the run fails. */
bool hyp_node_reads_index(const hyp_graph *g, const hyp_node *n, uint32_t i);

/* Whether the inputs of a graph may have more parts along a symbol, of zeros: neither the others of what it gives
 * change nor does anything fail because of them. *why stays empty then, else it gets the first thing that is in the
 * way. */
HYP_NODISCARD hyp_status hyp_graph_check_padding(const hyp_graph *g, size_t symbol, hyp_strbuf *why, hyp_diag *diag);

#endif
