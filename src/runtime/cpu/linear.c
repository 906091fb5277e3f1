/* Linear steps: our own kernel over packed panels, or oneDNN layer by layer, as choices.c says. Weights are packed once
 * for each and shared by all contexts.
 */
#include <math.h>

#include "base/dtype.h"
#include "runtime/cpu/choices.h"
#include "runtime/cpu/widened.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#endif

struct hyp_linear_weights {
    const HypPlan__Linear *step;
    bool constant;    /* every weight lies in the plan and every n and k is fixed and not 0 */
    bool biased;      /* some bias does not lie in the plan */
    bool own_kernel;  /* constant, and f32, or f8e4m3 and not biased: the mlp kernel can run it */
    size_t bytes;     /* of all weights */
    hyp_mlp *mlp;     /* NULL until packed for our own kernel; never changes afterwards. Panels may be those of another
                         step with the same weights: the model has all of them until its end */
    bool dnnl_packed; /* packed[] is final */
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_packed **packed; /* by layer; the model's */
#endif
};

enum { ALIGN = 64 /* bytes */, LANES = 16 /* floats of the widest vector */ };

/* ---- packing for our own kernel ---------------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

void hyp_cpu_pack_panels(const hyp_cpu_kernels *kernels, const float *w, int64_t n_step, int64_t k_step, int64_t n,
                         int64_t k, float *out)
{
    float *end = out + round_up(n, LANES) * k; /* of what there is room for, on any processor */
    int64_t panel = (int64_t)kernels->panel * kernels->width;
    for (int64_t first = 0; first < n; first += panel) {
        int64_t left = n - first, columns = left < panel ? left : panel, room = round_up(columns, kernels->width);
        for (int64_t i = 0; i < k; i++, out += room)
            for (int64_t j = 0; j < room; j++)
                out[j] = j >= columns ? 0 : w[(first + j) * n_step + i * k_step];
    }
    memset(out, 0, (size_t)(end - out) * sizeof *out);
}

const float *hyp_cpu_layer_floats(const hyp_cpu_model *model, const HypPlan__Layer *layer, size_t count, float **out_made)
{
    const hyp_plan *plan = model->widens ? model->widens->narrow : model->plan;
    const void *stored = hyp_cpu_weight(plan, layer->weight);
    hyp_dtype dtype = hyp_tensor_dtype(plan->program, layer->weight);
    *out_made = NULL;
    if (dtype == HYP_F32) return stored;
    float *made = *out_made = hyp_malloc(count * sizeof *made), scale = layer->x_scale * layer->weight_scale;
    if (made && dtype != HYP_F8E4M3) {
        model->device->kernels->widen(dtype, stored, made, (int64_t)count);
        return made;
    }
    for (size_t i = 0; made && i < count; i++) made[i] = hyp_f8e4m3_to_f32(((const uint8_t *)stored)[i]) * scale;
    return made;
}

/* 0 where it is computed: see network_of. */
static float bias_at(const hyp_cpu_model *model, const HypPlan__Layer *layer, int64_t j)
{
    if (!layer->bias_plus1 || !hyp_cpu_weight(model->plan, layer->bias_plus1 - 1)) return 0;
    uint32_t tensor = layer->bias_plus1 - 1;
    return (float)hyp_load_f64(hyp_tensor_dtype(model->plan->program, tensor), hyp_cpu_weight(model->plan, tensor),
                               (size_t)j);
}

/* The panels of another step that has the weights of this layer, as every cell of a network in time has: one copy, so
 * that they stay in the cache. NULL where there is none yet. */
static const float *find_panels(const hyp_cpu_model *model, const HypPlan__Layer *layer)
{
    const HypPlan__Program *p = model->plan->program;
    for (size_t i = 0; i < p->n_steps; i++) {
        const hyp_linear_weights *w = model->linear[i];
        for (size_t l = 0; w && w->mlp && l < w->step->n_layers; l++) {
            const HypPlan__Layer *other = w->step->layers[l];
            if (other->weight == layer->weight && other->weight_kn == layer->weight_kn &&
                p->dims[other->n]->value == p->dims[layer->n]->value &&
                p->dims[other->k]->value == p->dims[layer->k]->value &&
                other->x_scale * other->weight_scale == layer->x_scale * layer->weight_scale)
                return w->mlp->layers[l].weights;
        }
    }
    return NULL;
}

