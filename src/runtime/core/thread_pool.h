/* thread_pool.h - the threads that share out the loops of all contexts of a process.
 *
 * A loop is cut into parts. Who runs it takes parts one after the other, and so does whoever of the pool is free; the
 * one who runs it waits for parts that others are at, never for somebody who has not begun. A processor that is busy
 * with other work costs what little it does not do, and where all are busy the caller does everything.
 */
#ifndef HYP_RUNTIME_CORE_THREAD_POOL_H
#define HYP_RUNTIME_CORE_THREAD_POOL_H

#include <sched.h>

#include "hypatia/runtime.h"

typedef struct hyp_pool hyp_pool;

/* Part of a loop: begin <= i < end. `thread` counts from 0, for memory of its own: no two parts that are done at one
 * time have the same, and it is less than the threads and the elements of the loop. A thread may do several parts. */
typedef void hyp_pool_task(void *state, int64_t begin, int64_t end, int thread);

/* The pool for an engine of these options: the caller's, that of the processors that it names, or that of the process.
 * What is found once is shared. *out_threads: of a run. HYP_ERR_INVALID_ARGUMENT, HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_pool_open(const hyp_engine_options *options, hyp_pool **out, int32_t *out_threads,
                                       hyp_diag *diag);
/* The last one to close a pool ends its threads, and waits for them. NULL-safe. */
void hyp_pool_close(hyp_pool *pool);

/* While weights are prepared: puts the calling thread on the processors that the pool's engines name, so that pages which it
 * touches first lie in their memory. *before: where it was, for hyp_pool_leave; false, and nothing to leave, where no engine
 * names any. */
bool hyp_pool_visit(const hyp_pool *pool, cpu_set_t *before);
void hyp_pool_leave(const cpu_set_t *before);

/* Another context that runs on so many threads: the pool starts those that are not there yet, as many as there are
 * processors or one context wants. Where the system has no more of them, runs have fewer. Any thread may call. */
void hyp_pool_expect(hyp_pool *pool, int threads);

/* Around a run of a context: with as many runs at once as there are processors each does its loops alone. */
void hyp_pool_begin_run(hyp_pool *pool);
void hyp_pool_end_run(hyp_pool *pool);

/* Does 0 .. count on up to `threads` threads, the caller's among them, fewer where each would not have `grain`
 * elements, and returns when all are done. Allocates nothing and takes no lock; but for the first loop in a child of
 * fork, which starts threads anew. Any number of threads may call, parts of other loops too. */
void hyp_pool_run(hyp_pool *pool, int threads, int64_t count, int64_t grain, hyp_pool_task *task, void *state);

#endif
