#include "runtime/cuda/session/staging.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/session/backend.h"

/* ---- memory -------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_staging_init(hyp_cuda_staging *g, size_t edges, hyp_diag *diag)
{
    g->ways = hyp_calloc(edges, sizeof *g->ways);
    return g->ways ? HYP_OK : hyp_fail_memory(diag, edges * sizeof *g->ways);
}

void hyp_cuda_staging_dispose(hyp_cuda_staging *g, const hyp_cuda_library *lib)
{
    hyp_team_stop(g->team);
    hyp_cuda_free(lib, g->device, g->device_bytes);
    if (g->packed) lib->cuMemFreeHost(g->packed);
    if (g->ring) lib->cuMemFreeHost(g->ring);
    for (size_t i = 0; i < HYP_CUDA_RING; i++)
        if (g->sent[i]) lib->cuEventDestroy(g->sent[i]);
    hyp_free(g->ways);
}

/* Nobody can use what was there before: a run with tensors in host memory has waited for its end. */
static hyp_status lock_pages(const hyp_cuda_library *lib, uint8_t **at, CUdeviceptr *out_at, size_t have, size_t bytes,
                             hyp_diag *diag)
{
    void *grown = NULL;
    if (!hyp_mem_take(bytes)) return hyp_fail_memory(diag, bytes);
    hyp_status status =
        hyp_cuda_check(lib, lib->cuMemHostAlloc(&grown, bytes, CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc", diag);
    if (status == HYP_OK)
        status =
            hyp_cuda_check(lib, lib->cuMemHostGetDevicePointer(out_at, grown, 0), "cuMemHostGetDevicePointer", diag);
    void *old = status == HYP_OK ? *at : grown;
    if (old) lib->cuMemFreeHost(old);
    hyp_mem_give(status == HYP_OK ? have : bytes);
    if (status == HYP_OK) *at = grown;
    return status;
}

static hyp_status make_ring(hyp_cuda_staging *g, const hyp_cuda_library *lib, hyp_diag *diag)
{
    for (size_t i = 0; i < HYP_CUDA_RING; i++)
        if (!g->sent[i])
            HYP_TRY(
                hyp_cuda_check(lib, lib->cuEventCreate(&g->sent[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate", diag));
    CUdeviceptr unused;
    return g->ring ? HYP_OK : lock_pages(lib, &g->ring, &unused, 0, (size_t)HYP_CUDA_RING * HYP_CUDA_PIECE, diag);
}

/* Page-locked memory for so many bytes of packed tensors, and for a ring if there are large ones. That there is none is
 * no failure. */
static hyp_status take_pages(hyp_cuda_session *s, size_t packed_bytes, bool ring, hyp_diag *diag)
{
    hyp_cuda_staging *g = &s->staging;
    const hyp_cuda_library *lib = &s->model->device->lib;
    hyp_status status = HYP_OK;
    hyp_diag why = {0};
    if (g->refused) return HYP_OK;
    if (packed_bytes > g->packed_bytes) {
        status = lock_pages(lib, &g->packed, &g->packed_at, g->packed_bytes, packed_bytes, &why);
        if (status == HYP_OK) g->packed_bytes = packed_bytes;
    }
    if (status == HYP_OK && ring) status = make_ring(g, lib, &why);
    if (status == HYP_ERR_DEVICE_LOST) return hyp_fail(diag, status, "%s", why.message);
    g->refused = status != HYP_OK;
    if (g->refused)
        hyp_log_printf(&s->model->device->log,
                       "the system gives no page-locked memory: tensors in host memory are copied as they lie (%s)",
                       why.message);
    return HYP_OK;
}

/* ---- ways ---------------------------------------------------------------------------------------------------- */

/* An input or output of the run as the caller gives it: outputs follow inputs. */
typedef struct given {
    uint8_t *data;
    hyp_memory memory;
    uint32_t tensor;
} given;

static given given_edge(const HypPlan__Program *p, const hyp_bindings *b, size_t i)
{
    if (i < p->n_inputs) return (given){b->inputs[i], b->input_memory[i], p->inputs[i]};
    i -= p->n_inputs;
    return (given){b->outputs[i], b->output_memory[i], p->outputs[i]};
}

/* Does all of this memory lie in one page-locked block of somebody's? */
static bool is_locked(const hyp_cuda_library *lib, const uint8_t *data, size_t bytes)
{
    unsigned int type = 0;
    CUdeviceptr start = 0;
    size_t size = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&type, &start, &size};
    uintptr_t at = (uintptr_t)data;
    return lib->cuPointerGetAttributes(3, attributes, values, at) == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST &&
           start <= at && at - start <= size && bytes <= size - (at - start);
}

/* Asks the driver where a tensor lies that is said to be on the device, unless its address is known: kernels could not
 * read what another GPU has, or slowly, and by leave that may be taken back. Managed memory and the host's, which every
 * GPU reaches, pass. */
static hyp_status check_gpu(hyp_cuda_session *s, const given *e, hyp_diag *diag)
{
    const hyp_cuda_device *d = s->model->device;
    CUdeviceptr at = (uintptr_t)e->data;
    CUdeviceptr *seen = &s->staging.seen[at * 0x9e3779b97f4a7c15u >> (64 - HYP_CUDA_SEEN_BITS)];
    unsigned int type = 0, managed = 0;
    int gpu = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &gpu};
    if (*seen == at) return HYP_OK;
    if (d->lib.cuPointerGetAttributes(3, attributes, values, at) == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE &&
        !managed && gpu != d->device)
        return hyp_fail(
            diag, HYP_ERR_INVALID_ARGUMENT,
            "'%s' lies on GPU %d, and the plan was loaded for GPU %d: copy it there, or load the plan for that "
            "GPU (options->device_index)",
            s->model->plan->program->tensors[e->tensor]->name, gpu, (int)d->device);
    *seen = at;
    return HYP_OK;
}

static hyp_cuda_way choose_way(const hyp_cuda_library *lib, const given *e, size_t bytes, bool padded)
{
    if (bytes == 0) return HYP_CUDA_WAY_NONE;
    if (e->memory == HYP_MEMORY_CUDA && padded) return HYP_CUDA_WAY_PADDED;
    if (e->memory == HYP_MEMORY_CUDA)
        return (uintptr_t)e->data % HYP_CUDA_MIN_ALIGN == 0 ? HYP_CUDA_WAY_NONE : HYP_CUDA_WAY_MOVED;
    if (bytes <= HYP_CUDA_SMALL) return HYP_CUDA_WAY_PACKED;
    return is_locked(lib, e->data, bytes) ? HYP_CUDA_WAY_DIRECT : HYP_CUDA_WAY_PIECES;
}

/* Where a tensor is staged, in staging memory that is taken up to *end: small ones have places, so that they can be packed,
 * large ones come behind these as they are needed. What never needs it, as the state of a plan, takes no memory so. */
static size_t staged_at(const hyp_cuda_prepared *p, size_t i, size_t *end)
{
    if (p->edge_bytes[i] <= HYP_CUDA_SMALL) return p->edge_offset[i];
    size_t at = (*end + HYP_CUDA_ALIGN - 1) / HYP_CUDA_ALIGN * HYP_CUDA_ALIGN;
    *end = at + p->edge_bytes[i];
    return at;
}

/* Takes what the ways need, and chooses others where that is not to be had. */
static hyp_status take_memory(hyp_cuda_session *s, const hyp_cuda_prepared *p, size_t edges, hyp_diag *diag)
{
    size_t bytes = p->packed_bytes;
    hyp_cuda_staging *g = &s->staging;
    bool packed = false, pieces = false;
    for (size_t i = 0; i < edges; i++) {
        packed = packed || g->ways[i] == HYP_CUDA_WAY_PACKED;
        pieces = pieces || g->ways[i] == HYP_CUDA_WAY_PIECES;
        if (g->ways[i] != HYP_CUDA_WAY_NONE) staged_at(p, i, &bytes);
    }
    HYP_TRY(hyp_cuda_grow(s, &g->device, &g->device_bytes, bytes, "inputs and outputs", diag));
    HYP_TRY(take_pages(s, packed ? p->packed_bytes : 0, pieces, diag));
    for (size_t i = 0; i < edges; i++)
        if ((g->ways[i] == HYP_CUDA_WAY_PACKED && g->packed_bytes < p->packed_bytes) ||
            (g->ways[i] == HYP_CUDA_WAY_PIECES && !g->ring))
            g->ways[i] = HYP_CUDA_WAY_DIRECT;
    return HYP_OK;
}

hyp_status hyp_cuda_stage_reserve(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t bytes = p->packed_bytes;
    for (size_t i = 0; i < program->n_inputs + program->n_outputs; i++) staged_at(p, i, &bytes);
    return hyp_cuda_grow(s, &s->staging.device, &s->staging.device_bytes, bytes, "inputs and outputs", diag);
}

hyp_status hyp_cuda_stage(hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b, bool *out_host,
                          hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t edges = program->n_inputs + program->n_outputs;
    /* Behind these are the context's own, of variables: there may be more of them than addresses that are remembered. */
    size_t inputs = hyp_plan_shown_inputs(program), outputs = edges - hyp_plan_changed(program);
    bool staged = false;
    for (size_t i = 0; i < edges; i++) {
        given e = given_edge(program, b, i);
        bool own = i < program->n_inputs ? i >= inputs : i >= outputs;
        hyp_cuda_way way = choose_way(&s->model->device->lib, &e, p->edge_bytes[i], b->pads && b->pads[i].used);
        if (!own && e.memory == HYP_MEMORY_CUDA && p->edge_bytes[i] > 0) HYP_TRY(check_gpu(s, &e, diag));
        s->staging.ways[i] = way;
        s->at[e.tensor] = (CUdeviceptr)(uintptr_t)e.data;
        staged = staged || way != HYP_CUDA_WAY_NONE;
        *out_host = *out_host || way > HYP_CUDA_WAY_PADDED;
    }
    if (*out_host && s->captured)
        return hyp_fail(
            diag, HYP_ERR_INVALID_ARGUMENT,
            "a tensor lies in host memory, and the stream is captured into a graph, which cannot wait for the "
            "host: give tensors on the device");
    if (!staged) return HYP_OK;
    HYP_TRY(take_memory(s, p, edges, diag));
    size_t end = p->packed_bytes;
    for (size_t i = 0; i < edges; i++)
        if (s->staging.ways[i] != HYP_CUDA_WAY_NONE)
            s->at[given_edge(program, b, i).tensor] = s->staging.device + staged_at(p, i, &end);
    return HYP_OK;
}

/* ---- copies -------------------------------------------------------------------------------------------------- */

static size_t piece_at(size_t done, size_t bytes)
{
    return bytes - done < HYP_CUDA_PIECE ? bytes - done : HYP_CUDA_PIECE;
}

static hyp_status send_pieces(hyp_cuda_session *s, CUdeviceptr to, const uint8_t *from, size_t bytes, hyp_diag *diag)
{
    hyp_cuda_staging *g = &s->staging;
    const hyp_cuda_library *lib = &s->model->device->lib;
    for (size_t done = 0, size; done < bytes; done += size, g->turn++) {
        size_t slot = g->turn % HYP_CUDA_RING;
        uint8_t *piece = g->ring + slot * HYP_CUDA_PIECE;
        size = piece_at(done, bytes);
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventSynchronize(g->sent[slot]), "copying an input to the device", diag));
        memcpy(piece, from + done, size);
        HYP_TRY(hyp_cuda_check(lib, lib->cuMemcpyHtoDAsync(to + done, piece, size, s->stream),
                               "copying an input to the device", diag));
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(g->sent[slot], s->stream), "cuEventRecord", diag));
    }
    return HYP_OK;
}

