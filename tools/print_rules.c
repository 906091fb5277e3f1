/* The rules of the compiler, for people and as JSON. */
#include "print_rules.h"

#include <stdio.h>

#include <jansson.h>

#include "cli.h"

void print_rules(const hyp_compile_report *report)
{
    for (size_t i = 0; i < report->rule_count; i++) {
        const hyp_compile_rule_use *rule = report->rules[i];
        printf("%-32s %-2s %-10s %s\n", rule->name, rule->numeric_class, rule->ruleset, rule->doc);
    }
}

int print_rules_json(const hyp_compile_report *report)
{
    json_t *list = json_array();
    int failed = list ? 0 : -1;
    for (size_t i = 0; i < report->rule_count && failed == 0; i++) {
        const hyp_compile_rule_use *rule = report->rules[i];
        failed =
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", rule->name, "class",
                                                  rule->numeric_class, "ruleset", rule->ruleset, "doc", rule->doc));
    }
    if (failed == 0) failed = json_dumpf(list, stdout, JSON_INDENT(1)) || puts("") == EOF;
    json_decref(list);
    return failed ? CLI_FAILED : CLI_OK;
}
