/* calls.c - steps that call a kernel of src/kernels by its name. */
#include <inttypes.h>
#include <math.h>

#include "base/dtype.h"
#include "c99/writer.h"
#include "kernels/recurrent.h"

typedef hyp_status put_call(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);

static bool is_float(const hyp_call_arguments *a) { return a->in[0].dtype == HYP_F32; }

/* False, and the step is noted, unless the first input is of floats. */
static bool want_floats(hyp_c99_writer *w, const hyp_call_arguments *a)
{
    if (!is_float(a)) w->lacks = "is of no floats of 32 bits";
    return !w->lacks;
}

static void put_number(hyp_c99_writer *w, double number)
{
    hyp_strbuf_puts(&w->body, ", ");
    hyp_c99_float(&w->body, number);
}

/* ---- normalizations --------------------------------------------------------------------------------- */

static hyp_status put_layer_norm(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    bool rms = strcmp(s->kernel, "rms-norm") == 0;
    int64_t rows, size;
    HYP_TRY(hyp_kernel_norm_rows(&a->call, &rows, &size));
    if (!want_floats(w, a)) return HYP_OK;
    hyp_strbuf_printf(&w->body, "    hyp_%s(%" PRId64 ", %" PRId64, rms ? "rms_norm" : "layer_norm", rows, size);
    put_number(w, a->attrs[1].f);
    for (size_t i = 0; i < (rms ? 2 : 3); i++) hyp_c99_operand(w, hyp_plan_call_input(s, i));
    for (size_t i = 0; i < (rms ? 1 : 3); i++) hyp_c99_operand(w, i < s->n_outputs ? s->outputs[i] + 1 : 0);
    hyp_strbuf_puts(&w->body, ");\n");
    hyp_c99_want(w, rms ? "rms_norm" : "layer_norm");
    return HYP_OK;
}

static hyp_status put_lrn(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    int64_t outer, channels, inner;
    if (a->in[0].rank < 2 || a->attrs[0].i < 1 || !hyp_array_same_shape(&a->in[0], &a->out[0]))
        return hyp_kernel_fail(&a->call, "tensors that do not fit");
    if (!want_floats(w, a)) return HYP_OK;
    hyp_array_split(&a->in[0], 1, &outer, &channels, &inner);
    hyp_strbuf_printf(&w->body, "    hyp_lrn(%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64, outer, channels, inner,
                      a->attrs[0].i);
    for (int i = 1; i < 4; i++) put_number(w, a->attrs[i].f);
    hyp_c99_operand(w, hyp_plan_call_input(s, 0));
    hyp_c99_operand(w, s->outputs[0] + 1);
    hyp_strbuf_puts(&w->body, ");\n");
    hyp_c99_want(w, "lrn");
    return HYP_OK;
}

/* ---- recurrences ------------------------------------------------------------------------------------ */

static void put_field(hyp_c99_writer *w, const char *name, uint32_t tensor_plus1)
{
    if (!tensor_plus1) return;
    hyp_strbuf_printf(&w->body, "            .%s = ", name);
    hyp_c99_tensor(w, tensor_plus1 - 1);
    hyp_strbuf_puts(&w->body, ",\n");
}

