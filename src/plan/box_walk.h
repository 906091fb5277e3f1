/* box_walk.h - counting through a box of extents with several offsets in step. */
#ifndef HYP_PLAN_BOX_WALK_H
#define HYP_PLAN_BOX_WALK_H

#include "plan/plan.h"

enum { HYP_WALK_LANES = HYP_PLAN_POINTWISE_INPUTS };

typedef struct hyp_walk {
    size_t rank, lanes;
    int64_t extents[HYP_MAX_RANK], index[HYP_MAX_RANK];
    int64_t strides[HYP_WALK_LANES][HYP_MAX_RANK];
    int64_t offset[HYP_WALK_LANES]; /* of the element at `index` */
} hyp_walk;

/* Takes the extents of a step; lanes are added one by one. */
static inline void hyp_walk_init(hyp_walk *w, const int64_t *values, const uint32_t *extents, size_t rank)
{
    *w = (hyp_walk){.rank = rank};
    for (size_t a = 0; a < rank; a++) w->extents[a] = values[extents[a]];
}

static inline void hyp_walk_lane(hyp_walk *w, const int64_t *values, const uint32_t *strides, int64_t offset)
{
    for (size_t a = 0; a < w->rank; a++) w->strides[w->lanes][a] = values[strides[a]];
    w->offset[w->lanes++] = offset;
}

static inline int64_t hyp_walk_count(const hyp_walk *w)
{
    int64_t n = 1;
    for (size_t a = 0; a < w->rank; a++) n *= w->extents[a];
    return n;
}

/* To the next index, the last axis fastest; after the last one it is back at the first. No step is made that leaves the box, so that
 * the stride of an axis of one may be any number. */
static inline void hyp_walk_next(hyp_walk *w)
{
    for (size_t a = w->rank; a-- > 0;) {
        bool more = w->index[a] + 1 < w->extents[a];
        for (size_t l = 0; l < w->lanes; l++)
            w->offset[l] += more ? w->strides[l][a] : -(w->strides[l][a] * w->index[a]);
        if (more) w->index[a]++;
        if (more) return;
        w->index[a] = 0;
    }
}

/* From the first index to the one numbered i. */
static inline void hyp_walk_seek(hyp_walk *w, int64_t i)
{
    for (size_t a = w->rank; a-- > 0; i /= w->extents[a]) {
        w->index[a] = i % w->extents[a];
        for (size_t l = 0; l < w->lanes; l++) w->offset[l] += w->strides[l][a] * w->index[a];
    }
}

/* Drops axes of extent 1 and merges neighbours that every lane runs through evenly. The order of elements stays. The strides
 * of a box without elements may be any numbers, whose products wrap around. */
static inline void hyp_walk_coalesce(hyp_walk *w)
{
    size_t out = 0;
    for (size_t a = 0; a < w->rank; a++) {
        if (w->extents[a] == 1) continue;
        bool merge = out > 0;
        for (size_t l = 0; l < w->lanes && merge; l++)
            merge = (uint64_t)w->strides[l][out - 1] == (uint64_t)w->strides[l][a] * (uint64_t)w->extents[a];
        size_t to = merge ? out - 1 : out++;
        w->extents[to] = merge ? w->extents[to] * w->extents[a] : w->extents[a];
        for (size_t l = 0; l < w->lanes; l++) w->strides[l][to] = w->strides[l][a];
    }
    w->rank = out;
}

/* Takes the last axis away (extent 1 and strides 0 when there is none), for loops over runs. */
static inline int64_t hyp_walk_take_inner(hyp_walk *w, int64_t strides[HYP_WALK_LANES])
{
    for (size_t l = 0; l < w->lanes; l++) strides[l] = w->rank ? w->strides[l][w->rank - 1] : 0;
    return w->rank ? w->extents[--w->rank] : 1;
}

#endif
