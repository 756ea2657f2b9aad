"""The network: backbone, head, weights, its folder, its ONNX file."""
