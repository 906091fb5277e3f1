/* expect.c - how far a right implementation of a graph may be from its native arithmetic: the graph runs again with
 * every result moved by about what rounding in another way changes, and what comes out is compared. Large products are
 * a library's, checked (kernels/product.h); how far they are off is in the tolerances.
 */
#include <math.h>
#include <string.h>

#include "ir/op.h"
#include "kernels/product.h"

/* How an operator's results come to be. */
typedef enum kind {
    SELECTS, /* results are among what is read, or are of integers: nothing is rounded */
    EXACT,   /* IEEE arithmetic: one rounding, which the standard fixes */
    FUNCTION,
    SUM
} kind;

static kind kind_of(const hyp_node *n)
{
    uint32_t flags = hyp_op_get(n->op)->flags;
    switch (n->op) {
    case HYP_OP_scatter_elements: return strcmp(n->attrs[1].sym, "none") == 0 ? SELECTS : SUM;
    case HYP_OP_scatter_nd: return strcmp(n->attrs[0].sym, "none") == 0 ? SELECTS : SUM;
    case HYP_OP_add:
    case HYP_OP_sub:
    case HYP_OP_mul:
    case HYP_OP_div:
    case HYP_OP_mod:
    case HYP_OP_sqrt:
    case HYP_OP_leaky_relu:
    case HYP_OP_cast: return EXACT;
    case HYP_OP_softmax:
    case HYP_OP_range: return FUNCTION;
    case HYP_OP_resize: return SUM;
    default: break;
    }
    if (flags & (HYP_OPF_VIEW | HYP_OPF_COPY | HYP_OPF_DETERMINED)) return SELECTS;
    return flags & HYP_OPF_ELEMENTWISE ? FUNCTION : SUM;
}

static bool multiplies(hyp_op op)
{
    return op == HYP_OP_linear || op == HYP_OP_matmul || op == HYP_OP_gemm || op == HYP_OP_conv ||
           op == HYP_OP_conv_transpose || op == HYP_OP_conv_backward_weights;
}

/* Is computed by products of a library, whatever comes after them. */
static bool has_products(hyp_op op)
{
    return multiplies(op) || op == HYP_OP_fused_linear || op == HYP_OP_fused_linear_add || op == HYP_OP_fused_mlp ||
           op == HYP_OP_attention || op == HYP_OP_attention_gradient || op == HYP_OP_linear_gradient;
}

/* Near 0 these lose digits in one way of writing them and not in another: they are off by a part of what they read. */
static bool cancels(hyp_op op)
{
    return op == HYP_OP_gelu || op == HYP_OP_gelu_tanh || op == HYP_OP_silu || op == HYP_OP_quick_gelu ||
           op == HYP_OP_hard_swish || op == HYP_OP_mish || op == HYP_OP_softplus || op == HYP_OP_elu ||
           op == HYP_OP_sigmoid || op == HYP_OP_tanh || op == HYP_OP_erf;
}

