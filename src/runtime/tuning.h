/* tuning.h - what was measured of the products of a plan on one device: a list by key, as the plan's device section has
 * it. It belongs to a session; not thread-safe.
 */
#ifndef HYP_RUNTIME_TUNING_H
#define HYP_RUNTIME_TUNING_H

#include "hypatia/runtime.h"
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
/* The product that is the same but for a larger size: the number that the key has at `at`. Of those up to `most` the
 * smallest; NULL when there is none. */
const HypPlan__TunedProduct *hyp_tuning_find_larger(const hyp_tuning *t, const char *key, size_t at, int64_t most);
/* Copies a product into the list, in place of the one with its key. */
HYP_NODISCARD hyp_status hyp_tuning_set(hyp_tuning *t, const HypPlan__TunedProduct *product, hyp_diag *diag);

/* The same as the public interface has it. */
hyp_tuned hyp_tuning_get(const hyp_tuning *t, size_t i);
HYP_NODISCARD hyp_status hyp_tuning_add(hyp_tuning *t, const hyp_tuned *given, hyp_diag *diag);

/* Writes the plan with the list as its device section; with the section that it has where the list is empty. */
HYP_NODISCARD hyp_status hyp_tuning_save(const hyp_tuning *t, const hyp_plan *plan, const char *path, hyp_diag *diag);

#endif
