#include "runtime/core/tuning.h"

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

/* The first product of whose key the first `len` characters are not before those of `key`. */
static size_t lower_bound(const hyp_tuning *t, const char *key, size_t len)
{
    size_t low = 0, high = t->products.len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(t->products.data[middle]->key, key, len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const HypPlan__TunedProduct *hyp_tuning_find(const hyp_tuning *t, const char *key)
{
    size_t at = lower_bound(t, key, SIZE_MAX);
    return at < t->products.len && strcmp(t->products.data[at]->key, key) == 0 ? t->products.data[at] : NULL;
}

/* The number at the start of a text, and what follows it; -1 where there is none. */
static int64_t read_number(const char *text, const char **out_rest)
{
    int64_t n = 0;
    if (*text < '0' || *text > '9') return -1;
    for (; *text >= '0' && *text <= '9'; text++)
        if (!hyp_mul_i64(n, 10, &n) || !hyp_add_i64(n, *text - '0', &n)) return -1;
    *out_rest = text;
    return n;
}

const HypPlan__TunedProduct *hyp_tuning_find_larger(const hyp_tuning *t, const char *key, size_t at, int64_t most)
{
    const HypPlan__TunedProduct *best = NULL;
    const char *rest, *other_rest;
    int64_t wanted = read_number(key + at, &rest), least = most;
    for (size_t i = lower_bound(t, key, at); wanted >= 0 && i < t->products.len; i++) {
        const HypPlan__TunedProduct *p = t->products.data[i];
        if (strncmp(p->key, key, at) != 0) break;
        int64_t size = read_number(p->key + at, &other_rest);
        if (size <= wanted || size > least || strcmp(rest, other_rest) != 0) continue;
        best = p;
        least = size;
    }
    return best;
}

/* A copy that lives as long as the list; NULL when memory is out. */
static HypPlan__TunedProduct *copy(hyp_tuning *t, const HypPlan__TunedProduct *from)
{
    HypPlan__TunedProduct *to = hyp_arena_zalloc(&t->arena, 1, sizeof *to);
    if (!to) return NULL;
    *to = *from;
    to->key = hyp_arena_strdup(&t->arena, from->key);
    to->attributes = hyp_arena_strdup(&t->arena, from->attributes);
    to->algorithm.data = hyp_arena_alloc(&t->arena, from->algorithm.len);
    if (!to->key || !to->attributes || !to->algorithm.data) return NULL;
    memcpy(to->algorithm.data, from->algorithm.data, from->algorithm.len);
    return to;
}

hyp_status hyp_tuning_set(hyp_tuning *t, const HypPlan__TunedProduct *product, hyp_diag *diag)
{
    size_t at = lower_bound(t, product->key, SIZE_MAX);
    bool known = at < t->products.len && strcmp(t->products.data[at]->key, product->key) == 0;
    const HypPlan__TunedProduct *kept = copy(t, product);
    if (!kept) return hyp_fail_memory(diag, sizeof *kept + product->algorithm.len);
    if (!known) {
        HYP_TRY(hyp_vec_grow(&t->products, diag));
        memmove(&t->products.data[at + 1], &t->products.data[at],
                (t->products.len - 1 - at) * sizeof *t->products.data);
    }
    t->products.data[at] = kept;
    return HYP_OK;
}

hyp_tuned hyp_tuning_get(const hyp_tuning *t, size_t i)
{
    if (i >= t->products.len) return (hyp_tuned){0};
    const HypPlan__TunedProduct *p = t->products.data[i];
    return (hyp_tuned){.size = sizeof(hyp_tuned),
                       .product = p->key,
                       .algorithm = p->algorithm.data,
                       .algorithm_bytes = p->algorithm.len,
                       .epilogue = p->epilogue,
                       .attributes = p->attributes,
                       .workspace = p->workspace,
                       .seconds = p->seconds,
                       .first_seconds = p->first_seconds};
}

static HypPlan__Device section(const hyp_tuning *t, HypPlan__TunedProduct **products, size_t count)
{
    HypPlan__Device d;
    hyp_plan__device__init(&d);
    d.name = (char *)(uintptr_t)t->device;
    d.products = products;
    d.n_products = count;
    return d;
}

hyp_status hyp_tuning_add(hyp_tuning *t, const hyp_tuned *given, hyp_diag *diag)
{
    HypPlan__TunedProduct p, *list[] = {&p};
    hyp_plan__tuned_product__init(&p);
    if (given->product) p.key = (char *)(uintptr_t)given->product;
    if (given->attributes) p.attributes = (char *)(uintptr_t)given->attributes;
    if (given->algorithm)
        p.algorithm = (ProtobufCBinaryData){given->algorithm_bytes, (uint8_t *)(uintptr_t)given->algorithm};
    p.epilogue = given->epilogue;
    p.workspace = given->workspace;
    p.seconds = given->seconds;
    p.first_seconds = given->first_seconds;
    HypPlan__Device d = section(t, list, 1);
    return hyp_plan_validate_device(&d, diag) == HYP_OK ? hyp_tuning_set(t, &p, diag) : HYP_ERR_INVALID_ARGUMENT;
}

hyp_status hyp_tuning_save(const hyp_tuning *t, const hyp_plan *plan, const char *path, hyp_diag *diag)
{
    if (t->products.len == 0) return hyp_plan_write_device(path, plan, plan->device, diag);
    HypPlan__Device d = section(t, (HypPlan__TunedProduct **)(uintptr_t)t->products.data, t->products.len);
    return hyp_plan_write_device(path, plan, &d, diag);
}

/* ---- sharing --------------------------------------------------------------------------------------------- */

static void free_list(hyp_shared_list *l)
{
    hyp_tuning_dispose(&l->list);
    hyp_free(l);
}

void hyp_shared_tuning_dispose(hyp_shared_tuning *shared)
{
    hyp_shared_list *l = atomic_load_explicit(&shared->newest, memory_order_relaxed);
    while (l) {
        hyp_shared_list *before = l->before;
        free_list(l);
        l = before;
    }
}

static bool is_same(const HypPlan__TunedProduct *a, const HypPlan__TunedProduct *b)
{
    return a && a->algorithm.len == b->algorithm.len && a->epilogue == b->epilogue &&
           memcmp(a->algorithm.data, b->algorithm.data, a->algorithm.len) == 0;
}

static bool knows_all(const hyp_tuning *list, const hyp_tuning *from)
{
    for (size_t i = 0; i < from->products.len; i++)
        if (!is_same(hyp_tuning_find(list, from->products.data[i]->key), from->products.data[i])) return false;
    return true;
}

static hyp_status make_list(const hyp_tuning *from, hyp_shared_list *before, hyp_shared_list **out, hyp_diag *diag)
{
    hyp_shared_list *l = hyp_calloc(1, sizeof *l);
    if (!l) return hyp_fail_memory(diag, sizeof *l);
    l->before = before;
    hyp_status status = HYP_OK;
    if (before) {
        status = hyp_vec_reserve(&l->list.products, before->list.products.len, diag);
        for (size_t i = 0; i < before->list.products.len && status == HYP_OK; i++)
            l->list.products.data[l->list.products.len++] = before->list.products.data[i];
    }
    for (size_t i = 0; i < from->products.len && status == HYP_OK; i++)
        if (!is_same(hyp_tuning_find(&l->list, from->products.data[i]->key), from->products.data[i]))
            status = hyp_tuning_set(&l->list, from->products.data[i], diag);
    if (status == HYP_OK)
        *out = l;
    else
        free_list(l);
    return status;
}

hyp_status hyp_tuning_give(const hyp_tuning *from, hyp_shared_tuning *shared, hyp_diag *diag)
{
    hyp_shared_list *before = atomic_load_explicit(&shared->newest, memory_order_acquire), *next;
    static const hyp_tuning nothing;
    while (!knows_all(before ? &before->list : &nothing, from)) {
        HYP_TRY(make_list(from, before, &next, diag));
        if (atomic_compare_exchange_strong_explicit(&shared->newest, &before, next, memory_order_acq_rel,
                                                    memory_order_acquire))
            return HYP_OK;
        free_list(next); /* somebody else was faster: his list is the one to make longer */
    }
    return HYP_OK;
}

hyp_status hyp_tuning_take(hyp_tuning *to, hyp_shared_tuning *shared, const hyp_shared_list **seen, bool *out_new,
                           hyp_diag *diag)
{
    const hyp_shared_list *newest = atomic_load_explicit(&shared->newest, memory_order_acquire);
    *out_new = false;
    if (newest == *seen) return HYP_OK;
    for (size_t i = 0; i < newest->list.products.len; i++) {
        const HypPlan__TunedProduct *p = newest->list.products.data[i];
        if (is_same(hyp_tuning_find(to, p->key), p)) continue;
        HYP_TRY(hyp_tuning_set(to, p, diag));
        *out_new = true;
    }
    *seen = newest;
    return HYP_OK;
}
