/* Plans are compared as trees of JSON: what they have one of by name, what they have many of item by item, and their steps
 * along the longest sequence that both have. */
#include "diff_plans.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* {"name": key, "a": ..., "b": ...}, null where one has none. */
static void add_field(json_t *list, const char *key, json_t *a, json_t *b)
{
    json_array_append_new(list, json_pack("{s:s, s:O?, s:O?}", "name", key, "a", a, "b", b));
}

/* Of objects that belong together, the fields that differ. */
static json_t *compare_fields(const json_t *a, const json_t *b, const char *const *keys)
{
    json_t *fields = json_array();
    for (; *keys; keys++) {
        json_t *x = json_object_get(a, *keys), *y = json_object_get(b, *keys);
        if (x != y && !json_equal(x, y)) add_field(fields, *keys, x, y);
    }
    return fields;
}

/* ---- lists of things with names ---------------------------------------------------------------------------- */

/* By its name, and which of that name it is: names of weights need not be unique. */
static json_t *index_by_name(const json_t *list)
{
    json_t *by_name = json_object(), *item;
    size_t i;
    json_array_foreach(list, i, item)
    {
        char number[32];
        const char *name = *text_of(item, "name") ? text_of(item, "name") : text_of(item, "key");
        json_t *seen = json_object_get(by_name, name);
        if (!seen) {
            json_object_set(by_name, name, item);
            continue;
        }
        for (size_t k = 2; seen; k++) {
            snprintf(number, sizeof number, " (%zu)", k);
            size_t size = strlen(name) + sizeof number;
            char *other = cli_alloc(NULL, size, 1);
            snprintf(other, size, "%s%s", name, number);
            seen = json_object_get(by_name, other);
            if (!seen) json_object_set(by_name, other, item);
            free(other);
        }
    }
    return by_name;
}

