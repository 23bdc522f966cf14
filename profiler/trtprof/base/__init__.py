"""What every floor stands on: records, the run folder, units, errors and the registry."""
