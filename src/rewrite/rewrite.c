/* The three phases.
 *
 *   in --normalize--> clean graph --recognize--> graph in normal form --optimize--> out
 *        ruleset                    rulesets                             every ruleset but
 *        normalize;                 recognize, linear;                   recognize, under limits;
 *        the smallest weight        the smallest weight                  the least cost
 *
 * An e-graph for each rather than one. What exporters leave behind is gone before limits count, and only normal forms
 * meet the rules that have inverses. And both of the first phases end on every graph: docs/rules.md says why. */
#include "rewrite/rewrite.h"

#include <math.h>
#include <string.h>

#include "rewrite/job.h"

/* What is predicted to take so much longer with nothing joint may be the faster one: what steps lose to each other side by side
 * is predicted worse than what they take alone. */
#define APART_CLOSE 1.2

/* Defaults. What a large graph may grow to is in proportion to it: a chain of layers takes some 35 e-nodes and 30 KB
 * for each of its nodes to fuse. */
enum { MAX_ITERATIONS = 1000, MAX_NODES = 100000, MAX_BYTES = 1 << 29, NODES_EACH = 64, BYTES_EACH = 1 << 16 };

static const char *const phase_names[HYP_RW_PHASES] = {"normalize", "recognize", "optimize"};

/* ---- phases --------------------------------------------------------------------------------------- */

/* Adds what the rules did in one phase to the report. */
static hyp_status count_rules(hyp_rw_job *j, const hyp_egraph_run_report *run)
{
    hyp_rewrite_report *report = j->report;
    for (size_t i = 0; i < run->rule_count && i < report->rule_count; i++) {
        const hyp_rule_report *from = &run->rules[i];
        hyp_rule_use *use = &report->rules[i];
        use->matches += from->matches;
        use->applications += from->applications;
        use->refused += from->refused;
        use->declined += from->declined;
        use->beyond += from->beyond;
        if (use->refusal || !from->refusal) continue;
        use->refusal = hyp_arena_strdup(&report->arena, from->refusal);
        if (!use->refusal) return hyp_fail_memory(j->diag, strlen(from->refusal));
    }
    return HYP_OK;
}

/* A run knows no reason why it was told to end. */
static hyp_stop stop_of(const hyp_rw_job *j, hyp_stop stop)
{
    bool timed = j->options->limit && j->options->limit->why == HYP_LIMIT_TIME;
    return stop == HYP_STOP_CANCELLED && timed ? HYP_STOP_TIME : stop;
}

static size_t at_least(size_t a, size_t b) { return a > b ? a : b; }

static hyp_progress *progress_of(const hyp_rw_job *j) { return j->options->limit ? j->options->limit->progress : NULL; }

/* Who saturates, for the calls that a run makes. */
typedef struct saturation {
    const hyp_rw *rw;
    hyp_limit *limit;
} saturation;

static bool is_to_stop(void *user)
{
    const saturation *s = user;
    if (s->limit && s->limit->progress) s->limit->progress->e_nodes = hyp_egraph_node_count(s->rw->eg);
    return hyp_limit_reached(s->limit);
}

static void on_iteration(const hyp_iteration_report *iteration, size_t count, void *user)
{
    (void)iteration;
    const saturation *s = user;
    if (s->limit && s->limit->progress) s->limit->progress->iteration = count;
}

/* What a phase did, and which rules have done nothing in it. */
static hyp_status record_run(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, const hyp_rw_rules *names,
                             const hyp_egraph_run_report *run)
{
    hyp_rewrite_report *report = j->report;
    j->idle = hyp_arena_zalloc(&rw->arena, report->rule_count, sizeof *j->idle);
    if (!j->idle) return hyp_fail_memory(j->diag, report->rule_count);
    for (size_t i = 0; i < run->rule_count && i < report->rule_count; i++)
        j->idle[i] = !run->rules[i].applications && hyp_rw_in_phase(report->rules[i].ruleset, p) &&
                     hyp_rw_is_chosen(j->options, report->rules[i].name);
    return hyp_rw_record_run(j->options->record, phase_names[p], run, names, j->diag);
}

