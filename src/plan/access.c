/* access.c - what steps read and write, and how much work they are. */
#include <string.h>

#include "base/dtype.h"
#include "base/elementwise.h"
#include "plan/call.h"

/* Collects indexes; counts also those that find no room. */
typedef struct collector {
    uint32_t *tensors;
    size_t room, count;
} collector;

static void take(collector *c, uint32_t tensor)
{
    if (c->count < c->room) c->tensors[c->count] = tensor;
    c->count++;
}

size_t hyp_plan_step_reads(const HypPlan__Step *step, uint32_t *tensors, size_t room)
{
    collector c = {tensors, room, 0};
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR:
        take(&c, step->linear->x);
        for (size_t i = 0; i < step->linear->n_layers; i++) {
            const HypPlan__Layer *l = step->linear->layers[i];
            take(&c, l->weight);
            if (l->bias_plus1) take(&c, l->bias_plus1 - 1);
        }
        if (step->linear->added_plus1) take(&c, step->linear->added_plus1 - 1);
        break;
    case HYP_PLAN__STEP__KERNEL_MATMUL:
        take(&c, step->matmul->a);
        take(&c, step->matmul->b);
        break;
    case HYP_PLAN__STEP__KERNEL_POINTWISE:
        for (size_t i = 0; i < step->pointwise->n_inputs; i++) take(&c, step->pointwise->inputs[i]->tensor);
        break;
    case HYP_PLAN__STEP__KERNEL_ATTENTION:
        take(&c, step->attention->q->tensor);
        take(&c, step->attention->k->tensor);
        take(&c, step->attention->v->tensor);
        if (step->attention->more_k) take(&c, step->attention->more_k->tensor);
        if (step->attention->more_v) take(&c, step->attention->more_v->tensor);
        if (step->attention->mask) take(&c, step->attention->mask->tensor);
        break;
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: take(&c, step->softmax->x); break;
    case HYP_PLAN__STEP__KERNEL_REDUCE: take(&c, step->reduce->x); break;
    case HYP_PLAN__STEP__KERNEL_COPY: take(&c, step->copy->x); break;
    case HYP_PLAN__STEP__KERNEL_GATHER:
        take(&c, step->gather->x);
        take(&c, step->gather->indices);
        break;
    case HYP_PLAN__STEP__KERNEL_CALL:
    case HYP_PLAN__STEP__KERNEL_CUSTOM: {
        const HypPlan__Call *call = hyp_plan_step_call(step);
        for (size_t i = 0; i < call->n_inputs_plus1; i++)
            if (call->inputs_plus1[i]) take(&c, call->inputs_plus1[i] - 1);
        break;
    }
    default: break; /* a fill reads nothing */
    }
    return c.count;
}

size_t hyp_plan_step_writes(const HypPlan__Step *step, uint32_t *tensors, size_t room)
{
    collector c = {tensors, room, 0};
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR:
        for (size_t i = 0; i < step->linear->n_layers; i++)
            if (step->linear->layers[i]->hidden_plus1) take(&c, step->linear->layers[i]->hidden_plus1 - 1);
        take(&c, step->linear->y);
        break;
    case HYP_PLAN__STEP__KERNEL_MATMUL: take(&c, step->matmul->y); break;
    case HYP_PLAN__STEP__KERNEL_POINTWISE:
        for (size_t i = 0; i < step->pointwise->n_outputs; i++) take(&c, step->pointwise->outputs[i]);
        break;
    case HYP_PLAN__STEP__KERNEL_ATTENTION: take(&c, step->attention->y->tensor); break;
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: take(&c, step->softmax->y); break;
    case HYP_PLAN__STEP__KERNEL_REDUCE: take(&c, step->reduce->y); break;
    case HYP_PLAN__STEP__KERNEL_COPY: take(&c, step->copy->y); break;
    case HYP_PLAN__STEP__KERNEL_GATHER: take(&c, step->gather->y); break;
    case HYP_PLAN__STEP__KERNEL_FILL: take(&c, step->fill->y); break;
    case HYP_PLAN__STEP__KERNEL_CALL:
    case HYP_PLAN__STEP__KERNEL_CUSTOM: {
        const HypPlan__Call *call = hyp_plan_step_call(step);
        for (size_t i = 0; i < call->n_outputs; i++) take(&c, call->outputs[i]);
        break;
    }
    default: break;
    }
    return c.count;
}

