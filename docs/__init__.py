"""The pages of the documentation, as ``triack help`` prints them."""
