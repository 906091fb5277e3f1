#include "runtime/cpu/dnnl.h"

#include "base/dtype.h"
#include "kernels/openmp.h"
#include "runtime/cpu/dnnl_memory.h"

struct hyp_dnnl {
    dnnl_engine_t engine;
    /* Of the OpenMP runtime that oneDNN brought along; NULL when it uses another. Not linked, since a compiler's
     * own OpenMP library may be a different one. */
    void (*omp_set_num_threads)(int);
    int (*omp_get_max_threads)(void);
    int (*omp_get_thread_num)(void);
    int (*omp_get_num_threads)(void);
    void (*GOMP_parallel)(void (*body)(void *), void *data, unsigned threads, unsigned flags);
};

hyp_status hyp_dnnl_fail(hyp_diag *diag, dnnl_status_t status, const char *what)
{
    return hyp_fail(diag, status == dnnl_out_of_memory ? HYP_ERR_NO_MEMORY : HYP_ERR_DEVICE,
                    "oneDNN: %s failed (status %d)", what, (int)status);
}

/* ---- device ---------------------------------------------------------------------------------------------- */

/* All or none. GOMP_parallel is what gcc compiles a parallel region to; the OpenMP runtimes of LLVM and Intel have it
 * as well. */
static void find_openmp(hyp_dnnl *d)
{
    const struct {
        const char *name;
        void *to;
    } wanted[] = {{"omp_set_num_threads", &d->omp_set_num_threads},
                  {"omp_get_max_threads", &d->omp_get_max_threads},
                  {"omp_get_thread_num", &d->omp_get_thread_num},
                  {"omp_get_num_threads", &d->omp_get_num_threads},
                  {"GOMP_parallel", &d->GOMP_parallel}};
    void *found[sizeof wanted / sizeof *wanted];
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(found[i] = hyp_openmp_symbol(wanted[i].name))) return;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) memcpy(wanted[i].to, &found[i], sizeof found[i]);
}

typedef struct parallel_loop {
    const hyp_dnnl *dnnl;
    int64_t count;
    hyp_cpu_task *task;
    void *state;
} parallel_loop;

/* Runs on every thread: its share of the loop. */
static void run_share(void *data)
{
    const parallel_loop *l = data;
    int64_t thread = l->dnnl->omp_get_thread_num(), threads = l->dnnl->omp_get_num_threads();
    int64_t each = l->count / threads, more = l->count % threads;
    int64_t begin = thread * each + (thread < more ? thread : more);
    int64_t end = begin + each + (thread < more);
    if (begin < end) l->task(l->state, begin, end, (int)thread);
}

bool hyp_dnnl_parallel(const hyp_dnnl *d, int threads, int64_t count, hyp_cpu_task *task, void *state)
{
    parallel_loop loop = {d, count, task, state};
    if (!d->GOMP_parallel) return false;
    d->GOMP_parallel(run_share, &loop, (unsigned)threads, 0);
    return true;
}

/* The instruction sets of our kernels as oneDNN's, which knows none below SSE4.1. */
static hyp_status limit_isa(hyp_cpu_limit limit, hyp_diag *diag)
{
#ifdef HYP_CPU_X86
    static const struct {
        const char *name;
        dnnl_cpu_isa_t isa;
    } limits[] = {{"generic", dnnl_cpu_isa_sse41}, {"avx2", dnnl_cpu_isa_avx2}, {"avx512", dnnl_cpu_isa_avx512_core}};
    for (size_t i = 0; limit.most && i < sizeof limits / sizeof *limits; i++) {
        if (strcmp(limits[i].name, limit.most) != 0) continue;
        /* Refused from the second call on; what counts is whether the limit holds. Each set is a superset of bits. */
        dnnl_set_max_cpu_isa(limits[i].isa);
        if (dnnl_get_effective_cpu_isa() & ~(unsigned)limits[i].isa)
            return hyp_fail(diag, HYP_ERR_DEVICE,
                            "%s is '%s', but oneDNN already runs with %s in this process, where it chooses once: set "
                            "the limit before oneDNN is first used, by " HYP_CPU_VARIABLE " or the first engine",
                            limit.by, limit.most, hyp_dnnl_isa());
    }
#else
    (void)limit, (void)diag;
#endif
    return HYP_OK;
}

