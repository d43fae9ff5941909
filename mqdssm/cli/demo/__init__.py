"""``mqdssm demo``: a walk through the package on a private directory."""
