"""The SCADr example, driven as a browser does: sign up, follow to the limit and beyond, post, page on."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from flask.testing import FlaskClient

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))
from scadr import app as scadr  # noqa: E402


class Browser:
    """One person's browser."""

    def __init__(self, client: FlaskClient, name: str) -> None:
        self.client = client
        self.post("/welcome", user=name)

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path, follow_redirects=True)
        assert answer.status_code == status, answer.text
        return answer.text

    def post(self, path: str, status: int = 200, **form: str) -> str:
        answer = self.client.post(path, data=form, follow_redirects=True)
        assert answer.status_code == status, answer.text
        return answer.text


def texts(page: str) -> list[str]:
    """The thoughts on a page."""
    return re.findall(r"</time><br>(.*)", page)


def older(page: str) -> str | None:
    """The address of the next page."""
    link = re.search(r'href="(\?after=[\w-]+)"', page)
    return link and link[1]


def asked(page: str) -> dict[str, tuple[int, int]]:
    """What the foot of a page says: requests and their bound, by query."""
    rows = re.findall(r"<td>(\w+)<td>(\d+)<td>(\d+)", page)
    return {name: (int(requests), int(bound)) for name, requests, bound in rows}


@pytest.fixture
def site(tmp_path: Path):
    return scadr.create_app(str(tmp_path / "scadr.redb"))


def test_strangers_are_asked_who_they_are(site) -> None:
    browser = Browser(site.test_client(), "not a name!")
    assert "Say who you are" in browser.get("/")
    assert "Say who you are" in browser.post("/post", text="hello")
    assert "A name is letters" in browser.post("/welcome", user="not a name!")


def test_a_day_on_the_site(site) -> None:
    kim, ada = Browser(site.test_client(), "kim"), Browser(site.test_client(), "ada")
    assert "Nothing here." in kim.get("/")
    assert 'action="/unfollow/ada"' in kim.post("/follow/ada")
    mine = [f"thought {n} &amp; more" for n in range(12)]
    for text in mine:
        ada.post("/post", text=text.replace("&amp;", "&"))
    page = kim.get("/")
    assert texts(page) == mine[:1:-1]
    # More is posted while kim reads on: nothing is skipped, nothing comes twice.
    ada.post("/post", text="too late for this reader")
    seen = texts(page)
    while link := older(page):
        page = kim.get("/" + link)
        seen += texts(page)
    assert seen[:12] == mine[::-1]
    assert len(seen) == len(mine) + 8
    assert "too late for this reader" in texts(kim.get("/"))[0]
    # Escaped, and not too long.
    ada.post("/post", text="<script>")
    assert texts(kim.get("/"))[0] == "&lt;script&gt;"
    assert "1 to 140 letters" in ada.post("/post", text="x" * 141)
    kim.post("/unfollow/ada")
    assert "Nothing here." in kim.get("/")


def test_the_limit_holds(site) -> None:
    star, fan = Browser(site.test_client(), "star"), Browser(site.test_client(), "fan")
    names = [f"person{n:02}" for n in range(scadr.FOLLOWS_MAX)]
    for name in names:
        Browser(site.test_client(), name)
        assert "already" not in fan.post(f"/follow/{name}")
    assert "You follow 20 people already. Unfollow one first." in fan.post("/follow/star")
    assert re.search(r"\b0\s+followers", star.get("/people/star"))
    fan.post("/unfollow/person00")
    assert "already" not in fan.post("/follow/star")
    # Whom one follows already one can follow again.
    assert "already" not in fan.post("/follow/star")
    for name in names[1:]:
        Browser(site.test_client(), name).post("/post", text=f"of {name}")
    page = fan.get("/")
    assert asked(page)["stream"] == (1 + 20, 1 + 20)
    assert len(texts(page)) == scadr.PAGE
    fan.get("/people/nobody", status=404)
    fan.post("/follow/nobody", status=404)


def test_what_a_page_asks_is_within_its_bound(site) -> None:
    browser = Browser(site.test_client(), "ada")
    for path in ("/", "/people/alan"):
        queries = asked(browser.get(path))
        assert len(queries) >= 4
        assert all(requests <= bound for requests, bound in queries.values()), queries
    assert asked(browser.get("/"))["stream"] == (1 + 5, 1 + 20)


def test_cursors_of_others_are_refused(site) -> None:
    ada, alan = Browser(site.test_client(), "ada"), Browser(site.test_client(), "alan")
    link = older(ada.get("/"))
    assert link
    ada.get("/" + link)
    assert "other parameters" in alan.get("/" + link, status=400)
    assert "begin with the first page again" in ada.get("/" + link[:-3], status=400)


def test_it_runs_with_one_command(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    command = [
        sys.executable,
        EXAMPLES / "scadr" / "app.py",
        "--db",
        str(tmp_path / "app.redb"),
        "--port",
        port,
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"http://localhost:{port}/", timeout=5) as answer:
                    assert b"Say who you are" in answer.read()
                return
            except OSError:
                assert server.poll() is None, server.stderr and server.stderr.read().decode()
                time.sleep(0.1)
        pytest.fail("it does not answer")
    finally:
        server.terminate()
        server.wait()
