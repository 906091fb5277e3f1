#include "fuzz/mutate_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "support/seal_plan.h"

enum { MAX_LIST = 4096, MAX_WEIGHT = 1 << 20 };

/* Messages are read and freed by protobuf-c's own allocator, which is that of the C library: so is all that is put into
 * them. */

static uint64_t below(hyp_random *r, uint64_t n) { return n ? (uint64_t)hyp_random_int(r, 0, (int64_t)n - 1) : 0; }
static bool chance(hyp_random *r, int percent) { return (int)below(r, 100) < percent; }

/* ---- values -------------------------------------------------------------------------------------------- */

static uint64_t change_integer(hyp_random *r, uint64_t v)
{
    static const int64_t special[] = {0,       1,         2,         3,         4,          7,         8,
                                      15,      16,        17,        31,        32,         33,        63,
                                      64,      65,        127,       128,       255,        256,       1000,
                                      1 << 16, 1 << 24,   INT32_MAX, 1LL << 31, UINT32_MAX, 1LL << 40, INT64_MAX / 8,
                                      -1,      INT64_MIN, INT64_MAX, -2,        INT32_MIN,  -7,        1LL << 61};
    switch (below(r, 5)) {
    case 0: return v + 1;
    case 1: return v - 1;
    case 2: return below(r, 12);
    case 3: return v ^ 1ull << below(r, 64);
    default: return (uint64_t)special[below(r, sizeof special / sizeof *special)];
    }
}

static double change_real(hyp_random *r, double v)
{
    const double special[] = {0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 1e30, 1e-30, 1e300, -v, v / 2};
    return special[below(r, sizeof special / sizeof *special)];
}

static char *change_text(hyp_random *r, const char *old)
{
    static const char *const words[] = {"",
                                        "none",
                                        "linear",
                                        "nearest",
                                        "cubic",
                                        "zeros",
                                        "border",
                                        "reflection",
                                        "add",
                                        "mul",
                                        "max",
                                        "min",
                                        "circular",
                                        "sigmoid",
                                        "tanh",
                                        "relu",
                                        "softplus",
                                        "half-pixel",
                                        "asymmetric",
                                        "f16",
                                        "i8",
                                        "f64",
                                        "conv",
                                        "conv-transpose",
                                        "conv-backward-weights",
                                        "max-pool",
                                        "average-pool",
                                        "lp-pool",
                                        "layer-norm",
                                        "rms-norm",
                                        "attention-gradient",
                                        "linear-gradient",
                                        "norm-gradient",
                                        "softmax-gradient",
                                        "lrn",
                                        "lstm",
                                        "gru",
                                        "rnn",
                                        "topk",
                                        "resize",
                                        "cumsum",
                                        "gather-nd",
                                        "scatter-nd",
                                        "one-hot",
                                        "trilu",
                                        "roi-align",
                                        "grid-sample",
                                        "grid-sample-gradient",
                                        "roi-align-gradient",
                                        "grid",
                                        "reduce-max",
                                        "argmax",
                                        "softmax-stats",
                                        "max-unpool",
                                        "range",
                                        "random-uniform",
                                        "bit-cast",
                                        "max-pool-places",
                                        "max-pool-gradient",
                                        "batch-norm",
                                        "batch-norm-stats",
                                        "batch-norm-gradient",
                                        "reverse-sequence",
                                        "gather-elements",
                                        "scatter-elements",
                                        "tensor-scatter",
                                        "affine-grid",
                                        "align-corners",
                                        "floor",
                                        "ceil",
                                        "carried",
                                        "collected",
                                        "counts",
                                        "most"};
    char *text = chance(r, 80) ? strdup(words[below(r, sizeof words / sizeof *words)]) : strdup(old);
    size_t len = text ? strlen(text) : 0;
    if (len && chance(r, 20)) text[below(r, len)] = (char)(1 + below(r, 255));
    return text;
}

static void change_scalar(hyp_random *r, ProtobufCType type, void *at)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FLOAT: *(float *)at = (float)change_real(r, (double)*(float *)at); break;
    case PROTOBUF_C_TYPE_DOUBLE: *(double *)at = change_real(r, *(double *)at); break;
    case PROTOBUF_C_TYPE_BOOL: *(protobuf_c_boolean *)at = !*(protobuf_c_boolean *)at; break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: *(uint64_t *)at = change_integer(r, *(uint64_t *)at); break;
    case PROTOBUF_C_TYPE_STRING: {
        char *text = change_text(r, *(char **)at ? *(char **)at : "");
        if (*(char **)at != protobuf_c_empty_string) free(*(char **)at);
        *(char **)at = text;
        break;
    }
    case PROTOBUF_C_TYPE_BYTES: {
        ProtobufCBinaryData *data = at;
        if (data->len) data->data[below(r, data->len)] ^= (uint8_t)(1 << below(r, 8));
        break;
    }
    case PROTOBUF_C_TYPE_MESSAGE: break;
    default: *(uint32_t *)at = (uint32_t)change_integer(r, *(uint32_t *)at); break; /* 32 bits, and enumerations */
    }
}

