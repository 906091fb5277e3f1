/* steps.c - preparing and running the steps of hypatia/nn.h: a product of cuBLASLt each, and kernels of ours for what
 * its epilogue leaves. */
#include "base/dtype.h"
#include "runtime/cuda/nn/nn.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/reduce.h"
#include "runtime/cuda/session/backend.h"

/* ---- sums ----------------------------------------------------------------------------------------------------- */

/* Those of the gradient of a bias. */
static hyp_cuda_row_sums sums_of(const hyp_nn_step *s, int64_t columns, int64_t ld)
{
    return (hyp_cuda_row_sums){.dtype = s->dtype, .add = s->add_bias, .rows = s->rows, .columns = columns, .ld = ld};
}

/* Bytes of the session's room that a step may want: parts of sums, or sums that are then added to others. */
static size_t room_of(const hyp_cuda_device *d, const hyp_nn_step *s)
{
    int64_t columns = s->kind == HYP_NN_DGRAD ? s->in : s->out, ld = s->kind == HYP_NN_DGRAD ? s->x_ld : s->y_ld;
    if (!s->bias || s->kind == HYP_NN_FORWARD) return 0;
    const hyp_cuda_row_sums sums = sums_of(s, columns, ld);
    size_t parts = hyp_cuda_row_sums_room(d, &sums), row = (size_t)columns * hyp_dtype_size(s->dtype);
    return parts > row ? parts : row;
}

/* ---- preparing ------------------------------------------------------------------------------------------------ */

void hyp_cuda_nn_entry_dispose(const hyp_cuda_nn *nn, const hyp_cuda_nn_entry *e)
{
    hyp_cuda_lt_dispose(&nn->model.device->lib, &e->lt);
}

static hyp_status set_address(const hyp_cuda_nn *nn, const hyp_cuda_lt *lt, cublasLtMatmulDescAttributes_t attribute,
                              CUdeviceptr *has, CUdeviceptr at, hyp_diag *diag)
{
    if (*has == at) return HYP_OK;
    *has = at;
    return hyp_cuda_lt_set(&nn->model.device->lib, lt, attribute, &at, sizeof at, diag);
}

/* The epilogue, and for it addresses as aligned as any of a run. */
static hyp_status set_epilogue(const hyp_cuda_nn *nn, hyp_cuda_nn_entry *e, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &nn->model.device->lib;
    const hyp_nn_step *s = &e->step;
    cublasLtEpilogue_t epilogue = e->way.epilogue;
    int64_t columns = s->kind == HYP_NN_FORWARD ? s->out : s->in;
    int64_t ld = s->act == HYP_NN_RELU ? hyp_nn_mask_ld(columns) : hyp_nn_hidden_ld(columns);
    HYP_TRY(hyp_cuda_lt_set(lib, &e->lt, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, diag));
    if (hyp_cuda_nn_wants_bias(epilogue))
        HYP_TRY(set_address(nn, &e->lt, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &e->bias_at, nn->session.workspace, diag));
    if (!hyp_cuda_nn_wants_aux(epilogue)) return HYP_OK;
    HYP_TRY(hyp_cuda_lt_set(lib, &e->lt, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld, diag));
    return set_address(nn, &e->lt, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &e->aux_at, nn->session.workspace, diag);
}

hyp_status hyp_cuda_nn_describe_way(hyp_cuda_nn *nn, const hyp_nn_step *step, const hyp_cuda_nn_way *way,
                                    hyp_cuda_nn_entry *out, bool *out_found, hyp_diag *diag)
{
    static const uint32_t aligns[] = {HYP_CUDA_ALIGN, HYP_CUDA_MIN_ALIGN};
    hyp_cuda_session *s = &nn->session;
    hyp_cuda_product product;
    memset(out, 0, sizeof *out);
    memcpy(&out->step, step, sizeof *step);
    out->way = *way;
    *out_found = false;
    hyp_cuda_nn_product(step, way, &product);
    HYP_TRY(hyp_cuda_lt_describe(&nn->model.device->lib, &product, &out->lt, diag));
    HYP_TRY(set_epilogue(nn, out, diag));
    for (int i = 0; i < 2; i++) {
        cublasLtMatmulHeuristicResult_t best = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
        int found;
        HYP_TRY(hyp_cuda_lt_choose(s, &out->lt, s->workspace_bytes, aligns[i], 1, &best, &found, diag));
        if (!found) return HYP_OK;
        out->algo[i] = best.algo;
        if (best.workspaceSize > out->workspace) out->workspace = best.workspaceSize;
    }
    *out_found = true;
    return HYP_OK;
}

