/* Which parts of a run wait for which, on which streams they go, and what that takes: by brute force, byte for byte and
 * moment by moment, on random parts. No device is needed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/timetable.h"

enum { MOST_TASKS = 90, MOST_SPANS = 4, BYTES = 64 };

typedef struct parts {
    hyp_task tasks[MOST_TASKS];
    hyp_span spans[MOST_TASKS][MOST_SPANS];
    uint32_t waits[MOST_TASKS][MOST_SPANS];
    uint32_t order[MOST_TASKS], count;
    hyp_timetable schedule;
} parts;

static uint64_t state;
static const double tick = 2e-9, hop = 0.7e-6; /* seconds */

static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static void make_random(parts *p, uint64_t seed)
{
    memset(p, 0, sizeof *p);
    state = seed;
    p->count = below(MOST_TASKS + 1);
    uint32_t longest = 1 + below(seed % 3 == 0 ? 20 : 4);
    for (uint32_t i = 0; i < p->count; i++) {
        p->tasks[i].spans = p->spans[i];
        p->tasks[i].span_count = below(MOST_SPANS + 1);
        p->tasks[i].seconds = below(5) * 1e-6;
        p->tasks[i].share = below(9) / 8.0;
        for (size_t r = 0; r < p->tasks[i].span_count; r++) {
            uint64_t begin = below(BYTES);
            p->spans[i][r] = (hyp_span){begin, begin + below(longest + 1), below(3) == 0};
        }
        p->tasks[i].waits = p->waits[i];
        p->tasks[i].wait_count = i == 0 || below(4) ? 0 : below(MOST_SPANS + 1);
        for (size_t r = 0; r < p->tasks[i].wait_count; r++) p->waits[i][r] = below(i);
    }
    p->schedule.order = p->order;
}

static void schedule(parts *p, uint32_t branches)
{
    hyp_diag diag = {0};
    if (hyp_timetable_make(p->tasks, p->count, branches, hop, &p->schedule, &diag)) fail_msg("%s", diag.message);
}

/* The oracle: for every byte, what each part does with it. */
static bool must_stay_in_order(const parts *p, uint32_t a, uint32_t b)
{
    enum { READ = 1, WRITTEN = 2, PLACES = 512 };
    uint8_t bytes[2][PLACES] = {{0}};
    for (int which = 0; which < 2; which++) {
        uint32_t t = which ? b : a;
        for (size_t r = 0; r < p->tasks[t].span_count; r++) {
            const uint8_t does = p->spans[t][r].written ? WRITTEN : READ;
            for (uint64_t i = p->spans[t][r].begin; i < p->spans[t][r].end; i++) bytes[which][i] |= does;
        }
    }
    for (size_t i = 0; i < p->tasks[b].wait_count; i++)
        if (p->tasks[b].waits[i] == a) return true;
    for (int i = 0; i < PLACES; i++)
        if (bytes[0][i] && bytes[1][i] && ((bytes[0][i] | bytes[1][i]) & WRITTEN)) return true;
    return false;
}

/* before[a][b]: a has ended when b begins, as streams and waits have it. */
static void close_order(const parts *p, bool before[MOST_TASKS][MOST_TASKS])
{
    memset(before, 0, MOST_TASKS * sizeof *before);
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t t = p->order[i];
        for (uint32_t k = 0; k < i; k++)
            if (p->tasks[p->order[k]].branch == p->tasks[t].branch) before[p->order[k]][t] = true;
        for (uint32_t branch = 0; branch < HYP_STREAMS; branch++)
            if (p->tasks[t].after[branch]) before[p->tasks[t].after[branch] - 1][t] = true;
    }
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t a = 0; a < p->count; a++)
            for (uint32_t b = 0; b < p->count && before[a][m]; b++) before[a][b] = before[a][b] || before[m][b];
}

static void check_order(const parts *p, uint32_t branches)
{
    static bool before[MOST_TASKS][MOST_TASKS];
    uint32_t place[MOST_TASKS];
    bool seen[MOST_TASKS] = {false};
    for (uint32_t i = 0; i < p->count; i++) {
        assert_true(p->order[i] < p->count && !seen[p->order[i]]);
        seen[p->order[i]] = true;
        place[p->order[i]] = i;
        assert_true(p->tasks[p->order[i]].branch < branches && p->tasks[p->order[i]].branch < p->schedule.branches);
    }
    close_order(p, before);
    for (uint32_t b = 0; b < p->count; b++) {
        for (uint32_t a = 0; a < b; a++)
            if (must_stay_in_order(p, a, b) && !before[a][b]) fail_msg("part %u does not wait for %u", b, a);
        for (uint32_t branch = 0; branch < HYP_STREAMS; branch++) {
            uint32_t other = p->tasks[b].after[branch];
            if (!other) continue;
            /* What is waited for is queued before, on that stream, and says that it is awaited. */
            assert_true(place[other - 1] < place[b] && p->tasks[other - 1].branch == branch &&
                        p->tasks[b].branch != branch);
            assert_true(p->tasks[other - 1].awaited);
        }
    }
    /* The first stream ends last. */
    for (uint32_t a = 0; a < p->count; a++) {
        bool joined = p->tasks[a].branch == 0;
        for (uint32_t b = 0; b < p->count; b++) joined = joined || (before[a][b] && p->tasks[b].branch == 0);
        for (uint32_t branch = 1; branch < HYP_STREAMS; branch++) {
            uint32_t last = p->schedule.last[branch];
            if (!last) continue;
            assert_true(p->tasks[last - 1].awaited && p->tasks[last - 1].branch == branch);
            joined = joined || last == a + 1 || before[a][last - 1];
        }
        if (!joined) fail_msg("nothing waits for part %u", a);
    }
}

