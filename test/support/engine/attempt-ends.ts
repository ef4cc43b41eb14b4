import type { IdempotencyEvent } from 'nestjs-idempotency';

type AttemptEvent = Extract<IdempotencyEvent, { fencingToken: number }>;
export type AttemptEnd = Extract<IdempotencyEvent, { type: 'ended' }>['how'];

const STARTS: readonly string[] = ['acquired', 'takeover', 'unprotected'];

/** The names of the events, without `ended`, which repeats the one before it. */
export function storyOf(events: readonly IdempotencyEvent[]): IdempotencyEvent['type'][] {
  return events.map(({ type }) => type).filter((type) => type !== 'ended');
}

/** How attempts have ended, in order. */
export function endsOf(events: readonly IdempotencyEvent[]): AttemptEnd[] {
  return events.flatMap((event) => (event.type === 'ended' ? [event.how] : []));
}

/** What is wrong with the ends of attempts that run no more. */
export function wrongEnds(events: readonly IdempotencyEvent[]): string[] {
  const ends = new EndsOfAttempts();
  for (const event of events) ends.add(event);
  return [...ends.objections, ...ends.unended];
}

/** Checks that each attempt ends once, after its other events and as they say. */
export class EndsOfAttempts {
  readonly objections: string[] = [];
  private readonly running = new Map<string, AttemptEvent[]>();

  add(event: IdempotencyEvent): void {
    if (!('fencingToken' in event)) return;
    const { recordKey, attempt, fencingToken } = event;
    // Attempts of one key without a record cannot be distinguished.
    const name = [recordKey, attempt, fencingToken].join(' ');
    const own = [...(this.running.get(name) ?? []), event];
    const starts = own.filter(({ type }) => STARTS.includes(type)).length;
    const ends = endsOf(own);
    if (starts === 0) this.object('of no running attempt', own);
    else if (ends.length < starts) this.running.set(name, own);
    else {
      this.running.delete(name);
      const isRight = starts > 1 || expectedEnds(own).includes(ends[0]!);
      if (!isRight) this.object('another end than the events say', own);
    }
  }

  /** A line for each attempt that has not ended. */
  get unended(): string[] {
    return [...this.running.values()].map((own) => `not ended: ${named(own)}`);
  }

  private object(what: string, own: readonly AttemptEvent[]): void {
    this.objections.push(`${what}: ${named(own)}`);
  }
}

function named(own: readonly AttemptEvent[]): string {
  return own.map((event) => (event.type === 'ended' ? event.how : event.type)).join(', ');
}

/** The ends that the other events of an attempt allow. */
function expectedEnds(own: readonly AttemptEvent[]): AttemptEnd[] {
  const has = (type: AttemptEvent['type']) => own.some((event) => event.type === type);
  for (const event of own) {
    if (event.type !== 'completed') continue;
    if (event.state === 'failed') return ['failed'];
    return has('recovered') ? ['recovered'] : ['completed'];
  }
  if (has('superseded')) return ['superseded'];
  if (has('outcome_diverged')) return ['diverged'];
  if (has('save_failed')) return ['unsaved'];
  if (has('rolled_back')) return ['rolled_back'];
  if (has('release_failed')) return ['given_up', 'not_started'];
  const isConflicted: AttemptEnd[] = has('conflicted') ? ['conflicted'] : [];
  if (has('released')) return ['released', 'not_started', ...isConflicted];
  if (has('record_lost')) return ['released', 'unsaved', ...isConflicted];
  return has('unprotected') ? ['released', 'given_up'] : [];
}
