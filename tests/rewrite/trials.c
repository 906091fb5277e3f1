#include "rewrite/trials.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "rewrite/vary.h"

/* ---- one rule on one graph -------------------------------------------------------------------------- */

/* New e-nodes are cheap, so that the result is built by the rule. */
static double prefer_new(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    size_t children;
    hyp_enode_children(eg, node, &children);
    if (children == 0) return 0;
    return node < *(const size_t *)user ? 1 : 0.001;
}

hyp_status rule_texts_parse(hyp_rw *rw, rule_texts rules, hyp_ruleset **out, hyp_diag *diag)
{
    *out = NULL;
    for (size_t i = 0; i < rules.count; i++) {
        const hyp_builtin_text *t = &rules.texts[i];
        if (*out)
            HYP_TRY(hyp_ruleset_extend_with(*out, t->name, t->text, t->len, hyp_rw_desugar, rw, diag));
        else
            HYP_TRY(hyp_ruleset_parse_with(rw->eg, t->name, t->text, t->len, hyp_rw_desugar, rw, out, diag));
    }
    return HYP_OK;
}

/* Where `head` begins a form of a text, and the form's length: up to the next one that starts a line. */
static const char *find_form(const char *text, const char *head, size_t *out_len)
{
    const char *start = strstr(text, head), *end = start ? strstr(start, "\n(") : NULL;
    if (start) *out_len = end ? (size_t)(end - start) : strlen(start);
    return start;
}

/* Whether a form of a text has a rule of this name, with a word of the list replaced by the mark. */
static bool has_rule(const char *form, size_t len, const hyp_sexpr *words, const char *rule)
{
    static const char mark[] = "<op>";
    for (uint32_t i = 0; i < words->count; i++) {
        const char *word = words->items[i]->text;
        for (const char *hit = rule; (hit = strstr(hit, word)) != NULL; hit++) {
            char head[128];
            snprintf(head, sizeof head, "rule %.*s%s%s ", (int)(hit - rule), rule, mark, hit + strlen(word));
            const char *found = strstr(form, head);
            if (found && found < form + len) return true;
        }
    }
    return false;
}

/* The for-each form that makes a rule. */
static const char *find_each(const char *text, const char *rule, size_t *out_len)
{
    static const char begin[] = "(for-each <op> (";
    for (const char *at = text; (at = strstr(at, begin)) != NULL; at++) {
        hyp_arena arena = {0};
        const hyp_sexpr *words;
        const char *form = find_form(at, begin, out_len), *list = strrchr(begin, '(') - begin + form;
        bool found = hyp_sexpr_parse(&arena, "words", list, strcspn(list, ")") + 1, &words, NULL) == HYP_OK &&
                     hyp_rule_words(hyp_rw_word_lists, &arena, "words", words->items[0], &words, NULL) == HYP_OK &&
                     has_rule(form, *out_len, words, rule);
        hyp_arena_dispose(&arena);
        if (found) return form;
    }
    return NULL;
}

/* The text of one rule, cut out of its file: reading all of them in every trial would take most of the time. */
rule_texts rule_texts_of(rule_texts rules, const char *rule, hyp_builtin_text *out)
{
    char base[112], heads[3][128];
    size_t len = strlen(rule), n = len > 4 && strcmp(rule + len - 4, "-rev") == 0 ? len - 4 : len;
    snprintf(base, sizeof base, "%.*s", (int)n, rule);
    snprintf(heads[0], sizeof heads[0], "(rule %s ", rule);
    snprintf(heads[1], sizeof heads[1], "(birule %s ", rule);
    snprintf(heads[2], sizeof heads[2], "(birule %s ", base);
    for (size_t i = 0; i < rules.count; i++) {
        const char *text = rules.texts[i].text, *start = NULL;
        for (int k = 0; k < 3 && !start; k++) start = find_form(text, heads[k], &len);
        if (!start) start = find_each(text, rule, &len);
        if (!start) start = find_each(text, base, &len);
        if (!start) continue;
        *out = (hyp_builtin_text){rules.texts[i].name, start, len};
        return (rule_texts){out, 1};
    }
    return rules;
}

