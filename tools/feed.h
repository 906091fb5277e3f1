/* feed.h - batches of a training on a GPU. Threads of their own gather the rows of the next one and copy them to the
 * device while the step before it is under way. Which rows those are is the caller's to say, so that a training is the
 * same with and without.
 */
#ifndef HYPATIA_TOOLS_FEED_H
#define HYPATIA_TOOLS_FEED_H

#include "dataset.h"

typedef struct feed feed;

/* For batches of up to `rows` rows of the inputs that have columns in `d`; `inputs`, which are copied, say what the
 * others are. *out is NULL where there is nothing to be gained: the engine's device is the host, or a batch is so small
 * that it goes along with the run. An exit code after a message. */
int feed_open(feed **out, hyp_engine *engine, const dataset *d, const hyp_tensor *inputs, size_t input_count, int64_t rows,
              const char *tool);
/* Waits for what is under way. NULL-safe. */
void feed_close(feed *f);

/* Begins to make the batch of these rows, which stay there until feed_take. There is one at a time. */
void feed_prepare(feed *f, const dataset *d, const uint64_t *rows, size_t count);
/* All inputs of a run on these rows: what was begun with them, or what is made now. Lent until the next but one call; the run
 * with those of the call before has to have ended. An exit code after a message. */
int feed_take(feed *f, const dataset *d, const uint64_t *rows, size_t count, const hyp_tensor **out);

#endif
