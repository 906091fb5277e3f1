/* diff_plans.h - in what two plans differ, found in what they say of themselves. */
#ifndef HYPATIA_TOOLS_DIFF_PLANS_H
#define HYPATIA_TOOLS_DIFF_PLANS_H

#include <jansson.h>

/* Of two descriptions (hypatia inspect --json): an object of the schema diff.schema.json but for the paths; its "same" says
 * whether anything differs. NULL where memory ran out. */
json_t *diff_plans(const json_t *a, const json_t *b);

#endif
