typedef int hyp_codegen_placeholder; /* replaced by the layer's own files */