hyp_status hyp_dnnl_open(hyp_cpu_limit limit, hyp_dnnl **out, hyp_diag *diag)
{
    HYP_TRY(limit_isa(limit, diag));
    hyp_dnnl *d = hyp_calloc(1, sizeof *d);
    if (!d) return hyp_fail_memory(diag, sizeof *d);
    dnnl_status_t status = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
    if (status != dnnl_success) {
        hyp_free(d);
        return hyp_dnnl_fail(diag, status, "making an engine");
    }
    find_openmp(d);
    *out = d;
    return HYP_OK;
}

dnnl_engine_t hyp_dnnl_engine(const hyp_dnnl *d) { return d->engine; }

void hyp_dnnl_close(hyp_dnnl *d)
{
    if (!d) return;
    dnnl_engine_destroy(d->engine);
    hyp_free(d);
}

const char *hyp_dnnl_isa(void)
{
#ifdef HYP_CPU_X86
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    return isa >= (unsigned)dnnl_cpu_isa_avx512_core ? "avx512"
           : isa >= (unsigned)dnnl_cpu_isa_avx2      ? "avx2"
                                                     : "sse4.1";
#else
    return "this processor"; /* it is asked for those of x86 alone */
#endif
}

int hyp_dnnl_threads(const hyp_dnnl *d) { return d->omp_get_max_threads ? d->omp_get_max_threads() : 1; }

int hyp_dnnl_set_threads(const hyp_dnnl *d, int threads)
{
    if (!d->omp_set_num_threads || threads <= 0) return 0;
    int before = d->omp_get_max_threads();
    if (before != threads) d->omp_set_num_threads(threads);
    return before;
}

hyp_status hyp_dnnl_stream_create(const hyp_dnnl *d, void **out, hyp_diag *diag)
{
    dnnl_stream_t stream;
    dnnl_status_t status = dnnl_stream_create(&stream, d->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) return hyp_dnnl_fail(diag, status, "making a stream");
    *out = stream;
    return HYP_OK;
}

void hyp_dnnl_stream_destroy(void *stream)
{
    if (stream) dnnl_stream_destroy(stream);
}

/* ---- descriptions ---------------------------------------------------------------------------------------- */

/* The four arguments of a product; bias may be NULL. */
typedef struct operands {
    hyp_md src, weights, bias, dst;
} operands;

static void operands_dispose(operands *o)
{
    hyp_md_destroy(o->src);
    hyp_md_destroy(o->weights);
    hyp_md_destroy(o->bias);
    hyp_md_destroy(o->dst);
}

static hyp_md matrix(dnnl_data_type_t type, int64_t rows, int64_t columns, bool transposed)
{
    int64_t dims[2] = {rows, columns}, strides[2] = {transposed ? 1 : columns, transposed ? rows : 1};
    return hyp_md_create(2, dims, type, strides);
}

static hyp_md any_layout(dnnl_data_type_t type, int64_t rows, int64_t columns)
{
    int64_t dims[2] = {rows, columns};
    return hyp_md_create(2, dims, type, NULL);
}

/* One layer as oneDNN computes it. A tensor that is added is what y holds if both are in one slot, else an argument. */
typedef struct asked {
    hyp_dtype dtype;
    bool bias;
    uint32_t added_plus1; /* 0: nothing, or what y holds */
    hyp_dnnl_post post;   /* but for `added` */
    bool known;           /* whether oneDNN has the activation */
} asked;

static asked ask(const HypPlan__Program *p, const HypPlan__Linear *s, size_t l)
{
    bool adds = l + 1 == s->n_layers && s->added_plus1 != 0;
    bool in_place = adds && !s->add_after && hyp_plan_same_slot(p, s->added_plus1 - 1, s->y);
    asked a = {.dtype = hyp_tensor_dtype(p, s->x),
               .bias = s->layers[l]->bias_plus1 != 0,
               .added_plus1 = adds && !in_place ? s->added_plus1 : 0,
               .post = {.alpha = 1.0f, .accumulate = in_place, .add_after = s->add_after}};
    a.known = hyp_dnnl_find_act(hyp_plan_act_name(s->layers[l]->act), &a.post.act);
    return a;
}

