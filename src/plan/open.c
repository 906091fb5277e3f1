/* open.c - reading a plan: header, checksums, program. Everything that a hostile file can say is checked here or
 * in validate.c before anyone else sees it.
 */
#include <string.h>

#include "plan/layout.h"
#include "plan/signature.h"

/* ---- memory of parsed messages ------------------------------------------------------------------- */

/* protobuf-c allocates a structure for every two bytes of input in the worst case. The budget bounds what a small
 * file can make it take; freeing needs no budget, so the allocator that parsed need not outlive the call. */
typedef struct budget {
    size_t left;
    bool failed; /* an allocation failed or the budget was used up */
    bool exceeded;
} budget;

enum { BLOCK_HEADER = 16, BYTES_PER_BYTE = 96, BYTES_AT_LEAST = 1 << 16 };

static void *budget_alloc(void *user, size_t size)
{
    budget *b = user;
    if (size > SIZE_MAX - BLOCK_HEADER || size + BLOCK_HEADER > b->left) {
        b->failed = b->exceeded = true;
        return NULL;
    }
    size_t *block = hyp_malloc(size + BLOCK_HEADER);
    if (!block) {
        b->failed = true;
        return NULL;
    }
    *block = size + BLOCK_HEADER;
    b->left -= *block;
    return (char *)block + BLOCK_HEADER;
}

static void budget_free(void *user, void *p)
{
    if (!p) return;
    budget *b = user;
    size_t *block = (size_t *)(void *)((char *)p - BLOCK_HEADER);
    if (b) b->left += *block;
    hyp_free(block);
}

/* *out is a message of this type. */
static hyp_status parse(const ProtobufCMessageDescriptor *type, const char *what, const uint8_t *data, size_t size,
                        ProtobufCMessage **out, hyp_diag *diag)
{
    budget b = {.left = size * BYTES_PER_BYTE + BYTES_AT_LEAST};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &b};
    *out = protobuf_c_message_unpack(type, &allocator, size, data);
    if (*out) return HYP_OK;
    if (b.failed && !b.exceeded) return hyp_fail_memory(diag, size);
    return hyp_fail(diag, HYP_ERR_MALFORMED, "the %s of %zu bytes is damaged: it does not parse", what, size);
}

static void free_message(const ProtobufCMessage *message)
{
    ProtobufCAllocator allocator = {budget_alloc, budget_free, NULL};
    protobuf_c_message_free_unpacked((ProtobufCMessage *)(uintptr_t)message, &allocator);
}

/* ---- header --------------------------------------------------------------------------------------- */

/* Sections follow each other at multiples of 256, and the last one ends the file. */
static bool sections_fit(const header *h, size_t size)
{
    if (h->program.offset != HYP_PLAN_HEADER || h->program.bytes > size - HYP_PLAN_HEADER) return false;
    uint64_t end = HYP_PLAN_HEADER + h->program.bytes;
    if (h->weights.bytes > 0 || h->device.bytes > 0) {
        end = align_up(end);
        if (h->weights.offset != end || end > size || h->weights.bytes > size - end) return false;
        end += h->weights.bytes;
    } else if (h->weights.offset != align_up(end)) {
        return false;
    }
    if (h->device.bytes > 0) {
        end = align_up(end);
        if (h->device.offset != end || end > size || h->device.bytes > size - end) return false;
        end += h->device.bytes;
    } else if (h->device.offset != 0) {
        return false;
    }
    return end == size;
}

