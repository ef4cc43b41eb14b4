import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { User } from './user.js';

export const CurrentUser = createParamDecorator(
  (_: unknown, context: ExecutionContext) =>
    context.switchToHttp().getRequest<{ user: User }>().user,
);
