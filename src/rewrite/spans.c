/* What a phase of rewriting took its time for, for who draws it: iterations with their parts, one after the other, and rules. */
#include "rewrite/job.h"

void hyp_rw_span(const hyp_rw_job *j, const hyp_rewrite_span *span)
{
    if (j->options->span) j->options->span(span, j->options->span_user);
}

static void tell_iteration(const hyp_rw_job *j, const hyp_iteration_report *it, size_t number, double *at)
{
    const struct {
        const char *name;
        double seconds;
    } parts[] = {{"search", it->search_seconds}, {"apply", it->apply_seconds}, {"rebuild", it->rebuild_seconds}};
    double start = *at;
    for (int i = 0; i < 3; i++) {
        hyp_rw_span(j, &(hyp_rewrite_span){.kind = "part", .name = parts[i].name, .start = *at, .seconds = parts[i].seconds});
        *at += parts[i].seconds;
    }
    hyp_rw_span(j, &(hyp_rewrite_span){.kind = "iteration",
                                       .name = "iteration",
                                       .number = number,
                                       .start = start,
                                       .seconds = *at - start,
                                       .matches = it->matches,
                                       .applications = it->applications,
                                       .e_nodes = it->e_nodes,
                                       .e_classes = it->e_classes});
}

void hyp_rw_tell_run(const hyp_rw_job *j, double start, const hyp_egraph_run_report *run)
{
    double at = start;
    if (!j->options->span) return;
    for (size_t i = 0; i < run->iteration_count; i++) tell_iteration(j, &run->iterations[i], i, &at);
    hyp_rw_span(j, &(hyp_rewrite_span){.kind = "part",
                                       .name = "saturate",
                                       .start = start,
                                       .seconds = run->seconds > at - start ? run->seconds : at - start,
                                       .e_nodes = run->e_nodes,
                                       .e_classes = run->e_classes});
    at = start; /* when a rule was at work is not kept, only how long in all */
    for (size_t i = 0; i < run->rule_count; i++) {
        const hyp_rule_report *rule = &run->rules[i];
        if (!rule->matches && rule->seconds <= 0) continue;
        hyp_rw_span(j, &(hyp_rewrite_span){.kind = "rule",
                                           .name = j->names[i],
                                           .start = at,
                                           .seconds = rule->seconds,
                                           .matches = rule->matches,
                                           .applications = rule->applications});
        at += rule->seconds;
    }
}
