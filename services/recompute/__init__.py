"""recompute: keeps the result of each query, and tells how it changed.

Owns:   the table replicas and the query results
Reads:  `queries`, `changes`, base rows from PostgreSQL
Writes: `deltas`
"""
