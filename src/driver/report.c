#include <math.h>
#include <string.h>

#include "base/json.h"
#include "driver/driver.h"

/* The caller's report is the first member; everything it points to is in the arena. */
typedef struct owned_report {
    hyp_compile_report report;
    hyp_arena arena;
} owned_report;

void hyp_compile_report_destroy(hyp_compile_report *report)
{
    if (!report) return;
    owned_report *owned = (owned_report *)report;
    hyp_arena_dispose(&owned->arena);
    hyp_free(owned);
}

static hyp_status copy_rules(owned_report *r, const hyp_rewrite_report *from, hyp_diag *diag)
{
    hyp_compile_rule_use *rules = hyp_arena_zalloc(&r->arena, from->rule_count, sizeof *rules);
    const hyp_compile_rule_use **list = hyp_arena_zalloc(&r->arena, from->rule_count, sizeof *list);
    if (!rules || !list) return hyp_fail_memory(diag, from->rule_count * sizeof *rules);
    for (size_t i = 0; i < from->rule_count; i++) {
        const hyp_rule_use *use = &from->rules[i];
        rules[i] = (hyp_compile_rule_use){
            .size = sizeof *rules,
            .name = hyp_arena_strdup(&r->arena, use->name),
            .ruleset = hyp_arena_strdup(&r->arena, use->ruleset),
            .numeric_class = hyp_arena_strdup(&r->arena, use->numeric_class),
            .doc = hyp_arena_strdup(&r->arena, use->doc),
            .matches = use->matches,
            .applications = use->applications,
            .used = use->used,
            .declined = use->declined,
            .refused = use->refused,
            .beyond = use->beyond,
        };
        if (!rules[i].name || !rules[i].ruleset || !rules[i].numeric_class || !rules[i].doc)
            return hyp_fail_memory(diag, 64);
        list[i] = &rules[i];
    }
    r->report.rules = list;
    r->report.rule_count = from->rule_count;
    return HYP_OK;
}

/* The e-graph of the last phase is the one that was extracted from; iterations are of all. */
static hyp_status copy_phases(owned_report *r, const hyp_rewrite_report *from, hyp_diag *diag)
{
    hyp_strbuf reason = {0};
    r->report.proven = true;
    for (size_t i = 0; i < from->phase_count; i++) {
        r->report.proven = r->report.proven && from->phases[i].proven;
        r->report.iterations += from->phases[i].iterations;
        r->report.gap = fmax(r->report.gap, from->phases[i].gap);
        r->report.unfolded += from->phases[i].unfolded;
        r->report.e_nodes = from->phases[i].e_nodes;
        r->report.e_classes = from->phases[i].e_classes;
        hyp_strbuf_printf(&reason, "%s%s %s", i ? ", " : "", from->phases[i].name, hyp_stop_name(from->phases[i].stop));
    }
    r->report.stop_reason = hyp_arena_strdup(&r->arena, hyp_strbuf_text(&reason));
    bool failed = reason.failed || !r->report.stop_reason;
    hyp_strbuf_dispose(&reason);
    r->report.cost_before = from->cost_before;
    r->report.cost_after = from->cost_after;
    return failed ? hyp_fail_memory(diag, 64) : HYP_OK;
}

/* "fused-mlp  [Gemm_0, Relu_1]  by gemm-to-linear, fuse-linear-relu" */
static void print_step(hyp_strbuf *sb, const HypPlan__Program *program, const HypPlan__Step *step)
{
    hyp_strbuf_puts(sb, step->label);
    for (size_t i = 0; i < step->n_sources; i++) {
        hyp_strbuf_puts(sb, i ? ", " : "  [");
        hyp_strbuf_visible(sb, program->source_names[step->sources[i]], false);
        hyp_strbuf_puts(sb, i + 1 == step->n_sources ? "]" : "");
    }
    for (size_t i = 0; i < step->n_rules; i++)
        hyp_strbuf_printf(sb, "%s%s", i ? ", " : "  by ", program->rule_names[step->rules[i]]);
    hyp_strbuf_puts(sb, "\n");
}

/* "12.30 us  fused-mlp: launch 0.3 us + work 12 us (...)" */
static void print_price(hyp_strbuf *sb, const HypPlan__Step *step)
{
    hyp_strbuf_printf(sb, "%.2f us  %s: %s\n", step->predicted_seconds * 1e6, step->label, step->price);
}

static hyp_status copy_steps(owned_report *r, const HypPlan__Program *program, hyp_diag *diag)
{
    hyp_strbuf sb = {0}, prices = {0};
    double *seconds = hyp_arena_zalloc(&r->arena, program->n_steps + 1, sizeof *seconds);
    if (!seconds) return hyp_fail_memory(diag, program->n_steps * sizeof *seconds);
    for (size_t i = 0; i < program->n_steps; i++) {
        print_step(&sb, program, program->steps[i]);
        print_price(&prices, program->steps[i]);
        seconds[i] = program->steps[i]->predicted_seconds;
    }
    r->report.step_seconds = seconds;
    r->report.plan_seconds = hyp_plan_predicted(program);
    r->report.steps = hyp_arena_strdup(&r->arena, hyp_strbuf_text(&sb));
    r->report.prices = hyp_arena_strdup(&r->arena, hyp_strbuf_text(&prices));
    bool failed = sb.failed || prices.failed || !r->report.steps || !r->report.prices;
    hyp_strbuf_dispose(&sb);
    hyp_strbuf_dispose(&prices);
    r->report.plan_steps = program->n_steps;
    return failed ? hyp_fail_memory(diag, 64) : HYP_OK;
}

