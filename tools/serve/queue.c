#include "queue.h"

#include <errno.h>
#include <string.h>

#include "clock.h"

hyp_status job_queue_init(job_queue *q, size_t most, hyp_diag *diag)
{
    *q = (job_queue){.most = most};
    q->last = &q->first;
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) return refuse_memory(diag);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&q->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!failed && pthread_mutex_init(&q->mutex, NULL) != 0) {
        pthread_cond_destroy(&q->changed);
        failed = 1;
    }
    return failed ? refuse_memory(diag) : HYP_OK;
}

void job_queue_dispose(job_queue *q)
{
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
}

bool job_queue_push(job_queue *q, job *j)
{
    pthread_mutex_lock(&q->mutex);
    bool fits = !q->closed && q->count < q->most;
    if (fits) {
        j->queued_ns = clock_ns();
        j->next = NULL;
        *q->last = j;
        q->last = &j->next;
        q->count++;
        pthread_cond_broadcast(&q->changed); /* one of the threads may not be able to use it */
    }
    pthread_mutex_unlock(&q->mutex);
    return fits;
}

void job_queue_close(job_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->closed = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
}

void job_queue_hurry(job_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->hurried = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
}

job *job_queue_take_all(job_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    job *all = q->first;
    q->first = NULL;
    q->last = &q->first;
    q->count = 0;
    pthread_mutex_unlock(&q->mutex);
    return all;
}

size_t job_queue_length(job_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    size_t count = q->count;
    pthread_mutex_unlock(&q->mutex);
    return count;
}

/* ---- batches ------------------------------------------------------------------------------------------------ */

/* Equal but for the batch axis. */
static bool joins(const job *a, const job *b)
{
    if (a->rows <= 0 || b->rows <= 0 || a->input_count != b->input_count) return false;
    for (size_t i = 0; i < a->input_count; i++) {
        const hyp_tensor *x = &a->inputs[i], *y = &b->inputs[i];
        if (x->rank != y->rank || memcmp(x->dims + 1, y->dims + 1, (size_t)(x->rank - 1) * sizeof *x->dims) != 0)
            return false;
    }
    return true;
}

static job *unlink_job(job_queue *q, job **at)
{
    job *j = *at;
    *at = j->next;
    if (q->last == &j->next) q->last = at;
    q->count--;
    j->next = NULL;
    return j;
}

/* A batch while it is made up. */
typedef struct batch {
    job *first, **last;
    int64_t rows;
} batch;

/* Adds what joins the batch and fits, in order. */
static void collect(job_queue *q, batch *b, int64_t most_rows)
{
    for (job **at = &q->first; *at && b->rows < most_rows;) {
        if (!joins(b->first, *at) || (*at)->rows > most_rows - b->rows) {
            at = &(*at)->next;
            continue;
        }
        job *j = unlink_job(q, at);
        b->rows += j->rows;
        *b->last = j;
        b->last = &j->next;
    }
}

/* False: the time is over. */
static bool wait_until(job_queue *q, uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    return pthread_cond_timedwait(&q->changed, &q->mutex, &t) != ETIMEDOUT;
}

/* Adds what comes while the first of the batch may wait. Where others wait that do not join, it is not held up for
 * more. */
static void collect_later(job_queue *q, batch *b, const batching *how)
{
    q->collecting = true;
    while (b->rows < how->most_rows && !q->first && !q->closed && !q->hurried &&
           wait_until(q, b->first->queued_ns + how->delay_ns))
        collect(q, b, how->most_rows);
    q->collecting = false;
    pthread_cond_broadcast(&q->changed);
}

job *job_queue_take(job_queue *q, const batching *how)
{
    pthread_mutex_lock(&q->mutex);
    while (q->collecting || (!q->first && !q->closed)) pthread_cond_wait(&q->changed, &q->mutex);
    job *first = NULL;
    if (q->first) {
        first = unlink_job(q, &q->first);
        batch b = {first, &first->next, first->rows};
        if (first->rows > 0 && first->rows < how->most_rows) {
            collect(q, &b, how->most_rows);
            if (how->delay_ns) collect_later(q, &b, how);
        }
        for (job *j = first; j; j = j->next) j->begun_ns = clock_ns();
    }
    pthread_mutex_unlock(&q->mutex);
    return first;
}
