/* value.c - values of 32 bits: small integers are themselves, all else is interned. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egraph/egglog/db.h"

#define INTERNED 0x80000000u /* of an i64 that does not fit into the other 31 bits */

/* ---- words of 64 bits ------------------------------------------------------------------------------ */

/* Makes an open-addressing table of indices ready for one more; `hash_of` gives the hash of entry i. */
static hyp_status grow_slots(hyp_egglog *db, uint32_t **slots, size_t *slot_count, size_t used,
                             uint64_t (*hash_of)(const hyp_egglog *db, size_t i), hyp_diag *diag)
{
    if (2 * (used + 1) <= *slot_count) return HYP_OK;
    size_t count = *slot_count ? 2 * *slot_count : 64;
    uint32_t *grown = hyp_calloc(count, sizeof *grown);
    if (!grown) return hyp_fail_memory(diag, count * sizeof *grown);
    for (size_t i = 0; i < used; i++) {
        size_t at = hash_of(db, i) & (count - 1);
        while (grown[at]) at = (at + 1) & (count - 1);
        grown[at] = (uint32_t)i + 1;
    }
    hyp_free(*slots);
    *slots = grown;
    *slot_count = count;
    return HYP_OK;
}

static uint64_t hash_word(const hyp_egglog *db, size_t i) { return hyp_hash(&db->words.data[i], sizeof(uint64_t), 0); }

static hyp_status intern_word(hyp_egglog *db, uint64_t word, uint32_t *out, hyp_diag *diag)
{
    HYP_TRY(grow_slots(db, &db->word_slots, &db->word_slot_count, db->words.len, hash_word, diag));
    size_t mask = db->word_slot_count - 1, at = hyp_hash(&word, sizeof word, 0) & mask;
    for (; db->word_slots[at]; at = (at + 1) & mask)
        if (db->words.data[db->word_slots[at] - 1] == word) {
            *out = db->word_slots[at] - 1;
            return HYP_OK;
        }
    if (db->words.len >= INTERNED - 1) return hyp_fail(diag, HYP_ERR_LIMIT, "more than 2^31 numbers");
    HYP_TRY(hyp_vec_push(&db->words, diag, word));
    *out = (uint32_t)db->words.len - 1;
    db->word_slots[at] = *out + 1;
    return HYP_OK;
}

hyp_status hyp_el_i64(hyp_egglog *db, int64_t i, hyp_el_value *out, hyp_diag *diag)
{
    if (i >= -(INT64_C(1) << 30) && i < INT64_C(1) << 30) {
        *out = (uint32_t)i & ~INTERNED;
        return HYP_OK;
    }
    HYP_TRY(intern_word(db, (uint64_t)i, out, diag));
    *out |= INTERNED;
    return HYP_OK;
}

int64_t hyp_el_get_i64(const hyp_egglog *db, hyp_el_value v)
{
    if (v & INTERNED) return (int64_t)db->words.data[v & ~INTERNED];
    return v & (1u << 30) ? (int64_t)v - (INT64_C(1) << 31) : (int64_t)v;
}

/* One zero and one NaN, as equality has them. */
hyp_status hyp_el_f64(hyp_egglog *db, double f, hyp_el_value *out, hyp_diag *diag)
{
    uint64_t bits;
    if (f == 0) f = 0;
    if (f != f) f = NAN;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) bits = UINT64_C(0x7ff8000000000000);
    return intern_word(db, bits, out, diag);
}

double hyp_el_get_f64(const hyp_egglog *db, hyp_el_value v)
{
    double f;
    memcpy(&f, &db->words.data[v], sizeof f);
    return f;
}

hyp_status hyp_el_string(hyp_egglog *db, const char *text, size_t len, hyp_el_value *out, hyp_diag *diag)
{
    return hyp_intern_add(&db->strings, text, len, out, diag);
}

/* ---- containers ------------------------------------------------------------------------------------- */

static uint64_t hash_sequence(const hyp_egglog *db, size_t i)
{
    hyp_el_sequence s = db->sequences.data[i];
    return hyp_hash(s.len ? db->words_of.data + s.start : NULL, s.len * sizeof(uint32_t), s.sort);
}

