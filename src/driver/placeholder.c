typedef int hyp_driver_placeholder; /* replaced by the layer's own files */
