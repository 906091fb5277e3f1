#include "runtime/cuda/ops/gemm_problem.h"

#include <stdio.h>
#include <string.h>

#include "runtime/cuda/ops/prior.h"

static void set_types(hyp_dtype dtype, bool tf32, hyp_cuda_product *p)
{
    p->compute = CUBLAS_COMPUTE_32F;
    p->scale = CUDA_R_32F;
    p->result = CUDA_R_16BF;
    switch (dtype) {
    case HYP_F8E4M3: p->type = CUDA_R_8F_E4M3; return;
    case HYP_F16: p->type = CUDA_R_16F; break;
    case HYP_BF16: p->type = CUDA_R_16BF; break;
    case HYP_F64:
        p->type = p->scale = CUDA_R_64F;
        p->compute = CUBLAS_COMPUTE_64F;
        break;
    default:
        p->type = CUDA_R_32F;
        if (tf32) p->compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    }
    p->result = p->type;
}

/* left[m,k] times right[k,n], row-major; the flags say that one is stored transposed. Read column-major, left is [k,m]
 * and right [n,k], so a flag's absence means no op. */
static void set_layout(int64_t m, int64_t n, int64_t k, bool trans_left, bool trans_right, hyp_cuda_product *p)
{
    p->m = n;
    p->n = m;
    p->k = k;
    p->trans_a = trans_right;
    p->trans_b = trans_left;
    p->lda = trans_right ? k : n;
    p->ldb = trans_left ? m : k;
    p->ldd = n;
    p->batch = 1;
}

void hyp_cuda_product_linear(hyp_dtype dtype, bool tf32, int64_t m, int64_t n, int64_t k, bool weight_kn,
                             hyp_cuda_product *out)
{
    *out = (hyp_cuda_product){0};
    set_types(dtype, tf32, out);
    set_layout(m, n, k, false, !weight_kn, out);
}

void hyp_cuda_product_gradient(hyp_dtype dtype, bool tf32, bool turned, int64_t n, int64_t k, int64_t rows,
                               hyp_cuda_product *out)
{
    *out = (hyp_cuda_product){0};
    set_types(dtype, tf32, out);
    set_layout(turned ? k : n, turned ? n : k, rows, true, false, out);
}

/* A batch over which the right operand stays the same and the left one is dense is one product with more rows. */
static bool is_more_rows(const hyp_cuda_box *batch, int64_t m, int64_t k, bool trans_left)
{
    return batch->rank > 0 && !trans_left && batch->stride[0][0] == 0 && batch->stride[1][0] == m * k;
}

static void remove_axis(hyp_cuda_box *box, uint32_t axis)
{
    for (; axis + 1 < box->rank; axis++) hyp_cuda_box_swap(box, axis, axis + 1);
    box->rank--;
}

void hyp_cuda_product_matmul(hyp_dtype dtype, const HypPlan__Matmul *k, const int64_t *values, hyp_cuda_product *out)
{
    *out = (hyp_cuda_product){0};
    int64_t m = values[k->m], n = values[k->n], depth = values[k->k];
    hyp_cuda_box batch;
    hyp_cuda_box_init(&batch, values, k->n_batch, k->batch);
    hyp_cuda_box_add_lane(&batch, values, k->b_strides); /* A is the right operand */
    hyp_cuda_box_add_lane(&batch, values, k->a_strides);
    hyp_cuda_box_add_lane(&batch, values, NULL);
    for (uint32_t a = 0; a < batch.rank; a++) batch.stride[2][a] *= m * n;
    hyp_cuda_box_merge(&batch);
    if (is_more_rows(&batch, m, depth, k->trans_a)) {
        m *= batch.extent[0];
        remove_axis(&batch, 0);
    }
    set_types(dtype, k->tf32, out);
    set_layout(m, n, depth, k->trans_a, k->trans_b, out);
    /* The longest axis goes into the call; the batch count of cuBLASLt is an int32. */
    uint32_t longest = 0;
    for (uint32_t a = 1; a < batch.rank; a++)
        if (batch.extent[a] > batch.extent[longest] && batch.extent[a] <= INT32_MAX) longest = a;
    if (batch.rank > 0 && batch.extent[longest] <= INT32_MAX) {
        out->batch = batch.extent[longest];
        out->stride_a = batch.stride[0][longest];
        out->stride_b = batch.stride[1][longest];
        out->stride_d = batch.stride[2][longest];
        remove_axis(&batch, longest);
    }
    out->outer = batch;
}

