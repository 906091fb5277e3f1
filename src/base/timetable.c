/* timetable.c - dependencies between tasks by the bytes that they touch, list scheduling, and what comes of it. */
#include "base/timetable.h"

#include <math.h>
#include <string.h>

enum { BITS = 64 };
/* Of the time that tasks take as they are listed, where another order is taken. */
#define ORDER_MUST_GAIN 0.97

const uint32_t hyp_stream_ways[HYP_STREAM_WAYS] = {1, 2, HYP_USUAL_STREAMS};

/* What is known of a task while a schedule is made. */
typedef struct node {
    uint32_t first_before, before_count; /* in `before`: those that it waits for, but for what these wait for */
    double way;                          /* seconds from its beginning to the end of all, along the longest way */
    double ends;                         /* in play(), INFINITY until it has ended */
} node;

typedef struct scheduler {
    hyp_task *tasks;
    uint32_t count;
    double hop_seconds;
    node *nodes;
    uint32_t *longest; /* tasks, those with the longest way to the end first */
    hyp_task *kept;    /* as the tasks are and their order is in one schedule, while another is made */
    uint32_t *kept_order;
    uint64_t *reach;  /* by task: a bit for every one that it waits for, through others, too */
    uint64_t *listed; /* a bit for every one that the task at hand is said to wait for */
    size_t words;     /* of a task */
    HYP_VEC(uint32_t) before;
    hyp_arena arena;
    hyp_diag *diag;
} scheduler;

/* ---- dependencies ---------------------------------------------------------------------------------------------- */

