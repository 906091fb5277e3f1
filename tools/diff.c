/* hypatia diff - in what two plans differ: steps, rules, prices, sizes, flags, dims, weights. */
#include <stdlib.h>
#include <string.h>

#include "diff_plans.h"
#include "hypatia.h"

enum { OPT_JSON, OPT_HELP };

static const cli_option options[] = {
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static const char tool[] = "hypatia diff";

enum { SAME = 0, DIFFERENT = 1, TROUBLE = 2 }; /* as of diff */

static void help(void)
{
    printf("Usage: hypatia diff A.bin B.bin [options]\n"
           "Says in what two plans differ: flags, sizes, dims, weights, and step by step rules and prices.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 the same, 1 different, 2 usage or a plan that cannot be read, 5 incompatible plan.\n");
}

/* ---- in words ---------------------------------------------------------------------------------------------- */

/* As text, a string without its quotes. */
static char *value_text(const json_t *value)
{
    const char *text = json_string_value(value);
    char *dumped = text ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    char *out = cli_copy(text ? text : dumped ? dumped : "none", strlen(text ? text : dumped ? dumped : "none"));
    free(dumped);
    return out;
}

/* What of a list is in one alone: "+ x  - y". */
static void print_list_change(const json_t *a, const json_t *b)
{
    for (int way = 0; way < 2; way++) {
        const json_t *from = way ? b : a, *other = way ? a : b;
        for (size_t i = 0; i < json_array_size(from); i++) {
            bool there = false;
            for (size_t k = 0; k < json_array_size(other) && !there; k++)
                there = json_equal(json_array_get(from, i), json_array_get(other, k));
            if (there) continue;
            char *text = value_text(json_array_get(from, i));
            printf("  %c %s", way ? '+' : '-', cli_shown(text));
            free(text);
        }
    }
}

static bool is_seconds(const char *name) { return strstr(name, "seconds") != NULL; }

static void print_field(const char *indent, const json_t *field)
{
    const char *name = json_string_value(json_object_get(field, "name"));
    const json_t *a = json_object_get(field, "a"), *b = json_object_get(field, "b");
    printf("%s%s:", indent, name);
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b), unit = is_seconds(name) ? 1e6 : 1;
        printf(" %.10g -> %.10g%s", x * unit, y * unit, is_seconds(name) ? " us" : "");
        if (x > 0) printf(" (%+.1f %%)", 100 * (y / x - 1));
    } else if (json_is_array(a) && json_is_array(b) && (strcmp(name, "flags") == 0 || strcmp(name, "rules") == 0)) {
        print_list_change(a, b);
    } else if (json_is_array(a) && json_is_array(b) && json_is_object(json_array_get(json_array_size(a) ? a : b, 0))) {
        printf(" differ"); /* tensors: --json has them */
    } else {
        char *x = value_text(a), *y = value_text(b);
        printf(" %s -> %s", cli_shown(x), cli_shown(y));
        free(x);
        free(y);
    }
    printf("\n");
}

static void print_names(const char *what, const json_t *names)
{
    enum { MOST = 8 };
    size_t count = json_array_size(names);
    if (!count) return;
    printf("  %s: ", what);
    for (size_t i = 0; i < count && i < MOST; i++)
        printf("%s%s", i ? ", " : "", cli_shown(json_string_value(json_array_get(names, i))));
    printf(count > MOST ? ", and %zu more\n" : "\n", count - MOST);
}

static void print_lists(const char *title, const json_t *lists)
{
    const json_t *changed = json_object_get(lists, "changed"), *item, *field;
    size_t i, k;
    size_t only = json_array_size(json_object_get(lists, "only_a")) + json_array_size(json_object_get(lists, "only_b"));
    if (!only && !json_array_size(changed)) return;
    printf("%s: %zu changed, %zu in one alone\n", title, json_array_size(changed), only);
    print_names("in the first alone", json_object_get(lists, "only_a"));
    print_names("in the second alone", json_object_get(lists, "only_b"));
    json_array_foreach((json_t *)changed, i, item)
    {
        printf("  %s\n", cli_shown(json_string_value(json_object_get(item, "name"))));
        json_array_foreach(json_object_get(item, "fields"), k, field) print_field("    ", field);
    }
}

