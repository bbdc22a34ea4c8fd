"""Evaluation on Spark."""
