/* buckets.c - runs whose sizes are rounded up to a multiple, so that few sets of dims are prepared for many sizes.
 * Inputs are copied to where there is room for more, with zeros behind, and outputs from there. The compiler has
 * proven, and the plan says, along which symbols that does not show. What a plan says is no proof: where it is wrong
 * results are, but a run of larger sizes is one like any other, and all that is copied lies within tensors whose sizes
 * were checked. */
#include "runtime/core/buckets.h"

#include <string.h>

#include "base/mem.h"
#include "runtime/core/custom.h"

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* The symbol of a name: the plan's, or what the model calls an axis that is one. */
static hyp_status find_symbol(const hyp_engine *e, const char *name, size_t *out, hyp_diag *diag)
{
    const HypPlan__Program *p = e->plan.program;
    for (*out = 0; *out < p->n_symbols; (*out)++)
        if (strcmp(p->symbols[*out], name) == 0) return HYP_OK;
    for (size_t i = 0; i < p->n_equalities; i++)
        for (size_t k = 0; k < p->n_inputs && strcmp(p->equalities[i]->symbol, name) == 0; k++) {
            const HypPlan__Tensor *t = p->tensors[p->inputs[k]];
            uint32_t axis = p->equalities[i]->axis;
            if (strcmp(t->name, p->equalities[i]->input) != 0 || axis >= t->n_dims) continue;
            const HypPlan__Dim *d = p->dims[t->dims[axis]];
            if (d->kind == HYP_PLAN__DIM__KIND__SYMBOL) return *out = (size_t)d->value, HYP_OK;
        }
    HYP_TRY(hyp_engine_find_symbol(e, name, diag));
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "options->buckets: '%s' is another size, or an expression", name);
}

static hyp_status want_padding(const HypPlan__Program *p, size_t s, hyp_diag *diag)
{
    if (!p->n_padding)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "options->buckets: the plan does not say whether runs may be padded along '%s': it is older "
                        "than that; compile the model again",
                        p->symbols[s]);
    if (!p->padding[s][0]) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "options->buckets: runs cannot be padded along '%s': %s", p->symbols[s],
                    p->padding[s]);
}

static hyp_status take_bucket(const hyp_engine *e, const hyp_tensor *bucket, int64_t *multiples, hyp_diag *diag)
{
    const HypPlan__Program *p = e->plan.program;
    size_t s, taken = 0;
    if (bucket->rank != 1 || bucket->dims[0] < 1)
        return hyp_fail(
            diag, HYP_ERR_INVALID_ARGUMENT,
            "options->buckets: '%s' wants rank 1 and what it is rounded up to a multiple of, 1 or more, in dims[0]",
            bucket->name ? bucket->name : "");
    if (bucket->name) {
        HYP_TRY(find_symbol(e, bucket->name, &s, diag));
        multiples[s] = bucket->dims[0];
        return want_padding(p, s, diag);
    }
    for (s = 0; s < p->n_symbols; s++) {
        if (want_padding(p, s, NULL) != HYP_OK) continue;
        multiples[s] = bucket->dims[0];
        taken++;
    }
    if (taken) return HYP_OK;
    if (p->n_symbols) return want_padding(p, 0, diag);
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "options->buckets: all sizes of the plan are fixed");
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

/* Which of these tensors have axes that are rounded. `rounded`: by dim. */
static void find_rounded(const HypPlan__Program *p, const uint32_t *tensors, size_t count, const bool *rounded,
                         bool *out)
{
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Tensor *t = p->tensors[tensors[i]];
        for (size_t a = 0; a < t->n_dims; a++) out[i] = out[i] || rounded[t->dims[a]];
    }
}

static hyp_status make(hyp_context *c, hyp_buckets *b, hyp_diag *diag)
{
    const HypPlan__Program *p = c->engine->plan.program;
    size_t in = p->n_inputs, out = p->n_outputs;
    hyp_arena *a = &c->arena;
    bool *rounded = hyp_arena_zalloc(a, p->n_dims, sizeof *rounded);
    b->key = hyp_arena_zalloc(a, in, HYP_KEY_WORDS * sizeof *b->key);
    b->order = hyp_arena_zalloc(a, in, sizeof *b->order);
    b->inputs = hyp_arena_zalloc(a, in, sizeof *b->inputs);
    b->pads = hyp_arena_zalloc(a, in + out, sizeof *b->pads);
    b->output_dims = hyp_arena_zalloc(a, out, sizeof *b->output_dims);
    b->rounds = hyp_arena_zalloc(a, in + out, sizeof *b->rounds);
    b->own = hyp_arena_zalloc(a, in, sizeof *b->own);
    if (!rounded || !b->key || !b->order || !b->inputs || !b->pads || !b->output_dims || !b->rounds || !b->own)
        return hyp_fail_memory(diag, (in + out) * sizeof *b->pads);
    for (size_t d = 0; d < p->n_dims; d++) {
        const HypPlan__Dim *dim = p->dims[d];
        bool leaf = dim->kind == HYP_PLAN__DIM__KIND__CONST || dim->kind == HYP_PLAN__DIM__KIND__SYMBOL;
        rounded[d] = leaf ? dim->kind == HYP_PLAN__DIM__KIND__SYMBOL && b->multiples[dim->value] > 1
                          : rounded[dim->a] || rounded[dim->b];
    }
    find_rounded(p, p->inputs, in, rounded, b->rounds);
    find_rounded(p, p->outputs, out, rounded, b->rounds + in);
    return HYP_OK;
}

