#include "egraph/prove/path.h"

#include <string.h>

#include "egraph/prove/numbering.h"
#include "egraph/rules/rule.h"

enum { WORK_LIMIT = 1 << 21, DEPTH_LIMIT = 100, ROW_LIMIT = 1 << 23, COST_LIMIT = 1 << 30 };
#define NOT_YET UINT32_MAX

/* An e-node met by a search. */
typedef struct visit {
    uint32_t cost, edge; /* the edge that led here, in the direction that was gone; NOT_YET: not settled */
    bool reversed;
} visit;

typedef struct offer {
    uint32_t cost, order, edge, from; /* the cost as far as it is known of reaching the other end of an edge */
    bool exact;
} offer;
typedef HYP_VEC(offer) heap;

struct hyp_router {
    hyp_egraph *eg;
    hyp_edge_cost_fn cost;
    void *user;
    HYP_VEC(hyp_edge) edges; /* first, by e-node, those of the forest; a root has a == b */
    uint32_t *start, *half;  /* by e-node: its edges */
    size_t work;
    unsigned depth;
    uint32_t searches;
    hyp_numbering asked, met;
    HYP_VEC(hyp_way) ways;   /* by number in asked */
    HYP_VEC(visit) visits;   /* by number in met */
    HYP_VEC(uint32_t) costs; /* by edge; NOT_YET */
    HYP_VEC(uint32_t) priced; /* edges whose costs are known */
    HYP_VEC(uint32_t) ids;   /* of the record being read */
    hyp_arena arena;
};

/* ---- the edges ---------------------------------------------------------------------------------- */

/* The edge of the forest from an e-node to its parent; from a root to itself. */
static hyp_edge edge_up(const hyp_egraph *eg, uint32_t row)
{
    hyp_edge e = {.a = row, .b = row, .place = eg->proofs.edge[row]};
    if (e.place == HYP_NONE) return e;
    const hyp_app app = hyp_app_read(eg, e.place);
    uint32_t left = hyp_app_side(&app, 0);
    e.backward = left != row;
    e.b = e.backward ? left : hyp_app_side(&app, 1);
    return e;
}

static hyp_edge reversed(hyp_edge e)
{
    return (hyp_edge){.a = e.b, .b = e.a, .place = e.place, .congruent = e.congruent, .backward = !e.backward};
}

/* The e-node that a variable stands for in a pattern that matched; HYP_NONE if it is not in it. */
static uint32_t bound_to(const hyp_egraph *eg, const hyp_pat *pat, const uint32_t *left, uint32_t reg)
{
    uint32_t n;
    const uint32_t *kids = hyp_given(eg, left[pat->index], &n);
    for (uint32_t j = 0; j < pat->count; j++) {
        const hyp_pat *kid = &pat->kids[j];
        uint32_t found = HYP_NONE;
        if (kid->kind == HYP_PAT_VAR && kid->reg == reg) found = kids[hyp_pat_place(pat, j, n)];
        if (kid->kind == HYP_PAT_NODE) found = bound_to(eg, kid, left, reg);
        if (found != HYP_NONE) return found;
    }
    return HYP_NONE;
}

/* The e-node that one side of an application is, HYP_NONE if it is none. */
static uint32_t side_of(const hyp_egraph *eg, const hyp_rule *rule, const hyp_pat *pat, const uint32_t *left)
{
    if (pat->kind != HYP_PAT_VAR) return left[rule->left_nodes + pat->index];
    for (uint32_t i = 0; i < rule->left_count; i++) {
        uint32_t found = bound_to(eg, &rule->left[i], left, pat->reg);
        if (found != HYP_NONE) return found;
    }
    return HYP_NONE;
}