/* Layers without numbers yet, and a block for these, which mlp->block is; NULL when memory is out. */
static hyp_mlp *new_layers(size_t count, size_t floats)
{
    size_t bytes;
    if (!hyp_mul_size(floats, sizeof(float), &bytes)) return NULL;
    hyp_mlp *mlp = hyp_calloc(1, sizeof *mlp + count * sizeof(hyp_mlp_layer));
    if (!mlp) return NULL;
    *mlp = (hyp_mlp){.layers = (hyp_mlp_layer *)(mlp + 1), .count = count, .block = hyp_lasting_alloc(ALIGN, bytes)};
    if (mlp->block) return mlp;
    hyp_free(mlp);
    return NULL;
}

/* The block is finished: others may have one with the same numbers. */
static void share_layers(hyp_mlp *mlp, size_t floats)
{
    float *made = mlp->block, *kept = hyp_block_share(mlp->block, floats * sizeof *made);
    uintptr_t first = (uintptr_t)made, end = first + floats * sizeof *made;
    hyp_mlp_layer *layers = (hyp_mlp_layer *)(mlp + 1);
    for (size_t l = 0; l < mlp->count && kept != made; l++) {
        layers[l].bias = (const float *)((uintptr_t)kept + ((uintptr_t)layers[l].bias - first));
        if ((uintptr_t)layers[l].weights >= first && (uintptr_t)layers[l].weights < end)
            layers[l].weights = (const float *)((uintptr_t)kept + ((uintptr_t)layers[l].weights - first));
    }
    mlp->block = kept;
}

void hyp_cpu_free_layers(hyp_mlp *mlp)
{
    if (mlp) hyp_block_drop(mlp->block);
    hyp_free(mlp);
}

/* Weights and biases at multiples of 64 bytes. Sizes cannot overflow where the weights themselves fit into a file, but
 * are checked all the same. */
static hyp_mlp *pack_mlp(const hyp_cpu_model *model, const HypPlan__Linear *s)
{
    const hyp_cpu_kernels *kernels = model->device->kernels;
    const HypPlan__Program *p = model->plan->program;
    size_t total = 0;
    for (size_t l = 0; l < s->n_layers; l++) {
        size_t n = (size_t)round_up(p->dims[s->layers[l]->n]->value, LANES),
               k = find_panels(model, s->layers[l]) ? 0 : (size_t)p->dims[s->layers[l]->k]->value;
        if (!hyp_add_size(k, 1, &k) || !hyp_mul_size(n, k, &n) || !hyp_add_size(total, n, &total)) return NULL;
    }
    hyp_mlp *mlp = new_layers(s->n_layers, total);
    if (!mlp) return NULL;
    hyp_mlp_layer *layers = (hyp_mlp_layer *)(mlp + 1);
    float *at = mlp->block;
    mlp->add_after = s->add_after;
    for (size_t l = 0; l < s->n_layers; l++) {
        const HypPlan__Layer *layer = s->layers[l];
        int64_t n = p->dims[layer->n]->value, k = p->dims[layer->k]->value, room = round_up(n, LANES);
        float *made = NULL;
        const float *shared = find_panels(model, layer), *w = NULL;
        if (!shared) w = hyp_cpu_layer_floats(model, layer, (size_t)n * (size_t)k, &made);
        if (!shared && !w) {
            hyp_aligned_free(mlp->block);
            hyp_free(mlp);
            return NULL;
        }
        layers[l] = (hyp_mlp_layer){.n = n, .k = k, .bias = at, .weights = shared ? shared : at + room};
        layers[l].far = n * k >= HYP_FAR_WEIGHTS;
        layers[l].act = (hyp_block_instr){.op = hyp_plan_act_op(layer->act), .to = HYP_F32};
        for (int64_t j = 0; j < room; j++) at[j] = j < n ? bias_at(model, layer, j) : 0;
        at += room;
        if (!shared) {
            hyp_cpu_pack_panels(kernels, w, layer->weight_kn ? 1 : k, layer->weight_kn ? n : 1, n, k, at);
            hyp_free(made);
            at += room * k;
        }
        if (l + 1 < s->n_layers && room > mlp->hidden_stride) mlp->hidden_stride = room;
    }
    share_layers(mlp, total);
    return mlp;
}

