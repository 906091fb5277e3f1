/* Restores what unions broke: congruence, the indexes and the analysis. Work follows what changed: each
 * class that lost a union hands its rows and uses to the winner, and only those rows are looked at. */
#include <string.h>

#include "egraph/proof.h"
#include "egraph/state.h"
#include "egraph/table.h"

void hyp_eg_link(hyp_egraph *eg)
{
    for (; eg->linked < eg->row_count; eg->linked++) {
        uint32_t id = (uint32_t)eg->linked, n;
        const uint32_t *kids = hyp_row_kids(eg, id, &n);
        uint32_t slot = n <= 2 ? 2 * id : HYP_SLOT_POOL | eg->rows[id].kid[0];
        for (uint32_t j = 0; j < n; j++, slot++) {
            *hyp_slot_next(eg, slot) = eg->use_head[kids[j]];
            eg->use_head[kids[j]] = slot;
        }
        uint32_t home = eg->home[id];
        if (home != id) {
            eg->rows[id].next = eg->rows[home].next;
            eg->rows[home].next = id;
        }
    }
}

/* Notes that a row says something new; idempotent within an epoch. */
static hyp_status touch(hyp_egraph *eg, uint32_t row, hyp_diag *diag)
{
    if (eg->stamp[row] == eg->epoch) return HYP_OK;
    HYP_TRY(hyp_eg_reserve_log(eg, hyp_row_op(eg, row), diag));
    hyp_eg_log(eg, row);
    return HYP_OK;
}

/* Gives the rows of `loser` to the class `root`. */
static hyp_status move_members(hyp_egraph *eg, uint32_t loser, uint32_t root, hyp_diag *diag)
{
    uint32_t r = loser;
    do {
        eg->home[r] = root;
        if (!hyp_row_dead(eg, r)) HYP_TRY(touch(eg, r, diag));
        r = eg->rows[r].next;
    } while (r != loser);
    uint32_t first = HYP_NONE, last = HYP_NONE, next; /* the live ones, in their order */
    do {
        next = eg->rows[r].next;
        if (!hyp_row_dead(eg, r)) {
            if (first == HYP_NONE)
                first = r;
            else
                eg->rows[last].next = r;
            last = r;
        } else {
            eg->rows[r].next = r;
        }
        r = next;
    } while (r != loser);
    if (first != HYP_NONE) {
        eg->rows[last].next = eg->rows[root].next;
        eg->rows[root].next = first;
    }
    return HYP_OK;
}

/* Brings the key of a live row up to date. It may turn out congruent to another: the older one stays. */
static void rekey(hyp_egraph *eg, uint32_t row)
{
    uint32_t n, op = eg->rows[row].op, *kids = hyp_row_kids(eg, row, &n), j = 0;
    while (j < n && hyp_eg_find(eg, kids[j]) == kids[j]) j++;
    if (j == n) return;
    hyp_table_remove(eg, hyp_table_hash(op, kids, n), row);
    for (j = 0; j < n; j++) kids[j] = hyp_eg_find(eg, kids[j]);
    uint32_t hash = hyp_table_hash(op, kids, n);
    size_t i = hyp_table_probe(eg, hash, op, kids, n);
    uint32_t other = eg->slots[i].row;
    if (other == HYP_NONE) {
        eg->slots[i] = (hyp_slot){hash, row};
        return;
    }
    uint32_t kept = other < row ? other : row, gone = other < row ? row : other;
    eg->slots[i].row = kept;
    eg->rows[gone].op |= HYP_ROW_DEAD;
    eg->ops.data[op].live--;
    eg->live_count--;
    eg->corpses.data[eg->corpses.len++] = gone;
    hyp_eg_union_reserved(eg, kept, gone, HYP_WHY_CONGRUENCE);
}

static hyp_status push_remake(hyp_egraph *eg, uint32_t row, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_reserve(eg, &eg->remake, eg->remake.len + 1, diag));
    eg->remake.data[eg->remake.len++] = row;
    return HYP_OK;
}

