/* order.c - in which order steps run, so that little stands in memory at once.
 *
 * Steps are asked for from the outputs on, each right after what it needs and did not have yet. Outputs that need
 * little come before those that need more: so the update of a layer comes while the backward pass is at this layer,
 * whatever the order of the parameters, and not when all that it reads of both passes has stood to the end. Of what one
 * step needs either comes first what needs most itself, so that the results of the others need not wait for it (Sethi
 * and Ullman 1970, who count registers), or what needs least, as where a norm adds up what comes of each layer; both
 * are tried.
 *
 * The order of the nodes of the graph stays where that is as good. Units are what steps are made of: a node, or
 * elementwise nodes that are one step.
 *
 * Each of these orders is tried with the updates of variables at the end, too. There they may be done in place
 * (hyp_plan_find_in_place), so that variables take memory once, not twice; but all that they read stands until then,
 * gradients above all. */
#include <string.h>

#include "codegen/lower.h"

enum { MOST_WORDS = 1 << 23 }; /* of 64 bits, of all sets of units, one for each */
#define NO_UNIT UINT32_MAX

typedef struct unit {
    hyp_node_id last;                  /* its node, or the root of its group */
    uint32_t first_input, input_count; /* units that it needs, in `edges` */
    uint32_t first_read, read_count;   /* values that it reads, in `values` */
    uint32_t first_made, made_count;   /* scratch that it makes, in `values` */
    uint32_t needs_count;              /* units that it needs in all, itself included */
    uint32_t norm_plus1;               /* the unit that has to be right before it */
    bool update;                       /* it may come last, for all that it makes is what variables become */
} unit;

typedef struct ordering {
    hyp_lowering *l;
    unit *units;
    uint32_t count, words;   /* units; words of 64 bits in a set of them */
    uint32_t *unit_plus1;    /* by node */
    uint32_t *stamp;         /* by node: the unit + 1 that has seen it */
    HYP_VEC(uint32_t) edges;
    HYP_VEC(hyp_value_id) values;
    HYP_VEC(uint32_t) stack; /* units that were asked for and wait for others */
    int64_t *bytes;          /* by value that is scratch */
    int64_t doubled;         /* bytes of the variables that updates change, which are there twice unless those come last */
    uint32_t updates;        /* units */
    uint32_t *order;         /* units, as far as they have a place */
    uint32_t placed;
    bool *is_placed;         /* by unit */
} ordering;

static const hyp_node *node_at(const ordering *o, hyp_node_id n) { return &o->l->graph->nodes.data[n]; }

/* The node that computes a value when the plan runs, in steps or by what it reads; false where none does. */
static bool find_maker(const ordering *o, hyp_value_id v, hyp_node_id *out)
{
    if (v == HYP_NO_VALUE || hyp_lower_value(o->l, v)->kind != HYP_VALUE_NODE) return false;
    *out = hyp_lower_value(o->l, v)->producer;
    return !o->l->values[v].constant && (!o->l->values[v].listed || o->l->runs[*out]);
}

/* ---- units ------------------------------------------------------------------------------------------ */

static hyp_status list_units(ordering *o)
{
    hyp_lowering *l = o->l;
    size_t nodes = l->graph->nodes.len;
    o->unit_plus1 = hyp_arena_zalloc(&l->scratch, nodes, sizeof *o->unit_plus1);
    o->stamp = hyp_arena_zalloc(&l->scratch, nodes, sizeof *o->stamp);
    o->units = hyp_arena_zalloc(&l->scratch, nodes + 1, sizeof *o->units);
    if (!o->unit_plus1 || !o->stamp || !o->units) return hyp_fail_memory(l->diag, nodes * sizeof *o->units);
    for (hyp_node_id n = 0; n < nodes; n++) {
        bool is_last = !l->group_plus1[n] || l->groups.data[l->group_plus1[n] - 1].root == n;
        if (!l->runs[n] || !is_last) continue;
        o->units[o->count].last = n;
        o->unit_plus1[n] = ++o->count;
    }
    for (hyp_node_id n = 0; n < nodes; n++)
        if (l->group_plus1[n]) o->unit_plus1[n] = o->unit_plus1[l->groups.data[l->group_plus1[n] - 1].root];
    return HYP_OK;
}

static hyp_status add_edge(ordering *o, uint32_t u, uint32_t input)
{
    unit *x = &o->units[u];
    for (uint32_t i = 0; i < x->input_count; i++)
        if (o->edges.data[x->first_input + i] == input) return HYP_OK;
    x->input_count++;
    return hyp_vec_push(&o->edges, o->l->diag, input);
}