hyp_mlp *hyp_cpu_pack_layers(const hyp_cpu_kernels *kernels, size_t count, const float *w, int64_t n, int64_t k,
                             const float *bias, const hyp_block_instr *act)
{
    size_t room = (size_t)round_up(n, LANES), floats;
    if (!hyp_mul_size(room, (size_t)k + 1, &floats) || !hyp_mul_size(floats, count, &floats)) return NULL;
    hyp_mlp *mlp = new_layers(count, floats);
    if (!mlp) return NULL;
    hyp_mlp_layer *layers = (hyp_mlp_layer *)(mlp + 1);
    float *at = mlp->block;
    for (size_t l = 0; l < count; l++, at += room * ((size_t)k + 1)) {
        layers[l] = (hyp_mlp_layer){.n = n, .k = k, .bias = at, .weights = at + room, .far = floats >= HYP_FAR_WEIGHTS};
        layers[l].act = act ? *act : (hyp_block_instr){.op = HYP_PLAN__POINTWISE__OP__CAST, .to = HYP_F32};
        for (size_t j = 0; j < room; j++) at[j] = bias && (int64_t)j < n ? bias[l * (size_t)n + j] : 0;
        hyp_cpu_pack_panels(kernels, w + l * (size_t)n * (size_t)k, 1, n, n, k, at + room);
    }
    share_layers(mlp, floats);
    return mlp;
}

/* Packs what the choice needs, unless that was done before. Called under the lock, or while loading. */
static hyp_status ensure_mlp(hyp_cpu_model *model, hyp_linear_weights *w, hyp_diag *diag)
{
    if (w->mlp) return HYP_OK;
    hyp_mem_account *before = hyp_mem_charge(model->account);
    w->mlp = pack_mlp(model, w->step);
    hyp_mem_charge(before);
    return w->mlp ? HYP_OK : hyp_fail_memory(diag, w->bytes);
}

#ifdef HYP_HAVE_ONEDNN
static hyp_status ensure_dnnl(hyp_cpu_model *model, hyp_linear_weights *w, int64_t m, hyp_diag *diag)
{
    const HypPlan__Program *p = model->plan->program;
    hyp_mem_account *before = hyp_mem_charge(model->account);
    hyp_status status = HYP_OK;
    for (size_t l = 0; l < w->step->n_layers && w->constant && !w->dnnl_packed && status == HYP_OK; l++) {
        const HypPlan__Layer *layer = w->step->layers[l];
        if (!w->packed[l])
            status = hyp_dnnl_pack(model, w->step, l, m, p->dims[layer->n]->value, p->dims[layer->k]->value,
                                   &w->packed[l], diag);
    }
    hyp_mem_charge(before);
    w->dnnl_packed = status == HYP_OK;
    return status;
}
#endif

/* ---- running ----------------------------------------------------------------------------------------------- */

static size_t hidden_bytes(const hyp_mlp *mlp) { return 2 * HYP_MLP_ROWS * (size_t)mlp->hidden_stride * sizeof(float); }

static size_t head_bytes(const hyp_mlp *mlp)
{
    return (size_t)round_up((int64_t)(sizeof *mlp + mlp->count * sizeof *mlp->layers), ALIGN);
}

/* What a network with computed biases needs beside its hidden values. */
static size_t biased_bytes(const hyp_mlp *mlp)
{
    size_t bytes = head_bytes(mlp);
    for (size_t l = 0; l < mlp->count; l++) bytes += (size_t)round_up(mlp->layers[l].n, LANES) * sizeof(float);
    return bytes;
}