/* y[m,n] = act(x[m,k] w + b), the weights in the layout given. NULL when oneDNN has none. */
static dnnl_primitive_desc_t layer_pd(const hyp_dnnl *d, const asked *a, int64_t m, int64_t n, int64_t k,
                                      hyp_md_ref weights)
{
    dnnl_data_type_t type = hyp_dnnl_type(a->dtype);
    operands o = {.src = matrix(type, m, k, false), .dst = matrix(type, m, n, false)};
    if (a->bias) o.bias = matrix(type, 1, n, false);
    hyp_dnnl_post post = a->post;
    if (a->added_plus1) post.added = o.dst;
    dnnl_primitive_desc_t pd = NULL;
    if (a->known && o.src && o.dst && weights && (o.bias || !a->bias))
        pd = hyp_dnnl_matmul(d->engine, o.src, weights, o.bias, o.dst, &post);
    operands_dispose(&o);
    return pd;
}

bool hyp_dnnl_has(const hyp_dnnl *d, hyp_dtype dtype)
{
    enum { SIDE = 64 };
    if (hyp_dnnl_type(dtype) == dnnl_data_type_undef) return false;
    const asked plain = {.dtype = dtype, .post = {.alpha = 1.0f, .act = {dnnl_alg_kind_undef, 0, 0}}, .known = true};
    hyp_md weights = any_layout(hyp_dnnl_type(dtype), SIDE, SIDE);
    dnnl_primitive_desc_t pd = layer_pd(d, &plain, SIDE, SIDE, SIDE, weights);
    hyp_md_destroy(weights);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return pd != NULL;
}

/* ---- packed weights -------------------------------------------------------------------------------------- */

void hyp_dnnl_packed_destroy(hyp_dnnl_packed *p)
{
    while (p) {
        hyp_dnnl_packed *next = p->next;
        if (p->memory) dnnl_memory_destroy(p->memory);
        hyp_md_destroy(p->md);
        hyp_aligned_free(p->buffer);
        hyp_free(p);
        p = next;
    }
}

/* Runs one reorder from memory of the plan into p->buffer. */
static hyp_status reorder(const hyp_dnnl *d, hyp_md_ref from, const void *data, hyp_dnnl_packed *p, hyp_diag *diag)
{
    dnnl_primitive_desc_t pd = hyp_dnnl_reorder(d->engine, from, p->md);
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t source = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t status = pd ? dnnl_primitive_create(&primitive, pd) : dnnl_unimplemented;
    if (status == dnnl_success) status = dnnl_memory_create(&source, from, d->engine, (void *)(uintptr_t)data);
    if (status == dnnl_success) status = dnnl_stream_create(&stream, d->engine, dnnl_stream_default_flags);
    if (status == dnnl_success) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, p->memory}};
        status = dnnl_primitive_execute(primitive, stream, 2, args);
    }
    if (status == dnnl_success) status = dnnl_stream_wait(stream);
    if (stream) dnnl_stream_destroy(stream);
    if (source) dnnl_memory_destroy(source);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "packing weights");
}

static hyp_status pack(const hyp_dnnl *d, hyp_md_ref plain, const void *data, hyp_md_ref wanted, hyp_dnnl_packed *p,
                       hyp_diag *diag)
{
    enum { PAGE = 4096 };
    bool copy = !dnnl_memory_desc_equal(plain, wanted);
    size_t bytes = dnnl_memory_desc_get_size(wanted);
    p->md = hyp_md_clone(wanted);
    if (copy) p->buffer = hyp_aligned_alloc(PAGE, bytes);
    if (!p->md || (copy && !p->buffer)) return hyp_fail_memory(diag, bytes);
    dnnl_status_t status = dnnl_memory_create(&p->memory, p->md, d->engine, copy ? p->buffer : (void *)(uintptr_t)data);
    if (status != dnnl_success) return hyp_dnnl_fail(diag, status, "describing weights");
    return copy ? reorder(d, plain, data, p, diag) : HYP_OK;
}

hyp_status hyp_dnnl_pack_memory(const hyp_dnnl *d, hyp_md_ref plain, const void *data, hyp_md_ref wanted,
                                hyp_dnnl_packed **out, hyp_diag *diag)
{
    hyp_dnnl_packed *p = hyp_calloc(1, sizeof *p);
    hyp_status status = p ? pack(d, plain, data, wanted, p, diag) : hyp_fail_memory(diag, sizeof *p);
    if (status != HYP_OK) {
        hyp_dnnl_packed_destroy(p);
        p = NULL;
    }
    *out = p;
    return status;
}

