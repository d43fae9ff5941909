"""Queues of MSMQ as definitions of other message brokers, for leaving MSMQ.

A module for each broker writes its files. All of them use one model of the queues and one encoding of
names.
"""

from mqdssm.pipeline.topology.conversion import Broker, Conversion, code_of, convert, load_names
from mqdssm.pipeline.topology.names import NameCode, NameKind, SourceName

__all__ = ["Broker", "Conversion", "NameCode", "NameKind", "SourceName", "code_of", "convert", "load_names"]
