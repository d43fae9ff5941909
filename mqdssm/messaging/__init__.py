"""Messages of programs, which exchange them with MSMQ ([MS-MQQB]).

A program has a queue manager of its own.
"""

from mqdssm.messaging.message_delivery import DeliveryProof as DeliveryProof
from mqdssm.messaging.message_delivery import MessageDelivery as MessageDelivery
from mqdssm.messaging.private_queue import PrivateQueue as PrivateQueue
from mqdssm.messaging.queue_manager import QueueManager as QueueManager