static hyp_status saturate(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, const hyp_rw_rules *names, hyp_ruleset *rules)
{
    hyp_rw_tracer tracer = {
        .rw = rw,
        .rules = names,
        .phase = phase_names[p],
        .options = j->options,
        .diag = j->diag,
        .weigh = {.rw = rw, .cost = j->options->cost, .user = j->options->cost_user, .diag = j->diag}};
    saturation running = {rw, j->options->limit};
    hyp_egraph_run_options options = {
        .size = sizeof options,
        .max_iterations = j->options->max_iterations ? j->options->max_iterations : MAX_ITERATIONS,
        .max_nodes = j->options->max_nodes ? j->options->max_nodes : at_least(MAX_NODES, NODES_EACH * j->nodes),
        .max_bytes = at_least(MAX_BYTES, BYTES_EACH * j->nodes),
        .stop = is_to_stop,
        .stop_user = &running,
        .on_rewrite = j->options->trace ? hyp_rw_on_rewrite : NULL,
        .user = &tracer,
        .on_iteration = on_iteration,
        .on_iteration_user = &running};
    hyp_egraph_run_report run;
    hyp_progress_begin(progress_of(j), phase_names[p], 0);
    double start = hyp_limit_clock();
    hyp_status status = hyp_egraph_run(rw->eg, rules, &options, &run, j->diag);
    j->report->phases[p] = (struct hyp_rewrite_phase){.name = phase_names[p],
                                                      .stop = stop_of(j, run.stop),
                                                      .iterations = run.iteration_count,
                                                      .e_nodes = run.e_nodes,
                                                      .e_classes = run.e_classes,
                                                      .peak_bytes = run.peak_bytes};
    j->report->phase_count = (size_t)p + 1;
    if (status == HYP_OK) status = count_rules(j, &run);
    if (status == HYP_OK) hyp_rw_tell_run(j, start, &run);
    if (status == HYP_OK && j->options->record) status = record_run(j, rw, p, names, &run);
    hyp_egraph_run_report_dispose(&run);
    hyp_rw_weigh_dispose(&tracer.weigh);
    hyp_vec_free(&tracer.marks);
    return status != HYP_OK ? status : tracer.status;
}

/* Why the rule that was asked about did nothing in this phase. */
static hyp_status why_not(hyp_rw_job *j, const hyp_rw_inquiry *q, hyp_rw_phase p)
{
    const hyp_rewrite_options *o = j->options;
    size_t i = 0;
    while (strcmp(j->names[i], o->why_not) != 0) i++;
    const hyp_rule_use *use = &j->report->rules[i];
    if (!hyp_rw_in_phase(use->ruleset, p)) return HYP_OK;
    bool first = true;
    for (hyp_rw_phase before = HYP_RW_NORMALIZE; before < p; before++)
        first = first && !hyp_rw_in_phase(use->ruleset, before);
    if (first) hyp_strbuf_printf(q->out, "%s\n", hyp_ruleset_rule(q->rules, i).text);
    if (first && !hyp_rw_is_chosen(o, use->name)) hyp_strbuf_puts(q->out, "the options leave this rule out\n");
    if (first && !o->allow_approximate && strcmp(use->numeric_class, "A") == 0)
        hyp_strbuf_puts(q->out, "it approximates (class A), and that was not allowed\n");
    return hyp_rw_why_not(q, i, j->why_not_node);
}

static hyp_status ask(hyp_rw_job *j, const hyp_rw_inquiry *q, hyp_rw_phase p)
{
    if (j->options->explain) HYP_TRY(hyp_rw_explain(q, j->explain));
    return j->options->why_not ? why_not(j, q, p) : HYP_OK;
}