/* Terms of a sum of this node. */
static double sum_length(const hyp_node *n, const hyp_eval_tensor *const *in)
{
    enum { UNKNOWN = 64 };
    double length = 1;
    switch (n->op) {
    case HYP_OP_linear: return (double)in[0]->dims[1];
    case HYP_OP_matmul: return (double)in[0]->dims[in[0]->rank - (n->attrs[0].i && in[0]->rank > 1 ? 2 : 1)];
    case HYP_OP_gemm: return (double)in[0]->dims[n->attrs[0].i ? 0 : 1];
    case HYP_OP_linear_gradient: return (double)in[0]->dims[0];
    case HYP_OP_conv: return in[1]->dims[0] ? (double)in[1]->count / (double)in[1]->dims[0] : 1;
    case HYP_OP_conv_transpose: return in[1]->dims[1] ? (double)in[1]->count / (double)in[1]->dims[1] : 1;
    case HYP_OP_conv_backward_weights:
        return in[1]->dims[1] ? (double)in[1]->count / (double)in[1]->dims[1] : 1;
    case HYP_OP_reduce_sum:
    case HYP_OP_reduce_mean:
    case HYP_OP_reduce_prod:
        for (uint32_t i = 0; i < n->attrs[0].count; i++) {
            int64_t axis = n->attrs[0].dims[i];
            length *= (double)in[0]->dims[axis < 0 ? axis + in[0]->rank : axis];
        }
        return length;
    case HYP_OP_average_pool:
        for (uint32_t i = 0; i < n->attrs[0].count; i++) length *= (double)n->attrs[0].dims[i];
        return length;
    case HYP_OP_softmax:
    case HYP_OP_softmax_stats:
    case HYP_OP_cumsum:
    case HYP_OP_cumprod:
    case HYP_OP_layer_norm:
    case HYP_OP_layer_norm_stats:
    case HYP_OP_rms_norm:
    case HYP_OP_norm_gradient:
    case HYP_OP_softmax_gradient: {
        int64_t axis = n->attrs[0].i;
        bool one = n->op != HYP_OP_layer_norm && n->op != HYP_OP_layer_norm_stats && n->op != HYP_OP_rms_norm &&
                   n->op != HYP_OP_norm_gradient;
        for (int32_t a = (int32_t)(axis < 0 ? axis + in[0]->rank : axis); a < in[0]->rank; a++) {
            length *= (double)in[0]->dims[a];
            if (one) break;
        }
        return length;
    }
    case HYP_OP_batch_norm:
    case HYP_OP_batch_norm_stats:
    case HYP_OP_batch_norm_gradient: return in[0]->dims[1] ? (double)in[0]->count / (double)in[0]->dims[1] : 1;
    case HYP_OP_lstm:
    case HYP_OP_lstm_cells:
    case HYP_OP_gru:
    case HYP_OP_rnn: return (double)in[1]->dims[0] + (double)in[0]->dims[0];
    case HYP_OP_lstm_gradient:
    case HYP_OP_gru_gradient:
    case HYP_OP_rnn_gradient: return (double)in[1]->dims[1] + (double)in[0]->dims[0];
    default: return UNKNOWN;
    }
}

/* ---- a run that is off a little --------------------------------------------------------------------- */

enum {
    MOST_COPIES = 16,
    MOVES = 4093, /* no size that tensors are made of divides it */
};

typedef struct noise {
    const hyp_graph *g;
    const hyp_expect_options *options;
    const uint8_t *kept; /* by value: it is determined and what hangs on it jumps, or every determined value is kept */
    const uint8_t *shared; /* by value: it is computed by more than determined operators, and several read it */
    double sign;
    double moves[MOVES]; /* of either sign, 1/2 to 3/2, so that two of them do not cancel; taken in turn */
    size_t next;
    hyp_eval_tensor copies[MOST_COPIES]; /* of what the node reads that is being run */
    size_t copied;
} noise;

/* What a value of this type is moved by, relative: some roundings of f32 and f64, of the narrow types about two. */
static double step_of(const noise *n, hyp_dtype t)
{
    switch (t) {
    case HYP_F64: return 0x1p-50;
    case HYP_BF16: return 0x1p-7;
    case HYP_F16: return 0x1p-10;
    case HYP_F8E4M3: return 0x1p-3;
    default: return n->options->unit > 0 ? 2 * n->options->unit : 0x1p-21;
    }
}

/* xorshift64 */
static void make_moves(noise *n, uint64_t state, double sign)
{
    n->sign = sign;
    n->next = 0;
    for (size_t i = 0; i < MOVES; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        double size = 0.5 + (double)(state >> 32 & 0xffff) * 0x1p-16;
        n->moves[i] = state >> 63 ? sign * size : -sign * size;
    }
}

static double next_move(noise *n)
{
    if (n->next == MOVES) n->next = 0;
    return n->moves[n->next++];
}

/* Values that stand for infinity stay what they are. */
static double most_of(hyp_dtype t) { return t == HYP_F16 ? 6e4 : t == HYP_F64 ? 1e308 : 2e38; }

static void move(noise *n, hyp_eval_tensor *t, double step)
{
    const double most = most_of(t->dtype);
    for (size_t start = 0; start < t->count;) {
        if (n->next == MOVES) n->next = 0;
        size_t count = t->count - start < MOVES - n->next ? t->count - start : MOVES - n->next;
        const double *moves = n->moves + n->next;
        double *x = t->f + start;
        for (size_t i = 0; i < count; i++) x[i] = fabs(x[i]) < most ? x[i] + moves[i] * step * x[i] : x[i];
        start += count;
        n->next += count;
    }
}

