import type { Socket } from 'node:net';
import {
  SetMetadata,
  UnauthorizedException,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { scenarioOf } from './scenario.js';

const PUBLIC = Symbol('public');

/** Needs no credentials: on a route, or on all routes of a controller. */
export const Public = () => SetMetadata(PUBLIC, true);

export interface Caller {
  readonly id: string;
  readonly tenant?: string;
}

export interface CallersRequest {
  readonly headers: Record<string, unknown>;
  user?: Caller;
  readonly socket?: Socket;
  readonly raw?: { readonly socket: Socket };
}

/**
 * Trusts the caller's own claim: `Authorization: Caller id="alice", tenant="acme", session="2"`. 401 without
 * an id, 403 for callers whom the scenario forbids.
 */
export class CallerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<CallersRequest>();
    const scenario = scenarioOf(request);
    scenario.arrivals += 1;
    (request.raw ?? request).socket?.once('close', () => (scenario.disconnects += 1));

    const parameters = String(request.headers.authorization).matchAll(/(\w+)="([^"]*)"/g);
    const { id, tenant } = Object.fromEntries(
      Array.from(parameters, ([, name, value]) => [name, value]),
    ) as Partial<Caller>;
    if (id !== undefined) request.user = tenant === undefined ? { id } : { id, tenant };
    else if (!isPublic(context)) throw new UnauthorizedException();
    return !scenario.forbidden.has(String(id));
  }
}

function isPublic(context: ExecutionContext): boolean {
  const places = [context.getHandler(), context.getClass()];
  return places.some((place) => Reflect.getMetadata(PUBLIC, place) === true);
}
