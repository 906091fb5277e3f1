/* Schedules: runs of several rulesets under limits of the whole. */
#include "base/sized.h"
#include "egraph/core/state.h"

typedef struct scheduler {
    hyp_egraph *eg;
    hyp_egraph_run_options options; /* what is left of it */
    hyp_egraph_run_report *report;
    HYP_VEC(hyp_iteration_report) iterations;
    bool spent; /* nothing is left of a limit, report->stop says of which: no part may run any more */
    bool over;  /* a limit ended it: report->stop says which */
    hyp_diag *diag;
} scheduler;

enum { DEPTH_LIMIT = 100, PART_LIMIT = 1 << 20 };

/* Looks whether a schedule is one: of known kinds, and not one that holds itself. */
static hyp_status look_through(const hyp_schedule *s, unsigned depth, size_t *parts, hyp_diag *diag)
{
    if (depth > DEPTH_LIMIT || ++*parts > PART_LIMIT)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a schedule is nested too deeply, or holds itself");
    if ((unsigned)s->kind > HYP_SCHEDULE_SATURATE)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%d is no kind of schedule", (int)s->kind);
    if (s->kind == HYP_SCHEDULE_RUN) {
        if (!s->rules) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a RUN part of a schedule has no ruleset");
        return HYP_OK;
    }
    HYP_NEED_LIST(s->parts, s->part_count);
    for (size_t i = 0; i < s->part_count; i++) HYP_TRY(look_through(&s->parts[i], depth + 1, parts, diag));
    return HYP_OK;
}

/* The rules of the RUN parts. */
static size_t count_rules(const hyp_schedule *s)
{
    if (s->kind == HYP_SCHEDULE_RUN) return hyp_ruleset_count(s->rules);
    size_t count = 0;
    for (size_t i = 0; i < s->part_count; i++) count += count_rules(&s->parts[i]);
    return count;
}

/* Adds the report of one run to that of the whole. */
static hyp_status add_report(scheduler *sc, hyp_egraph_run_report *run, size_t first_rule)
{
    for (size_t i = 0; i < run->rule_count; i++) {
        hyp_rule_report *sum = &sc->report->rules[first_rule + i];
        if (sum->refused == 0 && run->rules[i].refused) {
            sum->refusal = run->rules[i].refusal;
            run->rules[i].refusal = NULL;
        }
        sum->refused += run->rules[i].refused;
        sum->declined = run->rules[i].declined;
        sum->beyond = run->rules[i].beyond;
        sum->matches += run->rules[i].matches;
        sum->applications += run->rules[i].applications;
        sum->seconds += run->rules[i].seconds;
    }
    if (run->peak_bytes > sc->report->peak_bytes) sc->report->peak_bytes = run->peak_bytes;
    sc->report->seconds += run->seconds;
    sc->report->matches += run->matches;
    for (size_t i = 0; i < run->iteration_count; i++) {
        HYP_TRY(hyp_vec_push(&sc->iterations, sc->diag, run->iterations[i]));
    }
    return HYP_OK;
}

/* What is left of a limit; a limit of 0, which is none, stays. `spent` where nothing is left. */
static void spend(scheduler *sc, size_t *limit, size_t used, hyp_stop stop)
{
    if (*limit == 0) return;
    if (used < *limit) {
        *limit -= used;
        return;
    }
    sc->spent = true;
    sc->report->stop = stop;
}

static void spend_all(scheduler *sc, const hyp_egraph_run_report *run)
{
    hyp_egraph_run_options *left = &sc->options;
    spend(sc, &left->max_iterations, run->iteration_count, HYP_STOP_ITERATIONS);
    spend(sc, &left->max_matches, run->matches, HYP_STOP_MATCHES);
    if (left->max_seconds > 0) {
        left->max_seconds -= run->seconds;
        if (left->max_seconds <= 0) {
            sc->spent = true;
            sc->report->stop = HYP_STOP_TIME;
        }
    }
}