/* Without any wait that is left out by itself, some order would be missing. */
static void check_waits_are_needed(parts *p)
{
    static bool before[MOST_TASKS][MOST_TASKS];
    for (uint32_t b = 0; b < p->count; b++)
        for (uint32_t branch = 0; branch < HYP_STREAMS; branch++) {
            uint32_t other = p->tasks[b].after[branch];
            bool missing = false;
            if (!other) continue;
            p->tasks[b].after[branch] = 0;
            close_order(p, before);
            for (uint32_t y = 0; y < p->count && !missing; y++)
                for (uint32_t x = 0; x < y && !missing; x++) missing = must_stay_in_order(p, x, y) && !before[x][y];
            p->tasks[b].after[branch] = other;
            if (!missing) fail_msg("part %u waits in vain for %u", b, other - 1);
        }
}

static void what_touches_the_same_bytes_keeps_its_order(void **unused)
{
    (void)unused;
    static parts p;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        make_random(&p, seed);
        uint32_t branches = 1 + (uint32_t)(seed % HYP_STREAMS);
        schedule(&p, branches);
        check_order(&p, branches);
        if (seed <= 60 && p.count <= 40) check_waits_are_needed(&p);
    }
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

/* What timetable.h says, in small steps: no stream is faster than its parts, who comes from another stream is there
 * later, and each takes the longer, the more of the device others have. */
static double step_through(const parts *p)
{
    static bool before[MOST_TASKS][MOST_TASKS];
    double ends[MOST_TASKS], left[MOST_TASKS], clock = 0;
    uint32_t done = 0;
    for (uint32_t t = 0; t < p->count; t++) {
        ends[t] = INFINITY;
        left[t] = p->tasks[t].seconds;
        for (uint32_t a = 0; a < t; a++) before[a][t] = must_stay_in_order(p, a, t);
    }
    while (done < p->count) {
        bool taken[HYP_STREAMS] = {false}, now[MOST_TASKS] = {false}, ended = false;
        double shares = 0;
        for (uint32_t i = 0; i < p->count; i++) {
            uint32_t t = p->order[i];
            const hyp_task *task = &p->tasks[t];
            if (ends[t] < INFINITY || taken[task->branch]) continue;
            taken[task->branch] = true; /* by the first that has not ended */
            bool may = true;
            for (uint32_t a = 0; a < t; a++)
                may = may &&
                      !(before[a][t] && ends[a] + (p->tasks[a].branch == task->branch ? 0 : hop) > clock + tick / 2);
            now[t] = may;
            if (may) shares += task->share;
        }
        for (uint32_t t = 0; t < p->count; t++) {
            if (!now[t]) continue;
            if (left[t] < tick / 2) {
                ends[t] = clock;
                done++;
                ended = true;
            }
            left[t] -= tick / (1 + shares - p->tasks[t].share);
        }
        if (!ended) clock += tick;
    }
    return clock;
}

static void predictions_are_those_of_the_schedule(void **unused)
{
    (void)unused;
    static parts p;
    int together = 0;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        double sum = 0;
        make_random(&p, seed);
        if (p.count > 24) p.count = 24;
        schedule(&p, 1 + (uint32_t)(seed % HYP_STREAMS));
        for (uint32_t t = 0; t < p.count; t++) sum += p.tasks[t].seconds;
        double clock = step_through(&p), slack = 2 * tick * (2 * p.count + 1);
        if (!(fabs(p.schedule.seconds - clock) <= slack))
            fail_msg("seed %d: %g us, not %g", (int)seed, p.schedule.seconds * 1e6, clock * 1e6);
        assert_true(fabs(p.schedule.serial_seconds - sum) < 1e-12);
        if (p.schedule.branches == 1) assert_true(fabs(p.schedule.seconds - sum) < 1e-12);
        together += p.schedule.seconds < 0.95 * sum;
    }
    assert_true(together >= 10);
}

