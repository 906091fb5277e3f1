/* Both sides are compiled to memory; plans are compared by what they say of themselves, as hypatia diff does it. */
#include "compare_rules.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diff_plans.h"
#include "hypatia/runtime.h"

typedef struct side {
    const char *spec;
    cli_list files, only; /* of the rules that are applied */
    hyp_compile_options options;
    hyp_compile_report *report;
    json_t *plan; /* as it describes itself */
} side;

static void add_rule(cli_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], name) == 0) return;
    cli_list_add(list, name, strlen(name));
}

/* The rules of a ruleset, of all sets for "builtin"; false where there is none of the name. */
static bool add_set(side *s, const hyp_compile_report *known, const char *name)
{
    bool any = false, all = strcmp(name, "builtin") == 0;
    for (size_t i = 0; i < known->rule_count; i++) {
        if (!all && strcmp(known->rules[i]->ruleset, name) != 0) continue;
        add_rule(&s->only, known->rules[i]->name);
        any = true;
    }
    return any;
}

static int refuse(const side *s, const hyp_compile_report *known, const char *item, const cli_args *args)
{
    cli_list sets = {0};
    char text[512] = "";
    for (size_t i = 0; i < known->rule_count; i++) add_rule(&sets, known->rules[i]->ruleset);
    for (size_t i = 0; i < sets.count && strlen(text) + strlen(sets.items[i]) + 3 < sizeof text; i++) {
        strcat(text, ", ");
        strcat(text, sets.items[i]);
    }
    int code = cli_usage_error(args, "--compare-rules: '%s' of '%s' is no file, and none of none, builtin%s", item, s->spec, text);
    cli_list_free(&sets);
    return code;
}

/* Which rules the set names. */
static int read_set(side *s, const hyp_compile_options *options, const cli_args *args)
{
    hyp_diag diag = {0};
    hyp_compile_report *known = NULL;
    cli_list items = {0};
    int code = CLI_OK;
    s->options = *options;
    s->options.rule_files = s->options.disabled_rules = s->options.only_rules = NULL;
    s->options.rule_file_count = s->options.disabled_rule_count = s->options.only_rule_count = 0;
    s->options.no_builtin_rules = false;
    s->options.no_record = true; /* nobody reads it */
    if (!s->options.verify) s->options.verify = "off";
    cli_list_split(&items, s->spec);
    s->options.no_rewrite = items.count == 1 && strcmp(items.items[0], "none") == 0;
    if (hyp_compile_list_rules(&s->options, &known, &diag) != HYP_OK) code = cli_report(args->tool, &diag);
    for (size_t i = 0; i < items.count && code == CLI_OK && !s->options.no_rewrite; i++) {
        if (add_set(s, known, items.items[i])) continue;
        if (access(items.items[i], R_OK) == 0)
            cli_list_add(&s->files, items.items[i], strlen(items.items[i]));
        else
            code = refuse(s, known, items.items[i], args);
    }
    s->options.rule_files = (const char *const *)s->files.items;
    s->options.rule_file_count = s->files.count;
    if (code == CLI_OK && s->files.count) { /* and those that are in the files: who is not known yet */
        hyp_compile_report *all = NULL;
        s->options.no_builtin_rules = true;
        if (hyp_compile_list_rules(&s->options, &all, &diag) != HYP_OK) code = cli_report(args->tool, &diag);
        for (size_t i = 0; code == CLI_OK && i < all->rule_count; i++) add_rule(&s->only, all->rules[i]->name);
        hyp_compile_report_destroy(all);
        s->options.no_builtin_rules = false;
    }
    s->options.only_rules = (const char *const *)s->only.items;
    s->options.only_rule_count = s->only.count;
    hyp_compile_report_destroy(known);
    cli_list_free(&items);
    return code;
}

