/* Conditions on products with constants: how weights are put together.
 *
 * A chain of products is put together in one way only, from what is nearest to the value on: onto that is multiplied
 * only what the model has. Else every run of n constants would have as many products as there are ways to place
 * parentheses, and each of them would be a class of its own, for products of constants alone are not regrouped.
 *
 * Where a value has constants on both sides, those of one side are gathered first: a constant goes past another one on
 * the other side only to a value that has none there. So n constants on each side make n classes and not n^2. */
#include "rewrite/internal.h"

/* A constant that the model has, or a view, a transposition or a cast of one, or with `scaled` such a one times a constant: not one
 * that a rule computes from others. */
static hyp_status is_stored(hyp_rw *rw, hyp_class_id c, bool scaled, bool *out, hyp_diag *diag)
{
    const hyp_rw_fact *fact = hyp_rw_fact_of(rw, c);
    *out = false;
    if (fact->kind != HYP_RW_TENSOR || !fact->constant) return HYP_OK;
    for (int depth = 0; depth < 4; depth++) { /* more views in a row are none after the clean-up */
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t ignored;
        size_t count;
        hyp_class_id through = HYP_NONE;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, c, &count);
        for (size_t i = 0; i < count; i++) {
            HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &ignored, &n, diag));
            if (shape == HYP_RW_IS_LEAF) *out = true;
            if (shape != HYP_RW_IS_OP || through != HYP_NONE) continue;
            if (n.op == HYP_OP_transpose || n.op == HYP_OP_reshape || n.op == HYP_OP_cast || (scaled && n.op == HYP_OP_mul))
                through = hyp_egraph_find(rw->eg, n.inputs[0]);
        }
        if (*out || through == HYP_NONE) return HYP_OK;
        c = through;
    }
    return HYP_OK;
}

static hyp_status stored(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return is_stored(call->user, call->args[0], false, out, diag);
}

static hyp_status stored_scaled(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return is_stored(call->user, call->args[0], true, out, diag);
}

/* A constant that this operator makes of stored ones (perhaps times constants): of the first `count` inputs, or of all. */
static hyp_status is_made_of_stored(const hyp_call *call, hyp_op op, uint32_t count, bool *out, hyp_diag *diag)
{
    hyp_rw *rw = call->user;
    const hyp_rw_fact *fact = hyp_rw_fact_of(rw, call->args[0]);
    size_t node_count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, call->args[0], &node_count);
    *out = false;
    for (size_t i = 0; i < node_count && !*out && fact->kind == HYP_RW_TENSOR && fact->constant; i++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t ignored;
        HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &ignored, &n, diag));
        *out = shape == HYP_RW_IS_OP && n.op == op && (op != HYP_OP_concat || n.attrs[0].i == 1);
        for (uint32_t k = 0; *out && k < n.input_count && k < count; k++)
            HYP_TRY(is_stored(rw, hyp_egraph_find(rw->eg, n.inputs[k]), true, out, diag));
    }
    return HYP_OK;
}

static hyp_status joined(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return is_made_of_stored(call, HYP_OP_concat, UINT32_MAX, out, diag);
}

static hyp_status widened(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return is_made_of_stored(call, HYP_OP_pad, 1, out, diag);
}

/* What a value is multiplied from: products with constants, one inside the other, and transpositions. */
enum { PRODUCTS = 128 };
typedef struct product_walk {
    hyp_class_id c[PRODUCTS];
    bool left[PRODUCTS]; /* the side to look at: it is the other one of what is transposed */
    uint32_t count;
    bool full;
} product_walk;

static void walk_into(product_walk *w, hyp_class_id c, bool left)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (w->c[i] == c && w->left[i] == left) return;
    w->full = w->full || w->count == PRODUCTS;
    if (w->full) return;
    w->c[w->count] = c;
    w->left[w->count++] = left;
}