static bool conflict(const hyp_task *a, const hyp_task *b)
{
    for (size_t i = 0; i < a->span_count; i++)
        for (size_t k = 0; k < b->span_count; k++) {
            const hyp_span *x = &a->spans[i], *y = &b->spans[k];
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
    const hyp_task *t = &s->tasks[task];
    n->first_before = (uint32_t)s->before.len;
    for (size_t i = 0; i < t->wait_count; i++) s->listed[t->waits[i] / BITS] |= (uint64_t)1 << t->waits[i] % BITS;
    for (uint32_t i = task; i-- > 0;) {
        bool waits = s->listed[i / BITS] >> i % BITS & 1;
        if (mine[i / BITS] >> i % BITS & 1 || (!waits && !conflict(&s->tasks[i], t))) continue;
        HYP_TRY(hyp_vec_push(&s->before, s->diag, i));
        for (size_t w = 0; w < s->words; w++) mine[w] |= s->reach[i * s->words + w];
        mine[i / BITS] |= (uint64_t)1 << i % BITS;
    }
    n->before_count = (uint32_t)s->before.len - n->first_before;
    for (size_t i = 0; i < t->wait_count; i++) s->listed[t->waits[i] / BITS] = 0;
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
            double there = s->nodes[earlier].ends + (s->tasks[earlier].branch == branch ? 0 : s->hop_seconds);
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
static void learn(hyp_task *task, const hyp_task *other)
{
    for (uint32_t branch = 0; branch < HYP_STREAMS; branch++)
        if (other->known[branch] > task->known[branch]) task->known[branch] = other->known[branch];
    if (other->place > task->known[other->branch]) task->known[other->branch] = other->place;
}

/* Waits for no more than it must: what has ended when the one before it in its stream has, or when another that it
 * waits for has, is not waited for. The latest goes first, since it knows most. */
static void set_waits(scheduler *s, uint32_t task, uint32_t before_plus1)
{
    const node *n = &s->nodes[task];
    hyp_task *t = &s->tasks[task];
    memset(t->after, 0, sizeof t->after);
    memset(t->known, 0, sizeof t->known);
    if (before_plus1) learn(t, &s->tasks[before_plus1 - 1]);
    for (;;) {
        hyp_task *latest = NULL;
        for (uint32_t i = 0; i < n->before_count; i++) {
            hyp_task *other = &s->tasks[s->before.data[n->first_before + i]];
            if (!hyp_task_ends_before(other, t) && (!latest || other->place > latest->place)) latest = other;
        }
        if (!latest) break;
        t->after[latest->branch] = (uint32_t)(latest - s->tasks) + 1;
        latest->awaited = true;
        learn(t, latest);
    }
}

static void put_on_streams(scheduler *s, uint32_t streams, hyp_timetable *out)
{
    uint32_t newest[HYP_STREAMS] = {0}; /* task + 1 */
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t task = out->order[i];
        double begins;
        hyp_task *t = &s->tasks[task];
        t->branch = choose_branch(s, task, newest, streams, &begins);
        t->awaited = false;
        t->place = i + 1;
        s->nodes[task].ends = begins + t->seconds;
        set_waits(s, task, newest[t->branch]);
        newest[t->branch] = task + 1;
        if (t->branch >= out->branches) out->branches = t->branch + 1;
        out->serial_seconds += t->seconds;
    }
    for (uint32_t branch = 1; branch < out->branches; branch++) {
        if (newest[0] && hyp_task_ends_before(&s->tasks[newest[branch] - 1], &s->tasks[newest[0] - 1])) continue;
        out->last[branch] = newest[branch];
        s->tasks[newest[branch] - 1].awaited = true;
    }
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

/* A run of a schedule: what is done now, and what comes next. */
typedef struct player {
    const scheduler *s;
    const hyp_timetable *schedule;
    uint32_t next[HYP_STREAMS]; /* by stream: the place in the order from which its next task is looked for */
    uint32_t now[HYP_STREAMS];  /* by stream: the task that runs, + 1; 0 = none */
    double left[HYP_STREAMS];   /* of its seconds */
    double clock;
} player;

/* When the next task of a stream that does nothing can begin, as far as that is known; INFINITY: not now. */
static double find_next(player *p, uint32_t stream, uint32_t *out_task)
{
    const scheduler *s = p->s;
    uint32_t *next = &p->next[stream];
    while (*next < s->count && s->tasks[p->schedule->order[*next]].branch != stream) ++*next;
    if (*next == s->count) return INFINITY;
    uint32_t task = *out_task = p->schedule->order[*next];
    const node *n = &s->nodes[task];
    double begins = 0;
    for (uint32_t i = 0; i < n->before_count; i++) {
        uint32_t earlier = s->before.data[n->first_before + i];
        begins = fmax(begins, s->nodes[earlier].ends + (s->tasks[earlier].branch == stream ? 0 : s->hop_seconds));
    }
    return begins;
}

/* Lets tasks begin; returns when the next one can of those that wait for nothing but a hop. */
static double begin(player *p)
{
    double soon = INFINITY;
    for (uint32_t stream = 0; stream < p->schedule->branches; stream++) {
        uint32_t task = 0;
        if (p->now[stream]) continue;
        double begins = find_next(p, stream, &task);
        if (begins > p->clock) {
            soon = fmin(soon, begins);
            continue;
        }
        p->now[stream] = task + 1;
        p->left[stream] = p->s->tasks[task].seconds;
        p->next[stream]++;
    }
    return soon;
}

/* What runs now, by stream, takes so many times as long as alone. */
static void find_slowdowns(const player *p, double out[HYP_STREAMS])
{
    double all = 0;
    for (uint32_t stream = 0; stream < p->schedule->branches; stream++)
        if (p->now[stream]) all += p->s->tasks[p->now[stream] - 1].share;
    for (uint32_t stream = 0; stream < p->schedule->branches; stream++)
        out[stream] = p->now[stream] ? fmax(1, 1 + all - p->s->tasks[p->now[stream] - 1].share) : 1;
}

/* Goes on until a task ends or `soon`. */
static void advance(player *p, double soon, node *nodes)
{
    double slowdowns[HYP_STREAMS], least = INFINITY;
    uint32_t first = HYP_STREAMS; /* to end */
    find_slowdowns(p, slowdowns);
    for (uint32_t stream = 0; stream < p->schedule->branches; stream++) {
        double ends = p->now[stream] ? p->left[stream] * slowdowns[stream] : INFINITY;
        if (ends >= least) continue;
        least = ends;
        first = stream;
    }
    if (p->clock + least > soon) {
        least = soon - p->clock;
        first = HYP_STREAMS;
    }
    p->clock = first == HYP_STREAMS ? soon : p->clock + least;
    for (uint32_t stream = 0; stream < p->schedule->branches; stream++) {
        if (!p->now[stream]) continue;
        p->left[stream] = stream == first ? 0 : fmax(0, p->left[stream] - least / slowdowns[stream]);
        if (p->left[stream] > 0) continue;
        nodes[p->now[stream] - 1].ends = p->clock;
        p->now[stream] = 0;
    }
}

/* What the schedule takes: each stream does its tasks in their order, when those have ended that they wait for. */
static double play(scheduler *s, const hyp_timetable *schedule)
{
    player p = {.s = s, .schedule = schedule};
    for (uint32_t t = 0; t < s->count; t++) s->nodes[t].ends = INFINITY;
    for (;;) {
        double soon = begin(&p);
        bool any = false;
        for (uint32_t stream = 0; stream < schedule->branches; stream++) any = any || p.now[stream];
        if (!any && soon == INFINITY) return p.clock; /* the order is right, so that all have ended */
        advance(&p, soon, s->nodes);
    }
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static hyp_status find_order(scheduler *s)
{
    s->words = s->count / BITS + 1;
    s->nodes = hyp_arena_zalloc(&s->arena, s->count + 1, sizeof *s->nodes);
    s->reach = hyp_arena_zalloc(&s->arena, (size_t)s->count + 2, s->words * sizeof *s->reach);
    s->longest = hyp_arena_zalloc(&s->arena, s->count + 1, sizeof *s->longest);
    s->kept = hyp_arena_zalloc(&s->arena, s->count + 1, sizeof *s->kept);
    s->kept_order = hyp_arena_zalloc(&s->arena, s->count + 1, sizeof *s->kept_order);
    if (!s->nodes || !s->reach || !s->longest || !s->kept || !s->kept_order)
        return hyp_fail_memory(s->diag, s->count * (sizeof *s->nodes + s->words * sizeof *s->reach));
    s->listed = s->reach + ((size_t)s->count + 1) * s->words;
    for (uint32_t t = 0; t < s->count; t++) HYP_TRY(find_before(s, t));
    find_ways(s);
    sort(s, s->longest);
    return HYP_OK;
}

static void make_by(scheduler *s, bool longest_first, uint32_t streams, hyp_timetable *out)
{
    *out = (hyp_timetable){.order = out->order};
    for (uint32_t i = 0; i < s->count; i++) out->order[i] = longest_first ? s->longest[i] : i;
    put_on_streams(s, streams, out);
    out->seconds = play(s, out);
}

/* As the tasks are listed, unless the other order is predicted to be better: chains that are listed one after the other
 * then stay so, and are not all at their large tasks at once. */
static void make(scheduler *s, uint32_t streams, hyp_timetable *out)
{
    hyp_timetable listed = *out;
    make_by(s, false, streams, &listed);
    if (streams > 1) {
        memcpy(s->kept, s->tasks, s->count * sizeof *s->tasks);
        memcpy(s->kept_order, listed.order, s->count * sizeof *listed.order);
        make_by(s, true, streams, out);
        if (out->seconds < listed.seconds * ORDER_MUST_GAIN) return;
        memcpy(s->tasks, s->kept, s->count * sizeof *s->tasks);
        memcpy(listed.order, s->kept_order, s->count * sizeof *listed.order);
    }
    *out = listed;
}

static void dispose(scheduler *s)
{
    hyp_vec_free(&s->before);
    hyp_arena_dispose(&s->arena);
}

hyp_status hyp_timetable_make(hyp_task *tasks, uint32_t count, uint32_t streams, double hop_seconds, hyp_timetable *out,
                              hyp_diag *diag)
{
    scheduler s = {.tasks = tasks, .count = count, .hop_seconds = hop_seconds, .diag = diag};
    hyp_status status = find_order(&s);
    if (status == HYP_OK) make(&s, streams, out);
    dispose(&s);
    return status;
}

static hyp_status predict(scheduler *s, uint32_t streams, double *out_seconds, uint32_t *out_streams)
{
    hyp_timetable schedule = {.order = hyp_arena_zalloc(&s->arena, s->count + 1, sizeof *schedule.order)};
    if (!schedule.order) return hyp_fail_memory(s->diag, s->count * sizeof *schedule.order);
    double best = INFINITY;
    HYP_TRY(find_order(s));
    for (size_t i = 0; i < HYP_STREAM_WAYS && hyp_stream_ways[i] <= streams; i++) {
        make(s, hyp_stream_ways[i], &schedule);
        if (schedule.seconds >= best * HYP_STREAMS_MUST_GAIN) continue;
        best = schedule.seconds;
        *out_seconds = schedule.seconds;
        *out_streams = schedule.branches;
    }
    return HYP_OK;
}

hyp_status hyp_timetable_predict(hyp_task *tasks, uint32_t count, uint32_t streams, double hop_seconds, double *out_seconds,
                                 uint32_t *out_streams, hyp_diag *diag)
{
    scheduler s = {.tasks = tasks, .count = count, .hop_seconds = hop_seconds, .diag = diag};
    *out_seconds = 0;
    *out_streams = 0;
    hyp_status status = predict(&s, streams, out_seconds, out_streams);
    dispose(&s);
    return status;
}
