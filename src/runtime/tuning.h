/* tuning.h - what was measured of the products of a plan on one device: a list by key, as the plan's device section has
 * it. It belongs to a session; not thread-safe.
 */
#ifndef HYP_RUNTIME_TUNING_H
#define HYP_RUNTIME_TUNING_H

#include "plan/plan.h"

/* Zero-initialise. */
typedef struct hyp_tuning {
    const char *device;                              /* borrowed */
    HYP_VEC(const HypPlan__TunedProduct *) products; /* ascending by key; the plan's or in the arena */
    hyp_arena arena;
} hyp_tuning;

/* Starts with what the plan's device section has for `device`; both must outlive the list. */
HYP_NODISCARD hyp_status hyp_tuning_init(hyp_tuning *t, const char *device, const hyp_plan *plan, hyp_diag *diag);
void hyp_tuning_dispose(hyp_tuning *t);

/* NULL when nothing is known of the product. Borrowed until the list goes. */
const HypPlan__TunedProduct *hyp_tuning_find(const hyp_tuning *t, const char *key);

#endif
