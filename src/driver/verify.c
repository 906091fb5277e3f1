/* verify.c - the plan against the imported graph, which no rule has touched, on sample inputs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "driver/driver.h"
#include "base/loop.h"

/* ---- what is expected ----------------------------------------------------------------------------------- */

void hyp_used_classes(const hyp_settings *settings, const hyp_rewrite_report *rewrite, char out[HYP_CLASSES])
{
    size_t count = 0;
    for (const char *c = "EZNRA"; *c; c++) {
        bool used = *c == 'E' || strchr(settings->body_classes, *c);
        for (size_t i = 0; rewrite && i < rewrite->rule_count; i++)
            used = used || (rewrite->rules[i].used && rewrite->rules[i].numeric_class[0] == *c);
        if (used) out[count++] = *c;
    }
    out[count] = '\0';
}

static hyp_status expect_sample(const hyp_verification *v, const hyp_expect_options *o, hyp_sample *s, hyp_diag *diag)
{
    return hyp_expect_outputs(v->graph, o, s->inputs, v->graph->inputs.len, &s->values, &s->tolerances, diag);
}

/* The first attempt, from `first` on, that the graph takes; false with the reason of the first one when it takes none.
 */
static hyp_status draw_sample(hyp_verification *v, const hyp_expect_options *o, hyp_draw how, int first,
                              bool *out_found, hyp_diag *why, hyp_diag *diag)
{
    hyp_diag reason = {0};
    *out_found = false;
    for (int attempt = first; attempt < HYP_DRAW_ATTEMPTS; attempt++) {
        hyp_sample s = {0};
        hyp_status status = hyp_sample_draw(v->graph, v->settings, how, attempt, &s, &reason);
        if (status == HYP_OK) status = expect_sample(v, o, &s, &reason);
        if (status == HYP_OK) {
            v->samples[v->count++] = s;
            *out_found = true;
            return HYP_OK;
        }
        hyp_sample_dispose(v->graph, &s);
        if (status == HYP_ERR_NO_MEMORY) return hyp_fail(diag, status, "%s", reason.message);
        if (attempt == first) *why = reason;
    }
    return HYP_OK;
}

typedef struct given {
    hyp_verification *v;
    const hyp_expect_options *options;
} given;

static hyp_status copy_tensor(const hyp_tensor *from, hyp_tensor *out, hyp_diag *diag)
{
    hyp_tensor t = *from;
    HYP_TRY(hyp_tensor_alloc(&t, diag));
    if (t.bytes > from->bytes) {
        hyp_tensor_dispose(&t);
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the sample of input '%s' has %zu bytes, its dims want more",
                        from->name, from->bytes);
    }
    if (t.bytes) memcpy(t.data, from->data, t.bytes);
    *out = t;
    return HYP_OK;
}

static hyp_status take_sample(void *user, const hyp_tensor *inputs, size_t count, hyp_diag *diag)
{
    given *c = user;
    hyp_verification *v = c->v;
    const hyp_graph *g = v->graph;
    if (v->count == HYP_MOST_SAMPLES) return HYP_OK;
    hyp_sample *s = &v->samples[v->count];
    s->inputs = hyp_calloc(g->inputs.len + 1, sizeof *s->inputs);
    s->drawn = hyp_calloc(g->inputs.len + 1, sizeof *s->drawn);
    if (!s->inputs || !s->drawn) return hyp_fail_memory(diag, g->inputs.len * sizeof *s->inputs);
    v->count++;
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_tensor *t = hyp_find_input(g, i, inputs, count);
        const char *name = g->values.data[g->inputs.data[i]].name;
        if (!t && i >= hyp_graph_shown_inputs(g)) {
            HYP_TRY(hyp_draw_variable(g, i - hyp_graph_shown_inputs(g), &s->inputs[i], diag));
            continue;
        }
        if (!t) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "no sample was given for input '%s'", name);
        s->drawn[i].given = true;
        HYP_TRY(copy_tensor(t, &s->inputs[i], diag));
        s->inputs[i].name = name;
    }
    return expect_sample(v, c->options, s, diag);
}

