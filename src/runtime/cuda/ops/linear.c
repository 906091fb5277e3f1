/* linear.c - linear steps: the ways to do their layers, and the one that is taken. */
#include "runtime/cuda/ops/linear.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/cuda/ops/linear_few_rows.h"
#include "runtime/cuda/ops/prior.h"

/* The form of an alternative: a bit for every layer that our own kernel does, and how many parts the sums are split into. */
enum { PARTS_AT = HYP_CUDA_LINEAR_LAYERS };

/* ---- the key ------------------------------------------------------------------------------------------------- */

/* The most rows for which layers are done as for so many: our kernel is another one for a single row, for up to 16, and
 * for more. */
static int64_t alike_up_to(int64_t rows)
{
    int64_t bound = rows == 1 ? 1 : rows <= HYP_CUDA_LAYER_ROWS ? HYP_CUDA_LAYER_ROWS : INT64_MAX;
    return 2 * rows < bound ? 2 * rows : bound;
}

/* Types, sizes, and what every layer does: "linear f32 16: 784-512 bias relu, 512-10 bias". Empty where the step is not to be
 * tuned: without elements, or with too many layers. */
static void set_key(const hyp_cuda_build *b, const hyp_cuda_layers *layers, hyp_choice *out)
{
    const HypPlan__Linear *k = layers->k;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    bool fits = layers->count == k->n_layers && b->values[k->m] > 0;
    size_t n = (size_t)snprintf(out->key, sizeof out->key, "linear %s ", k->tf32 ? "tf32" : hyp_dtype_name(dtype));
    out->size_at = n;
    out->size_most = alike_up_to(b->values[k->m]);
    n += (size_t)snprintf(out->key + n, sizeof out->key - n, "%lld:", (long long)b->values[k->m]);
    for (size_t i = 0; i < k->n_layers && fits; i++) {
        const HypPlan__Layer *l = k->layers[i];
        bool act = l->act != HYP_PLAN__ACT__ACT_NONE, last = i + 1 == k->n_layers, added = last && k->added_plus1;
        n += (size_t)snprintf(out->key + n, sizeof out->key - n, " %lld-%lld%s%s%s%s%s%s%s", (long long)b->values[l->k],
                              (long long)b->values[l->n], l->weight_kn ? " kn" : "", l->bias_plus1 ? " bias" : "",
                              added && !k->add_after ? " added" : "", act ? " " : "",
                              act ? hyp_plan_act_name(l->act) : "", added && k->add_after ? " added" : "",
                              last ? "" : ",");
        fits = b->values[l->n] > 0 && b->values[l->k] > 0 && n < sizeof out->key;
    }
    if (fits && layers->norm) n += (size_t)snprintf(out->key + n, sizeof out->key - n, ", then %s", layers->norm->kernel);
    if (!fits || n >= sizeof out->key) out->key[0] = 0;
}

/* ---- what there is to choose from ---------------------------------------------------------------------------- */

/* What every way to do a layer has to do, in seconds: its operands and products, and a sum one of whose tiles is as long. */
typedef struct work {
    double floor, depth;
} work;

static work work_of(const hyp_cuda_build *b, const HypPlan__Linear *k, size_t l)
{
    const double step = 1.5e-9; /* of a sum: 128 rows of 3072 to 768 take 7.6 us, 3 of them for the call */
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    double m = (double)b->values[k->m], n = (double)b->values[k->layers[l]->n], depth = (double)b->values[k->layers[l]->k];
    double bytes = (m * n + n * depth + m * depth) * (double)hyp_dtype_size(dtype);
    return (work){hyp_cuda_floor_seconds(dtype, k->tf32, bytes, 2 * m * n * depth), step * depth};
}

typedef struct prices {
    double library[HYP_CUDA_LINEAR_LAYERS], own[HYP_CUDA_LINEAR_LAYERS];
} prices;

/* One alternative: these layers by our own kernel, by the bits of `own`. */
static void offer(hyp_choice *c, const prices *p, size_t count, uint32_t own)
{
    char name[HYP_CHOICE_NAME] = "cublaslt", *at;
    double seconds = 0;
    if (own) at = name + snprintf(name, sizeof name, "few-rows");
    if (own && own != (1u << count) - 1) { /* "few-rows 011": all but the first of three */
        *at++ = ' ';
        for (size_t l = 0; l < count; l++) *at++ = own >> l & 1 ? '1' : '0';
        *at = 0;
    }
    for (size_t l = 0; l < count; l++) seconds += own >> l & 1 ? p->own[l] : p->library[l];
    hyp_choice_offer(c, name, own, seconds, NULL);
}

