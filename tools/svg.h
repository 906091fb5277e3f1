/* svg.h - drawings by Graphviz. */
#ifndef HYPATIA_TOOLS_SVG_H
#define HYPATIA_TOOLS_SVG_H

#include <stdbool.h>
#include <stdio.h>

/* Has Graphviz's program dot draw what was written to a temporary file; false after a message that names `tool`, and
 * what does without it. */
bool svg_draw(const char *tool, FILE *dot, const char *path, const char *instead);

#endif