static hyp_status copy(noise *n, const hyp_eval_tensor **in, double step, hyp_diag *diag)
{
    if (n->copied == MOST_COPIES) return HYP_OK;
    hyp_eval_tensor *to = &n->copies[n->copied];
    HYP_TRY(hyp_eval_tensor_alloc(to, (*in)->dtype, (*in)->rank, (*in)->dims, diag));
    n->copied++;
    if (to->count) memcpy(to->f, (*in)->f, to->count * sizeof *to->f);
    move(n, to, step);
    *in = to;
    return HYP_OK;
}

/* A mask that is the same for all keys still changes how the sum with each score is rounded: it moves for each of them. */
static hyp_status copy_for_keys(noise *n, const hyp_eval_tensor **in, int64_t keys, double step, hyp_diag *diag)
{
    const hyp_eval_tensor *mask = *in;
    int32_t rank = mask->rank > 0 ? mask->rank : 1;
    if (n->copied == MOST_COPIES || keys < 2 || (mask->rank > 0 && mask->dims[rank - 1] != 1))
        return copy(n, in, step, diag);
    hyp_eval_tensor *to = &n->copies[n->copied];
    int64_t dims[HYP_MAX_RANK];
    memcpy(dims, mask->dims, (size_t)mask->rank * sizeof *dims);
    dims[rank - 1] = keys;
    HYP_TRY(hyp_eval_tensor_alloc(to, mask->dtype, rank, dims, diag));
    n->copied++;
    for (size_t i = 0; i < to->count; i++) to->f[i] = mask->f[i / (size_t)keys];
    move(n, to, step);
    *in = to;
    return HYP_OK;
}

/* Processors' instructions for bf16 take subnormal numbers for 0: factors, sums, and results that are rounded (Intel's
 * manual, VDPBF16PS and VCVTNEPS2BF16). One run does. */
static void flush_subnormals(const noise *n, hyp_eval_tensor *t)
{
    for (size_t i = 0; n->sign > 0 && i < t->count; i++)
        if (fabs(t->f[i]) < 0x1p-126) t->f[i] = copysign(0, t->f[i]);
}

/* Terms of a sum that were flushed are missing in results that are not much larger. */
static void move_by_flushed(noise *n, hyp_eval_tensor *t, double terms)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->f[i] != 0 && fabs(t->f[i]) < 0x1p-118 * terms) t->f[i] += next_move(n) * 0x1p-126 * terms;
    flush_subnormals(n, t);
}

/* Which of a window's elements is the largest when one is no number differs from kernel to kernel. */
static void drop_nan(hyp_eval_tensor *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (isnan(t->f[i])) t->f[i] = -INFINITY;
}

/* What the sums of a library's product, which are in floats in part (kernels/product.h), are off by themselves. */
static double library_step(const hyp_node *n, const hyp_eval_tensor *const *in)
{
    double terms = sum_length(n, in);
    return hyp_product_is_fast() ? 0x1p-24 * sqrt(fmin(terms, HYP_PRODUCT_DEPTH)) : 0;
}

static hyp_status before(void *user, hyp_node_id id, const hyp_eval_tensor **in, hyp_diag *diag)
{
    enum { LARGE = 65536 }; /* of constants that meet something else: that is moved in their place */
    noise *n = user;
    const hyp_node *node = &n->g->nodes.data[id];
    bool sums = kind_of(node) == SUM, product = multiplies(node->op);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!in[i] || !in[i]->f) continue;
        bool given = n->g->values.data[node->inputs[i]].kind != HYP_VALUE_NODE;
        bool narrowed = given && n->options->unit > 0 && in[i]->dtype == HYP_F32;
        if (node->op == HYP_OP_max_pool || node->op == HYP_OP_max_pool_places) {
            HYP_TRY(copy(n, &in[i], narrowed ? step_of(n, in[i]->dtype) : 0, diag));
            drop_nan(&n->copies[n->copied - 1]);
            continue;
        }
        /* Who adds to a value in the kernel that computes it has it before it is rounded, and others behind that. */
        bool unrounded = (node->op == HYP_OP_add || node->op == HYP_OP_sub) && n->shared[node->inputs[i]];
        if (!sums && !narrowed && !unrounded) continue;
        if (in[i]->count > LARGE && n->g->values.data[node->inputs[i]].kind == HYP_VALUE_CONST) continue;
        double step = narrowed || in[i]->dtype != HYP_F32 ? step_of(n, in[i]->dtype) : 0x1p-21;
        if (sums) step += 0x1p-22 * sqrt(sum_length(node, in));
        if (product) step += library_step(node, in);
        if (product && 2 * n->options->product_unit > step) step = 2 * n->options->product_unit;
        size_t copied = n->copied;
        int64_t keys = node->op == HYP_OP_attention && i == 3 ? in[2]->dims[in[2]->rank - 2] : 0;
        HYP_TRY(copy_for_keys(n, &in[i], keys, step, diag));
        if (has_products(node->op) && in[i]->dtype == HYP_BF16 && n->copied > copied)
            flush_subnormals(n, &n->copies[copied]);
    }
    return HYP_OK;
}

