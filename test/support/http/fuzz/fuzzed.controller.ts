import {
  All,
  Controller,
  createParamDecorator,
  Param,
  Res,
  UnauthorizedException,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import type { Reply } from '../reply.js';
import { NUMBER_HEADER, RUN_HEADER } from './fuzzed-request.js';
import type { Effects } from './effects.js';

interface FuzzedRequestOnServer {
  readonly headers: Record<string, string | undefined>;
  effects?: Effects;
  user?: object;
}

/** Accepts alice and bob, and rejects anonymous callers and strangers. */
export class FuzzedCallers implements CanActivate {
  /** Of each run. */
  readonly effects: Effects[] = [];

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<FuzzedRequestOnServer>();
    const { authorization, [RUN_HEADER]: run } = request.headers;
    request.effects = this.effects[Number(run)]!;
    if (authorization === undefined) return true;
    const user = /^Bearer (alice|bob)$/.exec(authorization)?.[1];
    if (user === undefined) throw new UnauthorizedException();
    request.user = { id: `${run} ${user}` };
    return true;
  }
}

type Execute = (route: string) => { execution: number };

/** The effect: recorded under the number of its request. */
const Effect = createParamDecorator((_: unknown, context: ExecutionContext): Execute => {
  const request = context.switchToHttp().getRequest<FuzzedRequestOnServer>();
  return (route) => {
    const number = Number(request.headers[NUMBER_HEADER]);
    request.effects?.add({ number, route });
    return { execution: number };
  };
});

@Controller()
export class FuzzedController {
  @All('required')
  @Idempotent()
  required(@Effect() execute: Execute) {
    return execute('required');
  }

  @All('optional')
  @Idempotent({ key: { required: false } })
  async optional(@Effect() execute: Execute) {
    return Promise.resolve(execute('optional'));
  }

  @All('strict')
  @Idempotent({ key: { syntax: 'strict' } })
  strict(@Effect() execute: Execute) {
    return execute('strict');
  }

  @All('bytes')
  @Idempotent({ fingerprint: 'bytes' })
  bytes(@Effect() execute: Execute) {
    return execute('bytes');
  }

  @All('selected')
  @Idempotent({ fingerprint: { exclude: ['note', 'a.b'], headers: ['If-Match', '__proto__'] } })
  selected(@Effect() execute: Execute) {
    return execute('selected');
  }

  @All('items/:id')
  @Idempotent({ fingerprint: { include: ['amount', 'a.b', '__proto__.a'] } })
  item(@Effect() execute: Execute, @Param('id') _id: string) {
    return execute('items');
  }

  @All('native')
  @Idempotent()
  native(@Effect() execute: Execute, @Res() reply: Reply) {
    reply.status(201).send(execute('native'));
  }
}

export const FUZZED_TARGETS = [
  '/required',
  '/optional',
  '/strict',
  '/bytes',
  '/selected',
  '/items/1',
  '/items/2',
  '/native',
];
