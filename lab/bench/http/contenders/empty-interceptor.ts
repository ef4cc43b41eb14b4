import { UseInterceptors, type CallHandler, type NestInterceptor } from '@nestjs/common';
import type { OpenContender } from '../contender.js';

class EmptyInterceptor implements NestInterceptor {
  intercept(_context: unknown, next: CallHandler) {
    return next.handle();
  }
}

/** What no interceptor can do without. */
export const emptyInterceptor: OpenContender = () => ({
  mark: UseInterceptors(new EmptyInterceptor()),
});
