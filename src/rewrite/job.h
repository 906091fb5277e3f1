/* job.h - one rewriting at work, and which rules each of its phases has. */
#ifndef HYP_REWRITE_JOB_H
#define HYP_REWRITE_JOB_H

#include "rewrite/internal.h"

typedef enum hyp_rw_phase { HYP_RW_NORMALIZE, HYP_RW_RECOGNIZE, HYP_RW_OPTIMIZE, HYP_RW_PHASES } hyp_rw_phase;

/* A graph of the whole that who can time it is asked about beside what is chosen. */
typedef struct hyp_rw_entrant {
    hyp_graph graph;
    hyp_rewrite_price price;
    size_t nodes;
    bool in; /* there is such a one */
} hyp_rw_entrant;

/* One rewriting. */
typedef struct hyp_rw_job {
    const hyp_rewrite_options *options;
    size_t nodes;                /* of the graph that is rewritten */
    const hyp_fold_budget *fold; /* of constants, in all phases */
    hyp_rewrite_report *report;
    const char **names;                 /* of the report's rules, which are those of every phase's ruleset */
    const char *explain, *why_not_node, *dump_around; /* the questions' nodes, as the model names them */
    bool *idle;                  /* for options->record, by rule: nothing was applied of it in this phase, which has it */
    hyp_rw_entrant predicted;           /* what the cost model has chosen, where parts of it were changed */
    hyp_rw_entrant apart;               /* what has nothing joint, where that is predicted to be about as good */
    hyp_rewrite_price price;            /* of what is taken, as far as that is known */
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

/* ---- whole.c --------------------------------------------------------------------------------------- */

/* What came in, and its normal form. */
typedef struct hyp_rw_origin {
    const hyp_graph *in, *normal;
    hyp_rewrite_price price, normal_price;
    size_t normal_nodes;
} hyp_rw_origin;
/* Takes what came in, or its normal form, in place of `out` where that was made by a search that was cut short, or by sums,
 * which know less than the plan, and is worse. */
HYP_NODISCARD hyp_status hyp_rw_keep_what_came(hyp_rw_job *j, const hyp_rw_origin *from, hyp_graph *out);
/* Asks options.choose, if it is there, which form of the whole to take, and makes that `out`: `out` itself, what was predicted
 * where parts were changed, what has nothing joint, the normal form, or the graph as it came. */
HYP_NODISCARD hyp_status hyp_rw_choose_whole(hyp_rw_job *j, const hyp_rw_origin *from, hyp_graph *out);
/* Tells options.record of what came in, its normal form and what was chosen. */
void hyp_rw_record_forms(const hyp_rw_job *j, const hyp_rw_origin *from);

/* ---- spans.c --------------------------------------------------------------------------------------- */

/* Tells options.span, if it is there. */
void hyp_rw_span(const hyp_rw_job *j, const hyp_rewrite_span *span);
/* Iterations and rules of a saturation that began then. */
void hyp_rw_tell_run(const hyp_rw_job *j, double start, const hyp_egraph_run_report *run);

#endif
