import {
  ConflictException,
  Inject,
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { Redis } from 'ioredis';
import { catchError, mergeMap, of } from 'rxjs';
import { OLD_REDIS } from './legacy-own.js';

/** The one that many services have written themselves. */
@Injectable()
export class SetnxInterceptor implements NestInterceptor {
  constructor(@Inject(OLD_REDIS) private readonly redis: Redis) {}

  async intercept(context: ExecutionContext, next: CallHandler) {
    const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    const name = `idem:${headers['idempotency-key']}`;
    const processing = JSON.stringify({ state: 'processing' });
    if ((await this.redis.set(name, processing, 'EX', 86_400, 'NX')) === null) {
      const { state, body } = JSON.parse((await this.redis.get(name)) ?? processing);
      if (state === 'processing') throw new ConflictException();
      return of(body);
    }
    return next.handle().pipe(
      mergeMap(async (body: unknown) => {
        await this.redis.set(name, JSON.stringify({ state: 'done', body }), 'EX', 86_400);
        return body;
      }),
      catchError(async (error: unknown) => {
        await this.redis.del(name);
        throw error;
      }),
    );
  }
}
