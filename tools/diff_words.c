/* What diff_plans found, for people. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "diff_plans.h"

void diff_collect(const char *data, size_t len, void *text)
{
    diff_text *t = text;
    t->data = cli_alloc(t->data, t->len + len + 1, 1);
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

json_t *diff_read(diff_text *t)
{
    json_t *root = json_loadb(t->data ? t->data : "", t->len, 0, NULL);
    free(t->data);
    *t = (diff_text){0};
    return root;
}

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

void diff_print(const json_t *diff)
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