/* ---- lists --------------------------------------------------------------------------------------------- */

static size_t element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    default: return 4;
    }
}

static ProtobufCMessage *clone(const ProtobufCMessage *m)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *packed = malloc(size + 1);
    if (!packed) return NULL;
    protobuf_c_message_pack(m, packed);
    ProtobufCMessage *copy = protobuf_c_message_unpack(m->descriptor, NULL, size, packed);
    free(packed);
    return copy;
}

/* Drops, doubles or exchanges elements; strings and bytes are only exchanged. */
static void change_list(hyp_random *r, const ProtobufCFieldDescriptor *f, size_t *count, void **list)
{
    size_t size = element_size(f->type), i = below(r, *count), j = below(r, *count);
    uint8_t *data = *list, kept[sizeof(ProtobufCBinaryData)];
    bool message = f->type == PROTOBUF_C_TYPE_MESSAGE;
    bool plain = !message && f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_BYTES;
    switch (plain || message ? below(r, 4) : 3) {
    case 0:
        if (message) protobuf_c_message_free_unpacked(*(ProtobufCMessage **)(void *)(data + i * size), NULL);
        memmove(data + i * size, data + (i + 1) * size, (--*count - i) * size);
        break;
    case 1: {
        if (*count >= MAX_LIST) break;
        ProtobufCMessage *copy = message ? clone(*(ProtobufCMessage **)(void *)(data + i * size)) : NULL;
        if (message && !copy) break;
        data = realloc(data, (*count + 1) * size);
        if (!data) abort();
        *list = data;
        memmove(data + (j + 1) * size, data + j * size, (*count - j) * size);
        ++*count;
        if (message)
            memcpy(data + j * size, &copy, size);
        else
            memmove(data + j * size, data + i * size, size);
        break;
    }
    case 2:
        if (message && i != j) {
            ProtobufCMessage *copy = clone(*(ProtobufCMessage **)(void *)(data + i * size));
            if (!copy) break;
            protobuf_c_message_free_unpacked(*(ProtobufCMessage **)(void *)(data + j * size), NULL);
            memcpy(data + j * size, &copy, size);
        } else if (!message) {
            memmove(data + j * size, data + i * size, size);
        }
        break;
    default:
        memcpy(kept, data + i * size, size);
        memmove(data + i * size, data + j * size, size);
        memcpy(data + j * size, kept, size);
    }
}

/* ---- messages ------------------------------------------------------------------------------------------ */

static size_t *count_of(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (size_t *)(void *)((uint8_t *)m + f->quantifier_offset);
}

/* Is there something in this field that can be changed? Of a oneof, only what it holds. */
static bool is_there(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED) return *count_of(m, f) > 0;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *(uint32_t *)(void *)((uint8_t *)m + f->quantifier_offset) != f->id)
        return false;
    return f->type != PROTOBUF_C_TYPE_MESSAGE || *(ProtobufCMessage **)(void *)((uint8_t *)m + f->offset);
}

static const ProtobufCFieldDescriptor *draw_field(hyp_random *r, ProtobufCMessage *m)
{
    size_t there = 0;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) there += is_there(m, &m->descriptor->fields[i]);
    size_t skip = below(r, there);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        if (is_there(m, &m->descriptor->fields[i]) && skip-- == 0) return &m->descriptor->fields[i];
    return NULL;
}

static void change_message(hyp_random *r, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    void *at = (uint8_t *)m + f->offset;
    size_t size = element_size(f->type);
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t *count = count_of(m, f);
        if (chance(r, f->type == PROTOBUF_C_TYPE_MESSAGE ? 10 : 30)) {
            change_list(r, f, count, at);
            return;
        }
        at = *(uint8_t **)at + below(r, *count) * size;
    }
    if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
        change_scalar(r, f->type, at);
        return;
    }
    ProtobufCMessage *inner = *(ProtobufCMessage **)at;
    const ProtobufCFieldDescriptor *next = draw_field(r, inner);
    if (next) change_message(r, inner, next);
}