/* Where a normalization comes next: the sums split. It pays while the multiprocessors have room for all parts. */
static void offer_parts(const hyp_cuda_build *b, const hyp_cuda_layers *layers, double library, hyp_choice *c)
{
    static const uint32_t counts[] = {HYP_CUDA_PARTS, 4, 3, 2};
    const double adding_up = 1e-6;
    const HypPlan__Layer *layer = layers->k->layers[0];
    hyp_cuda_product product;
    hyp_cuda_product_linear(hyp_cuda_dtype(b->program, layers->k->x), layers->k->tf32, b->values[layers->k->m],
                            b->values[layer->n], b->values[layer->k], layer->weight_kn, &product);
    work w = work_of(b, layers->k, 0);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char name[HYP_CHOICE_NAME];
        bool gains = hyp_cuda_product_gains(&product, counts[i], b->session->model->device->multiprocessors);
        snprintf(name, sizeof name, "split %u", counts[i]);
        hyp_choice_offer(c, name, counts[i] << PARTS_AT,
                         gains ? hyp_cuda_library_seconds + (w.floor + w.depth / counts[i]) : library + adding_up,
                         hyp_cuda_cannot_split(b->session, &product, counts[i]));
    }
}

void hyp_cuda_offer_layers(const hyp_cuda_build *b, const hyp_cuda_layers *layers, hyp_choice *out)
{
    const HypPlan__Linear *k = layers->k;
    const uint32_t last = 1u << (layers->count - 1);
    uint32_t can = 0, best = 0;
    const char *cannot = NULL;
    prices p;
    hyp_choice_init(out);
    set_key(b, layers, out);
    for (size_t i = 0; i < layers->count; i++) {
        hyp_cuda_few_rows form;
        size_t l = layers->first + i;
        work w = work_of(b, k, l);
        const char *why = hyp_cuda_few_rows_find(b, k, l, HYP_CUDA_NORM_NONE, &form);
        double share = hyp_cuda_few_rows_share(hyp_cuda_dtype(b->program, k->x), k->tf32, b->values[k->m],
                                               b->values[k->layers[l]->n], b->values[k->layers[l]->k]);
        p.library[i] = hyp_cuda_library_seconds + (w.floor + w.depth);
        p.own[i] = hyp_cuda_own_seconds * (1 + share) + (w.floor + w.depth);
        if (!why) can |= 1u << i;
        if (!why && p.own[i] < p.library[i]) best |= 1u << i;
        if (why) cannot = why;
    }
    offer(out, &p, layers->count, best);
    const uint32_t others[] = {can, 0, can & last, can & ~last};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) offer(out, &p, layers->count, others[i]);
    if (!can) hyp_choice_offer(out, "few-rows", 0, 0, cannot);
    if (layers->norm) offer_parts(b, layers, p.library[0], out);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

static hyp_status add_form(hyp_cuda_build *b, const void *step, uint32_t form)
{
    const hyp_cuda_layers *layers = step;
    if (form >> PARTS_AT) return hyp_cuda_add_split(b, layers->k, layers->norm, form >> PARTS_AT);
    for (size_t i = 0; i < layers->count; i++)
        HYP_TRY((form >> i & 1 ? hyp_cuda_add_few_rows : hyp_cuda_add_layer)(b, layers->k, layers->first + i));
    if (!layers->norm) return HYP_OK;
    b->step++;
    return hyp_cuda_add_call(b, layers->norm);
}

hyp_status hyp_cuda_add_linear(hyp_cuda_build *b, const HypPlan__Linear *k)
{
    const HypPlan__Step *next = b->step + 1 < b->program->n_steps ? b->program->steps[b->step + 1] : NULL;
    bool done;
    HYP_TRY(hyp_cuda_add_cell(b, k, &done));
    if (done) return HYP_OK;
    hyp_cuda_layers layers = {.k = k, .norm = next && hyp_cuda_adds_up(b, k, next) ? next->call : NULL};
    for (; layers.first < k->n_layers; layers.first += layers.count) {
        size_t left = k->n_layers - layers.first;
        hyp_choice choice;
        layers.count = left < HYP_CUDA_LINEAR_LAYERS ? left : HYP_CUDA_LINEAR_LAYERS;
        hyp_cuda_offer_layers(b, &layers, &choice);
        HYP_TRY(hyp_cuda_add_chosen(b, &choice, add_form, &layers));
    }
    return HYP_OK;
}
