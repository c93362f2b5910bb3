"""Subscriptions of one node to topics of another: requests, their answers, and what is passed on."""
