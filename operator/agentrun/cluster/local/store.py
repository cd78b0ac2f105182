"""The local object store: what the API server and etcd are to a cluster, in one SQLite file.

Several processes use it at once (``agentrun run`` and every other verb beside it), so each change
is one ``BEGIN IMMEDIATE`` transaction, and no object is ever half written. It knows Kubernetes'
rules and nothing about kinds: UIDs, one growing resource version for all objects, a generation that
counts changes of the spec, preconditions, and a list of what changed for those who watch.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from agentrun.api.names import LABEL_RUN
from agentrun.cluster.local.sound import ADVICE, demand, sound
from agentrun.cluster.values import ObjectKey
from agentrun.errors import AlreadyExists, ClusterUnavailable, Conflict, NotFound

Body = dict[str, Any]
log = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS object (
  kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  uid TEXT NOT NULL, owner TEXT, deleting INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (kind, namespace, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS object_uid ON object (uid);
CREATE INDEX IF NOT EXISTS object_owner ON object (owner) WHERE owner IS NOT NULL;
CREATE TABLE IF NOT EXISTS change (
  version INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, run TEXT
);
CREATE TABLE IF NOT EXISTS event (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace TEXT NOT NULL, run TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS event_run ON event (namespace, run, number);
"""

BUSY_SECONDS = 15.0
KEEP_CHANGES = 20_000
PRUNE_EVERY = 1_000


class ObjectStore:
    """Objects as the API would return them, by kind, namespace and name. Thread-safe."""

    def __init__(
        self, path: Path, *, clock: Callable[[], datetime], new_uid: Callable[[], str]
    ) -> None:
        self._clock = clock
        self._new_uid = new_uid
        self._lock = threading.RLock()
        self._damaged: set[tuple[str, str, str]] = set()
        with _mapped():
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(SCHEMA)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is one atomic change; the store's methods may be called inside."""
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            with _mapped():
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")

    def constant(self, name: str) -> str:
        """A UID that is made once per state folder and stays."""
        with self.transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, self._new_uid()))
            return str(self._rows("SELECT value FROM meta WHERE name = ?", name)[0][0])

    def create(self, kind: str, body: Body, uid: str | None = None) -> Body:
        """Store a new object with a UID and times of its own; AlreadyExists."""
        given = body["metadata"]
        with self.transaction():
            if self._rows(
                "SELECT 1 FROM object WHERE kind = ? AND namespace = ? AND name = ?",
                kind,
                given["namespace"],
                given["name"],
            ):
                raise AlreadyExists(
                    "an object of that name exists",
                    attempted=f"create {kind}",
                    on=f"{given['namespace']}/{given['name']}",
                )
            metadata = {
                **given,
                "uid": uid or self._new_uid(),
                "generation": 1,
                "creationTimestamp": stamp(self._clock()),
            }
            return self._write(kind, {**body, "metadata": metadata})

    def get(self, kind: str, key: ObjectKey) -> Body:
        """The object now; NotFound."""
        rows = self._rows(
            "SELECT body FROM object WHERE kind = ? AND namespace = ? AND name = ?",
            kind,
            key.namespace,
            key.name,
        )
        if not rows:
            raise NotFound("no such object", attempted=f"get {kind}", on=str(key))
        return demand(rows[0][0], kind, str(key))

    def all_of(self, kind: str) -> list[Body]:
        """All objects of a kind, by namespace and name."""
        return self._objects("WHERE kind = ? ORDER BY namespace, name", kind)

    def exists(self, uid: str) -> bool:
        """Whether any object has this UID."""
        return bool(self._rows("SELECT 1 FROM object WHERE uid = ?", uid))

    def owned(self, uid: str) -> list[Body]:
        """Objects whose controller has this UID."""
        return self._objects("WHERE owner = ?", uid)

    def orphans(self) -> list[Body]:
        """Objects whose controller is gone, or is waiting for them to go (foreground deletion)."""
        return self._objects(
            "AS mine WHERE owner IS NOT NULL AND NOT EXISTS "
            "(SELECT 1 FROM object WHERE uid = mine.owner AND NOT deleting)"
        )

    def deleting(self, kind: str) -> list[Body]:
        """Objects of a kind that are being deleted."""
        return self._objects("WHERE kind = ? AND deleting", kind)

    def update(
        self,
        kind: str,
        key: ObjectKey,
        change: Callable[[Body], Body],
        *,
        version: str | None = None,
        uid: str | None = None,
    ) -> Body:
        """Replace the object by ``change(object)`` if it still is the one that was meant.

        Conflict for another resource version or UID. An equal result is no change, as in Kubernetes.
        """
        with self.transaction():
            old = self.get(kind, key)
            _check(kind, key, old, version, uid)
            new = change(old)
            if new == old:
                return old
            if new.get("spec") != old.get("spec"):
                generation = old["metadata"]["generation"] + 1
                new = {**new, "metadata": {**new["metadata"], "generation": generation}}
            return self._write(kind, new)

    def remove(self, kind: str, key: ObjectKey, uid: str | None = None) -> Body:
        """Take the object out; NotFound, and Conflict for another UID."""
        with self.transaction():
            body = self.get(kind, key)
            _check(kind, key, body, None, uid)
            self._db.execute(
                "DELETE FROM object WHERE kind = ? AND namespace = ? AND name = ?",
                (kind, key.namespace, key.name),
            )
            self._note(key.namespace, _run_of(kind, body))
            return body

    def append_event(self, run: ObjectKey, event: Body, *, keep: int) -> None:
        """Note what happened to a run; only its last ``keep`` events stay."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO event (namespace, run, body) VALUES (?, ?, ?)",
                (run.namespace, run.name, json.dumps(event)),
            )
            self._db.execute(
                "DELETE FROM event WHERE namespace = ? AND run = ? AND number <= "
                "(SELECT number FROM event WHERE namespace = ? AND run = ? "
                "ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (run.namespace, run.name, run.namespace, run.name, keep),
            )

    def events(self, run: ObjectKey) -> list[Body]:
        """What happened to a run, oldest first."""
        rows = self._rows(
            "SELECT body FROM event WHERE namespace = ? AND run = ? ORDER BY number",
            run.namespace,
            run.name,
        )
        return [json.loads(row[0]) for row in rows]

    def version(self) -> int:
        """Grows with every change of anything."""
        return int(self._rows("SELECT coalesce(max(version), 0) FROM change")[0][0])

    def changed_runs(self, after: int) -> Sequence[ObjectKey]:
        """Runs touched after that version: their object, an approval or a pod."""
        rows = self._rows(
            "SELECT DISTINCT namespace, run FROM change WHERE version > ? AND run IS NOT NULL",
            after,
        )
        return [ObjectKey(namespace, run) for namespace, run in rows]

    def _write(self, kind: str, body: Body) -> Body:
        metadata = body["metadata"]
        version = self._note(metadata["namespace"], _run_of(kind, body))
        stored = {**body, "metadata": {**metadata, "resourceVersion": str(version)}}
        self._db.execute(
            "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                kind,
                metadata["namespace"],
                metadata["name"],
                metadata["uid"],
                owner_of(body),
                metadata.get("deletionTimestamp") is not None,
                json.dumps(stored),
            ),
        )
        return stored

    def _note(self, namespace: str, run: str | None) -> int:
        cursor = self._db.execute(
            "INSERT INTO change (namespace, run) VALUES (?, ?)", (namespace, run)
        )
        version = cursor.lastrowid or 0
        if version % PRUNE_EVERY == 0:
            self._db.execute("DELETE FROM change WHERE version <= ?", (version - KEEP_CHANGES,))
        return version

    def _objects(self, condition: str, *values: Any) -> list[Body]:
        """Those that are whole. A damaged one must not hide the others: it is named in the log, once,
        and in the error of whoever asks for it."""
        found: list[Body] = []
        statement = f"SELECT kind, namespace, name, body FROM object {condition}"  # noqa: S608 - ours
        for kind, namespace, name, text in self._rows(statement, *values):
            body = sound(text, kind)
            if body is not None:
                found.append(body)
            elif (kind, namespace, name) not in self._damaged:
                self._damaged.add((kind, namespace, name))
                log.warning("%s %s/%s in objects.db is damaged", kind, namespace, name)
        return found

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self._lock, _mapped(), closing(self._db.execute(statement, values)) as cursor:
            return cursor.fetchall()


def stamp(moment: datetime) -> str:
    """A moment as the API server writes it: UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def owner_of(body: Body) -> str | None:
    """UID of the object's controller."""
    for reference in body["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def key_of(body: Body) -> ObjectKey:
    """Namespace and name of the object."""
    return ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])


