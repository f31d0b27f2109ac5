"""The client of the local API, against a server that answers as it is told."""

import json
import socketserver
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, List, Tuple
from unittest import mock

import riffle
from riffle import _client

DECISION = {"arm": 1, "id": "reminder", "token": "t", "epoch": 2, "propensity": 0.5, "sampled": True,
            "reason": "sampled", "reward_by": "2026-01-01T00:00:00Z"}


class Server(HTTPServer):
    """Gives its answers in turn, the last one for ever, and keeps what was asked. A status of 0 is no answer."""

    def __init__(self, *answers: Tuple[int, Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.asked: List[Tuple[str, str, Any, Any]] = []
        self.connections = 0
        self.running = threading.Thread(target=self.serve_forever)
        self.running.start()

    def __exit__(self, *_: Any) -> None:
        self.shutdown()
        self.running.join()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, json.loads(body) if body else None, self.headers))
        answers = self.server.answers
        status, said = answers.pop(0) if len(answers) > 1 else answers[0]
        if status == 0:
            self.close_connection = True
            return
        text = said if isinstance(said, bytes) else json.dumps(said).encode() if said is not None else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if status != 204:
            self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_: Any) -> None:
        pass


class Calls(unittest.TestCase):
    def setUp(self) -> None:
        pause = mock.patch.object(_client, "PAUSE", 0)
        pause.start()
        self.addCleanup(pause.stop)

    def test_a_decision_and_its_reward(self) -> None:
        with Server((200, DECISION), (200, {"accepted": True, "clipped": True, "used": 1, "range": [0, 1]})) as server:
            with riffle.Client(server.url, token="secret") as client:
                d = client.decide("Ann/Ö ", ["none", {"id": "reminder", "price": 2}], context={"evening": True},
                                  default="none", exclude=["none"])
                a = client.reward(d, 7)
        self.assertEqual((d.arm, d.id, d.propensity, d.sampled), (1, "reminder", 0.5, True))
        self.assertEqual((a.clipped, a.used), (True, 1))
        (how, path, body, headers), (_, where, told, _) = server.asked
        self.assertEqual((how, path), ("POST", "/v1/devices/Ann%2F%C3%96%20/decisions"))
        self.assertEqual(body, {"arms": [{"id": "none"}, {"id": "reminder", "price": 2}], "context": {"evening": True},
                                "default": "none", "exclude": ["none"]})
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(headers["Authorization"], "Bearer secret")
        self.assertEqual((where, told), ("/v1/rewards", {"token": "t", "reward": 7.0}))
        self.assertEqual(server.connections, 1)
        self.assertNotIn("'t'", repr(d))

    def test_what_is_missing_of_a_person_is_null(self) -> None:
        with Server((200, DECISION)) as server, riffle.Client(server.url) as client:
            client.decide("a", ["none"], context={"age": float("nan"), "site": None, "evening": True})
        self.assertEqual(server.asked[0][2]["context"], {"age": None, "site": None, "evening": True})

    def test_vectors(self) -> None:
        with Server((200, DECISION)) as server, riffle.Client(server.url) as client:
            client.decide("a", [[0.5, 0], (0, 1)])
        self.assertEqual(server.asked[0][2], {"arms": [[0.5, 0], [0, 1]]})

    def test_what_passes_is_asked_again(self) -> None:
        with Server((503, {"reason": "busy"}), (0, None), (503, {"reason": "no_policy"}), (200, DECISION)) as server:
            with riffle.Client(server.url) as client:
                self.assertEqual(client.decide("a", ["x"]).arm, 1)
        self.assertEqual(len(server.asked), 4)

    def test_what_is_refused_is_not(self) -> None:
        said = {"reason": "expired_token", "detail": "the reward window is over", "status": 410}
        with Server((410, said)) as server, riffle.Client(server.url) as client:
            with self.assertRaises(riffle.Refused) as refused:
                client.reward("t", 1)
        self.assertEqual((refused.exception.status, refused.exception.reason, refused.exception.what),
                         (410, "expired_token", "the reward window is over"))
        self.assertEqual(len(server.asked), 1)

    def test_it_gives_up(self) -> None:
        with Server((503, {"reason": "busy"})) as server, riffle.Client(server.url, give_up=0) as client:
            with self.assertRaises(riffle.Refused):
                client.decide("a", ["x"])
        with Server((0, None)) as server, riffle.Client(server.url, give_up=0) as client:
            with self.assertRaisesRegex(riffle.Error, "no randomizer answers at"):
                client.decide("a", ["x"])
        with self.assertRaisesRegex(riffle.Error, "no randomizer answers at"):
            riffle.Client(server.url, give_up=0).status()

    def test_what_is_no_randomizer_is_said(self) -> None:
        for answer in ((200, b"<html>"), (200, [1]), (404, b"<html>"), (302, b"")):
            with Server(answer) as server, riffle.Client(server.url, give_up=0) as client:
                with self.assertRaises(riffle.Error):
                    client.decide("a", ["x"])
        with Server((200, b"x" * (_client.MAX_ANSWER + 1))) as server, riffle.Client(server.url, give_up=0) as client:
            with self.assertRaisesRegex(riffle.Error, "too many bytes"):
                client.status()

    def test_the_other_operations(self) -> None:
        with Server((200, {"a": 1})) as server, riffle.Client(server.url) as client:
            for call in (client.status, client.schema, client.description, lambda: client.ledger("a"),
                         lambda: client.register("a"), lambda: client.check(["x"])):
                self.assertEqual(call(), {"a": 1})
        with Server((204, None)) as server, riffle.Client(server.url) as client:
            client.opt_out("a"), client.opt_in("a"), client.erase("a")
        self.assertEqual([a[:2] for a in server.asked], [
            ("PUT", "/v1/devices/a/opt-out"), ("DELETE", "/v1/devices/a/opt-out"), ("DELETE", "/v1/devices/a")])

    def test_bad_addresses_and_bodies(self) -> None:
        with self.assertRaisesRegex(riffle.Error, "no address"):
            riffle.Client("127.0.0.1:8400")
        with Server((200, DECISION)) as server, riffle.Client(server.url) as client:
            for arms in ([[float("nan")]], [{"id": "a", "x": object()}]):
                with self.assertRaises(riffle.Refused):
                    client.decide("a", arms)

    def test_a_unix_socket(self) -> None:
        class Local(socketserver.UnixStreamServer):
            connections, asked = 0, []
            answers = [(200, {"final": True})]

            def get_request(self) -> Any:
                request, _ = super().get_request()
                return request, ("local", 0)

        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "api")
            with Local(path, Handler) as server:
                running = threading.Thread(target=server.serve_forever)
                running.start()
                with riffle.Client("unix:" + path) as client:
                    self.assertEqual(client.status(), {"final": True})
                server.shutdown()
                running.join()


if __name__ == "__main__":
    unittest.main()
