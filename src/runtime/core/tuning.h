/* tuning.h - what was measured of the products of a plan on one device: a list by key, as the plan's device section has
 * it. It belongs to a session; not thread-safe. What sessions share with each other is.
 */
#ifndef HYP_RUNTIME_CORE_TUNING_H
#define HYP_RUNTIME_CORE_TUNING_H

#include "hypatia/runtime.h"
#include "plan/plan.h"

#include <stdatomic.h>

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

/* ---- sharing ---------------------------------------------------------------------------------------------
 *
 * What contexts of an engine have given to the others: a list that never changes, and is replaced by a longer one. Readers
 * take the newest without waiting for anybody. Old lists stay until the end, since readers may still have them; there
 * is one for every time that something new was given.
 */

typedef struct hyp_shared_list {
    hyp_tuning list; /* products that were new; the others are borrowed from the lists before */
    struct hyp_shared_list *before;
} hyp_shared_list;

/* Zero-initialise. Any number of threads may use it but for dispose. */
typedef struct hyp_shared_tuning {
    _Atomic(hyp_shared_list *) newest; /* NULL: nothing was given */
} hyp_shared_tuning;
void hyp_shared_tuning_dispose(hyp_shared_tuning *shared);

/* Adds what `from` knows, in place of what was given before of the same products. */
HYP_NODISCARD hyp_status hyp_tuning_give(const hyp_tuning *from, hyp_shared_tuning *shared, hyp_diag *diag);
/* Copies what was given into `to`, in place of what it has, unless *seen says that it was taken before. *out_new: it was
 * not. */
HYP_NODISCARD hyp_status hyp_tuning_take(hyp_tuning *to, hyp_shared_tuning *shared, const hyp_shared_list **seen,
                                         bool *out_new, hyp_diag *diag);

#endif
