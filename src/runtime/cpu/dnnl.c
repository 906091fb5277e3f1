#include "runtime/cpu/dnnl.h"

#include "base/dtype.h"
#include "kernels/openmp.h"
#include "runtime/cpu/dnnl_memory.h"
#include "runtime/cpu/widened.h"

struct hyp_dnnl {
    dnnl_engine_t engine;
    /* Of the OpenMP runtime that oneDNN uses; NULL when it uses another one, or none. */
    void (*omp_set_num_threads)(int);
    int (*omp_get_max_threads)(void);
};

hyp_status hyp_dnnl_fail(hyp_diag *diag, dnnl_status_t status, const char *what)
{
    return hyp_fail(diag, status == dnnl_out_of_memory ? HYP_ERR_NO_MEMORY : HYP_ERR_DEVICE,
                    "oneDNN: %s failed (status %d)", what, (int)status);
}

/* ---- device ---------------------------------------------------------------------------------------------- */

/* Both or none. */
static void find_openmp(hyp_dnnl *d)
{
    void *set = hyp_openmp_symbol("omp_set_num_threads"), *get = hyp_openmp_symbol("omp_get_max_threads");
    if (!set || !get) return;
    memcpy(&d->omp_set_num_threads, &set, sizeof set);
    memcpy(&d->omp_get_max_threads, &get, sizeof get);
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

int hyp_dnnl_set_threads(const hyp_dnnl *d, int threads)
{
    if (!d->omp_set_num_threads || threads <= 0) return 0;
    int before = d->omp_get_max_threads();
    if (before != threads) d->omp_set_num_threads(threads);
    return before;
}

hyp_status hyp_dnnl_streams_create(const hyp_dnnl *d, int count, void ***out, hyp_diag *diag)
{
    void **streams = hyp_calloc((size_t)count + 1, sizeof *streams);
    if (!streams) return hyp_fail_memory(diag, (size_t)count * sizeof *streams);
    for (int i = 0; i < count; i++) {
        dnnl_stream_t stream;
        dnnl_status_t status = dnnl_stream_create(&stream, d->engine, dnnl_stream_default_flags);
        if (status != dnnl_success) {
            hyp_dnnl_streams_destroy(streams);
            return hyp_dnnl_fail(diag, status, "making a stream");
        }
        streams[i] = stream;
    }
    *out = streams;
    return HYP_OK;
}

void hyp_dnnl_streams_destroy(void **streams)
{
    for (size_t i = 0; streams && streams[i]; i++) dnnl_stream_destroy(streams[i]);
    hyp_free(streams);
}

dnnl_status_t hyp_dnnl_execute(const hyp_cpu_run *run, int thread, dnnl_primitive_t primitive, int count,
                               const dnnl_exec_arg_t *args)
{
    const hyp_dnnl *d = run->device->dnnl;
    int before = hyp_dnnl_set_threads(d, 1);
    dnnl_status_t status = dnnl_primitive_execute(primitive, run->streams[thread], count, args);
    if (status == dnnl_success) status = dnnl_stream_wait(run->streams[thread]);
    hyp_dnnl_set_threads(d, before);
    return status;
}

int64_t hyp_dnnl_part(int64_t size, int threads, int64_t many)
{
    int64_t parts = threads > 1 && size / threads / 2 >= many ? 2 * threads : threads;
    return (size + parts - 1) / parts;
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
    a.known = hyp_dnnl_find_act(hyp_plan_act_name(s->layers[l]->act), 0, &a.post.act);
    return a;
}

/* y[m,n] = act(x[m,k] w + b), the weights in the layout given, which is NULL where memory was out. *out is NULL when oneDNN
 * has none. */
static hyp_status layer_pd(const hyp_dnnl *d, const asked *a, int64_t m, int64_t n, int64_t k, hyp_md_ref weights,
                           dnnl_primitive_desc_t *out, hyp_diag *diag)
{
    dnnl_data_type_t type = hyp_dnnl_type(a->dtype);
    operands o = {.src = matrix(type, m, k, false), .dst = matrix(type, m, n, false)};
    if (a->bias) o.bias = matrix(type, 1, n, false);
    hyp_dnnl_post post = a->post;
    if (a->added_plus1) post.added = o.dst;
    bool made = o.src && o.dst && weights && (o.bias || !a->bias);
    *out = a->known && made ? hyp_dnnl_matmul(d->engine, o.src, weights, o.bias, o.dst, &post) : NULL;
    operands_dispose(&o);
    return made ? HYP_OK : hyp_fail_memory(diag, sizeof o);
}

/* Where AVX-512 has no instructions for bf16, oneDNN makes kernels that take each number apart and put it together again. */
static bool is_emulated(hyp_dtype dtype)
{
#ifdef HYP_CPU_X86
    const unsigned wanted = dnnl_cpu_isa_avx512_core_bf16;
    return dtype == HYP_BF16 && ((unsigned)dnnl_get_effective_cpu_isa() & wanted) != wanted;
#else
    (void)dtype;
    return false;
#endif
}

bool hyp_dnnl_has(const hyp_dnnl *d, hyp_dtype dtype)
{
    enum { SIDE = 64 };
    if (hyp_dnnl_type(dtype) == dnnl_data_type_undef || is_emulated(dtype)) return false;
    const asked plain = {.dtype = dtype, .post = {.alpha = 1.0f, .act = {dnnl_alg_kind_undef, 0, 0}}, .known = true};
    hyp_md weights = any_layout(hyp_dnnl_type(dtype), SIDE, SIDE);
    dnnl_primitive_desc_t pd;
    hyp_status status = layer_pd(d, &plain, SIDE, SIDE, SIDE, weights, &pd, NULL);
    hyp_md_destroy(weights);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return status == HYP_OK && pd;
}

/* ---- packed weights -------------------------------------------------------------------------------------- */

void hyp_dnnl_packed_destroy(hyp_dnnl_packed *p)
{
    while (p) {
        hyp_dnnl_packed *next = p->next;
        if (p->memory) dnnl_memory_destroy(p->memory);
        hyp_md_destroy(p->md);
        hyp_block_drop(p->buffer);
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

static hyp_status pack(const hyp_dnnl *d, hyp_md_ref plain, const void *data, bool stays, hyp_md_ref wanted,
                       hyp_dnnl_packed *p, hyp_diag *diag)
{
    enum { PAGE = 4096 };
    bool copy = !stays || !dnnl_memory_desc_equal(plain, wanted);
    size_t bytes = dnnl_memory_desc_get_size(wanted);
    p->md = hyp_md_clone(wanted);
    if (copy) p->buffer = hyp_lasting_alloc(PAGE, bytes);
    if (!p->md || (copy && !p->buffer)) return hyp_fail_memory(diag, bytes);
    dnnl_status_t status = dnnl_memory_create(&p->memory, p->md, d->engine, copy ? p->buffer : (void *)(uintptr_t)data);
    if (status != dnnl_success) return hyp_dnnl_fail(diag, status, "describing weights");
    if (!copy) return HYP_OK;
    HYP_TRY(reorder(d, plain, data, p, diag));
    p->buffer = hyp_block_share(p->buffer, bytes);
    status = dnnl_memory_set_data_handle(p->memory, p->buffer);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "describing weights");
}

hyp_status hyp_dnnl_pack_memory(const hyp_dnnl *d, hyp_md_ref plain, const void *data, bool stays, hyp_md_ref wanted,
                                hyp_dnnl_packed **out, hyp_diag *diag)
{
    hyp_dnnl_packed *p = hyp_calloc(1, sizeof *p);
    hyp_status status = p ? pack(d, plain, data, stays, wanted, p, diag) : hyp_fail_memory(diag, sizeof *p);
    if (status != HYP_OK) {
        hyp_dnnl_packed_destroy(p);
        p = NULL;
    }
    *out = p;
    return status;
}

/* Packs the weights of a layer as floats, which in 16 bits stand in memory of their own meanwhile. */
static hyp_status pack_widened(const hyp_cpu_model *model, const HypPlan__Layer *layer, hyp_md_ref plain,
                               hyp_md_ref wanted, hyp_dnnl_packed **out, hyp_diag *diag)
{
    size_t bytes = dnnl_memory_desc_get_size(plain);
    float *made;
    const float *floats = hyp_cpu_layer_floats(model, layer, bytes / sizeof *made, &made);
    if (!floats) return hyp_fail_memory(diag, bytes);
    hyp_status status = hyp_dnnl_pack_memory(model->device->dnnl, plain, floats, !made, wanted, out, diag);
    hyp_free(made);
    return status;
}

/* The weights of a layer as the library wants them: those of another step where they are the same. */
static hyp_status find_layer(hyp_cpu_model *model, const HypPlan__Layer *layer, hyp_md_ref plain, hyp_md_ref wanted,
                             hyp_dnnl_packed **out, hyp_diag *diag)
{
    const hyp_plan *plan = model->widens ? model->widens->narrow : model->plan;
    const void *data = hyp_cpu_weight(plan, layer->weight);
    for (*out = model->layers; *out; *out = (*out)->next)
        if ((*out)->data == data && (*out)->kn == layer->weight_kn && dnnl_memory_desc_equal((*out)->md, wanted))
            return HYP_OK;
    HYP_TRY(model->widens ? pack_widened(model, layer, plain, wanted, out, diag)
                          : hyp_dnnl_pack_memory(model->device->dnnl, plain, data, true, wanted, out, diag));
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
    dnnl_primitive_desc_t pd;
    hyp_status status = layer_pd(d, &a, m, n, k, any, &pd, diag);
    if (status == HYP_OK && !plain) status = hyp_fail_memory(diag, sizeof plain);
    if (status == HYP_OK && pd)
        status = find_layer(model, layer, plain, hyp_dnnl_query(pd, dnnl_query_weights_md), out, diag);
    if (pd) dnnl_primitive_desc_destroy(pd);
    hyp_md_destroy(any);
    hyp_md_destroy(plain);
    return status;
}

/* ---- layers ------------------------------------------------------------------------------------------------ */

int64_t hyp_dnnl_tile_rows(const HypPlan__Linear *s, const int64_t *values, int threads)
{
    enum { HIDDEN_FLOATS = 1 << 18, STEP = 64 };
    int64_t m = values[s->m], widest = 0;
    for (size_t l = 0; l + 1 < s->n_layers; l++)
        if (values[s->layers[l]->n] > widest) widest = values[s->layers[l]->n];
    if (!widest) return m;
    int64_t tile = HIDDEN_FLOATS / widest / STEP * STEP;
    if (tile < STEP) tile = STEP;
    return m > 2 * tile * threads ? tile : m;
}

/* The products of all layers for m rows. The hidden values of tiles are in memory that a thread uses for all of its
 * tiles. *complete turns false where oneDNN lacks one. Where weights were widened there are no others than packed ones. */
static hyp_status make_layers(hyp_cpu_model *model, const HypPlan__Linear *linear, const int64_t *values, int64_t m,
                              hyp_dnnl_packed *const *packed, bool tiles, hyp_dnnl_products *s, hyp_dnnl_product *items,
                              bool *complete, hyp_diag *diag)
{
    const hyp_dnnl *d = model->device->dnnl;
    bool packs = model->widens && hyp_linear_is_constant(model->plan, linear);
    uint32_t x = linear->x;
    for (size_t l = 0; l < linear->n_layers; l++) {
        const HypPlan__Layer *layer = linear->layers[l];
        int64_t n = values[layer->n], k = values[layer->k];
        if (packs && !packed[l]) *complete = false;
        if (!*complete) return HYP_OK;
        bool last = l + 1 == linear->n_layers;
        const asked a = ask(model->plan->program, linear, l);
        size_t size = hyp_dtype_size(a.dtype);
        uint32_t y = last ? linear->y : layer->hidden_plus1 - 1;
        hyp_md plain = packed[l] ? NULL : matrix(hyp_dnnl_type(a.dtype), k, n, !layer->weight_kn);
        dnnl_primitive_desc_t pd;
        hyp_status status = layer_pd(d, &a, m, n, k, packed[l] ? packed[l]->md : plain, &pd, diag);
        hyp_md_destroy(plain);
        if (status != HYP_OK || !pd) {
            *complete = false;
            return status;
        }
        const uint32_t tensors_plus1[HYP_DNNL_SCRATCHPAD] = {x + 1, layer->weight + 1, layer->bias_plus1, y + 1,
                                                             a.added_plus1};
        HYP_TRY(hyp_dnnl_make_product(d, pd, tensors_plus1, hyp_dnnl_added_arg(&a.post),
                                      packed[l] ? packed[l]->memory : NULL, s, &items[l], diag));
        size_t x_bytes = (size_t)k * size, y_bytes = (size_t)n * size, part = (size_t)s->part;
        items[l].step_bytes[HYP_DNNL_SRC] = l > 0 && tiles ? 0 : x_bytes;
        items[l].step_bytes[HYP_DNNL_DST] = !last && tiles ? 0 : y_bytes;
        items[l].step_bytes[HYP_DNNL_ADDED] = y_bytes;
        items[l].thread_bytes[HYP_DNNL_SRC] = l > 0 && tiles ? part * x_bytes : 0;
        items[l].thread_bytes[HYP_DNNL_DST] = !last && tiles ? part * y_bytes : 0;
        x = y;
    }
    return HYP_OK;
}

hyp_status hyp_dnnl_prepare_linear(hyp_cpu_model *model, const HypPlan__Linear *linear, const int64_t *values,
                                   hyp_dnnl_packed *const *packed, bool tiles, hyp_cpu_op *op, hyp_diag *diag)
{
    enum { MANY = 128 }; /* rows, for which reading all weights is little */
    int64_t m = values[linear->m], threads = op->threads;
    int64_t tile = hyp_dnnl_tile_rows(linear, values, op->threads), part = hyp_dnnl_part(m, op->threads, MANY);
    double flops = 0;
    for (size_t l = 0; l < linear->n_layers; l++)
        flops += 2.0 * (double)m * (double)values[linear->layers[l]->n] * (double)values[linear->layers[l]->k];
    tiles = tiles && tile * threads <= m;
    hyp_dnnl_products *s = hyp_dnnl_products_create(linear->n_layers, m, tiles ? tile : part, op->threads, flops);
    if (!s) return hyp_fail_memory(diag, sizeof(hyp_dnnl_product));
    bool complete = true;
    hyp_status status = make_layers(model, linear, values, s->part, packed, tiles, s, s->items, &complete, diag);
    if (status == HYP_OK && complete && m % s->part)
        status =
            make_layers(model, linear, values, m % s->part, packed, tiles, s, s->items + s->count, &complete, diag);
    return hyp_dnnl_finish_products(op, s, status, complete);
}
