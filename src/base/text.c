/* text.c - what of a text is UTF-8, and what of it can be shown. */
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "hypatia/types.h"

size_t hyp_text_prefix(const char *text, size_t len)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    for (size_t at = 0; at < len;) {
        const unsigned char *p = (const unsigned char *)text + at;
        uint32_t c = *p, more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c == 0 || (c >= 0x80 && c < 0xc2) || c > 0xf4 || more >= len - at) return at;
        if (more) c &= 0x3f >> more;
        for (uint32_t i = 1; i <= more; i++) {
            if ((p[i] & 0xc0) != 0x80) return at;
            c = c << 6 | (p[i] & 0x3f);
        }
        if (more && (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))) return at;
        at += more + 1;
    }
    return len;
}

size_t hyp_visible_length(const char *text)
{
    unsigned char first = (unsigned char)text[0], second = first ? (unsigned char)text[1] : 0;
    if (first < 0x80) return first >= 0x20 && first != 0x7f;
    if (first == 0xc2 && second < 0xa0) return 0; /* control characters of two bytes */
    size_t len = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < len; i++)
        if (!text[i]) return 0;
    return hyp_text_prefix(text, len) == len ? len : 0;
}

size_t hyp_visible(const char *text, char *out, size_t size)
{
    if (!text || (!out && size)) return 0;
    size_t len = 0, written = 0;
    while (*text) {
        char code[8];
        size_t shown = hyp_visible_length(text), n = shown;
        const char *from = text;
        if (!shown) {
            n = (size_t)snprintf(code, sizeof code, "\\x%02x", (unsigned char)*text);
            from = code;
        }
        if (len == written && len + n < size) {
            memcpy(out + len, from, n);
            written += n;
        }
        len += n;
        text += shown ? shown : 1;
    }
    if (size) out[written] = 0;
    return len;
}
