/* Which tensors lie with the channels last. All that could do so begin as candidates; steps that want the plan's order,
 * or that want several tensors in one order when one of them is fixed, strike tensors out until nothing changes. Copies
 * want nothing; so what only they and pointwise steps have lies so only where that is how a convolution or a pool has it. */
#include "plan/channels_last.h"

#include <string.h>

#include "base/dtype.h"
#include "plan/box_walk.h"
#include "plan/laid_box.h"

enum { TENSORS = HYP_PLAN_CUSTOM_INPUTS + HYP_PLAN_CUSTOM_OUTPUTS }; /* more than any other step has */

/* The tensors of a step that could be candidates: weights and hidden values of a linear, of any number, are not. */
static size_t tensors_of(const HypPlan__Step *step, uint32_t *tensors)
{
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) {
        tensors[0] = step->linear->x;
        tensors[1] = step->linear->y;
        if (step->linear->added_plus1) tensors[2] = step->linear->added_plus1 - 1;
        return step->linear->added_plus1 ? 3 : 2;
    }
    size_t reads = hyp_plan_step_reads(step, tensors, TENSORS);
    return reads + hyp_plan_step_writes(step, tensors + reads, TENSORS - reads);
}

static bool calls(const HypPlan__Step *step, const char *kernel)
{
    return step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && strcmp(step->call->kernel, kernel) == 0;
}

bool hyp_uses_layouts(const HypPlan__Step *step, const bool *channels_last)
{
    uint32_t tensors[TENSORS];
    size_t count = tensors_of(step, tensors);
    bool uses = false;
    for (size_t i = 0; i < count; i++) uses = uses || channels_last[tensors[i]];
    return uses;
}

