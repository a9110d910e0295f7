"""Logging in to brokers: each way works on a real one, a refusal is one sentence, and no secret is ever told."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType
from kafka.net.sasl.oauth import AbstractTokenProvider

from connectors.dev_broker import HOST, DevBroker, free_port
from connectors.kafka_admin import create_topics, topic_faults
from connectors.kafka_client import Brokers
from connectors.kafka_topic import KafkaTopic
from connectors.message import Outgoing
from flows.cli.main import main
from flows.data_folder import DataFolder
from store.schema import LookfirstError, Settings, TopicError, UsageError, load_settings
from tests.broker import fresh_prefix, kafka_jars

Captured = pytest.CaptureFixture[str]

USER, PASSWORD, WRONG, OF_KEY, OF_STORE = (
    "ada",
    "r1ght-and-secret",
    "wr0ng-and-secret",
    "key-and-secret",
    "store-1",
)
READER: Final = "bob"
"""May read and write the topics of a test, and not look at their settings."""
OWN_CERTIFICATE = "/CN=lookfirst"
HASTE: Final = 20.0
"""A refusal is told long before the time for an answer is over (s)."""

_LOGIN = "org.apache.kafka.common.security"
_LOGINS: Final = {
    "plain": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_{READER}="{PASSWORD}";',
    "scram-sha-256": "scram.ScramLoginModule required;",
    "scram-sha-512": "scram.ScramLoginModule required;",
    "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker with a listener for each way to talk to it."""

    servers: dict[str, str]
    """Address by the name of the security protocol."""
    ca: Path
    """What to trust (PEM)."""
    own: Path
    """A certificate that the broker trusts, with its key beside it as `.key` (PEM)."""

    def at(self, security: str, **settings: Any) -> Brokers:
        """The brokers, talked to in one of the ways."""
        return Brokers.at(self.servers[security], Settings(kafka_security=security, **settings))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that asks who one is, except in plain text on the loopback address."""
    folder = tmp_path_factory.mktemp("secured")
    jars = kafka_jars()
    if not (shutil.which("keytool") and shutil.which("openssl")):
        pytest.skip("certificates are made by keytool and openssl, and one of them is not here")
    store, ca, own = folder / "broker.p12", folder / "ca.pem", folder / "own.pem"
    made = ["-alias", "broker", "-keystore", str(store), "-storepass", OF_STORE]
    elliptic = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2", "-storetype", "PKCS12"]
    name = ["-dname", "CN=broker", "-ext", f"SAN=IP:{HOST}"]
    _quietly("keytool", "-genkeypair", *made, *elliptic, *name)
    _quietly("keytool", "-exportcert", "-rfc", *made, "-file", str(ca))
    wanted = ["-newkey", "rsa:2048", "-subj", OWN_CERTIFICATE, "-days", "2", "-passout", f"pass:{OF_KEY}"]
    _quietly("openssl", "req", "-x509", *wanted, "-keyout", str(own.with_suffix(".key")), "-out", str(own))

    ports = {each: free_port() for each in ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")}
    scrams = [f"SCRAM-SHA-{size}=[name={USER},password={PASSWORD}]" for size in (256, 512)]
    broker = DevBroker(
        folder / "broker",
        jars=jars,
        port=ports["PLAINTEXT"],
        properties={
            "listeners": ",".join(f"{each}://{HOST}:{port}" for each, port in ports.items()),
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
            **{
                f"listener.name.{listener}.{mechanism}.sasl.jaas.config": f"{_LOGIN}.{login}"
                for listener in ("sasl_plaintext", "sasl_ssl")
                for mechanism, login in _LOGINS.items()
            },
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": OF_STORE,
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.ssl.ssl.truststore.type": "PEM",
            "listener.name.ssl.ssl.truststore.location": str(own),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER};User:{OWN_CERTIFICATE[1:]}",
        },
        format_arguments=[argument for scram in scrams for argument in ("--add-scram", scram)],
    )
    with broker:
        yield Secured({each: f"{HOST}:{port}" for each, port in ports.items()}, ca, own)


@pytest.fixture
def prefix(secured: Secured) -> str:
    """A prefix whose topics are there."""
    prefix = fresh_prefix()
    create_topics(secured.at("PLAINTEXT"), prefix)
    return prefix


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """Makes a token each time, as an identity provider would."""

    def token(self) -> str:
        return token()


def make_provider(settings: Settings) -> AbstractTokenProvider:
    """What LOOKFIRST_KAFKA_TOKEN_PROVIDER names."""
    assert "OAUTHBEARER" == settings.kafka_mechanism
    return Provider()


def make_nothing(settings: Settings) -> None:
    """A factory of no provider."""


def token(seconds: int = 600) -> str:
    """A token without a signature, as the broker takes it here, for so many seconds."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now - 60, "exp": now + seconds})
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return f"{'.'.join(coded)}."


