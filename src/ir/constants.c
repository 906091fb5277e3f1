#include "ir/constants.h"

#include <stdlib.h>
#include <string.h>

#include "ir/constant_chain.h"

typedef enum state { UNKNOWN, WANTED, GATHERED, DONE } state;

struct hyp_constants {
    const hyp_graph *g;
    void (*forget)(void *user, const void *data, size_t bytes);
    void *user;
    uint32_t *uses;  /* by value: reads by wanted nodes to come, and takings to come */
    void **bytes;    /* by value: of what was computed and is still of use, else NULL */
    uint8_t *states; /* by node */
    size_t value_count, node_count;
    uint64_t work; /* of what was wanted within budgets */
    HYP_VEC(hyp_node_id) list; /* of nodes to look at, or to run */
};

static const hyp_value *value_at(const hyp_constants *c, hyp_value_id v) { return &c->g->values.data[v]; }
static const hyp_node *node_at(const hyp_constants *c, hyp_node_id n) { return &c->g->nodes.data[n]; }

/* What needs no evaluation. */
static bool is_leaf(const hyp_value *value) { return value->kind != HYP_VALUE_NODE || hyp_value_is_listed(value); }

hyp_status hyp_constants_create(const hyp_graph *g, void (*forget)(void *user, const void *data, size_t bytes),
                                void *user, hyp_constants **out, hyp_diag *diag)
{
    *out = NULL;
    hyp_constants *c = hyp_calloc(1, sizeof *c);
    if (!c) return hyp_fail_memory(diag, sizeof *c);
    *c = (hyp_constants){
        .g = g, .forget = forget, .user = user, .value_count = g->values.len, .node_count = g->nodes.len};
    c->uses = hyp_calloc(c->value_count + 1, sizeof *c->uses);
    c->bytes = hyp_calloc(c->value_count + 1, sizeof *c->bytes);
    c->states = hyp_calloc(c->node_count + 1, sizeof *c->states);
    if (!c->uses || !c->bytes || !c->states) {
        hyp_constants_destroy(c);
        return hyp_fail_memory(diag, g->values.len * sizeof *c->bytes);
    }
    *out = c;
    return HYP_OK;
}

void hyp_constants_destroy(hyp_constants *c)
{
    if (!c) return;
    for (size_t v = 0; c->bytes && v < c->value_count; v++) hyp_free(c->bytes[v]);
    hyp_vec_free(&c->list);
    hyp_free(c->uses);
    hyp_free(c->bytes);
    hyp_free(c->states);
    hyp_free(c);
}

/* Says at which node of the model it went wrong. */
static hyp_status name_node(const hyp_constants *c, const hyp_node *node, hyp_status status, hyp_diag *diag)
{
    const char *name = node->from.source_count ? node->from.sources[0] : value_at(c, node->outputs[0])->name;
    const char *op = hyp_op_get(node->op)->name;
    if (status != HYP_OK)
        hyp_diag_prefix(diag, "computing the constant of %s%s%s%s", op, name ? " at '" : "", name ? name : "",
                        name ? "'" : "");
    return status;
}

/* ---- announcing ------------------------------------------------------------------------------------------ */

static hyp_status push(hyp_constants *c, hyp_node_id n, state s, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_push(&c->list, diag, n));
    c->states[n] = (uint8_t)s;
    return HYP_OK;
}

static hyp_status unknown(hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "it is computed from the data of the model's inputs");
}

