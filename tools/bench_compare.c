/* hypatia bench --compare: two plans in turns, so that what else the machine does hits both, and a verdict. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "commit.h"
#include "hypatia.h"
#include "interrupt.h"
#include "paired.h"
#include "resident.h"
#include "table.h"
#include "terminal.h"
#include "timing.h"

enum { ROUNDS = 40 /* in about the time that was asked for */ };

/* One of the two plans. */
typedef struct side {
    const char *plan;
    session *session;
    resident device;
    samples all;
    double rounds[PAIRED_MOST]; /* median of the runs of each, in microseconds */
} side;

/* Inputs are the same in both, or times would tell nothing. */
static int check_inputs(const side *a, const side *b, const cli_args *args)
{
    const session *s = a->session, *t = b->session;
    bool same = s->input_count == t->input_count;
    for (size_t i = 0; same && i < s->input_count; i++) {
        const hyp_tensor *x = &s->inputs[i], *y = &t->inputs[i];
        same = strcmp(hyp_engine_input(s->engine, i)->name, hyp_engine_input(t->engine, i)->name) == 0 && x->rank == y->rank &&
               memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0;
    }
    return same ? CLI_OK : cli_usage_error(args, "--compare: %s and %s do not take the same inputs", a->plan, b->plan);
}

static int prepare(side *a, const bench_request *r, const volatile sig_atomic_t *stop_asked)
{
    int code = session_make_outputs(a->session, bench_tool);
    bool on_device = r->resident || (hyp_engine_device(a->session->engine) == HYP_DEVICE_CUDA && !r->transfers);
    if (code == CLI_OK && on_device) {
        code = resident_open(&a->device, a->session, bench_tool);
        if (code == CLI_OK) resident_use(&a->device, a->session, true);
    }
    return code == CLI_OK ? bench_warm_up(a->session, r, stop_asked) : code;
}

/* Runs for so many seconds, once at least. */
static int take_round(side *a, size_t round, double seconds)
{
    hyp_diag diag = {0};
    size_t first = a->all.count;
    for (double stop = timing_now(), end = stop + seconds; a->all.count == first || stop < end;) {
        double begin = timing_now();
        hyp_status status = bench_run_once(a->session, &diag);
        stop = timing_now();
        if (status != HYP_OK) return cli_report(bench_tool, &diag);
        bench_add_sample(&a->all, (stop - begin) * 1e6);
    }
    size_t count = a->all.count - first;
    double *sorted = cli_alloc(NULL, count, sizeof *sorted);
    memcpy(sorted, a->all.us + first, count * sizeof *sorted);
    a->rounds[round] = timing_median(sorted, count);
    free(sorted);
    return CLI_OK;
}

/* Rounds of both until enough were taken and the time is over; who begins changes from round to round. */
static int take_rounds(side *sides, const bench_request *r, const volatile sig_atomic_t *stop_asked, size_t *out)
{
    double start = timing_now(), end = start + r->seconds;
    size_t fewest = r->iterations > PAIRED_FEWEST ? (size_t)r->iterations : PAIRED_FEWEST;
    int code = CLI_OK;
    for (*out = 0; code == CLI_OK && *out < PAIRED_MOST && (*out < fewest || timing_now() < end) && !*stop_asked; ++*out)
        for (size_t k = 0; k < 2 && code == CLI_OK; k++) {
            char left[32];
            terminal_work_says("round %zu, about %s left", *out + 1, terminal_duration(end - timing_now(), left));
            code = take_round(&sides[(*out + k) % 2], *out, r->seconds / (2 * ROUNDS));
        }
    return code;
}

static double percentile_of(const samples *all, double p)
{
    double *sorted = cli_alloc(NULL, all->count, sizeof *sorted);
    memcpy(sorted, all->us, all->count * sizeof *sorted);
    timing_sort(sorted, all->count);
    double found = timing_percentile(sorted, all->count, p);
    free(sorted);
    return found;
}

static void print_verdict(const side *sides, const paired_ratio *p, size_t rounds)
{
    double by = 100 * (p->estimate - 1), within = 50 * (p->high - p->low);
    printf("verdict  %s", terminal_begin(stdout, p->verdict < 0 ? TERMINAL_GOOD : p->verdict > 0 ? TERMINAL_ERROR : TERMINAL_TITLE));
    if (p->verdict == 0)
        printf("no difference seen%s: between %+.2f %% and %+.2f %% of the time", terminal_begin(stdout, TERMINAL_PLAIN),
               100 * (p->low - 1), 100 * (p->high - 1));
    else
        printf("%s is %s%s by %.2f ± %.2f %% of the time", cli_shown(sides[1].plan), p->verdict < 0 ? "faster" : "slower",
               terminal_begin(stdout, TERMINAL_PLAIN), p->verdict < 0 ? -by : by, within);
    printf(" (%d %% confidence, Wilcoxon signed-rank, %zu rounds in turns)\n", PAIRED_CONFIDENCE, rounds);
}

