/* fold.c - the bytes of weights, one at a time, while the plan is written. A plain constant is handed on as it lies in
 * memory; a constant subgraph is evaluated (ir/constants.h).
 */
#include "codegen/codegen.h"
#include "ir/constants.h"

typedef struct folder {
    const hyp_lowered *lowered;
    void (*forget)(void *user, const void *data, size_t bytes);
    void *user;
    hyp_constants *constants;
    uint32_t next;             /* tensors below it were handed out in this pass over them */
    void *buffer;              /* the weight handed out last, when it was computed */
    const hyp_value *streamed; /* the constant handed out last, when it was not */
} folder;

/* Lets go of what was handed out last. */
static void release(folder *f)
{
    hyp_free(f->buffer);
    f->buffer = NULL;
    if (f->streamed && f->forget && !f->streamed->owned && f->streamed->data)
        f->forget(f->user, f->streamed->data, f->streamed->bytes);
    f->streamed = NULL;
}

/* It has its bytes: nothing is to be computed. */
static bool is_plain(const hyp_value *value)
{
    return value->kind == HYP_VALUE_INPUT || (value->kind == HYP_VALUE_CONST && (value->data || value->bytes == 0));
}

static void begin_progress(const hyp_lowered *lowered)
{
    uint64_t bytes = 0;
    for (size_t i = 0; lowered->progress && i < lowered->program->n_tensors; i++)
        if (lowered->folds[i] != HYP_NO_VALUE) bytes += lowered->program->tensors[i]->bytes;
    hyp_progress_begin(lowered->progress, "write", bytes);
}

/* Announces all of them, so that what several read is computed once. */
static hyp_status begin_pass(folder *f, hyp_diag *diag)
{
    hyp_constants_destroy(f->constants);
    f->next = 0;
    begin_progress(f->lowered);
    HYP_TRY(hyp_constants_create(f->lowered->graph, f->forget, f->user, &f->constants, diag));
    for (size_t i = 0; i < f->lowered->program->n_tensors; i++)
        if (f->lowered->folds[i] != HYP_NO_VALUE &&
            f->lowered->graph->values.data[f->lowered->folds[i]].kind != HYP_VALUE_INPUT)
            HYP_TRY(hyp_constants_want(f->constants, f->lowered->folds[i], NULL, diag));
    return HYP_OK;
}

/* Called in the order of the tensors; once more for all of them where the file cannot be patched. */
static hyp_status get_weight(void *user, uint32_t tensor, const void **out, hyp_diag *diag)
{
    folder *f = user;
    release(f);
    hyp_value_id v = f->lowered->folds[tensor];
    const hyp_value *value = &f->lowered->graph->values.data[v];
    if (!f->constants || tensor < f->next) HYP_TRY(begin_pass(f, diag));
    f->next = tensor + 1;
    hyp_progress_add(f->lowered->progress, f->lowered->program->tensors[tensor]->bytes);
    if (is_plain(value)) {
        if (!value->data && value->bytes)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "the variable '%s' has no data: it was read from text that leaves large ones out", value->name);
        f->streamed = value;
        *out = value->data;
        return HYP_OK;
    }
    HYP_TRY(hyp_constants_take(f->constants, v, &f->buffer, diag));
    *out = f->buffer;
    return HYP_OK;
}

hyp_status hyp_codegen_write(const hyp_lowered *lowered, const char *path,
                             void (*forget)(void *user, const void *data, size_t bytes), void *user,
                             const hyp_plan_check *check, hyp_diag *diag)
{
    folder f = {.lowered = lowered, .forget = forget, .user = user};
    hyp_plan_weights weights = {get_weight, &f};
    hyp_status status = hyp_plan_write(path, lowered->program, &weights, check, diag);
    release(&f);
    hyp_constants_destroy(f.constants);
    return status;
}
