/* samples.c - sample inputs, one at a time, through the interpreter. */
#include <string.h>

#include "driver/driver.h"

/* How many samples a set has, by its stacks. */
static hyp_status count_samples(const hyp_graph *g, const hyp_samples *set, int64_t *out, hyp_diag *diag)
{
    *out = -1;
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_value *value = &g->values.data[g->inputs.data[i]];
        const hyp_tensor *t = hyp_find_input(g, i, set->tensors, set->count);
        if (!t || t->rank == value->type.rank) continue; /* loading says what is wrong */
        if (t->rank != value->type.rank + 1)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "the samples of input '%s' have %d axes; wanted %d, or %d for a stack of samples",
                            value->name, t->rank, value->type.rank, value->type.rank + 1);
        if (t->dims[0] < 1)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a stack of no samples was given for input '%s'",
                            value->name);
        if (*out >= 0 && *out != t->dims[0])
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "there are %lld samples of input '%s', and %lld of another",
                            (long long)t->dims[0], value->name, (long long)*out);
        *out = t->dims[0];
    }
    if (*out < 0) *out = 1;
    return HYP_OK;
}

/* Sample `at` of a stack; what is none is the sample itself. */
static hyp_tensor sample_of(const hyp_tensor *t, int32_t rank, int64_t at)
{
    hyp_tensor one = *t;
    if (t->rank == rank) return one;
    one.rank = rank;
    memmove(one.dims, t->dims + 1, (size_t)rank * sizeof *one.dims);
    one.bytes = t->bytes / (size_t)t->dims[0];
    if (t->data) one.data = (char *)t->data + (size_t)at * one.bytes;
    return one;
}

static bool is_input(const hyp_graph *g, const char *name)
{
    for (size_t i = 0; i < g->inputs.len; i++)
        if (strcmp(g->values.data[g->inputs.data[i]].name, name) == 0) return true;
    return false;
}

static hyp_status for_set(const hyp_graph *g, const hyp_samples *set, hyp_tensor *now, hyp_sample_fn *each, void *user,
                          hyp_diag *diag)
{
    int64_t samples;
    for (size_t i = 0; i < set->count; i++)
        if (set->tensors[i].name && !is_input(g, set->tensors[i].name))
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the model has no input '%s', of which samples were given",
                            set->tensors[i].name);
    HYP_TRY(count_samples(g, set, &samples, diag));
    for (int64_t s = 0; s < samples; s++) {
        size_t count = 0;
        for (size_t i = 0; i < g->inputs.len; i++) {
            const hyp_value *value = &g->values.data[g->inputs.data[i]];
            const hyp_tensor *t = hyp_find_input(g, i, set->tensors, set->count);
            if (!t) continue;
            now[count] = sample_of(t, value->type.rank, s);
            now[count++].name = value->name;
        }
        hyp_status status = each(user, now, count, diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "sample %lld", (long long)s);
        return status;
    }
    return HYP_OK;
}

hyp_status hyp_for_samples(const hyp_graph *g, const hyp_samples *samples, size_t count, hyp_sample_fn *each,
                           void *user, hyp_diag *diag)
{
    hyp_tensor *now = hyp_calloc(g->inputs.len + 1, sizeof *now);
    hyp_status status = now ? HYP_OK : hyp_fail_memory(diag, g->inputs.len * sizeof *now);
    for (size_t i = 0; i < count && status == HYP_OK; i++) {
        status = for_set(g, &samples[i], now, each, user, diag);
        if (status != HYP_OK && count > 1) hyp_diag_prefix(diag, "set %zu of samples", i);
    }
    hyp_free(now);
    return status;
}

static hyp_status calibrate(void *user, const hyp_tensor *inputs, size_t count, hyp_diag *diag)
{
    hyp_calibration *c = user;
    size_t wanted = c->graph->inputs.len;
    hyp_eval_tensor *loaded = hyp_calloc(wanted + 1, sizeof *loaded);
    if (!loaded) return hyp_fail_memory(diag, wanted * sizeof *loaded);
    hyp_status status = hyp_load_inputs(c->graph, inputs, count, loaded, diag);
    if (status == HYP_OK) status = hyp_calibrate(c, loaded, wanted, diag);
    for (size_t i = 0; i < wanted; i++) hyp_eval_tensor_dispose(&loaded[i]);
    hyp_free(loaded);
    return status;
}

hyp_status hyp_run_samples(hyp_calibration *c, const hyp_samples *samples, size_t count, hyp_diag *diag)
{
    return hyp_for_samples(c->graph, samples, count, calibrate, c, diag);
}
