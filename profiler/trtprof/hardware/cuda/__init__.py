"""The ceilings of an NVIDIA GPU, measured by kernels that are compiled at run time."""
