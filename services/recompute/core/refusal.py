"""The refusal of a query, under the name that recompute uses."""

from services.chassis.refusal import Refused

__all__ = ["Refused"]
