/* images.c - images that are resized or sampled. Where each element of a resized axis comes from is known when the file is
 * written, and a table in it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "c99/writer.h"
#include "kernels/resize.h"
#include "kernels/sample.h"

/* ---- resizing --------------------------------------------------------------------------------------- */

enum { MOST_ENTRIES = 1 << 22 /* of a table */ };

static void free_axes(hyp_resize_axis *axes)
{
    for (int32_t a = 0; a < HYP_MAX_RANK; a++) {
        hyp_free(axes[a].first);
        hyp_free(axes[a].weights);
    }
}

/* The axes of a call, with tables of those that change; the step is noted where one would be too large. */
static hyp_status plan_axes(hyp_c99_writer *w, const hyp_call_arguments *a, hyp_resize_axis *axes)
{
    for (int32_t i = 0; i < a->in[0].rank; i++) {
        hyp_resize_axis *axis = &axes[i];
        axis->in = a->in[0].dims[i];
        axis->out = a->out[0].dims[i];
        int64_t taps = hyp_resize_taps(&a->call, axis->in, axis->out);
        if (axis->out > MOST_ENTRIES || taps > MOST_ENTRIES / axis->out) {
            w->lacks = "is too large";
            return HYP_OK;
        }
        axis->first = hyp_calloc((size_t)axis->out, sizeof *axis->first);
        axis->weights = hyp_calloc((size_t)(axis->out * taps), sizeof *axis->weights);
        if (!axis->first || !axis->weights) return hyp_fail_memory(a->call.diag, (size_t)(axis->out * taps) * sizeof(double));
        HYP_TRY(hyp_resize_plan(&a->call, i, axis));
    }
    return HYP_OK;
}

/* `static const long from0[] = {...};`: neighbours of the elements along axis 0, times the step; -1: none, it is outside. */
static void put_sources(hyp_c99_writer *w, const hyp_resize_axis *a, int32_t number, int64_t step)
{
    hyp_strbuf_printf(&w->body, "        static const long from%d[] = {", number);
    for (int64_t i = 0; i < a->out * a->taps; i++) {
        bool outside = a->first[i / a->taps] == HYP_RESIZE_OUTSIDE;
        int64_t from = outside ? -1 : hyp_resize_source(a, i / a->taps, i % a->taps) * step;
        hyp_strbuf_printf(&w->body, "%s%" PRId64, i % 16 ? ", " : i ? ",\n            " : "", from);
    }
    hyp_strbuf_puts(&w->body, "};\n");
}

static void put_weights(hyp_c99_writer *w, const hyp_resize_axis *a, int32_t number)
{
    hyp_strbuf_printf(&w->body, "        static const float weights%d[] = {", number);
    for (int64_t i = 0; i < a->out * a->taps; i++) {
        hyp_strbuf_puts(&w->body, i % 8 ? ", " : i ? ",\n            " : "");
        hyp_c99_float(&w->body, a->weights[i]);
    }
    hyp_strbuf_puts(&w->body, "};\n");
}

static bool crops(const hyp_call_arguments *a)
{
    return strcmp(a->attrs[HYP_RESIZE_COORDINATES].sym, "tf_crop_and_resize") == 0;
}

/* Elements of any type, each of one place. */
static void put_nearest(hyp_c99_writer *w, const hyp_call_arguments *a, const hyp_resize_axis *axes)
{
    int64_t strides[HYP_MAX_RANK];
    hyp_c99_nest n = {.rank = (size_t)a->out[0].rank};
    hyp_array_strides(&a->in[0], strides);
    for (int32_t i = 0; i < a->in[0].rank; i++) {
        if (axes[i].taps) put_sources(w, &axes[i], i, strides[i]);
        n.extents[i] = axes[i].out;
    }
    hyp_c99_nest_lane(&n, NULL, NULL, 0);
    hyp_c99_nest_loops(w, &n, "i", 0);
    hyp_strbuf_puts(&w->body, "            y[");
    hyp_c99_nest_index(w, &n, 0, "i");
    hyp_strbuf_puts(&w->body, "] = ");
    for (int32_t i = 0; i < a->in[0].rank && crops(a); i++)
        if (axes[i].taps) hyp_strbuf_printf(&w->body, "from%d[i%d] < 0 ? outside : ", i, i);
    hyp_strbuf_puts(&w->body, "x[0");
    for (int32_t i = 0; i < a->in[0].rank; i++)
        if (axes[i].taps)
            hyp_strbuf_printf(&w->body, " + from%d[i%d]", i, i);
        else
            hyp_strbuf_printf(&w->body, " + i%d * %" PRId64 "L", i, strides[i]);
    hyp_strbuf_puts(&w->body, "];\n");
}

