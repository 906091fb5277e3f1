/* conv_filters.c - weights of convolutions that lie with the channels last, [M kernel... C], on the device: turned
 * when a plan is loaded. Those of single channels, in groups, are [kernel... M]; those of one element, in strict f32, may
 * be [C M]. */
#include <string.h>

#include "runtime/cuda/session/backend.h"

static bool is_conv(const HypPlan__Step *step)
{
    return step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && strcmp(step->call->kernel, "conv") == 0;
}

/* Of other convolutions of one group cuDNN does those of few channels better in the plan's order (H200, cuDNN 9: three
 * channels of 224x224 in bf16 take 0.3 ms with the channels last), and f32. */
static bool suits(const HypPlan__Program *p, const HypPlan__Call *conv, const HypPlan__Tensor *w)
{
    const HypPlan__Dim *group = p->dims[conv->attrs[3]->dims[0]], *filters = p->dims[w->dims[0]];
    int64_t piece = HYP_CUDA_MIN_ALIGN / (int64_t)hyp_dtype_size((hyp_dtype)w->dtype);
    bool full = w->dtype == HYP_F32 && !hyp_cuda_is_tf32(p),
         one = group->kind == HYP_PLAN__DIM__KIND__CONST && group->value == 1;
    if (!one) return !full || p->dims[w->dims[1]]->value == 1;
    return p->dims[w->dims[1]]->value % piece == 0 && (!full || filters->value % piece == 0);
}

static bool is_candidate(const HypPlan__Program *p, const HypPlan__Call *conv, uint32_t tensor)
{
    const HypPlan__Tensor *w = p->tensors[tensor];
    bool is_weight = w->place == HYP_PLAN__PLACE__PLACE_WEIGHT && HYP_CUDA_TYPES_LAST >> w->dtype & 1;
    if (!is_weight || w->n_dims < 3 || w->n_dims > HYP_CUDA_LAST_AXES) return false;
    for (size_t i = 0; i < w->n_dims; i++)
        if (p->dims[w->dims[i]]->kind != HYP_PLAN__DIM__KIND__CONST) return false;
    return suits(p, conv, w);
}

/* Strikes out what a step reads otherwise than as such weights. */
static void strike(const HypPlan__Program *p, const HypPlan__Step *step, bool *channels_last)
{
    uint32_t reads[HYP_PLAN_CALL_INPUTS];
    size_t count = hyp_plan_step_reads(step, reads, HYP_PLAN_CALL_INPUTS);
    if (is_conv(step)) {
        for (size_t i = 0; i < step->call->n_inputs_plus1; i++) {
            uint32_t tensor = step->call->inputs_plus1[i] - 1;
            if (step->call->inputs_plus1[i] && (i != 1 || !is_candidate(p, step->call, tensor)))
                channels_last[tensor] = false;
        }
    } else if (count > HYP_PLAN_CALL_INPUTS) { /* a very long linear: it could be any */
        memset(channels_last, 0, p->n_tensors * sizeof *channels_last);
    } else {
        for (size_t i = 0; i < count; i++) channels_last[reads[i]] = false;
    }
}

hyp_status hyp_cuda_find_filters(hyp_cuda_model *m, hyp_diag *diag)
{
    const HypPlan__Program *p = m->plan->program;
    m->channels_last = hyp_calloc(p->n_tensors, sizeof *m->channels_last);
    if (!m->channels_last) return hyp_fail_memory(diag, p->n_tensors);
    for (size_t i = 0; i < p->n_steps; i++)
        if (is_conv(p->steps[i]) && p->steps[i]->call->inputs_plus1[1]) {
            uint32_t weight = p->steps[i]->call->inputs_plus1[1] - 1;
            m->channels_last[weight] = is_candidate(p, p->steps[i]->call, weight);
        }
    for (size_t i = 0; i < p->n_steps; i++) strike(p, p->steps[i], m->channels_last);
    for (uint32_t t = 0; t < p->n_tensors; t++)
        if (p->tensors[t]->place == HYP_PLAN__PLACE__PLACE_VIEW) m->channels_last[p->tensors[t]->view_of] = false;
    return HYP_OK;
}

/* [filters, channels, places] to [filters, places, channels]. */
static void turn(const uint8_t *from, uint8_t *to, size_t filters, size_t channels, size_t places, size_t size)
{
    for (size_t f = 0; f < filters; f++)
        for (size_t p = 0; p < places; p++)
            for (size_t c = 0; c < channels; c++, to += size)
                memcpy(to, from + ((f * channels + c) * places + p) * size, size);
}

/* What cuBLASLt takes for rows x channels x filters (H100, 13.1), weights as [M C] and as [C M], us: 729x128x32 9.8 and 4.7,
 * 729x256x32 10.1 and 6.1, 169x384x64 8.8 and 6.6, 196x1024x256 12.5 and 9.6, 49x2048x512 14.9 and 10.1, 169x256x48 6.1 and
 * 6.9, 784x512x128 9.4 and 9.9; of few channels 3025x64x16 3.4 and 3.5, 169x64x256 3.5 and 7.0. */
bool hyp_cuda_is_matrix_filter(const HypPlan__Program *p, uint32_t tensor)
{
    const int64_t channels = 128, each = 2; /* at least; for a filter */
    const HypPlan__Tensor *w = p->tensors[tensor];
    bool one = w->dtype == HYP_F32 && !hyp_cuda_is_tf32(p) && w->n_dims > 2;
    for (size_t i = 0; i < w->n_dims && one; i++) {
        const HypPlan__Dim *d = p->dims[w->dims[i]];
        one = d->kind == HYP_PLAN__DIM__KIND__CONST && (i < 2 || d->value == 1);
    }
    return one && p->dims[w->dims[1]]->value >= channels &&
           p->dims[w->dims[1]]->value >= each * p->dims[w->dims[0]]->value;
}

hyp_status hyp_cuda_turn_filters(const hyp_cuda_model *m, uint32_t tensor, void **out, hyp_diag *diag)
{
    const HypPlan__Program *p = m->plan->program;
    const HypPlan__Tensor *w = p->tensors[tensor];
    size_t size = hyp_dtype_size((hyp_dtype)w->dtype), filters = (size_t)p->dims[w->dims[0]]->value;
    size_t channels = (size_t)p->dims[w->dims[1]]->value, places = w->bytes / size / filters / channels;
    uint8_t *turned = hyp_malloc(w->bytes);
    if (!turned) return hyp_fail_memory(diag, w->bytes);
    const uint8_t *bytes = hyp_plan_weight(m->plan, tensor);
    if (hyp_cuda_is_matrix_filter(p, tensor))
        turn(bytes, turned, 1, filters, channels, size);
    else if (channels == 1)
        turn(bytes, turned, 1, filters, places, size);
    else
        turn(bytes, turned, filters, channels, places, size);
    *out = turned;
    return HYP_OK;
}
