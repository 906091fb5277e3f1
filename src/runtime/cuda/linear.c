/* linear.c - linear steps: which of their layers our own kernel does (layers.c), and which cuBLASLt (gemm.c). */
#include "runtime/cuda/linear.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

bool hyp_cuda_linear_key(const hyp_cuda_build *b, const HypPlan__Linear *k, char out[HYP_CUDA_LINEAR_KEY])
{
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    if (k->n_layers > HYP_CUDA_LINEAR_LAYERS || b->values[k->m] == 0) return false;
    size_t n = (size_t)snprintf(out, HYP_CUDA_LINEAR_KEY, "layers %s %lld:", k->tf32 ? "tf32" : hyp_dtype_name(dtype),
                                (long long)b->values[k->m]);
    for (size_t i = 0; i < k->n_layers && n < HYP_CUDA_LINEAR_KEY; i++) {
        const HypPlan__Layer *l = k->layers[i];
        bool act = l->act != HYP_PLAN__ACT__ACT_NONE, last = i + 1 == k->n_layers, added = last && k->added_plus1;
        if (b->values[l->n] == 0 || b->values[l->k] == 0) return false;
        n += (size_t)snprintf(out + n, HYP_CUDA_LINEAR_KEY - n, " %lld-%lld%s%s%s%s%s%s%s", (long long)b->values[l->k],
                              (long long)b->values[l->n], l->weight_kn ? " kn" : "", l->bias_plus1 ? " bias" : "",
                              added && !k->add_after ? " added" : "", act ? " " : "",
                              act ? hyp_plan_act_name(l->act) : "", added && k->add_after ? " added" : "",
                              last ? "" : ",");
    }
    return n < HYP_CUDA_LINEAR_KEY;
}

/* What tuning found for the step; NULL when nothing is known. What is not of this step's layers is not taken. */
static const uint8_t *recall(const hyp_cuda_build *b, const HypPlan__Linear *k)
{
    char key[HYP_CUDA_LINEAR_KEY];
    if (b->session->untuned || b->probe || b->session->tuning.products.len == 0 || !hyp_cuda_linear_key(b, k, key))
        return NULL;
    const HypPlan__TunedProduct *tuned = hyp_tuning_find(&b->session->tuning, key);
    return tuned && tuned->algorithm.len == k->n_layers ? tuned->algorithm.data : NULL;
}

hyp_status hyp_cuda_add_chosen(hyp_cuda_build *b, const HypPlan__Linear *k, const uint8_t *choice, bool *out_done)
{
    *out_done = true;
    for (size_t l = 0; l < k->n_layers; l++) {
        bool done = false;
        if (choice[l]) HYP_TRY(hyp_cuda_add_few_rows(b, k, l, true, &done));
        if (!done) HYP_TRY(hyp_cuda_add_layer(b, k, l));
        *out_done = *out_done && (done || !choice[l]);
    }
    return HYP_OK;
}

hyp_status hyp_cuda_add_by_rule(hyp_cuda_build *b, const HypPlan__Linear *k, uint8_t *out_choice)
{
    for (size_t l = 0; l < k->n_layers; l++) {
        bool done;
        HYP_TRY(hyp_cuda_add_few_rows(b, k, l, false, &done));
        if (!done) HYP_TRY(hyp_cuda_add_layer(b, k, l));
        if (out_choice) out_choice[l] = done;
    }
    return HYP_OK;
}

hyp_status hyp_cuda_add_linear(hyp_cuda_build *b, const HypPlan__Linear *k)
{
    const uint8_t *choice = recall(b, k);
    bool done;
    return choice ? hyp_cuda_add_chosen(b, k, choice, &done) : hyp_cuda_add_by_rule(b, k, NULL);
}
