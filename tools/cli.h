/* cli.h - what hypatiac and hypatia share: GNU long options from a table, lists, exit codes, growable text.
 * Tools see the public headers only; a tool that runs out of memory says so and exits with 1.
 */
#ifndef HYPATIA_TOOLS_CLI_H
#define HYPATIA_TOOLS_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "hypatia/types.h"

/* Exit codes of every tool; part of the interface (docs/cli.md). */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_UNSUPPORTED = 3, CLI_MISMATCH = 4, CLI_INCOMPATIBLE = 5 };

/* One option. Tables end with a row whose name is NULL; a row's index is what cli_next returns. */
typedef struct cli_option {
    const char *name;  /* without the dashes */
    char short_name;   /* 0 = none */
    const char *value; /* what the value is called in the help; NULL = a switch */
    const char *help;  /* one line */
} cli_option;

typedef struct cli_args {
    const char *tool; /* for messages: "hypatia bench" */
    const cli_option *options;
    int count, at; /* argv[at] is read next */
    char **argv;
    bool only_positional; /* "--" was seen */
} cli_args;

enum { CLI_END = -1, CLI_POSITIONAL = -2, CLI_ERROR = -3 };

/* argv[0] is skipped. */
cli_args cli_begin(const char *tool, const cli_option *options, int argc, char **argv);
/* First thing in main: a standard stream that is closed fails where it is used; else the next file that is opened would take
 * its place, and messages would go into it. */
void cli_guard_streams(void);
/* Last thing in main: the exit code, which is CLI_FAILED after a message where all went well but standard output was lost. */
int cli_end(const char *tool, int code);
/* The index of the next option (--color, which every command has, is taken here), with *value its value; CLI_POSITIONAL with *value the argument; CLI_END; or
 * CLI_ERROR after a message on stderr (exit with CLI_USAGE). */
int cli_next(cli_args *args, const char **value);
/* The table as help text. */
void cli_print_options(FILE *to, const cli_option *options);
/* "tool: message" and the way to the help, on stderr. Returns CLI_USAGE. */
int cli_usage_error(const cli_args *args, const char *fmt, ...) HYP_PRINTF(2, 3);

/* "tool: " on stderr, where a message is to follow. */
void cli_begin_error(const char *tool);
/* A line "tool: message" on stderr of what went wrong. */
void cli_error(const char *tool, const char *fmt, ...) HYP_PRINTF(2, 3);
/* Prints "tool: message" of a failed call on stderr and returns the exit code of its status. */
int cli_report(const char *tool, const hyp_diag *diag);

/* The nearest name to `text`, or NULL when none is near. */
const char *cli_nearest(const char *text, const char *const *names, size_t count);

/* Growable list of strings; the strings are owned. Zero-initialise. */
typedef struct cli_list {
    char **items;
    size_t count;
} cli_list;
void cli_list_add(cli_list *list, const char *text, size_t len);
/* Adds the parts of a comma-separated value. */
void cli_list_split(cli_list *list, const char *text);
void cli_list_free(cli_list *list);

/* A number that fills the whole text, within [low, high]; false otherwise. */
bool cli_parse_int(const char *text, int64_t low, int64_t high, int64_t *out);
/* "4096", "512K", "1.5G": a whole number of bytes above 0, of 1024, 1024^2, 1024^3 or 1024^4 (T) with a suffix. */
bool cli_parse_bytes(const char *text, size_t *out);
bool cli_parse_double(const char *text, double low, double *out);
/* "batch=32": the name is the first name_len characters of `text`. False after a message. */
bool cli_parse_dim(const cli_args *args, const char *text, size_t *name_len, int64_t *value);
/* "x:32x784" or "x:scalar": out->name is allocated; "?" leaves a dim as declared (-1). */
bool cli_parse_shape(const char *text, hyp_tensor *out);

/* A name as hyp_visible shows it, cut where it is very long; stays as it is until the eighth call from now. */
const char *cli_shown(const char *name);
/* All of it as hyp_visible shows it. To be freed. */
char *cli_visible(const char *text);
/* Lines of text, each after `indent`, as hyp_visible shows them. */
void cli_print_lines(FILE *to, const char *indent, const char *text);

void *cli_alloc(void *old, size_t count, size_t size); /* realloc of count*size that exits when memory is out */
char *cli_format(const char *fmt, va_list list) HYP_PRINTF(1, 0); /* as vsprintf has it; the caller's to free */
char *cli_copy(const char *text, size_t len);

/* $TMPDIR, /tmp where there is none or it is empty. */
const char *cli_temp_folder(void);

/* hyp_write_fn to a FILE. */
void cli_write_file(const char *text, size_t len, void *file);
/* "name 0.1.0 commit" on a line. */
void cli_print_version(const char *tool);

#endif
