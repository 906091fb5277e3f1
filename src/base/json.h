/* json.h - JSON written into growable text: a comma comes before whatever is not the first of its object or list. */
#ifndef HYP_BASE_JSON_H
#define HYP_BASE_JSON_H

#include "base/strbuf.h"

/* Of all of these: `name` NULL is an element of a list. Texts must be UTF-8. */
void hyp_json_begin(hyp_strbuf *sb, const char *name, char bracket); /* '{' or '[' */
void hyp_json_put_text(hyp_strbuf *sb, const char *name, const char *value);
void hyp_json_put_texts(hyp_strbuf *sb, const char *name, const char *const *values, size_t count);
void hyp_json_put_count(hyp_strbuf *sb, const char *name, size_t value);
/* With six digits; null for what is not finite. */
void hyp_json_put_real(hyp_strbuf *sb, const char *name, double value);
void hyp_json_put_bool(hyp_strbuf *sb, const char *name, bool value);

#endif
