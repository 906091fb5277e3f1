/* Choices near an e-node of what is chosen: see nearby.h. */
#include "rewrite/nearby.h"

#include <math.h>
#include <string.h>

#define SEARCH_WORK UINT64_C(50000) /* of one extraction, which sees a small part of what extract.c does */
#define KEEP 1e-6                   /* what is chosen is kept where it costs no more than so much in proportion */
enum { HOPS = 6 };                  /* from what is tried to what may change with it */

/* ---- choices ---------------------------------------------------------------------------------------- */

hyp_class_id hyp_near_root(const hyp_rw_chooser *h, size_t i)
{
    return hyp_egraph_find(h->rw->eg, h->rw->class_of[h->rw->in->outputs.data[i].value]);
}

const hyp_class_id *hyp_near_kids(const hyp_rw_chooser *h, const hyp_rw_form *f, hyp_class_id c, size_t *out_count)
{
    return hyp_enode_children(h->rw->eg, f->choice[c], out_count);
}

size_t hyp_near_walk(hyp_rw_chooser *h, hyp_rw_form *f, hyp_class_id *order)
{
    size_t depth = 0, found = 0;
    memset(f->needed, 0, h->bound * sizeof *f->needed);
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) {
        h->stack[depth++] = hyp_near_root(h, i);
        while (depth) {
            hyp_class_id c = h->stack[depth - 1], next = HYP_NONE;
            size_t count;
            const hyp_class_id *kids = hyp_near_kids(h, f, c, &count);
            for (size_t k = 0; k < count && next == HYP_NONE && !f->needed[c]; k++) {
                hyp_class_id kid = hyp_egraph_find(h->rw->eg, kids[k]);
                if (!f->needed[kid]) next = kid;
            }
            if (next != HYP_NONE) { /* no class is twice on the stack: a choice has no cycle */
                h->stack[depth++] = next;
                continue;
            }
            if (!f->needed[c]) order[found++] = c;
            f->needed[c] = true;
            depth--;
        }
    }
    return found;
}

double hyp_near_price(hyp_rw_chooser *h, hyp_enode_id node)
{
    if (isnan(h->cost[node])) h->cost[node] = hyp_rw_node_cost(h->rw->eg, node, h->weigh);
    return h->cost[node];
}

bool hyp_near_is_worth_trying(hyp_rw_chooser *h, const hyp_rw_form *f, hyp_class_id c)
{
    const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, c);
    if (fact->kind == HYP_RW_LITERAL || fact->constant) return false;
    return hyp_near_price(h, f->choice[c]) > 0;
}

/* ---- extraction near an e-node ------------------------------------------------------------------------- */

static double cost_of(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    hyp_rw_chooser *h = user;
    const hyp_rw_form *now = &h->forms[0];
    hyp_class_id c = hyp_enode_class(eg, node);
    bool taken = now->needed[c] && now->choice[c] == node;
    if (h->out[node]) return INFINITY;
    if (now->needed[c] && !h->near[c]) return taken ? 0 : INFINITY; /* it is paid for */
    return taken ? hyp_near_price(h, node) * (1 - KEEP) : hyp_near_price(h, node);
}

/* Lists what the chosen e-node of each class reads, and which classes it is read by. */
static hyp_status link_chosen(hyp_rw_chooser *h)
{
    h->kids.len = 0;
    memset(h->reader_at, 0, (h->bound + 2) * sizeof *h->reader_at);
    for (size_t i = 0; i < h->order_count; i++) {
        size_t count;
        const hyp_class_id *kids = hyp_near_kids(h, &h->forms[0], h->order[i], &count);
        h->kid_at[i] = (uint32_t)h->kids.len;
        HYP_TRY(hyp_vec_reserve(&h->kids, h->kids.len + count, h->diag));
        for (size_t k = 0; k < count; k++) {
            hyp_class_id kid = h->kids.data[h->kids.len++] = hyp_egraph_find(h->rw->eg, kids[k]);
            h->reader_at[kid + 2]++; /* two places on, so that filling leaves each start in place */
        }
        h->place[h->order[i]] = (uint32_t)i;
    }
    h->kid_at[h->order_count] = (uint32_t)h->kids.len;
    HYP_TRY(hyp_vec_reserve(&h->readers, h->kids.len, h->diag));
    for (size_t c = 2; c < h->bound + 2; c++) h->reader_at[c] += h->reader_at[c - 1];
    for (size_t i = 0; i < h->order_count; i++)
        for (uint32_t k = h->kid_at[i]; k < h->kid_at[i + 1]; k++)
            h->readers.data[h->reader_at[h->kids.data[k] + 1]++] = h->order[i];
    return HYP_OK;
}

