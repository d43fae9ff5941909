"""Messages of programs: a queue manager of one's own that sends to and receives from MSMQ ([MS-MQQB])."""

from mqdssm.messaging.message_delivery import DeliveryProof as DeliveryProof
from mqdssm.messaging.message_delivery import MessageDelivery as MessageDelivery
from mqdssm.messaging.private_queue import PrivateQueue as PrivateQueue
from mqdssm.messaging.queue_manager import QueueManager as QueueManager
