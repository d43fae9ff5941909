"""``mqdssm discover`` and ``mqdssm discovery-server``: the search for directory servers."""
