/* rule_mutants [ROUNDS [PART OF]] - every mutant of every built-in rule against rules.cases, a line of JSON each:
 * {"mutant": what, "rule": name, "line": of the rule, "file": , "class": , "dropped": condition, "killed": reason or
 * null, "beyond": how often it was applied where the rule is not}. Before the line of one that the interpreter lets
 * pass come trials of it, for tests/rewrite/judge_rules.py --mutants, which prints the score. With PART and OF only
 * every OF-th mutant is made. */
#include <stdio.h>
#include <stdlib.h>

#include <string.h>

#include "rewrite/mutate.h"
#include "rewrite/trial_json.h"
#include "rewrite/vary.h"

enum { MAX_NAMES = 4, MAX_CASES = 64, PLAIN = 12, WRITTEN = 24 };

typedef struct bench {
    hyp_arena arena;
    const hyp_sexpr *cases;
    rule_texts rules;
    uint32_t rounds; /* how often every change is tried */
    uint32_t serial; /* of the mutant */
} bench;

/* What became of one mutant. */
typedef struct verdict {
    char killed[256]; /* by what, or empty */
    uint32_t beyond;
} verdict;

/* Whether the name stands for the rule, whose name may have a mark for a word of a list. */
static bool is_named(const mutant *m, const char *name)
{
    const char *pattern = m->rule->items[1]->text, *mark = strstr(pattern, "<op>");
    char plain[128], rev[144];
    for (uint32_t i = 0; i < (mark && m->words ? m->words->count : 1); i++) {
        if (mark)
            snprintf(plain, sizeof plain, "%.*s%s%s", (int)(mark - pattern), pattern,
                     m->words ? m->words->items[i]->text : "", mark + 4);
        else
            snprintf(plain, sizeof plain, "%s", pattern);
        snprintf(rev, sizeof rev, "%s-rev", plain);
        if (strcmp(plain, name) == 0) return true;
        if (hyp_sexpr_is(m->rule->items[0], "birule") && strcmp(rev, name) == 0) return true;
    }
    return false;
}

static void write_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar(*text == '\n' ? ' ' : *text);
    }
    putchar('"');
}

/* What neighbours of a case make of a mutant. */
typedef struct probe {
    bench *b;
    const mutant *m;
    rule_texts mutated;
    const hyp_sexpr *kase;
    term_random random;
    rule_trial_options kept[WRITTEN]; /* for the judge */
    uint32_t found;
    verdict *out;
} probe;

/* Runs a mutant where it does what the rule does not (a class is about all that the rule does), else *out_wanted is
 * false. */
static hyp_status run_beyond(probe *p, const rule_trial_options *options, rule_trial *t, bool *out_wanted,
                             hyp_diag *diag)
{
    rule_trial plain = {0};
    HYP_TRY(rule_trial_run(p->kase, p->mutated, options, t, diag));
    *out_wanted = t->applied > 0;
    if (*out_wanted && !(p->m->dropped && strcmp(p->m->dropped, "class") == 0)) {
        hyp_status status = rule_trial_run(p->kase, p->b->rules, options, &plain, diag);
        *out_wanted = status == HYP_OK && t->applied > plain.applied;
        rule_trial_dispose(&plain);
    }
    return HYP_OK;
}

static void probe_change(probe *p, const rule_trial_options *options)
{
    rule_trial t = {0};
    hyp_diag diag = {0};
    char difference[256] = "";
    bool wanted = false;
    hyp_status status = run_beyond(p, options, &t, &wanted, &diag);
    if (status == HYP_OK && wanted) status = rule_trial_judge(&t, difference, sizeof difference, &diag);
    if (status != HYP_OK || difference[0])
        snprintf(p->out->killed, sizeof p->out->killed, "rules.cases:%u, change %u, seed %llu: %.160s", p->kase->line,
                 options->change, (unsigned long long)options->seed, status != HYP_OK ? diag.message : difference);
    rule_trial_dispose(&t);
    if (!wanted) return;
    uint32_t at = p->found++; /* of many, some from all over */
    if (at >= WRITTEN) at = term_random_below(&p->random, p->found);
    if (at < WRITTEN) p->kept[at] = *options;
}

/* A number that is nearly the right one is a wrong one in the wider types only. */
static uint32_t rounds_of(const probe *p)
{
    bool number = p->m->dropped && (strcmp(p->m->dropped, "near") == 0 || strcmp(p->m->dropped, "all-equal") == 0);
    return p->b->rounds * (number ? 4 : 1);
}

/* Every change of a case, and half as often some together. */
static void probe_case(probe *p)
{
    hyp_arena arena = {0};
    uint32_t count = vary_count(&arena, p->kase, rule_case_first(p->kase));
    uint32_t all = count + count / 2;
    for (uint32_t i = 0; i < all * rounds_of(p) && !p->out->killed[0]; i++) {
        uint32_t change = i % all;
        rule_trial_options options = {
            .seed = rule_trial_seed(p->kase, i), .vary = true, .change = change < count ? change : VARY_DRAWN};
        probe_change(p, &options);
    }
    hyp_arena_dispose(&arena);
    p->out->beyond += p->found;
}

