"""capture: PostgreSQL's commits, in commit order, in one log.

Owns:   the replication slot, `seq`
Reads:  PostgreSQL's WAL (pgoutput)
Writes: `changes`
"""
