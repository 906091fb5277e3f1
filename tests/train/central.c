#include "train/central.h"

#include <math.h>

enum { MOST = 24 };

typedef struct trial {
    hyp_graph *g;
    hyp_graph forward; /* computes the loss alone */
    const char *what;
    size_t model_inputs, model_outputs; /* those of the graph as it came */
    hyp_value_id wrt[MOST], gradients[MOST];
    size_t wrt_input[MOST], wrt_count;
    hyp_eval_tensor inputs[MOST];
} trial;

static hyp_value_id node(hyp_graph *g, hyp_op op, const hyp_attr *attrs, hyp_value_id a, hyp_value_id b, uint32_t count)
{
    hyp_diag diag = {0};
    hyp_value_id out = 0;
    assert_ok(hyp_graph_add_node(g, op, (hyp_value_id[]){a, b}, count, attrs, NULL, &out, 1, &diag), &diag);
    return out;
}

/* The sum of weight times output, in f64 whatever the outputs are. */
static hyp_value_id add_loss(trial *t)
{
    hyp_graph *g = t->g;
    hyp_value_id loss = HYP_NO_VALUE;
    hyp_diag diag = {0};
    const hyp_dim axes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < t->model_outputs; i++) {
        hyp_value_id y = g->outputs.data[i].value, w;
        hyp_type type = g->values.data[y].type;
        char name[32];
        if (!hyp_dtype_is_float(type.dtype)) continue;
        snprintf(name, sizeof name, "weight %zu", i);
        assert_ok(hyp_graph_add_input(g, name, &type, &w, &diag), &diag);
        hyp_attr sum[] = {{.kind = HYP_ATTR_DIMS, .count = (uint32_t)type.rank, .dims = axes}, {.kind = HYP_ATTR_INT}};
        hyp_attr wide = {.kind = HYP_ATTR_SYM, .sym = "f64"};
        hyp_value_id v = node(g, HYP_OP_mul, NULL, y, w, 2);
        v = node(g, HYP_OP_cast, &wide, v, 0, 1);
        if (type.rank) v = node(g, HYP_OP_reduce_sum, sum, v, 0, 1);
        loss = loss == HYP_NO_VALUE ? v : node(g, HYP_OP_add, NULL, loss, v, 2);
    }
    if (loss == HYP_NO_VALUE) fail_msg("%s: no output of floats", t->what);
    return loss;
}

double uniform(rng *r) { return (double)(next_random(r) >> 11) / 9007199254740992.0; }

static void draw_input(const hyp_graph *g, size_t i, rng *r, double low, double high, int64_t below,
                       const int64_t *symbols, hyp_eval_tensor *x)
{
    const hyp_type *type = &g->values.data[g->inputs.data[i]].type;
    int64_t dims[HYP_MAX_RANK] = {0};
    hyp_diag diag = {0};
    for (int32_t k = 0; k < type->rank; k++)
        assert_ok(hyp_dim_eval(g->dims, type->dims[k], symbols, &dims[k], &diag), &diag);
    assert_ok(hyp_eval_tensor_alloc(x, type->dtype, type->rank, dims, &diag), &diag);
    for (size_t k = 0; k < x->count; k++) {
        if (x->f)
            x->f[k] = low + (high - low) * uniform(r);
        else
            x->i[k] = (int64_t)(uniform(r) * (double)(x->dtype == HYP_BOOL ? 2 : below));
    }
}

void draw_inputs(const hyp_graph *g, rng *r, double low, double high, int64_t below, const int64_t *symbols,
                 hyp_eval_tensor *out)
{
    for (size_t i = 0; i < g->inputs.len; i++) draw_input(g, i, r, low, high, below, symbols, &out[i]);
}

static double loss_of(trial *t)
{
    hyp_eval_tensor out = {0};
    hyp_diag diag = {0};
    if (hyp_graph_eval(&t->forward, HYP_EVAL_DOUBLE, t->inputs, t->g->inputs.len, &out, &diag) != HYP_OK)
        fail_msg("%s: %s", t->what, diag.message);
    double loss = out.f[0];
    hyp_eval_tensor_dispose(&out);
    return loss;
}

static double difference(trial *t, double *x, double width)
{
    double at = *x;
    *x = at + width;
    double above = loss_of(t);
    *x = at - width;
    double below = loss_of(t);
    *x = at;
    return (above - below) / (2 * width);
}

/* Two widths that agree to 1e-5 say that nothing jumps or bends within them. */
static void compare(trial *t, size_t k, const hyp_eval_tensor *gradient, central *found)
{
    hyp_eval_tensor *x = &t->inputs[t->wrt_input[k]];
    assert_int_equal(x->count, gradient ? gradient->count : x->count);
    for (size_t i = 0; i < x->count; i++) {
        double width = 1e-5 * fmax(1, fabs(x->f[i]));
        double wide = difference(t, &x->f[i], width), narrow = difference(t, &x->f[i], width / 2);
        double got = gradient ? gradient->f[i] : 0, room = 2e-6 * (1 + fabs(narrow) + fabs(got));
        if (!isfinite(wide) || !isfinite(narrow) || fabs(wide - narrow) > 5 * room) {
            found->skipped++;
            continue;
        }
        found->checked += gradient != NULL;
        if (!(fabs(got - narrow) <= 5 * room)) {
            char *text = print(t->g, 64);
            fail_msg("%s: the gradient by element %zu of \"%s\" is %.12g, differences give %.12g\n%s", t->what, i,
                     t->g->values.data[t->wrt[k]].name, got, narrow, text);
        }
    }
}

static void note_operators(const hyp_graph *g, size_t nodes, central *found)
{
    for (size_t i = 0; i < nodes; i++) found->differentiated[g->nodes.data[i].op] = true;
}

