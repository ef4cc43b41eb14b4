import { Controller, Get } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { IdempotencyMeter } from 'nestjs-idempotency';

/** The numbers of this process since its start, over all operations. */
export interface Activity {
  /** By result: the four most frequent, and others as soon as they occur. */
  readonly requests: Readonly<Record<string, number>>;
  readonly running: number;
  readonly waiting: number;
  readonly takeovers: number;
}

/** What one operation or process has counted; its requests in parts. */
interface Counted extends Omit<Activity, 'requests'> {
  readonly requests: readonly Readonly<Partial<Record<string, number>>>[];
}

export function totalOf(all: readonly Counted[]): Activity {
  const requests: Record<string, number> = {
    executed: 0,
    replayed: 0,
    in_progress: 0,
    mismatch: 0,
  };
  for (const byResult of all.flatMap((counted) => counted.requests)) {
    for (const [result, count = 0] of Object.entries(byResult)) {
      if (count > 0) requests[result] = (requests[result] ?? 0) + count;
    }
  }
  const sumOf = (name: 'running' | 'waiting' | 'takeovers') =>
    all.reduce((sum, counted) => sum + counted[name], 0);
  return {
    requests,
    running: sumOf('running'),
    waiting: sumOf('waiting'),
    takeovers: sumOf('takeovers'),
  };
}

/** Reads the library's meter. It shows no key, no caller and no body; a real API still keeps it private. */
@Controller('activity')
@ApiExcludeController()
export class ActivityController {
  constructor(private readonly meter: IdempotencyMeter) {}

  @Get()
  read(): Activity {
    const operations = [...this.meter.read().operations.values()];
    return totalOf(
      operations.map((operation) => ({
        ...operation,
        requests: Object.values(operation.requests),
      })),
    );
  }
}
