/* What several commands do about signatures. */
#include "signing.h"

#include "cli.h"

int signing_read_key(const char *path, unsigned char room[HYP_PUBLIC_KEY_BYTES], const unsigned char **out_key,
                     const char *tool)
{
    hyp_diag diag = {0};
    *out_key = path ? room : NULL;
    return !path || hyp_key_read_public(path, room, &diag) == HYP_OK ? CLI_OK : cli_report(tool, &diag);
}

int signing_require(const char *plan, const char *key_path, const char *tool)
{
    unsigned char room[HYP_PUBLIC_KEY_BYTES];
    const unsigned char *key;
    hyp_diag diag = {0};
    int code = signing_read_key(key_path, room, &key, tool);
    if (code == CLI_OK && key && hyp_plan_check_signature(plan, key, &diag) != HYP_OK) code = cli_report(tool, &diag);
    return code;
}

int signing_sign(const char *plan, const char *key_path, const char *tool)
{
    hyp_diag diag = {0};
    if (!key_path || hyp_plan_sign(plan, key_path, NULL, &diag) == HYP_OK) return CLI_OK;
    int code = cli_report(tool, &diag);
    cli_error(tool, "%s: was written without a signature; 'hypatia sign' signs it", cli_shown(plan));
    return code;
}