/* What the plan of a graph takes, and how many of its nodes run. */
static hyp_status price(const hyp_rw_job *j, const hyp_graph *g, hyp_rewrite_price *out, size_t *out_nodes)
{
    const hyp_rewrite_options *o = j->options;
    hyp_diag said = {0};
    HYP_TRY(hyp_rw_graph_cost(g, j->fold, o->cost, o->cost_user, &out->seconds, out_nodes, j->diag));
    out->work = out->seconds;
    out->no_plan = false;
    hyp_status status = o->price ? o->price(g, out, o->price_user, &said) : HYP_OK;
    out->no_plan = status == HYP_ERR_UNSUPPORTED;
    if (status == HYP_OK || out->no_plan) return HYP_OK;
    return hyp_fail(j->diag, status, "%s", said.message);
}

/* A way to weigh e-nodes, and what it chose. */
typedef struct candidate {
    hyp_rw_weigh weigh;
    hyp_extraction choice;
    hyp_graph graph;
    hyp_rewrite_price price; /* of its plan; 0 in the first two phases */
    size_t nodes;
} candidate;

static void dispose_candidate(candidate *c)
{
    hyp_graph_dispose(&c->graph);
    hyp_extraction_dispose(&c->choice);
    hyp_rw_weigh_dispose(&c->weigh);
    *c = (candidate){0};
}

/* JOINED: elementwise operators count as if they ran in the kernels of their readers, where there are such; *out_any
 * is false, and nothing chosen, where there are none. WHOLE: no channels are cut out of images, if that can be. APART:
 * nothing that the graph had apart is put together, if that can be. */
enum { ONE_BY_ONE = 0, JOINED = 1, WHOLE = 2, APART = 4 };
static hyp_status find_candidate(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, const hyp_rw_rules *names, unsigned how,
                                 candidate *out, bool *out_any)
{
    *out = (candidate){.weigh = {.rw = rw,
                                 .cost = j->options->cost,
                                 .user = j->options->cost_user,
                                 .by_form = p != HYP_RW_OPTIMIZE,
                                 .whole_images = how & WHOLE,
                                 .leave_apart = how & APART,
                                 .diag = j->diag}};
    hyp_graph_init(&out->graph, rw->in->dims);
    *out_any = true;
    if (how & APART) HYP_TRY(hyp_rw_find_joint(&out->weigh));
    if (how & JOINED) HYP_TRY(hyp_rw_find_joined(&out->weigh, out_any));
    if (!*out_any) return HYP_OK;
    if (p == HYP_RW_OPTIMIZE) HYP_TRY(hyp_rw_find_in_place(&out->weigh));
    HYP_TRY(hyp_rw_extract(rw, &out->weigh, HYP_NONE, &out->choice, j->diag));
    HYP_TRY(hyp_rw_decode(rw, &out->choice, names, NULL, &out->graph, j->diag));
    return p == HYP_RW_OPTIMIZE ? price(j, &out->graph, &out->price, &out->nodes) : HYP_OK;
}

static bool is_better(const hyp_rewrite_price *a, const hyp_rewrite_price *b)
{
    return hyp_rewrite_rank(a) < hyp_rewrite_rank(b) * (1 - 1e-9);
}

/* Takes what is chosen so, if its plan is the better one. */
static hyp_status try_candidate(hyp_rw_job *j, hyp_rw *rw, const hyp_rw_rules *names, unsigned how, candidate *best)
{
    candidate other;
    bool any;
    hyp_status status = find_candidate(j, rw, HYP_RW_OPTIMIZE, names, how, &other, &any);
    if (status == HYP_OK && any && is_better(&other.price, &best->price)) {
        candidate worse = *best;
        *best = other;
        other = worse;
        best->weigh.whole_images = false; /* what is asked of e-nodes later is what they cost */
    }
    dispose_candidate(&other);
    return status;
}

/* Extraction adds up what e-nodes cost one by one, but which elementwise operators share a kernel, and how images lie, is
 * known only of a whole graph. So it is done as if none did and as if all did, and, where channels are then cut out of
 * images, which all readers may have to turn, once more without. The better plan is taken. */
