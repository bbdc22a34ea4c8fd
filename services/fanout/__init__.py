"""fanout: each delta to the gateways whose clients want it, once a gateway.

Owns:   nothing; its table of subscriptions is a view of the topic
Reads:  `deltas`, `subscriptions`
Writes: `deliveries`
"""
