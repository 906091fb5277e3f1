/* rule_mutants [TRIALS [PART OF]] - every mutant of every built-in rule against rules.cases, a line of JSON each:
 * {"mutant": what, "rule": name, "line": of the rule, "file": , "dropped": condition, "killed": reason or null,
 * "beyond": how often it was applied where the rule is not}. Before the line of one that the interpreter lets pass come
 * trials of it, for tests/rewrite/judge_rules.py --mutants, which prints the score. With PART and OF only every OF-th
 * mutant is made. */
#include <stdio.h>
#include <stdlib.h>

#include <string.h>

#include "rewrite/mutate.h"
#include "rewrite/trial_json.h"

enum { MAX_NAMES = 4, PROBES = 48, WRITTEN = 6 };

typedef struct bench {
    hyp_arena arena;
    const hyp_sexpr *cases;
    rule_texts rules;
    uint32_t *usual; /* by case: how often the rule itself is applied to neighbours, + 1; 0: not known yet */
    uint32_t trials;
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

static uint32_t usual(bench *b, uint32_t kase)
{
    if (b->usual[kase] == 0) {
        rule_outcome outcome;
        rule_case_run(b->cases->items[kase], b->rules, b->trials, &outcome);
        b->usual[kase] = outcome.varied + 1;
    }
    return b->usual[kase] - 1;
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

/* Trials where the mutant does what the rule does not: all of its own for a class. */
static void write_trials(bench *b, const mutant *m, rule_texts mutated, const hyp_sexpr *kase, const char *label)
{
    bool same_matches = m->dropped && strcmp(m->dropped, "class") == 0;
    uint32_t written = 0;
    for (uint32_t i = 0; i < PROBES && written < WRITTEN; i++) {
        const rule_trial_options options = {.seed = rule_trial_seed(kase, i), .vary = i % 8 != 0, .wide = true};
        rule_trial t, plain = {0};
        hyp_strbuf sb = {0};
        hyp_diag diag = {0};
        hyp_status status = rule_trial_run(kase, mutated, &options, &t, &diag);
        bool wanted = status == HYP_OK && t.applied;
        if (wanted && !same_matches)
            wanted = rule_trial_run(kase, b->rules, &options, &plain, &diag) == HYP_OK && !plain.applied;
        if (wanted && rule_trial_write(&sb, &t, kase, options.seed, label, &diag) == HYP_OK) {
            fputs(hyp_strbuf_text(&sb), stdout);
            written++;
        }
        hyp_strbuf_dispose(&sb);
        rule_trial_dispose(&plain);
        rule_trial_dispose(&t);
    }
}

static void judge(bench *b, const mutant *m, verdict *out)
{
    hyp_builtin_text text = {"mutant", m->text, strlen(m->text)};
    rule_texts mutated = {&text, 1};
    char label[32];
    const char *names[MAX_NAMES];
    uint32_t name_count = 0;
    *out = (verdict){0};
    for (int writing = 0; writing < 2 && !out->killed[0]; writing++)
        for (uint32_t i = 0; i < b->cases->count && !out->killed[0]; i++) {
            const hyp_sexpr *kase = b->cases->items[i];
            const char *name = kase->items[1]->text;
            if (!is_named(m, name)) continue;
            uint32_t at = 0; /* of a rule for each of many words a few will do */
            while (at < name_count && strcmp(names[at], name) != 0) at++;
            if (at == MAX_NAMES) continue;
            if (at == name_count) names[name_count++] = name;
            snprintf(label, sizeof label, "%u", b->serial);
            if (writing) {
                write_trials(b, m, mutated, kase, label);
                continue;
            }
            rule_outcome outcome;
            rule_case_run(kase, mutated, b->trials, &outcome);
            uint32_t most = usual(b, i);
            if (outcome.message[0])
                snprintf(out->killed, sizeof out->killed, "rules.cases:%u: %.200s", kase->line, outcome.message);
            else if (outcome.varied > most)
                out->beyond += outcome.varied - most;
        }
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
        printf(",\"dropped\":\"%s\",\"beyond\":%u,\"killed\":", m->dropped ? m->dropped : "", v.beyond);
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
    bench b = {.rules = {hyp_builtin_rules, hyp_builtin_rules_count},
               .trials = argc > 1 ? (uint32_t)atoi(argv[1]) : 16};
    uint32_t part = argc > 3 ? (uint32_t)atoi(argv[2]) : 0, of = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    hyp_diag diag = {0};
    hyp_status status = of ? rule_cases_read(&b.arena, &b.cases, &diag) : HYP_ERR_INVALID_ARGUMENT;
    if (status == HYP_OK) b.usual = hyp_arena_zalloc(&b.arena, b.cases->count, sizeof *b.usual);
    for (size_t i = 0; status == HYP_OK && i < b.rules.count; i++)
        status = run_file(&b, &b.rules.texts[i], part, of, &diag);
    if (status != HYP_OK) fprintf(stderr, "%s\n", diag.message);
    hyp_arena_dispose(&b.arena);
    return status != HYP_OK;
}
