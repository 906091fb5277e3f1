/* json_reader.h - pulls values out of JSON text one at a time; nothing of the text is kept. */
#ifndef HYP_EGRAPH_FILES_JSON_READER_H
#define HYP_EGRAPH_FILES_JSON_READER_H

#include "base/strbuf.h"

typedef struct hyp_json {
    const char *name; /* of the text, for messages */
    const char *text;
    size_t len, at;
    hyp_strbuf string; /* the last string read, NUL-terminated */
    hyp_diag *diag;
} hyp_json;

/* Fails with HYP_ERR_MALFORMED "name:line:column: message". */
hyp_status hyp_json_fail(hyp_json *j, const char *message);
/* The next character that is not white space, unread; 0 at the end. */
char hyp_json_peek(hyp_json *j);
/* Into j->string. */
HYP_NODISCARD hyp_status hyp_json_string(hyp_json *j);
/* null is infinite. */
HYP_NODISCARD hyp_status hyp_json_number(hyp_json *j, double *out);
HYP_NODISCARD hyp_status hyp_json_bool(hyp_json *j, bool *out);
HYP_NODISCARD hyp_status hyp_json_skip(hyp_json *j);
/* Steps through `open` items `close`: call with *first true before the first item; *out_more tells whether an
 * item follows. */
HYP_NODISCARD hyp_status hyp_json_item(hyp_json *j, char open, char close, bool *first, bool *out_more);
/* hyp_json_item of an object, and the key into j->string. */
HYP_NODISCARD hyp_status hyp_json_member(hyp_json *j, bool *first, bool *out_more);
/* Fails unless only white space follows. */
HYP_NODISCARD hyp_status hyp_json_end(hyp_json *j);

#endif