/* Applies the rule alone. */
static hyp_status apply_rule(const hyp_graph *in, rule_texts rules, const char *rule, hyp_graph *out,
                             uint32_t *out_applied, hyp_diag *diag)
{
    hyp_rw rw = {0};
    hyp_ruleset *set;
    hyp_egraph_run_report report = {0};
    hyp_extraction choice = {0};
    hyp_class_id roots[TRIAL_MAX_VALUES];
    const char **names = NULL;
    hyp_builtin_text text;
    size_t bound = 0;
    hyp_status status = hyp_rw_encode(&rw, in, diag);
    if (status == HYP_OK) status = rule_texts_parse(&rw, rule_texts_of(rules, rule, &text), &set, diag);
    if (status == HYP_OK) hyp_rw_guard(&rw, set);
    if (status == HYP_OK) {
        names = hyp_arena_zalloc(&rw.arena, hyp_ruleset_count(set), sizeof *names);
        status = names ? HYP_OK : hyp_fail_memory(diag, hyp_ruleset_count(set) * sizeof *names);
    }
    if (status == HYP_OK) {
        bound = hyp_egraph_enode_bound(rw.eg);
        for (size_t i = 0; i < hyp_ruleset_count(set); i++) {
            hyp_rule_info info = hyp_ruleset_rule(set, i);
            bool is_it = strcmp(info.name, rule) == 0;
            names[i] = info.name;
            hyp_ruleset_enable(set, i, is_it);
        }
        hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 3, .max_nodes = 2000};
        status = hyp_egraph_run(rw.eg, set, &options, &report, diag);
        for (size_t i = 0; status == HYP_OK && i < report.rule_count; i++)
            if (report.rules[i]
                    .refused) /* for a rule of the project a condition is missing, which says where it fits */
                status = hyp_fail(diag, HYP_ERR_MISMATCH, "a rule is wrong: %s", report.rules[i].refusal);
    }
    *out_applied = 0;
    for (size_t i = 0; i < report.rule_count; i++) *out_applied += (uint32_t)report.rules[i].applications;
    if (status == HYP_OK) {
        for (size_t i = 0; i < in->outputs.len; i++) roots[i] = rw.class_of[in->outputs.data[i].value];
        status = hyp_egraph_extract(rw.eg, roots, in->outputs.len, HYP_EXTRACT_DAG, prefer_new, &bound, &choice, diag);
    }
    hyp_rw_rules known = {names, status == HYP_OK ? hyp_ruleset_count(set) : 0};
    if (status == HYP_OK) status = hyp_rw_decode(&rw, &choice, &known, NULL, out, diag);
    if (status == HYP_OK) status = hyp_graph_verify(out, diag);
    hyp_extraction_dispose(&choice);
    hyp_egraph_run_report_dispose(&report);
    hyp_rw_dispose(&rw);
    return status;
}

/* ---- trials ------------------------------------------------------------------------------------------ */

/* (case RULE (sizes M N ...) form...): the symbols listed get numbers, others stay symbols; in half of the trials
 * all get numbers. */
static void draw_sizes(const hyp_sexpr *kase, term_random *random, term_sizes *out)
{
    static const int64_t choices[] = {1, 2, 3, 4, 5, 2, 3};
    out->count = 0;
    if (kase->count <= 2 || !hyp_sexpr_is_form(kase->items[2], "sizes")) return;
    int64_t same = term_random_below(random, 3) == 0 ? choices[term_random_below(random, 7)] : 0; /* square */
    for (uint32_t i = 1; i < kase->items[2]->count; i++) {
        out->names[out->count] = kase->items[2]->items[i]->text;
        out->values[out->count++] = same ? same : choices[term_random_below(random, 7)];
    }
}

/* The class as the rule's text has it; 0 when there is no such rule. */
static hyp_status class_of(hyp_dims *dims, rule_texts rules, const char *rule, char *out, hyp_diag *diag)
{
    hyp_rw rw = {0};
    hyp_ruleset *set;
    hyp_builtin_text text;
    *out = 0;
    hyp_status status = hyp_rw_init(&rw, dims, diag);
    if (status == HYP_OK) status = rule_texts_parse(&rw, rule_texts_of(rules, rule, &text), &set, diag);
    for (size_t i = 0; status == HYP_OK && i < hyp_ruleset_count(set); i++) {
        hyp_rule_info info = hyp_ruleset_rule(set, i);
        if (strcmp(info.name, rule) == 0) *out = info.numeric_class[0] ? info.numeric_class[0] : 'E';
    }
    hyp_rw_dispose(&rw);
    return status;
}

