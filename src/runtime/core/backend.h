/* backend.h - what a device must supply. One descriptor per backend; the core (engine.c) does the rest:
 * opening plans, matching tensors, binding symbols, remembering prepared shapes.
 *
 * Life: open -> load (once per engine) -> session (once per context) -> prepare (once per set of shapes) -> run.
 * A backend sees validated plans only (hyp_plan_open_*), whose layers of fixed sizes have weights of these sizes, and
 * shapes only after hyp_plan_check_bounds.
 *
 * Memory: all that a backend takes by base/mem.h is charged to the account of the engine (open, load) or of the context
 * (the rest), which its caller may limit; a device's own is to be told to hyp_mem_take and hyp_mem_give. What a context
 * has made for all contexts of its engine, as weights that are packed when shapes want them, is charged to the
 * engine's: hyp_mem_charge. A refusal is a failure for want of memory; the core makes HYP_ERR_LIMIT of it. Memory that
 * never changes once it is packed goes through hyp_block_share (shared_block.h), so that engines with the same weights
 * have it once.
 */
#ifndef HYP_RUNTIME_CORE_BACKEND_H
#define HYP_RUNTIME_CORE_BACKEND_H

#include <stdatomic.h>

#include "hypatia/runtime.h"
#include "runtime/core/choice.h"
#include "runtime/core/pad.h"

typedef struct hyp_log {
    void (*write)(const char *line, void *user); /* may be NULL */
    void *user;
} hyp_log;
void hyp_log_printf(const hyp_log *log, const char *fmt, ...) HYP_PRINTF(2, 3);

/* Pointers to the caller's tensors in plan order, on the memory kinds that they came with. */
typedef struct hyp_bindings {
    void *const *inputs;
    const hyp_memory *input_memory;
    void *const *outputs;
    const hyp_memory *output_memory;
    double *step_seconds; /* by step: what it takes is added; NULL: nothing is timed */
    /* Of the context: what is called around steps, and whether the run is to end. NULL: nothing, and never. */
    const hyp_context_options *options;
    const atomic_bool *cancelled;
    const hyp_run_options *run; /* NULL: the run is on the session's stream, and nobody waits */
    bool no_capture; /* what it binds is not to be used again: on a stream that is captured the run is HYP_ERR_UNSUPPORTED */
    /* By input, then output: those in the device's memory that are smaller than the run's, and have to be moved. NULL:
     * none */
    const hyp_pad *pads;
    /* The steps from `commit` on change variables for good, and cannot fail: the run does all of them or, if it fails or is to
     * end, none. With `leaves_commit` it does none. */
    size_t commit;
    bool leaves_commit;
    bool *committed; /* set where the run fails and the commit is done all the same, or will be; NULL: nobody asks */
    struct hyp_loop_state *const *loops; /* of the context, by step, for hyp_custom_place; NULL: the plan has none */
    bool within; /* it is a trip of a loop: a part of a run that has begun */
} hyp_bindings;

/* ---- steps.c: what every backend does around a step ---- */

/* Whether somebody is told of every step, so that each must be begun by the host. */
bool hyp_steps_are_watched(const hyp_bindings *bindings);
/* HYP_ERR_CANCELLED where the run is to end. */
HYP_NODISCARD hyp_status hyp_step_begins(const hyp_bindings *bindings, size_t step, hyp_diag *diag);
void hyp_step_ends(const hyp_bindings *bindings, size_t step);
/* Runs the steps one after the other, for backends where a step is over when its function returns: tells of each, times it
 * where that is wanted, and names the one that fails. Where the commit has begun the run is not ended any more. */
