/* seal_plan.h - a program as a plan's file, whatever it says: by docs/plan-format.md, not by the writer, which checks.
 */
#ifndef HYP_TESTS_SEAL_PLAN_H
#define HYP_TESTS_SEAL_PLAN_H

#include "plan/plan.h"

/* Has the weight bytes in the file? */
static inline bool is_stored_weight(const HypPlan__Tensor *t) { return t->place == HYP_PLAN__PLACE__PLACE_WEIGHT && t->bytes; }

/* A file without a device section, whose weights, placed by the program, are filled with the `had` bytes of `weights`,
 * again and again. The caller's: hyp_free. NULL where memory is out. */
uint8_t *seal_plan(const HypPlan__Program *p, const uint8_t *weights, size_t had, size_t *out_size);

#endif
