/* hypatiac --timed: of the plans that can be made of a model, which is the fastest here. */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "timing.h"

enum { ROUNDS = 5, LEAST = 3, MOST = 1000 };

/* One way to compile the model. */
typedef struct candidate {
    const char *name, *flag;
    hyp_compile_options compile;
    session session;
    double rounds[ROUNDS], median; /* seconds of a run call */
    bool open;
} candidate;
enum { REWRITTEN, NORMAL, AS_IT_IS, CANDIDATES };

/* Median of the runs of about so many seconds. */
static int time_round(candidate *c, double seconds, double *out, const char *tool)
{
    session *s = &c->session;
    double *samples = cli_alloc(NULL, MOST, sizeof *samples), end = timing_now() + seconds;
    size_t count = 0;
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    while (status == HYP_OK && count < MOST && (count < LEAST || timing_now() < end)) {
        double begin = timing_now();
        status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
        samples[count++] = timing_now() - begin;
    }
    *out = timing_median(samples, count);
    free(samples);
    return status == HYP_OK ? CLI_OK : cli_report(tool, &diag);
}

/* In turns, so that what else the machine does hits all of them. */
static int time_all(candidate *all, const measure_options *o, const char *tool)
{
    int code = CLI_OK;
    for (int r = 0; r < ROUNDS && code == CLI_OK; r++)
        for (int i = 0; i < CANDIDATES && code == CLI_OK; i++)
            if (all[i].open) code = time_round(&all[i], o->seconds / (ROUNDS * CANDIDATES), &all[i].rounds[r], tool);
    for (int i = 0; i < CANDIDATES; i++)
        if (all[i].open) all[i].median = timing_median(all[i].rounds, ROUNDS);
    return code;
}

/* "image f32[32 64]" of every input. */
static void print_inputs(FILE *to, const session *s)
{
    for (size_t i = 0; i < s->input_count; i++) {
        const hyp_tensor *t = &s->inputs[i];
        fprintf(to, "%s%s %s[", i ? ", " : "", cli_shown(hyp_engine_input(s->engine, i)->name), hyp_dtype_name(t->dtype));
        for (int32_t a = 0; a < t->rank; a++) fprintf(to, "%s%lld", a ? " " : "", (long long)t->dims[a]);
        fputc(']', to);
    }
}

/* The fastest; the first of equal ones. */
static int fastest(const candidate *all)
{
    int best = REWRITTEN;
    for (int i = 0; i < CANDIDATES; i++)
        if (all[i].open && all[i].median < all[best].median) best = i;
    return best;
}

static void print_times(FILE *to, const candidate *all, int best)
{
    fputs("timed with ", to);
    print_inputs(to, &all[REWRITTEN].session);
    fprintf(to, " on %s:\n", hyp_engine_device_name(all[REWRITTEN].session.engine));
    for (int i = 0; i < CANDIDATES; i++)
        if (all[i].open)
            fprintf(to, "  %-12s %12.3f us, predicted %12.3f us%s\n", all[i].name, all[i].median * 1e6,
                    predicted_seconds(&all[i].session) * 1e6, i == best ? "  (kept)" : "");
}

int choose_fastest(hyp_compile_options *compile, const char *model, const measure_options *o, FILE *people,
                   cli_list *names, const char **flag, const cli_args *args)
{
    candidate all[CANDIDATES] = {[REWRITTEN] = {"rewritten", NULL, .compile = *compile},
                                 [NORMAL] = {"normal form", "--timed=normal-form", .compile = *compile},
                                 [AS_IT_IS] = {"as it is", "--timed=as-it-is", .compile = *compile}};
    int code = normal_rules(compile, names, args->tool);
    for (int i = 0; i < CANDIDATES; i++) {
        all[i].compile.dump_rewrites = all[i].compile.warning = NULL;
        all[i].compile.dump_ir_stage = NULL;
        all[i].compile.verify = "off";
    }
    all[NORMAL].compile.only_rules = (const char *const *)names->items;
    all[NORMAL].compile.only_rule_count = names->count;
    all[AS_IT_IS].compile.no_rewrite = true;
    for (int i = 0; i < CANDIDATES && code == CLI_OK; i++) {
        if (i == NORMAL && names->count == 0) continue; /* no rules would mean all of them */
        code = measure_open(&all[i].session, model, &all[i].compile, o, args);
        all[i].open = true;
    }
    if (code == CLI_OK) code = time_all(all, o, args->tool);
    if (code == CLI_OK) {
        int best = fastest(all);
        if (people) print_times(people, all, best);
        compile->only_rules = all[best].compile.only_rules;
        compile->only_rule_count = all[best].compile.only_rule_count;
        compile->no_rewrite = all[best].compile.no_rewrite;
        *flag = all[best].flag;
    }
    for (int i = 0; i < CANDIDATES; i++) session_close(&all[i].session);
    return code;
}
