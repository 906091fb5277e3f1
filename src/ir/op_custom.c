/* op_custom.c - custom operators: opaque to everybody but the kernel that a program gives to the runtime. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/custom.h"
#include "ir/op.h"

void hyp_custom_escape(hyp_strbuf *sb, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++) {
        bool plain = p[i] < 0x80 && (isalnum(p[i]) || memchr("_.-", p[i], 3));
        hyp_strbuf_printf(sb, plain ? "%c" : "%%%02x", p[i]);
    }
}

size_t hyp_custom_unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p; p++) {
        char hex[3] = {0};
        if (*p == '%' && p[1] && p[2]) {
            memcpy(hex, p + 1, 2);
            *to++ = (char)strtoul(hex, NULL, 16);
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
    return (size_t)(to - text);
}

hyp_status hyp_infer_custom(const hyp_infer_call *c)
{
    enum { TYPES = 2, SHAPES = 3 };
    const hyp_attr *types = &c->attrs[TYPES], *shapes = &c->attrs[SHAPES];
    uint32_t at = 0;
    if (!c->in[0]) return hyp_infer_fail(c, "input 0 is absent");
    if (types->count != c->out_count)
        return hyp_infer_fail(c, "%u outputs, and types for %u", c->out_count, types->count);
    for (uint32_t o = 0; o < c->out_count; o++) {
        hyp_type *t = &c->out[o].type;
        t->dtype = hyp_dtype_parse(types->syms[o]);
        if (t->dtype == HYP_DTYPE_NONE) return hyp_infer_fail(c, "no element type '%s'", types->syms[o]);
        int64_t rank = at < shapes->count ? shapes->dims[at++] : -1;
        if (rank < 0 || rank > HYP_MAX_RANK || rank > (int64_t)(shapes->count - at))
            return hyp_infer_fail(c, "the shape of output %u is not there", o);
        const hyp_attr dims = {.kind = HYP_ATTR_DIMS, .count = (uint32_t)rank, .dims = shapes->dims + at};
        HYP_TRY(hyp_check_shape(c, &dims, t));
        at += (uint32_t)rank;
    }
    return at == shapes->count ? HYP_OK : hyp_infer_fail(c, "there are more shapes than outputs");
}

hyp_status hyp_eval_custom(const hyp_eval_call *c)
{
    return hyp_fail(
        c->diag, HYP_ERR_UNSUPPORTED,
        "the custom operator %s is computed by a kernel of the program that runs the plan, and by nothing here",
        c->attrs[0].sym);
}
