import {
  type CanActivate,
  type ExecutionContext,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';
import { demoTokens, type User } from './user.js';

interface AuthenticatedRequest {
  readonly headers: { readonly authorization?: string };
  user?: User;
}

/** Authenticates the caller. Idempotency keys belong to this user, so that users never get each other's responses. */
@Injectable()
export class BearerTokenGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<AuthenticatedRequest>();
    const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1];
    const user = token === undefined ? undefined : demoTokens.get(token);
    if (user === undefined) throw new UnauthorizedException('Unknown bearer token');
    request.user = user;
    return true;
  }
}
