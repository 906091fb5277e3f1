/* table.h - a table for people that fits the terminal: names are cut in the middle, then columns are left out. What is no
 * terminal gets all of it.
 */
#ifndef HYPATIA_TOOLS_TABLE_H
#define HYPATIA_TOOLS_TABLE_H

#include "cli.h"

typedef struct table_column {
    const char *title;
    bool right;  /* aligned, for numbers */
    bool shrinks; /* a text that may be cut */
    int spare;   /* 0: always shown; the higher, the sooner it is left out */
} table_column;

/* Zero-initialise but for the columns. */
typedef struct table {
    const table_column *columns;
    size_t column_count;
    cli_list cells;  /* of one row after the other */
    cli_list notes;  /* by row: a line below it, or "" */
} table;

/* The next cell, in the order of rows. */
void table_add(table *t, const char *fmt, ...) HYP_PRINTF(2, 3);
/* A text of lines below the row whose cells were added last. */
void table_note(table *t, const char *text);
/* Prints and frees it. `whole`: nothing is cut, whatever the width. */
void table_print(FILE *to, table *t, bool whole);

#endif
