/* compact.c - gives e-nodes new ids, without gaps where some have died, so that an e-graph of which as much dies as is
 * added stays as large as what lives. All that it needs is taken before anything is changed. */
#include <string.h>

#include "egraph/core/table.h"
#include "egraph/rules/rule.h"

typedef struct renumbering {
    hyp_egraph *eg;
    uint32_t *classes,
        *rows; /* by old id: the new one of its class; of its row, of a dead one that of its twin or HYP_NONE */
} renumbering;

/* The live row that a dead one is congruent to. Its children are those of the moment when it died. */
static uint32_t twin_of(hyp_egraph *eg, uint32_t row, uint32_t *room)
{
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    for (uint32_t j = 0; j < n; j++) room[j] = hyp_eg_find(eg, kids[j]);
    return hyp_eg_lookup(eg, hyp_row_op(eg, row), room);
}

static uint32_t widest(const hyp_egraph *eg)
{
    uint32_t most = 2;
    for (size_t o = 0; o < eg->ops.len; o++)
        if (eg->ops.data[o].arity > most) most = eg->ops.data[o].arity;
    return most;
}

/* A class that is named by a dead row is named by its oldest live one, which gets its fact. */
static void name_classes(const renumbering *r)
{
    hyp_egraph *eg = r->eg;
    memset(r->classes, 0xff, eg->row_count * sizeof *r->classes); /* HYP_NONE */
    for (uint32_t i = 0; i < eg->row_count; i++) {
        uint32_t c = hyp_eg_find(eg, i);
        if (hyp_row_dead(eg, i) || r->classes[c] != HYP_NONE) continue;
        r->classes[c] = hyp_row_dead(eg, c) ? r->rows[i] : r->rows[c];
        if (eg->analysis.data_size && hyp_row_dead(eg, c))
            memcpy(hyp_fact(eg, i), hyp_fact(eg, c), eg->analysis.data_size);
    }
    for (uint32_t i = 0; i < eg->row_count; i++) r->classes[i] = r->classes[hyp_eg_find(eg, i)];
}

static void number_all(const renumbering *r, uint32_t *room)
{
    hyp_egraph *eg = r->eg;
    uint32_t next = 0;
    for (uint32_t i = 0; i < eg->row_count; i++) r->rows[i] = hyp_row_dead(eg, i) ? HYP_NONE : next++;
    name_classes(r);
    for (uint32_t i = 0; i < eg->row_count; i++) {
        uint32_t twin = hyp_row_dead(eg, i) ? twin_of(eg, i, room) : HYP_NONE;
        if (twin != HYP_NONE) r->rows[i] = r->rows[twin];
    }
}

/* Matches that were declined; one of a row that cannot be found is searched for again. */
static void renumber_rule(const renumbering *r, hyp_rule *rule)
{
    uint32_t words = hyp_match_words(rule);
    for (uint32_t g = 0; g < rule->ground_count; g++)
        if (rule->ground_class[g] != HYP_NONE) rule->ground_class[g] = r->classes[rule->ground_class[g]];
    for (size_t at = 0; at < rule->declined.len; at += words) {
        uint32_t *match = rule->declined.data + at;
        for (uint32_t i = 0; i < rule->reg_count; i++) match[i] = r->classes[match[i]];
        for (uint32_t i = 0; i < rule->match_rows; i++) {
            uint32_t *row = &match[rule->reg_count + i];
            *row = r->rows[*row];
            rule->forgets = rule->forgets || *row == HYP_NONE;
        }
    }
    if (rule->forgets) hyp_vec_free(&rule->declined);
}

static void renumber_log(const renumbering *r, hyp_op *op)
{
    for (size_t i = 0; i < op->log.len; i++) op->log.data[i] = r->rows[op->log.data[i]];
}

