/* fit.c - which values are computed again so that a plan fits into memory.
 *
 * A round lowers the graph and finds the step at which most bytes stand. A value that stands there, is not touched
 * there and is read later may go: whoever reads it after that step reads what is computed again from what stands
 * anyway. What that takes is known to the cost model; the values that give most bytes for a second go first, until a
 * sixteenth of the bytes is free, and the next round looks where most stand then.
 *
 * Chen et al. 2016 keep the values of every n-th layer; Checkmate (Jain et al. 2020) solves for the best choice, in
 * hours; DTR (Kirisame et al. 2021) is greedy as this is, by seconds, bytes and time since the last use, while a run
 * goes on. */
#include <stdlib.h>
#include <string.h>

#include "codegen/memory.h"

enum {
    MOST_ROUNDS = 256,
    PATIENCE = 6,     /* rounds that gain nothing before it is given up */
    SHARE = 16,       /* of all bytes that a round frees at most */
    MOST_NODES = 256, /* that are computed again for one value */
    LITTLE = 8        /* what is so many times as small as a value may stand longer for it */
};

/* A value that may go. */
typedef struct candidate {
    hyp_value_id value;
    uint32_t first_node, node_count; /* in `nodes`: what is computed again for it */
    int64_t freed; /* bytes at the peak */
    double area;   /* bytes times steps, of those at which nearly as much stands as at the peak */
    double seconds;
} candidate;

/* One round: a graph, its plan, and where most stands. */
typedef struct fit_round {
    const hyp_graph *g;
    const hyp_codegen_options *options;
    hyp_lowered lowered;
    hyp_arena arena;
    hyp_diag *diag;
    const hyp_stay **stays; /* by tensor; NULL: no scratch */
    hyp_value_id *values;   /* by tensor: the value that was computed into it, or HYP_NO_VALUE */
    uint32_t peak;          /* the step at which most bytes stand */
    int64_t peak_bytes;
    uint32_t *high;     /* by step: at how many steps before it less than a share of what stands at the peak is missing */
    uint32_t *last_use; /* by value: the last step before the peak that reads it, 0 where none does */
    uint32_t *next_use; /* by value: the first step behind the peak that reads it; HYP_NO_STEP: none does */
    bool *used;         /* by value: the step of the peak reads it */
    double *seconds;    /* by step: of what it computes; below 0: not known yet */
    uint32_t *members;  /* nodes by step; those of step s are from first_member[s] on */
    uint32_t *first_member;
    uint32_t *node_stamp, *value_stamp, stamp; /* what was looked at for a candidate */
    HYP_VEC(hyp_value_id) stack;
    HYP_VEC(hyp_node_id) nodes;
    HYP_VEC(candidate) candidates;
} fit_round;

static const hyp_node *node_at(const fit_round *r, hyp_node_id n) { return &r->g->nodes.data[n]; }

static uint32_t step_of(const fit_round *r, hyp_node_id n) { return r->lowered.node_steps[n]; }

bool hyp_can_compute_again(const hyp_node *node)
{
    return node->op != HYP_OP_all_reduce && !(hyp_op_get(node->op)->flags & HYP_OPF_OPAQUE);
}

/* ---- what plans take ------------------------------------------------------------------------------------ */

/* Sums that are beyond any size stay at the largest. */
static size_t sum_of(size_t a, size_t b) { return a < SIZE_MAX - b ? a + b : SIZE_MAX; }

static hyp_status add_up(const HypPlan__Program *p, hyp_footprint *out, hyp_diag *diag)
{
    const hyp_target *target = hyp_target_find(p->target);
    size_t constants, twice, state = hyp_plan_state_bytes(p, &twice);
    HYP_TRY(hyp_plan_constant_bytes(p, &constants, diag));
    out->variable_bytes = sum_of(state, twice);
    out->bytes = sum_of(sum_of(constants, out->variable_bytes), out->scratch_bytes);
    if (target) out->bytes = sum_of(out->bytes, target->workspace_bytes);
    return HYP_OK;
}

