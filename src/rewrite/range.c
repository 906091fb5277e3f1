/* How large a class's elements are. Constants are read once each, when a condition asks; of what is made from them, and
 * of a few operators on any value, the range follows from the operands. Where nothing is known the answer is "anything".
 */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

enum { DEPTH = 200 }; /* operators looked through at once; what was answered before is remembered */

static const hyp_rw_range anything = {.low = -INFINITY, .high = INFINITY};

static double largest(hyp_dtype t)
{
    switch (t) {
    case HYP_F8E4M3: return HYP_F8E4M3_MOST;
    case HYP_F16: return 65504;
    case HYP_BF16: return 0x1.fep127;
    case HYP_F32: return 0x1.fffffep127;
    default: return 0x1.fffffffffffffp1023;
    }
}

double hyp_rw_most(hyp_rw_range r) { return fmax(fabs(r.low), fabs(r.high)); }

bool hyp_rw_is_bounded(hyp_rw_range r) { return r.no_nan && isfinite(r.low) && isfinite(r.high); }

bool hyp_rw_fits(hyp_dtype t, double size) { return size <= largest(t) * (1 - 0x1p-6); }

/* ---- constants ------------------------------------------------------------------------------------ */

/* Sizes of floats are in the order of their bits without the sign, so that a scan compares integers. Data of a model lies
 * where its file has it, aligned to nothing. */
#define SCAN(bits_type, sign)                                                                                          \
    do {                                                                                                               \
        const char *at = data;                                                                                         \
        bits_type most = 0, below = (bits_type)-1, any = 0; /* below: the least but 0, less one */                     \
        bits_type all = (bits_type)-1;                      /* the least */                                            \
        for (size_t i = 0; i < count; i++) {                                                                           \
            bits_type x;                                                                                               \
            memcpy(&x, at + i * sizeof x, sizeof x);                                                                   \
            bits_type here = x & (bits_type)~(bits_type)(sign), less = (bits_type)(here - 1);                          \
            most = here > most ? here : most;                                                                          \
            below = less < below ? less : below;                                                                       \
            all = here < all ? here : all;                                                                             \
            any |= x;                                                                                                  \
        }                                                                                                              \
        bits_type least = (bits_type)(below + 1);                                                                      \
        size = hyp_load_f64(t, &most, 0);                                                                              \
        r.least = least ? hyp_load_f64(t, &least, 0) : INFINITY;                                                       \
        r.low = count && !(any & (bits_type)(sign)) ? hyp_load_f64(t, &all, 0) : -size;                                \
    } while (0)

static hyp_rw_range scan(hyp_dtype t, const void *data, size_t bytes)
{
    hyp_rw_range r = {.least = INFINITY};
    size_t count = bytes / hyp_dtype_size(t);
    double size = 0; /* the largest; the bits of a NaN are above those of infinity */
    if (t == HYP_F32) {
        SCAN(uint32_t, 1u << 31);
    } else if (t == HYP_F16 || t == HYP_BF16) {
        SCAN(uint16_t, 1u << 15);
    } else if (t == HYP_F64) {
        SCAN(uint64_t, (uint64_t)1 << 63);
    } else {
        for (size_t i = 0; i < count; i++) {
            double v = fabs(hyp_load_f64(t, data, i));
            size = v > size || isnan(v) ? v : size;
            r.least = v != 0 && v < r.least ? v : r.least;
        }
        r.low = -size;
    }
    if (isnan(size)) return anything;
    r.no_nan = true;
    r.high = size;
    return r;
}

static hyp_rw_range leaf_range(hyp_rw_leaf *leaf)
{
    if (leaf->is_input || (!leaf->data && leaf->bytes)) {
        hyp_rw_range r = anything;
        r.no_nan = !hyp_dtype_is_float(leaf->value.type.dtype);
        return r;
    }
    if (!leaf->scanned) leaf->range = scan(leaf->value.type.dtype, leaf->data, leaf->bytes);
    leaf->scanned = true;
    return leaf->range;
}

