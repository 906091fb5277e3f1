/* containers.c - functions of Vec, Set and Map. A container is a value: what changes one gives another. */
#include <string.h>

#include "egraph/egglog/db.h"

#define RESULT_SORT (call->sorts[call->count])

/* Gives a container of some words, which it puts in order; the words are freed. */
static hyp_status give(const hyp_el_call *call, uint32_t *words, uint32_t len, hyp_el_value *out, bool *out_holds)
{
    hyp_el_sort_kind kind = call->db->sorts.data[RESULT_SORT].kind;
    hyp_status status =
        hyp_el_sequence_of(call->db, RESULT_SORT, words, hyp_el_normalize(kind, words, len), out, call->diag);
    hyp_free(words);
    *out_holds = status == HYP_OK;
    return status;
}

/* A copy of the words of argument n, with room for more; NULL after a message. */
static uint32_t *copy(const hyp_el_call *call, uint32_t n, uint32_t more, uint32_t *out_len)
{
    const uint32_t *words = hyp_el_words(call->db, call->args[n], out_len);
    uint32_t *made = hyp_malloc(((size_t)*out_len + more) * sizeof *made);
    if (!made)
        (void)hyp_fail_memory(call->diag, ((size_t)*out_len + more) * sizeof *made);
    else if (*out_len)
        memcpy(made, words, *out_len * sizeof *made);
    return made;
}

/* Where a word stands among those of argument n, at every step-th place; its length where it does not. */
static uint32_t place_of(const hyp_el_call *call, uint32_t n, uint32_t word, uint32_t step, uint32_t *out_len)
{
    const uint32_t *words = hyp_el_words(call->db, call->args[n], out_len);
    uint32_t at = 0;
    while (at < *out_len && words[at] != word) at += step;
    return at < *out_len ? at : *out_len;
}

static uint32_t step_of(const hyp_el_call *call) { return call->db->sorts.data[call->sorts[0]].kind == HYP_EL_MAP ? 2 : 1; }

static hyp_status of(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t *words = hyp_malloc((call->count + 1) * sizeof *words);
    if (!words) return hyp_fail_memory(call->diag, (call->count + 1) * sizeof *words);
    if (call->count) memcpy(words, call->args, call->count * sizeof *words);
    return give(call, words, call->count, out, out_holds);
}

/* push, insert: argument 0 with the others behind it. */
static hyp_status with(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t len, *words = copy(call, 0, call->count, &len);
    if (!words) return HYP_ERR_NO_MEMORY;
    for (uint32_t i = 1; i < call->count; i++) words[len++] = call->args[i];
    return give(call, words, len, out, out_holds);
}

static hyp_status without(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t step = step_of(call), all, at = place_of(call, 0, call->args[1], step, &all), len,
             *words = copy(call, 0, 0, &len);
    if (!words) return HYP_ERR_NO_MEMORY;
    if (at < len) {
        memmove(words + at, words + at + step, (len - at - step) * sizeof *words);
        len -= step;
    }
    return give(call, words, len, out, out_holds);
}

static hyp_status contains(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t len, at = place_of(call, 0, call->args[1], step_of(call), &len);
    *out = 0;
    *out_holds = at < len;
    return HYP_OK;
}

static hyp_status contains_not(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    hyp_status status = contains(call, out, out_holds);
    *out_holds = !*out_holds;
    return status;
}

static hyp_status length(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t len;
    (void)hyp_el_words(call->db, call->args[0], &len);
    *out_holds = true;
    return hyp_el_i64(call->db, len / step_of(call), out, call->diag);
}

static hyp_status pop(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t len, *words = copy(call, 0, 0, &len);
    if (!words) return HYP_ERR_NO_MEMORY;
    if (len) return give(call, words, len - 1, out, out_holds);
    hyp_free(words);
    *out_holds = false;
    return HYP_OK;
}

/* Whether argument n, an i64, is a place in argument 0. */
static bool is_place(const hyp_el_call *call, uint32_t n, uint32_t *out)
{
    uint32_t len;
    (void)hyp_el_words(call->db, call->args[0], &len);
    int64_t i = hyp_el_get_i64(call->db, call->args[n]);
    *out = i >= 0 && i < len ? (uint32_t)i : 0;
    return i >= 0 && i < len;
}

static hyp_status at_place(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t i, len;
    *out_holds = is_place(call, 1, &i);
    if (*out_holds) *out = hyp_el_words(call->db, call->args[0], &len)[i];
    return HYP_OK;
}

static hyp_status set_place(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t i, len, *words;
    *out_holds = is_place(call, 1, &i);
    if (!*out_holds) return HYP_OK;
    if (!(words = copy(call, 0, 0, &len))) return HYP_ERR_NO_MEMORY;
    words[i] = call->args[2];
    return give(call, words, len, out, out_holds);
}

static hyp_status remove_place(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t i, len, *words;
    *out_holds = is_place(call, 1, &i);
    if (!*out_holds) return HYP_OK;
    if (!(words = copy(call, 0, 0, &len))) return HYP_ERR_NO_MEMORY;
    memmove(words + i, words + i + 1, (len - i - 1) * sizeof *words);
    return give(call, words, len - 1, out, out_holds);
}

