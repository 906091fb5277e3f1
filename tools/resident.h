/* resident.h - a session's tensors in the memory of the device: a run then copies nothing. */
#ifndef HYPATIA_TOOLS_RESIDENT_H
#define HYPATIA_TOOLS_RESIDENT_H

#include "session.h"

/* The tensors that a session does not use at the moment: those on the device, or the host's. */
typedef struct resident {
    hyp_tensor *inputs, *outputs; /* NULL: there are none */
    bool in_use;                  /* by the session */
} resident;

/* Makes twins of the session's inputs and outputs on its device, with what they hold; zeroed before. Outputs hold NaN
 * in most types, so that what no run has written shows. An exit code after a message. */
int resident_open(resident *r, session *s, const char *tool);
/* Gives the session the tensors on the device, or the host's again. */
void resident_use(resident *r, session *s, bool on_device);
/* Copies outputs to the host's, which the session uses from then on. Waits for runs that are under way. */
int resident_fetch(resident *r, session *s, const char *tool);
/* Before session_close; safe on a zeroed one. */
void resident_close(resident *r, session *s);

#endif
