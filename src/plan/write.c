/* write.c - writing a plan file. */
#include <string.h>

#include "plan/layout.h"

void hyp_plan_place_weights(HypPlan__Program *program)
{
    uint64_t end = 0;
    for (size_t i = 0; i < program->n_tensors; i++) {
        HypPlan__Tensor *t = program->tensors[i];
        if (t->place == HYP_PLAN__PLACE__PLACE_WEIGHT) t->offset = 0;
        if (!has_weight_bytes(t)) continue;
        t->offset = align_up(end);
        end = t->offset + t->bytes;
    }
}

static uint64_t weights_end(const HypPlan__Program *program)
{
    uint64_t end = 0;
    for (size_t i = 0; i < program->n_tensors; i++)
        if (has_weight_bytes(program->tensors[i])) end = program->tensors[i]->offset + program->tensors[i]->bytes;
    return end;
}

static void store_section(uint8_t *p, section s)
{
    store_le(p, s.offset, 8);
    store_le(p + 8, s.bytes, 8);
    store_le(p + 16, s.hash, 8);
}

static void pack_header(const header *h, uint8_t bytes[HYP_PLAN_HEADER])
{
    memset(bytes, 0, HYP_PLAN_HEADER);
    memcpy(bytes + AT_MAGIC, HYP_PLAN_MAGIC, 8);
    store_le(bytes + AT_MAJOR, h->major, 4);
    store_le(bytes + AT_MINOR, h->minor, 4);
    store_le(bytes + AT_FILE_BYTES, h->file_bytes, 8);
    store_section(bytes + AT_PROGRAM, h->program);
    store_section(bytes + AT_WEIGHTS, h->weights);
    store_section(bytes + AT_DEVICE, h->device);
    store_le(bytes + AT_HEADER_HASH, hyp_hash(bytes, AT_HEADER_HASH, 0), 8);
}

static hyp_status pad_to(hyp_outfile *file, uint64_t offset, hyp_diag *diag)
{
    static const uint8_t zeros[HYP_PLAN_ALIGN];
    return hyp_outfile_write(file, zeros, (size_t)(offset - file->offset), diag);
}

/* Fetches every weight once, in order, hashing it; writes it when there is a file to write to. */
static hyp_status stream_weights(hyp_outfile *file, const HypPlan__Program *program, const hyp_plan_weights *weights,
                                 uint64_t start, uint64_t *out_hash, hyp_diag *diag)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < program->n_tensors; i++) {
        const HypPlan__Tensor *t = program->tensors[i];
        if (!has_weight_bytes(t)) continue;
        const void *data = NULL;
        HYP_TRY(weights->get(weights->user, i, &data, diag));
        h = chain_weight(h, data, t->bytes);
        if (!file) continue;
        HYP_TRY(pad_to(file, start + t->offset, diag));
        HYP_TRY(hyp_outfile_write(file, data, (size_t)t->bytes, diag));
    }
    *out_hash = h;
    return HYP_OK;
}

static hyp_status write_file(hyp_outfile *file, const HypPlan__Program *program, const hyp_plan_weights *weights,
                             header *h, const uint8_t *packed, hyp_diag *diag)
{
    uint8_t bytes[HYP_PLAN_HEADER];
    bool seekable = hyp_outfile_draft(file) != NULL;
    if (!seekable) HYP_TRY(stream_weights(NULL, program, weights, 0, &h->weights.hash, diag));
    pack_header(h, bytes);
    HYP_TRY(hyp_outfile_write(file, bytes, sizeof bytes, diag));
    HYP_TRY(hyp_outfile_write(file, packed, (size_t)h->program.bytes, diag));
    HYP_TRY(stream_weights(file, program, weights, h->weights.offset, &h->weights.hash, diag));
    if (!seekable) return HYP_OK;
    pack_header(h, bytes);
    return hyp_outfile_patch(file, 0, bytes, sizeof bytes, diag);
}

/* ---- numbers that may be -0.0 ------------------------------------------------------------------------ */

/* Not +0.0. */
static bool is_set(double x)
{
    static const double zero = 0;
    return memcmp(&x, &zero, sizeof x) != 0;
}

static bool is_set_float(float x)
{
    static const float zero = 0;
    return memcmp(&x, &zero, sizeof x) != 0;
}