static hyp_status find_best(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, const hyp_rw_rules *names, candidate *best)
{
    bool any;
    HYP_TRY(find_candidate(j, rw, p, names, ONE_BY_ONE, best, &any));
    if (p != HYP_RW_OPTIMIZE || !j->options->price) return HYP_OK;
    HYP_TRY(try_candidate(j, rw, names, JOINED, best));
    if (!best->weigh.cuts_images || !hyp_rw_cuts_images(&best->graph)) return HYP_OK;
    return try_candidate(j, rw, names, WHOLE | (best->weigh.joined ? JOINED : ONE_BY_ONE), best);
}

/* Leaves apart what extraction has put together, where the plan is then the better one. */
static hyp_status undo(hyp_rw_job *j, hyp_rw *rw, const hyp_rw_rules *names, candidate *best)
{
    const hyp_rewrite_options *o = j->options;
    size_t changed = 0, bytes = best->choice.class_bound * sizeof *best->choice.choice;
    if (!o->price || o->streams < 2) return HYP_OK;
    candidate apart = {.choice = best->choice};
    hyp_graph_init(&apart.graph, rw->in->dims);
    apart.choice.choice = hyp_malloc(bytes + 1);
    if (!apart.choice.choice) return hyp_fail_memory(j->diag, bytes);
    memcpy(apart.choice.choice, best->choice.choice, bytes);
    hyp_status status = hyp_rw_undo(&best->weigh, o, &apart.choice, &changed);
    if (status == HYP_OK && changed) status = hyp_rw_decode(rw, &apart.choice, names, NULL, &apart.graph, j->diag);
    if (status == HYP_OK && changed) status = price(j, &apart.graph, &apart.price, &apart.nodes);
    if (status == HYP_OK && changed && is_better(&apart.price, &best->price)) {
        candidate worse = {.choice = best->choice, .graph = best->graph};
        best->choice.choice = apart.choice.choice; /* what is known of the sum was found before */
        best->graph = apart.graph;
        best->price = apart.price;
        best->nodes = apart.nodes;
        apart.choice.choice = worse.choice.choice;
        apart.graph = worse.graph;
    }
    hyp_graph_dispose(&apart.graph);
    hyp_free(apart.choice.choice);
    return status;
}

/* What a graph is in a race: moved there. */
static void enter(hyp_rw_entrant *out, candidate *c)
{
    *out = (hyp_rw_entrant){c->graph, c->price, c->nodes, true};
    hyp_graph_init(&c->graph, out->graph.dims);
}

/* For who can time it, keeps beside what is predicted to be the best what has nothing joint, if that is another plan that is
 * predicted to take about as long. */
static hyp_status leave_apart(hyp_rw_job *j, hyp_rw *rw, const hyp_rw_rules *names, const candidate *best)
{
    const hyp_rewrite_options *o = j->options;
    candidate apart;
    bool any;
    if (!o->choose || !o->price || hyp_limit_reached(o->limit)) return HYP_OK;
    unsigned how = APART | (best->weigh.joined ? JOINED : ONE_BY_ONE);
    hyp_status status = find_candidate(j, rw, HYP_RW_OPTIMIZE, names, how, &apart, &any);
    bool enters = status == HYP_OK && any && !apart.price.no_plan && apart.price.steps != best->price.steps &&
                  apart.price.seconds <= APART_CLOSE * best->price.seconds;
    if (enters) enter(&j->apart, &apart);
    dispose_candidate(&apart);
    return status;
}

/* Changes parts on the advice of who can time them. What was predicted to be the best is kept beside it. */
static hyp_status choose_parts(hyp_rw_job *j, hyp_rw *rw, const hyp_rw_rules *names, candidate *best)
{
    const hyp_rewrite_options *o = j->options;
    size_t changed;
    if (!o->choose || !o->price) return HYP_OK;
    HYP_TRY(hyp_rw_choose_parts(&best->weigh, o, names, best->price.seconds, &best->choice, &changed));
    if (changed == 0) return HYP_OK;
    j->report->parts_changed = changed;
    enter(&j->predicted, best);
    HYP_TRY(hyp_rw_decode(rw, &best->choice, names, NULL, &best->graph, j->diag));
    return price(j, &best->graph, &best->price, &best->nodes);
}