def _run_of(kind: str, body: Body) -> str | None:
    """Name of the run whose watchers want to know. Secrets and ConfigMaps wake nobody."""
    if kind == "AgentRun":
        return str(body["metadata"]["name"])
    if kind == "Approval":
        return str(body["spec"]["runRef"]["name"])
    if kind == "Pod":
        run = body["metadata"].get("labels", {}).get(LABEL_RUN)
        return None if run is None else str(run)
    return None


def _check(kind: str, key: ObjectKey, body: Body, version: str | None, uid: str | None) -> None:
    metadata = body["metadata"]
    if version is not None and metadata["resourceVersion"] != version:
        raise Conflict(
            f"it changed since it was read (version {version}, now {metadata['resourceVersion']})",
            attempted=f"change {kind}",
            on=str(key),
        )
    if uid is not None and metadata["uid"] != uid:
        raise Conflict(
            f"it is another object now (UID {metadata['uid']}, expected {uid})",
            attempted=f"change {kind}",
            on=str(key),
        )


@contextmanager
def _mapped() -> Iterator[None]:
    """The file is locked for long, full, or damaged: the caller's API server did not answer."""
    try:
        yield
    except sqlite3.Error as error:
        raise ClusterUnavailable(
            str(error),
            attempted="use the local object store",
            on="objects.db",
            advice=_advice(error),
        ) from error


def _advice(error: sqlite3.Error) -> str:
    """Being busy or full passes; a damaged file stays damaged."""
    if isinstance(error, sqlite3.OperationalError):
        return "Try again"
    return ADVICE