/* Says of each number in a oneof whether it is written: when it is not +0.0, which an absent one is. */
static void mark_numbers(HypPlan__Step *s)
{
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_MATMUL) {
        HypPlan__Matmul *k = s->matmul;
        k->has_alpha_case = is_set_float(k->alpha) ? HYP_PLAN__MATMUL__HAS_ALPHA_ALPHA : 0;
    }
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_ATTENTION) {
        HypPlan__Attention *k = s->attention;
        k->has_scale_case = is_set_float(k->scale) ? HYP_PLAN__ATTENTION__HAS_SCALE_SCALE : 0;
        k->has_fill_case = is_set_float(k->fill) ? HYP_PLAN__ATTENTION__HAS_FILL_FILL : 0;
    }
    for (size_t i = 0; s->kernel_case == HYP_PLAN__STEP__KERNEL_POINTWISE && i < s->pointwise->n_instrs; i++) {
        HypPlan__Pointwise__Instr *in = s->pointwise->instrs[i];
        in->has_p_case = is_set(in->p) ? HYP_PLAN__POINTWISE__INSTR__HAS_P_P : 0;
        in->has_q_case = is_set(in->q) ? HYP_PLAN__POINTWISE__INSTR__HAS_Q_Q : 0;
    }
    for (size_t i = 0; s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && i < s->call->n_attrs; i++) {
        HypPlan__Call__Attr *a = s->call->attrs[i];
        a->has_number_case = is_set(a->number) ? HYP_PLAN__CALL__ATTR__HAS_NUMBER_NUMBER : 0;
    }
}

hyp_status hyp_plan_write(const char *path, HypPlan__Program *program, const hyp_plan_weights *weights,
                          const hyp_plan_check *check, hyp_diag *diag)
{
    HYP_TRY(hyp_plan_validate(program, diag));
    for (size_t i = 0; i < program->n_steps; i++) mark_numbers(program->steps[i]);
    size_t size = hyp_plan__program__get_packed_size(program);
    if (size > HYP_PLAN_MAX_PROGRAM)
        return hyp_fail(diag, HYP_ERR_LIMIT,
                        "the program of the plan has %zu bytes, more than the %llu that a plan may have", size,
                        (unsigned long long)HYP_PLAN_MAX_PROGRAM);
    uint8_t *packed = hyp_malloc(size);
    if (!packed) return hyp_fail_memory(diag, size);
    hyp_plan__program__pack(program, packed);

    header h = {.major = HYP_PLAN_MAJOR, .minor = HYP_PLAN_MINOR};
    h.program = (section){HYP_PLAN_HEADER, size, hyp_hash(packed, size, 0)};
    h.weights = (section){align_up(HYP_PLAN_HEADER + size), weights_end(program), 0};
    h.file_bytes = h.weights.bytes > 0 ? h.weights.offset + h.weights.bytes : HYP_PLAN_HEADER + size;

    hyp_outfile file = {.fd = -1};
    hyp_status status = hyp_outfile_open(&file, path, diag);
    if (status == HYP_OK) status = write_file(&file, program, weights, &h, packed, diag);
    const char *draft = hyp_outfile_draft(&file);
    if (status == HYP_OK && check && draft) status = check->check(check->user, draft, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    hyp_free(packed);
    return status;
}

static hyp_status copy_with_device(hyp_outfile *file, const hyp_plan *plan, const uint8_t *packed, size_t size,
                                   hyp_diag *diag)
{
    header h = load_header(plan->file);
    uint64_t end = h.weights.bytes > 0 ? h.weights.offset + h.weights.bytes : h.program.offset + h.program.bytes;
    h.device = size > 0 ? (section){align_up(end), size, hyp_hash(packed, size, 0)} : (section){0};
    h.file_bytes = size > 0 ? h.device.offset + size : end;
    uint8_t bytes[HYP_PLAN_HEADER];
    pack_header(&h, bytes);
    HYP_TRY(hyp_outfile_write(file, bytes, sizeof bytes, diag));
    HYP_TRY(hyp_outfile_write(file, plan->file + HYP_PLAN_HEADER, (size_t)(end - HYP_PLAN_HEADER), diag));
    if (size == 0) return HYP_OK;
    HYP_TRY(pad_to(file, h.device.offset, diag));
    return hyp_outfile_write(file, packed, size, diag);
}

hyp_status hyp_plan_write_device(const char *path, const hyp_plan *plan, const HypPlan__Device *device, hyp_diag *diag)
{
    if (device) HYP_TRY(hyp_plan_validate_device(device, diag));
    size_t size = device ? hyp_plan__device__get_packed_size(device) : 0;
    if (size > HYP_PLAN_MAX_DEVICE)
        return hyp_fail(diag, HYP_ERR_LIMIT,
                        "the device section has %zu bytes, more than the %llu that a plan may have", size,
                        (unsigned long long)HYP_PLAN_MAX_DEVICE);
    uint8_t *packed = hyp_malloc(size);
    if (!packed) return hyp_fail_memory(diag, size);
    if (device) hyp_plan__device__pack(device, packed);
    hyp_outfile file = {.fd = -1};
    hyp_status status = hyp_outfile_open(&file, path, diag);
    if (status == HYP_OK) status = copy_with_device(&file, plan, packed, size, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    hyp_free(packed);
    return status;
}
