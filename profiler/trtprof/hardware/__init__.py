"""The ceilings of the device."""
