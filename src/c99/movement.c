/* movement.c - what moves elements or adds them up. Innermost loops run over what lies one behind the other. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "c99/writer.h"

void hyp_c99_softmax(hyp_c99_writer *w, const HypPlan__Softmax *s)
{
    if (hyp_c99_dtype(w, s->x) != HYP_F32) {
        w->lacks = "is of no floats of 32 bits";
        return;
    }
    hyp_strbuf_printf(&w->body, "    hyp_softmax(%" PRId64 ", %" PRId64 ", %" PRId64 ", ", w->values[s->outer],
                      w->values[s->axis], w->values[s->inner]);
    hyp_c99_tensor(w, s->x);
    hyp_strbuf_puts(&w->body, ", ");
    hyp_c99_tensor(w, s->y);
    hyp_strbuf_puts(&w->body, ");\n");
    hyp_c99_want(w, "softmax");
}

/* ---- copies ----------------------------------------------------------------------------------------- */

static void swap_axes(hyp_c99_nest *n, size_t a, size_t b)
{
    int64_t extent = n->extents[a];
    n->extents[a] = n->extents[b];
    n->extents[b] = extent;
    for (size_t l = 0; l < n->lanes; l++) {
        int64_t stride = n->strides[l][a];
        n->strides[l][a] = n->strides[l][b];
        n->strides[l][b] = stride;
    }
}

/* The axis along which a lane goes in the smallest steps becomes the last one. */
static void sort_axes(hyp_c99_nest *n, size_t lane)
{
    for (size_t i = 1; i < n->rank; i++)
        for (size_t j = i; j > 0 && llabs(n->strides[lane][j - 1]) < llabs(n->strides[lane][j]); j--) swap_axes(n, j - 1, j);
}

void hyp_c99_copy(hyp_c99_writer *w, const HypPlan__Copy *s)
{
    hyp_c99_nest n;
    hyp_c99_nest_init(&n, w->values, s->extents, s->n_extents);
    hyp_c99_nest_lane(&n, w->values, s->x_strides, w->values[s->x_offset]);
    hyp_c99_nest_lane(&n, w->values, s->y_strides, w->values[s->y_offset]);
    hyp_c99_nest_merge(&n);
    sort_axes(&n, 1);
    for (size_t i = 0; i < n.rank; i++)
        if (n.extents[i] == 0) return;
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", s->x + 1, true);
    hyp_c99_pointer(w, "y", s->y + 1, false);
    hyp_c99_nest_loops(w, &n, "i", 0);
    hyp_strbuf_puts(&w->body, "            y[");
    hyp_c99_nest_index(w, &n, 1, "i");
    hyp_strbuf_puts(&w->body, "] = x[");
    hyp_c99_nest_index(w, &n, 0, "i");
    hyp_strbuf_puts(&w->body, "];\n");
    hyp_c99_end(w);
}

/* ---- reductions ------------------------------------------------------------------------------------- */

static void put_index(hyp_c99_writer *w, const hyp_c99_nest *kept, const hyp_c99_nest *reduced)
{
    hyp_c99_nest_index(w, kept, 0, "i");
    hyp_strbuf_puts(&w->body, " + ");
    hyp_c99_nest_index(w, reduced, 0, "k");
}

/* Rows of results one behind the other: each row of x is added to one. */
static void put_rows(hyp_c99_writer *w, hyp_c99_nest *kept, const hyp_c99_nest *reduced, double scale)
{
    size_t last = kept->rank - 1;
    int64_t width = kept->extents[last];
    kept->strides[0][last] = kept->strides[1][last] = 0;
    hyp_c99_nest_loops(w, kept, "i", 1);
    hyp_strbuf_puts(&w->body, "        {\n        float *row = y + ");
    hyp_c99_nest_index(w, kept, 1, "i");
    hyp_strbuf_printf(&w->body, ";\n        for (long j = 0; j < %" PRId64 "; j++) row[j] = 0;\n", width);
    hyp_c99_nest_loops(w, reduced, "k", 0);
    hyp_strbuf_puts(&w->body, "        {\n            const float *from = x + ");
    put_index(w, kept, reduced);
    hyp_strbuf_printf(&w->body, ";\n            for (long j = 0; j < %" PRId64 "; j++) row[j] += from[j];\n        }\n",
                      width);
    if (scale != 1) {
        hyp_strbuf_printf(&w->body, "        for (long j = 0; j < %" PRId64 "; j++) row[j] /= ", width);
        hyp_c99_float(&w->body, scale);
        hyp_strbuf_puts(&w->body, ";\n");
    }
    hyp_strbuf_puts(&w->body, "        }\n");
}

