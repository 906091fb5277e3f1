/* seal_record PLAN OUT < RECORD: the plan with another record of its compilation, all lengths and checksums being
 * right. */
#include <stdio.h>
#include <stdlib.h>

#include "support/seal_plan.h"

int main(int argc, char **argv)
{
    static uint8_t record[HYP_PLAN_MAX_RECORD];
    hyp_plan plan;
    hyp_diag diag = {0};
    if (argc != 3) return 2;
    size_t len = fread(record, 1, sizeof record, stdin), size;
    if (hyp_plan_open_file(argv[1], NULL, &plan, &diag) != HYP_OK) return fprintf(stderr, "%s\n", diag.message), 1;
    HypPlan__Program program = *plan.program;
    program.record = (ProtobufCBinaryData){len, record};
    uint8_t *file = seal_plan(&program, plan.weights, plan.weights_bytes, &size);
    FILE *out = fopen(argv[2], "wb");
    if (!file || !out || fwrite(file, 1, size, out) != size || fclose(out) != 0) return 1;
    hyp_free(file);
    hyp_plan_close(&plan);
    return 0;
}