typedef hyp_status hyp_step_fn(void *state, size_t step, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_run_steps(const hyp_bindings *bindings, const HypPlan__Program *program, hyp_step_fn *run,
                                       void *state, hyp_diag *diag);

/* Seconds since some moment, from a clock that only goes forward. */
double hyp_clock_seconds(void);

typedef struct hyp_nn_backend hyp_nn_backend; /* nn/nn.h */

typedef struct hyp_backend {
    const char *name; /* "cpu" */
    hyp_device_kind kind;
    hyp_memory memory; /* whose tensors it takes as they are, beside the host's */

    /* Is the device here? Writes the reason to diag when not (HYP_ERR_DEVICE). *out_name: static or owned by the
     * device, for people. */
    hyp_status (*open)(const hyp_engine_options *options, const hyp_log *log, void **out_device, const char **out_name,
                       hyp_diag *diag);
    void (*close)(void *device);

    /* Prepares the weights: packing, upload. `plan` outlives the model. Where it has plan->replaced, this is a second
     * model, while sessions of the first one run, and nothing is told anew about the device. HYP_ERR_UNSUPPORTED names
     * a step that this backend cannot run. */
    hyp_status (*load)(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag);
    void (*unload)(void *model);
    /* Bytes that loading takes at most, besides some KB for every step; needs no device. NULL: none. */
    size_t (*load_bound)(const hyp_plan *plan);

    /* State of one context: scratch memory and streams. */
    hyp_status (*session_create)(void *model, const hyp_context_options *options, void **out_session, hyp_diag *diag);
    void (*session_destroy)(void *session);
    /* Makes it one of another model of the same program, whose weights are others: what is run from now on is prepared
     * anew, what was prepared before is released. False, and nothing is changed, where a graph of the caller's has work
     * of the session: it goes on with the weights that it has. */
    bool (*take_model)(void *session, void *model);
    size_t (*scratch_bytes)(const void *session);

    /* Everything that depends on shapes: makes kernels, sizes scratch. `values` are the evaluated dims of the plan;
     * they stay where they are until release. *out_prepared is not NULL. The scratch of a session is shared by its
     * prepared shapes and only grows; growing must keep earlier preparations valid, and comes last and as a whole, so
     * that shapes that are refused leave nothing behind. */
    hyp_status (*prepare)(void *session, const int64_t *values, void **out_prepared, hyp_diag *diag);
    /* Makes all that runs of prepared shapes would come to make in time, as far as that can be known; without what it does not
     * get they go on as if nobody had asked. NULL: there is nothing. */
    hyp_status (*reserve)(void *session, void *prepared, hyp_diag *diag);
    void (*release)(void *session, void *prepared);
    /* Bytes that preparing these shapes would take of the session's account for good, without taking what is large. */
    hyp_status (*measure)(void *session, const int64_t *values, size_t *out, hyp_diag *diag);

    /* Runs. Allocates nothing and takes no lock that another context could hold; the first run with tensors in another
     * memory than the device's may take memory, and threads, for them. */
    hyp_status (*run)(void *session, void *prepared, const hyp_bindings *bindings, hyp_diag *diag);
    hyp_status (*synchronize)(void *session, hyp_diag *diag);
    /* Whether a run that was queued well, and has not been waited for, may yet fail, by what its tensors hold. NULL: none,
     * runs end before `run` returns. */
    bool (*fails_late)(const void *session);
    /* False while the caller captures what it would wait for. NULL: it always can. */
    bool (*can_wait)(void *session);
    /* Memory of the device that lives as long as the session, charged as what it takes; freed when its runs have ended.
     * NULL where the device's memory is the host's. */
    hyp_status (*session_alloc)(void *session, size_t bytes, void **out, hyp_diag *diag);
    void (*session_free)(void *session, void *data, size_t bytes);
    /* The session's stream, which the caller knows from then on; NULL where there are no streams, nor events. */
    void *(*stream)(void *session);
    /* Graphs of the caller's that runs were captured into are gone, and so may be what they used. NULL: there are none.
     */
    void (*release_captured)(void *session);

    /* Memory of the device, copies within it or between it and the host's, and zeros, which end before the call does. NULL where the
     * device's memory is the host's. */
    hyp_status (*memory_alloc)(void *device, size_t bytes, void **out, hyp_diag *diag);
    void (*memory_free)(void *device, void *data);
    hyp_status (*memory_copy)(void *device, void *to, bool to_device, const void *from, bool from_device, size_t bytes,
                              hyp_diag *diag);
    hyp_status (*memory_zero)(void *device, void *at, size_t bytes, hyp_diag *diag);

    /* Groups of processes that run a plan together: options->group of open. NULL, all three: there are none. */
    hyp_status (*group_make_id)(unsigned char out[HYP_GROUP_ID_BYTES], hyp_diag *diag);
    hyp_status (*group_join)(const unsigned char id[HYP_GROUP_ID_BYTES], int32_t rank, int32_t size, int32_t device_index, void **out_handle,
                             hyp_diag *diag);
    void (*group_leave)(void *handle);

    /* How many launches a step of prepared shapes is; NULL where there are none. */
    size_t (*launches)(const void *prepared, size_t step);
    /* Seconds that the device needs for this much at least, with operands of a type; 0 = not known. NULL: never known. */
    double (*floor_seconds)(const void *device, const HypPlan__Program *program, hyp_dtype dtype, double flops,
                            double bytes);

    /* How a step of prepared shapes is done, and what else was possible: all the choices that it has. Borrowed until
     * release. NULL where there is nothing to choose. */
    const hyp_choice *(*choices)(const void *prepared, size_t step, size_t *out_count);
    /* What a step of prepared shapes is done by; NULL: as its choices say. */
    hyp_step_tuning (*step_tuning)(const void *prepared, size_t step);
    /* These NULL where there is nothing to tune. */
    /* What the session knows of products; owned by the session. */
    hyp_tuning *(*tuning)(void *session);
    /* Measures the products of the plan under these dims that it knows nothing of, and notes what it found. No prepared
     * shapes may be running. */
    hyp_status (*tune)(void *session, const int64_t *values, const hyp_tune_options *options, hyp_tune_report *out,
                       hyp_diag *diag);

    const hyp_nn_backend *nn; /* functions without a plan; NULL: none */
} hyp_backend;

/* group.c: the processes that an engine's runs are shared with. */
struct hyp_group {
    const hyp_backend *backend;
    void *handle; /* the backend's */
    int32_t rank, size, device_index;
};

/* The backends built in, in the order in which AUTO tries them; NULL-terminated. */
extern const hyp_backend *const hyp_backends[];
/* Memory of a device, and copies to it and from it, for callers: as hyp_engine_tensor_alloc, _free and _copy, whose name `call` is. */
HYP_NODISCARD hyp_status hyp_device_tensor_alloc(const hyp_backend *backend, void *device, hyp_tensor *tensor,
                                                 hyp_diag *diag);
void hyp_device_tensor_free(const hyp_backend *backend, void *device, hyp_tensor *tensor);
HYP_NODISCARD hyp_status hyp_device_tensor_copy(const hyp_backend *backend, void *device, const char *call,
                                                const hyp_tensor *from, hyp_tensor *to, hyp_diag *diag);
/* What this build lacks for a device of that kind, and how to get it: "CUDA backend: ..."; NULL where it lacks nothing. */
const char *hyp_backend_left_out(hyp_device_kind kind);
extern const hyp_backend hyp_backend_cpu;       /* runtime/cpu: oneDNN + own vectorised kernels */
extern const hyp_backend hyp_backend_reference; /* runtime/reference: plain C */
#ifdef HYP_HAVE_CUDA
extern const hyp_backend hyp_backend_cuda; /* runtime/cuda */
#endif

#endif
