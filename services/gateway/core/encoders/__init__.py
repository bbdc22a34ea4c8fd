"""One encoder for each door: changes in, the messages of its wire format out."""
