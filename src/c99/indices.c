/* indices.c - what is picked, or put, where the data say. */
#include <inttypes.h>
#include <stdio.h>

#include "base/elementwise.h"
#include "c99/writer.h"
#include "kernels/scatter.h"

/* ---- gathers ---------------------------------------------------------------------------------------- */

static void put_longs(hyp_c99_writer *w, const char *name, const int64_t *list, int64_t count)
{
    hyp_strbuf_printf(&w->body, "        static const long %s[] = {", name);
    for (int64_t i = 0; i < count; i++) hyp_strbuf_printf(&w->body, "%s%" PRId64, i ? ", " : "", list[i]);
    hyp_strbuf_puts(&w->body, count ? "};\n" : "0};\n");
}

/* Loops over the indices: the first lane is where they are, the second where in the data their elements are, but for the axis,
 * along which these are so far apart as is given back. */
static int64_t nest_along(const hyp_call_arguments *a, int32_t axis, hyp_c99_nest *n)
{
    const hyp_array *indices = &a->in[1];
    int64_t strides[HYP_MAX_RANK];
    *n = (hyp_c99_nest){.rank = (size_t)indices->rank};
    hyp_array_strides(&a->in[0], strides);
    for (int32_t i = 0; i < indices->rank; i++) {
        n->extents[i] = indices->dims[i];
        n->strides[1][i] = i == axis ? 0 : strides[i];
    }
    hyp_c99_nest_lane(n, NULL, NULL, 0);
    n->lanes = 2;
    hyp_c99_nest_merge(n);
    return strides[axis];
}

/* `place`, where the index is, and `at`, what it says along an axis of this size. */
static void put_place(hyp_c99_writer *w, const hyp_c99_nest *n, int64_t size)
{
    hyp_strbuf_puts(&w->body, "            const long place = ");
    hyp_c99_nest_index(w, n, 0, "i");
    hyp_strbuf_printf(&w->body,
                      ";\n            const int64_t at = (int64_t)indices[place] + (indices[place] < 0 ? %" PRId64
                      " : 0);\n            if (at < 0 || at >= %" PRId64 ") ",
                      size, size);
    hyp_c99_fail(w);
}

