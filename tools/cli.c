#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commit.h"
#include "terminal.h"

/* What every command of every tool takes besides the rows of its table. */
static const cli_option color_option = {"color", 0, "auto|always|never", "colours; auto: where the output is a terminal"};

cli_args cli_begin(const char *tool, const cli_option *options, int argc, char **argv)
{
    return (cli_args){.tool = tool, .options = options, .count = argc, .at = 1, .argv = argv};
}

void cli_guard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int cli_end(const char *tool, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "%s: standard output: cannot write\n", tool);
    return code == CLI_OK ? CLI_FAILED : code;
}

void cli_begin_error(const char *tool)
{
    terminal_work_hide();
    fprintf(stderr, "%s%s:%s ", terminal_begin(stderr, TERMINAL_ERROR), tool, terminal_begin(stderr, TERMINAL_PLAIN));
}

void cli_error(const char *tool, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    cli_begin_error(tool);
    vfprintf(stderr, fmt, list);
    fputc('\n', stderr);
    va_end(list);
}

int cli_usage_error(const cli_args *args, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    cli_begin_error(args->tool);
    vfprintf(stderr, fmt, list);
    fprintf(stderr, "\nTry '%s --help'.\n", args->tool);
    va_end(list);
    return CLI_USAGE;
}

static int unknown_option(const cli_args *args, const char *name, size_t len)
{
    const char *names[128] = {color_option.name};
    size_t count = 1;
    for (; count < 128 && args->options[count - 1].name; count++) names[count] = args->options[count - 1].name;
    char *text = cli_copy(name, len);
    const char *near = cli_nearest(text, names, count);
    if (near)
        cli_usage_error(args, "unknown option '--%s'; did you mean '--%s'?", text, near);
    else
        cli_usage_error(args, "unknown option '--%s'", text);
    free(text);
    return CLI_ERROR;
}

static int take_value(cli_args *args, int option, const char **value)
{
    if (args->at < args->count) {
        *value = args->argv[args->at++];
        return option;
    }
    cli_usage_error(args, "option '--%s' needs a value: --%s %s", args->options[option].name,
                    args->options[option].name, args->options[option].value);
    return CLI_ERROR;
}

static bool names_option(const cli_option *option, const char *text, size_t len)
{
    return strlen(option->name) == len && memcmp(option->name, text, len) == 0;
}

/* --color, and then the next option. */
static int take_color(cli_args *args, const char *equals, const char **value)
{
    if (!equals && args->at == args->count) {
        cli_usage_error(args, "option '--color' needs a value: --color auto|always|never");
        return CLI_ERROR;
    }
    const char *when = equals ? equals + 1 : args->argv[args->at++];
    if (terminal_choose_color(when)) return cli_next(args, value);
    cli_usage_error(args, "--color: '%s' is none of auto, always, never", when);
    return CLI_ERROR;
}

static int next_long(cli_args *args, const char *text, const char **value)
{
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    if (names_option(&color_option, text, len)) return take_color(args, equals, value);
    for (int i = 0; args->options[i].name; i++) {
        if (!names_option(&args->options[i], text, len)) continue;
        if (!args->options[i].value && equals) {
            cli_usage_error(args, "option '--%s' takes no value", args->options[i].name);
            return CLI_ERROR;
        }
        if (!args->options[i].value) return i;
        if (!equals) return take_value(args, i, value);
        *value = equals + 1;
        return i;
    }
    return unknown_option(args, text, len);
}

static int next_short(cli_args *args, const char *text, const char **value)
{
    for (int i = 0; args->options[i].name; i++) {
        if (args->options[i].short_name != text[0] || !text[0]) continue;
        if (args->options[i].value && !text[1]) return take_value(args, i, value);
        if (!args->options[i].value && text[1]) break;
        *value = args->options[i].value ? text + 1 : NULL;
        return i;
    }
    cli_usage_error(args, "unknown option '-%s'", text);
    return CLI_ERROR;
}

int cli_next(cli_args *args, const char **value)
{
    *value = NULL;
    if (args->at >= args->count) return CLI_END;
    const char *text = args->argv[args->at++];
    if (!args->only_positional && strcmp(text, "--") == 0) {
        args->only_positional = true;
        return cli_next(args, value);
    }
    if (args->only_positional || text[0] != '-' || !text[1]) {
        *value = text;
        return CLI_POSITIONAL;
    }
    return text[1] == '-' ? next_long(args, text + 2, value) : next_short(args, text + 1, value);
}

/* For completion in shells (share/completions): what people read is not taken apart. */
static void print_row(FILE *to, const cli_option *o)
{
    char short_name[] = {'-', o->short_name, 0};
    fprintf(to, "%s\t--%s\t%s\t%s\n", o->short_name ? short_name : "", o->name, o->value ? o->value : "", o->help);
}