static void put_cell(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_recurrence *r)
{
    static const char *const cells[] = {
        [HYP_CELL_RNN] = "HYP_RNN", [HYP_CELL_GRU] = "HYP_GRU", [HYP_CELL_LSTM] = "HYP_LSTM"};
    bool lstm = r->cell == HYP_CELL_LSTM;
    hyp_strbuf_printf(&w->body,
                      "        const struct hyp_recurrence s = {\n"
                      "            .cell = %s, .time = %" PRId64 ", .batch = %" PRId64 ", .size = %" PRId64
                      ",\n            .wide = %d, .reverse = %d, .coupled = %d, .reset_after = %d,\n"
                      "            .f = %d, .g = %d, .last = %d, .clip = ",
                      cells[r->cell], r->time, r->batch, r->size, r->lengths && r->lengths->dtype == HYP_I64, r->reverse,
                      r->coupled, r->reset_after, r->f, r->g, r->h);
    hyp_c99_float(&w->body, r->clip);
    hyp_strbuf_puts(&w->body, ",\n");
    put_field(w, "x", hyp_plan_call_input(s, 0));
    put_field(w, "r", hyp_plan_call_input(s, 1));
    put_field(w, "lengths", hyp_plan_call_input(s, r->lengths_at));
    put_field(w, "h0", hyp_plan_call_input(s, r->lengths_at + 1));
    if (r->cell == HYP_CELL_GRU) put_field(w, "bias", hyp_plan_call_input(s, 2));
    if (lstm) put_field(w, "c0", hyp_plan_call_input(s, r->lengths_at + 2));
    if (lstm) put_field(w, "peepholes", hyp_plan_call_input(s, 5));
    put_field(w, "y", s->outputs[0] + 1);
    put_field(w, "h", s->outputs[1] + 1);
    if (lstm) put_field(w, "c", s->outputs[2] + 1);
    if (lstm && s->n_outputs > 3) put_field(w, "cells", s->outputs[3] + 1);
    hyp_strbuf_puts(&w->body, "        };\n");
}

static hyp_status put_recurrence(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    hyp_recurrence r;
    HYP_TRY(hyp_recurrence_read(&a->call, &r));
    if (!want_floats(w, a)) return HYP_OK;
    if (r.lengths && r.lengths->dtype != HYP_I64 && r.lengths->dtype != HYP_I32) {
        w->lacks = "has lengths that are neither i32 nor i64";
        return HYP_OK;
    }
    hyp_c99_begin(w);
    put_cell(w, s, &r);
    hyp_strbuf_puts(&w->body,
                    r.lengths ? "        if (hyp_recur(&s, work->room)) " : "        hyp_recur(&s, work->room);\n");
    if (r.lengths) hyp_c99_fail(w);
    hyp_c99_end(w);
    const int acts[] = {r.f, r.g, r.h};
    for (int i = 0; i < 3; i++) hyp_c99_want_act(w, acts[i]);
    hyp_c99_want(w, "recurrence");
    hyp_c99_want_room(w, (size_t)r.size, (size_t)r.gates + 1);
    return HYP_OK;
}

/* ---- along an axis ---------------------------------------------------------------------------------- */

/* x and y by their names, and x as [outer, size, inner]. */
static hyp_status begin_axis(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a, int64_t axis)
{
    int64_t outer, size, inner;
    int32_t index;
    HYP_TRY(hyp_kernel_axis(&a->call, axis, a->in[0].rank, &index));
    hyp_array_split(&a->in[0], index, &outer, &size, &inner);
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", hyp_plan_call_input(s, 0), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    hyp_c99_long(w, "lanes", outer * inner);
    hyp_c99_long(w, "size", size);
    hyp_c99_long(w, "inner", inner);
    return HYP_OK;
}

/* The function that compares elements; NULL, and the step is noted, where there is none. */
static const char *comparison(hyp_c99_writer *w, const hyp_call_arguments *a)
{
    if (a->in[0].dtype == HYP_U64) w->lacks = "compares u64";
    hyp_c99_want(w, is_float(a) ? "better" : "better_whole");
    return is_float(a) ? "hyp_better" : "hyp_better_whole";
}

static hyp_status put_argmax(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    const char *better = comparison(w, a);
    int largest = strcmp(s->kernel, "argmax") == 0;
    HYP_TRY(begin_axis(w, s, a, a->attrs[0].i));
    if (a->out[0].dtype != HYP_I64 || a->out[0].count > a->in[0].count)
        return hyp_kernel_fail(&a->call, "the result is of another type");
    hyp_strbuf_printf(&w->body,
                      "        for (long lane = 0; lane < lanes; lane++) {\n"
                      "            long first = lane / inner * size * inner + lane %% inner, best = 0;\n"
                      "            for (long i = 1; i < size; i++)\n"
                      "                if (%s%s(x[first + %s * inner], x[first + %s * inner], %d, 1)) best = i;\n"
                      "            y[lane] = best;\n        }\n",
                      a->attrs[2].i ? "!" : "", better, a->attrs[2].i ? "best" : "i", a->attrs[2].i ? "i" : "best", largest);
    hyp_c99_end(w);
    return HYP_OK;
}

