/* What the tests of the IR share. */
#ifndef HYP_TESTS_IR_IR_TEST_H
#define HYP_TESTS_IR_IR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

/* Fails the test with the message that came. */
#define assert_ok(call, diag)                                                                                          \
    do {                                                                                                               \
        if ((call) != HYP_OK) fail_msg("%s: %s", #call, (diag)->message);                                              \
    } while (0)

static inline hyp_dims *new_dims(void)
{
    hyp_dims *dims = NULL;
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    return dims;
}

static inline hyp_graph parse(hyp_dims *dims, const char *text)
{
    hyp_graph g;
    hyp_diag diag = {0};
    hyp_graph_init(&g, dims);
    assert_ok(hyp_graph_parse(&g, "test", text, strlen(text), &diag), &diag);
    return g;
}

static inline char *print(const hyp_graph *g, size_t elide_above)
{
    hyp_strbuf sb = {0};
    hyp_diag diag = {0};
    assert_ok(hyp_graph_print(&sb, g, elide_above, &diag), &diag);
    return sb.data; /* hyp_free */
}

/* A small deterministic generator (xorshift). */
typedef struct rng {
    uint64_t state; /* not 0 */
} rng;

static inline uint64_t next_random(rng *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state;
}

static inline int64_t pick(rng *r, int64_t low, int64_t high)
{
    return low + (int64_t)(next_random(r) >> 11) % (high - low + 1);
}

#endif