static hyp_status check_budget(const hyp_constants *c, const hyp_node *node, const hyp_fold_budget *budget,
                               uint64_t *work, hyp_diag *diag)
{
    hyp_arena arena = {0};
    const hyp_type **in = hyp_arena_zalloc(&arena, node->input_count + 1, sizeof *in);
    const hyp_type **out = hyp_arena_zalloc(&arena, node->output_count, sizeof *out);
    hyp_status status = in && out ? HYP_OK : hyp_fail_memory(diag, node->output_count * sizeof *out);
    for (uint32_t i = 0; status == HYP_OK && i < node->input_count; i++)
        in[i] = node->inputs[i] == HYP_NO_VALUE ? NULL : &value_at(c, node->inputs[i])->type;
    for (uint32_t i = 0; status == HYP_OK && i < node->output_count; i++) out[i] = &value_at(c, node->outputs[i])->type;
    if (status == HYP_OK && !hyp_fold_is_fixed(node->op, node->attrs, out, node->output_count))
        status = unknown(diag);
    else if (status == HYP_OK &&
             !hyp_fold_fits(budget, node->op, node->attrs, in, node->input_count, out, node->output_count, work))
        status = name_node(c, node,
                           hyp_fail(diag, HYP_ERR_LIMIT,
                                    "it takes more than %llu multiplications or a result of more than %llu bytes",
                                    (unsigned long long)budget->flops, (unsigned long long)budget->bytes),
                           diag);
    hyp_arena_dispose(&arena);
    return status;
}

static hyp_status want_node(hyp_constants *c, hyp_value_id v, hyp_diag *diag)
{
    const hyp_value *value = value_at(c, v);
    c->uses[v]++;
    if (value->kind == HYP_VALUE_INPUT && !hyp_value_is_listed(value)) return unknown(diag);
    if (is_leaf(value) || c->states[value->producer] != UNKNOWN) return HYP_OK;
    return push(c, value->producer, WANTED, diag);
}

hyp_status hyp_constants_want(hyp_constants *c, hyp_value_id v, const hyp_fold_budget *budget, hyp_diag *diag)
{
    uint64_t work = 0;
    c->list.len = 0;
    HYP_TRY(want_node(c, v, diag));
    for (size_t n = 0; n < c->list.len; n++) {
        const hyp_node *node = node_at(c, c->list.data[n]);
        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->inputs[i] != HYP_NO_VALUE) HYP_TRY(want_node(c, node->inputs[i], diag));
    }
    /* Now that it is known to be one: a value that data decide is no constant, however much it takes. */
    for (size_t n = 0; budget && n < c->list.len; n++)
        HYP_TRY(check_budget(c, node_at(c, c->list.data[n]), budget, &work, diag));
    c->work += work;
    return HYP_OK;
}

uint64_t hyp_constants_work(const hyp_constants *c) { return c->work; }

/* ---- evaluation ------------------------------------------------------------------------------------------- */

/* The bytes of a value that is a leaf or was computed. *out_own: they are the caller's to free. */
static hyp_status bytes_of(hyp_constants *c, hyp_value_id v, const void **out, void **out_own, hyp_diag *diag)
{
    const hyp_value *value = value_at(c, v);
    *out_own = NULL;
    *out = c->bytes[v];
    if (*out) return HYP_OK;
    if (value->kind == HYP_VALUE_CONST) {
        *out = value->data;
        if (value->data || value->bytes == 0) return HYP_OK;
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "the constant '%s' has no data: it was read from text that leaves large constants out",
                        value->name ? value->name : "");
    }
    if (!hyp_value_is_listed(value))
        return hyp_fail(diag, HYP_ERR_INTERNAL, "value %u is read before it is computed", v);
    size_t size = hyp_dtype_size(value->type.dtype);
    *out = *out_own = hyp_malloc(value->content_count * size);
    if (!*out) return hyp_fail_memory(diag, value->content_count * size);
    for (uint32_t i = 0; i < value->content_count; i++)
        hyp_store_i64(value->type.dtype, *out_own, i, value->content[i]);
    return HYP_OK;
}

/* One use of a value is over. */
static void release(hyp_constants *c, hyp_value_id v)
{
    const hyp_value *value = value_at(c, v);
    if (value->kind == HYP_VALUE_CONST && !value->owned && value->data && c->forget)
        c->forget(c->user, value->data, value->bytes);
    if (c->uses[v] == 0 || --c->uses[v] > 0) return;
    hyp_free(c->bytes[v]);
    c->bytes[v] = NULL;
}

