/* Applying a rule to many matches at once.
 *
 * What decides whether a match is applied comes first: conditions, the owner of the rules, functions (apply.c). What is left
 * is built level by level: an e-node of the right side for all matches, innermost first, and last the roots with the
 * unions. At each level the slots of the hash-cons are asked for, then the rows that they name, then both are met; so
 * many misses of the cache are under way at a time. Room is reserved before; where a limit does not allow that, a part of
 * the batch is done, and in the end one match, whose e-nodes are made as far as the limit reaches. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/core/table.h"
#include "egraph/rules/rule.h"

/* By match; not worth setting to zero. */
typedef struct row_keys {
    uint32_t kid[HYP_MATCH_BATCH][2], hash[HYP_MATCH_BATCH];
    uint32_t guess[HYP_MATCH_BATCH]; /* the row that it is, if it is there, or another */
    uint8_t grew[HYP_MATCH_BATCH]; /* bit by action: it made a row; those from the eighth on share one */
} row_keys;

typedef struct batch {
    hyp_egraph *eg;
    hyp_applier *ap;
    const hyp_rule *rule;
    uint32_t rule_index, words;
    const uint32_t *matches;
    size_t first, end;      /* of the matches that are being built */
    hyp_outcome *outcomes;  /* by match */
    uint32_t *right;        /* right_nodes for each match: what e-nodes and calls gave, and answers */
    bool one_by_one;        /* there is no room for all: each row asks for its own */
    bool is_analysed;       /* an analysis looks at new rows */
    bool asks;              /* somebody is asked before classes are united */
    bool some_are_out;      /* is_out is worth asking */
    bool asked;             /* the late roots' keys are set, as of before the unions */
    size_t lost;            /* unions when they were set */
    row_keys *keys;
    hyp_refusal *refusal;
    hyp_diag *diag;
} batch;

/* Whether a match is not built, or not any further. */
static inline bool is_out(const batch *b, size_t i) { return b->some_are_out && b->outcomes[i] >= HYP_APPLIED_FORBIDDEN; }

static inline uint32_t *right_of(const batch *b, size_t i) { return b->right + i * b->rule->right_nodes; }

static inline uint32_t class_of(hyp_egraph *eg, uint32_t row) { return hyp_eg_now(eg, eg->rows[row].home); }

/* What an argument of a build is for match i: the id as it was given, and its class now. */
static inline uint32_t given(const batch *b, size_t i, uint32_t arg)
{
    return arg & HYP_ARG_RIGHT ? right_of(b, i)[arg & HYP_ARG_INDEX] : b->matches[i * b->words + arg];
}

static inline uint32_t canonical(const batch *b, size_t i, uint32_t arg)
{
    if (!(arg & HYP_ARG_RIGHT)) return hyp_eg_now(b->eg, b->matches[i * b->words + arg]);
    uint32_t id = right_of(b, i)[arg & HYP_ARG_INDEX];
    return arg & HYP_ARG_BUILT ? class_of(b->eg, id) : hyp_eg_find(b->eg, id);
}

static inline void set_key(batch *b, const hyp_build *build, size_t i)
{
    for (uint32_t j = 0; j < 2; j++) b->keys->kid[i][j] = j < build->count ? canonical(b, i, build->arg[j]) : HYP_NONE;
    b->keys->hash[i] = hyp_table_hash_few(build->op, b->keys->kid[i]);
    b->keys->guess[i] = 0;
}

/* Where a child comes from: there is none, a variable, an e-node of the right side, a call. */
typedef enum kid_kind { KID_NONE, KID_VAR, KID_BUILT, KID_CALL } kid_kind;

static inline kid_kind kind_of(const hyp_build *build, uint32_t j)
{
    if (j >= build->count) return KID_NONE;
    if (!(build->arg[j] & HYP_ARG_RIGHT)) return KID_VAR;
    return build->arg[j] & HYP_ARG_BUILT ? KID_BUILT : KID_CALL;
}