/* ---- deciding ------------------------------------------------------------------------------------------- */

/* What samples are drawn. */
typedef struct drawing {
    int count, attempt; /* the kinds below `count`, from this attempt on */
} drawing;

/* By counted work: below a second or a tenth of the compilation everything is verified, strictly; else one sample, of sizes
 * of 1 where others take too long; where those do, too, nothing. */
static hyp_status choose_by_cost(hyp_verification *v, double compiled, drawing *out, hyp_diag *diag)
{
    double most = fmax(1, compiled / 10), part = fmax(2 * most, 15 * hyp_storing_seconds(v->graph)), all = 0, one = 0;
    for (int i = 0; i < HYP_DRAW_COUNT; i++) {
        HYP_TRY(hyp_sample_seconds(v->graph, v->settings, (hyp_draw)i, 0, &one, diag));
        all += one;
    }
    if (all < most) return HYP_OK;
    v->mode = HYP_VERIFY_WARN;
    for (int attempt = 0; attempt <= HYP_DRAW_SMALLEST; attempt += HYP_DRAW_SMALLEST) {
        *out = (drawing){1, attempt};
        HYP_TRY(hyp_sample_seconds(v->graph, v->settings, HYP_DRAW_ORDINARY, attempt, &one, diag));
        if (one < part) return HYP_OK;
    }
    hyp_strbuf_printf(
        &v->text,
        "not verified: one sample would take the reference interpreter about %.0f seconds; --verify strict or "
        "warn does it",
        one);
    v->mode = HYP_VERIFY_OFF;
    return HYP_OK;
}

/* A node that nothing here computes; NULL where there is none. */
static const hyp_node *find_opaque(const hyp_graph *g)
{
    for (size_t i = 0; i < g->nodes.len; i++)
        if (hyp_node_has(g, &g->nodes.data[i], HYP_OPF_OPAQUE)) return &g->nodes.data[i];
    return NULL;
}

static hyp_status choose(hyp_verification *v, double compiled, drawing *out, hyp_diag *diag)
{
    const char *wanted = v->settings->options.verify;
    const hyp_node *opaque = find_opaque(v->graph);
    char what[256];
    if (opaque && strcmp(opaque->attrs[0].sym, HYP_LOOP_OPERATOR) == 0)
        snprintf(what, sizeof what, "the runtime alone runs the trips of its loops, whose bodies are plans of their own");
    else if (opaque)
        snprintf(what, sizeof what, "the custom operator %s is computed by a kernel that is not here", opaque->attrs[0].sym);
    *out = (drawing){HYP_DRAW_COUNT, 0};
    if (opaque && wanted && strcmp(wanted, "strict") == 0)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the plan cannot be verified: %s", what);
    if (opaque) {
        hyp_strbuf_printf(&v->text, "not verified: %s", what);
        v->mode = HYP_VERIFY_OFF;
        return HYP_OK;
    }
    if (!v->settings->options.run_plan) {
        hyp_strbuf_puts(&v->text, "not verified: there is no runtime here (hyp_compile_options.run_plan)");
        v->mode = HYP_VERIFY_OFF;
        return HYP_OK;
    }
    if (wanted && strcmp(wanted, "off") == 0) {
        hyp_strbuf_puts(&v->text, "not verified: verification is off");
        v->mode = HYP_VERIFY_OFF;
        return HYP_OK;
    }
    v->mode = wanted && strcmp(wanted, "warn") == 0 ? HYP_VERIFY_WARN : HYP_VERIFY_STRICT;
    return wanted ? HYP_OK : choose_by_cost(v, compiled, out, diag);
}

