/* copy_threads.h - a few threads that help the one that runs a context to copy large tensors: one alone copies slower than the bus
 * transfers. They sleep while there is nothing to do.
 */
#ifndef HYP_RUNTIME_CUDA_SESSION_COPY_THREADS_H
#define HYP_RUNTIME_CUDA_SESSION_COPY_THREADS_H

#include <stddef.h>

enum { HYP_TEAM_HELPERS = 3 };

typedef struct hyp_team hyp_team;

/* Starts the helpers; fewer where the process may run on fewer processors. NULL where there is none, or memory or threads
 * are out: then there is nobody to help. */
hyp_team *hyp_team_start(void);
void hyp_team_stop(hyp_team *team); /* NULL-safe; no work may be under way */

/* Calls work(user, 0) in the calling thread, and work(user, i) in the i-th helper (1 and up) if it wakes in time; returns
 * when all calls have. One call of hyp_team_run at a time. */
void hyp_team_run(hyp_team *team, void (*work)(void *user, size_t self), void *user);

#endif