/* Where the choice may change: a few steps from a class, up and down. */
static void find_near(hyp_rw_chooser *h, hyp_class_id from)
{
    size_t found = 0;
    memset(h->near, 0, h->bound * sizeof *h->near);
    h->near[from] = HOPS;
    h->stack[found++] = from;
    for (size_t at = 0; at < found && h->near[h->stack[at]] > 1; at++) {
        hyp_class_id c = h->stack[at];
        uint32_t i = h->place[c];
        for (uint32_t k = h->kid_at[i]; k < h->kid_at[i + 1]; k++) {
            hyp_class_id kid = h->kids.data[k];
            const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, kid);
            if (h->near[kid] || fact->kind == HYP_RW_LITERAL || fact->constant) continue;
            h->near[kid] = (uint8_t)(h->near[c] - 1);
            h->stack[found++] = kid;
        }
        for (uint32_t k = h->reader_at[c]; k < h->reader_at[c + 1]; k++) {
            hyp_class_id reader = h->readers.data[k];
            if (h->near[reader]) continue;
            h->near[reader] = (uint8_t)(h->near[c] - 1);
            h->stack[found++] = reader;
        }
    }
}

/* What is read of what is near, and what there is for it to read: so the solver sees nothing of the rest. What needs
 * something near is not there for it, lest there be a cycle. */
static void find_surroundings(hyp_rw_chooser *h)
{
    memset(h->read, 0, h->bound * sizeof *h->read);
    memset(h->above, 0, h->bound * sizeof *h->above);
    memset(h->given, 0, h->bound * sizeof *h->given);
    h->root_count = 0;
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) h->read[hyp_near_root(h, i)] = true;
    for (size_t i = 0; i < h->order_count; i++) {
        hyp_class_id c = h->order[i];
        for (uint32_t k = h->kid_at[i]; k < h->kid_at[i + 1]; k++) {
            hyp_class_id kid = h->kids.data[k];
            h->above[c] = h->above[c] || h->near[kid] || h->above[kid];
            if (!h->near[c]) h->read[kid] = true;
        }
        h->given[c] = !h->near[c] && !h->above[c];
    }
    for (size_t i = 0; i < h->order_count; i++)
        if (h->near[h->order[i]] && h->read[h->order[i]]) h->roots[h->root_count++] = h->order[i];
}

void hyp_near_begin(hyp_rw_chooser *h, hyp_class_id c)
{
    find_near(h, c);
    find_surroundings(h);
    h->form_count = 1;
    h->extracted = 0;
}

static bool same_choice(const hyp_rw_chooser *h, const hyp_rw_form *a, const hyp_rw_form *b)
{
    for (size_t c = 0; c < h->bound; c++)
        if (a->needed[c] != b->needed[c] || (a->needed[c] && a->choice[c] != b->choice[c])) return false;
    return true;
}

hyp_status hyp_near_without(hyp_rw_chooser *h, const hyp_rw_form *from, hyp_enode_id node)
{
    hyp_extract_options options = {
        .size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = SEARCH_WORK, .given = h->given};
    hyp_extraction local;
    hyp_diag why = {0};
    if (h->extracted >= HYP_NEAR_EACH * (h->most - 1)) return HYP_OK;
    h->extracted++;
    for (size_t i = 0; i < from->without_count; i++) h->out[from->without[i]] = true;
    h->out[node] = true;
    if (!h->memo) HYP_TRY(hyp_memo_create(&h->memo, h->diag));
    hyp_status status = hyp_egraph_extract_again(h->rw->eg, h->roots, h->root_count, &options, cost_of, h, h->memo,
                                                 &local, &why);
    for (size_t i = 0; i < from->without_count; i++) h->out[from->without[i]] = false;
    h->out[node] = false;
    h->work += hyp_egraph_enode_bound(h->rw->eg);
    if (status == HYP_ERR_UNSUPPORTED) return HYP_OK; /* there is none */
    if (status != HYP_OK) return hyp_fail(h->diag, status, "%s", why.message);
    hyp_rw_form *f = &h->forms[h->form_count];
    for (size_t c = 0; c < h->bound; c++)
        f->choice[c] = local.choice[c] != HYP_NONE ? local.choice[c] : h->choice->choice[c];
    f->cost = local.dag_cost;
    f->seen = f->kept = f->followed = false;
    memcpy(f->without, from->without, from->without_count * sizeof *f->without);
    f->without_count = from->without_count;
    f->without[f->without_count++] = node;
    hyp_extraction_dispose(&local);
    hyp_near_walk(h, f, h->spare);
    for (size_t i = 0; i < h->form_count; i++)
        if (same_choice(h, &h->forms[i], f)) return HYP_OK;
    h->form_count++;
    return HYP_OK;
}