hyp_status hyp_verification_prepare(hyp_verification *v, const hyp_graph *imported, const hyp_settings *settings,
                                    const hyp_rewrite_report *rewrite, hyp_diag *diag)
{
    drawing draws;
    *v = (hyp_verification){.graph = imported, .settings = settings};
    HYP_TRY(choose(v, hyp_compile_seconds(imported, rewrite), &draws, diag));
    if (v->mode == HYP_VERIFY_OFF) return HYP_OK;
    const hyp_compile_options *o = &settings->options;
    char classes[HYP_CLASSES];
    hyp_used_classes(settings, rewrite, classes);
    hyp_expect_options e = hyp_expectation(settings->precision, classes);
    given c = {v, &e};
    double start = hyp_limit_clock();
    hyp_progress_begin(settings->progress, "expect", o->samples_count ? 0 : (uint64_t)draws.count);
    hyp_diag why = {0};
    if (o->samples_count > 0) {
        hyp_status status = hyp_for_samples(imported, o->samples, o->samples_count, take_sample, &c, diag);
        if (status != HYP_OK) return status;
    }
    bool narrow = e.unit > 0;
    for (int i = 0; i < draws.count && o->samples_count == 0; i++) {
        bool found;
        if (narrow && i == HYP_DRAW_EDGES) continue; /* infinities and what overflows are no matter of a narrow type */
        HYP_TRY(draw_sample(v, &e, (hyp_draw)i, draws.attempt, &found, &why, diag));
        hyp_progress_add(settings->progress, 1);
    }
    v->seconds = hyp_limit_clock() - start;
    if (v->count > 0) return HYP_OK;
    if (o->verify && v->mode == HYP_VERIFY_STRICT)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "the plan cannot be verified: the model takes none of the inputs that were drawn (%s); give "
                        "some with --samples (hyp_compile_options.samples)",
                        why.message);
    hyp_strbuf_printf(&v->text,
                      "not verified: the model takes none of the inputs that were drawn (%s); --samples gives some",
                      why.message);
    v->mode = HYP_VERIFY_OFF;
    return HYP_OK;
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

static const char *kind_of(const hyp_sample *s, size_t inputs)
{
    static const char *const names[] = {"ordinary", "wide", "edge"};
    if (inputs == 0) return "only";
    return s->drawn[0].given ? "given" : names[s->drawn[0].how];
}

const char *hyp_sample_kind(const hyp_verification *v, size_t sample)
{
    return kind_of(&v->samples[sample], v->graph->inputs.len);
}

/* "[3 17]" */
static void print_place(hyp_strbuf *sb, const hyp_tensor *t, int64_t flat)
{
    int64_t index[HYP_MAX_RANK];
    for (int32_t a = t->rank - 1; a >= 0; a--) {
        index[a] = flat % t->dims[a];
        flat /= t->dims[a];
    }
    hyp_strbuf_puts(sb, "[");
    for (int32_t a = 0; a < t->rank; a++) hyp_strbuf_printf(sb, "%s%lld", a ? " " : "", (long long)index[a]);
    hyp_strbuf_puts(sb, "]");
}

static void describe_fault(hyp_verification *v, const hyp_sample *s, const char *name, const hyp_tensor *got,
                           const hyp_tensor *wanted, const hyp_judgement *j)
{
    hyp_strbuf *sb = &v->fault;
    hyp_strbuf_printf(sb, "output '%s'", name);
    print_place(sb, got, j->worst_at);
    hyp_strbuf_printf(sb, " is %.9g, wanted %.9g", hyp_tensor_at(got, j->worst_at), hyp_tensor_at(wanted, j->worst_at));
    if (j->worst_allowed > 0)
        hyp_strbuf_printf(sb, " within %.2g", j->worst_allowed);
    else
        hyp_strbuf_puts(sb, " exactly");
    hyp_strbuf_printf(sb, " (%s sample; %lld of %lld elements are wrong)", kind_of(s, v->graph->inputs.len),
                      (long long)j->outside, (long long)j->elements);
}

/* The totals of all outputs of all samples. */
typedef struct totals {
    double difference, allowed, part;
    int64_t elements, undecided;
} totals;

