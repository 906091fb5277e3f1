/* Restores what unions broke: congruence, the indexes and the analysis. Work follows what changed: where that is
 * little, each class that lost a union hands its rows and uses to the winner, and only those rows are looked
 * at; where it is a good part of the e-graph, a sweep over all rows is faster than looking each of them up. */
#include <string.h>

#include "egraph/core/state.h"
#include "egraph/core/table.h"
#include "egraph/core/record.h"

/* So many sweeps over all rows cost about as much as an index. */
enum { SWEEPS = 16 };

/* So often all rows are looked at in one rebuild before it follows the index. */
#ifdef HYP_SMALL_SIZES
enum { FULL_SWEEPS = 1 };
#else
enum { FULL_SWEEPS = 32 };
#endif

/* Notes that a row says something new; idempotent within an epoch. */
static hyp_status touch(hyp_egraph *eg, uint32_t row, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_keep(eg, row, false, diag));
    if (eg->stamp[row] == eg->epoch) return HYP_OK;
    HYP_TRY(hyp_eg_reserve_log(eg, hyp_row_op(eg, row), 1, diag));
    hyp_eg_log(eg, row);
    return HYP_OK;
}

/* ---- through all rows ---------------------------------------------------------------------------- */

static bool names_marked(const uint64_t *bits, const uint32_t *kids, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++)
        if (hyp_eg_marked(bits, kids[j])) return true;
    return false;
}

/* The first row of [row, last) with a child, or with `homes` in a class, that is marked in `bits`; `last` if there is none.
 * A dead row may be met. */
static inline uint32_t next_marked(hyp_egraph *eg, const uint64_t *bits, bool homes, uint32_t row, uint32_t last)
{
    for (; row < last && eg->pool_len; row++) {
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(eg, row, &n);
        if ((homes && hyp_eg_marked(bits, eg->rows[row].home)) || names_marked(bits, kids, n)) return row;
    }
    for (const hyp_row *rows = eg->rows; row < last; row++) { /* no row has more than two children: many times as fast */
        const hyp_row *r = &rows[row];
        if (homes && hyp_eg_marked(bits, r->home)) return row;
        if (r->kid[0] == HYP_NONE) continue;
        if (hyp_eg_marked(bits, r->kid[0]) || (r->kid[1] != HYP_NONE && hyp_eg_marked(bits, r->kid[1]))) return row;
    }
    return last;
}

/* ---- keys --------------------------------------------------------------------------------------- */

/* Room for what rekey does to a row, and to the one that it may turn out to be. */
static hyp_status reserve_rekey(hyp_egraph *eg, uint32_t row, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_keep(eg, row, true, diag));
    if (!hyp_slots_do(0, eg->slot_used + 1, eg->bucket_count)) hyp_eg_purge_slots(eg);
    if (eg->explain) HYP_TRY(hyp_eg_reserve(eg, &eg->proofs.given, eg->proofs.given.len + 1, diag));
    HYP_TRY(hyp_eg_reserve_union(eg, diag));
    return hyp_eg_reserve_undo(eg, 2, diag);
}

/* Gives a live row whose children moved its slot. It may turn out congruent to another: the older one stays. */
static void rekey(hyp_egraph *eg, uint32_t row)
{
    uint32_t n, op = eg->rows[row].op, *kids = hyp_row_kids(eg, row, &n), was[2];
    memcpy(was, eg->rows[row].kid, sizeof was);
    for (uint32_t j = 0; j < n; j++) kids[j] = hyp_eg_now(eg, kids[j]);
    uint32_t hash = hyp_table_hash(op, kids, n);
    size_t slot;
    uint32_t other = hyp_table_probe_other(eg, hash, op, kids, n, row, &slot);
    if (eg->explain && n <= 2) {
        if (other < row) /* it dies: what it was given can stay in it */
            memcpy(kids, was, sizeof was);
        else
            hyp_proof_keep_given(eg, row, was);
    }
    if (other == HYP_NONE) {
        hyp_table_put(eg, slot, hash, row);
        eg->slot_used++;
        return;
    }
    uint32_t kept = other < row ? other : row, gone = other < row ? row : other;
    hyp_table_put(eg, slot, hash, kept);
    hyp_eg_keep_reserved(eg, gone);
    eg->rows[gone].op |= HYP_ROW_DEAD;
    eg->ops.data[op].live--;
    eg->live_count--;
    hyp_index_spoil(eg, gone);
    hyp_eg_union_reserved(eg, kept, gone, HYP_WHY_CONGRUENCE);
}

