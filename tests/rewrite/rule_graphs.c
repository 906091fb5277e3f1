/* rule_graphs [TRIALS [FIRST]] - what every rule makes of its cases and of their neighbours, with data over the whole
 * range of the types, a line of JSON each: tests/rewrite/judge_rules.py judges them with numpy. */
#include <stdio.h>
#include <stdlib.h>

#include "rewrite/trial_json.h"
#include "rewrite/vary.h"

/* Most neighbours are no graph or do not match, so that more of them are tried. */
enum { NEIGHBOURS = 8 };

static hyp_status write_trial(const hyp_sexpr *kase, const rule_trial_options *options, uint32_t *applied,
                              hyp_diag *diag)
{
    rule_trial t;
    hyp_strbuf sb = {0};
    rule_texts rules = {hyp_builtin_rules, hyp_builtin_rules_count};
    hyp_status status = rule_trial_run(kase, rules, options, &t, diag);
    if (status == HYP_OK && t.applied) status = rule_trial_write(&sb, &t, kase, options->seed, "", diag);
    if (status == HYP_OK && t.applied) fputs(hyp_strbuf_text(&sb), stdout);
    *applied += t.applied > 0;
    hyp_strbuf_dispose(&sb);
    rule_trial_dispose(&t);
    return status;
}

int main(int argc, char **argv)
{
    hyp_arena arena = {0};
    hyp_diag diag = {0};
    const hyp_sexpr *cases;
    uint32_t trials = argc > 1 ? (uint32_t)atoi(argv[1]) : 4, first = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    int failed = 0;
    if (rule_cases_read(&arena, &cases, &diag) != HYP_OK) return fprintf(stderr, "%s\n", diag.message), 1;
    for (uint32_t i = 0; i < cases->count; i++) {
        uint32_t applied[2] = {0, 0};
        for (uint32_t k = first; k < first + trials * (1 + NEIGHBOURS); k++) {
            rule_trial_options options = {.seed = rule_trial_seed(cases->items[i], k),
                                          .vary = k >= first + trials,
                                          .change = VARY_DRAWN,
                                          .wide = true};
            if (applied[options.vary] >= trials) continue;
            if (write_trial(cases->items[i], &options, &applied[options.vary], &diag) == HYP_OK) continue;
            fprintf(stderr, "rules.cases:%u: %s, seed %llu: %s\n", cases->items[i]->line,
                    cases->items[i]->items[1]->text, (unsigned long long)options.seed, diag.message);
            failed++;
        }
    }
    hyp_arena_dispose(&arena);
    return fflush(stdout) != 0 || failed > 0;
}
