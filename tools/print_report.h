/* print_report.h - what hypatiac says of a compilation. */
#ifndef HYP_TOOLS_PRINT_REPORT_H
#define HYP_TOOLS_PRINT_REPORT_H

#include <stdio.h>

#include "hypatia/compiler.h"

/* How many nodes became how many steps, which, predictions, memory, verification, in ten lines that fit the terminal: of many
 * steps those that take longest. `verbose`: every step, and nothing is cut. `plan` NULL: none was written. */
void print_summary(FILE *to, const char *model, const char *plan, const hyp_compile_report *report, bool verbose);
/* --stats: tables of rules, times, sizes and prices. */
void print_stats(FILE *to, const hyp_compile_report *report, bool verbose);
/* A hyp_compile_options.on_progress: says it in the line of progress of the terminal. */
void print_progress(const hyp_compile_progress *progress, void *unused);

#endif
