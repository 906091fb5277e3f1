/* dnnl_window_call.c - steps of convolution as descriptions of oneDNN's. */
#include <string.h>

#include "base/dtype.h"
#include "runtime/cpu/dnnl_window.h"

enum { MAX_DIMS = 3 + HYP_DNNL_SPATIAL }; /* of grouped weights */
typedef hyp_dnnl_asked asked;

uint32_t hyp_dnnl_window_tensor(const asked *a, int which)
{
    const HypPlan__Call *c = a->call;
    if (a->backward)
        return which == WEIGHTS ? c->outputs[0]
               : which == SRC   ? c->inputs_plus1[0] - 1
               : which == DST   ? c->inputs_plus1[1] - 1
                                : UINT32_MAX;
    return which == DST ? c->outputs[0] : (size_t)which < c->n_inputs_plus1 ? c->inputs_plus1[which] - 1 : UINT32_MAX;
}

static int64_t dim_of(const asked *a, int which, int axis)
{
    return hyp_dnnl_window_dim(a, hyp_dnnl_window_tensor(a, which), axis);
}

/* ---- descriptions ------------------------------------------------------------------------------------------ */

hyp_md hyp_dnnl_image(const asked *a, int which, bool last, bool dense)
{
    int64_t dims[MAX_DIMS], whole[MAX_DIMS], strides[MAX_DIMS], step = 1;
    const int64_t *apart = dense ? dims : whole;
    int rank = a->n + 2;
    for (int i = 0; i < rank; i++) dims[i] = whole[i] = dim_of(a, which, i);
    dims[0] = a->images;
    dims[1] = which == SRC ? a->x_channels : a->y_channels;
    dims[2] = which == SRC ? a->x_lines : a->lines;
    if (last) {
        strides[1] = 1;
        step = apart[1];
    }
    for (int i = rank; i-- > 0;) {
        if (last && i == 1) continue;
        strides[i] = step;
        step *= apart[i];
    }
    return hyp_md_create(rank, dims, dnnl_f32, strides);
}

/* The part's in whatever order. */
static hyp_md any_image(const asked *a, int which)
{
    int64_t dims[MAX_DIMS];
    for (int i = 0; i < a->n + 2; i++) dims[i] = dim_of(a, which, i);
    dims[0] = a->images;
    dims[1] = which == SRC ? a->x_channels : a->y_channels;
    return hyp_md_create(a->n + 2, dims, dnnl_f32, NULL);
}

size_t hyp_dnnl_window_begin(const asked *a, int which)
{
    uint32_t tensor = hyp_dnnl_window_tensor(a, which);
    int64_t inner = 1, first;
    for (int i = 1; i < a->n; i++) inner *= dim_of(a, which, 2 + i);
    if (which == WEIGHTS) { /* the channels of x of a part with groups are all of a group */
        int64_t taps = inner * dim_of(a, which, 2), each = dim_of(a, which, 1);
        return (size_t)((a->y_channel * each + a->x_channel % each) * taps) * sizeof(float);
    }
    int64_t channels = dim_of(a, which, 1), lines = dim_of(a, which, 2);
    int64_t channel = which == SRC ? a->x_channel : a->y_channel, line = which == SRC ? a->x_line : a->line;
    if (a->channels_last[tensor])
        first = line * inner * channels + channel;
    else
        first = (channel * lines + line) * inner;
    return (size_t)(a->image * channels * lines * inner + first) * sizeof(float);
}

bool hyp_dnnl_one_order(const asked *a, uint32_t tensor)
{
    int64_t spatial = 1;
    for (int i = 0; i < a->n; i++) spatial *= hyp_dnnl_window_dim(a, tensor, 2 + i);
    return spatial == 1 || hyp_dnnl_window_dim(a, tensor, 1) == 1;
}

bool hyp_dnnl_has_channels(const asked *a, int which)
{
    return (which == SRC ? a->x_channels : a->y_channels) == dim_of(a, which, 1);
}

