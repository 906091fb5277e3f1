/* linear.c - linear steps: which of their layers run in one launch of ours (layers.c), and which by cuBLASLt (gemm.c).
 */
#include "runtime/cuda/linear.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

bool hyp_cuda_linear_key(const hyp_cuda_build *b, const HypPlan__Linear *k, char out[HYP_CUDA_LINEAR_KEY])
{
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    if (k->n_layers > HYP_CUDA_LAYERS || b->values[k->m] == 0) return false;
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

/* What tuning found for the step; 0 parts when nothing is known. What is not of this step's layers is not taken. */
static size_t recall(const hyp_cuda_build *b, const HypPlan__Linear *k, const uint8_t **out_parts)
{
    char key[HYP_CUDA_LINEAR_KEY];
    if (b->session->untuned || b->probe || b->session->tuning.products.len == 0 || !hyp_cuda_linear_key(b, k, key))
        return 0;
    const HypPlan__TunedProduct *tuned = hyp_tuning_find(&b->session->tuning, key);
    size_t layers = 0;
    if (!tuned) return 0;
    for (size_t i = 0; i < tuned->algorithm.len; i++) layers += tuned->algorithm.data[i] ? tuned->algorithm.data[i] : 1;
    *out_parts = tuned->algorithm.data;
    return layers == k->n_layers ? tuned->algorithm.len : 0;
}

/* Layers first to first + count - 1 in one launch of our own, where that is possible, and expected to be faster or
 * `asked` for. */
static hyp_status add_launch(hyp_cuda_build *b, const HypPlan__Linear *k, size_t first, size_t count, bool asked,
                             bool *out_done)
{
    return hyp_cuda_add_layers(b, k, first, count, hyp_cuda_layer_input(k, first),
                               hyp_cuda_layer_result(k, first + count - 1), asked, out_done);
}

hyp_status hyp_cuda_add_parts(hyp_cuda_build *b, const HypPlan__Linear *k, const uint8_t *parts, size_t count,
                              bool *out_done)
{
    size_t l = 0;
    *out_done = true;
    for (size_t i = 0; i < count; i++) {
        bool done = false;
        size_t end = l + (parts[i] ? parts[i] : 1);
        if (parts[i]) HYP_TRY(add_launch(b, k, l, parts[i], true, &done));
        *out_done = *out_done && (done || !parts[i]);
        for (; l < end && !done; l++) HYP_TRY(hyp_cuda_add_layer(b, k, l));
        l = end;
    }
    return HYP_OK;
}

/* As many layers as possible in one launch of our own; else one of them, by our own kernel or cuBLASLt. */
static hyp_status add_next(hyp_cuda_build *b, const HypPlan__Linear *k, size_t first, uint8_t *out_part)
{
    size_t count = k->n_layers - first < HYP_CUDA_LAYERS ? k->n_layers - first : HYP_CUDA_LAYERS;
    bool done;
    for (;; count = 1) {
        HYP_TRY(add_launch(b, k, first, count, false, &done));
        *out_part = done ? (uint8_t)count : 0;
        if (done) return HYP_OK;
        if (count == 1) return hyp_cuda_add_layer(b, k, first);
    }
}

hyp_status hyp_cuda_add_by_rule(hyp_cuda_build *b, const HypPlan__Linear *k, uint8_t *out_parts, size_t *out_count)
{
    uint8_t part;
    *out_count = 0;
    for (size_t l = 0; l < k->n_layers; l += part ? part : 1) {
        HYP_TRY(add_next(b, k, l, &part));
        if (out_parts) out_parts[(*out_count)++] = part;
    }
    return HYP_OK;
}

hyp_status hyp_cuda_add_linear(hyp_cuda_build *b, const HypPlan__Linear *k)
{
    const uint8_t *parts;
    size_t count = recall(b, k, &parts);
    bool done;
    return count > 0 ? hyp_cuda_add_parts(b, k, parts, count, &done) : hyp_cuda_add_by_rule(b, k, NULL, &count);
}
