import { UnauthorizedException, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { CALLER_HEADER } from './settings.js';

/** Believes what a caller says of itself. */
export class CallerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context
      .switchToHttp()
      .getRequest<{ headers: Record<string, unknown>; user?: { id: unknown } }>();
    const id = request.headers[CALLER_HEADER];
    if (id === undefined) throw new UnauthorizedException();
    request.user = { id };
    return true;
  }
}
