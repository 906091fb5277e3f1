/* language.h - how a layer above reads rules in a language of its own.
 *
 * The engine knows terms as an operator symbol with positional children. A language above may write its
 * terms otherwise (attributes by keyword, defaults left out); a desugar function turns each of them into
 * the engine's form before it is compiled.
 */
#ifndef HYP_EGRAPH_RULES_LANGUAGE_H
#define HYP_EGRAPH_RULES_LANGUAGE_H

#include "base/sexpr.h"
#include "hypatia/egraph.h"

/* Rewrites one whole term into the engine's form; *out may be `in` itself, new items come from `arena`
 * and keep the line and column of what they stand for. Called for each left side (`is_left`), each right
 * side, and each argument of a condition (with `is_left` false). In a multi-pattern it sees the terms P
 * of `(?a = P)` and both arguments of `(union A B)`, never the list around them. Registered functions are
 * lists headed by their name, and are passed as they are.
 *
 * The engine's form: `?x` and `?xs...` are variables; any other item that is not a list is an e-node
 * without children whose symbol is the item's text (a string gives its unescaped content, a number its
 * text as written); a list is an operator symbol, or a string with its name, and child terms.
 *
 * A failure says file:line:column (hyp_sexpr_fail); the engine puts the rule's name before it. */
typedef hyp_status (*hyp_desugar_fn)(void *user, hyp_arena *arena, const char *file, const hyp_sexpr *in, bool is_left,
                                     const hyp_sexpr **out, hyp_diag *diag);

/* hyp_ruleset_parse with a desugar function; NULL = none. The text shown by hyp_ruleset_rule is the one
 * that was written, not the desugared one. */
HYP_NODISCARD hyp_status hyp_ruleset_parse_with(hyp_egraph *eg, const char *file, const char *text, size_t len,
                                                hyp_desugar_fn desugar, void *user, hyp_ruleset **out, hyp_diag *diag);

/* Reads more rules into a ruleset, from another file for instance; they are numbered on. Names must differ from
 * those that are there. After a failure the ruleset may only be destroyed. */
HYP_NODISCARD hyp_status hyp_ruleset_extend_with(hyp_ruleset *rules, const char *file, const char *text, size_t len,
                                                 hyp_desugar_fn desugar, void *user, hyp_diag *diag);
/* Adds rules of which only the name, the class, the ruleset and the documentation are read: they have no text, are never
 * enabled, and take the place in the order that they have in the whole. A ruleset with such is not copied. */
HYP_NODISCARD hyp_status hyp_ruleset_extend_names(hyp_ruleset *rules, const char *file, const char *text, size_t len,
                                                  hyp_diag *diag);

/* Whether a rule may unite two classes; `right` is HYP_NONE while it is not built. Asked after conditions and functions.
 * A no is final: the answer for two classes may not become a yes later. */
typedef bool (*hyp_may_unite_fn)(void *user, const hyp_rule_info *rule, hyp_class_id left, hyp_class_id right);
/* From now on a rule of this ruleset does nothing where fn says no. */
void hyp_ruleset_guard(hyp_ruleset *rules, hyp_may_unite_fn fn, void *user);

/* Words that rules may name together: `name...` in a for-each stands for all of them. */
typedef struct hyp_word_list {
    const char *name;
    const char *const *words; /* up to a NULL */
} hyp_word_list;
/* From now on rules may name these lists, which end with a NULL name and stay where they are. */
void hyp_egraph_name_lists(hyp_egraph *eg, const hyp_word_list *lists);
/* The words of a for-each, one by one: `name...` is a list's, and `!word` takes one of those before it away. */
HYP_NODISCARD hyp_status hyp_rule_words(const hyp_word_list *lists, hyp_arena *arena, const char *file,
                                        const hyp_sexpr *in, const hyp_sexpr **out, hyp_diag *diag);

/* Says that a no of this condition is for good, of rules read from now on: where it is asked of variables alone, and all
 * that the rule asks must hold, it is asked as soon as these stand for something, and the search goes no further. So a
 * rule of three linears of one value does not meet all triples of which none will do. */
void hyp_egraph_make_final(hyp_egraph *eg, const char *condition);

#endif
