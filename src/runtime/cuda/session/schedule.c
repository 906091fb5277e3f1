/* schedule.c - dependencies between the parts of a run by the bytes that they touch, and list scheduling. */
#include "runtime/cuda/session/schedule.h"

#include <string.h>

enum { BITS = 64 };

/* What is known of a task while a schedule is made. */
typedef struct node {
    uint32_t first_before, before_count; /* in `before`: those that it waits for, but for what these wait for */
    double way;                          /* seconds from its beginning to the end of all, along the longest way */
    double ends;
} node;

typedef struct scheduler {
    hyp_cuda_task *tasks;
    uint32_t count;
    double hop;
    node *nodes;
    uint64_t *reach; /* by task: a bit for every one that it waits for, through others, too */
    size_t words;    /* of a task */
    HYP_VEC(uint32_t) before;
    hyp_arena arena;
    hyp_diag *diag;
} scheduler;

/* ---- dependencies ---------------------------------------------------------------------------------------------- */

static bool conflict(const hyp_cuda_task *a, const hyp_cuda_task *b)
{
    for (size_t i = 0; i < a->span_count; i++)
        for (size_t k = 0; k < b->span_count; k++) {
            const hyp_cuda_span *x = &a->spans[i], *y = &b->spans[k];
            uint64_t begin = x->begin > y->begin ? x->begin : y->begin, end = x->end < y->end ? x->end : y->end;
            if ((x->written || y->written) && begin < end) return true;
        }
    return false;
}

/* From the nearest task back, so that what one waits for through another is not listed again. */
static hyp_status find_before(scheduler *s, uint32_t task)
{
    node *n = &s->nodes[task];
    uint64_t *mine = s->reach + task * s->words;
    n->first_before = (uint32_t)s->before.len;
    for (uint32_t i = task; i-- > 0;) {
        if (mine[i / BITS] >> i % BITS & 1 || !conflict(&s->tasks[i], &s->tasks[task])) continue;
        HYP_TRY(hyp_vec_push(&s->before, s->diag, i));
        for (size_t w = 0; w < s->words; w++) mine[w] |= s->reach[i * s->words + w];
        mine[i / BITS] |= (uint64_t)1 << i % BITS;
    }
    n->before_count = (uint32_t)s->before.len - n->first_before;
    return HYP_OK;
}

static void find_ways(scheduler *s)
{
    for (uint32_t t = s->count; t-- > 0;) {
        node *n = &s->nodes[t];
        n->way += s->tasks[t].seconds;
        for (uint32_t i = 0; i < n->before_count; i++) {
            node *earlier = &s->nodes[s->before.data[n->first_before + i]];
            if (n->way > earlier->way) earlier->way = n->way;
        }
    }
}

