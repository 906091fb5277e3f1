/* memo.c - the table behind memo.h: problems as bytes, with their answers. */
#include "egraph/extract/memo.h"

#include <string.h>

#include "base/strbuf.h"

#define MOST_BYTES ((size_t)1 << 26) /* of all problems and answers; what comes later is not kept */

typedef struct entry {
    uint64_t hash;
    const void *key;
    size_t size; /* of the key */
    hyp_memo_answer answer;
} entry;

struct hyp_extract_memo {
    HYP_VEC(entry) entries;
    uint32_t *slots; /* entry + 1, 0 = empty */
    size_t slot_count, bytes;
    HYP_VEC(unsigned char) key; /* of the problem that was looked for last */
    uint64_t hash;
    uint32_t class_count;
    hyp_arena arena;
};

hyp_status hyp_memo_create(hyp_extract_memo **out, hyp_diag *diag)
{
    *out = hyp_calloc(1, sizeof **out);
    return *out ? HYP_OK : hyp_fail_memory(diag, sizeof **out);
}

void hyp_memo_destroy(hyp_extract_memo *memo)
{
    if (!memo) return;
    hyp_vec_free(&memo->entries);
    hyp_vec_free(&memo->key);
    hyp_free(memo->slots);
    hyp_arena_dispose(&memo->arena);
    hyp_free(memo);
}

static unsigned char *put(unsigned char *to, const void *from, size_t size)
{
    if (size) memcpy(to, from, size);
    return to + size;
}

/* Everything of a problem that its answer depends on: the sizes first, so that no two have the same bytes. */
static hyp_status write_key(hyp_extract_memo *memo, const hyp_problem *p, uint64_t budget, hyp_diag *diag)
{
    const uint64_t head[] = {p->class_count, p->node_count, p->root_count, p->kid_at[p->node_count], budget};
    size_t kids = p->kid_at[p->node_count], words = 2 * (size_t)p->node_count + kids + p->root_count;
    size_t size = sizeof head + p->node_count * sizeof *p->cost + words * sizeof *p->kids;
    HYP_TRY(hyp_vec_reserve(&memo->key, size, diag));
    unsigned char *to = put(memo->key.data, head, sizeof head);
    to = put(to, p->cost, p->node_count * sizeof *p->cost);
    to = put(to, p->owner, p->node_count * sizeof *p->owner);
    to = put(to, p->kid_at, p->node_count * sizeof *p->kid_at);
    to = put(to, p->kids, kids * sizeof *p->kids);
    put(to, p->roots, p->root_count * sizeof *p->roots);
    memo->key.len = size;
    memo->hash = hyp_hash(memo->key.data, size, 0);
    memo->class_count = p->class_count;
    return HYP_OK;
}

/* The slot of the key that was looked for last, or the empty one where it belongs. */
static uint32_t *slot_of(const hyp_extract_memo *memo)
{
    size_t i = (size_t)memo->hash & (memo->slot_count - 1);
    for (; memo->slots[i]; i = (i + 1) & (memo->slot_count - 1)) {
        const entry *e = &memo->entries.data[memo->slots[i] - 1];
        if (e->hash == memo->hash && e->size == memo->key.len && memcmp(e->key, memo->key.data, e->size) == 0) break;
    }
    return &memo->slots[i];
}

hyp_status hyp_memo_find(hyp_extract_memo *memo, const hyp_problem *p, uint64_t budget, const hyp_memo_answer **out,
                         hyp_diag *diag)
{
    *out = NULL;
    HYP_TRY(write_key(memo, p, budget, diag));
    uint32_t found = memo->slot_count ? *slot_of(memo) : 0;
    if (found) *out = &memo->entries.data[found - 1].answer;
    return HYP_OK;
}

static hyp_status grow(hyp_extract_memo *memo, hyp_diag *diag)
{
    size_t count = memo->slot_count ? 2 * memo->slot_count : 64;
    uint32_t *slots = hyp_calloc(count, sizeof *slots);
    if (!slots) return hyp_fail_memory(diag, count * sizeof *slots);
    hyp_free(memo->slots);
    memo->slots = slots;
    memo->slot_count = count;
    for (size_t e = 0; e < memo->entries.len; e++) {
        size_t i = (size_t)memo->entries.data[e].hash & (count - 1);
        while (slots[i]) i = (i + 1) & (count - 1);
        slots[i] = (uint32_t)e + 1;
    }
    return HYP_OK;
}

hyp_status hyp_memo_add(hyp_extract_memo *memo, const hyp_memo_answer *answer, hyp_diag *diag)
{
    size_t size = memo->class_count * sizeof *answer->choice;
    if (memo->bytes + memo->key.len + size > MOST_BYTES) return HYP_OK;
    if (2 * memo->entries.len >= memo->slot_count) HYP_TRY(grow(memo, diag));
    uint32_t *slot = slot_of(memo);
    if (*slot) return HYP_OK; /* there is one, of which whoever asked could make no use */
    void *key = hyp_arena_alloc(&memo->arena, memo->key.len);
    uint32_t *choice = hyp_arena_alloc(&memo->arena, size);
    if (!key || !choice) return hyp_fail_memory(diag, memo->key.len + size);
    memcpy(key, memo->key.data, memo->key.len);
    if (size) memcpy(choice, answer->choice, size);
    entry e = {memo->hash, key, memo->key.len, *answer};
    e.answer.choice = choice;
    HYP_TRY(hyp_vec_push(&memo->entries, diag, e));
    *slot = (uint32_t)memo->entries.len;
    memo->bytes += memo->key.len + size;
    return HYP_OK;
}
