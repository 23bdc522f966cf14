"""Libraries and processes that are hard to hold: sessions of ONNX Runtime and NVML, children, the garbage collector."""
