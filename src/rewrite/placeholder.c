typedef int hyp_rewrite_placeholder; /* replaced by the layer's own files */