/* {"only_a": [...], "only_b": [...], "changed": [{"name", "fields"}]} */
static json_t *compare_lists(const json_t *a, const json_t *b, const char *const *keys)
{
    json_t *in_a = index_by_name(a), *in_b = index_by_name(b), *item;
    json_t *only_a = json_array(), *only_b = json_array(), *changed = json_array();
    const char *name;
    json_object_foreach(in_a, name, item)
    {
        json_t *other = json_object_get(in_b, name);
        if (!other) {
            json_array_append_new(only_a, json_string(name));
            continue;
        }
        json_t *fields = compare_fields(item, other, keys);
        if (json_array_size(fields) > 0)
            json_array_append_new(changed, json_pack("{s:s, s:O}", "name", name, "fields", fields));
        json_decref(fields);
    }
    json_object_foreach(in_b, name, item) if (!json_object_get(in_a, name)) json_array_append_new(only_b, json_string(name));
    json_decref(in_a);
    json_decref(in_b);
    return json_pack("{s:o, s:o, s:o}", "only_a", only_a, "only_b", only_b, "changed", changed);
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

/* Whether two steps do the same for the same nodes of the model. */
static bool is_same_step(const json_t *a, const json_t *b)
{
    return strcmp(text_of(a, "label"), text_of(b, "label")) == 0 &&
           strcmp(text_of(a, "kernel"), text_of(b, "kernel")) == 0 &&
           json_equal(json_object_get(a, "sources"), json_object_get(b, "sources"));
}

static json_t *name_step(const json_t *step, size_t index)
{
    return json_pack("{s:I, s:O?, s:O?, s:O?}", "index", (json_int_t)index, "label", json_object_get(step, "label"),
                     "sources", json_object_get(step, "sources"), "predicted_seconds",
                     json_object_get(step, "predicted_seconds"));
}

typedef struct step_lists {
    const json_t *a, *b;
    json_t *only_a, *only_b, *changed;
} step_lists;

static void pair_steps(step_lists *l, size_t i, size_t k)
{
    static const char *const keys[] = {"rows",  "layers", "adds",  "reads",             "writes",
                                       "flops", "bytes",  "rules", "predicted_seconds", NULL};
    const json_t *a = json_array_get(l->a, i), *b = json_array_get(l->b, k);
    json_t *fields = compare_fields(a, b, keys);
    if (json_array_size(fields) > 0)
        json_array_append_new(l->changed,
                              json_pack("{s:I, s:I, s:O?, s:O?, s:O}", "a", (json_int_t)i, "b", (json_int_t)k, "label",
                                        json_object_get(a, "label"), "sources", json_object_get(a, "sources"), "fields",
                                        fields));
    json_decref(fields);
}

/* The steps from `first` on that are in the middle, of which the ends differ, by the lengths of the longest common
 * sequences of what is behind: rows * columns of them. */
static void align(step_lists *l, size_t first, size_t end_a, size_t end_b)
{
    size_t rows = end_a - first, columns = end_b - first, width = columns + 1;
    uint32_t *longest = cli_alloc(NULL, (rows + 1) * width, sizeof *longest);
    memset(longest, 0, (rows + 1) * width * sizeof *longest);
    for (size_t i = rows; i-- > 0;)
        for (size_t k = columns; k-- > 0;) {
            uint32_t down = longest[(i + 1) * width + k], right = longest[i * width + k + 1];
            bool same = is_same_step(json_array_get(l->a, first + i), json_array_get(l->b, first + k));
            longest[i * width + k] = same ? longest[(i + 1) * width + k + 1] + 1 : down > right ? down : right;
        }
    size_t i = 0, k = 0;
    while (i < rows || k < columns) {
        const json_t *a = json_array_get(l->a, first + i), *b = json_array_get(l->b, first + k);
        if (i < rows && k < columns && is_same_step(a, b)) {
            pair_steps(l, first + i++, first + k++);
        } else if (k == columns || (i < rows && longest[(i + 1) * width + k] >= longest[i * width + k + 1])) {
            json_array_append_new(l->only_a, name_step(a, first + i));
            i++;
        } else {
            json_array_append_new(l->only_b, name_step(b, first + k));
            k++;
        }
    }
    free(longest);
}

static json_t *compare_steps(const json_t *a, const json_t *b)
{
    enum { MOST = 1 << 26 }; /* pairs that are looked at; beyond it, what is not at the ends counts as different */
    step_lists l = {.a = a, .b = b, .only_a = json_array(), .only_b = json_array(), .changed = json_array()};
    size_t first = 0, end_a = json_array_size(a), end_b = json_array_size(b), behind = 0;
    while (first < end_a && first < end_b && is_same_step(json_array_get(a, first), json_array_get(b, first))) first++;
    while (end_a > first && end_b > first && is_same_step(json_array_get(a, end_a - 1), json_array_get(b, end_b - 1)))
        end_a--, end_b--, behind++;
    for (size_t i = 0; i < first; i++) pair_steps(&l, i, i);
    if (end_b == first || end_a - first <= MOST / (end_b - first)) {
        align(&l, first, end_a, end_b);
    } else {
        for (size_t i = first; i < end_a; i++) json_array_append_new(l.only_a, name_step(json_array_get(a, i), i));
        for (size_t i = first; i < end_b; i++) json_array_append_new(l.only_b, name_step(json_array_get(b, i), i));
    }
    for (size_t i = 0; i < behind; i++) pair_steps(&l, end_a + i, end_b + i);
    return json_pack("{s:o, s:o, s:o}", "only_a", l.only_a, "only_b", l.only_b, "changed", l.changed);
}

/* ---- plans ------------------------------------------------------------------------------------------------- */

static bool is_empty(const json_t *lists)
{
    const char *key;
    json_t *list;
    json_object_foreach((json_t *)lists, key, list) if (json_array_size(list) > 0) return false;
    return true;
}

json_t *diff_plans(const json_t *a, const json_t *b)
{
    static const char *const facts[] = {
        "format",        "producer",      "target",        "precision",  "classes",    "model",        "model_hash",
        "flags",         "file_bytes",    "weights",       "weights_bytes", "scratch_bytes", "scratch_slots", "recomputed",
        "state_bytes",   "state_bytes_twice", "kept_bytes",    "kept_seconds",  "data_sizes",    "predicted_seconds", NULL};
    static const char *const of_symbols[] = {"typical", NULL}, *const of_tensors[] = {"dtype", "dims", NULL};
    static const char *const of_weights[] = {"dtype", "shape", "hash", NULL};
    static const char *const of_products[] = {"attributes", NULL};
    static const struct {
        const char *key;
        const char *const *fields;
    } lists[] = {{"symbols", of_symbols},    {"inputs", of_tensors},    {"outputs", of_tensors},
                 {"variables", of_tensors}, {"updatable", of_tensors}, {"weight_list", of_weights}};
    json_t *fields = compare_fields(a, b, facts), *root = json_pack("{s:b, s:o}", "same", 1, "plan", fields);
    bool same = json_array_size(fields) == 0;
    const json_t *on_a = json_object_get(a, "device"), *on_b = json_object_get(b, "device");
    json_t *part;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        part = compare_lists(json_object_get(a, lists[i].key), json_object_get(b, lists[i].key), lists[i].fields);
        same = same && is_empty(part);
        json_object_set_new(root, lists[i].key, part);
    }
    part = compare_lists(json_object_get(on_a, "products"), json_object_get(on_b, "products"), of_products);
    same = same && is_empty(part);
    json_object_set_new(root, "tuned", part);
    part = compare_steps(json_object_get(a, "steps"), json_object_get(b, "steps"));
    same = same && is_empty(part);
    json_object_set_new(root, "steps", part);
    json_object_set_new(root, "same", json_boolean(same));
    return root;
}
