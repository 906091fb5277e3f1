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

#include "rewrite/builtin.h"
#include "rewrite/internal.h"

/* Defaults. What a large graph may grow to is in proportion to it: a chain of layers takes some 35 e-nodes and 30 KB
 * for each of its nodes to fuse. */
enum { MAX_ITERATIONS = 1000, MAX_NODES = 100000, MAX_BYTES = 1 << 29, NODES_EACH = 64, BYTES_EACH = 1 << 16 };

typedef enum phase { NORMALIZE, RECOGNIZE, OPTIMIZE, PHASES } phase;
static const char *const phase_names[PHASES] = {"normalize", "recognize", "optimize"};

/* One rewriting. */
typedef struct job {
    const hyp_rewrite_options *options;
    size_t nodes;                /* of the graph that is rewritten */
    const hyp_fold_budget *fold; /* of constants, in all phases */
    hyp_rewrite_report *report;
    const char **names;                 /* of the report's rules, which are those of every phase's ruleset */
    const char *explain, *why_not_node; /* the questions' nodes, as the model names them */
    hyp_graph predicted;                /* what the cost model has chosen, where parts of it were changed */
    double predicted_seconds;
    size_t predicted_nodes;
    hyp_diag *diag;
} job;

/* ---- rules ---------------------------------------------------------------------------------------- */

