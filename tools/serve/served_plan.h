/* served_plan.h - a plan that is loaded once, with contexts (instances) in threads of their own that take requests from
 * one queue. Immutable but for the queue; what replaces it is another one, beside it. Nothing of HTTP.
 */
#ifndef HYPATIA_SERVE_SERVED_PLAN_H
#define HYPATIA_SERVE_SERVED_PLAN_H

#include "metrics.h"
#include "queue.h"
#include "v2.h"

typedef struct served_plan served_plan;

typedef struct served_plan_options {
    hyp_engine_options engine; /* what it points to is borrowed for the call, but its log */
    uint64_t context_memory;   /* hyp_context_options.memory_limit */
    bool map;                  /* the file is mapped: who replaces it must not write into it. Else it is read */
    int32_t instances;
    size_t queue;      /* requests that wait at most */
    uint64_t queue_ns; /* how long at most; 0: any time */
    batching batching;
    model_metrics *metrics; /* borrowed, as `user` */
    void (*ended)(served_plan *p,
                  void *user); /* nobody uses it any more: served_plan_destroy is to be called, by another thread */
    void (*lost)(served_plan *p, void *user); /* the device gave up */
    void *user;
} served_plan_options;

/* Loads the plan, prepares the shapes that are known before a request comes, and starts the instances. *out has one
 * reference. Errors as of hyp_engine_load_file; HYP_ERR_UNSUPPORTED for a training step. */
hyp_status served_plan_open(const char *path, const served_plan_options *o, served_plan **out, hyp_diag *diag);
/* Any thread. With the last reference the instances end, when what waits has run. */
void served_plan_acquire(served_plan *p);
void served_plan_release(served_plan *p);
/* After `ended`. */
void served_plan_destroy(served_plan *p);

/* Borrowed, as long as there is a reference. */
const v2_signature *served_plan_signature(const served_plan *p);
const char *served_plan_device(const served_plan *p);
/* Why requests are not joined though batching asks for it; NULL: they are, or it does not. */
const char *served_plan_not_joined(const served_plan *p);
/* Bytes that the engine and its contexts have, and requests that wait. Any thread. */
void served_plan_usage(served_plan *p, size_t *out_engine, size_t *out_contexts, size_t *out_waiting);

/* Queues j, of which inputs, outputs, store, diag and done are set. False: the queue is full. By a holder of a
 * reference, who keeps it until j->done. */
bool served_plan_submit(served_plan *p, job *j);
/* No more requests are to be expected: none waits for others to join. */
void served_plan_hurry(served_plan *p);
/* Ends what waits and what runs with HYP_ERR_CANCELLED, as far as it can be ended. */
void served_plan_abort(served_plan *p);

#endif
