/* distance.c - what steps take longer because other steps lie between them.
 *
 * A kernel is priced as if what it touches had been touched right before. In a run other steps go over their own data
 * and weights in between, and drive it out of the caches. So the steps are gone through as a run does, twice, for one
 * run follows another; a clock counts the bytes that were gone over, and the seconds that are predicted, and of each place
 * in memory is noted where that clock stood when it was last touched. How far weights are is known without: they come
 * round once a run. */
#include <string.h>

#include "codegen/lower.h"

enum { ROOM = 256 }; /* tensors of a step that are looked at */

/* Where the clock stood when something was last touched. What is only read stays where it is, so that of what is read
 * the seconds since it was written count; of an input, which the run does not write, none. */
typedef struct touched {
    double bytes, seconds, written;
} touched;

typedef struct walk {
    const HypPlan__Program *p;
    const hyp_codegen_options *options;
    const int64_t *values;   /* of the program's dims, for the sizes that predictions are for */
    touched *slots, *tensors; /* a slot, or an input's or output's memory */
    touched now;
    uint32_t copied; /* what the copy before this step has written a part of, in a place that was touched then */
    touched copied_at;
} walk;

static uint32_t root_of(const walk *w, uint32_t t)
{
    const HypPlan__Tensor *tensor = w->p->tensors[t];
    return tensor->place == HYP_PLAN__PLACE__PLACE_VIEW ? tensor->view_of : t;
}

static touched *last_touch(walk *w, uint32_t root)
{
    const HypPlan__Tensor *tensor = w->p->tensors[root];
    return tensor->place == HYP_PLAN__PLACE__PLACE_SCRATCH ? &w->slots[tensor->slot] : &w->tensors[root];
}

static double bytes_of(const walk *w, uint32_t t)
{
    size_t bytes;
    hyp_diag none = {0};
    return hyp_plan_tensor_bytes(w->p, t, w->values, &bytes, &none) == HYP_OK ? (double)bytes : 0;
}

static bool moves_parts(const HypPlan__Step *s)
{
    return s->kernel_case == HYP_PLAN__STEP__KERNEL_COPY || s->kernel_case == HYP_PLAN__STEP__KERNEL_GATHER;
}

static bool goes_by_windows(const HypPlan__Step *s)
{
    static const char *const kernels[] = {"conv", "conv-transpose", "max-pool", "average-pool"};
    bool found = false;
    if (s->kernel_case != HYP_PLAN__STEP__KERNEL_CALL) return false;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) found = found || strcmp(s->call->kernel, kernels[i]) == 0;
    return found;
}

/* Seconds more for one tensor of a step that goes over `own` bytes. */
static double touch(walk *w, const HypPlan__Step *s, uint32_t t, bool written, double own)
{
    uint32_t root = root_of(w, t);
    if (w->p->tensors[root]->place == HYP_PLAN__PLACE__PLACE_WEIGHT) return 0;
    touched *last = last_touch(w, root), at = *last;
    double bytes = bytes_of(w, t), middle = w->now.seconds + s->predicted_seconds / 2;
    bool part = s->kernel_case == HYP_PLAN__STEP__KERNEL_COPY && written;
    if (part && w->copied == root) at = w->copied_at; /* the other part was touched, not this one */
    if (moves_parts(s) && bytes > own / 2) bytes = own / 2;
    if (written) w->copied = part ? root : HYP_NO_VALUE, w->copied_at = at;
    bool given = w->p->tensors[root]->place == HYP_PLAN__PLACE__PLACE_INPUT;
    double ago = given ? 0 : w->now.seconds - (written ? at.seconds : at.written);
    *last = (touched){w->now.bytes + own / 2, middle, written ? middle : at.written}; /* some of it early, some late */
    return w->options->predict_far(bytes, w->now.bytes - at.bytes, ago, own, goes_by_windows(s), w->options->predict_user);
}

static double go_over(walk *w, uint32_t index)
{
    const HypPlan__Step *s = w->p->steps[index];
    double own = hyp_plan_step_work(w->p, index, w->values).bytes, seconds = 0;
    uint32_t tensors[ROOM];
    size_t count = hyp_plan_step_reads(s, tensors, ROOM);
    for (size_t i = 0; i < count && i < ROOM; i++) {
        size_t first = 0;
        while (tensors[first] != tensors[i]) first++;
        if (first == i) seconds += touch(w, s, tensors[i], false, own);
    }
    count = hyp_plan_step_writes(s, tensors, ROOM);
    size_t hidden = s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR && count > 0 && count <= ROOM ? count - 1 : 0;
    for (size_t i = hidden; i < count && i < ROOM; i++) seconds += touch(w, s, tensors[i], true, own);
    w->now.bytes += own;
    w->now.seconds += s->predicted_seconds + seconds;
    return seconds;
}

static hyp_status walk_init(hyp_lowering *l, walk *w)
{
    const HypPlan__Program *p = l->out->program;
    *w = (walk){.p = p, .options = l->options, .copied = HYP_NO_VALUE};
    w->slots = hyp_arena_zalloc(&l->scratch, p->slot_count, sizeof *w->slots);
    w->tensors = hyp_arena_zalloc(&l->scratch, p->n_tensors, sizeof *w->tensors);
    if (!w->slots || !w->tensors) return hyp_fail_memory(l->diag, p->n_tensors * sizeof *w->tensors);
    return hyp_lower_typical_values(l, &w->values);
}

hyp_status hyp_lower_add_distances(hyp_lowering *l)
{
    const double told = 1e-4;
    HypPlan__Program *p = l->out->program;
    walk w;
    if (!l->options->predict || !l->options->predict_far) return HYP_OK;
    HYP_TRY(walk_init(l, &w));
    for (uint32_t i = 0; i < p->n_steps; i++) go_over(&w, i);
    for (uint32_t i = 0; i < p->n_steps; i++) HYP_TRY(hyp_lower_add_seconds(l, p->steps[i], go_over(&w, i), "far data", told));
    return HYP_OK;
}
