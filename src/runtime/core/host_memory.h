/* host_memory.h - where the tensors of one session live in host memory. Shared by the backends that compute there. */
#ifndef HYP_RUNTIME_CORE_HOST_MEMORY_H
#define HYP_RUNTIME_CORE_HOST_MEMORY_H

#include "runtime/core/backend.h"

/* One input or output, or a view of one: its address changes with every run. */
typedef struct hyp_host_bound {
    uint32_t tensor, index; /* index: which input or output of the plan */
    bool is_output;
} hyp_host_bound;

/* Scratch memory and addresses of one session. Belongs to one thread at a time. */
typedef struct hyp_host_memory {
    const hyp_plan *plan;
    void **at;          /* by tensor: its bytes; inputs and outputs (and views of them) only during a run */
    void **slots;       /* scratch slots, 64-byte aligned; NULL before the first growth */
    size_t *slot_bytes; /* what each slot has; only grows */
    size_t total;       /* bytes of all slots and `work` */
    hyp_host_bound *bound;
    size_t bound_count;
    void *work; /* what kernels need besides tensors, 64-byte aligned; shared by steps, which run one after the other */
    size_t work_bytes;
    hyp_arena arena; /* owns the arrays, not the slots */
} hyp_host_memory;

HYP_NODISCARD hyp_status hyp_host_memory_init(hyp_host_memory *m, const hyp_plan *plan, hyp_diag *diag);
void hyp_host_memory_dispose(hyp_host_memory *m);
/* The addresses of weights become those of another plan with the same program. */
void hyp_host_memory_take_weights(hyp_host_memory *m, const hyp_plan *plan);
/* Makes every slot large enough for these dims, and `work` for so many bytes; slots may move. Where the thread's
 * account has no room for that, nothing is taken: HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_host_memory_grow(hyp_host_memory *m, const int64_t *values, size_t work_bytes,
                                              hyp_diag *diag);
/* Bytes that this would take more than there are. */
HYP_NODISCARD hyp_status hyp_host_memory_growth(const hyp_host_memory *m, const int64_t *values, size_t work_bytes,
                                                size_t *out, hyp_diag *diag);
/* Makes `work` at least this large; it may move, and what was in it is lost. */
HYP_NODISCARD hyp_status hyp_host_memory_grow_work(hyp_host_memory *m, size_t bytes, hyp_diag *diag);
/* Sets the addresses of scratch tensors to those in their slots, as growing does. */
void hyp_host_memory_place(hyp_host_memory *m);
/* Sets the addresses of inputs and outputs for one run. */
void hyp_host_memory_bind(hyp_host_memory *m, const hyp_bindings *bindings);
size_t hyp_host_memory_bytes(const hyp_host_memory *m);
/* For the table of a backend whose model is the plan, whose session is such memory and nothing else, and whose runs are
 * over when they return. */
hyp_status hyp_host_session_create(void *plan, const hyp_context_options *options, void **out_session, hyp_diag *diag);
void hyp_host_session_destroy(void *session);
bool hyp_host_session_take_model(void *session, void *plan);
size_t hyp_host_session_bytes(const void *session);
hyp_status hyp_host_synchronize(void *session, hyp_diag *diag);
/* Puts the step that failed, and the node of the model that it stands for, in front of the message. */
void hyp_host_name_step(const HypPlan__Program *program, size_t step, hyp_diag *diag);

#endif
