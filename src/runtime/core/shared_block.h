/* shared_block.h - memory that engines of a process have in common: packed weights, which are the same where engines
 * have the same weights, be it of one plan, of one model compiled for several sizes, or before and after an update of
 * others.
 *
 * A block is what it holds. Whoever has made one gives it away and gets one of the same bytes, which is its own or one
 * that was there; they were compared, so that nothing depends on hashes, or on which plan is trusted. It never changes
 * from then on. Blocks of an account's own source are not shared. Each user's account is charged for all of it: what an
 * engine may have does not depend on others.
 */
#ifndef HYP_RUNTIME_CORE_SHARED_BLOCK_H
#define HYP_RUNTIME_CORE_SHARED_BLOCK_H

#include <stddef.h>

/* Takes a block of hyp_aligned_alloc, all `bytes` of which are set. Gives the one to use; NULL for NULL. Any thread. */
void *hyp_block_share(void *block, size_t bytes);
/* One user less of what hyp_block_share has given; the thread's account gets it back. NULL-safe. Any thread. */
void hyp_block_drop(void *block);

#endif