/* Twice, for it is read and written. */
static double copying(int64_t rows, int64_t columns, size_t element)
{
    const double bandwidth = 2e12;
    return hyp_cuda_own_seconds + 2 * (double)rows * (double)columns * (double)element / bandwidth;
}

bool hyp_cuda_product_pads(const hyp_cuda_product *p, hyp_cuda_padding *out)
{
    bool narrow = p->type == CUDA_R_16F || p->type == CUDA_R_16BF;
    bool tf32 = p->type == CUDA_R_32F && p->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((!narrow && !tf32) || p->batch != 1 || p->outer.rank > 0) return false;
    /* Of the time that an aligned one takes: for rows of 4 bytes each less than for those of 2. */
    const double saves = tf32 ? 1.3 : (p->lda | p->ldb | p->ldd) % 2 == 0 ? 2 : 5;
    const size_t element = narrow ? 2 : 4;
    const int64_t each = 16 / (int64_t)element, most = INT64_MAX - each;
    if (p->m > most || p->n > most || p->k > most) return false;
    int64_t m = (p->m + each - 1) / each * each, n = p->trans_b ? (p->n + each - 1) / each * each : p->n;
    int64_t k = p->trans_a || !p->trans_b ? (p->k + each - 1) / each * each : p->k;
    *out = (hyp_cuda_padding){*p, m != p->m || k != p->k, k != p->k || n != p->n, m != p->m || n != p->n};
    out->product.m = out->product.ldd = m;
    out->product.n = n;
    out->product.k = k;
    out->product.lda = p->trans_a ? k : m;
    out->product.ldb = p->trans_b ? n : k;
    double copies = (out->a ? copying(m, k, element) : 0) + (out->b ? copying(n, k, element) : 0) +
                    (out->d ? copying(m, n, element) : 0);
    double flops = 2 * (double)p->m * (double)p->n * (double)p->k;
    return (out->a || out->b || out->d) &&
           copies < saves * hyp_cuda_floor_seconds(narrow ? HYP_F16 : HYP_F32, tf32, 0, flops);
}

enum { PART_TILE = 64 };

bool hyp_cuda_product_gains(const hyp_cuda_product *p, uint32_t parts, int multiprocessors)
{
    enum { LEAST_DEPTH = 256 };
    int64_t tiles = ((p->m + PART_TILE - 1) / PART_TILE) * ((p->n + PART_TILE - 1) / PART_TILE);
    return p->k / parts >= LEAST_DEPTH && tiles * parts <= multiprocessors * 3 / 2;
}

bool hyp_cuda_product_splits(const hyp_cuda_product *p, uint32_t parts)
{
    return (p->type == CUDA_R_16F || p->type == CUDA_R_16BF) && p->k > 0 && p->k % (PART_TILE * parts) == 0;
}

void hyp_cuda_product_split(hyp_cuda_product *p, uint32_t parts)
{
    p->k /= parts;
    p->stride_a = p->k * (p->trans_a ? 1 : p->lda);
    p->stride_b = p->k * (p->trans_b ? p->ldb : 1);
    p->stride_d = p->m * p->n;
    p->batch = parts;
    p->result = CUDA_R_32F;
}

bool hyp_cuda_product_is_strict(const hyp_cuda_product *p)
{
    return p->type == CUDA_R_64F || (p->type == CUDA_R_32F && p->compute == CUBLAS_COMPUTE_32F);
}

