/* term.c - symbols as text that reads back. */
#include "egraph/core/term.h"

void hyp_term_symbol(hyp_strbuf *sb, const char *name)
{
    bool plain = *name != 0;
    for (const char *p = name; *p && plain; p++)
        plain = (unsigned char)*p > ' ' && *p != 0x7f && *p != '(' && *p != ')' && *p != '"' && *p != ';';
    if (plain)
        hyp_strbuf_puts(sb, name);
    else
        hyp_strbuf_quote(sb, name);
}
