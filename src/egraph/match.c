/* Finding the matches of a rule: the plans of compile.c, run by backtracking over the indexes. */
#include <string.h>

#include "egraph/rule.h"

typedef struct run {
    hyp_search *s;
    const hyp_plan *plan;
    uint32_t since; /* rows with a stamp below are old */
} run;

static hyp_status step_on(run *m, uint32_t i);

static hyp_status flush(hyp_search *s)
{
    size_t count = s->buffered;
    s->buffered = 0;
    return count ? s->emit(s->user, s->buffer, count, s->diag) : HYP_OK;
}

static hyp_status emit(hyp_search *s)
{
    uint32_t words = hyp_match_words(s->rule);
    memcpy(s->buffer + s->buffered * words, s->match, words * sizeof *s->match);
    return ++s->buffered == HYP_MATCH_BATCH ? flush(s) : HYP_OK;
}

/* Whether a row is of the operator of an atom. */
static inline bool fits(const hyp_egraph *eg, const hyp_pat *atom, uint32_t op)
{
    if (atom->seq == HYP_NONE) return op == atom->op;
    if (op & HYP_ROW_DEAD) return false;
    const hyp_op *o = &eg->ops.data[op];
    return o->symbol == atom->symbol && o->arity + 1 >= atom->count;
}

/* Takes a row for step i if it agrees with what is bound, and goes on. Nothing that points into the
 * e-graph is held over step_on: a full batch is applied at once, and the arrays may move. */
static inline hyp_status try_row(run *m, uint32_t i, uint32_t row)
{
    hyp_search *s = m->s;
    hyp_egraph *eg = s->eg;
    const hyp_step *step = &m->plan->steps[i];
    const hyp_pat *atom = step->atom;
    if (row >= s->row_limit || !fits(eg, atom, eg->rows[row].op)) return HYP_OK;
    if (step->only_old && eg->stamp[row] >= m->since) return HYP_OK;
    uint32_t n, *match = s->match;
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    for (uint32_t j = 0; j < atom->count; j++) {
        const hyp_pat *kid = &atom->kids[j];
        if (kid->kind == HYP_PAT_SEQ) continue;
        uint32_t c = kids[hyp_pat_place(atom, j, n)];
        if (step->bind[j])
            match[kid->reg] = c;
        else if (match[kid->reg] != c)
            return HYP_OK;
    }
    if (step->bind_class)
        match[atom->reg] = eg->home[row];
    else if (match[atom->reg] != eg->home[row])
        return HYP_OK;
    match[s->rule->reg_count + atom->index] = row;
    if (i + 1 == m->plan->count) return emit(s);
    return step_on(m, i + 1);
}

static hyp_status tick(hyp_search *s)
{
    enum { EVERY = 4096 };
    if (++s->ticks % EVERY || !s->tick) return HYP_OK;
    return s->tick(s->user, s->diag);
}

/* The rows of one operator that were logged before this search and, for only_new, since the last one. */
static hyp_status walk_log(run *m, uint32_t i, uint32_t op, uint32_t since)
{
    hyp_egraph *eg = m->s->eg;
    const hyp_op *o = &eg->ops.data[op];
    size_t mark = o->marks.len;
    while (mark > 0 && o->marks.data[mark - 1].epoch >= since) mark--;
    for (; mark < eg->ops.data[op].marks.len; mark++) {
        o = &eg->ops.data[op];
        uint32_t epoch = o->marks.data[mark].epoch;
        if (epoch == eg->epoch) break; /* written by this iteration */
        size_t pos = o->marks.data[mark].pos;
        size_t end = mark + 1 < o->marks.len ? o->marks.data[mark + 1].pos : o->log.len;
        for (; pos < end; pos++) {
            uint32_t row = eg->ops.data[op].log.data[pos];
            if (eg->stamp[row] != epoch) continue; /* logged again later */
            HYP_TRY(tick(m->s));
            HYP_TRY(try_row(m, i, row));
        }
    }
    return HYP_OK;
}

static hyp_status walk_members(run *m, uint32_t i, uint32_t c)
{
    hyp_egraph *eg = m->s->eg;
    uint32_t row = c;
    do {
        HYP_TRY(tick(m->s));
        HYP_TRY(try_row(m, i, row));
        row = eg->rows[row].next;
    } while (row != c);
    return HYP_OK;
}

static hyp_status walk_uses(run *m, uint32_t i, uint32_t c)
{
    hyp_egraph *eg = m->s->eg;
    const hyp_step *step = &m->plan->steps[i];
    for (uint32_t slot = eg->use_head[c]; slot != HYP_NONE; slot = *hyp_slot_next(eg, slot)) {
        HYP_TRY(tick(m->s));
        uint32_t row = hyp_slot_row(eg, slot), op = eg->rows[row].op;
        if (!fits(eg, step->atom, op)) continue;
        if (hyp_slot_place(eg, slot) == hyp_pat_place(step->atom, step->via, eg->ops.data[op].arity))
            HYP_TRY(try_row(m, i, row));
    }
    return HYP_OK;
}

