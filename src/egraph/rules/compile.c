/* Search plans: in which order the atoms of a left side are looked for, and through which index; and in which order the
 * e-nodes of a right side are made. */
#include "egraph/rules/rule.h"

typedef struct compiler {
    hyp_arena *arena;
    hyp_rule *rule;
    const hyp_callback *callbacks;
    hyp_pat **atoms; /* e-nodes with variables below, in pre-order */
    bool *bound;     /* by register */
    bool *placed;    /* by atom */
    const hyp_cond **finals; /* conditions that can end a search early */
    uint32_t final_count;
    bool *asked; /* by final condition: in the plan under way */
    hyp_diag *diag;
} compiler;

static void *take(compiler *c, size_t count, size_t size) { return hyp_arena_zalloc(c->arena, count, size); }

static void gather(compiler *c, hyp_pat *node)
{
    if (node->kind != HYP_PAT_NODE) return;
    if (node->ground) {
        c->rule->grounds[c->rule->ground_count++] = node;
        return;
    }
    c->atoms[c->rule->atom_count++] = node;
    for (uint32_t j = 0; j < node->count; j++) gather(c, &node->kids[j]);
}

/* How good it is to look for an atom now, and the way to do it. */
static int rate(const compiler *c, const hyp_pat *atom, hyp_source *out_source, uint32_t *out_via)
{
    bool all = atom->sequence == HYP_NONE;
    int through = 0;
    for (uint32_t j = 0; j < atom->count; j++) {
        const hyp_pat *kid = &atom->kids[j];
        if (kid->kind == HYP_PAT_SEQ) continue;
        if (!c->bound[kid->reg]) {
            all = false;
        } else if (through < 2) { /* a constant has more uses than a class met on the way */
            int score = kid->kind == HYP_PAT_NODE && kid->ground ? 1 : 2;
            if (score > through) through = score, *out_via = j;
        }
    }
    *out_source = all                   ? HYP_FROM_TABLE
                  : c->bound[atom->reg] ? HYP_FROM_MEMBERS
                  : through             ? HYP_FROM_USES
                                        : HYP_FROM_LOG;
    return all ? 4 : c->bound[atom->reg] ? 3 : through;
}

static hyp_status place(compiler *c, uint32_t i, hyp_source source, uint32_t via, bool only_new, bool only_old,
                        hyp_plan *plan)
{
    const hyp_pat *atom = c->atoms[i];
    hyp_step *step = &plan->steps[plan->count++];
    *step = (hyp_step){.atom = atom, .source = source, .only_new = only_new, .only_old = only_old, .via = via};
    step->bind = take(c, atom->count, sizeof *step->bind);
    if (!step->bind) return hyp_fail_memory(c->diag, atom->count);
    for (uint32_t j = 0; j < atom->count; j++) {
        if (atom->kids[j].kind == HYP_PAT_SEQ) continue;
        bool *bound = &c->bound[atom->kids[j].reg];
        step->bind[j] = !*bound;
        *bound = true;
    }
    step->bind_class = !c->bound[atom->reg];
    step->plain = atom->sequence == HYP_NONE && atom->count <= 2;
    step->op = atom->op;
    step->class_reg = atom->reg;
    step->row_at = c->rule->reg_count + atom->index;
    for (uint32_t j = 0; j < 2 && step->plain; j++) {
        step->bind_kid[j] = j >= atom->count || step->bind[j];
        step->kid_reg[j] = j < atom->count ? atom->kids[j].reg : c->rule->reg_count + c->rule->left_nodes;
    }
    c->bound[atom->reg] = true;
    c->placed[i] = true;
    return HYP_OK;
}

static bool is_bound(const compiler *c, const hyp_cond *cond)
{
    for (uint32_t i = 0; i < cond->count; i++)
        if (!c->bound[cond->args[i].reg]) return false;
    return true;
}

/* Gives the last step the final conditions that can be asked after it. A match that does not pass is none, and need not
 * be kept to be asked again. */
