#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "terminal.h"

enum { GAP = 2, SHORT = 20, SHORTEST = 8 /* columns that a cut text keeps, while there are columns to spare, and in the end */ };

void table_add(table *t, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    char *text = cli_format(fmt, list);
    va_end(list);
    char *shown = cli_visible(text);
    cli_list_add(&t->cells, shown, strlen(shown));
    free(shown);
    free(text);
}

static size_t row_count(const table *t) { return (t->cells.count + t->column_count - 1) / t->column_count; }

void table_note(table *t, const char *text)
{
    while (t->notes.count + 1 < row_count(t)) cli_list_add(&t->notes, "", 0);
    cli_list_add(&t->notes, text, strlen(text));
}

/* Columns of the whole line; those of width 0 are left out. */
static size_t line_width(const table *t, const size_t *widths)
{
    size_t sum = 0;
    for (size_t c = 0; c < t->column_count; c++)
        if (widths[c]) sum += widths[c] + (sum ? GAP : 0);
    return sum;
}

/* The one to cut next: the widest that shrinks. The count where none is wider than `least`. */
static size_t find_widest(const table *t, const size_t *widths, size_t least)
{
    size_t widest = t->column_count;
    for (size_t c = 0; c < t->column_count; c++)
        if (t->columns[c].shrinks && widths[c] > least && (widest == t->column_count || widths[c] > widths[widest]))
            widest = c;
    return widest;
}

/* The one to leave out next. The count where there is none. */
static size_t find_spare(const table *t, const size_t *widths)
{
    size_t spare = t->column_count;
    for (size_t c = 0; c < t->column_count; c++)
        if (widths[c] && t->columns[c].spare > 0 && (spare == t->column_count || t->columns[c].spare > t->columns[spare].spare))
            spare = c;
    return spare;
}

/* Returns how many columns were left out. */
static size_t fit(const table *t, size_t width, size_t *widths)
{
    size_t left_out = 0, c;
    for (c = 0; c < t->column_count; c++) {
        widths[c] = terminal_columns(t->columns[c].title);
        for (size_t i = c; i < t->cells.count; i += t->column_count) {
            size_t cell = terminal_columns(t->cells.items[i]);
            if (cell > widths[c]) widths[c] = cell;
        }
        if (!widths[c]) widths[c] = 1;
    }
    if (!width) return 0;
    while (line_width(t, widths) > width && (c = find_widest(t, widths, SHORT)) < t->column_count) widths[c]--;
    while (line_width(t, widths) > width && (c = find_spare(t, widths)) < t->column_count) {
        widths[c] = 0;
        left_out++;
    }
    while (line_width(t, widths) > width && (c = find_widest(t, widths, SHORTEST)) < t->column_count) widths[c]--;
    return left_out;
}

static void print_cell(FILE *to, const char *text, size_t width, bool right, bool last)
{
    char *cut = terminal_cut(text, width);
    int pad = (int)(width - terminal_columns(cut));
    fprintf(to, "%*s%s", right ? pad : 0, "", cut);
    if (!last) fprintf(to, "%*s", (right ? 0 : pad) + GAP, "");
    free(cut);
}

static void print_row(FILE *to, const table *t, char *const *cells, size_t count, const size_t *widths)
{
    size_t last = 0;
    for (size_t c = 0; c < count; c++)
        if (widths[c]) last = c;
    for (size_t c = 0; c < count; c++)
        if (widths[c]) print_cell(to, cells[c], widths[c], t->columns[c].right, c == last);
}

static void print_titles(FILE *to, const table *t, const size_t *widths)
{
    char **titles = cli_alloc(NULL, t->column_count, sizeof *titles);
    bool any = false;
    for (size_t c = 0; c < t->column_count; c++) {
        titles[c] = (char *)t->columns[c].title;
        any = any || *titles[c];
    }
    if (any) {
        fputs(terminal_begin(to, TERMINAL_TITLE), to);
        print_row(to, t, titles, t->column_count, widths);
        fprintf(to, "%s\n", terminal_begin(to, TERMINAL_PLAIN));
    }
    free(titles);
}

void table_print(FILE *to, table *t, bool whole)
{
    size_t *widths = cli_alloc(NULL, t->column_count, sizeof *widths), width = whole ? 0 : terminal_width(to);
    size_t left_out = fit(t, width, widths);
    print_titles(to, t, widths);
    for (size_t row = 0; row < row_count(t); row++) {
        size_t first = row * t->column_count, count = t->cells.count - first;
        print_row(to, t, t->cells.items + first, count < t->column_count ? count : t->column_count, widths);
        fputc('\n', to);
        if (row >= t->notes.count) continue;
        if (whole)
            cli_print_lines(to, "", t->notes.items[row]);
        else
            terminal_print_lines(to, "", t->notes.items[row]);
    }
    if (left_out) fprintf(to, "(%zu columns: a wider terminal)\n", left_out);
    free(widths);
    cli_list_free(&t->cells);
    cli_list_free(&t->notes);
}
