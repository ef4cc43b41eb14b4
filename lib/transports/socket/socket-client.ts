import type { ExecutionContext } from '@nestjs/common';

/** The members of a connection that applications note users in, by its shape: it is socket.io's, ws', or an adapter's own. */
interface SocketClient {
  readonly user?: unknown;
  readonly data?: { readonly user?: unknown } | null;
  readonly request?: { readonly user?: unknown } | null;
}

/**
 * Whom guards and middleware have found out: `client.user` (guards, those of Passport, too), `client.data.user`
 * (socket.io's place for what belongs to a connection) or `client.request.user` (the session of the handshake), the first
 * one that is there.
 */
export function userOf(context: ExecutionContext): unknown {
  const { user, data, request } = context.switchToWs().getClient<SocketClient>();
  return user ?? data?.user ?? request?.user;
}
