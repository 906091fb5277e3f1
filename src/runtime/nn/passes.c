/* passes.c - which steps a forward and a backward pass are, and on what memory they work. */
#include <stdio.h>

#include "base/dtype.h"
#include "runtime/nn/nn.h"

enum { PLACE = 256 }; /* what we give memory begins at multiples of */

/* ---- memory -------------------------------------------------------------------------------------------------- */

static bool add_place(size_t *end, int64_t rows, int64_t row_bytes, size_t *out_at)
{
    size_t bytes;
    *out_at = *end;
    if (!hyp_mul_size((size_t)rows, (size_t)row_bytes, &bytes) || !hyp_add_size(bytes, PLACE - 1, &bytes)) return false;
    return hyp_add_size(*end, bytes / PLACE * PLACE, end) && *end <= PTRDIFF_MAX;
}

/* Bytes of a row of values between layers, or of the sums before an activation. */
static int64_t hidden_row(const hyp_nn_call *c, size_t l)
{
    return hyp_nn_hidden_ld(hyp_nn_width(&c->layers[l])) * (int64_t)hyp_dtype_size(c->dtype);
}

bool hyp_nn_saved_at(const hyp_nn_call *c, size_t l, size_t *out_hidden, size_t *out_aux)
{
    size_t end = 0;
    bool fits = true;
    for (size_t i = 0; i < c->count && i <= l && fits; i++) {
        hyp_nn_act act = c->layers[i].act;
        int64_t row = act == HYP_NN_NONE   ? 0
                      : act == HYP_NN_RELU ? hyp_nn_mask_ld(hyp_nn_width(&c->layers[i])) / 8
                                           : hidden_row(c, i);
        fits = add_place(&end, c->rows, i + 1 < c->count ? hidden_row(c, i) : 0, out_hidden) &&
               add_place(&end, c->rows, row, out_aux);
    }
    if (l == c->count) *out_hidden = *out_aux = end;
    return fits;
}

/* The largest matrix between two steps: of values between layers, or of a gradient before the last activation. */
static bool part_bytes(const hyp_nn_call *c, size_t *out)
{
    size_t unused;
    int64_t most = 0;
    *out = 0;
    for (size_t l = 0; l < c->count; l++) {
        bool there = l + 1 < c->count || c->layers[l].act != HYP_NN_NONE;
        if (there && hidden_row(c, l) > most) most = hidden_row(c, l);
    }
    return add_place(out, c->rows, most, &unused);
}

hyp_status hyp_nn_workspace(const hyp_nn_call *c, size_t *out, hyp_diag *diag)
{
    if (part_bytes(c, out) && hyp_mul_size(*out, 2, out)) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_LIMIT, "the values between layers are too large for %lld rows", (long long)c->rows);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

static hyp_nn_step new_step(const hyp_nn_call *c, hyp_nn_kind kind, size_t l)
{
    hyp_nn_step s;
    hyp_nn_step_init(&s, kind, c->dtype, c->options.tf32 && c->dtype == HYP_F32);
    s.rows = c->rows;
    s.in = kind == HYP_NN_GRAD || kind == HYP_NN_SUMS ? 0 : c->layers[l].weight.dims[1];
    s.out = hyp_nn_width(&c->layers[l]);
    return s;
}

hyp_nn_relu hyp_nn_relu_of(const hyp_nn_call *c, size_t l)
{
    return (hyp_nn_relu){.dtype = (uint8_t)c->dtype,
                         .tf32 = c->options.tf32 && c->dtype == HYP_F32,
                         .rows = c->rows,
                         .in = c->layers[l].weight.dims[1],
                         .width = hyp_nn_width(&c->layers[l]),
                         .out = hyp_nn_width(&c->layers[l + 1])};
}

hyp_nn_relu *hyp_nn_find_relu(const hyp_nn_call *c, size_t l)
{
    if (c->layers[l].act != HYP_NN_RELU || l + 1 == c->count) return NULL;
    const hyp_nn_relu want = hyp_nn_relu_of(c, l);
    for (size_t i = 0; i < c->nn->relus.len; i++) {
        hyp_nn_relu *r = &c->nn->relus.data[i];
        if (r->dtype == want.dtype && r->tf32 == want.tf32 && r->rows == want.rows && r->in == want.in &&
            r->width == want.width && r->out == want.out)
            return r;
    }
    return NULL;
}