/* What both sides can be compared on without an oracle: a sum in another order is near the first one only where nothing
 * is large. */
static term_data data_for(char numeric_class, term_random *random)
{
    switch (numeric_class) {
    case 'E':
    case 'Z': return TERM_ANY;
    case 'N': return term_random_below(random, 2) ? TERM_NO_NAN : TERM_WIDE;
    default: return TERM_FINITE;
    }
}

/* Whether a graph is what the trial is about: the neighbour of a case often is none, or not one that runs. */
static bool stands(rule_trial *t)
{
    hyp_eval_tensor outputs[TRIAL_MAX_VALUES] = {{0}};
    if (t->before.inputs.len > TRIAL_MAX_VALUES || t->before.outputs.len > TRIAL_MAX_VALUES) return false;
    hyp_status status = hyp_graph_eval(&t->before, HYP_EVAL_NATIVE, t->inputs, t->before.inputs.len, outputs, NULL);
    for (size_t i = 0; i < t->before.outputs.len; i++) hyp_eval_tensor_dispose(&outputs[i]);
    return status == HYP_OK;
}

uint32_t rule_case_first(const hyp_sexpr *kase)
{
    return kase->count > 2 && hyp_sexpr_is_form(kase->items[2], "sizes") ? 3 : 2;
}

hyp_status rule_trial_run(const hyp_sexpr *kase, rule_texts rules, const rule_trial_options *options, rule_trial *out,
                          hyp_diag *diag)
{
    static const hyp_dtype reals[] = {HYP_F32, HYP_F64, HYP_F16, HYP_BF16};
    const char *rule = kase->items[1]->text;
    term_random random = {options->seed};
    term_sizes sizes;
    *out = (rule_trial){0};
    HYP_TRY(hyp_dims_create(&out->dims, diag));
    hyp_graph_init(&out->before, out->dims);
    hyp_graph_init(&out->after, out->dims);
    HYP_TRY(class_of(out->dims, rules, rule, &out->numeric_class, diag));
    if (!out->numeric_class) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "there is no rule '%s'", rule);
    draw_sizes(kase, &random, &sizes);
    uint32_t first = rule_case_first(kase);
    /* behind a jump the interpreter cannot tell what rounding may do */
    bool jumps = options->wide || strchr("EZN", out->numeric_class);
    if (options->vary && !(kase = vary_case(&out->arena, kase, first, options->change, jumps, &random)))
        return hyp_fail_memory(diag, 0);
    const term_draw draw = {.sizes = &sizes,
                            .real = reals[term_random_below(&random, 4)],
                            .data = options->wide ? TERM_ANY : data_for(out->numeric_class, &random),
                            .random = &random};
    hyp_diag ignored = {0};
    hyp_diag *told = options->vary ? &ignored : diag;
    hyp_status status = term_graph_build(&out->before, kase, first, &draw, told);
    if (status == HYP_OK) status = hyp_graph_verify(&out->before, told);
    out->data = options->wide && strchr("RA", out->numeric_class) ? TERM_ROOM : draw.data;
    if (status == HYP_OK) status = term_inputs(&out->before, out->data, &random, out->inputs, told);
    out->built = status == HYP_OK && stands(out);
    if (status != HYP_OK && !options->vary) return status;
    if (!out->built) return HYP_OK;
    return apply_rule(&out->before, rules, rule, &out->after, &out->applied, diag);
}

void rule_trial_dispose(rule_trial *t)
{
    for (size_t i = 0; i < TRIAL_MAX_VALUES; i++) hyp_eval_tensor_dispose(&t->inputs[i]);
    if (t->dims) hyp_graph_dispose(&t->before);
    if (t->dims) hyp_graph_dispose(&t->after);
    hyp_dims_destroy(t->dims);
    hyp_arena_dispose(&t->arena);
    *t = (rule_trial){0};
}