static void move_function(noise *n, hyp_op op, const hyp_eval_tensor *x, hyp_eval_tensor *out, double step)
{
    double most = most_of(out->dtype);
    bool same = x && x->f && x->count == out->count, cancel = cancels(op);
    for (size_t i = 0; i < out->count; i++) {
        double v = out->f[i], size = 2 * fabs(v), from = same ? fabs(x->f[i]) : 1;
        if (!(fabs(v) < most)) continue;
        if (cancel) size += op == HYP_OP_softplus || op == HYP_OP_sigmoid ? 1 : fmin(from, 1);
        if (op == HYP_OP_exp || op == HYP_OP_pow) size *= 1 + fmin(from, 100) / 4;
        out->f[i] += next_move(n) * step * size;
    }
}

/* The gradient of a norm is a difference of terms as large as g times the scale over the deviation. Of rows of one or two
 * elements hardly anything is left of them, and that however what is read moves. */
static void move_by_terms(noise *n, const hyp_node *node, const hyp_eval_tensor *const *in, hyp_eval_tensor *out,
                          double step)
{
    const size_t length = (size_t)sum_length(node, in);
    const bool centred = node->attrs[2].i != 0, by_x = strcmp(node->attrs[3].sym, "x") == 0;
    const double *scale = node->input_count > 2 && in[2] ? in[2]->f : NULL;
    for (size_t row = 0; by_x && length > 0 && row < out->count; row += length) {
        const double *x = in[0]->f + row, *g = in[1]->f + row;
        double mean = 0, squares = 0;
        for (size_t i = 0; i < length && centred; i++) mean += x[i] / (double)length;
        for (size_t i = 0; i < length; i++) squares += (x[i] - mean) * (x[i] - mean);
        const double deviation = sqrt(squares / (double)length + node->attrs[1].f);
        for (size_t i = 0; i < length; i++) {
            double term = g[i] * (scale ? scale[i] : 1) / deviation;
            if (isfinite(term)) out->f[row + i] += next_move(n) * step * term;
        }
    }
}

