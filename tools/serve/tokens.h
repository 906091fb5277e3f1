/* tokens.h - bearer tokens that a client may show. */
#ifndef HYPATIA_SERVE_TOKENS_H
#define HYPATIA_SERVE_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "hypatia/types.h"

/* Zero: no token is wanted. */
typedef struct tokens {
    char **items;
    size_t count;
} tokens;

/* Reads a file with a token in each line; empty lines and those that begin with '#' are none. HYP_ERR_IO;
 * HYP_ERR_MALFORMED for a token that no header can carry, and for a file without one. */
hyp_status tokens_read(const char *path, tokens *out, hyp_diag *diag);
void tokens_free(tokens *t);
/* `authorization` is the header's value, NULL where there is none. What is compared takes as long for a wrong token as
 * for a right one of the same length. */
bool tokens_allow(const tokens *t, const char *authorization);

#endif
