/* What hypatiac says of a compilation. */
#include "print_report.h"

#include "cli.h"

/* "scratch memory: 1024 bytes -> 512; steps that compute something again: 3, predicted 12.30 us -> 13.10 us" */
static void print_memory(FILE *to, const hyp_compile_report *report)
{
    if (!report->recomputed) {
        fprintf(to, "scratch memory: %zu bytes\n", report->scratch_bytes);
        return;
    }
    fprintf(to, "scratch memory: %zu bytes -> %zu; steps that compute something again: %zu, predicted %.2f us -> %.2f us\n",
            report->kept_bytes, report->scratch_bytes, report->recomputed, report->kept_seconds * 1e6,
            report->plan_seconds * 1e6);
}

void print_summary(FILE *to, const char *model, const char *plan, const hyp_compile_report *report)
{
    fprintf(to, "%s: %zu nodes that run -> %zu, %zu plan step%s\n", model, report->nodes_before, report->nodes_after,
            report->plan_steps, report->plan_steps == 1 ? "" : "s");
    cli_print_lines(to, "  ", report->steps);
    if (*report->layers) fputs("linear layers in fp8:\n", to);
    cli_print_lines(to, "  ", report->layers);
    if (report->cost_before > 0)
        fprintf(to, "predicted: %.2f us -> %.2f us\n", report->cost_before * 1e6, report->cost_after * 1e6);
    fprintf(to, "predicted for the plan: %.2f us\n", report->plan_seconds * 1e6);
    print_memory(to, report);
    for (size_t i = 0, shown = 0; i < report->rule_count; i++)
        if (report->rules[i]->used)
            fprintf(to, "%s%s %zux", shown++ ? ", " : "rules used: ", report->rules[i]->name, report->rules[i]->used);
        else if (i + 1 == report->rule_count && !shown)
            fprintf(to, "rules used: none");
    if (report->rule_count) fputc('\n', to);
    if (*report->cut) fprintf(to, "%s: this is the best plan found until then\n", report->cut);
    if (*report->verified) fprintf(to, "%s\n", report->verified);
    if (report->plan_bytes) fprintf(to, "%s: %llu bytes\n", plan, (unsigned long long)report->plan_bytes);
}

/* What is not in the e-graphs or was not looked at, and why. */
static void print_left_out(FILE *to, const hyp_compile_report *report)
{
    size_t declined = 0, refused = 0;
    for (size_t i = 0; i < report->rule_count; i++) {
        declined += report->rules[i]->declined;
        refused += report->rules[i]->refused;
    }
    fprintf(to, "left out     %zu matches by conditions, %zu without a type, %zu constants beyond --max-fold-bytes or -flops", declined,
            refused, report->unfolded);
    if (!report->proven) fprintf(to, "; forms that cost up to %.2g %% less, if there are any", report->gap * 100);
    fputc('\n', to);
}

void print_stats(FILE *to, const hyp_compile_report *report)
{
    fprintf(to, "\n%-34s %5s %9s %9s %9s %9s %6s\n", "rule", "class", "matches", "applied", "declined", "refused", "used");
    for (size_t i = 0; i < report->rule_count; i++) {
        const hyp_compile_rule_use *rule = report->rules[i];
        if (!rule->matches && !rule->used) continue;
        fprintf(to, "%-34s %5s %9zu %9zu %9zu %9zu %6zu\n", rule->name, rule->numeric_class, rule->matches, rule->applications,
                rule->declined, rule->refused, rule->used);
    }
    fprintf(to, "\nnodes        %zu imported, %zu run before rewriting, %zu after\n", report->nodes_imported,
            report->nodes_before, report->nodes_after);
    fprintf(to, "e-graph      %zu e-nodes, %zu e-classes, %zu iterations, stop: %s, %s\n", report->e_nodes,
            report->e_classes, report->iterations, report->stop_reason,
            report->proven ? "least cost proven" : "least cost not proven");
    print_left_out(to, report);
    fprintf(to, "seconds      import %.4f, rewrite %.4f, lower %.4f, write %.4f, verify %.4f\n", report->import_seconds,
            report->rewrite_seconds, report->lower_seconds, report->write_seconds, report->verify_seconds);
    fputs("prices of the steps\n", to);
    cli_print_lines(to, "  ", report->prices);
    fprintf(to, "plan         %zu steps, %llu bytes\n", report->plan_steps, (unsigned long long)report->plan_bytes);
}