static hyp_status look_up(run *m, uint32_t i)
{
    enum { SMALL = 8 };
    hyp_search *s = m->s;
    const hyp_pat *atom = m->plan->steps[i].atom;
    uint32_t small[SMALL] = {0}, *kids = small;
    if (atom->count > SMALL && !(kids = hyp_malloc(atom->count * sizeof *kids)))
        return hyp_fail_memory(s->diag, atom->count * sizeof *kids);
    for (uint32_t j = 0; j < atom->count; j++) kids[j] = s->match[atom->kids[j].reg];
    uint32_t row = hyp_eg_lookup(s->eg, atom->op, kids);
    if (kids != small) hyp_free(kids);
    HYP_TRY(tick(s));
    return row == HYP_NONE ? HYP_OK : try_row(m, i, row);
}

static hyp_status step_on(run *m, uint32_t i)
{
    if (i == m->plan->count) return emit(m->s); /* a rule of ground terms only */
    const hyp_step *step = &m->plan->steps[i];
    const hyp_pat *atom = step->atom;
    switch (step->source) {
    case HYP_FROM_MEMBERS: return walk_members(m, i, m->s->match[atom->reg]);
    case HYP_FROM_USES: return walk_uses(m, i, m->s->match[atom->kids[step->via].reg]);
    case HYP_FROM_TABLE: return look_up(m, i);
    case HYP_FROM_LOG: break;
    }
    const hyp_egraph *eg = m->s->eg;
    uint32_t since = step->only_new ? m->since : 0;
    if (atom->seq == HYP_NONE) return walk_log(m, i, atom->op, since);
    uint32_t op = atom->symbol < eg->first_op.len ? eg->first_op.data[atom->symbol] : HYP_NONE;
    for (; op != HYP_NONE; op = eg->ops.data[op].next_op)
        if (fits(eg, atom, op)) HYP_TRY(walk_log(m, i, op, since));
    return HYP_OK;
}

/* The class of a ground term at the last rebuild, HYP_NONE if it was not there. Notes its rows. */
static hyp_status find_ground(hyp_search *s, const hyp_pat *node, uint32_t *out, hyp_diag *diag)
{
    hyp_egraph *eg = s->eg;
    uint32_t *kids = hyp_malloc(node->count * sizeof *kids), row = HYP_NONE;
    if (!kids) return hyp_fail_memory(diag, node->count * sizeof *kids);
    hyp_status status = HYP_OK;
    bool found = true;
    for (uint32_t j = 0; j < node->count && status == HYP_OK && found; j++) {
        status = find_ground(s, &node->kids[j], &kids[j], diag);
        found = kids[j] != HYP_NONE;
    }
    if (status == HYP_OK && found) row = hyp_eg_lookup(eg, node->op, kids);
    hyp_free(kids);
    *out = row < s->row_limit ? eg->home[row] : HYP_NONE;
    s->match[s->rule->reg_count + node->index] = row;
    return status;
}

hyp_status hyp_match(hyp_search *s, uint32_t *out_grounds)
{
    hyp_rule *rule = s->rule;
    run m = {.s = s, .since = rule->forgets ? 0 : rule->since};
    bool absent = false;
    uint32_t changed = HYP_NONE;
    s->buffered = 0;
    for (uint32_t g = 0; g < rule->ground_count; g++) {
        HYP_TRY(find_ground(s, rule->grounds[g], &out_grounds[g], s->diag));
        if (out_grounds[g] == HYP_NONE) absent = true;
        if (out_grounds[g] != rule->ground_class[g] && changed == HYP_NONE) changed = g;
        for (uint32_t h = 0; h < g; h++) /* two ground terms may be asked to be one class */
            if (rule->grounds[h]->reg == rule->grounds[g]->reg && out_grounds[h] != out_grounds[g]) absent = true;
        s->match[rule->grounds[g]->reg] = out_grounds[g];
    }
    if (absent) return HYP_OK;
    /* At first everything is new, and the plan of the first atom finds it all. */
    uint32_t plans = m.since == 0 && rule->atom_count ? 1 : rule->atom_count;
    for (uint32_t i = 0; i < plans; i++) {
        m.plan = &rule->plans[i];
        HYP_TRY(step_on(&m, 0));
    }
    if (rule->atom_count == 0 && rule->forgets) changed = 0;
    if (changed != HYP_NONE && (m.since || rule->atom_count == 0)) {
        m.plan = &rule->plans[rule->atom_count + changed];
        HYP_TRY(step_on(&m, 0));
    }
    return flush(s);
}