/* Moves what is by row to its new place, which is never behind the old one. */
static void move_rows(const renumbering *r)
{
    hyp_egraph *eg = r->eg;
    size_t size = eg->analysis.data_size;
    uint32_t next = 0, pool = 0;
    for (uint32_t i = 0; i < eg->row_count; i++) {
        if (hyp_row_dead(eg, i)) continue;
        uint32_t n, *kids = hyp_row_kids(eg, i, &n);
        hyp_row row = eg->rows[i];
        for (uint32_t j = 0; j < n; j++) kids[j] = r->classes[kids[j]];
        if (n > 2) {
            memmove(eg->pool + pool, kids, n * sizeof *kids);
            for (uint32_t j = 0; j < n; j++) eg->pool_row[pool + j] = next;
            row.kid[0] = pool;
            pool += n;
        } else {
            memcpy(row.kid, kids, sizeof row.kid);
        }
        row.home = r->classes[i];
        eg->rows[next] = row;
        eg->stamp[next] = eg->stamp[i];
        if (size && r->classes[i] == next) memmove(eg->facts + next * size, eg->facts + i * size, size);
        next++;
    }
    if (size) memset(eg->facts + next * size, 0, (eg->row_count - next) * size);
    eg->pool_len = pool;
    eg->row_count = eg->linked = eg->joined = next;
    for (uint32_t i = 0; i < next; i++) eg->parent[i] = eg->rows[i].home;
}

static void renumber(const renumbering *r)
{
    hyp_egraph *eg = r->eg;
    for (size_t o = 0; o < eg->ops.len; o++) renumber_log(r, &eg->ops.data[o]);
    for (size_t i = eg->modify_done; i < eg->modify.len; i++) eg->modify.data[i] = r->classes[eg->modify.data[i]];
    for (struct hyp_ruleset *set = eg->rulesets; set; set = set->next)
        for (size_t i = 0; i < set->rules.len; i++) renumber_rule(r, &set->rules.data[i]);
    move_rows(r);
    hyp_eg_purge_slots(eg);
    eg->index.ready = false;
    eg->index.seen = 0;
    eg->version++;
    hyp_eg_view_forget(eg);
}

static hyp_status check_lists(const hyp_egraph *eg, const uint32_t *ids, size_t count, hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] != HYP_NONE && ids[i] >= eg->row_count)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no id of this e-graph", ids[i]);
    return HYP_OK;
}

hyp_status hyp_egraph_compact(hyp_egraph *eg, hyp_class_id *classes, size_t class_count, hyp_enode_id *nodes,
                              size_t node_count, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(classes, class_count);
    HYP_NEED_LIST(nodes, node_count);
    HYP_TRY(hyp_eg_may_rebuild(eg, "compact", diag));
    if (eg->explain)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "an e-graph that explains keeps all e-nodes: its proofs name them");
    if (eg->saved)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph is not made compact between a push and its pop");
    HYP_TRY(check_lists(eg, classes, class_count, diag));
    HYP_TRY(check_lists(eg, nodes, node_count, diag));
    HYP_TRY(hyp_eg_rebuild(eg, diag));
    for (size_t i = 0; i < class_count; i++) classes[i] = hyp_egraph_find(eg, classes[i]);
    if (eg->live_count == eg->row_count) return HYP_OK;
    hyp_eg_compact_logs(eg);
    size_t rows = eg->row_count, most = widest(eg);
    uint32_t *room = hyp_malloc((2 * rows + most) * sizeof *room);
    if (!room) return hyp_fail_memory(diag, 2 * rows * sizeof *room);
    renumbering r = {eg, room, room + rows};
    number_all(&r, room + 2 * rows);
    for (size_t i = 0; i < class_count; i++)
        if (classes[i] != HYP_NONE) classes[i] = r.classes[classes[i]];
    for (size_t i = 0; i < node_count; i++)
        if (nodes[i] != HYP_NONE) nodes[i] = r.rows[nodes[i]];
    renumber(&r);
    hyp_free(room);
    return HYP_OK;
}
