"""``mqdssm send`` and ``mqdssm receive``: messages of programs."""
