"""``mqdssm serve``, ``enterprise`` and ``status``: directory servers."""
