import { Injectable } from '@nestjs/common';
import { IdempotencyMeter } from 'nestjs-idempotency';

@Injectable()
export class Backlog {
  constructor(private readonly meter: IdempotencyMeter) {}

  report() {
    for (const [operation, { running, waiting, incidents }] of this.meter.read().operations) {
      console.log(operation, running, waiting, incidents.record_lost);
    }
  }
}
