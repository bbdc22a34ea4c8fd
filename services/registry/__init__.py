"""registry: what is subscribed, and which subscriptions share a query.

Owns:   subscriptions, queries, limits, leases
Reads:  `commands`
Writes: `subscriptions`, `queries`
"""
