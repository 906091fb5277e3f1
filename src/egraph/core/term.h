/* term.h - terms as text. */
#ifndef HYP_EGRAPH_CORE_TERM_H
#define HYP_EGRAPH_CORE_TERM_H

#include "base/strbuf.h"

/* Writes a symbol so that it reads back as one: as it is, or as a string where its text would end early. */
void hyp_term_symbol(hyp_strbuf *sb, const char *name);

#endif