hyp_status hyp_footprint_of(const HypPlan__Program *p, hyp_footprint *out, hyp_diag *diag)
{
    if (p->n_typical_sizes != p->n_symbols)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "what memory a plan takes is said for typical sizes: none are known");
    int64_t *symbols = hyp_calloc(p->n_symbols + p->n_dims, sizeof *symbols);
    if (!symbols) return hyp_fail_memory(diag, (p->n_symbols + p->n_dims) * sizeof *symbols);
    int64_t *values = symbols + p->n_symbols;
    for (size_t i = 0; i < p->n_symbols; i++) symbols[i] = (int64_t)p->typical_sizes[i];
    out->seconds = hyp_plan_predicted(p);
    hyp_status status = hyp_plan_eval_dims(p, symbols, values, diag);
    if (status == HYP_OK) status = hyp_plan_scratch_bytes(p, values, &out->scratch_bytes, diag);
    if (status == HYP_OK) status = add_up(p, out, diag);
    hyp_free(symbols);
    return status;
}

/* `timed`: with its seconds, which take longer to find. */
static hyp_status find_footprint(const hyp_graph *graph, const hyp_codegen_options *options, bool timed, hyp_footprint *out,
                                 hyp_diag *diag)
{
    hyp_codegen_options quick = *options;
    hyp_lowered lowered;
    quick.explain = NULL;
    if (!timed) quick.predict = NULL;
    HYP_TRY(hyp_codegen_lower(graph, &quick, &lowered, diag));
    hyp_status status = hyp_footprint_of(lowered.program, out, diag);
    hyp_lowered_dispose(&lowered);
    return status;
}

hyp_status hyp_codegen_footprint(const hyp_graph *graph, const hyp_codegen_options *options, hyp_footprint *out,
                                 hyp_diag *diag)
{
    return find_footprint(graph, options, true, out, diag);
}

/* ---- where most stands ---------------------------------------------------------------------------------- */

static hyp_status find_peak(fit_round *r)
{
    size_t steps = r->lowered.program->n_steps;
    int64_t *change = hyp_arena_zalloc(&r->arena, steps + 2, sizeof *change), now = 0;
    r->high = hyp_arena_zalloc(&r->arena, steps + 2, sizeof *r->high);
    if (!change || !r->high) return hyp_fail_memory(r->diag, steps * sizeof *change);
    for (size_t i = 0; i < r->lowered.stay_count; i++) {
        const hyp_stay *s = &r->lowered.stays[i];
        if (s->first > s->last) continue;
        change[s->first] += s->bytes;
        change[s->last + 1] -= s->bytes;
    }
    for (uint32_t s = 0; s < steps; s++) {
        now += change[s];
        if (now <= r->peak_bytes) continue;
        r->peak_bytes = now;
        r->peak = s;
    }
    now = 0;
    for (uint32_t s = 0; s < steps; s++) {
        now += change[s];
        r->high[s + 1] = r->high[s] + (now > r->peak_bytes - r->peak_bytes / SHARE);
    }
    return HYP_OK;
}

/* Calls `each` for every value that a step gives and that is behind another one: that one, or what it moves or views. */
static hyp_status for_roots(fit_round *r, hyp_value_id v, hyp_status (*each)(fit_round *, hyp_value_id, void *), void *user)
{
    size_t base = r->stack.len;
    HYP_TRY(hyp_vec_push(&r->stack, r->diag, v));
    while (r->stack.len > base) {
        hyp_value_id next = r->stack.data[--r->stack.len];
        if (next == HYP_NO_VALUE || r->value_stamp[next] == r->stamp) continue;
        r->value_stamp[next] = r->stamp;
        const hyp_value *value = &r->g->values.data[next];
        if (value->kind != HYP_VALUE_NODE) continue;
        const hyp_node *node = node_at(r, value->producer);
        if (step_of(r, value->producer) != HYP_NO_STEP) {
            HYP_TRY(each(r, next, user));
            continue;
        }
        for (uint32_t i = 0; i < node->input_count; i++) HYP_TRY(hyp_vec_push(&r->stack, r->diag, node->inputs[i]));
    }
    return HYP_OK;
}

