/* hypatia-egraph - the e-graph engine on its own: saturates terms by rules, extracts from saved e-graphs. */
#include <math.h>
#include <string.h>

#include "egraph_tool.h"

void print_number(double value)
{
    if (isfinite(value))
        printf("%.17g", value);
    else
        printf("null");
}

void print_text(const char *text)
{
    if (!text) {
        printf("null");
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < ' ')
            printf("\\u%04x", *text);
        else
            putchar(*text);
    }
    putchar('"');
}

int pick(const cli_args *args, const char *option, const char *value, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(value, names[i]) == 0) return i;
    const char *near = cli_nearest(value, names, (size_t)count);
    cli_usage_error(args, "--%s: '%s' is none of %s, %s%s%s%s%s%s", option, value, names[0], names[1],
                    count > 2 ? ", " : "", count > 2 ? names[2] : "", near ? "; did you mean '" : "", near ? near : "",
                    near ? "'?" : "");
    return -1;
}

/* ---- main --------------------------------------------------------------------------------------- */

static void help(FILE *to)
{
    fprintf(to,
            "Usage: hypatia-egraph COMMAND ...\n"
            "  saturate   rewrite terms by rules, extract, explain, dump\n"
            "  extract    choose the best terms of an egraph-serialize file\n"
            "  run        run egglog programs\n"
            "  --version, --help; each command has its own --help\n"
            "Exit codes: 0 ok, 1 error, 2 usage, 3 no answer (no finite term, negative costs, a part of egglog that is not read),\n"
            "4 terms not equal, a check that does not hold, 130 interrupted: what was found until then is printed.\n");
}

static int run_command(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "extract") == 0) return command_extract(argc - 1, argv + 1);
    if (strcmp(command, "saturate") == 0) return command_saturate(argc - 1, argv + 1);
    if (strcmp(command, "run") == 0) return command_run(argc - 1, argv + 1);
    if (strcmp(command, "--version") == 0) {
        cli_print_version("hypatia-egraph");
        return CLI_OK;
    }
    bool asked = strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0;
    if (!asked && argc > 1) fprintf(stderr, "hypatia-egraph: unknown command '%s'\n", command);
    help(asked ? stdout : stderr);
    return asked ? CLI_OK : CLI_USAGE;
}

int main(int argc, char **argv)
{
    cli_guard_streams();
    return cli_end("hypatia-egraph", run_command(argc, argv));
}