/* What the interpreter cannot tell from rounding: with values over the whole range of the type, for numpy. */
static void write_trials(probe *p)
{
    char label[32];
    snprintf(label, sizeof label, "%u", p->b->serial);
    for (uint32_t i = 0; i < p->found && i < WRITTEN; i++) {
        rule_trial_options options = p->kept[i];
        rule_trial t = {0};
        hyp_strbuf sb = {0};
        hyp_diag diag = {0};
        bool wanted = false;
        options.wide = true;
        if (run_beyond(p, &options, &t, &wanted, &diag) == HYP_OK && wanted &&
            rule_trial_write(&sb, &t, p->kase, options.seed, label, &diag) == HYP_OK)
            fputs(hyp_strbuf_text(&sb), stdout);
        hyp_strbuf_dispose(&sb);
        rule_trial_dispose(&t);
    }
}

/* The cases of a mutant's rule; of a rule for each of many words those of a few. */
static uint32_t cases_of(const bench *b, const mutant *m, const hyp_sexpr *out[MAX_CASES])
{
    const char *names[MAX_NAMES];
    uint32_t count = 0, name_count = 0;
    for (uint32_t i = 0; i < b->cases->count && count < MAX_CASES; i++) {
        const char *name = b->cases->items[i]->items[1]->text;
        if (!is_named(m, name)) continue;
        uint32_t at = 0;
        while (at < name_count && strcmp(names[at], name) != 0) at++;
        if (at == MAX_NAMES) continue;
        if (at == name_count) names[name_count++] = name;
        out[count++] = b->cases->items[i];
    }
    return count;
}

static void judge(bench *b, const mutant *m, verdict *out)
{
    hyp_builtin_text text = {"mutant", m->text, strlen(m->text)};
    const hyp_sexpr *cases[MAX_CASES];
    probe *probes = hyp_calloc(MAX_CASES, sizeof *probes);
    uint32_t count = cases_of(b, m, cases);
    *out = (verdict){0};
    for (uint32_t i = 0; i < count && !out->killed[0]; i++) {
        rule_outcome outcome;
        rule_case_run(cases[i], (rule_texts){&text, 1}, PLAIN, &outcome);
        if (outcome.message[0])
            snprintf(out->killed, sizeof out->killed, "rules.cases:%u: %.200s", cases[i]->line, outcome.message);
    }
    for (uint32_t i = 0; i < count && probes && !out->killed[0]; i++) {
        probes[i] = (probe){.b = b, .m = m, .mutated = {&text, 1}, .kase = cases[i], .out = out};
        probe_case(&probes[i]);
    }
    for (uint32_t i = 0; i < count && probes && !out->killed[0]; i++) write_trials(&probes[i]);
    hyp_free(probes);
}

static const char *class_of(const hyp_sexpr *rule)
{
    for (uint32_t i = 1; i < rule->count; i++)
        if (hyp_sexpr_is(rule->items[i - 1], ":class")) return rule->items[i]->text;
    return "E";
}

/* Whether it is a rule at all: a right side may name what is no longer bound. */
static bool reads(const mutant *m)
{
    hyp_rw rw = {0};
    hyp_dims *dims;
    hyp_ruleset *set;
    hyp_builtin_text text = {"mutant", m->text, strlen(m->text)};
    if (hyp_dims_create(&dims, NULL) != HYP_OK) return false;
    bool ok =
        hyp_rw_init(&rw, dims, NULL) == HYP_OK && rule_texts_parse(&rw, (rule_texts){&text, 1}, &set, NULL) == HYP_OK;
    hyp_rw_dispose(&rw);
    hyp_dims_destroy(dims);
    return ok;
}

static hyp_status run_file(bench *b, const hyp_builtin_text *file, uint32_t part, uint32_t of, hyp_diag *diag)
{
    mutants list = {0};
    hyp_status status = mutate_rules(&b->arena, file->name, file->text, file->len, &list, diag);
    for (size_t i = 0; status == HYP_OK && i < list.len; i++) {
        const mutant *m = &list.data[i];
        if (b->serial++ % of != part || !reads(m)) continue;
        verdict v;
        judge(b, m, &v);
        printf("{\"serial\":\"%u\",\"rule\":\"%s\",\"file\":\"%s\",\"line\":%u,\"mutant\":", b->serial,
               m->rule->items[1]->text, file->name, m->rule->line);
        write_text(m->what);
        printf(",\"class\":\"%s\",\"dropped\":\"%s\",\"beyond\":%u,\"killed\":", class_of(m->rule),
               m->dropped ? m->dropped : "", v.beyond);
        if (v.killed[0])
            write_text(v.killed);
        else
            printf("null");
        printf("}\n");
        fflush(stdout);
    }
    hyp_vec_free(&list);
    return status;
}

int main(int argc, char **argv)
{
    bench b = {.rules = {hyp_builtin_rules, hyp_builtin_rules_count}, .rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 1};
    uint32_t part = argc > 3 ? (uint32_t)atoi(argv[2]) : 0, of = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    hyp_diag diag = {0};
    hyp_status status = of ? rule_cases_read(&b.arena, &b.cases, &diag) : HYP_ERR_INVALID_ARGUMENT;
    for (size_t i = 0; status == HYP_OK && i < b.rules.count; i++)
        status = run_file(&b, &b.rules.texts[i], part, of, &diag);
    if (status != HYP_OK) fprintf(stderr, "%s\n", diag.message);
    hyp_arena_dispose(&b.arena);
    return status != HYP_OK;
}
