#include "json_cut.h"

#include <stdio.h>
#include <string.h>

/* Behind the string whose opening quote is at `at`; `end` where it does not close. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && ++at == end) return end;
    return at < end ? at + 1 : end;
}

/* Behind the array whose '[' is at `at`; NULL where it does not close. */
static const char *array_end(const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = string_end(at, end);
            continue;
        }
        at++;
        if (c == '[') depth++;
        if (c == ']' && --depth == 0) return at;
    }
    return NULL;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

static hyp_status keep(json_cut *cut, const char *from, const char *to, hyp_diag *diag)
{
    size_t len = (size_t)(to - from);
    if (len > JSON_CUT_MOST - cut->rest_len)
        return refuse(diag, HYP_ERR_LIMIT, "the JSON has more than %d bytes besides the data of tensors",
                      JSON_CUT_MOST);
    memcpy(cut->rest + cut->rest_len, from, len);
    cut->rest_len += len;
    return HYP_OK;
}

/* An array for `arrays` and its number for `rest`. */
static hyp_status cut_array(json_cut *cut, store *s, const char *from, const char *to, hyp_diag *diag)
{
    if ((cut->count & (cut->count - 1)) == 0) { /* 0, 1, 2, 4, ... */
        json_span *more = store_resize(s, cut->arrays, (cut->count ? 2 * cut->count : 1) * sizeof *more);
        if (!more) return refuse_memory(diag);
        cut->arrays = more;
    }
    char number[24];
    int len = snprintf(number, sizeof number, "[%zu]", cut->count);
    cut->arrays[cut->count++] = (json_span){from, (size_t)(to - from)};
    return keep(cut, number, number + len, diag);
}

hyp_status json_cut_data(const char *json, size_t len, store *s, json_cut *out, hyp_diag *diag)
{
    json_cut cut = {0};
    const char *at = json, *end = json + len, *kept = json; /* what is before `kept` is in `rest` */
    size_t most = len + len / 2; /* an array of two bytes becomes one of three, with a key of six before it */
    cut.rest = store_alloc(s, (most < JSON_CUT_MOST ? most : JSON_CUT_MOST) + 1);
    if (!cut.rest) return refuse_memory(diag);
    hyp_status status = HYP_OK;
    while (at < end && status == HYP_OK) {
        if (*at != '"') {
            at++;
            continue;
        }
        const char *key = at;
        const char *behind = at = string_end(at, end);
        at = skip_space(at, end);
        if (at == end || *at != ':') continue;
        if (memchr(key, '\\', (size_t)(behind - key))) {
            status = refuse(diag, HYP_ERR_MALFORMED,
                            "a key of the JSON has an escape in it; wanted the names of the protocol, which need none");
        } else if (behind - key == 6 && memcmp(key, "\"data\"", 6) == 0) {
            const char *array = skip_space(at + 1, end);
            const char *array_close = array < end && *array == '[' ? array_end(array, end) : NULL;
            if (!array_close) continue;
            status = keep(&cut, kept, array, diag);
            if (status == HYP_OK) status = cut_array(&cut, s, array, array_close, diag);
            kept = at = array_close;
        }
    }
    if (status == HYP_OK) status = keep(&cut, kept, end, diag);
    if (status != HYP_OK) return status;
    cut.rest[cut.rest_len] = 0;
    *out = cut;
    return HYP_OK;
}