static hyp_status read_header(const uint8_t *data, size_t size, header *out, hyp_diag *diag)
{
    size_t magic = size < 8 ? size : 8;
    if (size == 0) return hyp_fail(diag, HYP_ERR_MALFORMED, "the file is empty; wanted a plan made by hypatiac");
    if (memcmp(data, HYP_PLAN_MAGIC, magic) != 0)
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "not a plan: the first bytes are not \"HYPPLAN\"; wanted a file made by hypatiac");
    if (size < HYP_PLAN_HEADER)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the plan is cut: %zu bytes, but its header alone has %d", size,
                        HYP_PLAN_HEADER);
    header h = load_header(data);
    if (h.major != HYP_PLAN_MAJOR)
        return hyp_fail(diag, HYP_ERR_INCOMPATIBLE,
                        "the plan has format %u.%u, this version of Hypatia reads %d.x; build the plan again with the "
                        "hypatiac of this version",
                        h.major, h.minor, HYP_PLAN_MAJOR);
    if (hyp_hash(data, AT_HEADER_HASH, 0) != load_le(data + AT_HEADER_HASH, 8))
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the plan is damaged: the checksum of its header does not match");
    if (h.file_bytes != size)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the plan is %s: it has %zu bytes, its header says %llu",
                        size < h.file_bytes ? "cut" : "followed by other bytes", size,
                        (unsigned long long)h.file_bytes);
    if (!sections_fit(&h, size) || h.program.bytes > HYP_PLAN_MAX_PROGRAM || h.device.bytes > HYP_PLAN_MAX_DEVICE)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the plan is damaged: its sections do not follow each other");
    *out = h;
    return HYP_OK;
}

/* ---- weights -------------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (p[i]) return false;
    return true;
}

/* Weights lie in the order of their tensors, each at the next multiple of 256, and fill the section. */
static hyp_status check_placement(const HypPlan__Program *program, uint64_t section_bytes, hyp_diag *diag)
{
    uint64_t end = 0;
    for (size_t i = 0; i < program->n_tensors; i++) {
        const HypPlan__Tensor *t = program->tensors[i];
        if (!has_weight_bytes(t)) continue;
        if (t->offset != align_up(end) || t->offset > section_bytes || t->bytes > section_bytes - t->offset)
            return hyp_fail(
                diag, HYP_ERR_MALFORMED,
                "the weight '%s' (tensor %zu) lies at %llu with %llu bytes; wanted it at %llu inside the %llu "
                "bytes of weights",
                t->name, i, (unsigned long long)t->offset, (unsigned long long)t->bytes,
                (unsigned long long)align_up(end), (unsigned long long)section_bytes);
        end = t->offset + t->bytes;
    }
    if (end != section_bytes)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the weights fill %llu of the %llu bytes of their section",
                        (unsigned long long)end, (unsigned long long)section_bytes);
    return HYP_OK;
}

static hyp_status check_weight_bytes(const HypPlan__Program *program, const uint8_t *weights, uint64_t want,
                                     hyp_diag *diag)
{
    uint64_t end = 0, h = 0;
    bool padding = true;
    for (size_t i = 0; i < program->n_tensors; i++) {
        const HypPlan__Tensor *t = program->tensors[i];
        if (!has_weight_bytes(t)) continue;
        padding = padding && is_zero(weights + end, t->offset - end);
        h = chain_weight(h, weights + t->offset, t->bytes);
        end = t->offset + t->bytes;
    }
    if (h == want && padding) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_MALFORMED,
                    "the plan is damaged: the checksum of its weights does not match; copy or build it again");
}

/* Sections are there in this order, when they are there. */
static bool gaps_are_zero(const uint8_t *data, const header *h)
{
    uint64_t end = h->program.offset + h->program.bytes;
    if (h->weights.bytes > 0) {
        if (!is_zero(data + end, h->weights.offset - end)) return false;
        end = h->weights.offset + h->weights.bytes;
    }
    return h->device.bytes == 0 || is_zero(data + end, h->device.offset - end);
}

/* The end of the last weight that a step reads. */
static hyp_status find_read_bytes(const HypPlan__Program *p, uint64_t *out, hyp_diag *diag)
{
    HYP_VEC(uint32_t) list = {0};
    hyp_status status = HYP_OK;
    *out = 0;
    for (size_t s = 0; s < p->n_steps && status == HYP_OK; s++) {
        list.len = hyp_plan_step_reads(p->steps[s], NULL, 0);
        status = hyp_vec_reserve(&list, list.len + 1, diag);
        if (status != HYP_OK) break;
        hyp_plan_step_reads(p->steps[s], list.data, list.len);
        for (size_t i = 0; i < list.len; i++) {
            const HypPlan__Tensor *t = p->tensors[hyp_plan_root(p, list.data[i])];
            if (t->place == HYP_PLAN__PLACE__PLACE_WEIGHT && t->offset + t->bytes > *out) *out = t->offset + t->bytes;
        }
    }
    hyp_vec_free(&list);
    return status;
}

/* ---- device section ---------------------------------------------------------------------------- */

