#include "samples.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folders.h"
#include "hypatia/tensor_io.h"

bool read_named_tensor(const cli_args *args, const char *option, const char *text, hyp_tensor *out)
{
    hyp_diag diag = {0};
    const char *equals = strstr(text, "=@");
    if (!equals || equals == text || !equals[2]) {
        cli_usage_error(args, "--%s: '%s' is not of the form x=@x.npy", option, text);
        return false;
    }
    if (hyp_tensor_load(equals + 2, NULL, out, &diag) != HYP_OK) {
        cli_usage_error(args, "--%s: %s", option, diag.message);
        return false;
    }
    out->name = cli_copy(text, (size_t)(equals - text));
    return true;
}

/* Room for one more tensor in the last set. */
static hyp_tensor *add_tensor(samples *s)
{
    hyp_samples *set = &s->sets[s->count - 1];
    hyp_tensor *tensors = cli_alloc((void *)set->tensors, set->count + 1, sizeof *tensors);
    set->tensors = tensors;
    tensors[set->count] = (hyp_tensor){0};
    return &tensors[set->count++];
}

static void add_set(samples *s)
{
    s->sets = cli_alloc(s->sets, s->count + 1, sizeof *s->sets);
    s->sets[s->count++] = (hyp_samples){0};
}

typedef struct reading {
    samples *samples;
    const cli_args *args;
} reading;

/* input_K.pb is the K-th input, whatever it calls itself. */
static int read_set(void *opaque, const char *folder)
{
    reading *r = opaque;
    add_set(r->samples);
    for (size_t k = 0;; k++) {
        char path[4096];
        struct stat st;
        hyp_tensor t = {0};
        hyp_diag diag = {0};
        snprintf(path, sizeof path, "%s/input_%zu.pb", folder, k);
        if (stat(path, &st) != 0 && k > 0) return CLI_OK;
        if (hyp_tensor_load(path, NULL, &t, &diag) != HYP_OK)
            return cli_usage_error(r->args, "--samples: %s", diag.message);
        t.name = NULL;
        *add_tensor(r->samples) = t;
    }
}

bool samples_read(samples *s, const cli_list *values, const cli_args *args)
{
    reading r = {s, args};
    bool named = false;
    for (size_t i = 0; i < values->count; i++) {
        hyp_tensor t = {0};
        if (is_folder(values->items[i])) continue;
        if (!read_named_tensor(args, "samples", values->items[i], &t)) return false;
        if (!named) add_set(s);
        named = true;
        *add_tensor(s) = t;
    }
    for (size_t i = 0; i < values->count; i++)
        if (is_folder(values->items[i]) && for_data_sets(values->items[i], read_set, &r) != CLI_OK) return false;
    return true;
}

void samples_free(samples *s)
{
    for (size_t i = 0; i < s->count; i++) {
        hyp_tensor *tensors = (hyp_tensor *)s->sets[i].tensors;
        for (size_t k = 0; k < s->sets[i].count; k++) {
            free((char *)tensors[k].name);
            hyp_tensor_dispose(&tensors[k]);
        }
        free(tensors);
    }
    free(s->sets);
}