/* Whether the output has the size that the data say; *out_known is false where a rounding decides what that is. */
static bool has_size(hyp_verification *v, const hyp_sample *s, size_t output, const hyp_tensor *got, bool *out_known)
{
    const hyp_graph *g = v->graph;
    *out_known = true;
    for (size_t i = 0; i < g->sizes.len; i++) {
        const hyp_data_size *d = &g->sizes.data[i];
        int64_t wanted = s->values[output].dims[d->axis], is = got->dims[d->axis];
        if (d->output != output) continue;
        *out_known = hyp_tensor_at(&s->tolerances[d->count], 0) == 0;
        if (!*out_known || is == wanted) continue;
        v->failed = true;
        if (v->fault.len == 0)
            hyp_strbuf_printf(&v->fault, "output '%s' has %lld along axis %u, wanted %lld", g->outputs.data[output].name,
                              (long long)is, d->axis, (long long)wanted);
        return false;
    }
    return true;
}

/* Outputs that are judged: those that are shown, and what variables become. */
static size_t judged_count(const hyp_graph *g) { return hyp_graph_shown(g) + g->variables.len; }

static size_t judged_output(const hyp_graph *g, size_t i)
{
    size_t shown = hyp_graph_shown(g);
    return i < shown ? i : g->variables.data[i - shown].output;
}

static void put_found(hyp_verification *v, const hyp_sample *s, const char *output, const hyp_judgement *j)
{
    hyp_strbuf *sb = &v->found;
    hyp_json_begin(sb, NULL, '{');
    hyp_json_put_text(sb, "sample", kind_of(s, v->graph->inputs.len));
    hyp_json_put_text(sb, "output", output);
    hyp_json_put_count(sb, "elements", (size_t)j->elements);
    hyp_json_put_count(sb, "undecided", (size_t)j->undecided);
    hyp_json_put_count(sb, "wrong", (size_t)j->outside);
    hyp_json_put_real(sb, "difference", j->worst_at < 0 ? 0 : j->worst_abs);
    hyp_json_put_real(sb, "allowed", j->worst_at < 0 ? 0 : j->worst_allowed);
    hyp_strbuf_puts(sb, "}");
}

static hyp_status judge_sample(hyp_verification *v, const hyp_sample *s, const hyp_tensor *got, totals *t,
                               hyp_diag *diag)
{
    hyp_cut_outputs(v->graph, s->values, s->tolerances);
    for (size_t k = 0; k < judged_count(v->graph); k++) {
        hyp_judgement j = {.size = sizeof j};
        size_t i = judged_output(v->graph, k);
        bool known;
        if (!has_size(v, s, i, &got[k], &known)) continue;
        if (!known) {
            int64_t count = hyp_tensor_elements(&got[k]);
            t->elements += count;
            t->undecided += count;
            continue;
        }
        HYP_TRY(hyp_tensor_judge(&got[k], &s->values[i], &s->tolerances[i], &j, diag));
        put_found(v, s, v->graph->outputs.data[i].name, &j);
        if (j.outside && v->fault.len == 0)
            describe_fault(v, s, v->graph->outputs.data[i].name, &got[k], &s->values[i], &j);
        v->failed = v->failed || j.outside;
        t->elements += j.elements;
        t->undecided += j.undecided;
        double part = j.worst_at < 0 || j.worst_abs == 0 ? 0 : j.worst_abs / j.worst_allowed;
        if (j.worst_at < 0 || part < t->part || (part == t->part && j.worst_allowed < t->allowed)) continue;
        *t = (totals){j.worst_abs, j.worst_allowed, part, t->elements, t->undecided};
    }
    return HYP_OK;
}

static void summarize(hyp_verification *v, const totals *t)
{
    hyp_strbuf *sb = &v->text;
    hyp_strbuf_printf(sb, "verified: %s%s, %zu sample%s", v->mode == HYP_VERIFY_STRICT ? "strict" : "to warn",
                      v->mode == HYP_VERIFY_WARN && !v->settings->options.verify ? " and in part, by its cost" : "",
                      v->count, v->count == 1 ? "" : "s");
    if (v->failed) {
        hyp_strbuf_puts(sb, ", WRONG: ");
        hyp_strbuf_puts(sb, hyp_strbuf_text(&v->fault));
    } else if (t->elements == t->undecided) {
        hyp_strbuf_puts(sb, ", nothing could be decided");
    } else if (t->part == 0) {
        hyp_strbuf_puts(sb, ", no difference");
    } else {
        hyp_strbuf_printf(sb, ", largest difference %.2g of %.2g allowed", t->difference, t->allowed);
    }
    if (t->undecided && !v->failed)
        hyp_strbuf_printf(sb, "; undecided: %lld of %lld elements", (long long)t->undecided, (long long)t->elements);
}

