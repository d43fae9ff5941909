"""``mqdssm discover`` and ``mqdssm discovery-server``.

They find directory servers by broadcast ([MS-MQSD]).
"""
