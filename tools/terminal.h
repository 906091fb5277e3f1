/* terminal.h - what the tools know of terminals: how wide one is, colours, text that is cut to columns, and one line of
 * progress.
 *
 * A process has one terminal, so that this state is the process's. All calls come from one thread, which is the one that
 * prints.
 */
#ifndef HYPATIA_TOOLS_TERMINAL_H
#define HYPATIA_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hypatia/types.h"

/* ---- colours ---------------------------------------------------------------------------------------------- */

typedef enum terminal_style { TERMINAL_ERROR, TERMINAL_WARNING, TERMINAL_GOOD, TERMINAL_TITLE, TERMINAL_PLAIN } terminal_style;

/* "auto", "always" or "never"; false for any other. auto, which is the default: on a terminal that has colours
 * (TERM is not "dumb"), where NO_COLOR is empty or not set (no-color.org), and elsewhere where CLICOLOR_FORCE is set and not "0"
 * (bixense.com/clicolors). */
bool terminal_choose_color(const char *when);
/* What makes the text behind it so: an escape sequence, or "". Each style ends with TERMINAL_PLAIN. */
const char *terminal_begin(FILE *to, terminal_style style);

/* ---- columns ---------------------------------------------------------------------------------------------- */

/* Columns of the terminal that `to` is: COLUMNS, else as the terminal says, else 80. 0: it is none, and nothing is to be cut. */
size_t terminal_width(FILE *to);
/* Columns that UTF-8 text without control characters takes: 2 for a wide character, 0 for one that combines. A byte that is no
 * UTF-8 takes one. */
size_t terminal_columns(const char *text);
/* The text where it fits in so many columns, else its two ends with "..." between them. 0: as it is. To be freed. */
char *terminal_cut(const char *text, size_t columns);
/* Lines of text, each after `indent`, cut to the terminal's width, with control characters as hyp_visible shows them. */
void terminal_print_lines(FILE *to, const char *indent, const char *text);

/* ---- progress --------------------------------------------------------------------------------------------- */

/* A work begins that may take long. Once it has taken a second (or HYPATIA_PROGRESS seconds), what it says of itself stands on
 * one line of standard error, with the seconds that have passed, and is drawn again and again. Nothing is drawn where standard error is no terminal (or
 * TERM is "dumb"), or of a `quiet` work. `ticks`: also where the work says nothing for long, by a thread, which a work that
 * is timed does without. */
void terminal_work_begin(const char *tool, bool quiet, bool ticks);
/* What is done now: a text of one line. May be called often. */
void terminal_work_says(const char *fmt, ...) HYP_PRINTF(1, 2);
/* Whether a text would be drawn now, for who would have to make an effort to say it. */
bool terminal_work_asks(void);
/* Lets the thread draw, or not while something is timed. */
void terminal_work_tick(bool ticks);
/* Erases the line, before anything else is printed; it comes back when the work says something next. */
void terminal_work_hide(void);
/* The work has ended; erases the line. Safe where none began. */
void terminal_work_end(void);
/* "1:05", "2:00:10", for a time that is left. */
const char *terminal_duration(double seconds, char out[32]);

#endif