/* As many pieces are under way as the ring has places, while the host copies the one that came first. */
static hyp_status fetch_pieces(hyp_cuda_session *s, uint8_t *to, CUdeviceptr from, size_t bytes, hyp_diag *diag)
{
    hyp_cuda_staging *g = &s->staging;
    const hyp_cuda_library *lib = &s->model->device->lib;
    const uint64_t first = g->turn, last = first + (bytes + HYP_CUDA_PIECE - 1) / HYP_CUDA_PIECE;
    for (uint64_t taken = first; taken < last; taken++) {
        for (; g->turn < last && g->turn < taken + HYP_CUDA_RING; g->turn++) {
            size_t slot = g->turn % HYP_CUDA_RING, done = (size_t)(g->turn - first) * HYP_CUDA_PIECE;
            HYP_TRY(hyp_cuda_check(
                lib,
                lib->cuMemcpyDtoHAsync(g->ring + slot * HYP_CUDA_PIECE, from + done, piece_at(done, bytes), s->stream),
                "copying an output from the device", diag));
            HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(g->sent[slot], s->stream), "cuEventRecord", diag));
        }
        size_t slot = taken % HYP_CUDA_RING, done = (size_t)(taken - first) * HYP_CUDA_PIECE;
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventSynchronize(g->sent[slot]), "running the plan on the device", diag));
        memcpy(to + done, g->ring + slot * HYP_CUDA_PIECE, piece_at(done, bytes));
    }
    return HYP_OK;
}

