/* loop.h - Loop and Scan, which are written out or run. Shared by the files that import them. */
#ifndef HYP_ONNX_LOOP_H
#define HYP_ONNX_LOOP_H

#include "onnx/import.h"

/* ---- loop_write.c: the nodes of the body once for every trip ----------------------------------------------------- */

typedef struct hyp_onnx_loop {
    const hyp_onnx_node *n;
    const HypOnnx__GraphProto *graph;
    hyp_onnx_branch body;
    hyp_value_id *in, *out; /* of the body, in the trip at hand */
    uint32_t carried;       /* results that are inputs of the next trip; outputs of the body from `first` on */
    uint32_t first;
    uint32_t collected;         /* the last outputs of the body: what results are stacked of */
    HYP_VEC(hyp_value_id) rows; /* `collected` of every trip */
    HYP_VEC(hyp_value_id) ran;  /* of every trip: [1], whether it is one of the model's */
    hyp_value_id running;       /* the same of the trip at hand, a scalar; HYP_NO_VALUE while it is known to be */
    bool may_run;               /* where the data end it: it is not written out, but for a few trips */
    bool is_to_run;             /* so it was found */
} hyp_onnx_loop;

const HypOnnx__GraphProto *hyp_onnx_loop_body(const hyp_onnx_node *n); /* NULL: it has none */
/* It is to be closed, also after a failure. */
HYP_NODISCARD hyp_status hyp_onnx_loop_open(hyp_onnx_loop *l, const hyp_onnx_node *n, size_t inputs, size_t outputs);
void hyp_onnx_loop_close(hyp_onnx_loop *l);
/* What the first trip is given, `carried` values in `in`, and what the loop gives without one. */
void hyp_onnx_loop_begin(hyp_onnx_loop *l, uint32_t first, uint32_t carried, hyp_value_id *in,
                         const hyp_value_id *from);
/* Adds the nodes of a trip. */
HYP_NODISCARD hyp_status hyp_onnx_loop_add(hyp_onnx_loop *l, int64_t trip);
/* Gives the next trip in `in` what this one gives. */
HYP_NODISCARD hyp_status hyp_onnx_loop_hand_on(hyp_onnx_loop *l, hyp_value_id *in);
HYP_NODISCARD hyp_status hyp_onnx_loop_collect(hyp_onnx_loop *l);
/* What was collected as number k, along a new axis, the last trip first if `backward`. */
HYP_NODISCARD hyp_status hyp_onnx_loop_stack(hyp_onnx_loop *l, uint32_t k, int64_t axis, bool backward,
                                             hyp_value_id *out);
/* Several values one behind the other; of one, itself. */
HYP_NODISCARD hyp_status hyp_onnx_loop_join(const hyp_onnx_loop *l, const hyp_value_id *parts, size_t count,
                                            int64_t axis, hyp_value_id *out);

/* ---- loop_run.c: the body as a plan of its own, and the node as a step that runs it (base/loop.h) ---------------- */

typedef struct hyp_onnx_run {
    hyp_value_id trips, condition; /* HYP_NO_VALUE: there is none */
    bool is_sized; /* `most` is how many trips there are at most, a number or an expression of sizes; else only the data
                      tell */
    hyp_dim most;
    const hyp_value_id *from; /* what is handed on begins with these */
    uint32_t carried, collected;
    uint32_t first; /* of the body's outputs: what is handed on; 1 where a condition is before it, else 0 */
    /* Sets the inputs of the body, in the graph, for a trip of this number with these values. */
    hyp_status (*set_inputs)(void *user, hyp_value_id trip, hyp_value_id condition, const hyp_value_id *carried,
                             hyp_value_id *in);
    void *user;
    hyp_value_id *results; /* from the arena: what was handed on, and what was collected, along axis 0 */
} hyp_onnx_run;

/* Adds the step, and sets the node's outputs for what is handed on. HYP_ERR_UNSUPPORTED where this loop cannot be run.
 */
HYP_NODISCARD hyp_status hyp_onnx_loop_run(hyp_onnx_loop *l, hyp_onnx_run *run);
/* Whether a loop that failed to be written out with this status is to be run: HYP_OK, else the status. `only`: nothing
 * else is possible. */
HYP_NODISCARD hyp_status hyp_onnx_loop_want_run(const hyp_importer *im, bool only, hyp_status status);
/* A condition that is known: *out_known and *out. */
HYP_NODISCARD hyp_status hyp_onnx_loop_condition(const hyp_onnx_node *n, hyp_value_id condition, bool *out_known,
                                                 bool *out);

/* Where the graph ends now, and going back there: what was added since is forgotten. */
typedef struct hyp_onnx_mark {
    size_t values, nodes, data_sizes, states;
    uint32_t unrolled;
    uint64_t unrolled_bytes;
} hyp_onnx_mark;
hyp_onnx_mark hyp_onnx_mark_end(const hyp_importer *im);
void hyp_onnx_go_back(hyp_importer *im, const hyp_onnx_mark *mark);

#endif