/* Gives the uses of `loser` to `root`, bringing the rows that hold them up to date. */
static hyp_status move_uses(hyp_egraph *eg, uint32_t loser, uint32_t root, hyp_diag *diag)
{
    uint32_t slot;
    while ((slot = eg->use_head[loser]) != HYP_NONE) {
        uint32_t row = hyp_slot_row(eg, slot), *next = hyp_slot_next(eg, slot);
        if (!hyp_row_dead(eg, row)) {
            HYP_TRY(hyp_eg_reserve_union(eg, diag));
            HYP_TRY(hyp_eg_reserve(eg, &eg->corpses, eg->corpses.len + 1, diag));
            if (eg->analysis.make) HYP_TRY(push_remake(eg, row, diag));
            HYP_TRY(touch(eg, row, diag));
            rekey(eg, row);
        }
        eg->use_head[loser] = *next;
        if (!hyp_row_dead(eg, row)) {
            *next = eg->use_head[root];
            eg->use_head[root] = slot;
        }
    }
    return HYP_OK;
}

/* ---- analysis ----------------------------------------------------------------------------------- */

/* Room to remake every user of class c and to show c: taken before a fact is joined, because afterwards it
 * could not be seen to change again. */
static hyp_status reserve_changed(hyp_egraph *eg, uint32_t c, hyp_diag *diag)
{
    size_t users = 0;
    for (uint32_t s = eg->use_head[c]; s != HYP_NONE; s = *hyp_slot_next(eg, s)) users++;
    HYP_TRY(hyp_eg_reserve(eg, &eg->remake, eg->remake.len + users, diag));
    return hyp_eg_reserve(eg, &eg->modify, eg->modify.len + 1, diag);
}

static void note_changed(hyp_egraph *eg, uint32_t c)
{
    eg->version++;
    if (eg->analysis.make)
        for (uint32_t s = eg->use_head[c]; s != HYP_NONE; s = *hyp_slot_next(eg, s)) {
            uint32_t row = hyp_slot_row(eg, s);
            if (!hyp_row_dead(eg, row)) eg->remake.data[eg->remake.len++] = row;
        }
    if (eg->analysis.modify) eg->modify.data[eg->modify.len++] = c;
}

/* The first failure of a callback is the one told; the rebuild goes on, so that the e-graph is sound. Only
 * want of memory ends it, and then nothing that was to be done is forgotten. */
typedef struct failure {
    hyp_status status;
    hyp_diag diag;
} failure;

/* Takes the outcome of a callback, and says what the caller returns if it is not HYP_OK. */
static hyp_status settle(failure *f, hyp_status status, const hyp_diag *said, hyp_diag *diag)
{
    if (status == HYP_ERR_NO_MEMORY) return hyp_fail(diag, status, "%s", said->message);
    if (status != HYP_OK && f->status == HYP_OK) {
        f->status = status;
        f->diag = *said;
    }
    return HYP_OK;
}

static hyp_status join_facts(hyp_egraph *eg, uint32_t root, const void *from, failure *f, hyp_diag *diag)
{
    if (!eg->analysis.merge) return HYP_OK;
    HYP_TRY(reserve_changed(eg, root, diag));
    bool changed = false;
    hyp_diag said = {0};
    hyp_status status = eg->analysis.merge(eg, hyp_fact(eg, root), from, &changed, eg->analysis.user, &said);
    if (status == HYP_OK && changed) note_changed(eg, root);
    return settle(f, status, &said, diag);
}

/* Makes facts anew for rows whose children's facts changed. */
static hyp_status remake_facts(hyp_egraph *eg, failure *f, hyp_diag *diag)
{
    while (eg->remake_done < eg->remake.len) {
        uint32_t row = eg->remake.data[eg->remake_done];
        if (!hyp_row_dead(eg, row)) {
            hyp_diag said = {0};
            memset(eg->fact_scratch, 0, eg->analysis.data_size);
            eg->making = true;
            hyp_status status = eg->analysis.make(eg, row, eg->fact_scratch, eg->analysis.user, &said);
            eg->making = false;
            if (status == HYP_OK)
                HYP_TRY(join_facts(eg, hyp_eg_find(eg, row), eg->fact_scratch, f, diag));
            else
                HYP_TRY(settle(f, status, &said, diag));
        }
        eg->remake_done++;
    }
    eg->remake.len = eg->remake_done = 0;
    return HYP_OK;
}

