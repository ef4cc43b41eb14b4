import type { ExecutionContext } from '@nestjs/common';

export interface WebhookEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly subscription: string };
}

/** The event's id: the same in every delivery. Without one the request is rejected with 400. */
export function eventId(context: ExecutionContext): string | undefined {
  return context.switchToHttp().getRequest<{ body?: Partial<WebhookEvent> }>().body?.id;
}
