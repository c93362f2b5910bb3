"""Carries datagrams between addresses over UDP, TCP or memory; knows nothing of sessions, ordering or queues."""