static hyp_status note_use(fit_round *r, hyp_value_id v, void *step)
{
    uint32_t at = *(const uint32_t *)step;
    if (at == r->peak) r->used[v] = true;
    if (at > r->peak && at < r->next_use[v]) r->next_use[v] = at;
    if (at < r->peak && at > r->last_use[v]) r->last_use[v] = at;
    return HYP_OK;
}

static hyp_status find_uses(fit_round *r)
{
    size_t values = r->g->values.len;
    r->next_use = hyp_arena_zalloc(&r->arena, values, sizeof *r->next_use);
    r->last_use = hyp_arena_zalloc(&r->arena, values, sizeof *r->last_use);
    r->used = hyp_arena_zalloc(&r->arena, values, sizeof *r->used);
    if (!r->next_use || !r->last_use || !r->used) return hyp_fail_memory(r->diag, values * sizeof *r->next_use);
    for (size_t v = 0; v < values; v++) r->next_use[v] = HYP_NO_STEP;
    for (hyp_node_id n = 0; n < r->g->nodes.len; n++) {
        uint32_t step = step_of(r, n);
        r->stamp++;
        for (uint32_t i = 0; i < node_at(r, n)->input_count && step != HYP_NO_STEP; i++)
            HYP_TRY(for_roots(r, node_at(r, n)->inputs[i], note_use, &step));
    }
    return HYP_OK;
}

static hyp_status list_members(fit_round *r)
{
    size_t steps = r->lowered.program->n_steps, nodes = r->g->nodes.len;
    r->first_member = hyp_arena_zalloc(&r->arena, steps + 2, sizeof *r->first_member);
    r->members = hyp_arena_zalloc(&r->arena, nodes, sizeof *r->members);
    r->seconds = hyp_arena_zalloc(&r->arena, steps, sizeof *r->seconds);
    if (!r->first_member || !r->members || !r->seconds) return hyp_fail_memory(r->diag, nodes * sizeof *r->members);
    for (size_t s = 0; s < steps; s++) r->seconds[s] = -1;
    for (hyp_node_id n = 0; n < nodes; n++)
        if (step_of(r, n) != HYP_NO_STEP) r->first_member[step_of(r, n) + 2]++;
    for (size_t s = 1; s <= steps; s++) r->first_member[s + 1] += r->first_member[s];
    for (hyp_node_id n = 0; n < nodes; n++) /* shifts the beginnings to where they belong */
        if (step_of(r, n) != HYP_NO_STEP) r->members[r->first_member[step_of(r, n) + 1]++] = n;
    return HYP_OK;
}

static hyp_status begin_round(fit_round *r)
{
    hyp_codegen_options quick = *r->options;
    size_t values = r->g->values.len, nodes = r->g->nodes.len;
    quick.predict = NULL;
    quick.explain = NULL;
    HYP_TRY(hyp_codegen_lower(r->g, &quick, &r->lowered, r->diag));
    const HypPlan__Program *p = r->lowered.program;
    r->stays = hyp_arena_zalloc(&r->arena, p->n_tensors, sizeof *r->stays);
    r->values = hyp_arena_zalloc(&r->arena, p->n_tensors, sizeof *r->values);
    r->node_stamp = hyp_arena_zalloc(&r->arena, nodes, sizeof *r->node_stamp);
    r->value_stamp = hyp_arena_zalloc(&r->arena, values, sizeof *r->value_stamp);
    if (!r->stays || !r->values || !r->node_stamp || !r->value_stamp) return hyp_fail_memory(r->diag, values);
    for (size_t t = 0; t < p->n_tensors; t++) r->values[t] = HYP_NO_VALUE;
    for (size_t i = 0; i < r->lowered.stay_count; i++) r->stays[r->lowered.stays[i].tensor] = &r->lowered.stays[i];
    for (hyp_value_id v = 0; v < values; v++) {
        const hyp_value *value = &r->g->values.data[v];
        uint32_t tensor_plus1 = r->lowered.value_tensors[v];
        bool computed = value->kind == HYP_VALUE_NODE && step_of(r, value->producer) != HYP_NO_STEP;
        if (tensor_plus1 && computed) r->values[tensor_plus1 - 1] = v;
    }
    HYP_TRY(find_peak(r));
    HYP_TRY(find_uses(r));
    return list_members(r);
}