/* ---- facts -------------------------------------------------------------------------------------- */

/* The first failure of a callback is the one told; the rebuild goes on, so that the e-graph is sound. Only want of memory
 * ends it, and then nothing that was to be done is forgotten. */
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

/* Joins a fact into that of a class. Room to note a change is taken before, because afterwards it could not be seen to
 * change again. */
static hyp_status merge_facts(hyp_egraph *eg, uint32_t root, const void *from, failure *f, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_reserve(eg, &eg->changed, eg->changed.len + 1, diag));
    HYP_TRY(hyp_eg_reserve(eg, &eg->modify, eg->modify.len + 1, diag));
    bool changed = false;
    hyp_diag said;
    said.message[0] = 0;
    const char *outer = hyp_eg_begin_reading(eg, HYP_READER_MERGE);
    hyp_status status = eg->analysis.merge(eg, hyp_fact(eg, root), from, &changed, eg->analysis.user, &said);
    hyp_eg_end_reading(eg, outer);
    if (status == HYP_OK && changed) {
        eg->version++;
        if (eg->analysis.make && !hyp_eg_marked(eg->told, root)) eg->changed.data[eg->changed.len++] = root;
        if (eg->analysis.make) hyp_eg_mark(eg->told, root, true);
        if (eg->analysis.modify) eg->modify.data[eg->modify.len++] = root;
    }
    return settle(f, status, &said, diag);
}

static inline hyp_status join_facts(hyp_egraph *eg, uint32_t root, const void *from, failure *f, hyp_diag *diag)
{
    if (!eg->analysis.merge || hyp_same_fact(eg, hyp_fact(eg, root), from)) return HYP_OK;
    return merge_facts(eg, root, from, f, diag);
}

/* Tells classes what the e-nodes say that were made as members of them. */
static hyp_status join_members(hyp_egraph *eg, failure *f, hyp_diag *diag)
{
    if (!eg->analysis.merge) eg->joined = eg->row_count;
    for (; eg->joined < eg->row_count; eg->joined++) {
        uint32_t row = (uint32_t)eg->joined;
        if (eg->rows[row].home != row) HYP_TRY(join_facts(eg, hyp_eg_find(eg, row), hyp_fact(eg, row), f, diag));
    }
    return HYP_OK;
}

/* Whether a row whose children moved was made from other facts than they have now. */
static bool is_outdated(hyp_egraph *eg, uint32_t row)
{
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    for (uint32_t j = 0; j < n && eg->analysis.make; j++) {
        uint32_t kid = kids[j];
        if (!hyp_moved(eg, kid)) continue;
        if (hyp_eg_marked(eg->told, kid)) return true;
        if (!hyp_same_fact(eg, hyp_fact(eg, kid), hyp_fact(eg, hyp_eg_find(eg, kid)))) return true;
    }
    return false;
}

static hyp_status push_remake(hyp_egraph *eg, uint32_t row, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_reserve(eg, &eg->remake, eg->remake.len + 1, diag));
    eg->remake.data[eg->remake.len++] = row;
    return HYP_OK;
}

static hyp_status remake(hyp_egraph *eg, uint32_t row, failure *f, hyp_diag *diag)
{
    hyp_diag said;
    said.message[0] = 0;
    if (hyp_row_dead(eg, row)) return HYP_OK;
    memset(eg->fact_scratch, 0, eg->analysis.data_size);
    eg->making = true;
    const char *outer = hyp_eg_begin_reading(eg, HYP_READER_MAKE);
    hyp_status status = eg->analysis.make(eg, row, eg->fact_scratch, eg->analysis.user, &said);
    hyp_eg_end_reading(eg, outer);
    eg->making = false;
    if (status == HYP_OK) return join_facts(eg, hyp_eg_find(eg, row), eg->fact_scratch, f, diag);
    return settle(f, status, &said, diag);
}