/* ---- what is made of them ------------------------------------------------------------------------- */

static hyp_status range_of(hyp_rw *rw, hyp_class_id c, int depth, hyp_rw_range *out, hyp_diag *diag);

/* Elements of either. */
static hyp_rw_range either(hyp_rw_range a, hyp_rw_range b)
{
    return (hyp_rw_range){.no_nan = a.no_nan && b.no_nan,
                          .low = fmin(a.low, b.low),
                          .high = fmax(a.high, b.high),
                          .least = fmin(a.least, b.least)};
}

/* Results of this type between low and high, of finite operands; with a sign that is known none is 0. */
static hyp_rw_range between(hyp_dtype t, double low, double high, double least)
{
    hyp_rw_range r = {.no_nan = true, .low = low, .high = high, .least = least};
    if (!(hyp_rw_fits(t, hyp_rw_most(r)))) return anything; /* also where one is NaN */
    if (low > 0 || high < 0) r.least = fmin(fabs(low), fabs(high));
    return r;
}

/* The number of terms of each sum of a product of matrices; 0 when it is not known. */
static double terms_of(const hyp_rw *rw, const hyp_rw_node *n)
{
    const hyp_type *a = &hyp_rw_fact_of(rw, n->inputs[0])->values[0].type;
    if (n->op != HYP_OP_matmul || a->rank < 1) return 0;
    int32_t axis = a->rank > 1 && n->attrs[0].i ? a->rank - 2 : a->rank - 1;
    return hyp_dim_is_const(a->dims[axis]) ? (double)a->dims[axis] : 0;
}

static hyp_status node_range(hyp_rw *rw, const hyp_rw_node *n, hyp_dtype t, int depth, hyp_rw_range *out,
                             hyp_diag *diag)
{
    hyp_rw_range a = anything, b = anything;
    uint32_t flags = hyp_op_get(n->op)->flags;
    *out = anything;
    if (n->input_count == 0) return HYP_OK;
    if (flags & (HYP_OPF_VIEW | HYP_OPF_COPY)) {
        bool all = n->op == HYP_OP_concat || n->op == HYP_OP_pad;
        HYP_TRY(range_of(rw, n->inputs[0], depth, out, diag));
        for (uint32_t i = 1; all && i < n->input_count; i++) {
            HYP_TRY(range_of(rw, n->inputs[i], depth, &b, diag));
            *out = either(*out, b);
        }
        return HYP_OK;
    }
    switch (n->op) {
    case HYP_OP_where:
    case HYP_OP_min:
    case HYP_OP_max:
        HYP_TRY(range_of(rw, n->inputs[n->op == HYP_OP_where ? 1 : 0], depth, &a, diag));
        HYP_TRY(range_of(rw, n->inputs[n->op == HYP_OP_where ? 2 : 1], depth, &b, diag));
        *out = either(a, b);
        return HYP_OK;
    case HYP_OP_neg:
    case HYP_OP_abs:
    case HYP_OP_relu:
    case HYP_OP_clip:
    case HYP_OP_sqrt:
    case HYP_OP_cast:
    case HYP_OP_add:
    case HYP_OP_sub:
    case HYP_OP_mul:
    case HYP_OP_div:
    case HYP_OP_matmul: break;
    default: return HYP_OK;
    }
    HYP_TRY(range_of(rw, n->inputs[0], depth, &a, diag));
    if (n->input_count > 1) HYP_TRY(range_of(rw, n->inputs[1], depth, &b, diag));
    out->no_nan = a.no_nan && (n->op == HYP_OP_cast || n->op == HYP_OP_neg || n->op == HYP_OP_abs ||
                               n->op == HYP_OP_relu || n->op == HYP_OP_clip);
    if (n->op == HYP_OP_clip && a.no_nan && n->attrs[0].f <= n->attrs[1].f)
        *out = between(t, fmax(a.low, n->attrs[0].f), fmin(a.high, n->attrs[1].f), 0);
    if (!hyp_rw_is_bounded(a) || (n->input_count > 1 && !hyp_rw_is_bounded(b))) return HYP_OK;
    double most = hyp_rw_most(a) * hyp_rw_most(b), k = terms_of(rw, n);
    switch (n->op) {
    case HYP_OP_neg: *out = between(t, -a.high, -a.low, a.least); break;
    case HYP_OP_abs: *out = between(t, fmax(a.low, 0), hyp_rw_most(a), a.least); break;
    case HYP_OP_relu: *out = between(t, fmax(a.low, 0), fmax(a.high, 0), a.least); break;
    case HYP_OP_cast: *out = between(t, a.low, a.high, 0); break;
    case HYP_OP_sqrt:
        if (a.low >= 0) *out = between(t, sqrt(a.low), sqrt(a.high), sqrt(a.least));
        break;
    case HYP_OP_add: *out = between(t, a.low + b.low, a.high + b.high, 0); break;
    case HYP_OP_sub: *out = between(t, a.low - b.high, a.high - b.low, 0); break;
    case HYP_OP_mul:
        *out = between(t, a.low >= 0 && b.low >= 0 ? a.low * b.low : -most, most, a.least * b.least);
        break;
    case HYP_OP_div:
        most = b.low > 0 || b.high < 0 ? hyp_rw_most(a) / b.least : INFINITY;
        *out = between(t, a.low >= 0 && b.low > 0 ? 0 : -most, most, a.least / hyp_rw_most(b));
        break;
    case HYP_OP_matmul:
        most *= k > 0 ? k * fabs(n->attrs[2].f) : INFINITY;
        *out = between(t, -most, most, 0);
        break;
    default: break;
    }
    return HYP_OK;
}