static void print_step(char mark, const json_t *step)
{
    const json_t *sources = json_object_get(step, "sources");
    printf("  %c %s  [", mark, cli_shown(json_string_value(json_object_get(step, "label"))));
    for (size_t i = 0; i < json_array_size(sources); i++)
        printf("%s%s", i ? ", " : "", cli_shown(json_string_value(json_array_get(sources, i))));
    printf("]");
    if (mark != ' ') printf("  %.2f us", 1e6 * json_number_value(json_object_get(step, "predicted_seconds")));
    printf("\n");
}

static void print_steps(const json_t *steps)
{
    const json_t *item, *field;
    const json_t *only_a = json_object_get(steps, "only_a"), *only_b = json_object_get(steps, "only_b");
    const json_t *changed = json_object_get(steps, "changed");
    size_t i, k;
    if (!json_array_size(only_a) && !json_array_size(only_b) && !json_array_size(changed)) return;
    printf("steps: %zu in the first alone, %zu in the second alone, %zu changed\n", json_array_size(only_a),
           json_array_size(only_b), json_array_size(changed));
    json_array_foreach((json_t *)only_a, i, item) print_step('-', item);
    json_array_foreach((json_t *)only_b, i, item) print_step('+', item);
    json_array_foreach((json_t *)changed, i, item)
    {
        print_step(' ', item);
        json_array_foreach(json_object_get(item, "fields"), k, field) print_field("      ", field);
    }
}

static void print_words(const json_t *diff)
{
    static const char *const lists[] = {"symbols", "inputs", "outputs", "variables", "updatable", "weight_list", "tuned"};
    const json_t *field;
    size_t i;
    if (json_is_true(json_object_get(diff, "same"))) {
        printf("the same\n");
        return;
    }
    json_array_foreach(json_object_get(diff, "plan"), i, field) print_field("", field);
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        bool weights = strcmp(lists[k], "weight_list") == 0;
        print_lists(weights ? "weights" : lists[k], json_object_get(diff, lists[k]));
    }
    print_steps(json_object_get(diff, "steps"));
}

/* ---- the command ------------------------------------------------------------------------------------------- */

typedef struct text {
    char *data;
    size_t len;
} text;

static void collect(const char *data, size_t len, void *user)
{
    text *t = user;
    t->data = cli_alloc(t->data, t->len + len + 1, 1);
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

static int describe(const char *path, json_t **out)
{
    hyp_diag diag = {0};
    text t = {0};
    if (hyp_plan_describe(path, true, NULL, 0, collect, &t, &diag) != HYP_OK) {
        int code = cli_report(tool, &diag);
        return code == CLI_FAILED ? TROUBLE : code;
    }
    json_error_t error;
    *out = json_loadb(t.data, t.len, 0, &error);
    free(t.data);
    if (*out) return SAME;
    fprintf(stderr, "%s: %s: its description cannot be read: %s\n", tool, path, error.text);
    return TROUBLE;
}

static int compare(const char *a_path, const char *b_path, bool json)
{
    json_t *a = NULL, *b = NULL;
    int code = describe(a_path, &a);
    if (code == SAME) code = describe(b_path, &b);
    if (code == SAME) {
        json_t *diff = diff_plans(a, b);
        json_object_set_new(diff, "a", json_string(a_path));
        json_object_set_new(diff, "b", json_string(b_path));
        code = json_is_true(json_object_get(diff, "same")) ? SAME : DIFFERENT;
        if (json && json_dumpf(diff, stdout, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6)) == 0)
            printf("\n");
        else if (!json)
            print_words(diff);
        json_decref(diff);
    }
    json_decref(a);
    json_decref(b);
    return code;
}

int command_diff(int argc, char **argv)
{
    cli_args args = cli_begin(tool, options, argc, argv);
    const char *paths[2] = {NULL, NULL}, *value;
    size_t count = 0;
    bool json = false;
    for (int option; (option = cli_next(&args, &value)) != CLI_END;) switch (option) {
        case CLI_ERROR: return CLI_USAGE;
        case OPT_HELP: help(); return CLI_OK;
        case OPT_JSON: json = true; break;
        default:
            if (count == 2) return cli_usage_error(&args, "two plans are compared: '%s' is one more", value);
            paths[count++] = value;
        }
    if (count < 2) return cli_usage_error(&args, "two plans are wanted");
    return compare(paths[0], paths[1], json);
}