/* Floats, one axis after the other, between which they are in the room: in one half of it and the other in turns. */
static void put_interpolated(hyp_c99_writer *w, const hyp_call_arguments *a, const hyp_resize_axis *axes)
{
    int64_t outer = 1, inner = a->in[0].count, largest = 0;
    int32_t last = -1;
    char from[64] = "x", to[64];
    for (int32_t i = 0; i < a->in[0].rank; i++) {
        inner /= axes[i].in;
        outer *= axes[i].out;
        if (axes[i].taps) last = i;
        if (axes[i].taps && outer > INT64_MAX / inner) w->lacks = "is too large";
        if (!w->lacks && axes[i].taps && outer * inner > largest) largest = outer * inner;
    }
    if (last < 0) hyp_strbuf_printf(&w->body, "        for (long i = 0; i < %" PRId64 "; i++) y[i] = x[i];\n", a->out[0].count);
    if (w->lacks || last < 0 || !hyp_c99_want_room(w, (size_t)largest, 2)) return;
    outer = 1;
    inner = a->in[0].count;
    for (int32_t i = 0, turn = 0; i <= last; outer *= axes[i++].out) {
        inner /= axes[i].in;
        if (!axes[i].taps) continue;
        snprintf(to, sizeof to, turn++ % 2 ? "work->room + %" PRId64 : "work->room", largest);
        put_sources(w, &axes[i], i, inner);
        put_weights(w, &axes[i], i);
        hyp_strbuf_printf(&w->body,
                          "        hyp_resize(&(const struct hyp_axis){%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                          ", from%d, weights%d, outside}, %s, %s);\n",
                          outer, axes[i].in, axes[i].out, axes[i].taps, inner, i, i, from, i == last ? "y" : to);
        memcpy(from, to, sizeof from);
    }
    hyp_c99_want(w, "resize");
}

static hyp_status put_resize(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a, hyp_resize_axis *axes)
{
    HYP_TRY(plan_axes(w, a, axes));
    if (w->lacks) return HYP_OK;
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", hyp_plan_call_input(s, 0), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    if (crops(a) || a->in[0].dtype == HYP_F32) {
        hyp_strbuf_puts(&w->body, "        const float outside = ");
        hyp_c99_float(&w->body, a->attrs[HYP_RESIZE_EXTRAPOLATION].f);
        hyp_strbuf_puts(&w->body, ";\n        (void)outside;\n");
    }
    if (strcmp(a->attrs[HYP_RESIZE_MODE].sym, "nearest") == 0)
        put_nearest(w, a, axes);
    else
        put_interpolated(w, a, axes);
    hyp_c99_end(w);
    return HYP_OK;
}

hyp_status hyp_c99_resize(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    hyp_resize_axis axes[HYP_MAX_RANK] = {{0}};
    bool nearest = strcmp(a->attrs[HYP_RESIZE_MODE].sym, "nearest") == 0;
    for (size_t i = 1; i < s->n_inputs_plus1; i++)
        if (s->inputs_plus1[i] && !a->in[i].data) w->lacks = "takes scales that the data decide";
    if ((!nearest || crops(a)) && a->in[0].dtype != HYP_F32) w->lacks = "is of no floats of 32 bits";
    if (w->lacks) return HYP_OK;
    HYP_TRY(hyp_resize_check(&a->call));
    hyp_status status = put_resize(w, s, a, axes);
    free_axes(axes);
    return status;
}

/* ---- sampling --------------------------------------------------------------------------------------- */

hyp_status hyp_c99_grid_sample(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    static const char *const paddings[] = {[HYP_SAMPLE_ZEROS] = "HYP_ZEROS",
                                           [HYP_SAMPLE_BORDER] = "HYP_BORDER",
                                           [HYP_SAMPLE_REFLECTION] = "HYP_REFLECTION"};
    hyp_sampler g;
    HYP_TRY(hyp_kernel_read_grid_sample(&a->call, &g));
    for (size_t i = 0; i < 2; i++)
        if (a->in[i].dtype != HYP_F32) w->lacks = "is of no floats of 32 bits";
    if (w->lacks) return HYP_OK;
    hyp_strbuf_printf(&w->body, "    hyp_grid_sample(&(const struct hyp_grid){%" PRId64 ", %" PRId64 ", %d, {", a->in[0].dims[0],
                      a->in[0].dims[1], g.axes);
    for (int32_t i = 0; i < HYP_SAMPLE_AXES; i++)
        hyp_strbuf_printf(&w->body, "%s%" PRId64, i ? ", " : "", i < g.axes ? g.dims[i] : 1);
    hyp_strbuf_printf(&w->body, "}, %" PRId64 ", %d, %s, %d", g.places, g.taps, paddings[g.padding], g.align_corners);
    for (size_t i = 0; i < 2; i++) hyp_c99_operand(w, hyp_plan_call_input(s, i));
    hyp_c99_operand(w, s->outputs[0] + 1);
    hyp_strbuf_puts(&w->body, "});\n");
    hyp_c99_want(w, "grid_sample");
    return HYP_OK;
}
