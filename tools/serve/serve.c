/* hypatia serve - plans by HTTP, for one machine. docs/serving.md tells of it; what is where:
 *
 *   serve.c  options         the command line
 *   server                   signals, loading, the end
 *   http  listen             bytes and connections, by libmicrohttpd (microhttpd.h opens it)
 *   exchange                 a request and its answer: infer, pages, repository
 *   route  tokens  metrics  log
 *   models                   names and versions, which plan each has
 *   served_plan  instance    a plan with its contexts
 *   queue                    what waits, and runs together
 *   v2  wire  json_cut       the protocol as bytes
 *   store                    memory and messages of a request
 *
 * What stands further down knows nothing of what stands above it.
 */
#include "hypatia.h"
#include "server.h"

int command_serve(int argc, char **argv)
{
    serve_options options;
    int code;
    if (serve_options_read(argc, argv, &options, &code)) code = server_run(&options);
    serve_options_free(&options);
    return code;
}
