#include "egraph/prove/large_stack.h"

#include <pthread.h>

#include "base/mem.h"

#define STACK_SIZE ((size_t)64 << 20)

typedef struct call {
    hyp_status (*fn)(void *user);
    void *user;
    hyp_mem_account *account;
    hyp_status status;
} call;

static void *begin(void *user)
{
    call *c = user;
    hyp_mem_charge(c->account);
    c->status = c->fn(c->user);
    return NULL;
}

hyp_status hyp_on_large_stack(hyp_status (*fn)(void *user), void *user, hyp_diag *diag)
{
    call c = {fn, user, hyp_mem_charged(), HYP_OK};
    pthread_attr_t attr;
    pthread_t thread;
    if (pthread_attr_init(&attr) != 0) return hyp_fail_memory(diag, sizeof attr);
    bool begun = pthread_attr_setstacksize(&attr, STACK_SIZE) == 0 && pthread_create(&thread, &attr, begin, &c) == 0;
    pthread_attr_destroy(&attr);
    if (!begun)
        return hyp_fail(diag, HYP_ERR_LIMIT, "this proof needs a stack of %zu MB, which is not to be had",
                        STACK_SIZE >> 20);
    pthread_join(thread, NULL);
    return c.status;
}