/* Memory for what the plan gives for one sample. */
static hyp_status make_outputs(const hyp_graph *g, const hyp_sample *s, hyp_tensor *out, hyp_diag *diag)
{
    for (size_t i = 0; i < judged_count(g); i++) {
        hyp_tensor t = s->values[judged_output(g, i)];
        if (i >= hyp_graph_shown(g)) t.name = hyp_graph_variable(g, i - hyp_graph_shown(g))->name;
        HYP_TRY(hyp_tensor_alloc(&t, diag));
        out[i] = t;
    }
    return HYP_OK;
}

static hyp_status run_and_judge(hyp_verification *v, const char *plan, hyp_plan_run *runs, hyp_diag *diag)
{
    const hyp_graph *g = v->graph;
    for (size_t i = 0; i < v->count; i++) {
        hyp_tensor *outputs = hyp_calloc(g->outputs.len + 1, sizeof *outputs);
        if (!outputs) return hyp_fail_memory(diag, g->outputs.len * sizeof *outputs);
        runs[i] = (hyp_plan_run){v->samples[i].inputs, g->inputs.len, outputs, judged_count(g)};
        HYP_TRY(make_outputs(g, &v->samples[i], outputs, diag));
    }
    const hyp_compile_options *o = &v->settings->options;
    hyp_diag why = {0};
    hyp_status status = o->run_plan(plan, runs, v->count, o->run_plan_user, &why);
    if (status == HYP_ERR_NO_MEMORY) return hyp_fail(diag, status, "%s", why.message);
    if (status == HYP_ERR_DEVICE || status == HYP_ERR_UNSUPPORTED) {
        if (o->verify && v->mode == HYP_VERIFY_STRICT)
            return hyp_fail(diag, status, "the plan cannot be verified here: %s", why.message);
        hyp_strbuf_printf(&v->text, "not verified: the plan does not run here (%s)", why.message);
        return HYP_OK;
    }
    totals t = {.part = -1};
    if (status != HYP_OK) {
        v->failed = true;
        hyp_strbuf_printf(&v->fault, "the plan does not run: %s", why.message);
    }
    for (size_t i = 0; i < v->count && status == HYP_OK; i++)
        HYP_TRY(judge_sample(v, &v->samples[i], runs[i].outputs, &t, diag));
    v->ran = true;
    summarize(v, &t);
    return HYP_OK;
}

hyp_status hyp_verification_run(hyp_verification *v, const char *plan, hyp_diag *diag)
{
    if (v->mode == HYP_VERIFY_OFF || v->count == 0) return HYP_OK;
    hyp_progress_begin(v->settings->progress, "verify", 0);
    double start = hyp_limit_clock();
    hyp_plan_run runs[HYP_MOST_SAMPLES] = {{0}};
    hyp_status status = run_and_judge(v, plan, runs, diag);
    for (size_t i = 0; i < v->count; i++) {
        for (size_t k = 0; runs[i].outputs && k < v->graph->outputs.len; k++) hyp_tensor_dispose(&runs[i].outputs[k]);
        hyp_free(runs[i].outputs);
    }
    v->seconds += hyp_limit_clock() - start;
    if (status == HYP_OK && v->failed && v->mode == HYP_VERIFY_STRICT)
        return hyp_fail(diag, HYP_ERR_MISMATCH, "the plan is wrong: %s", hyp_strbuf_text(&v->fault));
    return status;
}

void hyp_verification_dispose(hyp_verification *v)
{
    for (size_t i = 0; i < HYP_MOST_SAMPLES; i++)
        if (v->graph) hyp_sample_dispose(v->graph, &v->samples[i]);
    hyp_strbuf_dispose(&v->text);
    hyp_strbuf_dispose(&v->fault);
    hyp_strbuf_dispose(&v->found);
    *v = (hyp_verification){0};
}