bool hyp_plan_same_slot(const HypPlan__Program *program, uint32_t a, uint32_t b)
{
    const HypPlan__Tensor *x = program->tensors[hyp_plan_root(program, a)];
    const HypPlan__Tensor *y = program->tensors[hyp_plan_root(program, b)];
    return x->place == HYP_PLAN__PLACE__PLACE_SCRATCH && y->place == HYP_PLAN__PLACE__PLACE_SCRATCH &&
           x->slot == y->slot;
}

uint32_t hyp_plan_step_replaces(const HypPlan__Step *step)
{
    enum { ADDED = 3 };
    const HypPlan__Linear *linear = step->linear;
    const HypPlan__Call *call = step->call;
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: return linear->add_after ? 0 : linear->added_plus1;
    case HYP_PLAN__STEP__KERNEL_CALL:
        return strcmp(call->kernel, "conv") == 0 ? hyp_plan_call_input(call, ADDED) : 0;
    default: return 0;
    }
}

const HypPlan__Call *hyp_plan_own_norm(HypPlan__Step *const *steps, size_t step)
{
    bool own = steps[step]->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR && steps[step]->linear->normalizes;
    return own ? steps[step - 1]->call : NULL;
}

bool hyp_plan_is_collective(const HypPlan__Step *step)
{
    return step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && strcmp(step->call->kernel, "all-reduce") == 0;
}

bool hyp_plan_writes_nothing(const HypPlan__Program *program, const HypPlan__Step *step, const int64_t *values)
{
    enum { ROOM = 8 };
    uint32_t written[ROOM];
    if (hyp_plan_step_call(step)) return false;
    size_t count = hyp_plan_step_writes(step, written, ROOM);
    if (count > ROOM) return false; /* a linear step of many layers, which are not looked at */
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Tensor *t = program->tensors[written[i]];
        bool empty = false;
        for (size_t a = 0; a < t->n_dims; a++) empty = empty || values[t->dims[a]] == 0;
        if (!empty) return false;
    }
    return true;
}

/* ---- work ------------------------------------------------------------------------------------------ */

static double product(const int64_t *values, size_t n, const uint32_t *dims)
{
    double p = 1;
    for (size_t i = 0; i < n; i++) p *= (double)values[dims[i]];
    return p;
}

static double tensor_bytes(const HypPlan__Program *p, uint32_t t, const int64_t *values)
{
    const HypPlan__Tensor *tensor = p->tensors[t];
    return product(values, tensor->n_dims, tensor->dims) * (double)hyp_dtype_size((hyp_dtype)tensor->dtype);
}

bool hyp_plan_is_recurrence(const HypPlan__Call *call)
{
    static const char *const kernels[] = {"lstm", "lstm-cells",   "lstm-gradient", "gru",
                                          "rnn",  "gru-gradient", "rnn-gradient"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(call->kernel, kernels[i]) == 0) return true;
    return false;
}

/* Operations of a call; 0 where there is no such kernel. */
static double call_work(const HypPlan__Program *p, const HypPlan__Call *k, const int64_t *values)
{
    const hyp_kernel *kernel;
    hyp_call_arguments a;
    if (hyp_plan_call_kernel(p, k, &kernel, NULL) != HYP_OK) return 0;
    hyp_plan_call_arguments(p, k, values, NULL, &a);
    return kernel->work(&a.call);
}

/* Whether its operations are known to be additions and multiplications of floats: then they are what people mean by
 * work. */
static bool is_product(const HypPlan__Call *k)
{
    return strcmp(k->kernel, "conv") == 0 || strcmp(k->kernel, "conv-transpose") == 0 ||
           strcmp(k->kernel, "conv-backward-weights") == 0 || hyp_plan_is_recurrence(k);
}