hyp_status hyp_near_take(hyp_rw_chooser *h, const hyp_rw_form *f)
{
    hyp_rw_form *now = &h->forms[0];
    for (size_t c = 0; c < h->bound && f->followed; c++)
        if (f->needed[c] && !(now->needed[c] && now->choice[c] == f->choice[c])) h->tried[f->choice[c]] = true;
    for (size_t i = 0; i < f->without_count; i++) h->out[f->without[i]] = true;
    memcpy(now->choice, f->choice, h->bound * sizeof *now->choice);
    h->order_count = hyp_near_walk(h, now, h->order);
    h->choice->proven = false; /* by prediction another one costs less */
    h->choice->dag_cost = 0;
    for (size_t i = 0; i < h->order_count; i++) h->choice->dag_cost += hyp_near_price(h, now->choice[h->order[i]]);
    return link_chosen(h);
}

void *hyp_near_zeros(hyp_rw_chooser *h, size_t count, size_t size)
{
    void *p = hyp_arena_zalloc(&h->arena, count + 1, size);
    if (!p) h->weigh->status = hyp_fail_memory(h->diag, count * size);
    return p;
}

hyp_status hyp_near_open(hyp_rw_chooser *h)
{
    size_t nodes = hyp_egraph_enode_bound(h->rw->eg), roots = h->rw->in->outputs.len;
    h->bound = h->choice->class_bound;
    h->cost = hyp_near_zeros(h, nodes, sizeof *h->cost);
    h->out = hyp_near_zeros(h, nodes, sizeof *h->out);
    h->tried = hyp_near_zeros(h, nodes, sizeof *h->tried);
    h->near = hyp_near_zeros(h, h->bound, sizeof *h->near);
    bool **marks[] = {&h->above, &h->given, &h->read};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        *marks[i] = hyp_near_zeros(h, h->bound, sizeof **marks[i]);
    hyp_class_id **lists[] = {&h->order, &h->roots, &h->outputs, &h->stack, &h->spare, &h->kid_at, &h->reader_at, &h->place};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        *lists[i] = hyp_near_zeros(h, h->bound + roots + 1, sizeof **lists[i]);
    for (size_t i = 0; i <= HYP_NEAR_EACH * (h->most - 1); i++) {
        hyp_rw_form *f = &h->forms[i];
        hyp_graph_init(&f->graph, h->rw->dims);
        f->choice = i ? hyp_near_zeros(h, h->bound, sizeof *f->choice) : h->choice->choice;
        f->needed = hyp_near_zeros(h, h->bound, sizeof *f->needed);
        f->inside = hyp_near_zeros(h, h->bound, sizeof *f->inside);
        f->without = hyp_near_zeros(h, HYP_NEAR_CHOICES, sizeof *f->without);
    }
    if (h->weigh->status != HYP_OK) return h->weigh->status;
    for (size_t i = 0; i < nodes; i++) h->cost[i] = NAN;
    h->form_count = 1;
    h->order_count = hyp_near_walk(h, &h->forms[0], h->order);
    return link_chosen(h);
}

void hyp_near_close(hyp_rw_chooser *h)
{
    hyp_memo_destroy(h->memo);
    hyp_vec_free(&h->kids);
    hyp_vec_free(&h->readers);
    hyp_arena_dispose(&h->arena);
}
