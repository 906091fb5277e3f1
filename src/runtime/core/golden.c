/* golden.c - the runs with known results that a plan keeps. */
#include <math.h>

#include "runtime/core/engine.h"

size_t hyp_engine_golden_count(const hyp_engine *engine) { return engine ? engine->plan.program->n_golden : 0; }

static hyp_tensor tensor_of(const hyp_engine *engine, uint32_t tensor, const uint64_t *dims, ProtobufCBinaryData data)
{
    const HypPlan__Tensor *from = engine->plan.program->tensors[tensor];
    hyp_tensor t = {.name = from->name, .data = data.len ? data.data : NULL, .bytes = data.len};
    t.dtype = (hyp_dtype)from->dtype;
    t.rank = (int32_t)from->n_dims;
    for (size_t a = 0; a < from->n_dims; a++) t.dims[a] = (int64_t)dims[a];
    return t;
}

hyp_golden_input hyp_engine_golden_input(const hyp_engine *engine, size_t run, size_t input)
{
    if (!engine) return (hyp_golden_input){0};
    const HypPlan__Program *p = engine->plan.program;
    if (run >= p->n_golden || input >= p->n_inputs) return (hyp_golden_input){0};
    const HypPlan__Golden__Input *in = p->golden[run]->inputs[input];
    return (hyp_golden_input){tensor_of(engine, p->inputs[input], in->dims, in->data), in->how, in->seed, in->low,
                              in->high};
}

hyp_golden_output hyp_engine_golden_output(const hyp_engine *engine, size_t run, size_t output)
{
    if (!engine) return (hyp_golden_output){0};
    const HypPlan__Program *p = engine->plan.program;
    if (run >= p->n_golden || output >= p->n_outputs) return (hyp_golden_output){0};
    const HypPlan__Golden__Output *out = p->golden[run]->outputs[output];
    return (hyp_golden_output){tensor_of(engine, p->outputs[output], out->dims, out->values), out->tolerances.len,
                               out->stride};
}

double hyp_engine_golden_tolerance(const hyp_engine *engine, size_t run, size_t output, size_t i)
{
    if (!engine) return INFINITY;
    const HypPlan__Program *p = engine->plan.program;
    if (run >= p->n_golden || output >= p->n_outputs || i >= p->golden[run]->outputs[output]->tolerances.len)
        return INFINITY;
    return hyp_plan_tolerance(p->golden[run]->outputs[output]->tolerances.data[i]);
}
