/* custom.h - the steps of a plan that call kernels of the caller's. Nothing of the plan reaches a kernel that was not
 * proven: tensors are those of hyp_plan_check_bounds, attributes copies that hyp_plan_validate has seen.
 */
#ifndef HYP_RUNTIME_CORE_CUSTOM_H
#define HYP_RUNTIME_CORE_CUSTOM_H

#include "base/mem.h"
#include "hypatia/runtime.h"
#include "plan/plan.h"

/* What a step says that is a loop: base/loop.h. */
typedef struct hyp_loop_shape {
    uint32_t carried, collected;
    bool counts;
    int64_t most;  /* below 0: any number of trips */
    uint32_t plan; /* the tensor, a weight, that has the plan of its body */
} hyp_loop_shape;

/* One custom step and the kernel for it, which of a loop is the runtime's own. Immutable. */
typedef struct hyp_custom_step {
    size_t index; /* of the step */
    bool is_loop;
    hyp_loop_shape loop; /* of one that is */
    const HypPlan__Program *program;
    const HypPlan__Call *call;
    hyp_custom_kernel kernel;
    const char *domain, *name, *node;
    const hyp_custom_attribute *const *attributes;
    size_t attribute_count;
} hyp_custom_step;

/* Finds a kernel for every custom step of the plan, and sets plan->custom, which `arena` owns; NULL where there is no
 * such step. */
HYP_NODISCARD hyp_status hyp_custom_find(hyp_plan *plan, const hyp_engine_options *options, hyp_arena *arena,
                                         hyp_diag *diag);
/* HYP_ERR_UNSUPPORTED where one of them has no function for the host, or for a GPU. */
HYP_NODISCARD hyp_status hyp_custom_check(const hyp_plan *plan, bool on_gpu, hyp_diag *diag);
/* Evaluates all dims from symbols, those that are below 0 being asked of kernels first. */
HYP_NODISCARD hyp_status hyp_custom_eval_dims(const hyp_plan *plan, int64_t *symbols, int64_t *values, hyp_diag *diag);
/* Asks the kernel about these dims, which it must agree with, and how much workspace it wants. */
HYP_NODISCARD hyp_status hyp_custom_prepare(const hyp_custom_step *step, const int64_t *values, size_t *out_bytes,
                                            hyp_diag *diag);

/* Where a run has what a step works on: host memory or, where `stream` is not NULL, that of a GPU. */
typedef struct hyp_custom_place {
    const int64_t *values;
    void *const *at; /* by tensor; or NULL, and: */
    const unsigned long long *device_at;
    void *workspace;
    size_t workspace_bytes;
    void *stream;
    struct hyp_loop_state *const *loops; /* of the context, by step; NULL: nobody's run, and loops give zeros */
} hyp_custom_place;
HYP_NODISCARD hyp_status hyp_custom_run(const hyp_custom_step *step, const hyp_custom_place *place, hyp_diag *diag);

#endif
