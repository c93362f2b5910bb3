"""The queue manager: sessions and sequences put together with queues, links and group commits. Pure, like them."""
