"""The topics door: who may, what a group stands at, and in which order things are kept."""
