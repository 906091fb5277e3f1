/* Finding the matches of a rule: the plans of compile.c, run by backtracking over the indexes. */
#include <string.h>

#include "egraph/rules/rule.h"

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

/* The match under way in the next place, of which the last step of a plan then writes what is its own. It is not
 * written before and copied: a word that is copied with its neighbours as soon as it is written makes the processor wait. */
static inline void begin_match(uint32_t *to, const uint32_t *match, uint32_t words)
{
    for (uint32_t w = 0; w < words; w += HYP_MATCH_COPY) memcpy(to + w, match + w, HYP_MATCH_COPY * sizeof *to);
}

static inline hyp_status emit(hyp_search *s)
{
    uint32_t words = hyp_match_words(s->rule);
    begin_match(s->buffer + s->buffered * words, s->match, words);
    return ++s->buffered == HYP_MATCH_BATCH ? flush(s) : HYP_OK;
}

/* Asks the final conditions of a step. Its variables stand for classes as of the last rebuild; they are asked about as
 * they are now, as conditions always are. */
static hyp_status check(hyp_search *s, const hyp_step *step, bool *out)
{
    enum { MOST = 8 };
    *out = true;
    for (uint32_t i = 0; i < step->check_count && *out; i++) {
        const hyp_cond *cond = step->checks[i];
        const hyp_callback cb = s->eg->callbacks.data[cond->callback];
        uint32_t args[MOST];
        if (cond->count > MOST) continue;
        for (uint32_t j = 0; j < cond->count; j++) args[j] = hyp_eg_find(s->eg, s->match[cond->args[j].reg]);
        hyp_eg_view_release(s->eg);
        hyp_call call = {.eg = s->eg, .args = args, .arg_count = cond->count, .user = cb.user};
        hyp_status status = cb.condition(&call, out, s->diag);
        if (status != HYP_OK && status != HYP_ERR_MALFORMED) return status;
        if (status != HYP_OK) *out = true; /* what is wrong with it is told when it is applied */
    }
    return HYP_OK;
}

static inline hyp_status go_on(run *m, uint32_t i)
{
    const hyp_step *step = &m->plan->steps[i];
    if (step->check_count) {
        bool holds;
        HYP_TRY(check(m->s, step, &holds));
        if (!holds) return HYP_OK;
    }
    return i + 1 == m->plan->count ? emit(m->s) : step_on(m, i + 1);
}

/* Takes a row for step i if it agrees with what is bound, and goes on. Nothing that points into the rows is held over
 * go_on: a full batch is applied at once, and the arrays may move. */
static hyp_status try_row(run *m, uint32_t i, uint32_t row)
{
    hyp_search *s = m->s;
    hyp_egraph *eg = s->eg;
    const hyp_step *step = &m->plan->steps[i];
    const hyp_pat *atom = step->atom;
    if (row >= s->row_limit || !hyp_pat_fits(eg, atom, eg->rows[row].op)) return HYP_OK;
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
        match[atom->reg] = eg->rows[row].home;
    else if (match[atom->reg] != eg->rows[row].home)
        return HYP_OK;
    match[s->rule->reg_count + atom->index] = row;
    return go_on(m, i);
}

/* The same for a row that fits a plain step, from a copy. */
static inline hyp_status try_copy(run *m, uint32_t i, const hyp_step *step, uint32_t kid0, uint32_t kid1, uint32_t home,
                                  uint32_t row)
{
    uint32_t *match = m->s->match;
    if (step->bind_kid[0])
        match[step->kid_reg[0]] = kid0;
    else if (match[step->kid_reg[0]] != kid0)
        return HYP_OK;
    if (step->bind_kid[1])
        match[step->kid_reg[1]] = kid1;
    else if (match[step->kid_reg[1]] != kid1)
        return HYP_OK;
    if (step->bind_class)
        match[step->class_reg] = home;
    else if (match[step->class_reg] != home)
        return HYP_OK;
    match[step->row_at] = row;
    return go_on(m, i);
}

static inline hyp_status tick(hyp_search *s, size_t candidates)
{
    enum { EVERY = 4096 };
    s->ticks += candidates;
    if (s->ticks < EVERY || !s->tick) return HYP_OK;
    s->ticks = 0;
    return s->tick(s->user, s->diag);
}

/* The rows of one operator that were logged before this search and, for only_new, since the last one. */
static hyp_status walk_log(run *m, uint32_t i, uint32_t op, uint32_t since)
{
    hyp_egraph *eg = m->s->eg;
    const hyp_step *step = &m->plan->steps[i];
    const hyp_op *o = &eg->ops.data[op]; /* a rule may make new operators, and they move; the log stays */
    const uint32_t *log = o->log.data;
    size_t mark = o->marks.len, mark_count = o->marks.len, len = o->log.len;
    const hyp_mark *marks = o->marks.data;
    while (mark > 0 && marks[mark - 1].epoch >= since) mark--;
    for (; mark < mark_count; mark++) {
        uint32_t epoch = marks[mark].epoch;
        size_t end = mark + 1 < mark_count ? marks[mark + 1].pos : len;
        HYP_TRY(tick(m->s, end - marks[mark].pos));
        for (size_t pos = marks[mark].pos; pos < end; pos++) {
            uint32_t row = log[pos];
            if (eg->stamp[row] != epoch) continue; /* logged again later */
            const hyp_row r = eg->rows[row];
            if (!step->plain || step->only_old)
                HYP_TRY(try_row(m, i, row));
            else if (r.op == op)
                HYP_TRY(try_copy(m, i, step, r.kid[0], r.kid[1], r.home, row));
        }
    }
    return HYP_OK;
}

