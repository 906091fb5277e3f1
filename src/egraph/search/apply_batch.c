/* Applying plain rules to many matches at once.
 *
 * Where a right side is made of e-nodes and variables alone nothing can decline, so a batch is built level by level:
 * all its innermost e-nodes first, then what is above them, and last the roots with the unions. At each level the
 * slots of the hash-cons are asked for, then the rows that they name, then both are met; so many misses of
 * the cache are under way at a time. All room is reserved before, and nothing fails on the way. */
#include "egraph/core/table.h"
#include "egraph/core/record.h"
#include "egraph/rules/rule.h"

typedef struct batch {
    hyp_egraph *eg;
    hyp_applier *ap;
    const hyp_rule *rule;
    uint32_t rule_index, words;
    const uint32_t *matches;
    size_t count;
    uint32_t kid[HYP_MATCH_BATCH][2], hash[HYP_MATCH_BATCH];
    size_t slot[HYP_MATCH_BATCH];                   /* where probing begins: nothing before has the tag */
    uint32_t row[HYP_BUILD_LIMIT][HYP_MATCH_BATCH]; /* what each build gave */
    uint8_t made[HYP_MATCH_BATCH];                  /* bit by build: a new row */
} batch;

static inline uint32_t class_of(hyp_egraph *eg, uint32_t row) { return hyp_eg_now(eg, eg->rows[row].home); }

/* What an argument of a build is for match i: the id as it was given, and its class now. */
static inline uint32_t given(const batch *b, size_t i, uint32_t arg)
{
    return arg & HYP_BUILT ? b->row[arg & ~HYP_BUILT][i] : b->matches[i * b->words + arg];
}

static inline uint32_t canonical(const batch *b, size_t i, uint32_t arg)
{
    uint32_t id = given(b, i, arg);
    return arg & HYP_BUILT ? class_of(b->eg, id) : hyp_eg_now(b->eg, id);
}

static void ask_slots(batch *b, const hyp_build *build)
{
    hyp_egraph *eg = b->eg;
    size_t mask = eg->slot_count - 1;
    for (size_t i = 0; i < b->count; i++) {
        uint32_t *kid = b->kid[i];
        kid[0] = build->count > 0 ? canonical(b, i, build->arg[0]) : HYP_NONE;
        kid[1] = build->count > 1 ? canonical(b, i, build->arg[1]) : HYP_NONE;
        b->hash[i] = hyp_table_hash(build->op, kid, build->count);
        __builtin_prefetch(&eg->slots[b->hash[i] & mask], 1);
    }
}

static void ask_rows(batch *b)
{
    const hyp_egraph *eg = b->eg;
    size_t mask = eg->slot_count - 1;
    for (size_t i = 0; i < b->count; i++) {
        size_t at = b->hash[i] & mask;
        while (eg->slots[at].row != HYP_NONE && eg->slots[at].tag != b->hash[i]) at = (at + 1) & mask;
        if (eg->slots[at].row != HYP_NONE) __builtin_prefetch(&eg->rows[eg->slots[at].row]);
        b->slot[i] = at;
    }
}

/* Finds or makes the e-node of match i; a new one joins the class `into`, if any. */
static inline uint32_t meet(batch *b, const hyp_build *build, uint32_t which, size_t i, uint32_t into)
{
    hyp_egraph *eg = b->eg;
    size_t slot = hyp_table_probe_from(eg, b->slot[i], b->hash[i], build->op, b->kid[i]);
    uint32_t row = eg->slots[slot].row;
    if (row != HYP_NONE) return row;
    row = hyp_eg_new_row(eg, build->op, b->kid[i], into, b->hash[i], slot);
    b->made[i] |= (uint8_t)(1u << which);
    if (eg->explain) {
        for (uint32_t j = 0; j < 2; j++)
            eg->proofs.kid[2 * (size_t)row + j] = j < build->count ? given(b, i, build->arg[j]) : HYP_NONE;
        eg->proofs.parent[row] = eg->proofs.why[row] = eg->proofs.origin[row] = HYP_NONE;
    }
    return row;
}

