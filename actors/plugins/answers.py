"""What questions are answered with, for annotations and for tests: `plugin.take_question().answer((answers.StreamHeader(...),))`.

`help(levrier.actors.plugins.questions)` says which question has which. Times are microseconds since 1970, sizes bytes.
"""

from levrier.wire.responses.groups import ConsumerGroup, ConsumerGroupDetails
from levrier.wire.responses.streams import StreamDetails, StreamHeader, TopicHeader
from levrier.wire.responses.topics import TopicDetails
from levrier.wire.responses.users import User, UserDetails

__all__ = [
    "ConsumerGroup",
    "ConsumerGroupDetails",
    "StreamDetails",
    "StreamHeader",
    "TopicDetails",
    "TopicHeader",
    "User",
    "UserDetails",
]