/* What child j of the first match is made of, and how far it is to that of the next. */
static inline const uint32_t *kid_column(const batch *b, const hyp_build *build, uint32_t j, size_t *out_stride)
{
    bool right = j < build->count && build->arg[j] & HYP_ARG_RIGHT;
    *out_stride = right ? b->rule->right_nodes : b->words;
    if (right) return right_of(b, b->first) + (build->arg[j] & HYP_ARG_INDEX);
    return b->matches + b->first * b->words + (j < build->count ? build->arg[j] : 0);
}

static inline uint32_t read_kid(hyp_egraph *eg, kid_kind kind, const uint32_t *from)
{
    return kind == KID_NONE    ? HYP_NONE
           : kind == KID_VAR   ? hyp_eg_now(eg, *from)
           : kind == KID_BUILT ? class_of(eg, *from)
                               : hyp_eg_find(eg, *from);
}

/* Sets the keys of a plain e-node of all matches, and asks for their buckets. Inlined for each kind of children. */
__attribute__((always_inline)) static inline void set_keys(batch *b, const hyp_build *build, kid_kind kind0,
                                                           kid_kind kind1, bool some_are_out)
{
    hyp_egraph *eg = b->eg;
    row_keys *keys = b->keys;
    size_t stride0, stride1;
    const uint32_t *at0 = kid_column(b, build, 0, &stride0), *at1 = kid_column(b, build, 1, &stride1), op = build->op;
    for (size_t i = b->first, end = b->end; i < end; i++, at0 += stride0, at1 += stride1) {
        uint32_t *kid = keys->kid[i];
        bool out = some_are_out && b->outcomes[i] >= HYP_APPLIED_FORBIDDEN;
        kid[0] = out ? HYP_NONE : read_kid(eg, kind0, at0);
        kid[1] = out ? HYP_NONE : read_kid(eg, kind1, at1);
        keys->hash[i] = hyp_table_hash_few(op, kid);
        hyp_table_prefetch(eg, keys->hash[i]);
    }
}

/* ---- e-nodes ------------------------------------------------------------------------------------ */

static inline uint8_t action_bit(uint32_t action) { return (uint8_t)(1u << (action < 8 ? action : 7)); }

/* Room for one row, after which the table may be another. */
static hyp_status reserve_row(batch *b, const hyp_build *build, size_t i, size_t *slot)
{
    HYP_TRY(hyp_eg_reserve_rows(b->eg, 1, b->diag));
    hyp_table_probe(b->eg, b->keys->hash[i], build->op, b->keys->kid[i], build->count, slot);
    return HYP_OK;
}

/* The row of match i whose key is set; HYP_NONE, and the slot for it, if there is none. */
static inline uint32_t probe(const batch *b, const hyp_build *build, size_t i, size_t *out_slot)
{
    return hyp_table_probe(b->eg, b->keys->hash[i], build->op, b->keys->kid[i], 2, out_slot);
}

/* Makes the plain e-node of match i that was not met. */
static inline hyp_status make_row(batch *b, const hyp_build *build, size_t i, uint32_t into, size_t slot, uint32_t *out)
{
    hyp_egraph *eg = b->eg;
    const uint32_t *kid = b->keys->kid[i];
    if (b->one_by_one) HYP_TRY(reserve_row(b, build, i, &slot));
    uint32_t row = hyp_eg_put_row(eg, build->op, kid, b->is_analysed ? HYP_NONE : into, b->keys->hash[i], slot);
    if (eg->explain) {
        uint32_t ids[2] = {HYP_NONE, HYP_NONE}, n = build->count;
        for (uint32_t j = 0; j < n; j++) ids[j] = given(b, i, build->arg[j]);
        hyp_proof_new_row(eg, row, n, kid, ids, true);
    }
    if (b->is_analysed) HYP_TRY(hyp_eg_analyse_row(eg, row, slot, into, b->diag));
    *out = row;
    b->keys->grew[i] |= action_bit(build->action);
    return HYP_OK;
}

/* Finds or makes a plain e-node of match i, whose key is set. A new one joins the class `into`, if any. */
static inline hyp_status meet(batch *b, const hyp_build *build, size_t i, uint32_t into, uint32_t *out)
{
    size_t slot;
    *out = probe(b, build, i, &slot);
    return *out != HYP_NONE ? HYP_OK : make_row(b, build, i, into, slot, out);
}

