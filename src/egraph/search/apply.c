/* What a rule asks about a match before it is applied: conditions and functions, and the terms that they are asked about. */
#include "egraph/core/record.h"
#include "egraph/core/sorts.h"
#include "egraph/rules/rule.h"

/* The application under way. */
typedef struct job {
    hyp_applier *ap;
    hyp_egraph *eg;
    const hyp_rule *rule;
    const uint32_t *match;
    uint32_t *right; /* by index what e-nodes and calls of the right side gave, and answers; NULL: nobody wants to know */
    bool declined;
    const hyp_pat *declined_by; /* the function, when it was one */
    hyp_diag *diag;
} job;

static hyp_status push(job *b, uint32_t c) { return hyp_vec_push(&b->ap->args, b->diag, c); }

hyp_status hyp_apply_push_sequence(hyp_applier *ap, const hyp_rule *rule, const uint32_t *match, const hyp_pat *seq,
                                   hyp_diag *diag)
{
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(ap->eg, match[rule->reg_count + seq->index], &n);
    for (uint32_t j = seq->before; j + seq->after < n; j++) HYP_TRY(hyp_vec_push(&ap->args, diag, kids[j]));
    return HYP_OK;
}

static hyp_status push_sequence(job *b, const hyp_pat *seq)
{
    return hyp_apply_push_sequence(b->ap, b->rule, b->match, seq, b->diag);
}

static hyp_status build(job *b, const hyp_pat *pat, uint32_t *out);

static hyp_status push_kids(job *b, const hyp_pat *pat)
{
    for (uint32_t j = 0; j < pat->count; j++) {
        const hyp_pat *kid = &pat->kids[j];
        uint32_t c;
        if (kid->kind == HYP_PAT_SEQ) {
            HYP_TRY(push_sequence(b, kid));
            continue;
        }
        HYP_TRY(build(b, kid, &c));
        if (b->declined) return HYP_OK;
        HYP_TRY(push(b, c));
    }
    return HYP_OK;
}

static hyp_call make_call(job *b, size_t base, void *user)
{
    uint32_t *args = b->ap->args.data + base;
    size_t count = b->ap->args.len - base;
    for (size_t i = 0; i < count; i++) args[i] = hyp_eg_find(b->eg, args[i]);
    hyp_eg_view_release(b->eg);
    return (hyp_call){.eg = b->eg, .args = args, .arg_count = count, .user = user};
}

/* A function's result; sets declined where it has none. The arguments stay on the stack meanwhile. */
static hyp_status call_function(job *b, const hyp_pat *pat, uint32_t *out)
{
    size_t base = b->ap->args.len;
    HYP_TRY(push_kids(b, pat));
    if (!b->declined) {
        const hyp_callback cb = b->eg->callbacks.data[pat->callback];
        hyp_call call = make_call(b, base, cb.user);
        hyp_class_id result = HYP_NONE;
        HYP_TRY(cb.function(&call, &result, b->diag));
        if (result != HYP_NONE && result >= b->eg->row_count)
            return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT, "a function gave %u, which is no e-class", result);
        b->declined = result == HYP_NONE;
        if (b->declined) b->declined_by = pat;
        *out = result;
    }
    b->ap->args.len = base;
    return HYP_OK;
}

/* Whether what a right-side term gives is kept. */
static bool kept(const job *b, const hyp_pat *pat) { return b->right && pat->index != HYP_NONE; }

/* Makes or finds an e-node. */
static hyp_status build_node(job *b, const hyp_pat *pat, uint32_t *out)
{
    hyp_applier *ap = b->ap;
    size_t base = ap->args.len;
    uint32_t op = pat->op;
    bool created;
    HYP_TRY(push_kids(b, pat));
    if (b->declined) return HYP_OK;
    if (op == HYP_NONE) HYP_TRY(hyp_eg_op(b->eg, pat->symbol, (uint32_t)(ap->args.len - base), &op, b->diag));
    HYP_TRY(hyp_eg_add(b->eg, op, ap->args.data + base, HYP_NONE, out, &created, b->diag));
    ap->args.len = base;
    if (kept(b, pat)) b->right[pat->index] = *out;
    return HYP_OK;
}

/* The class of a term, made where it is not there. */
static hyp_status build(job *b, const hyp_pat *pat, uint32_t *out)
{
    if (pat->kind == HYP_PAT_NODE) return build_node(b, pat, out);
    if (pat->kind == HYP_PAT_VAR) {
        *out = b->match[pat->reg];
        return HYP_OK;
    }
    if (kept(b, pat) && b->right[pat->index] != HYP_NONE) { /* called already */
        *out = b->right[pat->index];
        return HYP_OK;
    }
    HYP_TRY(call_function(b, pat, out));
    if (kept(b, pat) && !b->declined) b->right[pat->index] = *out;
    return HYP_OK;
}

