/* verify_cost.c - what verifying and compiling take, in seconds of a processor of 2020 by counted work: the same on
 * every machine, so that what is verified by default does not depend on where or how busily a model is compiled.
 */
#include "driver/driver.h"
#include "ir/constants.h"

/* Measured on one thread of an AVX2 server processor (3 GHz), release build. */
static const double product_seconds = 4e-11;   /* a multiplication of a library, with what gathers and checks it */
static const double step_seconds = 8e-9;       /* an element of a result: computed, rounded, moved */
static const double input_seconds = 2e-9;      /* an element that is read */
static const double constant_seconds = 3.5e-9; /* a float of a constant that is read, also as the plan is loaded */
static const double stored_seconds = 3e-9;     /* a byte of a constant, from the model into the plan */
static const double enode_seconds = 6e-5;      /* an e-node: matching, applying, extracting */

enum { RUNS = 4 /* of the interpreter, for a sample with its tolerances */ };

/* The type of a value for these sizes of the symbols. */
static hyp_status fix_type(const hyp_graph *g, hyp_value_id v, const int64_t *sizes, hyp_type *out, hyp_diag *diag)
{
    *out = g->values.data[v].type;
    for (int32_t a = 0; a < out->rank; a++) HYP_TRY(hyp_dim_eval(g->dims, out->dims[a], sizes, &out->dims[a], diag));
    return HYP_OK;
}

static double count_elements(const hyp_type *t)
{
    double count = 1;
    for (int32_t a = 0; a < t->rank; a++) count *= (double)t->dims[a];
    return count;
}

static hyp_status add_node(const hyp_graph *g, const hyp_node *n, const int64_t *sizes, double *seconds, hyp_diag *diag)
{
    hyp_arena arena = {0};
    size_t count = (size_t)n->input_count + n->output_count;
    hyp_type *types = hyp_arena_zalloc(&arena, count, sizeof *types);
    const hyp_type **list = hyp_arena_zalloc(&arena, count, sizeof *list);
    hyp_status status = types && list ? HYP_OK : hyp_fail_memory(diag, count * sizeof *types);
    for (size_t i = 0; i < count && status == HYP_OK; i++) {
        hyp_value_id v = i < n->input_count ? n->inputs[i] : n->outputs[i - n->input_count];
        if (v == HYP_NO_VALUE) continue;
        status = fix_type(g, v, sizes, &types[i], diag);
        list[i] = &types[i];
        bool constant = g->values.data[v].kind == HYP_VALUE_CONST;
        bool few = constant && n->op == HYP_OP_gather; /* of whose elements are read */
        if (i < n->input_count && !few)
            *seconds += count_elements(&types[i]) * (constant ? constant_seconds : input_seconds);
    }
    if (status == HYP_OK) {
        hyp_work w = hyp_work_of(n->op, n->attrs, list, n->input_count, list + n->input_count, n->output_count);
        *seconds += (double)w.products * product_seconds + (double)w.steps * step_seconds;
    }
    hyp_arena_dispose(&arena);
    return status;
}

hyp_status hyp_sample_seconds(const hyp_graph *g, const hyp_settings *settings, hyp_draw how, int attempt, double *out,
                              hyp_diag *diag)
{
    int64_t *sizes = hyp_calloc(hyp_dims_symbol_count(g->dims) + 1, sizeof *sizes);
    if (!sizes) return hyp_fail_memory(diag, sizeof *sizes);
    hyp_status status = HYP_OK;
    hyp_sample_sizes(g, settings, how, attempt, sizes);
    *out = 0;
    for (size_t i = 0; i < g->nodes.len && status == HYP_OK; i++)
        status = add_node(g, &g->nodes.data[i], sizes, out, diag);
    *out *= RUNS;
    hyp_free(sizes);
    return status;
}

double hyp_storing_seconds(const hyp_graph *imported)
{
    double seconds = 0;
    for (size_t v = 0; v < imported->values.len; v++)
        if (imported->values.data[v].kind == HYP_VALUE_CONST)
            seconds += (double)imported->values.data[v].bytes * stored_seconds;
    return seconds;
}

double hyp_compile_seconds(const hyp_graph *imported, const hyp_rewrite_report *rewrite)
{
    double seconds = hyp_storing_seconds(imported);
    for (size_t i = 0; rewrite && i < rewrite->phase_count; i++)
        seconds += (double)rewrite->phases[i].e_nodes * enode_seconds;
    return seconds;
}