static hyp_status push_kid(batch *b, const hyp_pat *kid, size_t i)
{
    const uint32_t *match = b->matches + i * b->words;
    if (kid->kind != HYP_PAT_SEQ)
        return hyp_vec_push(&b->ap->args, b->diag, kid->kind == HYP_PAT_VAR ? match[kid->reg] : right_of(b, i)[kid->index]);
    return hyp_apply_push_sequence(b->ap, b->rule, match, kid, b->diag);
}

/* The same for any e-node. */
static hyp_status meet_any(batch *b, const hyp_build *build, size_t i, uint32_t into, uint32_t *out)
{
    const hyp_pat *pat = build->pat;
    uint32_t op = pat->op;
    bool created;
    b->ap->args.len = 0;
    for (uint32_t j = 0; j < pat->count; j++) HYP_TRY(push_kid(b, &pat->kids[j], i));
    if (op == HYP_NONE) HYP_TRY(hyp_eg_op(b->eg, pat->symbol, (uint32_t)b->ap->args.len, &op, b->diag));
    HYP_TRY(hyp_eg_add(b->eg, op, b->ap->args.data, into, out, &created, b->diag));
    if (!created) return HYP_OK;
    b->keys->grew[i] |= action_bit(build->action);
    if (b->eg->explain) hyp_proof_made(b->eg, *out);
    return HYP_OK;
}

/* The two sides of an action: ids as proofs know them, and their classes before they are united. */
typedef struct sides {
    uint32_t left, right, left_class, right_class;
    bool born; /* the right side is a row that nothing has seen so far */
} sides;

/* Writes the record of an application; there is room for it. Sides that are variables are not known (NULL) of one that was
 * refused. */
static uint32_t record(const batch *b, size_t i, uint32_t action, const sides *s)
{
    hyp_egraph *eg = b->eg;
    const hyp_rule *rule = b->rule;
    uint32_t number = rule->actions[action].app_kind - 1, place = hyp_app_place(eg), width = hyp_app_width(eg);
    uint32_t left_count = rule->left_nodes, right_count = rule->right_nodes;
    const uint32_t *left = b->matches + i * b->words + rule->reg_count, *right = right_of(b, i);
    const hyp_app_kind *kind = &eg->proofs.kinds.data[number];
    uint8_t *to = hyp_app_begin(eg, HYP_APP_RULE + number, width);
    for (uint32_t n = 0; n < left_count; n++) to = hyp_app_put(to, width, left[n]);
    for (uint32_t n = 0; n < right_count; n++) to = hyp_app_put(to, width, right[n]);
    for (uint32_t e = 0; e < 2 && kind->count > left_count + right_count; e++)
        if (kind->end[e] >= left_count + right_count)
            to = hyp_app_put(to, width, !s ? HYP_NONE : e ? s->right : s->left);
    hyp_app_end(eg, to);
    return place;
}

/* What records of an action are like. */
static hyp_app_kind kind_of_record(const batch *b, uint32_t number)
{
    const hyp_rule *rule = b->rule;
    const hyp_action *action = &rule->actions[number];
    hyp_app_kind kind = {b->ap->rules->index, b->rule_index, number, rule->left_nodes + rule->right_nodes, {0, 0}};
    kind.end[0] = action->root                            ? action->root->index
                  : action->left.kind == HYP_PAT_VAR ? kind.count++
                                                          : rule->left_nodes + action->left.index;
    kind.end[1] = action->right.kind == HYP_PAT_VAR ? kind.count++ : rule->left_nodes + action->right.index;
    return kind;
}

/* ---- levels ------------------------------------------------------------------------------------- */