/* The applications, also those that changed nothing. */
static hyp_status add_applications(hyp_router *r, hyp_diag *diag)
{
    const hyp_egraph *eg = r->eg;
    for (uint32_t next = 0, place; place = next, place < hyp_app_place(eg);) {
        const hyp_app app = hyp_app_read(eg, place);
        next = hyp_app_after(eg, &app);
        if (!app.kind) continue;
        const hyp_rule *rule = hyp_eg_rule(eg, app.kind->ruleset, app.kind->rule);
        const hyp_action *action = &rule->actions[app.kind->action];
        HYP_TRY(hyp_vec_reserve(&r->ids, app.count, diag));
        for (uint32_t i = 0; i < app.count; i++) r->ids.data[i] = hyp_app_id(&app, i);
        const uint32_t *left = r->ids.data;
        uint32_t a = action->root ? left[action->root->index] : side_of(eg, rule, &action->left, left);
        uint32_t b = side_of(eg, rule, &action->right, left);
        if (a != b && a != HYP_NONE && b != HYP_NONE && hyp_eg_find(r->eg, a) == hyp_eg_find(r->eg, b))
            HYP_TRY(hyp_vec_push(&r->edges, diag, (hyp_edge){.a = a, .b = b, .place = place}));
    }
    return HYP_OK;
}

/* The forest, and each e-node that is congruent to an older one. */
static hyp_status add_rows(hyp_router *r, hyp_diag *diag)
{
    enum { SMALL = 8 };
    hyp_egraph *eg = r->eg;
    uint32_t n, kids[SMALL];
    for (uint32_t row = 0; row < eg->row_count; row++) HYP_TRY(hyp_vec_push(&r->edges, diag, edge_up(eg, row)));
    for (uint32_t row = 0; row < eg->row_count; row++) {
        if (!hyp_row_dead(eg, row)) continue;
        const uint32_t *given = hyp_given(eg, row, &n);
        if (n > SMALL) continue;
        for (uint32_t j = 0; j < n; j++) kids[j] = hyp_eg_find(eg, given[j]);
        uint32_t live = hyp_eg_lookup(eg, hyp_row_op(eg, row), kids);
        if (live == HYP_NONE) continue;
        HYP_TRY(hyp_vec_push(&r->edges, diag, (hyp_edge){.a = row, .b = live, .place = HYP_NONE, .congruent = true}));
    }
    return HYP_OK;
}

static hyp_status link_edges(hyp_router *r, hyp_diag *diag)
{
    size_t rows = r->eg->row_count, count = r->edges.len;
    r->start = hyp_calloc(rows + 2, sizeof *r->start);
    r->half = hyp_malloc(2 * count * sizeof *r->half);
    HYP_TRY(hyp_vec_reserve(&r->costs, count, diag));
    HYP_TRY(hyp_vec_reserve(&r->priced, count, diag));
    if (!r->start || !r->half) return hyp_fail_memory(diag, 2 * count * sizeof *r->half);
    r->costs.len = count;
    if (count) memset(r->costs.data, 0xff, count * sizeof *r->costs.data); /* NOT_YET */
    uint32_t *next = r->start + 1; /* next[row] ends up as the end of row, which is start[row + 1] */
    for (size_t i = 0; i < count; i++) {
        const hyp_edge *e = &r->edges.data[i];
        if (e->a != e->b) next[e->a + 1]++, next[e->b + 1]++;
    }
    for (size_t row = 0; row < rows; row++) next[row + 1] += next[row];
    for (uint32_t i = 0; i < count; i++) {
        const hyp_edge *e = &r->edges.data[i];
        if (e->a == e->b) continue;
        r->half[next[e->a]++] = i;
        r->half[next[e->b]++] = i;
    }
    return HYP_OK;
}

/* ---- the forest --------------------------------------------------------------------------------- */

static inline bool is_root(const hyp_router *r, uint32_t node) { return r->eg->proofs.edge[node] == HYP_NONE; }

/* Of an e-node that is no root. */
static inline uint32_t parent_of(const hyp_router *r, uint32_t node)
{
    return r->start ? r->edges.data[node].b : hyp_proof_parent(r->eg, node);
}

static uint32_t height(const hyp_router *r, uint32_t node)
{
    uint32_t h = 0;
    for (; !is_root(r, node); node = parent_of(r, node)) h++;
    return h;
}

