#include "runtime/tuning.h"

#include <string.h>

hyp_status hyp_tuning_init(hyp_tuning *t, const char *device, const hyp_plan *plan, hyp_diag *diag)
{
    const HypPlan__Device *known = plan->device;
    t->device = device;
    if (!known || strcmp(known->name, device) != 0) return HYP_OK;
    HYP_TRY(hyp_vec_reserve(&t->products, known->n_products, diag));
    for (size_t i = 0; i < known->n_products; i++) t->products.data[t->products.len++] = known->products[i];
    return HYP_OK;
}

void hyp_tuning_dispose(hyp_tuning *t)
{
    hyp_vec_free(&t->products);
    hyp_arena_dispose(&t->arena);
}

/* The first product whose key is not before `key`. */
static size_t lower_bound(const hyp_tuning *t, const char *key)
{
    size_t low = 0, high = t->products.len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(t->products.data[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const HypPlan__TunedProduct *hyp_tuning_find(const hyp_tuning *t, const char *key)
{
    size_t at = lower_bound(t, key);
    return at < t->products.len && strcmp(t->products.data[at]->key, key) == 0 ? t->products.data[at] : NULL;
}
