/* builtin.h - texts of files of this repository in the library, as arrays that the build makes (cmake/HypEmbed.cmake). */
#ifndef HYP_BASE_BUILTIN_H
#define HYP_BASE_BUILTIN_H

#include <stddef.h>

typedef struct hyp_builtin_text {
    const char *name; /* of the file, without folder and extension */
    const char *text; /* NUL-terminated */
    size_t len;
} hyp_builtin_text;

#endif
