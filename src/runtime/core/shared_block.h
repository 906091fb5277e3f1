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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes a block of hyp_aligned_alloc, all `bytes` of which are set. Gives the one to use; NULL for NULL. Any thread. */
void *hyp_block_share(void *block, size_t bytes);
/* One user less of what hyp_block_share has given; the thread's account gets it back. NULL-safe. Any thread. */
void hyp_block_drop(void *block);

/* The list beneath, also for memory that only a device can read: `space` is its context, NULL the host's. Any
 * thread. */

/* The block with this hash, one user more of it; NULL where there is none. Whoever gets it compares its bytes. */
void *hyp_block_find(const void *space, uint64_t hash, size_t bytes);
/* A new block, of one user. It stays that where there is no memory for the list. */
void hyp_block_add(const void *space, void *block, uint64_t hash, size_t bytes);
/* One user less; whether it was the last, who frees it. *out_bytes is untouched where the list does not have it. */
bool hyp_block_leave(const void *space, const void *block, size_t *out_bytes);

#endif