/* Longest way first. One that another waits for has a way that is no shorter, and stands before it in the list. */
static void sort(const scheduler *s, uint32_t *order)
{
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t k = i;
        for (; k > 0 && s->nodes[order[k - 1]].way < s->nodes[i].way; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

/* The stream on which a task can begin first; of equals the one whose newest task it waits for, then the first. */
static uint32_t choose_branch(const scheduler *s, uint32_t task, const uint32_t *newest, uint32_t branches,
                              double *out_begins)
{
    const node *n = &s->nodes[task];
    uint32_t best = 0;
    bool best_follows = false;
    *out_begins = -1;
    for (uint32_t branch = 0; branch < branches; branch++) {
        double begins = newest[branch] ? s->nodes[newest[branch] - 1].ends : 0;
        bool follows = false;
        for (uint32_t i = 0; i < n->before_count; i++) {
            uint32_t earlier = s->before.data[n->first_before + i];
            double there = s->nodes[earlier].ends + (s->tasks[earlier].branch == branch ? 0 : s->hop);
            if (there > begins) begins = there;
            follows = follows || newest[branch] == earlier + 1;
        }
        if (*out_begins >= 0 && (begins > *out_begins || (begins == *out_begins && (best_follows || !follows))))
            continue;
        best = branch;
        best_follows = follows;
        *out_begins = begins;
    }
    return best;
}

/* What has ended when `other` has, has ended when the task begins. */
static void learn(hyp_cuda_task *task, const hyp_cuda_task *other)
{
    for (uint32_t branch = 0; branch < HYP_CUDA_BRANCHES; branch++)
        if (other->known[branch] > task->known[branch]) task->known[branch] = other->known[branch];
    if (other->place > task->known[other->branch]) task->known[other->branch] = other->place;
}

/* Waits for no more than it must: what has ended when the one before it in its stream has, or when another that it
 * waits for has, is not waited for. The latest goes first, since it knows most. */
static void set_waits(scheduler *s, uint32_t task, uint32_t before_plus1)
{
    const node *n = &s->nodes[task];
    hyp_cuda_task *t = &s->tasks[task];
    memset(t->after, 0, sizeof t->after);
    memset(t->known, 0, sizeof t->known);
    if (before_plus1) learn(t, &s->tasks[before_plus1 - 1]);
    for (;;) {
        hyp_cuda_task *latest = NULL;
        for (uint32_t i = 0; i < n->before_count; i++) {
            hyp_cuda_task *other = &s->tasks[s->before.data[n->first_before + i]];
            if (!hyp_cuda_ends_before(other, t) && (!latest || other->place > latest->place)) latest = other;
        }
        if (!latest) break;
        t->after[latest->branch] = (uint32_t)(latest - s->tasks) + 1;
        latest->awaited = true;
        learn(t, latest);
    }
}

static void put_on_branches(scheduler *s, uint32_t branches, hyp_cuda_schedule *out)
{
    uint32_t newest[HYP_CUDA_BRANCHES] = {0}; /* task + 1 */
    double full = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t task = out->order[i];
        double begins;
        hyp_cuda_task *t = &s->tasks[task];
        t->branch = choose_branch(s, task, newest, branches, &begins);
        t->awaited = false;
        t->place = i + 1;
        s->nodes[task].ends = begins + t->seconds;
        set_waits(s, task, newest[t->branch]);
        newest[t->branch] = task + 1;
        if (t->branch >= out->branches) out->branches = t->branch + 1;
        if (s->nodes[task].ends > out->seconds) out->seconds = s->nodes[task].ends;
        out->serial_seconds += t->seconds;
        full += t->full;
    }
    if (full > out->seconds) out->seconds = full;
    for (uint32_t branch = 1; branch < out->branches; branch++) {
        if (newest[0] && hyp_cuda_ends_before(&s->tasks[newest[branch] - 1], &s->tasks[newest[0] - 1])) continue;
        out->last[branch] = newest[branch];
        s->tasks[newest[branch] - 1].awaited = true;
    }
}

static hyp_status make(scheduler *s, uint32_t branches, hyp_cuda_schedule *out)
{
    s->words = s->count / BITS + 1;
    s->nodes = hyp_arena_zalloc(&s->arena, s->count + 1, sizeof *s->nodes);
    s->reach = hyp_arena_zalloc(&s->arena, (size_t)s->count + 1, s->words * sizeof *s->reach);
    if (!s->nodes || !s->reach)
        return hyp_fail_memory(s->diag, s->count * (sizeof *s->nodes + s->words * sizeof *s->reach));
    for (uint32_t t = 0; t < s->count; t++) HYP_TRY(find_before(s, t));
    find_ways(s);
    sort(s, out->order);
    put_on_branches(s, branches, out);
    return HYP_OK;
}

hyp_status hyp_cuda_make_schedule(hyp_cuda_task *tasks, uint32_t count, uint32_t branches, double hop_seconds,
                                  hyp_cuda_schedule *out, hyp_diag *diag)
{
    scheduler s = {.tasks = tasks, .count = count, .hop = hop_seconds, .diag = diag};
    *out = (hyp_cuda_schedule){.order = out->order};
    hyp_status status = make(&s, branches, out);
    hyp_vec_free(&s.before);
    hyp_arena_dispose(&s.arena);
    return status;
}