/* The network as packed, or, in the work space before the hidden values, with the biases that were computed. */
static const hyp_mlp *network_of(const hyp_cpu_op *op, const hyp_cpu_run *run)
{
    const hyp_linear_weights *w = op->state;
    if (!w->biased) return w->mlp;
    hyp_mlp *mlp = run->call.work;
    hyp_mlp_layer *layers = (hyp_mlp_layer *)(mlp + 1);
    float *at = (float *)((char *)mlp + head_bytes(w->mlp));
    *mlp = *w->mlp;
    mlp->layers = layers;
    for (size_t l = 0; l < mlp->count; l++) {
        uint32_t bias_plus1 = w->step->layers[l]->bias_plus1;
        int64_t n = w->mlp->layers[l].n, room = round_up(n, LANES);
        layers[l] = w->mlp->layers[l];
        layers[l].bias = at;
        memset(at, 0, (size_t)room * sizeof *at);
        if (bias_plus1) memcpy(at, run->call.at[bias_plus1 - 1], (size_t)n * sizeof *at);
        at += room;
    }
    return mlp;
}

/* The hidden values of a thread; NULL where there are none. */
static float *hidden_of(const hyp_cpu_op *op, const hyp_cpu_run *run, int thread)
{
    const hyp_linear_weights *w = op->state;
    size_t before = (w->biased ? biased_bytes(w->mlp) : 0) + (size_t)thread * hidden_bytes(w->mlp);
    return w->mlp->hidden_stride ? (float *)(void *)((char *)run->call.work + before) : NULL;
}

static hyp_status run_mlp(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const hyp_mlp *mlp = network_of(op, run);
    const HypPlan__Linear *s = op->step->linear;
    const float *added = s->added_plus1 ? run->call.at[s->added_plus1 - 1] : NULL;
    run->kernels->mlp(mlp, run->call.values[s->m], run->call.at[s->x], added, run->call.at[s->y],
                      hidden_of(op, run, 0));
    return HYP_OK;
}

/* ---- 8 bits: rows as floats, a group at a time ------------------------------------------------------------------ */

typedef struct bytes_run {
    const hyp_cpu_op *op;
    const hyp_cpu_run *run;
} bytes_run;

/* Floats that a thread needs: of x, of what is added, of y. */
static int64_t group_floats(const hyp_mlp_layer *layer)
{
    return HYP_MLP_ROWS * (round_up(layer->k, 16) + 2 * round_up(layer->n, 16));
}

/* Groups of rows from `begin` to `end`. */
static void bytes_part(void *state, int64_t begin, int64_t end, int thread)
{
    const bytes_run *r = state;
    const hyp_cpu_run *run = r->run;
    const hyp_cpu_kernels *kernels = run->kernels;
    const hyp_mlp *mlp = network_of(r->op, run);
    const HypPlan__Linear *s = r->op->step->linear;
    int64_t m = run->call.values[s->m], n = mlp->layers[0].n, k = mlp->layers[0].k;
    const uint8_t *x = run->call.at[s->x];
    const uint16_t *added = s->added_plus1 ? run->call.at[s->added_plus1 - 1] : NULL;
    uint16_t *y = run->call.at[s->y];
    float *rows = (float *)run->call.work + thread * group_floats(&mlp->layers[0]);
    float *sum = rows + HYP_MLP_ROWS * round_up(k, 16), *out = sum + HYP_MLP_ROWS * round_up(n, 16);
    for (int64_t first = begin * HYP_MLP_ROWS; first < m && first < end * HYP_MLP_ROWS; first += HYP_MLP_ROWS) {
        int64_t count = m - first < HYP_MLP_ROWS ? m - first : HYP_MLP_ROWS;
        kernels->widen(HYP_F8E4M3, x + first * k, rows, count * k);
        if (added) kernels->widen(HYP_BF16, added + first * n, sum, count * n);
        kernels->mlp(mlp, count, rows, added ? sum : NULL, out, out); /* nothing is hidden in one layer */
        kernels->narrow(HYP_BF16, out, y + first * n, count * n);
    }
}

