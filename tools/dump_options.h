/* dump_options.h - the options of hypatiac that write what others read: models, events. */
#ifndef HYPATIA_TOOLS_DUMP_OPTIONS_H
#define HYPATIA_TOOLS_DUMP_OPTIONS_H

#include <stdio.h>

#include "cli.h"
#include "hypatia/compiler.h"
#include "overwrite.h"

enum { DUMP_ONNX, DUMP_ONNX_DOMAIN, DUMP_ONNX_MOST, DUMP_REWRITES, DUMP_FULL_TERMS, DUMP_EGRAPH, DUMP_AROUND, DUMP_DEPTH, DUMP_NODES, DUMP_TRACE, DUMP_OPTIONS };

/* Their rows in a table of options, from row `first` on. */
#define DUMP_ROWS(first)                                                                                                \
    [(first) + DUMP_ONNX] = {"emit-onnx", 0, "FILE", "write the optimized graph as an ONNX model that any runtime runs"}, \
    [(first) + DUMP_ONNX_DOMAIN] = {"emit-onnx-domain", 0, "DOMAIN", "com.microsoft: with its operators where they fit"}, \
    [(first) + DUMP_ONNX_MOST] = {"emit-onnx-inline", 0, "BYTES", "weights in that model; more go to FILE.data (2G)"},   \
    [(first) + DUMP_REWRITES] = {"dump-rewrites", 0, "FILE|-", "write every rewrite as a line of JSON"},             \
    [(first) + DUMP_FULL_TERMS] = {"full-terms", 0, NULL, "for --dump-rewrites: terms down to inputs, nothing left out"},  \
    [(first) + DUMP_EGRAPH] = {"dump-egraph", 0, "FILE", "write the e-graph of the optimizing rules: .json, .dot or .svg"}, \
    [(first) + DUMP_AROUND] = {"dump-egraph-around", 0, "NODE", "for it: what is near a node of the model, or an e-class: @7"}, \
    [(first) + DUMP_DEPTH] = {"dump-egraph-depth", 0, "N", "for --dump-egraph-around: how near (2)"},                   \
    [(first) + DUMP_NODES] = {"dump-egraph-nodes", 0, "N", "for .dot and .svg: e-nodes that are drawn at most (500)"}, \
    [(first) + DUMP_TRACE] = {"trace", 0, "FILE|-", "write what took how long, for Perfetto and chrome://tracing"}

/* What they say. Zero-initialise. */
typedef struct dump_request {
    const char *rewrites, *egraph, *trace;
    FILE *file, *egraph_file, *trace_file; /* NULL = none */
    const char *drawing;      /* what Graphviz makes of the e-graph; NULL = nothing */
} dump_request;

/* Option DUMP_... of the command line; false after a message. */
bool dump_read_option(dump_request *d, hyp_compile_options *c, const cli_args *args, int option, const char *value);
/* Notes the files that are written. */
void dump_add_files(const dump_request *d, const hyp_compile_options *c, file_uses *uses);
/* Whether something goes to standard output. */
bool dump_takes_stdout(const dump_request *d, const hyp_compile_options *c);
/* Opens what is written to while the compiler works; an exit code, after a message. */
int dump_open(dump_request *d, hyp_compile_options *c, const cli_args *args);
/* Closes it, and draws what is to be drawn of a compilation; false after a message where it could not be written. */
bool dump_close(dump_request *d, bool compiled, const cli_args *args);

#endif
