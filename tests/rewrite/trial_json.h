/* trial_json.h - a trial of a rule as one line of JSON, for a judge that shares no code with the compiler. */
#ifndef HYP_TESTS_TRIAL_JSON_H
#define HYP_TESTS_TRIAL_JSON_H

#include "rewrite/trials.h"

/* {"rule" "class" "line" "seed" "mutant", "inputs": [tensor...], "before": graph, "after": graph}, where a graph is
 * {"inputs": [value...], "consts": {value: tensor}, "nodes": [[op, {attribute: value}, [value or null...], [value...],
 * [type...]]...], "outputs": [value...]}, a tensor [dtype, [size...], hexadecimal bytes]. Symbols have their numbers.
 */
HYP_NODISCARD hyp_status rule_trial_write(hyp_strbuf *sb, const rule_trial *t, const hyp_sexpr *kase, uint64_t seed,
                                          const char *mutant, hyp_diag *diag);

#endif
