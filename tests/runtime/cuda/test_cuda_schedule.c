/* Which parts of a run wait for which, and on which streams they go: by brute force, byte for byte, on random parts. No
 * device is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/session/schedule.h"

enum { MOST_TASKS = 90, MOST_SPANS = 4, BYTES = 64 };

typedef struct parts {
    hyp_cuda_task tasks[MOST_TASKS];
    hyp_cuda_span spans[MOST_TASKS][MOST_SPANS];
    uint32_t order[MOST_TASKS], count;
    hyp_cuda_schedule schedule;
} parts;

static uint64_t state;

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
        p->tasks[i].full = p->tasks[i].seconds / (1 + below(8));
        for (size_t r = 0; r < p->tasks[i].span_count; r++) {
            uint64_t begin = below(BYTES);
            p->spans[i][r] = (hyp_cuda_span){begin, begin + below(longest + 1), below(3) == 0};
        }
    }
    p->schedule.order = p->order;
}

static void schedule(parts *p, uint32_t branches, double hop)
{
    hyp_diag diag = {0};
    if (hyp_cuda_make_schedule(p->tasks, p->count, branches, hop, &p->schedule, &diag)) fail_msg("%s", diag.message);
}

/* The oracle: for every byte, what each part does with it. */
static bool must_stay_in_order(const parts *p, uint32_t a, uint32_t b)
{
    enum { READ = 1, WRITTEN = 2, PLACES = 512 };
    uint8_t bytes[2][PLACES] = {{0}};
    for (int which = 0; which < 2; which++) {
        uint32_t t = which ? b : a;
        for (size_t r = 0; r < p->tasks[t].span_count; r++)
            for (uint64_t i = p->spans[t][r].begin; i < p->spans[t][r].end; i++)
                bytes[which][i] |= p->spans[t][r].written ? WRITTEN : READ;
    }
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
        for (uint32_t branch = 0; branch < HYP_CUDA_BRANCHES; branch++)
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
        for (uint32_t branch = 0; branch < HYP_CUDA_BRANCHES; branch++) {
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
        for (uint32_t branch = 1; branch < HYP_CUDA_BRANCHES; branch++) {
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
        for (uint32_t branch = 0; branch < HYP_CUDA_BRANCHES; branch++) {
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
        uint32_t branches = 1 + (uint32_t)(seed % HYP_CUDA_BRANCHES);
        schedule(&p, branches, seed % 2 ? 1.5e-6 : 0);
        check_order(&p, branches);
        if (seed <= 60 && p.count <= 40) check_waits_are_needed(&p);
    }
}

/* Begin and end of every part follow from the schedule alone: no stream is faster than its parts. */
static void predictions_are_those_of_the_schedule(void **unused)
{
    (void)unused;
    static parts p;
    const double hop = 1e-6;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        double ends[MOST_TASKS] = {0}, free[HYP_CUDA_BRANCHES] = {0}, sum = 0, full = 0, last = 0;
        make_random(&p, seed);
        schedule(&p, HYP_CUDA_BRANCHES, hop);
        for (uint32_t i = 0; i < p.count; i++) {
            const hyp_cuda_task *t = &p.tasks[p.order[i]];
            double begins = free[t->branch];
            for (uint32_t a = 0; a < p.order[i]; a++) {
                double there = ends[a] + (p.tasks[a].branch == t->branch ? 0 : hop);
                if (must_stay_in_order(&p, a, p.order[i]) && there > begins) begins = there;
            }
            free[t->branch] = ends[p.order[i]] = begins + t->seconds;
            if (free[t->branch] > last) last = free[t->branch];
            sum += t->seconds;
            full += t->full;
        }
        assert_true(p.schedule.serial_seconds > sum - 1e-12 && p.schedule.serial_seconds < sum + 1e-12);
        /* What one waits for through another counts no hop of its own in the schedule. */
        assert_true(p.schedule.seconds <= (last > full ? last : full) + 1e-12);
        assert_true(p.schedule.seconds >= full - 1e-12);
    }
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
        hyp_cuda_task *t = &p.tasks[c * EACH];
        hyp_cuda_span(*r)[MOST_SPANS] = &p.spans[c * EACH];
        r[0][0] = (hyp_cuda_span){product, product + 1, true};
        r[1][0] = (hyp_cuda_span){product, product + 1, false};
        r[1][1] = (hyp_cuda_span){h, h + 1, false};
        r[1][2] = (hyp_cuda_span){gates, gates + 1, true};
        r[2][0] = (hyp_cuda_span){gates, gates + 1, false};
        r[2][1] = (hyp_cuda_span){h, h + 1, true};
        const double seconds[EACH] = {4e-6, 4e-6, 2.6e-6};
        const size_t counts[EACH] = {1, 3, 2};
        for (int k = 0; k < EACH; k++) {
            t[k].spans = r[k];
            t[k].span_count = counts[k];
            t[k].seconds = seconds[k];
        }
    }
    p.count = CELLS * EACH;
    schedule(&p, 2, 1e-6);
    check_order(&p, 2);
    assert_true(p.schedule.branches == 2);
    assert_true(p.schedule.serial_seconds > 52.9e-6 && p.schedule.serial_seconds < 53.1e-6);
    assert_true(p.schedule.seconds < 39e-6);
    /* The chain stays on one stream. */
    for (uint32_t c = 1; c < CELLS; c++) {
        assert_int_equal(p.tasks[c * EACH + 1].branch, p.tasks[1].branch);
        assert_int_equal(p.tasks[c * EACH + 2].branch, p.tasks[1].branch);
        assert_int_not_equal(p.tasks[c * EACH].branch, p.tasks[1].branch);
    }
}

static void what_fills_the_device_gains_nothing(void **unused)
{
    (void)unused;
    static parts p;
    memset(&p, 0, sizeof p);
    p.schedule.order = p.order;
    p.count = 8;
    for (uint32_t i = 0; i < p.count; i++) p.tasks[i].seconds = p.tasks[i].full = 1e-3;
    schedule(&p, HYP_CUDA_BRANCHES, 0);
    assert_true(p.schedule.seconds > 7.99e-3 && p.schedule.branches == HYP_CUDA_BRANCHES);
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
        hyp_status status = hyp_cuda_make_schedule(p.tasks, p.count, 4, 0, &p.schedule, &diag);
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
        cmocka_unit_test(a_recurrent_cell_hides_its_products),
        cmocka_unit_test(what_fills_the_device_gains_nothing),
        cmocka_unit_test(a_want_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
