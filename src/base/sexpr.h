/* sexpr.h - the one reader of s-expressions: IR text, rules, device profiles and dumps all use it.
 *
 * Grammar: a list is `( item* )`; a string is "..." with the escapes of JSON; ';' starts a comment that
 * ends with the line; anything else is an atom that ends at white space, a parenthesis, '"' or ';'.
 * An atom that reads wholly as a decimal integer in the range of int64 is an integer; one that reads as
 * a number (also inf, -inf, nan) is a float; any other is a symbol.
 */
#ifndef HYP_BASE_SEXPR_H
#define HYP_BASE_SEXPR_H

#include "base/strbuf.h"

typedef enum hyp_sexpr_kind { HYP_SX_LIST, HYP_SX_SYMBOL, HYP_SX_STRING, HYP_SX_INT, HYP_SX_FLOAT } hyp_sexpr_kind;

typedef struct hyp_sexpr {
    hyp_sexpr_kind kind;
    uint32_t line, column; /* of its first character, from 1 */
    const char *text;      /* symbols, strings (unescaped) and numbers (as written); NULL for lists */
    int64_t integer;       /* HYP_SX_INT */
    double number;         /* HYP_SX_INT and HYP_SX_FLOAT */
    struct hyp_sexpr **items; /* HYP_SX_LIST */
    uint32_t count;
} hyp_sexpr;

/* Reads every form of `text` into one list, allocated from `arena`; `file` is named in messages. Nesting
 * deeper than 256 is refused, and so is text that is not UTF-8. A failure names file:line:column and shows the line with a caret. */
HYP_NODISCARD hyp_status hyp_sexpr_parse(hyp_arena *arena, const char *file, const char *text, size_t len,
                                         const hyp_sexpr **out_forms, hyp_diag *diag);

/* The same with nesting up to max_depth, for who walks what was read without calls that are nested as deep. */
HYP_NODISCARD hyp_status hyp_sexpr_parse_deep(hyp_arena *arena, const char *file, const char *text, size_t len,
                                              size_t max_depth, const hyp_sexpr **out_forms, hyp_diag *diag);

/* True for the symbol `name`. */
bool hyp_sexpr_is(const hyp_sexpr *sx, const char *name);
/* True for a list whose first item is the symbol `name`. */
bool hyp_sexpr_is_form(const hyp_sexpr *sx, const char *name);
/* Canonical text: one space between items, no line breaks. */
void hyp_sexpr_print(hyp_strbuf *sb, const hyp_sexpr *sx);
/* A symbol so that it reads back as one atom: as it is, or as a string where its text would end early. */
void hyp_sexpr_print_symbol(hyp_strbuf *sb, const char *text);
/* A diagnostic at the place of `sx`: "file:line:column: message". */
hyp_status hyp_sexpr_diag(hyp_diag *diag, const char *file, const hyp_sexpr *sx, hyp_status status, const char *fmt,
                          ...) HYP_PRINTF(5, 6);
#define hyp_sexpr_fail(diag, file, sx, status, ...) \
    hyp_diag_written(hyp_sexpr_diag((diag), (file), (sx), (status), __VA_ARGS__), (status))

#endif
