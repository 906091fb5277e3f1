/* weights.c - the weights of a plan on a device: one block for all engines of the process that have the same ones
 * there.
 *
 * A block is found by a hash of what it should hold, and then read back and compared: nothing depends on hashes, or on
 * which plan is trusted. Each engine's account is charged for all of it.
 */
#include "base/strbuf.h"
#include "runtime/core/shared_block.h"
#include "runtime/cuda/session/backend.h"

/* Blocks are found by the device's own context, which lives as long as any engine there. */
static CUdeviceptr find(const hyp_cuda_model *m, uint64_t hash)
{
    return (CUdeviceptr)(uintptr_t)hyp_block_find(m->device->context, hash, m->plan->read_bytes);
}

/* One user less, the last of whom frees it. */
static void leave(const hyp_cuda_model *m, CUdeviceptr at)
{
    size_t ignored;
    if (hyp_block_leave(m->device->context, (void *)(uintptr_t)at, &ignored))
        hyp_cuda_free(&m->device->lib, at, m->plan->read_bytes);
}

/* What is done with a weight as it should lie on the device. */
typedef hyp_status visit_fn(void *user, const HypPlan__Tensor *weight, const void *bytes, hyp_diag *diag);

static hyp_status visit_weights(const hyp_cuda_model *m, visit_fn *visit, void *user, hyp_diag *diag)
{
    const HypPlan__Program *p = m->plan->program;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const HypPlan__Tensor *w = p->tensors[t];
        if (w->place != HYP_PLAN__PLACE__PLACE_WEIGHT || w->bytes == 0 || w->offset >= m->plan->read_bytes) continue;
        void *turned = NULL;
        if (m->channels_last && m->channels_last[t]) HYP_TRY(hyp_cuda_turn_filters(m, t, &turned, diag));
        hyp_status status = visit(user, w, turned ? turned : hyp_plan_weight(m->plan, t), diag);
        hyp_free(turned);
        HYP_TRY(status);
    }
    return HYP_OK;
}

static hyp_status add_to_hash(void *user, const HypPlan__Tensor *weight, const void *bytes, hyp_diag *diag)
{
    (void)diag;
    *(uint64_t *)user = hyp_hash(bytes, weight->bytes, *(uint64_t *)user + weight->offset);
    return HYP_OK;
}

typedef struct destination {
    const hyp_cuda_device *device;
    CUdeviceptr at;
    void *room; /* for what is read back */
    bool differs;
} destination;

enum { ROOM = 1 << 22 };

static hyp_status send(void *user, const HypPlan__Tensor *weight, const void *bytes, hyp_diag *diag)
{
    const destination *d = user;
    return hyp_cuda_upload(d->device, d->at + weight->offset, bytes, weight->bytes, diag);
}

static hyp_status compare(void *user, const HypPlan__Tensor *weight, const void *bytes, hyp_diag *diag)
{
    destination *d = user;
    for (size_t done = 0, part; done < weight->bytes && !d->differs; done += part) {
        part = weight->bytes - done < ROOM ? (size_t)weight->bytes - done : ROOM;
        HYP_TRY(hyp_cuda_download(d->device, d->room, d->at + weight->offset + done, part, diag));
        d->differs = memcmp(d->room, (const char *)bytes + done, part) != 0;
    }
    return HYP_OK;
}

/* Takes the block with this hash, if there is one and it holds what it should. */
static hyp_status take_shared(hyp_cuda_model *m, uint64_t hash, hyp_diag *diag)
{
    destination d = {.device = m->device, .at = find(m, hash)};
    if (!d.at) return HYP_OK;
    d.room = hyp_malloc(ROOM);
    hyp_status status = d.room ? visit_weights(m, compare, &d, diag) : hyp_fail_memory(diag, ROOM);
    hyp_free(d.room);
    if (status == HYP_OK && !d.differs)
        m->weights = d.at;
    else
        leave(m, d.at);
    return status;
}

static hyp_status upload(hyp_cuda_model *m, uint64_t hash, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->device->lib;
    size_t bytes = m->plan->read_bytes;
    destination d = {.device = m->device};
    HYP_TRY(hyp_cuda_alloc(lib, bytes, &d.at, diag));
    hyp_status status = visit_weights(m, send, &d, diag);
    if (status != HYP_OK) {
        hyp_cuda_free(lib, d.at, bytes);
        return status;
    }
    m->weights = d.at;
    if (!lib->device_alloc) hyp_block_add(m->device->context, (void *)(uintptr_t)d.at, hash, bytes);
    return HYP_OK;
}

hyp_status hyp_cuda_load_weights(hyp_cuda_model *m, hyp_diag *diag)
{
    const hyp_plan *plan = m->plan;
    uint64_t hash = 0;
    if (plan->read_bytes == 0) return HYP_OK;
    hyp_status status = hyp_mem_take(plan->read_bytes) ? HYP_OK : hyp_fail_memory(diag, plan->read_bytes);
    if (status == HYP_OK) {
        bool shares =
            !m->device->lib.device_alloc; /* what a caller's allocator has given may go before other users do */
        if (shares) status = visit_weights(m, add_to_hash, &hash, diag);
        if (shares && status == HYP_OK) status = take_shared(m, hash, diag);
        if (status == HYP_OK && !m->weights) status = upload(m, hash, diag);
        if (status != HYP_OK) hyp_mem_give(plan->read_bytes);
    }
    if (status != HYP_OK)
        hyp_diag_prefix(diag, "%llu bytes of weights", (unsigned long long)plan->read_bytes);
    else if (plan->mapping.data)
        hyp_map_forget(&plan->mapping, plan->weights, plan->weights_bytes); /* they live on the device now */
    return status;
}

void hyp_cuda_drop_weights(const hyp_cuda_model *m)
{
    if (!m->weights) return;
    leave(m, m->weights);
    hyp_mem_give(m->plan->read_bytes);
}