/* Sets the keys of a plain e-node of all matches, and has what will be met brought near. */
static void ask(batch *b, const hyp_build *build)
{
    const hyp_egraph *eg = b->eg;
    row_keys *keys = b->keys;
    kid_kind kind0 = kind_of(build, 0), kind1 = kind_of(build, 1);
    if (b->some_are_out)
        set_keys(b, build, kind0, kind1, true);
    else if (kind0 == KID_VAR && kind1 == KID_VAR)
        set_keys(b, build, KID_VAR, KID_VAR, false);
    else if (kind0 == KID_VAR && kind1 == KID_BUILT)
        set_keys(b, build, KID_VAR, KID_BUILT, false);
    else if (kind0 == KID_BUILT && kind1 == KID_VAR)
        set_keys(b, build, KID_BUILT, KID_VAR, false);
    else
        set_keys(b, build, kind0, kind1, false);
    for (size_t i = b->first, end = b->end; i < end; i++) {
        uint32_t guess = keys->guess[i] = hyp_table_guess(eg, keys->hash[i]);
        __builtin_prefetch(&eg->rows[guess]);
    }
    b->lost = eg->pending.len;
}

/* An application that means nothing is refused, and what it has made names it; the run goes on. */
static hyp_status refuse(batch *b, size_t i, uint32_t action, hyp_status status)
{
    if (status != HYP_ERR_MALFORMED) return status;
    b->outcomes[i] = HYP_APPLIED_REFUSED;
    b->some_are_out = true;
    hyp_refusal_note(b->refusal, i, b->diag);
    if (b->eg->explain && b->keys->grew[i]) record(b, i, action, NULL);
    return HYP_OK;
}

static hyp_status build_level(batch *b, const hyp_build *build)
{
    const hyp_egraph *eg = b->eg;
    const row_keys *keys = b->keys;
    const uint32_t op = build->op;
    bool plain = build->plain;
    size_t stride = b->rule->right_nodes, end = b->end;
    uint32_t *out = &right_of(b, b->first)[build->pat->index];
    if (plain) ask(b, build);
    for (size_t i = b->first; i < end; i++, out += stride) {
        if (is_out(b, i)) continue;
        if (plain && hyp_table_is(eg, keys->guess[i], op, keys->kid[i])) { /* mostly, where little is new */
            *out = keys->guess[i];
            continue;
        }
        hyp_status status = plain ? meet(b, build, i, HYP_NONE, out) : meet_any(b, build, i, HYP_NONE, out);
        if (status != HYP_OK) HYP_TRY(refuse(b, i, build->action, status));
    }
    return HYP_OK;
}

/* ---- unions ------------------------------------------------------------------------------------- */

/* Whether unions since the keys were set have moved a child of match i. */
static inline bool key_is_stale(const batch *b, const hyp_build *build, size_t i)
{
    bool stale = false;
    if (b->eg->pending.len == b->lost) return false;
    for (uint32_t j = 0; j < build->count; j++) stale |= hyp_moved(b->eg, b->keys->kid[i][j]);
    return stale;
}

/* The root of a right side that no level has built. Unions of the matches before may have moved its children. */
static inline hyp_status build_root(batch *b, const hyp_action *action, size_t i, uint32_t into, uint32_t *out)
{
    const hyp_build *build = &action->late;
    if (!build->plain) return meet_any(b, build, i, into, out);
    if (!b->asked || key_is_stale(b, build, i)) set_key(b, build, i);
    return meet(b, build, i, into, out);
}

/* A term that an action unites, other than a late root, and its class. */
static inline void find_side(const batch *b, const hyp_pat *pat, size_t i, uint32_t *out, uint32_t *out_class)
{
    hyp_egraph *eg = b->eg;
    *out = pat->kind == HYP_PAT_VAR ? b->matches[i * b->words + pat->reg] : right_of(b, i)[pat->index];
    *out_class = pat->kind == HYP_PAT_NODE  ? class_of(eg, *out)
                 : pat->kind == HYP_PAT_VAR ? hyp_eg_now(eg, *out)
                                            : hyp_eg_find(eg, *out);
}

static inline hyp_status find_sides(batch *b, const hyp_action *action, size_t i, sides *out)
{
    hyp_egraph *eg = b->eg;
    const uint32_t *match = b->matches + i * b->words;
    if (action->root) { /* for proofs the e-node that was matched, else the class, which is nearer to its root */
        out->left_class = hyp_eg_now(eg, match[action->root->reg]);
        out->left = eg->explain ? match[b->rule->reg_count + action->root->index] : out->left_class;
    } else {
        find_side(b, &action->left, i, &out->left, &out->left_class);
    }
    out->born = false;
    if (!action->is_late) {
        find_side(b, &action->right, i, &out->right, &out->right_class);
        return HYP_OK;
    }
    size_t before = eg->row_count;
    HYP_TRY(build_root(b, action, i, b->asks ? HYP_NONE : out->left_class, &out->right));
    right_of(b, i)[action->right.index] = out->right;
    out->born = eg->row_count > before;
    out->right_class = out->born ? out->right : class_of(eg, out->right);
    return HYP_OK;
}