static hyp_status read_device(const uint8_t *data, section s, bool verify, const HypPlan__Device **out, hyp_diag *diag)
{
    if (s.bytes == 0) return HYP_OK;
    if (verify && hyp_hash(data + s.offset, (size_t)s.bytes, 0) != s.hash)
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "the plan is damaged: the checksum of its device section does not match");
    ProtobufCMessage *parsed;
    HYP_TRY(parse(&hyp_plan__device__descriptor, "device section", data + s.offset, (size_t)s.bytes, &parsed, diag));
    *out = (const HypPlan__Device *)parsed;
    return hyp_plan_validate_device(*out, diag);
}

/* ---- opening -------------------------------------------------------------------------------------- */

static hyp_status open_bytes(const uint8_t *data, size_t size, const hyp_plan_open_options *options, hyp_plan *plan,
                             hyp_diag *diag)
{
    header h = {0};
    bool verify = !options || !options->header_only;
    if (options && options->signer) HYP_TRY(hyp_signature_check(data, size, options->signer, diag));
    HYP_TRY(hyp_signature_find(data, &size, &plan->signer, diag));
    HYP_TRY(read_header(data, size, &h, diag));
    const uint8_t *program = data + h.program.offset;
    if (verify && hyp_hash(program, (size_t)h.program.bytes, 0) != h.program.hash)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the plan is damaged: the checksum of its program does not match");
    ProtobufCMessage *parsed;
    HYP_TRY(parse(&hyp_plan__program__descriptor, "program", program, (size_t)h.program.bytes, &parsed, diag));
    plan->program = (const HypPlan__Program *)parsed;
    HYP_TRY(hyp_plan_validate(plan->program, diag));
    HYP_TRY(check_placement(plan->program, h.weights.bytes, diag));
    if (h.weights.bytes > 0) plan->weights = data + h.weights.offset;
    plan->weights_bytes = h.weights.bytes;
    HYP_TRY(find_read_bytes(plan->program, &plan->read_bytes, diag));
    if (verify) {
        if (!gaps_are_zero(data, &h))
            return hyp_fail(diag, HYP_ERR_MALFORMED, "the plan is damaged: there are bytes between its sections");
        HYP_TRY(check_weight_bytes(plan->program, plan->weights, h.weights.hash, diag));
    }
    HYP_TRY(read_device(data, h.device, verify, &plan->device, diag));
    plan->file = data;
    plan->major = h.major;
    plan->minor = h.minor;
    plan->file_bytes = h.file_bytes;
    return HYP_OK;
}

hyp_status hyp_plan_open_file(const char *path, const hyp_plan_open_options *options, hyp_plan *out, hyp_diag *diag)
{
    hyp_plan plan = {0};
    HYP_TRY(hyp_map_file(path, &plan.mapping, diag));
    hyp_status status = open_bytes(plan.mapping.data, plan.mapping.size, options, &plan, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "%s", path);
        hyp_plan_close(&plan);
        return status;
    }
    *out = plan;
    return HYP_OK;
}

hyp_status hyp_plan_open_memory(const void *data, size_t size, const char *name, const hyp_plan_open_options *options,
                                hyp_plan *out, hyp_diag *diag)
{
    enum { WANTED_ALIGNMENT = 64 };
    hyp_plan plan = {0};
    hyp_status status = open_bytes(data, size, options, &plan, diag);
    if (status == HYP_OK && (uintptr_t)plan.weights % WANTED_ALIGNMENT != 0) {
        plan.copied = hyp_aligned_alloc(HYP_PLAN_ALIGN, (size_t)plan.weights_bytes);
        if (plan.copied)
            plan.weights = memcpy(plan.copied, plan.weights, (size_t)plan.weights_bytes);
        else
            status = hyp_fail_memory(diag, (size_t)plan.weights_bytes);
    }
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "%s", name);
        hyp_plan_close(&plan);
        return status;
    }
    *out = plan;
    return HYP_OK;
}

void hyp_plan_close(hyp_plan *plan)
{
    if (plan->program) free_message(&plan->program->base);
    if (plan->device) free_message(&plan->device->base);
    hyp_aligned_free(plan->copied);
    hyp_unmap(&plan->mapping);
    *plan = (hyp_plan){0};
}