/* Shows new and changed classes to the analysis. What a limit cut stays for the next rebuild. */
static hyp_status show_classes(hyp_egraph *eg, failure *f, bool *out_cut, hyp_diag *diag)
{
    while (eg->modify_done < eg->modify.len) {
        uint32_t c = hyp_eg_find(eg, eg->modify.data[eg->modify_done]);
        hyp_eg_view_release(eg);
        hyp_diag said = {0};
        hyp_status status = eg->analysis.modify(eg, c, eg->analysis.user, &said);
        if (status == HYP_ERR_LIMIT && eg->limit_hit != HYP_STOP_SATURATED) {
            *out_cut = true;
            return HYP_OK;
        }
        HYP_TRY(settle(f, status, &said, diag));
        eg->modify_done++;
    }
    eg->modify.len = eg->modify_done = 0;
    return HYP_OK;
}

/* ---- the loop ----------------------------------------------------------------------------------- */

static hyp_status close_congruence(hyp_egraph *eg, failure *f, hyp_diag *diag)
{
    hyp_eg_link(eg);
    size_t done = 0;
    hyp_status status = HYP_OK;
    for (; done < eg->pending.len; done++) { /* grows on the way */
        uint32_t loser = eg->pending.data[done], root = hyp_eg_find(eg, loser);
        if (eg->analysis.data_size) status = join_facts(eg, root, hyp_fact(eg, loser), f, diag);
        if (status == HYP_OK) status = move_uses(eg, loser, root, diag);
        if (status == HYP_OK) status = move_members(eg, loser, root, diag); /* last: it cannot be repeated */
        if (status != HYP_OK) break;
    }
    /* After a failure the next rebuild begins with the class that was being moved. */
    if (done) memmove(eg->pending.data, eg->pending.data + done, (eg->pending.len - done) * sizeof *eg->pending.data);
    eg->pending.len -= done;
    return status;
}

/* Takes dead rows out of the member lists that still have them. */
static void bury(hyp_egraph *eg)
{
    for (size_t i = 0; i < eg->corpses.len; i++) {
        uint32_t corpse = eg->corpses.data[i], root = eg->home[corpse];
        if (eg->rows[corpse].next == corpse) continue; /* out already */
        uint32_t last = root;
        for (uint32_t r = eg->rows[root].next, next; r != root; r = next) {
            next = eg->rows[r].next;
            if (hyp_row_dead(eg, r)) {
                eg->rows[r].next = r;
            } else {
                eg->rows[last].next = r;
                last = r;
            }
        }
        eg->rows[last].next = root;
    }
    eg->corpses.len = 0;
}

hyp_status hyp_eg_rebuild(hyp_egraph *eg, hyp_diag *diag)
{
    failure f = {.status = HYP_OK};
    hyp_status status = HYP_OK;
    bool was_busy = eg->busy, cut = false;
    eg->busy = eg->rebuilding = true;
    hyp_eg_view_reset(eg);
    while (status == HYP_OK) {
        if (eg->linked < eg->row_count || eg->pending.len) hyp_eg_view_reset(eg);
        status = close_congruence(eg, &f, diag);
        if (status == HYP_OK && eg->analysis.make) status = remake_facts(eg, &f, diag);
        if (status != HYP_OK || eg->pending.len) continue;
        if (cut || eg->modify.len == 0) break;
        eg->rebuilding = false; /* what a callback adds is held against the limits */
        status = show_classes(eg, &f, &cut, diag);
        eg->rebuilding = true;
    }
    if (status == HYP_OK) bury(eg);
    eg->busy = was_busy;
    eg->rebuilding = false;
    if (status != HYP_OK) return status;
    if (f.status != HYP_OK) return hyp_fail(diag, f.status, "%s", f.diag.message);
    return HYP_OK;
}

hyp_status hyp_egraph_rebuild(hyp_egraph *eg, hyp_diag *diag)
{
    if (eg->busy) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "rebuild was called from inside a callback");
    return hyp_eg_rebuild(eg, diag);
}