/* Whether the owner of the rules, declared sorts and the analysis let the classes of two sides be one; HYP_ERR_MALFORMED:
 * sorts or the analysis do not. A row that joined its class when it was made is not asked about. */
static hyp_status may_unite(batch *b, const sides *s, bool *out)
{
    *out = true;
    if (s->born && !b->asks) return HYP_OK;
    *out = hyp_apply_may_unite(b->ap, b->rule, s->left_class, s->right_class);
    return *out ? hyp_apply_agree(b->eg, s->left_class, s->right_class, b->diag) : HYP_OK;
}

/* What an action does that changes something. */
static void change(batch *b, size_t i, uint32_t number, const sides *s, bool unites)
{
    hyp_egraph *eg = b->eg;
    uint32_t app = eg->explain ? record(b, i, number, s) : HYP_NONE;
    if (unites && s->born) {
        if (b->asks) hyp_eg_adopt(eg, s->right, s->left_class);
        if (eg->explain) eg->proofs.edge[s->right] = app; /* a tree of its own so far */
    } else if (unites) {
        hyp_eg_union_reserved(eg, s->left, s->right, app);
    }
    b->outcomes[i] = HYP_APPLIED_CHANGE;
    if (!b->ap->on_rewrite) return;
    b->ap->notes.data[b->ap->notes.len++] = (hyp_rewrite_note){(uint32_t)i, number, s->left_class, s->right_class, s->right};
}

/* Unites the two terms of an action. */
static inline hyp_status unite(batch *b, size_t i, uint32_t number)
{
    sides s;
    bool may = true, grew;
    HYP_TRY(find_sides(b, &b->rule->actions[number], i, &s));
    grew = b->keys->grew[i] & action_bit(number);
    if (s.left_class == s.right_class && !grew) {
        if (b->eg->explain_all) record(b, i, number, &s);
        return HYP_OK;
    }
    if (s.left_class != s.right_class) HYP_TRY(may_unite(b, &s, &may));
    if (may)
        change(b, i, number, &s, s.left_class != s.right_class);
    else if (b->eg->explain && grew)
        record(b, i, number, &s);
    return HYP_OK;
}

/* unite_silently() where proofs are kept. */
static hyp_status unite_recorded(batch *b, const hyp_build *build, size_t i, uint32_t left)
{
    hyp_egraph *eg = b->eg;
    const hyp_action *action = &b->rule->actions[0];
    size_t slot;
    uint32_t row = probe(b, build, i, &slot), right = row == HYP_NONE ? left : class_of(eg, row);
    bool born = row == HYP_NONE;
    if (born) HYP_TRY(make_row(b, build, i, left, slot, &row));
    bool changes = left != right || b->keys->grew[i];
    if (!changes && !eg->explain_all) return HYP_OK;
    const sides s = {.left = b->matches[i * b->words + b->rule->reg_count + action->root->index], .right = row};
    right_of(b, i)[action->right.index] = row;
    uint32_t place = record(b, i, 0, &s);
    if (born) eg->proofs.edge[row] = place; /* a tree of its own so far */
    if (left != right) hyp_eg_union_reserved(eg, s.left, row, place);
    if (changes) b->outcomes[i] = HYP_APPLIED_CHANGE;
    return HYP_OK;
}

/* unite() where nobody is asked or told, and the late root was asked for: most of what runs do. The class `left` is that of
 * the left side. */