static hyp_status load(hyp_constants *c, hyp_value_id v, hyp_eval_tensor *out, hyp_diag *diag)
{
    const hyp_value *value = value_at(c, v);
    const void *bytes;
    void *own;
    size_t size;
    HYP_TRY(bytes_of(c, v, &bytes, &own, diag));
    if (!hyp_type_bytes(&value->type, &size)) size = 0;
    hyp_tensor from = {
        .data = (void *)(uintptr_t)bytes, .bytes = size, .dtype = value->type.dtype, .rank = value->type.rank};
    memcpy(from.dims, value->type.dims, sizeof from.dims); /* static, so the dims are their values */
    hyp_status status = hyp_eval_tensor_load(out, &from, diag);
    hyp_free(own);
    return status;
}

static hyp_status store(hyp_constants *c, hyp_value_id v, const hyp_eval_tensor *t, hyp_diag *diag)
{
    size_t bytes = t->count * hyp_dtype_size(t->dtype);
    if (c->uses[v] == 0) return HYP_OK;
    c->bytes[v] = hyp_malloc(bytes);
    if (!c->bytes[v]) return hyp_fail_memory(diag, bytes);
    hyp_eval_tensor_store(t, c->bytes[v]);
    return HYP_OK;
}

static hyp_status run_operator(hyp_constants *c, const hyp_node *node, hyp_diag *diag)
{
    hyp_arena arena = {0};
    hyp_eval_tensor *in = hyp_arena_zalloc(&arena, node->input_count + 1, sizeof *in);
    hyp_eval_tensor *out = hyp_arena_zalloc(&arena, node->output_count, sizeof *out);
    const hyp_eval_tensor **list = hyp_arena_zalloc(&arena, node->input_count + 1, sizeof *list);
    hyp_status status = in && out && list ? HYP_OK : hyp_fail_memory(diag, node->input_count * sizeof *in);
    for (uint32_t i = 0; status == HYP_OK && i < node->input_count; i++) {
        if (node->inputs[i] == HYP_NO_VALUE) continue;
        status = load(c, node->inputs[i], &in[i], diag);
        list[i] = &in[i];
        if (status == HYP_OK) release(c, node->inputs[i]);
    }
    if (status == HYP_OK)
        status = hyp_op_eval(c->g->dims, node->op, node->attrs, HYP_EVAL_FAST, list, node->input_count, out,
                             node->output_count, NULL, diag);
    for (uint32_t i = 0; in && i < node->input_count; i++) hyp_eval_tensor_dispose(&in[i]);
    for (uint32_t i = 0; out && i < node->output_count; i++) {
        if (status == HYP_OK) status = store(c, node->outputs[i], &out[i], diag);
        hyp_eval_tensor_dispose(&out[i]);
    }
    hyp_arena_dispose(&arena);
    return status;
}

