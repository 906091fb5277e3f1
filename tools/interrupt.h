/* interrupt.h - Ctrl-C that asks a long work to come to an end. */
#ifndef HYPATIA_TOOLS_INTERRUPT_H
#define HYPATIA_TOOLS_INTERRUPT_H

#include <signal.h>

/* What a shell expects of a command that was interrupted. */
enum { CLI_INTERRUPTED = 130 };

/* From now on the first SIGINT sets what is returned to 1, and the second ends the process. */
const volatile sig_atomic_t *interrupt_catch(void);
/* So does SIGTERM, for works that have something to save. */
void interrupt_catch_termination(void);
/* The first one ends the process again. */
void interrupt_release(void);

#endif
