import type { Socket } from 'node:net';
import {
  SetMetadata,
  UnauthorizedException,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { scenarioOf } from './scenario.js';

const PUBLIC = Symbol('public');

/** The route needs no credentials. */
export const Public = () => SetMetadata(PUBLIC, true);

const USERS: Record<string, object> = {
  alice: { id: 'alice', tenant: 'acme' },
  bob: { id: 'bob', tenant: 'acme' },
};

interface GuardedRequest {
  readonly headers: Record<string, unknown>;
  user?: object;
  readonly socket?: Socket;
  readonly raw?: { readonly socket: Socket };
}

/**
 * Authenticates users by a bearer token: the two above, or a token `user:{json}` that describes the user.
 * Rejects others with 401.
 */
export class CallersGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<GuardedRequest>();
    const scenario = scenarioOf(request);
    scenario.arrived.add();
    const socket = request.raw?.socket ?? request.socket;
    socket?.once('close', () => scenario.disconnected.add());

    const token = /^Bearer (.+)$/.exec(String(request.headers.authorization))?.[1];
    const user = token === undefined ? undefined : userOf(token);
    if (user !== undefined) request.user = user;
    else if (Reflect.getMetadata(PUBLIC, context.getHandler()) !== true)
      throw new UnauthorizedException();
    return true;
  }
}

function userOf(token: string): object | undefined {
  return token.startsWith('user:') ? (JSON.parse(token.slice(5)) as object) : USERS[token];
}

/** Every request is Alice's. */
export const ALICE = {
  canActivate: (context: ExecutionContext) => {
    context.switchToHttp().getRequest<GuardedRequest>().user = { id: 'alice' };
    return true;
  },
};