/* ---- comparing -------------------------------------------------------------------------------------- */

/* A unit of rounding, or a few, for a type in a mode. */
static double tolerance(char numeric_class, hyp_dtype dtype, hyp_eval_mode mode)
{
    if (dtype == HYP_BF16) return 0x1p-5; /* constants are rounded also where the mode is double */
    if (dtype == HYP_F16) return 0x1p-8;
    return numeric_class == 'A' ? 1e-3 : mode == HYP_EVAL_NATIVE ? 1e-5 : 1e-7;
}

static bool same_real(double a, double b, const rule_trial *t, double allowed)
{
    if (strchr("RA", t->numeric_class) && !isfinite(a)) return true; /* the class promises nothing */
    if (isnan(a) || isnan(b)) return (isnan(a) && isnan(b)) || (t->numeric_class == 'N' && t->data != TERM_FINITE);
    if (t->numeric_class == 'E') return a == b && !signbit(a) == !signbit(b);
    return a == b || fabs(a - b) <= allowed;
}

/* Fills `difference` when two results are not as equal as the class demands. `further`: how far apart each element may
 * be besides; NULL: not. */
static void compare(const rule_trial *t, hyp_eval_mode mode, const hyp_eval_tensor *a, const hyp_eval_tensor *b,
                    const hyp_eval_tensor *further, char *difference, size_t size)
{
    difference[0] = 0;
    const char *how = mode == HYP_EVAL_NATIVE ? "rounded" : "in double";
    if (a->dtype != b->dtype || a->rank != b->rank || a->count != b->count ||
        memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0) {
        snprintf(difference, size, "the results differ in type");
        return;
    }
    bool exact = strchr("EZN", t->numeric_class) != NULL;
    double scale = 1;
    for (size_t i = 0; a->f && i < a->count; i++)
        if (isfinite(a->f[i]) && fabs(a->f[i]) > scale) scale = fabs(a->f[i]);
    double allowed = exact ? 0 : scale * tolerance(t->numeric_class, a->dtype, mode);
    for (size_t i = 0; i < a->count; i++) {
        double most = further && further->f[i] > allowed ? further->f[i] : allowed;
        if (a->f ? same_real(a->f[i], b->f[i], t, most) : a->i[i] == b->i[i]) continue;
        if (a->f)
            snprintf(difference, size, "element %zu is %.17g, with the rule %.17g (%s %s)", i, a->f[i], b->f[i],
                     hyp_dtype_name(a->dtype), how);
        else
            snprintf(difference, size, "element %zu is %lld, with the rule %lld (%s)", i, (long long)a->i[i],
                     (long long)b->i[i], how);
        return;
    }
}

/* What is left of a difference where sums may lose more than a few units: what rounding in another way changes. */
static hyp_status compare_further(const rule_trial *t, hyp_eval_tensor *const results[2], char *difference, size_t size,
                                  hyp_diag *diag)
{
    hyp_eval_tensor values[TRIAL_MAX_VALUES], tolerances[TRIAL_MAX_VALUES];
    HYP_TRY(hyp_graph_expect(&t->before, t->inputs, t->before.inputs.len, NULL, values, tolerances, diag));
    difference[0] = 0;
    for (size_t i = 0; i < t->before.outputs.len; i++) {
        if (!difference[0])
            compare(t, HYP_EVAL_NATIVE, &results[0][i], &results[1][i], &tolerances[i], difference, size);
        hyp_eval_tensor_dispose(&values[i]);
        hyp_eval_tensor_dispose(&tolerances[i]);
    }
    return HYP_OK;
}

static bool is_empty(const hyp_eval_tensor *results, size_t count)
{
    size_t elements = 0;
    for (size_t i = 0; i < count; i++) elements += results[i].count;
    return elements == 0;
}

