"""What runs the judges: in this process, on Spark, or following logs that grow."""
