typedef int hyp_ir_placeholder; /* replaced by the layer's own files */
