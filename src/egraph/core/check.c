/* Recomputes every invariant of a rebuilt e-graph from its rows alone, and compares. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/core/table.h"

static hyp_status broken(hyp_diag *diag, const char *what, size_t where)
{
    return hyp_fail(diag, HYP_ERR_INTERNAL, "the e-graph is broken: %s, at %zu; please report it", what, where);
}

static hyp_status check_classes(hyp_egraph *eg, hyp_diag *diag)
{
    size_t live = 0, classes = 0;
    for (uint32_t i = 0; i < eg->row_count; i++) {
        uint32_t root = i;
        size_t steps = 0;
        while (eg->parent[root] != root) {
            if (++steps > eg->row_count) return broken(diag, "the union-find has a circle", i);
            root = eg->parent[root];
        }
        classes += root == i;
        if (hyp_row_dead(eg, i)) continue;
        live++;
        if (eg->rows[i].home != root) return broken(diag, "an e-node is not at home in its class", i);
        if (hyp_moved(eg, i)) return broken(diag, "a class is marked as moved", i);
        if (root > i && !eg->names_are_young) return broken(diag, "an e-node is older than the name of its class", i);
        if (i < eg->linked && eg->stamp[i] > eg->epoch) return broken(diag, "an e-node is from the future", i);
    }
    if (live != eg->live_count) return broken(diag, "the count of e-nodes is wrong", eg->live_count);
    if (classes != eg->class_count) return broken(diag, "the count of e-classes is wrong", eg->class_count);
    return HYP_OK;
}

/* Keys are canonical and distinct, and the table holds each once, beside stale slots. */
static hyp_status check_table(hyp_egraph *eg, hyp_diag *diag)
{
    size_t used = 0;
    for (uint32_t i = 0; i < eg->row_count; i++) {
        if (hyp_row_dead(eg, i)) continue;
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(eg, i, &n);
        for (uint32_t j = 0; j < n; j++)
            if (kids[j] >= eg->row_count || eg->parent[kids[j]] != kids[j])
                return broken(diag, "a child of an e-node is not canonical", i);
            else if (kids[j] > i && !eg->names_are_young)
                return broken(diag, "an e-node is older than the name of a child", i);
        uint32_t found = hyp_eg_lookup(eg, hyp_row_op(eg, i), kids);
        if (found == HYP_NONE) return broken(diag, "an e-node is not in the hash-cons", i);
        if (found != i) return broken(diag, "two e-nodes are congruent", i);
    }
    for (size_t i = 0; i < eg->bucket_count; i++) {
        uint32_t empty = hyp_bucket_find(&eg->buckets[i], 0), count = (uint32_t)__builtin_ctz(empty);
        if (count > HYP_BUCKET_ROWS || empty >> count != (1u << (HYP_BUCKET_WIDTH - count)) - 1)
            return broken(diag, "a bucket of the hash-cons has a hole", i);
        used += count;
    }
    bool fits = used == eg->slot_used && used >= eg->live_count && hyp_slots_do(0, used, eg->bucket_count);
    return fits || !eg->row_count ? HYP_OK : broken(diag, "the hash-cons has a wrong number of entries", used);
}

/* Each live row that the index knows is once among the members of its class, each of its child slots once among the
 * uses of the class in it, and what the base copied and still believes is true. */
static hyp_status check_index(hyp_egraph *eg, uint8_t *seen, hyp_diag *diag)
{
    const hyp_index *x = &eg->index;
    size_t members = 0, uses = 0, live = 0, slots = 0;
    uint32_t row, slot, n;
    for (uint32_t c = 0; c < eg->row_count; c++) {
        if (c < x->seen && !hyp_row_dead(eg, c)) live++, slots += eg->ops.data[hyp_row_op(eg, c)].arity;
        for (hyp_cursor at = hyp_members_of(eg, c); (row = hyp_next_member(eg, &at)) != HYP_NONE; members++) {
            if (seen[row]) return broken(diag, "an e-node is twice among the members", row);
            seen[row] = 1;
        }
        for (hyp_cursor at = hyp_uses_of(eg, c); (slot = hyp_next_use(eg, &at)) != HYP_NONE;)
            if (++uses > slots + eg->pool_len + 2 * eg->row_count) return broken(diag, "a use list is a circle", c);
    }
    if (members != live) return broken(diag, "an e-node is missing among the members", members);
    if (uses != slots) return broken(diag, "a child is missing among the uses", uses);
    for (size_t i = 0; i < x->at[x->bound].member; i++) {
        const hyp_member *m = &x->members[i];
        if (hyp_index_stale(x, m->row)) continue;
        if (memcmp(m->kid, eg->rows[m->row].kid, sizeof m->kid) != 0 ||
            (m->op & ~HYP_INDEX_FRESH) != eg->rows[m->row].op)
            return broken(diag, "the index has an old copy of an e-node", m->row);
    }
    for (size_t i = 0; i < x->at[x->bound].use; i++) {
        const hyp_use *u = &x->uses[i];
        row = hyp_slot_row(eg, u->slot);
        if (hyp_index_stale(x, row)) continue;
        const uint32_t *kids = hyp_row_kids(eg, row, &n);
        if (u->home != eg->rows[row].home || (n == 2 && u->other != kids[1 - hyp_slot_place(eg, u->slot)]))
            return broken(diag, "the index has an old copy of a use", row);
    }
    return HYP_OK;
}

