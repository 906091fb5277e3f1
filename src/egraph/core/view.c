/* The e-nodes of a class as an array.
 *
 * In a rebuilt e-graph all classes are listed at once, and the list stands until something changes; then classes are
 * gathered one by one, until that was as much work as listing all of them again. Inside
 * callbacks the e-graph changes all the time, so one class is gathered: its rows of the last rebuild, the
 * rows of the classes united with it since, and the rows added to it since. These hang together in a
 * forest over ids that is brought up to date with what happened since it was last asked for. */
#include <stdlib.h>
#include <string.h>

#include "egraph/core/state.h"

void hyp_eg_view_reset(hyp_egraph *eg)
{
    hyp_eg_view_release(eg);
    for (size_t i = 0; i < eg->view.parents.len; i++) eg->view.first.data[eg->view.parents.data[i]] = HYP_NONE;
    eg->view.parents.len = eg->view.pending_seen = eg->view.rows_seen = 0;
}

static void drop_list(hyp_egraph *eg)
{
    hyp_free(eg->view.start);
    hyp_free(eg->view.list);
    eg->view.start = eg->view.list = NULL;
}

void hyp_eg_view_forget(hyp_egraph *eg)
{
    hyp_eg_view_reset(eg);
    drop_list(eg);
}

void hyp_eg_view_dispose(hyp_egraph *eg)
{
    drop_list(eg);
    hyp_vec_free(&eg->view.first);
    hyp_vec_free(&eg->view.next);
    hyp_vec_free(&eg->view.parents);
    hyp_vec_free(&eg->view.found);
    hyp_eg_view_release(eg);
}

/* Lists every class by counting sort, oldest e-node first. */
static bool list_all(hyp_egraph *eg)
{
    size_t n = eg->row_count;
    drop_list(eg);
    uint32_t *start = eg->view.start = hyp_calloc(n + 2, sizeof *start);
    uint32_t *list = eg->view.list = hyp_malloc(eg->live_count * sizeof *list);
    if (!start || !list) {
        drop_list(eg);
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!hyp_row_dead(eg, i)) start[eg->rows[i].home + 2]++;
    for (size_t i = 2; i < n + 2; i++) start[i] += start[i - 1];
    for (uint32_t i = 0; i < n; i++)
        if (!hyp_row_dead(eg, i)) list[start[eg->rows[i].home + 1]++] = i;
    eg->view.at = eg->version;
    eg->view.gathered = 0;
    return true;
}

static bool hang(hyp_egraph *eg, uint32_t child, uint32_t under)
{
    if (eg->view.first.data[under] == HYP_NONE && hyp_vec_push(&eg->view.parents, NULL, under) != HYP_OK) return false;
    eg->view.next.data[child] = eg->view.first.data[under];
    eg->view.first.data[under] = child;
    return true;
}

static bool update_forest(hyp_egraph *eg)
{
    if (hyp_vec_reserve(&eg->view.first, eg->row_count, NULL) != HYP_OK ||
        hyp_vec_reserve(&eg->view.next, eg->row_count, NULL) != HYP_OK)
        return false;
    if (eg->view.rows_seen < eg->index.seen) eg->view.rows_seen = eg->index.seen;
    for (; eg->view.first.len < eg->row_count; eg->view.first.len++) eg->view.first.data[eg->view.first.len] = HYP_NONE;
    for (; eg->view.rows_seen < eg->row_count; eg->view.rows_seen++) {
        uint32_t id = (uint32_t)eg->view.rows_seen;
        if (eg->rows[id].home != id && !hang(eg, id, eg->rows[id].home)) return false;
    }
    for (; eg->view.pending_seen < eg->pending.len; eg->view.pending_seen++) {
        uint32_t loser = eg->pending.data[eg->view.pending_seen];
        if (!hang(eg, loser, eg->parent[loser])) return false; /* its winner, or an ancestor of it */
    }
    return true;
}

