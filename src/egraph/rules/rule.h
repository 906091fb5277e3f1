/* rule.h - a compiled rule.
 *
 *   text --reader.h--> patterns (trees) --compile.c--> atoms and search plans
 *
 * A left side is a conjunctive query: each e-node of it that has a variable below is an atom
 * op(kids) = class over registers; each ground one is a class that is looked up before a search. A search
 * is semi-naive: plan i finds the matches whose atom i is new since the rule's last search, whose atoms
 * before i are old and whose other atoms are either, so each match is found once. */
#ifndef HYP_EGRAPH_RULES_RULE_H
#define HYP_EGRAPH_RULES_RULE_H

#include "egraph/core/state.h"
#include "egraph/rules/language.h"

typedef enum hyp_pat_kind { HYP_PAT_VAR, HYP_PAT_SEQ, HYP_PAT_NODE, HYP_PAT_CALL } hyp_pat_kind;

/* A term of a rule. */
typedef struct hyp_pat {
    hyp_pat_kind kind;
    uint32_t reg;      /* VAR: its register. NODE on the left: register of its class. SEQ: unused */
    uint32_t index;    /* NODE, CALL: place among those of its side, HYP_NONE = none. SEQ: of the node it is in */
    hyp_symbol symbol; /* NODE */
    uint32_t op;       /* NODE without a sequence variable: its operator */
    uint32_t callback; /* CALL: index into hyp_egraph.callbacks */
    bool ground;       /* NODE on the left: no variable below */
    uint32_t sequence; /* NODE: the first of its kids that is a SEQ, on the left the only one; HYP_NONE = none */
    uint32_t before, after; /* SEQ: how many children of its e-node on the left stand before and after its own */
    uint32_t count;
    struct hyp_pat *kids;
} hyp_pat;

/* Where child j of a pattern node stands among `arity` children of a row. */
static inline uint32_t hyp_pat_place(const hyp_pat *node, uint32_t j, uint32_t arity)
{
    return node->sequence == HYP_NONE || j < node->sequence ? j : arity - (node->count - j);
}

/* Whether a row, by its `op`, is of the operator of a pattern. */
static inline bool hyp_pat_fits(const hyp_egraph *eg, const hyp_pat *node, uint32_t op)
{
    if (node->sequence == HYP_NONE) return op == node->op;
    if (op & HYP_ROW_DEAD) return false;
    const hyp_op *o = &eg->ops.data[op];
    return o->symbol == node->symbol && o->arity + 1 >= node->count;
}

typedef enum hyp_cond_kind { HYP_COND_AND, HYP_COND_OR, HYP_COND_NOT, HYP_COND_CALL } hyp_cond_kind;

typedef struct hyp_cond {
    hyp_cond_kind kind;
    uint32_t callback; /* CALL */
    uint32_t index;    /* CALL: place among those of the right side */
    uint32_t count;
    struct hyp_cond *kids; /* AND, OR, NOT */
    hyp_pat *args;         /* CALL */
} hyp_cond;

typedef enum hyp_source {
    HYP_FROM_LOG,     /* every row of the operator, or the new ones */
    HYP_FROM_MEMBERS, /* the rows of a class that is known */
    HYP_FROM_USES,    /* the rows that have a known class as one child */
    HYP_FROM_TABLE    /* all children known: at most one row */
} hyp_source;

/* One atom in the order of a plan. A place of a match is a register, or for a row reg_count + atom->index. */
typedef struct hyp_step {
    const hyp_pat *atom;
    hyp_source source;
    bool only_new, only_old;
    bool bind_class; /* else compare */
    uint32_t via;    /* HYP_FROM_USES: which child of atom->kids */
    bool *bind;      /* per child of atom->kids: bind, else compare */
    /* Of an atom with no sequence and at most two children, so that they are met without a look at the atom; a child
     * that is not there goes to a place of its own at the end of the match. */
    bool plain, bind_kid[2];
    bool is_end; /* plain, the last of its plan, asks nothing, and compares no child but the one that it comes by */
    uint32_t op, kid_reg[2], class_reg, row_at;
    const hyp_cond **checks; /* final conditions whose variables all stand for something from here on */
    uint32_t check_count;
} hyp_step;

typedef struct hyp_plan {
    hyp_step *steps;
    uint32_t count;
} hyp_plan;

/* One e-node of a right side: see apply_batch.c. */
#define HYP_ARG_BUILT 0x80000000u
#define HYP_ARG_CALLED 0x40000000u
#define HYP_ARG_RIGHT (HYP_ARG_BUILT | HYP_ARG_CALLED)
#define HYP_ARG_INDEX 0x3fffffffu
typedef struct hyp_build {
    const hyp_pat *pat;
    uint32_t action; /* for which it is made first */
    bool plain;      /* of one operator and at most two children, so that they are met without a look at the pattern */
    uint32_t op, count;
    uint32_t arg[2]; /* a register, or the index (as in hyp_pat) of an e-node (HYP_ARG_BUILT) or call (HYP_ARG_CALLED) */
} hyp_build;

