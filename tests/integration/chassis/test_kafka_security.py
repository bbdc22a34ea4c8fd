"""Kafka by TLS, with passwords and with client certificates: the right passes, the wrong is told in a sentence."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from services.chassis.kafka import Kafka, KafkaRefused, KafkaUnreachable, Reader, Writer, ensure_topics
from services.devstack.kafka import SETTINGS
from services.devstack.kafka import Kafka as Broker
from services.devstack.ports import free_port
from services.devstack.settings import Settings
from services.devstack.stack import java
from tests.fixtures.embedded import Embedded

TOPIC = SimpleNamespace(name="letters", partitions=1, config={})
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_writer="right";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def secured(plain, password, certificate, authority):
    """Three doors: plain for the broker itself, TLS with a password, TLS with a client certificate."""
    doors = f"BROKER://127.0.0.1:{plain},PASSWORD://127.0.0.1:{password},CERTIFICATE://127.0.0.1:{certificate}"
    return {
        "advertised.listeners": doors,
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORD:SASL_SSL,CERTIFICATE:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.certificate.ssl.client.auth": "required",
        "listener.name.password.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.password.plain.sasl.jaas.config": LOGIN,
        "listener.name.password.scram-sha-512.sasl.jaas.config": SCRAM,
    }


@pytest.fixture(scope="module")
def doors(tmp_path_factory, authority):
    plain, controller, password, certificate = (free_port() for _ in range(4))
    settings = secured(plain, password, certificate, authority)
    settings["listeners"] = f"{settings['advertised.listeners']},CONTROLLER://127.0.0.1:{controller}"
    folder = tmp_path_factory.mktemp("secured")
    broker = Broker(
        java=java(),
        jars=Path(Settings().jars) / "kafka",
        data=folder / "data",
        port=plain,
        controller_port=controller,
        settings={**SETTINGS, **settings},
    )
    process = Embedded(broker, folder / "log")
    process.start()
    add_scram_user(broker.address)
    yield SimpleNamespace(password=f"127.0.0.1:{password}", certificate=f"127.0.0.1:{certificate}")
    process.stop()


def add_scram_user(bootstrap):
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion("scrammer", credential, b"right")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.alter_user_scram_credentials([user]).values():
        answer.result(timeout=30)


@pytest.fixture
def by_password(doors, authority):
    return Kafka(
        bootstrap=doors.password,
        security_protocol="SASL_SSL",
        ssl_ca_location=str(authority.certificate),
        sasl_mechanism="PLAIN",
        sasl_username="writer",
        sasl_password="right",
    )


@pytest.fixture
def by_scram(by_password):
    return msgspec.structs.replace(by_password, sasl_mechanism="SCRAM-SHA-512", sasl_username="scrammer")


@pytest.fixture
def by_certificate(doors, authority):
    client = authority.issue("client")
    return Kafka(
        bootstrap=doors.certificate,
        security_protocol="SSL",
        ssl_ca_location=str(authority.certificate),
        ssl_certificate_location=str(client.certificate),
        ssl_key_location=str(client.key),
    )


@pytest.mark.parametrize("way", ["by_password", "by_scram", "by_certificate"])
def test_records_pass_in_each_secured_way(way, request):
    kafka = msgspec.structs.replace(request.getfixturevalue(way), topic_prefix=f"{way}.")
    ensure_topics(kafka, [TOPIC], timeout_s=30)
    writer = Writer(kafka, "letters", client_id="test")
    writer.send(b"secret")
    assert writer.flush(30) == 0
    reader = Reader(kafka, "letters", client_id="test")
    reader.seek_to(0)
    assert [message.value() for message in reader.read(10, 30)] == [b"secret"]
    reader.close()


@pytest.mark.parametrize("way", ["by_password", "by_scram"])
def test_a_wrong_password_is_refused_in_a_sentence_without_it(way, request):
    kafka = msgspec.structs.replace(request.getfixturevalue(way), sasl_password="wr0ng")
    with pytest.raises(KafkaRefused) as refusal:
        ensure_topics(kafka, [TOPIC], timeout_s=5)
    sentence = str(refusal.value)
    assert sentence.startswith(f"Kafka at {kafka.bootstrap} and these settings do not agree (")
    assert ("uthentication" in sentence, "TIDEWIRE_KAFKA_SASL_*" in sentence, "wr0ng" in sentence) == (
        True,
        True,
        False,
    )


@pytest.mark.parametrize("way", ["by_password", "by_certificate"])
def test_a_broker_whose_certificate_is_not_of_our_authority_is_refused(way, request, stranger):
    kafka = msgspec.structs.replace(request.getfixturevalue(way), ssl_ca_location=str(stranger.certificate))
    with pytest.raises(KafkaRefused, match="certificate"):
        ensure_topics(kafka, [TOPIC], timeout_s=5)


def test_a_client_without_a_certificate_of_the_brokers_authority_is_refused(by_certificate, stranger):
    unknown = stranger.issue("unknown")
    kafka = msgspec.structs.replace(
        by_certificate,
        ssl_certificate_location=str(unknown.certificate),
        ssl_key_location=str(unknown.key),
    )
    with pytest.raises(KafkaRefused, match="SSL"):
        ensure_topics(kafka, [TOPIC], timeout_s=5)


def test_speaking_plainly_to_a_tls_door_does_not_get_through(doors):
    with pytest.raises((KafkaUnreachable, KafkaRefused)):
        ensure_topics(Kafka(bootstrap=doors.certificate), [TOPIC], timeout_s=3)


def test_a_reader_tells_the_wrong_password_too(by_password):
    reader = Reader(msgspec.structs.replace(by_password, sasl_password="wr0ng"), "letters", client_id="test")
    with pytest.raises(KafkaRefused, match="uthentication"):
        reader.low_and_high(timeout_s=5)
    reader.close()


def test_a_key_that_does_not_fit_its_certificate_is_refused_when_the_client_is_made(by_certificate, authority):
    kafka = msgspec.structs.replace(by_certificate, ssl_key_location=str(authority.issue("other").key))
    with pytest.raises(KafkaRefused, match=r"ssl\.key\.location|key values mismatch"):
        Writer(kafka, "letters", client_id="test")