/* The weights of a layer as the library wants them: those of another step where they are the same. */
static hyp_status find_layer(hyp_cpu_model *model, const HypPlan__Layer *layer, hyp_md_ref plain, hyp_md_ref wanted,
                             hyp_dnnl_packed **out, hyp_diag *diag)
{
    const void *data = hyp_cpu_weight(model->plan, layer->weight);
    for (*out = model->layers; *out; *out = (*out)->next)
        if ((*out)->data == data && (*out)->kn == layer->weight_kn && dnnl_memory_desc_equal((*out)->md, wanted)) return HYP_OK;
    HYP_TRY(hyp_dnnl_pack_memory(model->device->dnnl, plain, data, wanted, out, diag));
    (*out)->data = data;
    (*out)->kn = layer->weight_kn;
    (*out)->next = model->layers;
    model->layers = *out;
    return HYP_OK;
}

hyp_status hyp_dnnl_pack(hyp_cpu_model *model, const HypPlan__Linear *s, size_t l, int64_t m, int64_t n, int64_t k,
                         hyp_dnnl_packed **out, hyp_diag *diag)
{
    *out = NULL;
    const hyp_dnnl *d = model->device->dnnl;
    const HypPlan__Layer *layer = s->layers[l];
    const asked a = ask(model->plan->program, s, l);
    dnnl_data_type_t type = hyp_dnnl_type(a.dtype);
    hyp_md any = any_layout(type, k, n), plain = matrix(type, k, n, !layer->weight_kn);
    dnnl_primitive_desc_t pd = layer_pd(d, &a, m, n, k, any);
    hyp_status status = HYP_OK;
    if (pd && plain)
        status = find_layer(model, layer, plain, hyp_dnnl_query(pd, dnnl_query_weights_md), out, diag);
    if (pd) dnnl_primitive_desc_destroy(pd);
    hyp_md_destroy(any);
    hyp_md_destroy(plain);
    return status;
}

/* ---- products -------------------------------------------------------------------------------------------- */

enum { SRC, WEIGHTS, BIAS, DST, ADDED, SCRATCHPAD, ARGUMENTS };

/* One prepared primitive. Its memories get their addresses in every run. */
typedef struct product {
    dnnl_primitive_t primitive;
    dnnl_memory_t own[ARGUMENTS]; /* NULL where absent or shared */
    uint32_t tensors[SCRATCHPAD]; /* whose address the others take */
    size_t row_bytes[SCRATCHPAD]; /* what a row adds to that address; 0 but for x, y and the addend of a whole step */
    dnnl_exec_arg_t args[ARGUMENTS];
    int arg_count;
} product;

/* A step: `count` products for every full tile of rows, then, where the rows are no whole number of tiles, as many
 * for the rest. */
typedef struct products {
    int64_t rows, tile;
    size_t count;
    product items[]; /* 2 * count */
} products;

static void products_destroy(void *opaque)
{
    products *s = opaque;
    for (size_t i = 0; i < 2 * s->count; i++) {
        if (s->items[i].primitive) dnnl_primitive_destroy(s->items[i].primitive);
        for (int j = 0; j < ARGUMENTS; j++)
            if (s->items[i].own[j]) dnnl_memory_destroy(s->items[i].own[j]);
    }
    hyp_free(s);
}

static hyp_status run_product(const product *p, const hyp_cpu_run *run, int64_t row, hyp_diag *diag)
{
    for (int j = 0; j < SCRATCHPAD; j++)
        if (p->own[j])
            dnnl_memory_set_data_handle(p->own[j], (char *)run->call.at[p->tensors[j]] + (size_t)row * p->row_bytes[j]);
    if (p->own[SCRATCHPAD]) dnnl_memory_set_data_handle(p->own[SCRATCHPAD], run->call.work);
    dnnl_status_t status = dnnl_primitive_execute(p->primitive, run->stream, p->arg_count, p->args);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "a product");
}

static hyp_status run_products(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const products *s = op->state;
    for (int64_t row = 0; row < s->rows; row += s->tile) {
        const product *items = s->items + (s->rows - row < s->tile ? s->count : 0);
        for (size_t i = 0; i < s->count; i++) HYP_TRY(run_product(&items[i], run, row, diag));
    }
    dnnl_status_t status = dnnl_stream_wait(run->stream);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "waiting");
}

/* Makes the primitive of `pd` (which it takes over) and its memories. The tensors are indexes + 1, 0 where absent.
 * shared: the packed weights, or NULL. added_arg: the number of the argument ADDED, if there is one. */