static const char *keep_stem(hyp_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    return hyp_arena_strndup(arena, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

/* Text i of those to read, the built-in ones first; false after the last. */
static bool rule_text(const hyp_rewrite_options *options, size_t i, const char **out_file, const char **out_text)
{
    size_t builtin = options->no_builtin ? 0 : hyp_builtin_rules_count;
    if (i >= builtin + options->rule_file_count) return false;
    *out_file = i < builtin ? hyp_builtin_rules[i].name : options->rule_files[i - builtin];
    *out_text = i < builtin ? hyp_builtin_rules[i].text : options->rule_texts[i - builtin];
    return true;
}

static hyp_status keep_rules(job *j, hyp_ruleset *rules, size_t first, const char *file)
{
    hyp_rewrite_report *report = j->report;
    const char *stem = keep_stem(&report->arena, file);
    for (size_t i = first; stem && i < hyp_ruleset_count(rules); i++) {
        hyp_rule_info info = hyp_ruleset_rule(rules, i);
        hyp_rule_use *use = &report->rules[i];
        use->name = hyp_arena_strdup(&report->arena, info.name);
        use->ruleset = info.ruleset[0] ? hyp_arena_strdup(&report->arena, info.ruleset) : stem;
        use->numeric_class = hyp_arena_strdup(&report->arena, info.numeric_class[0] ? info.numeric_class : "E");
        use->doc = hyp_arena_strdup(&report->arena, info.doc);
        if (!use->name || !use->ruleset || !use->numeric_class || !use->doc) stem = NULL;
        j->names[i] = use->name;
    }
    return stem ? HYP_OK : hyp_fail_memory(j->diag, strlen(file));
}

/* Room in the report for the rules of a ruleset. */
static hyp_status grow_report(job *j, size_t count)
{
    hyp_rewrite_report *report = j->report;
    hyp_rule_use *uses = hyp_arena_zalloc(&report->arena, count, sizeof *uses);
    const char **names = hyp_arena_zalloc(&report->arena, count, sizeof *names);
    if (!uses || !names) return hyp_fail_memory(j->diag, count * sizeof *uses);
    if (report->rule_count) {
        memcpy(uses, report->rules, report->rule_count * sizeof *uses);
        memcpy(names, j->names, report->rule_count * sizeof *names);
    }
    report->rules = uses;
    report->rule_count = count;
    j->names = names;
    return HYP_OK;
}

/* The last of the built-in texts that have rules of the first two phases. */
static const char last_normal[] = "linear";

/* Reads every rule into one ruleset; the first time also into the report. Later a phase need not read the texts behind
 * those that have its rules; a rule has the same number in each. */
static hyp_status read_rules(job *j, hyp_rw *rw, phase p, hyp_ruleset **out)
{
    const char *file, *text;
    bool first_time = j->report->rule_count == 0;
    *out = NULL;
    for (size_t i = 0; rule_text(j->options, i, &file, &text); i++) {
        size_t before = *out ? hyp_ruleset_count(*out) : 0;
        if (*out)
            HYP_TRY(hyp_ruleset_extend_with(*out, file, text, strlen(text), hyp_rw_desugar, rw, j->diag));
        else
            HYP_TRY(hyp_ruleset_parse_with(rw->eg, file, text, strlen(text), hyp_rw_desugar, rw, out, j->diag));
        if (p == RECOGNIZE && !j->options->rule_file_count && strcmp(file, last_normal) == 0) break;
        if (!first_time) continue;
        HYP_TRY(grow_report(j, hyp_ruleset_count(*out)));
        HYP_TRY(keep_rules(j, *out, before, file));
    }
    return HYP_OK;
}

static bool is_named(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Every one of `wanted` is the name of a rule; `purpose` is what it was given for. */
static hyp_status check_known(job *j, const char *const *wanted, size_t count, const char *purpose)
{
    for (size_t i = 0; i < count; i++) {
        if (is_named(j->names, j->report->rule_count, wanted[i])) continue;
        const char **names = hyp_arena_zalloc(&j->report->arena, j->report->rule_count + 1, sizeof *names);
        if (!names) return hyp_fail_memory(j->diag, j->report->rule_count * sizeof *names);
        if (j->report->rule_count) memcpy(names, j->names, j->report->rule_count * sizeof *names);
        const char *near = hyp_nearest(wanted[i], names);
        return hyp_fail(j->diag, HYP_ERR_INVALID_ARGUMENT, "there is no rule '%s' to %s%s%s%s", wanted[i], purpose,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "; --list-rules shows them");
    }
    return HYP_OK;
}

static hyp_status check_names(job *j)
{
    const hyp_rewrite_options *o = j->options;
    HYP_TRY(check_known(j, o->disabled, o->disabled_count, "disable"));
    if (o->why_not) HYP_TRY(check_known(j, &o->why_not, 1, "ask about"));
    return check_known(j, o->only, o->only_count, "apply alone");
}

/* The names of the options leave the rule in. */
static bool is_chosen(const hyp_rewrite_options *o, const char *name)
{
    return (!o->only_count || is_named(o->only, o->only_count, name)) &&
           !is_named(o->disabled, o->disabled_count, name);
}

static bool in_phase(const char *ruleset, phase p)
{
    bool recognize = strcmp(ruleset, "recognize") == 0;
    if (p == NORMALIZE) return strcmp(ruleset, "normalize") == 0;
    return p == OPTIMIZE ? !recognize : recognize || strcmp(ruleset, "linear") == 0;
}

static void enable_rules(const job *j, hyp_ruleset *rules, phase p)
{
    for (size_t i = 0; i < hyp_ruleset_count(rules); i++) {
        const hyp_rule_use *use = &j->report->rules[i];
        bool on = in_phase(use->ruleset, p) && (j->options->allow_approximate || strcmp(use->numeric_class, "A") != 0);
        hyp_ruleset_enable(rules, i, on && is_chosen(j->options, use->name));
    }
}

/* ---- phases --------------------------------------------------------------------------------------- */

/* Adds what the rules did in one phase to the report. */
static hyp_status count_rules(job *j, const hyp_run_report *run)
{
    hyp_rewrite_report *report = j->report;
    for (size_t i = 0; i < run->rule_count && i < report->rule_count; i++) {
        const hyp_rule_report *from = &run->rules[i];
        hyp_rule_use *use = &report->rules[i];
        use->matches += from->matches;
        use->applications += from->applications;
        use->refused += from->refused;
        use->declined += from->declined;
        if (use->refusal || !from->refusal) continue;
        use->refusal = hyp_arena_strdup(&report->arena, from->refusal);
        if (!use->refusal) return hyp_fail_memory(j->diag, strlen(from->refusal));
    }
    return HYP_OK;
}

/* A run knows no reason why it was told to end. */
static hyp_stop stop_of(const job *j, hyp_stop stop)
{
    bool timed = j->options->limit && j->options->limit->why == HYP_LIMIT_TIME;
    return stop == HYP_STOP_CANCELLED && timed ? HYP_STOP_TIME : stop;
}

static size_t at_least(size_t a, size_t b) { return a > b ? a : b; }

static hyp_status saturate(job *j, hyp_rw *rw, phase p, const hyp_rw_rules *names, hyp_ruleset *rules)
{
    hyp_rw_tracer tracer = {
        .rw = rw,
        .rules = names,
        .phase = phase_names[p],
        .options = j->options,
        .diag = j->diag,
        .weigh = {.rw = rw, .cost = j->options->cost, .user = j->options->cost_user, .diag = j->diag}};
    hyp_run_options options = {
        .size = sizeof options,
        .max_iterations = j->options->max_iterations ? j->options->max_iterations : MAX_ITERATIONS,
        .max_nodes = j->options->max_nodes ? j->options->max_nodes : at_least(MAX_NODES, NODES_EACH * j->nodes),
        .max_bytes = at_least(MAX_BYTES, BYTES_EACH * j->nodes),
        .stop = hyp_limit_reached,
        .stop_user = j->options->limit,
        .on_rewrite = j->options->trace ? hyp_rw_on_rewrite : NULL,
        .user = &tracer};
    hyp_run_report run;
    hyp_status status = hyp_egraph_run(rw->eg, rules, &options, &run, j->diag);
    j->report->phases[p] = (struct hyp_rewrite_phase){.name = phase_names[p],
                                                      .stop = stop_of(j, run.stop),
                                                      .iterations = run.iteration_count,
                                                      .e_nodes = run.e_nodes,
                                                      .e_classes = run.e_classes,
                                                      .peak_bytes = run.peak_bytes};
    j->report->phase_count = (size_t)p + 1;
    if (status == HYP_OK) status = count_rules(j, &run);
    hyp_run_report_dispose(&run);
    hyp_rw_weigh_dispose(&tracer.weigh);
    return status != HYP_OK ? status : tracer.status;
}

/* Why the rule that was asked about did nothing in this phase. */
static hyp_status why_not(job *j, const hyp_rw_inquiry *q, phase p)
{
    const hyp_rewrite_options *o = j->options;
    size_t i = 0;
    while (strcmp(j->names[i], o->why_not) != 0) i++;
    const hyp_rule_use *use = &j->report->rules[i];
    if (!in_phase(use->ruleset, p)) return HYP_OK;
    bool first = true;
    for (phase before = NORMALIZE; before < p; before++) first = first && !in_phase(use->ruleset, before);
    if (first) hyp_strbuf_printf(q->out, "%s\n", hyp_ruleset_rule(q->rules, i).text);
    if (first && !is_chosen(o, use->name)) hyp_strbuf_puts(q->out, "the options leave this rule out\n");
    if (first && !o->allow_approximate && strcmp(use->numeric_class, "A") == 0)
        hyp_strbuf_puts(q->out, "it approximates (class A), and that was not allowed\n");
    return hyp_rw_why_not(q, i, j->why_not_node);
}

static hyp_status ask(job *j, const hyp_rw_inquiry *q, phase p)
{
    if (j->options->explain) HYP_TRY(hyp_rw_explain(q, j->explain));
    return j->options->why_not ? why_not(j, q, p) : HYP_OK;
}

/* What the plan of a graph takes, and how many of its nodes run. */
static hyp_status price(const job *j, const hyp_graph *g, double *out_seconds, size_t *out_nodes)
{
    const hyp_rewrite_options *o = j->options;
    hyp_diag said = {0};
    HYP_TRY(hyp_rw_graph_cost(g, j->fold, o->cost, o->cost_user, out_seconds, out_nodes, j->diag));
    uint64_t steps;
    hyp_status status = o->price ? o->price(g, out_seconds, &steps, o->price_user, &said) : HYP_OK;
    if (status == HYP_OK || status == HYP_ERR_UNSUPPORTED) return HYP_OK; /* as it stands it cannot be a plan */
    return hyp_fail(j->diag, status, "%s", said.message);
}

/* A way to weigh e-nodes, and what it chose. */
typedef struct candidate {
    hyp_rw_weigh weigh;
    hyp_extraction choice;
    hyp_graph graph;
    double seconds; /* of its plan; 0 in the first two phases */
    size_t nodes;
} candidate;

static void dispose_candidate(candidate *c)
{
    hyp_graph_dispose(&c->graph);
    hyp_extraction_dispose(&c->choice);
    hyp_rw_weigh_dispose(&c->weigh);
    *c = (candidate){0};
}

/* `joined`: elementwise operators count as if they ran in the kernels of their readers, where there are such; *out_any is
 * false, and nothing chosen, where there are none. */
static hyp_status find_candidate(job *j, hyp_rw *rw, phase p, const hyp_rw_rules *names, bool joined, candidate *out,
                                 bool *out_any)
{
    *out = (candidate){.weigh = {.rw = rw,
                                 .cost = j->options->cost,
                                 .user = j->options->cost_user,
                                 .by_form = p != OPTIMIZE,
                                 .diag = j->diag}};
    hyp_graph_init(&out->graph, rw->in->dims);
    *out_any = true;
    if (joined) HYP_TRY(hyp_rw_find_joined(&out->weigh, out_any));
    if (!*out_any) return HYP_OK;
    if (p == OPTIMIZE) HYP_TRY(hyp_rw_find_in_place(&out->weigh));
    HYP_TRY(hyp_rw_extract(rw, &out->weigh, HYP_NONE, &out->choice, j->diag));
    HYP_TRY(hyp_rw_decode(rw, &out->choice, names, NULL, &out->graph, j->diag));
    return p == OPTIMIZE ? price(j, &out->graph, &out->seconds, &out->nodes) : HYP_OK;
}

/* Extraction adds up what e-nodes cost one by one, but which elementwise operators share a kernel is known only of a
 * whole graph. So it is done twice, as if none did and as if all did, and the better plan is taken. */
static hyp_status find_best(job *j, hyp_rw *rw, phase p, const hyp_rw_rules *names, candidate *best)
{
    candidate other;
    bool any;
    HYP_TRY(find_candidate(j, rw, p, names, false, best, &any));
    if (p != OPTIMIZE || !j->options->price) return HYP_OK;
    hyp_status status = find_candidate(j, rw, p, names, true, &other, &any);
    if (status == HYP_OK && any && other.seconds < best->seconds * (1 - 1e-9)) {
        candidate worse = *best;
        *best = other;
        other = worse;
    }
    dispose_candidate(&other);
    return status;
}

/* Changes parts on the advice of who can time them. What was predicted to be the best is kept beside it. */
static hyp_status choose_parts(job *j, hyp_rw *rw, const hyp_rw_rules *names, candidate *best)
{
    const hyp_rewrite_options *o = j->options;
    size_t changed;
    if (!o->choose || !o->price) return HYP_OK;
    HYP_TRY(hyp_rw_choose_parts(&best->weigh, o, names, best->seconds, &best->choice, &changed));
    if (changed == 0) return HYP_OK;
    j->report->parts_changed = changed;
    j->predicted = best->graph;
    j->predicted_seconds = best->seconds;
    j->predicted_nodes = best->nodes;
    hyp_graph_init(&best->graph, rw->in->dims);
    HYP_TRY(hyp_rw_decode(rw, &best->choice, names, NULL, &best->graph, j->diag));
    return price(j, &best->graph, &best->seconds, &best->nodes);
}

static double gap_of(const hyp_extraction *choice)
{
    if (choice->proven || !(choice->dag_cost > 0)) return 0;
    return fmin(1, fmax(0, 1 - choice->lower_bound / choice->dag_cost));
}

static hyp_status extract(job *j, hyp_rw *rw, phase p, const hyp_rw_rules *names, hyp_ruleset *rules, hyp_graph *out)
{
    candidate best;
    hyp_status status = find_best(j, rw, p, names, &best);
    if (status == HYP_OK && p == OPTIMIZE) status = choose_parts(j, rw, names, &best);
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
    if (status == HYP_OK && p == OPTIMIZE) {
        j->report->cost_after = best.seconds;
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

static hyp_status run_in(job *j, hyp_rw *rw, phase p, const hyp_graph *in, hyp_graph *out)
{
    hyp_ruleset *rules;
    HYP_TRY(hyp_rw_encode(rw, in, j->diag));
    HYP_TRY(read_rules(j, rw, p, &rules));
    if (p == NORMALIZE) HYP_TRY(check_names(j));
    hyp_rw_rules names = {j->names, j->report->rule_count};
    rw->keeps_bits = rw->keeps_bits && !j->options->allow_approximate;
    if (rules) {
        hyp_rw_guard(rw, rules);
        enable_rules(j, rules, p);
        HYP_TRY(saturate(j, rw, p, &names, rules));
    }
    return extract(j, rw, p, &names, rules, out);
}

/* Whether nothing is left to do in this phase but to take the graph as it is. The first one reads the rules, and questions
 * are answered in all. */
static bool is_too_late(const job *j, phase p)
{
    return p != NORMALIZE && !j->options->explain && !j->options->why_not && hyp_limit_reached(j->options->limit);
}

static hyp_status run_phase(job *j, phase p, const hyp_graph *in, hyp_graph *out)
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

/* Asks which form of the whole to take: out, what was predicted where parts were changed, the normal form or the graph as
 * it came. */
static hyp_status choose_whole(job *j, const hyp_graph *in, const hyp_graph *normal, double normal_cost,
                               size_t normal_nodes, hyp_graph *out)
{
    const hyp_rewrite_options *o = j->options;
    hyp_rewrite_report *report = j->report;
    const hyp_graph *graphs[4] = {out};
    const char *names[4] = {report->parts_changed ? "by parts" : "rewritten"};
    double seconds[4] = {report->cost_after}, start = hyp_limit_clock();
    size_t nodes[4] = {report->nodes_after}, count = 1, best = 0;
    if (!o->choose || !o->price || hyp_limit_reached(o->limit)) return HYP_OK;
    if (report->parts_changed) {
        graphs[count] = &j->predicted;
        nodes[count] = j->predicted_nodes;
        seconds[count] = j->predicted_seconds;
        names[count++] = "rewritten";
    }
    graphs[count] = normal;
    nodes[count] = normal_nodes;
    seconds[count] = normal_cost;
    names[count++] = "normal form";
    graphs[count] = in;
    nodes[count] = report->nodes_before;
    seconds[count] = report->cost_before;
    names[count++] = "as it is";
    hyp_rewrite_forms forms = {graphs, names, seconds, count};
    HYP_TRY(o->choose(&forms, &best, o->choose_user, j->diag));
    hyp_limit_extend(o->limit, hyp_limit_clock() - start);
    if (strcmp(names[best], "rewritten") != 0) report->form = names[best];
    if (best == 0) return HYP_OK;
    hyp_graph_dispose(out);
    hyp_graph_init(out, in->dims);
    report->cost_after = seconds[best];
    report->nodes_after = nodes[best];
    return hyp_graph_copy_live(graphs[best], out, j->diag);
}

static hyp_status run_all(job *j, const hyp_graph *in, hyp_graph *folded, hyp_graph *clean, hyp_graph *normal,
                          hyp_graph *out)
{
    const hyp_rewrite_options *o = j->options;
    hyp_rewrite_report *report = j->report;
    double normal_cost;
    size_t normal_nodes;
    if (o->explain) {
        HYP_TRY(find_source(in, o->explain, &j->explain, j->diag));
        report->explained = hyp_arena_strdup(&report->arena, j->explain);
        if (!report->explained) return hyp_fail_memory(j->diag, strlen(j->explain));
    }
    if (o->why_not_node) HYP_TRY(find_source(in, o->why_not_node, &j->why_not_node, j->diag));
    HYP_TRY(price(j, in, &report->cost_before, &report->nodes_before));
    HYP_TRY(hyp_graph_fold(in, j->fold, folded, j->diag));
    HYP_TRY(run_phase(j, NORMALIZE, folded, clean));
    HYP_TRY(run_phase(j, RECOGNIZE, clean, normal));
    HYP_TRY(price(j, normal, &normal_cost, &normal_nodes));
    report->cost_after = normal_cost; /* for a phase that is left out */
    report->nodes_after = normal_nodes;
    HYP_TRY(run_phase(j, OPTIMIZE, normal, out));
    if (!report->parts_changed && !(report->cost_after <= normal_cost * (1 + 1e-9))) {
        /* the search was cut short: never worse than what came in */
        hyp_graph_dispose(out);
        hyp_graph_init(out, in->dims);
        HYP_TRY(hyp_graph_copy_live(normal, out, j->diag));
        report->cost_after = normal_cost;
        report->nodes_after = normal_nodes;
    }
    HYP_TRY(choose_whole(j, in, normal, normal_cost, normal_nodes, out));
    count_used(out, report);
    return hyp_graph_verify(out, j->diag);
}

hyp_status hyp_rewrite(const hyp_graph *in, const hyp_rewrite_options *options, hyp_graph *out,
                       hyp_rewrite_report *report, hyp_diag *diag)
{
    hyp_graph folded, clean, normal;
    hyp_fold_budget fold = hyp_fold_budget_of(in, options->fold.bytes, options->fold.flops);
    job j = {.options = options, .nodes = in->nodes.len, .fold = &fold, .report = report, .diag = diag};
    *report = (hyp_rewrite_report){0};
    if (!options->cost) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "rewriting needs a cost model");
    hyp_graph_init(&folded, in->dims);
    hyp_graph_init(&clean, in->dims);
    hyp_graph_init(&normal, in->dims);
    hyp_graph_init(&j.predicted, in->dims);
    hyp_status status = run_all(&j, in, &folded, &clean, &normal, out);
    hyp_graph_dispose(&j.predicted);
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

static hyp_status list_in(job *j, hyp_rw *rw, hyp_dims *dims)
{
    hyp_ruleset *rules;
    HYP_TRY(hyp_rw_init(rw, dims, j->diag));
    HYP_TRY(read_rules(j, rw, NORMALIZE, &rules));
    HYP_TRY(check_names(j));
    hyp_rewrite_report *report = j->report;
    size_t kept = 0;
    for (size_t i = 0; i < report->rule_count; i++)
        if (is_chosen(j->options, report->rules[i].name)) report->rules[kept++] = report->rules[i];
    report->rule_count = kept;
    return HYP_OK;
}

hyp_status hyp_rewrite_list(const hyp_rewrite_options *options, hyp_rewrite_report *report, hyp_diag *diag)
{
    hyp_rw rw = {0};
    hyp_dims *dims;
    job j = {.options = options, .report = report, .diag = diag};
    *report = (hyp_rewrite_report){0};
    HYP_TRY(hyp_dims_create(&dims, diag));
    hyp_status status = list_in(&j, &rw, dims);
    hyp_rw_dispose(&rw);
    hyp_dims_destroy(dims);
    if (status != HYP_OK) hyp_rewrite_report_dispose(report);
    return status;
}
