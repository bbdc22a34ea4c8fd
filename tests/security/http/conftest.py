from tests.fixtures.http_servers import http_database, http_port

__all__ = ["http_database", "http_port"]
