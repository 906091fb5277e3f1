/* Whether JSON is as a JSON Schema wants it: what comes from a plan is looked at by a page that trusts it. */
#include "report_schema.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct checker {
    const json_t *root;
    char *why;
    size_t size;
} checker;

static bool fits(const checker *c, const json_t *schema, const json_t *value);

/* What is wrong, of which the callers then say where: from the inside out. */
static bool wrong(const checker *c, const char *what)
{
    snprintf(c->why, c->size, ": %s", what);
    return false;
}

static bool wrong_in(const checker *c, const char *place)
{
    char inner[256];
    snprintf(inner, sizeof inner, "%s", c->why);
    snprintf(c->why, c->size, "/%.60s%s", place, inner);
    return false;
}

static bool has_type(const char *type, const json_t *value)
{
    static const char *const names[] = {"object", "array", "string", "integer", "number", "boolean", "boolean", "null"};
    static const json_type types[] = {JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_INTEGER,
                                      JSON_REAL,   JSON_TRUE,  JSON_FALSE,  JSON_NULL};
    if (json_is_integer(value) && strcmp(type, "number") == 0) return true;
    if (json_is_real(value) && strcmp(type, "integer") == 0)
        return json_real_value(value) == floor(json_real_value(value));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, names[i]) == 0 && json_typeof(value) == types[i]) return true;
    return false;
}

static bool fits_type(const checker *c, const json_t *type, const json_t *value)
{
    const json_t *one;
    size_t i;
    if (!type || (json_is_string(type) && has_type(json_string_value(type), value))) return true;
    json_array_foreach(type, i, one) if (has_type(json_string_value(one), value)) return true;
    return wrong(c, "it is of another type");
}

static bool fits_any(const checker *c, const json_t *list, const json_t *value)
{
    const json_t *one;
    size_t i;
    if (!list) return true;
    json_array_foreach(list, i, one) if (fits(c, one, value)) return true;
    return false;
}

static bool is_one_of(const json_t *list, const json_t *value)
{
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one) if (json_equal(one, value)) return true;
    return false;
}

static bool fits_value(const checker *c, const json_t *schema, const json_t *value)
{
    const json_t *is = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    const json_t *least = json_object_get(schema, "minimum");
    if (is && !json_equal(is, value)) return wrong(c, "it has another value");
    if (list && !is_one_of(list, value)) return wrong(c, "it is none of the values that it may have");
    if (least && json_is_number(value) && !(json_number_value(value) >= json_number_value(least)))
        return wrong(c, "it is too small");
    return fits_type(c, json_object_get(schema, "type"), value) && fits_any(c, json_object_get(schema, "anyOf"), value);
}

static bool fits_object(const checker *c, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties"),
                 *more = json_object_get(schema, "additionalProperties");
    const json_t *required = json_object_get(schema, "required"), *name;
    const char *key;
    json_t *inner;
    size_t i;
    json_array_foreach(required, i, name) if (!json_object_get(value, json_string_value(name)))
    {
        wrong(c, "it is missing");
        return wrong_in(c, json_string_value(name));
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, inner)
    {
        const json_t *known = json_object_get(properties, key);
        if (!known && json_is_false(more)) wrong(c, "it is not known");
        if ((!known && json_is_false(more)) ||
            ((known || json_is_object(more)) && !fits(c, known ? known : more, inner)))
            return wrong_in(c, key);
    }
    return true;
}

static bool fits_items(const checker *c, const json_t *schema, const json_t *value)
{
    const json_t *items = json_object_get(schema, "items"), *inner;
    size_t i;
    if (!items) return true;
    json_array_foreach(value, i, inner)
    {
        char place[24];
        snprintf(place, sizeof place, "%zu", i);
        if (!fits(c, items, inner)) return wrong_in(c, place);
    }
    return true;
}

static bool fits(const checker *c, const json_t *schema, const json_t *value)
{
    static const char prefix[] = "#/$defs/";
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref && strncmp(ref, prefix, sizeof prefix - 1) == 0)
        return fits(c, json_object_get(json_object_get(c->root, "$defs"), ref + sizeof prefix - 1), value);
    if (!fits_value(c, schema, value)) return false;
    if (json_is_object(value)) return fits_object(c, schema, value);
    return !json_is_array(value) || fits_items(c, schema, value);
}

bool report_schema_fits(const json_t *root, const json_t *schema, const json_t *value, char *why, size_t size)
{
    checker c = {root, why, size};
    *why = 0;
    return fits(&c, schema, value);
}
