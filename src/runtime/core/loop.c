#include "runtime/core/loop.h"

#include <string.h>

#include "base/dtype.h"
#include "base/loop.h"

/* MOST_BODIES: of a plan, those within bodies, too: each is an engine, though steps may share its bytes. */
enum { MOST_BODIES = 256, ALIGN = 64 };

/* One loop in a context. Arrays are in the context's arena. */
struct hyp_loop_state {
    const hyp_custom_step *step;
    hyp_context *around, *body;
    hyp_tensor *in, *out; /* of a trip: the inputs and outputs of the body */
    uint8_t **spare;      /* by carried value: the second place for it, beside the step's output */
    uint8_t *block;       /* all of these */
    size_t block_bytes;
};

/* ---- the bodies of an engine ----------------------------------------------------------------------------------- */

static hyp_status read_number(const HypPlan__Custom *k, const char *name, int64_t low, int64_t high, int64_t *out,
                              hyp_diag *diag)
{
    for (size_t i = 0; i < k->n_attrs; i++) {
        const HypPlan__Custom__Attr *a = k->attrs[i];
        if (strcmp(a->name, name) != 0) continue;
        if (a->kind != HYP_PLAN__CUSTOM__ATTR__KIND__INTS || a->n_ints != 1 || a->ints[0] < low || a->ints[0] > high)
            break;
        *out = a->ints[0];
        return HYP_OK;
    }
    return hyp_fail(diag, HYP_ERR_MALFORMED, "a loop has no number '%s' from %lld to %lld", name, (long long)low,
                    (long long)high);
}

/* How many values a trip is given besides its number and the condition. */
static size_t given_to(const HypPlan__Call *call)
{
    return call->n_inputs_plus1 > HYP_LOOP_FIRST ? call->n_inputs_plus1 - HYP_LOOP_FIRST : 0;
}

hyp_status hyp_loop_read(const HypPlan__Program *p, const HypPlan__Custom *k, hyp_loop_shape *out, hyp_diag *diag)
{
    const HypPlan__Call *call = k->call;
    const size_t in = given_to(call), outs = call->n_outputs;
    int64_t carried, collected, counts, most;
    HYP_TRY(read_number(k, HYP_LOOP_CARRIED, 0, HYP_PLAN_CUSTOM_INPUTS, &carried, diag));
    HYP_TRY(read_number(k, HYP_LOOP_COLLECTED, 0, HYP_PLAN_CUSTOM_OUTPUTS, &collected, diag));
    HYP_TRY(read_number(k, HYP_LOOP_COUNTS, 0, 1, &counts, diag));
    HYP_TRY(read_number(k, HYP_LOOP_MOST, -1, INT64_MAX, &most, diag));
    const uint32_t tensor_plus1 = hyp_plan_call_input(call, HYP_LOOP_PLAN);
    bool fits = tensor_plus1 && in >= (size_t)carried && outs == (size_t)(carried + collected + counts);
    for (size_t i = 0; fits && i < in; i++) fits = call->inputs_plus1[HYP_LOOP_FIRST + i] != 0;
    const HypPlan__Tensor *plan = fits ? p->tensors[tensor_plus1 - 1] : NULL;
    if (!plan || plan->place != HYP_PLAN__PLACE__PLACE_WEIGHT)
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "a loop has %zu inputs and %zu outputs, and no plan among them as it should",
                        call->n_inputs_plus1, outs);
    *out = (hyp_loop_shape){(uint32_t)carried, (uint32_t)collected, counts != 0, most, tensor_plus1 - 1};
    return HYP_OK;
}

static hyp_status wrong(const HypPlan__Tensor *t, const char *what, hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_MALFORMED, "its tensor '%s' is not %s", t->name, what);
}

