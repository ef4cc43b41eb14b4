import { Injectable, type OnModuleInit } from '@nestjs/common';
import { IdempotencyEvents, severityOf } from 'nestjs-idempotency';

@Injectable()
export class IdempotencyAlerts implements OnModuleInit {
  constructor(private readonly events: IdempotencyEvents) {}

  onModuleInit() {
    this.events.subscribe((event) => {
      if (severityOf(event) === 'critical') console.error(event.type, event.operation);
    });
  }
}
