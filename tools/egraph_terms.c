/* egraph_terms.c - a file of terms: each form is one, on as many lines as it likes. */
#include <stdlib.h>
#include <string.h>

#include "egraph_tool.h"

/* The text behind a comment, a string or a word that begins here. */
static const char *skip_comment(const char *at) { return at + strcspn(at, "\n"); }

static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"' && *at != '\n'; at++)
        if (*at == '\\' && at[1] && at[1] != '\n') at++;
    return *at == '"' ? at + 1 : at;
}

static const char *skip_word(const char *at) { return at + strcspn(at, " \t\r\n()\";"); }

/* Behind the form that begins here, or at the end of the text where it does not end: what is wrong with it is told by
 * who reads it. */
static const char *skip_form(const char *at)
{
    size_t depth = 0;
    do {
        if (*at == '(') {
            depth++, at++;
        } else if (*at == ')') {
            at++;
            if (depth == 0) return at;
            depth--;
        } else if (*at == '"') {
            at = skip_string(at);
        } else if (*at == ';') {
            at = skip_comment(at);
        } else if (strchr(" \t\r\n", *at)) {
            at++;
        } else {
            at = skip_word(at);
        }
    } while (depth && *at);
    return at;
}

void terms_split(term_list *list, const char *text)
{
    size_t line = 1;
    while (*text) {
        const char *end = text;
        if (*text == ';') {
            end = skip_comment(text);
        } else if (strchr(" \t\r\n", *text)) {
            line += *text == '\n';
            end = text + 1;
        } else {
            end = skip_form(text);
            cli_list_add(&list->terms, text, (size_t)(end - text));
            list->lines = cli_alloc(list->lines, list->terms.count, sizeof *list->lines);
            list->lines[list->terms.count - 1] = line;
            for (; text < end; text++) line += *text == '\n';
        }
        text = end;
    }
}

void terms_free(term_list *list)
{
    free(list->lines);
    cli_list_free(&list->terms);
}
