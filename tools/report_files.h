/* report_files.h - the files of tools/report as texts in the program: made by the build (cmake/HypEmbed.cmake). */
#ifndef HYPATIA_TOOLS_REPORT_FILES_H
#define HYPATIA_TOOLS_REPORT_FILES_H

#include <stddef.h>

typedef struct hyp_builtin_text {
    const char *name; /* of the file, without folder and extension */
    const char *text; /* NUL-terminated */
    size_t len;
} hyp_builtin_text;

extern const hyp_builtin_text report_html[], report_styles[], report_scripts[], report_schemas[];
extern const size_t report_html_count, report_styles_count, report_scripts_count, report_schemas_count;

#endif