/* Sweeps over the rows for those that use a class whose fact changed. */
static hyp_status sweep_for_users(hyp_egraph *eg, hyp_diag *diag)
{
    uint32_t last = (uint32_t)eg->row_count, row = next_marked(eg, eg->told, false, 0, last);
    eg->index.sweeps++;
    for (; row < last; row = next_marked(eg, eg->told, false, row + 1, last))
        if (!hyp_row_dead(eg, row)) HYP_TRY(push_remake(eg, row, diag));
    while (eg->changed.len) hyp_eg_mark(eg->told, eg->changed.data[--eg->changed.len], false);
    return HYP_OK;
}

/* Notes the users of the classes whose facts changed. */
static hyp_status note_users(hyp_egraph *eg, hyp_diag *diag)
{
    if (!eg->index.ready && eg->index.sweeps < SWEEPS) return sweep_for_users(eg, diag);
    HYP_TRY(hyp_index_sync(eg, diag));
    while (eg->changed.len) {
        uint32_t c = eg->changed.data[eg->changed.len - 1], slot;
        for (hyp_cursor at = hyp_uses_of(eg, c); (slot = hyp_next_use(eg, &at)) != HYP_NONE;)
            HYP_TRY(push_remake(eg, hyp_slot_row(eg, slot), diag));
        eg->changed.len--;
        hyp_eg_mark(eg->told, c, false);
    }
    return HYP_OK;
}

/* Makes facts anew for rows whose children's facts changed. */
static hyp_status remake_facts(hyp_egraph *eg, failure *f, hyp_diag *diag)
{
    while (eg->remake.len || eg->changed.len) {
        for (; eg->remake_done < eg->remake.len; eg->remake_done++)
            HYP_TRY(remake(eg, eg->remake.data[eg->remake_done], f, diag));
        eg->remake.len = eg->remake_done = 0;
        if (eg->changed.len) HYP_TRY(note_users(eg, diag));
    }
    return HYP_OK;
}

/* ---- much has changed: go through all rows -------------------------------------------------------- */

/* Has the slot brought near that a row of at most two children will ask for. */
static inline void ask_slot(hyp_egraph *eg, const hyp_row *r)
{
    uint32_t n = eg->ops.data[r->op].arity;
    if (n > 2) return;
    uint32_t now[2] = {n > 0 ? hyp_eg_now(eg, r->kid[0]) : HYP_NONE, n > 1 ? hyp_eg_now(eg, r->kid[1]) : HYP_NONE};
    hyp_table_prefetch(eg, hyp_table_hash_few(r->op, now));
}

/* Brings the rows of [first, *end) up to date that name a moved class, and after a union of its own all that follow.
 * Children are mostly older than what uses them, so one sweep in order of age repairs most of what its own unions break:
 * rows from the new *end on were looked at after the last of them. Rows are met some time after their slots were asked
 * for. */
static hyp_status sweep_once(hyp_egraph *eg, uint32_t first, uint32_t *end, hyp_diag *diag)
{
    enum { AHEAD = 16 };
    uint32_t waiting[AHEAD], last = *end, n;
    size_t count = 0, done = 0;
    *end = 0;
    for (uint32_t row = next_marked(eg, eg->moved, true, first, last); row < last || done < count;
         row = next_marked(eg, eg->moved, true, row, last)) {
        if (row < last) {
            hyp_row *r = &eg->rows[row++];
            if (r->op & HYP_ROW_DEAD) continue;
            if (hyp_moved(eg, r->home)) {
                HYP_TRY(touch(eg, row - 1, diag));
                r->home = hyp_eg_find(eg, r->home);
            }
            const uint32_t *kids = hyp_row_kids(eg, row - 1, &n);
            if (!names_marked(eg->moved, kids, n)) continue;
            ask_slot(eg, r);
            waiting[count++ % AHEAD] = row - 1;
            if (count - done < AHEAD) continue;
        }
        uint32_t met = waiting[done++ % AHEAD];
        size_t lost = eg->pending.len;
        if (hyp_row_dead(eg, met)) continue; /* since it was asked for */
        HYP_TRY(reserve_rekey(eg, met, diag));
        HYP_TRY(touch(eg, met, diag));
        if (is_outdated(eg, met)) HYP_TRY(push_remake(eg, met, diag));
        rekey(eg, met);
        if (eg->pending.len == lost) continue;
        *end = row;
        last = (uint32_t)eg->row_count;
    }
    return HYP_OK;
}

