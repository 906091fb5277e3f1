/* index.h - from a class to its rows, and to the rows that use it.
 *
 * Two parts. The base is made at once by counting sort: an array of copies of rows per direction, grouped by class, and
 * within a class by operator (uses: and place), then in order of last change; a search streams through it and finds
 * the group of an operator by bisection. What changes afterwards goes into lists, one per class, and the rows that
 * changed are marked, so that their copies are not believed. When a quarter has changed a new base is made: the
 * cost per change is constant. */
#ifndef HYP_EGRAPH_CORE_INDEX_H
#define HYP_EGRAPH_CORE_INDEX_H

#include "base/mem.h"
#include "hypatia/egraph.h"

#define HYP_INDEX_FRESH 0x80000000u /* in `op`: the row changed in the epoch before the base was made */

typedef struct hyp_member {
    uint32_t op;
    uint32_t kid[2]; /* as in hyp_row */
    uint32_t row;
} hyp_member;

typedef struct hyp_use {
    uint32_t op;
    uint32_t slot;  /* the child slot that holds the class */
    uint32_t other; /* arity 2: the other child */
    uint32_t home;  /* class of the row */
} hyp_use;

typedef struct hyp_place {
    uint32_t member, use;
} hyp_place;

typedef struct hyp_link {
    uint32_t id; /* a row, or a child slot */
    uint32_t next;
} hyp_link;

typedef struct hyp_index {
    bool ready;      /* holds every live row below `seen` */
    uint32_t seen;   /* linked rows that it knows */
    uint32_t sweeps; /* rebuilds since it was there that did without it */
    uint32_t bound;  /* classes below have a part in the base */
    uint32_t rows;   /* rows below were there when the base was made */
    uint32_t epoch;  /* in which it was made */
    size_t parts;    /* members and uses in it */
    hyp_place *at;   /* bound + 1: members[at[c].member .. at[c+1].member) are of class c; uses alike */
    hyp_member *members;
    hyp_use *uses;
    uint64_t *stale; /* bit by row: changed since the base was made; look at the row itself */
    size_t at_cap, member_cap, use_cap, stale_cap;
    /* Changes since. An entry counts while its row is alive and names the class. */
    size_t changed;
    hyp_place *head; /* by class, below head_count: first link of its list, HYP_NONE if there is none */
    size_t head_count;
    HYP_VEC(hyp_link) links;
} hyp_index;

static inline bool hyp_index_stale(const hyp_index *x, uint32_t row)
{
    return row < x->rows && x->stale[row >> 6] >> (row & 63) & 1;
}

/* Brings the index up to date with every linked row. HYP_ERR_LIMIT where the run's limits do not allow it. */
HYP_NODISCARD hyp_status hyp_index_sync(hyp_egraph *eg, hyp_diag *diag);
/* Room to note that a row of `kids` children changed. */
HYP_NODISCARD hyp_status hyp_index_reserve(hyp_egraph *eg, uint32_t kids, hyp_diag *diag);
/* Notes, with room reserved, that a row is new to a class, or that a slot is. */
void hyp_index_add_member(hyp_egraph *eg, uint32_t c, uint32_t row);
void hyp_index_add_use(hyp_egraph *eg, uint32_t c, uint32_t slot);
/* Notes that the copies of a row are not true any more. */
void hyp_index_spoil(hyp_egraph *eg, uint32_t row);
/* Rows have other ids: the index is to be made anew. */
void hyp_index_forget(hyp_egraph *eg);
void hyp_index_dispose(hyp_egraph *eg);

/* All rows of a class, or all slots that hold it, one after the other, also while entries are
 * added to other classes:
 *     hyp_cursor at = hyp_members_of(eg, c); while ((row = hyp_next_member(eg, &at)) != HYP_NONE) ... */
typedef struct hyp_cursor {
    uint32_t c, at, end, link;
} hyp_cursor;
hyp_cursor hyp_members_of(const hyp_egraph *eg, uint32_t c);
hyp_cursor hyp_uses_of(const hyp_egraph *eg, uint32_t c);
uint32_t hyp_next_member(const hyp_egraph *eg, hyp_cursor *at);
uint32_t hyp_next_use(const hyp_egraph *eg, hyp_cursor *at);

/* How much the index keeps of a class, counted step by step, what is not true any more included. */
typedef struct hyp_parts {
    size_t base;
    uint32_t link[2];
} hyp_parts;
hyp_parts hyp_parts_of(const hyp_egraph *eg, uint32_t c);
bool hyp_next_part(const hyp_egraph *eg, hyp_parts *at);

#endif
