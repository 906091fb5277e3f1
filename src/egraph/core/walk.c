/* walk.c - from class to class, and to the e-nodes that have a class among their children. */
#include "egraph/core/state.h"

hyp_class_id hyp_egraph_next_class(hyp_egraph *eg, hyp_class_id after)
{
    if (!eg) return HYP_NONE;
    for (uint64_t c = after == HYP_NONE ? 0 : (uint64_t)after + 1; c < eg->row_count; c++)
        if (eg->parent[c] == c) return (hyp_class_id)c;
    return HYP_NONE;
}

/* Whether this is the first child slot of its row that holds the class: a row that has it twice counts once. Looking
 * backwards meets one that holds it soon where there are many. */
static bool is_first(hyp_egraph *eg, uint32_t row, uint32_t slot, uint32_t c)
{
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    for (uint32_t j = hyp_slot_place(eg, slot); j > 0; j--)
        if (kids[j - 1] == c) return false;
    return true;
}

hyp_status hyp_egraph_class_users(hyp_egraph *eg, hyp_class_id c, hyp_enode_id *out, size_t cap, size_t *out_count,
                                  hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(out, cap);
    HYP_NEED(out_count);
    *out_count = 0;
    if (c >= eg->row_count) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", c);
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before its users are listed");
    HYP_TRY(hyp_eg_link(eg, diag));
    HYP_TRY(hyp_index_sync(eg, diag));
    uint32_t slot;
    c = hyp_eg_find(eg, c);
    for (hyp_cursor at = hyp_uses_of(eg, c); (slot = hyp_next_use(eg, &at)) != HYP_NONE;) {
        uint32_t row = hyp_slot_row(eg, slot);
        if (!is_first(eg, row, slot, c)) continue;
        if (*out_count < cap) out[*out_count] = row;
        ++*out_count;
    }
    return HYP_OK;
}
