import { Injectable, type OnModuleInit } from '@nestjs/common';
import { EVENT_SEVERITY, IdempotencyEvents } from 'nestjs-idempotency';

@Injectable()
export class IdempotencyAlerts implements OnModuleInit {
  constructor(private readonly events: IdempotencyEvents) {}

  onModuleInit() {
    this.events.subscribe((event) => {
      if (EVENT_SEVERITY[event.type] === 'critical') console.error(event.type, event.operation);
    });
  }
}
