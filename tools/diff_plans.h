/* diff_plans.h - in what two plans differ, found in what they say of themselves. */
#ifndef HYPATIA_TOOLS_DIFF_PLANS_H
#define HYPATIA_TOOLS_DIFF_PLANS_H

#include <jansson.h>

/* Of two descriptions (hypatia inspect --json): an object of the schema diff.schema.json but for the paths; its "same" says
 * whether anything differs. NULL where memory ran out. */
json_t *diff_plans(const json_t *a, const json_t *b);
/* The same for people, on standard output; its tables of steps begin with "- " and "+ " for those of one alone. */
void diff_print(const json_t *diff);

/* A description as it is written by hyp_plan_describe: zero-initialise, give it as its user, and read it, which frees the text;
 * NULL where it is no JSON. */
typedef struct diff_text {
    char *data;
    size_t len;
} diff_text;
void diff_collect(const char *data, size_t len, void *text);
json_t *diff_read(diff_text *t);

#endif