/* Calls the functions of a term, so that what is built afterwards is not built in vain. */
static hyp_status call_all(job *b, const hyp_pat *pat)
{
    uint32_t ignored;
    if (pat->kind == HYP_PAT_CALL) return build(b, pat, &ignored);
    if (pat->kind != HYP_PAT_NODE) return HYP_OK;
    for (uint32_t j = 0; j < pat->count && !b->declined; j++) HYP_TRY(call_all(b, &pat->kids[j]));
    return HYP_OK;
}

/* ---- conditions --------------------------------------------------------------------------------- */

/* An argument of a condition. A leaf is added, so that literals can be passed; any other e-node is only
 * looked up, and where there is none the condition does not hold (declined is set). */
static hyp_status push_argument(job *b, const hyp_pat *pat)
{
    uint32_t c = HYP_NONE;
    if (pat->kind == HYP_PAT_SEQ) return push_sequence(b, pat);
    if (pat->kind != HYP_PAT_NODE || pat->count == 0) {
        HYP_TRY(build(b, pat, &c));
    } else {
        size_t base = b->ap->args.len;
        for (uint32_t j = 0; j < pat->count && !b->declined; j++) HYP_TRY(push_argument(b, &pat->kids[j]));
        if (b->declined) return HYP_OK;
        c = hyp_egraph_lookup(b->eg, pat->symbol, b->ap->args.data + base, b->ap->args.len - base);
        b->ap->args.len = base;
        b->declined = c == HYP_NONE;
    }
    return b->declined ? HYP_OK : push(b, c);
}

static hyp_status holds(job *b, const hyp_cond *cond, bool *out)
{
    if (cond->kind == HYP_COND_CALL) {
        size_t base = b->ap->args.len;
        for (uint32_t i = 0; i < cond->count && !b->declined; i++) HYP_TRY(push_argument(b, &cond->args[i]));
        *out = false;
        if (!b->declined) {
            const hyp_callback cb = b->eg->callbacks.data[cond->callback];
            hyp_call call = make_call(b, base, cb.user);
            HYP_TRY(cb.condition(&call, out, b->diag));
        }
        if (b->right)
            b->right[cond->index] = b->declined ? HYP_ANSWER_ABSENT : *out ? HYP_ANSWER_YES : HYP_ANSWER_NO;
        b->declined = false;
        b->ap->args.len = base;
        return HYP_OK;
    }
    bool is_or = cond->kind == HYP_COND_OR, one = !is_or;
    for (uint32_t i = 0; i < cond->count; i++) {
        HYP_TRY(holds(b, &cond->kids[i], &one));
        if (one == is_or) break; /* decided; also right for `not`, which has one */
    }
    *out = cond->kind == HYP_COND_NOT ? !one : one;
    return HYP_OK;
}

hyp_status hyp_apply_agree(hyp_egraph *eg, uint32_t x, uint32_t y, hyp_diag *diag)
{
    HYP_TRY(hyp_sorts_agree(eg, x, y, diag)); /* what a function gave is of any sort */
    if (!eg->analysis.agree || x == y) return HYP_OK;
    const char *outer = hyp_eg_begin_reading(eg, "an analysis' agree");
    hyp_status status = eg->analysis.agree(eg, hyp_fact(eg, x), hyp_fact(eg, y), eg->analysis.user, diag);
    hyp_eg_end_reading(eg, outer);
    return status;
}

/* ---- one match ---------------------------------------------------------------------------------- */

bool hyp_apply_may_unite(const hyp_applier *ap, const hyp_rule *rule, hyp_class_id left, hyp_class_id right)
{
    const struct hyp_ruleset *rules = ap->rules;
    return !rules->may_unite || rules->may_unite(rules->may_unite_user, &rule->info, left, right);
}

/* Calls the functions of all actions. */
static hyp_status call_functions(job *b)
{
    const hyp_rule *rule = b->rule;
    for (uint32_t i = 0; rule->calls && i < rule->action_count && !b->declined; i++) {
        if (!rule->actions[i].root) HYP_TRY(call_all(b, &rule->actions[i].left));
        if (!b->declined) HYP_TRY(call_all(b, &rule->actions[i].right));
    }
    return HYP_OK;
}

/* Makes the applier ready for one match. */
static hyp_status begin(hyp_applier *ap, hyp_diag *diag)
{
    ap->args.len = 0;
    return hyp_vec_reserve(&ap->args, 1, diag); /* so that no offset is taken from NULL */
}