static bool is_window(const HypPlan__Step *step)
{
    static const char *const kernels[] = {"conv", "conv-transpose", "conv-backward-weights", "max-pool",
                                          "average-pool"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (calls(step, kernels[i])) return true;
    return false;
}

/* Whether a pointwise step goes through all its tensors, which have one shape, element by element as they lie; single
 * values aside. */
static bool is_flat(const HypPlan__Program *p, const HypPlan__Pointwise *step, const int64_t *values)
{
    const HypPlan__Tensor *y = p->tensors[step->outputs[0]];
    hyp_walk walk;
    hyp_walk_init(&walk, values, step->extents, step->n_extents);
    for (size_t i = 0; i < step->n_inputs; i++) hyp_walk_lane(&walk, values, step->inputs[i]->strides, 0);
    hyp_walk_coalesce(&walk);
    if (walk.rank != 1) return false;
    for (size_t i = 0; i < step->n_inputs; i++) {
        const HypPlan__Tensor *x = p->tensors[step->inputs[i]->tensor];
        if (walk.strides[i][0] == 0) continue;
        bool same = walk.strides[i][0] == 1 && x->n_dims == y->n_dims;
        for (size_t k = 0; k < x->n_dims && same; k++) same = values[x->dims[k]] == values[y->dims[k]];
        if (!same) return false;
    }
    for (size_t i = 1; i < step->n_outputs; i++) {
        const HypPlan__Tensor *other = p->tensors[step->outputs[i]];
        bool same = other->n_dims == y->n_dims;
        for (size_t k = 0; k < y->n_dims && same; k++) same = values[other->dims[k]] == values[y->dims[k]];
        if (!same) return false;
    }
    return true;
}

static bool strike(bool *channels_last, uint32_t tensor)
{
    bool was = channels_last[tensor];
    channels_last[tensor] = false;
    return was;
}

static bool strike_all(const HypPlan__Step *step, bool *channels_last)
{
    uint32_t tensors[TENSORS];
    size_t count = tensors_of(step, tensors);
    bool changed = false;
    for (size_t i = 0; i < count; i++) changed = strike(channels_last, tensors[i]) || changed;
    return changed;
}

/* x, what is added, and the result, or its gradient, may lie either way; weights and bias not. What is added in the
 * memory of a result with the channels last must have them last as well. */
static bool visit_window(const HypPlan__Program *p, const HypPlan__Step *step, bool *channels_last)
{
    const HypPlan__Call *call = step->call;
    bool changed = false;
    if (strcmp(call->kernel, "conv-backward-weights") == 0) return strike(channels_last, call->outputs[0]);
    for (size_t i = 1; i < 3 && i < call->n_inputs_plus1; i++)
        if (call->inputs_plus1[i]) changed = strike(channels_last, call->inputs_plus1[i] - 1) || changed;
    uint32_t added_plus1 = hyp_plan_step_replaces(step), y = call->outputs[0];
    if (!added_plus1) return changed;
    uint32_t added = added_plus1 - 1;
    if (channels_last[added] || !hyp_plan_same_slot(p, added, y)) return changed;
    return strike(channels_last, y) || changed;
}

/* A kernel that takes images in either order takes all of them in one. What is no image is no candidate. */
static bool visit_alike(const HypPlan__Program *p, const HypPlan__Step *step, bool *channels_last)
{
    uint32_t tensors[TENSORS];
    size_t count = tensors_of(step, tensors);
    bool all = true;
    for (size_t i = 0; i < count; i++) all = all && (channels_last[tensors[i]] || p->tensors[tensors[i]]->n_dims < 3);
    return !all && strike_all(step, channels_last);
}

/* All alike, single values aside. */
static bool visit_pointwise(const HypPlan__Program *p, const HypPlan__Step *step, const int64_t *values,
                            bool *channels_last)
{
    const HypPlan__Pointwise *s = step->pointwise;
    if (!hyp_uses_layouts(step, channels_last)) return false;
    bool all = is_flat(p, s, values);
    for (size_t i = 0; i < s->n_outputs && all; i++) all = channels_last[s->outputs[i]];
    for (size_t i = 0; i < s->n_inputs && all; i++) {
        int64_t elements = 0;
        uint32_t x = s->inputs[i]->tensor;
        all = channels_last[x] || (hyp_plan_elements(p, x, values, &elements, NULL) == HYP_OK && elements == 1);
    }
    return !all && strike_all(step, channels_last);
}

/* Whether axes are those of a dense tensor whose elements are `first` apart, `last` in all. */
static bool is_dense(const int64_t *values, size_t n, const uint32_t *extents, const uint32_t *strides, int64_t first,
                     int64_t last)
{
    for (size_t k = n; k-- > 0; first *= values[extents[k]])
        if (values[extents[k]] != 1 && values[strides[k]] != first) return false;
    return first == last;
}

/* Whether a step reduces all of its tensor [N, C, spatial...] but N and C. */
static bool reduces_images(const HypPlan__Program *p, const HypPlan__Reduce *step, const int64_t *values)
{
    const HypPlan__Tensor *x = p->tensors[step->x];
    int64_t places = 1, all = 1;
    for (size_t k = 0; k < x->n_dims; k++) {
        all *= values[x->dims[k]];
        if (k >= 2) places *= values[x->dims[k]];
    }
    return is_dense(values, step->n_reduced, step->reduced, step->reduced_strides, 1, places) &&
           is_dense(values, step->n_kept, step->kept, step->kept_strides, places, all);
}

static bool is_candidate(const HypPlan__Tensor *t, const int64_t *values, uint32_t types, size_t most_axes)
{
    if (!(types >> t->dtype & 1) || t->n_dims < 3 || t->n_dims > most_axes) return false;
    for (size_t k = 0; k < t->n_dims; k++)
        if (values[t->dims[k]] < 1) return false;
    return true;
}

/* ---- parts of tensors ------------------------------------------------------------------------------------------ */

bool hyp_is_channels(const HypPlan__Program *p, uint32_t window, const int64_t *values)
{
    const HypPlan__Tensor *t = p->tensors[window], *root = p->tensors[t->view_of];
    return values[t->dims[0]] == values[root->dims[0]];
}

/* Whether a window is some images of its tensor, or some channels of the only one. */
static bool is_part(const HypPlan__Program *p, const HypPlan__Tensor *t, const int64_t *values)
{
    const HypPlan__Tensor *root = p->tensors[t->view_of];
    int64_t inner = 1, shorter = 0;
    if (!hyp_plan_is_window(t) || t->n_dims != root->n_dims || t->n_dims < 3) return false;
    for (size_t k = t->n_dims; k-- > 0;) {
        bool same = values[t->dims[k]] == values[root->dims[k]];
        if (!same && (k > 1 || shorter++ > 0)) return false;
        if (!same && (int64_t)t->first % inner != 0) return false;
        inner *= values[root->dims[k]];
    }
    return values[t->dims[0]] != values[root->dims[0]] || values[t->dims[0]] == 1;
}

/* A part lies as its tensor does, or neither does so. */
static bool visit_parts(const HypPlan__Program *p, bool *channels_last)
{
    bool changed = false;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        if (p->tensors[t]->place != HYP_PLAN__PLACE__PLACE_VIEW) continue;
        uint32_t root = p->tensors[t]->view_of;
        if (channels_last[t] == channels_last[root]) continue;
        channels_last[t] = channels_last[root] = false;
        changed = true;
    }
    return changed;
}

