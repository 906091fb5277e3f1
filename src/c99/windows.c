/* windows.c - convolutions and pools: calls of the functions of library/ that slide a window. */
#include "kernels/window.h"

#include <inttypes.h>

#include "base/elementwise.h"
#include "c99/writer.h"

static void put_list(hyp_c99_writer *w, const char *name, const int64_t *list, int32_t n, int64_t other)
{
    hyp_strbuf_printf(&w->body, ".%s = {", name);
    for (int32_t i = 0; i < 3; i++)
        hyp_strbuf_printf(&w->body, "%s%" PRId64, i ? ", " : "", i + n < 3 ? other : list[i + n - 3]);
    hyp_strbuf_puts(&w->body, "}");
}

/* Fewer axes than three are the last ones. */
static void put_window(hyp_c99_writer *w, const hyp_window *s)
{
    const struct {
        const char *name;
        const int64_t *list;
        int64_t other;
    } rows[] = {{"in", s->in, 1},         {"out", s->out, 1},           {"kernel", s->kernel, 1},
                {"stride", s->stride, 1}, {"dilation", s->dilation, 1}, {"before", s->before, 0},
                {"after", s->after, 0}};
    hyp_strbuf_puts(&w->body, "        static const struct hyp_window w = {");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (i) hyp_strbuf_puts(&w->body, i % 3 ? ", " : ",\n            ");
        put_list(w, rows[i].name, rows[i].list, s->n, rows[i].other);
    }
    hyp_strbuf_puts(&w->body, "};\n");
}

/* False, and the step is noted, where the library does not have it. */
static bool has_form(hyp_c99_writer *w, const hyp_call_arguments *a, const hyp_window *s)
{
    if (s->n > 3)
        w->lacks = "has more than three axes";
    else if (a->in[0].dtype != HYP_F32)
        w->lacks = "is of no floats of 32 bits";
    return !w->lacks;
}

/* ---- convolutions ----------------------------------------------------------------------------------- */

/* What there is of a weight in 16 bits: its functions widen a part of it at a time. */
static hyp_dtype weight_dtype(const hyp_c99_writer *w, const HypPlan__Call *s)
{
    return hyp_c99_dtype(w, hyp_plan_call_input(s, 1) - 1);
}

static void put_operands(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_conv *v)
{
    hyp_strbuf_printf(&w->body, ", %s", hyp_c99_kind(weight_dtype(w, s)));
    if (hyp_c99_is_short(weight_dtype(w, s))) hyp_c99_want(w, "floats");
    for (size_t i = 0; i < 4; i++) hyp_c99_operand(w, hyp_plan_call_input(s, i));
    hyp_strbuf_printf(&w->body, ", %d, ", v->act);
    hyp_c99_float(&w->body, v->p);
    hyp_c99_operand(w, s->outputs[0] + 1);
}

/* How library/depthwise.c lays out a channel; axes that the window lacks have one element. */
typedef struct layout {
    int64_t stride[3], phase[3], dilation[3], kernel[3], out[3];
    int64_t floats, sums; /* of the channel with its padding, of the results */
} layout;

/* False where the padding would be most of it, or the window is large. */
static bool lay_out(const hyp_window *s, layout *l)
{
    enum { WINDOW = 1024, LITTLE = 4096, RUN = 32 /* HYP_RUN there */ };
    l->floats = l->sums = 1;
    if (s->kernel_count > WINDOW) return false;
    for (int a = 0; a < 3; a++) {
        int at = a + s->n - 3;
        bool there = at >= 0;
        int64_t size = there ? s->before[at] + s->in[at] : 1;
        l->stride[a] = there ? s->stride[at] : 1;
        l->dilation[a] = there ? s->dilation[at] : 1;
        l->kernel[a] = there ? s->kernel[at] : 1;
        l->out[a] = there ? s->out[at] : 1;
        int64_t reach = (l->out[a] - 1) * l->stride[a] + (l->kernel[a] - 1) * l->dilation[a] + 1;
        if (reach > size) size = reach;
        l->phase[a] = (size + l->stride[a] - 1) / l->stride[a];
        if (!hyp_mul_i64(l->floats, l->stride[a] * l->phase[a], &l->floats)) return false;
        l->sums = a ? (l->sums - 1) * l->phase[a] + l->out[a] : l->out[a];
    }
    if (l->floats / 4 > s->in_count + LITTLE) return false;
    l->floats += RUN + (l->sums + RUN - 1) / RUN * RUN + s->kernel_count;
    return true;
}

/* Where each element of the window is for the first result. */
static void put_places(hyp_c99_writer *w, const layout *l, int64_t count)
{
    hyp_strbuf_puts(&w->body, "        static const long place[] = {");
    for (int64_t i = 0; i < count; i++) {
        const int64_t k[3] = {i / (l->kernel[1] * l->kernel[2]), i / l->kernel[2] % l->kernel[1], i % l->kernel[2]};
        int64_t number = 0, at = 0;
        for (int a = 0; a < 3; a++) {
            number = number * l->stride[a] + k[a] * l->dilation[a] % l->stride[a];
            at = at * l->phase[a] + k[a] * l->dilation[a] / l->stride[a];
        }
        hyp_strbuf_printf(&w->body, "%s%" PRId64, i ? ", " : "", number * l->phase[0] * l->phase[1] * l->phase[2] + at);
    }
    hyp_strbuf_puts(&w->body, "};\n");
}

