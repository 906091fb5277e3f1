/* gemm.c - products by cuBLASLt: layers and matmul steps, sums as its C, activations in its epilogues where it has
 * them.
 *
 * An algorithm is chosen once, when shapes are prepared; a run only launches it.
 */
#include <string.h>

#include "runtime/cuda/ops/linear.h"
#include "runtime/cuda/ops/lt.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/cuda/tuning/tune.h"

hyp_cuda_call_fn hyp_cuda_add_linear_gradient;

/* A product that is ready to run. */
typedef struct gemm {
    hyp_cuda_product product;
    hyp_cuda_lt lt;
    cublasLtMatmulAlgo_t algo[2]; /* for operands at multiples of HYP_CUDA_ALIGN; of HYP_CUDA_MIN_ALIGN */
    hyp_cuda_operand a, b, c, d;  /* in cuBLASLt's roles; c is d where beta is 0 */
    uint32_t bias_plus1;
    size_t element;      /* bytes; of D, too, where there are outer calls */
    size_t workspace;    /* bytes, at most; a stream beside the session's has as many as its products need, or none */
    CUdeviceptr bias_at; /* what `lt` has */
    union {
        float f;
        double d;
    } alpha, beta; /* of product.scale */
} gemm;

static void gemm_dispose(const hyp_cuda_library *lib, void *data) { hyp_cuda_lt_dispose(lib, &((gemm *)data)->lt); }

/* ---- running ----------------------------------------------------------------------------------------------- */

static hyp_status set_bias(const hyp_cuda_library *lib, gemm *g, CUdeviceptr at, hyp_diag *diag)
{
    if (g->bias_at == at) return HYP_OK;
    g->bias_at = at;
    return hyp_cuda_lt_set(lib, &g->lt, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at, diag);
}

static hyp_status gemm_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    gemm *g = data;
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (g->bias_plus1) HYP_TRY(set_bias(lib, g, s->at[g->bias_plus1 - 1], diag));
    CUdeviceptr a0 = hyp_cuda_operand_at(s, &g->a), b0 = hyp_cuda_operand_at(s, &g->b);
    CUdeviceptr c0 = hyp_cuda_operand_at(s, &g->c), d0 = hyp_cuda_operand_at(s, &g->d);
    size_t workspace = g->workspace < s->workspace_bytes ? g->workspace : s->workspace_bytes;
    const hyp_cuda_box *outer = &g->product.outer;
    int64_t index[HYP_CUDA_DIMS] = {0}, count = hyp_cuda_box_count(outer);
    for (int64_t i = 0; i < count; i++) {
        int64_t at[3] = {0};
        for (uint32_t axis = 0; axis < outer->rank; axis++)
            for (int lane = 0; lane < 3; lane++) at[lane] += index[axis] * outer->stride[lane][axis];
        CUdeviceptr a = a0 + (CUdeviceptr)at[0] * g->element, b = b0 + (CUdeviceptr)at[1] * g->element;
        CUdeviceptr c = c0 + (CUdeviceptr)at[2] * g->element, d = d0 + (CUdeviceptr)at[2] * g->element;
        const cublasLtMatmulAlgo_t *algo = &g->algo[(a | b | c | d) % HYP_CUDA_ALIGN != 0];
        cublasStatus_t status =
            lib->cublasLtMatmul(s->lt, g->lt.desc, &g->alpha, (const void *)a, g->lt.a, (const void *)b, g->lt.b, &g->beta,
                                (const void *)c, g->lt.d, (void *)d, g->lt.d, algo,
                                (void *)s->workspace, workspace, (cudaStream_t)s->stream);
        HYP_TRY(hyp_cublaslt_check(lib, status, "cublasLtMatmul", diag));
        for (uint32_t axis = 0; axis < outer->rank; axis++) {
            if (++index[axis] < outer->extent[axis]) break;
            index[axis] = 0;
        }
    }
    return HYP_OK;
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

/* Outer loops and batches step by whole matrices, and parts of a matrix begin anywhere, which may break the alignment
 * of the tensors themselves. */
static uint32_t loosest_alignment(const gemm *g)
{
    uint64_t steps = HYP_CUDA_MIN_ALIGN | g->a.offset | g->b.offset | g->d.offset;
    const hyp_cuda_box *outer = &g->product.outer;
    for (uint32_t axis = 0; axis < outer->rank; axis++)
        for (int lane = 0; lane < 3; lane++) steps |= (uint64_t)outer->stride[lane][axis] * g->element;
    return (uint32_t)(steps & -steps);
}