static hyp_status run_bytes(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const hyp_mlp *mlp = network_of(op, run);
    int64_t m = run->call.values[op->step->linear->m], work = mlp->layers[0].n * mlp->layers[0].k * HYP_MLP_ROWS;
    bytes_run r = {op, run};
    hyp_cpu_parallel(run, (m + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS, 1 + (1 << 18) / work, bytes_part, &r);
    return HYP_OK;
}

/* ---- several threads: each has some blocks of panels of a layer, and waits for the others before the next ------ */

typedef struct layer_run {
    const hyp_cpu_kernels *kernels;
    const hyp_mlp_layer *layer;
    const float *x, *before, *after; /* added before the activation, after it; NULL: nothing */
    float *y;
    int64_t rows, x_stride, y_stride;
} layer_run;

static int64_t block_columns(const hyp_cpu_kernels *kernels)
{
    return (int64_t)kernels->block * kernels->panel * kernels->width;
}

static int64_t blocks_of(const hyp_cpu_kernels *kernels, int64_t n)
{
    return (n + block_columns(kernels) - 1) / block_columns(kernels);
}

/* Blocks that are worth a thread: a quarter of a megabyte of weights, less where several rows use them. */
static int64_t block_grain(const hyp_cpu_kernels *kernels, int64_t k, int64_t rows)
{
    enum { PART_BYTES = 1 << 18, ROWS = 4 };
    double work = (double)block_columns(kernels) * (double)k * sizeof(float) * (double)(rows > ROWS ? rows / ROWS : 1);
    return work > 0 ? (int64_t)ceil(PART_BYTES / work) : INT64_MAX;
}

static void layer_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const layer_run *r = state;
    int64_t first = begin * block_columns(r->kernels), last = end * block_columns(r->kernels),
            block = r->kernels->block;
    r->kernels->panels(r->layer, r->rows, r->x, r->x_stride, r->before, r->y, r->y_stride, begin * block, end * block);
    if (last > r->layer->n) last = r->layer->n;
    for (int64_t row = 0; row < r->rows && r->after; row++)
        for (int64_t i = row * r->y_stride + first; i < row * r->y_stride + last; i++) r->y[i] += r->after[i];
}

static void share_layer(const hyp_cpu_run *run, layer_run *r)
{
    hyp_cpu_parallel(run, blocks_of(r->kernels, r->layer->n), block_grain(r->kernels, r->layer->k, r->rows), layer_part,
                     r);
}

void hyp_cpu_run_layer(const hyp_cpu_run *run, const hyp_mlp_layer *layer, int64_t rows, const float *x,
                       int64_t x_stride, const float *added, float *y, int64_t y_stride)
{
    layer_run r = {run->kernels, layer, x, added, NULL, y, rows, x_stride, y_stride};
    share_layer(run, &r);
}

static void run_rows(const hyp_cpu_run *run, const hyp_mlp *mlp, layer_run r, const float *added, float *hidden,
                     float *y)
{
    float *halves[2] = {hidden, hidden ? hidden + HYP_MLP_ROWS * mlp->hidden_stride : NULL};
    for (size_t l = 0; l < mlp->count; l++) {
        bool last = l + 1 == mlp->count;
        r.layer = &mlp->layers[l];
        r.y = last ? y : halves[l & 1];
        r.y_stride = last ? r.layer->n : mlp->hidden_stride;
        r.before = last && !mlp->add_after ? added : NULL;
        r.after = last && mlp->add_after ? added : NULL;
        share_layer(run, &r);
        r.x = r.y;
        r.x_stride = r.y_stride;
    }
}

static hyp_status run_by_panels(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const hyp_mlp *mlp = network_of(op, run);
    const HypPlan__Linear *s = op->step->linear;
    const float *x = run->call.at[s->x], *added = s->added_plus1 ? run->call.at[s->added_plus1 - 1] : NULL;
    float *y = run->call.at[s->y];
    int64_t m = run->call.values[s->m], k = mlp->layers[0].k, n = mlp->layers[mlp->count - 1].n;
    for (int64_t row = 0; row < m; row += HYP_MLP_ROWS) {
        int64_t rows = m - row < HYP_MLP_ROWS ? m - row : HYP_MLP_ROWS;
        layer_run r = {.kernels = run->kernels, .x = x + row * k, .x_stride = k, .rows = rows};
        run_rows(run, mlp, r, added ? added + row * n : NULL, hidden_of(op, run, 0), y + row * n);
    }
    return HYP_OK;
}