/* Where a NaN that a choice drops may come through: it does here. */
static void keep_nan(const hyp_eval_tensor *choice, hyp_eval_tensor *out)
{
    hyp_walk w;
    for (hyp_eval_walk(out, choice, choice, &w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++)
            if (isnan(choice->f[w.at[1] + i * w.step[1]])) out->f[w.at[0] + i] = NAN;
}

/* The sign of a zero that a relu, a clip, a minimum or a maximum gives is not promised where zeros of both signs meet:
 * one run sees each. */
static void choose_zeros(const noise *n, hyp_op op, const hyp_attr *attrs, const hyp_eval_tensor *const *in,
                         hyp_eval_tensor *out)
{
    const double zero = copysign(0, n->sign);
    bool binary = op == HYP_OP_min || op == HYP_OP_max;
    hyp_walk w;
    for (hyp_eval_walk(out, in[0], binary ? in[1] : in[0], &w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            double a = in[0]->f[w.at[1] + i * w.step[1]], b = binary ? in[1]->f[w.at[2] + i * w.step[2]] : 0;
            if (op == HYP_OP_clip && attrs[0].f != 0 && attrs[1].f != 0) continue;
            if (a == 0 && b == 0 && (op == HYP_OP_clip || !signbit(a) != !signbit(b))) out->f[w.at[0] + i] = zero;
        }
}

/* A filter that was widened multiplies what lies beside its window by zeros, and an infinity or NaN there makes NaN: of what
 * a group of filters gives for an image with one nothing is said. */
static void spread_over_images(const hyp_eval_tensor *x, const hyp_eval_tensor *w, hyp_eval_tensor *out)
{
    if (x->count == 0 || out->count == 0) return;
    size_t parts = (size_t)(x->dims[0] * x->dims[1] / w->dims[1]); /* images, and groups of their channels */
    size_t read = x->count / parts, made = out->count / parts;
    for (size_t p = 0; p < parts; p++) {
        bool finite = true;
        for (size_t i = 0; finite && i < read; i++) finite = isfinite(x->f[p * read + i]);
        for (size_t i = 0; !finite && i < made; i++) out->f[p * made + i] = NAN;
    }
}

static void after(void *user, hyp_node_id id, const hyp_eval_tensor *const *in, hyp_eval_tensor *out, bool ran)
{
    noise *n = user;
    const hyp_node *node = &n->g->nodes.data[id];
    kind k = kind_of(node);
    for (uint32_t i = 0; ran && i < node->output_count; i++) {
        hyp_eval_tensor *t = &out[i];
        if (!t->f) continue;
        if (node->op == HYP_OP_where && n->options->any_nan) {
            keep_nan(in[1], t);
            keep_nan(in[2], t);
        }
        if (node->op == HYP_OP_conv && n->options->any_inf && n->sign < 0) spread_over_images(in[0], in[1], t);
        if (node->op == HYP_OP_relu || node->op == HYP_OP_clip || node->op == HYP_OP_min || node->op == HYP_OP_max)
            choose_zeros(n, node->op, node->attrs, in, t);
        double step = step_of(n, t->dtype);
        bool kept = n->kept[node->outputs[i]];
        if (k == EXACT && !kept) move(n, t, step);
        if (k == FUNCTION) move_function(n, node->op, in[0], t, step);
        if (k == SUM) move(n, t, step + 0x1p-22 * sqrt(sum_length(node, in)));
        if (node->op == HYP_OP_norm_gradient) move_by_terms(n, node, in, t, step);
        if (has_products(node->op) && t->dtype == HYP_BF16) move_by_flushed(n, t, sum_length(node, in));
        double largest = t->dtype == HYP_F32 ? n->options->largest : 0;
        for (size_t j = 0; largest > 0 && j < t->count; j++)
            if (fabs(t->f[j]) > largest) t->f[j] = copysign(INFINITY, t->f[j]);
    }
    while (n->copied > 0) hyp_eval_tensor_dispose(&n->copies[--n->copied]);
}

/* ---- what is determined ------------------------------------------------------------------------------ */

/* Marks the values that may not be moved, and those that are no determined ones and that several read. */
static void mark_values(const hyp_graph *g, const hyp_expect_options *options, uint8_t *kept, uint8_t *shared)
{
    enum { DETERMINED = 1, JUMPS = 2, SEVERAL = 2 };
    for (size_t i = 0; i < g->values.len; i++) kept[i] = g->values.data[i].kind == HYP_VALUE_NODE ? 0 : DETERMINED;
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        kind k = kind_of(n);
        bool determined = k == SELECTS || k == EXACT;
        for (uint32_t j = 0; j < n->input_count; j++)
            if (n->inputs[j] != HYP_NO_VALUE) determined = determined && kept[n->inputs[j]];
        for (uint32_t j = 0; j < n->output_count; j++) kept[n->outputs[j]] = determined ? DETERMINED : 0;
    }
    for (size_t i = g->nodes.len; i-- > 0;) {
        const hyp_node *n = &g->nodes.data[i];
        bool needs = hyp_node_has(g, n, HYP_OPF_JUMP);
        for (uint32_t j = 0; j < n->output_count; j++) needs = needs || (kept[n->outputs[j]] & JUMPS);
        for (uint32_t j = 0; needs && j < n->input_count; j++)
            if (n->inputs[j] != HYP_NO_VALUE && (kept[n->inputs[j]] & DETERMINED)) kept[n->inputs[j]] |= JUMPS;
    }
    for (size_t i = 0; i < g->nodes.len; i++)
        for (uint32_t j = 0; j < g->nodes.data[i].input_count; j++) {
            hyp_value_id v = g->nodes.data[i].inputs[j];
            if (v != HYP_NO_VALUE && shared[v] < SEVERAL) shared[v]++;
        }
    for (size_t i = 0; i < g->values.len; i++) shared[i] = shared[i] == SEVERAL && kept[i] == 0;
    for (size_t i = 0; i < g->values.len; i++)
        kept[i] = options->unit > 0 ? 0 : options->determined ? kept[i] != 0 : (kept[i] & JUMPS) != 0;
}

/* ---- tolerances --------------------------------------------------------------------------------------- */

/* Takes in how far one run went: tolerances are the largest distances so far. */
static void note_distances(const hyp_eval_tensor *value, const hyp_eval_tensor *moved, hyp_eval_tensor *tolerance)
{
    for (size_t i = 0; i < value->count; i++) {
        double d;
        if (value->i)
            d = value->i[i] == moved->i[i] ? 0 : INFINITY;
        else if (isnan(value->f[i]) || isinf(value->f[i]))
            d = isnan(value->f[i]) ? (isnan(moved->f[i]) ? 0 : INFINITY) : value->f[i] == moved->f[i] ? 0 : INFINITY;
        else
            d = isfinite(moved->f[i]) ? fabs(moved->f[i] - value->f[i]) : INFINITY;
        if (d > tolerance->f[i]) tolerance->f[i] = d;
    }
}

/* Elements that stand side by side, as many as are needed for some that moved: behind a relu most may be 0 in every run. */
typedef struct neighbours {
    size_t end;
    double near;  /* how far they go */
    double moved; /* the size of those that do */
    double size;  /* of their values */
} neighbours;

/* Those from start on, none of another row. */
static neighbours find_neighbours(const hyp_eval_tensor *value, const hyp_eval_tensor *tolerance, size_t start, size_t row)
{
    enum { ENOUGH = 16 };
    size_t i = start, moved = 0, finite = 0;
    double distances = 0, values = 0, moving = 0;
    for (size_t end = start - start % row + row; i < end && moved < ENOUGH; i++) {
        double v = value->f[i], t = tolerance->f[i];
        if (!isfinite(v) || !isfinite(t)) continue;
        distances += t * t;
        values += v * v;
        moving += t > 0 ? v * v : 0;
        moved += t > 0;
        finite++;
    }
    double count = moved ? (double)moved : 1;
    return (neighbours){i, sqrt(distances / count), sqrt(moving / count), finite ? sqrt(values / (double)finite) : 0};
}

/* How far an element of size v goes where they go so far: where rounding is what moves them, one that is larger goes further. */
static double near_of(const neighbours *n, double v)
{
    return n->near * (n->moved > 0 ? fmax(1, v / n->moved) : 1);
}

/* Few runs may leave an element where it was by chance: its neighbours say how far elements here go. Those of its row may be
 * few; those beyond may be of another size. */
static void widen(const hyp_expect_options *o, const hyp_eval_tensor *value, hyp_eval_tensor *tolerance)
{
    const double little = 0.25; /* an error of this part of the values leaves nothing to check */
    size_t row = value->rank ? (size_t)value->dims[value->rank - 1] : 1;
    neighbours in_row = {0}, beyond = {0};
    for (size_t i = 0; value->f && i < value->count; i++) {
        if (i == in_row.end) in_row = find_neighbours(value, tolerance, i, row);
        if (i == beyond.end) beyond = find_neighbours(value, tolerance, i, value->count);
        double v = value->f[i], *t = &tolerance->f[i], near = fmax(near_of(&in_row, fabs(v)), near_of(&beyond, fabs(v)));
        if (isnan(v))
            *t = o->any_nan ? INFINITY : *t;
        else if (isinf(v))
            *t = o->any_inf ? INFINITY : *t;
        else if (isfinite(*t) && (*t > 0 || near > 0))
            *t = fmax(*t, near) + near + 0x1p-23 * fabs(v) * (value->dtype == HYP_F64 ? 0x1p-29 : 1);
        if (isfinite(v) && *t > little * fmax(fabs(v), beyond.size)) *t = INFINITY;
    }
}

/* Of scores in a narrow type little may be left where the interpreter rounds them and a kernel does not. */
static bool has_narrow_attention(const hyp_graph *g)
{
    bool has = false;
    for (size_t i = 0; i < g->nodes.len; i++) {
        hyp_dtype t = g->values.data[g->nodes.data[i].outputs[0]].type.dtype;
        has = has || (g->nodes.data[i].op == HYP_OP_attention && (t == HYP_F16 || t == HYP_BF16));
    }
    return has;
}

static hyp_status measure(noise *n, const hyp_eval_tensor *inputs, size_t input_count, const hyp_eval_tensor *values,
                          hyp_eval_tensor *moved, hyp_eval_tensor *tolerances, hyp_diag *diag)
{
    /* The second run goes the other way everywhere: of two sides of a jump one run sees each. The last one moves nothing. */
    static const struct {
        uint64_t seed;
        double sign;
    } runs[] = {{0x9e3779b97f4a7c15, 1}, {0x9e3779b97f4a7c15, -1}, {0xd1b54a32d192ed03, 1}, {0x9e3779b97f4a7c15, 0}};
    size_t outputs = n->g->outputs.len;
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        const hyp_eval_change change = {before, after, n, runs[r].sign == 0};
        if (change.whole && !has_narrow_attention(n->g)) continue;
        make_moves(n, runs[r].seed, runs[r].sign);
        HYP_TRY(hyp_graph_eval_changed(n->g, HYP_EVAL_FAST, inputs, input_count, &change, moved, diag));
        for (size_t i = 0; i < outputs; i++) {
            note_distances(&values[i], &moved[i], &tolerances[i]);
            hyp_eval_tensor_dispose(&moved[i]);
        }
    }
    for (size_t i = 0; i < outputs; i++) widen(n->options, &values[i], &tolerances[i]);
    return HYP_OK;
}