static bool is_source(const HypPlan__Program *program, const HypPlan__Step *step, const char *node)
{
    for (size_t i = 0; i < step->n_sources; i++)
        if (strcmp(program->source_names[step->sources[i]], node) == 0) return true;
    return false;
}

static hyp_status copy_answer(owned_report *r, const hyp_rewrite_report *rewrite, const HypPlan__Program *program,
                              hyp_strbuf *answer, hyp_diag *diag)
{
    const char *node = rewrite ? rewrite->explained : NULL;
    for (size_t i = 0; node && i < program->n_steps; i++) {
        if (!is_source(program, program->steps[i], node)) continue;
        hyp_strbuf_printf(answer, "step %zu of the plan: ", i);
        print_step(answer, program, program->steps[i]);
        hyp_strbuf_puts(answer, "    ");
        print_price(answer, program->steps[i]);
    }
    r->report.answer = hyp_arena_strdup(&r->arena, hyp_strbuf_text(answer));
    return answer->failed || !r->report.answer ? hyp_fail_memory(diag, answer->len) : HYP_OK;
}

static hyp_status copy_text(owned_report *r, const hyp_strbuf *text, const char **out, hyp_diag *diag)
{
    *out = hyp_arena_strdup(&r->arena, hyp_strbuf_text(text));
    return *out && !text->failed ? HYP_OK : hyp_fail_memory(diag, text->len);
}

hyp_status hyp_report_create(const hyp_rewrite_report *rewrite, const HypPlan__Program *program,
                             const hyp_strbuf *layers, hyp_strbuf *answer, const hyp_strbuf *verified,
                             const hyp_strbuf *cut, hyp_compile_report **out, hyp_diag *diag)
{
    owned_report *r = hyp_calloc(1, sizeof *r);
    if (!r) return hyp_fail_memory(diag, sizeof *r);
    r->report.size = sizeof r->report;
    r->report.stop_reason = "nothing was rewritten";
    r->report.steps = r->report.prices = r->report.layers = r->report.answer = r->report.verified = r->report.cut =
        r->report.run = "";
    hyp_status status = rewrite ? copy_rules(r, rewrite, diag) : HYP_OK;
    if (status == HYP_OK && rewrite) status = copy_phases(r, rewrite, diag);
    if (status == HYP_OK && program) status = copy_steps(r, program, diag);
    if (status == HYP_OK && layers) status = copy_text(r, layers, &r->report.layers, diag);
    if (status == HYP_OK && verified) status = copy_text(r, verified, &r->report.verified, diag);
    if (status == HYP_OK && cut) status = copy_text(r, cut, &r->report.cut, diag);
    if (status == HYP_OK && answer) status = copy_answer(r, rewrite, program, answer, diag);
    if (status == HYP_OK)
        *out = &r->report;
    else
        hyp_compile_report_destroy(&r->report);
    return status;
}

static void put_seconds(hyp_strbuf *sb, const hyp_compile_report *r)
{
    hyp_json_begin(sb, "seconds", '{');
    hyp_json_put_real(sb, "import", r->import_seconds);
    hyp_json_put_real(sb, "rewrite", r->rewrite_seconds);
    hyp_json_put_real(sb, "lower", r->lower_seconds);
    hyp_json_put_real(sb, "verify", r->verify_seconds);
    hyp_json_put_real(sb, "write", r->write_seconds);
    hyp_strbuf_puts(sb, "}");
}

hyp_status hyp_report_add_run(hyp_compile_report *report, const hyp_rewrite_record *record, const hyp_verification *v,
                              hyp_diag *diag)
{
    hyp_strbuf sb = {0};
    hyp_json_begin(&sb, NULL, '{');
    put_seconds(&sb, report);
    hyp_json_put_text(&sb, "verified", report->verified);
    hyp_json_put_bool(&sb, "wrong", report->wrong);
    hyp_json_begin(&sb, "phases", '[');
    hyp_strbuf_puts(&sb, hyp_strbuf_text(&record->times));
    hyp_strbuf_puts(&sb, "]");
    hyp_json_begin(&sb, "outputs", '[');
    hyp_strbuf_puts(&sb, hyp_strbuf_text(&v->found));
    hyp_strbuf_puts(&sb, "]}");
    sb.failed = sb.failed || v->found.failed || record->times.failed;
    hyp_status status = copy_text((owned_report *)report, &sb, &report->run, diag);
    hyp_strbuf_dispose(&sb);
    return status;
}