/* Its outputs, and its inputs but for those that are repeated along some axis, or are single values. */
static bool visit_walk(const HypPlan__Program *p, const HypPlan__Step *step, const int64_t *values, bool *channels_last)
{
    const HypPlan__Pointwise *s = step->pointwise;
    const HypPlan__Tensor *y = p->tensors[s->outputs[0]];
    hyp_laid_box laid;
    if (!hyp_uses_layouts(step, channels_last)) return false;
    bool all = hyp_lay_pointwise(p, s, values, channels_last, &laid);
    for (size_t i = 0; i < s->n_outputs && all; i++) {
        const HypPlan__Tensor *other = p->tensors[s->outputs[i]];
        all = channels_last[s->outputs[i]] && other->n_dims == y->n_dims;
        for (size_t k = 0; k < y->n_dims && all; k++) all = values[other->dims[k]] == values[y->dims[k]];
    }
    for (size_t i = 0; i < s->n_inputs && all; i++) {
        bool repeated = laid.rank == 0;
        for (size_t k = 0; k < laid.rank; k++) repeated = repeated || laid.strides[1 + i][k] == 0;
        all = repeated || channels_last[s->inputs[i]->tensor];
    }
    return !all && strike_all(step, channels_last);
}

static bool visit_copy(const HypPlan__Program *p, const HypPlan__Step *step, const int64_t *values, bool *channels_last)
{
    hyp_laid_box laid;
    if (!hyp_uses_layouts(step, channels_last)) return false;
    return !hyp_lay_copy(p, step->copy, values, true, true, &laid) && strike_all(step, channels_last);
}

/* Marks what lies as a marked tensor does in a step that has both in one order; whether there was anything to mark. */
static bool mark(const HypPlan__Program *p, const HypPlan__Step *step, const int64_t *values, const bool *channels_last,
                 bool *marked)
{
    uint32_t tensors[TENSORS];
    hyp_laid_box laid;
    bool is_copy = step->kernel_case == HYP_PLAN__STEP__KERNEL_COPY, all = is_window(step), changed = false;
    if (!all && !is_copy && step->kernel_case != HYP_PLAN__STEP__KERNEL_POINTWISE) return false;
    if (!hyp_uses_layouts(step, channels_last)) return false;
    if (is_copy && (!hyp_lay_copy(p, step->copy, values, true, true, &laid) || !laid.keeps_axes)) return false;
    size_t count = tensors_of(step, tensors);
    for (size_t i = 0; i < count; i++) all = all || marked[hyp_plan_root(p, tensors[i])];
    for (size_t i = 0; i < count && all; i++) {
        uint32_t t = hyp_plan_root(p, tensors[i]);
        if (!channels_last[t] || marked[t]) continue;
        marked[t] = changed = true;
    }
    return changed;
}

/* Strikes out what no convolution or pool has a say in. */
static bool strike_others(const HypPlan__Program *p, const int64_t *values, bool *channels_last, bool *marked)
{
    bool changed = false;
    memset(marked, 0, p->n_tensors * sizeof *marked);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < p->n_steps; i++) more = mark(p, p->steps[i], values, channels_last, marked) || more;
    }
    for (uint32_t t = 0; t < p->n_tensors; t++)
        if (!marked[hyp_plan_root(p, t)]) changed = strike(channels_last, t) || changed;
    return changed;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static bool visit(const HypPlan__Program *p, const HypPlan__Step *step, const int64_t *values, uint32_t also,
                  bool *channels_last)
{
    if (is_window(step)) return visit_window(p, step, channels_last);
    if (also & HYP_LAST_TRAINED && (calls(step, "batch-norm-stats") || calls(step, "batch-norm-gradient") ||
                                    calls(step, "max-pool-gradient")))
        return visit_alike(p, step, channels_last);
    switch ((int)step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_POINTWISE:
        return also & HYP_LAST_WALKED ? visit_walk(p, step, values, channels_last)
                                      : visit_pointwise(p, step, values, channels_last);
    case HYP_PLAN__STEP__KERNEL_COPY:
        if (also & HYP_LAST_COPIED) return visit_copy(p, step, values, channels_last);
        break;
    case HYP_PLAN__STEP__KERNEL_REDUCE:
        if (also & HYP_LAST_REDUCED && reduces_images(p, step->reduce, values))
            return strike(channels_last, step->reduce->y);
        break;
    }
    return strike_all(step, channels_last);
}

