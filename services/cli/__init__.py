"""The command `tidewire`: looking at a Tidewire and at the database that it watches."""