/* The nearest e-node that is above both. */
static uint32_t meet(const hyp_router *r, uint32_t a, uint32_t b)
{
    uint32_t ha = height(r, a), hb = height(r, b);
    for (; ha > hb; ha--) a = parent_of(r, a);
    for (; hb > ha; hb--) b = parent_of(r, b);
    while (a != b) a = parent_of(r, a), b = parent_of(r, b);
    return a;
}

/* When two e-nodes became equal: the age of the youngest edge between them. */
static uint32_t known_since(const hyp_router *r, uint32_t a, uint32_t b)
{
    uint32_t top = meet(r, a, b), age = 0, ends[2] = {a, b};
    for (int i = 0; i < 2; i++)
        for (uint32_t n = ends[i]; n != top; n = parent_of(r, n))
            if (r->eg->proofs.edge[n] > age) age = r->eg->proofs.edge[n];
    return age;
}

static hyp_status forest_way(hyp_router *r, uint32_t from, uint32_t to, hyp_way *out, hyp_diag *diag)
{
    uint32_t top = meet(r, from, to), count = 0, i = 0;
    for (uint32_t n = from; n != top; n = parent_of(r, n)) count++;
    for (uint32_t n = to; n != top; n = parent_of(r, n)) count++;
    hyp_edge *edges = hyp_arena_alloc(&r->arena, count * sizeof *edges);
    if (!edges) return hyp_fail_memory(diag, count * sizeof *edges);
    *out = (hyp_way){edges, count};
    for (uint32_t n = from; n != top; n = parent_of(r, n)) edges[i++] = edge_up(r->eg, n);
    for (uint32_t n = to; n != top; n = parent_of(r, n)) edges[--count] = reversed(edge_up(r->eg, n));
    return HYP_OK;
}

/* ---- estimates ---------------------------------------------------------------------------------- */

static hyp_status edge_cost(hyp_router *r, uint32_t edge, uint32_t *out)
{
    *out = r->costs.data[edge];
    if (*out != NOT_YET) return HYP_OK;
    *out = 1;
    if (r->depth == DEPTH_LIMIT || !r->work) return HYP_OK;
    const hyp_edge e = r->edges.data[edge];
    r->depth++;
    r->work--;
    hyp_status status = r->cost(r->user, &e, out);
    r->depth--;
    HYP_TRY(status);
    if (r->costs.data[edge] == NOT_YET) r->priced.data[r->priced.len++] = edge;
    r->costs.data[edge] = *out = *out < COST_LIMIT ? *out : COST_LIMIT;
    return HYP_OK;
}

hyp_status hyp_forest_cost(hyp_router *r, uint32_t from, uint32_t to, uint32_t *out)
{
    uint32_t top = meet(r, from, to), ends[2] = {from, to}, cost;
    uint64_t sum = 0;
    for (int i = 0; i < 2; i++)
        for (uint32_t n = ends[i]; n != top; n = parent_of(r, n)) {
            cost = 1;
            if (r->work) HYP_TRY(edge_cost(r, n, &cost));
            sum += cost;
        }
    *out = sum < COST_LIMIT ? (uint32_t)sum : COST_LIMIT;
    return HYP_OK;
}

/* ---- the search --------------------------------------------------------------------------------- */

static bool before(const offer *a, const offer *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->order < b->order;
}

static hyp_status push(heap *h, offer o, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_grow(h, diag));
    size_t i = h->len - 1;
    for (; i && before(&o, &h->data[(i - 1) / 2]); i = (i - 1) / 2) h->data[i] = h->data[(i - 1) / 2];
    h->data[i] = o;
    return HYP_OK;
}

static offer pop(heap *h)
{
    offer top = h->data[0], last = h->data[--h->len];
    size_t i = 0, kid;
    for (; (kid = 2 * i + 1) < h->len; i = kid) {
        if (kid + 1 < h->len && before(&h->data[kid + 1], &h->data[kid])) kid++;
        if (!before(&h->data[kid], &last)) break;
        h->data[i] = h->data[kid];
    }
    h->data[i] = last;
    return top;
}