static void end_round(fit_round *r)
{
    hyp_lowered_dispose(&r->lowered);
    hyp_arena_dispose(&r->arena);
    hyp_vec_free(&r->stack);
    hyp_vec_free(&r->nodes);
    hyp_vec_free(&r->candidates);
}

/* ---- candidates ----------------------------------------------------------------------------------------- */

static hyp_status seconds_of_step(fit_round *r, uint32_t step, double *out)
{
    const hyp_node *nodes[HYP_PLAN_POINTWISE_REGISTERS];
    size_t count = 0;
    if (r->seconds[step] < 0) {
        for (uint32_t i = r->first_member[step]; i < r->first_member[step + 1] && count < HYP_PLAN_POINTWISE_REGISTERS; i++)
            nodes[count++] = node_at(r, r->members[i]);
        HYP_TRY(r->options->predict(r->g, nodes, count, r->options->predict_user, &r->seconds[step], r->diag));
    }
    *out = r->seconds[step];
    return HYP_OK;
}

/* At how many of the high steps something stands, or does not, that does so behind one step and before another. */
static double high_between(const fit_round *r, uint32_t behind, uint32_t before)
{
    return behind + 1 < before ? (double)(r->high[before] - r->high[behind + 1]) : 0;
}

/* A candidate on its way. */
typedef struct search {
    uint32_t use; /* the step for which it is computed again */
    bool possible;
    candidate found;
} search;

static hyp_status add_node(fit_round *r, search *s, hyp_node_id n)
{
    if (r->node_stamp[n] == r->stamp) return HYP_OK;
    r->node_stamp[n] = r->stamp;
    bool fits = hyp_can_compute_again(node_at(r, n)) && r->nodes.len - s->found.first_node < MOST_NODES;
    s->possible = s->possible && fits;
    return hyp_vec_push(&r->nodes, r->diag, n);
}

/* What a node that is computed again reads: it stands then anyway, stands longer for it, or is computed again, too. */
static hyp_status add_need(fit_round *r, hyp_value_id v, void *user)
{
    search *s = user;
    hyp_node_id n = r->g->values.data[v].producer;
    uint32_t tensor_plus1 = r->lowered.value_tensors[v];
    const HypPlan__Program *p = r->lowered.program;
    if (!tensor_plus1) return add_node(r, s, n); /* it was only there within a step */
    if (p->tensors[tensor_plus1 - 1]->place == HYP_PLAN__PLACE__PLACE_OUTPUT) return HYP_OK;
    const hyp_stay *stay = r->stays[hyp_plan_root(p, tensor_plus1 - 1)];
    if (!stay || stay->last >= s->use) return HYP_OK;
    const hyp_stay *own = r->stays[r->lowered.value_tensors[s->found.value] - 1];
    bool little = stay->bytes <= own->bytes / LITTLE || !hyp_can_compute_again(node_at(r, n));
    if (stay->last < r->peak && !little) return add_node(r, s, n);
    if (stay->last < r->peak) s->found.freed -= stay->bytes;
    s->found.area -= (double)stay->bytes * high_between(r, stay->last, s->use);
    return HYP_OK;
}

/* What of a step's nodes is computed again is priced as all of them. */
static hyp_status price(fit_round *r, search *s)
{
    for (size_t i = s->found.first_node; i < r->nodes.len; i++) {
        uint32_t step = step_of(r, r->nodes.data[i]);
        double seconds = 0;
        bool first = true;
        for (size_t k = s->found.first_node; k < i && first; k++) first = step_of(r, r->nodes.data[k]) != step;
        if (first) HYP_TRY(seconds_of_step(r, step, &seconds));
        s->found.seconds += seconds;
    }
    return HYP_OK;
}

