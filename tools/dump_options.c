/* The options of hypatiac that write what others read. */
#include "dump_options.h"

#include <string.h>

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
    default: break;
    }
    return true;
}

void dump_add_files(const dump_request *d, const hyp_compile_options *c, file_uses *uses)
{
    file_uses_add(uses, "--dump-rewrites", d->rewrites, true);
    file_uses_add(uses, "--emit-onnx", c->emit_onnx, true);
}

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

bool dump_takes_stdout(const dump_request *d, const hyp_compile_options *c)
{
    return is_stdout(d->rewrites) || is_stdout(c->emit_onnx);
}

bool dump_open(dump_request *d, hyp_compile_options *c, const cli_args *args)
{
    if (!d->rewrites) return true;
    d->file = is_stdout(d->rewrites) ? stdout : fopen(d->rewrites, "w");
    if (!d->file) {
        fprintf(stderr, "%s: %s: cannot write the rewrites there\n", args->tool, d->rewrites);
        return false;
    }
    c->dump_rewrites = cli_write_file;
    c->dump_rewrites_user = d->file;
    return true;
}

bool dump_close(dump_request *d, const cli_args *args)
{
    bool good = !d->file || (fflush(d->file) == 0 && !ferror(d->file));
    if (!good) fprintf(stderr, "%s: %s: cannot write\n", args->tool, d->rewrites);
    if (d->file && d->file != stdout) fclose(d->file);
    d->file = NULL;
    return good;
}
