/* weights.c - the weights of a plan on a device: one block for all engines of the process that have the same ones
 * there.
 *
 * A block is found by a hash of what it should hold, and then read back and compared: nothing depends on hashes, or on
 * which plan is trusted. Each engine's account is charged for all of it.
 */
#include <pthread.h>

#include "base/strbuf.h"
#include "runtime/cuda/session/backend.h"

typedef struct block {
    CUcontext context; /* current wherever it is used; the device's own, so it lives as long as any engine there */
    uint64_t hash;
    size_t bytes, users;
    CUdeviceptr at;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HYP_VEC(block) blocks; /* the process's: engines do not know of each other */

/* One user more; 0 where there is none. */
static CUdeviceptr find(CUcontext context, uint64_t hash, size_t bytes)
{
    CUdeviceptr found = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < blocks.len && !found; i++) {
        block *b = &blocks.data[i];
        if (b->context != context || b->hash != hash || b->bytes != bytes) continue;
        b->users++;
        found = b->at;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Where there is no memory for the list it stays the block of one user. */
static void add(block b)
{
    hyp_mem_account *before = hyp_mem_charge(NULL);
    hyp_diag unused = {0};
    pthread_mutex_lock(&lock);
    (void)!hyp_vec_push(&blocks, &unused, b);
    pthread_mutex_unlock(&lock);
    hyp_mem_charge(before);
}

/* One user less; whether it was the last. */
static bool leave(CUdeviceptr at)
{
    bool unused = true;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < blocks.len; i++) {
        if (blocks.data[i].at != at) continue;
        unused = --blocks.data[i].users == 0;
        if (unused) blocks.data[i] = blocks.data[--blocks.len];
        break;
    }
    if (!blocks.len) {
        hyp_mem_account *before = hyp_mem_charge(NULL);
        hyp_vec_free(&blocks);
        hyp_mem_charge(before);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* What is done with a weight as it should lie on the device. */
typedef hyp_status visit_fn(void *user, const HypPlan__Tensor *weight, const void *bytes, hyp_diag *diag);

static hyp_status visit_weights(const hyp_cuda_model *m, visit_fn *visit, void *user, hyp_diag *diag)
{
    const HypPlan__Program *p = m->plan->program;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const HypPlan__Tensor *w = p->tensors[t];
        if (w->place != HYP_PLAN__PLACE__PLACE_WEIGHT || w->bytes == 0) continue;
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
    destination d = {.device = m->device, .at = find(m->device->context, hash, m->plan->weights_bytes)};
    if (!d.at) return HYP_OK;
    d.room = hyp_malloc(ROOM);
    hyp_status status = d.room ? visit_weights(m, compare, &d, diag) : hyp_fail_memory(diag, ROOM);
    hyp_free(d.room);
    if (status == HYP_OK && !d.differs)
        m->weights = d.at;
    else if (leave(d.at))
        hyp_cuda_free(&d.device->lib, d.at, m->plan->weights_bytes);
    return status;
}

static hyp_status upload(hyp_cuda_model *m, uint64_t hash, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->device->lib;
    size_t bytes = m->plan->weights_bytes;
    destination d = {.device = m->device};
    HYP_TRY(hyp_cuda_alloc(lib, bytes, &d.at, diag));
    hyp_status status = visit_weights(m, send, &d, diag);
    if (status != HYP_OK) {
        hyp_cuda_free(lib, d.at, bytes);
        return status;
    }
    m->weights = d.at;
    if (!lib->device_alloc) add((block){m->device->context, hash, bytes, 1, d.at});
    return HYP_OK;
}

hyp_status hyp_cuda_load_weights(hyp_cuda_model *m, hyp_diag *diag)
{
    const hyp_plan *plan = m->plan;
    uint64_t hash = 0;
    if (plan->weights_bytes == 0) return HYP_OK;
    hyp_status status = hyp_mem_take(plan->weights_bytes) ? HYP_OK : hyp_fail_memory(diag, plan->weights_bytes);
    if (status == HYP_OK) {
        bool shares =
            !m->device->lib.device_alloc; /* what a caller's allocator has given may go before other users do */
        if (shares) status = visit_weights(m, add_to_hash, &hash, diag);
        if (shares && status == HYP_OK) status = take_shared(m, hash, diag);
        if (status == HYP_OK && !m->weights) status = upload(m, hash, diag);
        if (status != HYP_OK) hyp_mem_give(plan->weights_bytes);
    }
    if (status != HYP_OK)
        hyp_diag_prefix(diag, "%llu bytes of weights", (unsigned long long)plan->weights_bytes);
    else if (plan->mapping.data)
        hyp_map_forget(&plan->mapping, plan->weights, plan->weights_bytes); /* they live on the device now */
    return status;
}

void hyp_cuda_drop_weights(const hyp_cuda_model *m)
{
    if (!m->weights) return;
    if (leave(m->weights)) hyp_cuda_free(&m->device->lib, m->weights, m->plan->weights_bytes);
    hyp_mem_give(m->plan->weights_bytes);
}