/* The plan of an update is one by itself, with checksums of its own. */
static void change_update(hyp_random *r, HypPlan__Update *u)
{
    size_t size;
    uint8_t *mutant = mutate_plan(u->plan.data, u->plan.len, r, &size), *data = mutant ? malloc(size) : NULL;
    if (data) {
        memcpy(data, mutant, size);
        free(u->plan.data);
        u->plan = (ProtobufCBinaryData){size, data};
    }
    hyp_free(mutant);
}

/* Steps first, then what they are about. */
static void change_program(hyp_random *r, HypPlan__Program *p)
{
    enum { DIMS = 7, TENSORS = 8, STEPS = 12 };
    if (p->n_updates && chance(r, 25)) {
        change_update(r, p->updates[below(r, p->n_updates)]);
        return;
    }
    unsigned wanted = chance(r, 55) ? STEPS : chance(r, 50) ? TENSORS : chance(r, 70) ? DIMS : 0;
    const ProtobufCFieldDescriptor *f =
        wanted ? protobuf_c_message_descriptor_get_field(p->base.descriptor, wanted) : NULL;
    if (!f || !is_there(&p->base, f)) f = draw_field(r, &p->base);
    if (f) change_message(r, &p->base, f);
}

static void add_text(size_t *count, char ***list, const char *text)
{
    *list = realloc(*list, (*count + 1) * sizeof **list);
    if (!*list) abort();
    (*list)[(*count)++] = strdup(text);
}

/* A fixed size of an input becomes one that the caller decides, so that all that was proved of it is to be proved again for
 * each size, and sizes can be rounded up where steps stand that random graphs do not have. */
static void make_symbolic(hyp_random *r, HypPlan__Program *p)
{
    enum { MOST = 4 };
    if (!p->n_inputs || p->n_symbols >= MOST) return;
    uint32_t input = p->inputs[below(r, p->n_inputs)];
    const HypPlan__Tensor *t = input < p->n_tensors ? p->tensors[input] : NULL;
    uint32_t at = t && t->n_dims ? t->dims[below(r, t->n_dims)] : UINT32_MAX;
    if (at >= p->n_dims || p->dims[at]->kind != HYP_PLAN__DIM__KIND__CONST) return;
    if (p->n_padding == p->n_symbols) add_text(&p->n_padding, &p->padding, "");
    if (p->n_typical_sizes) {
        p->typical_sizes = realloc(p->typical_sizes, (p->n_typical_sizes + 1) * sizeof *p->typical_sizes);
        if (!p->typical_sizes) abort();
        p->typical_sizes[p->n_typical_sizes++] = p->dims[at]->value;
    }
    p->dims[at]->kind = HYP_PLAN__DIM__KIND__SYMBOL;
    p->dims[at]->value = (int64_t)p->n_symbols;
    add_text(&p->n_symbols, &p->symbols, (const char *[MOST]){"s0", "s1", "s2", "s3"}[p->n_symbols]);
}

/* Says that runs may be padded along whatever there is. */
static void claim_padding(HypPlan__Program *p)
{
    for (size_t i = 0; i < p->n_padding; i++) {
        if (p->padding[i] != protobuf_c_empty_string) free(p->padding[i]);
        p->padding[i] = strdup("");
    }
}

/* ---- the file around it -------------------------------------------------------------------------------- */

static uint64_t get(const uint8_t *at, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = bytes; i-- > 0;) v = v << 8 | at[i];
    return v;
}

/* The elements of a program's weights on their way: of each tensor, its own. */
typedef struct contents {
    const uint8_t *weights; /* of the plan as it was */
    uint64_t had;
    uint64_t *offsets; /* by tensor: in these */
    uint8_t **bodies;  /* by tensor: the plan that takes the place of one, or NULL */
    size_t *body_bytes;
} contents;

/* Is this weight a plan, as the body of a loop is? */
static bool is_plan(const HypPlan__Tensor *t, const contents *c)
{
    return is_stored_weight(t) && t->n_dims == 1 && t->bytes >= HYP_PLAN_HEADER && t->offset <= c->had &&
           t->bytes <= c->had - t->offset && memcmp(c->weights + t->offset, HYP_PLAN_MAGIC, 8) == 0;
}

/* A body is a plan by itself, with checksums of its own. */
static void change_bodies(hyp_random *r, HypPlan__Program *p, contents *c)
{
    for (size_t i = 0; i < p->n_tensors; i++) {
        HypPlan__Tensor *t = p->tensors[i];
        c->offsets[i] = t->offset;
        if (!is_plan(t, c) || t->dims[0] >= p->n_dims || chance(r, 30)) continue;
        c->bodies[i] = mutate_plan(c->weights + t->offset, t->bytes, r, &c->body_bytes[i]);
        if (c->bodies[i]) p->dims[t->dims[0]]->value = (int64_t)c->body_bytes[i];
    }
}

