/* turns.c - what steps take longer because images lie otherwise than their kernels have them.
 *
 * Kernels of images are priced as they were measured, between others of their kind, where channels are last. Whether an
 * image lies so is decided of the whole plan when it is loaded, and is foreseen here by the same function. */
#include "codegen/lower.h"
#include "plan/channels_last.h"

hyp_status hyp_lower_add_turns(hyp_lowering *l)
{
    const HypPlan__Program *p = l->out->program;
    const hyp_codegen_options *o = l->options;
    const int64_t *values;
    if (!o->predict || !o->predict_turn || !o->target->turns_images) return HYP_OK;
    bool *channels_last = hyp_arena_zalloc(&l->scratch, p->n_tensors + 1, sizeof *channels_last);
    if (!channels_last) return hyp_fail_memory(l->diag, p->n_tensors);
    HYP_TRY(hyp_lower_typical_values(l, &values));
    HYP_TRY(hyp_choose_cpu_layouts(p, values, channels_last, l->diag));
    for (size_t i = 0; i < p->n_steps; i++) {
        HypPlan__Step *s = p->steps[i];
        double elements = hyp_turned_elements(p, s, values, channels_last);
        bool copied = s->kernel_case == HYP_PLAN__STEP__KERNEL_COPY;
        if (elements <= 0) continue;
        double seconds = o->predict_turn(elements, copied, o->predict_user);
        HYP_TRY(hyp_lower_add_seconds(l, s, seconds, "images are turned", 0));
    }
    return HYP_OK;
}
