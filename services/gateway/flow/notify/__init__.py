"""The NOTIFY door: messages to sockets and listening sessions, whole results."""
