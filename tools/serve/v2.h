/* v2.h - the open inference protocol, version 2: requests read from bytes, responses and metadata written. Nothing of
 * HTTP (but how many bytes of a body are JSON, which the binary tensor extension says in a header), of batches or of
 * threads.
 */
#ifndef HYPATIA_SERVE_V2_H
#define HYPATIA_SERVE_V2_H

#include "hypatia/runtime.h"
#include "wire.h"

/* What a plan takes and gives. Borrowed. */
typedef struct v2_signature {
    const hyp_io_info *const *inputs, *const *outputs;
    size_t input_count, output_count;
} v2_signature;

/* How an output is answered. */
typedef enum v2_form { V2_ABSENT = 0, V2_JSON = 1, V2_BINARY = 2 } v2_form;

typedef struct v2_request {
    const char *id;     /* NULL: none */
    hyp_tensor *inputs; /* all of the plan's, in its order; in the body, at any alignment, or in the store */
    v2_form *forms;     /* of each output of the plan */
} v2_request;

/* Once in a process, before requests are read: so that one is never called wrong for want of memory. */
void v2_start(void);

enum { V2_NO_HEADER_BYTES = -1 }; /* the whole body is JSON */

/* Reads body[0..len), of which the first `header_bytes` are JSON. One more byte than len has to be readable, a NUL.
 * What is read borrows from the body, the signature and the store. HYP_ERR_MALFORMED: no JSON, or not this protocol's;
 * HYP_ERR_INVALID_ARGUMENT: tensors that the plan does not have, or of other types or shapes; HYP_ERR_UNSUPPORTED;
 * HYP_ERR_LIMIT; HYP_ERR_NO_MEMORY. */
hyp_status v2_request_read(const char *body, size_t len, int64_t header_bytes, const v2_signature *signature, store *s,
                           v2_request *out, hyp_diag *diag);

/* The value of Inference-Header-Content-Length: digits, at most `len`. False: it is none. */
bool v2_read_header_bytes(const char *value, size_t len, int64_t *out);

/* What is answered: JSON, and behind it outputs as they lie in memory. */
typedef struct v2_response {
    const char *model, *id; /* id: NULL where the request had none */
    int64_t version;
    const v2_signature *signature;
    const hyp_tensor *outputs; /* all of the plan's, of the host's memory */
    const v2_form *forms;
} v2_response;
/* Appends the JSON. *out_binary: outputs follow, one behind the other; those of form V2_BINARY, in the plan's order. */
void v2_response_write(const v2_response *r, text *out, bool *out_binary);

/* {"name": ..., "versions": [...], "platform": ..., "inputs": [...], "outputs": [...]} */
void v2_metadata_write(text *out, const char *model, const int64_t *versions, size_t version_count,
                       const v2_signature *signature);
/* {"error": message} */
void v2_error_write(text *out, const char *message);

#endif