/* Whether the layer's activation leaves something for the backward pass. Between layers the result of a relu is kept in any case,
 * and reading it again by a kernel is faster than the mask, which slows both products: two layers of 256 to 16384 columns in all
 * types took 3 to 25 % more with it (H100, cuBLASLt 13.1; docs/nn.md). Tuning tries it. */
static bool leaves_aux(const hyp_nn_call *c, size_t l)
{
    hyp_nn_act act = c->layers[l].act;
    if (act != HYP_NN_RELU || l + 1 == c->count) return act != HYP_NN_NONE;
    const hyp_nn_relu *known = hyp_nn_find_relu(c, l);
    return known && known->mask;
}

/* What layer l has left in `saved`. */
static void set_saved(const hyp_nn_call *c, size_t l, hyp_nn_operands *at)
{
    size_t hidden = 0, aux = 0;
    bool fits = hyp_nn_saved_at(c, l, &hidden, &aux);
    (void)fits; /* was asked before */
    at->h = c->saved + hidden;
    at->aux = c->saved + aux;
}

hyp_status hyp_nn_forward_steps(const hyp_nn_call *c, char *workspace, hyp_nn_visit *visit, void *user, hyp_diag *diag)
{
    void *x = c->x;
    int64_t x_ld = c->x_ld;
    size_t part = 0;
    if (!c->saved && !part_bytes(c, &part)) part = 0;
    for (size_t l = 0; l < c->count; l++) {
        const hyp_nn_layer *layer = &c->layers[l];
        bool last = l + 1 == c->count;
        hyp_nn_step s = new_step(c, HYP_NN_FORWARD, l);
        hyp_nn_operands at = {.x = x, .w = layer->weight.data};
        if (c->saved) set_saved(c, l, &at);
        s.act = (uint8_t)layer->act;
        s.bias = hyp_nn_wanted(&layer->bias);
        s.aux = c->saved && leaves_aux(c, l);
        s.x_ld = x_ld;
        s.y_ld = last ? c->y_ld : hyp_nn_hidden_ld(s.out);
        at.y = last ? c->y : c->saved ? at.h : workspace + (l & 1) * part;
        if (s.bias) at.b = layer->bias.data;
        if (!s.aux) at.aux = NULL;
        at.h = NULL;
        HYP_TRY(visit(user, &s, &at, diag));
        x = at.y;
        x_ld = s.y_ld;
    }
    return HYP_OK;
}

static const hyp_tensor *gradient_of(const hyp_nn_call *c, size_t l, bool weight)
{
    const hyp_tensor *t = !c->gradients ? NULL : weight ? &c->gradients[l].weight : &c->gradients[l].bias;
    return t && hyp_nn_wanted(t) ? t : NULL;
}

/* A gradient with respect to the sums of a layer. */
typedef struct gradient {
    void *at;
    int64_t ld;
    bool summed; /* the gradient of the bias is there */
} gradient;

/* Layer l's own gradients. */
static hyp_status add_own(const hyp_nn_call *c, size_t l, const gradient *g, hyp_nn_visit *visit, void *user,
                          hyp_diag *diag)
{
    const hyp_tensor *weight = gradient_of(c, l, true), *bias = g->summed ? NULL : gradient_of(c, l, false);
    if (!weight && !bias) return HYP_OK;
    hyp_nn_step s = new_step(c, weight ? HYP_NN_WGRAD : HYP_NN_SUMS, l);
    hyp_nn_operands at = {.y = g->at, .w = weight ? weight->data : NULL, .b = bias ? bias->data : NULL};
    s.y_ld = g->ld;
    s.bias = bias != NULL;
    s.add = weight && c->options.accumulate;
    s.add_bias = bias && c->options.accumulate;
    if (weight && l > 0) {
        hyp_nn_operands before;
        set_saved(c, l - 1, &before);
        at.x = before.h;
        s.x_ld = hyp_nn_hidden_ld(s.in);
    } else if (weight) {
        at.x = c->x;
        s.x_ld = c->x_ld;
    }
    return visit(user, &s, &at, diag);
}

