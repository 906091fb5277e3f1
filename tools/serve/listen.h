/* listen.h - a socket that listens at "127.0.0.1:8000", "[::1]:8000", "localhost:8000" or ":8000" (all addresses). */
#ifndef HYPATIA_SERVE_LISTEN_H
#define HYPATIA_SERVE_LISTEN_H

#include <stddef.h>

#include "hypatia/types.h"

/* Port 0: any that is free. *out_address is what was taken, "127.0.0.1:41234". HYP_ERR_IO, HYP_ERR_INVALID_ARGUMENT. */
hyp_status listen_at(const char *address, int *out_fd, char *out_address, size_t room, hyp_diag *diag);

#endif
