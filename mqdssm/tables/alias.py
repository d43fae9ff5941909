"""Queue aliases and distribution lists ([MS-MQDSSM] 2.3, 3.1.6.8, 3.1.6.9)."""

from typing import Final

ALIAS_CLASS: Final = "msMQ-Custom-Recipient"
"""The prose writes mSMQ-Custom-Recipient; servers spell it as here, and compare without case."""
ALIAS_FORMAT_NAME: Final = "msMQ-Recipient-FormatName"
GROUP_CLASS: Final = "group"
GROUP_MEMBER: Final = "member"
QUEUE_CLASS: Final = "mSMQQueue"
