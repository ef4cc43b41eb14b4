import {
  ConflictException,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { Redis } from 'ioredis';
import { from, map, mergeMap, of, type Observable } from 'rxjs';
import type { Contender, OpenContender } from '../contender.js';

const RETENTION_MS = 86_400_000;
const RUNNING = 'running';

/**
 * By hand: the fewest commands that keep two requests apart and store the outcome before it is answered. It has no
 * owner, no lease and no fingerprint, trusts every key, and keeps what the handler returned.
 */
export const twoCommands: OpenContender = ({ redisUrl }) =>
  byHand(new Redis(redisUrl, { enableAutoPipelining: true }));

/** The same with the commands of one iteration of the event loop in one write, without a pipeline's promises. */
export const twoBatchedCommands: OpenContender = ({ redisUrl }) => {
  const redis = new Redis(redisUrl);
  let isCorked = false;
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (...args) => {
    if (!isCorked && redis.status === 'ready') {
      isCorked = true;
      const { stream } = redis;
      stream.cork();
      setImmediate(() => {
        isCorked = false;
        stream.uncork();
      });
    }
    return send(...args);
  };
  return byHand(redis);
};

function byHand(redis: Redis): Contender {
  const interceptor: NestInterceptor = {
    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
      const key = `two:${headers['idempotency-key']}`;
      return from(redis.set(key, RUNNING, 'PX', RETENTION_MS, 'NX', 'GET')).pipe(
        mergeMap((found) => {
          if (found === RUNNING) throw new ConflictException();
          if (found !== null) return of(JSON.parse(found) as unknown);
          return next.handle().pipe(mergeMap((value) => finished(key, value)));
        }),
      );
    },
  };

  function finished(key: string, value: unknown): Observable<unknown> {
    const stored = redis.set(key, JSON.stringify(value), 'PX', RETENTION_MS, 'XX');
    return from(stored).pipe(map(() => value));
  }

  return { mark: UseInterceptors(interceptor) };
}