/* Adds what a unit reads of a value: the result of a unit, or what lies behind nodes that are no steps. The walk goes over
 * each of these once, so that it ends soon however they share what they read. */
static hyp_status add_read(ordering *o, uint32_t u, hyp_value_id v)
{
    hyp_node_id from;
    size_t base = o->stack.len;
    HYP_TRY(hyp_vec_push(&o->stack, o->l->diag, v));
    while (o->stack.len > base) {
        hyp_value_id next = o->stack.data[--o->stack.len];
        if (!find_maker(o, next, &from)) continue;
        uint32_t maker = o->unit_plus1[from];
        if (maker == u + 1) continue;
        if (maker) {
            HYP_TRY(add_edge(o, u, maker - 1));
            HYP_TRY(hyp_vec_push(&o->values, o->l->diag, next));
            continue;
        }
        if (o->stamp[from] == u + 1) continue;
        o->stamp[from] = u + 1;
        for (uint32_t i = 0; i < node_at(o, from)->input_count; i++)
            HYP_TRY(hyp_vec_push(&o->stack, o->l->diag, node_at(o, from)->inputs[i]));
    }
    return HYP_OK;
}

static hyp_status add_reads(ordering *o, uint32_t u)
{
    const hyp_lowering *l = o->l;
    unit *x = &o->units[u];
    hyp_node_id last = x->last, *members = &last;
    uint32_t count = 1;
    if (l->group_plus1[last]) {
        members = l->groups.data[l->group_plus1[last] - 1].nodes;
        count = l->groups.data[l->group_plus1[last] - 1].node_count;
    }
    x->first_input = (uint32_t)o->edges.len;
    x->first_read = (uint32_t)o->values.len;
    for (uint32_t m = 0; m < count; m++)
        for (uint32_t i = 0; i < node_at(o, members[m])->input_count; i++)
            HYP_TRY(add_read(o, u, node_at(o, members[m])->inputs[i]));
    x->read_count = (uint32_t)o->values.len - x->first_read;
    x->first_made = (uint32_t)o->values.len;
    for (uint32_t m = 0; m < count; m++)
        for (uint32_t i = 0; i < node_at(o, members[m])->output_count; i++) {
            hyp_value_id v = node_at(o, members[m])->outputs[i];
            bool stands = members[m] == x->last && l->values[v].needed && !l->values[v].output_plus1;
            if (stands) HYP_TRY(hyp_vec_push(&o->values, l->diag, v));
        }
    x->made_count = (uint32_t)o->values.len - x->first_made;
    return HYP_OK;
}

/* By sets of units, which come behind those that they need. */
static hyp_status count_needs(ordering *o)
{
    size_t words = (size_t)o->count * o->words;
    uint64_t *sets = hyp_arena_zalloc(&o->l->scratch, words, sizeof *sets);
    if (!sets) return hyp_fail_memory(o->l->diag, words * sizeof *sets);
    for (uint32_t u = 0; u < o->count; u++) {
        uint64_t *set = sets + (size_t)u * o->words;
        for (uint32_t i = 0; i < o->units[u].input_count; i++) {
            const uint64_t *from = sets + (size_t)o->edges.data[o->units[u].first_input + i] * o->words;
            for (uint32_t w = 0; w < o->words; w++) set[w] |= from[w];
        }
        set[u / 64] |= UINT64_C(1) << u % 64;
        for (uint32_t w = 0; w < o->words; w++) o->units[u].needs_count += (uint32_t)__builtin_popcountll(set[w]);
    }
    return HYP_OK;
}

/* What all outputs need is one more unit, behind the others. */
static hyp_status add_end(ordering *o)
{
    const hyp_graph *g = o->l->graph;
    o->units[o->count] = (unit){.last = HYP_NO_VALUE, .first_input = (uint32_t)o->edges.len};
    for (size_t i = 0; i < g->outputs.len; i++) HYP_TRY(add_read(o, o->count, g->outputs.data[i].value));
    return HYP_OK;
}

/* A device may run a normalization and the linear that alone reads it as one: they stay neighbours. */
static hyp_status keep_neighbours(ordering *o)
{
    const hyp_lowering *l = o->l;
    uint32_t *readers = hyp_arena_zalloc(&o->l->scratch, (size_t)o->count + 1, sizeof *readers);
    if (!readers) return hyp_fail_memory(l->diag, o->count * sizeof *readers);
    for (size_t i = 0; i < o->edges.len; i++) readers[o->edges.data[i]]++;
    for (uint32_t u = 0; u < o->count && l->options->target->joins_norm_and_linear; u++) {
        if (l->group_plus1[o->units[u].last]) continue;
        for (uint32_t i = 0; i < o->units[u].input_count; i++) {
            uint32_t norm = o->edges.data[o->units[u].first_input + i];
            hyp_op op = node_at(o, o->units[norm].last)->op;
            if (readers[norm] == 1 && (op == HYP_OP_layer_norm || op == HYP_OP_rms_norm)) o->units[u].norm_plus1 = norm + 1;
        }
    }
    return HYP_OK;
}

