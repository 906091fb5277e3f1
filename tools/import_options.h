/* import_options.h - the options of hypatiac for what a model has that is no operator of ONNX, or no step: custom operators, loops. */
#ifndef HYPATIA_TOOLS_IMPORT_OPTIONS_H
#define HYPATIA_TOOLS_IMPORT_OPTIONS_H

#include "cli.h"
#include "hypatia/compiler.h"

enum { IMPORT_CUSTOM_DOMAIN, IMPORT_CUSTOM_OUTPUT, IMPORT_LOOP_LIMIT, IMPORT_WRITE_LOOPS, IMPORT_OPTIONS };

/* Their rows in a table of options, from row `first` on. */
#define IMPORT_ROWS(first)                                                                                              \
    [(first) + IMPORT_CUSTOM_DOMAIN] = {"custom-domain", 0, "NAME", "operators of this domain are kernels that the program gives to the runtime"}, \
    [(first) + IMPORT_CUSTOM_OUTPUT] = {"custom-output", 0, "OUT:TYPE:DIMS", "type of a custom operator's result, if the model lacks it: y:f32:batchx64"}, \
    [(first) + IMPORT_LOOP_LIMIT] = {"loop-limit", 0, "N", "trips of loops of which only the data tell how many (1024 where something is collected)"}, \
    [(first) + IMPORT_WRITE_LOOPS] = {"write-loops", 0, NULL, "write loops out that the data end, for all trips that they may make"}

/* What they say. Zero-initialise. */
typedef struct import_request {
    cli_list custom_domains, custom_outputs;
} import_request;

/* Option IMPORT_... of the command line; false after a message. */
bool import_read_option(import_request *r, hyp_compile_options *c, const cli_args *args, int option, const char *value);
/* Gives the lists to the options of the library, which borrow them. */
void import_finish(const import_request *r, hyp_compile_options *c);
void import_request_free(import_request *r);

#endif
