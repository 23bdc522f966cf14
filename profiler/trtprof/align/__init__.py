"""Who caused what: kernels to layers, layers to ONNX nodes."""
