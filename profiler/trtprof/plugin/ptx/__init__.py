"""Compiled kernels executed thread by thread, in numpy: what a kernel computes, what it moves, what it does wrong."""

from trtprof.plugin.ptx.count import Counted
from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.machine import instructions, launch
from trtprof.plugin.ptx.memory import Memory
from trtprof.plugin.ptx.parse import Entry, Parameter, Program

__all__ = ["Counted", "Entry", "Fault", "Memory", "Parameter", "Program", "instructions", "launch"]
