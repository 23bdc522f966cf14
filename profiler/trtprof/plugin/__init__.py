"""The hand-written kernel: from nodes of a model to a plugin that TensorRT takes, and the proof that it is right.

    task.py       what a kernel is to compute: nodes, operands, and the same as a model of its own
    model.py      a model as it is selected from and put into
    select.py     nodes of a model, as a task; the places of a model that are alike
    formulas.py   what nodes compute, in formulas that a person reads
    sizes.py      whole numbers that follow from the dimensions of inputs: grids, arguments
    kernel.py     a kernel as it is written: its text, its arguments, its grid; `TEMPLATES`, which write it
    expressions.py    element-wise ops in C++; indexing.py: where operands lie; rows.py: reductions with what is around
    cuda_text.py  pieces of CUDA that kernels share
    templates/    one file each: gemv, pointwise chains, softmax, ...
    build.py      kernels compiled for each architecture: registers, spills, occupancy, share of the bandwidth
    ptx/          compiled kernels executed thread by thread, in numpy
    numerics.py   a compiled kernel against float64; traffic.py: the sectors that it moves against those predicted
    specification.py  a task, its kernels and their PTX: what plugins are written from, and whether they fit one another
    quick.py      the plugin in Python, which TensorRT calls a quick deployable one; native.py: the same in C++
    forms/        what they are rendered from; readme.py: the README beside them
    library.py    the library that nvcc makes of the C++ project
    insert.py     the plugin put into a model, with the original nodes as its function
    contract.py   the plugin driven through TensorRT's own registry, without a GPU; cases.py: for which shapes
    folder.py     what a folder with all of that holds, for those who go on with it
    alone.py      the kernel alone on a GPU: right, and how fast; `trtprof.flows.plugin.bench` adds the engine with it

A stage: files and processes in, records out. `trtprof.flows.plugin` joins it to the others.
"""
