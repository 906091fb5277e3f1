#include "runtime/core/shared_block.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

enum { LEAST = 1 << 14 }; /* bytes: of less it is not worth it */

typedef struct block {
    const void *space; /* NULL: the host's memory */
    void *data;
    size_t bytes, users;
    uint64_t hash;
} block;

/* The process's: engines do not know of each other. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HYP_VEC(block) blocks;

void *hyp_block_find(const void *space, uint64_t hash, size_t bytes)
{
    void *found = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < blocks.len && !found; i++) {
        block *b = &blocks.data[i];
        if (b->space != space || b->hash != hash || b->bytes != bytes) continue;
        b->users++;
        found = b->data;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void hyp_block_add(const void *space, void *data, uint64_t hash, size_t bytes)
{
    hyp_mem_account *before = hyp_mem_charge(NULL);
    hyp_diag unused = {0};
    pthread_mutex_lock(&lock);
    (void)!hyp_vec_push(&blocks, &unused, (block){space, data, bytes, 1, hash});
    pthread_mutex_unlock(&lock);
    hyp_mem_charge(before);
}

bool hyp_block_leave(const void *space, const void *data, size_t *out_bytes)
{
    bool unused = true;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < blocks.len; i++) {
        block *b = &blocks.data[i];
        if (b->space != space || b->data != data) continue;
        *out_bytes = b->bytes;
        unused = --b->users == 0;
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

/* Frees what the thread's account does not have. */
static void free_uncharged(void *data)
{
    hyp_mem_account *before = hyp_mem_charge(NULL);
    hyp_aligned_free(data);
    hyp_mem_charge(before);
}

void *hyp_block_share(void *data, size_t bytes)
{
    size_t ignored;
    if (!data || bytes < LEAST || hyp_aligned_is_sourced(data))
        return data; /* its source may go before other users do */
    uint64_t hash = hyp_hash(data, bytes, 0);
    void *found = hyp_block_find(NULL, hash, bytes);
    if (found && memcmp(found, data, bytes) == 0) {
        free_uncharged(data); /* the account has paid for as much, and goes on doing so */
        return found;
    }
    if (found && hyp_block_leave(NULL, found, &ignored)) free_uncharged(found);
    hyp_block_add(NULL, data, hash, bytes);
    return data;
}

void hyp_block_drop(void *data)
{
    size_t bytes = 0;
    if (!data) return;
    if (hyp_block_leave(NULL, data, &bytes))
        hyp_aligned_free(data);
    else
        hyp_mem_give(bytes);
}