/* Takes the first way that cuBLASLt has an algorithm for. */
static hyp_status make(hyp_cuda_nn *nn, const hyp_nn_step *step, hyp_cuda_nn_entry *out, hyp_diag *diag)
{
    hyp_cuda_session *s = &nn->session;
    hyp_cuda_nn_way ways[HYP_CUDA_NN_WAYS];
    char text[HYP_NN_STEP_TEXT];
    bool found = false;
    HYP_TRY(hyp_cuda_grow(s, &s->room, &s->room_bytes, room_of(nn->model.device, step), "sums of rows", diag));
    memset(out, 0, sizeof *out);
    memcpy(&out->step, step, sizeof *step);
    if (!hyp_nn_has_product(step)) return HYP_OK;
    size_t count = hyp_cuda_nn_ways(step, ways);
    for (size_t i = 0; i < count; i++) {
        hyp_status status = hyp_cuda_nn_describe_way(nn, step, &ways[i], out, &found, diag);
        if (status == HYP_OK && found) return HYP_OK;
        hyp_cuda_nn_entry_dispose(nn, out);
        HYP_TRY(status);
    }
    hyp_nn_step_text(step, text);
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "cuBLASLt %zu has no algorithm for %s",
                    nn->model.device->lib.cublasLtGetVersion(), text);
}

hyp_status hyp_cuda_nn_find(hyp_cuda_nn *nn, const hyp_nn_step *step, hyp_cuda_nn_entry **out, hyp_diag *diag)
{
    size_t at = hyp_nn_find(nn->entries.data, sizeof *nn->entries.data, nn->entries.len, &nn->last, step);
    if (at == SIZE_MAX) {
        hyp_cuda_nn_entry made;
        bool full = nn->entries.len >= HYP_NN_REMEMBERED;
        if (!full) HYP_TRY(hyp_vec_reserve(&nn->entries, nn->entries.len + 1, diag));
        HYP_TRY(make(nn, step, &made, diag));
        at = hyp_nn_place(&nn->entries.len, &nn->oldest);
        if (full) hyp_cuda_nn_entry_dispose(nn, &nn->entries.data[at]);
        nn->entries.data[at] = made;
    }
    *out = &nn->entries.data[at];
    return HYP_OK;
}

hyp_status hyp_cuda_nn_prepare(void *state, const hyp_nn_step *step, hyp_diag *diag)
{
    hyp_cuda_nn *nn = state;
    hyp_cuda_nn_entry *e;
    HYP_TRY(hyp_cuda_nn_find(nn, step, &e, diag));
    return hyp_cuda_nn_aside_reserve(nn, e, room_of(nn->model.device, step), diag);
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

/* The product; what its epilogue adds up goes to `sums`. */
static hyp_status multiply(hyp_cuda_nn *nn, hyp_cuda_nn_entry *e, const hyp_nn_operands *at, CUdeviceptr sums,
                           hyp_diag *diag)
{
    const float alpha = 1, beta = e->step.add;
    const hyp_cuda_session *s = &nn->session;
    const hyp_cuda_library *lib = &nn->model.device->lib;
    bool forward = e->step.kind == HYP_NN_FORWARD, aside = e->way.act && hyp_nn_keeps_sums(&e->step);
    const void *a = e->step.kind == HYP_NN_WGRAD ? at->x : at->w, *b = forward ? at->x : at->y;
    void *d = !forward ? e->step.kind == HYP_NN_DGRAD ? at->x : at->w : aside ? at->aux : at->y;
    if (hyp_cuda_nn_wants_bias(e->way.epilogue))
        HYP_TRY(set_address(nn, &e->lt, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &e->bias_at, forward ? address(at->b) : sums,
                            diag));
    if (hyp_cuda_nn_wants_aux(e->way.epilogue))
        HYP_TRY(set_address(nn, &e->lt, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &e->aux_at, address(at->aux), diag));
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)d;
    cublasStatus_t status = lib->cublasLtMatmul(s->lt, e->lt.desc, &alpha, a, e->lt.a, b, e->lt.b, &beta, d, e->lt.d, d,
                                                e->lt.d, &e->algo[bits % HYP_CUDA_ALIGN != 0], (void *)s->workspace,
                                                s->workspace_bytes, (cudaStream_t)s->stream);
    return hyp_cublaslt_check(lib, status, "cublasLtMatmul", diag);
}

static hyp_status launch_act(hyp_cuda_nn *nn, const hyp_nn_step *s, hyp_cuda_nn_act *args, hyp_diag *diag)
{
    enum { PIECE = 8 };
    size_t size = hyp_dtype_size((hyp_dtype)s->dtype);
    uint64_t rows = (uint64_t)(args->x_ld | args->y_ld | args->z_ld) * size;
    int64_t pieces = (args->columns + PIECE - 1) / PIECE;
    hyp_cuda_grid grid = {.kernel = HYP_CUDA_KERNEL_nn_act};
    args->row_pieces = hyp_cuda_extent_of(pieces);
    args->pieces = pieces * s->rows;
    args->dtype = s->dtype;
    args->act = (uint32_t)hyp_plan_act_op(hyp_nn_plan_act(s->act));
    args->mask_ld = hyp_nn_mask_ld(args->columns) / 8;
    args->vector = ((rows | args->x | args->y | args->z | args->bias) & (HYP_CUDA_MIN_ALIGN - 1)) == 0;
    hyp_cuda_spread(nn->model.device, args->pieces, &grid);
    return hyp_cuda_launch(&nn->session, &grid, args, diag);
}