/* One operation for a bias, for what is added and for each activation and pointwise instruction, whatever they cost on
 * a device. */
static double step_flops(const HypPlan__Program *p, const HypPlan__Step *s, const int64_t *v)
{
    double flops = 0;
    switch (s->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR:
        for (size_t i = 0; i < s->linear->n_layers; i++) {
            const HypPlan__Layer *l = s->linear->layers[i];
            double results = (double)v[s->linear->m] * (double)v[l->n];
            bool added = i + 1 == s->linear->n_layers && s->linear->added_plus1;
            flops +=
                results * (2 * (double)v[l->k] + (l->bias_plus1 != 0) + (l->act != HYP_PLAN__ACT__ACT_NONE) + added);
        }
        return flops;
    case HYP_PLAN__STEP__KERNEL_MATMUL:
        return 2 * product(v, s->matmul->n_batch, s->matmul->batch) * (double)v[s->matmul->m] *
               (double)v[s->matmul->n] * (double)v[s->matmul->k];
    case HYP_PLAN__STEP__KERNEL_ATTENTION: { /* both products, the mask, and a softmax */
        const HypPlan__Attention *k = s->attention;
        double scores = product(v, k->n_batch, k->batch) * (double)v[k->rows] * (double)v[k->keys];
        return scores * (2 * (double)(v[k->width] + v[k->columns]) + (k->plain ? 0 : 5) + (k->mask != NULL));
    }
    case HYP_PLAN__STEP__KERNEL_POINTWISE:
        return product(v, s->pointwise->n_extents, s->pointwise->extents) * (double)s->pointwise->n_instrs;
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: /* max, subtract, exp, add, divide */
        return 5 * (double)v[s->softmax->outer] * (double)v[s->softmax->axis] * (double)v[s->softmax->inner];
    case HYP_PLAN__STEP__KERNEL_REDUCE:
        return product(v, s->reduce->n_kept, s->reduce->kept) * product(v, s->reduce->n_reduced, s->reduce->reduced);
    case HYP_PLAN__STEP__KERNEL_CALL: return is_product(s->call) ? call_work(p, s->call, v) : 0;
    default: return 0;
    }
}

/* Bytes of the tensors of a step that `list` gives, each once. */
static double traffic(const HypPlan__Program *p, const HypPlan__Step *s,
                      size_t (*list)(const HypPlan__Step *, uint32_t *, size_t), const int64_t *values)
{
    enum { ROOM = 256 }; /* a step with more counts the rest not at all: the figure is for people */
    uint32_t tensors[ROOM];
    size_t n = list(s, tensors, ROOM);
    double bytes = 0;
    for (size_t i = 0; i < n && i < ROOM; i++) {
        size_t first = 0;
        while (tensors[first] != tensors[i]) first++;
        if (first == i) bytes += tensor_bytes(p, tensors[i], values);
    }
    return bytes;
}

/* Copies and gathers touch a part of their tensors only. */
static double copy_bytes(const HypPlan__Program *p, const HypPlan__Copy *k, const int64_t *values)
{
    return 2 * product(values, k->n_extents, k->extents) * (double)hyp_dtype_size((hyp_dtype)p->tensors[k->x]->dtype);
}

static double gather_bytes(const HypPlan__Program *p, const HypPlan__Gather *k, const int64_t *values)
{
    return 2 * tensor_bytes(p, k->y, values) + tensor_bytes(p, k->indices, values);
}

hyp_step_work hyp_plan_step_work(const HypPlan__Program *program, uint32_t step, const int64_t *values)
{
    const HypPlan__Step *s = program->steps[step];
    hyp_step_work work = {.flops = step_flops(program, s, values)};
    bool asks = s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && !is_product(s->call);
    work.most = asks ? call_work(program, s->call, values) : work.flops;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_COPY)
        work.bytes = copy_bytes(program, s->copy, values);
    else if (s->kernel_case == HYP_PLAN__STEP__KERNEL_GATHER)
        work.bytes = gather_bytes(program, s->gather, values);
    else
        work.bytes =
            traffic(program, s, hyp_plan_step_reads, values) + traffic(program, s, hyp_plan_step_writes, values);
    return work;
}