hyp_status hyp_buckets_create(hyp_context *c, hyp_diag *diag)
{
    const HypPlan__Program *p = c->engine->plan.program;
    const hyp_context_options *o = &c->options;
    if (!o->bucket_count) return HYP_OK;
    HYP_NEED_LIST(o->buckets, o->bucket_count);
    hyp_buckets *b = hyp_arena_zalloc(&c->arena, 1, sizeof *b);
    if (b) b->multiples = hyp_arena_zalloc(&c->arena, p->n_symbols, sizeof *b->multiples);
    if (!b || !b->multiples) return hyp_fail_memory(diag, p->n_symbols * sizeof *b->multiples);
    for (size_t s = 0; s < p->n_symbols; s++) b->multiples[s] = 1;
    for (size_t i = 0; i < o->bucket_count; i++) HYP_TRY(take_bucket(c->engine, &o->buckets[i], b->multiples, diag));
    c->options.buckets = NULL; /* the caller's, who may free them */
    HYP_TRY(make(c, b, diag));
    c->buckets = b;
    return HYP_OK;
}

void hyp_buckets_dispose(const hyp_context *c)
{
    for (size_t i = 0; c->buckets && i < c->engine->inputs.count; i++) hyp_aligned_free(c->buckets->own[i].data);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

static hyp_status round_up(const HypPlan__Program *p, const int64_t *multiples, int64_t *symbols, hyp_diag *diag)
{
    for (size_t s = 0; s < p->n_symbols; s++) {
        int64_t parts = symbols[s] / multiples[s] + (symbols[s] % multiples[s] != 0);
        if (!hyp_mul_i64(parts, multiples[s], &symbols[s]))
            return hyp_fail(diag, HYP_ERR_LIMIT, "'%s' rounded up to a multiple of %lld is too large", p->symbols[s],
                            (long long)multiples[s]);
    }
    return HYP_OK;
}

/* A tensor that has `dims` for the caller and `room` for the run. What a plan says of its sizes is checked for neither
 * alone: it might have them shrink. */
static hyp_status set_pad(const hyp_io *io, const int64_t *dims, const int64_t *room, hyp_pad *out, hyp_diag *diag)
{
    *out = (hyp_pad){.rank = io->info.rank, .element_bytes = io->element_bytes};
    for (int32_t a = 0; a < out->rank; a++) {
        if (dims[a] < 0 || dims[a] > room[a])
            return hyp_fail(
                diag, HYP_ERR_UNSUPPORTED,
                "'%s': axis %d is %lld, and %lld with the sizes that options->buckets round up: it must not shrink",
                io->info.name, (int)a, (long long)dims[a], (long long)room[a]);
        out->dims[a] = dims[a];
        out->room[a] = room[a];
        out->used = out->used || dims[a] != room[a];
    }
    return HYP_OK;
}

hyp_status hyp_buckets_round(hyp_context *c, const hyp_tensor **inputs, hyp_diag *diag)
{
    hyp_buckets *b = c->buckets;
    const hyp_engine *e = c->engine;
    const HypPlan__Program *p = e->plan.program;
    size_t order_bytes = e->inputs.count * sizeof *b->order;
    if (b->known && memcmp(b->order, c->input_order, order_bytes) == 0 && hyp_key_matches(c, b->key, *inputs))
        return *inputs = b->inputs, HYP_OK;
    b->known = false;
    memcpy(b->order, c->input_order, order_bytes);
    HYP_TRY(hyp_context_evaluate(c, *inputs, diag));
    hyp_key_set(c, *inputs, b->key);
    for (size_t i = 0; i < e->outputs.count; i++)
        for (int32_t a = 0; a < e->outputs.items[i].info.rank; a++)
            b->output_dims[i][a] = c->values[p->tensors[e->outputs.items[i].tensor]->dims[a]];
    HYP_TRY(round_up(p, b->multiples, c->symbols, diag));
    HYP_TRY(hyp_plan_eval_dims(p, c->symbols, c->values, diag));
    for (size_t i = 0; i < e->inputs.count; i++) {
        const hyp_io *io = &e->inputs.items[i];
        hyp_tensor *t = &b->inputs[c->input_order[i]];
        *t = (hyp_tensor){.rank = io->info.rank};
        for (int32_t a = 0; a < t->rank; a++) t->dims[a] = c->values[p->tensors[io->tensor]->dims[a]];
        HYP_TRY(set_pad(io, c->dims[i], t->dims, &b->pads[i], diag));
    }
    *inputs = b->inputs;
    return HYP_OK;
}

hyp_status hyp_buckets_fit(hyp_context *c, hyp_diag *diag)
{
    hyp_buckets *b = c->buckets;
    const hyp_engine *e = c->engine;
    if (b->known) return HYP_OK;
    for (size_t i = 0; i < e->outputs.count; i++)
        HYP_TRY(set_pad(&e->outputs.items[i], b->output_dims[i], c->current->output_dims + i * HYP_MAX_RANK,
                        &b->pads[e->plan.program->n_inputs + i], diag));
    b->known = true;
    return HYP_OK;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Whether an output is put into memory of the context's for its size alone. Where the data cut it, it is in any case, which
 * outputs.c sees to. */
static bool is_grown(const hyp_context *c, size_t output)
{
    const hyp_engine *e = c->engine;
    return c->buckets->rounds[e->plan.program->n_inputs + output] && !e->outputs.items[output].size;
}

const hyp_pad *hyp_output_pad(const hyp_context *c, size_t output)
{
    const hyp_pad *pad = c->buckets ? &c->buckets->pads[c->engine->plan.program->n_inputs + output] : NULL;
    return pad && pad->used ? pad : NULL;
}

hyp_status hyp_buckets_grow(hyp_context *c, const hyp_shape *s, hyp_diag *diag)
{
    const hyp_buckets *b = c->buckets;
    if (!b || c->engine->backend->memory != HYP_MEMORY_HOST) return HYP_OK;
    for (size_t i = 0; i < c->engine->inputs.count; i++)
        if (b->rounds[i]) HYP_TRY(hyp_grow_own(&b->own[i], s->input_bytes[i], diag));
    for (size_t i = 0; i < c->engine->outputs.count; i++)
        if (is_grown(c, i)) HYP_TRY(hyp_grow_own(&c->own[i], s->output_bytes[i], diag));
    return HYP_OK;
}

size_t hyp_buckets_needed(const hyp_context *c)
{
    const hyp_engine *e = c->engine;
    const HypPlan__Program *p = e->plan.program;
    size_t bytes = 0;
    for (size_t i = 0; i < e->inputs.count + e->outputs.count && e->backend->memory == HYP_MEMORY_HOST; i++) {
        bool input = i < e->inputs.count;
        const hyp_io *io = input ? &e->inputs.items[i] : &e->outputs.items[i - e->inputs.count];
        size_t have = input ? c->buckets->own[i].bytes : c->own[i - e->inputs.count].bytes, wanted = io->element_bytes;
        if (input ? !c->buckets->rounds[i] : !is_grown(c, i - e->inputs.count)) continue;
        for (int32_t a = 0; a < io->info.rank; a++) wanted *= (size_t)c->values[p->tensors[io->tensor]->dims[a]];
        bytes += wanted > have ? wanted - have : 0;
    }
    return bytes;
}

size_t hyp_input_bytes(const hyp_context *c, size_t input)
{
    const hyp_pad *pad = c->buckets ? &c->buckets->pads[input] : NULL;
    if (!pad || !pad->used) return c->current->input_bytes[input];
    return hyp_pad_bytes(pad->dims, pad->rank, pad->element_bytes);
}

hyp_status hyp_buckets_take_input(hyp_context *c, size_t input, hyp_diag *diag)
{
    const hyp_pad *pad = &c->buckets->pads[input];
    hyp_own_output *own = &c->buckets->own[input];
    if (!pad->used || c->input_memory[input] != HYP_MEMORY_HOST) return HYP_OK;
    HYP_TRY(hyp_want_own(own, c->current->input_bytes[input], diag));
    hyp_pad_in(pad, own->data, c->inputs[input]);
    c->inputs[input] = own->data;
    return HYP_OK;
}
