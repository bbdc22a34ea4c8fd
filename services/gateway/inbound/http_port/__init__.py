"""The HTTP port: one server for all HTTP doors, with authentication, limits and errors of one kind."""
