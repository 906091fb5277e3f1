typedef int hyp_runtime_placeholder; /* replaced by the layer's own files */