/* The least time of all ways to put parts, from the `place`-th of an order on, on two streams: of parts so short that
 * they do not slow each other. */
static double find_least(parts *p, bool (*before)[MOST_TASKS], double *ends, int *branch, uint32_t done,
                         const double *there)
{
    double best = INFINITY;
    bool any = false;
    for (uint32_t t = 0; t < p->count; t++) {
        bool may = !(done >> t & 1);
        for (uint32_t a = 0; a < p->count; a++) may = may && !(before[a][t] && !(done >> a & 1));
        if (!may) continue;
        any = true;
        for (int b = 0; b < 2; b++) {
            double next[2] = {there[0], there[1]}, begins = there[b];
            for (uint32_t a = 0; a < p->count; a++)
                if (before[a][t]) begins = fmax(begins, ends[a] + (branch[a] == b ? 0 : hop));
            ends[t] = next[b] = begins + p->tasks[t].seconds;
            branch[t] = b;
            best = fmin(best, find_least(p, before, ends, branch, done | (uint32_t)1 << t, next));
        }
    }
    return any ? best : fmax(there[0], there[1]);
}

/* What is found is what some order on two streams takes, mostly the best one. */
static void schedules_are_near_the_best(void **unused)
{
    (void)unused;
    static parts p;
    static bool before[MOST_TASKS][MOST_TASKS];
    enum { CASES = 120 };
    int best = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        double ends[MOST_TASKS] = {0}, there[2] = {0};
        int branch[MOST_TASKS] = {0};
        make_random(&p, 1000 + seed);
        p.count = 2 + (uint32_t)(seed % 5);
        for (uint32_t t = 0; t < p.count; t++) {
            p.tasks[t].seconds = (1 + below(5)) * 0.2e-6;
            p.tasks[t].share = 0;
        }
        memset(before, 0, sizeof before);
        for (uint32_t b = 0; b < p.count; b++)
            for (uint32_t a = 0; a < b; a++) before[a][b] = must_stay_in_order(&p, a, b);
        double least = find_least(&p, before, ends, branch, 0, there);
        schedule(&p, 2);
        assert_true(p.schedule.seconds > least - 1e-12);
        assert_true(p.schedule.seconds < 2 * least);
        best += p.schedule.seconds < least + 1e-12;
    }
    assert_true(best >= CASES * 2 / 3);
}

static void set_apart(parts *p, uint32_t count, double seconds, double share)
{
    memset(p, 0, sizeof *p);
    p->schedule.order = p->order;
    p->count = count;
    for (uint32_t i = 0; i < count; i++) p->tasks[i] = (hyp_task){.seconds = seconds, .share = share};
}

/* As many streams as pay, of those that there may be; one for a chain, and where little is gained. */
static void the_number_of_streams_is_what_pays(void **unused)
{
    (void)unused;
    static parts p;
    hyp_diag diag = {0};
    double seconds;
    uint32_t streams;
    set_apart(&p, 8, 11e-6, 0.4);
    for (uint32_t most = 1; most <= HYP_USUAL_STREAMS; most *= 2) {
        assert_int_equal(hyp_timetable_predict(p.tasks, p.count, most, hop, &seconds, &streams, &diag), HYP_OK);
        assert_int_equal(streams, most);
        assert_true(fabs(seconds - 88e-6 / most * (1 + (most - 1) * 0.4)) < 1e-12);
    }
    for (uint32_t i = 1; i < p.count; i++) {
        p.waits[i][0] = i - 1;
        p.tasks[i].waits = p.waits[i];
        p.tasks[i].wait_count = i < 7;
    }
    p.tasks[7].seconds = 4e-6; /* is all that may run beside the chain */
    assert_int_equal(hyp_timetable_predict(p.tasks, p.count, 4, hop, &seconds, &streams, &diag), HYP_OK);
    assert_int_equal(streams, 1);
    assert_true(fabs(seconds - 81e-6) < 1e-12);
    assert_int_equal(hyp_timetable_predict(p.tasks, 0, 4, hop, &seconds, &streams, &diag), HYP_OK);
    assert_true(seconds == 0);
}