/* The list of places is kept in the result while it grows. */
static hyp_status put_topk(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    const char *better = comparison(w, a);
    int largest = a->attrs[2].i != 0;
    HYP_TRY(begin_axis(w, s, a, a->attrs[0].i));
    int64_t size = a->in[0].dims[a->attrs[0].i < 0 ? a->attrs[0].i + a->in[0].rank : a->attrs[0].i];
    if (a->attrs[1].count != 1 || a->attrs[1].ints[0] < 0 || a->attrs[1].ints[0] > size || a->out[1].dtype != HYP_I64)
        return hyp_kernel_fail(&a->call, "k or the list of indices does not fit");
    hyp_c99_pointer(w, "places", s->outputs[1] + 1, false);
    hyp_c99_long(w, "k", a->attrs[1].ints[0]);
    hyp_strbuf_printf(
        &w->body,
        "        for (long lane = 0; lane < lanes; lane++) {\n"
        "            long first = lane / inner * size * inner + lane %% inner;\n"
        "            long to = lane / inner * k * inner + lane %% inner;\n"
        "            for (long i = 0, count = 0; i < size; i++) {\n"
        "                long at = count < k ? count++ : k;\n"
        "                for (; at > 0 && %s(x[first + i * inner], x[first + places[to + (at - 1) * inner] * inner],\n"
        "                                    %d, %d); at--)\n"
        "                    if (at < k) places[to + at * inner] = places[to + (at - 1) * inner];\n"
        "                if (at < k) places[to + at * inner] = i;\n"
        "            }\n"
        "            for (long i = 0; i < k; i++)\n"
        "                y[to + i * inner] = x[first + places[to + i * inner] * inner];\n"
        "        }\n",
        better, largest, largest);
    hyp_c99_end(w);
    return HYP_OK;
}

static hyp_status put_scan(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    bool product = strcmp(s->kernel, "cumprod") == 0, exclusive = a->attrs[1].i != 0, reverse = a->attrs[2].i != 0;
    HYP_TRY(begin_axis(w, s, a, a->attrs[0].i));
    hyp_c99_typedef(w, "T", a->in[0].dtype);
    hyp_c99_typedef(w, "S", is_float(a) ? HYP_F32 : HYP_U64);
    hyp_strbuf_printf(&w->body,
                      "        for (long lane = 0; lane < lanes; lane++) {\n"
                      "            S total = %d;\n"
                      "            for (long i = 0; i < size; i++) {\n"
                      "                long at = lane / inner * size * inner + lane %% inner + (%s) * inner;\n"
                      "                S next = total %c (S)x[at];\n"
                      "                y[at] = (T)%s;\n"
                      "                total = next;\n"
                      "            }\n        }\n",
                      product, reverse ? "size - 1 - i" : "i", product ? '*' : '+', exclusive ? "total" : "next");
    hyp_c99_end(w);
    return HYP_OK;
}

/* ---- over axes -------------------------------------------------------------------------------------- */

/* Axes of the first input that a list names, or does not. */
static hyp_status split_axes(const hyp_call_arguments *a, hyp_c99_nest *kept, hyp_c99_nest *reduced)
{
    const hyp_array *x = &a->in[0];
    bool named[HYP_MAX_RANK] = {false};
    int64_t strides[HYP_MAX_RANK];
    *kept = *reduced = (hyp_c99_nest){.lanes = 1};
    for (uint32_t i = 0; i < a->attrs[0].count; i++) {
        int32_t axis;
        HYP_TRY(hyp_kernel_axis(&a->call, a->attrs[0].ints[i], x->rank, &axis));
        named[axis] = true;
    }
    hyp_array_strides(x, strides);
    for (int32_t i = 0; i < x->rank; i++) {
        hyp_c99_nest *n = named[i] ? reduced : kept;
        n->strides[0][n->rank] = strides[i];
        n->extents[n->rank++] = x->dims[i];
    }
    hyp_c99_nest_lane(kept, NULL, NULL, 0);
    int64_t results = 1;
    for (size_t i = 0; i < kept->rank; i++) results *= kept->extents[i];
    return results == a->out[0].count ? HYP_OK : hyp_kernel_fail(&a->call, "the result is of another size");
}

