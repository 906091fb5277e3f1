/* How the steps of a plan are done, what else was possible, and at what price. */
#include "session.h"

const char *choice_by_name(hyp_choice_by by)
{
    static const char *const names[] = {"nothing", "only", "prediction", "tuning", "tuning of a larger size"};
    return names[by];
}

/* "own, by prediction 12.10 us; oneDNN 14.00 us; own shared by threads: no layer has enough weights for two threads" */
static void print_choice(FILE *to, const session *s, size_t step, size_t i)
{
    hyp_choice_info c = hyp_context_choice(s->context, step, i);
    hyp_alternative_info taken = hyp_context_alternative(s->context, step, i, c.taken);
    fprintf(to, "%s", c.by == HYP_CHOICE_NONE ? "nothing" : taken.name);
    if (c.by != HYP_CHOICE_NONE && c.by != HYP_CHOICE_ONLY) fprintf(to, ", by %s", choice_by_name(c.by));
    if (c.seconds > 0) fprintf(to, " %.2f us, predicted", c.seconds * 1e6);
    if (c.by != HYP_CHOICE_NONE) fprintf(to, " %.2f us", taken.predicted_seconds * 1e6);
    for (size_t k = 0; k < c.alternatives; k++) {
        hyp_alternative_info a = hyp_context_alternative(s->context, step, i, k);
        if (k == c.taken && c.by != HYP_CHOICE_NONE) continue;
        if (a.cannot)
            fprintf(to, "; %s: %s", a.name, a.cannot);
        else
            fprintf(to, "; %s %.2f us", a.name, a.predicted_seconds * 1e6);
    }
    fputc('\n', to);
}

void print_choices(FILE *to, const char *indent, const session *s, size_t step)
{
    for (size_t i = 0; i < hyp_context_choice_count(s->context, step); i++) {
        if (hyp_context_choice(s->context, step, i).alternatives < 2) continue;
        fputs(indent, to);
        print_choice(to, s, step, i);
    }
}

void print_all_choices(FILE *to, const session *s, const char *tool)
{
    for (size_t step = 0; step < hyp_engine_step_count(s->engine); step++) {
        fprintf(to, "%s: step %zu, %s\n", tool, step, cli_shown(hyp_engine_step(s->engine, step).label));
        print_choices(to, "    ", s, step);
    }
}
