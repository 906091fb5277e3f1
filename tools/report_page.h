/* report_page.h - what a plan is and how it came to be: a document of JSON (docs/report.md), and a page that shows it.
 */
#ifndef HYPATIA_TOOLS_REPORT_PAGE_H
#define HYPATIA_TOOLS_REPORT_PAGE_H

#include <jansson.h>

#include "cli.h"

/* The document of a plan for its typical sizes. `run` is hyp_compile_report.run or NULL; `measured` is a part of it,
 * which is taken, or NULL. An exit code after a message; then *out is NULL. */
int report_data(const char *plan, const char *run, json_t *measured, json_t **out, const char *tool);

/* Writes the document to `path` ("-": standard output), as it is or, where it is for people, as one page of HTML. An
 * exit code after a message. */
int report_write(const json_t *data, const char *path, bool page, const char *tool);

#endif
