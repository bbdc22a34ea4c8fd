"""The NOTIFY door's decisions: who may have a message."""
