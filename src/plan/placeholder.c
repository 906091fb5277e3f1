typedef int hyp_plan_placeholder; /* replaced by the layer's own files */