static void print_sides(const side *sides, const bench_request *r)
{
    enum { MOST = 16 };
    table_column columns[MOST] = {{"plan", .shrinks = true}, {"runs", .right = true, .spare = 2}};
    char titles[MOST][32];
    size_t count = 2;
    for (size_t i = 0; i < r->percentiles.count && count < MOST; i++, count++) {
        snprintf(titles[count], sizeof titles[count], "p%.20s us", r->percentiles.items[i]);
        columns[count] = (table_column){titles[count], .right = true, .spare = i ? 3 : 0};
    }
    table t = {.columns = columns, .column_count = count};
    printf("device   %s\n", hyp_engine_device_name(sides[0].session->engine));
    for (int k = 0; k < 2; k++) {
        table_add(&t, "%s", sides[k].plan);
        table_add(&t, "%zu", sides[k].all.count);
        for (size_t i = 2; i < count; i++)
            table_add(&t, "%.3f", percentile_of(&sides[k].all, atof(r->percentiles.items[i - 2])));
    }
    table_print(stdout, &t, r->session.verbose);
}

static json_t *json_side(const side *a, size_t rounds)
{
    json_t *list = json_array(), *all = json_array();
    for (size_t i = 0; i < rounds; i++) json_array_append_new(list, json_real(a->rounds[i]));
    for (size_t i = 0; i < a->all.count; i++) json_array_append_new(all, json_real(a->all.us[i]));
    return json_pack("{s:s, s:f, s:o, s:o}", "plan", a->plan, "p50_us", percentile_of(&a->all, 50), "rounds_us", list,
                     "samples_us", all);
}

static int write_json(const side *sides, const bench_request *r, const paired_ratio *p, size_t rounds)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:i, s:[o, o], s:f, s:f, s:f, s:i, s:s, s:s}", "device",
                             hyp_engine_device_name(sides[0].session->engine), "version", hyp_version(), "commit", HYP_COMMIT,
                             "threads", (int)r->session.threads, "plans", json_side(&sides[0], rounds), json_side(&sides[1], rounds),
                             "ratio", p->estimate, "ratio_low", p->low, "ratio_high", p->high, "confidence", PAIRED_CONFIDENCE,
                             "method", "Wilcoxon signed-rank, Hodges-Lehmann", "verdict",
                             p->verdict < 0 ? "faster" : p->verdict > 0 ? "slower" : "no difference seen");
    return bench_dump_json(root, r->json, bench_tool);
}

/* What was measured, for who asked. Fewer rounds than the interval needs tell nothing. */
static int tell(const side *sides, const bench_request *r, size_t rounds)
{
    if (rounds < PAIRED_FEWEST) return CLI_OK;
    paired_ratio p = paired_compare(sides[0].rounds, sides[1].rounds, rounds);
    if (!r->quiet && !(r->json && strcmp(r->json, "-") == 0)) {
        print_sides(sides, r);
        print_verdict(sides, &p, rounds);
    }
    return r->json ? write_json(sides, r, &p, rounds) : CLI_OK;
}

int bench_compare(session *s, const bench_request *r, const cli_args *args)
{
    session other = {0};
    session_options options = r->session;
    options.plan = r->compare;
    side sides[2] = {{.plan = r->session.plan, .session = s}, {.plan = r->compare, .session = &other}};
    size_t rounds = 0;
    const volatile sig_atomic_t *stop_asked = interrupt_catch();
    int code = session_open(&other, &options, bench_tool);
    if (code == CLI_OK) code = session_make_inputs(&other, &options, "random:0", args);
    if (code == CLI_OK) code = check_inputs(&sides[0], &sides[1], args);
    terminal_work_begin(bench_tool, r->quiet, false);
    for (int k = 0; k < 2 && code == CLI_OK; k++) code = prepare(&sides[k], r, stop_asked);
    if (code == CLI_OK) code = take_rounds(sides, r, stop_asked, &rounds);
    terminal_work_end();
    interrupt_release();
    bool whole = !*stop_asked;
    if (!whole) fprintf(stderr, "%s: interrupted after %zu rounds\n", bench_tool, rounds);
    if (code == CLI_OK) code = tell(sides, r, rounds);
    for (int k = 0; k < 2; k++) {
        if (sides[k].session->engine) resident_close(&sides[k].device, sides[k].session);
        free(sides[k].all.us);
    }
    session_close(&other);
    return code == CLI_OK && !whole ? CLI_INTERRUPTED : code;
}