static double gap_of(const hyp_extraction *choice)
{
    if (choice->proven || !(choice->dag_cost > 0)) return 0;
    return fmin(1, fmax(0, 1 - choice->lower_bound / choice->dag_cost));
}

static hyp_status extract(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, const hyp_rw_rules *names, hyp_ruleset *rules,
                          hyp_graph *out)
{
    candidate best;
    if (p == HYP_RW_OPTIMIZE) hyp_progress_begin(progress_of(j), "extract", 0);
    hyp_status status = find_best(j, rw, p, names, &best);
    if (status == HYP_OK && p == HYP_RW_OPTIMIZE) status = undo(j, rw, names, &best);
    if (status == HYP_OK && p == HYP_RW_OPTIMIZE) status = leave_apart(j, rw, names, &best);
    if (status == HYP_OK && p == HYP_RW_OPTIMIZE) status = choose_parts(j, rw, names, &best);
    hyp_rw_inquiry q = {.rw = rw,
                        .names = names,
                        .rules = rules,
                        .phase = phase_names[p],
                        .choice = &best.choice,
                        .weigh = &best.weigh,
                        .out = j->options->answer,
                        .diag = j->diag};
    if (status == HYP_OK) {
        j->report->phases[p].proven = best.choice.proven;
        j->report->phases[p].gap = gap_of(&best.choice);
        j->report->phases[p].unfolded = rw->unfolded;
    }
    if (status == HYP_OK) status = ask(j, &q, p);
    if (status == HYP_OK && p == HYP_RW_OPTIMIZE && j->options->dump)
        status = hyp_rw_dump(&q, j->options->dump, j->dump_around);
    if (status == HYP_OK && j->options->record && rules) status = hyp_rw_record_phase(&q, j->options, j->idle);
    if (status == HYP_OK && p == HYP_RW_OPTIMIZE) {
        j->price = best.price;
        j->report->nodes_after = best.nodes;
    }
    if (status == HYP_OK) {
        hyp_graph_dispose(out);
        *out = best.graph;
        hyp_graph_init(&best.graph, out->dims);
    }
    dispose_candidate(&best);
    return status;
}

static hyp_status run_in(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, const hyp_graph *in, hyp_graph *out)
{
    hyp_ruleset *rules;
    HYP_TRY(hyp_rw_encode(rw, in, j->diag));
    HYP_TRY(hyp_rw_read_rules(j, rw, p, &rules));
    if (p == HYP_RW_NORMALIZE) HYP_TRY(hyp_rw_check_names(j));
    hyp_rw_rules names = {j->names, j->report->rule_count};
    rw->keeps_bits = rw->keeps_bits && !j->options->allow_approximate;
    if (rules) {
        hyp_rw_guard(rw, rules);
        hyp_rw_enable_rules(j, rules, p);
        HYP_TRY(saturate(j, rw, p, &names, rules));
    }
    double start = hyp_limit_clock();
    HYP_TRY(extract(j, rw, p, &names, rules, out));
    hyp_rw_span(j, &(hyp_rewrite_span){.kind = "part", .name = "extract", .start = start, .seconds = hyp_limit_clock() - start});
    return HYP_OK;
}

/* Whether nothing is left to do in this phase but to take the graph as it is. The first one reads the rules, and
 * questions are answered in all. */
static bool is_too_late(const hyp_rw_job *j, hyp_rw_phase p)
{
    return p != HYP_RW_NORMALIZE && !j->options->dump && !j->options->explain && !j->options->why_not &&
           hyp_limit_reached(j->options->limit);
}

