/* print_rules.h - hypatiac --list-rules. */
#ifndef HYP_TOOLS_PRINT_RULES_H
#define HYP_TOOLS_PRINT_RULES_H

#include "hypatia/compiler.h"

/* A line for each rule of the report, to standard output; on a terminal it is cut to the width, unless `verbose`. */
void print_rules(const hyp_compile_report *report, bool verbose);
/* The same as a list of objects; an exit code. */
int print_rules_json(const hyp_compile_report *report);

#endif
