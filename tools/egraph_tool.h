/* egraph_tool.h - what the files of hypatia-egraph share. */
#ifndef HYPATIA_TOOLS_EGRAPH_TOOL_H
#define HYPATIA_TOOLS_EGRAPH_TOOL_H

#include "cli.h"
#include "hypatia/egraph.h"

/* As JSON has them; NULL is null. */
void print_number(double value);
void print_text(const char *text);
/* The index of `value` in a list of names; -1 after a message. */
int pick(const cli_args *args, const char *option, const char *value, const char *const *names, int count);
/* hyp_extract_method by index; three. */
extern const char *const extract_methods[3];

/* egraph_saturate.c. */
/* The whole file, NUL-terminated; NULL after a message. A device without an end is not read for ever. */
char *read_text_file(const cli_args *args, const char *path, size_t *out_len);
/* Half of the memory that is available, also to a control group: a run ends with a report, not at the hands of the
 * system, and extracting, explaining and writing have the other half. */
size_t most_bytes(void);

/* egraph_extract.c, egraph_saturate.c, egraph_program.c: the commands. */
int command_extract(int argc, char **argv);
int command_saturate(int argc, char **argv);
int command_run(int argc, char **argv);

/* egraph_terms.c: a file of terms. Zero-initialise. */
typedef struct term_list {
    cli_list terms;
    size_t *lines; /* where each begins in the file */
} term_list;
void terms_split(term_list *list, const char *text);
void terms_free(term_list *list);

/* egraph_language.c: the conditions that rules may ask. Of classes, each of which has to be one:
 * (number ?x ...), (integer ?x ...), (symbol ?x ...): known to be such a leaf; (zero ?x ...): the number 0; (same ?x ?y
 * ...): one class; (less ?x ?y ...): numbers that ascend. */
hyp_status language_register(hyp_egraph *eg, hyp_diag *diag);

/* What operators cost, 1 where nothing is said. Zero-initialise; costs_sort after the last costs_add. */
typedef struct operator_cost {
    char *name;
    double cost;
    size_t order; /* in which it was said */
} operator_cost;
typedef struct cost_table {
    operator_cost *rows;
    size_t count;
} cost_table;
/* False where the value is no cost. */
bool costs_add(cost_table *t, const char *name, size_t len, const char *value);
/* Lines of an operator and its cost, in text that is changed; false after a message. */
bool costs_read(cost_table *t, const char *tool, const char *path, char *text);
void costs_sort(cost_table *t);
/* A hyp_node_cost_fn; its user is the table. */
double costs_of(hyp_egraph *eg, hyp_enode_id node, void *table);
void costs_free(cost_table *t);

/* egraph_write.c: what is written of an e-graph; paths are NULL for what is not. */
typedef struct egraph_writing {
    hyp_egraph *eg;
    const hyp_class_id *roots;
    size_t root_count;
    const char *json, *dot, *svg;
    const char *around;       /* a term: only what is near it; NULL = all */
    size_t depth, most_nodes; /* 0: as if not said */
    cost_table *costs;
    int method; /* of extraction, whose choice is drawn bold; -1: none */
} egraph_writing;
/* An exit code, after a message. */
int egraph_write(const egraph_writing *w, const cli_args *args);
/* egraph_proof.c: prints a proof that was checked as a list of terms, unless that is too long: then as lemmas alone. */
hyp_status print_checked(const hyp_shared_proof *shared, bool json, hyp_diag *diag);

#endif
