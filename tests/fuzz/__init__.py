"""What reads bytes that others wrote, with any bytes at all: ``make fuzz``."""