def there_and_back(brokers: Brokers, prefix: str) -> None:
    """A message goes to a topic and is read from it."""
    topic = KafkaTopic(brokers, f"{prefix}.operations")
    try:
        where = topic.append([Outgoing("thread", "hello")])
        (read,) = [each for batch in topic.walk({0: where.offset}) for each in batch]
        assert ("thread", "hello") == (read.key, read.value)
    finally:
        topic.close()


def refused(brokers: Brokers) -> str:
    """The sentence with which the brokers turn one away: soon, and with no thread left behind."""
    threads, began = threading.active_count(), time.monotonic()
    with pytest.raises(LookfirstError) as raised:
        KafkaTopic(brokers, "any")
    assert time.monotonic() - began < HASTE
    assert threads == threading.active_count()
    said = str(raised.value)
    assert "\n" not in said
    assert said.endswith(".")
    assert not [secret for secret in (PASSWORD, WRONG, OF_KEY) if secret in said]
    return said


def _quietly(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_with_a_password(secured: Secured, prefix: str, tmp_path: Path, mechanism: str) -> None:
    """The password may stand in a setting or in a file; another one is refused in a sentence without it."""
    ways = {"security": "SASL_PLAINTEXT", "kafka_mechanism": mechanism, "kafka_user": USER}
    there_and_back(secured.at(**ways, kafka_password=PASSWORD), prefix)
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", encoding="utf-8")
    there_and_back(secured.at(**ways, kafka_password_file=str(file)), prefix)
    there_and_back(secured.at(**ways, kafka_password="", kafka_password_file=str(file)), prefix)
    assert (
        f"The topics cannot be looked at: the brokers at {secured.servers['SASL_PLAINTEXT']} refuse the user or "
        "the password; see LOOKFIRST_KAFKA_USER."
    ) == refused(secured.at(**ways, kafka_password=WRONG))


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["consumer", "producer", "admin"])
def test_each_client_tells_a_wrong_password(secured: Secured, kind: str) -> None:
    """Whichever client is the first to ask, the reason is the password and not that nobody answers."""
    brokers = secured.at("SASL_PLAINTEXT", kafka_user=USER, kafka_password=WRONG)
    threads = threading.active_count()
    with pytest.raises(TopicError, match="refuse the user or the password"), brokers.asked("It cannot be read"):
        getattr(brokers, kind)()
    assert threads == threading.active_count()


@pytest.mark.broker
@pytest.mark.slow
def test_a_token_from_a_file_is_read_anew(secured: Secured, prefix: str, tmp_path: Path) -> None:
    """What stands in the file when a connection is made counts: a renewed token works, a stale one does not."""
    file = tmp_path / "token"
    file.write_text(f"{token()}\n", encoding="utf-8")
    brokers = secured.at("SASL_PLAINTEXT", kafka_mechanism="OAUTHBEARER", kafka_token_file=str(file))
    there_and_back(brokers, prefix)
    stale = token(-30)
    file.write_text(stale, encoding="utf-8")
    said = refused(brokers)
    assert f"the brokers at {brokers.servers} refuse the token; see LOOKFIRST_KAFKA_TOKEN_FILE." in said
    assert stale not in said
    file.write_text(token(), encoding="utf-8")
    there_and_back(brokers, prefix)
    file.unlink()
    assert (
        f"The file {file} that LOOKFIRST_KAFKA_TOKEN_FILE names cannot be read (FileNotFoundError)."
    ) == refused(brokers)


@pytest.mark.broker
@pytest.mark.slow
def test_a_token_from_a_provider(secured: Secured, prefix: str) -> None:
    """A factory that is named by a setting makes what makes tokens."""
    ways = {"kafka_mechanism": "OAUTHBEARER", "kafka_token_provider": f"{__name__}:make_provider"}
    there_and_back(secured.at("SASL_PLAINTEXT", **ways), prefix)