hyp_status hyp_c99_gather_elements(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    hyp_c99_nest n;
    int32_t axis;
    HYP_TRY(hyp_kernel_read_gather_elements(&a->call, &axis));
    int64_t step = nest_along(a, axis, &n);
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", hyp_plan_call_input(s, 0), true);
    hyp_c99_pointer(w, "indices", hyp_plan_call_input(s, 1), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    hyp_c99_nest_loops(w, &n, "i", 0);
    hyp_strbuf_puts(&w->body, "        {\n");
    put_place(w, &n, a->in[0].dims[axis]);
    hyp_strbuf_puts(&w->body, "            y[place] = x[");
    hyp_c99_nest_index(w, &n, 1, "i");
    hyp_strbuf_printf(&w->body, " + (long)at * %" PRId64 "];\n        }\n", step);
    hyp_c99_end(w);
    return HYP_OK;
}

/* Begins a loop over tuples t of indices into axes of these dims and strides: `place` is what one says, from `first` on. */
static void put_tuples(hyp_c99_writer *w, const int64_t *dims, const int64_t *strides, int64_t tuples, int32_t width,
                       const char *first)
{
    put_longs(w, "dims", dims, width);
    put_longs(w, "strides", strides, width);
    hyp_strbuf_printf(&w->body,
                      "        for (long t = 0; t < %" PRId64 "; t++) {\n"
                      "            long place = %s;\n"
                      "            for (long k = 0; k < %d; k++) {\n"
                      "                int64_t at = (int64_t)indices[t * %d + k];\n"
                      "                if (at < 0) at += dims[k];\n                if (at < 0 || at >= dims[k]) ",
                      tuples, first, width, width);
    hyp_c99_fail(w);
    hyp_strbuf_puts(&w->body, "                place += (long)at * strides[k];\n            }\n");
}

hyp_status hyp_c99_gather_nd(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    char first[64];
    hyp_gather_nd g;
    HYP_TRY(hyp_kernel_read_gather_nd(&a->call, &g));
    snprintf(first, sizeof first, "t / %" PRId64 " * %" PRId64, g.of_batch, g.batch);
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", hyp_plan_call_input(s, 0), true);
    hyp_c99_pointer(w, "indices", hyp_plan_call_input(s, 1), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    put_tuples(w, a->in[0].dims + g.first, g.strides + g.first, g.tuples, g.width, first);
    hyp_strbuf_printf(&w->body,
                      "            for (long i = 0; i < %" PRId64 "; i++) y[t * %" PRId64 " + i] = x[place + i];\n        }\n",
                      g.inner, g.inner);
    hyp_c99_end(w);
    return HYP_OK;
}

hyp_status hyp_c99_one_hot(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    const hyp_array *indices = &a->in[0], *y = &a->out[0];
    int64_t outer, depth, inner;
    int32_t axis;
    HYP_TRY(hyp_kernel_axis(&a->call, a->attrs[0].i, y->rank, &axis));
    hyp_array_split(y, axis, &outer, &depth, &inner);
    if (hyp_array_is_float(indices)) w->lacks = "has indices that are floats";
    if (outer * inner != indices->count || a->in[1].count != 2)
        return hyp_kernel_fail(&a->call, "the shapes do not fit each other");
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "indices", hyp_plan_call_input(s, 0), true);
    hyp_c99_pointer(w, "values", hyp_plan_call_input(s, 1), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    hyp_c99_long(w, "depth", depth);
    hyp_c99_long(w, "inner", inner);
    hyp_strbuf_printf(&w->body,
                      "        for (long i = 0; i < %" PRId64 "; i++) y[i] = values[0];\n"
                      "        for (long i = 0; i < %" PRId64 "; i++) {\n"
                      "            const int64_t at = (int64_t)indices[i] + (indices[i] < 0 ? depth : 0);\n"
                      "            if (at < 0 || at >= depth) continue;\n"
                      "            y[(i / inner * depth + (long)at) * inner + i %% inner] = values[1];\n"
                      "        }\n",
                      y->count, indices->count);
    hyp_c99_end(w);
    return HYP_OK;
}

/* ---- scatters --------------------------------------------------------------------------------------- */

/* x, indices, updates and y by their names, and x copied to y. */
static void begin_scatter(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    static const char *const names[] = {"x", "indices", "updates"};
    hyp_c99_begin(w);
    for (size_t i = 0; i < 3; i++) hyp_c99_pointer(w, names[i], hyp_plan_call_input(s, i), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    hyp_c99_typedef(w, "T", hyp_c99_dtype(w, s->outputs[0]));
    hyp_strbuf_printf(&w->body, "        for (long i = 0; i < %" PRId64 "; i++) y[i] = x[i];\n", a->out[0].count);
}

/* `*to` by `*from`, two elements. */
static void put_combined(hyp_c99_writer *w, uint32_t how, hyp_dtype dtype)
{
    const char *nan = dtype == HYP_F32 ? " || b != b" : "", *sums = dtype == HYP_F32 ? "float" : "uint64_t";
    if (how == HYP_PW_CAST) {
        hyp_strbuf_puts(&w->body, "            *to = *from;\n");
        return;
    }
    hyp_strbuf_puts(&w->body, "            const T a = *to, b = *from;\n            *to = ");
    if (how == HYP_PW_ADD || how == HYP_PW_MUL)
        hyp_strbuf_printf(&w->body, "(T)((%s)a %c (%s)b);\n", sums, how == HYP_PW_ADD ? '+' : '*', sums);
    else
        hyp_strbuf_printf(&w->body, "b %c a%s ? b : a;\n", how == HYP_PW_MIN ? '<' : '>', nan);
}

hyp_status hyp_c99_scatter_elements(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    const hyp_array *x = &a->in[0];
    hyp_c99_nest n;
    uint32_t how;
    int32_t axis;
    HYP_TRY(hyp_kernel_read_scatter_elements(&a->call, &axis, &how));
    int64_t step = nest_along(a, axis, &n);
    begin_scatter(w, s, a);
    hyp_c99_nest_loops(w, &n, "i", 0);
    hyp_strbuf_puts(&w->body, "        {\n");
    put_place(w, &n, x->dims[axis]);
    hyp_strbuf_puts(&w->body, "            const T *from = updates + place;\n            T *to = y + ");
    hyp_c99_nest_index(w, &n, 1, "i");
    hyp_strbuf_printf(&w->body, " + (long)at * %" PRId64 ";\n", step);
    put_combined(w, how, x->dtype);
    hyp_strbuf_puts(&w->body, "        }\n");
    hyp_c99_end(w);
    return HYP_OK;
}

hyp_status hyp_c99_scatter_nd(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    hyp_scatter_nd g;
    HYP_TRY(hyp_kernel_read_scatter_nd(&a->call, &g));
    begin_scatter(w, s, a);
    put_tuples(w, a->in[0].dims, g.strides, g.tuples, g.width, "0");
    hyp_strbuf_printf(&w->body,
                      "            for (long i = 0; i < %" PRId64 "; i++) {\n"
                      "            const T *from = updates + t * %" PRId64 " + i;\n"
                      "            T *to = y + place + i;\n",
                      g.inner, g.inner);
    put_combined(w, g.combine, a->out[0].dtype);
    hyp_strbuf_puts(&w->body, "            }\n        }\n");
    hyp_c99_end(w);
    return HYP_OK;
}