/* Five products of inputs beside a chain of two parts each: all but the first product are hidden. */
static void a_recurrent_cell_hides_its_products(void **unused)
{
    (void)unused;
    static parts p;
    enum { CELLS = 5, EACH = 3 };
    memset(&p, 0, sizeof p);
    p.schedule.order = p.order;
    for (uint32_t c = 0; c < CELLS; c++) {
        uint64_t product = 100 + c, gates = 200 + c, h = 300;
        hyp_task *t = &p.tasks[c * EACH];
        hyp_span(*r)[MOST_SPANS] = &p.spans[c * EACH];
        r[0][0] = (hyp_span){product, product + 1, true};
        r[1][0] = (hyp_span){product, product + 1, false};
        r[1][1] = (hyp_span){h, h + 1, false};
        r[1][2] = (hyp_span){gates, gates + 1, true};
        r[2][0] = (hyp_span){gates, gates + 1, false};
        r[2][1] = (hyp_span){h, h + 1, true};
        const double seconds[EACH] = {4e-6, 4e-6, 2.6e-6};
        const size_t counts[EACH] = {1, 3, 2};
        for (int k = 0; k < EACH; k++) {
            t[k].spans = r[k];
            t[k].span_count = counts[k];
            t[k].seconds = seconds[k];
        }
    }
    p.count = CELLS * EACH;
    schedule(&p, 2);
    check_order(&p, 2);
    assert_true(p.schedule.branches == 2);
    assert_true(p.schedule.serial_seconds > 52.9e-6 && p.schedule.serial_seconds < 53.1e-6);
    assert_true(p.schedule.seconds < 0.9 * p.schedule.serial_seconds);
    /* The chain stays on one stream. */
    for (uint32_t c = 1; c < CELLS; c++) {
        assert_int_equal(p.tasks[c * EACH + 1].branch, p.tasks[1].branch);
        assert_int_equal(p.tasks[c * EACH + 2].branch, p.tasks[1].branch);
        assert_int_not_equal(p.tasks[c * EACH].branch, p.tasks[1].branch);
    }
}

/* Task i waits for task i - 1. */
static void let_wait(parts *p, uint32_t i)
{
    p->waits[i][0] = i - 1;
    p->tasks[i].waits = p->waits[i];
    p->tasks[i].wait_count = 1;
}

/* Chains of equal length are done as they are listed, each on a stream; a long one behind short tasks is begun first. */
static void tasks_stay_in_their_order_unless_that_costs(void **unused)
{
    (void)unused;
    enum { CHAINS = 4, LONG = 5, SHORT = 12 };
    static parts p;
    set_apart(&p, CHAINS * LONG, 2e-6, 0.1);
    for (uint32_t i = 0; i < p.count; i++)
        if (i % LONG) let_wait(&p, i);
    schedule(&p, 2);
    for (uint32_t i = 0; i < p.count; i++) assert_int_equal(p.order[i], i);
    for (uint32_t i = 0; i < p.count; i++) assert_int_equal(p.tasks[i].branch, i / LONG % 2);
    set_apart(&p, SHORT + LONG, 2e-6, 0);
    for (uint32_t i = SHORT + 1; i < p.count; i++) let_wait(&p, i);
    schedule(&p, 2);
    assert_int_equal(p.order[0], SHORT);
    assert_true(p.schedule.seconds < 18.01e-6); /* as listed 22 */
}

/* Where every task takes all of the device, or takes it from others as if it did, one stream is best. */
static void more_streams_are_for_what_gains_by_them(void **unused)
{
    (void)unused;
    static parts p;
    hyp_diag diag = {0};
    const struct {
        double share;
        uint32_t streams;
    } cases[] = {{1, 1}, {0.97, 1}, {0.9, 2}, {0.5, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double seconds;
        uint32_t streams;
        set_apart(&p, 8, 11e-6, cases[i].share);
        assert_int_equal(hyp_timetable_predict(p.tasks, p.count, 4, hop, &seconds, &streams, &diag), HYP_OK);
        assert_int_equal(streams, cases[i].streams);
    }
}

static void what_fills_the_device_gains_nothing(void **unused)
{
    (void)unused;
    static parts p;
    set_apart(&p, 8, 1e-3, 1);
    schedule(&p, HYP_STREAMS);
    assert_true(p.schedule.seconds > 7.99e-3 && p.schedule.seconds < 8.01e-3 && p.schedule.branches == HYP_STREAMS);
}

static void a_want_of_memory_is_said(void **unused)
{
    (void)unused;
    static parts p;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        hyp_diag diag = {0};
        make_random(&p, 7);
        hyp_mem_fail_after(n);
        hyp_status status = hyp_timetable_make(p.tasks, p.count, 4, hop, &p.schedule, &diag);
        hyp_mem_fail_after(0);
        done = status == HYP_OK;
        if (!done) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_touches_the_same_bytes_keeps_its_order),
        cmocka_unit_test(predictions_are_those_of_the_schedule),
        cmocka_unit_test(schedules_are_near_the_best),
        cmocka_unit_test(the_number_of_streams_is_what_pays),
        cmocka_unit_test(a_recurrent_cell_hides_its_products),
        cmocka_unit_test(tasks_stay_in_their_order_unless_that_costs),
        cmocka_unit_test(more_streams_are_for_what_gains_by_them),
        cmocka_unit_test(what_fills_the_device_gains_nothing),
        cmocka_unit_test(a_want_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