/* ---- updates ---------------------------------------------------------------------------------------- */

/* What a value is to those outside. */
typedef enum showing { INNER, BECOMES, OTHER } showing;

/* By value: whether a variable becomes it, in its own memory, and nothing else shows it. */
static hyp_status find_shown(const ordering *o, showing **out)
{
    const hyp_lowering *l = o->l;
    const hyp_graph *g = l->graph;
    *out = hyp_arena_zalloc(&o->l->scratch, g->values.len, sizeof **out);
    if (!*out) return hyp_fail_memory(l->diag, g->values.len * sizeof **out);
    for (size_t i = 0; i < g->variables.len; i++) {
        uint32_t output = g->variables.data[i].output;
        hyp_value_id root = hyp_lower_root(l, g->outputs.data[output].value);
        if (l->values[root].output_plus1 == output + 1) (*out)[root] = BECOMES;
    }
    for (size_t i = 0; i < g->outputs.len; i++) {
        hyp_value_id root = hyp_lower_root(l, g->outputs.data[i].value);
        if (l->values[root].output_plus1 != i + 1 || (*out)[root] != BECOMES) (*out)[root] = OTHER;
    }
    return HYP_OK;
}

static hyp_status variable_bytes(const ordering *o, hyp_value_id v, int64_t *sum)
{
    const hyp_graph *g = o->l->graph;
    const hyp_type *type = &hyp_lower_value(o->l, v)->type;
    hyp_dim elements;
    int64_t bytes;
    HYP_TRY(hyp_type_elements(g->dims, type, &elements, o->l->diag));
    if (!hyp_dim_is_const(elements) || elements > INT64_MAX >> 24) return HYP_OK; /* nothing as large has a place */
    bytes = elements * (int64_t)hyp_dtype_size(type->dtype);
    if (*sum < INT64_MAX - bytes) *sum += bytes;
    return HYP_OK;
}

/* Elementwise, and of no results but such that nobody reads, and that variables become. */
static hyp_status find_updates(ordering *o)
{
    hyp_lowering *l = o->l;
    showing *shown;
    bool *read = hyp_arena_zalloc(&l->scratch, (size_t)o->count + 1, sizeof *read);
    if (!read) return hyp_fail_memory(l->diag, o->count);
    HYP_TRY(find_shown(o, &shown));
    for (uint32_t u = 0; u < o->count; u++)
        for (uint32_t i = 0; i < o->units[u].input_count; i++) read[o->edges.data[o->units[u].first_input + i]] = true;
    for (uint32_t u = 0; u < o->count; u++) {
        unit *x = &o->units[u];
        if (!l->group_plus1[x->last] || read[u]) continue;
        const hyp_group *group = &l->groups.data[l->group_plus1[x->last] - 1];
        x->update = true;
        for (uint32_t m = 0; m < group->node_count; m++) {
            hyp_value_id v = node_at(o, group->nodes[m])->outputs[0];
            x->update = x->update && shown[v] == (group->nodes[m] == group->root || l->values[v].shown ? BECOMES : INNER);
        }
        o->updates += x->update;
        for (uint32_t m = 0; m < group->node_count && x->update; m++) {
            hyp_value_id v = node_at(o, group->nodes[m])->outputs[0];
            if (shown[v] == BECOMES) HYP_TRY(variable_bytes(o, v, &o->doubled));
        }
    }
    return HYP_OK;
}

/* The same order, but for updates, which come behind all others. */
static void put_updates_last(const ordering *o, const uint32_t *order, uint32_t *out)
{
    uint32_t at = 0;
    for (int update = 0; update < 2; update++)
        for (uint32_t i = 0; i < o->count; i++)
            if (o->units[order[i]].update == (bool)update) out[at++] = order[i];
}

/* ---- the walk --------------------------------------------------------------------------------------- */

/* What comes first of what is missing of what a step needs. */
typedef enum rule { LEAST_FIRST, MOST_FIRST } rule;

/* Of what a unit needs and what is missing, what comes first; NO_UNIT where nothing is. What its neighbour needs counts
 * in the place of that one. */
