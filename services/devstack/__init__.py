"""Owns: the embedded stack, PostgreSQL, Kafka, Redis and the services as supervised processes of this machine.

Reads: TIDEWIRE_DEVSTACK_* and .tidewire/.
Writes: .tidewire/endpoints.json, data/, logs/ and run/.
"""