static hyp_status make_product(const hyp_dnnl *d, dnnl_primitive_desc_t pd, const uint32_t tensors_plus1[SCRATCHPAD],
                               int added_arg, dnnl_memory_t shared, product *p, size_t *work_bytes, hyp_diag *diag)
{
    const struct {
        int arg;
        dnnl_query_t query;
        int index;
    } kinds[ARGUMENTS] = {[SRC] = {DNNL_ARG_SRC, dnnl_query_src_md, 0},
                          [WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                          [BIAS] = {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
                          [DST] = {DNNL_ARG_DST, dnnl_query_dst_md, 0},
                          [ADDED] = {added_arg, dnnl_query_dst_md, 0},
                          [SCRATCHPAD] = {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0}};
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, pd);
    for (int j = 0; j < ARGUMENTS && status == dnnl_success; j++) {
        hyp_md_ref md = dnnl_primitive_desc_query_md(pd, kinds[j].query, kinds[j].index);
        size_t bytes = md ? dnnl_memory_desc_get_size(md) : 0;
        if (j == SCRATCHPAD ? !bytes : !tensors_plus1[j]) continue;
        if (j < SCRATCHPAD) p->tensors[j] = tensors_plus1[j] - 1;
        if (j == SCRATCHPAD && bytes > *work_bytes) *work_bytes = bytes;
        dnnl_memory_t memory = j == WEIGHTS ? shared : NULL;
        if (!memory) {
            status = dnnl_memory_create(&p->own[j], md, d->engine, DNNL_MEMORY_NONE);
            memory = p->own[j];
        }
        p->args[p->arg_count++] = (dnnl_exec_arg_t){kinds[j].arg, memory};
    }
    dnnl_primitive_desc_destroy(pd);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "making a product");
}

static products *new_products(size_t count, int64_t rows, int64_t tile)
{
    size_t bytes;
    if (!hyp_mul_size(count, 2 * sizeof(product), &bytes) || !hyp_add_size(bytes, sizeof(products), &bytes))
        return NULL;
    products *s = hyp_calloc(1, bytes);
    if (s) *s = (products){.rows = rows, .tile = tile, .count = count};
    return s;
}

/* Gives the finished products to the op; `complete` false means that oneDNN lacks one of them. */
static hyp_status finish(hyp_cpu_op *op, products *s, hyp_status status, bool complete, size_t work_bytes)
{
    if (status != HYP_OK || !complete) {
        products_destroy(s);
        return status;
    }
    op->run = run_products;
    op->destroy = products_destroy;
    op->state = s;
    op->work_bytes = work_bytes;
    op->is_dnnl = true;
    return HYP_OK;
}

int64_t hyp_dnnl_tile_rows(const HypPlan__Linear *s, const int64_t *values, int threads)
{
    enum { HIDDEN_FLOATS = 1 << 18, STEP = 64 };
    int64_t m = values[s->m], widest = 0;
    for (size_t l = 0; l + 1 < s->n_layers; l++)
        if (values[s->layers[l]->n] > widest) widest = values[s->layers[l]->n];
    if (!widest) return m;
    int64_t tile = HIDDEN_FLOATS / widest / STEP * STEP;
    tile = (tile < STEP ? STEP : tile) * threads;
    return m > 2 * tile ? tile : m;
}

/* The products of all layers for m rows. *complete turns false where oneDNN lacks one. */
static hyp_status make_layers(hyp_cpu_model *model, const HypPlan__Linear *linear, const int64_t *values, int64_t m,
                              hyp_dnnl_packed *const *packed, product *items, size_t *work_bytes, bool *complete,
                              hyp_diag *diag)
{
    const hyp_dnnl *d = model->device->dnnl;
    uint32_t x = linear->x;
    for (size_t l = 0; l < linear->n_layers; l++) {
        const HypPlan__Layer *layer = linear->layers[l];
        int64_t n = values[layer->n], k = values[layer->k];
        bool last = l + 1 == linear->n_layers;
        const asked a = ask(model->plan->program, linear, l);
        size_t size = hyp_dtype_size(a.dtype);
        uint32_t y = last ? linear->y : layer->hidden_plus1 - 1;
        hyp_md plain = packed[l] ? NULL : matrix(hyp_dnnl_type(a.dtype), k, n, !layer->weight_kn);
        dnnl_primitive_desc_t pd = layer_pd(d, &a, m, n, k, packed[l] ? packed[l]->md : plain);
        hyp_md_destroy(plain);
        if (!pd) {
            *complete = false;
            return HYP_OK;
        }
        const uint32_t tensors_plus1[SCRATCHPAD] = {x + 1, layer->weight + 1, layer->bias_plus1, y + 1, a.added_plus1};
        HYP_TRY(make_product(d, pd, tensors_plus1, hyp_dnnl_added_arg(&a.post), packed[l] ? packed[l]->memory : NULL,
                             &items[l], work_bytes, diag));
        if (l == 0) items[l].row_bytes[SRC] = (size_t)k * size;
        if (last) items[l].row_bytes[DST] = items[l].row_bytes[ADDED] = (size_t)n * size;
        x = y;
    }
    return HYP_OK;
}