static uint32_t choose(const ordering *o, uint32_t u, rule first)
{
    uint32_t best = NO_UNIT, norm_plus1 = o->units[u].norm_plus1;
    for (uint32_t from = u + 1; from; from = from == u + 1 ? norm_plus1 : 0)
        for (uint32_t i = 0; i < o->units[from - 1].input_count; i++) {
            uint32_t input = o->edges.data[o->units[from - 1].first_input + i];
            if (o->is_placed[input] || input + 1 == norm_plus1) continue;
            uint32_t work = o->units[input].needs_count, least = best == NO_UNIT ? 0 : o->units[best].needs_count;
            if (best == NO_UNIT || (first == LEAST_FIRST ? work < least : work > least)) best = input;
        }
    return best;
}

static void place(ordering *o, uint32_t u)
{
    o->is_placed[u] = true;
    o->order[o->placed++] = u;
}

/* Fills `order`. */
static hyp_status walk(ordering *o, rule first)
{
    hyp_lowering *l = o->l;
    o->is_placed = hyp_arena_zalloc(&l->scratch, o->count, sizeof *o->is_placed);
    o->order = hyp_arena_zalloc(&l->scratch, o->count, sizeof *o->order);
    if (!o->is_placed || !o->order) return hyp_fail_memory(l->diag, o->count * sizeof *o->order);
    o->placed = 0;
    o->stack.len = 0;
    HYP_TRY(hyp_vec_push(&o->stack, l->diag, o->count));
    while (o->stack.len) {
        uint32_t u = o->stack.data[o->stack.len - 1], missing = choose(o, u, u == o->count ? LEAST_FIRST : first);
        if (missing != NO_UNIT) {
            HYP_TRY(hyp_vec_push(&o->stack, l->diag, missing));
            continue;
        }
        o->stack.len--;
        if (u == o->count) break;
        if (o->units[u].norm_plus1) place(o, o->units[u].norm_plus1 - 1);
        place(o, u);
    }
    if (o->placed == o->count) return HYP_OK;
    return hyp_fail(l->diag, HYP_ERR_INTERNAL, "%u of %u steps have a place", o->placed, o->count);
}

/* ---- what it is worth --------------------------------------------------------------------------------- */

static hyp_status find_bytes(ordering *o)
{
    hyp_lowering *l = o->l;
    const hyp_graph *g = l->graph;
    const int64_t *sizes;
    HYP_TRY(hyp_lower_guess_sizes(l, &sizes));
    o->bytes = hyp_arena_zalloc(&l->scratch, g->values.len, sizeof *o->bytes);
    if (!o->bytes) return hyp_fail_memory(l->diag, g->values.len * sizeof *o->bytes);
    for (uint32_t u = 0; u < o->count; u++)
        for (uint32_t i = 0; i < o->units[u].made_count; i++) {
            hyp_value_id v = o->values.data[o->units[u].first_made + i];
            const hyp_type *type = &hyp_lower_value(l, v)->type;
            hyp_dim elements;
            HYP_TRY(hyp_type_elements(g->dims, type, &elements, l->diag));
            if (hyp_dim_eval(g->dims, elements, sizes, &o->bytes[v], NULL) != HYP_OK) return HYP_OK;
            const int64_t most = INT64_MAX >> 24; /* so that sums do not overflow; nothing as large has a place */
            if (o->bytes[v] > most) o->bytes[v] = most;
            o->bytes[v] *= (int64_t)hyp_dtype_size(type->dtype);
        }
    return HYP_OK;
}

/* Bytes of scratch that stand in an order: the most at once, and on average over the steps. */
typedef struct standing {
    int64_t most;
    double mean;
} standing;

/* An elementwise step may write over what it reads last. `last`, by value, is zero before and after. */
static standing find_standing(const ordering *o, const uint32_t *order, uint32_t *last)
{
    standing found = {0};
    int64_t now = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        const unit *x = &o->units[order[i]];
        for (uint32_t k = 0; k < x->read_count; k++) last[o->values.data[x->first_read + k]] = i + 1;
    }
    for (uint32_t i = 0; i < o->count; i++) {
        const unit *x = &o->units[order[i]];
        const hyp_value_id *made = o->values.data + x->first_made, *read = o->values.data + x->first_read;
        bool in_place = o->l->group_plus1[x->last] != 0;
        int64_t freed = 0, saved = 0;
        for (uint32_t k = 0; k < x->made_count; k++) now += o->bytes[made[k]];
        for (uint32_t k = 0; k < x->read_count; k++) {
            if (last[read[k]] != i + 1) continue;
            last[read[k]] = 0; /* once */
            freed += o->bytes[read[k]];
            if (in_place && x->made_count == 1 && o->bytes[read[k]] == o->bytes[made[0]]) saved = o->bytes[made[0]];
        }
        if (now - saved > found.most) found.most = now - saved;
        found.mean += (double)(now - saved) / o->count;
        now -= freed;
        for (uint32_t k = 0; k < x->made_count; k++)
            if (!last[made[k]]) now -= o->bytes[made[k]]; /* nobody reads it */
    }
    return found;
}

