/* record.c - the proof forest: edges, room for records, and what rows were given. */
#include "egraph/core/record.h"

#include <stdlib.h>

hyp_status hyp_proof_reserve(hyp_egraph *eg, size_t numbers, size_t records, hyp_diag *diag)
{
    size_t want = eg->proofs.apps.len + numbers * HYP_APP_NUMBER + records * HYP_APP_HEAD + HYP_APP_BEHIND;
    if (want > HYP_PLACE_LIMIT)
        return hyp_fail(diag, HYP_ERR_LIMIT, "the record of rule applications is full; explain fewer steps");
    if (!eg->rebuilding || !eg->max_bytes || want <= eg->proofs.apps.cap)
        return hyp_eg_reserve(eg, &eg->proofs.apps, want, diag);
    size_t next = want + eg->row_count / 2; /* little more than is held back for a rebuild */
    HYP_TRY(hyp_eg_resize(eg, &eg->proofs.apps.data, eg->proofs.apps.cap, next, sizeof *eg->proofs.apps.data, diag));
    eg->proofs.apps.cap = next;
    return HYP_OK;
}

void hyp_proof_milestone(hyp_egraph *eg)
{
    hyp_proofs *p = &eg->proofs;
    hyp_milestone now = {(uint32_t)eg->row_count, hyp_app_place(eg)};
    if (p->milestones.len && p->milestones.data[p->milestones.len - 1].row == now.row) p->milestones.len--;
    p->milestones.data[p->milestones.len++] = now;
}

/* ---- what rows were given ------------------------------------------------------------------------- */

static int by_row(const void *a, const void *b)
{
    uint32_t x = ((const hyp_given_kids *)a)->row, y = ((const hyp_given_kids *)b)->row;
    return (x > y) - (x < y);
}

void hyp_proof_sort_given(hyp_egraph *eg)
{
    hyp_proofs *p = &eg->proofs;
    if (p->sorted < p->given.len) qsort(p->given.data, p->given.len, sizeof *p->given.data, by_row);
    p->sorted = p->given.len;
}

const uint32_t *hyp_proof_given(const hyp_egraph *eg, uint32_t row)
{
    const hyp_proofs *p = &eg->proofs;
    const hyp_given_kids key = {.row = row};
    const hyp_given_kids *found = bsearch(&key, p->given.data, p->given.len, sizeof key, by_row);
    return found->kid;
}

void hyp_proof_take_back(hyp_egraph *eg, uint32_t row)
{
    hyp_proofs *p = &eg->proofs;
    uint64_t bit = UINT64_C(1) << (row & 63);
    if (!(p->is_changed[row >> 6] & bit)) return;
    p->is_changed[row >> 6] &= ~bit;
    p->given.len--; /* it came last */
}

void hyp_proof_forget_rows(hyp_egraph *eg, size_t rows, size_t given)
{
    hyp_proofs *p = &eg->proofs;
    for (size_t i = eg->row_count; i < rows; i++) hyp_eg_mark(p->is_changed, (uint32_t)i, false);
    /* Those that were there then are the first ones still, or all were sorted since: then the last are of the last rows. */
    size_t kept = p->sorted > given ? p->sorted : given, from = kept;
    while (p->sorted > given && kept && p->given.data[kept - 1].row >= eg->row_count) kept--;
    if (p->sorted > kept) p->sorted = kept;
    for (size_t i = from; i < p->given.len; i++)
        if (p->given.data[i].row < eg->row_count) p->given.data[kept++] = p->given.data[i];
    p->given.len = kept;
    while (p->milestones.len && (p->milestones.data[p->milestones.len - 1].app > hyp_app_place(eg) ||
                                 p->milestones.data[p->milestones.len - 1].row > eg->row_count))
        p->milestones.len--;
}

/* ---- kinds and edges ------------------------------------------------------------------------------ */

hyp_status hyp_proof_kind(hyp_egraph *eg, const hyp_app_kind *kind, uint32_t *known, hyp_diag *diag)
{
    if (*known) return HYP_OK;
    HYP_TRY(hyp_eg_reserve(eg, &eg->proofs.kinds, eg->proofs.kinds.len + 1, diag));
    eg->proofs.kinds.data[eg->proofs.kinds.len++] = *kind;
    *known = (uint32_t)eg->proofs.kinds.len;
    return HYP_OK;
}

/* Whether the path from a to its root is shorter than that from b: found in as many steps as the shorter has. */
static bool is_nearer(const hyp_egraph *eg, uint32_t a, uint32_t b)
{
    const uint32_t *edge = eg->proofs.edge;
    while (edge[a] != HYP_NONE && edge[b] != HYP_NONE) a = hyp_proof_parent(eg, a), b = hyp_proof_parent(eg, b);
    return edge[a] == HYP_NONE && edge[b] != HYP_NONE;
}

/* Turns the path from an e-node to its root around, and gives the e-node another edge: each edge goes to the e-node that was
 * its upper end. Gives the root that was. */
static uint32_t turn(hyp_egraph *eg, uint32_t node, uint32_t carried)
{
    for (;;) {
        uint32_t above = hyp_proof_parent(eg, node), edge = eg->proofs.edge[node];
        eg->proofs.edge[node] = carried;
        if (above == HYP_NONE) return node;
        carried = edge;
        node = above;
    }
}

void hyp_proof_edge(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t place)
{
    uint32_t root = turn(eg, is_nearer(eg, a, b) ? a : b, place);
    if (root < eg->frozen) eg->undo.roots.data[eg->undo.roots.len++] = root;
}

void hyp_proof_cut_edges(hyp_egraph *eg, size_t rows, size_t apps)
{
    hyp_proofs *p = &eg->proofs;
    for (uint32_t place = (uint32_t)apps, next; place < hyp_app_place(eg); place = next) {
        const hyp_app app = hyp_app_read(eg, place);
        next = hyp_app_after(eg, &app);
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t row = hyp_app_side(&app, side);
            if (row < rows && p->edge[row] == place) p->edge[row] = HYP_NONE;
        }
    }
    p->apps.len = apps;
    for (size_t i = 0; i < eg->undo.roots.len; i++) turn(eg, eg->undo.roots.data[i], HYP_NONE);
}

/* The record of a union without a rule. */
static uint32_t write_record(hyp_egraph *eg, uint32_t what, const uint32_t *ids, uint32_t count)
{
    uint32_t place = hyp_app_place(eg), width = what == HYP_APP_STATED ? HYP_APP_NUMBER : hyp_app_width(eg);
    uint8_t *to = hyp_app_begin(eg, what, width);
    for (uint32_t i = 0; i < count; i++) to = hyp_app_put(to, width, ids[i]);
    hyp_app_end(eg, to);
    return place;
}

uint32_t hyp_proof_state(hyp_egraph *eg, uint32_t a, uint32_t b, hyp_symbol reason)
{
    return write_record(eg, HYP_APP_STATED, (uint32_t[]){a, b, reason}, 3);
}

uint32_t hyp_proof_congruence(hyp_egraph *eg, uint32_t a, uint32_t b)
{
    return write_record(eg, HYP_APP_CONGRUENT, (uint32_t[]){a, b}, 2);
}