hyp_status hyp_el_sequence_of(hyp_egglog *db, uint32_t sort, const uint32_t *words, size_t len, hyp_el_value *out,
                              hyp_diag *diag)
{
    static const uint32_t none;
    if (!len) words = &none;
    HYP_TRY(grow_slots(db, &db->sequence_slots, &db->sequence_slot_count, db->sequences.len, hash_sequence, diag));
    size_t mask = db->sequence_slot_count - 1, at = hyp_hash(words, len * sizeof *words, sort) & mask;
    for (; db->sequence_slots[at]; at = (at + 1) & mask) {
        hyp_el_sequence s = db->sequences.data[db->sequence_slots[at] - 1];
        if (s.sort == sort && s.len == len &&
            (!len || memcmp(db->words_of.data + s.start, words, len * sizeof *words) == 0)) {
            *out = db->sequence_slots[at] - 1;
            return HYP_OK;
        }
    }
    if (db->words_of.len + len >= UINT32_MAX) return hyp_fail(diag, HYP_ERR_LIMIT, "containers hold more than 2^32 values");
    /* The words may be those of another container: they are found again after the array has moved. */
    bool own = db->words_of.len && words >= db->words_of.data && words < db->words_of.data + db->words_of.len;
    size_t from = own ? (size_t)(words - db->words_of.data) : 0;
    HYP_TRY(hyp_vec_reserve(&db->words_of, db->words_of.len + len, diag));
    if (own) words = db->words_of.data + from;
    hyp_el_sequence made = {.sort = sort, .start = (uint32_t)db->words_of.len, .len = (uint32_t)len};
    HYP_TRY(hyp_vec_push(&db->sequences, diag, made));
    if (len) memcpy(db->words_of.data + db->words_of.len, words, len * sizeof *words);
    db->words_of.len += len;
    *out = (uint32_t)db->sequences.len - 1;
    db->sequence_slots[at] = *out + 1;
    return HYP_OK;
}

static int by_word(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

uint32_t hyp_el_normalize(hyp_el_sort_kind kind, uint32_t *words, uint32_t len)
{
    uint32_t kept = 0;
    if (kind == HYP_EL_VEC || !len) return len;
    if (kind == HYP_EL_SET) {
        qsort(words, len, sizeof *words, by_word);
        for (uint32_t i = 0; i < len; i++)
            if (!kept || words[kept - 1] != words[i]) words[kept++] = words[i];
        return kept;
    }
    /* Insertion, so that of equal keys the last stays; a Map changes by one key at a time. */
    for (uint32_t i = 0; i < len; i += 2) {
        uint32_t key = words[i], value = words[i + 1], at = kept;
        while (at && words[at - 2] > key) at -= 2;
        if (at && words[at - 2] == key) {
            words[at - 1] = value;
            continue;
        }
        memmove(words + at + 2, words + at, (kept - at) * sizeof *words);
        words[at] = key;
        words[at + 1] = value;
        kept += 2;
    }
    return kept;
}

hyp_status hyp_el_canonical(hyp_egglog *db, uint32_t sort, hyp_el_value v, hyp_el_value *out, hyp_diag *diag)
{
    enum { SMALL = 32 };
    const hyp_el_sort s = db->sorts.data[sort];
    *out = v;
    if (!s.ids) return HYP_OK;
    if (s.kind == HYP_EL_EQ) {
        *out = hyp_el_find(db, v);
        return HYP_OK;
    }
    uint32_t small[SMALL], *words = small, len;
    (void)hyp_el_words(db, v, &len);
    if (len > SMALL && !(words = hyp_malloc(len * sizeof *words))) return hyp_fail_memory(diag, len * sizeof *words);
    hyp_status status = HYP_OK;
    bool changed = false;
    for (uint32_t i = 0; i < len && status == HYP_OK; i++) {
        uint32_t unused, of = s.kind == HYP_EL_MAP && i % 2 == 0 ? s.key : s.element;
        uint32_t word = hyp_el_words(db, v, &unused)[i];
        status = hyp_el_canonical(db, of, word, &words[i], diag);
        changed |= status == HYP_OK && words[i] != word;
    }
    if (status == HYP_OK && changed)
        status = hyp_el_sequence_of(db, sort, words, hyp_el_normalize(s.kind, words, len), out, diag);
    if (words != small) hyp_free(words);
    return status;
}

/* ---- text ------------------------------------------------------------------------------------------- */

static void print_f64(double f, hyp_strbuf *sb)
{
    if (f != f)
        hyp_strbuf_puts(sb, "NaN");
    else
        hyp_strbuf_double(sb, f);
}

void hyp_el_print_literal(const hyp_egglog *db, uint32_t sort, hyp_el_value v, hyp_strbuf *sb)
{
    switch (db->sorts.data[sort].kind) {
    case HYP_EL_UNIT: hyp_strbuf_puts(sb, "()"); break;
    case HYP_EL_BOOL: hyp_strbuf_puts(sb, v ? "true" : "false"); break;
    case HYP_EL_I64: hyp_strbuf_printf(sb, "%lld", (long long)hyp_el_get_i64(db, v)); break;
    case HYP_EL_F64: print_f64(hyp_el_get_f64(db, v), sb); break;
    case HYP_EL_STRING: hyp_strbuf_quote(sb, hyp_el_get_string(db, v)); break;
    default: hyp_strbuf_printf(sb, "%s#%u", db->sorts.data[sort].name, v); break;
    }
}

void hyp_el_dispose_values(hyp_egglog *db)
{
    hyp_intern_dispose(&db->strings);
    hyp_vec_free(&db->words);
    hyp_vec_free(&db->sequences);
    hyp_vec_free(&db->words_of);
    hyp_free(db->word_slots);
    hyp_free(db->sequence_slots);
}