static void put_channels(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_conv *v, const layout *l)
{
    put_places(w, l, v->window.kernel_count);
    hyp_strbuf_printf(&w->body, "        const struct hyp_depthwise s = {%" PRId64 ", %" PRId64 ", %" PRId64, v->batch, v->group,
                      v->out_channels);
    put_operands(w, s, v);
    hyp_strbuf_printf(&w->body, ",\n            {%" PRId64 ", %" PRId64 ", %" PRId64 "}, %" PRId64 ", place};\n", l->phase[0],
                      l->phase[1], l->phase[2], l->sums);
    hyp_strbuf_puts(&w->body, "        hyp_convolve_channels(&s, &w, work->room);\n");
    hyp_c99_want(w, "depthwise");
    hyp_c99_want_room(w, (size_t)l->floats, 1);
}

static void put_conv(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_conv *v)
{
    enum { ROWS = 4 /* HYP_ROWS of library/tile.c */ };
    int64_t depth;
    hyp_strbuf_printf(&w->body, "        const struct hyp_conv s = {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64, v->batch,
                      v->group, v->in_channels, v->out_channels);
    put_operands(w, s, v);
    hyp_strbuf_puts(&w->body, "};\n        hyp_convolve(&s, &w, work->room);\n");
    hyp_c99_want(w, "conv");
    if (hyp_mul_i64(v->in_channels, v->window.kernel_count, &depth))
        hyp_c99_want_room(w, (size_t)depth, HYP_C99_PANEL + (hyp_c99_is_short(weight_dtype(w, s)) ? ROWS : 0));
    else
        w->lacks = "is too large";
}

static void put_whole(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_conv *v)
{
    if (v->window.n > 3) w->lacks = "has more than three axes";
    if (v->act != HYP_PW_CAST) w->lacks = "is of integers and ends in a function";
    if (w->lacks) return;
    hyp_c99_begin(w);
    put_window(w, &v->window);
    hyp_strbuf_printf(&w->body, "        const struct hyp_conv_whole s = {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64,
                      v->batch, v->group, v->in_channels, v->out_channels);
    for (size_t i = 0; i < 4; i++) hyp_c99_operand(w, hyp_plan_call_input(s, i));
    hyp_c99_operand(w, s->outputs[0] + 1);
    hyp_strbuf_puts(&w->body, "};\n        hyp_convolve_whole(&s, &w);\n");
    hyp_c99_end(w);
    hyp_c99_want(w, "conv_whole");
}

hyp_status hyp_c99_conv(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    enum { FEW = 4 }; /* results of a channel: patches of it, which more of them share, cost more than they save */
    hyp_conv v;
    layout l;
    HYP_TRY(hyp_kernel_read_conv(&a->call, false, &v));
    if (a->in[0].dtype == HYP_I32) {
        put_whole(w, s, &v);
        return HYP_OK;
    }
    if (!has_form(w, a, &v.window)) return HYP_OK;
    hyp_c99_begin(w);
    put_window(w, &v.window);
    if (v.in_channels == 1 && v.out_channels < FEW && lay_out(&v.window, &l))
        put_channels(w, s, &v, &l);
    else
        put_conv(w, s, &v);
    hyp_c99_end(w);
    hyp_c99_want_act(w, v.act);
    return HYP_OK;
}

hyp_status hyp_c99_conv_transpose(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv(&a->call, true, &v));
    if (!has_form(w, a, &v.window)) return HYP_OK;
    hyp_c99_begin(w);
    put_window(w, &v.window);
    hyp_strbuf_printf(&w->body, "        const struct hyp_transposed s = {%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64,
                      v.batch, v.group, v.in_channels, v.out_channels);
    for (size_t i = 0; i < 3; i++) hyp_c99_operand(w, hyp_plan_call_input(s, i));
    hyp_c99_operand(w, s->outputs[0] + 1);
    hyp_strbuf_puts(&w->body, "};\n        hyp_convolve_back(&s, &w);\n");
    hyp_c99_end(w);
    hyp_c99_want(w, "conv_transpose");
    return HYP_OK;
}

hyp_status hyp_c99_pool(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    bool mean = strcmp(s->kernel, "average-pool") == 0, norm = strcmp(s->kernel, "lp-pool") == 0;
    hyp_window window;
    HYP_TRY(hyp_kernel_read_pool(&a->call, &window));
    if (!has_form(w, a, &window)) return HYP_OK;
    hyp_c99_begin(w);
    put_window(w, &window);
    hyp_strbuf_printf(&w->body, "        hyp_pool(&w, %" PRId64 ", %s, %d, ", a->in[0].dims[0] * a->in[0].dims[1],
                      mean   ? "HYP_MEAN"
                      : norm ? "HYP_NORM"
                             : "HYP_MAX",
                      mean && a->attrs[5].i != 0);
    hyp_c99_float(&w->body, norm ? (double)a->attrs[5].i : 0);
    hyp_c99_operand(w, hyp_plan_call_input(s, 0));
    hyp_c99_operand(w, s->outputs[0] + 1);
    hyp_strbuf_puts(&w->body, ");\n");
    hyp_c99_end(w);
    hyp_c99_want(w, "pool");
    return HYP_OK;
}

hyp_status hyp_c99_max_pool_places(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    hyp_window window;
    HYP_TRY(hyp_kernel_read_pool(&a->call, &window));
    if (!has_form(w, a, &window)) return HYP_OK;
    hyp_c99_begin(w);
    put_window(w, &window);
    hyp_strbuf_printf(&w->body, "        hyp_max_pool_places(&w, %" PRId64 ", %d", a->in[0].dims[0] * a->in[0].dims[1],
                      a->attrs[5].i != 0);
    hyp_c99_operand(w, hyp_plan_call_input(s, 0));
    for (size_t i = 0; i < 2; i++) hyp_c99_operand(w, s->outputs[i] + 1);
    hyp_strbuf_puts(&w->body, ");\n");
    hyp_c99_end(w);
    hyp_c99_want(w, "max_pool_places");
    return HYP_OK;
}