/* The algorithm that was found to be the fastest, for aligned operands; false when it cannot be used. */
static bool recall(hyp_cuda_session *s, const gemm *g, const HypPlan__TunedProduct *tuned,
                   cublasLtMatmulHeuristicResult_t *out)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    cublasLtMatmulAlgo_t algo;
    memset(out, 0, sizeof *out);
    if (tuned->algorithm.len != sizeof algo) return false;
    memcpy(&algo, tuned->algorithm.data, sizeof algo);
    bool can = lib->cublasLtMatmulAlgoCheck(s->lt, g->lt.desc, g->lt.a, g->lt.b, g->lt.d, g->lt.d, &algo, out) == CUBLAS_STATUS_SUCCESS;
    out->algo = algo;
    return can && out->workspaceSize <= g->workspace;
}

static hyp_status set_epilogue(hyp_cuda_build *b, gemm *g, cublasLtEpilogue_t epilogue)
{
    const hyp_cuda_library *lib = &b->session->model->device->lib;
    HYP_TRY(hyp_cuda_lt_set(lib, &g->lt, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, b->diag));
    /* The choice looks at the bias pointer; tensors are aligned alike, so any address of one will do. */
    const uint32_t with_bias = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
    return (epilogue & with_bias) != 0 ? set_bias(lib, g, b->session->workspace, b->diag) : HYP_OK;
}

/* Takes this way, if there are algorithms for it: for aligned operands the tuned one unless that is NULL. */
static hyp_status try_way(hyp_cuda_build *b, gemm *g, const hyp_cuda_epilogue *way, const HypPlan__TunedProduct *tuned,
                          bool *out_found)
{
    cublasLtMatmulHeuristicResult_t best = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    int found = 0, found_loose = 0;
    HYP_TRY(set_epilogue(b, g, way->epilogue));
    if (tuned)
        found = recall(b->session, g, tuned, &best);
    else
        HYP_TRY(hyp_cuda_lt_choose(b->session, &g->lt, g->workspace, HYP_CUDA_ALIGN, 1, &best, &found, b->diag));
    g->algo[0] = best.algo;
    if (found) hyp_cuda_use_workspace(b, best.workspaceSize);
    HYP_TRY(hyp_cuda_lt_choose(b->session, &g->lt, g->workspace, loosest_alignment(g), 1, &best, &found_loose, b->diag));
    g->algo[1] = best.algo;
    if (found_loose) hyp_cuda_use_workspace(b, best.workspaceSize);
    *out_found = found && found_loose;
    return HYP_OK;
}

/* What the epilogue of a product may do of what follows it, the best way first, and what tuning knows it by. */
typedef struct ways {
    size_t count;
    hyp_cuda_epilogue list[3];
    char key[HYP_CUDA_PRODUCT_KEY];
} ways;

static ways ways_of(const hyp_cuda_product *p, const hyp_cuda_rest *rest)
{
    ways w;
    const bool bias = rest->bias_plus1 != 0;
    w.count = hyp_cuda_epilogues(rest->act, bias, p, w.list);
    hyp_cuda_product_key(p, bias, rest->before_plus1 != 0, rest->act, rest->after_plus1 != 0, w.key);
    return w;
}

/* Answers what tuning asks. */
static hyp_status answer(hyp_cuda_build *b, gemm *g, const ways *w)
{
    hyp_cuda_probe *probe = b->probe;
    bool found;
    if (probe->found) return probe->found(probe, b->step);
    probe->more = probe->way + 1 < w->count;
    probe->epilogue = w->list[probe->way].epilogue;
    probe->slot = &g->algo[0];
    HYP_TRY(try_way(b, g, &w->list[probe->way], NULL, &found));
    if (!found) return HYP_OK;
    HYP_TRY(hyp_cuda_lt_choose(b->session, &g->lt, g->workspace, HYP_CUDA_ALIGN, probe->wanted, probe->results, &probe->count, b->diag));
    probe->usual = g->algo[0];
    return HYP_OK;
}

/* Does what tuning found to be the fastest for a product of this size, or else of the next larger one, up to twice as
 * large: in rows, or in a batch. cuBLASLt checks whether it can be done so. */
