/* record.h - the proof forest and the record of rule applications; both only with options.explain.
 *
 * Every union adds one edge between two e-nodes. The path between two e-nodes of one class, once there,
 * never changes, so whatever an edge needs for its own proof is older than the edge, and a proof ends.
 * Nieuwenhuis and Oliveras, "Proof-producing congruence closure" (RTA 2005).
 *
 * Records are rows of numbers in proofs.apps, one behind the other; their places, in bytes, are in order of time. A
 * record begins with its head: what it is, and in the two lowest bits how many bytes each of its numbers has, less one. The
 * head has 7 bits in each byte, the lowest first. A number is an id or a symbol, one higher; HYP_NONE is 0.
 *
 *   HYP_APP_STATED      a union by the caller: two e-nodes, the symbol of its reason
 *   HYP_APP_CONGRUENT   a union by congruence: two e-nodes
 *   HYP_APP_RULE + k    an application of proofs.kinds[k]: a row per e-node of the left side in pre-order, then by index of
 *                       the right side an id per e-node and function call, and a hyp_answer per call of a condition
 *                       (HYP_NONE: not asked), then those sides of the union that are variables
 *
 * Two numbers of a record are its ends, the e-nodes that it unites from left to right. So a tree has one word for each
 * e-node, the place of the record whose ends are the e-node and its parent: which of both is the parent, and which way the
 * record leads, is seen from the other. */
#ifndef HYP_EGRAPH_CORE_RECORD_H
#define HYP_EGRAPH_CORE_RECORD_H

#include "egraph/core/state.h"

#define HYP_WHY_CONGRUENCE 0xfffffffeu /* in place of a record's place: one by congruence is to be written */
#define HYP_PLACE_LIMIT 0xfffffff0u
enum { HYP_APP_STATED, HYP_APP_CONGRUENT, HYP_APP_RULE };
/* Bytes at most; and behind the last record there is room for so many that are read and written with its last number. */
enum { HYP_APP_HEAD = 5, HYP_APP_NUMBER = 4, HYP_APP_BEHIND = 3 };

/* ---- writing ------------------------------------------------------------------------------------ */

/* Bytes that each number of a record must have which is an e-node's. */
static inline uint32_t hyp_app_width(const hyp_egraph *eg)
{
    return 4 - (uint32_t)__builtin_clz((uint32_t)eg->row_count | 1) / 8;
}
/* Where the next record begins; and where its numbers do, when its head is written. There is room for it. */
static inline uint32_t hyp_app_place(const hyp_egraph *eg) { return (uint32_t)eg->proofs.apps.len; }
static inline uint8_t *hyp_app_begin(hyp_egraph *eg, uint32_t what, uint32_t width)
{
    uint8_t *to = eg->proofs.apps.data + eg->proofs.apps.len;
    uint32_t head = what << 2 | (width - 1);
    for (; head >= 0x80; head >>= 7) *to++ = (uint8_t)(head | 0x80);
    *to++ = (uint8_t)head;
    return to;
}
static inline uint8_t *hyp_app_put(uint8_t *to, uint32_t width, uint32_t id)
{
    uint32_t number = id + 1;
    for (uint32_t i = 0; i < HYP_APP_NUMBER; i++) to[i] = (uint8_t)(number >> 8 * i);
    return to + width;
}
static inline void hyp_app_end(hyp_egraph *eg, const uint8_t *end)
{
    eg->proofs.apps.len = (size_t)(end - eg->proofs.apps.data);
}

/* ---- reading ------------------------------------------------------------------------------------ */

typedef struct hyp_app {
    uint32_t what, width, count; /* of numbers */
    const uint8_t *numbers;
    const hyp_app_kind *kind; /* HYP_APP_RULE and above; else NULL */
} hyp_app;

static inline hyp_app hyp_app_read(const hyp_egraph *eg, uint32_t place)
{
    const uint8_t *at = eg->proofs.apps.data + place;
    uint32_t head = *at & 0x7f;
    for (unsigned shift = 7; *at++ & 0x80; shift += 7) head |= (uint32_t)(*at & 0x7f) << shift;
    hyp_app app = {.what = head >> 2, .width = (head & 3) + 1, .numbers = at};
    if (app.what >= HYP_APP_RULE) app.kind = &eg->proofs.kinds.data[app.what - HYP_APP_RULE];
    app.count = app.kind ? app.kind->count : app.what == HYP_APP_STATED ? 3 : 2;
    return app;
}
static inline uint32_t hyp_app_id(const hyp_app *app, uint32_t i)
{
    const uint8_t *from = app->numbers + (size_t)i * app->width;
    uint32_t number = from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
    return (number & UINT32_MAX >> (32 - 8 * app->width)) - 1;
}
/* The e-node on the left, or on the right. */
static inline uint32_t hyp_app_side(const hyp_app *app, uint32_t side)
{
    return hyp_app_id(app, app->kind ? app->kind->end[side] : side);
}
/* The symbol of a HYP_APP_STATED. */
static inline uint32_t hyp_app_reason(const hyp_app *app) { return hyp_app_id(app, 2); }
/* The place behind it. */
static inline uint32_t hyp_app_after(const hyp_egraph *eg, const hyp_app *app)
{
    return (uint32_t)(app->numbers + (size_t)app->count * app->width - eg->proofs.apps.data);
}

