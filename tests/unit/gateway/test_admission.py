"""Who is let in: PostgreSQL asked for a proof that can pass, or need not ask (issue 5, and its trust rule)."""

import struct

import pytest

from proto.pgwire.framing import Frame
from services.gateway.core.admission import Admission
from services.gateway.errors import ClientRefused

OK, KERBEROS_5, CLEARTEXT, MD5, GSS, SSPI, SASL, SASL_CONTINUE, SASL_FINAL = 0, 2, 3, 5, 7, 9, 10, 11, 12
PLUS, PLAIN = b"SCRAM-SHA-256-PLUS\0", b"SCRAM-SHA-256\0"


def demand(kind, rest=b""):
    return Frame(ord("R"), struct.pack("!i", kind) + rest)


def proof(mechanism):
    first = b"n,,n=,r=nonce"
    return Frame(ord("p"), mechanism + struct.pack("!i", len(first)) + first)


@pytest.fixture
def from_afar():
    """A client from another machine, at a gateway with a certificate of its own."""
    return Admission(may_trust=False, by_tls=True, binds_to_us=True)


def test_a_client_from_afar_whom_nobody_asked_is_refused(from_afar):
    """To PostgreSQL every client comes from the gateway's address, so that `trust` for it would be trust for all."""
    with pytest.raises(ClientRefused, match=r"no password.*TIDEWIRE_GATEWAY_ALLOW_TRUST=true"):
        from_afar.asked(demand(OK))


def test_a_client_from_here_or_an_allowed_one_need_not_be_asked():
    assert Admission(may_trust=True, by_tls=False, binds_to_us=False).asked(demand(OK))


@pytest.mark.parametrize("kind", [CLEARTEXT, MD5])
def test_a_client_from_afar_who_was_asked_is_in_when_postgres_says_so(from_afar, kind):
    assert not from_afar.asked(demand(kind, b"salt"))
    from_afar.answer(Frame(ord("p"), b"secret\0"))
    assert from_afar.asked(demand(OK))


def test_scram_without_a_bound_channel_passes(from_afar):
    assert not from_afar.asked(demand(SASL, PLUS + PLAIN + b"\0"))
    from_afar.answer(proof(PLAIN))
    assert not from_afar.asked(demand(SASL_CONTINUE, b"r=nonce"))
    from_afar.answer(Frame(ord("p"), b"c=biws,r=nonce,p=proof"))
    assert not from_afar.asked(demand(SASL_FINAL, b"v=proof"))
    assert from_afar.asked(demand(OK))


def test_a_channel_bound_to_the_gateway_is_refused_with_what_to_do(from_afar):
    from_afar.asked(demand(SASL, PLUS + PLAIN + b"\0"))
    with pytest.raises(ClientRefused, match=r"channel binding.*channel_binding=disable.*PostgreSQL's own certificate"):
        from_afar.answer(proof(PLUS))


def test_a_channel_bound_to_postgres_own_certificate_passes():
    admission = Admission(may_trust=False, by_tls=True, binds_to_us=False)
    assert not admission.asked(demand(SASL, PLUS + PLAIN + b"\0"))
    admission.answer(proof(PLUS))
    assert not admission.asked(demand(SASL_FINAL, b"v=proof"))
    assert admission.asked(demand(OK))


def test_a_client_without_tls_is_offered_no_channel_to_bind():
    plain = Admission(may_trust=False, by_tls=False, binds_to_us=False)
    assert plain.shown(demand(SASL, PLUS + PLAIN + b"\0")) == demand(SASL, PLAIN + b"\0")
    assert plain.shown(demand(SASL_CONTINUE, PLUS)) == demand(SASL_CONTINUE, PLUS)


def test_a_client_by_tls_sees_what_postgres_offers(from_afar):
    assert from_afar.shown(demand(SASL, PLUS + PLAIN + b"\0")) == demand(SASL, PLUS + PLAIN + b"\0")


@pytest.mark.parametrize(("kind", "name"), [(GSS, "GSSAPI"), (SSPI, "SSPI"), (KERBEROS_5, "Kerberos"), (99, "99")])
def test_a_method_that_cannot_pass_is_refused_by_name(from_afar, kind, name):
    with pytest.raises(ClientRefused, match=f"{name}.*cannot pass through this gateway.*scram-sha-256"):
        from_afar.asked(demand(kind))


def test_nothing_but_a_proof_comes_before_admission(from_afar):
    with pytest.raises(ClientRefused):
        from_afar.answer(Frame(0xF0, b""))