static hyp_status visit_of(hyp_router *r, uint32_t search, uint32_t row, uint32_t *out, hyp_diag *diag)
{
    HYP_TRY(hyp_number(&r->met, search, row, 0, out, diag));
    if (*out < r->visits.len) return HYP_OK;
    return hyp_vec_push(&r->visits, diag, (visit){.cost = NOT_YET});
}

/* The rank of an edge; that of congruence is found when it is asked for. */
static uint64_t rank_of(hyp_router *r, hyp_edge *e)
{
    if (e->place == HYP_NONE) {
        uint32_t n, age = 0;
        const uint32_t *a = hyp_given(r->eg, e->a, &n), *b = hyp_given(r->eg, e->b, &n);
        for (uint32_t j = 0; j < n; j++) {
            uint32_t since = a[j] == b[j] ? 0 : known_since(r, a[j], b[j]);
            if (since > age) age = since;
        }
        e->place = age;
    }
    return hyp_edge_rank(e);
}

/* Offers the edges of an e-node that was reached. */
static hyp_status offer_edges(hyp_router *r, uint32_t row, uint32_t reached, uint64_t bound, heap *h, uint32_t *order,
                              hyp_diag *diag)
{
    for (uint32_t i = r->start[row]; i < r->start[row + 1] && r->work; i++) {
        uint32_t edge = r->half[i], cost = r->costs.data[edge];
        r->work--;
        if (rank_of(r, &r->edges.data[edge]) >= bound) continue;
        bool exact = cost != NOT_YET;
        HYP_TRY(push(h, (offer){reached + (exact ? cost : 1), (*order)++, edge, row, exact}, diag));
    }
    return HYP_OK;
}

/* Dijkstra's algorithm; what an edge costs is found out when it is the next if it costs one step. */
static hyp_status search(hyp_router *r, uint32_t from, uint32_t to, uint64_t bound, uint32_t id, heap *h,
                         uint32_t *out_last, hyp_diag *diag)
{
    uint32_t order = 0, at;
    HYP_TRY(visit_of(r, id, from, &at, diag));
    r->visits.data[at] = (visit){0, NOT_YET, false};
    HYP_TRY(offer_edges(r, from, 0, bound, h, &order, diag));
    while (h->len && r->work) {
        offer o = pop(h);
        const hyp_edge e = r->edges.data[o.edge];
        uint32_t row = e.a == o.from ? e.b : e.a;
        HYP_TRY(visit_of(r, id, row, &at, diag));
        if (r->visits.data[at].cost != NOT_YET) continue;
        if (!o.exact) {
            uint32_t cost;
            HYP_TRY(edge_cost(r, o.edge, &cost));
            o.cost = o.cost - 1 + cost;
            o.exact = true;
            if (o.cost < COST_LIMIT) HYP_TRY(push(h, o, diag));
            continue;
        }
        r->visits.data[at] = (visit){o.cost, o.edge, e.a != o.from};
        if (row == to) {
            *out_last = at;
            return HYP_OK;
        }
        HYP_TRY(offer_edges(r, row, o.cost, bound, h, &order, diag));
    }
    return HYP_OK;
}

/* Follows the visits back from the last one. */
static hyp_status read_way(hyp_router *r, uint32_t id, uint32_t last, hyp_way *out, hyp_diag *diag)
{
    uint32_t count = 0, at = last;
    for (int writing = 0; writing < 2; writing++) {
        at = last;
        for (uint32_t i = count; r->visits.data[at].edge != NOT_YET;) {
            const visit v = r->visits.data[at];
            const hyp_edge edge = r->edges.data[v.edge], e = v.reversed ? reversed(edge) : edge;
            if (writing)
                out->edges[--i] = e;
            else
                count++;
            HYP_TRY(visit_of(r, id, e.a, &at, diag));
        }
        if (writing) break;
        out->edges = hyp_arena_alloc(&r->arena, count * sizeof *out->edges);
        if (!out->edges) return hyp_fail_memory(diag, count * sizeof *out->edges);
    }
    out->count = count;
    return HYP_OK;
}

