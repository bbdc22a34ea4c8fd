"""The NOTIFY door's decisions: values as JSON, set differences, and the messages of the channel."""
