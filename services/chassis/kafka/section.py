"""The [kafka] section."""

from typing import Literal

from msgspec import Struct

from services.chassis.settings import refuse_absent_files

ClientConfig = dict[str, str | int | bool]

SECRET = {"ssl_key_password", "sasl_password"}


class Kafka(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach the brokers, and what our topics are called there."""

    bootstrap: str
    topic_prefix: str = ""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password: str | None = None
    replication_factor: int = 1

    def __post_init__(self) -> None:
        refuse_absent_files(
            "kafka",
            ssl_ca_location=self.ssl_ca_location,
            ssl_certificate_location=self.ssl_certificate_location,
            ssl_key_location=self.ssl_key_location,
        )
        if self.security_protocol.startswith("SASL"):
            for key in ("sasl_mechanism", "sasl_username", "sasl_password"):
                if getattr(self, key) is None:
                    raise ValueError(f"{self.security_protocol} needs {key}: set TIDEWIRE_KAFKA_{key.upper()}")

    def __repr__(self) -> str:
        shown = {key: "***" if key in SECRET and value else value for key, value in self._values().items()}
        return f"Kafka({', '.join(f'{key}={value!r}' for key, value in shown.items())})"

    def broker_name(self, topic: str) -> str:
        """What a topic of ours is called on the broker."""
        return self.topic_prefix + topic

    def client_config(self) -> ClientConfig:
        """The part of librdkafka's configuration that every client of ours shares."""
        config: ClientConfig = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            "allow.auto.create.topics": False,
            "socket.keepalive.enable": True,
            "socket.nagle.disable": True,
            # A restarted broker should be found within a second or two, not within librdkafka's ten.
            "reconnect.backoff.max.ms": 2000,
            # Troubles come through error_cb and become the reason of "not ready"; as log lines they are a flood.
            "log_level": 2,
        }
        for key, value in self._values().items():
            if key.startswith(("ssl_", "sasl_")) and value is not None:
                config[key.replace("_", ".")] = value
        return config

    def _values(self) -> dict[str, str | int | None]:
        return {key: getattr(self, key) for key in self.__struct_fields__}