static hyp_status expect(noise *n, const hyp_eval_tensor *inputs, size_t input_count, hyp_eval_tensor *values,
                         hyp_eval_tensor *tolerances, hyp_diag *diag)
{
    size_t outputs = n->g->outputs.len;
    HYP_TRY(hyp_graph_eval(n->g, HYP_EVAL_FAST, inputs, input_count, values, diag));
    for (size_t i = 0; i < outputs; i++) {
        HYP_TRY(hyp_eval_tensor_alloc(&tolerances[i], HYP_F64, values[i].rank, values[i].dims, diag));
        for (size_t j = 0; j < tolerances[i].count; j++) tolerances[i].f[j] = 0;
    }
    hyp_eval_tensor *moved = hyp_calloc(outputs ? outputs : 1, sizeof *moved);
    if (!moved) return hyp_fail_memory(diag, outputs * sizeof *moved);
    hyp_status status = measure(n, inputs, input_count, values, moved, tolerances, diag);
    hyp_free(moved);
    return status;
}

hyp_status hyp_graph_expect(const hyp_graph *g, const hyp_eval_tensor *inputs, size_t input_count,
                            const hyp_expect_options *options, hyp_eval_tensor *values, hyp_eval_tensor *tolerances,
                            hyp_diag *diag)
{
    static const hyp_expect_options defaults = {0};
    size_t outputs = g->outputs.len;
    if (outputs) {
        memset(values, 0, outputs * sizeof *values);
        memset(tolerances, 0, outputs * sizeof *tolerances);
    }
    uint8_t *marks = hyp_calloc(g->values.len + 1, 2), *shared = marks + g->values.len;
    if (!marks) return hyp_fail_memory(diag, 2 * g->values.len);
    noise n = {.g = g, .options = options ? options : &defaults, .kept = marks, .shared = shared};
    mark_values(g, n.options, marks, shared);
    hyp_status status = expect(&n, inputs, input_count, values, tolerances, diag);
    for (size_t i = 0; status != HYP_OK && i < outputs; i++) {
        hyp_eval_tensor_dispose(&values[i]);
        hyp_eval_tensor_dispose(&tolerances[i]);
    }
    hyp_free(marks);
    return status;
}
