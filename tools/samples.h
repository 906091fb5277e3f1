/* samples.h - the sample inputs of hypatiac --samples. */
#ifndef HYPATIA_TOOLS_SAMPLES_H
#define HYPATIA_TOOLS_SAMPLES_H

#include "cli.h"
#include "hypatia/compiler.h"

/* Zero-initialise. */
typedef struct samples {
    hyp_samples *sets;
    size_t count;
} samples;

/* "x=@x.npy"; false after a message, which calls it the value of `option`. out->name is allocated. */
bool read_named_tensor(const cli_args *args, const char *option, const char *text, hyp_tensor *out);

/* Reads what the values of the option name: all "x=@x.npy" are one set, every data set of a folder is another. False
 * after a message. */
bool samples_read(samples *s, const cli_list *values, const cli_args *args);
void samples_free(samples *s);

#endif
