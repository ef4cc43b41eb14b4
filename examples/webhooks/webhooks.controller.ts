import { Body, Controller, HttpCode, Post, UseGuards } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { eventId, type WebhookEvent } from './webhook-event.js';
import { WebhookSignatureGuard } from './webhook-signature.guard.js';
import { Subscriptions } from './subscriptions.js';

@Controller('webhooks')
export class WebhooksController {
  constructor(private readonly subscriptions: Subscriptions) {}

  @Post('payments')
  @HttpCode(200)
  // Guards run before @Idempotent(): a forged request leaves no record.
  @UseGuards(WebhookSignatureGuard)
  @Idempotent({
    operation: 'webhooks.payments',
    key: eventId,
    // The provider is the caller. Another provider may use the same ids.
    caller: { scope: () => 'payments-provider' },
    // Compare nothing: the signature vouches for the content, and some of it changes between deliveries.
    fingerprint: false,
    outcome: {
      // Longer than the provider sends an event again.
      retention: '7d',
    },
  })
  async receive(@Body() event: WebhookEvent) {
    if (event.type === 'invoice.paid') await this.subscriptions.extend(event.data);
    return { received: true };
  }
}