/* One result after the other; what is one behind the other is added up by hyp_sum. */
static void put_sums(hyp_c99_writer *w, const hyp_c99_nest *kept, hyp_c99_nest *reduced, double scale)
{
    bool lanes = reduced->rank && reduced->strides[0][reduced->rank - 1] == 1;
    int64_t width = lanes ? reduced->extents[reduced->rank - 1] : 1;
    hyp_c99_nest_loops(w, kept, "i", 0);
    hyp_strbuf_puts(&w->body, "        {\n        float sum = 0;\n");
    hyp_c99_nest_loops(w, reduced, "k", lanes);
    if (lanes) reduced->strides[0][reduced->rank - 1] = 0;
    hyp_strbuf_puts(&w->body, lanes ? "            sum += hyp_sum(x + " : "            sum += x[");
    put_index(w, kept, reduced);
    if (lanes)
        hyp_strbuf_printf(&w->body, ", %" PRId64 ");\n", width);
    else
        hyp_strbuf_puts(&w->body, "];\n");
    hyp_strbuf_puts(&w->body, "        y[");
    hyp_c99_nest_index(w, kept, 1, "i");
    hyp_strbuf_puts(&w->body, "] = sum / ");
    hyp_c99_float(&w->body, scale);
    hyp_strbuf_puts(&w->body, ";\n        }\n");
    if (lanes) hyp_c99_want(w, "sum");
}

/* Integers: sums of unsigned ones, which wrap. */
static void put_whole_sums(hyp_c99_writer *w, hyp_dtype t, const hyp_c99_nest *kept, const hyp_c99_nest *reduced,
                           int64_t count)
{
    hyp_c99_nest_loops(w, kept, "i", 0);
    hyp_strbuf_puts(&w->body, "        {\n        uint64_t sum = 0;\n");
    hyp_c99_nest_loops(w, reduced, "k", 0);
    hyp_strbuf_puts(&w->body, "            sum += (uint64_t)x[");
    put_index(w, kept, reduced);
    hyp_strbuf_puts(&w->body, "];\n        y[");
    hyp_c99_nest_index(w, kept, 1, "i");
    hyp_strbuf_printf(&w->body, "] = (%s)((int64_t)sum / %" PRId64 ");\n        }\n", hyp_c99_type(t), count ? count : 1);
}

void hyp_c99_reduce(hyp_c99_writer *w, const HypPlan__Reduce *s)
{
    hyp_dtype t = hyp_c99_dtype(w, s->x);
    hyp_c99_nest kept, reduced;
    double count = 1;
    hyp_c99_nest_init(&kept, w->values, s->kept, s->n_kept);
    hyp_c99_nest_lane(&kept, w->values, s->kept_strides, 0);
    hyp_c99_nest_lane(&kept, w->values, NULL, 0);
    hyp_c99_nest_init(&reduced, w->values, s->reduced, s->n_reduced);
    hyp_c99_nest_lane(&reduced, w->values, s->reduced_strides, 0);
    for (size_t i = 0; i < reduced.rank && s->kind == HYP_PLAN__REDUCE__KIND__MEAN; i++) count *= (double)reduced.extents[i];
    hyp_c99_nest_merge(&kept);
    hyp_c99_nest_merge(&reduced);
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", s->x + 1, true);
    hyp_c99_pointer(w, "y", s->y + 1, false);
    size_t last = kept.rank - 1;
    if (t != HYP_F32)
        put_whole_sums(w, t, &kept, &reduced, (int64_t)count);
    else if (kept.rank && kept.strides[0][last] == 1 && kept.strides[1][last] == 1)
        put_rows(w, &kept, &reduced, count);
    else
        put_sums(w, &kept, &reduced, count);
    hyp_c99_end(w);
}

/* ---- by indices ------------------------------------------------------------------------------------- */

void hyp_c99_gather(hyp_c99_writer *w, const HypPlan__Gather *s)
{
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "x", s->x + 1, true);
    hyp_c99_pointer(w, "indices", s->indices + 1, true);
    hyp_c99_pointer(w, "y", s->y + 1, false);
    hyp_c99_long(w, "outer", w->values[s->outer]);
    hyp_c99_long(w, "axis", w->values[s->axis]);
    hyp_c99_long(w, "inner", w->values[s->inner]);
    hyp_c99_long(w, "count", w->values[s->count]);
    hyp_strbuf_puts(&w->body, "        for (long j = 0; j < count; j++) {\n"
                              "            const int64_t from = indices[j] < 0 ? indices[j] + axis : indices[j];\n"
                              "            if (from < 0 || from >= axis) ");
    hyp_c99_fail(w);
    hyp_strbuf_puts(&w->body,
                    "            for (long o = 0; o < outer; o++)\n"
                    "                for (long i = 0; i < inner; i++)\n"
                    "                    y[(o * count + j) * inner + i] = x[(o * axis + (long)from) * inner + i];\n"
                    "        }\n");
    hyp_c99_end(w);
}

void hyp_c99_fill(hyp_c99_writer *w, const HypPlan__Fill *s)
{
    hyp_c99_begin(w);
    hyp_c99_pointer(w, "y", s->y + 1, false);
    for (size_t i = 0; i < s->n_values; i++)
        hyp_strbuf_printf(&w->body, "        y[%zu] = %" PRId64 ";\n", i, w->values[s->values[i]]);
    hyp_c99_end(w);
}
