"""Proof beside the product: what only Triack's makers run. It is not in the wheel."""