/* append, union: all arguments one after the other. */
static hyp_status joined(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    size_t len = 0;
    uint32_t one, *words;
    for (uint32_t i = 0; i < call->count; i++) {
        (void)hyp_el_words(call->db, call->args[i], &one);
        len += one;
    }
    if (len > UINT32_MAX) return hyp_fail(call->diag, HYP_ERR_LIMIT, "a container would have %zu elements", len);
    if (!(words = hyp_malloc((len + 1) * sizeof *words))) return hyp_fail_memory(call->diag, (len + 1) * sizeof *words);
    len = 0;
    for (uint32_t i = 0; i < call->count; i++) {
        const uint32_t *from = hyp_el_words(call->db, call->args[i], &one);
        if (one) memcpy(words + len, from, one * sizeof *words);
        len += one;
    }
    return give(call, words, (uint32_t)len, out, out_holds);
}

/* The elements of one Set that another has, or those that it has not. */
static hyp_status filtered(const hyp_el_call *call, bool keep, hyp_el_value *out, bool *out_holds)
{
    uint32_t len, other, kept = 0, *words = copy(call, 0, 0, &len);
    if (!words) return HYP_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < len; i++)
        if ((place_of(call, 1, words[i], 1, &other) < other) == keep) words[kept++] = words[i];
    return give(call, words, kept, out, out_holds);
}
static hyp_status common(const hyp_el_call *call, hyp_el_value *out, bool *holds)
{
    return filtered(call, true, out, holds);
}
static hyp_status difference(const hyp_el_call *call, hyp_el_value *out, bool *holds)
{
    return filtered(call, false, out, holds);
}

/* Unites the elements of two Vecs pair by pair. */
static hyp_status vec_union(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t len, other;
    (void)hyp_el_words(call->db, call->args[0], &len);
    (void)hyp_el_words(call->db, call->args[1], &other);
    *out = call->args[0];
    *out_holds = len == other && call->db->sorts.data[call->db->sorts.data[RESULT_SORT].element].kind == HYP_EL_EQ;
    for (uint32_t i = 0; i < len && *out_holds; i++) {
        uint32_t a = hyp_el_words(call->db, call->args[0], &len)[i], b = hyp_el_words(call->db, call->args[1], &other)[i];
        HYP_TRY(hyp_el_unite(call->db, a, b, call->diag));
    }
    return HYP_OK;
}

static hyp_status map_get(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    uint32_t len, at = place_of(call, 0, call->args[1], 2, &len);
    *out_holds = at < len;
    if (*out_holds) *out = hyp_el_words(call->db, call->args[0], &len)[at + 1];
    return HYP_OK;
}

const hyp_el_prim hyp_el_container_prims[] = {
    {"vec-of", "E", 'C', true, HYP_EL_VEC, of, NULL},
    {"vec-empty", "", 'C', false, HYP_EL_VEC, of, NULL},
    {"vec-push", "CE", 'C', false, HYP_EL_VEC, with, NULL},
    {"vec-pop", "C", 'C', false, HYP_EL_VEC, pop, NULL},
    {"vec-append", "C", 'C', true, HYP_EL_VEC, joined, NULL},
    {"vec-get", "Ci", 'E', false, HYP_EL_VEC, at_place, NULL},
    {"vec-set", "CiE", 'C', false, HYP_EL_VEC, set_place, NULL},
    {"vec-remove", "Ci", 'C', false, HYP_EL_VEC, remove_place, NULL},
    {"vec-union", "CC", 'C', false, HYP_EL_VEC, vec_union, NULL},
    {"vec-length", "C", 'i', false, HYP_EL_VEC, length, NULL},
    {"vec-contains", "CE", 'u', false, HYP_EL_VEC, contains, NULL},
    {"vec-not-contains", "CE", 'u', false, HYP_EL_VEC, contains_not, NULL},
    {"set-of", "E", 'C', true, HYP_EL_SET, of, NULL},
    {"set-empty", "", 'C', false, HYP_EL_SET, of, NULL},
    {"set-insert", "CE", 'C', false, HYP_EL_SET, with, NULL},
    {"set-remove", "CE", 'C', false, HYP_EL_SET, without, NULL},
    {"set-get", "Ci", 'E', false, HYP_EL_SET, at_place, NULL},
    {"set-length", "C", 'i', false, HYP_EL_SET, length, NULL},
    {"set-contains", "CE", 'u', false, HYP_EL_SET, contains, NULL},
    {"set-not-contains", "CE", 'u', false, HYP_EL_SET, contains_not, NULL},
    {"set-union", "C", 'C', true, HYP_EL_SET, joined, NULL},
    {"set-diff", "CC", 'C', false, HYP_EL_SET, difference, NULL},
    {"set-intersect", "CC", 'C', false, HYP_EL_SET, common, NULL},
    {"map-empty", "", 'C', false, HYP_EL_MAP, of, NULL},
    {"map-insert", "CKE", 'C', false, HYP_EL_MAP, with, NULL},
    {"map-remove", "CK", 'C', false, HYP_EL_MAP, without, NULL},
    {"map-get", "CK", 'E', false, HYP_EL_MAP, map_get, NULL},
    {"map-length", "C", 'i', false, HYP_EL_MAP, length, NULL},
    {"map-contains", "CK", 'u', false, HYP_EL_MAP, contains, NULL},
    {"map-not-contains", "CK", 'u', false, HYP_EL_MAP, contains_not, NULL},
};
const uint32_t hyp_el_container_prim_count = sizeof hyp_el_container_prims / sizeof *hyp_el_container_prims;
