"""What can go wrong. Every failure of Hypatia is an :class:`Error` with the library's message: what was found, what
was wanted, and what to do. Each is also one of Python's own exceptions where there is one that fits."""

from __future__ import annotations

__all__ = [
    "CancelledError",
    "DeviceError",
    "DeviceLostError",
    "Error",
    "FileError",
    "IncompatibleError",
    "InternalError",
    "InvalidArgumentError",
    "LimitError",
    "MalformedError",
    "MismatchError",
    "OutOfMemoryError",
    "SignatureError",
    "UnsupportedError",
]


class Error(Exception):
    """Any failure of Hypatia."""

    status = 0
    """The number of ``hyp_status`` in C."""


class InvalidArgumentError(Error, ValueError):
    """An argument does not fit: inputs of other types or sizes than the plan has, an option with no such value."""

    status = 1


class OutOfMemoryError(Error, MemoryError):
    """There was no more memory; the object is as it was before the call."""

    status = 2


class FileError(Error, OSError):
    """A file could not be opened, read or written."""

    status = 3


class MalformedError(Error, ValueError):
    """Bytes, or a text, that are not what they claim to be."""

    status = 4


class UnsupportedError(Error, NotImplementedError):
    """A model, valid as it is, with something that Hypatia lacks; the message lists all of it."""

    status = 5


class MismatchError(Error, ArithmeticError):
    """Numbers differ by more than they may: a plan that is wrong."""

    status = 6


class IncompatibleError(Error):
    """A plan of another version of the format: compile the model again."""

    status = 7


class LimitError(Error):
    """A limit that was set would be exceeded."""

    status = 8


class DeviceError(Error, RuntimeError):
    """A device is absent or refused the work."""

    status = 9


class InternalError(Error, RuntimeError):
    """A mistake of Hypatia's own: please report it."""

    status = 10


class DeviceLostError(DeviceError):
    """A device gave up: let go of its plans, and load them again."""

    status = 11


class CancelledError(Error):
    """The work was ended because somebody asked for it."""

    status = 12


class SignatureError(Error):
    """A plan is not signed as was required: do not use it."""

    status = 13


_BY_STATUS: dict[int, type[Error]] = {
    kind.status: kind
    for kind in (
        InvalidArgumentError,
        OutOfMemoryError,
        FileError,
        MalformedError,
        UnsupportedError,
        MismatchError,
        IncompatibleError,
        LimitError,
        DeviceError,
        InternalError,
        DeviceLostError,
        CancelledError,
        SignatureError,
    )
}

for _kind in (Error, *_BY_STATUS.values()):
    _kind.__module__ = "hypatia"  # where users find them


def of_status(status: int, message: str) -> Error:
    """The exception of a ``hyp_status``."""
    return _BY_STATUS.get(status, InternalError)(message)