static void strike_out(const HypPlan__Program *p, const int64_t *values, uint32_t also, bool *channels_last)
{
    for (bool changed = true; changed;) {
        changed = visit_parts(p, channels_last);
        for (size_t i = 0; i < p->n_steps; i++)
            changed = visit(p, p->steps[i], values, also, channels_last) || changed;
    }
}

hyp_status hyp_choose_layouts(const HypPlan__Program *p, const int64_t *values, uint32_t types, size_t most_axes,
                              uint32_t also, bool *channels_last, hyp_diag *diag)
{
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const HypPlan__Tensor *tensor = p->tensors[t], *root = p->tensors[hyp_plan_root(p, t)];
        channels_last[t] = root->place == HYP_PLAN__PLACE__PLACE_SCRATCH &&
                           is_candidate(tensor, values, types, most_axes) &&
                           (root == tensor || (also & HYP_LAST_PARTS && is_part(p, tensor, values)));
    }
    strike_out(p, values, also, channels_last);
    if (!(also & HYP_LAST_COPIED)) return HYP_OK;
    bool *marked = hyp_calloc(p->n_tensors, sizeof *marked);
    if (!marked) return hyp_fail_memory(diag, p->n_tensors);
    while (strike_others(p, values, channels_last, marked)) strike_out(p, values, also, channels_last);
    hyp_free(marked);
    return HYP_OK;
}

hyp_status hyp_choose_cpu_layouts(const HypPlan__Program *p, const int64_t *values, bool *channels_last, hyp_diag *diag)
{
    return hyp_choose_layouts(p, values, 1u << HYP_F32, 2 + HYP_CPU_SPATIAL,
                              HYP_LAST_COPIED | HYP_LAST_REDUCED | HYP_LAST_WALKED, channels_last, diag);
}

/* ---- what is turned ---------------------------------------------------------------------------------------------- */

/* Of an image that does not have its channels last, where that is another order at all. */
static double turned(const HypPlan__Program *p, uint32_t tensor, const int64_t *values, const bool *channels_last,
                     int64_t few)
{
    const HypPlan__Tensor *t = p->tensors[tensor];
    double images = 1, places = 1;
    if (channels_last[tensor] || t->dtype != HYP_F32 || t->n_dims < 3 || values[t->dims[1]] <= few) return 0;
    for (size_t k = 0; k < t->n_dims; k++) *(k < 2 ? &images : &places) *= (double)values[t->dims[k]];
    return places > 1 ? images * places : 0;
}

double hyp_turned_elements(const HypPlan__Program *p, const HypPlan__Step *step, const int64_t *values,
                           const bool *channels_last)
{
    enum { IMAGE = 3, SINGLE = 1 };
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_COPY) {
        const HypPlan__Copy *copy = step->copy;
        double elements = 1;
        if (channels_last[copy->x] == channels_last[copy->y]) return 0;
        for (size_t k = 0; k < copy->n_extents; k++) elements *= (double)values[copy->extents[k]];
        return elements;
    }
    if (!is_window(step) || calls(step, "conv-backward-weights")) return 0;
    const HypPlan__Call *call = step->call;
    uint32_t added_plus1 = hyp_plan_step_replaces(step);
    double sum = turned(p, call->inputs_plus1[0] - 1, values, channels_last, calls(step, "conv") ? IMAGE : SINGLE);
    if (added_plus1) sum += turned(p, added_plus1 - 1, values, channels_last, SINGLE);
    return sum + turned(p, call->outputs[0], values, channels_last, SINGLE);
}
