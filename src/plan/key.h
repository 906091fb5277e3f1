/* key.h - keys in files; private to the plan layer. */
#ifndef HYP_PLAN_KEY_H
#define HYP_PLAN_KEY_H

#include "plan/sodium.h"

/* Reads a private key. Whoever has the seed wipes it. HYP_ERR_IO, HYP_ERR_MALFORMED. */
HYP_NODISCARD hyp_status hyp_key_read_private(const hyp_sodium *sodium, const char *path,
                                              unsigned char seed[HYP_ED25519_SEED], hyp_diag *diag);

#endif
