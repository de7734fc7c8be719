"""The commands of our client about users, permissions and personal access tokens (requests 5, 6).

Passwords go to the node as they are, as the official SDK sends them: the connection has to be trusted or TLS.
"""

from abc import ABC, abstractmethod

from levrier.cluster.client_names import Name, identifier
from levrier.wire.codes import CommandCode, Operation, UserStatus
from levrier.wire.permissions import Permissions
from levrier.wire.requests.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from levrier.wire.requests.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    UpdatePermissions,
    UpdateUser,
)
from levrier.wire.responses.tokens import CreatedToken, PersonalAccessToken, PersonalAccessTokenList
from levrier.wire.responses.users import User, UserDetails, UserList

NEVER_EXPIRES = 0
"""The expiry of a token that does not expire."""


class UserCommands(ABC):
    """What a client can do about users, over `request` and `query` of whoever derives from it."""

    @abstractmethod
    async def request(self, operation: int, body: bytes = b"", *, deadline_seconds: float | None = None) -> bytes:
        """Have a replicated operation executed once."""

    @abstractmethod
    async def query(self, code: int, body: bytes = b"", *, deadline_seconds: float | None = None) -> bytes:
        """Ask a NonReplicated command."""

    async def create_user(
        self,
        username: str,
        password: str,
        *,
        active: bool = True,
        permissions: Permissions | None = None,
    ) -> UserDetails:
        """Create a user."""
        body = CreateUser(
            username=username,
            password=password,
            status=UserStatus.ACTIVE if active else UserStatus.INACTIVE,
            permissions=permissions,
        ).encode()
        return UserDetails.decode(await self.request(Operation.CREATE_USER, body))

    async def get_user(self, user: Name) -> UserDetails | None:
        """One user and its permissions, None when there is none of that name."""
        body = GetUser(user=identifier(user)).encode()
        return UserDetails.decode_found(await self.query(CommandCode.GET_USER, body))

    async def get_users(self) -> tuple[User, ...]:
        """All users."""
        return UserList.decode(await self.query(CommandCode.GET_USERS)).users

    async def update_user(self, user: Name, *, username: str | None = None, active: bool | None = None) -> None:
        """Rename a user, or let it log in or not; what is None stays as it is."""
        status = None if active is None else UserStatus.ACTIVE if active else UserStatus.INACTIVE
        body = UpdateUser(user=identifier(user), username=username, status=status).encode()
        await self.request(Operation.UPDATE_USER, body)

    async def delete_user(self, user: Name) -> None:
        """Delete a user with its tokens and group memberships; its sessions end."""
        await self.request(Operation.DELETE_USER, DeleteUser(user=identifier(user)).encode())

    async def change_password(self, user: Name, current_password: str, new_password: str) -> None:
        """Change a password; the current one is needed, whoever asks."""
        body = ChangePassword(
            user=identifier(user), current_password=current_password, new_password=new_password
        ).encode()
        await self.request(Operation.CHANGE_PASSWORD, body)

    async def update_permissions(self, user: Name, permissions: Permissions | None) -> None:
        """Replace the permissions of a user; None takes all away."""
        body = UpdatePermissions(user=identifier(user), permissions=permissions).encode()
        await self.request(Operation.UPDATE_PERMISSIONS, body)

    async def create_token(self, name: str, *, expiry_micros: int = NEVER_EXPIRES) -> str:
        """Create a token of one's own; its text is shown this once. `expiry_micros` counts from now."""
        body = CreatePersonalAccessToken(name=name, expiry=expiry_micros).encode()
        return CreatedToken.decode(await self.request(Operation.CREATE_PERSONAL_ACCESS_TOKEN, body)).token

    async def delete_token(self, name: str) -> None:
        """Delete a token of one's own."""
        await self.request(Operation.DELETE_PERSONAL_ACCESS_TOKEN, DeletePersonalAccessToken(name=name).encode())

    async def get_tokens(self) -> tuple[PersonalAccessToken, ...]:
        """One's own tokens, by name."""
        return PersonalAccessTokenList.decode(await self.query(CommandCode.GET_PERSONAL_ACCESS_TOKENS)).tokens
