/* The options of hypatiac that write what others read. */
#include "dump_options.h"

#include <string.h>

#include "svg.h"

static bool read_count(const cli_args *args, const char *name, const char *value, size_t *out)
{
    int64_t n;
    if (cli_parse_int(value, 1, 1 << 30, &n)) {
        *out = (size_t)n;
        return true;
    }
    cli_usage_error(args, "--%s: '%s' is no positive number", name, value);
    return false;
}

bool dump_read_option(dump_request *d, hyp_compile_options *c, const cli_args *args, int option, const char *value)
{
    switch (option) {
    case DUMP_ONNX: c->emit_onnx = value; break;
    case DUMP_ONNX_DOMAIN: c->emit_onnx_domain = value; break;
    case DUMP_ONNX_MOST:
        if (cli_parse_bytes(value, &c->emit_onnx_most) && c->emit_onnx_most > 0) break;
        cli_usage_error(args, "--emit-onnx-inline: '%s' is no number of bytes: 4096, 512K, 1.5G", value);
        return false;
    case DUMP_REWRITES: d->rewrites = value; break;
    case DUMP_FULL_TERMS: c->full_terms = true; break;
    case DUMP_TRACE: d->trace = value; break;
    case DUMP_EGRAPH: d->egraph = value; break;
    case DUMP_AROUND: c->dump_egraph_around = value; break;
    case DUMP_DEPTH: return read_count(args, "dump-egraph-depth", value, &c->dump_egraph_depth);
    case DUMP_NODES: return read_count(args, "dump-egraph-nodes", value, &c->dump_egraph_nodes);
    default: break;
    }
    return true;
}

void dump_add_files(const dump_request *d, const hyp_compile_options *c, file_uses *uses)
{
    file_uses_add(uses, "--dump-rewrites", d->rewrites, true);
    file_uses_add(uses, "--dump-egraph", d->egraph, true);
    file_uses_add(uses, "--trace", d->trace, true);
    file_uses_add(uses, "--emit-onnx", c->emit_onnx, true);
}

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

bool dump_takes_stdout(const dump_request *d, const hyp_compile_options *c)
{
    return is_stdout(d->rewrites) || is_stdout(d->egraph) || is_stdout(d->trace) || is_stdout(c->emit_onnx);
}

static FILE *open_file(const char *path, const char *what, const cli_args *args)
{
    FILE *file = is_stdout(path) ? stdout : fopen(path, "w");
    if (!file) fprintf(stderr, "%s: %s: cannot write the %s there\n", args->tool, path, what);
    return file;
}

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);
    return len > n && strcmp(text + len - n, end) == 0;
}

static int open_egraph(dump_request *d, hyp_compile_options *c, const cli_args *args)
{
    bool svg = ends_in(d->egraph, ".svg");
    c->dump_egraph_dot = svg || ends_in(d->egraph, ".dot");
    if (!c->dump_egraph_dot && !ends_in(d->egraph, ".json") && !is_stdout(d->egraph))
        return cli_usage_error(args, "--dump-egraph: '%s' is none of .json, .dot and .svg, which say what is written", d->egraph);
    d->drawing = svg ? d->egraph : NULL;
    d->egraph_file = svg ? tmpfile() : open_file(d->egraph, "e-graph", args);
    if (svg && !d->egraph_file) fprintf(stderr, "%s: cannot make a temporary file\n", args->tool);
    c->dump_egraph = cli_write_file;
    c->dump_egraph_user = d->egraph_file;
    return d->egraph_file ? CLI_OK : CLI_FAILED;
}

int dump_open(dump_request *d, hyp_compile_options *c, const cli_args *args)
{
    if (!d->egraph && (c->dump_egraph_around || c->dump_egraph_depth || c->dump_egraph_nodes))
        return cli_usage_error(args, "what of the e-graph is to be written was said, and not where: --dump-egraph FILE");
    if (d->rewrites) {
        d->file = open_file(d->rewrites, "rewrites", args);
        if (!d->file) return CLI_FAILED;
        c->dump_rewrites = cli_write_file;
        c->dump_rewrites_user = d->file;
    }
    if (d->trace) {
        d->trace_file = open_file(d->trace, "trace", args);
        if (!d->trace_file) return CLI_FAILED;
        c->trace = cli_write_file;
        c->trace_user = d->trace_file;
    }
    return d->egraph ? open_egraph(d, c, args) : CLI_OK;
}

static bool close_file(FILE **file, const char *path, const cli_args *args)
{
    bool good = !*file || (fflush(*file) == 0 && !ferror(*file));
    if (!good) fprintf(stderr, "%s: %s: cannot write\n", args->tool, path);
    if (*file && *file != stdout) fclose(*file);
    *file = NULL;
    return good;
}

bool dump_close(dump_request *d, bool compiled, const cli_args *args)
{
    bool nothing = !d->drawing || !compiled || ftell(d->egraph_file) == 0; /* --list-rules compiles nothing */
    bool drawn = nothing || svg_draw(args->tool, d->egraph_file, d->drawing, "a file that ends in .dot");
    bool rewrites = close_file(&d->file, d->rewrites, args), egraph = close_file(&d->egraph_file, d->egraph, args);
    return close_file(&d->trace_file, d->trace, args) && drawn && rewrites && egraph;
}
