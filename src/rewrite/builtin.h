/* builtin.h - the rules and profiles of this repository. */
#ifndef HYP_REWRITE_BUILTIN_H
#define HYP_REWRITE_BUILTIN_H

#include "base/builtin.h"

extern const hyp_builtin_text hyp_builtin_rules[];
extern const size_t hyp_builtin_rules_count;
extern const hyp_builtin_text hyp_builtin_profiles[];
extern const size_t hyp_builtin_profiles_count;

#endif
