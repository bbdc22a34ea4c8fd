"""gateway: the doors that clients come in by.

Owns:   client connections and their delivery state
Reads:  `deliveries`, what clients send
Writes: `commands`, what clients receive
"""
