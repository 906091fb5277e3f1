/* golden.c - the runs with known results that a plan keeps. */
#include <math.h>

#include "base/sized.h"
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

bool hyp_engine_read_golden_input(const hyp_engine *engine, size_t run, size_t input, hyp_golden_input *out)
{
    const HypPlan__Program *p = engine ? engine->plan.program : NULL;
    bool there = p && run < p->n_golden && input < p->n_inputs;
    hyp_golden_input info = {0};
    if (there) {
        const HypPlan__Golden__Input *in = p->golden[run]->inputs[input];
        info.tensor = tensor_of(engine, p->inputs[input], in->dims, in->data);
        info.how = in->how, info.seed = in->seed, info.low = in->low, info.high = in->high;
    }
    return out && hyp_sized_give(out, &info) && there;
}

bool hyp_engine_read_golden_output(const hyp_engine *engine, size_t run, size_t output, hyp_golden_output *out)
{
    const HypPlan__Program *p = engine ? engine->plan.program : NULL;
    bool there = p && run < p->n_golden && output < p->n_outputs;
    hyp_golden_output info = {0};
    if (there) {
        const HypPlan__Golden__Output *kept = p->golden[run]->outputs[output];
        info.tensor = tensor_of(engine, p->outputs[output], kept->dims, kept->values);
        info.kept = kept->tolerances.len, info.stride = kept->stride;
    }
    return out && hyp_sized_give(out, &info) && there;
}

double hyp_engine_golden_tolerance(const hyp_engine *engine, size_t run, size_t output, size_t i)
{
    if (!engine) return INFINITY;
    const HypPlan__Program *p = engine->plan.program;
    if (run >= p->n_golden || output >= p->n_outputs || i >= p->golden[run]->outputs[output]->tolerances.len)
        return INFINITY;
    return hyp_plan_tolerance(p->golden[run]->outputs[output]->tolerances.data[i]);
}
