/* mem.h - the only place that calls malloc; checked sizes. */
#ifndef HYP_BASE_MEM_H
#define HYP_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

/* NULL when memory is out. A size of 0 gives a pointer that can be freed. */
void *hyp_malloc(size_t size);
void *hyp_calloc(size_t count, size_t size); /* zeroed; NULL also when count*size overflows */
void *hyp_realloc(void *p, size_t size);     /* on NULL the old block stands */
void hyp_free(void *p);
/* Large blocks: align a power of two; of the thread's account's source, if it has one. hyp_aligned_free gives a block
 * back to where it came from, whatever account is named then. */
void *hyp_aligned_alloc(size_t align, size_t size);
void hyp_aligned_free(void *p);
/* Such a block that lives long and is read as a whole, such as packed weights: one of 64 KiB to 2 MiB lies in huge pages beside
 * others, since processors do not read ahead over the end of a page. Freed, its memory goes back to the system. Any thread. */
void *hyp_lasting_alloc(size_t align, size_t size);
size_t hyp_lasting_bytes(void); /* of all blocks that lie in such pages, which malloc does not know of; for tests */
bool hyp_aligned_is_sourced(const void *p); /* it is of an account's source */

/* For arrays that grow large and live long: from two megabytes on they are pages of their own, asked to be huge ones (a
 * first touch costs far less then), and growing moves pages, not bytes. Contents are kept, what is new is not set. An
 * array is made from NULL and 0 and never shrinks; on NULL the old block stands. */
void *hyp_large_realloc(void *old, size_t old_size, size_t new_size);
void hyp_large_free(void *p, size_t size); /* the size it has now */

/* What one owner, an engine say, has of this memory (arrays of hyp_large_realloc apart), and may have. A thread names the account that its blocks are
 * charged to; what it frees is given back to the account that it names then. So the blocks of an owner are freed while
 * its account is named, or all together with it. Any number of threads may charge one. */
/* Where the large blocks of an owner come from in place of the system; see hyp_allocator of hypatia/runtime.h. */
typedef struct hyp_mem_source {
    void *(*alloc)(size_t bytes, size_t alignment, void *user);
    void (*free)(void *data, size_t bytes, size_t alignment, void *user);
    void *user;
} hyp_mem_source;
typedef struct hyp_mem_account {
    const hyp_mem_source *source; /* NULL: the system. It lives as long as what it has given */
    size_t most; /* bytes that it may have; SIZE_MAX: as many as there are */
    size_t used; /* bytes that it has: of aligned blocks as many as were asked for, of others what they take */
} hyp_mem_account;
/* The account of the calling thread from now on, NULL: none. Gives the one before, to be named again afterwards. */
hyp_mem_account *hyp_mem_charge(hyp_mem_account *account);
hyp_mem_account *hyp_mem_charged(void);
size_t hyp_mem_used(const hyp_mem_account *account);
/* Memory of the thread's account that is not from here but, say, a GPU's. False where that is more than it may have. */
bool hyp_mem_take(size_t bytes);
void hyp_mem_give(size_t bytes);
/* Whether the thread's account may have so many bytes more; where not, it is as if they were refused. */
bool hyp_mem_fits(size_t bytes);
/* The status of what failed for want of memory: HYP_ERR_LIMIT, with a message about `option`, where the account was why the
 * thread's last allocation that failed did. */
hyp_status hyp_mem_status(const hyp_mem_account *account, hyp_status status, const char *option, hyp_diag *diag);

/* Test hook: the n-th allocation from now (1 = the next) fails, and every one after it, until called
 * with 0. Per thread. */
void hyp_mem_fail_after(uint64_t n);
/* Allocations made through this file by the calling thread since it started. */
uint64_t hyp_mem_count(void);

/* Checked arithmetic: false when the result would not fit. */
static inline bool hyp_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool hyp_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool hyp_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool hyp_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* One more axis of a tensor, of `size` >= 0, times *count. *room leaves out the axes of 0 and starts as the bytes of the
 * largest type: false where it overflows, else no product of some of the axes does. */
static inline bool hyp_add_axis(int64_t size, int64_t *room, int64_t *count)
{
    if (!hyp_mul_i64(*room, size ? size : 1, room)) return false;
    *count *= size;
    return true;
}

/* Growable array: `HYP_VEC(int) v = {0}; HYP_TRY(hyp_vec_push(&v, diag, 3)); ...`.
 * data is NULL while cap is 0; pointers into it live until the next growth. */
#define HYP_VEC(T)                                                                                                     \
    struct {                                                                                                           \
        T *data;                                                                                                       \
        size_t len;                                                                                                    \
        size_t cap;                                                                                                    \
    }

/* Makes room for `want` elements in total; keeps len. Grows by doubling. */
hyp_status hyp_vec_reserve_(void **data, size_t *cap, size_t want, size_t elem, hyp_diag *diag);
#define hyp_vec_reserve(v, want, diag)                                                                                 \
    hyp_vec_reserve_((void **)&(v)->data, &(v)->cap, (want), sizeof *(v)->data, (diag))
/* Appends room for one more element and evaluates to a status; `(v)->data[(v)->len-1]` is the new one,
 * uninitialised. */
#define hyp_vec_grow(v, diag)                                                                                          \
    (hyp_vec_reserve((v), (v)->len + 1, (diag)) == HYP_OK ? ((v)->len++, HYP_OK) : HYP_ERR_NO_MEMORY)
/* Appends a value, which stands last because one in braces has commas. */
#define hyp_vec_push(v, diag, ...)                                                                                     \
    (hyp_vec_grow((v), (diag)) == HYP_OK ? ((v)->data[(v)->len - 1] = __VA_ARGS__, HYP_OK) : HYP_ERR_NO_MEMORY)
#define hyp_vec_free(v) (hyp_free((v)->data), (v)->data = NULL, (v)->len = (v)->cap = 0)

/* Bump arena: freed as a whole. Zero-initialise. Not thread-safe. */
typedef struct hyp_arena {
    struct hyp_arena_block *blocks; /* newest first */
    size_t used;                    /* bytes taken from the newest block */
} hyp_arena;

/* 16-byte aligned; NULL when memory is out. hyp_arena_zalloc zeroes and checks count*size. */
void *hyp_arena_alloc(hyp_arena *arena, size_t size);
void *hyp_arena_zalloc(hyp_arena *arena, size_t count, size_t size);
char *hyp_arena_strndup(hyp_arena *arena, const char *text, size_t len);
char *hyp_arena_strdup(hyp_arena *arena, const char *text);
char *hyp_arena_printf(hyp_arena *arena, const char *fmt, ...) HYP_PRINTF(2, 3);
void hyp_arena_dispose(hyp_arena *arena);

#endif