/* One element of this type. */
static hyp_status want_one(const HypPlan__Program *p, uint32_t tensor, hyp_dtype dtype, hyp_diag *diag)
{
    const HypPlan__Tensor *t = p->tensors[tensor];
    bool one = t->dtype == (uint32_t)dtype;
    for (size_t a = 0; a < t->n_dims; a++) {
        const HypPlan__Dim *d = p->dims[t->dims[a]];
        one = one && d->kind == HYP_PLAN__DIM__KIND__CONST && d->value == 1;
    }
    return one ? HYP_OK : wrong(t, dtype == HYP_BOOL ? "one bool" : "one i64", diag);
}

static hyp_status want_type(const HypPlan__Program *p, uint32_t tensor, const hyp_io_info *io, int32_t more_axes,
                            hyp_diag *diag)
{
    const HypPlan__Tensor *t = p->tensors[tensor];
    bool same = t->dtype == (uint32_t)io->dtype && t->n_dims == (size_t)(io->rank + more_axes);
    return same ? HYP_OK : wrong(t, "of the type that the body has for it", diag);
}

/* That the step and the body have the same tensors; of dims this is seen when they have values. */
static hyp_status check_body(const hyp_engine *e, const HypPlan__Custom *k, const hyp_loop_shape *s,
                             const hyp_engine *body, hyp_diag *diag)
{
    const HypPlan__Program *p = e->plan.program;
    const HypPlan__Call *call = k->call;
    size_t given = given_to(call), results = s->carried + s->collected;
    if (body->inputs.count != 2 + given || body->outputs.count != 1 + results || body->variables.count ||
        body->plan.program->hidden_outputs)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "its body has %zu inputs and %zu outputs, wanted are %zu and %zu",
                        body->inputs.count, body->outputs.count, 2 + given, 1 + results);
    HYP_TRY(want_one(body->plan.program, body->inputs.items[0].tensor, HYP_I64, diag));
    HYP_TRY(want_one(body->plan.program, body->inputs.items[1].tensor, HYP_BOOL, diag));
    HYP_TRY(want_one(body->plan.program, body->outputs.items[0].tensor, HYP_BOOL, diag));
    for (size_t i = 0; i < given; i++)
        HYP_TRY(want_type(p, call->inputs_plus1[HYP_LOOP_FIRST + i] - 1, &body->inputs.items[2 + i].info, 0, diag));
    for (size_t o = 0; o < results; o++)
        HYP_TRY(want_type(p, call->outputs[o], &body->outputs.items[1 + o].info, o >= s->carried, diag));
    uint32_t trips = hyp_plan_call_input(call, HYP_LOOP_TRIPS), first = hyp_plan_call_input(call, HYP_LOOP_CONDITION);
    if (trips) HYP_TRY(want_one(p, trips - 1, HYP_I64, diag));
    if (first) HYP_TRY(want_one(p, first - 1, HYP_BOOL, diag));
    return s->counts ? want_one(p, call->outputs[results], HYP_I64, diag) : HYP_OK;
}

static hyp_status load_body(hyp_engine *e, size_t step, const hyp_engine_options *options, hyp_diag *diag)
{
    const hyp_custom_step *s = e->plan.custom[step];
    const HypPlan__Custom *k = e->plan.program->steps[step]->custom;
    const HypPlan__Tensor *t = e->plan.program->tensors[s->loop.plan];
    if (e->depth == HYP_LOOP_DEEPEST || e->root->body_count == MOST_BODIES)
        return hyp_fail(diag, HYP_ERR_LIMIT, "a plan has at most %d loops that are run, nested %d deep", MOST_BODIES,
                        HYP_LOOP_DEEPEST);
    e->root->body_count++;
    HYP_TRY(hyp_engine_load_within(e, hyp_plan_weight(&e->plan, s->loop.plan), (size_t)t->bytes, options,
                                   &e->bodies[step], diag));
    return check_body(e, k, &s->loop, e->bodies[step], diag);
}