/* A tensor that several threads copy: each takes the next piece that nobody has taken. */
typedef struct shared_copy {
    hyp_cuda_session *s;
    CUdeviceptr device;
    uint8_t *host;
    size_t bytes;
    bool out;
    atomic_size_t next;
    atomic_int result; /* of the driver: the last failure */
} shared_copy;

static CUresult copy_piece(const shared_copy *c, size_t slot, size_t done)
{
    const hyp_cuda_library *lib = &c->s->model->device->lib;
    CUstream stream = c->s->stream;
    CUevent sent = c->s->staging.sent[slot];
    uint8_t *piece = c->s->staging.ring + slot * HYP_CUDA_PIECE, *host = c->host + done;
    size_t size = piece_at(done, c->bytes);
    CUresult result = c->out ? CUDA_SUCCESS : lib->cuEventSynchronize(sent);
    if (result != CUDA_SUCCESS) return result;
    if (!c->out) memcpy(piece, host, size);
    result = c->out ? lib->cuMemcpyDtoHAsync(piece, c->device + done, size, stream)
                    : lib->cuMemcpyHtoDAsync(c->device + done, piece, size, stream);
    if (result == CUDA_SUCCESS) result = lib->cuEventRecord(sent, stream);
    if (result == CUDA_SUCCESS && c->out) result = lib->cuEventSynchronize(sent);
    if (result == CUDA_SUCCESS && c->out) memcpy(host, piece, size);
    return result;
}

