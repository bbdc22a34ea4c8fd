"""Each sentence that a bad setting gets, and what a good one becomes."""

import pytest
from msgspec import Struct, field

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.chassis.redis import Redis
from services.chassis.settings import SECTIONS, BadSetting, describe, load


class Capture(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slot: str = "tidewire"
    tables: tuple[str, ...] = ()
    patience_s: float | None = None
    careful: bool = False


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka
    http: Http = field(default_factory=Http)
    capture: Capture = field(default_factory=Capture)
    redis: Redis | None = None


LEAST = {"TIDEWIRE_KAFKA_BOOTSTRAP": "k:9092"}


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "tidewire.toml"
        path.write_text(text)
        return {"TIDEWIRE_CONFIG": str(path)}

    return write


def test_one_variable_is_enough_where_all_else_has_a_default():
    assert load(Settings, LEAST) == Settings(kafka=Kafka(bootstrap="k:9092"))


def test_the_environment_overrides_the_file_key_by_key(file):
    environ = file('[kafka]\nbootstrap = "a:1"\ntopic_prefix = "x."\n[http]\nport = 8080\n')
    settings = load(Settings, environ | {"TIDEWIRE_KAFKA_BOOTSTRAP": "b:2"})
    assert settings == Settings(kafka=Kafka(bootstrap="b:2", topic_prefix="x."), http=Http(port=8080))


def test_words_of_the_environment_become_the_types_of_their_fields():
    environ = LEAST | {
        "TIDEWIRE_HTTP_PORT": "8080",
        "TIDEWIRE_CAPTURE_TABLES": "public.orders, public.customers",
        "TIDEWIRE_CAPTURE_PATIENCE_S": "2.5",
        "TIDEWIRE_CAPTURE_CAREFUL": "true",
    }
    wanted = Capture(tables=("public.orders", "public.customers"), patience_s=2.5, careful=True)
    assert load(Settings, environ) == Settings(kafka=Kafka(bootstrap="k:9092"), http=Http(port=8080), capture=wanted)


def test_sections_of_other_services_are_ignored_in_file_and_environment(file):
    environ = file("[gateway]\nanything = 1\n") | LEAST | {"TIDEWIRE_FANOUT_WIDTH": "3", "PATH": "/bin"}
    assert load(Settings, environ) == Settings(kafka=Kafka(bootstrap="k:9092"))


def test_an_optional_section_is_read_when_it_is_there():
    settings = load(Settings, LEAST | {"TIDEWIRE_REDIS_URL": "redis://r:6379"})
    assert settings.redis == Redis(url="redis://r:6379")


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({}, "missing setting: set TIDEWIRE_KAFKA_BOOTSTRAP or 'bootstrap' under [kafka] in the settings file"),
        (
            {"TIDEWIRE_KAFKA_BOTSTRAP": "k:1"},
            "unknown setting TIDEWIRE_KAFKA_BOTSTRAP: did you mean TIDEWIRE_KAFKA_BOOTSTRAP?",
        ),
        (
            {"TIDEWIRE_KAKFA_BOOTSTRAP": "k:1"},
            "unknown setting TIDEWIRE_KAKFA_BOOTSTRAP: did you mean TIDEWIRE_KAFKA_BOOTSTRAP?",
        ),
        ({"TIDEWIRE_CONFG": "x"}, "unknown setting TIDEWIRE_CONFG: did you mean TIDEWIRE_CONFIG?"),
        (LEAST | {"TIDEWIRE_HTTP_PORT": "http"}, "bad value of TIDEWIRE_HTTP_PORT: Expected `int`, got `str`"),
        (
            LEAST | {"TIDEWIRE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"},
            "bad settings in [kafka]: SASL_SSL needs sasl_mechanism: set TIDEWIRE_KAFKA_SASL_MECHANISM",
        ),
        (
            LEAST | {"TIDEWIRE_CONFIG": "/no/such.toml"},
            "TIDEWIRE_CONFIG names '/no/such.toml', which cannot be read (No such file or directory): mend or unset it",
        ),
        (
            LEAST | {"TIDEWIRE_KAFKA_SSL_CA_LOCATION": "/no/ca.pem"},
            "bad settings in [kafka]: ssl_ca_location names '/no/ca.pem', which is not there: "
            "mend TIDEWIRE_KAFKA_SSL_CA_LOCATION",
        ),
        (
            LEAST | {"TIDEWIRE_REDIS_URL": "http://r"},
            "bad settings in [redis]: url must begin with redis://, rediss:// or unix://: mend TIDEWIRE_REDIS_URL",
        ),
    ],
)
def test_a_bad_variable_gets_a_sentence_that_names_it(environ, sentence):
    with pytest.raises(BadSetting) as refusal:
        load(Settings, environ)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[kafak]\n", "unknown section [kafak] in {path!r}: did you mean [kafka]?"),
        (
            "[zzz]\n",
            "unknown section [zzz] in {path!r}: known are " + ", ".join(f"[{name}]" for name in sorted(SECTIONS)),
        ),
        ("[http]\nprot = 1\n", "unknown setting TIDEWIRE_HTTP_PROT: did you mean TIDEWIRE_HTTP_PORT?"),
        ('kafka = "k:1"\n', "'kafka' in {path!r} must be a table: write [kafka] and its keys below it"),
    ],
)
def test_a_bad_file_gets_a_sentence_that_names_the_place(file, text, sentence):
    environ = file(text) | LEAST
    with pytest.raises(BadSetting) as refusal:
        load(Settings, environ)
    assert str(refusal.value) == sentence.format(path=environ["TIDEWIRE_CONFIG"])


