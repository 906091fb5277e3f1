/* Fuzz target: any bytes are a model or are refused; a graph that comes of them is sound. */
#include <stdlib.h>

#include "onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hyp_dims *dims;
    hyp_graph g;
    hyp_onnx_model *model = NULL;
    hyp_diag diag = {0};
    if (hyp_dims_create(&dims, NULL) != HYP_OK) return 0;
    hyp_graph_init(&g, dims);
    hyp_status status = hyp_onnx_import_memory(data, size, "fuzz.onnx", NULL, NULL, &g, &model, &diag);
    if (status == HYP_OK) {
        hyp_strbuf text = {0};
        if (hyp_graph_verify(&g, &diag) != HYP_OK || hyp_graph_print(&text, &g, 64, &diag) != HYP_OK) abort();
        hyp_strbuf_dispose(&text);
    } else if (status == HYP_ERR_INTERNAL || diag.status != status || !*diag.message) {
        abort(); /* every refusal has its reason */
    }
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
    return 0;
}
