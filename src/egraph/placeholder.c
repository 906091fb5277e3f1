typedef int hyp_egraph_placeholder; /* replaced by the layer's own files */
