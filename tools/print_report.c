/* What hypatiac says of a compilation. */
#include "print_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "table.h"
#include "terminal.h"

/* ---- the summary ------------------------------------------------------------------------------------------- */

enum { SUMMARY_LINES = 10 };

static void add_line(cli_list *lines, const char *fmt, ...) HYP_PRINTF(2, 3);
static void add_line(cli_list *lines, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    char *text = cli_format(fmt, list);
    va_end(list);
    cli_list_add(lines, text, strlen(text));
    free(text);
}

static void split_lines(cli_list *lines, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        cli_list_add(lines, text, len);
        text += len + (text[len] == '\n');
    }
}

/* "scratch memory: 1024 bytes -> 512; steps that compute something again: 3, predicted 12.30 us -> 13.10 us" */
static void add_memory(cli_list *lines, const hyp_compile_report *report)
{
    if (report->recomputed)
        add_line(lines, "scratch memory: %zu bytes -> %zu; steps that compute something again: %zu, predicted %.2f us -> %.2f us",
                 report->kept_bytes, report->scratch_bytes, report->recomputed, report->kept_seconds * 1e6,
                 report->plan_seconds * 1e6);
    else
        add_line(lines, "scratch memory: %zu bytes", report->scratch_bytes);
    if (report->variable_bytes)
        add_line(lines, "memory of a run: %zu bytes, %zu of them variables", report->memory_bytes, report->variable_bytes);
}

/* "rules used: matmul-linear 4x, linear-bias 4x" */
static void add_rules(cli_list *lines, const hyp_compile_report *report)
{
    char *text = cli_copy("rules used: none", 16);
    bool any = false;
    for (size_t i = 0; i < report->rule_count; i++) {
        const hyp_compile_rule_use *rule = report->rules[i];
        if (!rule->used) continue;
        size_t at = any ? strlen(text) : strlen("rules used: "), room = at + strlen(rule->name) + 32;
        text = cli_alloc(text, room, 1);
        snprintf(text + at, room - at, "%s%s %zux", any ? ", " : "", rule->name, rule->used);
        any = true;
    }
    if (report->rule_count) cli_list_add(lines, text, strlen(text));
    free(text);
}

/* "linear layers in fp8: 3 of 4; -v lists them" */
static void add_layers(cli_list *lines, const hyp_compile_report *report)
{
    cli_list layers = {0};
    size_t narrow = 0;
    split_lines(&layers, report->layers);
    for (size_t i = 0; i < layers.count; i++) narrow += strstr(layers.items[i], "x scaled by") != NULL;
    if (layers.count) add_line(lines, "linear layers in fp8: %zu of %zu; -v lists them", narrow, layers.count);
    cli_list_free(&layers);
}

/* All but the steps. */
static void add_figures(cli_list *lines, const char *plan, const hyp_compile_report *report, bool verbose)
{
    bool apart = fabs(report->plan_seconds - report->cost_after) > 5e-9; /* by more than is shown */
    if (report->cost_before > 0)
        add_line(lines, "predicted: %.2f us -> %.2f us", report->cost_before * 1e6, report->cost_after * 1e6);
    if (verbose || apart || !(report->cost_before > 0)) add_line(lines, "predicted for the plan: %.2f us", report->plan_seconds * 1e6);
    add_memory(lines, report);
    add_rules(lines, report);
    if (*report->cut) add_line(lines, "%s: this is the best plan found until then", report->cut);
    if (*report->verified) cli_list_add(lines, report->verified, strlen(report->verified));
    if (report->plan_bytes) add_line(lines, "%s: %llu bytes", plan, (unsigned long long)report->plan_bytes);
}

/* Marks the `count` dearest of the steps. */
static void choose_dearest(const hyp_compile_report *report, size_t count, bool *chosen)
{
    for (size_t n = 0; n < count; n++) {
        size_t best = report->plan_steps;
        for (size_t i = 0; i < report->plan_steps; i++)
            if (!chosen[i] && (best == report->plan_steps || report->step_seconds[i] > report->step_seconds[best])) best = i;
        chosen[best] = true;
    }
}

/* In at most so many lines: all steps, or the dearest. */
static void add_steps(cli_list *lines, const hyp_compile_report *report, size_t room)
{
    cli_list steps = {0};
    split_lines(&steps, report->steps);
    size_t shown = steps.count <= room ? steps.count : room - 1;
    bool *chosen = cli_alloc(NULL, steps.count + 1, sizeof *chosen);
    memset(chosen, 0, (steps.count + 1) * sizeof *chosen);
    if (steps.count == report->plan_steps) choose_dearest(report, shown, chosen);
    for (size_t i = 0; i < steps.count; i++)
        if (chosen[i]) add_line(lines, "  %s", steps.items[i]);
    if (shown < steps.count && shown > 0) add_line(lines, "  and %zu steps that take less; -v lists all", steps.count - shown);
    if (shown < steps.count && shown == 0) add_line(lines, "  %zu steps; -v lists them", steps.count);
    free(chosen);
    cli_list_free(&steps);
}

/* On a terminal lines are cut to its width. */
static void print_short(FILE *to, const char *title, const char *plan, const hyp_compile_report *report)
{
    cli_list lines = {0}, figures = {0};
    add_layers(&figures, report);
    add_figures(&figures, plan, report, false);
    size_t room = SUMMARY_LINES > figures.count + 1 ? SUMMARY_LINES - 1 - figures.count : 1;
    add_line(&lines, "%s", title);
    add_steps(&lines, report, room);
    for (size_t i = 0; i < lines.count; i++) terminal_print_lines(to, "", lines.items[i]);
    for (size_t i = 0; i < figures.count; i++) terminal_print_lines(to, "", figures.items[i]);
    cli_list_free(&figures);
    cli_list_free(&lines);
}