static hyp_status settle_as_tuned(hyp_cuda_build *b, gemm *g, const ways *w, hyp_cuda_epilogue *out_way, bool *out_found)
{
    const hyp_tuning *t = &b->session->tuning;
    const hyp_cuda_product *p = &g->product;
    const char *key = w->key;
    const size_t batch_at = hyp_cuda_product_batch_at(key);
    const HypPlan__TunedProduct *known[] = {hyp_tuning_find(t, key),
                                            hyp_tuning_find_larger(t, key, hyp_cuda_product_rows_at(key), 2 * p->n),
                                            batch_at ? hyp_tuning_find_larger(t, key, batch_at, 2 * p->batch) : NULL};
    for (size_t k = 0; k < sizeof known / sizeof *known && !*out_found; k++)
        for (size_t i = 0; i < w->count && known[k] && !*out_found; i++) {
            if (w->list[i].epilogue != (cublasLtEpilogue_t)known[k]->epilogue) continue;
            HYP_TRY(try_way(b, g, &w->list[i], known[k], out_found));
            *out_way = w->list[i];
            if (*out_found) hyp_cuda_note_known(b, k == 0 ? HYP_CUDA_TUNED : HYP_CUDA_BORROWED);
        }
    return HYP_OK;
}

static hyp_status no_algorithm(const hyp_cuda_build *b, const gemm *g)
{
    return hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "cuBLASLt %zu has no algorithm for %s[%lld x %lld x %lld]",
                    b->session->model->device->lib.cublasLtGetVersion(),
                    hyp_dtype_name(hyp_cuda_dtype(b->program, g->a.tensor)), (long long)g->product.n,
                    (long long)g->product.m, (long long)g->product.k);
}

/* Does what tuning found to be the fastest, or else takes the first of the epilogues that cuBLASLt has an algorithm
 * for. */
static hyp_status settle(hyp_cuda_build *b, gemm *g, const ways *w, hyp_cuda_epilogue *out_way)
{
    if (b->probe) {
        memcpy(b->probe->key, w->key, sizeof w->key);
        *out_way = w->list[b->probe->way];
        return answer(b, g, w);
    }
    bool found = false;
    if (!b->session->untuned) HYP_TRY(settle_as_tuned(b, g, w, out_way, &found));
    if (!found) hyp_cuda_note_known(b, HYP_CUDA_NOT_TUNED);
    for (size_t i = 0; i < w->count && !found; i++) {
        HYP_TRY(try_way(b, g, &w->list[i], NULL, &found));
        *out_way = w->list[i];
    }
    return found ? HYP_OK : no_algorithm(b, g);
}

static void set_scalars(gemm *g, double alpha, double beta)
{
    if (g->product.scale == CUDA_R_64F) {
        g->alpha.d = alpha;
        g->beta.d = beta;
    } else {
        g->alpha.f = (float)alpha;
        g->beta.f = (float)beta;
    }
}

static hyp_cuda_operand tensor(uint32_t index) { return (hyp_cuda_operand){.tensor = index}; }

/* d = alpha a bb, plus the tensor added_plus1 - 1 unless that is 0. a is of a tensor, or a copy of it. */
static hyp_status add_gemm(hyp_cuda_build *b, const hyp_cuda_product *product, double alpha, hyp_cuda_operand a,
                           hyp_cuda_operand bb, uint32_t added_plus1, hyp_cuda_operand d, gemm **out)
{
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, gemm_run, sizeof(gemm), &data));
    b->prepared->ops.data[b->prepared->ops.len - 1].dispose = gemm_dispose;
    gemm *g = data;
    g->product = *product;
    g->a = a;
    g->b = bb;
    g->c = added_plus1 ? tensor(added_plus1 - 1) : d;
    g->d = d;
    g->element = hyp_dtype_size(hyp_cuda_dtype(b->program, a.tensor)); /* that of a copy in the room, too */
    g->workspace = b->session->workspace_bytes;
    set_scalars(g, alpha, added_plus1 ? 1 : 0);
    *out = g;
    return hyp_cuda_lt_describe(&b->session->model->device->lib, product, &g->lt, b->diag);
}

/* The newest op multiplies m rows with this weight. */
static void send_ahead(hyp_cuda_build *b, uint32_t weight, int64_t m)
{
    if (hyp_cuda_reads_ahead(b, weight, m)) b->prepared->ops.data[b->prepared->ops.len - 1].weight_plus1 = weight + 1;
}

/* What is added before the activation is C of the product; for what is added after it cuBLASLt has no place. What is
 * left to do then is done for all `rows` of y. */
