#include "interrupt.h"

#include <stddef.h>

static volatile sig_atomic_t asked;

static void ask(int number)
{
    (void)number;
    asked = 1;
}

static void catch(int number)
{
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigaction(number, &action, NULL);
}

const volatile sig_atomic_t *interrupt_catch(void)
{
    catch(SIGINT);
    return &asked;
}

void interrupt_catch_termination(void) { catch(SIGTERM); }

void interrupt_release(void) { signal(SIGINT, SIG_DFL); }
