"""The CDC door, as far as it decides: filters, literals, events, the window of the log, backpressure, numbers."""
