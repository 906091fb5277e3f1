/* steps.c - what all steps do when they become ops: append one, choose among alternatives, see to what it needs. */
#include "runtime/cuda/ops/steps.h"

#include "runtime/cuda/session/backend.h"

hyp_status hyp_cuda_want_room(hyp_cuda_build *b, size_t bytes)
{
    hyp_cuda_session *s = b->session;
    if (bytes > b->room) b->room = bytes;
    return b->places_room ? HYP_OK : hyp_cuda_grow(s, &s->room, &s->room_bytes, bytes, "a step", b->diag);
}

bool hyp_cuda_take_room(size_t count, size_t size, size_t *end, size_t *out_at)
{
    size_t bytes;
    *out_at = *end;
    if (!hyp_mul_size(count, size, &bytes) || !hyp_add_size(*end, bytes, end) || *end > SIZE_MAX - HYP_CUDA_ALIGN)
        return false;
    *end = hyp_cuda_round_up(*end, HYP_CUDA_ALIGN);
    return true;
}

hyp_status hyp_cuda_add_op(hyp_cuda_build *b, hyp_status (*run)(hyp_cuda_session *, void *, hyp_diag *), size_t size,
                           void **out_data)
{
    hyp_cuda_prepared *p = b->prepared;
    void *data = hyp_arena_zalloc(&p->arena, 1, size);
    if (!data) return hyp_fail_memory(b->diag, size);
    HYP_TRY(
        hyp_vec_push(&p->ops, b->diag,
                     (hyp_cuda_op){.run = run,
                                   .data = data,
                                   .step = b->step,
                                   .unit = b->unit,
                                   .last_step = b->step,
                                   .room_at = HYP_CUDA_AS_PLANNED}));
    *out_data = data;
    return HYP_OK;
}

typedef struct launch {
    hyp_cuda_grid grid;
    size_t slot_count;
    void *args; /* behind the slots */
    hyp_cuda_slot slots[];
} launch;

static hyp_status launch_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    launch *p = data;
    for (size_t i = 0; i < p->slot_count; i++) {
        const hyp_cuda_slot *slot = &p->slots[i];
        uint64_t address = slot->tensor_plus1 ? s->at[slot->tensor_plus1 - 1] + slot->begin : 0;
        memcpy((char *)p->args + slot->field, &address, sizeof address);
    }
    return hyp_cuda_launch(s, &p->grid, p->args, diag);
}

hyp_status hyp_cuda_add_launch(hyp_cuda_build *b, const hyp_cuda_grid *grid, const void *args, size_t size,
                               const hyp_cuda_slot *slots, size_t slot_count)
{
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, launch_run, sizeof(launch) + slot_count * sizeof *slots + size, &data));
    launch *p = data;
    *p = (launch){.grid = *grid, .slot_count = slot_count, .args = &p->slots[slot_count]};
    memcpy(p->slots, slots, slot_count * sizeof *slots);
    memcpy(p->args, args, size);
    return grid->function ? HYP_OK : hyp_cuda_need_kernel(b, grid->kernel);
}

hyp_status hyp_cuda_add_spread(hyp_cuda_build *b, hyp_cuda_kernel kernel, int64_t items, const void *args, size_t size,
                               const hyp_cuda_slot *slots, size_t slot_count)
{
    hyp_cuda_grid grid = {.kernel = kernel};
    hyp_cuda_spread(b->session->model->device, items, &grid);
    return hyp_cuda_add_launch(b, &grid, args, size, slots, slot_count);
}

static void note_known(hyp_cuda_build *b, uint32_t step, hyp_cuda_known known)
{
    hyp_cuda_prepared *p = b->prepared;
    if (!p->known) return;
    if (known > p->known[step]) p->known[step] = known;
    p->products[known]++;
}

void hyp_cuda_note_known(hyp_cuda_build *b, hyp_cuda_known known) { note_known(b, b->step, known); }

/* The report lies in host memory that kernels can write, so that no copy is needed to look at it. */
hyp_status hyp_cuda_need_report(hyp_cuda_build *b)
{
    hyp_cuda_session *s = b->session;
    const hyp_cuda_library *lib = &s->model->device->lib;
    void *report;
    if (s->error) return HYP_OK;
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemHostAlloc(&report, 3 * sizeof(int64_t), CU_MEMHOSTALLOC_DEVICEMAP),
                           "cuMemHostAlloc", b->diag));
    s->error = report;
    s->error[0] = 0;
    return hyp_cuda_check(lib, lib->cuMemHostGetDevicePointer(&s->error_at, report, 0), "cuMemHostGetDevicePointer",
                          b->diag);
}

void hyp_cuda_use_workspace(hyp_cuda_build *b, size_t bytes)
{
    if (bytes > b->workspace) b->workspace = bytes;
}

hyp_status hyp_cuda_need_kernel(hyp_cuda_build *b, hyp_cuda_kernel kernel)
{
    return hyp_cuda_load_kernel(b->session->model->device, kernel, b->diag);
}

/* ---- choices --------------------------------------------------------------------------------------------------- */

/* Takes back what was added since `was`, whose newest op may have been taken back itself. */
static void take_back(hyp_cuda_build *b, const hyp_cuda_build *was, size_t ops, const hyp_cuda_op *newest)
{
    hyp_cuda_prepared *p = b->prepared;
    for (size_t i = ops; i < p->ops.len; i++)
        if (p->ops.data[i].dispose) p->ops.data[i].dispose(&b->session->model->device->lib, p->ops.data[i].data);
    if (ops > 0) p->ops.data[ops - 1] = *newest;
    p->ops.len = ops;
    *b = *was;
}

hyp_status hyp_cuda_add_chosen(hyp_cuda_build *b, hyp_choice *choice, hyp_cuda_add_form *add, const void *step)
{
    hyp_cuda_prepared *p = b->prepared;
    const hyp_tuning *known = b->session->untuned || b->probe ? NULL : &b->session->tuning;
    const hyp_cuda_build was = *b;
    const size_t ops = p->ops.len;
    const hyp_cuda_op newest = ops > 0 ? p->ops.data[ops - 1] : (hyp_cuda_op){0};
    const bool asked = b->take_plus1 && choice->key[0];
    for (;;) {
        const hyp_alternative *a = hyp_choose(choice, known);
        if (asked) a = &choice->list[choice->taken = b->take_plus1 - 1];
        if (!a) return hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "nothing can do this: %s", choice->list[0].cannot);
        hyp_status status = add(b, step, a->form);
        if (status == HYP_OK) break;
        if (status != HYP_ERR_UNSUPPORTED || asked || hyp_choice_open(choice) < 2) return status;
        take_back(b, &was, ops, &newest);
        choice->list[choice->taken].cannot = "the library has nothing for it";
    }
    if (choice->by == HYP_CHOICE_TUNED) note_known(b, was.step, HYP_CUDA_TUNED);
    if (choice->by == HYP_CHOICE_BORROWED) note_known(b, was.step, HYP_CUDA_BORROWED);
    if (choice->by == HYP_CHOICE_PRIOR) note_known(b, was.step, HYP_CUDA_NOT_TUNED);
    return hyp_vec_push(&p->choices, b->diag, *choice);
}