static hyp_status run_rules(scheduler *sc, const hyp_schedule *s, size_t first_rule, bool *out_saturated)
{
    *out_saturated = false;
    sc->over = sc->spent;
    if (sc->over) return HYP_OK;
    hyp_egraph_run_options options = sc->options;
    size_t times = s->times ? s->times : 1;
    bool mine =
        !options.max_iterations || times <= options.max_iterations; /* the part's count ends it, not the limit */
    if (mine) options.max_iterations = times;
    hyp_egraph_run_report run;
    hyp_status status = hyp_egraph_run(sc->eg, s->rules, &options, &run, sc->diag);
    if (status == HYP_OK) status = add_report(sc, &run, first_rule);
    *out_saturated = run.stop == HYP_STOP_SATURATED;
    if (status == HYP_OK) {
        spend_all(sc, &run);
        if (!*out_saturated && (run.stop != HYP_STOP_ITERATIONS || !mine)) {
            sc->over = true;
            sc->report->stop = run.stop;
        }
    }
    hyp_egraph_run_report_dispose(&run);
    return status;
}

/* *out_saturated: no RUN part of it found anything new in its last iteration. */
static hyp_status run_part(scheduler *sc, const hyp_schedule *s, size_t first_rule, bool *out_saturated)
{
    if (s->kind == HYP_SCHEDULE_RUN) return run_rules(sc, s, first_rule, out_saturated);
    size_t rounds = s->kind == HYP_SCHEDULE_SATURATE             ? SIZE_MAX
                    : s->kind == HYP_SCHEDULE_REPEAT && s->times ? s->times
                                                                 : 1;
    *out_saturated = true;
    for (size_t round = 0; round < rounds && !sc->over; round++) {
        uint64_t version = sc->eg->version;
        size_t rule = first_rule;
        *out_saturated = true;
        for (size_t i = 0; i < s->part_count && !sc->over; i++) {
            bool saturated;
            HYP_TRY(run_part(sc, &s->parts[i], rule, &saturated));
            *out_saturated = *out_saturated && saturated;
            rule += count_rules(&s->parts[i]);
        }
        bool alone = s->part_count == 1; /* then there is none that could find more in what it has made */
        if (*out_saturated && (alone || sc->eg->version == version)) break;
    }
    return HYP_OK;
}

hyp_status hyp_egraph_run_schedule(hyp_egraph *eg, const hyp_schedule *schedule, const hyp_egraph_run_options *options,
                                   hyp_egraph_run_report *out_report, hyp_diag *diag)
{
    size_t parts = 0;
    HYP_NEED(out_report);
    *out_report = (hyp_egraph_run_report){.stop = HYP_STOP_ERROR};
    HYP_NEED(eg);
    HYP_NEED(schedule);
    scheduler sc = {.eg = eg, .report = out_report, .diag = diag};
    sc.options.size = sizeof sc.options;
    HYP_TRY(hyp_sized_take(&sc.options, options, hyp_egraph_run_options, diag));
    HYP_TRY(look_through(schedule, 0, &parts, diag));
    out_report->rule_count = count_rules(schedule);
    out_report->rules = hyp_calloc(out_report->rule_count, sizeof *out_report->rules);
    if (!out_report->rules) return hyp_fail_memory(diag, out_report->rule_count * sizeof *out_report->rules);
    bool saturated = false;
    hyp_status status = run_part(&sc, schedule, 0, &saturated);
    if (status != HYP_OK)
        out_report->stop = HYP_STOP_ERROR;
    else if (!sc.over && (saturated || !sc.spent))
        out_report->stop = saturated ? HYP_STOP_SATURATED : HYP_STOP_ITERATIONS;
    out_report->e_nodes = hyp_egraph_node_count(eg);
    out_report->e_classes = hyp_egraph_class_count(eg);
    out_report->iterations = sc.iterations.data;
    out_report->iteration_count = sc.iterations.len;
    return status;
}