static hyp_status unite_silently(batch *b, const hyp_build *build, size_t i, uint32_t left)
{
    hyp_egraph *eg = b->eg;
    size_t slot;
    uint32_t row = probe(b, build, i, &slot), right = row == HYP_NONE ? left : class_of(eg, row);
    if (row == HYP_NONE)
        HYP_TRY(make_row(b, build, i, left, slot, &row));
    else if (left != right)
        hyp_eg_union_reserved(eg, left, right, HYP_NONE);
    else if (!b->keys->grew[i])
        return HYP_OK;
    b->outcomes[i] = HYP_APPLIED_CHANGE;
    return HYP_OK;
}

/* Inlined for runs with proofs and without. */
__attribute__((always_inline)) static inline hyp_status unite_all_silently(batch *b, const hyp_action *action, bool explain)
{
    hyp_egraph *eg = b->eg;
    const hyp_build *build = &action->late;
    const row_keys *keys = b->keys;
    const uint32_t op = build->op;
    bool may_be_stale = false; /* keys of matches that are left */
    size_t end = b->end, words = b->words;
    const uint32_t *at = &b->matches[b->first * words + action->root->reg];
    for (size_t i = b->first; i < end; i++, at += words) {
        if (is_out(b, i)) continue;
        uint32_t left = hyp_eg_now(eg, *at);
        if (may_be_stale && key_is_stale(b, build, i)) set_key(b, build, i);
        bool known = hyp_table_is(eg, keys->guess[i], op, keys->kid[i]) && class_of(eg, keys->guess[i]) == left;
        if (known && !keys->grew[i] && !(explain && eg->explain_all)) continue; /* mostly */
        hyp_status status = explain ? unite_recorded(b, build, i, left) : unite_silently(b, build, i, left);
        if (status != HYP_OK) HYP_TRY(refuse(b, i, 0, status));
        may_be_stale = eg->pending.len != b->lost;
    }
    return HYP_OK;
}

static hyp_status unite_all(batch *b)
{
    const hyp_rule *rule = b->rule;
    const hyp_action *first = &rule->actions[0];
    b->asked = rule->action_count == 1 && first->root && first->is_late && first->late.plain && !b->one_by_one;
    if (b->asked) ask(b, &first->late);
    bool silent = b->asked && !b->asks && !b->ap->on_rewrite && !b->ap->rules->may_unite;
    if (silent) return b->eg->explain ? unite_all_silently(b, first, true) : unite_all_silently(b, first, false);
    for (size_t i = b->first; i < b->end; i++) {
        for (uint32_t a = 0; a < rule->action_count && !is_out(b, i); a++) {
            hyp_status status = unite(b, i, a);
            if (status != HYP_OK) HYP_TRY(refuse(b, i, a, status));
        }
    }
    return HYP_OK;
}

/* ---- the batch ---------------------------------------------------------------------------------- */

/* Room for all that these matches may make: for each row, union and record. */
static hyp_status reserve(const batch *b, size_t count, bool rows, hyp_diag *diag)
{
    hyp_egraph *eg = b->eg;
    const hyp_rule *rule = b->rule;
    size_t actions = count * rule->action_count;
    if (rows) HYP_TRY(hyp_eg_reserve_rows(eg, count * rule->right_nodes, diag));
    if (b->ap->on_rewrite) HYP_TRY(hyp_vec_reserve(&b->ap->notes, actions, diag));
    if (eg->explain) HYP_TRY(hyp_proof_reserve(eg, actions * (2 + rule->left_nodes + rule->right_nodes), actions, diag));
    if (eg->explain) HYP_TRY(hyp_eg_reserve(eg, &eg->proofs.milestones, eg->proofs.milestones.len + 1, diag));
    for (uint32_t a = 0; a < rule->action_count && eg->explain; a++) {
        const hyp_app_kind kind = kind_of_record(b, a);
        HYP_TRY(hyp_proof_kind(eg, &kind, &rule->actions[a].app_kind, diag));
    }
    HYP_TRY(hyp_eg_reserve_undo(eg, actions, diag));
    return hyp_eg_reserve(eg, &eg->pending, eg->pending.len + actions, diag);
}