hyp_status hyp_loops_load(hyp_engine *e, const hyp_engine_options *options, hyp_diag *diag)
{
    const HypPlan__Program *p = e->plan.program;
    for (size_t i = 0; e->plan.custom && i < p->n_steps; i++) {
        if (!e->plan.custom[i] || !e->plan.custom[i]->is_loop) continue;
        if (!e->bodies) e->bodies = hyp_arena_zalloc(&e->arena, p->n_steps, sizeof(hyp_engine *));
        if (!e->bodies) return hyp_fail_memory(diag, p->n_steps * sizeof *e->bodies);
        hyp_status status = load_body(e, i, options, diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %zu, the body of loop '%s'", i, e->plan.custom[i]->node);
        return status;
    }
    return HYP_OK;
}

void hyp_loops_unload(hyp_engine *e)
{
    for (size_t i = 0; e->bodies && i < e->plan.program->n_steps; i++) hyp_engine_destroy(e->bodies[i]);
}

bool hyp_is_loop(const HypPlan__Step *s)
{
    return s->kernel_case == HYP_PLAN__STEP__KERNEL_CUSTOM && strcmp(s->custom->domain, HYP_LOOP_DOMAIN) == 0 &&
           strcmp(s->custom->call->kernel, HYP_LOOP_NAME) == 0;
}

hyp_status hyp_loops_bound(const hyp_plan *plan, const hyp_backend *backend, int depth, size_t *bodies, size_t *bytes,
                           hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    const hyp_plan_open_options seen = {.header_only = true}; /* whatever it is, loading it will tell */
    for (size_t i = 0; i < p->n_steps && depth < HYP_LOOP_DEEPEST; i++) {
        hyp_loop_shape shape;
        hyp_plan body;
        if (!hyp_is_loop(p->steps[i]) || (*bodies)++ >= MOST_BODIES) continue;
        HYP_TRY(hyp_loop_read(p, p->steps[i]->custom, &shape, diag));
        size_t before = hyp_mem_used(hyp_mem_charged());
        HYP_TRY(hyp_plan_open_memory(hyp_plan_weight(plan, shape.plan), (size_t)p->tensors[shape.plan]->bytes,
                                     "body of a loop", &seen, &body, diag));
        *bytes += hyp_mem_used(hyp_mem_charged()) - before + hyp_engine_bound(&body, backend);
        hyp_status status = hyp_loops_bound(&body, backend, depth + 1, bodies, bytes, diag);
        hyp_plan_close(&body);
        HYP_TRY(status);
    }
    return HYP_OK;
}

/* ---- the loops of a context ------------------------------------------------------------------------------------ */

static hyp_status create(hyp_context *c, size_t step, hyp_diag *diag)
{
    hyp_engine *body = c->engine->bodies[step];
    const hyp_context_options options = {
        .size = sizeof options, .work_limit = c->options.work_limit, .shapes = c->options.shapes};
    hyp_loop_state *l = hyp_arena_zalloc(&c->arena, 1, sizeof *l);
    if (!l) return hyp_fail_memory(diag, sizeof *l);
    c->loops[step] = l;
    l->step = c->engine->plan.custom[step];
    l->around = c;
    l->in = hyp_arena_zalloc(&c->arena, body->inputs.count, sizeof *l->in);
    l->out = hyp_arena_zalloc(&c->arena, body->outputs.count, sizeof *l->out);
    l->spare = hyp_arena_zalloc(&c->arena, l->step->loop.carried, sizeof *l->spare);
    if (!l->in || !l->out || !l->spare) return hyp_fail_memory(diag, body->inputs.count * sizeof *l->in);
    for (size_t i = 0; i < body->inputs.count; i++) l->in[i].dtype = body->inputs.items[i].info.dtype;
    for (size_t i = 0; i < body->outputs.count; i++) l->out[i].dtype = body->outputs.items[i].info.dtype;
    return hyp_context_create_within(c, body, &options, &l->body, diag);
}

hyp_status hyp_loops_create(hyp_context *c, hyp_diag *diag)
{
    const size_t steps = c->engine->plan.program->n_steps;
    if (!c->engine->bodies) return HYP_OK;
    c->loops = hyp_arena_zalloc(&c->arena, steps, sizeof *c->loops);
    if (!c->loops) return hyp_fail_memory(diag, steps * sizeof *c->loops);
    for (size_t i = 0; i < steps; i++)
        if (c->engine->bodies[i]) HYP_TRY(create(c, i, diag));
    return HYP_OK;
}

void hyp_loops_dispose(hyp_context *c)
{
    for (size_t i = 0; c->loops && i < c->engine->plan.program->n_steps; i++) {
        if (!c->loops[i]) continue;
        hyp_context_destroy(c->loops[i]->body);
        hyp_aligned_free(c->loops[i]->block);
    }
}

size_t hyp_loops_scratch_bytes(const hyp_context *c)
{
    size_t bytes = 0;
    for (size_t i = 0; c->loops && i < c->engine->plan.program->n_steps; i++)
        if (c->loops[i]) bytes += c->loops[i]->block_bytes + hyp_context_scratch_bytes(c->loops[i]->body);
    return bytes;
}

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

/* The shape of a tensor of the plan, from axis `first` on; what bytes there are was checked. */
static size_t set_shape(const HypPlan__Program *p, uint32_t tensor, const int64_t *values, size_t first,
                        hyp_tensor *out)
{
    const HypPlan__Tensor *t = p->tensors[tensor];
    size_t bytes = hyp_dtype_size(out->dtype);
    out->rank = (int32_t)(t->n_dims - first);
    for (size_t a = first; a < t->n_dims; a++) {
        out->dims[a - first] = values[t->dims[a]];
        bytes *= (size_t)values[t->dims[a]];
    }
    return out->bytes = bytes;
}

static void set_inputs(const hyp_loop_state *l, const int64_t *values)
{
    const HypPlan__Call *call = l->step->call;
    for (size_t i = 0; i < 2; i++) {
        l->in[i].rank = l->body->engine->inputs.items[i].info.rank;
        for (int32_t a = 0; a < l->in[i].rank; a++) l->in[i].dims[a] = 1;
        l->in[i].bytes = hyp_dtype_size(l->in[i].dtype);
    }
    for (size_t i = 0; i < given_to(call); i++)
        set_shape(l->step->program, call->inputs_plus1[HYP_LOOP_FIRST + i] - 1, values, 0, &l->in[2 + i]);
}

/* What the body gives for the inputs that are set has to be what the plan has for it. */
static hyp_status check_shapes(const hyp_loop_state *l, const int64_t *values, hyp_diag *diag)
{
    const hyp_loop_shape *s = &l->step->loop;
    const hyp_engine *body = l->body->engine;
    HYP_TRY(hyp_context_output_shapes(l->body, l->in, body->inputs.count, l->out, body->outputs.count, diag));
    for (size_t o = 0; o < s->carried + s->collected; o++) {
        const hyp_tensor *gives = &l->out[1 + o];
        hyp_tensor wanted = {.dtype = gives->dtype};
        set_shape(l->step->program, l->step->call->outputs[o], values, o >= s->carried, &wanted);
        size_t size = (size_t)wanted.rank * sizeof *wanted.dims;
        bool same = memcmp(gives->dims, wanted.dims, size) == 0;
        if (o < s->carried) same = same && memcmp(l->in[2 + o].dims, wanted.dims, size) == 0;
        if (!same)
            return hyp_fail(diag, HYP_ERR_MALFORMED,
                            "a trip of loop '%s' gives another shape of output %zu than the plan has", l->step->node,
                            o);
    }
    return HYP_OK;
}

static size_t spare_room(const hyp_loop_state *l, size_t i) { return (l->in[2 + i].bytes + ALIGN - 1) / ALIGN * ALIGN; }

static size_t spare_bytes(const hyp_loop_state *l)
{
    size_t bytes = 0;
    for (size_t i = 0; i < l->step->loop.carried; i++) bytes += spare_room(l, i);
    return bytes;
}

static hyp_status prepare(hyp_loop_state *l, const int64_t *values, hyp_diag *diag)
{
    set_inputs(l, values);
    HYP_TRY(check_shapes(l, values, diag));
    HYP_TRY(hyp_context_reserve(l->body, l->in, l->body->engine->inputs.count, diag));
    size_t bytes = spare_bytes(l);
    if (bytes <= l->block_bytes) return HYP_OK;
    uint8_t *block = hyp_aligned_alloc(ALIGN, bytes);
    if (!block) return hyp_fail_memory(diag, bytes);
    hyp_aligned_free(l->block);
    l->block = block;
    l->block_bytes = bytes;
    return HYP_OK;
}

hyp_status hyp_loops_prepare(hyp_context *c, const int64_t *values, hyp_diag *diag)
{
    for (size_t i = 0; c->loops && i < c->engine->plan.program->n_steps; i++)
        if (c->loops[i]) HYP_TRY(prepare(c->loops[i], values, diag));
    return HYP_OK;
}

void hyp_loops_renew(hyp_context *c, const int64_t *values)
{
    for (size_t i = 0; c->loops && i < c->engine->plan.program->n_steps; i++) {
        if (!c->loops[i]) continue;
        set_inputs(c->loops[i], values);
        hyp_context_renew(c->loops[i]->body, c->loops[i]->in);
    }
}

hyp_status hyp_loops_measure(hyp_context *c, const int64_t *values, size_t *bytes, hyp_diag *diag)
{
    for (size_t i = 0; c->loops && i < c->engine->plan.program->n_steps; i++) {
        hyp_loop_state *l = c->loops[i];
        size_t needed;
        if (!l) continue;
        set_inputs(l, values);
        HYP_TRY(check_shapes(l, values, diag));
        HYP_TRY(hyp_context_memory_needed(l->body, l->in, l->body->engine->inputs.count, &needed, diag));
        *bytes += needed - hyp_context_memory_bytes(l->body);
        if (spare_bytes(l) > l->block_bytes) *bytes += spare_bytes(l) - l->block_bytes;
    }
    return HYP_OK;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

/* What a loop is at, while it runs. */
typedef struct trips {
    const hyp_loop_state *l;
    void *const *at;
    int64_t most, rows, trip;
    uint8_t goes_on; /* a HYP_BOOL: what a body computes need not be 0 or 1 */
} trips;

static void *output_of(const trips *t, size_t o) { return t->at[t->l->step->call->outputs[o]]; }

static const void *input_of(const trips *t, size_t i)
{
    uint32_t tensor_plus1 = hyp_plan_call_input(t->l->step->call, i);
    return tensor_plus1 ? t->at[tensor_plus1 - 1] : NULL;
}

/* How many trips there are, by what comes before the first one. */
static hyp_status begin(trips *t, const int64_t *values, hyp_diag *diag)
{
    const hyp_loop_state *l = t->l;
    const hyp_loop_shape *s = &l->step->loop;
    const HypPlan__Program *p = l->step->program;
    const void *most = input_of(t, HYP_LOOP_TRIPS), *condition = input_of(t, HYP_LOOP_CONDITION);
    t->most = most ? hyp_load_i64(HYP_I64, most, 0) : INT64_MAX;
    t->goes_on = !condition || hyp_load_i64(HYP_BOOL, condition, 0);
    t->rows = INT64_MAX;
    size_t spare = 0; /* of the block, which is not there where all of it are 0 bytes */
    for (size_t i = 0; i < given_to(l->step->call); i++)
        l->in[2 + i].data = (void *)(uintptr_t)input_of(t, HYP_LOOP_FIRST + i);
    for (size_t i = 0; i < s->carried; i++) {
        l->spare[i] = l->block ? l->block + spare : NULL;
        spare += spare_room(l, i);
        l->out[1 + i].bytes = l->in[2 + i].bytes;
    }
    l->in[0].data = &t->trip;
    l->in[1].data = &t->goes_on;
    for (size_t i = s->carried; i < s->carried + s->collected; i++) {
        const HypPlan__Tensor *rows = p->tensors[l->step->call->outputs[i]];
        t->rows = values[rows->dims[0]];
        set_shape(p, l->step->call->outputs[i], values, 1, &l->out[1 + i]);
    }
    for (size_t i = s->carried; i < s->carried + s->collected; i++)
        if (values[p->tensors[l->step->call->outputs[i]]->dims[0]] != t->rows)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "its results are not of as many trips");
    return HYP_OK;
}

static hyp_status too_many(const trips *t, hyp_diag *diag)
{
    const hyp_loop_shape *s = &t->l->step->loop;
    int64_t most = s->most >= 0 && s->most < t->rows ? s->most : t->rows;
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "there is another trip behind %lld, the most that the plan was compiled for: hypatiac --loop-limit",
                    (long long)most);
}

