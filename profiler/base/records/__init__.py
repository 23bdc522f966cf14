"""The vocabulary that all stages share, one module a subject.

Frozen records for what a person reads; what there is a lot of (kernel launches, raw latency
samples) travels as pandas tables beside them, with the columns named in `common`.

Times are integer nanoseconds, work is FLOP and bytes, rates are per second, fractions are 0 to 1.
"""

from profiler.base.records.capture import *
from profiler.base.records.common import *
from profiler.base.records.comparison import *
from profiler.base.records.engine import *
from profiler.base.records.estimate import *
from profiler.base.records.findings import *
from profiler.base.records.fleet import *
from profiler.base.records.gpus import *
from profiler.base.records.inspection import *
from profiler.base.records.kernel_names import *
from profiler.base.records.machine import *
from profiler.base.records.model import *
from profiler.base.records.plugin import *
from profiler.base.records.prediction import *
from profiler.base.records.rules import *
from profiler.base.records.run import *
from profiler.base.records.tried import *
