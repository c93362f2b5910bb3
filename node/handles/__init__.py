"""The objects of a node that applications hold: consumers, messages, receipts, transactions, verbs."""
