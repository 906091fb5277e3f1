/* json_cut.h - takes the data of tensors out of a request's JSON before it is parsed.
 *
 * A tree of a million numbers takes 40 MB and more, and cannot hold the upper half of UINT64. So every member "data":
 * [...] becomes "data": [k] in a copy, which Jansson reads, and the array itself is number k of `arrays`, read by
 * wire_read_json.
 */
#ifndef HYPATIA_SERVE_JSON_CUT_H
#define HYPATIA_SERVE_JSON_CUT_H

#include "store.h"

/* The JSON of a request without its data is never longer. */
enum { JSON_CUT_MOST = 1 << 20 };

typedef struct json_span {
    const char *data; /* '[' ... ']'; borrowed from the JSON */
    size_t len;
} json_span;

typedef struct json_cut {
    char *rest; /* in the store; NUL behind it */
    size_t rest_len;
    json_span *arrays;
    size_t count;
} json_cut;

/* What is no JSON comes through as it is, for the parser to tell. HYP_ERR_MALFORMED for a key with an escape in it,
 * HYP_ERR_LIMIT for more than JSON_CUT_MOST bytes, HYP_ERR_NO_MEMORY. */
hyp_status json_cut_data(const char *json, size_t len, store *s, json_cut *out, hyp_diag *diag);

#endif