static hyp_status run_phase(hyp_rw_job *j, hyp_rw_phase p, const hyp_graph *in, hyp_graph *out)
{
    if (is_too_late(j, p)) {
        j->report->phases[p] =
            (struct hyp_rewrite_phase){.name = phase_names[p], .stop = stop_of(j, HYP_STOP_CANCELLED)};
        j->report->phase_count = (size_t)p + 1;
        return hyp_graph_copy_live(in, out, j->diag);
    }
    hyp_rw rw = {.fold = *j->fold, .limit = j->options->limit};
    double start = hyp_limit_clock();
    hyp_status status = run_in(j, &rw, p, in, out);
    if (status != HYP_OK) hyp_diag_prefix(j->diag, "%s", phase_names[p]);
    hyp_rw_dispose(&rw);
    j->report->phases[p].seconds = hyp_limit_clock() - start;
    hyp_rw_span(j, &(hyp_rewrite_span){
                       .kind = "phase", .name = phase_names[p], .start = start, .seconds = j->report->phases[p].seconds});
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static void count_used(const hyp_graph *g, hyp_rewrite_report *report)
{
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_provenance *from = &g->nodes.data[i].from;
        for (uint32_t k = 0; k < from->rule_count; k++)
            for (size_t r = 0; r < report->rule_count; r++)
                if (strcmp(report->rules[r].name, from->rules[k]) == 0) report->rules[r].used++;
    }
}

/* The node of the model that is meant: by its own name, or that of a value which it computes. */
static hyp_status find_source(const hyp_graph *in, const char *wanted, const char **out, hyp_diag *diag)
{
    const char *of_value = NULL;
    const char **names = hyp_calloc(in->nodes.len + 1, sizeof *names);
    if (!names) return hyp_fail_memory(diag, in->nodes.len * sizeof *names);
    size_t count = 0;
    *out = NULL;
    for (size_t i = 0; i < in->nodes.len && !*out; i++) {
        const hyp_node *n = &in->nodes.data[i];
        if (!n->from.source_count) continue;
        names[count++] = n->from.sources[0];
        for (uint32_t k = 0; k < n->from.source_count; k++)
            if (strcmp(n->from.sources[k], wanted) == 0) *out = n->from.sources[k];
        for (uint32_t k = 0; k < n->output_count; k++) {
            const char *name = in->values.data[n->outputs[k]].name;
            if (name && strcmp(name, wanted) == 0) of_value = n->from.sources[0];
        }
    }
    if (!*out) *out = of_value;
    const char *near = *out ? NULL : hyp_nearest(wanted, names);
    hyp_free(names);
    if (*out) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the model has no node and no value '%s'%s%s%s", wanted,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void note_best(const hyp_rw_job *j, const hyp_rewrite_price *found)
{
    hyp_progress *p = progress_of(j);
    if (p && !found->no_plan && (p->best == 0 || found->seconds < p->best)) p->best = found->seconds;
}

static hyp_status run_all(hyp_rw_job *j, const hyp_graph *in, hyp_graph *folded, hyp_graph *clean, hyp_graph *normal,
                          hyp_graph *out)
{
    const hyp_rewrite_options *o = j->options;
    hyp_rewrite_report *report = j->report;
    hyp_rw_origin from = {.in = in, .normal = normal};
    if (o->explain) {
        HYP_TRY(find_source(in, o->explain, &j->explain, j->diag));
        report->explained = hyp_arena_strdup(&report->arena, j->explain);
        if (!report->explained) return hyp_fail_memory(j->diag, strlen(j->explain));
    }
    if (o->why_not_node) HYP_TRY(find_source(in, o->why_not_node, &j->why_not_node, j->diag));
    if (o->dump) j->dump_around = o->dump->around;
    if (j->dump_around && j->dump_around[0] != '@')
        HYP_TRY(find_source(in, j->dump_around, &j->dump_around, j->diag));
    HYP_TRY(price(j, in, &from.price, &report->nodes_before));
    report->cost_before = from.price.seconds;
    note_best(j, &from.price);
    hyp_progress_begin(progress_of(j), "fold", 0);
    HYP_TRY(hyp_graph_fold(in, j->fold, folded, j->diag));
    HYP_TRY(run_phase(j, HYP_RW_NORMALIZE, folded, clean));
    HYP_TRY(run_phase(j, HYP_RW_RECOGNIZE, clean, normal));
    HYP_TRY(price(j, normal, &from.normal_price, &from.normal_nodes));
    j->price = from.normal_price; /* for a phase that is left out */
    note_best(j, &from.normal_price);
    report->nodes_after = from.normal_nodes;
    HYP_TRY(run_phase(j, HYP_RW_OPTIMIZE, normal, out));
    HYP_TRY(hyp_rw_keep_what_came(j, &from, out));
    HYP_TRY(hyp_rw_choose_whole(j, &from, out));
    report->cost_after = j->price.seconds;
    note_best(j, &j->price);
    if (o->record) hyp_rw_record_forms(j, &from);
    count_used(out, report);
    return hyp_graph_verify(out, j->diag);
}

hyp_status hyp_rewrite(const hyp_graph *in, const hyp_rewrite_options *options, hyp_graph *out,
                       hyp_rewrite_report *report, hyp_diag *diag)
{
    hyp_graph folded, clean, normal;
    hyp_fold_budget fold = hyp_fold_budget_of(in, options->fold.bytes, options->fold.flops);
    hyp_rw_job j = {.options = options, .nodes = in->nodes.len, .fold = &fold, .report = report, .diag = diag};
    *report = (hyp_rewrite_report){0};
    if (!options->cost) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "rewriting needs a cost model");
    hyp_graph_init(&folded, in->dims);
    hyp_graph_init(&clean, in->dims);
    hyp_graph_init(&normal, in->dims);
    hyp_graph_init(&j.predicted.graph, in->dims);
    hyp_graph_init(&j.apart.graph, in->dims);
    hyp_status status = run_all(&j, in, &folded, &clean, &normal, out);
    hyp_graph_dispose(&j.apart.graph);
    hyp_graph_dispose(&j.predicted.graph);
    hyp_graph_dispose(&normal);
    hyp_graph_dispose(&clean);
    hyp_graph_dispose(&folded);
    if (status != HYP_OK) hyp_rewrite_report_dispose(report);
    return status;
}

