/* instance.h - one context of a plan, which runs requests, several as one batch. One thread; nothing of queues but
 * their jobs. */
#ifndef HYPATIA_SERVE_INSTANCE_H
#define HYPATIA_SERVE_INSTANCE_H

#include "queue.h"
#include "v2.h"

typedef struct instance {
    struct served_plan *owner; /* for its thread */
    pthread_t thread;
    hyp_context *context;
    const v2_signature *signature;
    hyp_tensor *inputs, *outputs; /* of the run */
    void **staging;               /* of each input: memory where requests lie one behind the other */
    size_t *staging_bytes;
    _Atomic size_t bytes; /* hyp_context_memory_bytes and staging; read by others */
} instance;

/* Takes the context, also where it fails. */
hyp_status instance_init(instance *in, hyp_context *context, const v2_signature *signature, hyp_diag *diag);
void instance_dispose(instance *in);
/* Sets `bytes`; between runs. */
void instance_note_memory(instance *in);

/* Runs linked jobs together, which job_queue_take has found to fit; where that fails, and there are several, each by
 * itself, so that what is wrong with one is told to that one alone. Sets outputs, status, ended_ns and batch_rows of
 * all. */
void instance_run(instance *in, job *jobs);

#endif