/* A trip counts as much as what a run of the body may do, and one more. */
static hyp_status take_work(const trips *t, hyp_diag *diag)
{
    hyp_context *root = t->l->around->root;
    const hyp_context *body = t->l->body;
    if (!(root->options.work_limit > 0)) return HYP_OK;
    root->work_left -= 1 + hyp_run_work(body->engine->plan.program, body->current->values);
    if (root->work_left >= 0) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "the trips of loops are more work than options->work_limit, %g: raise it, or run less",
                    root->options.work_limit);
}

static hyp_status run_trip(trips *t, hyp_diag *diag)
{
    const hyp_loop_state *l = t->l;
    const hyp_loop_shape *s = &l->step->loop;
    for (size_t i = 0; i < s->carried; i++) l->out[1 + i].data = t->trip % 2 ? l->spare[i] : (uint8_t *)output_of(t, i);
    for (size_t i = s->carried; i < s->carried + s->collected; i++)
        l->out[1 + i].data = (uint8_t *)output_of(t, i) + (size_t)t->trip * l->out[1 + i].bytes;
    uint8_t next = 0;
    l->out[0].data = &next;
    l->out[0].bytes = sizeof next;
    HYP_TRY(hyp_run_tensors(l->body, l->in, l->body->engine->inputs.count, l->out, l->body->engine->outputs.count, NULL,
                            NULL, diag));
    t->goes_on = next;
    for (size_t i = 0; i < s->carried; i++) l->in[2 + i].data = l->out[1 + i].data;
    return take_work(t, diag);
}

