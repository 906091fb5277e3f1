/* table.c - rows, their hash by key, and indexes by other columns. */
#include <string.h>

#include "egraph/egglog/db.h"

hyp_status hyp_el_grow(hyp_egglog *db, void *array, size_t *cap, size_t want, size_t elem, hyp_diag *diag)
{
    if (want <= *cap) return HYP_OK;
    size_t next = *cap < 32 ? 64 : *cap < 65536 ? *cap * 2 : *cap + *cap / 2, bytes;
    if (next < want) next = want;
    if (!hyp_mul_size(next, elem, &bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    size_t more = bytes - *cap * elem;
    if (db->options.max_bytes && db->bytes + more > db->options.max_bytes)
        return hyp_fail(diag, HYP_ERR_LIMIT, "the database has %zu bytes and its limit is %zu", db->bytes,
                        db->options.max_bytes);
    void *grown = hyp_large_realloc(*(void **)array, *cap * elem, bytes);
    if (!grown) return hyp_fail_memory(diag, bytes);
    *(void **)array = grown;
    *cap = next;
    db->bytes += more;
    return HYP_OK;
}

static void let_go(hyp_egglog *db, void *array, size_t cap, size_t elem)
{
    hyp_large_free(array, cap * elem);
    db->bytes -= cap * elem;
}

/* ---- by key ------------------------------------------------------------------------------------------ */

static inline uint32_t hash_key(const uint32_t *key, uint32_t count)
{
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < count; i++) {
        h = (h ^ key[i]) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    return (uint32_t)((h * UINT64_C(0xD6E8FEB86659FD93)) >> 32);
}

static inline bool has_key(const hyp_el_table *t, uint32_t row, const uint32_t *key)
{
    const uint32_t *have = hyp_el_row(t, row);
    for (uint32_t i = 0; i + 1 < t->width; i++)
        if (have[i] != key[i]) return false;
    return have[t->width] != HYP_EL_DEAD;
}

/* The slot of the live row with this key, or the empty one where it would go. */
static inline size_t probe(const hyp_el_table *t, uint32_t hash, const uint32_t *key)
{
    size_t mask = t->slot_count - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        hyp_el_slot s = t->slots[i];
        if (s.row == HYP_EL_NONE || (s.tag == hash && has_key(t, s.row, key))) return i;
    }
}

/* The slot for a row whose key is not there: an empty one, or one that a dead row of the same hash has left, so that a key
 * whose value changes all the time takes no more slots than others. */
static inline size_t probe_to_add(const hyp_el_table *t, uint32_t hash)
{
    size_t mask = t->slot_count - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        hyp_el_slot s = t->slots[i];
        if (s.row == HYP_EL_NONE || (s.tag == hash && *hyp_el_stamp(t, s.row) == HYP_EL_DEAD)) return i;
    }
}

uint32_t hyp_el_lookup(const hyp_el_table *t, const uint32_t *key)
{
    return t->slot_count ? t->slots[probe(t, hash_key(key, t->width - 1), key)].row : HYP_EL_NONE;
}

/* Makes the slots anew from the live rows, with room for one more. */
static hyp_status rehash(hyp_egglog *db, hyp_el_table *t, hyp_diag *diag)
{
    size_t count = 32;
    while (count < 3 * (t->live + 1)) count *= 2;
    HYP_TRY(hyp_el_grow(db, &t->slots, &t->slot_cap, count, sizeof *t->slots, diag));
    t->slot_count = count;
    t->slot_used = 0;
    memset(t->slots, 0xff, count * sizeof *t->slots);
    for (size_t row = 0; row < t->count; row++) {
        const uint32_t *r = hyp_el_row(t, row);
        if (r[t->width] == HYP_EL_DEAD) continue;
        uint32_t hash = hash_key(r, t->width - 1);
        size_t i = hash & (count - 1);
        while (t->slots[i].row != HYP_EL_NONE) i = (i + 1) & (count - 1);
        t->slots[i] = (hyp_el_slot){hash, (uint32_t)row};
        t->slot_used++;
    }
    return HYP_OK;
}

hyp_status hyp_el_append(hyp_egglog *db, hyp_el_table *t, const uint32_t *columns, uint32_t stamp, hyp_diag *diag)
{
    uint32_t copy[HYP_EL_MAX_COLUMNS];
    memcpy(copy, columns, t->width * sizeof *copy);
    if (t->count >= UINT32_MAX - 1) return hyp_fail(diag, HYP_ERR_LIMIT, "a table has 2^32 rows");
    HYP_TRY(hyp_el_grow(db, &t->rows, &t->cap, t->count + 1, (t->width + 1) * sizeof *t->rows, diag));
    if (2 * (t->slot_used + 1) > t->slot_count) HYP_TRY(rehash(db, t, diag));
    uint32_t hash = hash_key(copy, t->width - 1);
    size_t i = probe_to_add(t, hash);
    if (t->slots[i].row == HYP_EL_NONE) t->slot_used++;
    t->slots[i] = (hyp_el_slot){hash, (uint32_t)t->count};
    memcpy(hyp_el_row(t, t->count), copy, t->width * sizeof *copy);
    *hyp_el_stamp(t, t->count) = stamp;
    t->count++;
    t->live++;
    db->live++;
    db->changes++;
    return HYP_OK;
}