static hyp_status add_product(hyp_cuda_build *b, const hyp_cuda_product *product, double scale, uint32_t weight,
                              hyp_cuda_operand x, uint32_t y, int64_t rows, const hyp_cuda_rest *given)
{
    hyp_cuda_rest rest = *given;
    hyp_cuda_epilogue way;
    gemm *g;
    HYP_TRY(add_gemm(b, product, scale, tensor(weight), x, rest.before_plus1, tensor(y), &g));
    send_ahead(b, weight, product->n);
    const ways w = ways_of(product, &rest);
    HYP_TRY(settle(b, g, &w, &way));
    if (rest.bias_plus1 && !way.bias_after) g->bias_plus1 = rest.bias_plus1;
    if (!way.bias_after && !way.act_after && !rest.after_plus1) return HYP_OK;
    rest.before_plus1 = 0;
    if (!way.bias_after) rest.bias_plus1 = 0;
    if (!way.act_after) rest.act = HYP_PLAN__ACT__ACT_NONE;
    return hyp_cuda_add_rest(b, y, rows, product->m, &rest);
}

/* An operand of a product as it is stored: so many elements that lie together, so many times. */
typedef struct stored {
    int64_t row, rows;
} stored;

static stored stored_a(const hyp_cuda_product *p) { return (stored){p->lda, p->trans_a ? p->m : p->k}; }
static stored stored_b(const hyp_cuda_product *p) { return (stored){p->ldb, p->trans_b ? p->k : p->n}; }
static stored stored_d(const hyp_cuda_product *p) { return (stored){p->ldd, p->n}; }

/* Puts a copy of the operand in its place: in the room, from *end on. */
static hyp_status take_copy(hyp_cuda_build *b, hyp_cuda_operand *x, stored as, size_t element, size_t *end)
{
    size_t count;
    *x = (hyp_cuda_operand){.in = HYP_CUDA_IN_ROOM, .tensor = x->tensor};
    if (hyp_mul_size((size_t)as.row, (size_t)as.rows, &count) && hyp_cuda_take_room(count, element, end, &x->offset))
        return HYP_OK;
    return hyp_fail(b->diag, HYP_ERR_LIMIT, "the device memory that these shapes need is beyond any size");
}

static hyp_status add_copy(hyp_cuda_build *b, hyp_cuda_operand x, stored from, hyp_cuda_operand y, stored to, size_t element)
{
    const hyp_cuda_pitch args = {.x_row = from.row, .rows = from.rows};
    return hyp_cuda_add_pitch(b, &args, x, to.row, to.rows, y, element);
}

/* d = alpha a bb, by copies whose rows are multiples of 16 bytes. */
static hyp_status add_padded(hyp_cuda_build *b, const hyp_cuda_product *p, const hyp_cuda_padding *padding, double alpha,
                             hyp_cuda_operand a, hyp_cuda_operand bb, hyp_cuda_operand d)
{
    const hyp_cuda_product *q = &padding->product;
    const size_t element = hyp_dtype_size(hyp_cuda_dtype(b->program, a.tensor));
    const hyp_cuda_rest nothing = {0};
    hyp_cuda_operand in_a = a, in_b = bb, out = d;
    hyp_cuda_epilogue way;
    size_t end = 0;
    gemm *g;
    if (padding->a) HYP_TRY(take_copy(b, &in_a, stored_a(q), element, &end));
    if (padding->b) HYP_TRY(take_copy(b, &in_b, stored_b(q), element, &end));
    if (padding->d) HYP_TRY(take_copy(b, &out, stored_d(q), element, &end));
    HYP_TRY(hyp_cuda_want_room(b, end));
    if (padding->a) HYP_TRY(add_copy(b, a, stored_a(p), in_a, stored_a(q), element));
    if (padding->b) HYP_TRY(add_copy(b, bb, stored_b(p), in_b, stored_b(q), element));
    HYP_TRY(add_gemm(b, q, alpha, in_a, in_b, 0, out, &g));
    const ways w = ways_of(q, &nothing);
    HYP_TRY(settle(b, g, &w, &way));
    return padding->d ? add_copy(b, out, stored_d(q), d, stored_d(p), element) : HYP_OK;
}

