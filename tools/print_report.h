/* print_report.h - what hypatiac says of a compilation. */
#ifndef HYP_TOOLS_PRINT_REPORT_H
#define HYP_TOOLS_PRINT_REPORT_H

#include <stdio.h>

#include "hypatia/compiler.h"

/* How many nodes became how many steps, each step, predictions, memory, verification; `plan` NULL: none was written. */
void print_summary(FILE *to, const char *model, const char *plan, const hyp_compile_report *report);
/* --stats: tables of rules, times, sizes and prices. */
void print_stats(FILE *to, const hyp_compile_report *report);

#endif
