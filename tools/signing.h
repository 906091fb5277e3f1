/* signing.h - keys and signatures of plans on the command line. */
#ifndef HYPATIA_TOOLS_SIGNING_H
#define HYPATIA_TOOLS_SIGNING_H

#include "hypatia/signature.h"

/* These return an exit code after a message. */

/* Reads the key of --require-signature; NULL is none, and *out_key then NULL, else `room`. */
int signing_read_key(const char *path, unsigned char room[HYP_PUBLIC_KEY_BYTES], const unsigned char **out_key,
                     const char *tool);
/* For commands that only describe a plan: checks the file before they open it. CLI_OK where no key is required (NULL).
 */
int signing_require(const char *plan, const char *key_path, const char *tool);
/* Signs what a command has written; NULL: it stays as it is. */
int signing_sign(const char *plan, const char *key_path, const char *tool);

#endif
