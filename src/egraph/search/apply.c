/* Applying a rule to a match: conditions, functions, the e-nodes of the right side, the unions. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/rules/rule.h"

/* The application under way. */
typedef struct job {
    hyp_applier *ap;
    hyp_egraph *eg;
    const hyp_rule *rule;
    const uint32_t *match;
    bool declined, created;
    const hyp_pat *declined_by; /* the function, when it was one */
    hyp_diag *diag;
} job;

static hyp_status push(job *b, uint32_t c) { return hyp_vec_push(&b->ap->args, b->diag, c); }

/* Pushes the children that a sequence variable matched. */
static hyp_status push_sequence(job *b, const hyp_pat *seq)
{
    uint32_t n, row = b->match[b->rule->reg_count + seq->index];
    const uint32_t *kids = hyp_row_kids(b->eg, row, &n);
    for (uint32_t j = seq->before; j + seq->after < n; j++) HYP_TRY(push(b, kids[j]));
    return HYP_OK;
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

/* Whether what a right-side term gives is kept for later: see hyp_apply. */
static bool kept(const job *b, const hyp_pat *pat) { return pat->index < b->ap->right.len; }

/* Makes or finds an e-node of the right side. A new row joins the class `into`, if any. */
static hyp_status build_node(job *b, const hyp_pat *pat, uint32_t into, uint32_t *out, bool *out_created)
{
    hyp_applier *ap = b->ap;
    size_t base = ap->args.len;
    uint32_t op = pat->op;
    HYP_TRY(push_kids(b, pat));
    if (b->declined) return HYP_OK;
    if (op == HYP_NONE) HYP_TRY(hyp_eg_op(b->eg, pat->symbol, (uint32_t)(ap->args.len - base), &op, b->diag));
    HYP_TRY(hyp_eg_add(b->eg, op, ap->args.data + base, into, out, out_created, b->diag));
    ap->args.len = base;
    b->created = b->created || *out_created;
    if (kept(b, pat)) ap->right.data[pat->index] = *out;
    return HYP_OK;
}

/* The class of a right-side term, made where it is not there. */
static hyp_status build(job *b, const hyp_pat *pat, uint32_t *out)
{
    bool created;
    if (pat->kind == HYP_PAT_NODE) return build_node(b, pat, HYP_NONE, out, &created);
    if (pat->kind == HYP_PAT_VAR) {
        *out = b->match[pat->reg];
        return HYP_OK;
    }
    if (kept(b, pat) && b->ap->right.data[pat->index] != HYP_NONE) { /* called already */
        *out = b->ap->right.data[pat->index];
        return HYP_OK;
    }
    HYP_TRY(call_function(b, pat, out));
    if (kept(b, pat) && !b->declined) b->ap->right.data[pat->index] = *out;
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
        if (cond->index < b->ap->right.len)
            b->ap->right.data[cond->index] = b->declined ? HYP_ANSWER_ABSENT : *out ? HYP_ANSWER_YES : HYP_ANSWER_NO;
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

/* ---- actions ------------------------------------------------------------------------------------ */

/* Writes the record of an application; its right-side part is filled in when it is known. */
static hyp_status begin_record(job *b, uint32_t rule_index, uint32_t action, uint32_t *out)
{
    hyp_proofs *proofs = &b->eg->proofs;
    size_t at = proofs->apps.len, words = HYP_APP_ROWS + b->rule->left_nodes + b->rule->right_nodes;
    HYP_TRY(hyp_proof_reserve(b->eg, words, b->diag));
    uint32_t *record = proofs->apps.data + at;
    record[HYP_APP_RULESET] = b->ap->rules->index;
    record[HYP_APP_RULE] = rule_index;
    record[HYP_APP_UNION] = action;
    memcpy(record + HYP_APP_ROWS, b->match + b->rule->reg_count, b->rule->left_nodes * sizeof *record);
    for (size_t i = HYP_APP_ROWS + b->rule->left_nodes; i < words; i++) record[i] = HYP_NONE;
    proofs->apps.len += words;
    *out = (uint32_t)at;
    return HYP_OK;
}

static void end_record(job *b, uint32_t record, bool keep)
{
    hyp_proofs *proofs = &b->eg->proofs;
    size_t rows = record + HYP_APP_ROWS + b->rule->left_nodes;
    if (!keep && proofs->apps.len == rows + b->rule->right_nodes)
        proofs->apps.len = record;
    else if (b->rule->right_nodes)
        memcpy(proofs->apps.data + rows, b->ap->right.data, b->rule->right_nodes * sizeof(uint32_t));
}

void hyp_apply_tell(const hyp_applier *ap, uint32_t rule_index, const uint32_t *match, uint32_t number,
                    uint32_t left_class, uint32_t right_class, uint32_t right)
{
    const hyp_rule *rule = hyp_rule_applied(ap->rules, rule_index);
    hyp_rewrite_event event = {.iteration = ap->iteration,
                               .rule = HYP_RULE_INDEX(rule_index),
                               .left = left_class,
                               .right = right_class,
                               .created = rule->actions[number].right.kind == HYP_PAT_NODE ? right : HYP_NONE};
    if (ap->eg->explain) {
        event.matched = match + rule->reg_count;
        event.matched_count = rule->left_nodes;
    }
    ap->on_rewrite(&event, ap->user);
}

/* Whether the analysis lets two classes be one. */
static hyp_status check_agree(job *b, uint32_t x, uint32_t y)
{
    hyp_egraph *eg = b->eg;
    if (!eg->analysis.agree || x == y) return HYP_OK;
    return eg->analysis.agree(eg, hyp_fact(eg, x), hyp_fact(eg, y), eg->analysis.user, b->diag);
}

/* Whether the ruleset's owner lets the rule unite these; `right` is HYP_NONE while it is not built. */
static bool may_unite(const job *b, hyp_class_id left, hyp_class_id right)
{
    const struct hyp_ruleset *rules = b->ap->rules;
    return !rules->may_unite || rules->may_unite(rules->may_unite_user, &b->rule->info, left, right);
}

/* Unites the two terms of one action. `record` is that of the application, for proofs. */
static hyp_status unite(job *b, uint32_t rule_index, uint32_t number, uint32_t record, bool *out_changed)
{
    hyp_egraph *eg = b->eg;
    const hyp_action *action = &b->rule->actions[number];
    uint32_t left, right;
    if (action->root) /* for proofs the e-node that was matched, else the class, which is nearer to its root */
        left = eg->explain ? b->match[b->rule->reg_count + action->root->index] : b->match[action->root->reg];
    else
        HYP_TRY(build(b, &action->left, &left));
    uint32_t left_class = hyp_eg_find(eg, left), right_class;
    bool born = false, changed = true; /* born: made as a member of the left class */
    if (action->right.kind == HYP_PAT_NODE) {
        uint32_t into = eg->analysis.data_size ? HYP_NONE : left_class; /* facts are joined by a union */
        HYP_TRY(build_node(b, &action->right, into, &right, &born));
        born = born && into != HYP_NONE;
    } else {
        HYP_TRY(build(b, &action->right, &right));
    }
    if (born) {
        right_class = right;
        if (eg->explain) hyp_proof_edge(eg, left, right, record);
    } else {
        right_class = hyp_eg_find(eg, right);
        if (!may_unite(b, left_class, right_class)) {
            if (eg->explain) end_record(b, record, b->created);
            return HYP_OK;
        }
        HYP_TRY(check_agree(b, left_class, right_class));
        HYP_TRY(hyp_eg_union(eg, left, right, record, &changed, b->diag));
    }
    changed = changed || b->created;
    if (eg->explain) end_record(b, record, changed || eg->explain_all);
    if (changed && b->ap->on_rewrite)
        hyp_apply_tell(b->ap, rule_index, b->match, number, left_class, right_class, right);
    *out_changed = *out_changed || changed;
    return HYP_OK;
}

/* Performs one action. */
static hyp_status act(job *b, uint32_t rule_index, uint32_t number, bool *out_changed)
{
    uint32_t record = HYP_NONE;
    b->created = false;
    if (b->eg->explain) {
        HYP_TRY(begin_record(b, rule_index, number, &record));
        b->eg->app = record;
    }
    hyp_status status = unite(b, rule_index, number, record, out_changed);
    if (status != HYP_OK && b->eg->explain) end_record(b, record, b->created); /* what was made names it */
    return status;
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

static hyp_status run_job(job *b, uint32_t rule_index, hyp_outcome *out)
{
    const hyp_rule *rule = b->rule;
    bool ok = true, changed = false;
    *out = HYP_APPLIED_DECLINED;
    if (rule->cond) HYP_TRY(holds(b, rule->cond, &ok));
    if (!ok) return HYP_OK;
    for (uint32_t i = 0; i < rule->action_count; i++) {
        if (!rule->actions[i].root || may_unite(b, hyp_eg_find(b->eg, b->match[rule->actions[i].root->reg]), HYP_NONE))
            continue;
        *out = HYP_APPLIED_NOTHING;
        return HYP_OK;
    }
    HYP_TRY(call_functions(b));
    if (b->declined) return HYP_OK;
    for (uint32_t i = 0; i < rule->action_count; i++) HYP_TRY(act(b, rule_index, i, &changed));
    *out = changed ? HYP_APPLIED_CHANGE : HYP_APPLIED_NOTHING;
    return HYP_OK;
}

/* Makes the applier ready for one match. */
static hyp_status begin(hyp_applier *ap, const hyp_rule *rule, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_reserve(&ap->args, 1, diag)); /* so that no offset is taken from NULL */
    ap->args.len = 0;
    ap->right.len = 0;
    if (!rule->calls && !ap->eg->explain) return HYP_OK; /* a plain rule: what it builds need not be kept */
    HYP_TRY(hyp_vec_reserve(&ap->right, rule->right_nodes, diag));
    ap->right.len = rule->right_nodes;
    for (size_t i = 0; i < ap->right.len; i++) ap->right.data[i] = HYP_NONE;
    return HYP_OK;
}

hyp_status hyp_apply(hyp_applier *ap, uint32_t rule_index, const uint32_t *match, hyp_outcome *out, hyp_diag *diag)
{
    const hyp_rule *rule = hyp_rule_applied(ap->rules, rule_index);
    job b = {.ap = ap, .eg = ap->eg, .rule = rule, .match = match, .diag = diag};
    HYP_TRY(begin(ap, rule, diag));
    hyp_status status = run_job(&b, rule_index, out);
    ap->eg->app = HYP_NONE;
    if (status != HYP_ERR_MALFORMED) return status;
    *out = HYP_APPLIED_REFUSED;
    return HYP_OK;
}

hyp_status hyp_apply_part(hyp_applier *ap, uint32_t rule_index, const uint32_t *match, bool *out_holds, uint32_t *out_keys,
                          hyp_diag *diag)
{
    const hyp_rule *rule = &ap->rules->rules.data[rule_index];
    job b = {.ap = ap, .eg = ap->eg, .rule = rule, .match = match, .diag = diag};
    *out_holds = true;
    HYP_TRY(begin(ap, rule, diag));
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
    return check_agree(b, hyp_eg_find(b->eg, out->left), hyp_eg_find(b->eg, out->right));
}

hyp_status hyp_apply_probe(struct hyp_ruleset *rules, uint32_t rule_index, const uint32_t *match, uint32_t number,
                           hyp_probe *out, hyp_diag *diag)
{
    hyp_applier ap = {.eg = rules->eg, .rules = rules};
    job b = {.ap = &ap, .eg = rules->eg, .rule = hyp_rule_applied(rules, rule_index), .match = match, .diag = diag};
    *out = (hyp_probe){.left = HYP_NONE, .right = HYP_NONE};
    hyp_status status = begin(&ap, b.rule, diag);
    if (status == HYP_OK) status = probe_job(&b, number, out);
    hyp_applier_dispose(&ap);
    out->refused = status == HYP_ERR_MALFORMED;
    return out->refused ? HYP_OK : status;
}

void hyp_applier_dispose(hyp_applier *ap)
{
    hyp_vec_free(&ap->args);
    hyp_vec_free(&ap->right);
}