/* Weights get the bytes of their shapes, where these are fixed and small, and follow each other. */
static void place_weights(HypPlan__Program *p)
{
    uint64_t end = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        HypPlan__Tensor *t = p->tensors[i];
        if (t->place != HYP_PLAN__PLACE__PLACE_WEIGHT) continue;
        int64_t bytes = (int64_t)hyp_dtype_size((hyp_dtype)t->dtype);
        bool known = bytes > 0;
        for (size_t a = 0; a < t->n_dims && known; a++) {
            const HypPlan__Dim *d = t->dims[a] < p->n_dims ? p->dims[t->dims[a]] : NULL;
            known = d && d->kind == HYP_PLAN__DIM__KIND__CONST && d->value >= 0 &&
                    hyp_mul_i64(bytes, d->value, &bytes) && bytes <= MAX_WEIGHT;
        }
        if (known) t->bytes = (uint64_t)bytes;
        if (t->bytes > MAX_WEIGHT) t->bytes = MAX_WEIGHT;
        t->offset = t->bytes ? (end + HYP_PLAN_ALIGN - 1) / HYP_PLAN_ALIGN * HYP_PLAN_ALIGN : 0;
        if (t->bytes) end = t->offset + t->bytes;
    }
}

/* The weights as they are placed now. NULL where there are none, or no memory. */
static uint8_t *fill_weights(const HypPlan__Program *p, const contents *c, uint64_t *out_bytes)
{
    uint8_t *filled = NULL;
    *out_bytes = 0;
    for (size_t i = 0; i < p->n_tensors; i++)
        if (is_stored_weight(p->tensors[i])) *out_bytes = p->tensors[i]->offset + p->tensors[i]->bytes;
    if (*out_bytes) filled = hyp_calloc(1, *out_bytes);
    for (size_t i = 0; filled && i < p->n_tensors; i++) {
        const HypPlan__Tensor *t = p->tensors[i];
        if (!is_stored_weight(t)) continue;
        const uint8_t *from = c->bodies[i] ? c->bodies[i] : c->weights;
        uint64_t offset = c->bodies[i] ? 0 : c->offsets[i], had = c->bodies[i] ? c->body_bytes[i] : c->had;
        for (uint64_t k = 0; k < t->bytes && had; k++) filled[t->offset + k] = from[(offset + k) % had];
    }
    return filled;
}

static uint8_t *seal(hyp_random *r, HypPlan__Program *p, contents *c, size_t *out_size)
{
    uint64_t bytes;
    change_bodies(r, p, c);
    place_weights(p);
    uint8_t *filled = fill_weights(p, c, &bytes), *mutant = NULL;
    if (filled || !bytes) mutant = seal_plan(p, filled, bytes, out_size);
    hyp_free(filled);
    return mutant;
}

uint8_t *mutate_plan(const uint8_t *plan, size_t size, hyp_random *random, size_t *out_size)
{
    if (size < HYP_PLAN_HEADER) return NULL;
    uint64_t program = get(plan + 32, 8), weights = get(plan + 48, 8), had = get(plan + 56, 8);
    if (program > size - HYP_PLAN_HEADER) return NULL;
    if (weights > size || had > size - weights) had = 0;
    HypPlan__Program *p = hyp_plan__program__unpack(NULL, program, plan + HYP_PLAN_HEADER);
    if (!p) return NULL;
    for (uint64_t changes = 1 + below(random, 4); changes > 0; changes--) change_program(random, p);
    if (chance(random, 20)) make_symbolic(random, p);
    if (chance(random, 25)) claim_padding(p);
    contents c = {.weights = plan + (had ? weights : 0), .had = had};
    c.offsets = hyp_calloc(p->n_tensors + 1, sizeof *c.offsets);
    c.bodies = hyp_calloc(p->n_tensors + 1, sizeof *c.bodies);
    c.body_bytes = hyp_calloc(p->n_tensors + 1, sizeof *c.body_bytes);
    uint8_t *mutant = c.offsets && c.bodies && c.body_bytes ? seal(random, p, &c, out_size) : NULL;
    for (size_t i = 0; c.bodies && i < p->n_tensors; i++) hyp_free(c.bodies[i]);
    hyp_free(c.body_bytes);
    hyp_free(c.bodies);
    hyp_free(c.offsets);
    hyp_plan__program__free_unpacked(p, NULL);
    return mutant;
}
