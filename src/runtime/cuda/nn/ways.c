/* ways.c - what steps are in calls of cuBLASLt, layouts and epilogues, and what is left to kernels of ours. */
#include "runtime/cuda/nn/nn.h"

static bool is_strict(const hyp_nn_step *s) { return s->dtype == HYP_F32 && !s->tf32; }
/* Whether cuBLASLt's GELU will do. */
static bool has_gelu(const hyp_nn_step *s) { return s->act == HYP_NN_GELU_TANH && !is_strict(s); }

bool hyp_cuda_nn_sums_on_the_way(const hyp_nn_step *dgrad)
{
    return (dgrad->act == HYP_NN_RELU && dgrad->aux) || has_gelu(dgrad);
}

/* Whether a kernel makes a relu's mask. RELU_AUX sets the bit of a sum that is 0, too (H100, cuBLASLt 13.1, all types
 * and sizes): rows of zeros would count in the bias's gradient, where everyone takes the slope at 0 as 0. */
static bool has_mask(const hyp_nn_step *s) { return s->act == HYP_NN_RELU && s->aux; }

/* Whether a kernel had better add up what a weight's gradient is made of: rows of 16 bits that begin at odd places are
 * read by slow products, of which BGRADB has the slowest. */
static bool sums_late(const hyp_nn_step *s)
{
    enum { PIECE = 8 };
    return s->bias && s->dtype != HYP_F32 && s->y_ld % PIECE != 0;
}

static size_t forward_ways(const hyp_nn_step *s, hyp_cuda_nn_way *out)
{
    size_t n = 0;
    bool act = s->act != HYP_NN_NONE;
    if (s->act == HYP_NN_RELU) {
        out[n].epilogue = s->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
        out[n++].act = has_mask(s); /* which reads the result alone */
    }
    if (has_gelu(s) && s->aux)
        out[n++].epilogue = s->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    else if (has_gelu(s))
        out[n++].epilogue = s->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    if (s->bias) out[n++] = (hyp_cuda_nn_way){CUBLASLT_EPILOGUE_BIAS, act, false};
    out[n++] = (hyp_cuda_nn_way){CUBLASLT_EPILOGUE_DEFAULT, act || s->bias, false};
    return n;
}

static size_t dgrad_ways(const hyp_nn_step *s, hyp_cuda_nn_way *out)
{
    size_t n = 0;
    bool relu = has_mask(s), gelu = has_gelu(s);
    if ((relu || gelu) && s->bias)
        out[n++].epilogue = relu ? CUBLASLT_EPILOGUE_DRELU_BGRAD : CUBLASLT_EPILOGUE_DGELU_BGRAD;
    if (relu || gelu)
        out[n++] = (hyp_cuda_nn_way){relu ? CUBLASLT_EPILOGUE_DRELU : CUBLASLT_EPILOGUE_DGELU, false, s->bias};
    out[n++] = (hyp_cuda_nn_way){CUBLASLT_EPILOGUE_DEFAULT, s->act != HYP_NN_NONE, s->bias};
    return n;
}

size_t hyp_cuda_nn_ways(const hyp_nn_step *s, hyp_cuda_nn_way out[HYP_CUDA_NN_WAYS])
{
    size_t n = 0;
    memset(out, 0, HYP_CUDA_NN_WAYS * sizeof *out);
    if (s->kind == HYP_NN_FORWARD) return forward_ways(s, out);
    if (s->kind == HYP_NN_DGRAD) return dgrad_ways(s, out);
    const hyp_cuda_nn_way late = {CUBLASLT_EPILOGUE_DEFAULT, false, s->bias};
    if (sums_late(s)) out[n++] = late;
    if (s->bias) out[n++].epilogue = CUBLASLT_EPILOGUE_BGRADB;
    if (!sums_late(s)) out[n++] = late;
    return n;
}

void hyp_cuda_nn_product(const hyp_nn_step *s, const hyp_cuda_nn_way *way, hyp_cuda_product *out)
{
    hyp_dtype dtype = (hyp_dtype)s->dtype;
    if (s->kind == HYP_NN_FORWARD) {
        hyp_cuda_product_linear(dtype, s->tf32, s->rows, s->out, s->in, false, out);
        out->ldb = s->x_ld;
        out->ldd = way->act && hyp_nn_keeps_sums(s) ? hyp_nn_hidden_ld(s->out) : s->y_ld;
    } else if (s->kind == HYP_NN_DGRAD) {
        hyp_cuda_product_linear(dtype, s->tf32, s->rows, s->in, s->out, true, out);
        out->ldb = s->y_ld;
        out->ldd = s->x_ld;
    } else {
        hyp_cuda_product_linear(dtype, s->tf32, s->out, s->in, s->rows, true, out);
        out->trans_b = true;
        out->lda = s->x_ld;
        out->ldb = s->y_ld;
    }
}

const char *hyp_cuda_nn_epilogue_name(cublasLtEpilogue_t epilogue)
{
#define NAME(name)                                                                                                     \
    case CUBLASLT_EPILOGUE_##name: return #name;
    switch (epilogue) {
        NAME(RELU)
        NAME(RELU_BIAS)
        NAME(GELU)
        NAME(GELU_BIAS)
        NAME(GELU_AUX)
        NAME(GELU_AUX_BIAS)
        NAME(BIAS)
        NAME(DRELU)
        NAME(DRELU_BGRAD)
        NAME(DGELU)
        NAME(DGELU_BGRAD)
        NAME(BGRADB)
    default: return "DEFAULT";
    }
#undef NAME
}
