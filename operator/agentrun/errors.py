"""Every error this project raises, as one tree.

::

    AgentRunError
    ├── InvalidSpec            the user's manifest cannot be run as written
    ├── UsageError             the command line or a file given to it is wrong
    ├── StoreError
    │   ├── StoreUnavailable   (retryable) no answer from Postgres
    │   ├── SchemaMismatch     the database's schema is not one this program can use
    │   ├── StoreRegressed     the store lost commits that it had acknowledged
    │   ├── StoreRefused       Postgres refused the statement for good
    │   └── Fenced             another attempt owns the run now
    ├── CheckpointError
    │   ├── CheckpointCorrupt  what is stored cannot be trusted; nothing may be executed
    │   └── CheckpointNewer    (retryable) written by a newer release; wait for one that reads it
    ├── ModelError
    │   ├── ModelUnavailable   (retryable) the provider is away, overloaded or refuses the key
    │   └── ModelRefused       the provider rejects the request itself
    ├── ToolServerUnavailable  (retryable) no connection to the server, nothing was sent
    │   └── NotSent            it may not be sent any more, so it was not
    └── ClusterError
        ├── NotFound
        ├── AlreadyExists
        ├── Conflict           (retryable) the object changed since it was read
        ├── Forbidden
        ├── Rejected           the API server refuses the object
        └── ClusterUnavailable (retryable) no answer from the API server

An error says what was attempted, on what, and what to do about it. Adapters translate a library's
exceptions where they occur, so that nothing else sees psycopg, aiohttp or anthropic types.
"""

from __future__ import annotations


class AgentRunError(Exception):
    """Base of all. ``retryable`` tells whether the same attempt may succeed later unchanged.

    ``attempted`` is a phrase ("append commit"), ``on`` the thing it was done to ("run 7f3a, seq
    14"), ``advice`` what the reader can do. None of them may hold prompts, tool data or secrets:
    messages reach status, Events and logs.
    """

    retryable = False

    def __init__(
        self, message: str, *, attempted: str = "", on: str = "", advice: str = ""
    ) -> None:
        self.message = message
        self.attempted = attempted
        self.on = on
        self.advice = advice
        super().__init__(message)

    def __str__(self) -> str:
        head = " ".join(part for part in (self.attempted, self.on and f"({self.on})") if part)
        text = f"{head}: {self.message}" if head else self.message
        return f"{text}. {self.advice}" if self.advice else text


class InvalidSpec(AgentRunError):
    """The manifest cannot be run as written; ``message`` names the field."""


class UsageError(AgentRunError):
    """The command line, or a file named on it, is wrong."""


class StoreError(AgentRunError):
    """Something about Postgres."""


class StoreUnavailable(StoreError):
    """Postgres did not answer; whether a sent statement took effect is not known."""

    retryable = True


class SchemaMismatch(StoreError):
    """The database's schema version is not one this program can work with."""


class StoreRegressed(StoreError):
    """The store is behind what it had acknowledged: commits were lost underneath us."""


class StoreRefused(StoreError):
    """Postgres refused the statement and would refuse it again."""


class Fenced(StoreError):
    """The run's fence is not ours any more: another owner exists, this process must stop."""


class CheckpointError(AgentRunError):
    """The record of a run cannot be used."""


class CheckpointCorrupt(CheckpointError):
    """The record fails a check (hash, chain, order, conversation). Nothing may be executed."""


class CheckpointNewer(CheckpointError):
    """The record was written by a newer release. Wait for an image that can read it."""

    retryable = True


class ModelError(AgentRunError):
    """The model provider answered with an error, or not at all."""


class ModelUnavailable(ModelError):
    """The provider is away, overloaded, out of credit, or refuses the key.

    ``auth``: the key is missing, wrong or not allowed. ``credit``: the account cannot pay. With
    either, waiting alone does not help (H34). ``retry_after`` is the provider's own wish in seconds,
    if it asked for more patience than one attempt has.
    """

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        auth: bool = False,
        credit: bool = False,
        retry_after: float | None = None,
        attempted: str = "",
        on: str = "",
        advice: str = "",
    ) -> None:
        super().__init__(message, attempted=attempted, on=on, advice=advice)
        self.auth = auth
        self.credit = credit
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The provider rejects the request itself; sending it again cannot help."""


class ToolServerUnavailable(AgentRunError):
    """No connection to the tool server; nothing was sent, so there is no outcome to wonder about.

    That a call was sent and not answered is no error but an outcome (``ToolSilence``).
    """

    retryable = True


class NotSent(ToolServerUnavailable):
    """The last look before the bytes left said that they must not: nothing was sent."""


class ClusterError(AgentRunError):
    """Something about the API server."""


class NotFound(ClusterError):
    """No such object."""


class AlreadyExists(ClusterError):
    """An object of that name exists."""


class Conflict(ClusterError):
    """The object changed since it was read, or a UID precondition failed."""

    retryable = True


class Forbidden(ClusterError):
    """Not allowed: RBAC, quota, or an admission policy."""


class Rejected(ClusterError):
    """The API server refuses the object as invalid."""


class ClusterUnavailable(ClusterError):
    """The API server did not answer."""

    retryable = True