/* Results are where the last trip has put them; rows that no trip has given are zeros. */
static void finish(const trips *t)
{
    const hyp_loop_state *l = t->l;
    const hyp_loop_shape *s = &l->step->loop;
    for (size_t i = 0; i < s->carried; i++)
        if (l->in[2 + i].bytes && l->in[2 + i].data != output_of(t, i))
            memcpy(output_of(t, i), l->in[2 + i].data, l->in[2 + i].bytes);
    for (size_t i = s->carried; i < s->carried + s->collected; i++) {
        size_t bytes = l->out[1 + i].bytes;
        if (bytes && t->rows > t->trip)
            memset((uint8_t *)output_of(t, i) + (size_t)t->trip * bytes, 0, (size_t)(t->rows - t->trip) * bytes);
    }
    if (s->counts) memcpy(output_of(t, s->carried + s->collected), &t->trip, sizeof t->trip);
}

hyp_status hyp_loop_run(const hyp_loop_state *l, const int64_t *values, void *const *at, hyp_diag *diag)
{
    trips t = {.l = l, .at = at};
    const hyp_loop_shape *s = &l->step->loop;
    const atomic_bool *cancelled = &l->around->root->cancelled;
    set_inputs(l, values);
    HYP_TRY(begin(&t, values, diag));
    for (; t.trip < t.most && t.goes_on; t.trip++) {
        if (t.trip == t.rows || t.trip == s->most) return too_many(&t, diag);
        if (atomic_load_explicit(cancelled, memory_order_relaxed))
            return hyp_fail(diag, HYP_ERR_CANCELLED, "the run was cancelled before trip %lld: hyp_context_cancel",
                            (long long)t.trip);
        hyp_status status = run_trip(&t, diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "trip %lld", (long long)t.trip);
        return status;
    }
    if (s->collected && !s->counts && t.trip != t.rows)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "there were %lld trips, the plan has results of %lld",
                        (long long)t.trip, (long long)t.rows);
    finish(&t);
    return HYP_OK;
}
