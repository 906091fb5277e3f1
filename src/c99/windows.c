/* windows.c - convolutions and pools: calls of the functions of library/ that slide a window. */
#include "kernels/window.h"

#include <inttypes.h>

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

hyp_status hyp_c99_conv(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv(&a->call, false, &v));
    if (!has_form(w, a, &v.window)) return HYP_OK;
    bool apart =
        v.in_channels == 1 && v.out_channels < 4; /* few products of each channel: patches cost more than they save */
    hyp_c99_begin(w);
    put_window(w, &v.window);
    hyp_strbuf_printf(&w->body, "        const struct %s s = {%" PRId64 ", %" PRId64 ", ",
                      apart ? "hyp_depthwise" : "hyp_conv", v.batch, v.group);
    if (!apart) hyp_strbuf_printf(&w->body, "%" PRId64 ", ", v.in_channels);
    hyp_strbuf_printf(&w->body, "%" PRId64, v.out_channels);
    for (size_t i = 0; i < 4; i++) hyp_c99_operand(w, hyp_plan_call_input(s, i));
    hyp_strbuf_printf(&w->body, ", %d, ", v.act);
    hyp_c99_float(&w->body, v.p);
    hyp_c99_operand(w, s->outputs[0] + 1);
    hyp_strbuf_puts(&w->body, apart ? "};\n        hyp_convolve_channels(&s, &w);\n"
                                    : "};\n        hyp_convolve(&s, &w, work->room);\n");
    hyp_c99_end(w);
    hyp_c99_want_act(w, v.act);
    hyp_c99_want(w, apart ? "depthwise" : "conv");
    int64_t depth;
    if (apart || hyp_mul_i64(v.in_channels, v.window.kernel_count, &depth))
        hyp_c99_want_room(w, apart ? 0 : (size_t)depth, HYP_C99_PANEL);
    else
        w->lacks = "is too large";
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
