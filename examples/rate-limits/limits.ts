import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import { ThrottlerGuard, type ThrottlerRequest } from '@nestjs/throttler';

/** Counts requests, replays included: a guard runs before every interceptor. */
@Injectable()
export class RequestLimit extends ThrottlerGuard {
  protected override async handleRequest(request: ThrottlerRequest) {
    return request.throttler.name !== 'requests' || super.handleRequest(request);
  }
}

/** Counts executions: an interceptor inside of `@Idempotent()` does not run for a replay. */
@Injectable()
export class ExecutionLimit extends ThrottlerGuard implements NestInterceptor {
  protected override async handleRequest(request: ThrottlerRequest) {
    return request.throttler.name === 'requests' || super.handleRequest(request);
  }

  /** By user: the guard that authenticates has run. */
  protected override async getTracker({ user, ip }: { user?: { id: string }; ip: string }) {
    return user?.id ?? ip;
  }

  async intercept(context: ExecutionContext, next: CallHandler) {
    await this.canActivate(context); // throws 429
    return next.handle();
  }
}
