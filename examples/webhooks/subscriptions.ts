import type { WebhookEvent } from './webhook-event.js';

export abstract class Subscriptions {
  abstract extend(data: WebhookEvent['data']): Promise<void>;
}
