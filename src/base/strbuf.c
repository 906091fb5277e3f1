#include "base/strbuf.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/types.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

double hyp_strtod(const char *text, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), host = uselocale(c);
    double value = strtod(text, end);
    uselocale(host);
    if (c) freelocale(c);
    return value;
}

void hyp_format_double(char *out, size_t size, int digits, double value)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), host = uselocale(c);
    snprintf(out, size, "%.*g", digits, value);
    uselocale(host);
    if (c) freelocale(c);
}

static bool room(hyp_strbuf *sb, size_t more)
{
    size_t want;
    if (sb->failed || !hyp_add_size(sb->len, more, &want) || !hyp_add_size(want, 1, &want) ||
        hyp_vec_reserve_((void **)&sb->data, &sb->cap, want, 1, NULL) != HYP_OK)
        sb->failed = true;
    return !sb->failed;
}

void hyp_strbuf_add(hyp_strbuf *sb, const char *text, size_t len)
{
    if (!room(sb, len)) return;
    if (len) memcpy(sb->data + sb->len, text, len);
    sb->len += len;
    sb->data[sb->len] = 0;
}

void hyp_strbuf_puts(hyp_strbuf *sb, const char *text) { hyp_strbuf_add(sb, text, strlen(text)); }

void hyp_strbuf_printf(hyp_strbuf *sb, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !room(sb, (size_t)n)) {
        sb->failed = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(sb->data + sb->len, (size_t)n + 1, fmt, args);
    va_end(args);
    sb->len += (size_t)n;
}

void hyp_strbuf_quote(hyp_strbuf *sb, const char *text)
{
    hyp_strbuf_puts(sb, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            hyp_strbuf_printf(sb, "\\%c", *p);
        else if (*p == '\n')
            hyp_strbuf_puts(sb, "\\n");
        else if (*p == '\t')
            hyp_strbuf_puts(sb, "\\t");
        else if (*p < 0x20 || *p == 0x7f)
            hyp_strbuf_printf(sb, "\\u%04x", *p);
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) /* control characters of two bytes */
            hyp_strbuf_printf(sb, "\\u%04x", *++p);
        else
            hyp_strbuf_add(sb, (const char *)p, 1);
    }
    hyp_strbuf_puts(sb, "\"");
}

void hyp_strbuf_visible(hyp_strbuf *sb, const char *text, bool lines)
{
    for (;;) {
        size_t len = lines ? strcspn(text, "\n") : strlen(text), shown = 0;
        while (shown < len && hyp_visible_length(text + shown)) shown += hyp_visible_length(text + shown);
        hyp_strbuf_add(sb, text, shown);
        text += shown;
        if (!*text) return;
        if (shown == len)
            hyp_strbuf_puts(sb, "\n");
        else
            hyp_strbuf_printf(sb, "\\x%02x", (unsigned char)*text);
        text++;
    }
}

void hyp_strbuf_double(hyp_strbuf *sb, double value)
{
    char text[40];
    if (isnan(value)) {
        hyp_strbuf_puts(sb, "nan");
        return;
    }
    if (isinf(value)) {
        hyp_strbuf_puts(sb, value < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        hyp_format_double(text, sizeof text, digits, value);
        if (hyp_strtod(text, NULL) == value) break;
    }
    hyp_strbuf_puts(sb, text);
    if (!strpbrk(text, ".e")) hyp_strbuf_puts(sb, ".0");
}

const char *hyp_strbuf_text(const hyp_strbuf *sb) { return sb->len ? sb->data : ""; }

void hyp_strbuf_dispose(hyp_strbuf *sb)
{
    hyp_free(sb->data);
    *sb = (hyp_strbuf){0};
}

uint64_t hyp_hash(const void *data, size_t len, uint64_t seed) { return XXH3_64bits_withSeed(data, len, seed); }

static size_t probe(const hyp_intern *in, const char *text, size_t len)
{
    size_t mask = in->slot_count - 1, i = (size_t)hyp_hash(text, len, 0) & mask;
    for (; in->slots[i]; i = (i + 1) & mask) {
        const char *name = in->names.data[in->slots[i] - 1];
        if (strlen(name) == len && memcmp(name, text, len) == 0) break;
    }
    return i;
}

static hyp_status grow_slots(hyp_intern *in, hyp_diag *diag)
{
    size_t next = in->slot_count ? in->slot_count * 2 : 64;
    uint32_t *slots = hyp_calloc(next, sizeof *slots);
    if (!slots) return hyp_fail_memory(diag, next * sizeof *slots);
    hyp_free(in->slots);
    in->slots = slots;
    in->slot_count = next;
    for (size_t id = 0; id < in->names.len; id++)
        slots[probe(in, in->names.data[id], strlen(in->names.data[id]))] = (uint32_t)id + 1;
    return HYP_OK;
}

hyp_status hyp_intern_add(hyp_intern *in, const char *text, size_t len, uint32_t *out_id, hyp_diag *diag)
{
    if (memchr(text, 0, len)) return hyp_fail(diag, HYP_ERR_MALFORMED, "a name contains a NUL byte");
    if (in->names.len * 2 >= in->slot_count) HYP_TRY(grow_slots(in, diag));
    size_t i = probe(in, text, len);
    if (!in->slots[i]) {
        HYP_TRY(hyp_vec_reserve(&in->names, in->names.len + 1, diag));
        char *copy = hyp_arena_strndup(&in->arena, text, len);
        if (!copy) return hyp_fail_memory(diag, len);
        in->names.data[in->names.len++] = copy;
        in->slots[i] = (uint32_t)in->names.len;
    }
    *out_id = in->slots[i] - 1;
    return HYP_OK;
}

bool hyp_intern_find(const hyp_intern *in, const char *text, size_t len, uint32_t *out_id)
{
    if (!in->slot_count) return false;
    size_t i = probe(in, text, len);
    if (!in->slots[i]) return false;
    *out_id = in->slots[i] - 1;
    return true;
}

void hyp_intern_dispose(hyp_intern *in)
{
    hyp_vec_free(&in->names);
    hyp_free(in->slots);
    hyp_arena_dispose(&in->arena);
    *in = (hyp_intern){0};
}

static size_t edit_distance(const char *a, const char *b)
{
    enum { MAX = 63 };
    size_t n = strlen(a), m = strlen(b), row[MAX + 1];
    if (n > MAX || m > MAX) return MAX;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t up = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (up + 1 < best) best = up + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
            diagonal = up;
        }
    }
    return row[m];
}

const char *hyp_nearest(const char *text, const char *const *names)
{
    const char *best = NULL;
    size_t best_distance = strlen(text) / 3 + 2; /* further away is no help */
    for (; *names; names++) {
        size_t d = edit_distance(text, *names);
        if (d < best_distance) best_distance = d, best = *names;
    }
    return best;
}
