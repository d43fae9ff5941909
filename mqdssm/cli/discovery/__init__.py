"""``mqdssm discover`` and ``mqdssm discovery-server``.

Both commands use the broadcasts of [MS-MQSD].
"""
