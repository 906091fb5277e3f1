/* strbuf.h - growable text, interned strings. */
#ifndef HYP_BASE_STRBUF_H
#define HYP_BASE_STRBUF_H

#include "base/mem.h"

/* strtod and "%.*g" as they are in the C locale, whatever the host program has set: a comma for the decimal point
 * would break what is read and written here. */
double hyp_strtod(const char *text, char **end);
void hyp_format_double(char *out, size_t size, int digits, double value);

/* How many bytes of `text` are UTF-8 without NUL: `len` when all are, else where the first wrong character begins. */
size_t hyp_text_prefix(const char *text, size_t len);
/* Bytes of the character at `text` if it can be shown, else 0. */
size_t hyp_visible_length(const char *text);

/* Growable text. Zero-initialise. After a failed allocation `failed` is set, further writes do
 * nothing, and the owner checks once at the end. */
typedef struct hyp_strbuf {
    char *data; /* NUL-terminated when len > 0; NULL before the first write */
    size_t len; /* bytes without the NUL */
    size_t cap;
    bool failed;
} hyp_strbuf;

void hyp_strbuf_add(hyp_strbuf *sb, const char *text, size_t len);
void hyp_strbuf_puts(hyp_strbuf *sb, const char *text);
void hyp_strbuf_printf(hyp_strbuf *sb, const char *fmt, ...) HYP_PRINTF(2, 3);
/* Text of a C string literal with quotes, escaping as JSON does (also valid in our s-expressions). */
void hyp_strbuf_quote(hyp_strbuf *sb, const char *text);
/* As hyp_visible. `lines`: newlines stay, where the text is made of lines. */
void hyp_strbuf_visible(hyp_strbuf *sb, const char *text, bool lines);
/* The shortest decimal that reads back as the same double; "inf", "-inf", "nan" otherwise. Always has
 * a '.', an 'e' or a letter, so that it reads back as a float, not an integer. */
void hyp_strbuf_double(hyp_strbuf *sb, double value);
const char *hyp_strbuf_text(const hyp_strbuf *sb); /* never NULL; borrowed until the next write */
void hyp_strbuf_dispose(hyp_strbuf *sb);

/* Interned strings: equal text has an equal id, ids are 0, 1, 2, ... in order of first sight, so they
 * are the same on every run. */
typedef struct hyp_intern {
    HYP_VEC(char *) names; /* id -> text, in arena */
    uint32_t *slots;       /* open addressing, id + 1, 0 = empty; slot_count a power of two */
    size_t slot_count;
    hyp_arena arena;
} hyp_intern;

hyp_status hyp_intern_add(hyp_intern *in, const char *text, size_t len, uint32_t *out_id, hyp_diag *diag);
/* False when the text was never added. */
bool hyp_intern_find(const hyp_intern *in, const char *text, size_t len, uint32_t *out_id);
void hyp_intern_dispose(hyp_intern *in);

/* 64-bit hash (XXH3) of bytes: the same on every machine. */
uint64_t hyp_hash(const void *data, size_t len, uint64_t seed);

/* The name of `names` (NULL-terminated list) that is nearest to `text` by edit distance, or NULL when
 * none is near: for "did you mean". */
const char *hyp_nearest(const char *text, const char *const *names);

#endif
