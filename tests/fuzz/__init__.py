"""Feed the readers of foreign bytes with any bytes at all: ``make fuzz``."""
