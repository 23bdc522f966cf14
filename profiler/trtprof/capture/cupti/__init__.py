"""CUPTI's activity records, collected in the process that runs the engine."""