static hyp_status put_extremum(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    bool product = strcmp(s->kernel, "reduce-prod") == 0;
    const char *better = product ? NULL : comparison(w, a);
    hyp_c99_nest kept, reduced;
    HYP_TRY(split_axes(a, &kept, &reduced));
    hyp_c99_nest_merge(&kept);
    hyp_c99_nest_merge(&reduced);
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", hyp_plan_call_input(s, 0), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    hyp_c99_typedef(w, "T", a->in[0].dtype);
    hyp_c99_typedef(w, "S", is_float(a) || !product ? a->in[0].dtype : HYP_U64);
    hyp_c99_nest_loops(w, &kept, "i", 0);
    hyp_strbuf_puts(&w->body, "        {\n            const T *from = x + ");
    hyp_c99_nest_index(w, &kept, 0, "i");
    hyp_strbuf_printf(&w->body, ";\n            S best = %s;\n", product ? "1" : "from[0]");
    hyp_c99_nest_loops(w, &reduced, "k", 0);
    hyp_strbuf_puts(&w->body, "            {\n            const S v = (S)from[");
    hyp_c99_nest_index(w, &reduced, 0, "k");
    if (product)
        hyp_strbuf_puts(&w->body, "];\n            best *= v;\n            }\n");
    else
        hyp_strbuf_printf(&w->body, "];\n            best = %s(v, best, %d, 1) ? v : best;\n            }\n", better,
                          strcmp(s->kernel, "reduce-max") == 0);
    hyp_strbuf_puts(&w->body, "            y[");
    hyp_c99_nest_index(w, &kept, 1, "i");
    hyp_strbuf_puts(&w->body, "] = (T)best;\n        }\n");
    hyp_c99_end(w);
    return HYP_OK;
}

/* ---- by position ------------------------------------------------------------------------------------ */

static hyp_status put_range(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    if (a->in[0].count != 1 || a->in[1].count != 1) return hyp_kernel_fail(&a->call, "two scalars are wanted");
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "start", hyp_plan_call_input(s, 0), true);
    hyp_c99_pointer(w, "delta", hyp_plan_call_input(s, 1), true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    hyp_c99_typedef(w, "T", a->out[0].dtype);
    hyp_c99_typedef(w, "S", is_float(a) ? HYP_F32 : HYP_U64);
    hyp_strbuf_printf(&w->body,
                      "        for (long i = 0; i < %" PRId64 "; i++) y[i] = (T)((S)start[0] + (S)i * (S)delta[0]);\n",
                      a->out[0].count);
    hyp_c99_end(w);
    return HYP_OK;
}

static hyp_status put_trilu(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a)
{
    const hyp_array *x = &a->in[0];
    uint32_t diagonal = hyp_plan_call_input(s, 1);
    if (x->rank < 2 || x->count != a->out[0].count || (diagonal && a->in[1].count != 1))
        return hyp_kernel_fail(&a->call, "matrices and an integer are wanted");
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", hyp_plan_call_input(s, 0), true);
    if (diagonal) hyp_c99_pointer(w, "k", diagonal, true);
    hyp_c99_pointer(w, "y", s->outputs[0] + 1, false);
    hyp_c99_long(w, "rows", x->dims[x->rank - 2]);
    hyp_c99_long(w, "columns", x->dims[x->rank - 1]);
    hyp_strbuf_printf(&w->body,
                      "        const int64_t all = %s, edge = all > columns ? columns : all < -rows ? -rows : all;\n"
                      "        for (long i = 0; i < %" PRId64 "; i++)\n"
                      "            y[i] = i %% columns %s i / columns %% rows + edge ? x[i] : 0;\n",
                      diagonal ? "(int64_t)k[0]" : "0", x->count, a->attrs[0].i ? ">=" : "<=");
    hyp_c99_end(w);
    return HYP_OK;
}

