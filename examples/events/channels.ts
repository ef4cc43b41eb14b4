import { subscribe } from 'node:diagnostics_channel';
import type { IdempotencyEvent } from 'nestjs-idempotency';

/** Load it before the application: node --import ./channels.js main.js */
subscribe('nestjs-idempotency:unprotected', (message) => {
  const { type, operation } = message as IdempotencyEvent;
  console.error(type, operation);
});
