"""The CDC door at work: the shared tail of `changes`, subscriptions, streams, snapshots."""