/* The first row that may name one of the classes that lost a union, from the `from`th on. A class is named by its oldest
 * row, and what uses it is younger, unless names were given otherwise. */
static uint32_t first_to_sweep(const hyp_egraph *eg, size_t from)
{
    uint32_t first = HYP_NONE;
    if (eg->names_are_young) return 0;
    for (size_t i = from; i < eg->pending.len; i++)
        if (eg->pending.data[i] < first) first = eg->pending.data[i];
    return first;
}

/* Drops the first `count` classes that lost a union, which nothing names any more. */
static void settle_first(hyp_egraph *eg, size_t count)
{
    for (size_t i = 0; i < count; i++) hyp_eg_settle_class(eg, eg->pending.data[i]);
    memmove(eg->pending.data, eg->pending.data + count, (eg->pending.len - count) * sizeof *eg->pending.data);
    eg->pending.len -= count;
}

/* Sweeps until no row names a class that lost a union, or until so many rows were looked at that following the index is
 * less work, which *out_cut says: of a tower whose leaf became another a sweep mends few floors. */
static hyp_status sweep(hyp_egraph *eg, failure *f, bool *out_cut, hyp_diag *diag)
{
    enum { INDEX_BYTES = 128 }; /* of a row, and more */
    bool may_follow = !eg->max_bytes || eg->bytes + INDEX_BYTES * eg->row_count <= eg->max_bytes;
    uint64_t looked_at = 0;
    eg->index.ready = false;
    eg->index.sweeps++;
    uint32_t end = (uint32_t)eg->row_count;
    size_t done = 0;
    while (done < eg->pending.len && !(may_follow && looked_at > (uint64_t)FULL_SWEEPS * eg->row_count)) {
        uint32_t first = first_to_sweep(eg, done);
        done = eg->pending.len;
        looked_at += end > first ? end - first : 0;
        HYP_TRY(sweep_once(eg, first, &end, diag));
    }
    for (size_t i = 0; i < done && eg->analysis.merge; i++) {
        uint32_t loser = eg->pending.data[i];
        HYP_TRY(join_facts(eg, hyp_eg_find(eg, loser), hyp_fact(eg, loser), f, diag));
    }
    *out_cut = done < eg->pending.len;
    settle_first(eg, done);
    return HYP_OK;
}

/* ---- little has changed: follow the index ---------------------------------------------------------- */

/* Whether the class that a union took the name of has many times the parts of the one whose name stays, so that moving it
 * would take too long: each part moves only when its class grows by an eighth or more. */
static bool outweighs(hyp_egraph *eg, uint32_t loser)
{
    enum { TIMES = 8, FEW = 16 };
    uint32_t root = hyp_eg_find(eg, loser);
    size_t light = 0, heavy = 0;
    hyp_parts a = hyp_parts_of(eg, root), b = hyp_parts_of(eg, loser);
    while (hyp_next_part(eg, &b)) { /* in step: the work is that of the lighter */
        heavy++;
        light += hyp_next_part(eg, &a);
        if (heavy > FEW + light * TIMES) return true;
    }
    return false;
}

/* Lets a class that lost a union keep its name; the other loses it in its place. */
static hyp_status rename_class(hyp_egraph *eg, uint32_t *loser, hyp_diag *diag)
{
    uint32_t kept = *loser, gone = hyp_eg_find(eg, kept);
    HYP_TRY(hyp_eg_keep(eg, kept, false, diag));
    HYP_TRY(hyp_eg_keep(eg, gone, false, diag));
    eg->parent[gone] = eg->parent[kept] = kept;
    eg->names_are_young = true;
    hyp_eg_settle_class(eg, kept);
    hyp_eg_unsettle_class(eg, gone);
    *loser = gone;
    return HYP_OK;
}