hyp_status rule_trial_judge(const rule_trial *t, char *difference, size_t size, hyp_diag *diag)
{
    hyp_eval_tensor a[TRIAL_MAX_VALUES] = {{0}}, b[TRIAL_MAX_VALUES] = {{0}};
    hyp_status status = HYP_OK;
    bool rounds = strchr("RA", t->numeric_class) != NULL;
    size_t count = t->before.outputs.len;
    difference[0] = 0;
    for (int mode = 0; mode < 2 && status == HYP_OK && !difference[0]; mode++) {
        hyp_eval_mode m = mode ? HYP_EVAL_NATIVE : HYP_EVAL_DOUBLE;
        status = hyp_graph_eval(&t->before, m, t->inputs, t->before.inputs.len, a, diag);
        if (status != HYP_OK) break;
        status = hyp_graph_eval(&t->after, m, t->inputs, t->before.inputs.len, b, diag);
        for (size_t i = 0; i < count && status == HYP_OK && !difference[0]; i++)
            compare(t, m, &a[i], &b[i], NULL, difference, size);
        /* an index out of range that nothing of an empty result needed */
        if (status == HYP_ERR_INVALID_ARGUMENT && is_empty(a, count)) status = HYP_OK;
        if (difference[0] && rounds && m == HYP_EVAL_NATIVE)
            status = compare_further(t, (hyp_eval_tensor *const[]){a, b}, difference, size, diag);
        for (size_t i = 0; i < count; i++) {
            hyp_eval_tensor_dispose(&a[i]);
            hyp_eval_tensor_dispose(&b[i]);
        }
    }
    return status;
}

/* ---- cases ------------------------------------------------------------------------------------------ */

static void run_trial(const hyp_sexpr *kase, rule_texts rules, const rule_trial_options *options, rule_outcome *out)
{
    hyp_diag diag = {0};
    rule_trial t;
    char difference[256] = "";
    hyp_status status = rule_trial_run(kase, rules, options, &t, &diag);
    if (status == HYP_OK && t.applied && hyp_graph_equal(&t.before, &t.after) && !options->vary)
        snprintf(out->message, sizeof out->message, "the rule was applied and nothing came of it");
    if (status == HYP_OK && t.applied) status = rule_trial_judge(&t, difference, sizeof difference, &diag);
    const char *where = options->vary ? ", in a neighbour" : "";
    if (status != HYP_OK)
        snprintf(out->message, sizeof out->message, "%.400s%s, seed %llu", diag.message, where,
                 (unsigned long long)options->seed);
    else if (difference[0])
        snprintf(out->message, sizeof out->message, "%s%s, seed %llu", difference, where,
                 (unsigned long long)options->seed);
    if (t.applied > 0) options->vary ? out->varied++ : out->applied++;
    rule_trial_dispose(&t);
}

uint64_t rule_trial_seed(const hyp_sexpr *kase, uint32_t trial)
{
    hyp_strbuf text = {0};
    hyp_sexpr_print(&text, kase);
    uint64_t seed = hyp_hash(hyp_strbuf_text(&text), text.len, 0);
    hyp_strbuf_dispose(&text);
    return (uint64_t)trial * 7919 + (seed & UINT32_MAX);
}

void rule_case_run(const hyp_sexpr *kase, rule_texts rules, uint32_t trials, rule_outcome *out)
{
    bool never = hyp_sexpr_is_form(kase, "never");
    *out = (rule_outcome){0};
    for (uint32_t i = 0; i < trials && !out->message[0]; i++) {
        run_trial(kase, rules, &(rule_trial_options){.seed = rule_trial_seed(kase, i)}, out);
        if (never && out->applied && !out->message[0])
            snprintf(out->message, sizeof out->message, "the rule was applied");
    }
    for (uint32_t i = 0; i < trials && !out->message[0]; i++)
        run_trial(kase, rules,
                  &(rule_trial_options){.seed = rule_trial_seed(kase, i), .vary = true, .change = VARY_DRAWN}, out);
    if (!out->message[0] && !never && !out->applied)
        snprintf(out->message, sizeof out->message, "the rule was never applied");
}

hyp_status rule_cases_read(hyp_arena *arena, const hyp_sexpr **out, hyp_diag *diag)
{
    const char *path = HYP_SOURCE_DIR "/tests/rewrite/rules.cases";
    hyp_mapping map;
    HYP_TRY(hyp_map_file(path, &map, diag));
    hyp_status status = hyp_sexpr_parse(arena, path, (const char *)map.data, map.size, out, diag);
    hyp_unmap(&map);
    return status;
}
