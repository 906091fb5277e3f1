#include "base/mem.h"

#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Thread-local and for tests only: they steer failures and count, nothing else reads them. */
static _Thread_local uint64_t fail_in;
static _Thread_local uint64_t count;

void hyp_mem_fail_after(uint64_t n) { fail_in = n; }
uint64_t hyp_mem_count(void) { return count; }

/* ---- accounts ------------------------------------------------------------------------------------- */

static _Thread_local hyp_mem_account *charged; /* NULL: nothing is counted */
/* The thread's last allocation that failed, where an account was the reason; else `by` is NULL. */
static _Thread_local struct {
    const hyp_mem_account *by;
    size_t bytes, beside;
} refusal;

static bool must_fail(void)
{
    count++;
    if (fail_in == 1) {
        refusal.by = NULL;
        return true;
    }
    fail_in -= fail_in > 0;
    return false;
}

hyp_mem_account *hyp_mem_charged(void) { return charged; }

hyp_mem_account *hyp_mem_charge(hyp_mem_account *account)
{
    hyp_mem_account *before = charged;
    charged = account;
    return before;
}

size_t hyp_mem_used(const hyp_mem_account *account) { return __atomic_load_n(&account->used, __ATOMIC_RELAXED); }

bool hyp_mem_fits(size_t bytes)
{
    if (!charged) return true;
    size_t used = __atomic_load_n(&charged->used, __ATOMIC_RELAXED);
    if (bytes <= charged->most && used <= charged->most - bytes) return true;
    refusal.by = charged;
    refusal.bytes = bytes;
    refusal.beside = used;
    return false;
}

static void count_bytes(size_t bytes)
{
    if (charged) __atomic_fetch_add(&charged->used, bytes, __ATOMIC_RELAXED);
}

bool hyp_mem_take(size_t bytes)
{
    if (!hyp_mem_fits(bytes)) return false;
    count_bytes(bytes);
    return true;
}