hyp_status hyp_dnnl_prepare_linear(hyp_cpu_model *model, const HypPlan__Linear *linear, const int64_t *values,
                                   hyp_dnnl_packed *const *packed, bool tiles, hyp_cpu_op *op, hyp_diag *diag)
{
    int64_t m = values[linear->m];
    int64_t tile = tiles ? hyp_dnnl_tile_rows(linear, values, model->device->threads) : m;
    products *s = new_products(linear->n_layers, m, tile);
    if (!s) return hyp_fail_memory(diag, sizeof(product));
    size_t work_bytes = 0;
    bool complete = true;
    hyp_status status = make_layers(model, linear, values, tile, packed, s->items, &work_bytes, &complete, diag);
    if (status == HYP_OK && complete && m % tile)
        status =
            make_layers(model, linear, values, m % tile, packed, s->items + s->count, &work_bytes, &complete, diag);
    return finish(op, s, status, complete, work_bytes);
}

/* A batched operand: dims (batch, rows, columns). A broadcast axis has dim 1 there. */
static hyp_md batched(dnnl_data_type_t type, const HypPlan__Matmul *s, const int64_t *values,
                      const uint32_t *batch_strides, int64_t rows, int64_t columns, bool transposed)
{
    int64_t dims[HYP_MAX_RANK + 2], strides[HYP_MAX_RANK + 2], dense = rows * columns;
    size_t rank = s->n_batch;
    for (size_t a = rank; a-- > 0;) {
        bool broadcast = batch_strides && values[batch_strides[a]] == 0;
        dims[a] = broadcast ? 1 : values[s->batch[a]];
        strides[a] = batch_strides && !broadcast ? values[batch_strides[a]] : dense;
        dense *= dims[a];
    }
    dims[rank] = rows;
    dims[rank + 1] = columns;
    strides[rank] = transposed ? 1 : columns;
    strides[rank + 1] = transposed ? rows : 1;
    return hyp_md_create((int)rank + 2, dims, type, strides);
}

hyp_status hyp_dnnl_prepare_matmul(hyp_cpu_model *model, const HypPlan__Matmul *matmul, const int64_t *values,
                                   hyp_cpu_op *op, hyp_diag *diag)
{
    const hyp_dnnl *d = model->device->dnnl;
    dnnl_data_type_t type = hyp_dnnl_type(hyp_tensor_dtype(model->plan->program, matmul->a));
    if (type == dnnl_data_type_undef) return HYP_OK;
    int64_t m = values[matmul->m], n = values[matmul->n], k = values[matmul->k];
    operands o = {.src = batched(type, matmul, values, matmul->a_strides, m, k, matmul->trans_a),
                  .weights = batched(type, matmul, values, matmul->b_strides, k, n, matmul->trans_b),
                  .dst = batched(type, matmul, values, NULL, m, n, false)};
    hyp_dnnl_post post = {.alpha = matmul->alpha};
    dnnl_primitive_desc_t pd = NULL;
    if (o.src && o.weights && o.dst) pd = hyp_dnnl_matmul(d->engine, o.src, o.weights, NULL, o.dst, &post);
    operands_dispose(&o);
    if (!pd) return HYP_OK;
    products *s = new_products(1, 1, 1);
    if (!s) {
        dnnl_primitive_desc_destroy(pd);
        return hyp_fail_memory(diag, sizeof(product));
    }
    size_t work_bytes = 0;
    const uint32_t tensors_plus1[SCRATCHPAD] = {matmul->a + 1, matmul->b + 1, 0, matmul->y + 1, 0};
    hyp_status status = make_product(d, pd, tensors_plus1, 0, NULL, &s->items[0], &work_bytes, diag);
    return finish(op, s, status, true, work_bytes);
}
