/* layers.c - linear steps in one launch of our own kernel: chain.h says which. */
#include "base/dtype.h"
#include "runtime/cuda/chain.h"

typedef struct layers {
    hyp_cuda_chain chain;
    hyp_cuda_grid grid;
    uint32_t x, y, added_plus1;
    uint32_t weight[HYP_CUDA_LAYERS], bias_plus1[HYP_CUDA_LAYERS];
    CUdeviceptr exchange; /* 0 for a single layer */
} layers;

static void layers_dispose(const hyp_cuda_library *lib, void *data)
{
    layers *p = data;
    if (p->exchange) lib->cuMemFree(p->exchange);
}

static hyp_status layers_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    layers *p = data;
    hyp_cuda_layers *args = &p->chain.args;
    args->y = s->at[p->y];
    for (uint32_t i = 0; i < args->layers; i++) {
        args->layer[i].weight = s->at[args->turned ? p->x : p->weight[i]];
        args->layer[i].bias = p->bias_plus1[i] ? s->at[p->bias_plus1[i] - 1] : 0;
    }
    args->x = s->at[args->turned ? p->weight[0] : p->x];
    args->added = p->added_plus1 ? s->at[p->added_plus1 - 1] : 0;
    args->exchange = p->exchange;
    return hyp_cuda_launch(s, &p->grid, args, diag);
}

/* The memory by which blocks hand on hidden values: all ones, and no launch counted. */
static hyp_status make_exchange(hyp_cuda_session *s, layers *p, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    size_t buffers = (size_t)p->chain.args.exchange_pieces * HYP_CUDA_LAYER_PIECE * 2;
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemAlloc(&p->exchange, buffers + sizeof(uint32_t)), "cuMemAlloc", diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemsetD8Async(p->exchange, 0xff, buffers, s->stream), "cuMemsetD8Async", diag));
    return hyp_cuda_check(lib, lib->cuMemsetD8Async(p->exchange + buffers, 0, sizeof(uint32_t), s->stream),
                          "cuMemsetD8Async", diag);
}

hyp_status hyp_cuda_add_layers(hyp_cuda_build *b, const HypPlan__Linear *k, size_t first, size_t count, uint32_t x,
                               uint32_t y, bool asked, bool *out_done)
{
    const hyp_cuda_device *d = b->session->model->device;
    const hyp_cuda_chain_device device = {(uint32_t)d->multiprocessors, d->shared_bytes};
    hyp_cuda_chain_layer sizes[HYP_CUDA_LAYERS];
    hyp_cuda_chain chain;
    *out_done = false;
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Layer *l = k->layers[first + i];
        if (l->weight_kn) return HYP_OK;
        sizes[i] = (hyp_cuda_chain_layer){.n = b->values[l->n], .k = b->values[l->k]};
    }
    if (!hyp_cuda_chain_plan(hyp_cuda_dtype(b->program, x), b->values[k->m], sizes, count, &device, asked, &chain))
        return HYP_OK;
    *out_done = true;
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, layers_run, sizeof(layers), &data));
    b->prepared->ops.data[b->prepared->ops.len - 1].dispose = layers_dispose;
    layers *p = data;
    p->chain = chain;
    p->x = x;
    p->y = y;
    if (first + count == k->n_layers) p->added_plus1 = k->added_plus1;
    p->chain.args.add_after = k->add_after;
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Layer *l = k->layers[first + i];
        p->weight[i] = l->weight;
        p->bias_plus1[i] = l->bias_plus1;
        p->chain.args.layer[i].act = (uint32_t)hyp_cuda_act_op(l->act);
    }
    p->grid = (hyp_cuda_grid){.kernel = chain.kernel,
                              .blocks = chain.blocks,
                              .block_x = HYP_CUDA_LAYER_THREADS,
                              .block_y = 1,
                              .shared_bytes = (uint32_t)chain.shared_bytes,
                              .together = count > 1};
    if (count > 1) HYP_TRY(make_exchange(b->session, p, b->diag));
    return hyp_cuda_need_kernel(b, chain.kernel);
}
