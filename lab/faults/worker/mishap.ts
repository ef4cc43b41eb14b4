/** Where something may happen to an attempt, in the order of its life. */
export const POINTS = [
  'after_begin',
  'in_handler',
  'after_effect',
  'before_complete',
  'after_complete',
] as const;

/** The same where effect and record are one transaction; `in_commit`: COMMIT was sent, and has no reply yet. */
export const TRANSACTIONAL_POINTS = [
  'after_begin',
  'in_handler',
  'after_effect',
  'before_commit',
  'in_commit',
  'after_commit',
] as const;

/** Around the put of a large body into the blob store, which comes before `before_complete`; `in_put`: it has a part of the body. */
export const PUT_POINTS = ['before_put', 'in_put', 'after_put'] as const;

/** Where something may happen to a request, before anything is begun for it. */
export const ARRIVAL = 'on_arrival';

export type Point =
  (typeof POINTS | typeof TRANSACTIONAL_POINTS | typeof PUT_POINTS)[number] | typeof ARRIVAL;

const KNOWN: readonly Point[] = [...POINTS, ...TRANSACTIONAL_POINTS, ...PUT_POINTS, ARRIVAL];

/**
 * What happens there.
 *
 * - `crash`: the process ends, as by `kill -9`.
 * - `pause`: this attempt stands still, the process goes on, heartbeats included.
 * - `hold`: the same, until the laboratory lets the process go on.
 * - `block`: the event loop stands still.
 * - `cut`: the connection of the transaction breaks; at the points around its end.
 */
export type Action =
  | { readonly kind: 'crash' }
  | { readonly kind: 'pause'; readonly ms: number }
  | { readonly kind: 'block'; readonly ms: number }
  | { readonly kind: 'hold' }
  | { readonly kind: 'cut' };

export interface Mishap {
  readonly point: Point;
  readonly action: Action;
}

/** As a header carries it: `after_effect:crash`, `in_handler:pause:3000`. */
export function mishapText({ point, action }: Mishap): string {
  return 'ms' in action ? `${point}:${action.kind}:${action.ms}` : `${point}:${action.kind}`;
}

/** @throws Error on anything that {@link mishapText} does not write. */
export function parseMishap(text: string): Mishap {
  const [point, kind, duration] = text.split(':');
  const known = KNOWN.find((name) => name === point);
  const ms = Number(duration);
  if (known !== undefined) {
    if (kind === 'crash' || kind === 'hold' || kind === 'cut') {
      return { point: known, action: { kind } };
    }
    if ((kind === 'pause' || kind === 'block') && ms >= 0) {
      return { point: known, action: { kind, ms } };
    }
  }
  throw new Error(`no such mishap: ${text}`);
}