/* ---- which there are -------------------------------------------------------------------------------- */

static const struct {
    const char *kernel;
    put_call *put;
} calls[] = {
    {"conv", hyp_c99_conv},
    {"conv-transpose", hyp_c99_conv_transpose},
    {"max-pool", hyp_c99_pool},
    {"average-pool", hyp_c99_pool},
    {"lp-pool", hyp_c99_pool},
    {"max-pool-places", hyp_c99_max_pool_places},
    {"layer-norm", put_layer_norm},
    {"layer-norm-stats", put_layer_norm},
    {"rms-norm", put_layer_norm},
    {"lrn", put_lrn},
    {"lstm", put_recurrence},
    {"lstm-cells", put_recurrence},
    {"gru", put_recurrence},
    {"rnn", put_recurrence},
    {"argmax", put_argmax},
    {"argmin", put_argmax},
    {"topk", put_topk},
    {"cumsum", put_scan},
    {"cumprod", put_scan},
    {"reduce-max", put_extremum},
    {"reduce-min", put_extremum},
    {"reduce-prod", put_extremum},
    {"gather-elements", hyp_c99_gather_elements},
    {"gather-nd", hyp_c99_gather_nd},
    {"one-hot", hyp_c99_one_hot},
    {"scatter-elements", hyp_c99_scatter_elements},
    {"scatter-nd", hyp_c99_scatter_nd},
    {"resize", hyp_c99_resize},
    {"grid-sample", hyp_c99_grid_sample},
    {"range", put_range},
    {"trilu", put_trilu},
};

/* What a weight has; NULL: it is none. Only read. */
static void *weight_data(const hyp_c99_writer *w, uint32_t tensor)
{
    uint32_t root = hyp_plan_root(w->p, tensor);
    if (w->p->tensors[root]->place != HYP_PLAN__PLACE__PLACE_WEIGHT || w->wide[tensor]) return NULL;
    const uint8_t *data = hyp_plan_weight(w->plan, root);
    return data ? (void *)(uintptr_t)(data + hyp_plan_first_byte(w->p, tensor)) : NULL;
}

/* With its data, where they are known, and the type that is computed in. */
static void take_operand(const hyp_c99_writer *w, uint32_t tensor, hyp_array *a)
{
    a->data = weight_data(w, tensor);
    if (hyp_c99_is_short(a->dtype)) a->dtype = a->stored = HYP_F32;
}

hyp_status hyp_c99_call(hyp_c99_writer *w, const HypPlan__Call *s, hyp_diag *diag)
{
    const hyp_kernel *kernel;
    hyp_call_arguments a;
    HYP_TRY(hyp_plan_call_kernel(w->p, s, &kernel, diag));
    hyp_plan_call_arguments(w->p, s, w->values, diag, &a);
    for (size_t i = 0; i < s->n_inputs_plus1; i++)
        if (s->inputs_plus1[i]) take_operand(w, s->inputs_plus1[i] - 1, &a.in[i]);
    for (size_t i = 0; i < s->n_outputs; i++) take_operand(w, s->outputs[i], &a.out[i]);
    for (size_t i = 0; i < s->n_inputs_plus1 + s->n_outputs; i++) {
        const hyp_array *x = i < s->n_inputs_plus1 ? &a.in[i] : &a.out[i - s->n_inputs_plus1];
        if (x->dtype != HYP_DTYPE_NONE && x->count == 0 && !w->lacks) w->lacks = "has a tensor of no elements";
    }
    if (w->lacks) return HYP_OK;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].kernel, s->kernel) == 0) return calls[i].put(w, s, &a);
    w->lacks = "";
    return HYP_OK;
}
