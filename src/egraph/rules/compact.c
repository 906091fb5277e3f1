/* compact.c - gives e-nodes new ids, without gaps where some have died, so that an e-graph of which as much dies as is
 * added stays as large as what lives. All that it needs is taken before anything is changed. What a push has noted keeps
 * its ids, dead or not: the state to go back to names it by them. */
#include <string.h>

#include "egraph/core/table.h"
#include "egraph/rules/rule.h"

typedef struct renumbering {
    hyp_egraph *eg;
    uint32_t floor, pool_floor; /* rows, and entries of the pool, below stay where they are */
    uint32_t *classes;          /* by old id: the new one of its class */
    uint32_t *rows;             /* and of its row; of a dead one that of its twin, or HYP_NONE */
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
    for (size_t i = 0; i < eg->logged.len; i++)
        if (eg->ops.data[eg->logged.data[i]].arity > most) most = eg->ops.data[eg->logged.data[i]].arity;
    return most;
}

/* A class that is named by a dead row, which goes, is named by its oldest live one, which gets its fact. */
static void name_classes(const renumbering *r)
{
    hyp_egraph *eg = r->eg;
    memset(r->classes, 0xff, eg->row_count * sizeof *r->classes); /* HYP_NONE */
    for (uint32_t i = 0; i < eg->row_count; i++) {
        uint32_t c = hyp_eg_find(eg, i);
        if (hyp_row_dead(eg, i) || r->classes[c] != HYP_NONE) continue;
        bool stays = c < r->floor || !hyp_row_dead(eg, c);
        r->classes[c] = r->rows[stays ? c : i];
        eg->names_are_young = eg->names_are_young || !stays;
        if (eg->analysis.data_size && !stays) memcpy(hyp_fact(eg, i), hyp_fact(eg, c), eg->analysis.data_size);
    }
    for (uint32_t i = 0; i < eg->row_count; i++) r->classes[i] = r->classes[hyp_eg_find(eg, i)];
}

/* How many rows there will be. */
static uint32_t number_all(const renumbering *r, uint32_t *room)
{
    hyp_egraph *eg = r->eg;
    uint32_t next = r->floor;
    for (uint32_t i = 0; i < r->floor; i++) r->rows[i] = i;
    for (uint32_t i = r->floor; i < eg->row_count; i++) r->rows[i] = hyp_row_dead(eg, i) ? HYP_NONE : next++;
    name_classes(r);
    for (uint32_t i = r->floor; i < eg->row_count; i++) {
        uint32_t twin = hyp_row_dead(eg, i) ? twin_of(eg, i, room) : HYP_NONE;
        if (twin != HYP_NONE) r->rows[i] = r->rows[twin];
    }
    return next;
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

/* Gives a row that stays its new id, `to`, and its children theirs. */
static void move_row(const renumbering *r, uint32_t from, uint32_t to, uint32_t *pool)
{
    hyp_egraph *eg = r->eg;
    size_t size = eg->analysis.data_size;
    uint32_t n, *kids = hyp_row_kids(eg, from, &n);
    for (uint32_t j = 0; j < n; j++) kids[j] = r->classes[kids[j]];
    hyp_row row = eg->rows[from];
    row.home = r->classes[from];
    eg->rows[to] = row;
    eg->stamp[to] = eg->stamp[from];
    eg->parent[to] = row.home;
    if (to < r->floor) return;
    if (size && row.home == to) memmove(eg->facts + to * size, eg->facts + from * size, size);
    if (n <= 2) return;
    memmove(eg->pool + *pool, kids, n * sizeof *kids);
    for (uint32_t j = 0; j < n; j++) eg->pool_row[*pool + j] = to;
    eg->rows[to].kid[0] = *pool;
    *pool += n;
}

/* Moves what is by row to its new place, which is never behind the old one. */
static void move_rows(const renumbering *r)
{
    hyp_egraph *eg = r->eg;
    uint32_t next = r->floor, pool = r->pool_floor;
    for (uint32_t i = 0; i < r->floor; i++) move_row(r, i, i, &pool);
    size_t shown = eg->shown;
    for (uint32_t i = r->floor; i < eg->row_count; i++) {
        if (i == eg->shown) shown = next;
        if (!hyp_row_dead(eg, i)) move_row(r, i, next++, &pool);
    }
    eg->shown = shown < next ? shown : next;
    eg->pool_len = pool;
    eg->row_count = eg->linked = eg->joined = next;
}

static void renumber(const renumbering *r)
{
    hyp_egraph *eg = r->eg;
    for (size_t i = 0; i < eg->logged.len; i++) renumber_log(r, &eg->ops.data[eg->logged.data[i]]);
    for (size_t i = eg->modify_done; i < eg->modify.len; i++) eg->modify.data[i] = r->classes[eg->modify.data[i]];
    for (struct hyp_ruleset *set = eg->rulesets; set; set = set->next)
        for (size_t i = 0; i < set->rules.len; i++) renumber_rule(r, &set->rules.data[i]);
    move_rows(r);
    hyp_eg_purge_slots(eg);
    hyp_index_forget(eg);
    eg->version++;
    hyp_eg_view_forget(eg);
}

/* Keeps what will be another of the rows that a pop goes back to. */
static hyp_status keep_rows(const renumbering *r, hyp_diag *diag)
{
    hyp_egraph *eg = r->eg;
    hyp_stop before = eg->limit_hit;
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < r->floor && status == HYP_OK; i++) {
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(eg, i, &n);
        bool same = eg->rows[i].home == r->classes[i] && eg->parent[i] == r->classes[i];
        for (uint32_t j = 0; j < n && same; j++) same = r->classes[kids[j]] == kids[j];
        if (!same) status = hyp_eg_keep(eg, i, true, diag);
    }
    eg->limit_hit = before;
    return status;
}

