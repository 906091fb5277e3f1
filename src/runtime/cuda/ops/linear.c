/* linear.c - linear steps: which of their layers our own kernel does (linear_few_rows.c), and which cuBLASLt (gemm.c). */
#include "runtime/cuda/ops/linear.h"

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

/* The most rows for which layers are done as for so many: our kernel is another one for a single row, for up to 16, and
 * for more. */
static int64_t alike_up_to(int64_t rows)
{
    int64_t bound = rows == 1 ? 1 : rows <= HYP_CUDA_LAYER_ROWS ? HYP_CUDA_LAYER_ROWS : INT64_MAX;
    return 2 * rows < bound ? 2 * rows : bound;
}

/* What tuning found for the step, or for the next larger number of rows that is so alike; NULL when nothing is known. What
 * is not of this step's layers is not taken. */
static const uint8_t *recall(hyp_cuda_build *b, const HypPlan__Linear *k)
{
    const hyp_tuning *t = &b->session->tuning;
    char key[HYP_CUDA_LINEAR_KEY];
    if (b->session->untuned || b->probe || t->products.len == 0 || !hyp_cuda_linear_key(b, k, key)) return NULL;
    const size_t rows_at = (size_t)(strchr(strchr(key, ' ') + 1, ' ') + 1 - key); /* "layers f32 16: ..." */
    const HypPlan__TunedProduct *exact = hyp_tuning_find(t, key), *tuned = exact;
    if (!tuned) tuned = hyp_tuning_find_larger(t, key, rows_at, alike_up_to(b->values[k->m]));
    if (!tuned || tuned->algorithm.len != k->n_layers) return NULL;
    hyp_cuda_note_known(b, exact ? HYP_CUDA_TUNED : HYP_CUDA_BORROWED);
    return tuned->algorithm.data;
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
        if (done) hyp_cuda_note_known(b, HYP_CUDA_NOT_TUNED);
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