def test_a_file_that_is_not_toml_is_named_with_the_line(file):
    with pytest.raises(BadSetting, match=r"tidewire.toml' is not TOML \(.*line 2.*\): mend that line"):
        load(Settings, file("[kafka]\nbootstrap = \n"))


def test_help_lists_every_variable_with_type_and_default():
    text = describe(Settings)
    assert [line.split()[0] for line in text.splitlines()[1:3]] == [
        "TIDEWIRE_KAFKA_BOOTSTRAP",
        "TIDEWIRE_KAFKA_TOPIC_PREFIX",
    ]
    for line in (
        "TIDEWIRE_KAFKA_BOOTSTRAP                 str, required",
        "TIDEWIRE_HTTP_PORT                       int, default 0",
        "TIDEWIRE_CAPTURE_SLOT                    str, default 'tidewire'",
        "TIDEWIRE_CAPTURE_TABLES                  str list, comma-separated, default ()",
        "TIDEWIRE_CAPTURE_PATIENCE_S              float, not set by default",
        "TIDEWIRE_REDIS_URL                       str, required",
    ):
        assert line in text


def test_no_password_is_shown_when_settings_are_printed():
    settings = (
        Kafka(bootstrap="k", sasl_password="hunter2", ssl_key_password="hunter2"),
        Redis(url="redis://me:hunter2@r:6379/1"),
        Postgres(dsn="postgresql://me:hunter2@p/shop"),
    )
    assert "hunter2" not in repr(settings)


def test_a_dsn_that_cannot_be_read_is_refused_without_its_words():
    with pytest.raises(ValueError, match=r"^dsn is not a connection string of libpq: mend TIDEWIRE_POSTGRES_DSN$"):
        Postgres(dsn="host=p password=hunter two")


class Inner(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    least: int = 1


class Outer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    selective_updates: Inner = Inner()
    width: int = 3


class Nested(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subscriptions: Outer = Outer()


def test_a_table_in_a_section_is_read_from_the_file_and_overridden_key_by_key(file):
    environ = file("[subscriptions]\nwidth = 4\n[subscriptions.selective_updates]\nenabled = false\nleast = 2\n")
    assert load(Nested, environ).subscriptions == Outer(selective_updates=Inner(enabled=False, least=2), width=4)
    environ |= {"TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_LEAST": "5"}
    assert load(Nested, environ).subscriptions == Outer(selective_updates=Inner(enabled=False, least=5), width=4)
    alone = {"TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_ENABLED": "false"}
    assert load(Nested, alone).subscriptions.selective_updates == Inner(enabled=False)


def test_a_bad_key_of_a_table_in_a_section_is_named(file):
    refused = {
        "TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_LEST": (
            "unknown setting TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_LEST: "
            "did you mean TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_LEAST?"
        ),
        "TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATE": (
            "unknown setting TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATE: "
            "did you mean TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_LEAST?"
        ),
        "TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_LEAST": (
            "bad value of TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_LEAST: Expected `int`, got `str`"
        ),
    }
    for name, sentence in refused.items():
        with pytest.raises(BadSetting) as refusal:
            load(Nested, {name: "x"})
        assert str(refusal.value) == sentence
    with pytest.raises(BadSetting) as refusal:
        load(Nested, file("[subscriptions]\nselective_updates = 3\n"))
    assert str(refusal.value) == (
        "'selective_updates' under [subscriptions] must be a table: "
        "write [subscriptions.selective_updates] and its keys below it"
    )


def test_help_shows_the_keys_of_a_table_in_a_section():
    text = describe(Nested)
    assert "TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_ENABLED  bool, default True" in text
    assert "TIDEWIRE_SUBSCRIPTIONS_WIDTH" in text
