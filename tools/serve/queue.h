/* queue.h - requests that wait for a plan, and which of them run together. Threads; nothing of plans or of HTTP. */
#ifndef HYPATIA_SERVE_QUEUE_H
#define HYPATIA_SERVE_QUEUE_H

#include <pthread.h>

#include "store.h"

/* One request to a plan. Whoever submits it owns it until then, and again from `done` on. */
typedef struct job {
    const hyp_tensor *inputs; /* all of the plan's */
    size_t input_count;
    int64_t
        rows; /* along the batch axis, which is axis 0 of all inputs and outputs; 0: is not to be joined with others */
    hyp_tensor *outputs; /* all of the plan's: are filled in, data in the store */
    store *store;
    hyp_status status; /* of the run, with the diag's message */
    hyp_diag *diag;
    uint64_t queued_ns, begun_ns, ended_ns; /* when it was submitted, was taken, has run */
    int64_t batch_rows;                     /* that ran together; 0: it did not run */
    void (*done)(struct job *job);          /* called once, by any thread */
    struct job *next;
} job;

typedef struct job_queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    job *first, **last;
    size_t count, most;
    bool closed;     /* no job comes any more */
    bool hurried;    /* none that would be worth waiting for: batches are not held up */
    bool collecting; /* a thread makes up a batch: the others wait, so that none takes what would join it */
} job_queue;

/* How batches are made up. */
typedef struct batching {
    int64_t most_rows; /* 1: nothing is joined. A request of more runs by itself */
    uint64_t delay_ns; /* that the first request waits for others at most, since it was submitted */
} batching;

/* HYP_ERR_NO_MEMORY; nothing is to be freed then. */
hyp_status job_queue_init(job_queue *q, size_t most, hyp_diag *diag);
void job_queue_dispose(job_queue *q);

/* Sets queued_ns. False: the queue is full, or closed; the job is still the caller's. */
bool job_queue_push(job_queue *q, job *j);
/* Waits for jobs, and returns those that are to run together, in the order that they came in, linked by `next`; NULL:
 * the queue is closed, and empty. For several threads. */
job *job_queue_take(job_queue *q, const batching *how);
/* Those that wait are still taken. */
void job_queue_close(job_queue *q);
void job_queue_hurry(job_queue *q);
/* Takes all that wait. */
job *job_queue_take_all(job_queue *q);
size_t job_queue_length(job_queue *q);

#endif