/* Sees to it that *known is 1 more than the index of a kind, which it stays from then on; 0: it has none so far. */
HYP_NODISCARD hyp_status hyp_proof_kind(hyp_egraph *eg, const hyp_app_kind *kind, uint32_t *known, hyp_diag *diag);

/* The parent of an e-node in its tree; HYP_NONE: it is the root. */
static inline uint32_t hyp_proof_parent(const hyp_egraph *eg, uint32_t row)
{
    if (eg->proofs.edge[row] == HYP_NONE) return HYP_NONE;
    const hyp_app app = hyp_app_read(eg, eg->proofs.edge[row]);
    return hyp_app_side(&app, 0) ^ hyp_app_side(&app, 1) ^ row;
}
/* Joins the trees of the ends of a record, a and b, which differ. */
void hyp_proof_edge(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t place);
/* Writes the record of a union by the caller, or by congruence; there is room for it. Gives its place. */
uint32_t hyp_proof_state(hyp_egraph *eg, uint32_t a, uint32_t b, hyp_symbol reason);
uint32_t hyp_proof_congruence(hyp_egraph *eg, uint32_t a, uint32_t b);
/* Room for `numbers` more in proofs.apps, in `records` records. */
HYP_NODISCARD hyp_status hyp_proof_reserve(hyp_egraph *eg, size_t numbers, size_t records, hyp_diag *diag);
/* Notes that an application made a row. */
static inline void hyp_proof_made(hyp_egraph *eg, uint32_t row)
{
    hyp_eg_mark(eg->proofs.is_made, row, true);
}
/* Notes, with room for it, that rows from now on are made by applications whose records come from now on. */
void hyp_proof_milestone(hyp_egraph *eg);

/* Keeps the children that a row of at most two was given, before others stand in it; there is room for it. */
static inline void hyp_proof_keep_given(hyp_egraph *eg, uint32_t row, const uint32_t kid[2])
{
    hyp_proofs *p = &eg->proofs;
    uint64_t bit = UINT64_C(1) << (row & 63);
    if (p->is_changed[row >> 6] & bit) return;
    p->is_changed[row >> 6] |= bit;
    p->given.data[p->given.len++] = (hyp_given_kids){row, {kid[0], kid[1]}};
}
/* Notes what proofs must know of a new row of n <= 2 children; there is room for it. `made`: by an application. */
static inline void hyp_proof_new_row(hyp_egraph *eg, uint32_t row, uint32_t n, const uint32_t kid[2], const uint32_t *given,
                                     bool made)
{
    hyp_proofs *p = &eg->proofs;
    p->edge[row] = HYP_NONE;
    hyp_eg_mark(p->is_made, row, made);
    if ((n > 0 && kid[0] != given[0]) || (n > 1 && kid[1] != given[1]))
        hyp_proof_keep_given(eg, row, (uint32_t[2]){given[0], n > 1 ? given[1] : HYP_NONE});
}
/* Forgets what is kept of rows that are gone: of the last one, which was not made after all; of those below `rows` after a
 * pop to a state in which so many were `given` others. What is kept of other rows stays true. */
void hyp_proof_take_back(hyp_egraph *eg, uint32_t row);
void hyp_proof_forget_rows(hyp_egraph *eg, size_t rows, size_t given);
/* Forgets the records from the place `apps` on: their edges go, and what were roots then are roots again. */
void hyp_proof_cut_edges(hyp_egraph *eg, size_t rows, size_t apps);
/* Makes ready for hyp_given, until the e-graph changes. */
void hyp_proof_sort_given(hyp_egraph *eg);
const uint32_t *hyp_proof_given(const hyp_egraph *eg, uint32_t row);

/* The children that an e-node was given, as e-nodes. */
static inline const uint32_t *hyp_given(const hyp_egraph *eg, uint32_t row, uint32_t *out_count)
{
    const hyp_row *r = &eg->rows[row];
    uint32_t n = *out_count = eg->ops.data[r->op & ~HYP_ROW_DEAD].arity;
    if (n > 2) return eg->proofs.pool + r->kid[0];
    return eg->proofs.is_changed[row >> 6] >> (row & 63) & 1 ? hyp_proof_given(eg, row) : r->kid;
}

#endif