/* Two terms that a rule unites. */
typedef struct hyp_action {
    const hyp_pat *root; /* root of a left-side pattern that is matched already; NULL: `left` instead */
    hyp_pat left, right; /* right-side terms */
    bool is_late;        /* the root of the right side is an e-node that nothing else needs: it is made with the union, */
    hyp_build late;      /* as a member of the left class */
    uint32_t app_kind;   /* see hyp_proof_kind */
} hyp_action;

typedef struct hyp_written_rule hyp_written_rule;

/* Of a rule that collects: see collect.c. Its parts in an application are numbered from 0. */
/* Parts of one application; more are several of them, since each of its unions is recorded with the e-nodes of all. */
enum { HYP_WIDEST = 1024 };
typedef struct hyp_collecting {
    hyp_written_rule *src;
    const char *file;
    hyp_pat *keys; /* variables, or terms of them; parts with the same classes here are collected */
    uint32_t key_count;
    bool *common;                                /* by register: a variable that is a key, the same in all parts */
    size_t declined, beyond; /* of its last search: parts that a condition left out, parts beyond HYP_WIDEST of a group */
    struct hyp_rule *instances[HYP_WIDEST + 1]; /* by width; NULL: not needed so far */
} hyp_collecting;

/* An application's rule: its index, and of one that collects the width of the instance, else 0. */
#define HYP_RULE_WIDTH 20
_Static_assert(HYP_WIDEST < 1 << (32 - HYP_RULE_WIDTH), "a width has its bits");
#define HYP_RULE_INDEX(rule) ((rule) & ((1u << HYP_RULE_WIDTH) - 1))

/* A variable of the left side that stands for one class. */
typedef struct hyp_variable {
    const char *name;
    uint32_t reg;
} hyp_variable;

typedef struct hyp_rule {
    hyp_rule_info info;
    bool enabled;
    hyp_pat *left; /* roots of the left side */
    uint32_t left_count;
    bool multi; /* written as a multi-pattern */
    hyp_action *actions;
    uint32_t action_count;
    hyp_cond *cond; /* NULL = none */
    bool calls;     /* the right side calls a function */
    hyp_collecting *collecting; /* NULL: it does not */

    uint32_t reg_count;   /* a match is reg_count classes, then match_rows rows */
    uint32_t left_nodes;  /* e-nodes of the left side */
    uint32_t match_rows;  /* left_nodes, or 0 where nobody asks for them */
    uint32_t right_nodes; /* e-nodes and calls of the right side, and calls of the condition */
    hyp_pat **grounds;    /* topmost ground e-nodes of the left side */
    uint32_t ground_count;
    uint32_t atom_count;
    hyp_variable *variables; /* in order of first sight */
    uint32_t variable_count;
    hyp_plan *plans; /* atom_count, then ground_count */

    hyp_build *builds; /* what the actions need, innermost first, but for late roots */
    uint32_t build_count;

    /* What the rule has seen. */
    uint32_t since;             /* rows with a stamp below were there at its last search */
    uint32_t *ground_class;     /* classes of the grounds at its last search, HYP_NONE = absent */
    HYP_VEC(uint32_t) declined; /* matches that a condition or function declined, to be asked again */
    uint64_t asked;             /* hyp_egraph.version when they were asked last */
    bool forgets;               /* too many were declined: search everything again each time instead */

    /* Backoff. */
    size_t own_match_limit, own_ban_length; /* 0 = those of the run */
    size_t found;                           /* matches of all searches: at least those in the e-graph */
    size_t times_banned, banned_until;      /* iteration of the run */
} hyp_rule;

struct hyp_ruleset {
    hyp_egraph *eg;
    struct hyp_ruleset *next, **held_by; /* hyp_egraph.rulesets: the next older one; what points to this one */
    uint32_t index;           /* as in hyp_origin.ruleset */
    bool recorded;            /* records of applications may name it */
    hyp_arena arena;
    HYP_VEC(hyp_rule) rules;
    hyp_may_unite_fn may_unite; /* NULL: always */
    void *may_unite_user;
    hyp_intern names;
    hyp_desugar_fn desugar; /* by which its rules were read */
    void *desugar_user;
};

/* The rule of an application. */
static inline const hyp_rule *hyp_rule_applied(const struct hyp_ruleset *rules, uint32_t rule)
{
    const hyp_rule *r = &rules->rules.data[HYP_RULE_INDEX(rule)];
    return rule >> HYP_RULE_WIDTH ? r->collecting->instances[rule >> HYP_RULE_WIDTH] : r;
}

