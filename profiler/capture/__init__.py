"""What the device did."""
