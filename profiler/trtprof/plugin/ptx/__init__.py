"""Compiled kernels executed thread by thread, in numpy: what a kernel computes, what it moves, and what it does wrong.

parse.py       PTX text, as instructions
machine.py     which threads execute which instruction next; `launch`
operands.py    operands, as functions of many threads
state.py       registers of many blocks side by side
undefined.py   bits of registers that were never set, through instructions
arithmetic.py, convert.py, rounding.py    what instructions compute, with one rounding
control.py     branches, calls, barriers
access.py, atomics.py    loads, stores, asynchronous copies, atomics
warp.py, matrix.py    what warps do together
memory.py      named buffers, which know what was written
shared.py      shared memory, which knows who touched what
count.py       sectors, passes over shared memory, instructions
"""

from trtprof.plugin.ptx.count import Counted
from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.machine import instructions, launch
from trtprof.plugin.ptx.memory import Memory
from trtprof.plugin.ptx.parse import Entry, Parameter, Program

__all__ = ["Counted", "Entry", "Fault", "Memory", "Parameter", "Program", "instructions", "launch"]
