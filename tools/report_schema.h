/* report_schema.h - whether JSON is as a JSON Schema wants it. */
#ifndef HYPATIA_TOOLS_REPORT_SCHEMA_H
#define HYPATIA_TOOLS_REPORT_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Knows of JSON Schema (draft 2020-12) what tools/report/schema.json uses: type, const, enum, minimum, required,
 * properties, additionalProperties, items, anyOf, and $ref to what is in $defs. Where the value is not as `schema`
 * wants, `why` has where and what. `root` is the whole schema. */
bool report_schema_fits(const json_t *root, const json_t *schema, const json_t *value, char *why, size_t size);

#endif