@pytest.mark.broker
@pytest.mark.slow
def test_encrypted_with_a_password(secured: Secured, prefix: str) -> None:
    """Over TLS with a certificate that is trusted; a mechanism that the listener lacks is named."""
    ways = {"kafka_user": USER, "kafka_password": PASSWORD, "kafka_ca_file": str(secured.ca)}
    there_and_back(secured.at("SASL_SSL", **ways), prefix)
    assert "do not offer SCRAM-SHA-512; LOOKFIRST_KAFKA_MECHANISM names another." in refused(
        secured.at("SASL_SSL", kafka_mechanism="SCRAM-SHA-512", **ways)
    )


@pytest.mark.broker
@pytest.mark.slow
def test_a_certificate_of_our_own(secured: Secured, prefix: str) -> None:
    """Where the broker asks for one, with its key and the key's password; another password is refused."""
    files = {"kafka_ca_file": str(secured.ca), "kafka_cert_file": str(secured.own)}
    keyed = {**files, "kafka_key_file": str(secured.own.with_suffix(".key"))}
    there_and_back(secured.at("SSL", **keyed, kafka_key_password=OF_KEY), prefix)
    for other in ({"kafka_key_password": WRONG}, {}):
        assert "LOOKFIRST_KAFKA_" in refused(secured.at("SSL", **keyed, **other))


@pytest.mark.broker
@pytest.mark.slow
def test_a_certificate_that_is_not_trusted(secured: Secured) -> None:
    """The reason is the certificate, with the setting that names what to trust, and is told at once."""
    ways = {"kafka_user": USER, "kafka_password": PASSWORD}
    untrusted = f"the certificate of the brokers at {secured.servers['SASL_SSL']} is refused"
    for trusted in ("", str(secured.own)):
        said = refused(secured.at("SASL_SSL", **ways, kafka_ca_file=trusted))
        assert untrusted in said
        assert "LOOKFIRST_KAFKA_CA_FILE" in said


@pytest.mark.broker
@pytest.mark.slow
def test_the_wrong_way_to_talk(secured: Secured) -> None:
    """Plain text where TLS or a user is expected, and TLS where nobody speaks it: told with the setting."""
    plain = secured.servers["PLAINTEXT"]
    for brokers in (
        Brokers.at(secured.servers["SASL_PLAINTEXT"], Settings(kafka_answer=2)),
        Brokers.at(secured.servers["SSL"], Settings(kafka_answer=2)),
        Brokers.at(plain, Settings(kafka_answer=2, kafka_security="SSL", kafka_ca_file=str(secured.ca))),
    ):
        said = refused(brokers)
        assert f"no broker answers at {brokers.servers}" in said
        assert said.endswith("check that they run, --brokers and LOOKFIRST_KAFKA_SECURITY.")


