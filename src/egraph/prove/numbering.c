/* numbering.c - the hash table behind numbering.h. */
#include "egraph/prove/numbering.h"

#include <string.h>

static size_t slot_of(const hyp_numbering *n, const hyp_number_key *k)
{
    size_t i = (size_t)hyp_hash(k, sizeof *k, 0) & (n->slot_count - 1);
    while (n->slots[i] && memcmp(&n->keys.data[n->slots[i] - 1], k, sizeof *k) != 0) i = (i + 1) & (n->slot_count - 1);
    return i;
}

hyp_status hyp_number(hyp_numbering *n, uint64_t x, uint32_t a, uint32_t b, uint32_t *out, hyp_diag *diag)
{
    const hyp_number_key k = {x, a, b};
    if (2 * n->keys.len >= n->slot_count) {
        size_t count = n->slot_count ? 2 * n->slot_count : 256;
        uint32_t *slots = hyp_calloc(count, sizeof *slots);
        if (!slots) return hyp_fail_memory(diag, count * sizeof *slots);
        hyp_free(n->slots);
        n->slots = slots;
        n->slot_count = count;
        for (size_t i = 0; i < n->keys.len; i++) n->slots[slot_of(n, &n->keys.data[i])] = (uint32_t)i + 1;
    }
    size_t i = slot_of(n, &k);
    if (!n->slots[i]) {
        HYP_TRY(hyp_vec_push(&n->keys, diag, k));
        n->slots[i] = (uint32_t)n->keys.len;
    }
    *out = n->slots[i] - 1;
    return HYP_OK;
}

void hyp_numbering_dispose(hyp_numbering *n)
{
    hyp_free(n->slots);
    hyp_vec_free(&n->keys);
    *n = (hyp_numbering){0};
}