/* Sets how many matches are built next, and has room made for them. */
static hyp_status begin(batch *b, size_t count)
{
    hyp_stop before = b->eg->limit_hit;
    size_t n = count - b->first;
    while (reserve(b, n, true, NULL) != HYP_OK && n) n /= 2;
    b->eg->limit_hit = before; /* one by one may still do */
    b->one_by_one = n == 0;
    b->end = b->first + (n ? n : 1);
    b->ap->notes.len = 0;
    if (n == 0) HYP_TRY(reserve(b, 1, false, b->diag));
    if (b->eg->explain) hyp_proof_milestone(b->eg);
    return HYP_OK;
}

/* Tells the caller of the rewrites, when all are done: it may add terms. */
static void tell(const batch *b)
{
    for (size_t n = 0; n < b->ap->notes.len; n++) {
        const hyp_rewrite_note *note = &b->ap->notes.data[n];
        const hyp_pat *right = &b->rule->actions[note->action].right;
        hyp_rewrite_event event = {.iteration = b->ap->iteration,
                                   .rule = HYP_RULE_INDEX(b->rule_index),
                                   .left = note->left,
                                   .right = note->right_class,
                                   .created = right->kind == HYP_PAT_NODE ? note->right : HYP_NONE};
        if (b->eg->explain) {
            event.matched = b->matches + note->match * b->words + b->rule->reg_count;
            event.matched_count = b->rule->left_nodes;
        }
        hyp_eg_view_release(b->eg);
        b->ap->on_rewrite(&event, b->ap->user);
    }
}

static hyp_status build_some(batch *b)
{
    hyp_status status = HYP_OK;
    for (uint32_t n = 0; n < b->rule->build_count && status == HYP_OK; n++) status = build_level(b, &b->rule->builds[n]);
    if (status == HYP_OK) status = unite_all(b);
    tell(b);
    return status;
}

static hyp_status make_room(batch *b, size_t count)
{
    hyp_applier *ap = b->ap;
    size_t words = count * b->rule->right_nodes;
    HYP_TRY(hyp_vec_reserve(&ap->right, words + 1, b->diag));
    memset(ap->right.data, 0xff, words * sizeof *ap->right.data); /* HYP_NONE */
    b->right = ap->right.data;
    return HYP_OK;
}

/* Whether it must be asked if a new row may join its class: nobody has looked at what a rule that unites other classes than
 * its roots does to declared sorts. */
static bool is_asked(const hyp_applier *ap, const hyp_rule *rule)
{
    const hyp_egraph *eg = ap->eg;
    bool asks = eg->analysis.data_size && (eg->analysis.agree || ap->rules->may_unite);
    for (uint32_t a = 0; a < rule->action_count && eg->sorts; a++) asks = asks || !rule->actions[a].root;
    return asks;
}

hyp_status hyp_apply_batch(hyp_applier *ap, uint32_t rule_index, const uint32_t *matches, size_t count,
                           hyp_outcome *outcomes, size_t *out_done, hyp_refusal *refusal, hyp_diag *diag)
{
    const hyp_rule *rule = hyp_rule_applied(ap->rules, rule_index);
    batch b = {.eg = ap->eg, .ap = ap, .rule = rule, .rule_index = rule_index, .matches = matches, .outcomes = outcomes};
    row_keys keys;
    b.words = hyp_match_words(rule);
    b.keys = &keys;
    b.asks = is_asked(ap, rule);
    b.is_analysed = hyp_eg_analysed(ap->eg);
    b.refusal = refusal;
    b.diag = diag;
    *out_done = 0;
    bool questions = rule->cond || rule->calls || ap->rules->may_unite;
    HYP_TRY(make_room(&b, count));
    memset(keys.grew, 0, count * sizeof *keys.grew);
    for (size_t i = 0; i < count; i++) outcomes[i] = HYP_APPLIED_NOTHING;
    for (size_t i = 0; i < count && questions; i++) {
        hyp_status status = hyp_apply_ask(ap, rule, matches + i * b.words, right_of(&b, i), &outcomes[i], diag);
        if (status != HYP_OK) HYP_TRY(refuse(&b, i, 0, status));
        b.some_are_out = b.some_are_out || outcomes[i] >= HYP_APPLIED_FORBIDDEN;
    }
    while (b.first < count) {
        HYP_TRY(begin(&b, count));
        HYP_TRY(build_some(&b));
        *out_done = b.first = b.end;
    }
    return HYP_OK;
}