/* The gradient with respect to the sums of the layer before, at `to`, or of x. */
static hyp_status go_down(const hyp_nn_call *c, size_t l, char *to, gradient *g, hyp_nn_visit *visit, void *user,
                          hyp_diag *diag)
{
    hyp_nn_step s = new_step(c, HYP_NN_DGRAD, l);
    hyp_nn_operands at = {.y = g->at, .w = c->layers[l].weight.data, .x = l > 0 ? (void *)to : c->dx};
    s.y_ld = g->ld;
    s.x_ld = l > 0 ? hyp_nn_hidden_ld(s.in) : c->dx_ld;
    s.add = l == 0 && c->options.accumulate_input;
    g->summed = false;
    if (l > 0) {
        bool (*on_the_way)(const hyp_nn_step *) = c->nn->backend->nn->sums_on_the_way;
        const hyp_tensor *bias = gradient_of(c, l - 1, false);
        s.act = (uint8_t)c->layers[l - 1].act;
        s.aux = leaves_aux(c, l - 1);
        set_saved(c, l - 1, &at);
        g->summed = bias && (!on_the_way || on_the_way(&s));
        s.bias = g->summed;
        s.add_bias = g->summed && c->options.accumulate;
        if (g->summed) at.b = bias->data;
    }
    g->at = at.x;
    g->ld = s.x_ld;
    return visit(user, &s, &at, diag);
}

hyp_status hyp_nn_backward_steps(const hyp_nn_call *c, char *workspace, hyp_nn_visit *visit, void *user, hyp_diag *diag)
{
    size_t lowest = 0, part = 0;
    gradient g = {c->y, c->y_ld, false};
    if (!part_bytes(c, &part)) part = 0;
    while (!c->dx && lowest < c->count && !gradient_of(c, lowest, true) && !gradient_of(c, lowest, false)) lowest++;
    if (lowest == c->count) return HYP_OK;
    if (c->layers[c->count - 1].act != HYP_NN_NONE) {
        hyp_nn_step s = new_step(c, HYP_NN_GRAD, c->count - 1);
        hyp_nn_operands at = {.y = c->y, .x = workspace};
        hyp_nn_operands left;
        set_saved(c, c->count - 1, &left);
        at.aux = left.aux;
        s.act = (uint8_t)c->layers[c->count - 1].act;
        s.aux = 1;
        s.y_ld = c->y_ld;
        s.x_ld = hyp_nn_hidden_ld(s.out);
        HYP_TRY(visit(user, &s, &at, diag));
        g = (gradient){workspace, s.x_ld, false};
    }
    for (size_t l = c->count; l-- > lowest;) {
        HYP_TRY(add_own(c, l, &g, visit, user, diag));
        char *free_part = l == 0 ? NULL : workspace + (g.at == workspace ? part : 0);
        if (l > lowest || c->dx) HYP_TRY(go_down(c, l, free_part, &g, visit, user, diag));
    }
    return HYP_OK;
}

void hyp_nn_step_text(const hyp_nn_step *s, char out[HYP_NN_STEP_TEXT])
{
    static const char *const kinds[] = {"forward", "dgrad", "wgrad", "grad", "sums"};
    static const char *const acts[] = {"", " relu", " gelu", " gelu-tanh", " silu"};
    char in[32] = "";
    if (s->in > 0) snprintf(in, sizeof in, "x%lld", (long long)s->in);
    snprintf(out, HYP_NN_STEP_TEXT, "%s %s %lld%sx%lld%s%s%s%s", kinds[s->kind],
             s->tf32 ? "tf32" : hyp_dtype_name((hyp_dtype)s->dtype), (long long)s->rows, in, (long long)s->out,
             acts[s->act],
             !s->aux                 ? ""
             : s->act == HYP_NN_RELU ? " mask"
                                     : " saved",
             s->bias ? " bias" : "", s->add || s->add_bias ? " added" : "");
}