static hyp_status run_chain(hyp_constants *c, const hyp_chain *chain, hyp_value_id v, hyp_diag *diag)
{
    const void *from;
    void *own;
    size_t bytes;
    if (!hyp_type_bytes(&value_at(c, v)->type, &bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    HYP_TRY(bytes_of(c, chain->from, &from, &own, diag));
    c->bytes[v] = hyp_malloc(bytes);
    hyp_status status = c->bytes[v] ? HYP_OK : hyp_fail_memory(diag, bytes);
    if (status == HYP_OK) hyp_chain_run(c->g, chain, v, from, c->bytes[v]);
    hyp_free(own);
    release(c, chain->from);
    return status;
}

static bool chain_of(const hyp_constants *c, const hyp_node *node, hyp_chain *out)
{
    return node->output_count == 1 && hyp_chain_find(c->g, c->uses, c->bytes, node->outputs[0], out);
}

/* Puts v's node on the list unless it is a leaf or known. */
static hyp_status gather(hyp_constants *c, hyp_value_id v, hyp_diag *diag)
{
    const hyp_value *value = value_at(c, v);
    return is_leaf(value) || c->states[value->producer] != WANTED ? HYP_OK : push(c, value->producer, GATHERED, diag);
}

static int by_number(const void *a, const void *b)
{
    hyp_node_id x = *(const hyp_node_id *)a, y = *(const hyp_node_id *)b;
    return (x > y) - (x < y);
}

/* Runs what v needs and has not run. */
static hyp_status compute(hyp_constants *c, hyp_value_id v, hyp_diag *diag)
{
    c->list.len = 0;
    HYP_TRY(gather(c, v, diag));
    for (size_t i = 0; i < c->list.len; i++) {
        const hyp_node *node = node_at(c, c->list.data[i]);
        hyp_chain chain;
        if (chain_of(c, node, &chain)) {
            HYP_TRY(gather(c, chain.from, diag));
            continue;
        }
        for (uint32_t k = 0; k < node->input_count; k++)
            if (node->inputs[k] != HYP_NO_VALUE) HYP_TRY(gather(c, node->inputs[k], diag));
    }
    if (c->list.len) qsort(c->list.data, c->list.len, sizeof *c->list.data, by_number);
    for (size_t i = 0; i < c->list.len; i++) {
        const hyp_node *node = node_at(c, c->list.data[i]);
        hyp_chain chain;
        hyp_status status =
            chain_of(c, node, &chain) ? run_chain(c, &chain, node->outputs[0], diag) : run_operator(c, node, diag);
        if (status != HYP_OK) return name_node(c, node, status, diag);
        c->states[c->list.data[i]] = DONE;
    }
    return HYP_OK;
}

hyp_status hyp_constants_take(hyp_constants *c, hyp_value_id v, void **out, hyp_diag *diag)
{
    size_t bytes;
    const void *from;
    *out = NULL;
    HYP_TRY(compute(c, v, diag));
    if (c->bytes[v] && c->uses[v] == 1) {
        *out = c->bytes[v];
        c->bytes[v] = NULL;
        c->uses[v] = 0;
        return HYP_OK;
    }
    HYP_TRY(bytes_of(c, v, &from, out, diag));
    if (!*out) { /* others read it as well, or it is a constant of the graph */
        if (!hyp_type_bytes(&value_at(c, v)->type, &bytes) || !(*out = hyp_malloc(bytes)))
            return hyp_fail_memory(diag, bytes);
        if (bytes) memcpy(*out, from, bytes);
    }
    release(c, v);
    return HYP_OK;
}

hyp_status hyp_constants_node(hyp_dims *dims, hyp_op op, const hyp_attr *attrs, const hyp_tensor *const *in,
                              uint32_t input_count, hyp_eval_tensor *out, hyp_diag *diag)
{
    hyp_arena arena = {0};
    hyp_eval_tensor *loaded = hyp_arena_zalloc(&arena, input_count + 1, sizeof *loaded);
    const hyp_eval_tensor **list = hyp_arena_zalloc(&arena, input_count + 1, sizeof *list);
    hyp_status status = loaded && list ? HYP_OK : hyp_fail_memory(diag, input_count * sizeof *loaded);
    for (uint32_t i = 0; status == HYP_OK && i < input_count; i++) {
        if (!in[i]) continue;
        status = hyp_eval_tensor_load(&loaded[i], in[i], diag);
        list[i] = &loaded[i];
    }
    if (status == HYP_OK) status = hyp_op_eval(dims, op, attrs, HYP_EVAL_FAST, list, input_count, out, 1, NULL, diag);
    for (uint32_t i = 0; loaded && i < input_count; i++) hyp_eval_tensor_dispose(&loaded[i]);
    hyp_arena_dispose(&arena);
    return status;
}
