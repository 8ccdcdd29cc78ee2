"""What can go wrong before and while a control plane runs; each message is one line for whoever started it.

ControlPlaneError
├── MissingBinaries    a program is neither here nor can it be built
└── NotStarted         it cannot be started here, or it stays silent
    └── Ended          a program ended by itself: another start, on other ports, may go better
"""


class ControlPlaneError(RuntimeError):
    """Show the message, without a traceback."""


class MissingBinaries(ControlPlaneError):
    pass


class NotStarted(ControlPlaneError):
    pass


class Ended(NotStarted):
    pass
