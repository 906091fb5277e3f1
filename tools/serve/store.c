#include "store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In front of what it holds, of the alignment's size. */
typedef struct store_block {
    struct store_block *next, *before;
    size_t bytes; /* with this header */
} store_block;
enum { ALIGNMENT = 64 };
_Static_assert(sizeof(store_block) <= ALIGNMENT, "a header fits in front of aligned data");

static bool take(budget *b, size_t bytes)
{
    size_t used = atomic_load(&b->used);
    do
        if (bytes > b->most || used > b->most - bytes) return false;
    while (!atomic_compare_exchange_weak(&b->used, &used, used + bytes));
    return true;
}

void *store_alloc(store *s, size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * ALIGNMENT) return NULL;
    size_t whole = (bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!take(s->budget, whole)) return NULL;
    store_block *block = aligned_alloc(ALIGNMENT, whole);
    if (!block) {
        atomic_fetch_sub(&s->budget->used, whole);
        return NULL;
    }
    *block = (store_block){.next = s->blocks, .bytes = whole};
    if (s->blocks) s->blocks->before = block;
    s->blocks = block;
    return (char *)block + ALIGNMENT;
}

void *store_zeroed(store *s, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) return NULL;
    void *data = store_alloc(s, count * size);
    if (data) memset(data, 0, count * size);
    return data;
}

void store_free(store *s, void *data)
{
    if (!data) return;
    store_block *block = (void *)((char *)data - ALIGNMENT);
    if (block->next) block->next->before = block->before;
    if (block->before)
        block->before->next = block->next;
    else
        s->blocks = block->next;
    atomic_fetch_sub(&s->budget->used, block->bytes);
    free(block);
}

void *store_resize(store *s, void *old, size_t bytes)
{
    size_t had = 0;
    if (old) had = ((store_block *)(void *)((char *)old - ALIGNMENT))->bytes - ALIGNMENT;
    if (old && bytes <= had && bytes >= had / 2) return old;
    void *data = store_alloc(s, bytes);
    if (!data || !old) return data;
    memcpy(data, old, had < bytes ? had : bytes);
    store_free(s, old);
    return data;
}

char *store_copy(store *s, const char *string, size_t len)
{
    char *copy = store_alloc(s, len + 1);
    if (!copy) return NULL;
    memcpy(copy, string, len);
    copy[len] = 0;
    return copy;
}

void store_clear(store *s)
{
    while (s->blocks) store_free(s, (char *)s->blocks + ALIGNMENT);
}

/* ---- messages ---------------------------------------------------------------------------------------------- */

hyp_status refuse(hyp_diag *diag, hyp_status status, const char *fmt, ...)
{
    if (!diag) return status;
    va_list list;
    va_start(list, fmt);
    diag->status = status;
    vsnprintf(diag->message, sizeof diag->message, fmt, list);
    va_end(list);
    return status;
}

hyp_status refuse_memory(hyp_diag *diag)
{
    return refuse(diag, HYP_ERR_NO_MEMORY, "the server has no memory for this request now: try again later");
}

shown show(const char *name)
{
    shown s;
    if (hyp_visible(name, s.text, sizeof s.text) < sizeof s.text) return s;
    size_t end = sizeof s.text - 4;
    while (((unsigned char)s.text[end] & 0xc0) == 0x80) end--; /* not in the middle of a character */
    memcpy(s.text + end, "...", 4);
    return s;
}

/* ---- text -------------------------------------------------------------------------------------------------- */

char *text_reserve(text *t, size_t len)
{
    if (t->failed) return NULL;
    if (len <= t->room - t->len) return t->data + t->len;
    size_t room = t->room < 512 ? 1024 : 2 * t->room;
    if (room - t->len < len) room = t->len + len;
    char *data = store_resize(t->store, t->data, room);
    t->failed = !data || room < t->len;
    if (t->failed) return NULL;
    t->data = data;
    t->room = room;
    return data + t->len;
}

void text_add(text *t, const char *bytes, size_t len)
{
    char *to = text_reserve(t, len);
    if (!to || !len) return;
    memcpy(to, bytes, len);
    t->len += len;
}

void text_put(text *t, const char *string) { text_add(t, string, strlen(string)); }

void text_print(text *t, const char *fmt, ...)
{
    char line[512];
    va_list list;
    va_start(list, fmt);
    int len = vsnprintf(line, sizeof line, fmt, list);
    va_end(list);
    if (len < 0 || (size_t)len >= sizeof line)
        t->failed = true; /* of ours: what is long goes by text_put */
    else
        text_add(t, line, (size_t)len);
}

/* How many bytes of valid UTF-8 begin here; 0: none do. */
static size_t utf8_length(const unsigned char *s)
{
    size_t len = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (len == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0))) return 0;
    if (len == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))) return 0;
    return len;
}

void text_json(text *t, const char *string)
{
    text_add(t, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)string; *s;) {
        size_t len = utf8_length(s);
        if (!len)
            text_print(t, "\\\\x%02x", *s++);
        else if (*s == '"' || *s == '\\')
            text_print(t, "\\%c", *s++);
        else if (*s < 0x20 || *s == 0x7f)
            text_print(t, "\\u%04x", *s++);
        else
            text_add(t, (const char *)s, len), s += len;
    }
    text_add(t, "\"", 1);
}
