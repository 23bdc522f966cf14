"""What was asked: the ONNX model, its shapes and its inputs."""
