"""Trims what nobody needs any more: durable topics by their limits, `changes` behind its readers, leftovers."""
