"""SCADr, the microblog of the PIQL paper: follow people, post thoughts, read the stream of those you follow.

    python examples/scadr/app.py

fills in some people, and serves http://localhost:8000. Every page shows at its foot which queries it asked,
how many requests to the store each took, and how many it can ever take. What else a real site needs is not
here: passwords, pictures.

Nobody follows more than `FOLLOWS_MAX` people. The schema says so, the store refuses one more, and that is why
the stream has a bound: one request for whom you follow, and one for the last thoughts of each.
"""

from __future__ import annotations

import argparse
import random
from datetime import datetime, timedelta, timezone
from typing import Any

import flask
from werkzeug import Response

import whimbrel as wb
from whimbrel.bounded import Page, Query

FOLLOWS_MAX = 20
FOLLOWERS_SHOWN = 100
PAGE = 10

SCHEMA = f"""
    create table if not exists users (
        username varchar(20) primary key,
        joined timestamp not null
    );
    create table if not exists thoughts (
        owner varchar(20) references users,
        at timestamp,
        text varchar(140) not null,
        primary key (owner, at)
    );
    create table if not exists follows (
        owner varchar(20) references users,
        target varchar(20) references users,
        primary key (owner, target),
        cardinality limit {FOLLOWS_MAX} (owner)
    )
"""

STATEMENTS = {
    "join": "insert into users values (:user, :now)",
    "post": "insert into thoughts values (:user, :now, :text)",
    "follow": "upsert into follows values (:user, :target)",
    "unfollow": "delete from follows where owner = :user and target = :target",
    "find": "select joined from users where username = :user",
    "follows": "select target from follows where owner = :user",
    # A star has more followers than anybody wants to count: the first ones will do.
    "followers": f"""select count(*) as n
        from (select owner from follows where target = :user limit {FOLLOWERS_SHOWN}) as some""",
    "strangers": """select u.username
        from (select username, joined from users order by joined desc limit 12) as u
        where u.username <> :user
            and not exists (select 1 from follows f where f.owner = :user and f.target = u.username)
        order by u.joined desc""",
    "following": "select exists (select 1 from follows where owner = :user and target = :target) as yes",
    "thoughts": f"select owner, at, text from thoughts where owner = :user order by at desc paginate {PAGE}",
    "stream": f"""select t.owner, t.at, t.text
        from follows f join thoughts t on t.owner = f.target
        where f.owner = :user order by t.at desc paginate {PAGE}""",
}


class Queries:
    """The statements, prepared once and called by every thread; each page lists its queries at its foot."""

    def __init__(self, db: wb.bounded.Database) -> None:
        self.prepared: dict[str, Query] = {name: db.prepare(sql) for name, sql in STATEMENTS.items()}

    def rows(self, name: str, **values: Any) -> Page:
        """Read the first page of a query."""
        return self._seen(name, self.prepared[name](**values))

    def page(self, name: str, **values: Any) -> Page:
        """Read the page that the address says.

        The values are passed with the cursor, so that a cursor of another user is refused.
        """
        cursor = flask.request.args.get("after")
        if cursor is None:
            return self.rows(name, **values)
        try:
            return self._seen(name, self.prepared[name].resume(cursor, **values))
        except wb.InvalidError as error:
            flask.abort(400, str(error))

    def write(self, name: str, **values: Any) -> int:
        """Write; return the number of rows that changed."""
        return self.prepared[name](**values)

    def _seen(self, name: str, page: Page) -> Page:
        if flask.has_request_context():
            asked = flask.g.setdefault("asked", [])
            asked.append((name, self.prepared[name].bound.requests, page.spent.requests))
        return page


def now() -> datetime:
    """Return the current time, as it is stored."""
    return datetime.now(timezone.utc)


