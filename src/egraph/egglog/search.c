/* search.c - finds the matches of a left side: a plan's steps, one inside the other. */
#include <string.h>

#include "egraph/egglog/db.h"

typedef struct search {
    hyp_egglog *db;
    const hyp_el_code *code;
    const hyp_el_plan *plan;
    uint32_t since, *regs, *index; /* index: by step, of its table */
    bool first;                    /* everything is new */
    bool subsumed_too, stop;
    hyp_el_match_fn fn;
    void *user;
    hyp_diag *diag;
} search;

static hyp_status step_on(search *s, uint32_t i);

static hyp_status try_row(search *s, uint32_t i, const hyp_el_table *t, uint32_t row)
{
    const hyp_el_step *step = &s->plan->steps[i];
    const uint32_t *r = hyp_el_row(t, row), *args = step->ins->args;
    uint32_t stamp = r[t->width], *regs = s->regs;
    if (stamp & HYP_EL_SUBSUMED && (stamp == HYP_EL_DEAD || !s->subsumed_too)) return HYP_OK;
    if (step->old_only && !s->first && HYP_EL_STAMP(stamp) >= s->since) return HYP_OK;
    for (uint32_t c = 0; c < t->width; c++) {
        if ((step->known | step->again) >> c & 1) {
            if (regs[args[c]] != r[c]) return HYP_OK;
        } else {
            regs[args[c]] = r[c];
        }
    }
    return step_on(s, i + 1);
}

static hyp_status by_key(search *s, uint32_t i, const hyp_el_table *t)
{
    const hyp_el_ins *ins = s->plan->steps[i].ins;
    uint32_t key[HYP_EL_MAX_COLUMNS];
    for (uint32_t c = 0; c + 1 < t->width; c++) key[c] = s->regs[ins->args[c]];
    uint32_t row = hyp_el_lookup(t, key);
    return row == HYP_EL_NONE || row >= t->limit ? HYP_OK : try_row(s, i, t, row);
}

static hyp_status by_index(search *s, uint32_t i, const hyp_el_table *t)
{
    const hyp_el_step *step = &s->plan->steps[i];
    const hyp_el_index *x = &t->indexes.data[s->index[i]];
    const uint32_t *next = x->next;
    uint32_t probe[HYP_EL_MAX_COLUMNS];
    for (uint64_t k = step->known; k; k &= k - 1) {
        uint32_t c = (uint32_t)__builtin_ctzll(k);
        probe[c] = s->regs[step->ins->args[c]];
    }
    for (uint32_t row = hyp_el_index_head(x, probe); row != HYP_EL_NONE && !s->stop; row = next[row]) {
        HYP_TRY(hyp_el_tick(s->db, s->diag));
        HYP_TRY(try_row(s, i, t, row));
    }
    return HYP_OK;
}

static hyp_status by_rows(search *s, uint32_t i, const hyp_el_table *t, size_t from)
{
    for (size_t row = from; row < t->limit && !s->stop; row++) {
        HYP_TRY(hyp_el_tick(s->db, s->diag));
        HYP_TRY(try_row(s, i, t, (uint32_t)row));
    }
    return HYP_OK;
}

static hyp_status by_code(search *s, uint32_t i)
{
    const hyp_el_step *step = &s->plan->steps[i];
    const hyp_el_ins *ins = step->ins;
    if (ins->op == HYP_EL_SAME) return s->regs[ins->args[0]] == s->regs[ins->args[1]] ? step_on(s, i + 1) : HYP_OK;
    hyp_el_value value = 0;
    bool holds = false;
    HYP_TRY(hyp_el_call_prim(s->db, ins, s->regs, &value, &holds, s->diag));
    if (!holds || (!step->bind_out && s->regs[ins->out] != value)) return HYP_OK;
    s->regs[ins->out] = value;
    return step_on(s, i + 1);
}

static hyp_status step_on(search *s, uint32_t i)
{
    if (i == s->plan->count) return s->fn(s->db, s->code, s->regs, s->user, &s->stop, s->diag);
    const hyp_el_step *step = &s->plan->steps[i];
    if (step->source == HYP_EL_FROM_CODE) return by_code(s, i);
    const hyp_el_table *t = &s->db->functions.data[step->ins->target].table;
    if (step->delta && !s->first) return by_rows(s, i, t, hyp_el_since(t, s->since));
    if (step->source == HYP_EL_FROM_KEY) return by_key(s, i, t);
    if (step->source == HYP_EL_FROM_INDEX) return by_index(s, i, t);
    return by_rows(s, i, t, 0);
}

static hyp_status run_plan(search *s, uint32_t p)
{
    s->plan = &s->code->plans[p];
    for (uint32_t i = 0; i < s->plan->count; i++) {
        const hyp_el_step *step = &s->plan->steps[i];
        if (step->source != HYP_EL_FROM_INDEX || (step->delta && !s->first)) continue;
        hyp_el_table *t = &s->db->functions.data[step->ins->target].table;
        HYP_TRY(hyp_el_index_of(s->db, t, step->known, &s->index[i], s->diag));
    }
    return step_on(s, 0);
}

/* Where everything is new one plan finds it all: the one that begins with the least. */
static uint32_t cheapest_plan(const search *s)
{
    uint32_t best = 0;
    size_t least = SIZE_MAX;
    for (uint32_t p = 0; p < s->code->atom_count; p++) {
        const hyp_el_step *step = s->code->plans[p].steps;
        while (!step->delta) step++;
        size_t live = s->db->functions.data[step->ins->target].table.live;
        size_t cost = step->source == HYP_EL_FROM_KEY ? 0 : step->source == HYP_EL_FROM_INDEX ? live / 16 + 1 : live + 1;
        if (cost >= least) continue;
        best = p;
        least = cost;
    }
    return best;
}

static hyp_status run_plans(search *s)
{
    const hyp_el_code *code = s->code;
    if (!code->atom_count) return s->first ? step_on(s, 0) : HYP_OK;
    for (uint32_t a = 0; a < code->atom_count; a++)
        if (!s->db->functions.data[code->body[a].target].table.live) return HYP_OK;
    if (s->first) return run_plan(s, cheapest_plan(s));
    for (uint32_t p = 0; p < code->atom_count && !s->stop; p++) {
        const hyp_el_table *t = &s->db->functions.data[code->body[p].target].table;
        if (hyp_el_since(t, s->since) < t->limit) HYP_TRY(run_plan(s, p));
    }
    return HYP_OK;
}

hyp_status hyp_el_search(hyp_egglog *db, const hyp_el_code *code, uint32_t since, bool subsumed_too, hyp_el_match_fn fn,
                         void *user, hyp_diag *diag)
{
    search s = {.db = db,
                .code = code,
                .since = since,
                .first = since == 0,
                .subsumed_too = subsumed_too,
                .fn = fn,
                .user = user,
                .diag = diag};
    s.plan = code->plans;
    s.regs = hyp_malloc((code->reg_count + code->body_count + 1) * sizeof *s.regs);
    if (!s.regs) return hyp_fail_memory(diag, (code->reg_count + code->body_count) * sizeof *s.regs);
    s.index = s.regs + code->reg_count;
    memcpy(s.regs, code->init, code->reg_count * sizeof *s.regs);
    hyp_status status = run_plans(&s);
    hyp_free(s.regs);
    return status;
}