/* ---- through the index -------------------------------------------------------------------------- */

/* Whether a copy that is believed was old at the rule's last search. */
static inline bool is_old(const run *m, uint32_t op, uint32_t row)
{
    const hyp_index *x = &m->s->eg->index;
    if (m->since == x->epoch) return !(op & HYP_INDEX_FRESH);
    return m->since > x->epoch || m->s->eg->stamp[row] < m->since;
}

/* Narrows [*lo, *hi), ascending by `key` of an element, to those where it is `want`. */
#define narrow(elements, key, want, lo, hi)                                                                            \
    do {                                                                                                               \
        enum { STEP_BY_STEP = 8 };                                                                                     \
        for (uint32_t end_ = (hi); end_ - (lo) > STEP_BY_STEP;) {                                                      \
            uint32_t mid_ = (lo) + (end_ - (lo)) / 2;                                                                  \
            if (key((elements)[mid_]) < (want))                                                                        \
                (lo) = mid_ + 1;                                                                                       \
            else                                                                                                       \
                end_ = mid_;                                                                                           \
        }                                                                                                              \
        while ((lo) < (hi) && key((elements)[lo]) < (want)) (lo)++;                                                    \
    } while (0)

#define MEMBER_KEY(e) ((e).op & ~HYP_INDEX_FRESH)
#define USE_KEY(e) ((uint64_t)((e).op & ~HYP_INDEX_FRESH) << 1 | ((e).slot & 1)) /* arity <= 2 */

/* The match at *to, one of *n in the buffer before it, is whole. */
static inline hyp_status end_match(hyp_search *s, uint32_t words, size_t *n, uint32_t **to)
{
    *to += words;
    if (++*n < HYP_MATCH_BATCH) return HYP_OK;
    s->buffered = *n;
    *n = 0;
    *to = s->buffer;
    return flush(s);
}

/* The members of a class that the last step takes, when no copy is stale. Gives where they end. Inlined for matches of at
 * most `most` words. */
static inline hyp_status take_members(run *m, const hyp_step *step, uint32_t most, const hyp_member **at,
                                      const hyp_member *end)
{
    hyp_search *s = m->s;
    const uint32_t op = step->op, kid0 = step->kid_reg[0], kid1 = step->kid_reg[1], row_at = step->row_at;
    const uint32_t words = hyp_match_words(s->rule);
    const bool only_old = step->only_old, fresh_last = m->since == s->eg->index.epoch;
    size_t n = s->buffered;
    uint32_t *to = s->buffer + n * words;
    const hyp_member *e = *at;
    for (; e < end && MEMBER_KEY(*e) == op; e++) {
        if (only_old && !is_old(m, e->op, e->row)) {
            if (!fresh_last) continue;
            e = end; /* as is all that follows */
            break;
        }
        begin_match(to, s->match, most);
        to[kid0] = e->kid[0];
        to[kid1] = e->kid[1];
        to[row_at] = e->row;
        HYP_TRY(end_match(s, words, &n, &to));
    }
    s->buffered = n;
    *at = e;
    return HYP_OK;
}

static hyp_status end_with_members(run *m, const hyp_step *step, uint32_t c, const hyp_member **e, const hyp_member *end)
{
    uint32_t words = hyp_match_words(m->s->rule);
    m->s->match[step->class_reg] = c;
    if (words <= HYP_MATCH_COPY) return take_members(m, step, HYP_MATCH_COPY, e, end);
    if (words <= 2 * HYP_MATCH_COPY) return take_members(m, step, 2 * HYP_MATCH_COPY, e, end);
    return take_members(m, step, words, e, end);
}

/* The same for the uses of a class. */
static inline hyp_status take_uses(run *m, const hyp_step *step, uint32_t most, const hyp_use **at, const hyp_use *end)
{
    hyp_search *s = m->s;
    const uint32_t other = step->kid_reg[1 - step->via], class_reg = step->class_reg, row_at = step->row_at;
    const uint32_t words = hyp_match_words(s->rule);
    const uint64_t want = (uint64_t)step->op << 1 | step->via;
    const bool only_old = step->only_old, fresh_last = m->since == s->eg->index.epoch, bind_class = step->bind_class;
    size_t n = s->buffered;
    uint32_t *to = s->buffer + n * words;
    const hyp_use *e = *at;
    for (; e < end && USE_KEY(*e) == want; e++) {
        uint32_t row = e->slot >> 1;
        if (only_old && !is_old(m, e->op, row)) {
            if (!fresh_last) continue;
            e = end;
            break;
        }
        if (!bind_class && s->match[class_reg] != e->home) continue;
        begin_match(to, s->match, most);
        to[other] = e->other;
        to[class_reg] = e->home;
        to[row_at] = row;
        HYP_TRY(end_match(s, words, &n, &to));
    }
    s->buffered = n;
    *at = e;
    return HYP_OK;
}

