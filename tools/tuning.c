#include <string.h>
#include <unistd.h>

#include "tuning.h"

static void show_progress(size_t done, size_t total, const char *product, void *tool)
{
    if (done < total)
        fprintf(stderr, "\r\033[K%s: product %zu of %zu: %.60s", (const char *)tool, done + 1, total, product);
    else
        fputs("\r\033[K", stderr);
}

static void print_table(FILE *to, const session *s, const hyp_tune_report *report)
{
    fprintf(to, "tuned for %s\n%12s %12s  %s\n", hyp_context_tuning_device(s->context), "untuned us", "tuned us",
            "product");
    for (size_t i = 0; i < hyp_context_tuned_count(s->context); i++) {
        hyp_tuned t = hyp_context_tuned(s->context, i);
        fprintf(to, "%12.2f %12.2f  %s\n%27s%s\n", t.first_seconds * 1e6, t.seconds * 1e6, t.product, "", t.attributes);
    }
    fprintf(to, "%12.2f %12.2f  all of these shapes, each as often as the plan has it\n", report->first_seconds * 1e6,
            report->seconds * 1e6);
    if (report->untuned_run_seconds > 0)
        fprintf(to, "a run: %.2f us untuned, %.2f us tuned%s\n", report->untuned_run_seconds * 1e6,
                report->run_seconds * 1e6,
                report->replaced > 0 ? "" : ": not faster, so that what was found is not used");
    fprintf(to, "products: %zu, known: %zu, timed: %zu, changed: %zu\n", report->products, report->known, report->timed,
            report->replaced);
    size_t left = report->products - report->known - report->timed;
    if (left > 0) fprintf(to, "not tuned, because time ran out: %zu; --seconds gives more\n", left);
}

static int tune_with_cache(session *s, const tune_request *r, tune_cache *cache, const char *out, FILE *people,
                           const char *tool)
{
    hyp_diag diag = {0};
    hyp_tune_report report;
    hyp_tune_options options = {.size = sizeof options,
                                .seconds = r->seconds,
                                .progress = !r->quiet && isatty(STDERR_FILENO) ? show_progress : NULL,
                                .progress_user = (void *)tool,
                                .find = tune_cache_find,
                                .find_user = cache};
    for (size_t i = 0; i < s->input_count; i++) s->inputs[i].name = NULL; /* by position */
    if (hyp_context_tune(s->context, s->inputs, s->input_count, &options, &report, &diag) != HYP_OK ||
        hyp_context_save_plan(s->context, out, &diag) != HYP_OK)
        return cli_report(tool, &diag);
    if (!r->quiet) print_table(people, s, &report);
    return r->cache ? tune_cache_extend(cache, r->cache, s->context, tool) : CLI_OK;
}

int tune_session(session *s, const tune_request *r, const char *out, FILE *people, const char *tool)
{
    tune_cache cache = {0};
    const char *device = hyp_context_tuning_device(s->context);
    int code = r->cache && device ? tune_cache_load(&cache, r->cache, device, tool) : CLI_OK;
    if (code == CLI_OK) code = tune_with_cache(s, r, &cache, out, people, tool);
    tune_cache_free(&cache);
    return code;
}