/* What follows the product of a forward step. */
static hyp_status activate(hyp_cuda_nn *nn, const hyp_cuda_nn_entry *e, const hyp_nn_operands *at, hyp_diag *diag)
{
    const hyp_nn_step *s = &e->step;
    bool keeps = hyp_nn_keeps_sums(s), left = s->bias && !hyp_cuda_nn_wants_bias(e->way.epilogue);
    bool done = (e->way.epilogue & CUBLASLT_EPILOGUE_RELU) != 0; /* but for the mask */
    hyp_cuda_nn_act args = {
        .columns = s->out, .x = address(at->y), .x_ld = s->y_ld, .y = address(at->y), .y_ld = s->y_ld};
    if (keeps) args.x = address(at->aux), args.x_ld = hyp_nn_hidden_ld(s->out);
    if (keeps && left) args.z = args.x, args.z_ld = args.x_ld;
    if (left) args.bias = address(at->b);
    if (done) args.y = 0;
    if (s->act == HYP_NN_RELU && s->aux) args.mask = address(at->aux);
    return launch_act(nn, s, &args, diag);
}

/* x = the gradient at `from` by the activation. */
static hyp_status derive(hyp_cuda_nn *nn, const hyp_nn_step *s, const hyp_nn_operands *at, int64_t columns,
                         const void *from, int64_t from_ld, hyp_diag *diag)
{
    bool relu = s->act == HYP_NN_RELU;
    hyp_cuda_nn_act args = {.columns = columns,
                            .gradient = 1,
                            .x = address(from),
                            .x_ld = from_ld,
                            .y = address(at->x),
                            .y_ld = s->x_ld,
                            .z_ld = hyp_nn_hidden_ld(columns)};
    if (relu && s->aux)
        args.mask = address(at->aux);
    else
        args.z = address(relu ? at->h : at->aux);
    return launch_act(nn, s, &args, diag);
}

hyp_status hyp_cuda_nn_run_entry(hyp_cuda_nn *nn, hyp_cuda_nn_entry *e, const hyp_nn_operands *at, hyp_diag *diag)
{
    const hyp_nn_step *s = &e->step;
    if (s->kind == HYP_NN_GRAD) return derive(nn, s, at, s->out, at->y, s->y_ld, diag);
    if (s->kind == HYP_NN_SUMS) {
        const hyp_cuda_row_sums sums = sums_of(s, s->out, s->y_ld);
        return hyp_cuda_sum_rows(&nn->session, &sums, address(at->y), address(at->b), diag);
    }
    bool in_epilogue = s->kind != HYP_NN_FORWARD && hyp_cuda_nn_wants_bias(e->way.epilogue),
         aside = in_epilogue && s->add_bias;
    HYP_TRY(multiply(nn, e, at, aside ? nn->session.room : address(at->b), diag));
    nn->session.starts = false;
    if (s->kind == HYP_NN_FORWARD) return e->way.act ? activate(nn, e, at, diag) : HYP_OK;
    if (e->way.act) HYP_TRY(derive(nn, s, at, s->in, at->x, s->x_ld, diag));
    bool dgrad = s->kind == HYP_NN_DGRAD;
    const void *summed = dgrad ? at->x : at->y;
    int64_t columns = dgrad ? s->in : s->out, ld = dgrad ? s->x_ld : s->y_ld;
    hyp_cuda_row_sums sums = sums_of(s, columns, ld);
    if (e->way.sums) return hyp_cuda_sum_rows(&nn->session, &sums, address(summed), address(at->b), diag);
    if (!aside) return HYP_OK;
    sums.rows = 1; /* cuBLASLt replaces what it sums; it is added by a sum of one row */
    sums.ld = columns;
    return hyp_cuda_sum_rows(&nn->session, &sums, nn->session.room, address(at->b), diag);
}

hyp_status hyp_cuda_nn_run(void *state, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag)
{
    hyp_cuda_nn *nn = state;
    hyp_cuda_nn_entry *e;
    HYP_TRY(hyp_cuda_nn_find(nn, step, &e, diag));
    if (nn->aside.open) HYP_TRY(hyp_cuda_nn_aside_reserve(nn, e, room_of(nn->model.device, step), diag));
    HYP_TRY(hyp_cuda_nn_run_beside(nn, e, at, diag));
    nn->session.starts = false;
    return nn->session.captured ? hyp_cuda_note_captured(&nn->session, &nn->none, diag) : HYP_OK;
}