void hyp_mem_give(size_t bytes)
{
    if (!charged) return;
    size_t used = __atomic_load_n(&charged->used, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&charged->used, &used, used > bytes ? used - bytes : 0, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

hyp_status hyp_mem_status(const hyp_mem_account *account, hyp_status status, const char *option, hyp_diag *diag)
{
    if (status != HYP_ERR_NO_MEMORY || refusal.by != account) return status;
    refusal.by = NULL;
    return hyp_fail(diag, HYP_ERR_LIMIT, "%zu bytes are wanted beside %zu that there are: %s is %zu; raise it",
                    refusal.bytes, refusal.beside, option, account->most);
}

/* ---- blocks --------------------------------------------------------------------------------------- */

static void *counted(void *p)
{
    if (!p) refusal.by = NULL; /* it is the system that has no more */
    if (p && charged) count_bytes(malloc_usable_size(p));
    return p;
}

void *hyp_malloc(size_t size)
{
    if (must_fail() || !hyp_mem_fits(size)) return NULL;
    return counted(malloc(size ? size : 1));
}

void *hyp_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (must_fail() || !hyp_mul_size(n, size, &bytes) || !hyp_mem_fits(bytes)) return NULL;
    return counted(calloc(n ? n : 1, size ? size : 1));
}

void *hyp_realloc(void *p, size_t size)
{
    size_t before = charged && p ? malloc_usable_size(p) : 0;
    if (must_fail() || (size > before && !hyp_mem_fits(size - before))) return NULL;
    void *grown = realloc(p, size ? size : 1);
    if (grown) hyp_mem_give(before);
    return counted(grown);
}

void hyp_free(void *p)
{
    if (p && charged) hyp_mem_give(malloc_usable_size(p));
    free(p);
}

/* ---- large arrays ------------------------------------------------------------------------------- */

#define HUGE_PAGE ((size_t)1 << 21)
#ifdef HYP_SMALL_SIZES /* for the address sanitizer, which sees only what malloc gives */
#define LARGE SIZE_MAX
#define PAGED SIZE_MAX
#else
#define LARGE HUGE_PAGE
#define PAGED ((size_t)1 << 16) /* blocks that live long share huge pages from this size on */
#endif

/* In front of an aligned block: where it came from. */
typedef struct aligned_head {
    void *base;   /* of the memory that was taken */
    size_t bytes; /* that were asked for */
    size_t room, align;
    const hyp_mem_source *source; /* NULL: the system */
    struct region *region;        /* of hyp_lasting_alloc; else NULL */
} aligned_head;

enum { LEAST_ALIGN = 64 };
_Static_assert(sizeof(aligned_head) <= LEAST_ALIGN, "it fits in front of any aligned block");

static aligned_head *head_of(const void *p) { return (aligned_head *)(uintptr_t)p - 1; }

void *hyp_aligned_alloc(size_t align, size_t size)
{
    const hyp_mem_source *source = charged ? charged->source : NULL;
    bool large = size >= LARGE && !source;
    size_t room;
    if (align < LEAST_ALIGN) align = LEAST_ALIGN;
    if (large && align < HUGE_PAGE) align = HUGE_PAGE;
    if (must_fail() || !hyp_add_size(size, 2 * align - 1, &room) || !hyp_mem_fits(size)) return NULL;
    room &= ~(align - 1);
    char *base = source ? source->alloc(room, align, source->user) : aligned_alloc(align, room);
    if (!base) return counted(NULL);
    char *p = base + align;
    if (large) { /* a kernel without them serves as well */
        (void)madvise(base, align, MADV_NOHUGEPAGE);
        (void)madvise(p, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
    }
    *head_of(p) = (aligned_head){base, size, room, align, source, NULL};
    count_bytes(size);
    return p;
}

static size_t whole_pages(size_t size) { return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); }

/* Address space that begins at a huge page. */
static char *map_aligned(size_t size)
{
    char *p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    if (before < HUGE_PAGE) munmap(p + before + size, HUGE_PAGE - before);
    (void)madvise(p + before, size, MADV_HUGEPAGE); /* a kernel without them serves as well */
    return p + before;
}

/* ---- blocks that live long -------------------------------------------------------------------------- */

/* Huge pages that blocks lie in, one behind the other. */
typedef struct region {
    char *at;
    size_t used, blocks;
} region;
enum { REGION = 1 << 25 };

static pthread_mutex_t regions = PTHREAD_MUTEX_INITIALIZER;
static region *growing; /* the one that new blocks go to; NULL: none */
static size_t lasting;  /* bytes of all blocks */

size_t hyp_lasting_bytes(void)
{
    pthread_mutex_lock(&regions);
    size_t bytes = lasting;
    pthread_mutex_unlock(&regions);
    return bytes;
}

/* One with room for a block and what is in front of it; NULL: the system has no more. */
static region *region_for(size_t room)
{
    if (growing && growing->used + room <= REGION) return growing;
    region *r = malloc(sizeof *r);
    char *at = r ? map_aligned(REGION) : NULL;
    if (!at) {
        free(r);
        return NULL;
    }
    *r = (region){.at = at};
    return growing = r;
}

void *hyp_lasting_alloc(size_t align, size_t size)
{
    if (size < PAGED || size >= LARGE || align > HUGE_PAGE / 2 || (charged && charged->source))
        return hyp_aligned_alloc(align, size);
    if (must_fail() || !hyp_mem_fits(size)) return NULL;
    if (align < LEAST_ALIGN) align = LEAST_ALIGN;
    pthread_mutex_lock(&regions);
    region *r = region_for(size + LEAST_ALIGN + align);
    char *base = r ? r->at + r->used : NULL, *p = NULL;
    if (r) {
        size_t offset = (r->used + LEAST_ALIGN + align - 1) & ~(align - 1);
        p = r->at + offset;
        *head_of(p) = (aligned_head){base, size, offset + size - r->used, align, NULL, r};
        r->used = (offset + size + LEAST_ALIGN - 1) & ~(size_t)(LEAST_ALIGN - 1);
        r->blocks++;
        lasting += size;
    }
    pthread_mutex_unlock(&regions);
    if (p) count_bytes(size);
    return p ? p : counted(NULL);
}

/* The system gets the pages of the block now, and the region with its last block. */
static void leave_region(region *r, char *p, const aligned_head *head)
{
    enum { PAGE = 4096 };
    char *first = (char *)(((uintptr_t)p + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    size_t offset = (size_t)(p - r->at);
    pthread_mutex_lock(&regions);
    bool last = r->used - offset < head->bytes + LEAST_ALIGN, empty = --r->blocks == 0;
    lasting -= head->bytes;
    if (last) r->used = (size_t)((char *)head->base - r->at);
    if (!empty && first < p + head->bytes)
        (void)madvise(first, (size_t)(p + head->bytes - first) & ~(size_t)(PAGE - 1), MADV_DONTNEED);
    if (empty && r == growing) growing = NULL;
    pthread_mutex_unlock(&regions);
    if (!empty) return;
    munmap(r->at, REGION);
    free(r);
}

void hyp_aligned_free(void *p)
{
    if (!p) return;
    aligned_head head = *head_of(p);
    hyp_mem_give(head.bytes);
    if (head.region)
        leave_region(head.region, p, &head);
    else if (head.source)
        head.source->free(head.base, head.room, head.align, head.source->user);
    else
        free(head.base);
}

bool hyp_aligned_is_sourced(const void *p) { return head_of(p)->source; }

void *hyp_large_realloc(void *old, size_t old_size, size_t new_size)
{
    if (new_size < LARGE) return old_size < LARGE ? hyp_realloc(old, new_size) : NULL;
    if (must_fail() || new_size > SIZE_MAX / 4) return NULL;
    size_t have = whole_pages(old_size), want = whole_pages(new_size);
    if (old && old_size >= LARGE && have == want) return old;
    char *p = map_aligned(want);
    if (!p || !old) return p;
    if (old_size < LARGE) {
        memcpy(p, old, old_size < new_size ? old_size : new_size);
        hyp_free(old);
        return p;
    }
    if (mremap(old, have, have, MREMAP_MAYMOVE | MREMAP_FIXED, p) == MAP_FAILED) {
        munmap(p, want);
        return NULL;
    }
    (void)madvise(p, want, MADV_HUGEPAGE);
    return p;
}

void hyp_large_free(void *p, size_t size)
{
    if (size < LARGE)
        hyp_free(p);
    else
        munmap(p, whole_pages(size));
}

hyp_status hyp_vec_reserve_(void **data, size_t *cap, size_t want, size_t elem, hyp_diag *diag)
{
    if (want <= *cap) return HYP_OK;
#ifdef HYP_SMALL_SIZES /* each growth moves the elements; doubling later, or large tests would take hours */
    size_t next = *cap < 64 ? 0 : *cap * 2;
#else
    size_t next = *cap < 4 ? 8 : *cap * 2;
#endif
    if (next < want) next = want;
    size_t bytes;
    if (!hyp_mul_size(next, elem, &bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    void *grown = hyp_realloc(*data, bytes);
    if (!grown) return hyp_fail_memory(diag, bytes);
    *data = grown;
    *cap = next;
    return HYP_OK;
}

struct hyp_arena_block {
    struct hyp_arena_block *next;
    size_t size; /* bytes after this header */
};

enum { ALIGN = 16, BLOCK = 64 * 1024 };
_Static_assert(sizeof(struct hyp_arena_block) % ALIGN == 0, "blocks keep the alignment");

void *hyp_arena_alloc(hyp_arena *arena, size_t size)
{
    size_t rounded;
    if (!hyp_add_size(size, ALIGN - 1, &rounded)) return NULL;
    rounded &= ~(size_t)(ALIGN - 1);
    if (!arena->blocks || arena->blocks->size - arena->used < rounded) {
        size_t body = rounded > BLOCK ? rounded : BLOCK, bytes;
        if (!hyp_add_size(body, sizeof(struct hyp_arena_block), &bytes)) return NULL;
        struct hyp_arena_block *block = hyp_malloc(bytes);
        if (!block) return NULL;
        *block = (struct hyp_arena_block){.next = arena->blocks, .size = body};
        arena->blocks = block;
        arena->used = 0;
    }
    void *p = (char *)(arena->blocks + 1) + arena->used;
    arena->used += rounded;
    return p;
}

void *hyp_arena_zalloc(hyp_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (!hyp_mul_size(n, size, &bytes)) return NULL;
    void *p = hyp_arena_alloc(arena, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

char *hyp_arena_strndup(hyp_arena *arena, const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? hyp_arena_alloc(arena, len + 1) : NULL;
    if (!copy) return NULL;
    if (len) memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

char *hyp_arena_strdup(hyp_arena *arena, const char *text) { return hyp_arena_strndup(arena, text, strlen(text)); }

char *hyp_arena_printf(hyp_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : hyp_arena_alloc(arena, (size_t)n + 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

void hyp_arena_dispose(hyp_arena *arena)
{
    while (arena->blocks) {
        struct hyp_arena_block *next = arena->blocks->next;
        hyp_free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = 0;
}
