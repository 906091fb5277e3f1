#include "base/mem.h"

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

static bool must_fail(void)
{
    count++;
    if (fail_in == 0) return false;
    if (fail_in == 1) return true;
    fail_in--;
    return false;
}

void *hyp_malloc(size_t size) { return must_fail() ? NULL : malloc(size ? size : 1); }

void *hyp_calloc(size_t n, size_t size) { return must_fail() ? NULL : calloc(n ? n : 1, size ? size : 1); }

void *hyp_realloc(void *p, size_t size) { return must_fail() ? NULL : realloc(p, size ? size : 1); }

void hyp_free(void *p) { free(p); }

/* ---- large arrays ------------------------------------------------------------------------------- */

#define HUGE_PAGE ((size_t)1 << 21)
#ifdef HYP_SMALL_SIZES /* for the address sanitizer, which sees only what malloc gives */
#define LARGE SIZE_MAX
#else
#define LARGE HUGE_PAGE
#endif

void *hyp_aligned_alloc(size_t align, size_t size)
{
    size_t rounded;
    if (size >= LARGE && align < HUGE_PAGE) align = HUGE_PAGE;
    if (must_fail() || !hyp_add_size(size ? size : 1, align - 1, &rounded)) return NULL;
    rounded &= ~(align - 1);
    void *p = aligned_alloc(align, rounded);
    if (p && size >= LARGE) (void)madvise(p, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE); /* a kernel without them serves as well */
    return p;
}

void hyp_aligned_free(void *p) { free(p); }

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

void *hyp_large_realloc(void *old, size_t old_size, size_t new_size)
{
    if (new_size < LARGE) return old_size < LARGE ? hyp_realloc(old, new_size) : NULL;
    if (must_fail() || new_size > SIZE_MAX / 4) return NULL;
    char *p = map_aligned(whole_pages(new_size));
    if (!p || !old) return p;
    if (old_size < LARGE) {
        memcpy(p, old, old_size < new_size ? old_size : new_size);
        hyp_free(old);
        return p;
    }
    size_t have = whole_pages(old_size), want = whole_pages(new_size);
    if (mremap(old, have, want, MREMAP_MAYMOVE | MREMAP_FIXED, p) == MAP_FAILED) {
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