void hyp_rewrite_report_dispose(hyp_rewrite_report *report)
{
    hyp_arena_dispose(&report->arena);
    *report = (hyp_rewrite_report){0};
}

static hyp_status list_in(hyp_rw_job *j, hyp_rw *rw, hyp_dims *dims)
{
    hyp_ruleset *rules;
    HYP_TRY(hyp_rw_init(rw, dims, j->diag));
    HYP_TRY(hyp_rw_read_rules(j, rw, HYP_RW_NORMALIZE, &rules));
    HYP_TRY(hyp_rw_check_names(j));
    hyp_rewrite_report *report = j->report;
    size_t kept = 0;
    for (size_t i = 0; i < report->rule_count; i++)
        if (hyp_rw_is_chosen(j->options, report->rules[i].name)) report->rules[kept++] = report->rules[i];
    report->rule_count = kept;
    return HYP_OK;
}

hyp_status hyp_rewrite_list(const hyp_rewrite_options *options, hyp_rewrite_report *report, hyp_diag *diag)
{
    hyp_rw rw = {0};
    hyp_dims *dims;
    hyp_rw_job j = {.options = options, .report = report, .diag = diag};
    *report = (hyp_rewrite_report){0};
    HYP_TRY(hyp_dims_create(&dims, diag));
    hyp_status status = list_in(&j, &rw, dims);
    hyp_rw_dispose(&rw);
    hyp_dims_destroy(dims);
    if (status != HYP_OK) hyp_rewrite_report_dispose(report);
    return status;
}
