/* The command line of hypatia serve. */
#include "options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"
#include "session.h"
#include "signing.h"

enum {
    OPT_LISTEN,
    OPT_DEVICE,
    OPT_THREADS,
    OPT_INSTANCES,
    OPT_BATCH,
    OPT_DELAY,
    OPT_QUEUE,
    OPT_QUEUE_TIMEOUT,
    OPT_WATCH,
    OPT_CONTROL,
    OPT_MAP,
    OPT_SIGNATURE,
    OPT_TOKENS,
    OPT_CERTIFICATE,
    OPT_KEY,
    OPT_BODY,
    OPT_HEADER,
    OPT_REQUEST_MEMORY,
    OPT_MEMORY,
    OPT_CONNECTIONS,
    OPT_PER_ADDRESS,
    OPT_HTTP_THREADS,
    OPT_TIMEOUT,
    OPT_GRACE,
    OPT_SHUTDOWN_DELAY,
    OPT_LOG,
    OPT_LOG_REQUESTS,
    OPT_HELP
};

static const cli_option options[] = {
    [OPT_LISTEN] = {"listen", 0, "ADDRESS:PORT",
                    "where to listen (127.0.0.1:8000); ':8000' is all addresses, port 0 any that is free"},
    [OPT_DEVICE] = {"device", 0, "[MODEL=]NAME", "auto (default), cpu, cuda, cuda:N or reference"},
    [OPT_THREADS] = {"threads", 0, "[MODEL=]N", "CPU threads of one run (OMP_NUM_THREADS, else all)"},
    [OPT_INSTANCES] = {"instances", 0, "[MODEL=]N", "runs of a plan at once (1)"},
    [OPT_BATCH] = {"max-batch", 0, "[MODEL=]ROWS",
                   "joins requests up to so many rows (1: none); rows must be independent"},
    [OPT_DELAY] = {"max-delay", 0, "[MODEL=]US",
                   "microseconds that a request waits for others to join (0: those that wait)"},
    [OPT_QUEUE] = {"max-queue", 0, "[MODEL=]N", "requests that wait; more are answered by 429 (256)"},
    [OPT_QUEUE_TIMEOUT] = {"queue-timeout", 0, "[MODEL=]MS",
                           "milliseconds; a request that has waited longer is answered by 503 (any)"},
    [OPT_WATCH] = {"watch", 0, "SECONDS", "looks so often for plans whose file is another one, and loads them (never)"},
    [OPT_CONTROL] = {"control", 0, NULL, "clients may load and unload models"},
    [OPT_MAP] = {"map", 0, NULL, "maps plans in place of reading them: nobody may write into these files"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse plans that are not signed by this key"},
    [OPT_TOKENS] = {"token-file", 0, "FILE", "clients have to show one of its tokens, a line each"},
    [OPT_CERTIFICATE] = {"tls-certificate", 0, "FILE", "TLS: the certificate, and those between it and its root (PEM)"},
    [OPT_KEY] = {"tls-key", 0, "FILE", "TLS: its private key (PEM)"},
    [OPT_BODY] = {"max-body", 0, "BYTES", "of a request (64M)"},
    [OPT_HEADER] = {"max-header", 0, "BYTES", "of a request's headers, about (32K)"},
    [OPT_REQUEST_MEMORY] = {"max-request-memory", 0, "BYTES", "of all requests together (1G)"},
    [OPT_MEMORY] = {"memory-limit", 0, "MIB", "of each instance: refuse shapes that need more (4096)"},
    [OPT_CONNECTIONS] = {"max-connections", 0, "N", "that are open (1000)"},
    [OPT_PER_ADDRESS] = {"max-connections-per-address", 0, "N", "of them from one address (any number)"},
    [OPT_HTTP_THREADS] = {"http-threads", 0, "N", "that read requests and write answers (2)"},
    [OPT_TIMEOUT] = {"timeout", 0, "SECONDS", "closes a connection on which nothing comes for so long (60)"},
    [OPT_GRACE] = {"grace", 0, "SECONDS", "at the end, requests under way have so long (30)"},
    [OPT_SHUTDOWN_DELAY] = {"shutdown-delay", 0, "SECONDS",
                            "serves on for so long after SIGTERM, but says that it is not ready (0)"},
    [OPT_LOG] = {"log", 0, "text|json|off", "what happens, on standard error (text)"},
    [OPT_LOG_REQUESTS] = {"log-requests", 0, NULL, "every request, too"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static void help(void)
{
    printf(
        "Usage: hypatia serve PLAN.bin ...\n"
        "       hypatia serve NAME=PLAN.bin NAME:VERSION=PLAN.bin ...\n"
        "Serves plans by HTTP: the open inference protocol, version 2 (docs/serving.md). SIGHUP loads plans again, "
        "SIGTERM\n"
        "ends the server when what is under way is answered. Options with [MODEL=] are for all models, or for one.\n");
    cli_print_options(stdout, options);
    printf(
        "\nExit codes: 0 ended by SIGTERM, 1 error, 2 usage, 3 not supported, 5 incompatible plan, 130 interrupted.\n");
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static const char *keep_text(serve_options *o, const char *from, size_t len)
{
    cli_list_add(&o->texts, from, len);
    return o->texts.items[o->texts.count - 1];
}

/* "plan" of "folder/plan.bin" */
static const char *name_of_file(serve_options *o, const char *path)
{
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path, *dot = strrchr(stem, '.');
    return keep_text(o, stem, dot && dot > stem ? (size_t)(dot - stem) : strlen(stem));
}

/* "PLAN.bin", "NAME=PLAN.bin" or "NAME:VERSION=PLAN.bin". CLI_OK, or CLI_USAGE after a message. */
static int add_model(serve_options *o, const cli_args *args, const char *value)
{
    model m = {.version = 1};
    const char *equals = strchr(value, '='), *slash = strchr(value, '/');
    if (equals && (!slash || equals < slash)) {
        const char *colon = memchr(value, ':', (size_t)(equals - value));
        m.name = keep_text(o, value, (size_t)((colon ? colon : equals) - value));
        m.path = equals + 1;
        if (colon && !cli_parse_int(keep_text(o, colon + 1, (size_t)(equals - colon - 1)), 1, INT32_MAX, &m.version))
            return cli_usage_error(args, "'%s': the version is no number between 1 and %d", value, INT32_MAX);
    } else {
        m.name = name_of_file(o, value);
        m.path = value;
    }
    if (!route_is_name(m.name))
        return cli_usage_error(args, "'%s' is no name of a model; wanted letters, digits, '.', '_' and '-': NAME=%s",
                               cli_shown(m.name), cli_shown(m.path));
    if (!*m.path) return cli_usage_error(args, "'%s' names no file", value);
    o->models = cli_alloc(o->models, o->model_count + 1, sizeof *o->models);
    o->models[o->model_count++] = m;
    return CLI_OK;
}

/* ---- options of models ------------------------------------------------------------------------------------------- */

/* One setting of a model. CLI_OK, or CLI_USAGE after a message. */
static int set_model(served_plan_options *m, const cli_args *args, int option, const char *value)
{
    const struct {
        int64_t low, high;
    } ranges[] = {[OPT_THREADS] = {1, 1024},   [OPT_INSTANCES] = {1, 256}, [OPT_BATCH] = {1, 1 << 20},
                  [OPT_DELAY] = {0, 10000000}, [OPT_QUEUE] = {1, 1 << 20}, [OPT_QUEUE_TIMEOUT] = {1, 3600000}};
    int64_t n;
    if (option == OPT_DEVICE) {
        if (session_parse_device(value, &m->engine.device, &m->engine.device_index)) return CLI_OK;
        return cli_usage_error(args, "--device: '%s' is none of auto, cpu, cuda, cuda:N, reference", value);
    }
    if (!cli_parse_int(value, ranges[option].low, ranges[option].high, &n))
        return cli_usage_error(args, "--%s: '%s' is no number between %lld and %lld", options[option].name, value,
                               (long long)ranges[option].low, (long long)ranges[option].high);
    switch (option) {
    case OPT_THREADS: m->engine.threads = (int32_t)n; break;
    case OPT_INSTANCES: m->instances = (int32_t)n; break;
    case OPT_BATCH: m->batching.most_rows = n; break;
    case OPT_DELAY: m->batching.delay_ns = (uint64_t)n * 1000; break;
    case OPT_QUEUE: m->queue = (size_t)n; break;
    default: m->queue_ns = (uint64_t)n * 1000000; break;
    }
    return CLI_OK;
}

/* A setting as it stands on the command line. Those for one model come after those for all, wherever they stand. */
typedef struct setting {
    int option;
    const char *value;
} setting;
typedef struct settings {
    setting *items;
    size_t count;
} settings;

static int apply(serve_options *o, const cli_args *args, const setting *s)
{
    const char *equals = strchr(s->value, '=');
    size_t len = equals ? (size_t)(equals - s->value) : 0;
    bool found = false;
    for (size_t i = 0; i < o->model_count; i++) {
        model *m = &o->models[i];
        if (equals && (strlen(m->name) != len || memcmp(m->name, s->value, len) != 0)) continue;
        found = true;
        int code = set_model(&m->options, args, s->option, equals ? equals + 1 : s->value);
        if (code != CLI_OK) return code;
    }
    return found ? CLI_OK
                 : cli_usage_error(args, "--%s: there is no model '%.*s'", options[s->option].name, (int)len, s->value);
}

static int apply_all(serve_options *o, const cli_args *args, const settings *all)
{
    for (int of_one = 0; of_one < 2; of_one++)
        for (size_t i = 0; i < all->count; i++) {
            if ((strchr(all->items[i].value, '=') != NULL) != of_one) continue;
            int code = apply(o, args, &all->items[i]);
            if (code != CLI_OK) return code;
        }
    return CLI_OK;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int read_count(const cli_args *args, int option, const char *value, int64_t high, uint32_t *out)
{
    int64_t n;
    if (!cli_parse_int(value, 1, high, &n))
        return cli_usage_error(args, "--%s: '%s' is no number between 1 and %lld", options[option].name, value,
                               (long long)high);
    *out = (uint32_t)n;
    return CLI_OK;
}

static int read_bytes(const cli_args *args, int option, const char *value, size_t low, size_t high, size_t *out)
{
    if (cli_parse_bytes(value, out) && *out >= low && *out <= high) return CLI_OK;
    return cli_usage_error(args, "--%s: '%s' is no number of bytes between %zu and %zu", options[option].name, value,
                           low, high);
}

/* Seconds, with a fraction or without. */
static int read_seconds(const cli_args *args, int option, const char *value, int64_t *out_ms)
{
    double seconds;
    if (!cli_parse_double(value, 0, &seconds) || !(seconds <= 86400))
        return cli_usage_error(args, "--%s: '%s' is no number of seconds, at most a day", options[option].name, value);
    *out_ms = (int64_t)ceil(seconds * 1000);
    return CLI_OK;
}

static int read_log(serve_options *o, const cli_args *args, const char *value)
{
    static const char *const names[] = {"text", "json", "off"}; /* in the order of log_form */
    for (int i = 0; i < 3; i++)
        if (strcmp(value, names[i]) == 0) return o->log = (log_form)i, CLI_OK;
    return cli_usage_error(args, "--log: '%s' is none of text, json, off", value);
}

static int read_key(serve_options *o, const cli_args *args, const char *value)
{
    const unsigned char *key;
    int code = signing_read_key(value, o->signer, &key, args->tool);
    o->has_signer = code == CLI_OK;
    return code;
}

/* What all requests and connections are bound by. */
static int read_limit(serve_options *o, const cli_args *args, int option, const char *value)
{
    int64_t ms = 0, mib;
    int code;
    switch (option) {
    case OPT_BODY: return read_bytes(args, option, value, 1024, (size_t)1 << 40, &o->body_most);
    case OPT_HEADER: return read_bytes(args, option, value, 4096, 1 << 20, &o->header_most);
    case OPT_REQUEST_MEMORY: return read_bytes(args, option, value, 1 << 16, (size_t)1 << 46, &o->memory_most);
    case OPT_CONNECTIONS: return read_count(args, option, value, 1 << 20, &o->connections);
    case OPT_PER_ADDRESS: return read_count(args, option, value, 1 << 20, &o->connections_per_address);
    case OPT_HTTP_THREADS: return read_count(args, option, value, 256, &o->threads);
    case OPT_GRACE: return read_seconds(args, option, value, &o->grace_ms);
    case OPT_SHUTDOWN_DELAY: return read_seconds(args, option, value, &o->delay_ms);
    case OPT_WATCH: return read_seconds(args, option, value, &o->watch_ms);
    case OPT_TIMEOUT:
        code = read_seconds(args, option, value, &ms);
        o->timeout_s = (uint32_t)((ms + 999) / 1000);
        return code == CLI_OK && !ms ? cli_usage_error(args, "--timeout: '%s' is no time to wait", value) : code;
    default:
        if (!cli_parse_int(value, 1, INT64_MAX >> 20, &mib))
            return cli_usage_error(args, "--memory-limit: '%s' is no number of MiB, 1 or more", value);
        o->instance_memory = (uint64_t)mib << 20;
        return CLI_OK;
    }
}

static int read_option(serve_options *o, settings *all, const cli_args *args, int option, const char *value)
{
    switch (option) {
    case CLI_POSITIONAL: return add_model(o, args, value);
    case OPT_LISTEN: o->listen = value; return CLI_OK;
    case OPT_CONTROL: o->control = true; return CLI_OK;
    case OPT_MAP: o->map = true; return CLI_OK;
    case OPT_TOKENS: o->token_file = value; return CLI_OK;
    case OPT_CERTIFICATE: o->certificate = value; return CLI_OK;
    case OPT_KEY: o->key = value; return CLI_OK;
    case OPT_LOG: return read_log(o, args, value);
    case OPT_LOG_REQUESTS: o->log_requests = true; return CLI_OK;
    case OPT_SIGNATURE: return read_key(o, args, value);
    case OPT_DEVICE:
    case OPT_THREADS:
    case OPT_INSTANCES:
    case OPT_BATCH:
    case OPT_DELAY:
    case OPT_QUEUE:
    case OPT_QUEUE_TIMEOUT:
        all->items = cli_alloc(all->items, all->count + 1, sizeof *all->items);
        all->items[all->count++] = (setting){option, value};
        return CLI_OK;
    default: return read_limit(o, args, option, value);
    }
}

/* What models have unless they are told otherwise. */
static void set_defaults(serve_options *o)
{
    for (size_t i = 0; i < o->model_count; i++)
        o->models[i].options = (served_plan_options){
            .engine = {.size = sizeof(hyp_engine_options), .require_signature = o->has_signer ? o->signer : NULL},
            .context_memory = o->instance_memory,
            .map = o->map,
            .instances = 1,
            .queue = 256,
            .batching = {.most_rows = 1},
        };
}

static int check(const serve_options *o, const cli_args *args)
{
    if (!o->model_count) return cli_usage_error(args, "no plan was given");
    if (!o->certificate != !o->key) return cli_usage_error(args, "TLS needs both, --tls-certificate and --tls-key");
    if (o->connections < o->threads)
        return cli_usage_error(args, "--max-connections is %u, fewer than the %u of --http-threads", o->connections,
                               o->threads);
    return CLI_OK;
}

bool serve_options_read(int argc, char **argv, serve_options *out, int *out_code)
{
    *out = (serve_options){.listen = "127.0.0.1:8000",
                           .body_most = 64 << 20,
                           .header_most = 32 << 10,
                           .memory_most = (size_t)1 << 30,
                           .instance_memory = (uint64_t)4 << 30,
                           .connections = 1000,
                           .threads = 2,
                           .timeout_s = 60,
                           .grace_ms = 30000};
    cli_args args = cli_begin("hypatia serve", options, argc, argv);
    settings all = {0};
    const char *value;
    int code = CLI_OK, option = 0;
    while (code == CLI_OK && (option = cli_next(&args, &value)) != CLI_END && option != OPT_HELP)
        code = option == CLI_ERROR ? CLI_USAGE : read_option(out, &all, &args, option, value);
    bool goes_on = code == CLI_OK && option != OPT_HELP;
    if (code == CLI_OK && option == OPT_HELP) help();
    if (goes_on) {
        set_defaults(out);
        code = check(out, &args);
        if (code == CLI_OK) code = apply_all(out, &args, &all);
    }
    free(all.items);
    *out_code = code;
    return goes_on && code == CLI_OK;
}

void serve_options_free(serve_options *o)
{
    cli_list_free(&o->texts);
    free(o->models);
}