static hyp_status walk_node(hyp_rw *rw, product_walk *w, hyp_enode_id node, bool left, bool *out, hyp_diag *diag)
{
    hyp_rw_shape shape;
    hyp_rw_node n;
    uint32_t ignored;
    HYP_TRY(hyp_rw_inspect(rw, node, &shape, &ignored, &n, diag));
    if (shape != HYP_RW_IS_OP) return HYP_OK;
    if (n.op == HYP_OP_transpose) walk_into(w, hyp_egraph_find(rw->eg, n.inputs[0]), !left);
    if (n.op != HYP_OP_matmul && n.op != HYP_OP_linear) return HYP_OK;
    bool linear = n.op == HYP_OP_linear;
    for (int side = 0; side < 2; side++) { /* with a constant on the left, on the right */
        hyp_class_id by = n.inputs[linear ? 0 : side], of = hyp_egraph_find(rw->eg, n.inputs[linear ? 2 : 1 - side]);
        if ((linear && side == 0) || !hyp_rw_fact_of(rw, by)->constant) continue;
        bool turned = !linear && n.attrs[1 - side].i; /* trans-a, trans-b */
        if (left == (side == 0)) *out = true;
        walk_into(w, of, left != turned);
    }
    return HYP_OK;
}

/* Whether a constant is multiplied onto that side anywhere in it; so it is if there is too much to look at. */
static hyp_status is_product(hyp_rw *rw, hyp_class_id c, bool left, bool *out, hyp_diag *diag)
{
    product_walk w = {.count = 0};
    *out = false;
    walk_into(&w, hyp_egraph_find(rw->eg, c), left);
    for (uint32_t at = 0; at < w.count && !*out; at++) {
        size_t count;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, w.c[at], &count);
        for (size_t i = 0; i < count && !*out; i++) HYP_TRY(walk_node(rw, &w, nodes[i], w.left[at], out, diag));
    }
    *out = *out || w.full;
    return HYP_OK;
}

/* Whether `far` may be multiplied onto `mid` before `near` is, which is on that side of both. */
static hyp_status gathers(hyp_rw *rw, hyp_class_id near, hyp_class_id mid, hyp_class_id far, bool left, bool *out,
                          hyp_diag *diag)
{
    bool by_near = hyp_rw_fact_of(rw, near)->constant, by_mid = hyp_rw_fact_of(rw, mid)->constant;
    bool by_far = hyp_rw_fact_of(rw, far)->constant, product;
    *out = !(by_near && by_mid);
    if (!*out || !by_far) return HYP_OK;
    if (by_mid) return is_stored(rw, far, true, out, diag);
    if (!by_near) return HYP_OK;
    HYP_TRY(is_product(rw, mid, left, &product, diag));
    *out = !product;
    return HYP_OK;
}

static hyp_status gathers_right(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return gathers(call->user, call->args[0], call->args[1], call->args[2], true, out, diag);
}

static hyp_status gathers_left(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return gathers(call->user, call->args[2], call->args[1], call->args[0], false, out, diag);
}

/* ---- the table ------------------------------------------------------------------------------------- */

const hyp_rw_callback hyp_rw_product_conditions[] = {
    {"stored", 1, stored, NULL,
     "(stored w): a constant of the model, perhaps transposed or cast: not one that a rule computes", true},
    {"stored-scaled", 1, stored_scaled, NULL, "(stored-scaled w): a stored constant, or one times a constant", true},
    {"widened", 1, widened, NULL, "(widened w): a stored constant with an edge around it", false},
    {"joined", 1, joined, NULL, "(joined w): stored constants side by side, along axis 1", false},
    {"gathers-right", 3, gathers_right, NULL,
     "(gathers-right a b c): (a b) c may become a (b c): of constants, c is a stored one if b is one, and b is no "
     "value "
     "multiplied from the left if a and c are",
     true},
    {"gathers-left", 3, gathers_left, NULL,
     "(gathers-left a b c): a (b c) may become (a b) c, the other way round", true},
    {0},
};
