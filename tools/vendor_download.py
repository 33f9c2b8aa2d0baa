"""The vendor's own way to install the Pulumi CLI, into the folder given; runs in .venv, where the SDK is."""

import socket
import subprocess
import sys

from pulumi.automation import PulumiCommand

CONNECT_TIMEOUT_SECONDS = 5


def main() -> None:
    """Install the CLI of the SDK's own version; exits with one line that says why it could not."""
    socket.setdefaulttimeout(CONNECT_TIMEOUT_SECONDS)
    try:
        PulumiCommand.install(root=sys.argv[1])
    except subprocess.CalledProcessError as error:
        sys.exit(error.output.decode(errors="replace").strip()[-500:] or str(error))
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
