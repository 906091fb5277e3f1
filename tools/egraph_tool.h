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

/* The whole file, NUL-terminated; NULL after a message. A device without an end is not read for ever. */
char *read_text_file(const cli_args *args, const char *path, size_t *out_len);
/* Half of the memory that is available, also to a control group: a run ends with a report, not at the hands of the
 * system, and extracting, explaining and writing have the other half. */
size_t most_bytes(void);

/* egraph_extract.c, egraph_program.c: the commands. */
int command_extract(int argc, char **argv);
int command_run(int argc, char **argv);
/* egraph_proof.c: prints a proof that was checked as a list of terms, unless that is too long: then as lemmas alone. */
hyp_status print_checked(const hyp_shared_proof *shared, bool json, hyp_diag *diag);

#endif
