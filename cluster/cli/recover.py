"""`levrier recover`: an operator gives up what is lost with the disks of a majority."""

from pathlib import Path
from typing import Annotated

import typer

from levrier.cluster.accept_loss import NothingToRecover, accept_loss
from levrier.cluster.cli.output import CommandFailed, Exit, say
from levrier.persistence.storage import DiskStorage


def recover(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory of a stopped member that learns.")
    ],
    loss_accepted: Annotated[
        bool, typer.Option("--accept-loss", metavar="", help="Yes: what only the lost disks held is given up for good.")
    ] = False,
) -> None:
    """Let a member whose disk was lost vote without having learned. What only lost disks held is then gone.

    A member with an empty disk learns from a majority of the others before it votes again. Where the disks of a majority are
    lost there is none to learn from, and the cluster waits. If they are lost for good, stop one such member, run this on its
    directory and start it again, and another one only if that is not enough: the fewer, the more is kept.

    Never do that while a member that still has its disk can be brought back: start that one instead.

    Example: `levrier recover --accept-loss /var/lib/levrier`
    """
    if not loss_accepted:
        raise CommandFailed(
            f"{directory}: nothing was changed; acknowledged operations may be lost, say --accept-loss if they may",
            Exit.COULD_NOT_ASK,
        )
    try:
        voter = accept_loss(DiskStorage(), directory)
    except NothingToRecover as error:
        raise CommandFailed(str(error)) from error
    say(
        f"{directory}: replica {voter.replica_id} of birth {voter.birth_id:032x} votes from its next start on, "
        "with what it holds; what only lost disks held is given up"
    )
