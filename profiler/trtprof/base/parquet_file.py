"""Tables in Parquet files, read in this thread.

Those that pandas has pyarrow start wait for ever where the system gives them no memory, and take longer to begin with
than a table of a run to read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trtprof.base.input_file import open_file

if TYPE_CHECKING:
    import pandas as pd

_LARGE = 64 << 20
"""Bytes of a file from which on threads pay: the capture of a long run."""


def read_parquet(path: Path) -> pd.DataFrame:
    """The table in a Parquet file, with its index."""
    from pyarrow import parquet

    with open_file(path) as file:
        threads = os.fstat(file.fileno()).st_size > _LARGE
        table = parquet.ParquetFile(file, pre_buffer=threads).read(use_threads=threads)
        frame: pd.DataFrame = table.to_pandas(use_threads=threads)
    return frame