static bool find_more(hyp_egraph *eg, uint32_t id) { return hyp_vec_push(&eg->view.found, NULL, id) == HYP_OK; }

/* Lists c and all that hangs under it in view.found. */
static bool find_parts(hyp_egraph *eg, uint32_t c)
{
    eg->view.found.len = 0;
    if (!find_more(eg, c)) return false;
    for (size_t i = 0; i < eg->view.found.len; i++)
        for (uint32_t j = eg->view.first.data[eg->view.found.data[i]]; j != HYP_NONE; j = eg->view.next.data[j])
            if (!find_more(eg, j)) return false;
    return true;
}

static size_t copy_row(const hyp_egraph *eg, uint32_t row, uint32_t *out, size_t len)
{
    if (hyp_row_dead(eg, row)) return len;
    if (out) out[len] = row;
    return len + 1;
}

/* The live rows of the parts found; counts only where `out` is NULL. */
static size_t copy_rows(const hyp_egraph *eg, uint32_t *out)
{
    size_t len = 0;
    for (size_t i = 0; i < eg->view.found.len; i++) {
        uint32_t part = eg->view.found.data[i], row;
        if (part >= eg->index.seen) {
            len = copy_row(eg, part, out, len);
            continue;
        }
        for (hyp_cursor at = hyp_members_of(eg, part); (row = hyp_next_member(eg, &at)) != HYP_NONE;)
            len = copy_row(eg, row, out, len);
    }
    return len;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The rows of a class of a rebuilt e-graph. */
static const uint32_t *gather(hyp_egraph *eg, uint32_t c, size_t *out_count)
{
    enum { EACH = 8 };
    size_t n = 0;
    uint32_t row, *out;
    if (hyp_eg_link(eg, NULL) != HYP_OK || hyp_index_sync(eg, NULL) != HYP_OK) return NULL;
    if (eg->view.gathered_at != eg->version) hyp_eg_view_release(eg);
    eg->view.gathered_at = eg->version;
    for (hyp_cursor at = hyp_members_of(eg, c); hyp_next_member(eg, &at) != HYP_NONE;) n++;
    if (!(out = hyp_arena_alloc(&eg->view.arena, n * sizeof *out))) return NULL;
    *out_count = n;
    n = 0;
    for (hyp_cursor at = hyp_members_of(eg, c); (row = hyp_next_member(eg, &at)) != HYP_NONE;) out[n++] = row;
    qsort(out, n, sizeof *out, by_id);
    eg->view.gathered += n + EACH;
    return out;
}

/* Rows that the index does not know and that the forest gets instead, after each rebuild again. */
#ifdef HYP_SMALL_SIZES
enum { BEHIND = 1 };
#else
enum { BEHIND = 256 };
#endif

const hyp_enode_id *hyp_egraph_class_nodes(hyp_egraph *eg, hyp_class_id c, size_t *out_count)
{
    if (!eg || !out_count) return NULL;
    *out_count = 0;
    if (c >= eg->row_count) return NULL;
    c = hyp_eg_find(eg, c);
    if (hyp_eg_readable(eg)) {
        bool listed = eg->view.start && eg->view.at == eg->version;
        if (!listed && eg->view.start && eg->view.gathered < eg->live_count) return gather(eg, c, out_count);
        if (!listed && !list_all(eg)) return NULL;
        *out_count = eg->view.start[c + 1] - eg->view.start[c];
        return eg->view.list + eg->view.start[c];
    }
    bool behind = eg->showing && eg->linked - eg->index.seen > BEHIND;
    if ((!eg->index.ready || behind) && hyp_index_sync(eg, NULL) != HYP_OK) return NULL;
    if (!update_forest(eg) || !find_parts(eg, c)) return NULL;
    size_t n = copy_rows(eg, NULL);
    uint32_t *out = hyp_arena_alloc(&eg->view.arena, n * sizeof *out);
    if (!out) return NULL;
    copy_rows(eg, out);
    qsort(out, n, sizeof *out, by_id);
    *out_count = n;
    return out;
}
