"""TLS contexts that follow their files, and real handshakes."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from controller.foundation import UsageError
from controller.kube import ConnectFailed, Connection, Credentials, KubeClient, TlsFiles
from controller.kube.connection import PATIENCE_SECONDS, REFRESH_SECONDS, make_tls_context
from tests.kube.certificates import make_authority
from tests.kube.scripted_server import ScriptedServer, answer


class Files:
    """A credential source whose files a test changes."""

    def __init__(self, tls: TlsFiles) -> None:
        self.tls = tls

    async def load(self, *, rejected: bool) -> Credentials:
        return Credentials({}, self.tls)


async def serve(tmp_path: Path, certificate: Path, key: Path) -> ScriptedServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ScriptedServer()
    await server.start(context)
    return server


async def test_a_server_of_our_authority_is_trusted_and_another_is_not(tmp_path: Path) -> None:
    ours, theirs = make_authority("ours"), make_authority("theirs")
    (tmp_path / "ca.crt").write_bytes(ours.pem)
    server = await serve(tmp_path, *ours.issue(tmp_path))
    server.script(answer({"ok": True}))
    tls = TlsFiles(str(tmp_path / "ca.crt"))
    client = KubeClient(Connection(server.url, credentials=Credentials({}, tls)), user_agent="test/1")
    assert await client.request_raw("GET", "/") == b'{"ok": true}'
    await client.close()
    (tmp_path / "ca.crt").write_bytes(theirs.pem)
    client = KubeClient(Connection(server.url, credentials=Credentials({}, tls)), user_agent="test/1")
    with pytest.raises(ConnectFailed, match="certificate of the API server is refused"):
        await client.request_raw("POST", "/")
    await client.close()
    await server.stop()


async def test_a_rotated_authority_is_picked_up_without_a_restart(tmp_path: Path) -> None:
    old, new = make_authority("old"), make_authority("new")
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.pem)
    server = await serve(tmp_path, *new.issue(tmp_path))
    server.script(answer({}))
    clock = [0.0]
    source = Files(TlsFiles(str(ca)))
    connection = Connection(server.url, source=source, credentials=Credentials({}, source.tls), now=lambda: clock[0])
    client = KubeClient(connection, user_agent="test/1")
    with pytest.raises(ConnectFailed):
        await client.request_raw("GET", "/")
    ca.write_bytes(old.pem + new.pem)
    clock[0] = 61.0
    await client.request_raw("GET", "/")
    await client.close()
    await server.stop()


async def test_unchanged_files_keep_their_context_and_broken_ones_too(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(make_authority().pem)
    clock = [0.0]
    source = Files(TlsFiles(str(ca)))
    connection = Connection("https://a", source=source, credentials=Credentials({}, source.tls), now=lambda: clock[0])
    first = connection.ssl_context
    for moment, content in ((61.0, ca.read_bytes()), (122.0, b"half a certifi")):
        ca.write_bytes(content)
        clock[0] = moment
        await connection.headers()
        assert connection.ssl_context is first


async def test_another_name_than_the_address_can_be_expected(tmp_path: Path) -> None:
    authority = make_authority()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    server = await serve(tmp_path, *authority.issue(tmp_path))
    server.script(answer({}))
    credentials = Credentials({}, TlsFiles(str(tmp_path / "ca.crt")))
    client = KubeClient(Connection(server.url, credentials=credentials, server_hostname="api.internal"), user_agent="t")
    await client.request_raw("GET", "/")
    await client.close()
    client = KubeClient(Connection(server.url, credentials=credentials, server_hostname="other"), user_agent="t")
    with pytest.raises(ConnectFailed):
        await client.request_raw("POST", "/")
    await client.close()
    await server.stop()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (TlsFiles("/nowhere/ca.crt"), "certificate authority /nowhere/ca.crt cannot be used"),
        (TlsFiles(None, "/nowhere/a.crt", "/nowhere/a.key"), "client certificate /nowhere/a.crt cannot be used"),
    ],
    ids=["CA", "client certificate"],
)
def test_a_file_that_cannot_be_used_is_named(files: TlsFiles, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_tls_context(files)


def test_the_strict_check_can_be_relaxed_and_nothing_else(tmp_path: Path) -> None:
    context = make_tls_context(TlsFiles(relax_x509_strict=True))
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


async def test_ten_requests_with_one_dead_token_cause_one_reload() -> None:
    loads = []

    class Source:
        async def load(self, *, rejected: bool) -> Credentials:
            loads.append(rejected)
            await asyncio.sleep(1)
            return Credentials({"Authorization": f"t{len(loads)}"})

    clock = [100.0]
    connection = Connection("http://a", source=Source(), now=lambda: clock[0])
    old = await connection.headers()
    clock[0] = 110.0
    assert all(connection.reject(old) for _ in range(10))
    found = await asyncio.gather(*(connection.headers() for _ in range(10)))
    assert {headers["Authorization"] for headers in found} == {"t2"}
    assert loads == [False, True]
    assert connection.reject(old)  # newer ones are there already


class Slow:
    """A source that takes its time from the second load on: a plugin whose cloud is down."""

    def __init__(self, seconds: float, *, slow_from: int = 2) -> None:
        self.seconds = seconds
        self.slow_from = slow_from
        self.loads: list[bool] = []
        self.given_up = 0

    async def load(self, *, rejected: bool) -> Credentials:
        self.loads.append(rejected)
        number = len(self.loads)
        try:
            await asyncio.sleep(self.seconds if number >= self.slow_from else 0)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return Credentials({"Authorization": f"t{number}"})


def loop_time() -> float:
    return asyncio.get_running_loop().time()


async def test_requests_go_on_with_what_they_have_while_a_source_is_slow() -> None:
    """A lease is renewed within five seconds; a plugin that hangs for a minute must not cost the leadership."""
    source = Slow(20.0)
    connection = Connection("http://a", source=source, now=loop_time)
    await connection.headers()
    await asyncio.sleep(REFRESH_SECONDS + 1)
    started = loop_time()
    assert (await connection.headers())["Authorization"] == "t1"
    assert loop_time() - started == pytest.approx(PATIENCE_SECONDS)
    for _ in range(10):
        assert (await connection.headers())["Authorization"] == "t1"
    assert loop_time() - started == pytest.approx(PATIENCE_SECONDS)  # nobody waits for the same load twice
    await asyncio.sleep(20.0)
    assert (await connection.headers())["Authorization"] == "t2"
    assert source.loads == [False, False]


async def test_a_source_that_hangs_is_given_up_and_asked_again_later() -> None:
    source = Slow(1e6)
    connection = Connection("http://a", source=source, now=loop_time)
    await connection.headers()
    with capture_logs() as lines:
        for _ in range(600):
            await asyncio.sleep(1.0)
            assert (await connection.headers())["Authorization"] == "t1"
    assert 7 <= len(source.loads) <= 10
    assert source.given_up == len(source.loads) - 2
    assert {line["reason"] for line in lines} == {"their source did not answer within 60 s"}
    await connection.close()
    assert source.given_up == len(source.loads) - 1


async def test_the_first_credentials_and_those_after_a_refusal_are_waited_for() -> None:
    source = Slow(7.0, slow_from=1)
    connection = Connection("http://a", source=source, now=loop_time)
    assert (await connection.headers())["Authorization"] == "t1"
    assert loop_time() == pytest.approx(7.0)
    await asyncio.sleep(10.0)
    assert connection.reject(await connection.headers())
    assert (await connection.headers())["Authorization"] == "t2"
    assert source.loads == [False, True]


async def test_a_cancelled_request_does_not_cancel_the_refresh_that_others_wait_for() -> None:
    source = Slow(7.0, slow_from=1)
    connection = Connection("http://a", source=source, now=loop_time)
    impatient, patient = asyncio.ensure_future(connection.headers()), asyncio.ensure_future(connection.headers())
    await asyncio.sleep(1.0)
    impatient.cancel()
    assert (await patient)["Authorization"] == "t1"
    assert source.loads == [False]


async def test_a_refusal_during_a_refresh_is_passed_on_by_the_next_one() -> None:
    source = Slow(7.0)
    connection = Connection("http://a", source=source, now=loop_time)
    old = await connection.headers()
    await asyncio.sleep(REFRESH_SECONDS + 1)
    await connection.headers()
    assert connection.reject(old)
    await connection.headers()
    await connection.headers()
    assert source.loads == [False, False, True]


async def test_a_bug_in_a_source_is_not_swallowed() -> None:
    class Broken:
        async def load(self, *, rejected: bool) -> Credentials:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Connection("http://a", source=Broken(), now=loop_time).headers()


async def test_credentials_never_show_in_a_representation() -> None:
    assert "hunter2" not in repr(Credentials({"Authorization": "Bearer hunter2"}))
