/* side_by_side.c - what a program takes on a target that runs steps side by side: by the scheduler of the runtime, on
 * what steps are predicted to take one by one.
 *
 * The runtime gives values that share a slot places of their own where they hold steps up, so that here values wait for
 * those alone who write them. Copies that build one tensor are one launch there, and one task here. */
#include <math.h>
#include <string.h>

#include "base/timetable.h"
#include "codegen/lower.h"

enum { ROOM = 256 /* tensors of a step that are looked at */, APART = 44 /* bits of an address within a tensor */ };

typedef struct builder {
    hyp_lowering *l;
    const int64_t *values; /* of the program's dims, for the sizes that predictions are for */
    hyp_task *tasks;
    uint32_t count;
    HYP_VEC(hyp_span) spans;
    HYP_VEC(size_t) first_span; /* by task */
} builder;

static hyp_status add_span(builder *b, uint32_t tensor, bool written)
{
    const HypPlan__Program *p = b->l->out->program;
    uint32_t root = hyp_plan_root(p, tensor);
    HypPlan__Place place = p->tensors[root]->place;
    size_t bytes;
    if (place == HYP_PLAN__PLACE__PLACE_WEIGHT || place == HYP_PLAN__PLACE__PLACE_INPUT) return HYP_OK;
    HYP_TRY(hyp_plan_tensor_bytes(p, tensor, b->values, &bytes, b->l->diag));
    uint64_t begin = ((uint64_t)(root + 1) << APART) + hyp_plan_first_byte(p, tensor);
    return hyp_vec_push(&b->spans, b->l->diag, (hyp_span){begin, begin + bytes, written});
}

static hyp_status add_spans(builder *b, const HypPlan__Step *step)
{
    uint32_t tensors[ROOM];
    size_t count = hyp_plan_step_reads(step, tensors, ROOM);
    for (size_t i = 0; i < count && i < ROOM; i++) HYP_TRY(add_span(b, tensors[i], false));
    count = hyp_plan_step_writes(step, tensors, ROOM);
    for (size_t i = 0; i < count && i < ROOM; i++) HYP_TRY(add_span(b, tensors[i], true));
    if (hyp_plan_is_collective(step)) return hyp_vec_push(&b->spans, b->l->diag, HYP_SPAN_IN_ORDER);
    return HYP_OK;
}

static bool is_one_launch(const HypPlan__Step *a, const HypPlan__Step *b)
{
    return a->kernel_case == HYP_PLAN__STEP__KERNEL_COPY && b->kernel_case == HYP_PLAN__STEP__KERNEL_COPY &&
           a->copy->y == b->copy->y;
}

static hyp_status add_step(builder *b, uint32_t step)
{
    const HypPlan__Program *p = b->l->out->program;
    const HypPlan__Step *s = p->steps[step];
    if (step == 0 || !is_one_launch(p->steps[step - 1], s)) {
        HYP_TRY(hyp_vec_push(&b->first_span, b->l->diag, b->spans.len));
        b->count++;
    }
    HYP_TRY(add_spans(b, s));
    hyp_task *t = &b->tasks[b->count - 1];
    t->seconds += s->predicted_seconds;
    t->share = fmax(t->share, s->share);
    return HYP_OK;
}

/* What writes over variables waits for all before it. Its steps are tasks of their own, the last ones. */
static hyp_status add_commit(builder *b)
{
    hyp_lowering *l = b->l;
    const HypPlan__Program *p = l->out->program;
    uint32_t commit;
    if (!hyp_plan_has_in_place(p)) return HYP_OK;
    HYP_TRY(hyp_plan_find_commit(p, &commit, l->diag));
    uint32_t before = b->count - (uint32_t)(p->n_steps - commit);
    uint32_t *tasks = hyp_arena_zalloc(&l->scratch, (size_t)before + 1, sizeof *tasks);
    if (!tasks) return hyp_fail_memory(l->diag, before * sizeof *tasks);
    for (uint32_t t = 0; t < before; t++) tasks[t] = t;
    for (uint32_t t = before; t < b->count; t++) {
        b->tasks[t].waits = tasks;
        b->tasks[t].wait_count = before;
    }
    return HYP_OK;
}

static hyp_status predict(builder *b)
{
    hyp_lowering *l = b->l;
    HypPlan__Program *p = l->out->program;
    double seconds;
    uint32_t streams;
    HYP_TRY(hyp_lower_typical_values(l, &b->values));
    b->tasks = hyp_arena_zalloc(&l->scratch, p->n_steps, sizeof *b->tasks);
    if (!b->tasks) return hyp_fail_memory(l->diag, p->n_steps * sizeof *b->tasks);
    for (uint32_t i = 0; i < p->n_steps; i++) HYP_TRY(add_step(b, i));
    HYP_TRY(hyp_vec_push(&b->first_span, l->diag, b->spans.len));
    for (uint32_t t = 0; t < b->count; t++) {
        b->tasks[t].spans = b->spans.data + b->first_span.data[t];
        b->tasks[t].span_count = b->first_span.data[t + 1] - b->first_span.data[t];
    }
    HYP_TRY(add_commit(b));
    const hyp_codegen_options *o = l->options;
    HYP_TRY(hyp_timetable_predict(b->tasks, b->count, o->target->streams, o->hop_seconds, &seconds, &streams, l->diag));
    p->hop_seconds = o->hop_seconds; /* so that the runtime, which chooses streams, plays the same schedule */
    if (streams > 1) p->predicted_seconds = seconds;
    return HYP_OK;
}

hyp_status hyp_lower_predict_side_by_side(hyp_lowering *l)
{
    builder b = {.l = l};
    const hyp_codegen_options *o = l->options;
    size_t steps = l->out->program->n_steps;
    if (o->target->streams < 2 || !(o->hop_seconds > 0) || !o->predict || steps < 2 || steps > HYP_TIMETABLE_TASKS)
        return HYP_OK;
    hyp_status status = predict(&b);
    hyp_vec_free(&b.spans);
    hyp_vec_free(&b.first_span);
    return status;
}