static hyp_status place_checks(compiler *c, hyp_plan *plan)
{
    hyp_step *step = &plan->steps[plan->count - 1];
    if (c->final_count == 0) return HYP_OK;
    step->checks = take(c, c->final_count, sizeof *step->checks);
    if (!step->checks) return hyp_fail_memory(c->diag, c->final_count * sizeof *step->checks);
    for (uint32_t i = 0; i < c->final_count; i++) {
        if (c->asked[i] || !is_bound(c, c->finals[i])) continue;
        c->asked[i] = true;
        step->checks[step->check_count++] = c->finals[i];
    }
    return HYP_OK;
}

static bool is_end(const hyp_step *step)
{
    bool kids = true;
    for (uint32_t j = 0; j < 2; j++)
        kids = kids && (step->bind_kid[j] || (step->source == HYP_FROM_USES && step->via == j));
    return step->plain && kids && step->check_count == 0;
}

/* The plan whose atom `delta` is new; atom_count or more: whose ground term is. */
static hyp_status make_plan(compiler *c, uint32_t delta, hyp_plan *plan)
{
    hyp_rule *rule = c->rule;
    plan->steps = take(c, rule->atom_count, sizeof *plan->steps);
    if (!plan->steps) return hyp_fail_memory(c->diag, rule->atom_count * sizeof *plan->steps);
    for (uint32_t r = 0; r < rule->reg_count; r++) c->bound[r] = false;
    for (uint32_t i = 0; i < rule->atom_count; i++) c->placed[i] = false;
    for (uint32_t i = 0; i < c->final_count; i++) c->asked[i] = false;
    for (uint32_t g = 0; g < rule->ground_count; g++) c->bound[rule->grounds[g]->reg] = true;
    if (delta < rule->atom_count) {
        HYP_TRY(place(c, delta, HYP_FROM_LOG, 0, true, false, plan));
        HYP_TRY(place_checks(c, plan));
    }
    while (plan->count < rule->atom_count) {
        int best = -1;
        uint32_t next = 0, next_via = 0;
        hyp_source next_source = HYP_FROM_LOG;
        for (uint32_t i = 0; i < rule->atom_count; i++) {
            hyp_source source;
            uint32_t via = 0;
            if (c->placed[i]) continue;
            int score = rate(c, c->atoms[i], &source, &via);
            if (score > best) best = score, next = i, next_via = via, next_source = source;
        }
        HYP_TRY(place(c, next, next_source, next_via, false, next < delta, plan));
        HYP_TRY(place_checks(c, plan));
    }
    if (plan->count) plan->steps[plan->count - 1].is_end = is_end(&plan->steps[plan->count - 1]);
    return HYP_OK;
}

/* ---- builds ------------------------------------------------------------------------------------- */

static hyp_build make_build(const hyp_pat *pat, uint32_t action)
{
    hyp_build build = {.pat = pat, .action = action, .op = pat->op, .count = pat->count};
    build.plain = pat->sequence == HYP_NONE && pat->count <= 2;
    for (uint32_t j = 0; build.plain && j < pat->count; j++) {
        const hyp_pat *kid = &pat->kids[j];
        build.arg[j] = kid->kind == HYP_PAT_VAR    ? kid->reg
                       : kid->kind == HYP_PAT_NODE ? HYP_ARG_BUILT | kid->index
                                                   : HYP_ARG_CALLED | kid->index;
    }
    return build;
}

static void add_builds(hyp_rule *rule, const hyp_pat *pat, uint32_t action, bool *seen);

static void add_kids(hyp_rule *rule, const hyp_pat *pat, uint32_t action, bool *seen)
{
    for (uint32_t j = 0; j < pat->count; j++) add_builds(rule, &pat->kids[j], action, seen);
}

/* Adds the e-nodes of a term that are not there yet, innermost first. What a function is asked about is not among them. */
static void add_builds(hyp_rule *rule, const hyp_pat *pat, uint32_t action, bool *seen)
{
    if (pat->kind != HYP_PAT_NODE || seen[pat->index]) return;
    add_kids(rule, pat, action, seen);
    seen[pat->index] = true;
    rule->builds[rule->build_count++] = make_build(pat, action);
}

