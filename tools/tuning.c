#include <stdlib.h>
#include <string.h>

#include "signing.h"
#include "table.h"
#include "terminal.h"
#include "timing.h"
#include "tuning.h"

static void show_progress(size_t done, size_t total, const char *product, void *end)
{
    char left[32];
    if (done < total)
        terminal_work_says("product %zu of %zu: %s, at most %s left", done + 1, total, product,
                           terminal_duration(*(const double *)end - timing_now(), left));
}

/* What was measured for one choice of sizes. */
static void print_sizes(FILE *to, const cli_list *sizes, const hyp_tune_report *report)
{
    for (size_t i = 0; i < sizes->count; i++) fprintf(to, "%s%s", i ? ", " : "", cli_shown(sizes->items[i]));
    fprintf(to, "%s%.2f us untuned, %.2f us tuned, each product as often as the plan has it\n",
            sizes->count > 0 ? ": " : "all: ", report->first_seconds * 1e6, report->seconds * 1e6);
    if (report->untuned_run_seconds > 0)
        fprintf(to, "    a run: %.2f us untuned, %.2f us tuned%s\n", report->untuned_run_seconds * 1e6,
                report->run_seconds * 1e6,
                report->replaced > 0 ? "" : ": not faster, so that what was found is not used");
}

static void print_table(FILE *to, const session *s, const hyp_tune_report *sum, bool verbose)
{
    static const table_column columns[] = {{"untuned us", .right = true}, {"tuned us", .right = true}, {"product", .shrinks = true}};
    table t = {.columns = columns, .column_count = sizeof columns / sizeof *columns};
    for (size_t i = 0; i < hyp_context_tuned_count(s->context); i++) {
        hyp_tuned found = hyp_context_tuned(s->context, i);
        char note[600];
        table_add(&t, "%.2f", found.first_seconds * 1e6);
        table_add(&t, "%.2f", found.seconds * 1e6);
        table_add(&t, "%s", found.product);
        snprintf(note, sizeof note, "    %s", cli_shown(found.attributes));
        table_note(&t, note);
    }
    fprintf(to, "tuned for %s\n", hyp_context_tuning_device(s->context));
    table_print(to, &t, verbose);
    if (*sum->no_kernels) fprintf(to, "pointwise steps without kernels of their own: %s\n", sum->no_kernels);
    fprintf(to, "products: %zu, known: %zu, timed: %zu, changed: %zu\n", sum->products, sum->known, sum->timed,
            sum->replaced);
    size_t left = sum->products - sum->known - sum->timed;
    if (left > 0) fprintf(to, "not tuned, because time ran out: %zu; --seconds gives more\n", left);
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

/* The sizes that were given for a dim: "batch=1", "batch=8". */
typedef struct choices {
    cli_list *dims;
    size_t count;
} choices;

static bool same_dim(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return strncmp(a, b, len) == 0 && b[len] == '=';
}

/* From "batch=1", "8", "seq=16": a text without a name is one more size of the dim before it. */
static choices read_choices(const cli_list *given)
{
    choices c = {.dims = cli_alloc(NULL, given->count + 1, sizeof *c.dims)};
    size_t at = 0;
    for (size_t i = 0; i < given->count; i++) {
        const char *text = given->items[i];
        char line[256];
        if (!strchr(text, '=') && c.count > 0) {
            const char *first = c.dims[at].items[0];
            int len = snprintf(line, sizeof line, "%.*s=%s", (int)strcspn(first, "="), first, text);
            cli_list_add(&c.dims[at], line, (size_t)len < sizeof line ? (size_t)len : sizeof line - 1);
            continue;
        }
        for (at = 0; at < c.count && !same_dim(c.dims[at].items[0], text);) at++;
        if (at == c.count) c.dims[c.count++] = (cli_list){0};
        cli_list_add(&c.dims[at], text, strlen(text));
    }
    return c;
}

static void free_choices(choices *c)
{
    for (size_t i = 0; i < c->count; i++) cli_list_free(&c->dims[i]);
    free(c->dims);
}

static size_t combinations(const choices *c)
{
    size_t n = 1;
    for (size_t i = 0; i < c->count; i++) n *= c->dims[i].count;
    return n;
}

/* The n-th combination; the last dim changes fastest. */
static cli_list combination(const choices *c, size_t n)
{
    cli_list sizes = {0};
    size_t below = combinations(c);
    for (size_t i = 0; i < c->count; i++) {
        below /= c->dims[i].count;
        const char *text = c->dims[i].items[n / below % c->dims[i].count];
        cli_list_add(&sizes, text, strlen(text));
    }
    return sizes;
}

/* ---- tuning -------------------------------------------------------------------------------------------------- */

static void add_report(hyp_tune_report *sum, const hyp_tune_report *one)
{
    sum->products += one->products;
    sum->known += one->known;
    sum->timed += one->timed;
    sum->replaced += one->replaced;
    if (!*sum->no_kernels) memcpy(sum->no_kernels, one->no_kernels, sizeof sum->no_kernels);
}

static int tune_sizes(session *s, const cli_list *sizes, const tune_request *r, double seconds, tune_cache *cache,
                      FILE *people, const char *tool, hyp_tune_report *sum)
{
    hyp_diag diag = {0};
    hyp_tune_report report = {.size = sizeof report};
    double end = timing_now() + seconds;
    hyp_tune_options options = {.size = sizeof options,
                                .seconds = seconds,
                                .progress = show_progress,
                                .progress_user = &end,
                                .find = tune_cache_find,
                                .find_user = cache};
    for (size_t i = 0; i < s->input_count; i++) s->inputs[i].name = NULL; /* by position */
    if (hyp_context_tune(s->context, s->inputs, s->input_count, &options, &report, &diag) != HYP_OK)
        return cli_report(tool, &diag);
    terminal_work_hide();
    if (!r->quiet) print_sizes(people, sizes, &report);
    add_report(sum, &report);
    return CLI_OK;
}

/* One tuning for every combination of sizes, which share the time. */
static int tune_all_sizes(session *s, const session_options *o, const tune_request *r, tune_cache *cache, FILE *people,
                          const cli_args *args, hyp_tune_report *sum)
{
    choices c = read_choices(&o->dims);
    size_t count = combinations(&c);
    double end = timing_now() + r->seconds;
    int code = CLI_OK;
    terminal_work_begin(args->tool, r->quiet, false);
    for (size_t n = 0; n < count && code == CLI_OK; n++) {
        session_options one = *o;
        double left = (end - timing_now()) / (double)(count - n);
        one.dims = combination(&c, n);
        code = session_make_inputs(s, &one, "zeros", args);
        if (code == CLI_OK) code = tune_sizes(s, &one.dims, r, left > 0 ? left : 1e-9, cache, people, args->tool, sum);
        cli_list_free(&one.dims);
    }
    terminal_work_end();
    free_choices(&c);
    return code;
}

static int tune_with_cache(session *s, const session_options *o, const tune_request *r, tune_cache *cache,
                           const char *out, FILE *people, const cli_args *args)
{
    hyp_diag diag = {0};
    hyp_tune_report sum = {0};
    int code = tune_all_sizes(s, o, r, cache, people, args, &sum);
    if (code != CLI_OK) return code;
    if (hyp_context_save_plan(s->context, out, &diag) != HYP_OK) return cli_report(args->tool, &diag);
    code = signing_sign(out, r->key, args->tool);
    if (code != CLI_OK) return code;
    if (!r->key && hyp_engine_signer(s->engine))
        cli_error(args->tool, "%s: is written without the signature that the plan had: sign it again, or give --sign KEY",
                  cli_shown(out));
    if (!r->quiet) print_table(people, s, &sum, o->verbose);
    return r->cache ? tune_cache_extend(cache, r->cache, s->context, args->tool) : CLI_OK;
}

int tune_session(session *s, const session_options *o, const tune_request *r, const char *out, FILE *people,
                 const cli_args *args)
{
    tune_cache cache = {0};
    const char *device = hyp_context_tuning_device(s->context);
    int code = r->cache && device ? tune_cache_load(&cache, r->cache, device, args->tool) : CLI_OK;
    if (code == CLI_OK) code = tune_with_cache(s, o, r, &cache, out, people, args);
    tune_cache_free(&cache);
    return code;
}