/* Its first column, which says nothing any more, keeps the stamp, so that the table stays in order. */
void hyp_el_kill(hyp_egglog *db, hyp_el_table *t, uint32_t row)
{
    *hyp_el_row(t, row) = *hyp_el_stamp(t, row);
    *hyp_el_stamp(t, row) = HYP_EL_DEAD;
    t->live--;
    db->live--;
    db->changes++;
}

static uint32_t changed_in(const hyp_el_table *t, size_t row)
{
    uint32_t stamp = *hyp_el_stamp(t, row);
    return HYP_EL_STAMP(stamp == HYP_EL_DEAD ? *hyp_el_row(t, row) : stamp);
}

size_t hyp_el_since(const hyp_el_table *t, uint32_t epoch)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (changed_in(t, middle) < epoch)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- by other columns ---------------------------------------------------------------------------------- */

static inline uint32_t hash_columns(const uint32_t *row, uint64_t columns)
{
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15);
    for (; columns; columns &= columns - 1) {
        h = (h ^ row[__builtin_ctzll(columns)]) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    return (uint32_t)((h * UINT64_C(0xD6E8FEB86659FD93)) >> 32);
}

/* While a search runs, what it adds stays out: its chains are walked at that time. */
static hyp_status sync_index(hyp_egglog *db, hyp_el_table *t, hyp_el_index *x, hyp_diag *diag)
{
    size_t end = db->searching ? t->limit : t->count;
    if (x->seen >= end && x->head_count) return HYP_OK;
    HYP_TRY(hyp_el_grow(db, &x->next, &x->next_cap, end + 1, sizeof *x->next, diag));
    if (x->head_count < end || !x->head_count) {
        size_t count = 32;
        while (count < end + end / 2) count *= 2;
        HYP_TRY(hyp_el_grow(db, &x->head, &x->head_cap, count, sizeof *x->head, diag));
        x->head_count = count;
        x->seen = 0;
        memset(x->head, 0xff, count * sizeof *x->head);
    }
    for (size_t row = x->seen; row < end; row++) {
        const uint32_t *r = hyp_el_row(t, row);
        if (r[t->width] == HYP_EL_DEAD) continue;
        uint32_t *head = &x->head[hash_columns(r, x->columns) & (x->head_count - 1)];
        while (*head != HYP_EL_NONE && *hyp_el_stamp(t, *head) == HYP_EL_DEAD) *head = x->next[*head]; /* its past */
        x->next[row] = *head;
        *head = (uint32_t)row;
    }
    x->seen = end;
    return HYP_OK;
}

hyp_status hyp_el_index_of(hyp_egglog *db, hyp_el_table *t, uint64_t columns, uint32_t *out, hyp_diag *diag)
{
    uint32_t i = 0;
    while (i < t->indexes.len && t->indexes.data[i].columns != columns) i++;
    if (i == t->indexes.len) HYP_TRY(hyp_vec_push(&t->indexes, diag, (hyp_el_index){.columns = columns}));
    *out = i;
    return sync_index(db, t, &t->indexes.data[i], diag);
}

uint32_t hyp_el_index_head(const hyp_el_index *x, const uint32_t *row)
{
    return x->head[hash_columns(row, x->columns) & (x->head_count - 1)];
}

/* ---- as a whole ------------------------------------------------------------------------------------------ */

hyp_status hyp_el_compact(hyp_egglog *db, hyp_el_table *t, hyp_diag *diag)
{
    enum { FEW = 256 };
    if (t->count - t->live < FEW || t->count < 2 * t->live) return HYP_OK;
    size_t kept = 0;
    for (size_t row = 0; row < t->count; row++) {
        if (*hyp_el_stamp(t, row) == HYP_EL_DEAD) continue;
        if (kept != row) memcpy(hyp_el_row(t, kept), hyp_el_row(t, row), (t->width + 1) * sizeof *t->rows);
        kept++;
    }
    t->count = kept;
    for (size_t i = 0; i < t->indexes.len; i++) t->indexes.data[i].head_count = 0;
    return rehash(db, t, diag);
}

hyp_status hyp_el_copy_table(hyp_egglog *db, const hyp_el_table *from, hyp_el_table *to, hyp_diag *diag)
{
    *to = (hyp_el_table){.width = from->width, .live = from->live};
    if (!from->count) return HYP_OK;
    HYP_TRY(hyp_el_grow(db, &to->rows, &to->cap, from->count, (from->width + 1) * sizeof *to->rows, diag));
    memcpy(to->rows, from->rows, from->count * (from->width + 1) * sizeof *to->rows);
    to->count = from->count;
    return rehash(db, to, diag);
}

void hyp_el_dispose_table(hyp_egglog *db, hyp_el_table *t)
{
    let_go(db, t->rows, t->cap, (t->width + 1) * sizeof *t->rows);
    let_go(db, t->slots, t->slot_cap, sizeof *t->slots);
    for (size_t i = 0; i < t->indexes.len; i++) {
        let_go(db, t->indexes.data[i].head, t->indexes.data[i].head_cap, sizeof(uint32_t));
        let_go(db, t->indexes.data[i].next, t->indexes.data[i].next_cap, sizeof(uint32_t));
    }
    hyp_vec_free(&t->indexes);
    *t = (hyp_el_table){0};
}
