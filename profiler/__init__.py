"""trtprof: why is deployed latency above theory, and which op deserves a hand-written kernel?"""

from __future__ import annotations

__version__ = "0.1.0"
