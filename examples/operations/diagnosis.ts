import { Controller, Get } from '@nestjs/common';
import { IdempotencyStore, type Finding } from 'nestjs-idempotency';

/** For operators: keep it behind a guard. */
@Controller('operations')
export class DiagnosisController {
  constructor(private readonly store: IdempotencyStore) {}

  @Get('idempotency')
  async diagnose(): Promise<Finding[]> {
    const findings: Finding[] = [];
    for await (const finding of this.store.diagnose()) findings.push(finding);
    return findings;
  }
}