hyp_status hyp_route(hyp_router *r, uint32_t from, uint32_t to, uint64_t bound, hyp_way *out, hyp_diag *diag)
{
    uint32_t asked, last = NOT_YET, id = r->searches;
    HYP_TRY(hyp_number(&r->asked, bound, from, to, &asked, diag));
    if (asked == r->ways.len) {
        HYP_TRY(hyp_vec_grow(&r->ways, diag));
        hyp_way *way = &r->ways.data[asked];
        heap h = {0};
        hyp_status status = HYP_OK;
        if (r->work) status = search(r, from, to, bound, id, &h, &last, diag);
        hyp_vec_free(&h);
        r->searches++;
        HYP_TRY(status);
        HYP_TRY(last == NOT_YET ? forest_way(r, from, to, way, diag) : read_way(r, id, last, way, diag));
    }
    *out = r->ways.data[asked];
    return HYP_OK;
}

/* ---- life --------------------------------------------------------------------------------------- */

void hyp_router_begin(hyp_router *r, void *user)
{
    r->user = user;
    while (r->priced.len) r->costs.data[r->priced.data[--r->priced.len]] = NOT_YET;
    r->work = r->start ? WORK_LIMIT : 0;
    r->depth = 0;
    r->searches = 0;
    hyp_numbering_dispose(&r->asked);
    hyp_numbering_dispose(&r->met);
    r->ways.len = r->visits.len = 0;
    hyp_arena_dispose(&r->arena);
}

hyp_status hyp_router_create(hyp_egraph *eg, hyp_edge_cost_fn cost, void *user, hyp_router **out, hyp_diag *diag)
{
    hyp_router *r = *out = hyp_calloc(1, sizeof *r);
    if (!r) return hyp_fail_memory(diag, sizeof *r);
    r->eg = eg;
    r->cost = cost;
    r->user = user;
    if (eg->row_count > ROW_LIMIT) return HYP_OK; /* the forest alone */
    hyp_status status = hyp_vec_reserve(&r->edges, 2 * eg->row_count, diag);
    if (status == HYP_OK) status = add_rows(r, diag);
    if (status == HYP_OK && eg->explain_all) status = add_applications(r, diag);
    if (status == HYP_OK) status = link_edges(r, diag);
    if (status == HYP_OK) {
        hyp_router_begin(r, user);
        return HYP_OK;
    }
    hyp_router_destroy(r);
    *out = NULL;
    return status;
}

hyp_status hyp_router_kept(hyp_egraph *eg, hyp_edge_cost_fn cost, void *user, hyp_router **out, hyp_diag *diag)
{
    hyp_proofs *p = &eg->proofs;
    if (p->routes && p->routes_at == eg->version && p->routes_apps == p->apps.len) {
        hyp_router_begin(*out = p->routes, user);
        return HYP_OK;
    }
    hyp_eg_drop_routes(eg);
    HYP_TRY(hyp_router_create(eg, cost, user, out, diag));
    p->routes = *out;
    p->routes_at = eg->version;
    p->routes_apps = p->apps.len;
    return HYP_OK;
}

void hyp_eg_drop_routes(hyp_egraph *eg)
{
    hyp_router_destroy(eg->proofs.routes);
    eg->proofs.routes = NULL;
}

void hyp_router_destroy(hyp_router *r)
{
    if (!r) return;
    hyp_vec_free(&r->edges);
    hyp_free(r->start);
    hyp_free(r->half);
    hyp_numbering_dispose(&r->asked);
    hyp_numbering_dispose(&r->met);
    hyp_vec_free(&r->ways);
    hyp_vec_free(&r->visits);
    hyp_vec_free(&r->costs);
    hyp_vec_free(&r->priced);
    hyp_vec_free(&r->ids);
    hyp_arena_dispose(&r->arena);
    hyp_free(r);
}
