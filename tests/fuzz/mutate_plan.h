/* mutate_plan.h - plans that are nearly right: a valid one with a few fields of its program changed, and everything
 * that says that it was changed put right again, so that what reads it last sees it, too.
 */
#ifndef HYP_TESTS_MUTATE_PLAN_H
#define HYP_TESTS_MUTATE_PLAN_H

#include "plan/plan.h"
#include "support/random_graph.h"

/* A plan with 1 to 4 changes, drawn from `random`: numbers, names, elements of lists, whole messages; places, sizes and
 * checksums follow. *out_size is its size; the result is the caller's: hyp_free. NULL where the bytes are no plan that
 * can be parsed, or memory is out. */
uint8_t *mutate_plan(const uint8_t *plan, size_t size, hyp_random *random, size_t *out_size);

#endif