static void copy_share(void *user, size_t self)
{
    shared_copy *c = user;
    bool entered = self > 0 && hyp_cuda_enter_to_free(c->s->model->device); /* the first thread is inside */
    size_t done = 0;
    while (atomic_load(&c->result) == CUDA_SUCCESS && (done = atomic_fetch_add(&c->next, HYP_CUDA_PIECE)) < c->bytes) {
        CUresult result = copy_piece(c, self, done);
        if (result != CUDA_SUCCESS) atomic_store(&c->result, (int)result);
    }
    if (entered) hyp_cuda_leave(c->s->model->device);
}

/* Copies a tensor in pieces, by several threads where it is so large that they are worth waking. */
static hyp_status copy_pieces(hyp_cuda_session *s, CUdeviceptr device, uint8_t *host, size_t bytes, bool out,
                              hyp_diag *diag)
{
    hyp_cuda_staging *g = &s->staging;
    if (bytes >= HYP_CUDA_SHARED && !g->team && !g->alone) {
        g->team = hyp_team_start();
        g->alone = !g->team;
    }
    if (bytes < HYP_CUDA_SHARED || !g->team)
        return out ? fetch_pieces(s, host, device, bytes, diag) : send_pieces(s, device, host, bytes, diag);
    shared_copy c = {.s = s, .device = device, .host = host, .bytes = bytes, .out = out};
    hyp_team_run(g->team, copy_share, &c);
    return hyp_cuda_check(&s->model->device->lib, (CUresult)atomic_load(&c.result),
                          out ? "copying an output from the device" : "copying an input to the device", diag);
}

hyp_status hyp_cuda_stage_inputs(hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    const hyp_cuda_library *lib = &s->model->device->lib;
    for (size_t i = 0; i < program->n_inputs; i++) {
        const uint8_t *from = b->inputs[i];
        size_t bytes = p->edge_bytes[i];
        CUdeviceptr to = s->at[program->inputs[i]];
        CUresult result = CUDA_SUCCESS;
        switch (s->staging.ways[i]) {
        case HYP_CUDA_WAY_NONE: break;
        case HYP_CUDA_WAY_MOVED: result = lib->cuMemcpyDtoDAsync(to, (uintptr_t)from, bytes, s->stream); break;
        case HYP_CUDA_WAY_PADDED: HYP_TRY(hyp_cuda_pad(s, &b->pads[i], to, (uintptr_t)from, false, diag)); break;
        case HYP_CUDA_WAY_PACKED: memcpy(s->staging.packed + p->edge_offset[i], from, bytes); break;
        case HYP_CUDA_WAY_PIECES: HYP_TRY(copy_pieces(s, to, b->inputs[i], bytes, false, diag)); break;
        case HYP_CUDA_WAY_DIRECT: result = lib->cuMemcpyHtoDAsync(to, from, bytes, s->stream); break;
        }
        HYP_TRY(hyp_cuda_check(lib, result, "copying an input to the device", diag));
    }
    return HYP_OK;
}

