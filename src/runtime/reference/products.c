/* linear and matmul: double accumulation, one rounding at the end; of integers modulo 2^64. */
#include <math.h>

#include "base/dtype.h"
#include "kernels/scalar.h"
#include "runtime/reference/reference.h"

double hyp_reference_act(HypPlan__Act act, double x) { return hyp_function_f64((int)hyp_plan_act_op(act), x, 0, 0); }

/* Four sums, so that the additions of one do not wait for each other. */
static double dot_f32(const float *a, const float *b, int64_t n)
{
    double s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++) s[j] += (double)a[i + j] * (double)b[i + j];
    for (; i < n; i++) s[0] += (double)a[i] * (double)b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* sum over i of a[a0 + i a_step] * b[b0 + i b_step], in the order of dot_f32: how a matrix lies changes no bit. */
static double dot(hyp_dtype t, const void *a, int64_t a0, int64_t a_step, const void *b, int64_t b0, int64_t b_step,
                  int64_t n)
{
    if (n > 0 && t == HYP_F32 && a_step == 1 && b_step == 1)
        return dot_f32((const float *)a + a0, (const float *)b + b0, n);
    double s[4] = {0};
    for (int64_t i = 0; i < n; i++)
        s[i < n / 4 * 4 ? i % 4 : 0] +=
            hyp_load_f64(t, a, (size_t)(a0 + i * a_step)) * hyp_load_f64(t, b, (size_t)(b0 + i * b_step));
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* The same sum of integers. */
static uint64_t integer_dot(hyp_dtype t, const void *a, int64_t a0, int64_t a_step, const void *b, int64_t b0,
                            int64_t b_step, int64_t n)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (uint64_t)hyp_load_i64(t, a, (size_t)(a0 + i * a_step)) *
               (uint64_t)hyp_load_i64(t, b, (size_t)(b0 + i * b_step));
    return sum;
}

/* One layer of integers: y = act(x w + b + before) + after. */
static void integer_layer(const hyp_reference_call *call, const HypPlan__Layer *layer, hyp_dtype t, int64_t m,
                          const void *x, const void *before, const void *after, void *y)
{
    int64_t n = call->values[layer->n], k = call->values[layer->k];
    const void *w = call->at[layer->weight], *b = layer->bias_plus1 ? call->at[layer->bias_plus1 - 1] : NULL;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            size_t at = (size_t)(i * n + j);
            uint64_t sum = integer_dot(t, x, i * k, 1, w, layer->weight_kn ? j : j * k, layer->weight_kn ? n : 1, k);
            if (b) sum += (uint64_t)hyp_load_i64(t, b, (size_t)j);
            if (before) sum += (uint64_t)hyp_load_i64(t, before, at);
            uint64_t more = after ? (uint64_t)hyp_load_i64(t, after, at) : 0;
            hyp_store_i64(t, y, at, (int64_t)sum); /* which may be what is added */
            if (layer->act == HYP_PLAN__ACT__ACT_RELU && hyp_load_i64(t, y, at) < 0 && t != HYP_U64)
                hyp_store_i64(t, y, at, 0);
            if (after) hyp_store_i64(t, y, at, (int64_t)((uint64_t)hyp_load_i64(t, y, at) + more));
        }
}

void hyp_reference_linear(const hyp_reference_call *call, const HypPlan__Linear *s)
{
    hyp_dtype t = hyp_tensor_dtype(call->program, s->x), to = hyp_tensor_dtype(call->program, s->y);
    int64_t m = call->values[s->m];
    const void *x = call->at[s->x], *added = s->added_plus1 ? call->at[s->added_plus1 - 1] : NULL;
    for (size_t l = 0; l < s->n_layers; l++) {
        const HypPlan__Layer *layer = s->layers[l];
        int64_t n = call->values[layer->n], k = call->values[layer->k];
        double scale = t == HYP_F8E4M3 ? (double)layer->x_scale * (double)layer->weight_scale : 1;
        const void *before = l + 1 == s->n_layers && !s->add_after ? added : NULL;
        const void *after = l + 1 == s->n_layers && s->add_after ? added : NULL;
        void *y = call->at[layer->hidden_plus1 && l + 1 < s->n_layers ? layer->hidden_plus1 - 1 : s->y];
        const void *w = call->at[layer->weight], *b = layer->bias_plus1 ? call->at[layer->bias_plus1 - 1] : NULL;
        if (!hyp_dtype_is_float(t)) integer_layer(call, layer, t, m, x, before, after, y);
        for (int64_t i = 0; i < m && hyp_dtype_is_float(t); i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = scale * dot(t, x, i * k, 1, w, layer->weight_kn ? j : j * k, layer->weight_kn ? n : 1, k);
                if (b) sum += hyp_load_f64(to, b, (size_t)j);
                size_t at = (size_t)(i * n + j);
                if (before) sum += hyp_load_f64(to, before, at);
                sum = hyp_reference_act(layer->act, sum);
                if (after) sum += hyp_load_f64(to, after, at);
                hyp_store_f64(to, y, at, sum);
            }
        x = y;
    }
}

void hyp_reference_matmul(const hyp_reference_call *call, const HypPlan__Matmul *s)
{
    hyp_dtype t = hyp_tensor_dtype(call->program, s->a);
    int64_t m = call->values[s->m], n = call->values[s->n], k = call->values[s->k];
    void *y = call->at[s->y];
    hyp_walk w;
    hyp_walk_init(&w, call->values, s->batch, s->n_batch);
    hyp_walk_lane(&w, call->values, s->a_strides, 0);
    hyp_walk_lane(&w, call->values, s->b_strides, 0);
    int64_t count = hyp_walk_count(&w);
    for (int64_t batch = 0; batch < count; batch++, hyp_walk_next(&w))
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t a = w.offset[0] + (s->trans_a ? i : i * k), a_step = s->trans_a ? m : 1;
                int64_t b = w.offset[1] + (s->trans_b ? j * k : j), b_step = s->trans_b ? 1 : n;
                size_t to = (size_t)((batch * m + i) * n + j);
                if (hyp_dtype_is_float(t))
                    hyp_store_f64(t, y, to,
                                  (double)s->alpha * dot(t, call->at[s->a], a, a_step, call->at[s->b], b, b_step, k));
                else
                    hyp_store_i64(t, y, to,
                                  (int64_t)integer_dot(t, call->at[s->a], a, a_step, call->at[s->b], b, b_step, k));
            }
}