static void run(trial *t, central *found)
{
    hyp_eval_tensor outputs[2 * MOST] = {{0}};
    hyp_diag diag = {0};
    size_t first = t->model_outputs + 1, at = first;
    if (hyp_graph_eval(t->g, HYP_EVAL_DOUBLE, t->inputs, t->g->inputs.len, outputs, &diag) != HYP_OK)
        fail_msg("%s: %s", t->what, diag.message);
    for (size_t k = 0; k < t->wrt_count; k++)
        compare(t, k, t->gradients[k] == HYP_NO_VALUE ? NULL : &outputs[at++], found);
    for (size_t i = 0; i < t->g->outputs.len; i++) hyp_eval_tensor_dispose(&outputs[i]);
}

/* Adds a loss and its gradients, each an output, and draws what it is weighed by. */
static void prepare(trial *t, rng *r, hyp_eval_tensor *inputs, const int64_t *symbols, central *found)
{
    hyp_graph *g = t->g;
    hyp_diag diag = {0};
    size_t nodes = g->nodes.len;
    char name[32];
    assert_true(g->inputs.len + g->outputs.len <= MOST);
    for (size_t i = 0; i < g->inputs.len; i++) {
        t->inputs[i] = inputs[i];
        if (!hyp_dtype_is_float(g->values.data[g->inputs.data[i]].type.dtype)) continue;
        t->wrt_input[t->wrt_count] = i;
        t->wrt[t->wrt_count++] = g->inputs.data[i];
    }
    hyp_value_id loss = add_loss(t);
    assert_ok(hyp_graph_add_output(g, "the loss", loss, &diag), &diag);
    hyp_graph only = *g; /* the loss as its only output */
    only.outputs.data += t->model_outputs;
    only.outputs.len = 1;
    assert_ok(hyp_graph_copy_live(&only, &t->forward, &diag), &diag);
    if (hyp_differentiate(g, loss, t->wrt, t->wrt_count, t->gradients, &diag) != HYP_OK) {
        char *text = print(g, 64);
        fail_msg("%s: %s\n%s", t->what, diag.message, text);
    }
    for (size_t k = 0; k < t->wrt_count; k++) {
        if (t->gradients[k] == HYP_NO_VALUE) continue;
        if (!hyp_type_equal(&g->values.data[t->gradients[k]].type, &g->values.data[t->wrt[k]].type)) {
            char *text = print(g, 64);
            fail_msg("%s: gradient %zu has another type\n%s", t->what, k, text);
        }
        snprintf(name, sizeof name, "gradient %zu", k);
        assert_ok(hyp_graph_add_output(g, name, t->gradients[k], &diag), &diag);
        note_operators(g, nodes, found);
    }
    assert_ok(hyp_graph_verify(g, &diag), &diag);
    for (size_t i = t->model_inputs; i < g->inputs.len; i++) draw_input(g, i, r, -1, 1, 1, symbols, &t->inputs[i]);
}

static void dispose(trial *t)
{
    for (size_t i = 0; i < t->g->inputs.len; i++) hyp_eval_tensor_dispose(&t->inputs[i]);
    hyp_graph_dispose(&t->forward);
}

void check_central(hyp_graph *g, const char *what, rng *r, hyp_eval_tensor *inputs, const int64_t *symbols,
                   central *found)
{
    trial t = {.g = g, .what = what, .model_inputs = g->inputs.len, .model_outputs = g->outputs.len};
    prepare(&t, r, inputs, symbols, found);
    run(&t, found);
    dispose(&t);
}

/* Numbers of the type that is nearest. */
static void round_to_type(hyp_eval_tensor *x)
{
    char room[8];
    for (size_t k = 0; x->f && k < x->count; k++) {
        hyp_store_f64(x->dtype, room, 0, x->f[k]);
        x->f[k] = hyp_load_f64(x->dtype, room, 0);
    }
}

void check_native(hyp_graph *g, const char *what, rng *r, hyp_eval_tensor *inputs, const int64_t *symbols, double room)
{
    trial t = {.g = g, .what = what, .model_inputs = g->inputs.len, .model_outputs = g->outputs.len};
    hyp_eval_tensor got[2 * MOST] = {{0}}, wanted[2 * MOST] = {{0}};
    hyp_diag diag = {0};
    central found = {0};
    double most = 1;
    prepare(&t, r, inputs, symbols, &found);
    for (size_t i = 0; i < g->inputs.len; i++) round_to_type(&t.inputs[i]);
    if (hyp_graph_eval(g, HYP_EVAL_NATIVE, t.inputs, g->inputs.len, got, &diag) != HYP_OK) fail_msg("%s: %s", what, diag.message);
    if (hyp_graph_eval(g, HYP_EVAL_DOUBLE, t.inputs, g->inputs.len, wanted, &diag) != HYP_OK) fail_msg("%s: %s", what, diag.message);
    for (size_t i = t.model_outputs + 1; i < g->outputs.len; i++)
        for (size_t k = 0; k < wanted[i].count; k++) most = fmax(most, fabs(wanted[i].f[k]));
    for (size_t i = t.model_outputs + 1; i < g->outputs.len; i++)
        for (size_t k = 0; k < wanted[i].count; k++)
            if (!(fabs(got[i].f[k] - wanted[i].f[k]) <= room * most)) {
                char *text = print(g, 64);
                fail_msg("%s: element %zu of %s is %.9g in native arithmetic, %.9g in double\n%s", what, k, g->outputs.data[i].name,
                         got[i].f[k], wanted[i].f[k], text);
            }
    for (size_t i = 0; i < g->outputs.len; i++) {
        hyp_eval_tensor_dispose(&got[i]);
        hyp_eval_tensor_dispose(&wanted[i]);
    }
    dispose(&t);
}