hyp_status hyp_cuda_add_layer(hyp_cuda_build *b, const HypPlan__Linear *k, size_t l)
{
    const HypPlan__Layer *layer = k->layers[l];
    uint32_t x = hyp_cuda_layer_input(k, l), y = hyp_cuda_layer_result(k, l);
    int64_t m = b->values[k->m], n = b->values[layer->n], depth = b->values[layer->k];
    if (b->probe) b->probe->layer = l;
    uint32_t added_plus1 = l + 1 == k->n_layers ? k->added_plus1 : 0;
    hyp_cuda_rest rest = {.bias_plus1 = layer->bias_plus1,
                          .before_plus1 = k->add_after ? 0 : added_plus1,
                          .after_plus1 = k->add_after ? added_plus1 : 0,
                          .act = layer->act,
                          .no_product = depth == 0};
    if (m == 0 || n == 0) return HYP_OK;
    if (depth == 0) return hyp_cuda_add_rest(b, y, m, n, &rest);
    hyp_cuda_product product;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, x);
    double scale = dtype == HYP_F8E4M3 ? (double)layer->x_scale * (double)layer->weight_scale : 1;
    hyp_cuda_product_linear(dtype, k->tf32, m, n, depth, layer->weight_kn, &product);
    hyp_cuda_padding padding;
    if (rest.before_plus1 || !hyp_cuda_product_pads(&product, &padding))
        return add_product(b, &product, scale, layer->weight, tensor(x), y, m, &rest);
    HYP_TRY(add_padded(b, &product, &padding, scale, tensor(layer->weight), tensor(x), tensor(y)));
    bool done = !rest.bias_plus1 && !rest.after_plus1 && rest.act == HYP_PLAN__ACT__ACT_NONE;
    return done ? HYP_OK : hyp_cuda_add_rest(b, y, m, n, &rest);
}

hyp_status hyp_cuda_add_rows(hyp_cuda_build *b, const hyp_cuda_product *product, uint32_t weight, uint32_t x_plus1,
                             uint32_t y, int64_t rows, const hyp_cuda_rest *rest)
{
    const hyp_cuda_operand room = {.in = HYP_CUDA_IN_ROOM};
    return add_product(b, product, 1, weight, x_plus1 ? tensor(x_plus1 - 1) : room, y, rows, rest);
}

hyp_status hyp_cuda_add_plain(hyp_cuda_build *b, const hyp_cuda_product *product, const hyp_cuda_operand *a,
                              const hyp_cuda_operand *x, const hyp_cuda_operand *y, size_t workspace)
{
    const hyp_cuda_epilogue plain = {.epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    gemm *g;
    bool found;
    HYP_TRY(add_gemm(b, product, 1, *a, *x, 0, *y, &g));
    g->workspace = workspace;
    HYP_TRY(try_way(b, g, &plain, NULL, &found));
    return found ? HYP_OK : no_algorithm(b, g);
}

hyp_status hyp_cuda_add_tuned(hyp_cuda_build *b, const hyp_cuda_product *product, const hyp_cuda_operand *a,
                              const hyp_cuda_operand *x, const hyp_cuda_operand *y)
{
    const hyp_cuda_rest nothing = {0};
    const ways w = ways_of(product, &nothing);
    hyp_cuda_epilogue way;
    gemm *g;
    HYP_TRY(add_gemm(b, product, 1, *a, *x, 0, *y, &g));
    return settle(b, g, &w, &way);
}

/* Parts lie behind what the library may use, of which half is left. */
static size_t parts_at(const hyp_cuda_session *s, const hyp_cuda_product *p, uint32_t parts)
{
    size_t bytes = (size_t)(parts * p->m * p->n) * sizeof(float);
    return bytes > s->workspace_bytes / 2 ? 0 : (s->workspace_bytes - bytes) / HYP_CUDA_ALIGN * HYP_CUDA_ALIGN;
}

const char *hyp_cuda_cannot_split(const hyp_cuda_session *s, const hyp_cuda_product *p, uint32_t parts)
{
    if (!hyp_cuda_product_splits(p, parts)) return "its sums have no parts of whole tiles in 16 bits";
    return parts_at(s, p, parts) ? NULL : "its parts do not fit into the workspace";
}

hyp_status hyp_cuda_add_parts(hyp_cuda_build *b, const HypPlan__Linear *k, uint32_t parts, size_t *out_offset)
{
    const HypPlan__Layer *layer = k->layers[0];
    int64_t m = b->values[k->m], n = b->values[layer->n];
    hyp_cuda_product product;
    hyp_cuda_product_linear(hyp_cuda_dtype(b->program, k->x), k->tf32, m, n, b->values[layer->k], layer->weight_kn,
                            &product);
    *out_offset = parts_at(b->session, &product, parts);
    hyp_cuda_product_split(&product, parts);
    const hyp_cuda_operand weight = tensor(layer->weight), x = tensor(k->x);
    const hyp_cuda_operand sums = {.in = HYP_CUDA_IN_WORKSPACE, .offset = *out_offset};
    HYP_TRY(hyp_cuda_add_plain(b, &product, &weight, &x, &sums, *out_offset));
    hyp_cuda_use_workspace(b, b->session->workspace_bytes);
    send_ahead(b, layer->weight, m);
    return HYP_OK;
}

hyp_status hyp_cuda_add_matmul(hyp_cuda_build *b, const HypPlan__Matmul *k)
{
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->y);
    int64_t results = b->values[k->m] * b->values[k->n];
    for (size_t i = 0; i < k->n_batch; i++) results *= b->values[k->batch[i]];
    if (results == 0) return HYP_OK;
    if (b->values[k->k] == 0) return hyp_cuda_add_zero(b, k->y, (size_t)results * hyp_dtype_size(dtype));
    hyp_cuda_product product;
    hyp_cuda_product_matmul(dtype, k, b->values, &product);
    hyp_cuda_padding padding;
    if (hyp_cuda_product_pads(&product, &padding))
        return add_padded(b, &product, &padding, (double)k->alpha, tensor(k->b), tensor(k->a), tensor(k->y));
    gemm *g;
    HYP_TRY(add_gemm(b, &product, (double)k->alpha, tensor(k->b), tensor(k->a), 0, tensor(k->y), &g));
    const hyp_cuda_rest nothing = {0};
    const ways w = ways_of(&product, &nothing);
    hyp_cuda_epilogue way;
    return settle(b, g, &w, &way);
}