/* ---- several threads: each has some rows, which go through all layers -------------------------------------------- */

typedef struct rows_run {
    const hyp_cpu_op *op;
    const hyp_cpu_run *run;
    const hyp_mlp *mlp;
    int64_t rows; /* of a part */
} rows_run;

static void rows_part(void *state, int64_t begin, int64_t end, int thread)
{
    const rows_run *r = state;
    const HypPlan__Linear *s = r->op->step->linear;
    void *const *at = r->run->call.at;
    int64_t m = r->run->call.values[s->m], k = r->mlp->layers[0].k, n = r->mlp->layers[r->mlp->count - 1].n;
    int64_t first = begin * r->rows, stop = end * r->rows < m ? end * r->rows : m;
    const float *added = s->added_plus1 ? (const float *)at[s->added_plus1 - 1] + first * n : NULL;
    if (first < stop)
        r->run->kernels->mlp(r->mlp, stop - first, (const float *)at[s->x] + first * k, added,
                             (float *)at[s->y] + first * n, hidden_of(r->op, r->run, thread));
}

static hyp_status run_by_rows(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    enum { PART_FLOPS = 1 << 19 }; /* that are worth a thread */
    (void)diag;
    const hyp_linear_weights *w = op->state;
    int64_t m = run->call.values[op->step->linear->m], threads = op->threads;
    int64_t parts = ((m + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS + threads - 1) / threads * threads;
    rows_run r = {op, run, network_of(op, run), (m + parts - 1) / parts};
    hyp_cpu_parallel(run, parts, hyp_cpu_grain(PART_FLOPS, (int64_t)(w->bytes / 2) * r.rows), rows_part, &r);
    return HYP_OK;
}

/* Enough rows for every thread that reading all weights is little beside them. */
bool hyp_cpu_rows_share(int64_t m, int threads)
{
    enum { FEW_ROWS = 12 };
    return m / FEW_ROWS >= threads;
}

bool hyp_cpu_layer_shares(const hyp_cpu_kernels *kernels, int64_t n, int64_t k, int64_t rows)
{
    return blocks_of(kernels, n) / 2 >= block_grain(kernels, k, rows);
}

const char *hyp_linear_cannot_own(const hyp_linear_weights *w)
{
    return w->own_kernel ? NULL
           : w->constant ? "it is for f32, and f8e4m3 with biases that are stored"
                         : "the weights are computed";
}

size_t hyp_linear_bytes(const hyp_linear_weights *w) { return w->bytes; }

static hyp_status prepare_own(hyp_cpu_model *model, hyp_linear_weights *w, int64_t m, hyp_cpu_form form, hyp_cpu_op *op,
                              hyp_diag *diag)
{
    HYP_TRY(ensure_mlp(model, w, diag));
    op->state = w; /* the model's: nothing to destroy */
    if (hyp_tensor_dtype(model->plan->program, w->step->x) == HYP_F8E4M3) {
        op->run = run_bytes;
        op->work_bytes = (size_t)model->device->threads * (size_t)group_floats(&w->mlp->layers[0]) * sizeof(float);
        return HYP_OK;
    }
    bool by_rows = form == HYP_CPU_OWN_SHARED && hyp_cpu_rows_share(m, op->threads);
    op->run = by_rows ? run_by_rows : form == HYP_CPU_OWN_SHARED ? run_by_panels : run_mlp;
    op->work_bytes =
        (size_t)(by_rows ? op->threads : 1) * hidden_bytes(w->mlp) + (w->biased ? biased_bytes(w->mlp) : 0);
    return HYP_OK;
}

static hyp_status prepare_locked(hyp_cpu_model *model, hyp_linear_weights *w, const int64_t *values, hyp_cpu_form form,
                                 hyp_cpu_op *op, hyp_diag *diag)
{
    if (form == HYP_CPU_OWN || form == HYP_CPU_OWN_SHARED)
        return prepare_own(model, w, values[w->step->m], form, op, diag);
#ifdef HYP_HAVE_ONEDNN
    HYP_TRY(ensure_dnnl(model, w, values[w->step->m], diag));
    return hyp_dnnl_prepare_linear(model, w->step, values, w->packed, form == HYP_CPU_ONEDNN_TILES, op, diag);
#else
    return HYP_OK;
#endif
}

hyp_status hyp_cpu_prepare_linear(hyp_cpu_model *model, uint32_t step, const int64_t *values, hyp_cpu_form form,
                                  hyp_cpu_op *op, hyp_diag *diag)
{
    pthread_mutex_lock(&model->packing);
    hyp_status status = prepare_locked(model, model->linear[step], values, form, op, diag);
    pthread_mutex_unlock(&model->packing);
    return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------- */

static bool is_constant(const HypPlan__Program *p, uint32_t dim)
{
    return p->dims[dim]->kind == HYP_PLAN__DIM__KIND__CONST;
}

bool hyp_linear_is_constant(const hyp_plan *plan, const HypPlan__Linear *linear)
{
    const HypPlan__Program *p = plan->program;
    for (size_t l = 0; l < linear->n_layers; l++) {
        const HypPlan__Layer *layer = linear->layers[l];
        if (!hyp_cpu_weight(plan, layer->weight) || !is_constant(p, layer->n) || !is_constant(p, layer->k) ||
            p->dims[layer->n]->value <= 0 || p->dims[layer->k]->value <= 0)
            return false;
    }
    return true;
}

static void examine(const hyp_plan *plan, hyp_linear_weights *w)
{
    const HypPlan__Program *p = plan->program;
    w->constant = hyp_linear_is_constant(plan, w->step);
    for (size_t l = 0; l < w->step->n_layers; l++) {
        const HypPlan__Layer *layer = w->step->layers[l];
        w->biased = w->biased || (layer->bias_plus1 && !hyp_cpu_weight(plan, layer->bias_plus1 - 1));
        if (w->constant) w->bytes += p->tensors[hyp_plan_root(p, layer->weight)]->bytes;
    }
    hyp_dtype t = hyp_tensor_dtype(p, w->step->x);
    w->own_kernel = w->constant && (t == HYP_F32 || (t == HYP_F8E4M3 && !w->biased));
}

/* A fixed number of rows decides now what gets packed; otherwise one row is taken, and the first set of shapes that
 * wants the other kernel packs for it. */
hyp_status hyp_linear_weights_load(hyp_cpu_model *model, uint32_t step, const int64_t *values, const hyp_tuning *known,
                                   hyp_diag *diag)
{
    const HypPlan__Program *p = model->plan->program;
    hyp_linear_weights *w = hyp_calloc(1, sizeof *w);
    if (!w) return hyp_fail_memory(diag, sizeof *w);
    model->linear[step] = w;
    w->step = p->steps[step]->linear;
#ifdef HYP_HAVE_ONEDNN
    w->packed = hyp_calloc(w->step->n_layers, sizeof *w->packed);
    if (!w->packed) return hyp_fail_memory(diag, w->step->n_layers * sizeof *w->packed);
#endif
    examine(model->plan, w);
    hyp_choice c;
    hyp_cpu_offer(model, step, values, NULL, &c);
    const hyp_alternative *taken = hyp_choose(&c, known);
    if (!w->constant || taken->form == HYP_CPU_PLAIN || taken->form == HYP_CPU_DOUBLES ||
        taken->form == HYP_CPU_INTEGERS)
        return HYP_OK;
    if (taken->form == HYP_CPU_OWN || taken->form == HYP_CPU_OWN_SHARED) return ensure_mlp(model, w, diag);
#ifdef HYP_HAVE_ONEDNN
    if (is_constant(p, w->step->m)) return ensure_dnnl(model, w, values[w->step->m], diag);
#endif
    return HYP_OK;
}

void hyp_linear_weights_destroy(hyp_linear_weights *w)
{
    if (!w) return;
    hyp_cpu_free_layers(w->mlp);
#ifdef HYP_HAVE_ONEDNN
    hyp_free(w->packed);
#endif
    hyp_free(w);
}