/* `unlinked` is by operator. */
static hyp_status check_logs(hyp_egraph *eg, uint32_t *unlinked, hyp_diag *diag)
{
    for (size_t i = eg->linked; i < eg->row_count; i++) unlinked[hyp_row_op(eg, (uint32_t)i)]++;
    for (size_t o = 0; o < eg->ops.len; o++) {
        const hyp_op *op = &eg->ops.data[o];
        size_t current = 0;
        if (op->log.len && (!op->logged_at || eg->logged.data[op->logged_at - 1] != o)) return broken(diag, "an operator that has a log is not listed", o);
        for (size_t m = 0; m < op->marks.len; m++) {
            size_t end = m + 1 < op->marks.len ? op->marks.data[m + 1].pos : op->log.len;
            if (m && op->marks.data[m].epoch <= op->marks.data[m - 1].epoch)
                return broken(diag, "a log is out of order", o);
            for (size_t i = op->marks.data[m].pos; i < end; i++) {
                uint32_t row = op->log.data[i];
                if (hyp_row_op(eg, row) != o) return broken(diag, "a log holds another operator's e-node", row);
                current += !hyp_row_dead(eg, row) && eg->stamp[row] == op->marks.data[m].epoch;
            }
        }
        if (current + unlinked[o] != op->live) return broken(diag, "an operator's log does not hold each e-node once", o);
    }
    return HYP_OK;
}

/* Making a fact anew and joining it changes nothing. */
static hyp_status check_facts(hyp_egraph *eg, hyp_diag *diag)
{
    if (!eg->analysis.make || !eg->analysis.merge) return HYP_OK;
    for (uint32_t i = 0; i < eg->row_count; i++) {
        if (hyp_row_dead(eg, i)) continue;
        bool changed = false;
        memset(eg->fact_scratch, 0, eg->analysis.data_size);
        const char *outer = hyp_eg_begin_reading(eg, HYP_READER_MAKE);
        hyp_status status = eg->analysis.make(eg, i, eg->fact_scratch, eg->analysis.user, diag);
        if (status == HYP_OK)
            status = eg->analysis.merge(eg, hyp_fact(eg, eg->rows[i].home), eg->fact_scratch, &changed,
                                        eg->analysis.user, diag);
        hyp_eg_end_reading(eg, outer);
        HYP_TRY(status);
        if (changed) return broken(diag, "a class does not know what its e-node says", i);
    }
    return HYP_OK;
}

/* The proof forest has a tree per class, dead e-nodes included. */
static hyp_status check_proofs(hyp_egraph *eg, hyp_diag *diag)
{
    size_t trees = 0;
    for (uint32_t i = 0; eg->explain && i < eg->row_count; i++) {
        trees += eg->proofs.edge[i] == HYP_NONE;
        if (eg->proofs.edge[i] == HYP_NONE) continue;
        if (eg->proofs.edge[i] >= hyp_app_place(eg)) return broken(diag, "an edge has no record", i);
        const hyp_app app = hyp_app_read(eg, eg->proofs.edge[i]);
        uint32_t left = hyp_app_side(&app, 0), right = hyp_app_side(&app, 1);
        if (left != i && right != i) return broken(diag, "the record of an edge is of other e-nodes", i);
        if (hyp_eg_find(eg, left) != hyp_eg_find(eg, right)) return broken(diag, "a proof joins two classes", i);
    }
    return !eg->explain || trees == eg->class_count ? HYP_OK : broken(diag, "the proof forest is wrong", trees);
}

hyp_status hyp_egraph_check(hyp_egraph *eg, hyp_diag *diag)
{
    HYP_NEED(eg);
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph can be checked only when it is rebuilt");
    HYP_TRY(check_classes(eg, diag));
    HYP_TRY(check_table(eg, diag));
    uint8_t *seen = hyp_calloc(eg->row_count, sizeof *seen);
    uint32_t *unlinked = hyp_calloc(eg->ops.len, sizeof *unlinked);
    hyp_status status = seen && unlinked ? HYP_OK : hyp_fail_memory(diag, eg->row_count + eg->ops.len * sizeof *unlinked);
    if (status == HYP_OK && eg->index.ready) status = check_index(eg, seen, diag);
    if (status == HYP_OK) status = check_logs(eg, unlinked, diag);
    hyp_free(seen);
    hyp_free(unlinked);
    HYP_TRY(status);
    HYP_TRY(check_facts(eg, diag));
    return check_proofs(eg, diag);
}
