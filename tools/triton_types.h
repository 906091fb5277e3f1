/* triton_types.h - element types as Triton has them: for what writes a model's configuration and for the backend that
 * reads it. */
#ifndef HYPATIA_TOOLS_TRITON_TYPES_H
#define HYPATIA_TOOLS_TRITON_TYPES_H

#include "hypatia/types.h"
#include "triton_api.h"

/* The file of the plan in a version's folder, unless the configuration says otherwise. */
#define TRITON_PLAN_FILE "model.plan"

/* TRITONSERVER_TYPE_INVALID, and NULL, of types that Triton lacks: 8-bit floats. "TYPE_FP32" is how a configuration
 * says it. */
TRITONSERVER_DataType triton_type(hyp_dtype dtype);
const char *triton_type_name(hyp_dtype dtype);

#endif