@pytest.mark.broker
@pytest.mark.slow
def test_somebody_who_may_not_look_at_settings(
    secured: Secured, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A run begins with one warning instead of a check; to make topics is not permitted, and says so."""
    admin = secured.at("PLAINTEXT").admin()
    pattern = ResourcePattern(ResourceType.TOPIC, prefix, ACLResourcePatternType.PREFIXED)
    try:
        admin.create_acls(
            [
                ACL(f"User:{READER}", "*", operation, ACLPermissionType.ALLOW, pattern)
                for operation in (ACLOperation.READ, ACLOperation.WRITE)
            ]
        )
    finally:
        admin.close()
    brokers = secured.at("SASL_PLAINTEXT", kafka_user=READER, kafka_password=PASSWORD)
    deadline = time.monotonic() + HASTE
    while True:
        # The rights reach the broker a moment after they were given.
        caplog.clear()
        try:
            assert [] == topic_faults(brokers, prefix)
        except TopicError:
            assert time.monotonic() < deadline
            continue
        warned = [each.getMessage() for each in caplog.records if each.name.startswith("connectors")]
        if not warned[0].startswith("The settings of the topics"):
            break
    unseen = (
        f"The settings of {prefix}.events and {prefix}.operations and {prefix}.dead-letters are not checked: the "
        "brokers do not permit to look at them."
    )
    assert [unseen] == warned
    there_and_back(brokers, prefix)
    assert (unseen,) == create_topics(brokers, prefix).notes
    with pytest.raises(TopicError, match=r"cannot be made: the brokers at .* do not permit it; have the rights"):
        create_topics(brokers, fresh_prefix())


@pytest.mark.promise("N6")
def test_no_secret_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by the settings, the doctor, or whatever prints them or the brokers."""
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("LOOKFIRST_KAFKA_PASSWORD", PASSWORD)
    monkeypatch.setenv("LOOKFIRST_KAFKA_KEY_PASSWORD", OF_KEY)
    DataFolder.at(tmp_path, load_settings()).topic("events").append([Outgoing(None, "{}")])
    for command in (["settings"], ["settings", "--json"], ["doctor", "--data", str(tmp_path), "--json"]):
        main(command)
    shown = capsys.readouterr()
    told = "".join((shown.out, shown.err, caplog.text, repr(load_settings()), str(load_settings())))
    told += repr(Brokers.at("localhost:9092", load_settings()))
    assert "LOOKFIRST_KAFKA_PASSWORD" in told
    assert "****" in told
    assert PASSWORD not in told
    assert OF_KEY not in told


@pytest.mark.promise("N6")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"KAFKA_SECURITY": "SASL_PLAINTEXT"},
            "PLAIN needs kafka_user, and kafka_password or kafka_password_file",
        ),
        (
            {"KAFKA_SECURITY": "SASL_SSL", "KAFKA_MECHANISM": "OAUTHBEARER"},
            "OAUTHBEARER needs kafka_token_file or kafka_token_provider",
        ),
        ({"KAFKA_SECURITY": "SASL"}, "kafka_security: Input should be 'PLAINTEXT', 'SSL', "),
    ],
)
def test_settings_that_cannot_log_in(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, settings: dict[str, str], told: str
) -> None:
    """What is missing is one sentence, and neither it nor its traceback shows the password that is there."""
    monkeypatch.setenv("LOOKFIRST_KAFKA_PASSWORD", PASSWORD)
    for name, value in settings.items():
        monkeypatch.setenv(f"LOOKFIRST_{name}", value)
    with pytest.raises(UsageError) as raised:
        load_settings()
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert 2 == main(["--debug", "settings"])
    said = capsys.readouterr().err
    assert told in said
    assert PASSWORD not in said


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"kafka_password_file": "{folder}/none"}, "LOOKFIRST_KAFKA_PASSWORD_FILE names cannot be read"),
        ({"kafka_password_file": "{folder}"}, "LOOKFIRST_KAFKA_PASSWORD_FILE names cannot be read"),
        ({"kafka_token_file": "{folder}/none"}, "LOOKFIRST_KAFKA_TOKEN_FILE names cannot be read"),
        ({"kafka_ca_file": "{folder}/none"}, "LOOKFIRST_KAFKA_CA_FILE names cannot be read"),
        ({"kafka_ca_file": "{folder}/text"}, "LOOKFIRST_KAFKA_CA_FILE names cannot be read"),
        ({"kafka_cert_file": "{folder}/text"}, "LOOKFIRST_KAFKA_"),
        ({"kafka_token_provider": "nowhere:make"}, "There is no token provider nowhere:make"),
        ({"kafka_token_provider": f"{__name__}:none"}, "There is no token provider"),
        (
            {"kafka_token_provider": f"{__name__}:make_nothing"},
            "makes no kafka.net.sasl.oauth.AbstractTokenProvider",
        ),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, settings: dict[str, str], told: str) -> None:
    """A password, a token or a certificate that is not there is told with its setting before anybody is asked."""
    (tmp_path / "text").write_text(PASSWORD, encoding="utf-8")
    named = {name: value.format(folder=tmp_path) for name, value in settings.items()}
    bearer = any(name.startswith("kafka_token") for name in named)
    login: dict[str, Any] = {"kafka_mechanism": "OAUTHBEARER"} if bearer else {"kafka_user": USER}
    if not bearer and "kafka_password_file" not in named:
        login["kafka_password"] = PASSWORD
    asked = Settings(kafka_security="SASL_SSL", **login, **named)
    with pytest.raises(UsageError) as raised:
        Brokers.at("localhost:1", asked).admin()
    assert told in str(raised.value)
    assert PASSWORD not in str(raised.value)