double hyp_plan_predicted_steps(const HypPlan__Program *program)
{
    double seconds = 0;
    for (size_t i = 0; i < program->n_steps; i++) seconds += program->steps[i]->predicted_seconds;
    return seconds;
}

double hyp_plan_predicted(const HypPlan__Program *program)
{
    return program->predicted_seconds > 0 ? program->predicted_seconds : hyp_plan_predicted_steps(program);
}

const char *hyp_plan_kernel_name(const HypPlan__Step *step)
{
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: return "linear";
    case HYP_PLAN__STEP__KERNEL_MATMUL: return "matmul";
    case HYP_PLAN__STEP__KERNEL_ATTENTION: return "attention";
    case HYP_PLAN__STEP__KERNEL_POINTWISE: return "pointwise";
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: return "softmax";
    case HYP_PLAN__STEP__KERNEL_REDUCE: return "reduce";
    case HYP_PLAN__STEP__KERNEL_COPY: return "copy";
    case HYP_PLAN__STEP__KERNEL_GATHER: return "gather";
    case HYP_PLAN__STEP__KERNEL_FILL: return "fill";
    case HYP_PLAN__STEP__KERNEL_CALL: return step->call->kernel;
    case HYP_PLAN__STEP__KERNEL_CUSTOM: return "custom";
    default: return "?";
    }
}

const char *hyp_plan_act_name(HypPlan__Act act)
{
    static const char *const names[] = {"none",
#define X(op, name, ...) name,
                                        HYP_ACTIVATIONS(X)
#undef X
    };
    return (unsigned)act < sizeof names / sizeof *names ? names[act] : "?";
}

#define SAME(OP) _Static_assert((int)HYP_PW_##OP == (int)HYP_PLAN__POINTWISE__OP__##OP, "elementwise.h follows plan.proto");
#define X(op, name, OP, number, act, ...)                                                                              \
    SAME(OP)                                                                                                           \
    _Static_assert(HYP_PLAN__ACT__ACT_##OP == (act), "elementwise.h follows plan.proto");
HYP_ACTIVATIONS(X)
#undef X
#define X(op, name, OP, ...) SAME(OP)
HYP_FUNCTIONS(X)
#undef X
#define X(op, OP, ...) SAME(OP)
HYP_PLAIN_OPS(X)
#undef X
#define X(OP, ...) SAME(OP)
HYP_PLAIN_FORMS(X)
#undef X

HypPlan__Pointwise__Op hyp_plan_act_op(HypPlan__Act act)
{
    switch ((int)act) {
#define X(op, name, OP, number, act, ...)                                                                              \
    case act: return HYP_PLAN__POINTWISE__OP__##OP;
        HYP_ACTIVATIONS(X)
#undef X
    default: return HYP_PLAN__POINTWISE__OP__CAST;
    }
}

HypPlan__Act hyp_plan_op_act(HypPlan__Pointwise__Op op)
{
    switch ((int)op) {
#define X(op, name, OP, number, act, ...)                                                                              \
    case number: return HYP_PLAN__ACT__ACT_##OP;
        HYP_ACTIVATIONS(X)
#undef X
    default: return HYP_PLAN__ACT__ACT_NONE;
    }
}

int hyp_plan_pointwise_arity(HypPlan__Pointwise__Op op)
{
    switch ((int)op) {
    case HYP_PLAN__POINTWISE__OP__CONST: return 0;
#define X(op, name, OP, ...) case HYP_PW_##OP:
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
        return 1;
#define X(op, OP, number, operands, weight)                                                                            \
    case HYP_PW_##OP: return operands;
        HYP_PLAIN_OPS(X)
#undef X
#define X(OP, number, operands)                                                                                        \
    case HYP_PW_##OP: return operands;
        HYP_PLAIN_FORMS(X)
#undef X
    default: return -1;
    }
}
