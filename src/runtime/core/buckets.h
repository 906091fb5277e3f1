/* buckets.h - hyp_context_options.buckets. Private to the core of the runtime. */
#ifndef HYP_RUNTIME_CORE_BUCKETS_H
#define HYP_RUNTIME_CORE_BUCKETS_H

#include "runtime/core/context.h"
#include "runtime/core/pad.h"

struct hyp_buckets {
    int64_t *multiples;  /* by symbol; 1: it is as the caller says */
    bool *rounds;        /* by input, then output: has an axis that may be rounded */
    hyp_own_output *own; /* by input: memory of the context's for those that lie on the host */
    /* Of the dims that came last: */
    bool known;
    int64_t *key;                         /* as hyp_shape.key */
    uint32_t *order;                      /* in which they came: c->input_order */
    hyp_tensor *inputs;                   /* in that order: their dims, rounded */
    int64_t (*output_dims)[HYP_MAX_RANK]; /* that the caller is to see */
    hyp_pad *pads;                        /* by input, then output */
};

/* Reads c->options; c->buckets stays NULL where they name none. HYP_ERR_UNSUPPORTED says what in the plan is in the
 * way. */
HYP_NODISCARD hyp_status hyp_buckets_create(hyp_context *c, hyp_diag *diag);
void hyp_buckets_dispose(const hyp_context *c);

/* In this order, where there are buckets. Puts what has the rounded dims in the place of inputs, which are matched in
 * c->input_order; then c->current is found for them. */
HYP_NODISCARD hyp_status hyp_buckets_round(hyp_context *c, const hyp_tensor **inputs, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_buckets_fit(hyp_context *c, hyp_diag *diag);
/* Puts an input in host memory, which is bound, where there is room around it. Those of a device its backend moves. */
HYP_NODISCARD hyp_status hyp_buckets_take_input(hyp_context *c, size_t input, hyp_diag *diag);

/* Bytes of an input that the caller gives for the current shape, with buckets or without. */
size_t hyp_input_bytes(const hyp_context *c, size_t input);
/* How an output of this run is cut; NULL: not at all. */
const hyp_pad *hyp_output_pad(const hyp_context *c, size_t output);
/* Grows the host's memory that runs of a shape need (hyp_settle_all); the second one says how much that is, for
 * c->values, which were checked. */
HYP_NODISCARD hyp_status hyp_buckets_grow(hyp_context *c, const hyp_shape *s, hyp_diag *diag);
size_t hyp_buckets_needed(const hyp_context *c);

#endif