size_t hyp_cuda_epilogues(HypPlan__Act act, bool bias, const hyp_cuda_product *p, hyp_cuda_epilogue out[3])
{
    size_t n = 0;
    bool some = act != HYP_PLAN__ACT__ACT_NONE;
    bool gelu = (act == HYP_PLAN__ACT__ACT_GELU_TANH && !hyp_cuda_product_is_strict(p)) ||
                (act == HYP_PLAN__ACT__ACT_GELU && p->type == CUDA_R_16BF);
    if (act == HYP_PLAN__ACT__ACT_RELU)
        out[n++] = (hyp_cuda_epilogue){.epilogue = bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU};
    if (gelu)
        out[n++] = (hyp_cuda_epilogue){.epilogue = bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU};
    if (bias) out[n++] = (hyp_cuda_epilogue){.epilogue = CUBLASLT_EPILOGUE_BIAS, .act_after = some};
    out[n++] = (hyp_cuda_epilogue){.epilogue = CUBLASLT_EPILOGUE_DEFAULT, .bias_after = bias, .act_after = some};
    return n;
}

/* Rows of 16 bits that begin at odd places are read by slow products, of which those that add up rows are the slowest. */
size_t hyp_cuda_gradient_epilogues(const hyp_cuda_product *p, bool turned, hyp_cuda_epilogue out[3])
{
    enum { PIECE = 8 };
    const bool odd = p->type != CUDA_R_32F && (turned ? p->lda : p->ldb) % PIECE != 0;
    const hyp_cuda_epilogue inside = {.epilogue = turned ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB};
    out[odd] = inside;
    out[!odd] = (hyp_cuda_epilogue){.epilogue = CUBLASLT_EPILOGUE_DEFAULT, .sums_after = true};
    return 2;
}

static const char *type_name(const hyp_cuda_product *p)
{
    switch (p->type) {
    case CUDA_R_8F_E4M3: return "f8e4m3";
    case CUDA_R_16F: return "f16";
    case CUDA_R_16BF: return "bf16";
    case CUDA_R_64F: return "f64";
    default: return p->compute == CUBLAS_COMPUTE_32F ? "f32" : "tf32";
    }
}

void hyp_cuda_product_key(const hyp_cuda_product *p, bool bias, bool added_before, HypPlan__Act act, bool added_after,
                          char out[HYP_CUDA_PRODUCT_KEY])
{
    bool some = act != HYP_PLAN__ACT__ACT_NONE;
    char batch[128] = "";
    if (p->batch > 1)
        snprintf(batch, sizeof batch, " batch %lld strides %lld %lld %lld", (long long)p->batch, (long long)p->stride_a,
                 (long long)p->stride_b, (long long)p->stride_d);
    snprintf(out, HYP_CUDA_PRODUCT_KEY, "%s %c%c %lldx%lldx%lld ld %lld %lld %lld align %d%s%s%s%s%s%s", type_name(p),
             p->trans_a ? 't' : 'n', p->trans_b ? 't' : 'n', (long long)p->m, (long long)p->n, (long long)p->k,
             (long long)p->lda, (long long)p->ldb, (long long)p->ldd, HYP_CUDA_ALIGN, batch, bias ? " bias" : "",
             added_before ? " added" : "", some ? " " : "", some ? hyp_plan_act_name(act) : "",
             added_after ? " added" : "");
}

void hyp_cuda_gradient_key(const hyp_cuda_product *p, bool turned, char out[HYP_CUDA_PRODUCT_KEY])
{
    hyp_cuda_product_key(p, false, false, HYP_PLAN__ACT__ACT_NONE, false, out);
    strcat(out, turned ? " sums of a" : " sums of b");
}

size_t hyp_cuda_product_rows_at(const char *key) { return strcspn(key, "x") + 1; } /* "... MxNxK ..." */

size_t hyp_cuda_product_batch_at(const char *key)
{
    static const char word[] = " batch ";
    const char *at = strstr(key, word);
    return at ? (size_t)(at - key) + strlen(word) : 0;
}
