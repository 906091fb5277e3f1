/* reader.h - reading rules: text, as forms or as lines of columns, to rules as written, to patterns.
 *
 *   text --forms.c, lines.c--> hyp_written_rule --pattern.c--> hyp_rule, whose plans compile.c makes */
#ifndef HYP_EGRAPH_RULES_READER_H
#define HYP_EGRAPH_RULES_READER_H

#include "egraph/rules/rule.h"

typedef struct hyp_bound_name {
    const char *name;
    uint32_t id; /* as in hyp_rule_reader.names */
    uint32_t reg;
    hyp_pat named; /* of a sequence variable or a let: what it becomes where it is used; kind VAR otherwise */
} hyp_bound_name;

typedef struct hyp_rule_reader {
    hyp_egraph *eg;
    hyp_ruleset *rules;
    const char *file;
    hyp_desugar_fn desugar;
    void *user;
    bool writes_out;   /* an instance of a rule that collects, which may have any number of variables */
    bool names_only;   /* rules are not to be searched for: hyp_ruleset_extend_names */
    hyp_arena scratch; /* the text as read */
    hyp_diag *diag;
    /* Of the rule being read. */
    const char *name;
    hyp_rule *rule;
    HYP_VEC(hyp_bound_name) vars;
    hyp_intern names;        /* of variables, of all rules read */
    HYP_VEC(uint32_t) place; /* in vars, by name: of the rule that had it last */
} hyp_rule_reader;

/* pattern.c: of what reading a rule or several took. */
void hyp_rule_reader_dispose(hyp_rule_reader *p);

/* The parts of a rule as written. */
struct hyp_written_rule {
    const hyp_sexpr *form; /* the whole, for its place */
    const char *name, *numeric_class, *ruleset, *doc;
    const hyp_sexpr *left;
    const hyp_sexpr *const *right; /* one term, or several (union A B) */
    uint32_t right_count;
    const hyp_sexpr *condition; /* NULL = none */
};

/* forms.c: (rule ...), (birule ...), (for-each ...). */
HYP_NODISCARD hyp_status hyp_rules_read_forms(hyp_rule_reader *p, const char *text, size_t len);
/* declare.c: whether a form declares operators; reads it; holds the patterns of p->rule to what was declared. */
bool hyp_declares(const hyp_sexpr *form);
HYP_NODISCARD hyp_status hyp_declare_form(hyp_rule_reader *p, const hyp_sexpr *form);
HYP_NODISCARD hyp_status hyp_rule_check_sorts(hyp_rule_reader *p, const hyp_sexpr *form);
/* lines.c: lines of tab-separated columns, and whether a text is written so. */
HYP_NODISCARD hyp_status hyp_rules_read_lines(hyp_rule_reader *p, const char *text, size_t len);
bool hyp_rules_are_lines(const char *text, size_t len);
/* collect.c: rules that collect parts. */
bool hyp_rule_collects(const hyp_sexpr *left);
/* What is searched: one part, and what the condition says of each alone; nothing on the right. */
HYP_NODISCARD hyp_status hyp_collect_part(hyp_rule_reader *p, const hyp_written_rule *src, hyp_written_rule *out);
/* The rule for `width` parts, as one could have written it. Both live in p->scratch. */
HYP_NODISCARD hyp_status hyp_collect_instance(hyp_rule_reader *p, const hyp_written_rule *src, uint32_t width,
                                              hyp_written_rule *out);
/* A copy that lives as long as the ruleset. */
HYP_NODISCARD hyp_status hyp_collect_keep(hyp_rule_reader *p, const hyp_written_rule *src, hyp_written_rule *out);
/* pattern.c: appends a rule to the ruleset. */
HYP_NODISCARD hyp_status hyp_rule_add(hyp_rule_reader *p, const hyp_written_rule *src);
/* A complaint about the place `at`, with the file and the rule's name before it. */
hyp_status hyp_rule_fail(hyp_rule_reader *p, const hyp_sexpr *at, const char *fmt, ...) HYP_PRINTF(3, 4);

#endif