/* The same by the indices in its record; its ruleset is there as long as proofs may ask for it. */
static inline const hyp_rule *hyp_eg_rule(const hyp_egraph *eg, uint32_t ruleset, uint32_t rule)
{
    const struct hyp_ruleset *r = eg->rulesets;
    while (r->index != ruleset) r = r->next;
    return hyp_rule_applied(r, rule);
}

/* ruleset.c: puts a ruleset into the list of its e-graph, with which it goes from then on. */
void hyp_ruleset_link(struct hyp_ruleset *rules);
/* pattern.c: sees to it that a rule that collects has its instance for 2 to HYP_WIDEST parts. */
HYP_NODISCARD hyp_status hyp_rule_instance(struct hyp_ruleset *rules, uint32_t rule, uint32_t width, hyp_diag *diag);
/* Makes the builds of a rule whose patterns are there, and then its plans. */
HYP_NODISCARD hyp_status hyp_rule_compile_actions(hyp_arena *arena, hyp_rule *rule, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_rule_compile(const hyp_egraph *eg, hyp_arena *arena, hyp_rule *rule, hyp_diag *diag);

/* ---- match.c ------------------------------------------------------------------------------------ */

/* Called with a batch of matches of `rule`; a failure ends the search. */
typedef hyp_status (*hyp_match_fn)(void *user, const uint32_t *matches, size_t count, hyp_diag *diag);

typedef struct hyp_search {
    hyp_egraph *eg;
    hyp_rule *rule;
    uint32_t row_limit; /* rows from here on are younger than the search */
    hyp_match_fn emit;
    hyp_status (*tick)(void *user, hyp_diag *diag); /* every few thousand candidates: time, cancelling */
    void *user;
    hyp_diag *diag;
    uint32_t *match; /* the one being built: reg_count classes, left_nodes rows, and one place more */
    uint32_t *buffer; /* HYP_MATCH_BATCH matches; behind both there is room for HYP_MATCH_COPY words */
    size_t buffered, ticks;
} hyp_search;

enum { HYP_MATCH_BATCH = 128, HYP_MATCH_COPY = 4 }; /* matches are copied by so many words: room for more lies behind */
static inline uint32_t hyp_match_words(const hyp_rule *rule) { return rule->reg_count + rule->match_rows; }

/* Finds what is new since rule->since, and notes in *out_grounds (ground_count) the classes to remember
 * when the search is done. Uses search->match and ->buffer, which the caller has made. */
HYP_NODISCARD hyp_status hyp_match(hyp_search *search, uint32_t *out_grounds);

/* ---- apply.c, apply_batch.c ------------------------------------------------------------------------ */

/* What on_rewrite is told of: of the match of a batch, the action, the classes before they were united. */
typedef struct hyp_rewrite_note {
    uint32_t match, action, left, right_class, right;
} hyp_rewrite_note;

/* What applying needs; made for one ruleset. */
typedef struct hyp_applier {
    hyp_egraph *eg;
    struct hyp_ruleset *rules;
    size_t iteration;
    void (*on_rewrite)(const hyp_rewrite_event *event, void *user);
    void *user;
    HYP_VEC(uint32_t) args;  /* classes of the call or e-node being made; a stack */
    HYP_VEC(uint32_t) right; /* by match: ids of the right side's e-nodes and calls, and answers */
    HYP_VEC(hyp_rewrite_note) notes;
} hyp_applier;

typedef enum hyp_outcome {
    HYP_APPLIED_NOTHING,
    HYP_APPLIED_CHANGE,
    HYP_APPLIED_FORBIDDEN, /* the owner of the rules says no, for good */
    HYP_APPLIED_DECLINED,  /* a premise does not hold, and may do so when more is known */
    HYP_APPLIED_REFUSED    /* what the rule would make means nothing, and never will */
} hyp_outcome;

/* Of the refused matches of a batch the first, and why. */
typedef struct hyp_refusal {
    size_t match; /* SIZE_MAX: none */
    hyp_diag why;
} hyp_refusal;
static inline void hyp_refusal_note(hyp_refusal *refusal, size_t match, const hyp_diag *why)
{
    if (match < refusal->match) *refusal = (hyp_refusal){match, *why};
}

/* Asks the condition, the owner of the rules and the functions: *out is NOTHING where the match may be applied. `right`
 * has right_nodes ids, HYP_NONE before; what was asked is written there. */
HYP_NODISCARD hyp_status hyp_apply_ask(hyp_applier *ap, const hyp_rule *rule, const uint32_t *match, uint32_t *right,
                                       hyp_outcome *out, hyp_diag *diag);
/* Whether the owner of the rules lets a rule unite these; `right` is HYP_NONE while it is not built. */
bool hyp_apply_may_unite(const hyp_applier *ap, const hyp_rule *rule, hyp_class_id left, hyp_class_id right);
/* Whether declared sorts and the analysis let two classes be one: HYP_ERR_MALFORMED if not. */
HYP_NODISCARD hyp_status hyp_apply_agree(hyp_egraph *eg, uint32_t x, uint32_t y, hyp_diag *diag);
/* Pushes the children that a sequence variable matched on ap->args. */
HYP_NODISCARD hyp_status hyp_apply_push_sequence(hyp_applier *ap, const hyp_rule *rule, const uint32_t *match,
                                                 const hyp_pat *seq, hyp_diag *diag);
/* Whether the condition of a rule that collects holds for one part, and then the classes of its keys. */
HYP_NODISCARD hyp_status hyp_apply_part(hyp_applier *ap, uint32_t rule_index, const uint32_t *match, bool *out_holds,
                                        uint32_t *out_keys, hyp_diag *diag);
/* Applies a rule to a batch of matches (at most HYP_MATCH_BATCH); `rule_index` as in an application's record. Conditions and
 * functions of all are asked before any is built. What a refused application made before it was refused stays: terms on
 * their own, and what earlier actions of a multi-pattern united. After a failure *out_done of the matches are applied, the
 * first ones; HYP_ERR_LIMIT with limit_hit set where the limits of the run are met. */
HYP_NODISCARD hyp_status hyp_apply_batch(hyp_applier *ap, uint32_t rule_index, const uint32_t *matches, size_t count,
                                         hyp_outcome *outcomes, size_t *out_done, hyp_refusal *refusal, hyp_diag *diag);
void hyp_applier_dispose(hyp_applier *ap);

/* ---- collect.c ---------------------------------------------------------------------------------- */

/* The parts of a rule that collects. Zero-initialise, dispose of. */
typedef struct hyp_parts_found {
    HYP_VEC(uint32_t) words; /* a row for each part: its keys, then its match */
    HYP_VEC(const uint32_t *) order;
    size_t at;                       /* in `order`: parts before it are in `group`, or have had their turn */
    HYP_VEC(const uint32_t *) group; /* parts with equal keys, each of another root */
    size_t done;                     /* in `group`: parts before it have had their turn */
    HYP_VEC(uint32_t) roots;         /* of the group: a hash set */
    HYP_VEC(uint32_t) match;         /* of the instance that is applied */
    size_t beyond;                   /* parts of the groups so far beyond HYP_WIDEST, which other applications take */
} hyp_parts_found;
/* Notes a match of one part, if the condition holds for it. */
HYP_NODISCARD hyp_status hyp_collect_add(hyp_applier *ap, uint32_t rule_index, const uint32_t *match, hyp_parts_found *parts,
                                         hyp_diag *diag);
/* Puts what was noted in its canonical order: by keys, and then by what the variables of the pattern stand for. */
HYP_NODISCARD hyp_status hyp_collect_sort(hyp_egraph *eg, const hyp_rule *rule, hyp_parts_found *parts, hyp_diag *diag);
/* The next match of several parts with equal keys, in parts->match, and its width; 0 when there is no more. Of several
 * parts with one root the first is taken. More than HYP_WIDEST are several matches, as even as can be. */
HYP_NODISCARD hyp_status hyp_collect_next(const hyp_rule *rule, hyp_parts_found *parts, uint32_t *out_width, hyp_diag *diag);
/* Finds all parts in a rebuilt e-graph, sorted. */
HYP_NODISCARD hyp_status hyp_collect_all(struct hyp_ruleset *rules, uint32_t rule_index, hyp_parts_found *parts,
                                         hyp_diag *diag);
/* Parts that were noted. */
size_t hyp_collect_count(const hyp_rule *rule, const hyp_parts_found *parts);
void hyp_collect_dispose(hyp_parts_found *parts);

/* What a rule says to one match, without uniting anything. */
typedef struct hyp_probe {
    const hyp_cond *failed;  /* the part of the condition that does not hold, as small as it can be named */
    const hyp_pat *declined; /* the function that declined */
    bool refused;            /* by the analysis, a condition or a function: the diag says why */
    uint32_t left, right;    /* none of these: the two sides of the union, built */
} hyp_probe;
/* `number` is that of the union. Of a rule that collects, one part: left and right are HYP_NONE. */
HYP_NODISCARD hyp_status hyp_apply_probe(struct hyp_ruleset *rules, uint32_t rule_index, const uint32_t *match,
                                         uint32_t number, hyp_probe *out, hyp_diag *diag);

#endif
