/* json_reader.c - a reader of JSON that holds no more than one value. */
#include "egraph/files/json_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 64 /* nesting of a value that is skipped */

hyp_status hyp_json_fail(hyp_json *j, const char *message)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < j->at && i < j->len; i++) {
        column = j->text[i] == '\n' ? 1 : column + 1;
        line += j->text[i] == '\n';
    }
    return hyp_fail(j->diag, HYP_ERR_MALFORMED, "%s:%zu:%zu: %s", j->name, line, column, message);
}

char hyp_json_peek(hyp_json *j)
{
    while (j->at < j->len) {
        char c = j->text[j->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
        j->at++;
    }
    return 0;
}

static hyp_status expect(hyp_json *j, char c)
{
    char message[] = "expected 'x'", found = hyp_json_peek(j);
    if (found == c && j->at < j->len) {
        j->at++;
        return HYP_OK;
    }
    message[strlen(message) - 2] = c;
    return hyp_json_fail(j, message);
}

/* Four hexadecimal digits. */
static bool read_hex(hyp_json *j, uint32_t *out)
{
    *out = 0;
    if (j->len - j->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        char c = j->text[j->at++];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) return false;
        *out = *out * 16 + digit;
    }
    return true;
}

static void put_utf8(hyp_strbuf *sb, uint32_t c)
{
    char out[4];
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
    for (size_t i = len; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[len] | c);
    hyp_strbuf_add(sb, out, len);
}

/* What follows a backslash. */
static bool read_escape(hyp_json *j)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->len ? j->text[j->at++] : 0;
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        hyp_strbuf_add(&j->string, &to[known - from], 1);
        return true;
    }
    uint32_t code, low;
    if (c != 'u' || !read_hex(j, &code) || code == 0) return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (j->len - j->at < 2 || j->text[j->at] != '\\' || j->text[j->at + 1] != 'u') return false;
        j->at += 2;
        if (!read_hex(j, &low) || low < 0xdc00 || low > 0xdfff) return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return false;
    }
    put_utf8(&j->string, code);
    return true;
}

hyp_status hyp_json_string(hyp_json *j)
{
    HYP_TRY(expect(j, '"'));
    j->string.len = 0;
    hyp_strbuf_add(&j->string, "", 0);
    for (;;) {
        size_t start = j->at;
        while (j->at < j->len && j->text[j->at] != '"' && j->text[j->at] != '\\' &&
               (unsigned char)j->text[j->at] >= ' ')
            j->at++;
        size_t right = hyp_text_prefix(j->text + start, j->at - start);
        hyp_strbuf_add(&j->string, j->text + start, j->at - start);
        if (start + right < j->at) {
            j->at = start + right;
            return hyp_json_fail(j, "this is not UTF-8");
        }
        if (j->at == j->len) return hyp_json_fail(j, "the text ends inside a string");
        char c = j->text[j->at];
        if ((unsigned char)c < ' ') return hyp_json_fail(j, "a control character inside a string; write it as \\u00xx");
        j->at++;
        if (c == '"') break;
        if (!read_escape(j)) return hyp_json_fail(j, "a bad escape inside a string");
    }
    return j->string.failed ? hyp_fail_memory(j->diag, j->string.len) : HYP_OK;
}

static bool take_word(hyp_json *j, const char *word)
{
    size_t len = strlen(word);
    hyp_json_peek(j);
    if (j->len - j->at < len || memcmp(j->text + j->at, word, len) != 0) return false;
    j->at += len;
    return true;
}

hyp_status hyp_json_number(hyp_json *j, double *out)
{
    char copy[64], *end;
    size_t len = 0;
    if (take_word(j, "null")) {
        *out = INFINITY;
        return HYP_OK;
    }
    while (j->at + len < j->len && len < sizeof copy - 1 && j->text[j->at + len] &&
           strchr("+-.0123456789eE", j->text[j->at + len]))
        len++;
    memcpy(copy, j->text + j->at, len);
    copy[len] = 0;
    *out = hyp_strtod(copy, &end);
    if (!len || *end) return hyp_json_fail(j, "expected a number");
    j->at += len;
    return HYP_OK;
}

hyp_status hyp_json_bool(hyp_json *j, bool *out)
{
    *out = take_word(j, "true");
    return *out || take_word(j, "false") ? HYP_OK : hyp_json_fail(j, "expected true or false");
}

static hyp_status skip(hyp_json *j, int depth)
{
    char c = hyp_json_peek(j);
    bool more, first = true, unused;
    double number;
    if (depth == DEEPEST) return hyp_json_fail(j, "values are nested too deeply");
    if (c == '"') return hyp_json_string(j);
    if (c == 't' || c == 'f') return hyp_json_bool(j, &unused);
    if (c != '{' && c != '[') return hyp_json_number(j, &number);
    for (;;) {
        HYP_TRY(c == '{' ? hyp_json_member(j, &first, &more) : hyp_json_item(j, '[', ']', &first, &more));
        if (!more) return HYP_OK;
        HYP_TRY(skip(j, depth + 1));
    }
}

hyp_status hyp_json_skip(hyp_json *j) { return skip(j, 0); }

hyp_status hyp_json_item(hyp_json *j, char open, char close, bool *first, bool *out_more)
{
    bool begin = *first;
    if (begin) HYP_TRY(expect(j, open));
    *first = false;
    *out_more = hyp_json_peek(j) != close;
    if (!*out_more) {
        j->at++;
        return HYP_OK;
    }
    return begin ? HYP_OK : expect(j, ',');
}

hyp_status hyp_json_member(hyp_json *j, bool *first, bool *out_more)
{
    HYP_TRY(hyp_json_item(j, '{', '}', first, out_more));
    if (!*out_more) return HYP_OK;
    HYP_TRY(hyp_json_string(j));
    return expect(j, ':');
}

hyp_status hyp_json_end(hyp_json *j)
{
    return hyp_json_peek(j) == 0 && j->at == j->len ? HYP_OK : hyp_json_fail(j, "more text after the end");
}