def fill(ask: Queries) -> None:
    """Fill in some people, whom they follow and what they thought."""
    if ask.rows("strangers", user=""):
        return
    chance = random.Random(2011)
    people = ["ada", "alan", "barbara", "edgar", "edsger", "grace", "jim", "john", "leslie", "tony"]
    thoughts = (
        "a join is a loop with manners",
        "counting is the hardest part",
        "indexes are promises",
        "limits set you free",
        "my cache is cold today",
        "nothing is faster than a bound",
    )
    start = now() - timedelta(days=1)
    for user in people:
        ask.write("join", user=user, now=start + timedelta(seconds=people.index(user)))
    for user in people:
        for target in chance.sample([other for other in people if other != user], 5):
            ask.write("follow", user=user, target=target)
        for _ in range(8):
            at = start + timedelta(seconds=chance.uniform(60, 86_000))
            ask.write("post", user=user, now=at, text=chance.choice(thoughts))


def create_app(url: str = "memory:", *, secret: str = "for a laptop only") -> flask.Flask:
    """Make the site over the database at this address."""
    db = wb.bounded.open(url)
    db.execute(SCHEMA)
    ask = Queries(db)
    fill(ask)
    app = flask.Flask(__name__)
    # Forms of other sites come without the cookie: nobody posts in your name.
    app.config.update(SECRET_KEY=secret, SESSION_COOKIE_SAMESITE="Lax")

    def me() -> str:
        """Return the user of the session; without one, redirect to the sign-up."""
        user = flask.session.get("user")
        if user is None or not ask.rows("find", user=user):
            flask.abort(flask.redirect("/welcome"))
        return user

    @app.get("/welcome")
    def welcome() -> str:
        return flask.render_template("welcome.html")

    @app.post("/welcome")
    def sign_in() -> Response:
        user = flask.request.form["user"].strip().lower()
        if not (user.isidentifier() and len(user) <= 20):
            flask.flash("A name is letters, digits and _, at most 20 of them.")
            return flask.redirect("/welcome")
        if not ask.rows("find", user=user):
            ask.write("join", user=user, now=now())
        flask.session["user"] = user
        return flask.redirect("/")

    @app.post("/leave")
    def leave() -> Response:
        flask.session.clear()
        return flask.redirect("/welcome")

    @app.get("/")
    def home() -> str:
        user = me()
        return flask.render_template(
            "home.html",
            follows=ask.rows("follows", user=user),
            followers=ask.rows("followers", user=user).first().n,
            strangers=ask.rows("strangers", user=user),
            page=ask.page("stream", user=user),
        )

    @app.get("/people/<name>")
    def profile(name: str) -> str:
        person = ask.rows("find", user=name).first() or flask.abort(404, f"There is nobody called {name}.")
        return flask.render_template(
            "profile.html",
            name=name,
            joined=person.joined,
            followed=ask.rows("following", user=me(), target=name).first().yes,
            followers=ask.rows("followers", user=name).first().n,
            page=ask.page("thoughts", user=name),
        )

    @app.post("/post")
    def post() -> Response:
        text = flask.request.form["text"].strip()
        if not 0 < len(text) <= 140:
            flask.flash("A thought has 1 to 140 letters.")
        else:
            ask.write("post", user=me(), now=now(), text=text)
        return flask.redirect("/")

    @app.post("/follow/<name>")
    def follow(name: str) -> Response:
        user = me()
        if not ask.rows("find", user=name):
            flask.abort(404, f"There is nobody called {name}.")
        try:
            ask.write("follow", user=user, target=name)
        except wb.DataError:
            # The store enforces the limit, also on concurrent requests.
            flask.flash(f"You follow {FOLLOWS_MAX} people already. Unfollow one first.")
        return flask.redirect(f"/people/{name}")

    @app.post("/unfollow/<name>")
    def unfollow(name: str) -> Response:
        ask.write("unfollow", user=me(), target=name)
        return flask.redirect(f"/people/{name}")

    @app.errorhandler(400)
    @app.errorhandler(404)
    def wrong(error: Any) -> tuple[str, int]:
        return flask.render_template("wrong.html", message=error.description), error.code

    app.jinja_env.globals["followers_shown"] = FOLLOWERS_SHOWN
    return app


def main() -> None:
    """Serve the site."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--db", default="memory:", help="path of a file, or memory: (the default)")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    create_app(options.db).run(port=options.port, threaded=True)


if __name__ == "__main__":
    main()