hyp_status hyp_cuda_stage_outputs(hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b,
                                  hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    const hyp_cuda_library *lib = &s->model->device->lib;
    for (int pieces = 0; pieces < 2; pieces++) /* what the host must wait for comes last */
        for (size_t i = 0; i < program->n_outputs; i++) {
            size_t edge = program->n_inputs + i, bytes = p->edge_bytes[edge];
            CUdeviceptr from = s->at[program->outputs[i]];
            hyp_cuda_way way = s->staging.ways[edge];
            CUresult result = CUDA_SUCCESS;
            if ((way == HYP_CUDA_WAY_PIECES) != (pieces == 1)) continue;
            if (way == HYP_CUDA_WAY_PIECES) HYP_TRY(copy_pieces(s, from, b->outputs[i], bytes, true, diag));
            if (way == HYP_CUDA_WAY_PADDED)
                HYP_TRY(hyp_cuda_pad(s, &b->pads[edge], from, (uintptr_t)b->outputs[i], true, diag));
            if (way == HYP_CUDA_WAY_MOVED)
                result = lib->cuMemcpyDtoDAsync((uintptr_t)b->outputs[i], from, bytes, s->stream);
            if (way == HYP_CUDA_WAY_DIRECT) result = lib->cuMemcpyDtoHAsync(b->outputs[i], from, bytes, s->stream);
            HYP_TRY(hyp_cuda_check(lib, result, "copying an output from the device", diag));
        }
    return HYP_OK;
}

/* ---- packed tensors ------------------------------------------------------------------------------------------ */

/* By a kernel, which is under way sooner than the engine for copies, and lets others begin before it ends. Tensors
 * start at multiples of HYP_CUDA_ALIGN, so whole pieces of 16 bytes may be copied. */
static hyp_status transfer(hyp_cuda_session *s, size_t offset, size_t bytes, bool outputs, hyp_diag *diag)
{
    enum { WIDTH = 16, THREADS = 256 };
    CUdeviceptr host = s->staging.packed_at + offset, device = s->staging.device + offset;
    hyp_cuda_copy args = {.x = outputs ? device : host,
                          .y = outputs ? host : device,
                          .x_stride = {1},
                          .y_stride = {1},
                          .total = (int64_t)((bytes + WIDTH - 1) / WIDTH),
                          .rank = 1,
                          .size = WIDTH};
    args.extent[0] = hyp_cuda_extent_of(args.total);
    const hyp_cuda_grid grid = {.kernel = HYP_CUDA_KERNEL_copy,
                                .blocks = hyp_cuda_blocks(s->model->device, args.total, THREADS),
                                .block_x = THREADS,
                                .block_y = 1};
    hyp_status status = hyp_cuda_launch(s, &grid, &args, diag);
    if (status != HYP_OK) hyp_diag_prefix(diag, outputs ? "copying outputs" : "copying inputs");
    return status;
}

/* Neighbours go together; what lies between them and is packed not, in this run, may have come another way. */
hyp_status hyp_cuda_stage_packed(hyp_cuda_session *s, const hyp_cuda_prepared *p, bool outputs, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t first = outputs ? program->n_inputs : 0, last = outputs ? first + program->n_outputs : program->n_inputs;
    size_t begin = 0, end = 0; /* of the transfer that is put together */
    for (size_t i = first; i < last; i++) {
        size_t at = p->edge_offset[i], bytes = p->edge_bytes[i];
        if (bytes == 0 || bytes > HYP_CUDA_SMALL) continue; /* those lie elsewhere */
        bool packed = s->staging.ways[i] == HYP_CUDA_WAY_PACKED;
        if (packed && end == 0) begin = at;
        if (packed) end = at + bytes;
        if (packed || end == 0) continue;
        HYP_TRY(transfer(s, begin, end - begin, outputs, diag));
        end = 0;
    }
    return end > 0 ? transfer(s, begin, end - begin, outputs, diag) : HYP_OK;
}

void hyp_cuda_unpack_outputs(const hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b)
{
    const HypPlan__Program *program = s->model->plan->program;
    for (size_t i = 0; i < program->n_outputs; i++) {
        size_t edge = program->n_inputs + i;
        if (s->staging.ways[edge] == HYP_CUDA_WAY_PACKED)
            memcpy(b->outputs[i], s->staging.packed + p->edge_offset[edge], p->edge_bytes[edge]);
    }
}
