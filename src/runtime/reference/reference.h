/* reference.h - every kernel of a plan in plain C: clear before fast, any element type, needs nothing.
 *
 * Arithmetic: float tensors (f16, bf16, f32, f64) are read exactly into double; products, sums, exponentials and
 * so on are made in double and rounded once to the type of the result, hidden layers included. Pointwise
 * instructions round to the step's compute type as plan.proto says. Sums over integers wrap modulo 2^64.
 */
#ifndef HYP_RUNTIME_REFERENCE_H
#define HYP_RUNTIME_REFERENCE_H

#include "plan/plan.h"

/* What a kernel needs besides its step. `at` gives the address of every tensor, `values` of every dim. */
typedef struct hyp_reference_call {
    const HypPlan__Program *program;
    const int64_t *values;
    void *const *at;
} hyp_reference_call;

/* Runs one step. Fails only where the data is at fault: a gather index that is out of range. */
HYP_NODISCARD hyp_status hyp_reference_step(const hyp_reference_call *call, const HypPlan__Step *step, hyp_diag *diag);

/* act(x), in double. */
double hyp_reference_act(HypPlan__Act act, double x);

/* One file per family. */
void hyp_reference_linear(const hyp_reference_call *call, const HypPlan__Linear *s);
void hyp_reference_matmul(const hyp_reference_call *call, const HypPlan__Matmul *s);
void hyp_reference_pointwise(const hyp_reference_call *call, const HypPlan__Pointwise *s);
void hyp_reference_softmax(const hyp_reference_call *call, const HypPlan__Softmax *s);
void hyp_reference_reduce(const hyp_reference_call *call, const HypPlan__Reduce *s);
void hyp_reference_copy(const hyp_reference_call *call, const HypPlan__Copy *s);
hyp_status hyp_reference_gather(const hyp_reference_call *call, const HypPlan__Gather *s, hyp_diag *diag);
void hyp_reference_fill(const hyp_reference_call *call, const HypPlan__Fill *s);

/* ---- small things that they share ---------------------------------------------------------------------- */

static inline hyp_dtype hyp_tensor_dtype(const HypPlan__Program *p, uint32_t tensor)
{
    return (hyp_dtype)p->tensors[tensor]->dtype;
}

/* Counts through a box of up to HYP_MAX_RANK extents and keeps `lanes` offsets in step. */
enum { HYP_WALK_LANES = 2 };
typedef struct hyp_walk {
    size_t rank;
    int64_t extents[HYP_MAX_RANK], index[HYP_MAX_RANK];
    int64_t strides[HYP_WALK_LANES][HYP_MAX_RANK];
    int64_t offset[HYP_WALK_LANES];
} hyp_walk;

static inline void hyp_walk_init(hyp_walk *w, const int64_t *values, const uint32_t *extents, size_t rank)
{
    *w = (hyp_walk){.rank = rank};
    for (size_t a = 0; a < rank; a++) w->extents[a] = values[extents[a]];
}

static inline void hyp_walk_lane(hyp_walk *w, size_t lane, const int64_t *values, const uint32_t *strides, int64_t offset)
{
    for (size_t a = 0; a < w->rank; a++) w->strides[lane][a] = values[strides[a]];
    w->offset[lane] = offset;
}

static inline int64_t hyp_walk_count(const hyp_walk *w)
{
    int64_t n = 1;
    for (size_t a = 0; a < w->rank; a++) n *= w->extents[a];
    return n;
}

/* To the next index, the last axis fastest; after the last one it is back at the first. */
static inline void hyp_walk_next(hyp_walk *w)
{
    for (size_t a = w->rank; a-- > 0;) {
        for (size_t l = 0; l < HYP_WALK_LANES; l++) w->offset[l] += w->strides[l][a];
        if (++w->index[a] < w->extents[a]) return;
        for (size_t l = 0; l < HYP_WALK_LANES; l++) w->offset[l] -= w->strides[l][a] * w->extents[a];
        w->index[a] = 0;
    }
}

#endif
