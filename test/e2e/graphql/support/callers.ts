import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { scenarioOf } from '../../../support/http/scenario.js';
import { requestIn } from './in-scenario.js';

const USERS: Readonly<Record<string, object>> = {
  alice: { id: 'alice', tenant: 'acme' },
  bob: { id: 'bob', tenant: 'acme' },
  robert: { id: 'bob', tenant: 'umbrella' },
};

/** Sets the user that the bearer token names, and rejects the users that the scenario forbids. */
export class Callers implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = requestIn(context);
    const scenario = scenarioOf(request);
    scenario.arrived.add();
    request.socket.once('close', () => scenario.disconnected.add());
    const token = /^Bearer (.+)$/.exec(String(request.headers.authorization))?.[1];
    const user = token === undefined ? undefined : USERS[token];
    if (user !== undefined) request.user = user;
    return !scenario.forbidden.has(token);
  }
}
