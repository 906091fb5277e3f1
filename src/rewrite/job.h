/* job.h - one rewriting at work, and which rules each of its phases has. */
#ifndef HYP_REWRITE_JOB_H
#define HYP_REWRITE_JOB_H

#include "rewrite/internal.h"

typedef enum hyp_rw_phase { HYP_RW_NORMALIZE, HYP_RW_RECOGNIZE, HYP_RW_OPTIMIZE, HYP_RW_PHASES } hyp_rw_phase;

/* One rewriting. */
typedef struct hyp_rw_job {
    const hyp_rewrite_options *options;
    size_t nodes;                /* of the graph that is rewritten */
    const hyp_fold_budget *fold; /* of constants, in all phases */
    hyp_rewrite_report *report;
    const char **names;                 /* of the report's rules, which are those of every phase's ruleset */
    const char *explain, *why_not_node, *dump_around; /* the questions' nodes, as the model names them */
    bool *idle;                  /* for options->record, by rule: nothing was applied of it in this phase, which has it */
    hyp_graph predicted;                /* what the cost model has chosen, where parts of it were changed */
    hyp_rewrite_price price;            /* of what is taken, as far as that is known */
    hyp_rewrite_price predicted_price;
    size_t predicted_nodes;
    hyp_diag *diag;
} hyp_rw_job;

/* Reads every rule into one ruleset; the first time also into the report. Later a phase need not read the texts behind
 * those that have its rules; a rule has the same number in each. NULL: there are none. */
HYP_NODISCARD hyp_status hyp_rw_read_rules(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, hyp_ruleset **out);
/* The names of rules in the options are those of rules. */
HYP_NODISCARD hyp_status hyp_rw_check_names(hyp_rw_job *j);
/* Whether the options' names leave a rule in, and whether a phase has those of a ruleset. */
bool hyp_rw_is_chosen(const hyp_rewrite_options *o, const char *name);
bool hyp_rw_in_phase(const char *ruleset, hyp_rw_phase p);
void hyp_rw_enable_rules(const hyp_rw_job *j, hyp_ruleset *rules, hyp_rw_phase p);

/* ---- spans.c --------------------------------------------------------------------------------------- */

/* Tells options.span, if it is there. */
void hyp_rw_span(const hyp_rw_job *j, const hyp_rewrite_span *span);
/* Iterations and rules of a saturation that began then. */
void hyp_rw_tell_run(const hyp_rw_job *j, double start, const hyp_egraph_run_report *run);

#endif
