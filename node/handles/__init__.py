"""What applications hold of a node: consumers, messages, receipts, transactions, verbs."""