/* By the first e-node of the class that tells. */
static hyp_status find_range(hyp_rw *rw, hyp_class_id c, int depth, hyp_rw_range *out, hyp_diag *diag)
{
    const hyp_rw_fact *f = hyp_rw_fact_of(rw, c);
    hyp_dtype t = f->values[0].type.dtype;
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, c, &count);
    if (!nodes) return hyp_fail_memory(diag, 0);
    *out = anything;
    out->no_nan = !hyp_dtype_is_float(t);
    for (size_t i = 0; i < count && !hyp_rw_is_bounded(*out); i++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t leaf;
        hyp_rw_range found;
        HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &leaf, &n, diag));
        if (shape == HYP_RW_IS_LEAF)
            found = leaf_range(&rw->leaves.data[leaf]);
        else if (f->constant && f->data)
            found = scan(t, f->data, f->bytes);
        else if (depth > 0 && shape == HYP_RW_IS_OP)
            HYP_TRY(node_range(rw, &n, t, depth - 1, &found, diag));
        else
            continue;
        found.no_nan = found.no_nan || out->no_nan;
        *out = found;
    }
    return HYP_OK;
}

/* A class is asked once: what is found of it later would only say more. One that contains itself has no answer. */
static hyp_status range_of(hyp_rw *rw, hyp_class_id c, int depth, hyp_rw_range *out, hyp_diag *diag)
{
    *out = anything;
    if (hyp_rw_fact_of(rw, c)->kind != HYP_RW_TENSOR) return HYP_OK;
    c = hyp_egraph_find(rw->eg, c);
    while (rw->ranges.len <= c) {
        HYP_TRY(hyp_vec_push(&rw->ranges, diag, (hyp_rw_range){0}));
    }
    if (rw->ranges.data[c].asked) {
        *out = rw->ranges.data[c];
        return HYP_OK;
    }
    rw->ranges.data[c] = anything;
    rw->ranges.data[c].asked = true;
    HYP_TRY(find_range(rw, c, depth, out, diag));
    out->asked = true;
    rw->ranges.data[c] = *out;
    return HYP_OK;
}

hyp_status hyp_rw_range_of(hyp_rw *rw, hyp_class_id c, hyp_rw_range *out, hyp_diag *diag)
{
    return range_of(rw, c, DEPTH, out, diag);
}
