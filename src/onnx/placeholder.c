typedef int hyp_onnx_placeholder; /* replaced by the layer's own files */
