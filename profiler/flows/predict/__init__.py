"""What an engine should take on any GPU, without one: groups of nodes, or the layers of a plan."""
