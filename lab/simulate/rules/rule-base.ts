import type { KeptAttempt, RecordKey, StoredRecord } from '../../../test/support/internals/core.js';
import type { Command } from '../world/commands.js';
import type { SimulatedOperation } from '../world/operations.js';
import { INPUT } from '../world/scheduler.js';
import type { SimulatedProcess } from '../world/simulated-process.js';
import type { World } from '../world/world.js';
import type { AttemptLogs } from './attempt-log.js';

/** A timer comes a millisecond late, and the code that it starts sends and reads in a few. */
export const SLACK_MS = 5;

/** The longest that a command is under way without a fault, and that its trouble lasts: copies arrive as late. */
const UNDER_WAY_MS = 1_500;

/** A command that a server has executed. */
export interface Executed<Name extends Command['name'] = 'begin' | RecordCommand> {
  readonly process: SimulatedProcess;
  readonly command: Extract<Command, { name: Name }>;
  readonly before: StoredRecord | undefined;
  readonly after: StoredRecord | undefined;
  readonly reply: unknown;
  /** By the server's clock. */
  readonly nowMs: number;
}

type RecordCommand = 'extend' | 'complete' | 'release' | 'inspect';

/** What all rules know. A breach is an objection even where no client is harmed. */
export abstract class RuleBase {
  constructor(
    protected readonly world: World,
    protected readonly logs: AttemptLogs,
  ) {}

  protected object(objection: string): void {
    this.world.object(objection);
  }

  /** Before anything else happens in the process. */
  protected next(process: SimulatedProcess, check: () => void): void {
    const { scheduler } = this.world;
    scheduler.at(scheduler.now, INPUT, () => {
      if (process.isAlive) check();
    });
  }

  /** No fault has touched process or servers for longer than a command is under way, and a lease lasts. */
  protected isUntroubled({ troubledAt, busyUntil }: SimulatedProcess): boolean {
    const { scheduler, servers } = this.world;
    const since = scheduler.now - UNDER_WAY_MS;
    return [troubledAt, busyUntil, ...servers.map((server) => server.troubledAt)].every(
      (at) => at < since,
    );
  }

  /** Its process, which has not stood still, must know that the lease is over, by what it has sent and got. */
  protected isLeaseOver(process: SimulatedProcess, recordKey: string, fence: number): boolean {
    const until = process.store.leases.until(recordKey, fence);
    if (until === undefined || process.busyUntil > process.time() - SLACK_MS) return false;
    return process.clock.now() > until + SLACK_MS;
  }

  /** Nothing is promised of what is gone: a store has lost it, or its retention is over. */
  protected isForgotten(key: string): boolean {
    return this.world.lostRecords.has(key) || this.world.expiredAt.has(key);
  }

  protected operationOf(recordKey: RecordKey): SimulatedOperation {
    return this.world.intents.get(this.world.keyOf(recordKey))!.operation;
  }
}

/** Those of a record that the engine has not ended. */
export function attemptsOf({ engine }: SimulatedProcess, recordKey: RecordKey): KeptAttempt[] {
  return [...engine.running()].filter(({ request }) => request.recordKey === recordKey);
}

export function attemptOf(
  process: SimulatedProcess,
  recordKey: RecordKey,
  fence: number,
): KeptAttempt | undefined {
  return attemptsOf(process, recordKey).find(({ fencingToken }) => fencingToken === fence);
}
