/* builtin.h - the rules and profiles of this repository as texts in the library. builtin.c is made by the build
 * (cmake/HypEmbed.cmake). */
#ifndef HYP_REWRITE_BUILTIN_H
#define HYP_REWRITE_BUILTIN_H

#include <stddef.h>

typedef struct hyp_builtin_text {
    const char *name; /* of the file, without folder and extension */
    const char *text; /* NUL-terminated */
    size_t len;
} hyp_builtin_text;

extern const hyp_builtin_text hyp_builtin_rules[];
extern const size_t hyp_builtin_rules_count;
extern const hyp_builtin_text hyp_builtin_profiles[];
extern const size_t hyp_builtin_profiles_count;

#endif