hyp_md hyp_dnnl_weights(const asked *a, bool plain)
{
    int64_t dims[MAX_DIMS], strides[MAX_DIMS], dense = 1;
    int first = a->group > 1, rank = first + a->n + 2;
    int64_t filters = a->transpose ? a->x_channels : a->y_channels, each = dim_of(a, WEIGHTS, 1);
    int64_t d0 = filters / a->group, d1 = (a->transpose ? a->y_channels : a->x_channels) / a->group;
    for (int i = rank; i-- > first + 2;) {
        dims[i] = dim_of(a, WEIGHTS, i - first);
        strides[i] = dense;
        dense *= dims[i];
    }
    dims[0] = a->group;
    dims[first] = a->transpose ? d1 : d0;
    dims[first + 1] = a->transpose ? d0 : d1;
    strides[first] = a->transpose ? dense : dense * each;
    strides[first + 1] = a->transpose ? dense * each : dense;
    if (first) strides[0] = dense * each * d0;
    return hyp_md_create(rank, dims, dnnl_f32, plain ? strides : NULL);
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

static bool read_list(const asked *a, size_t attr, size_t from, int64_t least, int64_t *out)
{
    const HypPlan__Call__Attr *list = a->call->attrs[attr];
    for (int i = 0; i < a->n; i++) {
        out[i] = from + (size_t)i < list->n_dims ? a->values[list->dims[from + (size_t)i]] : -1;
        if (out[i] < least || out[i] > 1 << 20) return false; /* far from overflow */
    }
    return true;
}

/* Whether a window can lie wholly in the padding. */
static bool reads_nothing(const asked *a)
{
    const hyp_dnnl_window *w = &a->window;
    bool nothing = false;
    for (int i = 0; i < a->n; i++) {
        int64_t extent = (dim_of(a, WEIGHTS, 2 + i) - 1) * (w->dilates[i] + 1) + 1;
        nothing = nothing || w->before[i] >= extent || w->after[i] >= extent;
    }
    return nothing;
}

/* Types, ranks and sizes of the tensors, and whether channels fit the weights and the groups. */
static bool read_tensors(asked *a)
{
    size_t rank = (size_t)a->n + 2;
    for (int i = 0; i < OPERANDS; i++) {
        uint32_t t = hyp_dnnl_window_tensor(a, i);
        if (t == UINT32_MAX) continue;
        const HypPlan__Tensor *tensor = a->program->tensors[t];
        if (tensor->dtype != HYP_F32 || tensor->n_dims != (i == BIAS ? 1 : rank)) return false;
        for (size_t k = 0; k < tensor->n_dims; k++)
            if (dim_of(a, i, (int)k) < 1 || (i == ADDED && dim_of(a, i, (int)k) != dim_of(a, DST, (int)k)))
                return false;
    }
    int64_t x = dim_of(a, SRC, 1), y = dim_of(a, DST, 1);
    a->group = a->values[*a->call->attrs[3]->dims];
    if (a->group < 1 || x % a->group || y % a->group) return false;
    a->images = dim_of(a, DST, 0);
    a->x_lines = dim_of(a, SRC, 2);
    a->lines = dim_of(a, DST, 2);
    a->x_channels = x;
    a->y_channels = y;
    return dim_of(a, WEIGHTS, 0) == (a->transpose ? x : y) &&
           dim_of(a, WEIGHTS, 1) == (a->transpose ? y : x) / a->group && dim_of(a, SRC, 0) == a->images;
}

bool hyp_dnnl_read_window(asked *a)
{
    hyp_dnnl_window *w = &a->window;
    a->n = (int)a->program->tensors[a->call->inputs_plus1[0] - 1]->n_dims - 2;
    if (a->n < 1 || a->n > HYP_DNNL_SPATIAL) return false;
    a->transpose = strcmp(a->call->kernel, "conv-transpose") == 0;
    a->backward = strcmp(a->call->kernel, "conv-backward-weights") == 0;
    if (!read_tensors(a) || !read_list(a, 0, 0, 1, w->strides) || !read_list(a, 1, 0, 0, w->before) ||
        !read_list(a, 1, (size_t)a->n, 0, w->after) || !read_list(a, 2, 0, 1, w->dilates))
        return false;
    for (int i = 0; i < a->n; i++) w->dilates[i]--;
    int64_t last[HYP_DNNL_SPATIAL]; /* `more` or the kernel */
    if (a->transpose || a->backward) {
        if (!read_list(a, 4, 0, 0, last)) return false;
        for (int i = 0; i < a->n && a->transpose; i++) w->after[i] -= last[i];
        for (int i = 0; i < a->n && a->backward; i++)
            if (last[i] != dim_of(a, WEIGHTS, 2 + i)) return false;
        return a->transpose || !reads_nothing(a);
    }
    return !reads_nothing(a) &&
           hyp_dnnl_find_act(a->call->attrs[4]->text, a->call->n_attrs > 5 ? a->call->attrs[5]->number : 0, &a->act);
}

/* ---- primitives --------------------------------------------------------------------------------------------- */

/* Of images with the channels last, or, `own`, in whatever order. */
static dnnl_primitive_desc_t describe(const asked *a, dnnl_engine_t engine, bool own)
{
    hyp_md md[OPERANDS] = {NULL};
    bool there = true;
    for (int i = 0; i < OPERANDS; i++) {
        uint32_t t = hyp_dnnl_window_tensor(a, i);
        if (t == UINT32_MAX) continue;
        int64_t size = i == BIAS ? dim_of(a, i, 0) : 0, one = 1;
        md[i] = i == BIAS      ? hyp_md_create(1, &size, dnnl_f32, &one)
                : i == WEIGHTS ? hyp_dnnl_weights(a, false)
                : own          ? any_image(a, i)
                               : hyp_dnnl_image(a, i, true, true);
        there = there && md[i];
    }
    const hyp_dnnl_post post = {.alpha = 1.0f, .act = a->act, .accumulate = md[ADDED] != NULL};
    dnnl_primitive_desc_t pd = NULL;
    if (there && a->backward)
        pd = hyp_dnnl_backward_weights(engine, &a->window, md[SRC], md[WEIGHTS], md[DST]);
    else if (there)
        pd = hyp_dnnl_convolution(engine, a->transpose, &a->window, md[SRC], md[WEIGHTS], md[BIAS], md[DST], &post);
    for (int i = 0; i < OPERANDS; i++) hyp_md_destroy(md[i]);
    return pd;
}

dnnl_primitive_desc_t hyp_dnnl_describe_window(const asked *a, dnnl_engine_t engine, bool *out_own)
{
    dnnl_primitive_desc_t pd = describe(a, engine, false);
    *out_own = false;
    if (!a->backward || (pd && !hyp_dnnl_is_reference(pd))) return pd;
    if (pd) dnnl_primitive_desc_destroy(pd); /* of single channels, for example: its kernels have them in blocks */
    *out_own = true;
    return describe(a, engine, true);
}