static hyp_status try_value(fit_round *r, hyp_value_id v, const hyp_stay *stay)
{
    search s = {.use = r->next_use[v],
                .possible = true,
                .found = {.value = v, .first_node = (uint32_t)r->nodes.len, .freed = stay->bytes}};
    uint32_t early = r->last_use[v] > stay->first ? r->last_use[v] : stay->first;
    s.found.area = (double)stay->bytes * high_between(r, early, s.use);
    r->stamp++;
    HYP_TRY(add_node(r, &s, r->g->values.data[v].producer));
    for (size_t i = s.found.first_node; i < r->nodes.len && s.possible; i++) {
        const hyp_node *node = node_at(r, r->nodes.data[i]);
        for (uint32_t k = 0; k < node->input_count; k++) HYP_TRY(for_roots(r, node->inputs[k], add_need, &s));
    }
    s.possible = s.possible && s.found.freed > 0 && s.found.area > 0;
    if (s.possible) HYP_TRY(price(r, &s));
    s.found.node_count = (uint32_t)r->nodes.len - s.found.first_node;
    if (s.possible) return hyp_vec_push(&r->candidates, r->diag, s.found);
    r->nodes.len = s.found.first_node;
    return HYP_OK;
}

/* Most for a second first. */
static int by_worth(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    double left = x->area * y->seconds, right = y->area * x->seconds;
    if (left != right) return left > right ? -1 : 1;
    if (x->freed != y->freed) return x->freed > y->freed ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

static hyp_status find_candidates(fit_round *r)
{
    for (size_t i = 0; i < r->lowered.stay_count; i++) {
        const hyp_stay *stay = &r->lowered.stays[i];
        hyp_value_id v = r->values[stay->tensor];
        if (v == HYP_NO_VALUE || stay->first >= r->peak || stay->last <= r->peak) continue;
        if (r->used[v] || r->next_use[v] == HYP_NO_STEP || step_of(r, r->g->values.data[v].producer) >= r->peak) continue;
        HYP_TRY(try_value(r, v, stay));
    }
    if (r->candidates.len) qsort(r->candidates.data, r->candidates.len, sizeof *r->candidates.data, by_worth);
    return HYP_OK;
}

/* How many of them, from the best on, free a share of what stands. */
static size_t count_for_share(const fit_round *r)
{
    int64_t freed = 0;
    size_t count = 0;
    while (count < r->candidates.len && freed < r->peak_bytes / SHARE) freed += r->candidates.data[count++].freed;
    return count;
}

static hyp_status compute_again(fit_round *r, size_t count, hyp_graph *out)
{
    size_t nodes = r->g->nodes.len, at = 0;
    bool *flags = hyp_calloc(3 * nodes, sizeof *flags), *again = flags, *late = flags + nodes, *follows = late + nodes;
    hyp_node_id *order = hyp_calloc(nodes, sizeof *order);
    hyp_status status = flags && order ? HYP_OK : hyp_fail_memory(r->diag, nodes * sizeof *order);
    if (status == HYP_OK) {
        for (size_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < r->candidates.data[i].node_count; k++)
                again[r->nodes.data[r->candidates.data[i].first_node + k]] = true;
        for (uint32_t i = 0; i < r->first_member[r->lowered.program->n_steps]; i++) order[at++] = r->members[i];
        for (hyp_node_id n = 0; n < nodes; n++) {
            follows[n] = step_of(r, n) == HYP_NO_STEP;
            late[n] = !follows[n] && step_of(r, n) > r->peak;
            if (follows[n]) order[at++] = n;
        }
        status = hyp_graph_compute_again(r->g, &(hyp_again){again, late, follows, order}, out, r->diag);
    }
    hyp_free(flags);
    hyp_free(order);
    return status;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

typedef struct fit {
    const hyp_codegen_options *options;
    size_t budget;
    hyp_graph now, best; /* `best` has the least bytes so far */
    size_t best_bytes;
    hyp_diag *diag;
} fit;

static hyp_status measure(const fit *f, const hyp_graph *g, size_t *out_bytes)
{
    hyp_footprint found;
    HYP_TRY(find_footprint(g, f->options, false, &found, f->diag));
    *out_bytes = found.bytes;
    return HYP_OK;
}

static void take(hyp_graph *to, hyp_graph *from)
{
    hyp_graph_dispose(to);
    *to = *from;
    hyp_graph_init(from, to->dims);
}

/* Of the choices of a round that fits the fewest, from the best on, that do; `next` has all of them. */
static hyp_status use_fewer(const fit *f, fit_round *r, size_t count, hyp_graph *next, size_t *bytes)
{
    size_t low = 0; /* so many do not fit */
    while (count - low > 1) {
        size_t middle = low + (count - low) / 2, found;
        hyp_graph fewer;
        HYP_TRY(compute_again(r, middle, &fewer));
        hyp_status status = measure(f, &fewer, &found);
        if (status == HYP_OK && found <= f->budget) {
            take(next, &fewer);
            *bytes = found;
            count = middle;
        } else {
            low = middle;
        }
        hyp_graph_dispose(&fewer);
        HYP_TRY(status);
    }
    return HYP_OK;
}

/* One round; *out_any is false where nothing can go. */
static hyp_status go_on(fit *f, bool *out_any, size_t *out_bytes)
{
    fit_round r = {.g = &f->now, .options = f->options, .diag = f->diag};
    hyp_graph next;
    hyp_graph_init(&next, f->now.dims);
    hyp_status status = begin_round(&r);
    if (status == HYP_OK) status = find_candidates(&r);
    size_t count = status == HYP_OK ? count_for_share(&r) : 0;
    *out_any = count > 0;
    if (count) status = compute_again(&r, count, &next);
    if (status == HYP_OK && count) status = measure(f, &next, out_bytes);
    if (status == HYP_OK && count && *out_bytes <= f->budget) status = use_fewer(f, &r, count, &next, out_bytes);
    end_round(&r);
    if (status == HYP_OK && count) take(&f->now, &next);
    hyp_graph_dispose(&next);
    return status;
}

static hyp_status remember_best(fit *f, size_t bytes)
{
    hyp_graph copy;
    HYP_TRY(hyp_graph_copy_live(&f->now, &copy, f->diag));
    take(&f->best, &copy);
    f->best_bytes = bytes;
    return HYP_OK;
}

static hyp_status refuse(const fit *f, const hyp_graph *in)
{
    hyp_footprint kept, least;
    HYP_TRY(hyp_codegen_footprint(in, f->options, &kept, f->diag));
    HYP_TRY(hyp_codegen_footprint(&f->best, f->options, &least, f->diag));
    if (least.bytes >= kept.bytes)
        return hyp_fail(f->diag, HYP_ERR_INVALID_ARGUMENT,
                        "the plan takes %zu bytes of memory, %zu of them scratch memory, and --memory-budget gives it %zu; there "
                        "is nothing to compute again that would make it less: give it more, or the model smaller inputs",
                        kept.bytes, kept.scratch_bytes, f->budget);
    return hyp_fail(f->diag, HYP_ERR_INVALID_ARGUMENT,
                    "the plan takes %zu bytes of memory, %zu of them scratch memory, and --memory-budget gives it %zu; computing "
                    "values again, %zu is the least that was found, with %.4g us for a run instead of %.4g us: give it as much, "
                    "or the model smaller inputs",
                    kept.bytes, kept.scratch_bytes, f->budget, least.bytes, least.seconds * 1e6, kept.seconds * 1e6);
}

static hyp_status find_fit(fit *f, const hyp_graph *in)
{
    size_t bytes, idle = 0;
    bool any = true;
    HYP_TRY(measure(f, &f->now, &bytes));
    HYP_TRY(remember_best(f, bytes));
    for (int round = 0; round < MOST_ROUNDS && bytes > f->budget && any && idle < PATIENCE; round++) {
        HYP_TRY(go_on(f, &any, &bytes));
        idle = bytes < f->best_bytes ? 0 : idle + 1;
        if (!idle) HYP_TRY(remember_best(f, bytes));
    }
    return bytes > f->budget ? refuse(f, in) : HYP_OK;
}

hyp_status hyp_codegen_fit(const hyp_graph *in, const hyp_codegen_options *options, size_t budget, hyp_graph *out,
                           hyp_diag *diag)
{
    fit f = {.options = options, .budget = budget, .diag = diag};
    hyp_graph_init(&f.best, in->dims);
    HYP_TRY(hyp_graph_copy_live(in, &f.now, diag));
    hyp_status status = find_fit(&f, in);
    hyp_graph_dispose(&f.best);
    if (status == HYP_OK)
        *out = f.now;
    else
        hyp_graph_dispose(&f.now);
    return status;
}
