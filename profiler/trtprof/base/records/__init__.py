"""The vocabulary that all stages share, one module a subject.

Frozen records for what a person reads; what there is a lot of (kernel launches, raw latency
samples) travels as pandas tables beside them, with the columns named in `common`.

Times are integer nanoseconds, work is FLOP and bytes, rates are per second, fractions are 0 to 1.
"""

from trtprof.base.records.capture import *
from trtprof.base.records.common import *
from trtprof.base.records.comparison import *
from trtprof.base.records.engine import *
from trtprof.base.records.estimate import *
from trtprof.base.records.findings import *
from trtprof.base.records.fleet import *
from trtprof.base.records.gpus import *
from trtprof.base.records.inspection import *
from trtprof.base.records.kernel_names import *
from trtprof.base.records.machine import *
from trtprof.base.records.model import *
from trtprof.base.records.plugin import *
from trtprof.base.records.prediction import *
from trtprof.base.records.rules import *
from trtprof.base.records.run import *
from trtprof.base.records.tried import *
