/* JSON written into growable text. */
#include "base/json.h"

#include <math.h>
#include <string.h>

/* A string that ends like this has its quote behind it. */
static void begin(hyp_strbuf *sb, const char *name)
{
    if (sb->len && !strchr("{[:", sb->data[sb->len - 1])) hyp_strbuf_puts(sb, ",");
    if (!name) return;
    hyp_strbuf_quote(sb, name);
    hyp_strbuf_puts(sb, ":");
}

void hyp_json_begin(hyp_strbuf *sb, const char *name, char bracket)
{
    begin(sb, name);
    hyp_strbuf_add(sb, &bracket, 1);
}

void hyp_json_put_text(hyp_strbuf *sb, const char *name, const char *value)
{
    begin(sb, name);
    hyp_strbuf_quote(sb, value);
}

void hyp_json_put_texts(hyp_strbuf *sb, const char *name, const char *const *values, size_t count)
{
    hyp_json_begin(sb, name, '[');
    for (size_t i = 0; i < count; i++) hyp_json_put_text(sb, NULL, values[i]);
    hyp_strbuf_puts(sb, "]");
}

void hyp_json_put_count(hyp_strbuf *sb, const char *name, size_t value)
{
    begin(sb, name);
    hyp_strbuf_printf(sb, "%zu", value);
}

void hyp_json_put_real(hyp_strbuf *sb, const char *name, double value)
{
    char text[40];
    begin(sb, name);
    hyp_format_double(text, sizeof text, 6, value);
    hyp_strbuf_puts(sb, isfinite(value) ? text : "null");
}

void hyp_json_put_bool(hyp_strbuf *sb, const char *name, bool value)
{
    begin(sb, name);
    hyp_strbuf_puts(sb, value ? "true" : "false");
}
