/* compile_memory.c - a compilation whose model and plan are no files: they are files in memory to the passes, which map
 * and stream them as others. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "driver/driver.h"

/* The bytes of a file, to be freed by who calls the library: not by way of our own allocations. */
static hyp_status take_bytes(int fd, void **out, size_t *out_size, hyp_diag *diag)
{
    struct stat file;
    if (fstat(fd, &file) != 0) return hyp_fail(diag, HYP_ERR_IO, "the plan in memory cannot be read");
    size_t size = (size_t)file.st_size, done = 0;
    char *bytes = malloc(size ? size : 1);
    if (!bytes) return hyp_fail_memory(diag, size);
    for (ssize_t n = 1; done < size && n > 0; done += n > 0 ? (size_t)n : 0)
        n = pread(fd, bytes + done, size - done, (off_t)done);
    if (done < size) {
        free(bytes);
        return hyp_fail(diag, HYP_ERR_IO, "the plan in memory cannot be read");
    }
    *out = bytes;
    *out_size = size;
    return HYP_OK;
}

hyp_status hyp_compile_to_memory(const char *model_path, const hyp_compile_options *options, void **out_plan,
                                 size_t *out_size, hyp_compile_report **out_report, hyp_diag *diag)
{
    HYP_NEED(model_path);
    HYP_NEED(out_plan);
    HYP_NEED(out_size);
    char plan_path[HYP_MEMORY_PATH];
    hyp_compile_report *report = NULL;
    int to = hyp_memory_file("", 0, plan_path);
    if (to < 0) return hyp_fail_memory(diag, 0);
    hyp_status status = hyp_compile_once(model_path, plan_path, options, hyp_blame, &report, diag);
    if (status == HYP_OK) status = take_bytes(to, out_plan, out_size, diag);
    close(to);
    if (status == HYP_OK && out_report)
        *out_report = report;
    else
        hyp_compile_report_destroy(report);
    return status;
}

hyp_status hyp_compile_memory(const void *model, size_t model_size, const hyp_compile_options *options, void **out_plan,
                              size_t *out_size, hyp_compile_report **out_report, hyp_diag *diag)
{
    HYP_NEED(model);
    char model_path[HYP_MEMORY_PATH];
    int from = hyp_memory_file(model, model_size, model_path);
    if (from < 0) return hyp_fail_memory(diag, model_size);
    hyp_status status = hyp_compile_to_memory(model_path, options, out_plan, out_size, out_report, diag);
    close(from);
    return status;
}
