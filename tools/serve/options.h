/* options.h - what the command line of `hypatia serve` says. */
#ifndef HYPATIA_SERVE_OPTIONS_H
#define HYPATIA_SERVE_OPTIONS_H

#include "cli.h"
#include "hypatia/signature.h"
#include "models.h"

typedef struct serve_options {
    model *models; /* the caller's to free; names and paths are in `texts` */
    size_t model_count;
    cli_list texts;
    const char *listen; /* "127.0.0.1:8000" */
    const char *certificate, *key, *token_file;
    size_t body_most, header_most, memory_most; /* bytes */
    uint32_t connections, connections_per_address, threads, timeout_s;
    int64_t watch_ms; /* 0: files are not watched */
    int64_t grace_ms, delay_ms;
    uint64_t instance_memory; /* bytes */
    bool map;
    bool control; /* load and unload by clients */
    bool log_requests;
    log_form log;
    unsigned char signer[HYP_PUBLIC_KEY_BYTES];
    bool has_signer;
} serve_options;

/* Reads the arguments of the command. False: it ends here, with *out_code. */
bool serve_options_read(int argc, char **argv, serve_options *out, int *out_code);
void serve_options_free(serve_options *o);

#endif