hyp_status hyp_apply_ask(hyp_applier *ap, const hyp_rule *rule, const uint32_t *match, uint32_t *right, hyp_outcome *out,
                         hyp_diag *diag)
{
    job b = {.ap = ap, .eg = ap->eg, .rule = rule, .match = match, .right = right, .diag = diag};
    bool ok = true;
    *out = HYP_APPLIED_DECLINED;
    HYP_TRY(begin(ap, diag));
    if (rule->cond) HYP_TRY(holds(&b, rule->cond, &ok));
    if (!ok) return HYP_OK;
    for (uint32_t i = 0; i < rule->action_count && ok; i++)
        if (rule->actions[i].root)
            ok = hyp_apply_may_unite(ap, rule, hyp_eg_find(ap->eg, match[rule->actions[i].root->reg]), HYP_NONE);
    if (ok) HYP_TRY(call_functions(&b));
    *out = !ok ? HYP_APPLIED_FORBIDDEN : b.declined ? HYP_APPLIED_DECLINED : HYP_APPLIED_NOTHING;
    return HYP_OK;
}

hyp_status hyp_apply_part(hyp_applier *ap, uint32_t rule_index, const uint32_t *match, bool *out_holds, uint32_t *out_keys,
                          hyp_diag *diag)
{
    const hyp_rule *rule = &ap->rules->rules.data[rule_index];
    job b = {.ap = ap, .eg = ap->eg, .rule = rule, .match = match, .diag = diag};
    *out_holds = true;
    HYP_TRY(begin(ap, diag));
    if (rule->cond) HYP_TRY(holds(&b, rule->cond, out_holds));
    for (uint32_t i = 0; i < rule->collecting->key_count && *out_holds; i++) {
        HYP_TRY(build(&b, &rule->collecting->keys[i], &out_keys[i]));
        *out_holds = !b.declined;
    }
    return HYP_OK;
}

/* ---- probing ------------------------------------------------------------------------------------ */

/* The part of a condition that does not hold: of an `and`, the first such part. */
static hyp_status blame(job *b, const hyp_cond *cond, const hyp_cond **out)
{
    bool ok;
    HYP_TRY(holds(b, cond, &ok));
    if (ok) return HYP_OK;
    *out = cond;
    const hyp_cond *part = NULL;
    for (uint32_t i = 0; cond->kind == HYP_COND_AND && i < cond->count && !part; i++)
        HYP_TRY(blame(b, &cond->kids[i], &part));
    if (part) *out = part;
    return HYP_OK;
}

static hyp_status probe_job(job *b, uint32_t number, hyp_probe *out)
{
    if (b->rule->cond) HYP_TRY(blame(b, b->rule->cond, &out->failed));
    if (out->failed) return HYP_OK;
    HYP_TRY(call_functions(b));
    out->declined = b->declined_by;
    if (b->declined || !b->rule->action_count) return HYP_OK;
    const hyp_action *action = &b->rule->actions[number];
    out->left = action->root ? b->match[action->root->reg] : HYP_NONE;
    if (!action->root) HYP_TRY(build(b, &action->left, &out->left));
    HYP_TRY(build(b, &action->right, &out->right));
    return hyp_apply_agree(b->eg, hyp_eg_find(b->eg, out->left), hyp_eg_find(b->eg, out->right), b->diag);
}

hyp_status hyp_apply_probe(struct hyp_ruleset *rules, uint32_t rule_index, const uint32_t *match, uint32_t number,
                           hyp_probe *out, hyp_diag *diag)
{
    hyp_applier ap = {.eg = rules->eg, .rules = rules};
    job b = {.ap = &ap, .eg = rules->eg, .rule = hyp_rule_applied(rules, rule_index), .match = match, .diag = diag};
    *out = (hyp_probe){.left = HYP_NONE, .right = HYP_NONE};
    hyp_status status = begin(&ap, diag);
    if (status == HYP_OK) status = hyp_vec_reserve(&ap.right, b.rule->right_nodes + 1, diag);
    for (uint32_t i = 0; i < b.rule->right_nodes && status == HYP_OK; i++) ap.right.data[i] = HYP_NONE;
    b.right = ap.right.data;
    if (status == HYP_OK) status = probe_job(&b, number, out);
    hyp_applier_dispose(&ap);
    out->refused = status == HYP_ERR_MALFORMED;
    return out->refused ? HYP_OK : status;
}

void hyp_applier_dispose(hyp_applier *ap)
{
    hyp_vec_free(&ap->args);
    hyp_vec_free(&ap->right);
    hyp_vec_free(&ap->notes);
}
