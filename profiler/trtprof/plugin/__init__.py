"""The custom kernel: from nodes of a model to a plugin that TensorRT takes, and the checks that it is right.

A stage: files and processes in, records out. `trtprof.flows.plugin` joins it to the others.
"""