/* ---- gradients of layers ----------------------------------------------------------------------------------- */

/* A linear-gradient: tensors, and sizes of g[rows, n] and x[rows, k]. */
typedef struct gradient {
    bool turned;
    uint32_t g, x, by_weight, by_bias;
    int64_t rows, n, k;
} gradient;

/* By the epilogue, or by a kernel behind the product. */
static hyp_status add_summing_product(hyp_cuda_build *b, const hyp_cuda_product *product, const gradient *s)
{
    ways w;
    hyp_cuda_epilogue way;
    gemm *g;
    w.count = hyp_cuda_gradient_epilogues(product, s->turned, w.list);
    hyp_cuda_gradient_key(product, s->turned, w.key);
    HYP_TRY(add_gemm(b, product, 1, tensor(s->turned ? s->g : s->x), tensor(s->turned ? s->x : s->g), 0,
                     tensor(s->by_weight), &g));
    HYP_TRY(settle(b, g, &w, &way));
    if (way.sums_after) return hyp_cuda_add_row_sums(b, s->g, s->by_bias, s->rows, s->n);
    g->bias_plus1 = s->by_bias + 1;
    return HYP_OK;
}

hyp_status hyp_cuda_add_linear_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    HYP_TRY(hyp_kernel_linear_gradient_check(c));
    const gradient s = {.turned = c->attrs[0].i != 0,
                        .g = hyp_plan_call_input(k, 0) - 1,
                        .x = hyp_plan_call_input(k, 1) - 1,
                        .by_weight = k->outputs[0],
                        .by_bias = k->outputs[1],
                        .rows = c->in[0].dims[0],
                        .n = c->in[0].dims[1],
                        .k = c->in[1].dims[1]};
    const hyp_dtype dtype = c->in[0].dtype;
    const size_t size = hyp_dtype_size(dtype);
    if (s.n == 0) return HYP_OK;
    if (s.rows == 0) {
        if (s.k > 0) HYP_TRY(hyp_cuda_add_zero(b, s.by_weight, (size_t)(s.n * s.k) * size));
        return hyp_cuda_add_zero(b, s.by_bias, (size_t)s.n * size);
    }
    if (s.k == 0) return hyp_cuda_add_row_sums(b, s.g, s.by_bias, s.rows, s.n);
    hyp_cuda_product product;
    hyp_cuda_padding padding;
    hyp_cuda_product_gradient(dtype, hyp_cuda_is_tf32(b->program), s.turned, s.n, s.k, s.rows, &product);
    if (!hyp_cuda_product_pads(&product, &padding)) return add_summing_product(b, &product, &s);
    HYP_TRY(add_padded(b, &product, &padding, 1, tensor(s.turned ? s.g : s.x), tensor(s.turned ? s.x : s.g),
                       tensor(s.by_weight)));
    return hyp_cuda_add_row_sums(b, s.g, s.by_bias, s.rows, s.n);
}
