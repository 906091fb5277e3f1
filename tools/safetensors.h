/* safetensors.h - files of named tensors in an open format (https://github.com/huggingface/safetensors): 8 bytes with
 * the length of a header, the header as JSON, the elements.
 */
#ifndef HYPATIA_TOOLS_SAFETENSORS_H
#define HYPATIA_TOOLS_SAFETENSORS_H

#include "cli.h"

/* Texts that a file has besides its tensors. */
typedef struct safetensors_meta {
    const char *key, *value;
} safetensors_meta;

/* Writes host tensors, which have names, those of larger elements first, so that all of them are aligned. The same
 * tensors and texts give the same bytes. False, with errno, where not all of it could be written. */
bool safetensors_write(int fd, const hyp_tensor *tensors, size_t count, const safetensors_meta *meta,
                       size_t meta_count);

/* A file that was opened; zero-initialise. */
typedef struct safetensors {
    int fd;
    char *path;
    uint64_t data;       /* where elements start in the file */
    hyp_tensor *tensors; /* with names, types and dims; `bytes` is what they have in the file, there is no data */
    uint64_t *offsets;   /* of each tensor, from `data` */
    size_t count;
    struct json_t *texts; /* an object of strings; NULL: there are none */
} safetensors;

/* Reads the header, and checks all of it: that it is such JSON, of known types, that dims and bytes of each tensor
 * agree, and that the tensors fill the file without a gap. Takes memory in proportion to a header of at most 32 MiB.
 * CLI_OK, or CLI_FAILED after a message, and there is nothing to close. */
int safetensors_open(safetensors *s, const char *path, const char *tool);
void safetensors_close(safetensors *s); /* safe on a zeroed one */
/* A text of the header, which lives until it is closed; NULL: it has none of this key. */
const char *safetensors_text(const safetensors *s, const char *key);
/* Reads the elements of tensor i to t->data, which has room. CLI_OK, or CLI_FAILED after a message. */
int safetensors_read(const safetensors *s, size_t i, const hyp_tensor *t, const char *tool);

#endif