static void print_long(FILE *to, const char *title, const char *plan, const hyp_compile_report *report)
{
    cli_list figures = {0};
    cli_print_lines(to, "", title);
    cli_print_lines(to, "  ", report->steps);
    if (*report->layers) fputs("linear layers in fp8:\n", to);
    cli_print_lines(to, "  ", report->layers);
    add_figures(&figures, plan, report, true);
    for (size_t i = 0; i < figures.count; i++) cli_print_lines(to, "", figures.items[i]);
    cli_list_free(&figures);
}

void print_summary(FILE *to, const char *model, const char *plan, const hyp_compile_report *report, bool verbose)
{
    cli_list title = {0};
    add_line(&title, "%s: %zu nodes that run -> %zu, %zu plan step%s", model, report->nodes_before, report->nodes_after,
             report->plan_steps, report->plan_steps == 1 ? "" : "s");
    (verbose ? print_long : print_short)(to, title.items[0], plan, report);
    cli_list_free(&title);
}

/* ---- --stats ---------------------------------------------------------------------------------------------- */

/* What is not in the e-graphs or was not looked at, and why. */
static void print_left_out(FILE *to, const hyp_compile_report *report)
{
    size_t declined = 0, refused = 0, beyond = 0;
    for (size_t i = 0; i < report->rule_count; i++) {
        declined += report->rules[i]->declined;
        refused += report->rules[i]->refused;
        beyond += report->rules[i]->beyond;
    }
    fprintf(to,
            "left out     %zu matches by conditions, %zu without a type, %zu parts beyond the widest step, "
            "%zu constants beyond --max-fold-bytes or -flops",
            declined, refused, beyond, report->unfolded);
    if (!report->proven) fprintf(to, "; forms that cost up to %.2g %% less, if there are any", report->gap * 100);
    fputc('\n', to);
}

void print_stats(FILE *to, const hyp_compile_report *report, bool verbose)
{
    static const table_column columns[] = {{"rule", .shrinks = true},
                                           {"class", .right = true, .spare = 1},
                                           {"matches", .right = true, .spare = 2},
                                           {"applied", .right = true},
                                           {"declined", .right = true, .spare = 3},
                                           {"refused", .right = true, .spare = 4},
                                           {"beyond", .right = true, .spare = 5},
                                           {"used", .right = true}};
    table rules = {.columns = columns, .column_count = sizeof columns / sizeof *columns};
    for (size_t i = 0; i < report->rule_count; i++) {
        const hyp_compile_rule_use *rule = report->rules[i];
        if (!rule->matches && !rule->used) continue;
        table_add(&rules, "%s", rule->name);
        table_add(&rules, "%s", rule->numeric_class);
        const size_t counts[] = {rule->matches, rule->applications, rule->declined,
                                 rule->refused, rule->beyond,       rule->used};
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) table_add(&rules, "%zu", counts[k]);
    }
    fputc('\n', to);
    table_print(to, &rules, verbose);
    fprintf(to, "\nnodes        %zu imported, %zu run before rewriting, %zu after\n", report->nodes_imported,
            report->nodes_before, report->nodes_after);
    fprintf(to, "e-graph      %zu e-nodes, %zu e-classes, %zu iterations, stop: %s, %s\n", report->e_nodes,
            report->e_classes, report->iterations, report->stop_reason,
            report->proven ? "least cost proven" : "least cost not proven");
    print_left_out(to, report);
    fprintf(to, "seconds      import %.4f, rewrite %.4f, lower %.4f, write %.4f, verify %.4f\n", report->import_seconds,
            report->rewrite_seconds, report->lower_seconds, report->write_seconds, report->verify_seconds);
    fputs("prices of the steps\n", to);
    (verbose ? cli_print_lines : terminal_print_lines)(to, "  ", report->prices);
    fprintf(to, "plan         %zu steps, %llu bytes\n", report->plan_steps, (unsigned long long)report->plan_bytes);
}

/* ---- progress ---------------------------------------------------------------------------------------------- */

static const char *at_phase; /* what was said last; of static storage */

static const char *phase_name(const char *phase)
{
    static const char *const names[][2] = {{"import", "reading the model"},
                                           {"fold", "computing constants"},
                                           {"extract", "choosing among what was found"},
                                           {"expect", "running the model in the reference interpreter"},
                                           {"write", "writing weights"},
                                           {"verify", "verifying the plan"},
                                           {"blame", "looking for the rule to blame"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(phase, names[i][0]) == 0) return names[i][1];
    return phase;
}

void print_progress(const hyp_compile_progress *p, void *unused)
{
    (void)unused;
    char text[256], left[32];
    size_t at = 0;
    if (!terminal_work_asks() && at_phase == p->phase) return;
    at_phase = p->phase;
    at += (size_t)snprintf(text, sizeof text, "%s", phase_name(p->phase));
    if (p->e_nodes)
        at += (size_t)snprintf(text + at, sizeof text - at, ", iteration %zu, %zu e-nodes", p->iteration + 1, p->e_nodes);
    if (p->total)
        at += (size_t)snprintf(text + at, sizeof text - at, ", %.0f %%",
                               p->done < p->total ? 100.0 * (double)p->done / (double)p->total : 100);
    if (p->best > 0) at += (size_t)snprintf(text + at, sizeof text - at, ", best %.2f us", p->best * 1e6);
    if (p->seconds_left > 0)
        snprintf(text + at, sizeof text - at, ", at most %s left for rewriting", terminal_duration(p->seconds_left, left));
    terminal_work_says("%s", text);
}
