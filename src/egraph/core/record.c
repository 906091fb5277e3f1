/* record.c - the proof forest: edges, and room for records. */
#include "egraph/core/record.h"

hyp_status hyp_proof_reserve(hyp_egraph *eg, size_t words, hyp_diag *diag)
{
    if (eg->proofs.apps.len + words > HYP_WHY_LIMIT)
        return hyp_fail(diag, HYP_ERR_LIMIT, "the record of rule applications is full; explain fewer steps");
    size_t want = eg->proofs.apps.len + words;
    if (!eg->rebuilding || !eg->max_bytes || want <= eg->proofs.apps.cap)
        return hyp_eg_reserve(eg, &eg->proofs.apps, want, diag);
    size_t next = want + eg->row_count / 8; /* little more than is held back for a rebuild */
    HYP_TRY(hyp_eg_resize(eg, &eg->proofs.apps.data, eg->proofs.apps.cap, next, sizeof *eg->proofs.apps.data, diag));
    eg->proofs.apps.cap = next;
    return HYP_OK;
}

hyp_status hyp_proof_kind(hyp_egraph *eg, const hyp_app_kind *kind, uint32_t *known, hyp_diag *diag)
{
    if (*known) return HYP_OK;
    HYP_TRY(hyp_eg_reserve(eg, &eg->proofs.kinds, eg->proofs.kinds.len + 1, diag));
    eg->proofs.kinds.data[eg->proofs.kinds.len++] = *kind;
    *known = (uint32_t)eg->proofs.kinds.len;
    return HYP_OK;
}

/* Whether the path from a to its root is shorter than that from b: found in as many steps as the shorter has. */
static bool is_nearer(const uint32_t *parent, uint32_t a, uint32_t b)
{
    while (parent[a] != HYP_NONE && parent[b] != HYP_NONE) a = parent[a], b = parent[b];
    return parent[a] == HYP_NONE && parent[b] != HYP_NONE;
}

void hyp_proof_edge(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why)
{
    uint32_t *parent = eg->proofs.parent, *label = eg->proofs.why;
    /* Turn the shorter path to a root around, then hang its beginning under the other e-node. The low bit of a label is set
     * where the edge goes from right to left. */
    bool turn_a = is_nearer(parent, a, b);
    uint32_t below = turn_a ? b : a, node = turn_a ? a : b, carried = why << 1 | !turn_a;
    while (node != HYP_NONE) {
        uint32_t above = parent[node], edge = label[node];
        parent[node] = below;
        label[node] = carried;
        carried = edge ^ 1;
        below = node;
        node = above;
    }
}
