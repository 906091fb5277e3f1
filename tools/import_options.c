#include "import_options.h"

bool import_read_option(import_request *r, hyp_compile_options *c, const cli_args *args, int option, const char *value)
{
    switch (option) {
    case IMPORT_CUSTOM_DOMAIN: cli_list_split(&r->custom_domains, value); break;
    case IMPORT_CUSTOM_OUTPUT: cli_list_split(&r->custom_outputs, value); break;
    case IMPORT_LOOP_LIMIT:
        if (cli_parse_int(value, 1, (int64_t)1 << 40, &c->loop_limit)) break;
        cli_usage_error(args, "--loop-limit: '%s' is no number of trips between 1 and 2^40", value);
        return false;
    case IMPORT_WRITE_LOOPS: c->write_loops = true; break;
    default: break;
    }
    return true;
}

void import_finish(const import_request *r, hyp_compile_options *c)
{
    c->custom_domains = (const char *const *)r->custom_domains.items;
    c->custom_domain_count = r->custom_domains.count;
    c->custom_outputs = (const char *const *)r->custom_outputs.items;
    c->custom_output_count = r->custom_outputs.count;
}

void import_request_free(import_request *r)
{
    cli_list_free(&r->custom_domains);
    cli_list_free(&r->custom_outputs);
}
