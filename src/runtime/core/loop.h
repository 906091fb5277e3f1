/* loop.h - steps that are loops (base/loop.h): the body of each is a plan of its own, for which the engine has an
 * engine and every context a context. Both count to the account, and end with the run, of those around them. Private to
 * the core.
 */
#ifndef HYP_RUNTIME_CORE_LOOP_H
#define HYP_RUNTIME_CORE_LOOP_H

#include "runtime/core/context.h"
#include "runtime/core/custom.h"

bool hyp_is_loop(const HypPlan__Step *step); /* of a validated plan */
/* What a step of a validated plan says of its loop. HYP_ERR_MALFORMED where it has not the tensors of one. */
HYP_NODISCARD hyp_status hyp_loop_read(const HypPlan__Program *program, const HypPlan__Custom *step,
                                       hyp_loop_shape *out, hyp_diag *diag);

/* Loads the body of every loop of a plan that a device has taken: engine->bodies. HYP_ERR_MALFORMED where what the step
 * says of it is not so. */
HYP_NODISCARD hyp_status hyp_loops_load(hyp_engine *e, const hyp_engine_options *options, hyp_diag *diag);
void hyp_loops_unload(hyp_engine *e);
/* Adds what this takes at most on a backend, as hyp_plan_memory_needed says it of a plan without loops. */
HYP_NODISCARD hyp_status hyp_loops_bound(const hyp_plan *plan, const hyp_backend *backend, int depth, size_t *bodies,
                                         size_t *bytes, hyp_diag *diag);

HYP_NODISCARD hyp_status hyp_loops_create(hyp_context *c, hyp_diag *diag);
void hyp_loops_dispose(hyp_context *c);
/* Prepares them for these dims of the plan. HYP_ERR_MALFORMED where a body gives other shapes than the plan has for
 * them. */
HYP_NODISCARD hyp_status hyp_loops_prepare(hyp_context *c, const int64_t *values, hyp_diag *diag);
/* Adds the bytes that this would take, but for what there is. */
HYP_NODISCARD hyp_status hyp_loops_measure(hyp_context *c, const int64_t *values, size_t *bytes, hyp_diag *diag);
/* Their shapes for these dims are the ones last used, also where a run makes no trip: bodies forget the shapes that the context
 * forgets, and no run prepares one again. */
void hyp_loops_renew(hyp_context *c, const int64_t *values);
size_t hyp_loops_scratch_bytes(const hyp_context *c);

/* Runs the loop of a step on the host. HYP_ERR_CANCELLED between trips, HYP_ERR_LIMIT where there are more than the
 * plan has room for or the work_limit of the context allows. */
HYP_NODISCARD hyp_status hyp_loop_run(const hyp_loop_state *loop, const int64_t *values, void *const *at,
                                      hyp_diag *diag);

#endif
