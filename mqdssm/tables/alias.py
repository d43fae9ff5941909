"""Queue aliases and distribution lists ([MS-MQDSSM] 2.3, 3.1.6.8, 3.1.6.9)."""

from typing import Final

ALIAS_CLASS: Final = "msMQ-Custom-Recipient"
"""Class of queue aliases. The prose has mSMQ-Custom-Recipient; servers have this spelling."""
ALIAS_FORMAT_NAME: Final = "msMQ-Recipient-FormatName"
GROUP_CLASS: Final = "group"
GROUP_MEMBER: Final = "member"
QUEUE_CLASS: Final = "mSMQQueue"