/* Decides it for the unions from *named on: before anything names the winner, so that no child leaves a class and comes
 * back, which the lists of the index would hold twice. */
static hyp_status choose_names(hyp_egraph *eg, size_t *named, hyp_diag *diag)
{
    for (; *named < eg->pending.len; ++*named)
        if (outweighs(eg, eg->pending.data[*named])) HYP_TRY(rename_class(eg, &eg->pending.data[*named], diag));
    return HYP_OK;
}

/* Gives the rows of `loser` to the class `root`. */
static hyp_status move_members(hyp_egraph *eg, uint32_t loser, uint32_t root, hyp_diag *diag)
{
    uint32_t row;
    for (hyp_cursor at = hyp_members_of(eg, loser); (row = hyp_next_member(eg, &at)) != HYP_NONE;) {
        HYP_TRY(hyp_index_reserve(eg, 0, diag));
        HYP_TRY(touch(eg, row, diag));
        eg->rows[row].home = root;
        hyp_index_spoil(eg, row);
        hyp_index_add_member(eg, root, row);
    }
    return HYP_OK;
}

/* Brings the rows that use `loser` up to date. */
static hyp_status move_uses(hyp_egraph *eg, uint32_t loser, size_t *named, hyp_diag *diag)
{
    uint32_t slot;
    for (hyp_cursor at = hyp_uses_of(eg, loser); (slot = hyp_next_use(eg, &at)) != HYP_NONE;) {
        uint32_t row = hyp_slot_row(eg, slot), n;
        const uint32_t *kids = hyp_row_kids(eg, row, &n);
        HYP_TRY(reserve_rekey(eg, row, diag));
        HYP_TRY(hyp_index_reserve(eg, n, diag));
        if (is_outdated(eg, row)) HYP_TRY(push_remake(eg, row, diag));
        HYP_TRY(touch(eg, row, diag));
        for (uint32_t j = 0; j < n; j++)
            if (hyp_moved(eg, kids[j])) hyp_index_add_use(eg, hyp_eg_find(eg, kids[j]), hyp_row_slot(eg, row, j));
        hyp_index_spoil(eg, row);
        rekey(eg, row);
        HYP_TRY(choose_names(eg, named, diag));
    }
    return HYP_OK;
}

/* Shows the class of a row to the analysis. *out_cut: a limit does not allow it. */
static hyp_status show_class(hyp_egraph *eg, uint32_t row, failure *f, bool *out_cut, hyp_diag *diag)
{
    hyp_diag said;
    said.message[0] = 0;
    hyp_eg_view_release(eg);
    eg->showing = true;
    hyp_status status = eg->analysis.modify(eg, hyp_eg_find(eg, row), eg->analysis.user, &said);
    eg->showing = false;
    *out_cut = status == HYP_ERR_LIMIT && eg->limit_hit != HYP_STOP_SATURATED;
    return *out_cut ? HYP_OK : settle(f, status, &said, diag);
}

/* Shows new classes and changed ones, and those that this makes. What a limit cut stays for the next rebuild. */
static hyp_status show_classes(hyp_egraph *eg, failure *f, bool *out_cut, hyp_diag *diag)
{
    enum { EVERY = 16 }; /* calls, after which it is asked whether to end */
    size_t bound = eg->row_count;
    for (size_t calls = 0; eg->shown < eg->row_count || eg->modify_done < eg->modify.len; calls++) {
        hyp_stop asked = eg->poll && calls % EVERY == 0 ? eg->poll(eg->poll_user) : HYP_STOP_SATURATED;
        *out_cut = asked != HYP_STOP_SATURATED;
        if (*out_cut) {
            eg->limit_hit = asked;
            return HYP_OK;
        }
        bool is_row = eg->shown < bound || eg->modify_done == eg->modify.len;
        uint32_t c = is_row ? (uint32_t)eg->shown : eg->modify.data[eg->modify_done];
        HYP_TRY(show_class(eg, c, f, out_cut, diag));
        if (*out_cut) return HYP_OK;
        *(is_row ? &eg->shown : &eg->modify_done) += 1;
    }
    eg->modify.len = eg->modify_done = 0;
    return HYP_OK;
}

