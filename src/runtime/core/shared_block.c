#include "runtime/core/shared_block.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

enum { LEAST = 1 << 14 }; /* bytes: of less it is not worth it */

typedef struct block {
    void *data;
    size_t bytes, users;
    uint64_t hash;
} block;

/* The process's: engines do not know of each other. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HYP_VEC(block) blocks;

/* The block with these bytes, by their hash, with one user more; NULL where there is none. Not yet compared. */
static void *find(uint64_t hash, size_t bytes)
{
    void *found = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < blocks.len && !found; i++) {
        if (blocks.data[i].hash != hash || blocks.data[i].bytes != bytes) continue;
        blocks.data[i].users++;
        found = blocks.data[i].data;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Where there is no memory for the list it stays the block of one user. */
static void add(void *data, uint64_t hash, size_t bytes)
{
    hyp_mem_account *before = hyp_mem_charge(NULL);
    hyp_diag unused = {0};
    pthread_mutex_lock(&lock);
    (void)!hyp_vec_push(&blocks, &unused, (block){data, bytes, 1, hash});
    pthread_mutex_unlock(&lock);
    hyp_mem_charge(before);
}

/* Frees what the thread's account does not have. */
static void free_uncharged(void *data)
{
    hyp_mem_account *before = hyp_mem_charge(NULL);
    hyp_aligned_free(data);
    hyp_mem_charge(before);
}

/* One user less; gives what nobody uses any more. */
static void *leave(void *data, size_t *out_bytes)
{
    void *unused = data;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < blocks.len; i++) {
        block *b = &blocks.data[i];
        if (b->data != data) continue;
        *out_bytes = b->bytes;
        if (--b->users > 0) unused = NULL;
        if (unused) *b = blocks.data[--blocks.len];
        break;
    }
    if (!blocks.len) {
        hyp_mem_account *before = hyp_mem_charge(NULL);
        hyp_vec_free(&blocks);
        hyp_mem_charge(before);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

void *hyp_block_share(void *data, size_t bytes)
{
    size_t ignored;
    if (!data || bytes < LEAST || hyp_aligned_is_sourced(data))
        return data; /* its source may go before other users do */
    uint64_t hash = hyp_hash(data, bytes, 0);
    void *found = find(hash, bytes);
    if (found && memcmp(found, data, bytes) == 0) {
        free_uncharged(data); /* the account has paid for as much, and goes on doing so */
        return found;
    }
    if (found && leave(found, &ignored)) free_uncharged(found);
    add(data, hash, bytes);
    return data;
}

void hyp_block_drop(void *data)
{
    size_t bytes = 0;
    if (!data) return;
    if (leave(data, &bytes))
        hyp_aligned_free(data);
    else
        hyp_mem_give(bytes);
}