static hyp_status end_with_uses(run *m, const hyp_step *step, const hyp_use **e, const hyp_use *end)
{
    uint32_t words = hyp_match_words(m->s->rule);
    if (words <= HYP_MATCH_COPY) return take_uses(m, step, HYP_MATCH_COPY, e, end);
    if (words <= 2 * HYP_MATCH_COPY) return take_uses(m, step, 2 * HYP_MATCH_COPY, e, end);
    return take_uses(m, step, words, e, end);
}

static hyp_status walk_members(run *m, uint32_t i, uint32_t c)
{
    hyp_egraph *eg = m->s->eg;
    const hyp_index *x = &eg->index;
    const hyp_step *step = &m->plan->steps[i];
    hyp_cursor at = hyp_members_of(eg, c);
    if (step->plain) {
        uint32_t op = step->op;
        bool clean = x->changed == 0;
        narrow(x->members, MEMBER_KEY, op, at.at, at.end);
        const hyp_member *e = x->members + at.at, *end = x->members + at.end;
        if (clean && step->is_end && e < end && MEMBER_KEY(*e) == op) HYP_TRY(end_with_members(m, step, c, &e, end));
        for (; e < end && MEMBER_KEY(*e) == op; e++) {
            if (!clean && hyp_index_stale(x, e->row))
                HYP_TRY(try_row(m, i, e->row));
            else if (!step->only_old || is_old(m, e->op, e->row))
                HYP_TRY(try_copy(m, i, step, e->kid[0], e->kid[1], c, e->row));
        }
        HYP_TRY(tick(m->s, (size_t)(e - x->members) - at.at));
        at.at = at.end;
    }
    if (at.at == at.end && at.link == HYP_NONE) return HYP_OK; /* mostly */
    for (uint32_t row; (row = hyp_next_member(eg, &at)) != HYP_NONE;) {
        HYP_TRY(tick(m->s, 1));
        HYP_TRY(try_row(m, i, row));
    }
    return HYP_OK;
}

static hyp_status walk_uses(run *m, uint32_t i, uint32_t c)
{
    hyp_egraph *eg = m->s->eg;
    const hyp_index *x = &eg->index;
    const hyp_step *step = &m->plan->steps[i];
    hyp_cursor at = hyp_uses_of(eg, c);
    if (step->plain) {
        uint64_t want = (uint64_t)step->op << 1 | step->via;
        bool clean = x->changed == 0;
        narrow(x->uses, USE_KEY, want, at.at, at.end);
        const hyp_use *e = x->uses + at.at, *end = x->uses + at.end;
        if (clean && step->is_end && e < end && USE_KEY(*e) == want) HYP_TRY(end_with_uses(m, step, &e, end));
        for (; e < end && USE_KEY(*e) == want; e++) {
            uint32_t row = e->slot >> 1;
            if (!clean && hyp_index_stale(x, row))
                HYP_TRY(try_row(m, i, row));
            else if (!step->only_old || is_old(m, e->op, row))
                HYP_TRY(try_copy(m, i, step, step->via ? e->other : c, step->via ? c : e->other, e->home, row));
        }
        HYP_TRY(tick(m->s, (size_t)(e - x->uses) - at.at));
        at.at = at.end;
    } else if (step->atom->sequence == HYP_NONE) {
        uint32_t op = step->atom->op, past = at.end;
        narrow(x->uses, MEMBER_KEY, op, at.at, at.end);
        at.end = at.at;
        narrow(x->uses, MEMBER_KEY, op + 1, at.end, past);
    }
    if (at.at == at.end && at.link == HYP_NONE) return HYP_OK;
    for (uint32_t slot; (slot = hyp_next_use(eg, &at)) != HYP_NONE;) {
        HYP_TRY(tick(m->s, 1));
        uint32_t row = hyp_slot_row(eg, slot), op = eg->rows[row].op;
        if (!hyp_pat_fits(eg, step->atom, op)) continue;
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
    HYP_TRY(tick(s, 1));
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
    if (atom->sequence == HYP_NONE) return walk_log(m, i, atom->op, since);
    uint32_t op = atom->symbol < eg->first_op.len ? eg->first_op.data[atom->symbol] : HYP_NONE;
    for (; op != HYP_NONE; op = eg->ops.data[op].next_op)
        if (hyp_pat_fits(eg, atom, op)) HYP_TRY(walk_log(m, i, op, since));
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
    *out = row < s->row_limit ? eg->rows[row].home : HYP_NONE;
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
