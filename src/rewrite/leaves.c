/* Terms without children: literals, inputs, constants, each of which is in the e-graph once. */
#include <string.h>

#include "rewrite/internal.h"

hyp_status hyp_rw_literal(hyp_rw *rw, const char *text, hyp_class_id *out, hyp_diag *diag)
{
    hyp_symbol symbol;
    HYP_TRY(hyp_egraph_symbol(rw->eg, text, &symbol, diag));
    return hyp_egraph_add(rw->eg, symbol, NULL, 0, out, NULL, diag);
}

hyp_status hyp_rw_attr_literal(hyp_rw *rw, const hyp_attr *a, hyp_class_id *out, hyp_diag *diag)
{
    hyp_strbuf sb = {0};
    hyp_attr_print(&sb, rw->dims, a);
    hyp_status status = sb.failed ? hyp_fail_memory(diag, sb.len) : hyp_rw_literal(rw, hyp_strbuf_text(&sb), out, diag);
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status add_leaf_term(hyp_rw *rw, size_t leaf, hyp_class_id *out, hyp_diag *diag)
{
    char text[16] = "%";
    size_t n = 0;
    char digits[12];
    do digits[n++] = (char)('0' + leaf % 10);
    while (leaf /= 10);
    for (size_t i = 0; i < n; i++) text[1 + i] = digits[n - 1 - i];
    return hyp_rw_literal(rw, text, out, diag);
}

static hyp_status push_leaf(hyp_rw *rw, const hyp_rw_leaf *leaf, hyp_diag *diag)
{
    if (rw->leaves.len >= UINT32_MAX / 2) return hyp_fail(diag, HYP_ERR_LIMIT, "too many constants and inputs");
    return hyp_vec_push(&rw->leaves, diag, *leaf);
}

/* Enough to tell almost all constants apart without reading all of their bytes: the type and both ends. */
static uint64_t sample_hash(const hyp_rw_leaf *c)
{
    enum { END = 128 };
    uint64_t h = hyp_hash(&c->value.type.dtype, sizeof c->value.type.dtype, c->bytes);
    h = hyp_hash(c->value.type.dims, (size_t)c->value.type.rank * sizeof *c->value.type.dims, h);
    if (!c->data) return hyp_hash(&c->hash, sizeof c->hash, h);
    size_t head = c->bytes < END ? c->bytes : END;
    h = hyp_hash(c->data, head, h);
    return hyp_hash((const char *)c->data + (c->bytes - head), head, h);
}

static uint64_t whole_hash(hyp_rw_leaf *c)
{
    if (c->data && !c->hashed) {
        c->hash = hyp_hash(c->data, c->bytes, 0);
        c->hashed = true;
    }
    return c->hash;
}

static bool same_constant(hyp_rw_leaf *a, hyp_rw_leaf *b)
{
    if (!hyp_type_equal(&a->value.type, &b->value.type) || a->bytes != b->bytes) return false;
    if (a->data == b->data && a->data) return true;
    if (a->bytes && whole_hash(a) != whole_hash(b)) return false;
    return !a->data || !b->data || memcmp(a->data, b->data, a->bytes) == 0; /* elided data: by its hash */
}

static hyp_status grow_leaf_slots(hyp_rw *rw, hyp_diag *diag)
{
    size_t count = rw->leaf_slot_count ? 2 * rw->leaf_slot_count : 64;
    uint32_t *slots = hyp_calloc(count, sizeof *slots);
    if (!slots) return hyp_fail_memory(diag, count * sizeof *slots);
    for (size_t i = 0; i < rw->leaves.len; i++) {
        if (rw->leaves.data[i].is_input) continue;
        size_t at = (size_t)sample_hash(&rw->leaves.data[i]) & (count - 1);
        while (slots[at]) at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    hyp_free(rw->leaf_slots);
    rw->leaf_slots = slots;
    rw->leaf_slot_count = count;
    return HYP_OK;
}

/* The leaf of a constant: the first one that equals it. *out_new tells whether it was added. */
static hyp_status share(hyp_rw *rw, hyp_rw_leaf *c, size_t *out_leaf, bool *out_new, hyp_diag *diag)
{
    if (2 * rw->leaves.len >= rw->leaf_slot_count) HYP_TRY(grow_leaf_slots(rw, diag));
    size_t mask = rw->leaf_slot_count - 1, at = (size_t)sample_hash(c) & mask;
    for (; rw->leaf_slots[at]; at = (at + 1) & mask) {
        *out_leaf = rw->leaf_slots[at] - 1;
        *out_new = false;
        if (same_constant(&rw->leaves.data[*out_leaf], c)) return HYP_OK;
    }
    HYP_TRY(push_leaf(rw, c, diag));
    *out_leaf = rw->leaves.len - 1;
    *out_new = true;
    rw->leaf_slots[at] = (uint32_t)rw->leaves.len;
    return HYP_OK;
}

hyp_status hyp_rw_constant(hyp_rw *rw, const hyp_type *type, const void *data, size_t bytes, hyp_class_id *out,
                           hyp_diag *diag)
{
    hyp_rw_leaf c = {.value = {.type = *type}, .data = data, .bytes = bytes, .copy = true};
    size_t leaf;
    bool is_new;
    HYP_TRY(share(rw, &c, &leaf, &is_new, diag));
    if (is_new) {
        void *copy = hyp_arena_alloc(&rw->arena, bytes);
        if (!copy) return hyp_fail_memory(diag, bytes);
        memcpy(copy, data, bytes);
        rw->leaves.data[leaf].data = copy;
    }
    return add_leaf_term(rw, leaf, out, diag);
}

hyp_status hyp_rw_encode_constant(hyp_rw *rw, const hyp_value *v, hyp_class_id *out, hyp_diag *diag)
{
    hyp_rw_leaf c = {.name = v->name,
                     .value = {v->type, v->content, v->content_count},
                     .data = v->data,
                     .bytes = v->bytes,
                     .copy = v->owned,
                     .hash = v->hash};
    if (v->updatable) { /* what it equals today it may not equal tomorrow: it is known by its name */
        c.hidden = v->data;
        c.data = NULL;
        c.hash = hyp_hash(v->name, strlen(v->name), 1);
    }
    size_t leaf;
    bool is_new;
    HYP_TRY(share(rw, &c, &leaf, &is_new, diag));
    return add_leaf_term(rw, leaf, out, diag);
}

hyp_status hyp_rw_encode_input(hyp_rw *rw, hyp_value_id id, hyp_diag *diag)
{
    const hyp_value *v = &rw->in->values.data[id];
    hyp_rw_leaf leaf = {.is_input = true, .name = v->name, .value = {v->type, v->content, v->content_count}};
    HYP_TRY(push_leaf(rw, &leaf, diag));
    return add_leaf_term(rw, rw->leaves.len - 1, &rw->class_of[id], diag);
}