static int compile(side *s, const char *model, const cli_args *args)
{
    hyp_diag diag = {0};
    void *plan = NULL;
    size_t size;
    diff_text text = {0};
    hyp_status status = hyp_compile_to_memory(model, &s->options, &plan, &size, &s->report, &diag);
    if (status == HYP_OK)
        status = hyp_plan_describe_memory(plan, size, s->spec, true, NULL, 0, diff_collect, &text, &diag);
    if (status == HYP_OK) s->plan = diff_read(&text);
    free(plan);
    if (status != HYP_OK) return cli_report(args->tool, &diag);
    return s->plan ? CLI_OK : CLI_FAILED;
}

/* ---- what came of it --------------------------------------------------------------------------------------- */

/* A line of both, and how much more the second one is. */
static void print_row(const char *what, double a, double b, const char *unit, bool relative)
{
    printf("%-22s %16.10g %16.10g %-3s", what, a, b, unit);
    if (relative && a > 0) printf(" %+7.1f %%", 100 * (b / a - 1));
    putchar('\n');
}

static double seconds_of(const hyp_compile_report *r)
{
    return r->import_seconds + r->rewrite_seconds + r->lower_seconds + r->write_seconds;
}

static size_t used(const hyp_compile_report *r, const char *name)
{
    for (size_t i = 0; i < r->rule_count; i++)
        if (strcmp(r->rules[i]->name, name) == 0) return r->rules[i]->used;
    return 0;
}

/* Rules to which one plan owes more steps than the other. */
static void print_rules_used(const hyp_compile_report *a, const hyp_compile_report *b)
{
    cli_list names = {0};
    const hyp_compile_report *const both[] = {a, b};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->rule_count; i++)
            if (used(a, both[k]->rules[i]->name) != used(b, both[k]->rules[i]->name)) add_rule(&names, both[k]->rules[i]->name);
    if (names.count) printf("rules, by the steps that owe their form to them:\n");
    for (size_t i = 0; i < names.count; i++)
        printf("  %-36.36s %16zu %16zu\n", cli_shown(names.items[i]), used(a, names.items[i]), used(b, names.items[i]));
    cli_list_free(&names);
}

static void print_sides(const side *a, const side *b)
{
    const hyp_compile_report *x = a->report, *y = b->report;
    printf("A: %s\nB: %s\n\n%-22s %16s %16s\n", cli_shown(a->spec), cli_shown(b->spec), "", "A", "B");
    print_row("predicted", x->plan_seconds * 1e6, y->plan_seconds * 1e6, "us", true);
    print_row("steps", (double)x->plan_steps, (double)y->plan_steps, "", false);
    print_row("nodes that run", (double)x->nodes_after, (double)y->nodes_after, "", false);
    print_row("scratch, typical sizes", (double)x->scratch_bytes, (double)y->scratch_bytes, "B", true);
    print_row("iterations", (double)x->iterations, (double)y->iterations, "", false);
    print_row("e-nodes", (double)x->e_nodes, (double)y->e_nodes, "", true);
    print_row("e-classes", (double)x->e_classes, (double)y->e_classes, "", true);
    print_row("compilation", seconds_of(x) * 1e3, seconds_of(y) * 1e3, "ms", true);
    if (strcmp(x->stop_reason, y->stop_reason) != 0) printf("A ended: %s\nB ended: %s\n", x->stop_reason, y->stop_reason);
    print_rules_used(x, y);
}

static void free_side(side *s)
{
    json_decref(s->plan);
    hyp_compile_report_destroy(s->report);
    cli_list_free(&s->files);
    cli_list_free(&s->only);
}

int compare_rules(const char *model, const char *a, const char *b, const hyp_compile_options *options, const cli_args *args)
{
    side sides[] = {{.spec = a}, {.spec = b}};
    int code = CLI_OK;
    for (int i = 0; i < 2 && code == CLI_OK; i++) code = read_set(&sides[i], options, args);
    for (int i = 0; i < 2 && code == CLI_OK; i++) code = compile(&sides[i], model, args);
    if (code == CLI_OK) {
        json_t *diff = diff_plans(sides[0].plan, sides[1].plan);
        print_sides(&sides[0], &sides[1]);
        printf("\nthe plans, of A and of B:\n");
        diff_print(diff);
        json_decref(diff);
    }
    for (int i = 0; i < 2; i++) free_side(&sides[i]);
    return code;
}
