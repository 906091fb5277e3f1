#include "runtime/core/choice.h"

#include <stdio.h>
#include <string.h>

void hyp_choice_init(hyp_choice *c)
{
    c->key[0] = 0;
    c->size_at = c->count = c->taken = 0;
    c->size_most = 0;
    c->by = HYP_CHOICE_NONE;
    c->measured = 0;
}

static const hyp_alternative *find(const hyp_choice *c, const void *name, size_t len)
{
    for (size_t i = 0; i < c->count; i++)
        if (strlen(c->list[i].name) == len && memcmp(c->list[i].name, name, len) == 0) return &c->list[i];
    return NULL;
}

void hyp_choice_offer(hyp_choice *c, const char *name, uint32_t form, double seconds, const char *cannot)
{
    if (c->count == HYP_CHOICE_ALTERNATIVES || find(c, name, strlen(name))) return;
    hyp_alternative *a = &c->list[c->count++];
    snprintf(a->name, sizeof a->name, "%s", name);
    a->cannot = cannot;
    a->seconds = seconds;
    a->form = form;
}

size_t hyp_choice_open(const hyp_choice *c)
{
    size_t open = 0;
    for (size_t i = 0; i < c->count; i++) open += !c->list[i].cannot;
    return open;
}

/* What tuning found for the key, or for the next larger size that it holds for; *by says which. NULL when nothing can be
 * taken from it. */
static const HypPlan__TunedProduct *recall(const hyp_choice *c, const hyp_tuning *known, hyp_choice_by *by)
{
    if (!known || known->products.len == 0 || !c->key[0]) return NULL;
    const HypPlan__TunedProduct *found = hyp_tuning_find(known, c->key);
    *by = found ? HYP_CHOICE_TUNED : HYP_CHOICE_BORROWED;
    if (!found && c->size_at) found = hyp_tuning_find_larger(known, c->key, c->size_at, c->size_most);
    return found;
}

const hyp_alternative *hyp_choose(hyp_choice *c, const hyp_tuning *known)
{
    const hyp_alternative *best = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const hyp_alternative *a = &c->list[i];
        if (!a->cannot && (!best || a->seconds < best->seconds)) best = a;
    }
    c->by = !best ? HYP_CHOICE_NONE : hyp_choice_open(c) == 1 ? HYP_CHOICE_ONLY : HYP_CHOICE_PRIOR;
    c->measured = 0;
    hyp_choice_by by;
    const HypPlan__TunedProduct *tuned = recall(c, known, &by);
    const hyp_alternative *named = tuned ? find(c, tuned->algorithm.data, tuned->algorithm.len) : NULL;
    if (named && !named->cannot) {
        best = named;
        c->by = by;
        c->measured = tuned->seconds;
    }
    c->taken = best ? (size_t)(best - c->list) : 0;
    return best;
}

hyp_status hyp_choice_keep(const hyp_choice *c, size_t taken, double seconds, double first_seconds, hyp_tuning *known,
                           hyp_diag *diag)
{
    HypPlan__TunedProduct product;
    hyp_plan__tuned_product__init(&product);
    char *name = (char *)(uintptr_t)c->list[taken].name;
    product.key = (char *)(uintptr_t)c->key;
    product.algorithm = (ProtobufCBinaryData){strlen(name), (uint8_t *)name};
    product.attributes = name;
    product.seconds = seconds;
    product.first_seconds = first_seconds;
    return hyp_tuning_set(known, &product, diag);
}