/* Writes the record of an application; there is room for it. */
static uint32_t record(const batch *b, size_t i)
{
    hyp_proofs *proofs = &b->eg->proofs;
    const hyp_rule *rule = b->rule;
    uint32_t at = (uint32_t)proofs->apps.len, *r = proofs->apps.data + at;
    const uint32_t *rows = b->matches + i * b->words + rule->reg_count;
    r[HYP_APP_RULESET] = b->ap->rules->index;
    r[HYP_APP_RULE] = b->rule_index;
    r[HYP_APP_UNION] = 0;
    r += HYP_APP_ROWS;
    for (uint32_t n = 0; n < rule->left_nodes; n++) *r++ = rows[n];
    for (uint32_t n = 0; n < rule->build_count; n++) {
        r[rule->builds[n].index] = b->row[n][i];
        if (b->made[i] >> n & 1) proofs->origin[b->row[n][i]] = at;
    }
    proofs->apps.len += HYP_APP_ROWS + rule->left_nodes + rule->right_nodes;
    return at;
}

/* The last build of match i and the union. Unions of the matches before may have moved its children. */
static bool finish(batch *b, size_t i)
{
    hyp_egraph *eg = b->eg;
    const hyp_rule *rule = b->rule;
    const hyp_action *action = &rule->actions[0];
    const uint32_t *match = b->matches + i * b->words;
    uint32_t left = hyp_eg_now(eg, match[action->root->reg]), right, app = HYP_NONE;
    if (rule->build_count) {
        uint32_t last = rule->build_count - 1, *kid = b->kid[i];
        const hyp_build *build = &rule->builds[last];
        bool moved = false;
        for (uint32_t j = 0; j < build->count; j++)
            if (hyp_moved(eg, kid[j])) kid[j] = hyp_eg_find(eg, kid[j]), moved = true;
        if (moved) {
            b->hash[i] = hyp_table_hash(build->op, kid, build->count);
            b->slot[i] = b->hash[i] & (eg->slot_count - 1);
        }
        right = b->row[last][i] = meet(b, build, last, i, left);
    } else {
        right = match[action->right.reg];
    }
    bool born = rule->build_count && b->made[i] >> (rule->build_count - 1) & 1;
    uint32_t right_class = born ? right : rule->build_count ? class_of(eg, right) : hyp_eg_now(eg, right);
    bool changed = b->made[i] || left != right_class;
    if (!changed) {
        if (eg->explain_all) record(b, i);
        return false;
    }
    if (eg->explain) {
        uint32_t left_row = match[rule->reg_count + action->root->index];
        app = record(b, i);
        if (born)
            hyp_proof_edge(eg, left_row, right, app);
        else
            hyp_eg_union_reserved(eg, left_row, right, app);
    } else if (!born) {
        hyp_eg_union_reserved(eg, left, right_class, HYP_NONE);
    }
    if (b->ap->on_rewrite) hyp_apply_tell(b->ap, b->rule_index, match, 0, left, right_class, right);
    return true;
}

/* Room for all that the batch may make. */
static bool reserve(const batch *b)
{
    hyp_egraph *eg = b->eg;
    hyp_stop before = eg->limit_hit;
    size_t words = HYP_APP_ROWS + b->rule->left_nodes + b->rule->right_nodes;
    bool done = hyp_eg_reserve_rows(eg, b->count * b->rule->build_count) &&
                hyp_eg_reserve(eg, &eg->pending, eg->pending.len + b->count, NULL) == HYP_OK &&
                (!eg->explain || hyp_proof_reserve(eg, b->count * words, NULL) == HYP_OK);
    eg->limit_hit = before;
    return done;
}

bool hyp_apply_straight(hyp_applier *ap, uint32_t rule_index, const uint32_t *matches, size_t count,
                        size_t *out_changed)
{
    const hyp_rule *rule = &ap->rules->rules.data[rule_index];
    batch b = {.eg = ap->eg, .ap = ap, .rule = rule, .rule_index = rule_index, .matches = matches, .count = count};
    b.words = hyp_match_words(rule);
    *out_changed = 0;
    if (!rule->straight || hyp_eg_analysed(ap->eg) || !reserve(&b)) return false;
    for (uint32_t n = 0; n < rule->build_count; n++) {
        ask_slots(&b, &rule->builds[n]);
        ask_rows(&b);
        if (n + 1 == rule->build_count) break;
        for (size_t i = 0; i < count; i++) b.row[n][i] = meet(&b, &rule->builds[n], n, i, HYP_NONE);
    }
    for (size_t i = 0; i < count; i++) *out_changed += finish(&b, i);
    return true;
}
