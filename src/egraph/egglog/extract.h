/* extract.h - the cheapest terms of a database, and writing them. */
#ifndef HYP_EGRAPH_EGGLOG_EXTRACT_H
#define HYP_EGRAPH_EGGLOG_EXTRACT_H

#include "egraph/egglog/db.h"
#include "egraph/extract/problem.h"

/* A node is a row of a constructor; a class is an id. The cost of a term is the sum of the costs of its constructors, a
 * literal costing 1. */
typedef struct hyp_el_extractor {
    hyp_egglog *db;
    hyp_problem p;
    uint32_t *function, *row; /* by node */
    uint32_t *choice;         /* by class: a node, HYP_EL_NONE = no finite term */
    double *weight;           /* by class */
} hyp_el_extractor;

/* Solves for all classes of a rebuilt database. */
HYP_NODISCARD hyp_status hyp_el_extractor_begin(hyp_el_extractor *e, hyp_egglog *db, hyp_diag *diag);
void hyp_el_extractor_dispose(hyp_el_extractor *e);
/* Writes a value's term, "Unextractable" where it has none; sb->failed where it is longer than 256 MB. */
void hyp_el_write_term(const hyp_el_extractor *e, uint32_t sort, hyp_el_value v, hyp_strbuf *sb);
/* Writes a row as a call of its function. */
void hyp_el_write_row(const hyp_el_extractor *e, uint32_t function, uint32_t row, hyp_strbuf *sb);

#endif
