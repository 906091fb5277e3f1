#include "codegen/target.h"

#include <stddef.h>
#include <string.h>

#include "base/cpu_level.h"
#include "base/timetable.h"
#include "base/strbuf.h"

static const hyp_target targets[] = {
    /* its library packs weights as it likes, and its caches make short copies cheap */
    {.name = "cpu",
     .machines = {{"any", "cpu"}, {"generic", "generic"}, {"avx2", "avx2"}, {"avx512", "avx512"}, {"amx", "amx"},
                  {"neon", "cpu"}},
     .streams = 1,
     .multiplies_integers = true,
     .turns_images = true,
     .runs_loops = true},
    /* warps read rows of weights whole, and every launch costs */
    {.name = "cuda",
     .machines = {{"h200", "h200"}, {"h100", "h100"}},
     .workspace_bytes = (size_t)32 << 20, /* of compute capability 9.0 */
     .streams = HYP_USUAL_STREAMS,
     .stores_weights_by_rows = true,
     .keeps_weights_for = {17, 128}, /* 64 rows of 1024 to 1024 take 9.3 us so, and 12.2 the other way (H200) */
     .joins_norm_and_linear = true,
     .reads_rows_in_place = true,
     .reads_keys_in_parts = true},
};

const hyp_target *hyp_target_find(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return NULL;
}

static hyp_status fail_unknown(const char *text, hyp_diag *diag)
{
    hyp_strbuf list = {0};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        hyp_strbuf_printf(&list, "%s%s (", i ? ", " : "", targets[i].name);
        for (int k = 0; k < HYP_TARGET_MACHINES && targets[i].machines[k].name; k++)
            hyp_strbuf_printf(&list, "%s:%s", k ? " " : "", targets[i].machines[k].name);
        hyp_strbuf_puts(&list, i == 0 ? " :native)" : ")");
    }
    hyp_status status =
        hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "unknown target '%s'; wanted one of %s", text, hyp_strbuf_text(&list));
    hyp_strbuf_dispose(&list);
    return status;
}

hyp_status hyp_target_parse(const char *text, const hyp_target **out, const char **out_profile, hyp_diag *diag)
{
    const char *colon = strchr(text, ':'), *machine = colon ? colon + 1 : NULL;
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const hyp_target *t = &targets[i];
        if (strlen(t->name) != length || memcmp(t->name, text, length) != 0) continue;
        if (i == 0 && machine && strcmp(machine, "native") == 0) machine = hyp_cpu_machine_name();
        for (int k = 0; k < HYP_TARGET_MACHINES && t->machines[k].name; k++) {
            if (machine && strcmp(t->machines[k].name, machine) != 0) continue;
            *out = t;
            *out_profile = t->machines[k].profile;
            return HYP_OK;
        }
    }
    return fail_unknown(text, diag);
}