/* ---- the loop ----------------------------------------------------------------------------------- */

/* Whether following the index is worth keeping it up to date: it takes memory that a limit may not have, and where it
 * is not there, several sweeps must have been paid for what it costs to make. */
static bool is_little(const hyp_egraph *eg)
{
    enum { SHARE = 16 };
    size_t known = eg->index.ready ? eg->index.seen : eg->linked;
    if (eg->max_bytes || (!eg->index.ready && eg->index.sweeps < SWEEPS)) return false;
    return (eg->row_count - known + eg->pending.len) * SHARE <= eg->row_count;
}

/* Follows the index for each class that lost a union. */
static hyp_status follow(hyp_egraph *eg, failure *f, hyp_diag *diag)
{
    HYP_TRY(hyp_index_sync(eg, diag));
    size_t done = 0, named = 0;
    hyp_status status = choose_names(eg, &named, diag);
    for (; done < eg->pending.len && status == HYP_OK; done++) { /* grows on the way */
        uint32_t loser = eg->pending.data[done], root = hyp_eg_find(eg, loser);
        if (eg->analysis.merge) status = join_facts(eg, root, hyp_fact(eg, loser), f, diag);
        if (status == HYP_OK) status = move_uses(eg, loser, &named, diag);
        if (status == HYP_OK) status = move_members(eg, loser, root, diag);
        if (status != HYP_OK) break;
        hyp_eg_settle_class(eg, loser);
    }
    /* After a failure the next rebuild begins with the class that was being moved, and chooses names anew. */
    eg->index.ready = eg->index.ready && status == HYP_OK;
    if (done) memmove(eg->pending.data, eg->pending.data + done, (eg->pending.len - done) * sizeof *eg->pending.data);
    eg->pending.len -= done;
    return status;
}

static hyp_status close_congruence(hyp_egraph *eg, failure *f, hyp_diag *diag)
{
    HYP_TRY(join_members(eg, f, diag));
    HYP_TRY(hyp_eg_link(eg, diag));
    if (eg->pending.len == 0) return HYP_OK;
    if (is_little(eg)) return follow(eg, f, diag);
    bool cut = false;
    HYP_TRY(sweep(eg, f, &cut, diag));
    return cut ? follow(eg, f, diag) : HYP_OK;
}

hyp_status hyp_eg_rebuild(hyp_egraph *eg, hyp_diag *diag)
{
    failure f = {.status = HYP_OK};
    hyp_status status = HYP_OK;
    bool was_busy = eg->busy, cut = false;
    eg->busy = eg->rebuilding = true;
    hyp_eg_view_reset(eg);
    if (eg->proofs.routes && eg->proofs.routes_at != eg->version) hyp_eg_drop_routes(eg);
    while (status == HYP_OK) {
        if (eg->linked < eg->row_count || eg->pending.len) hyp_eg_view_reset(eg);
        status = close_congruence(eg, &f, diag);
        if (status == HYP_OK) status = remake_facts(eg, &f, diag);
        if (status != HYP_OK || eg->pending.len) continue;
        if (!eg->analysis.modify) eg->shown = eg->row_count;
        if (cut || (eg->shown == eg->row_count && eg->modify.len == 0)) break;
        eg->rebuilding = false; /* what a callback adds is held against the limits */
        status = show_classes(eg, &f, &cut, diag);
        eg->rebuilding = true;
    }
    eg->busy = was_busy;
    eg->rebuilding = false;
    if (status != HYP_OK) return status;
    if (f.status != HYP_OK) return hyp_fail(diag, f.status, "%s", f.diag.message);
    return HYP_OK;
}

hyp_status hyp_egraph_rebuild(hyp_egraph *eg, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_TRY(hyp_eg_may_rebuild(eg, "rebuild", diag));
    HYP_TRY(hyp_eg_rebuild(eg, diag));
    hyp_eg_reclaim(eg);
    return HYP_OK;
}