static hyp_status check_lists(const hyp_egraph *eg, const uint32_t *ids, size_t count, hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] != HYP_NONE && ids[i] >= eg->row_count)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no id of this e-graph", ids[i]);
    return HYP_OK;
}

static void tell(const renumbering *r, size_t bound)
{
    hyp_egraph *eg = r->eg;
    if (!eg->renumbered) return;
    const char *outer = hyp_eg_begin_reading(eg, "renumbered");
    eg->renumbered(eg, &(hyp_renumbering){.classes = r->classes, .nodes = r->rows, .bound = bound}, eg->renumbered_user);
    hyp_eg_end_reading(eg, outer);
}

/* Renumbers a rebuilt e-graph, if something goes, and tells of it in the two lists and whom the caller named. */
static hyp_status compact(hyp_egraph *eg, hyp_class_id *classes, size_t class_count, hyp_enode_id *nodes,
                          size_t node_count, hyp_diag *diag)
{
    size_t rows = eg->row_count, words = 2 * rows + widest(eg);
    uint32_t *room = hyp_malloc(words * sizeof *room);
    if (!room) return hyp_fail_memory(diag, words * sizeof *room);
    hyp_eg_count_bytes(eg, words * sizeof *room);
    renumbering r = {.eg = eg, .classes = room, .rows = room + rows};
    hyp_eg_saved_bounds(eg, &r.floor, &r.pool_floor);
    bool goes = number_all(&r, room + 2 * rows) < rows;
    hyp_status status = goes ? keep_rows(&r, diag) : HYP_OK;
    goes = goes && status == HYP_OK;
    for (size_t i = 0; i < class_count && status == HYP_OK; i++)
        if (classes[i] != HYP_NONE) classes[i] = r.classes[classes[i]];
    for (size_t i = 0; i < node_count && status == HYP_OK; i++)
        if (nodes[i] != HYP_NONE) nodes[i] = r.rows[nodes[i]];
    if (goes) {
        hyp_eg_compact_logs(eg);
        renumber(&r);
        tell(&r, rows);
    }
    eg->dead_kept = eg->row_count - eg->live_count;
    eg->bytes -= words * sizeof *room;
    hyp_free(room);
    return status;
}

void hyp_eg_reclaim(hyp_egraph *eg)
{
#ifdef HYP_SMALL_SIZES
    enum { FEW = 4 };
#else
    enum { FEW = 1024 };
#endif
    if (!eg->renumbered || eg->explain || eg->busy || eg->reader || !hyp_eg_readable(eg)) return;
    size_t dead = eg->row_count - eg->live_count - eg->dead_kept;
    if (dead < FEW || dead * 2 < eg->row_count) return;
    (void)compact(eg, NULL, 0, NULL, 0, NULL); /* without memory for it there is another time */
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
    HYP_TRY(check_lists(eg, classes, class_count, diag));
    HYP_TRY(check_lists(eg, nodes, node_count, diag));
    HYP_TRY(hyp_eg_rebuild(eg, diag));
    for (size_t i = 0; i < class_count; i++) classes[i] = hyp_egraph_find(eg, classes[i]);
    if (eg->live_count == eg->row_count) return HYP_OK;
    return compact(eg, classes, class_count, nodes, node_count, diag);
}
