/* store.h - the memory of one request, charged to a budget that all requests of the server share, and given back at
 * once.
 *
 * What a client sends decides how much memory a request takes, so nothing of it is taken but from here (Jansson's trees
 * apart, whose text is small: json_cut.h). A store belongs to one thread at a time; the budget to all.
 */
#ifndef HYPATIA_SERVE_STORE_H
#define HYPATIA_SERVE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hypatia/types.h"

typedef struct budget {
    _Atomic size_t used; /* bytes */
    size_t most;
} budget;

/* Zero-initialise all but the budget, which is borrowed. */
typedef struct store {
    budget *budget;
    struct store_block *blocks;
} store;

/* 64-byte aligned, and the store's until store_clear. NULL: the budget is spent, or there is no memory. */
void *store_alloc(store *s, size_t bytes);
/* store_alloc(s, count * size), zeroed. */
void *store_zeroed(store *s, size_t count, size_t size);
/* A block of the store (NULL: none yet), with room for so many bytes; the first min(old, new) are kept. NULL, as
 * store_alloc, and the old one is as it was. */
void *store_resize(store *s, void *old, size_t bytes);
/* Gives one block back before the others. NULL-safe. */
void store_free(store *s, void *data);
/* `text` with a NUL behind it. */
char *store_copy(store *s, const char *text, size_t len);
void store_clear(store *s);

/* Fills in *diag, which may be NULL, and returns `status`. */
hyp_status refuse(hyp_diag *diag, hyp_status status, const char *fmt, ...) HYP_PRINTF(3, 4);
/* HYP_ERR_NO_MEMORY, in words. */
hyp_status refuse_memory(hyp_diag *diag);

/* A name from outside, as it may be shown in a message: show(name).text. */
typedef struct shown {
    char text[160];
} shown;
shown show(const char *name);

/* Text that grows in a store. Where memory is out `failed` is set, and stays; what is added then is lost. */
typedef struct text {
    store *store;
    char *data;
    size_t len, room;
    bool failed;
} text;
void text_add(text *t, const char *bytes, size_t len);
void text_put(text *t, const char *string);
void text_print(text *t, const char *fmt, ...) HYP_PRINTF(2, 3);
/* In quotes, escaped; what is no UTF-8 as hyp_visible shows it. */
void text_json(text *t, const char *string);
/* Room for `len` more bytes, to be counted in t->len by who writes them; NULL: failed. */
char *text_reserve(text *t, size_t len);

#endif
