/* compare_rules.h - hypatiac --compare-rules: what two sets of rules make of a model. */
#ifndef HYPATIA_TOOLS_COMPARE_RULES_H
#define HYPATIA_TOOLS_COMPARE_RULES_H

#include "cli.h"
#include "hypatia/compiler.h"

/* Compiles the model with each set, writes no plan, and prints side by side what came of it. A set is a comma list of `builtin`,
 * names of built-in rulesets, and files of rules, or `none`; what `options` say of rules stands for neither. An exit code, after
 * a message. */
int compare_rules(const char *model, const char *a, const char *b, const hyp_compile_options *options, const cli_args *args);

#endif