static void print_option(FILE *to, const cli_option *o)
{
    const char *form = getenv("HYPATIA_HELP");
    if (form && strcmp(form, "rows") == 0) {
        print_row(to, o);
        return;
    }
    char left[64];
    if (o->short_name)
        snprintf(left, sizeof left, "-%c, --%s%s%s", o->short_name, o->name, o->value ? " " : "", o->value ? o->value : "");
    else
        snprintf(left, sizeof left, "    --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    fprintf(to, "  %-30s %s\n", left, o->help);
}

void cli_print_options(FILE *to, const cli_option *options)
{
    fprintf(to, "\nOptions:\n");
    for (const cli_option *o = options; o->name; o++) print_option(to, o);
    print_option(to, &color_option);
}

int cli_report(const char *tool, const hyp_diag *diag)
{
    cli_begin_error(tool);
    fprintf(stderr, "%s\n", diag->message[0] ? diag->message : hyp_status_name(diag->status));
    switch (diag->status) {
    case HYP_OK: return CLI_OK;
    case HYP_ERR_INVALID_ARGUMENT: return CLI_USAGE;
    case HYP_ERR_UNSUPPORTED: return CLI_UNSUPPORTED;
    case HYP_ERR_MISMATCH: return CLI_MISMATCH;
    case HYP_ERR_INCOMPATIBLE: return CLI_INCOMPATIBLE;
    default: return CLI_FAILED;
    }
}

/* Levenshtein distance of two short names, one row at a time. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t n = strlen(a), m = strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return SIZE_MAX;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < gap ? change : gap;
        }
    }
    return row[m];
}

const char *cli_nearest(const char *text, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t least = strlen(text) / 3 + 2; /* farther is no typing error */
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(text, names[i]);
        if (d >= least) continue;
        least = d;
        best = names[i];
    }
    return best;
}

const char *cli_shown(const char *name)
{
    enum { KEPT = 8, LONGEST = 512 };
    static char kept[KEPT][LONGEST];
    static int next;
    char *text = kept[next++ % KEPT];
    if (hyp_visible(name, text, LONGEST) < LONGEST) return text;
    size_t end = strlen(text) - 3;
    while (((unsigned char)text[end] & 0xc0) == 0x80) end--; /* not in the middle of a character */
    memcpy(text + end, "...", 4);
    return text;
}

char *cli_visible(const char *text)
{
    size_t room = hyp_visible(text, NULL, 0) + 1;
    char *shown = cli_alloc(NULL, room, 1);
    hyp_visible(text, shown, room);
    return shown;
}

void cli_print_lines(FILE *to, const char *indent, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        char *line = cli_copy(text, len), *shown = cli_visible(line);
        fprintf(to, "%s%s\n", indent, shown);
        free(shown);
        free(line);
        text += len + (text[len] == '\n');
    }
}

void *cli_alloc(void *old, size_t count, size_t size)
{
    size_t bytes = count * size;
    void *p = size && count > SIZE_MAX / size ? NULL : realloc(old, bytes ? bytes : 1);
    if (p) return p;
    fprintf(stderr, "out of memory\n");
    exit(CLI_FAILED);
}

char *cli_format(const char *fmt, va_list list)
{
    va_list again;
    va_copy(again, list);
    size_t room = (size_t)vsnprintf(NULL, 0, fmt, again) + 1;
    va_end(again);
    char *text = cli_alloc(NULL, room, 1);
    vsnprintf(text, room, fmt, list);
    return text;
}

char *cli_copy(const char *text, size_t len)
{
    char *copy = cli_alloc(NULL, len + 1, 1);
    memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

const char *cli_temp_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

void cli_list_add(cli_list *list, const char *text, size_t len)
{
    list->items = cli_alloc(list->items, list->count + 1, sizeof *list->items);
    list->items[list->count++] = cli_copy(text, len);
}

void cli_list_split(cli_list *list, const char *text)
{
    for (;;) {
        size_t len = strcspn(text, ",");
        if (len) cli_list_add(list, text, len);
        if (!text[len]) return;
        text += len + 1;
    }
}

void cli_list_free(cli_list *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
    *list = (cli_list){0};
}

bool cli_parse_int(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) return false;
    *out = value;
    return true;
}

bool cli_parse_bytes(const char *text, size_t *out)
{
    static const char suffixes[] = "KMGT";
    char *end;
    double value = strtod(text, &end);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    for (const char *s = suffixes; suffix && s <= suffix; s++) value *= 1024;
    if (end == text || (*end && (!suffix || end[1])) || !(value >= 1 && value < 9e15) || value != (double)(size_t)value)
        return false;
    *out = (size_t)value;
    return true;
}

bool cli_parse_double(const char *text, double low, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low)) return false;
    *out = value;
    return true;
}

bool cli_parse_dim(const cli_args *args, const char *text, size_t *name_len, int64_t *value)
{
    const char *equals = strrchr(text, '=');
    *name_len = equals ? (size_t)(equals - text) : 0;
    if (*name_len && cli_parse_int(equals + 1, 0, INT64_MAX, value)) return true;
    cli_usage_error(args, "--dim: '%s' is not of the form batch=32", text);
    return false;
}

bool cli_parse_shape(const char *text, hyp_tensor *out)
{
    const char *colon = strrchr(text, ':'); /* names may have colons: "input:0:1x3" */
    if (!colon || colon == text) return false;
    hyp_tensor t = {0};
    const char *at = colon + 1;
    bool scalar = strcmp(at, "scalar") == 0;
    while (!scalar) {
        char *end;
        if (t.rank == HYP_MAX_RANK) return false;
        if (*at == '?') {
            t.dims[t.rank++] = -1;
            end = (char *)at + 1;
        } else {
            errno = 0;
            long long dim = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
            if (dim < 0 || errno) return false;
            t.dims[t.rank++] = dim;
        }
        if (!*end) break;
        if (*end != 'x') return false;
        at = end + 1;
    }
    t.name = cli_copy(text, (size_t)(colon - text));
    *out = t;
    return true;
}

void cli_write_file(const char *text, size_t len, void *file) { fwrite(text, 1, len, file); }

void cli_print_version(const char *tool) { printf("%s %s %s\n", tool, HYP_VERSION, HYP_COMMIT); }
