/* The rules of the compiler, for people and as JSON. */
#include "print_rules.h"

#include <stdio.h>

#include <jansson.h>

#include "table.h"

void print_rules(const hyp_compile_report *report, bool verbose)
{
    static const table_column columns[] = {
        {.title = "", .shrinks = true}, {.title = ""}, {.title = "", .spare = 1}, {.title = "", .shrinks = true}};
    table t = {.columns = columns, .column_count = sizeof columns / sizeof *columns};
    for (size_t i = 0; i < report->rule_count; i++) {
        const hyp_compile_rule_use *rule = report->rules[i];
        table_add(&t, "%s", rule->name);
        table_add(&t, "%s", rule->numeric_class);
        table_add(&t, "%s", rule->ruleset);
        table_add(&t, "%s", rule->doc);
    }
    table_print(stdout, &t, verbose);
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
