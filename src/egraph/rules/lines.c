/* lines.c - reads rules that are written as lines of tab-separated columns. */
#include <string.h>

#include "egraph/rules/reader.h"

/* Moves what was read from a column to its place in the file. */
static void shift(hyp_sexpr *sx, uint32_t line, uint32_t column)
{
    sx->line = line;
    sx->column += column - 1;
    for (uint32_t i = 0; sx->kind == HYP_SX_LIST && i < sx->count; i++) shift(sx->items[i], line, column);
}

/* Reads a broken column again with what is before it in the file as white space, for the message. */
static hyp_status tell_place(hyp_rule_reader *p, const char *text, size_t len, uint32_t line, uint32_t column)
{
    const hyp_sexpr *forms;
    size_t before = (size_t)line - 1 + column - 1;
    char *padded = hyp_arena_alloc(&p->scratch, before + len);
    if (!padded) return hyp_fail_memory(p->diag, before + len);
    memset(padded, '\n', line - 1);
    memset(padded + line - 1, ' ', column - 1);
    memcpy(padded + before, text, len);
    return hyp_sexpr_parse(&p->scratch, p->file, padded, before + len, &forms, p->diag);
}

/* One column as a term; *out is NULL where it is empty. */
static hyp_status read_column(hyp_rule_reader *p, const char *text, size_t len, uint32_t line, uint32_t column,
                              hyp_sexpr **out)
{
    const hyp_sexpr *forms;
    *out = NULL;
    hyp_status status = hyp_sexpr_parse(&p->scratch, p->file, text, len, &forms, p->diag);
    if (status == HYP_ERR_MALFORMED) return tell_place(p, text, len, line, column);
    if (status != HYP_OK || forms->count == 0) return status;
    *out = forms->items[0];
    shift(*out, line, column);
    return forms->count == 1 ? HYP_OK : hyp_rule_fail(p, *out, "a column holds one term, this one %u", forms->count);
}

static hyp_status read_line(hyp_rule_reader *p, const char *line, size_t len, uint32_t number)
{
    enum { NAME, LEFT, RIGHT, CONDITION, COLUMNS };
    hyp_sexpr place = {.line = number, .column = 1}, *columns[COLUMNS] = {NULL};
    const char *end = line + len, *at = line;
    p->name = NULL;
    for (int i = 0; i < COLUMNS && at <= end; i++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at)), *stop = tab && i + 1 < COLUMNS ? tab : end;
        if (i == NAME) {
            place.column = (uint32_t)hyp_text_prefix(at, (size_t)(stop - at)) + 1;
            if (at + place.column <= stop) return hyp_rule_fail(p, &place, "this is not UTF-8");
            place.column = 1;
            p->name = hyp_arena_strndup(&p->scratch, at, (size_t)(stop - at));
            if (!p->name) return hyp_fail_memory(p->diag, (size_t)(stop - at));
        } else {
            HYP_TRY(read_column(p, at, (size_t)(stop - at), number, (uint32_t)(at - line) + 1, &columns[i]));
        }
        at = stop + 1;
    }
    if (!*p->name || !columns[LEFT] || !columns[RIGHT])
        return hyp_rule_fail(p, &place, "a line is: name <tab> left <tab> right, and maybe <tab> condition");
    hyp_written_rule src = {.form = &place,
                            .name = p->name,
                            .left = columns[LEFT],
                            .right = (const hyp_sexpr *const *)&columns[RIGHT],
                            .right_count = 1,
                            .condition = columns[CONDITION]};
    return hyp_rule_add(p, &src);
}

hyp_status hyp_rules_read_lines(hyp_rule_reader *p, const char *text, size_t len)
{
    const char *end = text + len;
    for (uint32_t number = 1; text < end; number++) {
        const char *eol = memchr(text, '\n', (size_t)(end - text)), *stop = eol ? eol : end;
        size_t n = (size_t)(stop - text);
        if (n && text[n - 1] == '\r') n--;
        if (n && text[0] != '#' && text[0] != ';') HYP_TRY(read_line(p, text, n, number));
        text = stop + 1;
    }
    return HYP_OK;
}

/* Whether the first line that is not empty or a comment holds a tab after a name. */
bool hyp_rules_are_lines(const char *text, size_t len)
{
    const char *end = text + len;
    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text)), *stop = eol ? eol : end;
        if (stop > text && *text != '#' && *text != ';' && *text != '\r')
            return *text != '(' && *text != ' ' && *text != '\t' && memchr(text, '\t', (size_t)(stop - text));
        text = stop + 1;
    }
    return false;
}
