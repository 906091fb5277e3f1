/* reduce.c - which node of the model comes out wrong first, and a small model that shows it: the model is compiled
 * again without some of its nodes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "driver/driver.h"
#include "onnx/cut.h"

enum { MOST_TRIES = 60 /* to leave out nodes, each two compilations */ };

typedef struct reduction {
    const hyp_suspects *suspects;
    hyp_compile_options options;
    hyp_onnx_cut *cut;
    int fd;
    char path[32]; /* of a file without a name, which the models to try are written to */
    bool all_inputs;
    bool *keep, *tried; /* by node */
} reduction;

static hyp_status open_draft(reduction *r, hyp_diag *diag)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/hypatia-XXXXXX", folder && *folder ? folder : "/tmp");
    r->fd = mkstemp(path);
    if (r->fd < 0) return hyp_fail(diag, HYP_ERR_IO, "%s: cannot make a temporary file: %s", path, strerror(errno));
    unlink(path);
    snprintf(r->path, sizeof r->path, "/dev/fd/%d", r->fd);
    return HYP_OK;
}

static bool write_draft(const reduction *r, const hyp_strbuf *bytes)
{
    if (ftruncate(r->fd, 0) != 0) return false;
    for (size_t at = 0; at < bytes->len;) {
        ssize_t n = pwrite(r->fd, bytes->data + at, bytes->len - at, (off_t)at);
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

/* Whether the plan of these nodes is wrong, and right without the rules to blame. */
static bool shows(reduction *r, const bool *keep)
{
    hyp_strbuf bytes = {0};
    bool written = hyp_onnx_cut_write(r->cut, keep, r->all_inputs, &bytes, NULL) == HYP_OK && write_draft(r, &bytes);
    hyp_strbuf_dispose(&bytes);
    if (!written) return false;
    r->options.disabled_rule_count = r->suspects->disabled_count;
    if (hyp_compile_once(r->path, NULL, &r->options, NULL, NULL, NULL) != HYP_ERR_MISMATCH) return false;
    if (r->suspects->culprit_count == 0) return true;
    r->options.disabled_rule_count += r->suspects->culprit_count;
    return hyp_compile_once(r->path, NULL, &r->options, NULL, NULL, NULL) == HYP_OK;
}

/* The number of nodes, counted from the first, that it takes to show it: keep has them. 0: all of them do not. */
static size_t find_prefix(reduction *r)
{
    size_t count = hyp_onnx_cut_count(r->cut), low = 0, high = count;
    for (size_t i = 0; i < count; i++) r->keep[i] = true;
    if (count == 0 || !shows(r, r->keep)) return 0;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        for (size_t i = 0; i < count; i++) r->keep[i] = i < middle;
        if (shows(r, r->keep))
            high = middle;
        else
            low = middle;
    }
    for (size_t i = 0; i < count; i++) r->keep[i] = i < high;
    return high;
}

/* Leaves out runs of nodes, ever shorter ones, that are not needed to show it; returns how many stay. */
static size_t leave_out(reduction *r, size_t count)
{
    size_t *left = hyp_calloc(count + 1, sizeof *left);
    if (!left) return count;
    for (size_t i = 0; i < count; i++) left[i] = i;
    int tries = 0;
    for (size_t run = count / 2; run > 0; run /= 2)
        for (size_t at = 0; at < count && count > run && tries < MOST_TRIES; tries++) {
            size_t end = at + run < count ? at + run : count;
            memcpy(r->tried, r->keep, hyp_onnx_cut_count(r->cut) * sizeof *r->tried);
            for (size_t i = at; i < end; i++) r->tried[left[i]] = false;
            if (!shows(r, r->tried)) {
                at = end;
                continue;
            }
            for (size_t i = at; i < end; i++) r->keep[left[i]] = false;
            memmove(left + at, left + end, (count - end) * sizeof *left);
            count -= end - at;
        }
    hyp_free(left);
    return count;
}

static hyp_status write_reduced(reduction *r, const char *path, hyp_diag *diag)
{
    hyp_strbuf bytes = {0};
    hyp_outfile file = {0};
    hyp_status status = hyp_onnx_cut_write(r->cut, r->keep, r->all_inputs, &bytes, diag);
    if (status == HYP_OK) status = hyp_outfile_open(&file, path, diag);
    if (status == HYP_OK) status = hyp_outfile_write(&file, bytes.data, bytes.len, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    hyp_strbuf_dispose(&bytes);
    return status;
}

static hyp_status reduce(reduction *r, const char *model_path, const char *reduced, hyp_strbuf *says, hyp_diag *diag)
{
    if (r->options.train)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "what is wrong may lie in the backward pass, which the model has not");
    hyp_onnx_options import = hyp_import_options(&r->options);
    HYP_TRY(hyp_onnx_cut_open(model_path, &import, &r->cut, diag));
    HYP_TRY(open_draft(r, diag));
    size_t count = hyp_onnx_cut_count(r->cut);
    r->keep = hyp_calloc(count + 1, sizeof *r->keep);
    r->tried = hyp_calloc(count + 1, sizeof *r->tried);
    if (!r->keep || !r->tried) return hyp_fail_memory(diag, count);
    r->all_inputs = true; /* the options may name any of them */
    size_t prefix = find_prefix(r);
    if (prefix == 0) return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "with all values as they are in the model it is right");
    hyp_strbuf_puts(says, "the first node that comes out wrong is '");
    hyp_onnx_cut_name(r->cut, prefix - 1, says);
    hyp_strbuf_puts(says, "'");
    if (!reduced) return HYP_OK;
    size_t left = leave_out(r, prefix);
    r->all_inputs = false;
    r->all_inputs = !shows(r, r->keep);
    HYP_TRY(write_reduced(r, reduced, diag));
    hyp_strbuf_printf(says, "; %s is a model of %zu node%s that shows it", reduced, left, left == 1 ? "" : "s");
    return HYP_OK;
}

void hyp_blame_node(const char *model_path, const hyp_compile_options *options, const hyp_suspects *suspects,
                    const char *reduced, hyp_strbuf *says)
{
    reduction r = {.suspects = suspects, .options = *options, .fd = -1};
    hyp_diag diag = {0};
    r.options.disabled_rules = suspects->disabled;
    r.options.no_record = true;
    if (reduce(&r, model_path, reduced, says, &diag) != HYP_OK)
        hyp_strbuf_printf(says, "%s: %s",
                          says->len ? "; no reduced model was written"
                          : reduced ? "the node is not known, and no reduced model was written"
                                    : "the node is not known",
                          diag.message);
    hyp_onnx_cut_close(r.cut);
    if (r.fd >= 0) close(r.fd);
    hyp_free(r.keep);
    hyp_free(r.tried);
}