hyp_status hyp_rule_compile_actions(hyp_arena *arena, hyp_rule *rule, hyp_diag *diag)
{
    bool *seen = hyp_arena_zalloc(arena, rule->right_nodes, sizeof *seen);
    rule->builds = hyp_arena_zalloc(arena, rule->right_nodes, sizeof *rule->builds);
    if (!seen || !rule->builds) return hyp_fail_memory(diag, rule->right_nodes * sizeof *rule->builds);
    for (uint32_t a = 0; a < rule->action_count; a++) {
        const hyp_action *action = &rule->actions[a];
        if (!action->root) add_builds(rule, &action->left, a, seen);
        if (action->right.kind == HYP_PAT_NODE) add_kids(rule, &action->right, a, seen);
    }
    for (uint32_t a = 0; a < rule->action_count; a++) {
        hyp_action *action = &rule->actions[a];
        action->is_late = action->right.kind == HYP_PAT_NODE && !seen[action->right.index];
        if (action->is_late) action->late = make_build(&action->right, a);
    }
    return HYP_OK;
}

/* ---- conditions that can end a search early ------------------------------------------------------ */

/* Gathers the final conditions on variables that must all hold; counts them where there is no room yet. */
static void gather_finals(compiler *c, const hyp_cond *cond)
{
    for (uint32_t i = 0; cond->kind == HYP_COND_AND && i < cond->count; i++) gather_finals(c, &cond->kids[i]);
    if (cond->kind != HYP_COND_CALL || !c->callbacks[cond->callback].final) return;
    for (uint32_t i = 0; i < cond->count; i++)
        if (cond->args[i].kind != HYP_PAT_VAR) return;
    if (c->finals) c->finals[c->final_count] = cond;
    c->final_count++;
}

static hyp_status find_finals(compiler *c)
{
    const hyp_cond *cond = c->rule->cond;
    if (!cond) return HYP_OK;
    gather_finals(c, cond);
    if (!c->final_count) return HYP_OK;
    c->finals = take(c, c->final_count, sizeof *c->finals);
    c->asked = take(c, c->final_count, sizeof *c->asked);
    if (!c->finals || !c->asked) return hyp_fail_memory(c->diag, c->final_count * sizeof *c->finals);
    c->final_count = 0;
    gather_finals(c, cond);
    return HYP_OK;
}

hyp_status hyp_rule_compile(const hyp_egraph *eg, hyp_arena *arena, hyp_rule *rule, hyp_diag *diag)
{
    compiler c = {.arena = arena, .rule = rule, .callbacks = eg->callbacks.data, .diag = diag};
    size_t nodes = rule->left_nodes;
    c.atoms = take(&c, nodes, sizeof *c.atoms);
    c.bound = take(&c, rule->reg_count, sizeof *c.bound);
    c.placed = take(&c, nodes, sizeof *c.placed);
    rule->grounds = take(&c, nodes, sizeof *rule->grounds);
    rule->plans = take(&c, nodes, sizeof *rule->plans);
    rule->ground_class = take(&c, nodes, sizeof *rule->ground_class);
    if (!c.atoms || !c.bound || !c.placed || !rule->grounds || !rule->plans || !rule->ground_class)
        return hyp_fail_memory(diag, nodes * sizeof *rule->plans);
    HYP_TRY(find_finals(&c));
    HYP_TRY(hyp_rule_compile_actions(arena, rule, diag));
    for (uint32_t i = 0; i < rule->left_count; i++) gather(&c, &rule->left[i]);
    for (uint32_t g = 0; g < rule->ground_count; g++) rule->ground_class[g] = HYP_NONE;
    for (uint32_t i = 0; i < rule->atom_count + rule->ground_count; i++) HYP_TRY(make_plan(&c, i, &rule->plans[i]));
    return HYP_OK;
}
