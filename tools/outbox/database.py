"""What the outbox needs of a database: its tables, and one way to run a statement on any connection.

Statements are written with named parameters (``:name``). PEP 249 lets each driver choose a form of parameters and name
it in ``paramstyle``; SQLAlchemy accepts the named form.
"""

import re
import sys
from collections.abc import Mapping
from inspect import isawaitable
from typing import Any

from triack.base.errors import UsageError

OUTBOX = "triack_outbox"
"""The table of messages to send; ``triack_outbox_owner`` says which node sends them."""
INBOX = "triack_inbox"
"""The table of the ids of messages that were received."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS {outbox} (number {number}, id TEXT NOT NULL UNIQUE, destination TEXT NOT NULL,
       body {bytes} NOT NULL, properties TEXT NOT NULL, enqueued_ms BIGINT NOT NULL, refused TEXT)""",
    """CREATE TABLE IF NOT EXISTS {outbox}_owner (one INTEGER PRIMARY KEY CHECK (one = 1), node TEXT NOT NULL,
       name TEXT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS {inbox} (id TEXT PRIMARY KEY, received_ms BIGINT NOT NULL)",
)
_TYPES = {
    # Without AUTOINCREMENT SQLite would give the number of the last row again, once that row is deleted.
    "sqlite": {"number": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"},
    "postgresql": {"number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytes": "BYTEA"},
}
_DRIVERS = {"sqlite3": "sqlite", "psycopg": "postgresql", "psycopg2": "postgresql", "pg8000": "postgresql"}
"""The database of a driver, by the name of its package."""
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_PARAMETER = re.compile(r":(\w+)")


def create_tables(connection: Any, *, outbox: str = OUTBOX, inbox: str = INBOX) -> None:
    """Make the tables that are not there yet, in the transaction of the connection. The caller commits.

    Args:
        connection: a connection of sqlite3, psycopg, psycopg2 or pg8000, or SQLAlchemy's with SQLite or PostgreSQL.
        outbox: the name of the table of messages to send.
        inbox: that of the table of ids of received ones.

    Raises:
        UsageError: this is no such connection, or no such name.
    """
    types = _TYPES.get(_database_of(connection))
    if types is None:
        raise UsageError(
            f"create the tables of an outbox: it takes SQLite and PostgreSQL, and {connection!r} is for neither"
        )
    for table in _TABLES:
        execute(connection, table.format(outbox=as_table(outbox), inbox=as_table(inbox), **types), {})


def as_table(name: object) -> str:
    """A name of a table, which may have that of a schema before it. Raises UsageError for any other text."""
    if isinstance(name, str) and _TABLE.fullmatch(name):
        return name
    raise UsageError(f"outbox: a table is named by letters, digits and _, not {name!r}")


def execute(connection: Any, statement: str, values: Mapping[str, object]) -> Any:
    """Run a statement with named parameters in the transaction of a connection, of PEP 249 or SQLAlchemy.

    Returns the driver's cursor, or the result of SQLAlchemy: both have ``fetchall`` and ``rowcount``. Raises UsageError
    if this is no connection.
    """
    if is_of(connection, "sqlalchemy"):
        from sqlalchemy import text

        return connection.execute(text(statement), dict(values))
    said = placed(connection, statement, values)
    cursor = connection.cursor()
    cursor.execute(*said)
    return cursor


async def execute_async(connection: Any, statement: str, values: Mapping[str, object], *, sync: str) -> Any:
    """``execute`` for SQLAlchemy's ``AsyncSession`` and ``AsyncConnection``, aiosqlite and asynchronous psycopg.

    ``sync`` names the function for other connections. Raises UsageError, which names it, if this is no such connection.
    """
    if is_of(connection, "sqlalchemy"):
        from sqlalchemy import text

        done: Any = connection.execute(text(statement), dict(values))
    elif is_of(connection, "aiosqlite"):
        done = connection.execute(statement, dict(values))  # SQLite itself takes named parameters
    else:
        done = connection.execute(*placed(connection, statement, values))
    if not isawaitable(done):
        raise UsageError(f"{sync}_async: {connection!r} is not asynchronous; {sync}() takes it")
    return await done


def placed(connection: Any, statement: str, values: Mapping[str, object]) -> tuple[str, Any]:
    """A statement and its values in the form that the driver of a connection accepts.

    Raises UsageError if no driver of PEP 249 has made the connection.
    """
    style = _paramstyle_of(connection)
    names = _PARAMETER.findall(statement)
    if style == "named":
        return statement, dict(values)
    if style == "pyformat":
        return _PARAMETER.sub(r"%(\1)s", statement), dict(values)
    if style == "numeric":
        for place, name in enumerate(names, 1):
            statement = statement.replace(f":{name}", f":{place}", 1)
    else:
        statement = _PARAMETER.sub({"qmark": "?", "format": "%s"}[style], statement)
    return statement, tuple(values[name] for name in names)


def native(connection: Any) -> Any:
    """The driver's own connection behind one of a pool of SQLAlchemy; any other connection as it is."""
    return getattr(connection, "dbapi_connection", None) or connection


def is_of(connection: object, package: str) -> bool:
    """Whether a package has made the class of a connection, or one of its bases.

    A connection of SQLAlchemy's pool counts as the driver's, as it has the driver's methods.
    """
    if hasattr(connection, "dbapi_connection"):
        return False
    return any(kind.__module__.partition(".")[0] == package for kind in type(connection).__mro__)


def _paramstyle_of(connection: Any) -> str:
    for kind in type(native(connection)).__mro__:
        module = kind.__module__
        while module:
            style = getattr(sys.modules.get(module), "paramstyle", None)
            if isinstance(style, str):
                return style
            module = module.rpartition(".")[0]
    raise UsageError(
        f"outbox: {connection!r} is neither a connection of a driver as PEP 249 has it, nor SQLAlchemy's connection "
        "or session"
    )


def _database_of(connection: Any) -> str:
    if is_of(connection, "sqlalchemy"):
        bind = connection.get_bind() if hasattr(connection, "get_bind") else connection
        return str(bind.dialect.name)
    inner = native(connection)
    return next((database for driver, database in _DRIVERS.items() if is_of(inner, driver)), "")
