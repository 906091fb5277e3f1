/* plan.c - in which order the atoms of a left side are joined, for each atom that may be the one that changed. What can be
 * computed is computed at once; then comes the atom of which most is known. */
#include "egraph/egglog/db.h"

typedef struct planner {
    hyp_el_lower *l;
    const hyp_el_code *code;
    bool *bound;  /* by register */
    bool *made;   /* by register: the value of some atom */
    bool *placed; /* by instruction */
} planner;

static bool all_bound(const planner *p, const hyp_el_ins *ins)
{
    for (uint32_t i = 0; i < ins->count; i++)
        if (!p->bound[ins->args[i]]) return false;
    return true;
}

static void place_atom(planner *p, uint32_t i, uint32_t first, hyp_el_step *step)
{
    const hyp_el_ins *ins = &p->code->body[i];
    *step = (hyp_el_step){.ins = ins, .old_only = i < first, .delta = i == first};
    for (uint32_t c = 0; c < ins->count; c++)
        if (p->bound[ins->args[c]]) step->known |= UINT64_C(1) << c;
    for (uint32_t c = 0; c < ins->count; c++) {
        if (p->bound[ins->args[c]] && !(step->known >> c & 1)) step->again |= UINT64_C(1) << c;
        p->bound[ins->args[c]] = true;
    }
    uint64_t keys = (UINT64_C(1) << (ins->count - 1)) - 1;
    bool all_keys = (step->known & keys) == keys;
    step->source = all_keys ? HYP_EL_FROM_KEY : step->known ? HYP_EL_FROM_INDEX : HYP_EL_FROM_ROWS;
    p->placed[i] = true;
}

/* Whatever can be computed or compared by now. */
static void place_ready(planner *p, hyp_el_plan *plan)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = p->code->atom_count; i < p->code->body_count; i++) {
            const hyp_el_ins *ins = &p->code->body[i];
            if (p->placed[i] || !all_bound(p, ins)) continue;
            hyp_el_step *step = &plan->steps[plan->count++];
            *step = (hyp_el_step){.source = HYP_EL_FROM_CODE, .ins = ins};
            if (ins->op == HYP_EL_PRIM) {
                step->bind_out = !p->bound[ins->out];
                p->bound[ins->out] = true;
            }
            p->placed[i] = more = true;
        }
    }
}

/* The atom to go on with: a row by its key before all, then the one with most known columns for those that are not. A known
 * class that an atom makes counts twice: from a term to what uses it, or back, few rows lead, from a variable that two terms
 * share (a factor, a constant) very many may. */
static uint32_t best_atom(const planner *p)
{
    uint32_t best = HYP_EL_NONE;
    int best_score = 0;
    for (uint32_t i = 0; i < p->code->atom_count; i++) {
        if (p->placed[i]) continue;
        const hyp_el_ins *ins = &p->code->body[i];
        int known = 0, keys = 0;
        for (uint32_t c = 0; c < ins->count; c++) {
            if (!p->bound[ins->args[c]]) continue;
            known += p->made[ins->args[c]] ? 2 : 1;
            keys += c + 1 < ins->count;
        }
        int score = keys + 1 == (int)ins->count ? 1000 : known ? 200 + 4 * known - (int)ins->count : 0;
        if (best != HYP_EL_NONE && score <= best_score) continue;
        best = i;
        best_score = score;
    }
    return best;
}

/* Whether an atom is one row at most, found by its key. */
static bool keys_bound(const planner *p, uint32_t atom)
{
    const hyp_el_ins *ins = &p->code->body[atom];
    for (uint32_t c = 0; c + 1 < ins->count; c++)
        if (!p->bound[ins->args[c]]) return false;
    return true;
}

static hyp_status make_plan(planner *p, uint32_t first, hyp_el_plan *plan)
{
    hyp_el_lower *l = p->l;
    for (uint32_t i = 0; i < p->code->reg_count; i++) p->bound[i] = l->regs.data[i].constant;
    for (uint32_t i = 0; i < p->code->body_count; i++) p->placed[i] = false;
    plan->steps = hyp_arena_zalloc(l->arena, p->code->body_count + 1, sizeof *plan->steps);
    if (!plan->steps) return hyp_fail_memory(l->diag, p->code->body_count * sizeof *plan->steps);
    place_ready(p, plan);
    for (uint32_t next; (next = best_atom(p)) != HYP_EL_NONE && next != first && keys_bound(p, next);) {
        place_atom(p, next, first, &plan->steps[plan->count++]);
        place_ready(p, plan);
    }
    if (p->code->atom_count) place_atom(p, first, first, &plan->steps[plan->count++]);
    for (;;) {
        place_ready(p, plan);
        uint32_t next = best_atom(p);
        if (next == HYP_EL_NONE) break;
        place_atom(p, next, first, &plan->steps[plan->count++]);
    }
    if (plan->count == p->code->body_count) return HYP_OK;
    return hyp_fail(l->diag, HYP_ERR_MALFORMED, "%s: %s: a primitive has an argument that nothing binds", l->file,
                    l->for_what);
}

hyp_status hyp_el_make_plans(hyp_el_lower *l, hyp_el_code *code)
{
    uint32_t count = code->atom_count ? code->atom_count : 1;
    code->plans = hyp_arena_zalloc(l->arena, count, sizeof *code->plans);
    planner p = {.l = l, .code = code};
    p.bound = hyp_calloc(code->reg_count + 1, sizeof *p.bound);
    p.placed = hyp_calloc(code->body_count + 1, sizeof *p.placed);
    p.made = hyp_calloc(code->reg_count + 1, sizeof *p.made);
    hyp_status status = HYP_OK;
    if (!code->plans || !p.bound || !p.placed || !p.made) status = hyp_fail_memory(l->diag, code->reg_count);
    for (uint32_t i = 0; i < code->atom_count && status == HYP_OK; i++) p.made[code->body[i].out] = true;
    for (uint32_t i = 0; i < count && status == HYP_OK; i++) status = make_plan(&p, i, &code->plans[i]);
    hyp_free(p.bound);
    hyp_free(p.placed);
    hyp_free(p.made);
    return status;
}