/* What is as good as equal at most is told apart by the mean: places fit better where less stands. */
static bool is_better(const standing *a, const standing *b)
{
    enum { TELLS = 64 };
    int64_t apart = a->most > b->most ? a->most - b->most : b->most - a->most;
    return apart > b->most / TELLS ? a->most < b->most : a->mean < b->mean;
}

/* What was found so far. */
typedef struct choice {
    const uint32_t *order; /* NULL: the graph's own */
    bool updates_last;
    standing standing;
} choice;

/* Takes an order where it is better, with updates at the end if that is. */
static hyp_status try_order(const ordering *o, const uint32_t *order, bool own, uint32_t *last, choice *best)
{
    hyp_lowering *l = o->l;
    bool first = own;
    for (int updates_last = o->updates > 0; updates_last >= 0; updates_last--) {
        const uint32_t *found = order;
        uint32_t *behind = NULL;
        if (updates_last) {
            found = behind = hyp_arena_zalloc(&l->scratch, o->count, sizeof *behind);
            if (!behind) return hyp_fail_memory(l->diag, o->count * sizeof *behind);
            put_updates_last(o, order, behind);
        }
        standing s = find_standing(o, found, last);
        if (!updates_last) {
            s.most += o->doubled;
            s.mean += (double)o->doubled;
        }
        if (first || is_better(&s, &best->standing))
            *best = (choice){own && !updates_last ? NULL : found, updates_last, s};
        first = false;
    }
    return HYP_OK;
}

/* Of the graph's own order and those of both rules the one in which least stands; the first of them if it is none better. */
static hyp_status find_best(ordering *o, choice *best)
{
    hyp_lowering *l = o->l;
    size_t values = l->graph->values.len;
    uint32_t *last = hyp_arena_zalloc(&l->scratch, values, sizeof *last);
    uint32_t *own = hyp_arena_zalloc(&l->scratch, o->count, sizeof *own);
    if (!last || !own) return hyp_fail_memory(l->diag, values * sizeof *last);
    for (uint32_t u = 0; u < o->count; u++) own[u] = u; /* by the last node of each */
    HYP_TRY(try_order(o, own, true, last, best));
    for (int first = LEAST_FIRST; first <= MOST_FIRST; first++) {
        HYP_TRY(walk(o, (rule)first));
        HYP_TRY(try_order(o, o->order, false, last, best));
    }
    return HYP_OK;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static hyp_status find_order(ordering *o)
{
    choice best = {0};
    HYP_TRY(list_units(o));
    o->words = (o->count + 63) / 64;
    if (o->count > MOST_WORDS / (o->words ? o->words : 1) || o->count == 0) return HYP_OK;
    for (uint32_t u = 0; u < o->count; u++) HYP_TRY(add_reads(o, u));
    HYP_TRY(count_needs(o));
    HYP_TRY(add_end(o));
    HYP_TRY(keep_neighbours(o));
    HYP_TRY(find_bytes(o));
    HYP_TRY(find_updates(o));
    HYP_TRY(find_best(o, &best));
    if (!best.order) return HYP_OK;
    size_t at = 0;
    for (hyp_node_id n = 0; n < o->l->graph->nodes.len; n++) /* they emit sizes at most, which read nothing */
        if (!o->unit_plus1[n] || o->units[o->unit_plus1[n] - 1].last != n) o->l->order[at++] = n;
    for (uint32_t i = 0; i < o->count; i++) o->l->order[at++] = o->units[best.order[i]].last;
    if (best.updates_last) o->l->updates = o->updates;
    return HYP_OK;
}

hyp_status hyp_lower_find_order(hyp_lowering *l)
{
    ordering o = {.l = l};
    size_t nodes = l->graph->nodes.len;
    l->order = hyp_arena_zalloc(&l->scratch, nodes, sizeof *l->order);
    if (!l->order) return hyp_fail_memory(l->diag, nodes * sizeof *l->order);
    for (hyp_node_id n = 0; n < nodes; n++) l->order[n] = n;
    hyp_status status = find_order(&o);
    hyp_vec_free(&o.edges);
    hyp_vec_free(&o.values);
    hyp_vec_free(&o.stack);
    return status;
}
